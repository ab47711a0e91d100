//! What rules read: typed results, and the stages of the primary pass.

use std::collections::BTreeMap;

use rooflens_schemas::Scope;

use crate::known::UNLIMITED;
use crate::pauses;
use crate::rule::{Look, Outcome};
use crate::stage::{Key, StageLine, stage_lines};
use crate::stage_results::is;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::facts::OpIndex;
use rooflens_analysis::engine::intervals::total;
use rooflens_analysis::engine::platform::Platform;
use rooflens_analysis::engine::stage_stats::{Summary, summaries};
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::operators::chains::measured_loop;
use rooflens_analysis::time::idle::between::{Between, HostPlace, MANY, Pair};
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_analysis::time::upper_bounds::Overhead;
use rooflens_analysis::{Context, Facts, Results};
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Inline, Part, Quantity, Severity};
use rooflens_session::{KernelId, Ns, PassId, ProcessId, Session};
use rooflens_stats::median;
use rooflens_units::{Bytes, Ratio, Time};

/// Share of the time of all stages below which a stage has no findings.
const LEAST_STAGE: Ratio = Ratio(0.01);

/// Difference of shares between iterations from which on it is said.
const DIFFERS: Ratio = Ratio(0.01);

/// Causes of idle time without work of the host: without the waits it works as long as before.
const WAITS: [Cause; 4] = [Cause::Sync, Cause::Copy, Cause::Communication, Cause::Queue];

/// CPU samples from which on it is said what ran; share of them from which on a library is named, and how many are.
const ENOUGH_SAMPLES: usize = 30;
const SAMPLED_SHARE: Ratio = Ratio(0.05);
const SHOWN_LIBRARIES: usize = 3;

/// Time of whole graphs ÷ operation time of a stage from which on its operations are hidden.
pub(crate) const HIDDEN: Ratio = Ratio(0.10);

/// The results of one bundle, with the stages of its primary pass.
pub(crate) struct Evidence<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) session: &'a Session,
    pub(crate) facts: &'a Facts,
    pub(crate) results: &'a Results,
    pub(crate) text: &'static Catalogue,
    /// The outermost stages of the primary pass, one a rank.
    pub(crate) stages: Vec<StageLine>,
    pub(crate) primary: Option<PassId>,
    /// The pass whose kernels are shown: the primary one, or that with the nodes of its CUDA graphs.
    pub(crate) kernel_pass: Option<PassId>,
    /// Name of the pass that the stages are of.
    pub(crate) pass: String,
    /// The dtype of the workload's matrix work, if it is stated.
    pub(crate) dtype: Option<String>,
    pub(crate) platform: Platform,
    /// The least memory of a GPU.
    pub(crate) memory: Option<Bytes>,
}

/// Times of the measured loop of a rank.
#[derive(Default)]
struct Loop {
    /// Typical iterations, unprofiled where that is known.
    typical: Time,
    /// All of it as captured.
    captured: Time,
    /// What the profiler adds to typical iterations.
    added: Time,
}

impl<'a> Evidence<'a> {
    /// Evidence without stages.
    pub(crate) fn empty(context: Context<'a>, text: &'static Catalogue) -> Self {
        Self {
            context,
            session: context.session,
            facts: context.facts,
            results: context.results,
            text,
            stages: Vec::new(),
            primary: None,
            kernel_pass: None,
            pass: String::new(),
            dtype: None,
            platform: Platform::default(),
            memory: None,
        }
    }

    pub(crate) fn new(context: &Context<'a>, text: &'static Catalogue) -> Self {
        let session = context.session;
        let primary = context.facts.primary_pass(session);
        let pass_name = primary.map(|pass| session.pass_name(pass).to_owned());
        let memory = session.gpus.memory_bytes.iter().flatten().min();
        let stated = session.workload.dtype.clone();
        let of_model = || session.model.as_ref()?.dtype.clone();
        let mut evidence = Self {
            stages: stage_lines(context, text),
            primary,
            kernel_pass: context.facts.kernel_pass(session),
            platform: Platform::of(session, primary),
            pass: pass_name.unwrap_or_default(),
            dtype: stated.or_else(of_model),
            memory: memory.map(|bytes| Bytes(*bytes as f64)),
            ..Self::empty(*context, text)
        };
        evidence.add_unprofiled();
        evidence.add_overlaps();
        evidence.add_limits();
        evidence.add_loop();
        evidence
            .stages
            .retain(|stage| stage.total() >= stage.of_loop * LEAST_STAGE);
        evidence.add_kernels();
        evidence
    }

