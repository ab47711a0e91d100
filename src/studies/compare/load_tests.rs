//! Load tests before and after a change: runs of equal load and lengths, percentile by percentile.

use rooflens_document::catalogue::{
    E2E_LATENCY, FAILED_REQUESTS, ITL, MetricDef, OUTPUT_THROUGHPUT, REQUEST_THROUGHPUT, TPOT, TTFT,
};
use rooflens_serving::analysis::changes::{are_alike, have_equal_lengths};
use rooflens_serving::analysis::figures::{Figures, Measure};
use rooflens_serving::runs::{Load, Run};
use rooflens_serving::stats::PERCENTILES;
use rooflens_stats::percentile_ratio;
use rooflens_units::{Count, Ratio, RequestsPerSecond, Time, TokensPerSecond};

use crate::Pair;
use crate::record::{Record, VERSION, Values};
use crate::times::{CONFIDENCE, Verdict, of_interval};

/// Latencies of a record.
const LATENCIES: [(Measure, &MetricDef); 4] = [
    (Measure::Ttft, &TTFT),
    (Measure::Tpot, &TPOT),
    (Measure::Itl, &ITL),
    (Measure::Latency, &E2E_LATENCY),
];

/// Runs of one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The load.
    pub load: Load,
    /// Names of the runs.
    pub label: Pair<String>,
    /// Answers per second.
    pub request_rate: Pair<Option<RequestsPerSecond>>,
    /// Tokens of answers per second.
    pub output_rate: Pair<Option<TokensPerSecond>>,
    /// Latencies.
    pub percentiles: Vec<Percentile>,
}

/// A percentile of a latency in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentile {
    /// The latency.
    pub measure: Measure,
    /// The percentile, 0 to 100.
    pub percent: f64,
    /// Values of the latency.
    pub samples: Pair<usize>,
    /// The percentile of each.
    pub time: Pair<Time>,
    /// After ÷ before.
    pub ratio: Ratio,
    /// Its interval; absent without raw samples, or with few of them.
    pub interval: Option<(Ratio, Ratio)>,
    /// What this means.
    pub verdict: Verdict,
}

/// Load tests of both sides.
pub struct Comparison {
    /// Names of the sides.
    pub name: Pair<String>,
    /// Runs of equal load and lengths.
    pub changes: Vec<Change>,
    /// Names of runs without one like it on the other side.
    pub alone: Pair<Vec<String>>,
    /// The least change that counts.
    pub least: Ratio,
}

/// A reason why load tests are not compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// Another model, or another GPU.
    #[error("{subject} differs: {before} before, {after} after")]
    Condition {
        /// `workload` or `gpu`, the word that allows it.
        subject: &'static str,
        /// Value before.
        before: String,
        /// Value after.
        after: String,
    },
    /// No load was tested on both sides.
    #[error(
        "no run before has the load and the mean lengths of a run after; before: {before}; after: {after}"
    )]
    NoLoad {
        /// The runs before, with load and lengths.
        before: String,
        /// The runs after.
        after: String,
    },
}

/// The figures of load tests as a record: a run is a value of its load.
pub fn record(name: &str, bundle: &str, runs: &[Run]) -> Record {
    let mut record = Record {
        rooflens_baseline: VERSION,
        name: name.to_owned(),
        bundles: vec![bundle.to_owned()],
        ..Record::default()
    };
    for run in runs.iter().filter(|run| run.is_test()) {
        for (condition, value) in [("gpu", &run.gpu), ("model", &run.model)] {
            if let Some(value) = value {
                record
                    .conditions
                    .insert(condition.to_owned(), value.clone());
            }
        }
        let (load, figures) = (load_words(run.load), Figures::of(run));
        let lengths = [figures.prompt_tokens, figures.output_tokens];
        record
            .lengths
            .insert(load.clone(), lengths.map(|mean| Some(mean?.0)));
        let rates = [
            (&OUTPUT_THROUGHPUT, figures.output_rate.map(|rate| rate.0)),
            (&REQUEST_THROUGHPUT, figures.request_rate.map(|rate| rate.0)),
            (&FAILED_REQUESTS, figures.failed.map(|count| count.0)),
        ];
        for (metric, value) in rates {
            record.add_values(values(metric, load.clone(), value));
        }
        for (measure, metric) in LATENCIES {
            let percentiles = figures.dist(measure).spread.percentiles;
            for (percent, time) in PERCENTILES.into_iter().zip(percentiles) {
                let stage = format!("{load}, p{percent}");
                record.add_values(values(metric, stage, time.map(|time| time.0)));
            }
        }
    }
    record.metrics.retain(|metric| !metric.values.is_empty());
    record
}

fn values(metric: &MetricDef, stage: String, value: Option<f64>) -> Values {
    Values {
        id: metric.id.to_owned(),
        stage: Some(stage),
        unit: metric.unit,
        values: value.into_iter().collect(),
    }
}

