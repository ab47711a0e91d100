//! Runs at the same load with other settings: what worked and what did not.

use super::Results;
use super::figures::{Figures, Measure};
use crate::runs::Run;
use rooflens_units::{Count, Ratio, RequestsPerSecond};
use std::ops::Neg;

/// Relative difference below which a figure has not changed.
pub const SAME: Ratio = Ratio(0.03);

/// Relative difference of mean lengths up to which two runs have the same requests.
const ALIKE: Ratio = Ratio(0.1);

/// How another setup fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something is better and nothing worse.
    Better,
    /// Something is worse and nothing better.
    Worse,
    /// Some are better, some worse.
    Mixed,
    /// Nothing changed.
    Same,
}

impl Verdict {
    /// The word in data files.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Better => "worked",
            Self::Worse => "did not work",
            Self::Mixed => "mixed",
            Self::Same => "no change",
        }
    }
}

/// A run against the first one with its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Index of the first run.
    pub baseline: usize,
    /// Index of the other.
    pub run: usize,
    /// Settings that differ: name, value of the first, value of the other.
    pub settings: Vec<(String, String, String)>,
    /// Relative change of output tokens (else answers) per second, of median TTFT and of median TPOT.
    pub changes: [Option<Ratio>; 3],
    /// How it fared.
    pub verdict: Verdict,
}

/// All pairs.
pub fn of(results: &Results<'_>) -> Vec<Change> {
    let is_test = |run: &usize| results.runs[*run].is_whole_test();
    let tests: Vec<usize> = (0..results.runs.len()).filter(is_test).collect();
    let of_run = |(n, run): (usize, &usize)| {
        let baseline = tests[..n]
            .iter()
            .find(|first| are_comparable(results, **first, *run))?;
        change(results, *baseline, *run)
    };
    tests.iter().enumerate().filter_map(of_run).collect()
}

/// The one that worked best: by answers per second within the limits, if they are stated, else by throughput; the first
/// if none worked.
pub fn best<'c>(results: &'c Results<'_>) -> Option<&'c Change> {
    let gain = |change: &Change| match results.goodput_rate(change.run) {
        Some(rate) => rate.0,
        None => change.changes[0].unwrap_or_default().0,
    };
    let changes = results.changes.iter();
    let worked = changes
        .rev()
        .filter(|change| change.verdict == Verdict::Better);
    worked
        .max_by(|a, b| gain(a).total_cmp(&gain(b)))
        .or(results.changes.first())
}

/// The run with the most answers per second within the limits, against the one of the first setup that has the most: each
/// setup at its best load. Loads that keep the limits come before those that do not.
pub fn best_goodput(results: &Results<'_>) -> Option<Change> {
    let weight = |run: usize| {
        let goodput = results.goodput[run]?;
        Some((goodput.keeps(), goodput.rate?))
    };
    let best_of = |is_one: &dyn Fn(&Run) -> bool| {
        let mut best: Option<(usize, (bool, RequestsPerSecond))> = None;
        for (run, data) in results.runs.iter().enumerate() {
            if is_one(data)
                && let Some(weight) = weight(run)
                && best.is_none_or(|(_, most)| weight > most)
            {
                best = Some((run, weight));
            }
        }
        best.map(|(run, _)| run)
    };
    let first = results.runs.iter().find(|run| run.is_whole_test())?;
    let baseline = best_of(&|run| run.settings == first.settings)?;
    let best = best_of(&|run| run.model == first.model)?;
    change(results, baseline, best)
}

/// Same model, same load, requests of the same lengths.
fn are_comparable(results: &Results<'_>, baseline: usize, run: usize) -> bool {
    let of = |run: usize| (&results.runs[run], &results.figures[run]);
    results.runs[baseline].model == results.runs[run].model && are_alike(of(baseline), of(run))
}

/// Same load, requests of the same lengths.
pub fn are_alike((a, x): (&Run, &Figures), (b, y): (&Run, &Figures)) -> bool {
    a.load == b.load && (have_equal_lengths(x, y) || are_cut_off(x, y))
}

/// Share of requests without an answer from which on those with one are the short ones.
const CUT_OFF: Ratio = Ratio(0.1);

