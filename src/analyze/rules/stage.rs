//! A stage as rules see it: its times, and one instance that stands for it in queries.

use rooflens_schemas::{Scope, StageKind, Unit};

use crate::sql::Window;
use crate::time::stage_busy::BUSY;
use rooflens_analysis::Context;
use rooflens_analysis::engine::stage_stats::{Summary, summaries};
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Quantity, Severity};
use rooflens_session::ProcessId;

/// A stage, an index into [`Facts::stages`](rooflens_analysis::Facts::stages), and the process that ran it.
pub(crate) type Key = (usize, ProcessId);

/// A stage of the primary pass on one rank.
#[derive(Clone, Debug)]
pub(crate) struct StageLine {
    /// The words.
    pub(crate) text: &'static Catalogue,
    /// Stage, an index into [`Facts::stages`](rooflens_analysis::Facts::stages).
    pub(crate) stage: usize,
    /// Process.
    pub(crate) process: ProcessId,
    /// Name, with the rank where there are several.
    pub(crate) label: String,
    pub(crate) kind: StageKind,
    pub(crate) scope: Scope,
    /// Stage time, nanoseconds.
    pub(crate) time: f64,
    /// Busy time of an instance, mean over its GPUs, nanoseconds.
    pub(crate) busy: f64,
    /// Busy time of an instance ÷ its time, mean over its GPUs.
    pub(crate) busy_share: f64,
    /// GPU operations of an instance.
    pub(crate) operations: f64,
    /// Sum of their durations, nanoseconds.
    pub(crate) operation_time: f64,
    /// What these figures rest on.
    pub(crate) figures: rooflens_schemas::Evidence,
    /// Instances that count.
    pub(crate) counted: f64,
    /// Steps of an instance, where it has any.
    pub(crate) steps: Option<f64>,
    /// The stages that lie in it.
    pub(crate) nested: Vec<Nested>,
    /// Un-profiled time of as many steps, nanoseconds, where the bundle has it.
    pub(crate) unprofiled: Option<f64>,
    /// The pass that it is from.
    pub(crate) unprofiled_pass: Option<String>,
    /// Time of all counted instances of all stages of the rank, un-profiled where that is known, nanoseconds.
    pub(crate) run_ns: f64,
    /// The rank that computes longer, for which this one waits.
    pub(crate) waits_for: Option<u32>,
    /// Whether the CPU bounds it: the GPU idles for most of it.
    pub(crate) is_host_bound: bool,
    /// Artifact that it was read from.
    pub(crate) artifact: String,
    /// The counted instance nearest to the median, where the artifact is an nsys export.
    pub(crate) window: Option<Window>,
}

/// What a program with such a stage does: advice names nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Training.
    Training,
    /// Inference of a language model.
    Inference,
    /// Not known.
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
    /// Stage, an index into [`Facts::stages`](rooflens_analysis::Facts::stages).
    pub(crate) stage: usize,
    /// Process.
    pub(crate) process: ProcessId,
    pub(crate) kind: StageKind,
    pub(crate) scope: Scope,
}

/// The outermost stages of the primary pass and of the other ranks of its run.
pub(crate) fn stage_lines(context: &Context<'_>, text: &'static Catalogue) -> Vec<StageLine> {
    let (session, facts) = (context.session, context.facts);
    let outermost = facts
        .run_summaries()
        .filter(|line| line.is_outermost(facts));
    let stage = |line: &Summary| StageLine {
        text,
        stage: line.stage,
        process: line.process,
        label: line.label(session, facts),
        kind: line.kind(facts),
        scope: line.scope(session, facts),
        time: line.time,
        busy: line.busy_share * line.time,
        busy_share: line.busy_share,
        operations: line.operations,
        operation_time: line.sum,
        figures: line.evidence(session, facts),
        counted: line.counted as f64,
        steps: line.steps.filter(|steps| *steps > 0.0),
        nested: nested(context, line, summaries(facts, line.stage(facts).pass)),
        unprofiled: None,
        unprofiled_pass: None,
        run_ns: 0.0,
        waits_for: None,
        is_host_bound: false,
        artifact: session.artifact_of(line.stage(facts).pass).to_owned(),
        window: Window::of(context, text, line),
    };
    outermost.map(stage).collect()
}

