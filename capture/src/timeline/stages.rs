//! Stages: phases of the workload by the names of its ranges, and which of their instances count.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::StageKind;
use rooflens_schemas::ranges::{PROFILER_STEP, generic_name, given_name, is_of_user};
use rooflens_schemas::steps::{self, Step};
use rooflens_schemas::workload::BUILT_IN_STAGES;

use super::{Call, Rules, THREAD, Timeline};

/// Outermost names that become stages where no rule matches.
const MAX_UNNAMED: usize = 12;

/// Modified z-score beyond which the first instance is a warm-up, with the factors of Iglewicz and Hoaglin (1993), and
/// how many instances it is compared with at least.
const WARMUP_Z: f64 = 3.5;
const MAD_FACTOR: f64 = 0.6745;
const MEAN_DEVIATION_FACTOR: f64 = 1.253_314;
const MIN_REST: usize = 3;

/// A rule: ranges of this name, or that the pattern matches, are the stage's instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StageRule {
    pub(super) name: String,
    pub(super) pattern: Option<String>,
    pub(super) is_decode: bool,
    pub(super) is_step: bool,
    pub(super) is_part: bool,
}

/// A stage of the first process.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) name: String,
    is_decode: bool,
    is_step: bool,
    /// The stage that it is a part of.
    pub(super) parent: Option<usize>,
    pub(super) instances: Vec<Instance>,
}

/// One execution of a stage.
#[derive(Debug)]
pub(super) struct Instance {
    /// Which range it is.
    pub(super) range: usize,
    start: i64,
    end: i64,
    thread: i64,
    /// Its kernels, as indices of launches.
    pub(super) launches: Vec<usize>,
    /// First start and last end of its work.
    projection: Option<(i64, i64)>,
    steps: Option<u64>,
    pub(super) is_excluded: bool,
}

/// The stages.
#[derive(Debug)]
pub(crate) struct Stages(pub(super) Vec<Stage>);

impl Stages {
    /// Those of the first process of an export; none if it has no ranges.
    pub(crate) fn of(timeline: &Timeline, rules: &Rules) -> Self {
        let process = timeline.first_process().unwrap_or(-1);
        let own: Vec<usize> = (0..timeline.ranges.len())
            .filter(|index| timeline.ranges[*index].thread & !THREAD == process)
            .collect();
        let named = drafts(timeline, &own, rules);
        let domains: BTreeSet<&str> = named
            .iter()
            .flat_map(|(_, ranges)| ranges)
            .map(|index| timeline.ranges[*index].domain.as_str())
            .collect();
        let issued = Issued::of(timeline, &own, &domains);
        let stages = named.into_iter().map(|(rule, ranges)| {
            let instances = ranges
                .iter()
                .map(|index| issued.instance(timeline, *index))
                .collect();
            let (is_decode, is_step) = (rule.is_decode, rule.is_step);
            Stage {
                name: rule.name,
                is_decode,
                is_step,
                parent: None,
                instances,
            }
        });
        let mut stages = Self(stages.collect());
        stages.nest();
        stages.exclude(rules);
        stages
    }

    /// A stage by its name.
    pub(super) fn find(&self, name: &str) -> Option<&Stage> {
        self.0.iter().find(|stage| stage.name == name)
    }

    /// Names of the stages with kernels that no other stage is a part of, those with the most GPU time first.
    pub(crate) fn innermost(&self, timeline: &Timeline, most: usize) -> Vec<String> {
        let is_inner = |index: &usize| self.0.iter().all(|stage| stage.parent != Some(*index));
        let time = |stage: &Stage| -> i64 {
            let launches = stage.launches();
            launches
                .into_iter()
                .map(|index| timeline.launches[index].duration())
                .sum()
        };
        let inner = (0..self.0.len())
            .filter(is_inner)
            .map(|index| &self.0[index]);
        let mut times: Vec<(i64, &Stage)> = inner.map(|stage| (time(stage), stage)).collect();
        times.retain(|(time, _)| *time > 0);
        times.sort_by_key(|(time, _)| Reverse(*time));
        times
            .into_iter()
            .take(most)
            .map(|(_, stage)| stage.name.clone())
            .collect()
    }

