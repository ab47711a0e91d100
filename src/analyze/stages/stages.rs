//! Stages and their instances: named phases of the workload, from ranges by rule.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::StageKind;
use rooflens_schemas::marks;
use rooflens_schemas::ranges::{PROFILER_STEP, generic_name, given_name};
use rooflens_schemas::steps;

use crate::admission::{self, Admission};
use crate::attribution::{IssuedOp, ThreadOps, attribute, started};
use crate::intervals::{Interval, add, total, union_length};
use crate::repeats;
use crate::sizes::{CallSizes, Sizes};
use crate::stage_names::{Rule, is_of_user, is_update, rules};
use crate::tables::{Exclusion, Ops, Stage, StageInstance, StageTables};
use crate::updates::{between_updates, is_of_pytorch};
use rooflens_session::{Arrange, Ns, PassId, ProcessId, RangeId, Session, StrId, ThreadId};

/// Distinct outermost range names that become stages where no rule matches any range.
const MAX_UNNAMED_STAGES: usize = 12;

/// Levels of ranges that a process has once, in which its iterations are looked for: setup, epochs, loops.
const MAX_LEVELS: usize = 16;

/// Ranges of a name from which on it recurs.
const RECURS: usize = 3;

/// Modified z-score beyond which the first instance is a cold start.
pub const WARMUP_Z: f64 = rooflens_stats::OUTLIER_Z;

/// Name of the one stage of a pass without ranges.
pub const WHOLE_CAPTURE: &str = "whole capture";

/// Range names as stages: the stage's name and kind, by range name.
type NamedStages = BTreeMap<StrId, (String, StageKind)>;

/// A stage before its instances are measured.
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) kind: StageKind,
    pub(super) windows: Vec<Window>,
    /// Whether it is a stage only if its instances issue GPU work.
    pub(super) needs_work: bool,
    /// Whether its name says that it is warm-up.
    pub(super) is_warmup: bool,
}

/// An instance before it is measured: a range, or a time between two of them, in which all threads of the process count.
pub(super) struct Window {
    pub(super) range: Option<RangeId>,
    pub(super) thread: ThreadId,
    pub(super) start: Ns,
    pub(super) end: Ns,
}

impl Window {
    fn of(session: &Session, range: RangeId) -> Self {
        let (ranges, row) = (&session.ranges, range.index());
        let (thread, start, end) = (ranges.thread[row], ranges.start[row], ranges.end[row]);
        Self {
            range: Some(range),
            thread,
            start,
            end,
        }
    }
}

/// Finds stages and instances of all passes with GPU work and attributes operations to ranges.
pub fn find(session: &Session, facts: &mut StageTables) {
    let rules = rules(&session.workload);
    let passes: BTreeSet<PassId> = facts.ops.pass.iter().copied().collect();
    let drafts: Vec<(PassId, Vec<Draft>)> = passes
        .iter()
        .map(|pass| {
            let mut drafts = drafts(session, &facts.ops, *pass, &rules);
            if drafts.is_empty() {
                drafts.extend(repeats::draft(session, &facts.ops, *pass));
            }
            (*pass, drafts)
        })
        .collect();
    let domains: BTreeSet<StrId> = drafts
        .iter()
        .flat_map(|(_, drafts)| drafts.iter().flat_map(|draft| &draft.windows))
        .filter_map(|window| window.range)
        .map(|range| session.ranges.domain[range.index()])
        .collect();
    let counts = |range: RangeId| domains.contains(&session.ranges.domain[range.index()]);
    let threads = attribute(session, &mut facts.ops, &counts);
    let ranges = |draft: &Draft| {
        draft
            .windows
            .iter()
            .filter_map(|window| window.range)
            .collect()
    };
    let ranges: Vec<Vec<RangeId>> = drafts
        .iter()
        .flat_map(|(_, drafts)| drafts)
        .map(ranges)
        .collect();
    let ranges: Vec<&[RangeId]> = ranges.iter().map(Vec::as_slice).collect();
    let mut limits = admission::limits(session, &ranges, &threads).into_iter();
    let sizes = CallSizes::new(session);
    for (pass, drafts) in drafts {
        if drafts.is_empty() {
            facts.add_whole_capture(session, pass);
        }
        for (draft, most) in drafts.into_iter().zip(&mut limits) {
            facts.add_stage(session, pass, draft, (&threads, &sizes, most));
        }
    }
    facts.nest_stages();
    facts.mark_excluded(session);
}

