//! Node attribution: what the work in graphs is, by the range that was open at capture, or by the kernel at the same
//! place of a run without graphs.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::eager::{self, EagerKernel, Match};
use super::replays::Replays;
use crate::Context;
use crate::engine::facts::{Captured, OpIndex};
use rooflens_session::{KernelId, Ns, PassId, StrId};

/// How an operation in a graph got its name, or why it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The range that was open at capture.
    Capture(StrId),
    /// The names of the eager kernel, and why there is no range.
    Eager(EagerKernel, Captured),
    /// The graph was aligned, but the kernel has no partner.
    Unmatched(Captured),
    /// Neither.
    Unknown(Captured),
}

impl Origin {
    /// Why there is no range of capture.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Capture(_) => None,
            Self::Eager(_, captured) | Self::Unmatched(captured) | Self::Unknown(captured) => {
                Some(captured.reason())
            }
        }
    }
}

/// Operations and their summed durations, nanoseconds.
pub type Sum = (u64, Ns);

/// Operations in graphs of one pass.
pub struct PassNodes {
    /// Pass.
    pub pass: PassId,
    /// By origin, time descending.
    pub origins: Vec<(Origin, Sum)>,
    /// Kernels of aligned graphs without a partner, by time descending.
    pub unmatched: Vec<(KernelId, Sum)>,
    /// A graph was traced node by node.
    pub by_node: bool,
}

impl PassNodes {
    /// The operations of some origins.
    pub fn sum(&self, counts: impl Fn(&Origin) -> bool) -> Sum {
        let counted = self.origins.iter().filter(|(origin, _)| counts(origin));
        counted.fold((0, Ns::ZERO), |sum, (_, (ops, time))| {
            (sum.0 + ops, sum.1.saturating_add(*time))
        })
    }

    /// All operations.
    pub fn all(&self) -> Sum {
        self.sum(|_| true)
    }

    /// Those with a range at capture.
    pub fn captured(&self) -> Sum {
        self.sum(|origin| matches!(origin, Origin::Capture(_)))
    }

    /// Those with the names of an eager kernel.
    pub fn eager(&self) -> Sum {
        self.sum(|origin| matches!(origin, Origin::Eager(..)))
    }
}

/// What the operations in graphs are, by pass, the primary one first.
pub(super) fn find(context: &Context<'_>, replays: &Replays) -> Vec<PassNodes> {
    let matches = eager::find(context, replays);
    let (session, ops) = (context.session, &context.facts.ops);
    let mut sums: FxHashMap<(PassId, Origin), Sum> = FxHashMap::default();
    let mut unmatched: FxHashMap<(PassId, KernelId), Sum> = FxHashMap::default();
    for (op, captured) in ops.captured.iter().enumerate() {
        if *captured == Captured::NoGraph {
            continue;
        }
        let origin = match (captured, matches.get(op as OpIndex)) {
            (Captured::Range(range), _) => Origin::Capture(session.ranges.name[range.index()]),
            (other, Some(Match::Eager(kernel))) => Origin::Eager(kernel, *other),
            (other, Some(Match::Unmatched)) => Origin::Unmatched(*other),
            (other, None) => Origin::Unknown(*other),
        };
        let (pass, time) = (ops.pass[op], ops.end[op] - ops.start[op]);
        add_to(sums.entry((pass, origin)).or_default(), time);
        if let Origin::Unmatched(_) = origin
            && let Some(kernel) = context.facts.kernel(session, op as OpIndex)
        {
            add_to(unmatched.entry((pass, kernel)).or_default(), time);
        }
    }
    let mut passes: Vec<PassId> = sums.keys().map(|(pass, _)| *pass).collect();
    let primary = context.facts.primary_pass(session);
    passes.sort_unstable_by_key(|pass| (Some(*pass) != primary, *pass));
    passes.dedup();
    let of = |pass| PassNodes {
        pass,
        origins: largest(&sums, pass),
        unmatched: largest(&unmatched, pass),
        by_node: replays
            .graphs
            .iter()
            .any(|graph| graph.pass == pass && !graph.whole),
    };
    passes.into_iter().map(of).collect()
}

fn add_to(sum: &mut Sum, time: Ns) {
    *sum = (sum.0 + 1, sum.1.saturating_add(time));
}

/// The sums of one pass by time descending.
fn largest<K: Copy + Ord>(sums: &FxHashMap<(PassId, K), Sum>, pass: PassId) -> Vec<(K, Sum)> {
    let of_pass = sums.iter().filter(|((sum_pass, _), _)| *sum_pass == pass);
    let mut rows: Vec<(K, Sum)> = of_pass.map(|((_, key), sum)| (*key, *sum)).collect();
    rows.sort_unstable_by_key(|(key, sum)| (Reverse(sum.1), *key));
    rows
}
