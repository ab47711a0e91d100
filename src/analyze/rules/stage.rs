//! A stage as rules see it: its times, what limits it, and its instance in queries.

use rooflens_schemas::{Evidence as Source, Scope, StageKind};

use crate::evidence::Evidence;
use crate::known::UNLIMITED;
use crate::rule::{Look, Outcome};
use crate::sql::Window;
use rooflens_analysis::Context;
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::engine::baseline::profiled;
use rooflens_analysis::engine::stage_stats::{Summary, summaries};
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Part, Severity};
use rooflens_session::{CopyKind, ProcessId};
use rooflens_units::{Count, Ratio, Time};

/// From this busy share on, the GPU is the limit of a stage.
pub(crate) const BUSY: Ratio = Ratio(0.90);

/// Share of the idle time, or of exposed communication, from which on a part is all of it.
pub(crate) const ALL: Ratio = Ratio(0.995);

/// Profiled time of a stage ÷ unprofiled time from which on the profiler slows it.
pub(crate) const SLOWED: Ratio = Ratio(1.10);

/// Busy share below which, where the CPU explains most of the rest, the stage is as long as the CPU takes.
pub(crate) const HALF_BUSY: Ratio = Ratio(0.50);

/// How many times as long a launch takes at most under a profiler: 1.9 times was seen.
const PROFILED: f64 = 2.0;

/// Share of the idle time that the CPU has to explain.
const BY_HOST: Ratio = Ratio(0.50);

/// Share of a stage in which the CPU waits for operations from which on shorter ones shorten it.
const BEHIND: Ratio = Ratio(0.05);

/// A stage, an index into [`Facts::stages`](rooflens_analysis::Facts::stages), and the process that ran it.
pub(crate) type Key = (usize, ProcessId);

/// A stage of the primary pass on one rank.
#[derive(Clone, Debug)]
pub(crate) struct StageLine {
    pub(crate) text: &'static Catalogue,
    /// An index into [`Facts::stages`](rooflens_analysis::Facts::stages).
    pub(crate) stage: usize,
    pub(crate) process: ProcessId,
    /// Name, with the rank where there are several.
    pub(crate) label: String,
    pub(crate) kind: StageKind,
    pub(crate) scope: Scope,
    pub(crate) time: Time,
    /// Busy time of an instance, mean over its GPUs.
    pub(crate) busy: Time,
    /// Busy time of an instance ÷ its time, mean over its GPUs.
    pub(crate) busy_share: Ratio,
    /// GPU operations of an instance.
    pub(crate) operations: Count,
    /// Sum of their durations.
    pub(crate) operation_time: Time,
    /// What these figures rest on.
    pub(crate) figures: Source,
    /// Instances that count.
    pub(crate) counted: Count,
    /// Steps of an instance, where it has any.
    pub(crate) steps: Option<Count>,
    /// The stages that lie in it.
    pub(crate) nested: Vec<Nested>,
    /// Unprofiled time of as many steps, where the bundle has it.
    pub(crate) unprofiled: Option<Time>,
    /// Profiled time of an iteration in which another one, which began earlier, still runs: it counts there.
    pub(crate) overlapped: Time,
    /// Time in the pass whose times are shown, if the figures are of another one, which shows the kernels.
    pub(crate) timed: Option<Time>,
    /// The same stage in the pass that shows the kernels.
    pub(crate) kernels: Key,
    /// Time of the measured loop of the rank.
    pub(crate) of_loop: Time,
    /// The rank that computes longer, for which this one waits.
    pub(crate) waits_for: Option<u32>,
    /// Whether the CPU bounds it: the GPU idles for most of it.
    pub(crate) is_host_bound: bool,
    /// What an iteration takes beyond the host's own work and the GPU's: the most that goes without waits.
    pub(crate) waits: Time,
    /// What an iteration takes beyond the host's own work: the most that goes with less communication.
    pub(crate) beyond_host: Time,
    /// The least time in which the host issues the launches of an iteration.
    pub(crate) issuing: Time,
    /// Artifact that it was read from.
    pub(crate) artifact: String,
    /// The counted instance nearest to the median, where the artifact is an nsys export.
    pub(crate) window: Option<Window>,
}

/// What a program with such a stage does: advice names nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Training,
    /// Inference of a language model.
    Inference,
    Unknown,
}

/// The workload that a kind of stage belongs to.
pub(crate) const fn workload(kind: StageKind) -> Workload {
    match kind {
        _ if kind.is_training() => Workload::Training,
        StageKind::Other => Workload::Unknown,
        _ => Workload::Inference,
    }
}

