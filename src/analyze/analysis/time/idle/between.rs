//! Idle time between the stages: from the end of one outermost instance to the start of the next. Data loaders,
//! schedulers and logging hide there, because no stage contains it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Scope};

use super::Inputs;
use super::cause::{Cause, Times, Traced};
use super::line::gpus_of;
use super::sources::{Finder, Recurs, Sources, Window};
use crate::engine::facts::{Facts, StageInstance};
use crate::engine::intervals::{Interval, add, measure, total, union};
use crate::engine::repeats::is_repeating;
use crate::engine::stage_stats::{Summary, median_time};
use crate::{Context, Known};
use rooflens_session::{Arrange, GpuId, Ns, Session, StrId, ThreadId};
use rooflens_units::{Ratio, Time};

/// The times between the stages of a process on one GPU.
pub struct Between {
    /// Any summary of the process: for rank and pass.
    pub summary: Summary,
    /// GPU.
    pub gpu: GpuId,
    several_gpus: bool,
    traced: Traced,
    /// By idle time, the most first.
    pub pairs: Vec<Pair>,
    /// Time of the instances that count, and of the times between them, nanoseconds.
    pub run: Ns,
}

/// Windows from which on a gap of one of them is no loss of a loop.
pub const MANY: usize = 10;

/// Whether the longest of many windows is at least twice as long as any other.
pub(super) fn is_once(windows: &[Ns]) -> bool {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable_by_key(|time| Reverse(*time));
    match sorted[..] {
        [longest, next, ..] => windows.len() >= MANY && longest / 2 >= next,
        _ => false,
    }
}

/// What lies between instances of two stages that follow one another.
pub struct Pair {
    /// The stage that ends, an index into the facts' stages.
    pub from: usize,
    /// The stage that starts next.
    pub to: usize,
    /// Idle time of each window, nanoseconds.
    idle: Vec<Ns>,
    /// How far the host is ahead of the GPU where the stage before each window begins, nanoseconds.
    leads: Vec<Ns>,
    /// Idle time of all windows while the host is still in the stage that ends, nanoseconds.
    behind: Ns,
    /// Idle time of all windows while the host is in the stage that starts, nanoseconds.
    inside: Ns,
    /// Time of all windows, nanoseconds.
    pub time: Ns,
    /// Idle time of all windows by cause.
    pub causes: Times,
    /// Time of all windows that ranges of the issuing thread cover, which begin between the two stages.
    ranges: BTreeMap<StrId, Ns>,
    /// What the host did in the idle time.
    pub sources: Sources,
    /// The windows, each with the thread of the stage that starts.
    between: Vec<Window>,
}

/// Where the host is while the GPU is idle between two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostPlace {
    /// In neither of them.
    Outside,
    /// In the range of the stage that ends, an index into the facts' stages.
    Last(usize),
    /// In the range of the stage that starts.
    Next(usize),
}

impl HostPlace {
    /// The stage in whose range it is.
    pub const fn stage(self) -> Option<usize> {
        match self {
            Self::Outside => None,
            Self::Last(stage) | Self::Next(stage) => Some(stage),
        }
    }
}

/// The ranges of threads by (thread, start).
struct Starts(Vec<(ThreadId, Ns, usize)>);

impl Starts {
    fn new(context: &Context<'_>) -> Self {
        let ranges = &context.session.ranges;
        let mut starts: Vec<(ThreadId, Ns, usize)> = (0..ranges.len())
            .map(|row| (ranges.thread[row], ranges.start[row], row))
            .collect();
        starts.sort_unstable();
        Self(starts)
    }

    /// Rows of the ranges of a thread that begin in a window.
    fn within(&self, thread: ThreadId, window: Interval) -> impl Iterator<Item = usize> {
        let first = self
            .0
            .partition_point(|start| (start.0, start.1) < (thread, window.0));
        let inside = self.0[first..].iter();
        inside
            .take_while(move |start| start.0 == thread && start.1 < window.1)
            .map(|start| start.2)
    }
}