    fn around(&self, stage: usize, inner: &Instance) -> Option<usize> {
        let contains = |one: &Instance| {
            one.thread == inner.thread && one.start <= inner.start && inner.end <= one.end
        };
        let instances = &self.0[stage].instances;
        let after = instances.partition_point(|one| one.start <= inner.start);
        (0..after)
            .rev()
            .take(64)
            .find(|index| contains(&instances[*index]))
    }

    fn nest(&mut self) {
        let count = self.0.len();
        let lies_in = |child: usize, parent: usize| {
            self.0[child]
                .instances
                .iter()
                .any(|one| self.around(parent, one).is_some())
        };
        let parents: Vec<Option<usize>> = (0..count)
            .map(|child| {
                let around: Vec<usize> = (0..count)
                    .filter(|parent| *parent != child && lies_in(child, *parent))
                    .collect();
                let innermost = |one: &&usize| {
                    around
                        .iter()
                        .all(|other| *one == other || lies_in(**one, *other))
                };
                let parent = around.iter().find(innermost).copied();
                parent.filter(|parent| !lies_in(*parent, child))
            })
            .collect();
        for (child, parent) in parents.into_iter().enumerate() {
            self.0[child].parent = parent;
            let Some(parent) = parent.filter(|_| self.0[child].is_step) else {
                continue;
            };
            let mut steps = vec![0; self.0[parent].instances.len()];
            for one in &self.0[child].instances {
                if let Some(index) = self.around(parent, one) {
                    steps[index] += 1;
                }
            }
            for (instance, steps) in self.0[parent].instances.iter_mut().zip(steps) {
                instance.steps = Some(steps);
            }
        }
    }

    /// Leaves out warm-up, and decode loops of another length than the rest.
    fn exclude(&mut self, rules: &Rules) {
        for stage in &mut self.0 {
            let count = stage.instances.len() as u64;
            let declared = if count > rules.warmup {
                rules.warmup
            } else {
                0
            };
            let stated = rules.output_tokens.filter(|_| stage.is_decode);
            let steps = stage.instances.iter().filter_map(|one| one.steps);
            let expected = stated.or_else(|| most_frequent(steps));
            for (ordinal, one) in (0..).zip(&mut stage.instances) {
                let differs = one
                    .steps
                    .zip(expected)
                    .is_some_and(|(steps, most)| steps != most);
                one.is_excluded = ordinal < declared || differs;
            }
            exclude_cold_start(&mut stage.instances);
        }
        // A part of another stage counts if that counts.
        for index in 0..self.0.len() {
            let Some(parent) = self.0[index].parent else {
                continue;
            };
            let outer = |one: &Instance| {
                let around = self.around(parent, one)?;
                Some(self.0[parent].instances[around].is_excluded)
            };
            let excluded: Vec<Option<bool>> = self.0[index].instances.iter().map(outer).collect();
            for (one, excluded) in self.0[index].instances.iter_mut().zip(excluded) {
                one.is_excluded = excluded.unwrap_or(one.is_excluded);
            }
        }
    }
}

impl Stage {
    /// The kernels of the instances that count.
    pub(super) fn launches(&self) -> Vec<usize> {
        let counted = self.instances.iter().filter(|one| !one.is_excluded);
        counted
            .flat_map(|one| one.launches.iter().copied())
            .collect()
    }
}

