//! `nvidia-smi -q -x` without what tells devices, machines and users apart.

/// Elements whose text is taken out.
const IDENTITIES: [&str; 8] = [
    "serial",
    "uuid",
    "pdi",
    "chassis_serial_number",
    "host_id",
    "gpu_fabric_guid",
    "cluster_uuid",
    "process_name",
];

/// The same XML with `N/A`, the tool's own word, in place of identities.
pub(crate) fn redacted(xml: &str) -> String {
    IDENTITIES
        .iter()
        .fold(xml.to_owned(), |xml, element| without_text(&xml, element))
}

fn without_text(xml: &str, element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let mut kept = String::with_capacity(xml.len());
    let mut rest = xml;
    while let Some((before, after)) = rest.split_once(&open) {
        let Some((_, after)) = after.split_once(&close) else {
            break;
        };
        kept.push_str(before);
        kept.push_str(&open);
        kept.push_str("N/A");
        kept.push_str(&close);
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_go_and_the_rest_stays() {
        let xml = "<gpu><uuid>GPU-1</uuid><serial>2</serial><name>H200</name></gpu>\
            <gpu><uuid>GPU-3</uuid></gpu><process_name>/home/a/train</process_name>";
        let expected = "<gpu><uuid>N/A</uuid><serial>N/A</serial><name>H200</name></gpu>\
            <gpu><uuid>N/A</uuid></gpu><process_name>N/A</process_name>";
        assert_eq!(redacted(xml), expected);
    }

    #[test]
    fn an_element_without_end_is_left_as_it_is() {
        assert_eq!(redacted("<a><serial>1"), "<a><serial>1");
    }
}
