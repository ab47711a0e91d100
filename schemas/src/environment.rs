//! `env.json`, version 1: what the machine and its software were when the capture ran.

use serde::{Deserialize, Serialize};

#[cfg(feature = "json-schema")]
use schemars::JsonSchema;

/// The version of the environment file that this crate reads and writes.
pub const VERSION: u32 = 1;

/// The file name of a bundle's environment snapshot.
pub const FILE_NAME: &str = "env.json";

/// Facts about the machine, in the order in which they were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Environment {
    /// Always 1; anything else is refused.
    pub version: u32,
    /// When the facts were taken, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_at: Option<String>,
    /// The facts; a pair of subject and key occurs once.
    #[serde(default)]
    pub entries: Vec<Fact>,
}

/// One fact, or the reason why it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Fact {
    /// What it is about: `gpu 0`, `driver`, `cpu`, `memory`, `os`, `tool`, `env`, `git`.
    pub subject: String,
    /// Which property of it, such as `name` or `power_limit_w`; a unit ends the key.
    pub key: String,
    /// The value as text, or why there is none.
    #[serde(flatten)]
    pub value: FactValue,
}

/// A value, or the reason why there is none. Missing is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum FactValue {
    /// The value is known.
    Known {
        /// As the source gives it.
        value: String,
    },
    /// The value is not known.
    Missing {
        /// Why.
        missing_reason: String,
    },
}

impl Fact {
    /// A fact that is known.
    pub fn known(
        subject: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        let value = FactValue::Known {
            value: value.into(),
        };
        Self {
            subject: subject.into(),
            key: key.into(),
            value,
        }
    }

    /// A fact that could not be had.
    pub fn missing(
        subject: impl Into<String>,
        key: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let value = FactValue::Missing {
            missing_reason: reason.into(),
        };
        Self {
            subject: subject.into(),
            key: key.into(),
            value,
        }
    }
}

impl FactValue {
    /// The value, if it is known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known { value } => Some(value),
            Self::Missing { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_a_value_or_a_reason() {
        let text = r#"{"version": 1, "entries": [
            {"subject": "gpu 0", "key": "name", "value": "NVIDIA H200"},
            {"subject": "tool", "key": "ncu", "missing_reason": "not on the path"}]}"#;
        let read: Environment = serde_json::from_str(text).expect("valid");
        let expected = [
            Fact::known("gpu 0", "name", "NVIDIA H200"),
            Fact::missing("tool", "ncu", "not on the path"),
        ];
        assert_eq!(read.entries, expected);
        assert_eq!(read.entries[1].value.known(), None);
        let again = serde_json::to_string(&read).expect("serializes");
        assert_eq!(
            serde_json::from_str::<Environment>(&again).expect("valid"),
            read
        );
    }

    #[test]
    fn a_fact_without_both_is_refused() {
        let text = r#"{"version": 1, "entries": [{"subject": "cpu", "key": "model"}]}"#;
        assert!(serde_json::from_str::<Environment>(text).is_err());
    }
}