/// Stages with their ranges: by rule, or by outermost names where no rule matches.
fn drafts(timeline: &Timeline, own: &[usize], rules: &Rules) -> Vec<(StageRule, Vec<usize>)> {
    let stated = if rules.stages.is_empty() {
        built_in()
    } else {
        rules.stages.clone()
    };
    let mut drafts: Vec<(StageRule, Vec<usize>)> = Vec::new();
    let mut names: BTreeMap<&str, Option<StageRule>> = BTreeMap::new();
    let is_built_in = rules.stages.is_empty();
    let mut parts: Vec<usize> = Vec::new();
    for index in own {
        let name = timeline.ranges[*index].name.as_str();
        let rule = names.entry(name).or_insert_with(|| {
            let given = given_name(name);
            let rule = stated.iter().find(|rule| rule.matches(given)).cloned();
            rule.or_else(|| {
                steps::step(given)
                    .filter(|_| is_built_in)
                    .map(StageRule::from)
            })
        });
        let Some(rule) = rule.as_ref() else { continue };
        if rule.is_part {
            parts.push(*index);
            continue;
        }
        match drafts.iter_mut().find(|(draft, _)| draft.name == rule.name) {
            Some((_, ranges)) => ranges.push(*index),
            None => drafts.push((rule.clone(), vec![*index])),
        }
    }
    if let Some(part) = parts
        .first()
        .and_then(|part| names[timeline.ranges[*part].name.as_str()].clone())
        && drafts.iter().all(|(rule, _)| rule.name == PROFILER_STEP)
    {
        drafts.push((part, parts));
    }
    let better = [
        "prefill",
        "decode",
        "decode_step",
        "train_step",
        "training_step",
        steps::MIXED,
    ];
    if is_built_in
        && drafts
            .iter()
            .any(|(rule, _)| better.contains(&rule.name.as_str()))
    {
        drafts.retain(|(rule, _)| rule.name != PROFILER_STEP);
    }
    // Those of engines follow the others.
    drafts.sort_by_key(|(rule, _)| {
        let place = stated.iter().position(|one| one.name == rule.name);
        (place.is_none(), place, rule.name.clone())
    });
    if drafts.is_empty() {
        drafts = outermost(timeline, own);
    }
    for (_, ranges) in &mut drafts {
        *ranges = without_recursion(timeline, std::mem::take(ranges));
    }
    drafts
}

fn outermost(timeline: &Timeline, own: &[usize]) -> Vec<(StageRule, Vec<usize>)> {
    let user = own
        .iter()
        .copied()
        .filter(|index| {
            let range = &timeline.ranges[*index];
            is_of_user(&range.name, &range.domain)
        })
        .collect();
    let mut members: BTreeMap<String, (i64, Vec<usize>)> = BTreeMap::new();
    for index in without_recursion(timeline, user) {
        let range = &timeline.ranges[index];
        let name = generic_name(&range.name);
        if !name.is_empty() {
            let (time, ranges) = members.entry(name).or_default();
            *time = time.saturating_add(range.end.saturating_sub(range.start));
            ranges.push(index);
        }
    }
    let mut order: Vec<_> = members.into_iter().collect();
    order.sort_by(|(a, (at, _)), (b, (bt, _))| (bt, a).cmp(&(at, b)));
    order.truncate(MAX_UNNAMED);
    let draft = |(name, (_, ranges))| {
        (
            StageRule {
                name,
                ..StageRule::default()
            },
            ranges,
        )
    };
    order.into_iter().map(draft).collect()
}

fn built_in() -> Vec<StageRule> {
    let rule = |(name, kind): (&str, StageKind)| StageRule {
        name: name.to_owned(),
        pattern: None,
        is_decode: kind == StageKind::Decode,
        is_step: kind == StageKind::DecodeStep,
        is_part: false,
    };
    BUILT_IN_STAGES
        .into_iter()
        .chain([(PROFILER_STEP, StageKind::Other)])
        .map(rule)
        .collect()
}

impl From<Step> for StageRule {
    fn from(step: Step) -> Self {
        let (is_step, is_part) = (step.kind == StageKind::DecodeStep, step.is_part);
        Self {
            name: step.stage.to_owned(),
            is_step,
            is_part,
            ..Self::default()
        }
    }
}

impl StageRule {
    /// Whether a range of this name is an instance. Of patterns only alternatives of plain names are known.
    fn matches(&self, name: &str) -> bool {
        if self.name == PROFILER_STEP {
            let number = name.strip_prefix("ProfilerStep#");
            return number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        }
        match &self.pattern {
            Some(pattern) => pattern.split('|').any(|one| one == name),
            None if BUILT_IN_STAGES.iter().any(|(own, _)| *own == self.name) => {
                self.name == name || squeezed(name) == squeezed(&self.name)
            }
            None => self.name == name,
        }
    }
}

