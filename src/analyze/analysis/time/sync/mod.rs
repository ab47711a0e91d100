//! Synchronization: calls in which the host waits for the GPU, and what that costs the GPU.

pub mod charges;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rooflens_schemas::Evidence;

use crate::engine::facts::StageInstance;
use crate::engine::intervals::add;
use crate::engine::moments::Moments;
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Known};
use rooflens_session::{Ns, PassId, ProcessId, Session, StrId};
use rooflens_stats::median;
use rooflens_units::{Count, Time};

use charges::{Charges, SyncCall, charge};

/// The synchronizing calls of all passes that have some; the primary pass first.
pub struct Synchronization {
    /// By pass.
    pub passes: Vec<PassSync>,
}

/// The synchronizing calls of a pass.
pub struct PassSync {
    /// Pass.
    pub pass: PassId,
    /// The calls, and the idle time that is charged to them.
    pub charges: Charges,
    /// By stage.
    pub stages: Vec<StageSync>,
    /// By place: first those in stages; each by idle time in stages descending, then in all.
    pub places: Vec<Place>,
}

/// Medians over the instances of a stage that count.
pub struct StageSync {
    /// The stage as a process ran it.
    pub summary: Summary,
    /// Instances that count.
    pub instances: usize,
    /// Synchronizing calls that start within the range on the host.
    pub calls: Count,
    /// Σ durations of those calls.
    pub time: Time,
    /// Σ gaps between operations of the GPU that are charged to a synchronizing call.
    pub idle: Time,
}

/// Calls of one function in one place of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The outermost stage, an index into the facts' stages; none: outside of the instances that count.
    pub stage: Option<usize>,
    /// Name of the call.
    pub call: StrId,
    /// The ranges around it, outermost first.
    pub ranges: Vec<StrId>,
    /// The innermost operator around it.
    pub operator: Option<StrId>,
    /// What the calls cost.
    pub sum: Sum,
}

/// What synchronizing calls cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Calls.
    pub count: u64,
    /// Σ durations, nanoseconds.
    pub time: Ns,
    /// Idle time of all GPUs charged to them, nanoseconds.
    pub idle: Ns,
    /// The part of it after the call had returned, nanoseconds.
    pub after: Ns,
    /// The part of it between operations of instances that count, nanoseconds.
    pub in_stage: Ns,
    /// The part of that before the call had returned, nanoseconds.
    pub in_stage_calls: Ns,
}

/// Finds the synchronizing calls and what follows from them; never missing, but empty without such calls.
pub fn compute(context: &Context<'_>) -> Known<Synchronization> {
    let (session, facts) = (context.session, context.facts);
    let primary = facts.primary_pass(session);
    let mut passes: Vec<PassId> = session.passes.ids().collect();
    passes.sort_by_key(|pass| (Some(*pass) != primary, *pass));
    let of_pass = |pass: PassId| {
        let charges = charge(session, facts, pass);
        let stages = summaries(facts, pass).iter();
        (!charges.calls.is_empty()).then(|| PassSync {
            pass,
            stages: stages
                .map(|line| of_stage(context, line, &charges))
                .collect(),
            places: places(session, &charges),
            charges,
        })
    };
    Ok(Synchronization {
        passes: passes.into_iter().filter_map(of_pass).collect(),
    })
}

impl Synchronization {
    /// A stage (an index into the facts' stages) as a process ran it, with its pass.
    pub fn of_stage(&self, stage: usize, process: ProcessId) -> Option<(&PassSync, &StageSync)> {
        let mut stages = self
            .passes
            .iter()
            .flat_map(|pass| pass.stages.iter().map(move |stage_sync| (pass, stage_sync)));
        stages.find(|(_, stage_sync)| {
            (stage_sync.summary.stage, stage_sync.summary.process) == (stage, process)
        })
    }

    /// The calls of a pass, if it has some.
    pub fn of(&self, pass: PassId) -> Option<&PassSync> {
        self.passes.iter().find(|sums| sums.pass == pass)
    }
}

impl PassSync {
    /// What figures of its stages rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        session.evidence(self.pass, "api_calls", self.charges.calls.len() as u64)
    }
}

