//! Patterns of the workload description.

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled pattern may take, and what all patterns of a file share; none need get by with less than
/// [`LEAST`]. `\w`, which knows all letters, takes some 30 KiB.
const TOTAL: usize = 2 << 20;
const LEAST: usize = 64 << 10;

/// Compiles a pattern that must match a whole name.
///
/// # Errors
/// When the pattern, or the pattern with its anchors, is no regular expression or too large.
pub fn whole_match(pattern: &str) -> Result<Regex, regex::Error> {
    whole_match_among(pattern, 1)
}

/// The same for one of so many patterns, which may not cost more together.
///
/// # Errors
/// The same.
pub fn whole_match_among(pattern: &str, patterns: usize) -> Result<Regex, regex::Error> {
    let limit = (TOTAL / patterns.max(1)).max(LEAST);
    let compiled = |text: &str| RegexBuilder::new(text).size_limit(limit).build();
    // Alone first: its own error is the one to show.
    compiled(pattern)?;
    compiled(&format!("^(?:{pattern})$"))
}

#[cfg(test)]
mod tests {
    use super::{whole_match, whole_match_among};

    #[test]
    fn the_whole_name_must_match_whichever_alternative_comes_first() {
        let pattern = whole_match("a|ab").expect("it compiles");
        assert!(pattern.is_match("ab") && pattern.is_match("a") && !pattern.is_match("abc"));
        assert!(whole_match("(").is_err());
        // A comment would swallow the anchor.
        assert!(whole_match("(?x)decode # c").is_err());
        assert!(whole_match("(a{500}){500}{500}").is_err());
        let words = r"\w{10}";
        assert!(whole_match(words).is_ok() && whole_match_among(words, 100).is_err());
        assert!(whole_match_among(r"(prefill|decode)_\w+", 100).is_ok());
    }
}