/// The stages of a pass by rule; by outermost range names where no rule matches.
fn drafts(session: &Session, ops: &Ops, pass: PassId, rules: &[Rule]) -> Vec<Draft> {
    let ranges = &session.ranges;
    let is_mark = |id: &RangeId| session.text(ranges.domain[id.index()]) == marks::DOMAIN;
    let pass_ranges: Vec<RangeId> = ranges
        .ids()
        .filter(|id| ranges.pass[id.index()] == pass && !is_mark(id))
        .collect();
    let mut named = NamedStages::new();
    let mut parts = NamedStages::new();
    let workload = &session.workload;
    // The capture program infers rules only for ranges of whose work it knows the kind: other ranges are stages, too.
    let built_in = workload.stages.is_empty() || workload.infers("stages");
    for name in pass_ranges
        .iter()
        .map(|id| session.ranges.name[id.index()])
        .collect::<BTreeSet<_>>()
    {
        let given = given_name(session.text(name));
        if let Some(rule) = rules.iter().find(|rule| rule.pattern.is_match(given)) {
            named.insert(name, (rule.name.clone(), rule.kind));
        } else if let Some(step) = steps::step(given).filter(|_| built_in) {
            let stages = if step.is_part { &mut parts } else { &mut named };
            stages.insert(name, (step.stage.to_owned(), step.kind));
        }
    }
    if named.values().all(|(name, _)| name == PROFILER_STEP) {
        named.extend(parts);
    }
    settle_profiler_steps(session, &pass_ranges, &mut named);
    if named.is_empty()
        && let Some(steps) = between_updates(session, &pass_ranges)
    {
        return vec![steps];
    }
    let others = match built_in && !named.is_empty() {
        true => other_phases(session, &pass_ranges, &mut named),
        false => BTreeSet::new(),
    };
    let is_named = !named.is_empty();
    let order: Vec<String> = if !is_named {
        let issues = Issues::new(session, ops, pass);
        outermost_names(session, &issues, &pass_ranges, &mut named)
    } else {
        // Several rules may lead to one stage. Those of engines follow.
        let mut seen = BTreeSet::new();
        let by_rule = rules.iter().map(|rule| &rule.name);
        let of_engines: BTreeSet<&String> = named.values().map(|(name, _)| name).collect();
        by_rule
            .chain(of_engines)
            .filter(|name| seen.insert(*name))
            .cloned()
            .collect()
    };
    let mut drafts: Vec<Draft> = Vec::new();
    let has_warm = order.iter().any(|stage| !says_warmup(stage));
    for stage in order {
        let mut ranges: Vec<RangeId> = Vec::new();
        let mut kind = StageKind::Other;
        for id in &pass_ranges {
            if let Some((name, its_kind)) = named.get(&session.ranges.name[id.index()])
                && *name == stage
            {
                ranges.push(*id);
                kind = *its_kind;
            }
        }
        let ranges = without_recursion(session, ranges);
        if !ranges.is_empty() {
            let windows = ranges
                .into_iter()
                .map(|range| Window::of(session, range))
                .collect();
            drafts.push(Draft {
                needs_work: others.contains(&stage),
                is_warmup: !is_named && has_warm && says_warmup(&stage),
                name: stage,
                kind,
                windows,
            });
        }
    }
    drafts
}

/// A step of the profiler is a stage where no stage is a step or a part of inference, and one of training where
/// the weights are updated.
fn settle_profiler_steps(session: &Session, own: &[RangeId], named: &mut NamedStages) {
    use StageKind::{Decode, DecodeStep, Prefill, TrainStep};
    let better = |name: &str, kind| {
        matches!(kind, Prefill | Decode | DecodeStep | TrainStep) || name == steps::MIXED
    };
    if named.values().any(|(name, kind)| better(name, *kind)) {
        named.retain(|_, (name, _)| name != PROFILER_STEP);
    } else if own
        .iter()
        .any(|id| is_update(session.text(session.ranges.name[id.index()])))
    {
        let steps = named.values_mut().filter(|(name, _)| name == PROFILER_STEP);
        steps.for_each(|(_, kind)| *kind = TrainStep);
    }
}

