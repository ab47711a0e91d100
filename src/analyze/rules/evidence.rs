//! What rules read: typed results, and the stages of the primary pass.

use std::collections::BTreeMap;

use rooflens_schemas::Scope;

use crate::stage::{Key, StageLine, stage_lines};
use crate::{Look, Outcome, measurement::hidden_graphs};
use rooflens_analysis::engine::platform::Platform;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_analysis::time::upper_bounds::Overhead;
use rooflens_analysis::{Context, Facts, Results};
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Inline, Quantity, Severity};
use rooflens_session::{PassId, Session, StrId};

/// Share of the time of all stages below which nothing that can be said of a stage matters.
const WORTH_A_LOOK: f64 = 0.01;

/// Difference of shares between iterations from which on it is said.
const DIFFERS: f64 = 0.01;

/// CPU samples from which on it is said what ran; share of them from which on a library is named, and how many are.
const ENOUGH_SAMPLES: usize = 30;
const SAMPLED_SHARE: f64 = 0.05;
const SHOWN_LIBRARIES: usize = 3;

/// What the analyses of one bundle came to.
pub struct Evidence<'a> {
    /// The tables and the typed results.
    pub(crate) context: Context<'a>,
    pub(crate) session: &'a Session,
    pub(crate) facts: &'a Facts,
    /// The typed results.
    pub(crate) results: &'a Results,
    /// The words.
    pub(crate) text: &'static Catalogue,
    /// The outermost stages of the primary pass, one a rank.
    pub(crate) stages: Vec<StageLine>,
    /// The primary pass.
    pub(crate) primary: Option<PassId>,
    /// Its name.
    pub(crate) pass: String,
    /// The dtype of the workload's matrix work, if it is stated.
    pub(crate) dtype: Option<String>,
    /// What ran on what.
    pub(crate) platform: Platform,
    /// The least memory of a GPU, bytes.
    pub(crate) memory_bytes: Option<f64>,
}

impl<'a> Evidence<'a> {
    /// Nothing but the typed results.
    pub(crate) fn empty(context: Context<'a>, text: &'static Catalogue) -> Self {
        Self {
            context,
            session: context.session,
            facts: context.facts,
            results: context.results,
            text,
            stages: Vec::new(),
            primary: None,
            pass: String::new(),
            dtype: None,
            platform: Platform::default(),
            memory_bytes: None,
        }
    }

    /// Gathers what the analyses found.
    pub(crate) fn new(context: &Context<'a>, text: &'static Catalogue) -> Self {
        let session = context.session;
        let stated = session.workload.dtype.clone();
        let primary = context.facts.primary_pass(session);
        let name = primary.map(|pass| session.pass_name(pass).to_owned());
        let memory = session.gpus.memory_bytes.iter().flatten().min();
        let mut evidence = Self {
            stages: stage_lines(context, text),
            primary,
            platform: Platform::of(session, primary),
            pass: name.unwrap_or_default(),
            dtype: stated.or_else(|| session.model.as_ref().and_then(|model| model.dtype.clone())),
            memory_bytes: memory.map(|bytes| *bytes as f64),
            ..Self::empty(*context, text)
        };
        evidence.add_unprofiled();
        evidence.add_limits();
        evidence.add_run();
        let weighs =
            |stage: &StageLine| stage.reference() * stage.counted >= WORTH_A_LOOK * stage.run_ns;
        evidence.stages.retain(weighs);
        evidence
    }

    /// The time of the run, by rank.
    pub(crate) fn add_run(&mut self) {
        let parts: Vec<(Option<u32>, f64)> = self
            .stages
            .iter()
            .map(|stage| (stage.scope.rank, stage.reference() * stage.counted))
            .collect();
        for stage in &mut self.stages {
            let own = parts.iter().filter(|(rank, _)| *rank == stage.scope.rank);
            stage.run_ns = own.map(|(_, time)| time).sum();
        }
    }

    /// Un-profiled times of the stages: those of as many steps, where the stage has steps.
    pub(crate) fn add_unprofiled(&mut self) {
        let Ok(baseline) = self.results.baseline() else {
            return;
        };
        let session = self.session;
        for stage in self
            .stages
            .iter_mut()
            .filter(|stage| stage.scope.rank.is_none())
        {
            let pass = stage.scope.pass.as_deref().unwrap_or_default();
            let name = stage.scope.stage.as_deref().unwrap_or_default();
            let found = baseline.of_stage(session, (pass, name, stage.kind), stage.steps);
            stage.unprofiled = found.map(|(_, time)| time);
            stage.unprofiled_pass = found.map(|(series, _)| session.text(series.pass).to_owned());
        }
    }

