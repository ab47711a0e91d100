//! Why a rank comes last: it computes longer, the same kernels run slower, by their clock or not, or it is idle
//! longer.

use super::Ranks;
use super::lines::{Line, label};
use super::speed::Speed;
use crate::analysis::Context;
use crate::analysis::engine::stats::median;

/// A difference below this share of the others' is none.
const DIFFERENCE: f64 = 0.02;

/// The part of the slowdown of equal kernels that a lower clock must account for to be its reason.
const BY_CLOCK: f64 = 0.5;

/// What sets a rank apart from the median of the others, in the stage with the most communication.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    /// Stage; empty for the whole pass.
    pub(super) stage: String,
    /// Computing time of the rank and of the others, nanoseconds.
    pub(super) compute: (f64, f64),
    /// Idle time of the rank and of the others, nanoseconds.
    pub(super) idle: (f64, f64),
    pub(super) reason: Reason,
}

/// The largest difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reason {
    /// It computes longer, in other kernels or grids, or in more of them.
    MoreWork,
    /// The same kernels take this many times as long as on the rank that computes shortest.
    SlowerKernels(f64),
    /// So they do, and the clock is lower.
    LowerClock(LowerClock),
    /// The host keeps it waiting longer.
    MoreIdle,
    /// Nothing that the artifact shows.
    Unknown,
}

/// A clock that explains slower kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LowerClock {
    /// Time of the kernels ÷ that on the rank that computes shortest.
    pub(super) slowdown: f64,
    /// Mean SM clock in hertz of this rank and of that one.
    pub(super) clocks: (f64, f64),
    /// The part of the slowdown that is as much as the clock is lower.
    pub(super) share: f64,
    /// What lowered the clock most often, and in what share of the samples.
    pub(super) limit: Option<(&'static str, f64)>,
}

/// Compares a member with the others.
pub(super) fn of(context: &Context<'_>, ranks: &Ranks, member: usize) -> Option<Cause> {
    let stage = main_stage(context, ranks);
    let same: Vec<&Line> =
        ranks.lines.iter().filter(|line| label(context, line) == stage).collect();
    let own = same.iter().find(|line| line.member == member)?;
    let others = |value: &dyn Fn(&Line) -> f64| {
        let values: Vec<f64> =
            same.iter().filter(|line| line.member != member).map(|line| value(line)).collect();
        median(&values)
    };
    let compute = (own.compute, others(&|line| line.compute)?);
    let idle = (own.idle, others(&|line| line.idle)?);
    let (longer, waits) = (compute.0 - compute.1, idle.0 - idle.1);
    let reason = if longer >= waits && longer > DIFFERENCE * compute.1 {
        of_equal_work(&own.speed)
    } else if waits > DIFFERENCE * own.time {
        Reason::MoreIdle
    } else {
        Reason::Unknown
    };
    Some(Cause { stage: stage.to_owned(), compute, idle, reason })
}

/// The outermost stage whose ranks communicate longest; the whole pass where no stage does.
fn main_stage<'a>(context: &'a Context<'_>, ranks: &Ranks) -> &'a str {
    let outermost = |stage: usize| context.facts.stages[stage].parent.is_none();
    let stages =
        ranks.lines.iter().filter(|line| line.stage.is_some_and(outermost) && line.sum.calls > 0);
    let longest =
        stages.max_by_key(|line| (line.sum.parts.communication, std::cmp::Reverse(line.stage)));
    longest.map_or("", |line| label(context, line))
}

/// Why a rank computes longer: the same kernels are slower, or else there is more work.
fn of_equal_work(speed: &Speed) -> Reason {
    let Some(slowdown) = speed.slowdown.filter(|slowdown| *slowdown > 1.0 + DIFFERENCE) else {
        return Reason::MoreWork;
    };
    let by_clock = || {
        let (clock, share) = (speed.clock?, speed.by_clock()?);
        let clocks = (clock, clock * speed.clock_ratio?);
        Some(LowerClock { slowdown, clocks, share, limit: speed.limit })
    };
    by_clock()
        .filter(|found| found.share >= BY_CLOCK)
        .map_or(Reason::SlowerKernels(slowdown), Reason::LowerClock)
}
