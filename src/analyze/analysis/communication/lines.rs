//! What each rank does in each stage: computing, communicating, waiting, idle.

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Scope};
use rustc_hash::FxHashMap;

use super::calls::{Member, Run};
use super::speed::{self, Speed};
use super::waits::Wait;
use crate::Context;
use crate::engine::facts::{OpIndex, StageInstance};
use crate::engine::stage_stats::{median_time, summaries};
use crate::engine::stages::WHOLE_CAPTURE;
use crate::engine::tiers::{GpuTiers, Parts, by_gpu, parts};
use rooflens_session::{Arrange, GpuId, Ns, PassId, Session};
use rooflens_units::Time;

/// The tiers of each GPU of a pass.
type PassTiers = BTreeMap<GpuId, GpuTiers>;

/// One rank in one stage, or in the whole pass: medians over measured iterations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankTimes {
    /// Member of the run.
    pub member: usize,
    /// Its rank.
    pub rank: u32,
    /// Its pass.
    pub pass: PassId,
    /// Stage, an index into the facts' stages; none for the whole pass.
    pub stage: Option<usize>,
    /// Measured iterations.
    pub instances: usize,
    /// First start to last end of the operations.
    pub time: Time,
    /// Union of computing kernels.
    pub compute: Time,
    /// Union of collectives.
    pub communication: Time,
    /// The part of it in which no kernel of the GPU computes.
    pub exposed: Time,
    /// No operation runs.
    pub idle: Time,
    /// Sum over matched collectives beyond the transfer; absent where none is matched.
    pub wait: Option<Time>,
    /// Sum over matched collectives of the time on the last rank to come.
    pub transfer: Option<Time>,
    /// Sums over the instances, for shares that add up.
    pub sum: Sum,
    /// How fast its GPU was.
    pub speed: Speed,
}

/// Sums over instances, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// First start to last end of the operations.
    pub time: Ns,
    /// What runs.
    pub parts: Parts,
    /// Waits in matched collectives.
    pub wait: Ns,
    /// Transfers of matched collectives.
    pub transfer: Ns,
    /// Collectives.
    pub calls: u64,
    /// Those of them that were matched.
    pub matched: u64,
}

/// The lines of a run: the whole pass, then the stages, each by rank. Lines without collectives are excluded,
/// unless other ranks have some in that stage.
pub(super) fn lines(
    context: &Context<'_>,
    run: &Run,
    waits: &FxHashMap<OpIndex, Wait>,
) -> Vec<RankTimes> {
    let mut lines = Vec::new();
    let mut tiers: BTreeMap<PassId, PassTiers> = BTreeMap::new();
    for (index, member) in run.members.iter().enumerate() {
        let make = || by_gpu(context.session, context.facts, member.pass);
        let tiers = tiers.entry(member.pass).or_insert_with(make);
        lines.extend(member_lines(
            index,
            &Measure {
                context,
                member,
                tiers,
                waits,
            },
        ));
    }
    let talks = |line: &RankTimes| {
        let same =
            |candidate: &&RankTimes| candidate.stage_name(context) == line.stage_name(context);
        lines
            .iter()
            .filter(same)
            .any(|candidate| candidate.sum.calls > 0)
    };
    let mut kept: Vec<RankTimes> = lines.iter().filter(|line| talks(line)).cloned().collect();
    kept.arrange_by_key(|line| {
        (
            line.stage.is_some(),
            order(context, run, line),
            line.rank,
            line.member,
        )
    });
    speed::compare(context, run, &mut kept);
    kept
}

/// Stages in the order of the first member's pass.
fn order(context: &Context<'_>, run: &Run, line: &RankTimes) -> usize {
    let (first, name) = (run.members[0].pass, line.stage_name(context));
    let mut stages = context.facts.stages.iter();
    stages
        .position(|stage| stage.pass == first && Some(&*stage.name) == name)
        .unwrap_or(usize::MAX)
}

fn member_lines(index: usize, measure: &Measure<'_>) -> Vec<RankTimes> {
    let (facts, member) = (measure.context.facts, measure.member);
    let whole = measure.sum(&mut facts.ops_of(member.pass).map(|op| op as OpIndex));
    let mut lines = vec![line(index, member, None, &[whole])];
    for summary in summaries(facts, member.pass) {
        // The whole capture as a stage is the whole pass again.
        let whole = summary.stage(facts).name == WHOLE_CAPTURE;
        if summary.process != member.process || whole {
            continue;
        }
        let counts = |instance: &&StageInstance| {
            instance.process == member.process && instance.excluded.is_none()
        };
        let sums: Vec<Sum> = facts
            .instances_of(summary.stage(facts))
            .iter()
            .filter(counts)
            .map(|instance| measure.sum(&mut instance.ops.iter().copied()))
            .collect();
        lines.push(line(index, member, Some(summary.stage), &sums));
    }
    lines
}

