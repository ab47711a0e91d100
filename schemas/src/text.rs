//! Texts from the data in files that both programs write.

use std::borrow::Cow;

/// Whether a character is a control character, reorders the text around it, or is no character at all.
#[inline]
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}'..='\u{ffff}'
            | '\u{e0000}'..='\u{e007f}')
}

/// JSON in which harmful characters are escaped: a reader gets the name as it was, a terminal does not.
// Inline, because this crate is not optimized and files have megabytes.
#[inline]
pub fn json(text: &str) -> Cow<'_, str> {
    let (mut out, mut rest) = (String::new(), text);
    let is_escaped = |(_, c): &(usize, char)| is_harmful(*c) && *c != '\n';
    while let Some((at, c)) = rest.char_indices().find(is_escaped) {
        out.push_str(&rest[..at]);
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
        rest = &rest[at + c.len_utf8()..];
    }
    if out.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(out + rest)
}

/// A text as a string of JSON, which is one of YAML and TOML too. Harmful characters are escaped.
pub fn quoted(text: &str) -> String {
    json(&serde_json::Value::from(text).to_string()).into_owned()
}

/// A text as one word of a shell.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,-+@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_names_that_act_as_escapes() {
        let name = "a\u{1b}[2J\u{202e}\u{9b}\u{e0041}\n";
        let pretty = serde_json::to_string_pretty(&[name]).unwrap_or_default();
        let text = json(&pretty);
        assert!(text.is_ascii() && !text.contains('\u{1b}'), "{text}");
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&text).ok(),
            Some(vec![name.to_owned()])
        );
    }

    #[test]
    fn a_shell_reads_a_word_as_it_was() {
        for (text, word) in [
            ("--model=a/b:1", "--model=a/b:1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }

    #[test]
    fn quoted_text_escapes_what_acts_on_a_terminal() {
        let name = "a\"\u{7f}\u{85}\u{202e}é";
        assert_eq!(quoted(name), "\"a\\\"\\u007f\\u0085\\u202eé\"");
    }
}
