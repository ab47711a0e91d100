//! Communication: collectives, how much of them is exposed, and which rank the others wait for.
//!
//! A collective is long on every rank but the last, because the others wait for it in the kernel. Kernel time alone
//! therefore shows neither the slow rank nor the speed of the link.
//!
//! The same collective is matched across ranks first. The transfer is the duration on the last rank to arrive, and the
//! rest of the others' durations is waiting. A cause is named only if work, clocks or idle time of the rank support it;
//! otherwise the cause stays unknown.

pub mod calls;
pub mod lines;
pub mod matching;
pub mod messages;
pub mod operation;
pub mod speed;
pub mod straggler;
pub mod sums;
#[cfg(test)]
mod tests;
pub mod waits;
pub mod work;

use rustc_hash::FxHashMap;

use crate::engine::facts::OpIndex;
use crate::engine::stage_stats::Summary;
use crate::{Context, Known};
use rooflens_session::{Ns, PassId};

use calls::{Call, Run};
use lines::RankTimes;
use matching::Matching;
use messages::Pair;
use straggler::{Imbalance, Straggler};
use sums::{Kind, Traffic};
use waits::Wait;

/// Communication of all runs.
#[derive(Default)]
pub struct Communication {
    /// Runs with collectives, that of the primary pass first.
    pub runs: Vec<Ranks>,
}

/// The ranks of one run, and how they meet.
#[derive(Default)]
pub struct Ranks {
    /// The ranks with their collectives.
    pub run: Run,
    /// The collectives that were found on several ranks.
    pub matching: Matching,
    /// Of matched collectives, by operation.
    pub waits: FxHashMap<OpIndex, Wait>,
    /// The whole pass, then the stages, each by rank.
    pub lines: Vec<RankTimes>,
    /// By member: collectives in which it came last.
    pub last: Vec<u64>,
    /// Kinds of collectives by (member, time descending).
    pub kinds: Vec<Kind>,
    /// Bus traffic by (member, operation).
    pub traffic: Vec<Traffic>,
    /// Messages from rank to rank.
    pub messages: Vec<(messages::Key, Pair)>,
    /// Computing times of the stages that several ranks run, in the order of the lines.
    pub imbalances: Vec<Imbalance>,
    /// The rank that comes last again and again.
    pub straggler: Option<Straggler>,
}

/// Matches the collectives of all ranks; never missing, but empty without collectives.
pub fn compute(context: &Context<'_>) -> Known<Communication> {
    let primary = context.facts.primary_pass(context.session);
    let measured = measured(context);
    let runs = calls::runs(context).into_iter();
    let mut runs: Vec<Ranks> = runs.map(|run| Ranks::of(context, run, &measured)).collect();
    runs.sort_by_key(|ranks| {
        !ranks
            .run
            .members
            .iter()
            .any(|member| Some(member.pass) == primary)
    });
    Ok(Communication { runs })
}

/// Whether an operation counts: it is in a measured iteration of its stage, or in no stage.
fn measured(context: &Context<'_>) -> Vec<bool> {
    let facts = context.facts;
    let mut measured = vec![true; facts.ops.len()];
    let excluded = facts
        .instances
        .iter()
        .filter(|instance| instance.excluded.is_some());
    for op in excluded.flat_map(|instance| &instance.ops) {
        measured[*op as usize] = false;
    }
    measured
}

impl Communication {
    /// What a stage's process communicates in it; of several GPUs the first.
    pub fn of_stage(&self, summary: &Summary) -> Option<&RankTimes> {
        let is_same = |ranks: &Ranks, line: &RankTimes| {
            line.stage == Some(summary.stage)
                && ranks.run.members[line.member].process == summary.process
        };
        self.runs
            .iter()
            .find_map(|ranks| ranks.lines.iter().find(|line| is_same(ranks, line)))
    }

    /// For each collective of a pass that waited: the operation of the rank that came last in it.
    pub fn last_ranks(&self, pass: PassId) -> FxHashMap<OpIndex, OpIndex> {
        let is_own = |ranks: &&Ranks| ranks.run.members.iter().all(|member| member.pass == pass);
        self.runs
            .iter()
            .filter(is_own)
            .flat_map(Ranks::last_ranks)
            .collect()
    }
}

impl Ranks {
    fn of(context: &Context<'_>, run: Run, measured: &[bool]) -> Self {
        let matching = matching::find(&run);
        let waits = waits::by_op(&run, &matching);
        let lines = lines::lines(context, &run, &waits);
        let mut ranks = Self {
            last: waits::last_arrivals(&run, &matching, |call| measured[call.op as usize]),
            kinds: sums::by_kind(&run, &waits),
            traffic: sums::traffic(&run, &waits),
            messages: messages::by_pair(&run, &matching),
            imbalances: straggler::imbalances(context, &run, &lines),
            straggler: None,
            run,
            matching,
            waits,
            lines,
        };
        ranks.straggler = straggler::find(context, &ranks);
        ranks
    }

    fn last_ranks(&self) -> Vec<(OpIndex, OpIndex)> {
        let mut last = Vec::new();
        for matched in &self.matching.matches {
            let calls = || {
                matched
                    .iter()
                    .map(|(member, call)| &self.run.members[*member].calls[*call])
            };
            let wait = |call: &Call| self.waits.get(&call.op).map_or(Ns::ZERO, |wait| wait.wait);
            let Some(latest) = calls().min_by_key(|call| (wait(call), call.op)) else {
                continue;
            };
            // Ends of a message that need not wait for each other go their own ways.
            let together = |call: &&Call| !call.operation.is_message() || wait(call) > Ns::ZERO;
            let earlier = calls().filter(|call| call.op != latest.op).filter(together);
            last.extend(earlier.map(|call| (call.op, latest.op)));
        }
        last
    }
}