/// One a process and GPU that run outermost stages of the primary pass or of another rank of its run.
pub(super) fn between(
    context: &Context<'_>,
    inputs: &Inputs<'_>,
    finder: &Finder<'_>,
) -> Vec<Between> {
    let mut processes: Vec<Between> = Vec::new();
    let starts = Starts::new(context);
    let facts = context.facts;
    for summary in facts
        .run_summaries()
        .filter(|summary| summary.is_outermost(facts))
    {
        if processes
            .iter()
            .any(|between| between.summary.process == summary.process)
        {
            continue;
        }
        let chain = chain(context, summary);
        let gpus = gpus_of(&chain);
        let (several_gpus, traced) = (gpus.len() > 1, inputs.traced(summary.stage(facts).pass));
        processes.extend(gpus.into_iter().map(|gpu| {
            let (summary, pairs) = (summary.clone(), Vec::new());
            let mut between = Between {
                summary,
                gpu,
                several_gpus,
                traced,
                pairs,
                run: Ns::ZERO,
            };
            between.add(context, inputs, &starts, &chain);
            for pair in &mut between.pairs {
                pair.sources = finder.sources(gpu, &pair.between, Recurs::Iterations);
            }
            between
        }));
    }
    processes.retain(|between| !between.pairs.is_empty());
    processes
}

/// The outermost instances of a process with GPU work, by its start.
fn chain<'a>(context: &Context<'a>, summary: &Summary) -> Vec<&'a StageInstance> {
    let facts = context.facts;
    let pass = summary.stage(facts).pass;
    let stages = facts
        .stages
        .iter()
        .filter(|stage| stage.pass == pass && stage.parent.is_none());
    let instances = stages.flat_map(|stage| facts.instances_of(stage));
    let chain = instances
        .filter(|instance| instance.process == summary.process && instance.projection.is_some());
    let mut chain: Vec<&StageInstance> = chain.collect();
    chain.arrange_by_key(|instance| (instance.projection, instance.stage, instance.ordinal));
    chain
}

impl Between {
    fn add(
        &mut self,
        context: &Context<'_>,
        inputs: &Inputs<'_>,
        starts: &Starts,
        chain: &[&StageInstance],
    ) {
        let counts = |instance: &StageInstance| instance.excluded.is_none();
        let on_gpu = chain
            .iter()
            .filter(|instance| instance.gpus.contains(&self.gpu));
        let mut stages: Vec<Interval> = on_gpu
            .clone()
            .filter(|instance| counts(instance))
            .filter_map(|instance| instance.projection)
            .collect();
        self.run = measure(&union(&mut stages));
        let mut pairs: BTreeMap<(usize, usize), Pair> = BTreeMap::new();
        // The instance that ended last so far: stages may overlap. Before it began, the GPU worked until `until`.
        let mut last: Option<(&StageInstance, Ns)> = None;
        let mut until = Ns::ZERO;
        for instance in on_gpu {
            let Some((start, end)) = instance.projection else {
                continue;
            };
            if let Some((before, ended)) = last.filter(|last| last.1 < start)
                && counts(before)
                && counts(instance)
            {
                let pair = pairs
                    .entry((before.stage, instance.stage))
                    .or_insert_with(|| Pair::new(before.stage, instance.stage));
                let (time, thread) = ((ended, start), instance.thread);
                pair.between.push(Window { time, thread });
                pair.add(
                    inputs,
                    self.gpu,
                    time,
                    (before.host_end, instance.host_start),
                );
                pair.leads.push((until - before.host_start).max(Ns::ZERO));
                pair.add_ranges(context, starts, (ended, start), before, instance);
                add(&mut self.run, start - ended);
            }
            if last.is_none_or(|last| end > last.1) {
                until = last.map_or(Ns::ZERO, |last| last.1);
                last = Some((instance, end));
            }
        }
        self.pairs = pairs.into_values().collect();
        self.pairs.arrange_by_key(|pair| Reverse(pair.idle()));
    }

    /// Idle time of all windows, nanoseconds.
    pub fn idle(&self) -> Ns {
        total(self.pairs.iter().map(Pair::idle))
    }