struct Measure<'a> {
    context: &'a Context<'a>,
    member: &'a Member,
    tiers: &'a PassTiers,
    waits: &'a FxHashMap<OpIndex, Wait>,
}

impl Measure<'_> {
    /// Sums over those of the operations that are the member's.
    fn sum(&self, ops: &mut dyn Iterator<Item = OpIndex>) -> Sum {
        let (session, facts) = (self.context.session, self.context.facts);
        let columns = &facts.ops;
        let member_ops: Vec<OpIndex> = ops
            .filter(|op| {
                let op = *op as usize;
                columns.gpu[op] == self.member.gpu && columns.process[op] == self.member.process
            })
            .collect();
        let start = member_ops
            .iter()
            .map(|op| columns.start[*op as usize])
            .min()
            .unwrap_or(Ns::ZERO);
        let end = member_ops
            .iter()
            .map(|op| columns.end[*op as usize])
            .max()
            .unwrap_or(Ns::ZERO);
        let parts = parts(session, facts, self.tiers, member_ops.iter().copied());
        let mut sum = Sum {
            time: end - start,
            parts,
            ..Sum::default()
        };
        let calls = &self.member.calls;
        for op in member_ops {
            let position = calls.partition_point(|call| call.op < op);
            if calls.get(position).is_none_or(|call| call.op != op) {
                continue;
            }
            sum.calls += 1;
            if let Some(wait) = self.waits.get(&op) {
                sum.matched += 1;
                sum.wait = sum.wait.saturating_add(wait.wait);
                sum.transfer = sum.transfer.saturating_add(wait.transfer);
            }
        }
        sum
    }
}

fn line(index: usize, member: &Member, stage: Option<usize>, sums: &[Sum]) -> RankTimes {
    let middle =
        |value: &dyn Fn(&Sum) -> Ns| median_time(sums.iter().map(value)).unwrap_or_default();
    let mut sum = Sum::default();
    for part in sums {
        sum.add(part);
    }
    let matched = |value: Time| (sum.matched > 0).then_some(value);
    RankTimes {
        member: index,
        rank: member.rank,
        pass: member.pass,
        stage,
        instances: sums.len(),
        time: middle(&|sum| sum.time),
        compute: middle(&|sum| sum.parts.compute),
        communication: middle(&|sum| sum.parts.communication),
        exposed: middle(&|sum| sum.parts.communication_exposed),
        idle: middle(&|sum| sum.time - sum.parts.busy),
        wait: matched(middle(&|sum| sum.wait)),
        transfer: matched(middle(&|sum| sum.transfer)),
        sum,
        speed: Speed::default(),
    }
}

impl Sum {
    fn add(&mut self, other: &Self) {
        let (parts, its) = (&mut self.parts, &other.parts);
        for (own, more) in [
            (&mut self.time, other.time),
            (&mut self.wait, other.wait),
            (&mut self.transfer, other.transfer),
            (&mut parts.compute, its.compute),
            (&mut parts.communication, its.communication),
            (&mut parts.communication_exposed, its.communication_exposed),
            (&mut parts.copy, its.copy),
            (&mut parts.copy_exposed, its.copy_exposed),
            (&mut parts.busy, its.busy),
        ] {
            *own = own.saturating_add(more);
        }
        self.calls += other.calls;
        self.matched += other.matched;
    }
}

impl RankTimes {
    /// Name of the stage; none for the whole pass.
    pub fn stage_name<'a>(&self, context: &Context<'a>) -> Option<&'a str> {
        self.stage.map(|stage| &*context.facts.stages[stage].name)
    }

    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        session.evidence(self.pass, "launches", self.sum.calls)
    }

    /// What its metrics are about.
    pub fn scope(&self, context: &Context<'_>) -> Scope {
        Scope {
            pass: Some(context.session.pass_name(self.pass).to_owned()),
            stage: self.stage_name(context).map(str::to_owned),
            rank: Some(self.rank),
            ..Scope::default()
        }
    }
}
