//! Records of captures: the figures that a gate compares, small enough to keep in a repository.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_analysis::engine::stage_stats::named_by_rank;
use rooflens_document::catalogue::{CAPTURED_TIME, STAGE_TIME, TIME_PER_STEP};
use rooflens_schemas::{Metric, MetricValue, MetricsFile, Scope, Unit};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::conditions::Subject;
use crate::times::{self, StageTimes};
use crate::{Side, load_tests};

/// The version of the format.
pub const VERSION: u32 = 1;

/// Hexadecimal digits of a key.
pub const KEY_LENGTH: usize = 12;

/// Figures of captures of one condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`VERSION`].
    pub rooflens_baseline: u32,
    /// Name of the workload, or of the captures.
    pub name: String,
    /// Identities of the bundles.
    pub bundles: Vec<String>,
    /// What must be equal for a comparison: `gpu`, `gpu-count`, and the fields of the workload description.
    pub conditions: BTreeMap<String, String>,
    /// Times of stages.
    pub stages: Vec<StageTimes>,
    /// Metrics of the whole captures and of stages.
    pub metrics: Vec<Values>,
    /// Mean tokens of prompts and of answers by load, of load tests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lengths: BTreeMap<String, [Option<f64>; 2]>,
    /// Why it replaced another one, the last reason last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Acceptance>,
}

/// A metric of all captures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Values {
    /// Its id in `metrics.json`.
    pub id: String,
    /// Its stage, or the load of a test and a percentile; absent for whole captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Unit of the values.
    pub unit: Unit,
    /// One value a capture that has it.
    pub values: Vec<f64>,
}

/// A record that replaced another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// Why.
    pub reason: String,
    /// The bundles of the record that was replaced.
    pub replaced: Vec<String>,
}

impl Record {
    /// The record of a side; each capture with its identity and its metrics.
    pub fn new(side: Side, bundles: Vec<String>, metrics: &[Vec<Metric>]) -> Self {
        let stated = side.stated;
        let mut conditions = stated.fields();
        for subject in [Subject::Gpu, Subject::Gpus] {
            let value = stated.value(subject);
            if !value.is_empty() {
                conditions.insert(subject.label().to_owned(), value);
            }
        }
        let mut values: Vec<Values> = Vec::new();
        for metrics in metrics {
            add(&mut values, metrics);
        }
        Self {
            rooflens_baseline: VERSION,
            name: stated.workload.unwrap_or(side.name),
            bundles,
            conditions,
            stages: side.times,
            metrics: values,
            lengths: BTreeMap::new(),
            accepted: Vec::new(),
        }
    }

    /// The record of a `metrics.json`: one value of each figure. It states neither the GPU nor the workload.
    pub fn of_metrics(file: &MetricsFile<'_>) -> Self {
        let mut metrics = Vec::new();
        add(&mut metrics, &file.metrics);
        Self {
            rooflens_baseline: VERSION,
            name: file.bundle.clone(),
            stages: stage_times(&file.metrics),
            metrics,
            ..Self::default()
        }
    }

    /// Adds the values of a repeat of the same run.
    pub fn add(&mut self, repeat: Self) {
        self.name = format!("{} + {}", self.name, repeat.name);
        self.bundles.extend(repeat.bundles);
        for (name, value) in repeat.conditions {
            self.conditions.entry(name).or_insert(value);
        }
        for stage in repeat.stages {
            times::add(&mut self.stages, stage);
        }
        for (load, lengths) in repeat.lengths {
            self.lengths.entry(load).or_insert(lengths);
        }
        for metric in repeat.metrics {
            self.add_values(metric);
        }
    }

    /// Adds values of a metric.
    pub(crate) fn add_values(&mut self, metric: Values) {
        let mut known = self.metrics.iter_mut();
        match known.find(|known| (&known.id, &known.stage) == (&metric.id, &metric.stage)) {
            Some(known) => known.values.extend(metric.values),
            None => self.metrics.push(metric),
        }
    }