/// A stage within another one, of the same process.
#[derive(Clone, Debug)]
pub(crate) struct Nested {
    /// An index into [`Facts::stages`](rooflens_analysis::Facts::stages).
    pub(crate) stage: usize,
    pub(crate) process: ProcessId,
    pub(crate) kind: StageKind,
    pub(crate) scope: Scope,
}

/// The outermost stages of the primary pass and of the other ranks of its run.
pub(crate) fn stage_lines(context: &Context<'_>, text: &'static Catalogue) -> Vec<StageLine> {
    let mut lines = Vec::new();
    for summary in context.facts.run_summaries() {
        if summary.is_outermost(context.facts) {
            lines.push(StageLine::new(context, text, summary));
        }
    }
    lines
}

/// The stages of the same process that lie in a stage.
fn nested(context: &Context<'_>, outer: &Summary) -> Vec<Nested> {
    let (session, facts) = (context.session, context.facts);
    let mut nested = Vec::new();
    for summary in summaries(facts, outer.stage(facts).pass) {
        let parent = |stage: &usize| facts.stages.get(*stage)?.parent;
        let mut parents = std::iter::successors(parent(&summary.stage), parent);
        if summary.process == outer.process && parents.any(|stage| stage == outer.stage) {
            nested.push(Nested {
                stage: summary.stage,
                process: summary.process,
                kind: summary.kind(facts),
                scope: summary.scope(session, facts),
            });
        }
    }
    nested
}

impl Nested {
    /// The stage, and the process that ran it.
    pub(crate) const fn key(&self) -> Key {
        (self.stage, self.process)
    }
}

impl StageLine {
    fn new(context: &Context<'_>, text: &'static Catalogue, summary: &Summary) -> Self {
        let (session, facts) = (context.session, context.facts);
        let figures = profiled(context, summary);
        Self {
            text,
            stage: summary.stage,
            process: summary.process,
            label: summary.label(session, facts),
            kind: summary.kind(facts),
            scope: summary.scope(session, facts),
            time: figures.time,
            busy: figures.busy,
            busy_share: Ratio::of(figures.busy, figures.time.max(Time(1.0))),
            operations: figures.operations,
            operation_time: figures.sum,
            figures: summary.evidence(session, facts),
            counted: Count(summary.counted as f64),
            steps: summary.steps.filter(|steps| *steps > Count::ZERO),
            nested: nested(context, summary),
            unprofiled: None,
            overlapped: Time::ZERO,
            timed: None,
            kernels: (summary.stage, summary.process),
            of_loop: Time::ZERO,
            waits_for: None,
            is_host_bound: false,
            waits: UNLIMITED,
            beyond_host: UNLIMITED,
            issuing: Time::ZERO,
            artifact: session.artifact_of(summary.stage(facts).pass).to_owned(),
            window: Window::of(context, text, summary),
        }
    }

    /// The stage with the kernels of this summary, which another pass recorded: time and number of iterations stay.
    pub(crate) fn with_kernels(&self, context: &Context<'_>, summary: &Summary) -> Self {
        let line = Self::new(context, self.text, summary);
        let per_step = match (line.steps, self.steps) {
            (Some(steps), Some(timed)) => Ratio(steps.0 / timed.0),
            _ => Ratio::ONE,
        };
        Self {
            label: self.label.clone(),
            scope: self.scope.clone(),
            counted: self.counted,
            unprofiled: self.unprofiled.map(|time| time * per_step),
            overlapped: self.overlapped,
            timed: Some(self.time * per_step),
            of_loop: self.of_loop,
            waits_for: self.waits_for,
            is_host_bound: self.is_host_bound,
            waits: self.waits,
            beyond_host: self.beyond_host,
            issuing: self.issuing,
            ..line
        }
    }