    /// Adds where the kernels of each stage are, if the primary pass traces CUDA graphs as a whole.
    fn add_kernels(&mut self) {
        let (session, facts) = (self.session, self.facts);
        let Some(pass) = self.kernel_pass.filter(|pass| Some(*pass) != self.primary) else {
            return;
        };
        for stage in &mut self.stages {
            let is_same = |summary: &&Summary| {
                let scope = summary.scope(session, facts);
                (&scope.stage, scope.rank) == (&stage.scope.stage, stage.scope.rank)
            };
            if let Some(summary) = summaries(facts, pass).iter().find(is_same) {
                stage.kernels = (summary.stage, summary.process);
            }
        }
    }

    /// The same with the stages of the pass that shows the kernels, if it is another one. Times and numbers of iterations
    /// stay those of the primary pass, and so do stages that the other pass did not record.
    pub(crate) fn of_kernels(&self) -> Option<Self> {
        let pass = self
            .kernel_pass
            .filter(|pass| Some(*pass) != self.primary)?;
        let mut stages = Vec::new();
        for stage in &self.stages {
            let mut summaries = summaries(self.facts, pass).iter();
            let summary = summaries.find(|summary| is(stage.kernels, summary));
            stages.push(match summary {
                Some(summary) => stage.with_kernels(&self.context, summary),
                None => stage.clone(),
            });
        }
        Some(Self {
            stages,
            primary: self.primary,
            kernel_pass: self.kernel_pass,
            pass: self.session.pass_name(pass).to_owned(),
            dtype: self.dtype.clone(),
            platform: self.platform,
            memory: self.memory,
            ..Self::empty(self.context, self.text)
        })
    }

    /// Adds the time of the measured loop to each stage, by rank: all measured iterations and the time between them, without
    /// what the profiler adds to typical iterations.
    pub(crate) fn add_loop(&mut self) {
        let mut loops = BTreeMap::<Option<u32>, Loop>::new();
        for stage in &self.stages {
            let of_rank = loops.entry(stage.scope.rank).or_default();
            of_rank.typical += stage.total();
            of_rank.captured = of_rank.captured.max(self.captured_loop(stage));
            of_rank.added += pauses::added_by_profiler(self, stage);
            of_rank.added += pauses::stalls_of_profiler(self, stage);
        }
        for stage in &mut self.stages {
            let of_rank = &loops[&stage.scope.rank];
            let unprofiled = of_rank.captured - of_rank.added;
            stage.of_loop = of_rank.typical.max(unprofiled);
        }
    }

    /// All measured iterations of the process of a stage with the time between them, as captured.
    fn captured_loop(&self, stage: &StageLine) -> Time {
        let betweens = self.results.idle().map(|idle| idle.between.as_slice());
        let mut captured = self
            .idle(stage.key())
            .map_or(Time::ZERO, |idle| idle.pool.time.time());
        for between in betweens.unwrap_or_default() {
            if between.summary.process == stage.process {
                captured = captured.max(between.run.time());
            }
        }
        captured
    }

