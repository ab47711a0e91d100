//! JSON as Python writes it.

use serde_json::Value;

/// The value of a text. `NaN` and `Infinity`, which JSON lacks and Python writes, are null.
///
/// # Errors
/// The text is not JSON otherwise.
pub fn json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match without_nan(text) {
        Some(plain) => serde_json::from_str(&plain),
        None => Err(error),
    })
}

/// The text with `NaN` and `Infinity` outside of strings as `null`; none if there are none.
fn without_nan(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    let (mut inside, mut found) = (false, false);
    while let Some(character) = rest.chars().next() {
        if !inside
            && let Some(word) = ["-Infinity", "Infinity", "NaN"]
                .iter()
                .find(|word| rest.starts_with(**word))
        {
            out.push_str("null");
            rest = &rest[word.len()..];
            found = true;
            continue;
        }
        let mut length = character.len_utf8();
        if inside && character == '\\' {
            length += rest[length..].chars().next().map_or(0, char::len_utf8);
        }
        inside ^= character == '"';
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn what_json_lacks_is_null_outside_of_strings() {
        let value =
            json(r#"{"limit": [0.0, Infinity, -Infinity], "NaN": "NaN \" Infinity", "x": NaN}"#);
        let expected =
            serde_json::json!({"limit": [0.0, null, null], "NaN": "NaN \" Infinity", "x": null});
        assert_eq!(value.ok(), Some(expected));
        assert!(json("{Infinity").is_err());
        assert!(json("[1,]").is_err());
    }
}
