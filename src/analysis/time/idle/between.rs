//! Idle time between the stages: from the end of one outermost instance to the start of the next. Data loaders,
//! schedulers and logging hide there, because no stage contains it.

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use super::Sweeps;
use super::cause::Cause;
use crate::analysis::Context;
use crate::analysis::engine::facts::StageInstance;
use crate::analysis::engine::intervals::{Interval, measure, union};
use crate::analysis::engine::stage_stats::Summary;
use crate::analysis::engine::stats::median;
use crate::findings::{derived, unavailable};
use crate::model::{GpuId, Ns, StrId, ThreadId};

/// The times between the stages of a process on one GPU.
pub(super) struct Between {
    /// Any summary of the process: for rank and pass.
    summary: Summary,
    gpu: GpuId,
    several_gpus: bool,
    /// By idle time, the most first.
    pub(super) pairs: Vec<Pair>,
    /// Time of the instances that count, and of the times between them, nanoseconds.
    pub(super) run: Ns,
}

/// What lies between instances of two stages that follow one another.
pub(super) struct Pair {
    pub(super) after: String,
    pub(super) before: String,
    /// Idle time of each window, nanoseconds.
    idle: Vec<Ns>,
    /// Time of all windows, nanoseconds.
    pub(super) time: Ns,
    /// Idle time of all windows by cause, in the order of [`Cause::ALL`].
    causes: [Ns; Cause::ALL.len()],
    /// Time of all windows that ranges of the issuing thread cover, which begin between the two stages.
    ranges: BTreeMap<StrId, Ns>,
}

/// The ranges of threads by (thread, start).
pub(super) struct Starts(Vec<(ThreadId, Ns, usize)>);

impl Starts {
    fn new(context: &Context<'_>) -> Self {
        let ranges = &context.session.ranges;
        let mut all: Vec<(ThreadId, Ns, usize)> =
            (0..ranges.len()).map(|row| (ranges.thread[row], ranges.start[row], row)).collect();
        all.sort_unstable();
        Self(all)
    }

    /// Rows of the ranges of a thread that begin in a window.
    fn within(&self, thread: ThreadId, window: Interval) -> impl Iterator<Item = usize> {
        let first = self.0.partition_point(|one| (one.0, one.1) < (thread, window.0));
        let inside = self.0[first..].iter();
        inside.take_while(move |one| one.0 == thread && one.1 < window.1).map(|one| one.2)
    }
}

/// One a process and GPU that run outermost stages; `summaries` are those of one pass.
pub(super) fn between(
    context: &Context<'_>,
    sweeps: &Sweeps<'_>,
    summaries: &[Summary],
) -> Vec<Between> {
    let mut all: Vec<Between> = Vec::new();
    let starts = Starts::new(context);
    for summary in summaries.iter().filter(|one| one.is_outermost(context.facts)) {
        if all.iter().any(|one| one.summary.process == summary.process) {
            continue;
        }
        let chain = chain(context, summary);
        let mut gpus: Vec<GpuId> = chain.iter().flat_map(|one| one.gpus.iter().copied()).collect();
        gpus.sort_unstable();
        gpus.dedup();
        let several_gpus = gpus.len() > 1;
        all.extend(gpus.into_iter().map(|gpu| {
            let mut one =
                Between { summary: summary.clone(), gpu, several_gpus, pairs: Vec::new(), run: 0 };
            one.add(context, sweeps, &starts, &chain);
            one
        }));
    }
    all.retain(|one| !one.pairs.is_empty());
    all
}

/// The outermost instances of a process with GPU work, by its start.
fn chain<'a>(context: &Context<'a>, summary: &Summary) -> Vec<&'a StageInstance> {
    let facts = context.facts;
    let pass = summary.stage(facts).pass;
    let stages = facts.stages.iter().filter(|one| one.pass == pass && one.parent.is_none());
    let instances = stages.flat_map(|stage| facts.instances_of(stage));
    let own = instances.filter(|one| one.process == summary.process && one.projection.is_some());
    let mut own: Vec<&StageInstance> = own.collect();
    own.sort_by_key(|one| (one.projection, one.stage, one.ordinal));
    own
}