/// Phases of the user next to those that rules name, such as `log` after `train_step` or `augment` before `forward` in it:
/// outermost ranges that recur on a thread with named ranges, and neither contain nor lie in an innermost one.
fn other_phases(session: &Session, own: &[RangeId], named: &mut NamedStages) -> BTreeSet<String> {
    let ranges = &session.ranges;
    let is_named = |id: &RangeId| named.contains_key(&ranges.name[id.index()]);
    let mut stages: BTreeMap<ThreadId, Vec<Interval>> = BTreeMap::new();
    for id in own.iter().filter(|id| is_named(id)) {
        let span = (ranges.start[id.index()], ranges.end[id.index()]);
        let of_thread = stages.entry(ranges.thread[id.index()]).or_default();
        of_thread.push(span);
    }
    stages.values_mut().for_each(keep_innermost);
    let is_apart = |id: &RangeId| {
        let (start, end) = (ranges.start[id.index()], ranges.end[id.index()]);
        stages.get(&ranges.thread[id.index()]).is_some_and(|spans| {
            let next = spans.partition_point(|(_, stage_end)| *stage_end <= start);
            spans
                .get(next)
                .is_none_or(|(stage_start, _)| *stage_start >= end)
        })
    };
    let mut candidates = Vec::new();
    for id in own {
        let name = session.text(ranges.name[id.index()]);
        if is_of_user(session, *id) && !is_of_pytorch(name) && !is_named(id) && is_apart(id) {
            candidates.push(*id);
        }
    }
    let mut phases: BTreeMap<String, Vec<StrId>> = BTreeMap::new();
    for id in without_recursion(session, candidates) {
        let name = ranges.name[id.index()];
        phases
            .entry(generic_name(session.text(name)))
            .or_default()
            .push(name);
    }
    phases.retain(|name, names| !name.is_empty() && names.len() >= RECURS);
    let mut others: Vec<(String, Vec<StrId>)> = phases.into_iter().collect();
    others.truncate(MAX_UNNAMED_STAGES);
    for (phase, names) in &others {
        for name in names {
            named.insert(*name, (phase.clone(), StageKind::Other));
        }
    }
    others.into_iter().map(|(phase, _)| phase).collect()
}

/// Keeps the spans of a thread that contain no other, by start.
fn keep_innermost(spans: &mut Vec<Interval>) {
    spans.sort_unstable_by_key(|(start, end)| (Reverse(*start), *end));
    let mut next = None;
    spans.retain(|(start, end)| {
        let is_innermost = next.is_none_or(|next| *end <= next);
        next = Some(*start);
        is_innermost
    });
    spans.reverse();
}

/// Whether the name of a range says that its work is warm-up: `warmup`, `warm-up`, `Warm up`.
fn says_warmup(name: &str) -> bool {
    let letters = name.chars().filter(|letter| letter.is_ascii_alphabetic());
    let letters: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    letters.contains("warmup")
}

/// When the calls of a pass issue operations, by process, ascending.
struct Issues(BTreeMap<ProcessId, Vec<Ns>>);

impl Issues {
    fn new(session: &Session, ops: &Ops, pass: PassId) -> Self {
        let mut issues: BTreeMap<ProcessId, Vec<Ns>> = BTreeMap::new();
        for (op, call) in ops.api_call.iter().enumerate() {
            if let Some(call) = call.filter(|_| ops.pass[op] == pass) {
                let start = session.api_calls.start[call.index()];
                issues.entry(ops.process[op]).or_default().push(start);
            }
        }
        issues
            .values_mut()
            .for_each(|starts| starts.sort_unstable());
        Self(issues)
    }

