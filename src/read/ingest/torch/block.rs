//! The text of a block into rows.

use super::builder::Builder;
use super::event::Event;
use super::json::Json;
use super::rows::BlockRows;
use super::split::{Element, elements};

/// Reads a JSON list of events, if it is valid throughout.
pub(super) fn parse_whole(bytes: &[u8]) -> Option<BlockRows> {
    let mut json = Json::new(simdutf8::basic::from_utf8(bytes).ok()?);
    let mut builder = Builder::default();
    json.list(|json| {
        let mut event = Event::default();
        event.read(json)?;
        builder.push(&mut event);
        Ok(())
    })
    .ok()?;
    json.end().ok()?;
    Some(builder.finish())
}

/// Reads a list of events one by one and counts invalid ones. `offset` is where in the
/// file the byte after the list's `[` is. The last event of a list that is cut off counts only if whole.
pub(super) fn parse_each(bytes: &[u8], offset: u64) -> BlockRows {
    let mut builder = Builder::default();
    for Element { start, end, closed } in elements(bytes) {
        let mut event = Event::default();
        if read_event(&bytes[start..end], &mut event).is_some() {
            builder.push(&mut event);
        } else if closed {
            let losses = &mut builder.rows.losses;
            losses.invalid += 1;
            losses
                .first_invalid
                .get_or_insert((offset + start as u64).saturating_sub(1));
        }
    }
    builder.finish()
}

fn read_event<'a>(bytes: &'a [u8], event: &mut Event<'a>) -> Option<()> {
    let mut json = Json::new(simdutf8::basic::from_utf8(bytes).ok()?);
    event.read(&mut json).ok()?;
    json.end().ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_each, parse_whole};

    const GOOD: &str = r#"{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2}"#;

    #[test]
    fn a_block_is_read_whole_or_not_at_all() {
        let rows = parse_whole(format!("[{GOOD}, {GOOD}]").as_bytes()).expect("it is valid");
        assert_eq!(rows.rows.operators.len(), 2);
        for bad in [
            format!("[{GOOD}, {GOOD}"),
            format!("[{GOOD}],"),
            format!("[{GOOD},]"),
            "[1]".into(),
        ] {
            assert!(parse_whole(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(parse_whole(b"[{\"ph\": \"\xff\"}]").is_none());
    }

    #[test]
    fn invalid_events_are_counted_and_the_others_kept() {
        let text = format!("[{GOOD}, {{\"ts\": NaN}}, {GOOD}, 7, {GOOD}, {{\"ph\": \"X");
        let rows = parse_each(text.as_bytes(), 100).rows;
        assert_eq!((rows.operators.len(), rows.losses.invalid), (3, 2));
        // The text after the comma behind the first event, whose `[` stands at byte 99.
        assert_eq!(
            rows.losses.first_invalid,
            Some(99 + 1 + GOOD.len() as u64 + 1)
        );
    }

    #[test]
    fn depth_is_passed_over_without_recursion() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        for key in ["a", "args", "cat", "pid", "id"] {
            let text = format!("[{GOOD}, {{\"{key}\": {deep}}}, {GOOD}]");
            let rows = parse_whole(text.as_bytes()).expect("it is valid").rows;
            assert_eq!((rows.operators.len(), rows.events), (2, 3), "{key}");
        }
        // Brackets that never close.
        assert!(parse_whole("[".repeat(1_000_000).as_bytes()).is_none());
        assert_eq!(
            parse_each("[".repeat(1_000_000).as_bytes(), 1).rows.events,
            0
        );
    }
}