/// A load as the stage of a figure.
fn load_words(load: Load) -> String {
    let words = [
        load.rate.map(|rate| format!("rate {}", rate.0)),
        load.concurrency
            .map(|count| format!("concurrency {}", count.0)),
        load.burst.then(|| "burst".to_owned()),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    match words.is_empty() {
        true => "any load".to_owned(),
        false => words.join(", "),
    }
}

/// Whether the mean tokens of prompts and of answers are those of the same requests.
pub(crate) fn are_equal_lengths(lengths: [Option<f64>; 2], other: [Option<f64>; 2]) -> bool {
    let figures = |[prompt, answer]: [Option<f64>; 2]| Figures {
        prompt_tokens: prompt.map(Count),
        output_tokens: answer.map(Count),
        ..Figures::default()
    };
    have_equal_lengths(&figures(lengths), &figures(other))
}

/// Compares runs. Conditions that differ are refused unless `is_allowed` by their word.
///
/// # Errors
/// The runs are of different models or GPUs, or of different loads.
pub fn compare(
    name: Pair<String>,
    runs: &Pair<Vec<Run>>,
    is_allowed: impl Fn(&str) -> bool,
    least: Ratio,
) -> Result<Comparison, Incomparable> {
    let figures = Pair::of(runs, |runs| {
        let tests = runs.iter().filter(|run| run.is_test());
        tests.map(|run| (run, Figures::of(run))).collect::<Vec<_>>()
    });
    let model = |run: &Run| run.model.clone();
    let gpu = |run: &Run| run.gpu.clone();
    for (subject, value) in [("workload", &model as &dyn Fn(&Run) -> _), ("gpu", &gpu)] {
        let values = Pair::of(&figures, |runs| {
            let mut values: Vec<String> = runs.iter().filter_map(|(run, _)| value(run)).collect();
            values.sort();
            values.dedup();
            values.join(", ")
        });
        let Pair { before, after } = values;
        let is_known = !before.is_empty() && !after.is_empty();
        if before != after && is_known && !is_allowed(subject) {
            return Err(Incomparable::Condition {
                subject,
                before,
                after,
            });
        }
    }
    let (mut changes, mut used) = (Vec::new(), vec![false; figures.after.len()]);
    let mut alone = Pair::<Vec<String>>::default();
    for (run, of_run) in &figures.before {
        let mut others = figures.after.iter().enumerate();
        let like = others.find(|(index, (other, of_other))| {
            !used[*index] && are_alike((run, of_run), (other, of_other))
        });
        match like {
            Some((index, (other, of_other))) => {
                used[index] = true;
                changes.push(change((run, of_run), (other, of_other), least));
            }
            None => alone.before.push(run.label.clone()),
        }
    }
    let of_after = figures.after.iter().zip(used);
    alone.after = of_after
        .filter(|(_, used)| !used)
        .map(|((run, _), _)| run.label.clone())
        .collect();
    if changes.is_empty() {
        let Pair { before, after } = Pair::of(&figures, |runs| described(runs));
        return Err(Incomparable::NoLoad { before, after });
    }
    Ok(Comparison {
        name,
        changes,
        alone,
        least,
    })
}

/// Runs with what must be equal of them.
fn described(runs: &[(&Run, Figures)]) -> String {
    let tokens = |mean: Option<Count>| mean.map_or("?".to_owned(), |mean| format!("{:.0}", mean.0));
    let mut texts = Vec::new();
    for (run, figures) in runs {
        let (load, prompt, output) = (
            load_words(run.load),
            tokens(figures.prompt_tokens),
            tokens(figures.output_tokens),
        );
        texts.push(format!(
            "{} ({load}, {prompt} → {output} tokens)",
            run.label
        ));
    }
    match texts.is_empty() {
        true => "no load test".to_owned(),
        false => texts.join(", "),
    }
}

fn change(
    (run, before): (&Run, &Figures),
    (other, after): (&Run, &Figures),
    least: Ratio,
) -> Change {
    let figures = Pair { before, after };
    let mut percentiles = Vec::new();
    for measure in Measure::ALL {
        let dists = Pair::of(&figures, |figures| figures.dist(measure));
        let numbers = Pair::of(&dists, |dist| {
            let samples = dist.samples.iter();
            samples.map(|time| time.0).collect::<Vec<f64>>()
        });
        for (index, percent) in PERCENTILES.into_iter().enumerate() {
            let share = percent / 100.0;
            let of_samples = percentile_ratio(&numbers.before, &numbers.after, share, CONFIDENCE);
            let time = Pair::of(&dists, |dist| dist.spread.percentiles[index]);
            let (Some(before), Some(after)) = (time.before, time.after) else {
                continue;
            };
            if !before.is_positive() {
                continue;
            }
            let ratio = Ratio(after / before);
            let interval = of_samples.and_then(|(_, interval)| interval);
            percentiles.push(Percentile {
                measure,
                percent,
                samples: Pair::of(&numbers, Vec::len),
                time: Pair { before, after },
                ratio,
                interval,
                verdict: of_interval(ratio, interval, least),
            });
        }
    }
    Change {
        load: run.load,
        label: Pair {
            before: run.label.clone(),
            after: other.label.clone(),
        },
        request_rate: Pair::of(&figures, |figures| figures.request_rate),
        output_rate: Pair::of(&figures, |figures| figures.output_rate),
        percentiles,
    }
}