    /// Operations that a process issues within ranges none of which contains another.
    fn within(&self, session: &Session, list: &[RangeId]) -> usize {
        let ranges = &session.ranges;
        let mut sum = 0;
        for row in list.iter().map(|id| id.index()) {
            let process = session.threads.process[ranges.thread[row].index()];
            if let Some(starts) = self.0.get(&process) {
                let before = |time: Ns| starts.partition_point(|start| *start < time);
                sum += before(ranges.end[row]) - before(ranges.start[row]);
            }
        }
        sum
    }
}

/// The outermost ranges of a list. One that a process has once is no iteration: the ranges in it are, if some of them
/// repeat and they issue at least half of its operations. Ranges are looked at to so many levels.
fn outermost(
    session: &Session,
    issues: &Issues,
    list: Vec<RangeId>,
    levels: usize,
) -> Vec<RangeId> {
    let ranges = &session.ranges;
    let outer = without_recursion(session, list.clone());
    let process = |id: &RangeId| session.threads.process[ranges.thread[id.index()].index()];
    let processes: BTreeSet<ProcessId> = outer.iter().map(process).collect();
    if processes.len() < outer.len() || levels == 0 {
        return outer;
    }
    let is_inner =
        |id: &RangeId| !outer.contains(id) && !is_of_pytorch(session.text(ranges.name[id.index()]));
    let inner: Vec<RangeId> = list.into_iter().filter(is_inner).collect();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for id in &inner {
        let name = generic_name(session.text(ranges.name[id.index()]));
        *names.entry(name).or_default() += 1;
    }
    let repeats = names.values().any(|count| *count > 1);
    if !repeats {
        return outer;
    }
    let parts = outermost(session, issues, inner, levels - 1);
    let part_names: BTreeSet<StrId> = parts.iter().map(|id| ranges.name[id.index()]).collect();
    let is_few = part_names.len() <= MAX_UNNAMED_STAGES;
    let holds_work = 2 * issues.within(session, &parts) >= issues.within(session, &outer);
    match parts.len() > outer.len() && is_few && holds_work {
        true => parts,
        false => outer,
    }
}

/// Names of the outermost ranges, by total host time; digits are one name.
fn outermost_names(
    session: &Session,
    issues: &Issues,
    own: &[RangeId],
    named: &mut NamedStages,
) -> Vec<String> {
    let ranges = &session.ranges;
    let user: Vec<RangeId> = own
        .iter()
        .copied()
        .filter(|id| is_of_user(session, *id))
        .collect();
    let mut times: BTreeMap<String, Ns> = BTreeMap::new();
    let mut members: Vec<(String, StrId)> = Vec::new();
    for id in outermost(session, issues, user, MAX_LEVELS) {
        let row = id.index();
        let name = generic_name(session.text(ranges.name[row]));
        if name.is_empty() {
            continue;
        }
        let time = times.entry(name.clone()).or_default();
        *time = time.saturating_add(ranges.end[row].saturating_sub(ranges.start[row]));
        members.push((name, ranges.name[row]));
    }
    let mut order: Vec<(Ns, String)> = times
        .into_iter()
        .map(|(name, time)| (-time, name))
        .collect();
    order.sort();
    order.truncate(MAX_UNNAMED_STAGES);
    let order: Vec<String> = order.into_iter().map(|(_, name)| name).collect();
    for (name, id) in members.into_iter().filter(|(name, _)| order.contains(name)) {
        named.insert(id, (name, StageKind::Other));
    }
    order
}

/// Ranges by (process, start), without those that lie inside another of the list on the same thread.
pub(super) fn without_recursion(session: &Session, mut list: Vec<RangeId>) -> Vec<RangeId> {
    let ranges = &session.ranges;
    list.sort_unstable_by_key(|id| {
        let row = id.index();
        (
            ranges.thread[row],
            ranges.start[row],
            std::cmp::Reverse(ranges.end[row]),
            *id,
        )
    });
    let mut outer = None;
    list.retain(|id| {
        let (thread, end) = (ranges.thread[id.index()], ranges.end[id.index()]);
        let inner = outer.is_some_and(|(same, outer_end)| same == thread && end <= outer_end);
        if !inner {
            outer = Some((thread, end));
        }
        !inner
    });
    let process = |id: &RangeId| session.threads.process[ranges.thread[id.index()].index()];
    list.sort_by_key(|id| (process(id), ranges.start[id.index()], *id));
    list
}

