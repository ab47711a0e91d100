//! Records of captures: the figures that a gate compares, small enough to keep in a repository.

use std::collections::BTreeMap;

use rooflens_schemas::{Metric, MetricValue, Unit};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Side;
use crate::conditions::{self, Subject};
use crate::times::{self, StageTimes};

/// The version of the format.
pub const VERSION: u32 = 1;

/// Bytes of the hash in a key.
const HASH_BYTES: usize = 6;

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
    /// Its stage; absent for whole captures.
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
    pub fn new(side: &Side<'_>, bundles: Vec<String>, metrics: &[Vec<Metric>]) -> Self {
        let names = side
            .sessions()
            .find_map(|session| session.workload.name.clone());
        let mut conditions = conditions::fields(side.sessions());
        for subject in [Subject::Gpu, Subject::Gpus] {
            let value = conditions::value(side, subject);
            if !value.is_empty() {
                conditions.insert(subject.label().to_owned(), value);
            }
        }
        let mut values: Vec<Values> = Vec::new();
        for metric in metrics.iter().flatten() {
            add(&mut values, metric);
        }
        Self {
            rooflens_baseline: VERSION,
            name: names.unwrap_or_else(|| side.name.clone()),
            bundles,
            conditions,
            stages: times::stages(side),
            metrics: values,
            accepted: Vec::new(),
        }
    }

    /// The workload: equal for records that can be compared. Twelve hexadecimal digits of the SHA-256 of the conditions.
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        for (name, value) in &self.conditions {
            hash.update(format!("{name}={value}\n"));
        }
        let bytes = hash.finalize();
        let digits = bytes.iter().take(HASH_BYTES);
        digits.map(|byte| format!("{byte:02x}")).collect()
    }

    /// The conditions that both records state, and differently: name and both values.
    pub fn differing<'r>(
        &'r self,
        other: &'r Self,
    ) -> impl Iterator<Item = (&'r str, &'r str, &'r str)> {
        let conditions = self.conditions.iter();
        conditions.filter_map(|(name, value)| {
            let other = other.conditions.get(name)?;
            (other != value).then_some((name.as_str(), value.as_str(), other.as_str()))
        })
    }
}

/// Adds a metric of a whole capture or of a stage; others differ in more than a limit can name.
fn add(values: &mut Vec<Values>, metric: &Metric) {
    let scope = &metric.scope;
    let is_whole = scope.gpu.is_none() && scope.rank.is_none() && scope.class.is_none();
    let (MetricValue::Measured { value } | MetricValue::Derived { value }) = metric.value else {
        return;
    };
    if !is_whole || !value.is_finite() {
        return;
    }
    let is_same = |known: &&mut Values| known.id == metric.id && known.stage == scope.stage;
    match values.iter_mut().find(is_same) {
        Some(known) => known.values.push(value),
        None => values.push(Values {
            id: metric.id.clone(),
            stage: scope.stage.clone(),
            unit: metric.unit,
            values: vec![value],
        }),
    }
}