    /// The part of it for which the host had not issued the next work, nanoseconds.
    ///
    /// # Errors
    /// If the artifact does not tell causes.
    pub fn host(&self) -> Known<Ns> {
        self.traced
            .calls()
            .map(|()| total(self.pairs.iter().map(|pair| pair.causes.sum(&Cause::HOST))))
    }

    /// How often stages follow one another with time between them.
    pub fn windows(&self) -> usize {
        self.pairs.iter().map(Pair::windows).sum()
    }

    /// A time as a share of the run.
    pub fn share(&self, time: Ns) -> Ratio {
        if self.run > Ns::ZERO {
            Ratio::of(time, self.run)
        } else {
            Ratio::ZERO
        }
    }

    /// The rank, and the GPU where the process uses several; empty for a single process with one GPU.
    pub fn label(&self, context: &Context<'_>) -> String {
        let scope = self.scope(context);
        let rank = scope.rank.map(|rank| format!("rank {rank}"));
        let gpu = scope.gpu.map(|gpu| format!("GPU {gpu}"));
        rank.into_iter().chain(gpu).collect::<Vec<_>>().join(" · ")
    }

    /// What its figures rest on.
    pub fn evidence(&self, context: &Context<'_>) -> Evidence {
        let pass = self.summary.stage(context.facts).pass;
        let tables = "launches, copies, api_calls, ranges";
        context
            .session
            .evidence(pass, tables, self.windows() as u64)
    }

    /// What metrics are about.
    pub fn scope(&self, context: &Context<'_>) -> Scope {
        let gpu = context.session.gpus.ordinal[self.gpu.index()];
        let gpu = self.several_gpus.then_some(gpu);
        let scope = self.summary.scope(context.session, context.facts);
        Scope {
            stage: None,
            gpu,
            ..scope
        }
    }
}

impl Pair {
    fn new(from: usize, to: usize) -> Self {
        Self {
            from,
            to,
            idle: Vec::new(),
            leads: Vec::new(),
            behind: Ns::ZERO,
            inside: Ns::ZERO,
            time: Ns::ZERO,
            causes: Times::default(),
            ranges: BTreeMap::new(),
            sources: Sources::default(),
            between: Vec::new(),
        }
    }

    /// Adds a window, in which the host leaves the stage that ends and enters the one that starts.
    fn add(
        &mut self,
        inputs: &Inputs<'_>,
        gpu: GpuId,
        window: Interval,
        (leaves, enters): (Ns, Ns),
    ) {
        let mut idle = Ns::ZERO;
        for gap in inputs.gaps.within(gpu, window) {
            self.causes.extend(&gap.times);
            idle += gap.end - gap.start;
            self.behind += (gap.end.min(leaves) - gap.start).max(Ns::ZERO);
            self.inside += (gap.end - gap.start.max(enters)).max(Ns::ZERO);
        }
        self.idle.push(idle);
        add(&mut self.time, window.1 - window.0);
    }

    /// Adds the time of a window that ranges cover which begin after the range of the stage before it, and are no range of
    /// both stages. A range around both stages says nothing about what lies between them.
    fn add_ranges(
        &mut self,
        context: &Context<'_>,
        starts: &Starts,
        window: Interval,
        before: &StageInstance,
        after: &StageInstance,
    ) {
        let (Some(thread), ranges) = (after.thread, &context.session.ranges) else {
            return;
        };
        let mut covered: BTreeMap<StrId, Vec<Interval>> = BTreeMap::new();
        let names =
            [before.stage, after.stage].map(|stage| context.facts.stages[stage].name.as_str());
        for row in starts.within(thread, (before.host_end, window.1)) {
            if names.contains(&context.session.text(ranges.name[row])) {
                continue;
            }
            let part = (
                ranges.start[row].max(window.0),
                ranges.end[row].min(window.1),
            );
            if part.0 < part.1 {
                covered.entry(ranges.name[row]).or_default().push(part);
            }
        }
        for (name, mut parts) in covered {
            add(
                self.ranges.entry(name).or_default(),
                measure(&union(&mut parts)),
            );
        }
    }

    /// How often the one stage follows the other with time between them.
    pub fn windows(&self) -> usize {
        self.idle.len()
    }