impl StageTables {
    /// A stage with its instances, of which so many may be open at once on a thread.
    fn add_stage(
        &mut self,
        session: &Session,
        pass: PassId,
        draft: Draft,
        (threads, sizes, most): (&ThreadOps, &CallSizes<'_>, usize),
    ) {
        let stage = self.stages.len();
        let first = self.instances.len();
        let mut ordinals: BTreeMap<ProcessId, u32> = BTreeMap::new();
        let mut merged: BTreeMap<ProcessId, Vec<IssuedOp>> = BTreeMap::new();
        let mut admission = Admission::new(most);
        for Window {
            range,
            thread,
            start,
            end,
        } in draft.windows
        {
            let process = session.threads.process[thread.index()];
            let refused = range.and_then(|_| admission.refuse(thread, (start, end)));
            let issued: Vec<IssuedOp> = match (&refused, range) {
                (Some(_), _) => Vec::new(),
                (None, Some(_)) => threads.within(thread, start, end).copied().collect(),
                (None, None) => {
                    let of_process = || threads.of_process(session, process);
                    started(merged.entry(process).or_insert_with(of_process), start, end).to_vec()
                }
            };
            let sizes = match refused {
                Some(_) => Sizes::default(),
                None => sizes.of(thread, start, end),
            };
            let ordinal = ordinals.entry(process).or_default();
            let mut instance = StageInstance {
                stage,
                range,
                process,
                thread: Some(thread),
                ordinal: *ordinal,
                host_start: start,
                host_end: end,
                inferred: issued.iter().filter(|issued| issued.inferred).count() as u32,
                ops: issued.iter().map(|issued| issued.op).collect(),
                sizes,
                excluded: refused.or(draft.is_warmup.then_some(Exclusion::DeclaredWarmup)),
                ..StageInstance::default()
            };
            *ordinal += 1;
            instance.measure(&self.ops);
            self.instances.push(instance);
        }
        let has_work = self.instances[first..]
            .iter()
            .any(|instance| !instance.ops.is_empty());
        if draft.needs_work && !has_work {
            self.instances.truncate(first);
            return;
        }
        let name = draft.name;
        let instances = first..self.instances.len();
        self.stages.push(Stage {
            pass,
            name,
            kind: draft.kind,
            parent: None,
            instances,
        });
    }

    /// One stage from the first to the last operation of the pass.
    fn add_whole_capture(&mut self, session: &Session, pass: PassId) {
        let ops: Vec<u32> = (0..self.ops.len() as u32)
            .filter(|op| self.ops.pass[*op as usize] == pass)
            .collect();
        let Some(first) = ops.first() else { return };
        let mut instance = StageInstance {
            stage: self.stages.len(),
            process: self.ops.process[*first as usize],
            ops,
            ..StageInstance::default()
        };
        instance.measure(&self.ops);
        let (start, end) = instance.projection.unwrap_or_default();
        let calls = &session.api_calls;
        let rows = (0..calls.len()).filter(|row| calls.pass[*row] == pass);
        instance.host_start = rows
            .clone()
            .map(|row| calls.start[row])
            .min()
            .unwrap_or(start);
        instance.host_end = rows.map(|row| calls.end[row]).max().unwrap_or(end);
        let instances = self.instances.len()..self.instances.len() + 1;
        self.instances.push(instance);
        let name = WHOLE_CAPTURE.to_owned();
        self.stages.push(Stage {
            pass,
            name,
            kind: StageKind::Other,
            parent: None,
            instances,
        });
    }

    /// A stage is the child of another if instances of it lie in instances of the other, not the other way
    /// round. Some may lie outside: warm-up iterations often run without the outer range.
    fn nest_stages(&mut self) {
        let spans: Vec<Spans> = self
            .stages
            .iter()
            .map(|stage| Spans::new(self, stage))
            .collect();
        let lies_in = |child: usize, parent: usize| {
            let inner = self.instances_of(&self.stages[child]);
            self.stages[child].pass == self.stages[parent].pass
                && inner
                    .iter()
                    .any(|instance| spans[parent].around(instance).is_some())
        };
        let parents: Vec<Option<usize>> = (0..self.stages.len())
            .map(|child| {
                let candidates = (0..self.stages.len()).filter(|parent| *parent != child);
                let around: Vec<usize> = candidates
                    .filter(|parent| lies_in(child, *parent))
                    .collect();
                // The innermost one lies in all the others; two that lie in each other are the same phase.
                let innermost = |candidate: &&usize| {
                    around
                        .iter()
                        .all(|outer| *candidate == outer || lies_in(**candidate, *outer))
                };
                let parent = around.iter().find(innermost).copied();
                parent.filter(|parent| !lies_in(*parent, child))
            })
            .collect();
        for (child, parent) in parents.into_iter().enumerate() {
            self.stages[child].parent = parent;
            for index in self.stages[child].instances.clone() {
                let instance = &self.instances[index];
                let mut others = (0..self.stages.len()).filter(|other| *other != child);
                self.instances[index].is_nested = others.any(|other| {
                    self.stages[other].pass == self.stages[child].pass
                        && spans[other].around(instance).is_some()
                });
            }
            let Some(parent) = parent else { continue };
            if self.stages[child].kind == StageKind::DecodeStep {
                self.count_steps(child, parent, &spans[parent]);
            }
        }
    }

    /// Decode steps are counted, not assumed, where the step has a range of its own.
    fn count_steps(&mut self, child: usize, parent: usize, spans: &Spans) {
        for index in self.stages[parent].instances.clone() {
            self.instances[index].steps = Some(0);
        }
        for step in self.stages[child].instances.clone() {
            if let Some(around) = spans.around(&self.instances[step]) {
                let steps = &mut self.instances[around].steps;
                *steps = steps.map(|steps| steps + 1);
            }
        }
    }
}

/// Where the instances of a stage are, by thread: (start, end, index), ascending.
pub(super) struct Spans {
    threads: BTreeMap<Option<ThreadId>, Vec<(Ns, Ns, usize)>>,
}

impl Spans {
    pub(super) fn new(facts: &StageTables, stage: &Stage) -> Self {
        let mut threads: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for index in stage.instances.clone() {
            let instance = &facts.instances[index];
            let span = (instance.host_start, instance.host_end, index);
            threads.entry(instance.thread).or_default().push(span);
        }
        threads.values_mut().for_each(|list| list.sort_unstable());
        Self { threads }
    }