    /// The stage, and the process that ran it: the key of results of a stage.
    pub(crate) const fn key(&self) -> Key {
        (self.stage, self.process)
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The stage that is one step of it.
    pub(crate) fn step(&self) -> Option<&Nested> {
        let mut nested = self.nested.iter();
        nested.find(|stage| stage.kind == StageKind::DecodeStep)
    }

    /// `part` as a share of the stage time.
    pub(crate) fn share(&self, part: Time) -> Ratio {
        if self.time > Time::ZERO {
            Ratio::of(part, self.time)
        } else {
            Ratio::ZERO
        }
    }

    /// The mean duration of its operations.
    pub(crate) fn mean_operation(&self) -> Time {
        self.operation_time / self.operations.max(Count(1.0))
    }

    /// The artifact that it was read from.
    pub(crate) fn evidence(&self) -> Source {
        Source {
            artifact: self.artifact.clone(),
            ..Source::default()
        }
    }

    /// A finding about this stage that bounds no gain.
    pub(crate) fn note(&self) -> Finding {
        Finding {
            title: self.label.clone(),
            scope: self.scope.clone(),
            evidence: vec![self.evidence()],
            ..Finding::default()
        }
    }

    /// A finding about figures of this stage that bounds no gain.
    pub(crate) fn note_on_figures(&self) -> Finding {
        Finding {
            evidence: vec![self.figures.clone()],
            ..self.note()
        }
    }

    /// A finding about this stage that could save at most `saved` of the work of each instance.
    pub(crate) fn saving(&self, saved: Time) -> Finding {
        let saved = saved.clamp(Time::ZERO, self.time);
        let mut finding = self.bounded(saved, saved.min(self.reference()), GainKind::Work);
        if let Some(gain) = &mut finding.gain
            && self.busy < gain.of_ns * BUSY
        {
            // Shorter kernels save nothing where the CPU cannot launch them sooner.
            gain.basis += &words!(self, "findings.if_idle_stays");
        }
        finding
    }

    /// A finding about this stage that could save at most `saved` of the idle time of each instance.
    /// Without the profiler the gaps are shorter: all of them together are what kernels leave of the stage.
    pub(crate) fn saving_idle(&self, saved: Time) -> Finding {
        self.saving_idle_within(saved, self.idle())
    }

    /// The same of idle time that is at most so long without the profiler.
    pub(crate) fn saving_idle_within(&self, saved: Time, most: Time) -> Finding {
        let saved = saved.clamp(Time::ZERO, self.time);
        self.bounded(saved, saved.min(most), GainKind::Idle)
    }

    /// Profiled idle time without the profiler: all causes shrink alike, so that their times add up to the idle time.
    pub(crate) fn unprofiled_idle(&self, profiled: Time) -> Time {
        let whole = self.time - self.busy;
        match self.unprofiled {
            Some(_) if whole > self.idle() => profiled * Ratio::of(self.idle(), whole),
            _ => profiled,
        }
    }

    /// A finding about idle time of an iteration in the range of this stage, before its first or after its last operation:
    /// the profiled time of the stage does not hold it.
    pub(crate) fn saving_of_range(&self, saved: Time) -> Finding {
        let saved = saved.min(self.idle());
        let mut finding = self.bounded(saved, saved, GainKind::Idle);
        if let Some(gain) = &mut finding.gain {
            gain.basis.clear();
        }
        finding
    }

    /// The same of a finding whose repair keeps pages of managed memory where they are, too: no kernel waits for them.
    pub(crate) fn with_migrations(&self, finding: Finding, copies: &Place) -> Finding {
        let copied = copies.exposed(Some(CopyKind::MigrateToHost));
        let mut finding = self.with_copies(finding, copied);
        let mut faulting = Time::ZERO;
        for (kernel, time) in copies.faulting_of_each() {
            let saved = time.min(self.work() - copied - faulting).max(Time::ZERO);
            faulting += saved;
            finding.parts.push((Part::Kernel(kernel.0), saved));
        }
        finding.weight_ns += faulting * self.counted;
        if let Some(gain) = &mut finding.gain {
            gain.saved_ns += faulting;
            gain.basis = words!(
                self,
                "findings.with_migrations",
                copied = copied,
                faulting = faulting
            );
        }
        if self.of_loop.is_positive() {
            finding.severity = Severity::of_share(Ratio::of(finding.weight_ns, self.of_loop));
        }
        finding
    }

    /// The same of a finding whose repair saves transfers, too.
    pub(crate) fn with_copies(&self, mut finding: Finding, copied: Time) -> Finding {
        let copied = copied.min(self.busy);
        let Some(gain) = finding.gain.as_mut().filter(|_| copied.is_positive()) else {
            return finding;
        };
        gain.saved_ns += copied;
        gain.basis = words!(self, "findings.with_copies", copied = copied);
        finding.weight_ns += copied * self.counted;
        finding.parts.push((Part::Copies, copied));
        if self.of_loop.is_positive() {
            finding.severity = Severity::of_share(Ratio::of(finding.weight_ns, self.of_loop));
        }
        finding
    }

    /// Time of copies, without kernels: a mean of copies can exceed the median of all operations.
    pub(crate) fn within_copies(&self, copies: &Place, time: Time) -> Time {
        let most = self.work() - copies.others;
        match most.is_positive() && time >= self.work() {
            true => most,
            false => time,
        }
    }

    /// The same of waits for queued work, for the GPU or for others: the host works as long as before.
    pub(crate) fn saving_waits(&self, saved: Time) -> Finding {
        let mut finding = self.saving_idle(saved.min(self.waits));
        finding.is_wait = true;
        self.say_host_stays(&mut finding, saved > self.waits);
        finding
    }

    /// A finding about operations that could save at most `saved` of each instance: the host works as long as before.
    pub(crate) fn saving_behind_host(&self, saved: Time) -> Finding {
        let mut finding = self.saving(saved.min(self.beyond_host));
        self.say_host_stays(&mut finding, saved > self.beyond_host);
        finding
    }

    fn say_host_stays(&self, finding: &mut Finding, stays: bool) {
        if let Some(gain) = &mut finding.gain
            && stays
        {
            gain.basis += &words!(self, "findings.host_stays");
        }
    }

    /// A finding about a cause of such a share of this stage, `removed` of it operations of the GPU. Where an iteration
    /// takes longer without the profiler, the cause does so, too: compilers reuse what an earlier pass has left on disk.
    pub(crate) fn saving_share(&self, share: Ratio, removed: Time) -> Finding {
        let idle = self.idle() + removed.min(self.busy);
        let saved = self.reference().max(self.time) * share.min(Ratio::ONE);
        self.bounded(self.time * share, saved.min(idle), GainKind::Idle)
    }

    /// A finding about this stage that could save at most `saved` of the kernels of each instance: of a stage that the
    /// CPU bounds, what the CPU waits for, or else a part of its busy time that counts only after the CPU is out of the way.
    pub(crate) fn saving_kernels(&self, saved: Time) -> Finding {
        if !self.is_host_bound {
            return self.saving(saved);
        }
        if self.share(saved.min(self.beyond_host)) >= BEHIND {
            return self.saving_behind_host(saved);
        }
        let mut finding = self.saving(saved.min(self.busy));
        finding.severity = Severity::Note;
        if let Some(gain) = &mut finding.gain {
            gain.saved_ns = saved.clamp(Time::ZERO, self.busy);
            gain.of_ns = self.busy;
            gain.kind = GainKind::WorkAfterCpu;
            gain.of = words!(self, "findings.busy_time", stage = self.label());
            gain.basis.clear();
        }
        finding
    }

    fn bounded(&self, profiled: Time, saved: Time, kind: GainKind) -> Finding {
        let total = saved * self.counted;
        let is_timed = self.of_loop > Time::ZERO;
        let share = if is_timed {
            Ratio::of(total, self.of_loop)
        } else {
            Ratio::ZERO
        };
        let (mut of, mut basis) = (self.label.clone(), String::new());
        if self.unprofiled.is_some() {
            of = words!(self, "findings.unprofiled", stage = of);
            if saved < profiled {
                basis += &words!(
                    self,
                    "findings.part_of_profiled",
                    part = profiled,
                    whole = self.time
                );
                basis += match saved < self.idle() && kind == GainKind::Idle {
                    true => words!(self, "findings.part_of_idle"),
                    false => words!(self, "findings.no_more_than_idle"),
                }
                .as_str();
            }
        }
        Finding {
            weight_ns: total,
            severity: Severity::of_share(share),
            gain: Some(Gain {
                saved_ns: saved,
                of_ns: self.reference(),
                of,
                basis,
                kind,
            }),
            ..self.note()
        }
    }

    /// What operations leave of an iteration.
    pub(crate) fn idle(&self) -> Time {
        (self.alone() - self.busy).max(Time::ZERO)
    }

    /// What operations take of it.
    pub(crate) fn work(&self) -> Time {
        self.alone() - self.idle()
    }

    /// What it adds to a step: stages overlap where operations of one are launched while another still runs. The
    /// workload times its stages one after the other.
    pub(crate) fn alone(&self) -> Time {
        match self.unprofiled {
            Some(time) => time,
            None => (self.reference() - self.overlapped).max(Time::ZERO),
        }
    }

    /// Stage time without a profiler where that is known, else with it.
    pub(crate) fn reference(&self) -> Time {
        self.unprofiled.or(self.timed).unwrap_or(self.time)
    }

    /// What all counted instances add to the loop.
    pub(crate) fn total(&self) -> Time {
        self.alone() * self.counted
    }

    /// Whether the stage computes a model's pass over many tokens, so that tensor cores should limit it.
    pub(crate) const fn is_compute(&self) -> bool {
        matches!(
            self.kind,
            StageKind::Vision
                | StageKind::Prefill
                | StageKind::Forward
                | StageKind::Backward
                | StageKind::TrainStep
        )
    }

    /// Share of that time for which the GPU is busy if kernels take as long as profiled.
    pub(crate) fn reference_busy(&self) -> Ratio {
        match self.unprofiled.or(self.timed) {
            // Kernels that take longer than a whole iteration of another run: the share is that of their own.
            Some(time) if self.busy <= time || self.time > time * SLOWED => {
                Ratio::of(self.busy, time).min(Ratio::ONE)
            }
            _ => self.busy_share,
        }
    }

    /// Whether the stage generates tokens.
    pub(crate) const fn is_decode(&self) -> bool {
        matches!(self.kind, StageKind::Decode | StageKind::DecodeStep)
    }
}

/// What keeps shorter kernels from shortening a stage: another rank, or the CPU.
impl Evidence<'_> {
    /// The rank that computes longer in the same stage, or in the whole pass where the stage holds no collectives: with
    /// shorter kernels of its own, a rank waits longer for it.
    pub(crate) fn waits_for(&self, stage: &StageLine) -> Option<u32> {
        let communication = self.results.communication().ok()?;
        let mut runs = communication.runs.iter();
        runs.find_map(|ranks| self.slower_rank(ranks, stage))
    }