    /// Idle time, nanoseconds.
    pub fn idle(&self) -> Ns {
        total(self.idle.iter().copied())
    }

    /// Idle time of the window of median idle time.
    pub fn median(&self) -> Option<Time> {
        median_time(self.idle.iter().copied())
    }

    /// The longest idle time of a window.
    pub fn longest(&self) -> Ns {
        self.idle.iter().copied().max().unwrap_or(Ns::ZERO)
    }

    /// Where the host is for the largest part of the idle time. A sequence of kernels has no range: its first launch is
    /// between two of them.
    pub fn host_place(&self, facts: &Facts) -> HostPlace {
        let outside = self.idle() - self.behind - self.inside;
        let of_range = |stage: usize, time| match is_repeating(&facts.stages[stage]) {
            true => Ns::ZERO,
            false => time,
        };
        let behind = of_range(self.from, self.behind);
        let inside = of_range(self.to, self.inside);
        match () {
            () if outside >= behind.max(inside) => HostPlace::Outside,
            () if inside >= behind => HostPlace::Next(self.to),
            () => HostPlace::Last(self.from),
        }
    }

    /// Idle time of all windows while the host is there, nanoseconds.
    pub fn in_place(&self, place: HostPlace) -> Ns {
        match place {
            HostPlace::Outside => self.idle() - self.behind - self.inside,
            HostPlace::Last(_) => self.behind,
            HostPlace::Next(_) => self.inside,
        }
    }

    /// Idle time in which the GPU would still work if the host kept its lead through the stage before, or else did not
    /// wait there for this long, nanoseconds.
    pub fn hidden(&self, waits: Ns, keeps_lead: bool) -> Ns {
        let mut hidden = Ns::ZERO;
        for (idle, lead) in self.idle.iter().zip(&self.leads) {
            let lead = if keeps_lead { *lead } else { Ns::ZERO };
            hidden += (*idle).min(lead.max(waits));
        }
        hidden
    }

    /// What the longest window is longer than the median one, if that is most of the idle time, or if no other of many
    /// windows is as long: it happens once.
    pub fn once(&self) -> Option<Ns> {
        let beyond = self.longest() - self.median()?.round();
        let is_most = beyond > self.idle() / 2;
        (is_most || is_once(&self.idle)).then_some(beyond)
    }

    /// The range that covers most, and its share of the time; of equal ones the first by name.
    pub fn range(&self, session: &Session) -> Option<(StrId, Ratio)> {
        let most = self
            .ranges
            .iter()
            .max_by_key(|(name, time)| (*time, Reverse(session.text(**name))));
        most.map(|(name, time)| (*name, Ratio::of(*time, self.time.max(Ns(1)))))
    }
}

impl Between {
    /// For tests: times between the stages of the first process on the first GPU.
    pub fn made(run: Ns, pairs: Vec<Pair>) -> Self {
        let (summary, traced) = (Summary::default(), Traced::ALL);
        Self {
            summary,
            gpu: GpuId(0),
            several_gpus: false,
            traced,
            pairs,
            run,
        }
    }
}

impl Pair {
    /// For tests: windows in which the GPU is idle for one cause, and the time of them that a range covers.
    pub fn made(
        (from, to): (usize, usize),
        idle: &[i64],
        cause: Cause,
        (range, covered): (StrId, i64),
    ) -> Self {
        let mut pair = Self {
            idle: idle.iter().copied().map(Ns).collect(),
            ..Self::new(from, to)
        };
        pair.time = pair.idle();
        pair.causes = Times::one(cause, pair.time);
        pair.ranges.insert(range, Ns(covered));
        pair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_many_happens_once_if_no_other_is_half_as_long() {
        let windows = |longest: &[i64], others: usize| {
            let windows = longest
                .iter()
                .copied()
                .chain(std::iter::repeat_n(1, others));
            windows.map(Ns).collect::<Vec<Ns>>()
        };
        assert!(is_once(&windows(&[20], 9)));
        assert!(!is_once(&windows(&[20], 8)), "nine windows are few");
        assert!(!is_once(&windows(&[20, 11], 9)));
    }
}
