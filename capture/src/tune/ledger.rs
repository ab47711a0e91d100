//! The ledger of a search, for `rooflens experiments`: a setting is an experiment, and what it answers within the limits
//! is what decides.

use rooflens_units::Time;
use serde::Serialize;
use std::collections::BTreeMap;

use super::args::TuneArguments;
use super::{Kept, Measured, Trial};
use crate::redact::Secrets;
use crate::serve::tally::{ATTAINMENT, percentile};

/// Its name in the bundle.
pub(super) const FILE: &str = "experiments.toml";

/// The version of the format; see `docs/comparison.md`.
const VERSION: u32 = 1;

/// The figure that decides.
const GOAL: &str = "goodput";

#[derive(Serialize)]
struct Ledger {
    rooflens_ledger: u32,
    name: String,
    goal: &'static str,
    settings_as: &'static str,
    figure: [Figure; 4],
    experiment: Vec<Entry>,
}

#[derive(Serialize)]
struct Figure {
    name: &'static str,
    unit: &'static str,
    better: &'static str,
}

#[derive(Serialize)]
struct Entry {
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    source: String,
    settings: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    figures: BTreeMap<&'static str, f64>,
}

/// The ledger as TOML. Settings that keep the limits come first: the others are compared with the first one. Of two
/// measurements of a setting it holds the one with the lower score.
pub(super) fn write(
    results: &[Measured<'_>],
    arguments: &TuneArguments,
    secrets: &Secrets,
) -> String {
    let trials = results.iter().map(|result| result.trial);
    let (kept, missed): (Vec<&Trial>, Vec<&Trial>) =
        trials.partition(|trial| trial.kept().is_some());
    let entry = |trial: &Trial| Entry {
        label: secrets.masked_text(&trial.options()),
        error: trial.kept().is_none().then(|| {
            let reason = trial.describe(&arguments.slo);
            secrets.masked_text(&reason)
        }),
        source: match trial.kept() {
            Some(kept) => format!("{}/{}.jsonl", trial.pass, kept.level),
            None => format!("logs/{}.log", trial.pass),
        },
        settings: trial
            .values
            .iter()
            .map(|(name, value)| (name.clone(), secrets.masked_text(value)))
            .collect(),
        figures: trial.kept().map(|kept| figures(&kept)).unwrap_or_default(),
    };
    let name = arguments.name.clone().or_else(|| {
        let folder = arguments.output.file_name()?;
        Some(folder.to_string_lossy().into_owned())
    });
    let figure = |name, unit, better| Figure { name, unit, better };
    let ledger = Ledger {
        rooflens_ledger: VERSION,
        name: name.unwrap_or_else(|| "tune".to_owned()),
        goal: GOAL,
        settings_as: "flags",
        figure: [
            figure(GOAL, "req/s", "higher"),
            figure("output tokens", "tok/s", "higher"),
            figure("TTFT P90", "ms", "lower"),
            figure("TPOT P90", "ms", "lower"),
        ],
        experiment: kept.into_iter().chain(missed).map(entry).collect(),
    };
    toml::to_string(&ledger).expect("numbers and text")
}

/// Of the level with the most good answers per second.
fn figures(kept: &Kept<'_>) -> BTreeMap<&'static str, f64> {
    let tally = kept.tally;
    let rate = tally.output_tokens as f64 / tally.ended.0.max(1e-9);
    let most = |values: &[Time]| percentile(values, ATTAINMENT).map(|time| time.0 / 1e6);
    let stated: [(&str, Option<f64>); 4] = [
        (GOAL, Some(tally.goodput())),
        ("output tokens", Some(rate)),
        ("TTFT P90", most(&tally.ttft)),
        ("TPOT P90", most(&tally.tpot)),
    ];
    let stated = stated.into_iter();
    stated
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}