    fn slower_rank(&self, ranks: &Ranks, stage: &StageLine) -> Option<u32> {
        let line_of = |index: Option<usize>| {
            ranks.lines.iter().find(|line| {
                ranks.run.members[line.member].process == stage.process && line.stage == index
            })
        };
        let line = line_of(Some(stage.stage)).or_else(|| line_of(None))?;
        let name = line.stage_name(&self.context);
        for imbalance in &ranks.imbalances {
            let slowest = &ranks.lines[imbalance.slowest];
            if slowest.stage_name(&self.context) == name {
                return imbalance.waits(line).then_some(slowest.rank);
            }
        }
        None
    }

    /// What an iteration of a stage takes beyond the host's own work and the GPU's. What the profiler adds to the host's
    /// work is in neither of the unprofiled times.
    pub(crate) fn waits(&self, stage: &StageLine) -> Time {
        let idle = self.idle_with_calls(stage);
        let waits = idle.map_or(UNLIMITED, |idle| idle.scaled(idle.waits()));
        waits.min(stage.idle())
    }

    /// What an iteration of a stage takes beyond the host's own work.
    pub(crate) fn beyond_host(&self, stage: &StageLine) -> Time {
        let idle = self.idle_with_calls(stage);
        idle.map_or(UNLIMITED, |idle| idle.scaled(idle.beyond_host()))
    }