/// `Train step`, `train-step` and `trainstep` are `train_step`.
fn squeezed(name: &str) -> String {
    name.to_lowercase().replace([' ', '_', '-'], "")
}

/// Ranges by their start, without those that lie inside another of the list on the same thread.
fn without_recursion(timeline: &Timeline, mut list: Vec<usize>) -> Vec<usize> {
    let range = |index: &usize| &timeline.ranges[*index];
    list.sort_by_key(|index| {
        (
            range(index).thread,
            range(index).start,
            Reverse(range(index).end),
            *index,
        )
    });
    let mut outer = None;
    list.retain(|index| {
        let (thread, end) = (range(index).thread, range(index).end);
        let is_inner = outer.is_some_and(|(same, last)| same == thread && end <= last);
        if !is_inner {
            outer = Some((thread, end));
        }
        !is_inner
    });
    list.sort_by_key(|index| (range(index).start, *index));
    list
}

/// Work by the thread whose ranges it belongs to, by the start of its call: the thread that issued it or, where that one
/// has no range open, the one other thread of the process that has.
struct Issued {
    threads: BTreeMap<i64, Vec<(Call, usize, bool)>>,
}

impl Issued {
    fn of(timeline: &Timeline, own: &[usize], domains: &BTreeSet<&str>) -> Self {
        let mut open: BTreeMap<i64, Open> = BTreeMap::new();
        let mut sorted = own.to_vec();
        sorted.sort_by_key(|index| timeline.ranges[*index].start);
        for range in sorted.iter().map(|index| &timeline.ranges[*index]) {
            if domains.contains(range.domain.as_str()) {
                open.entry(range.thread)
                    .or_default()
                    .add(range.start, range.end);
            }
        }
        let process = timeline.first_process().unwrap_or(-1);
        let mut threads: BTreeMap<i64, Vec<(Call, usize, bool)>> = BTreeMap::new();
        for (index, work) in timeline.work.iter().enumerate() {
            let Some(call) = work.call.filter(|call| call.thread & !THREAD == process) else {
                continue;
            };
            let is_covered = open
                .get(&call.thread)
                .is_some_and(|open| open.at(call.start, call.start));
            threads
                .entry(call.thread)
                .or_default()
                .push((call, index, false));
            if !is_covered {
                let mut lenders = open.iter().filter(|(thread, open)| {
                    **thread != call.thread && open.at(call.start, call.end)
                });
                if let (Some((thread, _)), None) = (lenders.next(), lenders.next()) {
                    threads
                        .entry(*thread)
                        .or_default()
                        .push((call, index, true));
                }
            }
        }
        threads
            .values_mut()
            .for_each(|list| list.sort_by_key(|(call, index, _)| (call.start, *index)));
        Self { threads }
    }

    fn instance(&self, timeline: &Timeline, index: usize) -> Instance {
        let range = &timeline.ranges[index];
        let list = self
            .threads
            .get(&range.thread)
            .map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|(call, ..)| call.start < range.start);
        let within = list[first..]
            .iter()
            .take_while(|(call, ..)| call.start < range.end);
        let work: Vec<usize> = within
            .filter(|(call, _, is_lent)| !is_lent || call.end <= range.end)
            .map(|(_, index, _)| *index)
            .collect();
        let all = || work.iter().map(|index| &timeline.work[*index]);
        let (first, last) = (
            all().map(|one| one.start).min(),
            all().map(|one| one.end).max(),
        );
        Instance {
            range: index,
            start: range.start,
            end: range.end,
            thread: range.thread,
            launches: all().filter_map(|one| one.launch).collect(),
            projection: first.zip(last),
            steps: None,
            is_excluded: false,
        }
    }
}

/// Ranges of a thread by their start, and how far those until then reach.
#[derive(Default)]
struct Open {
    starts: Vec<i64>,
    reach: Vec<i64>,
}

impl Open {
    fn add(&mut self, start: i64, end: i64) {
        self.starts.push(start);
        self.reach
            .push(self.reach.last().map_or(end, |last| end.max(*last)));
    }