    /// Whether the un-profiled times are those of one rank, and stages those of each.
    pub(crate) fn has_baseline_of_one_rank(&self) -> bool {
        let Ok(baseline) = self.results.baseline() else {
            return false;
        };
        let is_timed = |name: &str| baseline.unprofiled(self.session, name).is_some();
        let mut ranks = self
            .stages
            .iter()
            .filter(|stage| stage.scope.rank.is_some());
        ranks.any(|stage| stage.scope.stage.as_deref().is_some_and(is_timed))
    }

    /// Idle time of a stage; of several GPUs that of the first.
    pub(crate) fn idle(&self, (stage, process): Key) -> Option<&'a Line> {
        let ordinal = |line: &&Line| self.session.gpus.ordinal[line.gpu.index()];
        self.results
            .idle()
            .ok()?
            .of(stage, process)
            .min_by_key(ordinal)
    }

    /// Upper bound of the time that a stage gains without this overhead, nanoseconds.
    pub(crate) fn gain(&self, overhead: Overhead, stage: &StageLine) -> Option<f64> {
        let bounds = self
            .results
            .upper_bounds()
            .ok()?
            .of(stage.stage, stage.process)?;
        let bound = bounds.get(overhead).as_ref().ok()?;
        Some((stage.time - bound.new_time()).max(0.0))
    }

    /// Looks at each stage of which idle time of a cause is known, with that time of an instance, pooled over all; a
    /// stage of whose time such a share is idle for unknown cause is not clear. Abstains if there is none.
    pub(crate) fn per_cause(
        &self,
        cause: Cause,
        share: f64,
        look: impl Fn(&StageLine, &'a Line, f64) -> Look,
    ) -> Outcome {
        self.each_stage(&words!(self, "findings.needs_idle"), |stage| {
            let line = self.idle(stage.key());
            let known = line.and_then(|line| Some((line, line.of_stage(cause).ok()?)));
            let Some((line, time)) = known else {
                return Look::InsufficientData;
            };
            match look(stage, line, time) {
                Look::Passed if line.share(line.of(Cause::Unknown)) >= share => {
                    Look::InsufficientData
                }
                look => look,
            }
        })
    }

    /// How long the GPU is idle in a stage for some causes, in words: in all of it, or in the few iterations that have them.
    pub(crate) fn idles(
        &self,
        stage: &StageLine,
        line: &Line,
        causes: &[Cause],
        saved: f64,
    ) -> Vec<Inline> {
        let spread = line.spread(causes);
        let share = (!spread.is_rare()).then(|| Quantity::ratio(stage.share(saved)));
        let differs = spread.most - spread.least >= DIFFERS;
        say!(
            self,
            "findings.idles",
            stage = Inline::strong(&stage.label),
            share = share,
            least = share
                .filter(|_| differs)
                .map(|_| Quantity::ratio(spread.least)),
            most = Quantity::ratio(spread.most),
            few = spread
                .is_rare()
                .then(|| Quantity::count(spread.instances as u64)),
            all = Quantity::count(spread.of as u64),
            time = Quantity::ns(line.pool.causes.sum(causes)),
        )
    }

    /// What CPU samples found of the issuing threads while the GPU waited for them, in words; nothing of few samples.
    pub(crate) fn sampled(&self, line: &Line) -> Option<Vec<Inline>> {
        let (session, all) = (self.session, line.samples());
        let share = |samples: usize| samples as f64 / all as f64;
        let mut most = line.libraries(session);
        most.retain(|(_, samples)| share(*samples) >= SAMPLED_SHARE);
        let part = |(library, samples): &(StrId, usize)| {
            let share = Quantity::ratio(share(*samples));
            words!(
                self,
                "findings.sampled_in",
                share = share,
                library = session.text(*library)
            )
        };
        let parts: Vec<String> = most.iter().take(SHOWN_LIBRARIES).map(part).collect();
        let samples =
            (all >= ENOUGH_SAMPLES && !parts.is_empty()).then(|| Quantity::count(all as u64))?;
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

    /// A finding about idle time of some causes of a stage, of which `saved` nanoseconds of an instance could be saved: over
    /// all iterations, if only few have them.
    pub(crate) fn saving_idle(
        &self,
        stage: &StageLine,
        line: &Line,
        causes: &[Cause],
        saved: f64,
        basis: &str,
    ) -> Finding {
        let found = stage.saving_idle(saved, basis);
        if !line.spread(causes).is_rare() {
            return found;
        }
        let gain = Gain {
            saved_ns: line.pool.causes.sum(causes) as f64,
            of_ns: line.pool.time as f64,
            of: words!(
                self,
                "findings.all_iterations",
                stage = stage.label.as_str()
            ),
            basis: basis.to_owned(),
            kind: GainKind::Stalls,
        };
        Finding {
            gain: Some(gain),
            ..found
        }
    }

    /// Whether the model is known to have projections of queries, keys and values.
    pub(crate) fn has_projections(&self) -> bool {
        self.session
            .model
            .as_ref()
            .is_some_and(|model| model.outline.heads > 0)
    }

    /// Whether its feed-forward blocks are known to be gated.
    pub(crate) fn has_gate(&self) -> bool {
        self.session
            .model
            .as_ref()
            .is_some_and(|model| model.outline.gated)
    }

    /// Looks at each stage; abstains if that needs what no stage has.
    pub(crate) fn each_stage(&self, needs: &str, look: impl Fn(&StageLine) -> Look) -> Outcome {
        let looks = self
            .stages
            .iter()
            .map(|stage| (stage.label.as_str(), look(stage)));
        Outcome::of_stages(looks, needs)
    }

    /// The stage of this name in the primary pass, or the one that holds it.
    pub(crate) fn outermost(&self, stage: &str) -> Option<&StageLine> {
        let is = |scope: &Scope| scope.stage.as_deref() == Some(stage);
        self.stages
            .iter()
            .find(|line| is(&line.scope) || line.nested.iter().any(|own| is(&own.scope)))
    }

    /// Whether the operations of a stage are known one by one: not as whole CUDA graphs.
    pub(crate) fn shows_operations(&self, stage: &StageLine) -> bool {
        self.work(stage.key())
            .is_some_and(|work| hidden_graphs::hidden(work).is_none())
    }

    /// Whether the primary pass is that of a process without others: of one rank, without collectives.
    pub(crate) fn is_alone(&self) -> bool {
        let alone = |stage: &StageLine| stage.scope.rank.is_none() && self.shows_operations(stage);
        let communication = self.results.communication();
        self.stages.iter().any(alone)
            && self.stages.iter().all(alone)
            && !communication.is_ok_and(|all| all.runs.iter().any(|run| !run.lines.is_empty()))
    }

    /// Time of all stages of the primary pass, of the rank with the most, nanoseconds.
    pub(crate) fn run_ns(&self) -> f64 {
        self.stages
            .iter()
            .map(|stage| stage.run_ns)
            .fold(0.0, f64::max)
    }

    /// Time in which the GPU is busy in all stages of the primary pass, of the rank with the most, nanoseconds.
    pub(crate) fn busy_ns(&self) -> f64 {
        let mut by_rank = BTreeMap::<Option<u32>, f64>::new();
        for stage in &self.stages {
            *by_rank.entry(stage.scope.rank).or_default() += stage.busy * stage.counted;
        }
        by_rank.into_values().fold(0.0, f64::max)
    }

    /// From the start of the first GPU operation of the primary pass to the end of the last one, nanoseconds.
    fn span_ns(&self) -> f64 {
        let (facts, session) = (self.facts, self.session);
        let ops = facts
            .primary_pass(session)
            .map_or(0..0, |pass| facts.ops_of(pass));
        let end = facts.ops.end[ops.clone()].iter().max();
        let span = facts.ops.start[ops]
            .first()
            .zip(end)
            .map(|(start, end)| end.saturating_sub(*start));
        span.unwrap_or(0) as f64
    }

    /// A finding about the whole primary pass, in and between its stages, that could save `saved` nanoseconds of it.
    pub(crate) fn saving(&self, saved: f64, basis: &str) -> Finding {
        let of = self.span_ns().max(self.run_ns());
        let saved = if of > 0.0 { saved.min(of) } else { saved };
        let gain = Gain {
            saved_ns: saved,
            of_ns: of,
            of: words!(self, "findings.the_run"),
            basis: basis.to_owned(),
            kind: GainKind::Run,
        };
        Finding {
            scope: Scope {
                pass: Some(self.pass.clone()),
                ..Scope::default()
            },
            weight_ns: saved,
            severity: Severity::of_share(gain.share()),
            gain: (of > 0.0).then_some(gain),
            ..Finding::default()
        }
    }
}
