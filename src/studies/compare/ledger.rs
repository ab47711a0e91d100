//! The ledger of a study: experiments by label, with their settings, runs, stated figures and errors. It is TOML.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rooflens_schemas::text::shell_word;
use rooflens_schemas::{Polarity, Unit};
use serde::Deserialize;

/// The version of the format.
pub const VERSION: u32 = 1;

/// Experiments in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// [`VERSION`].
    pub rooflens_ledger: u32,
    /// Name of the study.
    pub name: String,
    /// The figure that decides, `FIGURE` or `METRIC@STAGE`; the first figure of the reference without one.
    #[serde(default)]
    pub goal: Option<String>,
    /// How the recommended settings are written.
    #[serde(default)]
    pub settings_as: SettingsAs,
    /// Figures that experiments state.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// The experiments.
    #[serde(rename = "experiment")]
    pub experiments: Vec<Entry>,
}

/// How settings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingsAs {
    /// `name = value`.
    #[default]
    Toml,
    /// `--name value`.
    Flags,
    /// `NAME=value`.
    Environment,
}

/// A figure that experiments state.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Unit of the values, such as `ms` or `tok/s`.
    pub unit: String,
    /// Which direction is better.
    pub better: Polarity,
}

/// An experiment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name, unique in the ledger.
    pub label: String,
    /// Label of the earlier experiment that it is compared with; the first one without it.
    #[serde(default)]
    pub against: Option<String>,
    /// Commit of the program, for trends.
    #[serde(default)]
    pub commit: Option<String>,
    /// What was set unlike in the experiment that it is compared with.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
    /// Captures, `metrics.json` or baselines: repeats. Relative to the folder of the ledger.
    #[serde(default)]
    pub runs: Vec<PathBuf>,
    /// Stated values by figure.
    #[serde(default)]
    pub figures: BTreeMap<String, Stated>,
    /// Why it has no result.
    #[serde(default)]
    pub error: Option<String>,
    /// Whether it is in use.
    #[serde(default)]
    pub deployed: bool,
    /// Where stated values and errors come from.
    #[serde(default)]
    pub source: Option<String>,
}

/// One value, or those of several runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Stated {
    /// One value.
    One(f64),
    /// One value a run.
    Several(Vec<f64>),
}