impl Between {
    fn add(
        &mut self,
        context: &Context<'_>,
        sweeps: &Sweeps<'_>,
        starts: &Starts,
        chain: &[&StageInstance],
    ) {
        let counts = |one: &StageInstance| one.excluded.is_none();
        let own = chain.iter().filter(|one| one.gpus.contains(&self.gpu));
        let mut stages: Vec<Interval> =
            own.clone().filter(|one| counts(one)).filter_map(|one| one.projection).collect();
        self.run = measure(&union(&mut stages));
        let mut pairs: BTreeMap<(usize, usize), Pair> = BTreeMap::new();
        // The instance that ended last so far: stages may overlap.
        let mut last: Option<(&StageInstance, Ns)> = None;
        for one in own {
            let Some((start, end)) = one.projection else { continue };
            if let Some((before, ended)) = last.filter(|last| last.1 < start)
                && counts(before)
                && counts(one)
            {
                let name = |stage: usize| context.facts.stages[stage].name.clone();
                let pair = pairs
                    .entry((before.stage, one.stage))
                    .or_insert_with(|| Pair::new(name(before.stage), name(one.stage)));
                pair.add(sweeps, self.gpu, (ended, start));
                pair.add_ranges(context, starts, (ended, start), before, one);
                self.run = self.run.saturating_add(start - ended);
            }
            if last.is_none_or(|last| end > last.1) {
                last = Some((one, end));
            }
        }
        self.pairs = pairs.into_values().collect();
        self.pairs.sort_by_key(|pair| std::cmp::Reverse(pair.idle()));
    }

    /// Idle time of all windows, nanoseconds.
    pub(super) fn idle(&self) -> Ns {
        self.pairs.iter().fold(0, |total: Ns, pair| total.saturating_add(pair.idle()))
    }

    /// A time as a share of the run.
    pub(super) fn share(&self, time: Ns) -> f64 {
        if self.run > 0 { time as f64 / self.run as f64 } else { 0.0 }
    }

    /// The rank, and the GPU where the process uses several; empty for a single process with one GPU.
    pub(super) fn label(&self, context: &Context<'_>) -> String {
        let scope = self.scope(context);
        let rank = scope.rank.map(|rank| format!("rank {rank}"));
        let gpu = scope.gpu.map(|gpu| format!("GPU {gpu}"));
        rank.into_iter().chain(gpu).collect::<Vec<_>>().join(" · ")
    }

    /// What metrics are about.
    pub(super) fn scope(&self, context: &Context<'_>) -> Scope {
        let gpu = context.session.gpus.ordinal[self.gpu.index()];
        let gpu = self.several_gpus.then_some(gpu);
        let scope = self.summary.scope(context.session, context.facts);
        Scope { stage: None, gpu, ..scope }
    }

    /// Idle time between the stages, and its share of the run.
    pub(super) fn metrics(&self, context: &Context<'_>, traced: bool) -> Vec<Metric> {
        let scope = self.scope(context);
        let pass = self.summary.stage(context.facts).pass;
        let artifact = context.session.passes.artifact[pass.index()];
        let windows: u64 = self.pairs.iter().map(|pair| pair.windows() as u64).sum();
        let (idle, run) = (self.idle(), self.run);
        let over = format!("{windows} times between instances of outermost stages that count");
        let basis = format!("idle time of {over}");
        let share = format!("idle time {idle} ns ÷ run {run} ns: the instances and {over}");
        let mut all = vec![
            derived("between_idle", scope.clone(), Unit::Nanoseconds, idle as f64, basis),
            derived("between_idle_share", scope.clone(), Unit::Ratio, self.share(idle), share),
        ];
        let host = self.pairs.iter().map(Pair::host).fold(0, Ns::saturating_add);
        all.push(match traced {
            true => {
                let basis = format!(
                    "that of it for which the host had not issued the next work, of {over}"
                );
                derived("between_host", scope, Unit::Nanoseconds, host as f64, basis)
            }
            false => {
                let reason = "the artifact holds no CUDA call";
                unavailable("between_host", scope, Unit::Nanoseconds, reason)
            }
        });
        for metric in &mut all {
            metric.evidence = vec![Evidence {
                artifact: context.session.text(artifact).to_owned(),
                table: Some("launches, copies, api_calls, ranges".to_owned()),
                rows: Some(windows),
            }];
        }
        all
    }
}