/// The stages of the same process that lie in a stage.
fn nested(context: &Context<'_>, outer: &Summary, all: &[Summary]) -> Vec<Nested> {
    let (session, facts) = (context.session, context.facts);
    let parent = |stage: usize| facts.stages.get(stage).and_then(|stage| stage.parent);
    let lies_in = |line: &&Summary| {
        let mut parents = std::iter::successors(parent(line.stage), |stage| parent(*stage));
        line.process == outer.process && parents.any(|stage| stage == outer.stage)
    };
    let nested = |line: &Summary| Nested {
        stage: line.stage,
        process: line.process,
        kind: line.kind(facts),
        scope: line.scope(session, facts),
    };
    all.iter().filter(lies_in).map(nested).collect()
}

impl Nested {
    /// The stage, and the process that ran it.
    pub(crate) const fn key(&self) -> Key {
        (self.stage, self.process)
    }
}

impl StageLine {
    /// The stage, and the process that ran it: what results of a stage are found by.
    pub(crate) const fn key(&self) -> Key {
        (self.stage, self.process)
    }

    /// The stage that is one step of it.
    pub(crate) fn step(&self) -> Option<&Nested> {
        self.nested
            .iter()
            .find(|one| one.kind == StageKind::DecodeStep)
    }

    /// `part` as a share of the stage time.
    pub(crate) fn share(&self, part: f64) -> f64 {
        if self.time > 0.0 {
            part / self.time
        } else {
            0.0
        }
    }

    /// The artifact that it was read from.
    pub(crate) fn evidence(&self) -> rooflens_schemas::Evidence {
        rooflens_schemas::Evidence {
            artifact: self.artifact.clone(),
            ..rooflens_schemas::Evidence::default()
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

    /// A finding about this stage that could save at most `saved` nanoseconds of the work of each instance.
    pub(crate) fn saving(&self, saved: f64, basis: &str) -> Finding {
        let saved = saved.clamp(0.0, self.time);
        let mut found = self.bounded(saved, saved.min(self.reference()), basis, GainKind::Work);
        // Shorter kernels save nothing where the CPU cannot launch them sooner.
        if let Some(gain) = found
            .gain
            .as_mut()
            .filter(|gain| self.busy < BUSY * gain.of_ns)
        {
            gain.basis += &words!(self, "findings.if_idle_stays");
        }
        found
    }

    /// A finding about this stage that could save at most `saved` nanoseconds of the idle time of each instance.
    /// Without the profiler the gaps are shorter: all of them together are what kernels leave of the stage.
    pub(crate) fn saving_idle(&self, saved: f64, basis: &str) -> Finding {
        let saved = saved.clamp(0.0, self.time);
        self.bounded(
            saved,
            saved.min((self.reference() - self.busy).max(0.0)),
            basis,
            GainKind::Idle,
        )
    }

    /// Stage time without a profiler where that is known, else with it.
    pub(crate) fn reference(&self) -> f64 {
        self.unprofiled.unwrap_or(self.time)
    }

    fn bounded(&self, profiled: f64, saved: f64, basis: &str, kind: GainKind) -> Finding {
        let weight_ns = saved * self.counted;
        let share = if self.run_ns > 0.0 {
            weight_ns / self.run_ns
        } else {
            0.0
        };
        let (mut of, mut basis) = (self.label.clone(), basis.to_owned());
        if self.unprofiled.is_some() {
            of = words!(self, "findings.unprofiled", stage = of);
            let time = |value| Quantity::new(value, Unit::Nanoseconds);
            let (part, whole) = (time(profiled), time(self.time));
            basis += &words!(
                self,
                "findings.part_of_profiled",
                part = part,
                whole = whole
            );
            if saved < profiled {
                basis += &words!(self, "findings.no_more_than_idle");
            }
        }
        Finding {
            weight_ns,
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

    /// Whether the stage computes a model's pass over many tokens, so that tensor cores should limit it.
    pub(crate) const fn is_compute(&self) -> bool {
        matches!(
            self.kind,
            StageKind::Prefill | StageKind::Forward | StageKind::Backward | StageKind::TrainStep
        )
    }

    /// The un-profiled time, nanoseconds, if it is shorter than the profiled one and kernels as long as profiled fit it.
    pub(crate) fn baseline(&self) -> Option<f64> {
        let busy = self.busy_share * self.time;
        self.unprofiled
            .filter(|time| (busy..self.time).contains(time))
    }

    /// Share of that time, or of the profiled one, for which the GPU is busy if kernels take as long as profiled.
    pub(crate) fn baseline_busy(&self) -> f64 {
        self.baseline()
            .map_or(self.busy_share, |time| self.busy_share * self.time / time)
    }

    /// Whether the stage generates tokens.
    pub(crate) const fn is_decode(&self) -> bool {
        matches!(self.kind, StageKind::Decode | StageKind::DecodeStep)
    }
}