    /// Whether one is open from here to there.
    fn at(&self, from: i64, to: i64) -> bool {
        let after = self.starts.partition_point(|start| *start <= from);
        after > 0 && self.reach[after - 1] > from && self.reach[after - 1] >= to
    }
}

/// The most frequent value; of equally frequent ones the largest.
fn most_frequent(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
        .into_iter()
        .max_by_key(|(value, count)| (*count, *value))
        .map(|(value, _)| value)
}

/// The first instance that counts is left out if it is an outlier against the rest.
fn exclude_cold_start(instances: &mut [Instance]) {
    let counted: Vec<usize> = (0..instances.len())
        .filter(|index| !instances[*index].is_excluded)
        .collect();
    let time = |index: &usize| {
        instances[*index]
            .projection
            .map(|(start, end)| (end - start) as f64)
    };
    let times: Option<Vec<f64>> = counted.iter().map(time).collect();
    if times
        .and_then(|times| z_of_first(&times))
        .is_some_and(|z| z > WARMUP_Z)
    {
        instances[counted[0]].is_excluded = true;
    }
}

/// Modified z-score of the first value against the rest.
fn z_of_first(values: &[f64]) -> Option<f64> {
    let (first, rest) = values
        .split_first()
        .filter(|(_, rest)| rest.len() >= MIN_REST)?;
    let middle = median(rest);
    let deviations: Vec<f64> = rest.iter().map(|value| (value - middle).abs()).collect();
    let spread = match median(&deviations) {
        mad if mad > 0.0 => mad / MAD_FACTOR,
        _ => MEAN_DEVIATION_FACTOR * deviations.iter().sum::<f64>() / deviations.len() as f64,
    };
    (spread > 0.0).then(|| (first - middle) / spread)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_values_is_an_outlier_if_it_is_far_off() {
        // By hand: the rest has median 11 and deviations 1, 0, 1, whose median is 1: (18 - 11) * 0.6745.
        let z = z_of_first(&[18.0, 10.0, 11.0, 12.0]).expect("three to compare with");
        assert!((z - 4.7215).abs() < 1e-9, "{z}");
        // The median of the deviations 0, 0, 0, 3 is 0; their mean is 0.75.
        let z = z_of_first(&[9.0, 5.0, 5.0, 5.0, 8.0]).expect("four to compare with");
        assert!((z - 4.0 / (1.253_314 * 0.75)).abs() < 1e-9, "{z}");
        assert_eq!(z_of_first(&[9.0, 5.0, 6.0]), None);
    }

    #[test]
    fn steps_of_engines_are_stages_after_the_named_ones() {
        let range = |name: &str, start| super::super::Range {
            name: name.to_owned(),
            domain: String::new(),
            start,
            end: start + 5,
            thread: 1,
            is_pushed: true,
        };
        let names = [
            "execute_context_1(9)_generation_2(2)",
            "ProfilerStep#1",
            "gpu_model_runner: forward",
            "forward",
        ];
        let ranges = names
            .iter()
            .zip([0, 10, 20, 30])
            .map(|(name, start)| range(name, start));
        let timeline = Timeline {
            ranges: ranges.collect(),
            ..Timeline::default()
        };
        let found = |own: &[usize]| -> Vec<String> {
            let drafts = drafts(&timeline, own, &Rules::default());
            drafts.into_iter().map(|(rule, _)| rule.name).collect()
        };
        assert_eq!(found(&[0, 1, 2, 3]), ["forward", "mixed_step"]);
        assert_eq!(found(&[2]), ["gpu_model_runner: forward"]);
    }

    #[test]
    fn names_are_stages_by_rule() {
        let rules = built_in();
        let stage = |name: &str| {
            let rule = rules.iter().find(|rule| rule.matches(given_name(name)));
            rule.map(|rule| rule.name.as_str())
        };
        assert_eq!(stage("Train Step"), Some("train_step"));
        assert_eq!(stage("decode, op_id = 3"), Some("decode"));
        assert_eq!(stage("ProfilerStep#12"), Some("ProfilerStep"));
        assert_eq!(stage("decoder"), None);
        assert_eq!(generic_name("iteration 31 of 40"), "iteration N of N");
    }
}