    /// The workload: equal for records that can be compared. Twelve hexadecimal digits of the SHA-256 of the conditions.
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        for (name, value) in &self.conditions {
            hash.update(format!("{name}={value}\n"));
        }
        let bytes = hash.finalize();
        let digits = bytes.iter().take(KEY_LENGTH / 2);
        digits.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether it has neither a stage time nor a metric.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty() && self.metrics.is_empty()
    }

    /// The conditions that both records state, and differently: name and both values. Lengths of the requests of one load
    /// are conditions, too.
    pub fn differing(&self, other: &Self) -> Vec<[String; 3]> {
        let mut differing = Vec::new();
        for (name, value) in &self.conditions {
            if let Some(other) = other.conditions.get(name).filter(|other| *other != value) {
                differing.push([name.clone(), value.clone(), other.clone()]);
            }
        }
        for (load, lengths) in &self.lengths {
            let other = other.lengths.get(load).copied().unwrap_or_default();
            if !load_tests::are_equal_lengths(*lengths, other) {
                let name = format!("mean tokens of prompts and answers at {load}");
                differing.push([name, in_words(*lengths), in_words(other)]);
            }
        }
        differing
    }
}

/// Mean tokens of prompts and of answers.
fn in_words(lengths: [Option<f64>; 2]) -> String {
    let word = |length: Option<f64>| length.map_or("?".to_owned(), |length| format!("{length:.1}"));
    lengths.map(word).join(" and ")
}

/// Adds the metrics of a capture that are of all of it or of a stage; others differ in more than a limit can name.
///
/// A capture has one value of a figure. Where several passes state it, that of the pass whose time is accounted for counts.
fn add(values: &mut Vec<Values>, metrics: &[Metric]) {
    let passes = accounted_passes(metrics);
    let is_of_run = |metric: &Metric| passes.contains(&metric.scope.pass);
    let mut chosen: BTreeMap<(&str, Option<&str>), &Metric> = BTreeMap::new();
    for metric in metrics {
        let Scope {
            stage,
            gpu,
            rank,
            class,
            ..
        } = &metric.scope;
        if gpu.is_some() || rank.is_some() || class.is_some() || number(metric).is_none() {
            continue;
        }
        let key = (metric.id.as_str(), stage.as_deref());
        let known = chosen.entry(key).or_insert(metric);
        if is_of_run(metric) && !is_of_run(known) {
            *known = metric;
        }
    }
    for ((id, stage), metric) in chosen {
        let is_same = |known: &&mut Values| known.id == id && known.stage.as_deref() == stage;
        let value = number(metric);
        match values.iter_mut().find(is_same) {
            Some(known) => known.values.extend(value),
            None => values.push(Values {
                id: id.to_owned(),
                stage: stage.map(str::to_owned),
                unit: metric.unit,
                values: value.into_iter().collect(),
            }),
        }
    }
}

/// The number of a metric that is measured or derived.
fn number(metric: &Metric) -> Option<f64> {
    match metric.value {
        MetricValue::Measured { value } | MetricValue::Derived { value } => {
            value.is_finite().then_some(value)
        }
        _ => None,
    }
}

/// The passes whose time is accounted for: stage times of other passes are of other runs.
fn accounted_passes(metrics: &[Metric]) -> BTreeSet<&Option<String>> {
    let accounted = metrics
        .iter()
        .filter(|metric| metric.id == CAPTURED_TIME.id);
    accounted.map(|metric| &metric.scope.pass).collect()
}

/// Stage times: a measured one is the median of unprofiled repeats, a derived one that of the timeline's iterations.
/// Times of iterations and of their steps are figures of their own.
fn stage_times(metrics: &[Metric]) -> Vec<StageTimes> {
    let mut stages = Vec::new();
    let passes = accounted_passes(metrics);
    for metric in metrics {
        let per_step = metric.id == TIME_PER_STEP.id;
        let scope = &metric.scope;
        let (Some(stage), None, None) = (&scope.stage, scope.gpu, &scope.class) else {
            continue;
        };
        if !per_step && metric.id != STAGE_TIME.id {
            continue;
        }
        let times: Vec<f64> = number(metric).into_iter().collect();
        let (unprofiled, profiled) = match metric.value {
            MetricValue::Measured { .. } => (times, Vec::new()),
            MetricValue::Derived { .. } if passes.contains(&scope.pass) => (Vec::new(), times),
            _ => continue,
        };
        let times = StageTimes {
            name: named_by_rank(stage, scope.rank),
            per_step,
            unprofiled,
            profiled,
        };
        times::add(&mut stages, times);
    }
    stages
}
