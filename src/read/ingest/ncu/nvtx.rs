//! The NVTX columns: the ranges that were open around a launch.

/// Fields after the name in one range: payload type and value, colour type and colour, message type and message.
const FIELDS_AFTER_NAME: usize = 6;

/// The ranges of a cell, outermost first, joined by `/`.
///
/// A cell is a thread id and one quoted text a range: `879  "<domain>:decode:none:…:none"  "<domain>:step:…"`.
/// In the start/stop column the range's id precedes the domain.
pub(super) fn path(cell: &str, has_id: bool) -> String {
    let ranges = cell
        .split('"')
        .skip(1)
        .step_by(2)
        .filter_map(|text| name(text, has_id));
    ranges.collect::<Vec<_>>().join("/")
}

fn name(range: &str, has_id: bool) -> Option<&str> {
    let range = if has_id {
        range.split_once(':')?.1
    } else {
        range
    };
    let rest = range.split_once(':')?.1;
    let name = rest.rsplitn(FIELDS_AFTER_NAME + 1, ':').last()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_ranges_are_joined_outermost_first() {
        let cell = r#"879  "<default domain>:decode:none:none:none:none:none:none"  "<default domain>:decode_step:none:none:none:none:none:none" "#;
        assert_eq!(path(cell, false), "decode/decode_step");
    }

    #[test]
    fn names_may_hold_colons_and_columns_may_be_empty() {
        assert_eq!(
            path(r#"1 "lib:aten::mm:none:none:none:none:none:none""#, false),
            "aten::mm"
        );
        assert_eq!(
            path(r#""7:lib:load:none:none:none:none:none:none""#, true),
            "load"
        );
        assert_eq!(path("", false), "");
        assert_eq!(path("\"", false), "");
    }
}
