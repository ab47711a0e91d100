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
use rooflens_stats::{modified_z_of_first, rises};

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

    /// Marks instances that are no part of the aggregates, with the reason: declared warm-up, a number of steps that is not
    /// the usual one, or a cold start. A part of another stage has the reason of the instance around it.
    fn mark_excluded(&mut self, session: &Session) {
        for stage in 0..self.stages.len() {
            self.exclude_in(session, stage);
        }
        let passes: BTreeSet<PassId> = self.stages.iter().map(|stage| stage.pass).collect();
        for pass in passes {
            self.exclude_earlier_level(session, pass);
        }
        // A part of another stage counts if that counts.
        for stage in 0..self.stages.len() {
            if let Some(parent) = self.stages[stage].parent {
                let spans = Spans::new(self, &self.stages[parent]);
                for index in self.stages[stage].instances.clone() {
                    if let Some(outer) = spans.around(&self.instances[index])
                        && !self.instances[index]
                            .excluded
                            .is_some_and(Exclusion::is_refusal)
                    {
                        self.instances[index].excluded = self.instances[outer].excluded;
                    }
                }
            }
        }
    }

    fn exclude_in(&mut self, session: &Session, stage: usize) {
        let pass = session.text(session.passes.name[self.stages[stage].pass.index()]);
        let workload = session.workload.for_pass(pass);
        // The nodes of graphs are recorded in a window after the warm-up.
        let is_window = self.graph_nodes == Some(self.stages[stage].pass);
        let declared = workload.warmup.filter(|_| !is_window).unwrap_or(0);
        let stated = workload
            .output_tokens
            .filter(|_| self.stages[stage].kind == StageKind::Decode);
        let range = self.stages[stage].instances.clone();
        let processes: BTreeSet<ProcessId> = self.instances[range.clone()]
            .iter()
            .map(|instance| instance.process)
            .collect();
        for process in processes {
            let instances = &self.instances[range.clone()];
            let first =
                range.start + instances.partition_point(|instance| instance.process < process);
            let last =
                range.start + instances.partition_point(|instance| instance.process <= process);
            let group: Vec<usize> = (first..last).collect();
            // A capture that a gate cut out may hold fewer instances than the warm-up that was declared.
            let declared = if group.len() as u64 > declared {
                declared
            } else {
                0
            };
            let expected = self.usual_steps(&group, declared, stated);
            let warm = self.warm_from(stage, process, declared);
            for index in &group {
                let instance = &mut self.instances[*index];
                if instance.excluded.is_some() {
                    continue;
                }
                let is_early = warm.is_some_and(|warm| instance.host_start < warm);
                instance.excluded = if is_early || u64::from(instance.ordinal) < declared {
                    Some(Exclusion::DeclaredWarmup)
                } else {
                    step_mismatch(instance.steps, expected)
                };
            }
            self.exclude_cold_start(&group);
        }
    }

    /// Where the iterations of the longest stage rise to another level, those before it are no part of the aggregates: the
    /// program runs at the last level, and a figure of both is of neither. Ranks do so together or not at all, and so do
    /// unprofiled repeats.
    fn exclude_earlier_level(&mut self, session: &Session, pass: PassId) {
        let is_outermost = |stage: &&Stage| stage.pass == pass && stage.parent.is_none();
        let outermost: Vec<Stage> = self.stages.iter().filter(is_outermost).cloned().collect();
        let time = |stage: &&Stage| {
            let instances = self.instances_of(stage).iter();
            let counted = instances.filter(|instance| instance.excluded.is_none());
            counted.filter_map(StageInstance::time).sum::<Ns>()
        };
        let Some(longest) = outermost.iter().max_by_key(time) else {
            return;
        };
        let unprofiled = unprofiled(session, &longest.name);
        if !unprofiled.is_empty() && rises(&unprofiled).is_none() {
            return;
        }
        let mut changes = Vec::new();
        for instances in self
            .instances_of(longest)
            .chunk_by(|a, b| a.process == b.process)
        {
            let Some(first) = first_of_level(instances) else {
                return;
            };
            changes.push((
                first.process,
                first.ordinal,
                first.host_start,
                instances.len(),
            ));
        }
        for (process, ordinal, start, count) in changes {
            for stage in &outermost {
                let of_process = |index: &usize| self.instances[*index].process == process;
                let group: Vec<usize> = stage.instances.clone().filter(of_process).collect();
                let is_same = group.len() == count;
                let is_earlier = |instance: &StageInstance| match is_same {
                    true => instance.ordinal < ordinal,
                    false => instance.host_start < start,
                };
                let counted = |index: &usize| self.instances[*index].excluded.is_none();
                let (earlier, later): (Vec<usize>, Vec<usize>) = group
                    .into_iter()
                    .filter(counted)
                    .partition(|index| is_earlier(&self.instances[*index]));
                // A stage of the first part alone keeps its figures.
                if !later.is_empty() {
                    for index in earlier {
                        self.instances[index].excluded = Some(Exclusion::EarlierLevel);
                    }
                }
            }
        }
    }

    /// Where the first request after the declared warm-up begins. A request has one prefill, and can have many decode steps
    /// without a range around them.
    fn warm_from(&self, stage: usize, process: ProcessId, declared: u64) -> Option<Ns> {
        let Stage { pass, kind, .. } = self.stages[stage];
        if declared == 0 || !matches!(kind, StageKind::Decode | StageKind::DecodeStep) {
            return None;
        }
        let mut stages = self.stages.iter();
        let prefill = stages.find(|of| of.pass == pass && of.kind == StageKind::Prefill)?;
        let mut prefills = self.instances_of(prefill).iter();
        let is_first =
            |of: &&StageInstance| of.process == process && u64::from(of.ordinal) == declared;
        Some(prefills.find(is_first)?.host_start)
    }

    /// The number of steps that a loop has unless it stopped early: the stated one, or the most frequent one. Prompts of
    /// different lengths have no usual number: then less than half of the loops after the warm-up have it, and a loop is
    /// excluded for its length no more than any other.
    fn usual_steps(&self, group: &[usize], declared: u64, stated: Option<u64>) -> Option<u64> {
        let steps = |index: &usize| self.instances[*index].steps;
        let expected = stated.or_else(|| most_frequent(group.iter().filter_map(steps)))?;
        let (mut loops, mut usual) = (0, 0);
        for index in group {
            let instance = &self.instances[*index];
            let is_warmup = u64::from(instance.ordinal) < declared;
            if instance.excluded.is_none() && !is_warmup {
                loops += u32::from(instance.steps.is_some());
                usual += u32::from(instance.steps == Some(expected));
            }
        }
        (usual * 2 >= loops).then_some(expected)
    }

    /// The first instance that counts is excluded if it is an outlier against the rest; of loops of different lengths, by
    /// the time of a step.
    fn exclude_cold_start(&mut self, group: &[usize]) {
        let counted: Vec<usize> = group
            .iter()
            .copied()
            .filter(|index| self.instances[*index].excluded.is_none())
            .collect();
        let first_steps = counted
            .first()
            .and_then(|index| self.instances[*index].steps);
        let differs = |index: &usize| self.instances[*index].steps != first_steps;
        let by_step = counted.iter().any(differs);
        let times: Vec<f64> = counted
            .iter()
            .filter_map(|index| {
                let instance = &self.instances[*index];
                let steps = if by_step { instance.steps? } else { 1 };
                Some(instance.time()?.time().0 / steps.max(1) as f64)
            })
            .collect();
        if times.len() == counted.len()
            && let Some(z) = modified_z_of_first(&times)
            && z > WARMUP_Z
        {
            self.instances[counted[0]].excluded = Some(Exclusion::ColdStart { z });
        }
    }
}

