//! The rules of `rules.toml`: parsed once, tried in order.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::names::{Name, ascii};

/// The rules, in force for the whole run.
pub(super) static RULES: LazyLock<Rules> = LazyLock::new(|| {
    toml::from_str(include_str!("rules.toml")).expect("rules.toml is checked by a test")
});

/// The four lists of rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    /// What a kernel does.
    pub(super) class: Vec<Rule>,
    /// Whose it is.
    pub(super) library: Vec<Rule>,
    /// Data type of its work.
    pub(super) dtype: Vec<Rule>,
    /// `yes` or `no`.
    pub(super) tensor_cores: Vec<Rule>,
}

/// One rule: a result and the conditions that must all hold for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// The result.
    pub(super) is: String,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
    #[serde(default)]
    own: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
    #[serde(default)]
    regex: Option<Pattern>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        ascii(&text).map(Self)
    }
}

impl Rule {
    fn holds(&self, name: &Name) -> bool {
        let within = |text: &str, parts: &[String]| parts.iter().any(|part| text.contains(part));
        (self.any.is_empty() || within(&name.text, &self.any))
            && (self.own.is_empty() || within(&name.own, &self.own))
            && self
                .all
                .iter()
                .all(|part| name.text.contains(part.as_str()))
            && !within(&name.text, &self.not)
            && self
                .regex
                .as_ref()
                .is_none_or(|pattern| pattern.0.is_match(&name.text))
    }
}

/// The result of the first rule that holds.
pub(super) fn first(rules: &'static [Rule], name: &Name) -> Option<&'static str> {
    rules
        .iter()
        .find(|rule| rule.holds(name))
        .map(|rule| rule.is.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::KernelClass;

    #[test]
    fn every_class_of_the_rules_is_a_class_and_every_rule_has_a_condition() {
        for rule in &RULES.class {
            assert!(KernelClass::of_label(&rule.is).is_some(), "{}", rule.is);
        }
        let all = [
            &RULES.class,
            &RULES.library,
            &RULES.dtype,
            &RULES.tensor_cores,
        ];
        for rule in all.into_iter().flatten() {
            let stated = rule.any.len() + rule.all.len() + rule.own.len();
            assert!(
                stated > 0 || rule.regex.is_some(),
                "{} would hold for all names",
                rule.is
            );
            let texts = [&rule.any, &rule.all, &rule.own, &rule.not];
            for text in texts.into_iter().flatten() {
                assert!(
                    *text == text.to_lowercase() && !text.is_empty(),
                    "{text:?} never matches"
                );
            }
        }
    }

    #[test]
    fn every_rule_decides_a_name_of_the_tests() {
        let sources = concat!(
            include_str!("tests/mod.rs"),
            include_str!("tests/matrix.rs")
        );
        let names: Vec<Name> = sources.split('"').map(Name::new).collect();
        for (at, rule) in RULES.class.iter().enumerate() {
            let decides =
                |name: &Name| RULES.class.iter().position(|one| one.holds(name)) == Some(at);
            assert!(
                names.iter().any(decides),
                "no name for rule {at}, {}",
                rule.is
            );
        }
    }
}