    /// The times between the stages of a process, on its first GPU.
    pub(crate) fn between(&self, process: ProcessId) -> Option<&'a Between> {
        let mut between = self.results.idle().ok()?.between.iter();
        between.find(|between| between.summary.process == process)
    }

    /// Idle time while the host is in the range of a stage before its first or after its last operation, over all iterations.
    pub(crate) fn around_operations(&self, stage: &StageLine) -> Time {
        let pairs = self.between(stage.process).map(|between| &between.pairs);
        let mut around = Time::ZERO;
        for pair in pairs.into_iter().flatten() {
            for (of_pair, place) in [
                (pair.to, HostPlace::Next(pair.to)),
                (pair.from, HostPlace::Last(pair.from)),
            ] {
                if of_pair == stage.stage {
                    around += pair.in_place(place).time();
                }
            }
        }
        around
    }

    /// The times between stages for most of whose idle time the host is in the range of this one.
    pub(crate) fn around(&self, stage: &StageLine) -> impl Iterator<Item = &'a Pair> {
        let (facts, row) = (self.facts, stage.stage);
        let between = self.between(stage.process).into_iter();
        let pairs = between.flat_map(|between| &between.pairs);
        pairs.filter(move |pair| pair.host_place(facts).stage() == Some(row))
    }

    /// How many times as long the GPU is idle in the range of a stage without the profiler, at least once: what the host
    /// does there then takes longer, too.
    pub(crate) fn longer_unprofiled(&self, stage: &StageLine) -> f64 {
        let around = self.around_operations(stage) / stage.counted.0;
        let profiled = around + (stage.time - stage.busy).max(Time::ZERO);
        match profiled.is_positive() {
            true => (stage.idle() / profiled).max(1.0),
            false => 1.0,
        }
    }

    /// Adds unprofiled times to the stages: those of as many steps, where the stage has steps.
    pub(crate) fn add_unprofiled(&mut self) {
        let Ok(baseline) = self.results.baseline() else {
            return;
        };
        for stage in &mut self.stages {
            if stage.scope.rank.is_some() {
                continue;
            }
            let pass = stage.scope.pass.as_deref().unwrap_or_default();
            let name = stage.scope.stage.as_deref().unwrap_or_default();
            let key = (pass, name, stage.kind);
            let timed = baseline.of_stage(self.session, key, stage.steps);
            stage.unprofiled = timed.map(|(_, time)| time);
        }
    }

    /// Adds the time in which earlier iterations of any stage of the process still run.
    fn add_overlaps(&mut self) {
        // By process each start, with the last end of this span and all before it.
        let mut running: BTreeMap<ProcessId, Vec<(Ns, Ns)>> = BTreeMap::new();
        for stage in &self.stages {
            let spans = running.entry(stage.process).or_default();
            spans.extend(self.spans(stage));
        }
        for spans in running.values_mut() {
            spans.sort_unstable();
            let mut latest = None;
            for (_, end) in spans {
                *end = latest.unwrap_or(*end).max(*end);
                latest = Some(*end);
            }
        }
        let mut overlaps = Vec::new();
        for stage in &self.stages {
            let spans = &running[&stage.process];
            let mut covered = Vec::new();
            for (start, end) in self.spans(stage) {
                let earlier = spans.partition_point(|(other, _)| *other < start);
                let until = spans[..earlier].last().map_or(start, |(_, end)| *end);
                covered.push(until.min(end).saturating_sub(start).max(Ns::ZERO).time().0);
            }
            overlaps.push(median(&covered).map_or(Time::ZERO, Time));
        }
        for (stage, overlapped) in self.stages.iter_mut().zip(overlaps) {
            stage.overlapped = overlapped;
        }
    }

    /// First to last GPU operation of the measured iterations of a stage.
    fn spans(&self, stage: &StageLine) -> Vec<(Ns, Ns)> {
        let summary = self.summary(stage).into_iter();
        let instances = summary.flat_map(|summary| summary.counted_instances(self.facts));
        instances
            .filter_map(|instance| instance.projection)
            .collect()
    }

    /// Whether the unprofiled times are those of one rank, and stages those of each.
    pub(crate) fn has_baseline_of_one_rank(&self) -> bool {
        let Ok(baseline) = self.results.baseline() else {
            return false;
        };
        for stage in &self.stages {
            if let (Some(_), Some(name)) = (stage.scope.rank, &stage.scope.stage)
                && baseline.unprofiled(self.session, name).is_some()
            {
                return true;
            }
        }
        false
    }

    /// Idle time of a stage; of several GPUs that of the first.
    pub(crate) fn idle(&self, (stage, process): Key) -> Option<&'a StageIdle> {
        let idle_of_gpus = self.results.idle().ok()?.of(stage, process);
        idle_of_gpus.min_by_key(|idle| self.session.gpus.ordinal[idle.gpu.index()])
    }

    /// Upper bound of the time that a stage gains without this overhead.
    pub(crate) fn gain(&self, overhead: Overhead, stage: &StageLine) -> Option<Time> {
        let bounds = self.results.upper_bounds().ok()?;
        let bound = bounds.of(stage.stage, stage.process)?.get(overhead);
        let new_time = bound.as_ref().ok()?.new_time;
        Some((stage.time - new_time).max(Time::ZERO))
    }

    /// Looks at each stage of which idle time of a cause is known, with the time of an instance that no activity with a name
    /// explains, pooled over all; a
    /// stage of whose time such a share is idle for unknown cause does not pass.
    pub(crate) fn per_cause(
        &self,
        cause: Cause,
        share: Ratio,
        look: impl Fn(&StageLine, &'a StageIdle, Time) -> Look,
    ) -> Outcome {
        let outcome = self.each_stage(|stage| {
            let Some(idle) = self.idle(stage.key()) else {
                return Look::InsufficientData;
            };
            let Ok(time) = idle.rest_of_stage(cause) else {
                return Look::InsufficientData;
            };
            match look(stage, idle, time) {
                Look::Passed if idle.share(idle.of(Cause::Unknown)) >= share => {
                    Look::InsufficientData
                }
                look => look,
            }
        });
        outcome.or_needs(words!(self, "findings.needs_idle"))
    }

    /// How long the GPU is idle in a stage for some causes, in words: in all of it, or in the few iterations that have them.
    pub(crate) fn idles(
        &self,
        stage: &StageLine,
        idle: &StageIdle,
        causes: &[Cause],
        saved: Time,
    ) -> Vec<Inline> {
        let spread = idle.rest_spread(causes);
        let share = (!spread.is_rare()).then(|| stage.share(saved));
        let differs = share.is_some() && spread.most - spread.least >= DIFFERS;
        let few = spread.is_rare().then_some(spread.instances);
        say!(
            self,
            "findings.idles",
            stage = Inline::strong(&stage.label),
            share = share,
            least = differs.then_some(spread.least),
            most = spread.most,
            few = few.map(|count| Quantity::count(count as u64)),
            all = Quantity::count(spread.of as u64),
            time = Quantity::ns(idle.pool.rest(causes)),
        )
    }

    /// What CPU samples found of the issuing threads while the GPU waited for them, in words; nothing of few samples.
    pub(crate) fn sampled(&self, idle: &StageIdle) -> Option<Vec<Inline>> {
        let total = idle.samples();
        let mut parts = Vec::new();
        for (library, samples) in idle.libraries(self.session) {
            let share = Ratio(samples as f64 / total as f64);
            if share >= SAMPLED_SHARE && parts.len() < SHOWN_LIBRARIES {
                let library = self.session.text(library);
                parts.push(words!(
                    self,
                    "findings.sampled_in",
                    share = share,
                    library = library
                ));
            }
        }
        if total < ENOUGH_SAMPLES || parts.is_empty() {
            return None;
        }
        let samples = Quantity::count(total as u64);
        Some(say!(
            self,
            "findings.sampled",
            samples = samples,
            parts = parts.join(", ")
        ))
    }

    /// Whether the bundle holds no CPU samples.
    pub(crate) fn has_no_samples(&self) -> bool {
        self.session.cpu_samples.is_empty()
    }

    /// A finding about idle time of some causes of a stage, of which `saved` of an instance could be saved: over all
    /// iterations, if only few have them.
    pub(crate) fn saving_idle(
        &self,
        stage: &StageLine,
        idle: &StageIdle,
        causes: &[Cause],
        saved: Time,
    ) -> Finding {
        self.saving_idle_within(stage, idle, causes, (saved, stage.idle()))
    }

    /// The same of idle time that is at most so long without the profiler.
    pub(crate) fn saving_idle_within(
        &self,
        stage: &StageLine,
        idle: &StageIdle,
        causes: &[Cause],
        (saved, most): (Time, Time),
    ) -> Finding {
        let is_wait = causes.iter().all(|cause| WAITS.contains(cause));
        let finding = match is_wait {
            true => stage.saving_waits(saved),
            false => stage.saving_idle_within(saved, most),
        };
        let finding = Finding {
            evidence: vec![idle.evidence(&self.context)],
            ..finding
        };
        let spread = idle.rest_spread(causes);
        if !spread.is_rare() {
            return finding;
        }
        // First use in one iteration is over, and so is allocation in the first one.
        let is_first = idle
            .instances
            .iter()
            .take(1)
            .any(|first| first.rest(causes) > Ns::ZERO);
        let is_over = match causes {
            [Cause::FirstUse] => true,
            [Cause::Allocator] => is_first,
            _ => false,
        };
        // What one of many has is no loss of a loop.
        if spread.instances <= 1 && (is_over || spread.of >= MANY) {
            return Finding {
                evidence: finding.evidence,
                ..stage.note()
            };
        }
        let label = stage.label.as_str();
        let most = match is_wait {
            true => idle.waits().time(),
            false => UNLIMITED,
        };
        let gain = Gain {
            saved_ns: idle.pool.rest(causes).time().min(most),
            of_ns: idle.pool.time.time(),
            of: words!(self, "findings.all_iterations", stage = label),
            basis: String::new(),
            kind: GainKind::Stalls,
        };
        Finding {
            gain: Some(gain),
            ..finding
        }
    }

    /// Whether the model is known to have projections of queries, keys and values.
    pub(crate) fn has_projections(&self) -> bool {
        let model = self.session.model.as_ref();
        model.is_some_and(|model| model.outline.heads > 0)
    }

    /// Whether its feed-forward blocks are known to be gated.
    pub(crate) fn has_gate(&self) -> bool {
        let model = self.session.model.as_ref();
        model.is_some_and(|model| model.outline.gated)
    }

    /// The outcome over all stages.
    pub(crate) fn each_stage(&self, look: impl Fn(&StageLine) -> Look) -> Outcome {
        let labeled = |stage| (StageLine::label(stage), look(stage));
        Outcome::of_stages(self.stages.iter().map(labeled))
    }

    /// The stage of this name in the primary pass, or the one that holds it.
    pub(crate) fn outermost(&self, name: &str) -> Option<&StageLine> {
        let is_named = |scope: &Scope| scope.stage.as_deref() == Some(name);
        let holds = |stage: &&StageLine| {
            is_named(&stage.scope) || stage.nested.iter().any(|nested| is_named(&nested.scope))
        };
        self.stages.iter().find(holds)
    }

    /// Whether the operations of a stage are known one by one: not as whole CUDA graphs.
    pub(crate) fn shows_operations(&self, stage: &StageLine) -> bool {
        let work = self.work(stage.key());
        work.is_some_and(|work| hidden_share(work).is_none())
    }

    /// Whether the primary pass is that of a process without others: of one rank, without collectives.
    pub(crate) fn is_alone(&self) -> bool {
        for stage in &self.stages {
            if stage.scope.rank.is_some() || !self.shows_operations(stage) {
                return false;
            }
        }
        let has_collectives = match self.results.communication() {
            Ok(communication) => communication.runs.iter().any(|run| !run.lines.is_empty()),
            Err(_) => false,
        };
        !self.stages.is_empty() && !has_collectives
    }

    /// Time of the measured loop, of the rank with the longest.
    pub(crate) fn loop_time(&self) -> Time {
        let loops = self.stages.iter().map(|stage| stage.of_loop);
        loops.fold(Time::ZERO, Time::max)
    }

    /// That of a process.
    pub(crate) fn loop_of(&self, process: ProcessId) -> Time {
        let mut stages = self.stages.iter();
        let stage = stages.find(|stage| stage.process == process);
        stage.map_or(Time::ZERO, |stage| stage.of_loop)
    }

    /// Time in which the GPU is busy in all stages of the primary pass, of the rank with the most.
    pub(crate) fn busy_time(&self) -> Time {
        let mut busy_of_rank = BTreeMap::<Option<u32>, Time>::new();
        for stage in &self.stages {
            *busy_of_rank.entry(stage.scope.rank).or_default() += stage.busy * stage.counted;
        }
        busy_of_rank.into_values().fold(Time::ZERO, Time::max)
    }

    /// GPU operations of the first process in the measured loop of a pass.
    fn loop_ops(&self, pass: Option<PassId>) -> Option<Vec<usize>> {
        let (pass, ops) = (pass?, &self.facts.ops);
        let (start, end) = measured_loop(self.facts, pass)?;
        let first = self.stages.first()?;
        let process = match Some(pass) == self.primary {
            true => first.process,
            false => first.kernels.1,
        };
        let is_within = |op: &usize| {
            ops.process[*op] == process && start <= ops.start[*op] && ops.end[*op] <= end
        };
        Some(self.facts.ops_of(pass).filter(is_within).collect())
    }

    /// Sum of the durations of those.
    pub(crate) fn loop_busy(&self) -> Time {
        let ops = &self.facts.ops;
        let rows = self.loop_ops(self.primary).unwrap_or_default().into_iter();
        total(rows.map(|op| ops.end[op].saturating_sub(ops.start[op]))).time()
    }

    /// Time of each kernel in the measured loop. A pass that shows the kernels of fewer iterations counts for all.
    pub(crate) fn loop_kernels(&self) -> BTreeMap<KernelId, Time> {
        let ops = &self.facts.ops;
        let mut times = BTreeMap::new();
        let iterations = self.iterations_of_kernels();
        for op in self.loop_ops(self.kernel_pass).unwrap_or_default() {
            if let Some(kernel) = self.facts.kernel(self.session, op as OpIndex) {
                let duration = ops.end[op].saturating_sub(ops.start[op]);
                *times.entry(kernel).or_default() += duration.time() * iterations;
            }
        }
        times
    }

    /// The same without the stages that the CPU bounds: it cannot launch sooner what follows a shorter kernel.
    pub(crate) fn limiting_kernels(&self) -> BTreeMap<KernelId, Time> {
        let mut times = self.loop_kernels();
        let iterations = self.iterations_of_kernels();
        let bounded = self.stages.iter().filter(|stage| stage.is_host_bound);
        for work in bounded.filter_map(|stage| self.work(stage.kernels)) {
            for (kernel, _, time) in &work.kernels {
                let of_loop = times.entry(*kernel).or_default();
                *of_loop = (*of_loop - time.time() * iterations).max(Time::ZERO);
            }
        }
        times
    }

    /// Iterations of the primary pass ÷ those of the pass that shows the kernels, in the stage that takes longest.
    fn iterations_of_kernels(&self) -> Ratio {
        let stages = self.stages.iter();
        let longest = stages.max_by(|a, b| a.total().total_cmp(&b.total()));
        let iterations = longest.and_then(|stage| {
            let mut summaries = self.facts.summaries.iter();
            let summary = summaries.find(|summary| is(stage.kernels, summary))?;
            Some(Ratio(stage.counted.0 / summary.counted.max(1) as f64))
        });
        iterations.unwrap_or(Ratio::ONE)
    }

    /// The scope of the primary pass.
    pub(crate) fn pass_scope(&self) -> Scope {
        Scope {
            pass: Some(self.pass.clone()),
            ..Scope::default()
        }
    }

    /// A finding about these kernels in the measured loop, each with the share of its time that it could save.
    pub(crate) fn saving(&self, kernels: &[(&KernelSum, Ratio)]) -> Finding {
        let times = self.limiting_kernels();
        let mut parts = Vec::new();
        for (sum, share) in kernels {
            if let Some(time) = times.get(&sum.kernel) {
                parts.push((Part::Kernel(sum.kernel.0), *time * *share));
            }
        }
        let saved = parts.iter().map(|(_, saved)| *saved).sum();
        Finding {
            scope: self.pass_scope(),
            parts,
            ..self.saving_of_loop(self.loop_time(), None, saved)
        }
    }

    /// A finding that could save `saved` of a measured loop of so long, of the rank or GPU with this label.
    pub(crate) fn saving_of_loop(&self, whole: Time, label: Option<&str>, saved: Time) -> Finding {
        let gain = Gain {
            saved_ns: saved.min(whole),
            of_ns: whole,
            of: words!(self, "findings.measured_loop", label = label),
            basis: String::new(),
            kind: GainKind::Run,
        };
        Finding {
            weight_ns: gain.saved_ns,
            severity: Severity::of_share(gain.share()),
            gain: Some(gain).filter(|_| whole.is_positive()),
            ..Finding::default()
        }
    }

    /// A finding about a pass.
    pub(crate) fn note_on_pass(&self, pass: PassId) -> Finding {
        let name = self.session.pass_name(pass).to_owned();
        Finding {
            title: name.clone(),
            evidence: self.profile_evidence(pass),
            scope: Scope {
                pass: Some(name),
                ..Scope::default()
            },
            ..Finding::default()
        }
    }

    /// Finds what limits each stage.
    pub(crate) fn add_limits(&mut self) {
        let mut limits = Vec::new();
        for stage in &self.stages {
            limits.push((
                self.waits_for(stage),
                self.is_host_bound(stage),
                self.waits(stage),
                self.beyond_host(stage),
                self.issuing(stage),
            ));
        }
        for (stage, limits) in self.stages.iter_mut().zip(limits) {
            (
                stage.waits_for,
                stage.is_host_bound,
                stage.waits,
                stage.beyond_host,
                stage.issuing,
            ) = limits;
        }
    }
}

/// The share of the operation time of a stage in whole graphs, if it hides the operations.
pub(crate) fn hidden_share(work: &StageWork) -> Option<Ratio> {
    let share = work.share(work.time(KernelClass::Graph));
    share.filter(|share| *share >= HIDDEN)
}