impl Pair {
    fn new(after: String, before: String) -> Self {
        Self {
            after,
            before,
            idle: Vec::new(),
            time: 0,
            causes: [0; Cause::ALL.len()],
            ranges: BTreeMap::new(),
        }
    }

    fn add(&mut self, sweeps: &Sweeps<'_>, gpu: GpuId, window: Interval) {
        let mut idle = 0;
        for (gap, time) in sweeps.gaps.within(gpu, window) {
            self.causes[gap.cause as usize] += time;
            idle += time;
        }
        self.idle.push(idle);
        self.time = self.time.saturating_add(window.1 - window.0);
    }

    /// Adds the time of a window that ranges cover which begin after the range of the stage before it. A range
    /// around both stages says nothing about what lies between them.
    fn add_ranges(
        &mut self,
        context: &Context<'_>,
        starts: &Starts,
        window: Interval,
        before: &StageInstance,
        after: &StageInstance,
    ) {
        let (Some(thread), ranges) = (after.thread, &context.session.ranges) else { return };
        let mut covered: BTreeMap<StrId, Vec<Interval>> = BTreeMap::new();
        for row in starts.within(thread, (before.host_end, window.1)) {
            let part = (ranges.start[row].max(window.0), ranges.end[row].min(window.1));
            if part.0 < part.1 {
                covered.entry(ranges.name[row]).or_default().push(part);
            }
        }
        for (name, mut parts) in covered {
            let time = self.ranges.entry(name).or_default();
            *time = time.saturating_add(measure(&union(&mut parts)));
        }
    }

    /// How often the one stage follows the other with time between them.
    pub(super) fn windows(&self) -> usize {
        self.idle.len()
    }

    /// Idle time, nanoseconds.
    pub(super) fn idle(&self) -> Ns {
        self.idle.iter().fold(0, |total: Ns, time| total.saturating_add(*time))
    }

    /// Idle time of the window of median idle time, nanoseconds.
    pub(super) fn median(&self) -> Option<f64> {
        median(&self.idle.iter().map(|time| *time as f64).collect::<Vec<_>>())
    }

    /// The longest idle time of a window, nanoseconds.
    pub(super) fn longest(&self) -> Ns {
        self.idle.iter().copied().max().unwrap_or(0)
    }

    /// Idle time of a cause, nanoseconds.
    pub(super) fn of(&self, cause: Cause) -> Ns {
        self.causes[cause as usize]
    }

    /// Idle time for which the host had not issued the next work, nanoseconds.
    fn host(&self) -> Ns {
        Cause::HOST.iter().fold(0, |total: Ns, cause| total.saturating_add(self.of(*cause)))
    }

    /// The cause of most idle time.
    pub(super) fn cause(&self) -> Cause {
        let most = Cause::ALL.into_iter().rev().max_by_key(|cause| self.of(*cause));
        most.unwrap_or(Cause::Unknown)
    }

    /// The range that covers most, and its time, nanoseconds; of equal ones the first by name.
    pub(super) fn range(&self, context: &Context<'_>) -> Option<(String, Ns)> {
        let named = |(name, time): (&StrId, &Ns)| (context.session.text(*name).to_owned(), *time);
        let named = self.ranges.iter().map(named);
        named.max_by(|a, b| (a.1, &b.0).cmp(&(b.1, &a.0)))
    }
}
