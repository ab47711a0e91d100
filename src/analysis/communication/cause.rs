//! Why a rank comes last: it computes longer, the same kernels run slower, or it is idle longer.

use std::collections::BTreeMap;

use super::Ranks;
use super::calls::Member;
use super::lines::{Line, label};
use crate::analysis::Context;
use crate::analysis::facts::OpSource;
use crate::analysis::intervals::total;
use crate::analysis::stats::median;
use crate::analysis::tiers::{Tier, tier};
use crate::model::{Dim3, KernelId, Ns};

/// A difference below this share of the others' is none.
const DIFFERENCE: f64 = 0.02;

/// Kernel time that must be in kernels of one name and grid on both ranks for their work to be taken as equal.
/// Persistent kernels have one grid for all sizes, so less proves nothing.
const IN_COMMON: f64 = 0.9;

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
    /// Kernels of the same grid take this many times as long.
    SlowerKernels(f64),
    /// The host keeps it waiting longer.
    MoreIdle,
    /// Nothing that the artifact shows.
    Unknown,
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
        slower_kernels(context, ranks, member).map_or(Reason::MoreWork, Reason::SlowerKernels)
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

/// By how much longer kernels of one name and grid take than on the first other rank, if they do.
fn slower_kernels(context: &Context<'_>, ranks: &Ranks, member: usize) -> Option<f64> {
    let members = &ranks.run.members;
    let other = members.iter().enumerate().find(|(index, _)| *index != member)?.1;
    let (own, other) = (durations(context, &members[member]), durations(context, other));
    let whole = total(own.values().map(|(_, time)| *time));
    let (mut here, mut there, mut common) = (0.0, 0.0, 0 as Ns);
    for (key, (count, time)) in &own {
        if let Some((its_count, its_time)) = other.get(key) {
            common = common.saturating_add(*time);
            here += *time as f64;
            there += *its_time as f64 / *its_count as f64 * *count as f64;
        }
    }
    let ratio = here / there;
    (common as f64 > IN_COMMON * whole as f64 && ratio > 1.0 + DIFFERENCE).then_some(ratio)
}

/// Launches and their time, by kernel and grid.
fn durations(context: &Context<'_>, member: &Member) -> BTreeMap<(KernelId, Dim3), (u64, Ns)> {
    let (session, facts) = (context.session, context.facts);
    let mut sums: BTreeMap<(KernelId, Dim3), (u64, Ns)> = BTreeMap::new();
    for op in facts.ops_of(member.pass) {
        let own = facts.ops.gpu[op] == member.gpu && facts.ops.process[op] == member.process;
        let OpSource::Launch(launch) = facts.ops.source[op] else { continue };
        if own && tier(session, facts, op) == Tier::Compute {
            let row = launch.index();
            let key = (session.launches.kernel[row], session.launches.grid[row]);
            let sum = sums.entry(key).or_default();
            sum.0 += 1;
            sum.1 = sum.1.saturating_add(facts.ops.end[op] - facts.ops.start[op]);
        }
    }
    sums
}