    /// The instance that contains `other` on its thread.
    pub(super) fn around(&self, other: &StageInstance) -> Option<usize> {
        let list = self.threads.get(&other.thread)?;
        let after = list.partition_point(|(start, ..)| *start <= other.host_start);
        let (_, end, index) = *list[..after].last()?;
        (other.host_end <= end).then_some(index)
    }
}

impl StageInstance {
    /// Fills everything that follows from the operations.
    fn measure(&mut self, ops: &Ops) {
        self.ops
            .sort_unstable_by_key(|op| (ops.start[*op as usize], *op));
        let rows = || self.ops.iter().map(|op| *op as usize);
        let first = rows().map(|op| ops.start[op]).min();
        self.projection = first.zip(rows().map(|op| ops.end[op]).max());
        self.sum = total(rows().map(|op| ops.end[op] - ops.start[op]));
        let mut by_gpu: Vec<usize> = rows().collect();
        by_gpu.arrange_by_key(|op| ops.gpu[*op]);
        for gpu_ops in by_gpu.chunk_by(|a, b| ops.gpu[*a] == ops.gpu[*b]) {
            let times = gpu_ops.iter().map(|op| (ops.start[*op], ops.end[*op]));
            add(
                &mut self.busy,
                union_length(&mut times.collect::<Vec<Interval>>()),
            );
            self.gpus.push(ops.gpu[gpu_ops[0]]);
        }
    }
}