    /// The least time in which the host issues the launches of an iteration.
    pub(crate) fn issuing(&self, stage: &StageLine) -> Time {
        let idle = self.idle_with_calls(stage);
        let profiled = idle.and_then(|idle| idle.launches.issuing);
        profiled.unwrap_or_default() / PROFILED
    }

    /// The idle time of a stage whose calls are known.
    fn idle_with_calls(&self, stage: &StageLine) -> Option<&StageIdle> {
        let idle = self.idle(stage.key());
        idle.filter(|idle| idle.has_calls().is_ok())
    }

    /// Whether the GPU idles for most of the stage, unprofiled where that is known, and mostly because of the CPU.
    pub(crate) fn is_host_bound(&self, stage: &StageLine) -> bool {
        let Some(idle) = self.idle(stage.key()) else {
            return false;
        };
        let host = idle.pool.causes.sum(&Cause::HOST);
        stage.busy < stage.reference() * HALF_BUSY && host.time() >= idle.idle().time() * BY_HOST
    }

    /// Looks at a stage, unless it is a rank that waits for another one.
    pub(crate) fn look_at_kernels(
        &self,
        stage: &StageLine,
        look: impl FnOnce(&StageLine) -> Look,
    ) -> Look {
        match stage.waits_for {
            Some(rank) => {
                Look::NotApplicable(words!(self, "findings.waits", rank = rank.to_string()))
            }
            None => look(stage),
        }
    }

    /// The outcome over all stages that shorter kernels could shorten.
    pub(crate) fn each_of_kernels(&self, look: impl Fn(&StageLine) -> Look) -> Outcome {
        self.each_stage(|stage| self.look_at_kernels(stage, &look))
    }
}
