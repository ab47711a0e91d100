//! Patterns of the workload description.

use regex::Regex;

/// Compiles a pattern that must match a whole name.
///
/// # Errors
/// When the pattern, or the pattern with its anchors, is no regular expression or too large.
pub fn whole_match(pattern: &str) -> Result<Regex, regex::Error> {
    // Alone first: its own error is the one to show.
    Regex::new(pattern)?;
    Regex::new(&format!("^(?:{pattern})$"))
}

#[cfg(test)]
mod tests {
    use super::whole_match;

    #[test]
    fn the_whole_name_must_match_whichever_alternative_comes_first() {
        let pattern = whole_match("a|ab").expect("it compiles");
        assert!(pattern.is_match("ab") && pattern.is_match("a") && !pattern.is_match("abc"));
        assert!(whole_match("(").is_err());
        // A comment would swallow the anchor.
        assert!(whole_match("(?x)decode # c").is_err());
        assert!(whole_match("(a{500}){500}{500}").is_err());
    }
}
