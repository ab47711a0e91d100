//! How much GPU time is attributed to ranges, how, and how much is not.

use crate::Context;
use crate::engine::facts::Attribution;
use rooflens_session::{Ns, PassId};
use rooflens_units::{Ratio, Time};

/// Share of GPU time from the first stage on, outside of all stages, from which on a report warns.
pub const UNATTRIBUTED: Ratio = Ratio(0.10);

rooflens_stages::labels! {
    /// How an operation was attributed to a range.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum How {
        /// A range of the issuing thread.
        OwnThread,
        /// The range of the one other thread that has one open.
        Inferred,
        /// To none: no thread has one open.
        Outside,
        /// To none: several other threads have one open.
        Ambiguous,
        /// To none: the issuing call is unknown.
        NoApiCall,
    }
}

impl How {
    const fn of(attribution: Attribution) -> Self {
        match attribution {
            Attribution::Own(_) => Self::OwnThread,
            Attribution::Inferred(_) => Self::Inferred,
            Attribution::Outside => Self::Outside,
            Attribution::Ambiguous => Self::Ambiguous,
            Attribution::NoApiCall => Self::NoApiCall,
        }
    }
}

/// Operations and their summed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Operations.
    pub operations: u64,
    /// Sum of their durations.
    pub time: Ns,
}

/// Attribution in one pass.
#[derive(Default)]
pub struct PassAttribution {
    /// Pass.
    pub pass: PassId,
    /// Operations by how they were attributed, as far as there are some.
    pub by_how: Vec<(How, Sum)>,
    /// Share of the summed operation time that lies in some stage.
    pub staged: Ratio,
    /// The same without the start-up before the first operation of a stage.
    pub staged_from_first: Ratio,
}

impl PassAttribution {
    /// Share of the summed operation time from the first stage on that lies in no stage.
    pub fn unattributed(&self) -> Ratio {
        self.staged_from_first.rest()
    }

    /// Sum of the durations of all operations.
    pub fn time(&self) -> Ns {
        self.by_how
            .iter()
            .fold(Ns::ZERO, |time: Ns, (_, sum)| time.saturating_add(sum.time))
    }
}

/// The attribution in a pass; none without operations.
pub(super) fn of_pass(context: &Context<'_>, pass: PassId) -> Option<PassAttribution> {
    let (facts, ops) = (context.facts, &context.facts.ops);
    let pass_ops = facts.ops_of(pass);
    let duration = |op: usize| ops.end[op] - ops.start[op];
    let mut sums = [Sum::default(); How::ALL.len()];
    for op in pass_ops.clone() {
        let sum = &mut sums[How::of(ops.range[op]) as usize];
        sum.operations += 1;
        sum.time = sum.time.saturating_add(duration(op));
    }
    let by_how = How::ALL
        .into_iter()
        .zip(sums)
        .filter(|(_, sum)| sum.operations > 0)
        .collect();
    let mut staged = vec![false; ops.len()];
    for stage in facts.stages.iter().filter(|stage| stage.pass == pass) {
        for op in facts
            .instances_of(stage)
            .iter()
            .flat_map(|instance| &instance.ops)
        {
            staged[*op as usize] = true;
        }
    }
    let first = pass_ops
        .clone()
        .find(|op| staged[*op])
        .unwrap_or(pass_ops.end);
    let time = |rows: std::ops::Range<usize>| rows.map(|op| duration(op).time()).sum::<Time>();
    let inside: Time = (first..pass_ops.end)
        .filter(|op| staged[*op])
        .map(|op| duration(op).time())
        .sum();
    let share = |whole: Time| match whole.is_positive() {
        true => Ratio(inside / whole),
        false => Ratio::ZERO,
    };
    (!pass_ops.is_empty()).then(|| PassAttribution {
        pass,
        by_how,
        staged: share(time(pass_ops.clone())),
        staged_from_first: share(time(first..pass_ops.end)),
    })
}