impl Place {
    /// The names of the ranges around it, outermost first; none if they are empty.
    pub fn path(&self, session: &Session) -> Option<String> {
        let names: Vec<&str> = self.ranges.iter().map(|name| session.text(*name)).collect();
        Some(names.join(" › ")).filter(|path| !path.is_empty())
    }

    /// The name of the operator around it; none if it is empty.
    pub fn operator_name<'a>(&self, session: &'a Session) -> Option<&'a str> {
        self.operator
            .map(|name| session.text(name))
            .filter(|name| !name.is_empty())
    }
}

impl Sum {
    /// The sum of some calls.
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a SyncCall>) -> Self {
        let mut sum = Self::default();
        calls.into_iter().for_each(|call| sum.add(call));
        sum
    }

    fn add(&mut self, call: &SyncCall) {
        self.count += 1;
        add(&mut self.time, call.end - call.start);
        add(&mut self.idle, call.idle);
        add(&mut self.after, call.after);
        add(&mut self.in_stage, call.in_stage);
        add(&mut self.in_stage_calls, call.in_stage_calls);
    }
}

/// Stage, call, ranges, operator.
type Key<'a> = (Option<usize>, StrId, &'a [StrId], Option<StrId>);

fn places(session: &Session, charges: &Charges) -> Vec<Place> {
    let moments = Moments::new(
        charges
            .calls
            .iter()
            .map(|call| Some((call.thread, call.start))),
    );
    macro_rules! open {
        ($table:ident) => {{
            let table = &session.$table;
            moments.open(&table.thread, &table.start, &table.end, &table.name)
        }};
    }
    let (ranges, operators) = (open!(ranges), open!(operators));
    let mut sums: BTreeMap<Key<'_>, Sum> = BTreeMap::new();
    for (at, call) in charges.calls.iter().enumerate() {
        let name = session.api_calls.name[call.call.index()];
        let key = (
            call.stage,
            name,
            ranges[at].as_slice(),
            operators[at].last().copied(),
        );
        sums.entry(key).or_default().add(call);
    }
    let to_place = |((stage, call, ranges, operator), sum): (Key<'_>, _)| Place {
        stage,
        call,
        ranges: ranges.to_vec(),
        operator,
        sum,
    };
    let mut places: Vec<Place> = sums.into_iter().map(to_place).collect();
    places.sort_by_key(|Place { stage, sum, .. }| {
        (stage.is_none(), Reverse((sum.in_stage, sum.idle, sum.time)))
    });
    places
}

fn of_stage(context: &Context<'_>, line: &Summary, charges: &Charges) -> StageSync {
    let (session, facts) = (context.session, context.facts);
    let calls = &session.api_calls;
    let counts =
        |instance: &&StageInstance| instance.process == line.process && instance.excluded.is_none();
    let (mut count, mut time, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    // By start, to find those of an instance at once.
    let mut starts: Vec<(Ns, Ns)> = charges
        .calls
        .iter()
        .filter(|call| calls.process[call.call.index()] == line.process)
        .map(|call| (call.start, call.end - call.start))
        .collect();
    starts.sort_unstable();
    for instance in facts.instances_of(line.stage(facts)).iter().filter(counts) {
        let first = starts.partition_point(|call| call.0 < instance.host_start);
        let last = first.max(starts.partition_point(|call| call.0 < instance.host_end));
        count.push((last - first) as f64);
        time.push(starts[first..last].iter().map(|call| call.1.time().0).sum());
        let begin = instance
            .projection
            .map_or(Ns::MAX, |projection| projection.0);
        let gap = |op: &u32| {
            let (start, _) = charges.by_op.get(op)?;
            (*start >= begin).then(|| (facts.ops.start[*op as usize] - *start).time().0)
        };
        idle.push(instance.ops.iter().filter_map(gap).sum());
    }
    let middle = |values: &[f64]| median(values).unwrap_or(0.0);
    StageSync {
        summary: line.clone(),
        instances: count.len(),
        calls: Count(middle(&count)),
        time: Time(middle(&time)),
        idle: Time(middle(&idle)),
    }
}