/// Whether the lengths of answers say nothing: most long ones have no end in one of the runs, and prompts are alike.
fn are_cut_off(x: &Figures, y: &Figures) -> bool {
    let is_cut_off = |figures: &Figures| {
        let failed = figures.failed.unwrap_or_default();
        let all = failed + figures.completed.unwrap_or_default();
        failed.0 > all.0 * CUT_OFF.0
    };
    let prompts = |figures: &Figures| Figures {
        output_tokens: None,
        ..figures.clone()
    };
    (is_cut_off(x) || is_cut_off(y)) && have_equal_lengths(&prompts(x), &prompts(y))
}

/// Standard errors of a difference that chance explains.
const BY_CHANCE: f64 = 3.0;

/// Whether prompts and answers have the same mean lengths, up to what chance explains where lengths are random.
pub fn have_equal_lengths(x: &Figures, y: &Figures) -> bool {
    let means = |figures: &Figures| [figures.prompt_tokens, figures.output_tokens];
    let errors = x.token_errors.into_iter().zip(y.token_errors);
    let mut pairs = means(x).into_iter().zip(means(y)).zip(errors);
    pairs.all(|((x, y), (x_error, y_error))| {
        let (Some(x), Some(y)) = (x, y) else {
            return true;
        };
        let error = |error: Option<Count>| error.unwrap_or_default().0;
        let chance = BY_CHANCE * libm::hypot(error(x_error), error(y_error));
        (x - y).abs().0 <= (x.max(y) * ALIKE).0.max(chance)
    })
}

fn change(results: &Results<'_>, baseline: usize, run: usize) -> Option<Change> {
    let (a, b) = (&results.runs[baseline], &results.runs[run]);
    let settings = differences(a, b);
    let (x, y) = (&results.figures[baseline], &results.figures[run]);
    let changes = [
        relative(x.output_rate, y.output_rate).or(relative(x.request_rate, y.request_rate)),
        relative(x.typical(Measure::Ttft), y.typical(Measure::Ttft)),
        relative(x.typical(Measure::Tpot), y.typical(Measure::Tpot)),
    ];
    let [rate, ttft, tpot] = changes;
    let (mut has_gain, mut has_loss) = (false, false);
    for gain in [rate, ttft.map(Ratio::neg), tpot.map(Ratio::neg)]
        .into_iter()
        .flatten()
    {
        has_gain |= gain > SAME;
        has_loss |= gain < -SAME;
    }
    // Where limits are stated, requests that keep them decide.
    if let (Some(before), Some(after)) = (results.goodput_rate(baseline), results.goodput_rate(run))
    {
        has_gain = after.0 > before.0 * (1.0 + SAME.0);
        has_loss = after.0 < before.0 * (1.0 - SAME.0);
    }
    let verdict = match (has_gain, has_loss) {
        (true, false) => Verdict::Better,
        (false, true) => Verdict::Worse,
        (true, true) => Verdict::Mixed,
        (false, false) => Verdict::Same,
    };
    changes.iter().any(Option::is_some).then_some(Change {
        baseline,
        run,
        settings,
        changes,
        verdict,
    })
}

/// Change from the first value to the second, as a share of the first.
fn relative<M: rooflens_units::Measure>(before: Option<M>, after: Option<M>) -> Option<Ratio> {
    let (before, after) = (before?.number(), after?.number());
    (before != 0.0).then(|| Ratio(after / before - 1.0))
}

fn differences(a: &Run, b: &Run) -> Vec<(String, String, String)> {
    let setting = |run: &Run, key: &str| {
        run.settings
            .get(key)
            .cloned()
            .unwrap_or_else(|| "–".to_owned())
    };
    let keys: std::collections::BTreeSet<&String> =
        a.settings.keys().chain(b.settings.keys()).collect();
    let mut differences: Vec<(String, String, String)> = Vec::new();
    if a.tool != b.tool {
        differences.push((
            "tool".to_owned(),
            a.tool.label().to_owned(),
            b.tool.label().to_owned(),
        ));
    }
    if a.gpu != b.gpu {
        let name = |run: &Run| run.gpu.clone().unwrap_or_else(|| "–".to_owned());
        differences.push(("gpu".to_owned(), name(a), name(b)));
    }
    differences.extend(
        keys.into_iter()
            .map(|key| (key.clone(), setting(a, key), setting(b, key))),
    );
    differences.retain(|(_, before, after)| before != after);
    // Another address explains nothing where something else differs.
    if differences.iter().any(|(name, ..)| !is_address(name)) {
        differences.retain(|(name, ..)| !is_address(name));
    }
    differences
}

/// Whether a setting says where a server is, not how it works.
fn is_address(name: &str) -> bool {
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or(name);
    matches!(last, "url" | "port" | "host" | "endpoint")
}
