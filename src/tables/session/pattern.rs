//! Patterns of the workload description.

use regex::{Regex, RegexBuilder};
use rooflens_schemas::StageRule;

/// Bytes that a compiled pattern may take, and what all patterns of a file share; none need get by with less than
/// [`LEAST`]. `\w`, which knows all letters, takes some 30 KiB.
const TOTAL: usize = 2 << 20;
const LEAST: usize = 64 << 10;

/// Rules of stages beyond which a description is refused: each is compiled, and compared with each name.
const MAX_STAGES: usize = 200;

/// Why rules of stages are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFault {
    /// Which value.
    pub what: String,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub expected: &'static str,
}

/// Refuses rules that are too many, and patterns that do not compile.
///
/// # Errors
/// The rules are refused, and the description with them.
pub fn check_stages(rules: &[StageRule]) -> Result<(), StageFault> {
    if rules.len() > MAX_STAGES {
        return Err(StageFault {
            what: "the number of stages".to_owned(),
            found: rules.len().to_string(),
            expected: "at most 200",
        });
    }
    for rule in rules {
        let pattern = rule.pattern.as_deref().unwrap_or_default();
        whole_match_among(pattern, rules.len()).map_err(|error| StageFault {
            what: format!("the pattern of stage {}", rule.name),
            found: error.to_string().replace('\n', " "),
            expected: "a regular expression",
        })?;
    }
    Ok(())
}

/// Compiles a pattern that must match a whole name.
///
/// # Errors
/// When the pattern, or the pattern with its anchors, is no regular expression or too large.
pub fn whole_match(pattern: &str) -> Result<Regex, regex::Error> {
    whole_match_among(pattern, 1)
}

/// The same for one of so many patterns, which may not cost more together.
fn whole_match_among(pattern: &str, patterns: usize) -> Result<Regex, regex::Error> {
    let limit = (TOTAL / patterns.max(1)).max(LEAST);
    let compiled = |text: &str| RegexBuilder::new(text).size_limit(limit).build();
    // Alone first: its own error is the one to show.
    compiled(pattern)?;
    compiled(&format!("^(?:{pattern})$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rules_than_two_hundred_are_refused() {
        let rule = |number: usize| StageRule {
            name: format!("s{number}"),
            pattern: None,
            kind: None,
        };
        let mut rules: Vec<StageRule> = (0..200).map(rule).collect();
        assert_eq!(check_stages(&rules), Ok(()));
        rules.push(rule(200));
        let fault = check_stages(&rules).expect_err("one too many");
        assert_eq!(
            (fault.what.as_str(), fault.found.as_str()),
            ("the number of stages", "201")
        );
        rules.truncate(1);
        rules[0].pattern = Some("(".to_owned());
        let fault = check_stages(&rules).expect_err("no pattern");
        assert_eq!(fault.what, "the pattern of stage s0");
    }

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