impl Stated {
    /// The values.
    pub fn values(&self) -> &[f64] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

/// Units of stated values: word, unit, and factor to it.
const UNITS: [(&str, Unit, f64); 15] = [
    ("ns", Unit::Nanoseconds, 1.0),
    ("us", Unit::Nanoseconds, 1e3),
    ("ms", Unit::Nanoseconds, 1e6),
    ("s", Unit::Nanoseconds, 1e9),
    ("%", Unit::Percent, 1.0),
    ("1", Unit::One, 1.0),
    ("B", Unit::Bytes, 1.0),
    ("MB", Unit::Bytes, 1e6),
    ("GB", Unit::Bytes, 1e9),
    ("GB/s", Unit::BytesPerSecond, 1e9),
    ("tok/s", Unit::TokensPerSecond, 1.0),
    ("req/s", Unit::RequestsPerSecond, 1.0),
    ("W", Unit::Watts, 1.0),
    ("J", Unit::Joules, 1.0),
    ("count", Unit::Count, 1.0),
];

impl Figure {
    /// The unit of its values, and the factor to it.
    pub fn unit(&self) -> Option<(Unit, f64)> {
        let known = UNITS.iter().find(|(word, ..)| *word == self.unit);
        known.map(|(_, unit, factor)| (*unit, *factor))
    }
}

impl Ledger {
    /// Reads a ledger.
    ///
    /// # Errors
    /// It is not well-formed, or names something that is not in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ledger: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if ledger.rooflens_ledger != VERSION {
            let version = ledger.rooflens_ledger;
            return Err(format!("version {version} of the format is not {VERSION}"));
        }
        if ledger.experiments.is_empty() {
            return Err("no experiment".to_owned());
        }
        for figure in &ledger.figures {
            if figure.unit().is_none() {
                let units: Vec<&str> = UNITS.iter().map(|(word, ..)| *word).collect();
                return Err(format!(
                    "unit {:?} of figure {:?} is none of {}",
                    figure.unit,
                    figure.name,
                    units.join(", ")
                ));
            }
        }
        let mut labels = BTreeSet::new();
        for entry in &ledger.experiments {
            let label = entry.label.as_str();
            if let Some(against) = &entry.against
                && !labels.contains(against.as_str())
            {
                return Err(format!("{label:?}: no experiment {against:?} before it"));
            }
            if !labels.insert(label) {
                return Err(format!("two experiments are called {label:?}"));
            }
            for (name, stated) in &entry.figures {
                if ledger.figures.iter().all(|figure| figure.name != *name) {
                    return Err(format!("{label:?}: no [[figure]] is called {name:?}"));
                }
                let is_number = |value: &f64| value.is_finite();
                if stated.values().is_empty() || !stated.values().iter().all(is_number) {
                    return Err(format!("{label:?}: {name:?} has no values"));
                }
            }
        }
        Ok(ledger)
    }

    /// The place of the experiment that an experiment is compared with; none for the first one.
    pub fn against(&self, place: usize) -> Option<usize> {
        let entry = &self.experiments[place];
        match &entry.against {
            Some(label) => self
                .experiments
                .iter()
                .position(|other| other.label == *label),
            None => (place > 0).then_some(0),
        }
    }

    /// All settings of an experiment: its own, and those of the experiments that it builds on.
    pub fn settings(&self, place: usize) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        let mut at = Some(place);
        while let Some(place) = at {
            for (name, value) in &self.experiments[place].settings {
                settings
                    .entry(name.clone())
                    .or_insert_with(|| written(value));
            }
            // An experiment is compared with an earlier one, so that this ends.
            at = self.against(place);
        }
        settings
    }

    /// Settings as lines to copy.
    pub fn lines(&self, settings: &BTreeMap<String, String>) -> String {
        let mut lines = String::new();
        for (name, value) in settings {
            lines += &match self.settings_as {
                SettingsAs::Toml => format!("{name} = {value:?}\n"),
                SettingsAs::Environment => format!("{name}={}\n", shell_word(value)),
                SettingsAs::Flags => match value.as_str() {
                    "true" => format!("--{name}\n"),
                    "false" => continue,
                    value => format!("--{name} {}\n", shell_word(value)),
                },
            };
        }
        lines
    }
}

fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LEDGER: &str = r#"
        rooflens_ledger = 1
        name = "made"
        settings_as = "flags"
        [[figure]]
        name = "latency"
        unit = "ms"
        better = "lower"
        [[experiment]]
        label = "first"
        settings = { batch = 1, eager = true }
        figures = { latency = 20.0 }
        [[experiment]]
        label = "second"
        settings = { batch = 8 }
        figures = { latency = [10.0, 11.0] }
        [[experiment]]
        label = "third"
        against = "second"
        settings = { eager = false }
        error = "out of memory"
    "#;

    #[test]
    fn an_experiment_has_the_settings_of_those_it_builds_on() {
        let ledger = Ledger::parse(LEDGER).unwrap();
        assert_eq!(ledger.against(0), None);
        assert_eq!((ledger.against(1), ledger.against(2)), (Some(0), Some(1)));
        let lines = |place| ledger.lines(&ledger.settings(place));
        assert_eq!(lines(1), "--batch 8\n--eager\n");
        assert_eq!(lines(2), "--batch 8\n");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(
            ledger.experiments[1].figures["latency"].values(),
            [10.0, 11.0]
        );
    }

    #[test]
    fn wrong_ledgers_are_refused() {
        let wrong = |from: &str, to: &str| Ledger::parse(&LEDGER.replace(from, to)).is_err();
        assert!(wrong("rooflens_ledger = 1", "rooflens_ledger = 2"));
        assert!(wrong("unit = \"ms\"", "unit = \"parsec\""));
        assert!(wrong("label = \"second\"", "label = \"first\""));
        assert!(wrong("against = \"second\"", "against = \"fourth\""));
        assert!(wrong("latency = 20.0", "throughput = 20.0"));
        assert!(wrong("latency = 20.0", "latency = []"));
    }
}
