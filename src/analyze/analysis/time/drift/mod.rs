//! Drift: how the time of repeated stages changes over the run.

mod series;
#[cfg(test)]
mod tests;
mod trend;

use rooflens_schemas::{Evidence, Scope};

use crate::engine::facts::Sizes;
use crate::engine::intervals::total;
use crate::engine::stage_stats::Summary;
use crate::{Context, Known};
use rooflens_session::{Ns, PassId, StrId};
use rooflens_units::{Ratio, Time};

pub use trend::{Trend, grouped};

/// Instances that a sequence needs to be one.
pub const LEAST: usize = 4;
/// Instances that a trend needs.
pub const LEAST_FOR_TREND: usize = 8;

/// From this many standard deviations on the balance of rising and falling pairs is a trend (p < 0.01).
pub const TREND_Z: f64 = 2.58;

/// The sequences of all passes.
pub struct Drift {
    /// Those of stages in their order, then other ranges; the primary pass first.
    pub series: Vec<Series>,
}

/// The instances of a stage in one process, or of a range on one thread, with what they amount to.
pub struct Series {
    /// Pass.
    pub pass: PassId,
    /// What repeats.
    pub subject: Subject,
    /// Measured instances, in order of the run.
    pub instances: Vec<Instance>,
    /// Numbers of those excluded.
    pub left_out: Vec<usize>,
    /// Median time.
    pub median: Time,
    /// Places of the instances with the most frequent sizes, which a trend compares: all where sizes are not known.
    pub alike: Vec<usize>,
    /// Trend of these; absent below [`LEAST_FOR_TREND`].
    pub trend: Option<Trend>,
    /// Medians of the first and of the last third.
    pub thirds: Option<(Time, Time)>,
    /// Median of what lies between.
    pub middle: Option<Time>,
    /// Change from the first to the last third, as a share of the first; only where there is a trend to speak of.
    pub drift: Option<Ratio>,
    /// Outliers by modified z-score: places in the list of instances.
    pub outliers: Vec<usize>,
    /// The one change of level that explains a trend better than a line does.
    pub jump: Option<Jump>,
}

/// One change of level within a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jump {
    /// Number of the first instance after it.
    pub number: usize,
    /// Median time before it.
    pub before: Time,
    /// Median time from it on.
    pub after: Time,
    /// Whether it is at least three standard deviations of the times at their level.
    pub is_clear: bool,
}

/// What repeats.
pub enum Subject {
    /// A stage.
    Stage(Summary),
    /// A range of that name in no stage, measured on the host.
    Range(StrId),
}

/// One instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    /// Number in the sequence, from 0; those excluded have numbers too.
    pub number: usize,
    /// Projection on the GPU; of ranges that are no stage the time on the host.
    pub time: Ns,
    /// Time on the host.
    pub host: Ns,
    /// Sizes, where they are known.
    pub sizes: Sizes,
}

/// Whether a sequence changes beyond chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It gets slower.
    Rises,
    /// It gets faster.
    Falls,
    /// Neither.
    Neither,
}

/// Finds the sequences and their trends; never missing, but empty where nothing repeats.
pub fn compute(context: &Context<'_>) -> Known<Drift> {
    let passes = context.facts.primary_first(context.session).into_iter();
    Ok(Drift {
        series: passes
            .flat_map(|pass| series::of_pass(context, pass))
            .collect(),
    })
}

/// The change of a sequence over the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// From the first to the last third, as a share of the first.
    pub drift: Ratio,
    /// Medians of the first and of the last third.
    pub thirds: (Time, Time),
    /// Trend.
    pub trend: Trend,
}

impl Series {
    /// Its change over the run.
    ///
    /// # Errors
    /// Why it has none.
    pub fn change(&self) -> Result<Change, String> {
        let n = self.alike.len();
        let figures = self.trend.zip(self.drift).zip(self.thirds);
        figures
            .map(|((trend, drift), thirds)| Change {
                drift,
                thirds,
                trend,
            })
            .ok_or_else(|| format!("{n} instances count; a trend needs {LEAST_FOR_TREND}"))
    }

    /// What its figures rest on.
    pub fn evidence(&self, context: &Context<'_>) -> Evidence {
        context
            .session
            .evidence(self.pass, "ranges", self.instances.len() as u64)
    }

    /// Sum of the times.
    pub fn total(&self) -> Ns {
        total(self.instances.iter().map(|instance| instance.time))
    }

    /// The longest instance; of several the first.
    pub fn longest(&self) -> Option<&Instance> {
        self.instances
            .iter()
            .max_by_key(|instance| (instance.time, std::cmp::Reverse(instance.number)))
    }

    /// Whether it changes beyond chance, and in one direction over all thirds or by one change of its level; absent without
    /// a trend.
    pub fn direction(&self) -> Option<Direction> {
        let (trend, middle, (first, last)) = (self.trend?, self.middle?, self.thirds?);
        let jump = self.jump.as_ref().filter(|jump| jump.is_clear);
        let is_up = jump.is_some_and(|jump| jump.before < jump.after);
        let is_down = jump.is_some_and(|jump| jump.before > jump.after);
        Some(match trend.z {
            z if z > TREND_Z && (is_up || first <= middle && middle <= last) => Direction::Rises,
            z if z < -TREND_Z && (is_down || first >= middle && middle >= last) => Direction::Falls,
            _ => Direction::Neither,
        })
    }

    /// The stage's name, with the rank where there are several, or the range's.
    pub fn label(&self, context: &Context<'_>) -> String {
        match &self.subject {
            Subject::Stage(summary) => summary.label(context.session, context.facts),
            Subject::Range(name) => format!("{} (host)", context.session.text(*name)),
        }
    }

    /// What its metrics are about; ranges that are no stage have none.
    pub fn scope(&self, context: &Context<'_>) -> Option<Scope> {
        match &self.subject {
            Subject::Stage(summary) => Some(summary.scope(context.session, context.facts)),
            Subject::Range(_) => None,
        }
    }
}
