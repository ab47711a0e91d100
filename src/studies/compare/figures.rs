//! Comparison of records: stage times and metrics without the tables behind them.
//!
//! A `metrics.json` or a stored baseline holds figures and not the captures. Stages' times and metrics are compared; where
//! the time went, kernels, findings and settings are not in the file.

use rooflens_schemas::Unit;
use rooflens_stats::median;
use rooflens_units::Ratio;

use crate::Pair;
use crate::record::{Record, Values};
use crate::times::{self, StageChange};

/// A change by which a number differs from the same number in a file of fewer digits.
const DIGITS: f64 = 1e-9;

/// What differs between two records.
pub struct Comparison<'a> {
    /// Both records.
    pub records: Pair<&'a Record>,
    /// The factor from which on a stage counts as faster or slower.
    pub least: Ratio,
    /// Stage times.
    pub times: Vec<StageChange>,
    /// Metrics of both, the largest change first.
    pub metrics: Vec<Change>,
    /// Stages and metrics of each that are not compared, because the other one does not have them.
    pub alone: Pair<usize>,
}

/// A metric in both records.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its id.
    pub id: String,
    /// Its stage; absent for whole captures.
    pub stage: Option<String>,
    /// Unit of the values.
    pub unit: Unit,
    /// Values of a side.
    pub samples: Pair<usize>,
    /// Their medians.
    pub median: Pair<f64>,
}

impl Change {
    /// After ÷ before; absent where one of them is 0, or their signs differ.
    pub fn ratio(&self) -> Option<Ratio> {
        let Pair { before, after } = self.median;
        (before * after > 0.0).then(|| Ratio(after / before))
    }

    /// Whether the values differ by more than the digits of a file.
    pub fn is_changed(&self) -> bool {
        self.size() > 1.0 + DIGITS
    }

    /// How many times the smaller value the larger one is; infinite for a value next to none.
    fn size(&self) -> f64 {
        match self.ratio() {
            Some(ratio) => ratio.0.max(1.0 / ratio.0),
            None if self.median.before == self.median.after => 1.0,
            None => f64::INFINITY,
        }
    }
}

/// Compares the figures of both records.
pub fn compare(records: Pair<&Record>, least: Ratio) -> Comparison<'_> {
    let times = times::changes(Pair::of(&records, |record| &record.stages[..]), least);
    let mut metrics = Vec::new();
    for before in &records.before.metrics {
        let is_same = |after: &&Values| (&after.id, &after.stage) == (&before.id, &before.stage);
        if let Some(after) = records.after.metrics.iter().find(is_same) {
            metrics.extend(change(before, after));
        }
    }
    let common = times.len() + metrics.len();
    metrics.sort_by(|a: &Change, b| {
        let by_size = b.size().total_cmp(&a.size());
        by_size.then_with(|| (&a.stage, &a.id).cmp(&(&b.stage, &b.id)))
    });
    Comparison {
        alone: Pair::of(&records, |record| {
            (record.stages.len() + record.metrics.len()).saturating_sub(common)
        }),
        records,
        least,
        times,
        metrics,
    }
}

fn change(before: &Values, after: &Values) -> Option<Change> {
    Some(Change {
        id: before.id.clone(),
        stage: before.stage.clone(),
        unit: before.unit,
        samples: Pair {
            before: before.values.len(),
            after: after.values.len(),
        },
        median: Pair {
            before: median(&before.values)?,
            after: median(&after.values)?,
        },
    })
}