/// Unprofiled times of a stage, as the first artifact with some has them.
fn unprofiled(session: &Session, stage: &str) -> Vec<f64> {
    let timings = &session.timings;
    let is_of_stage = |row: &usize| {
        timings.profiled[*row] == Some(false) && session.text(timings.stage[*row]) == stage
    };
    let rows: Vec<usize> = (0..timings.len()).filter(is_of_stage).collect();
    let artifact = rows.first().map(|row| timings.artifact[*row]);
    let of_artifact = rows
        .into_iter()
        .filter(|row| Some(timings.artifact[*row]) == artifact);
    of_artifact
        .map(|row| timings.duration[row].time().0)
        .collect()
}

/// The first instance at a higher level than those before it, if all do the same work.
fn first_of_level(instances: &[StageInstance]) -> Option<&StageInstance> {
    let is_counted = |instance: &&StageInstance| instance.excluded.is_none();
    let counted: Vec<&StageInstance> = instances.iter().filter(is_counted).collect();
    let work = |instance: &StageInstance| (instance.sizes.of_work(), instance.steps);
    let is_alike = counted
        .windows(2)
        .all(|pair| work(pair[0]) == work(pair[1]));
    let times: Vec<f64> = counted
        .iter()
        .filter_map(|instance| Some(instance.time()?.time().0))
        .collect();
    let first = rises(&times).filter(|_| is_alike && times.len() == counted.len())?;
    Some(counted[first])
}

/// The most frequent value. Of equally frequent ones it is the largest: loops stop early more often than they run long.
fn most_frequent(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(value, count)| (*count, *value))
        .map(|(value, _)| value)
}

fn step_mismatch(steps: Option<u64>, usual: Option<u64>) -> Option<Exclusion> {
    let (steps, usual) = (steps?, usual?);
    (steps != usual).then_some(Exclusion::Steps { steps, usual })
}

/// Where the instances of a stage are, by thread: (start, end, index), ascending.
struct Spans {
    threads: BTreeMap<Option<ThreadId>, Vec<(Ns, Ns, usize)>>,
}

impl Spans {
    fn new(facts: &StageTables, stage: &Stage) -> Self {
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
    fn around(&self, other: &StageInstance) -> Option<usize> {
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
