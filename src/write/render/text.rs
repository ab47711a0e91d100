//! Texts from the data, made fit for a page.

use std::borrow::Cow;

use rooflens_document::is_symbol;
use rooflens_schemas::text::is_harmful;
pub use rooflens_schemas::text::{json, quoted};

/// Marks a character that was in the data and must not, or cannot, reach a page.
pub(crate) const REPLACEMENT: char = '\u{fffd}';

/// `text` with control characters and characters that reorder text replaced: a name from a trace must not
/// turn the sentence around it.
pub fn clean(text: &str) -> Cow<'_, str> {
    let is_printable_ascii = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_printable_ascii && text.chars().any(is_harmful) {
        text.chars()
            .map(|c| if is_harmful(c) { REPLACEMENT } else { c })
            .collect::<String>()
            .into()
    } else {
        Cow::Borrowed(text)
    }
}

/// Text for SVG and HTML: markup in names stays text.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

/// `text` in which no line breaks between a number and its unit: for pages that are set in lines. Data and Markdown keep plain
/// spaces, in which people search.
pub(crate) fn joined(text: &str) -> Cow<'_, str> {
    let is_unit = |space: usize| {
        let rest = &text[space + 1..];
        let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '%' | '°' | 'µ' | '/'));
        let after_number = text[..space].ends_with(|c: char| c.is_ascii_digit());
        after_number && is_symbol(&rest[..rest.find(ends).unwrap_or(rest.len())])
    };
    let mut spaces = Vec::new();
    for (space, _) in text.match_indices(' ') {
        if is_unit(space) {
            spaces.push(space);
        }
    }
    if spaces.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + spaces.len());
    let mut from = 0;
    for space in spaces {
        out.push_str(&text[from..space]);
        out.push('\u{a0}');
        from = space + 1;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

/// All texts of a page as [`joined`] makes them, except for those that readers copy: code and queries.
#[cfg(any(test, feature = "pdf"))]
pub(crate) fn join(data: &mut serde_json::Value) {
    use serde_json::Value;
    match data {
        Value::String(text) => *text = joined(text).into_owned(),
        Value::Array(list) => list.iter_mut().for_each(join),
        Value::Object(fields) if fields.get("kind").is_some_and(|kind| kind == "code") => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                if name != "sql" && name != "snippet" {
                    join(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `text` in at most `limit` characters. Of a path the last names stay, for they tell most; of a single name the
/// middle is excluded: that of a kernel tells most at both ends.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut tails = text.match_indices(" / ").map(|(slash, _)| &text[slash..]);
    if let Some(tail) = tails.find(|tail| tail.chars().count() < limit) {
        return format!("…{tail}");
    }
    let text = text.rsplit(" / ").next().unwrap_or(text);
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(1);
    let head = kept - kept * 2 / 5;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - (kept - head)).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_reorder_text_are_defused() {
        assert_eq!(clean("a\u{202e}b\u{0}c\nd"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
        assert_eq!(clean("84\u{202f}868 µs"), "84\u{202f}868 µs");
    }

    #[test]
    fn a_number_and_its_unit_stay_on_one_line() {
        assert_eq!(joined("47.3 % of 17.8 ms"), "47.3\u{a0}% of 17.8\u{a0}ms");
        assert_eq!(
            joined("(4.80 TB/s), 1 030 tokens/s."),
            "(4.80\u{a0}TB/s), 1 030\u{a0}tokens/s."
        );
        assert_eq!(joined("12.5 ms→3 µs"), "12.5\u{a0}ms→3\u{a0}µs");
        // No units: a word that begins like one, a number that is none, a count.
        for plain in [
            "3 seconds",
            "a % b",
            "3 steps of 16",
            "layer 2 mlp",
            "",
            "7 ",
        ] {
            assert_eq!(joined(plain), plain);
        }
    }

    #[test]
    fn what_is_copied_keeps_plain_spaces() {
        let mut data = serde_json::json!([
            {"kind": "text", "text": "47.3 %"}, {"kind": "code", "text": "7 % 2"}, {"sql": "7 % 2"}
        ]);
        join(&mut data);
        assert_eq!(data[0]["text"], "47.3\u{a0}%");
        assert_eq!([&data[1]["text"], &data[2]["sql"]], ["7 % 2", "7 % 2"]);
    }

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("<b>&\"\u{1}"), "&lt;b&gt;&amp;&quot;\u{fffd}");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        // 10 characters: 9 kept, 6 in front and 3 behind.
        assert_eq!(shorten("abcdefghijk", 10), "abcdef…ijk");
        assert_eq!(shorten("äöüäöüäöü", 4), "äö…ü");
        assert_eq!(shorten("abc", 0), "…");
        // 20 characters hold "… / mlp / Linear" but not the name before; 7 hold the last alone.
        assert_eq!(
            shorten("forward / layers / mlp / Linear", 20),
            "… / mlp / Linear"
        );
        assert_eq!(shorten("forward / layers / mlp / Linear", 7), "Linear");
        // Of 5 characters 4 are kept, 3 in front.
        assert_eq!(shorten("forward / layers / mlp / Linear", 5), "Lin…r");
    }
}
