//! What `workload.toml` says of stages, read line by line: this program has no parser of TOML, and needs no more of it.

use std::fs;
use std::path::Path;

use super::stages::StageRule;

/// How ranges become stages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(super) stages: Vec<StageRule>,
    /// Leading instances that are warm-up.
    pub(super) warmup: u64,
    /// Steps of a decode stage.
    pub(super) output_tokens: Option<u64>,
}

impl Rules {
    /// Those of a bundle, as they hold for this pass. Without a description there are none.
    pub(crate) fn of_bundle(bundle: &Path, pass: &str) -> Self {
        let path = bundle.join(rooflens_schemas::workload::FILE_NAME);
        fs::read_to_string(path)
            .map(|text| Self::parse(&text, pass))
            .unwrap_or_default()
    }

    fn parse(text: &str, pass: &str) -> Self {
        let mut rules = Self::default();
        let own = format!("passes.{pass}");
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line.trim_matches(['[', ']', ' ']).replace(['"', '\''], "");
                if section == "stages" {
                    rules.stages.push(StageRule::default());
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            let number = || {
                value
                    .split('#')
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .parse()
                    .ok()
            };
            let counts = section.is_empty() || section == own;
            match (key, rules.stages.last_mut()) {
                ("warmup", _) if counts => rules.warmup = number().unwrap_or(0),
                ("output_tokens", _) if counts => rules.output_tokens = number(),
                ("name", Some(stage)) if section == "stages" => stage.name = unquoted(value),
                ("match", Some(stage)) if section == "stages" => {
                    stage.pattern = Some(unquoted(value));
                }
                ("kind", Some(stage)) if section == "stages" => {
                    stage.is_decode = value.contains("\"decode\"");
                    stage.is_step = value.contains("decode_step");
                }
                _ => {}
            }
        }
        rules
    }
}

/// A string of TOML on one line; escapes are JSON's where they are usual.
fn unquoted(text: &str) -> String {
    if let Some(rest) = text.strip_prefix('\'') {
        return rest.split('\'').next().unwrap_or_default().to_owned();
    }
    let end = text.rfind('"').map_or(text.len(), |end| end + 1);
    serde_json::from_str(&text[..end]).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pass_overrides_holds_for_it_alone() {
        let text = "name = \"x\"\nwarmup = 0\noutput_tokens = 32 # all\n\n[[stages]]\nname = \"decode\"\nkind = \"decode\"\n\
                    \n[[stages]]\nname = 'a b'\nmatch = \"a|b\"\n\n[passes.nsys]\nwarmup = 2\noutput_tokens = 8\n";
        let rules = Rules::parse(text, "nsys");
        assert_eq!((rules.warmup, rules.output_tokens), (2, Some(8)));
        let names: Vec<&str> = rules
            .stages
            .iter()
            .map(|stage| stage.name.as_str())
            .collect();
        assert_eq!(
            (names, rules.stages[0].is_decode),
            (vec!["decode", "a b"], true)
        );
        assert_eq!(rules.stages[1].pattern.as_deref(), Some("a|b"));
        assert_eq!(Rules::parse(text, "torch").warmup, 0);
    }
}
