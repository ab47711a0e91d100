//! Idle time: why each GPU waits within stages and between them, what launching costs, and what bounds a stage.
//!
//! `gaps::cut` decides the cause of each part of a gap; everything else sums these parts.

pub mod activity;
pub mod between;
mod calls;
pub mod cause;
pub mod gaps;
pub mod histogram;
mod host;
pub mod launches;
pub mod line;
pub mod longest;
mod open;
mod os_calls;
pub mod queue;
pub mod samples;
pub mod sources;
#[cfg(test)]
mod tests;
pub mod verdict;

use crate::engine::facts::{Facts, StageInstance};
use crate::engine::stage_stats::summaries;
use crate::time::account::{self, Account, Phase, PhaseWindows};
use crate::{Context, Known};
use rooflens_session::{GpuId, PassId, ProcessId};

use between::Between;
use calls::Calls;
use cause::Traced;
use gaps::Gaps;
use queue::{QueueOverTime, Queues};
use sources::{Finder, Recurs, Sources, Window};

pub use activity::Activity;
pub use cause::Cause;
pub use line::StageIdle;
pub use open::Source;
pub use verdict::Verdict;

/// Idle time of all passes.
#[derive(Default)]
pub struct IdleTime {
    /// One a stage, process and GPU, in the order of stages; the primary pass first.
    pub lines: Vec<StageIdle>,
    /// What lies between the outermost stages of the primary pass, one a process and GPU.
    pub between: Vec<Between>,
    /// What the host did in idle time of the run outside of measured iterations and the times between them.
    pub outside: Vec<PhaseIdle>,
    /// The queue over the outermost stages of the primary pass that take most time.
    pub queues: Vec<QueueOverTime>,
    /// All captured time. It is made here because the gaps, which are large, live no longer.
    pub account: Account,
}

/// What all lines are made of, each made in one sweep.
struct Inputs<'a> {
    calls: Calls<'a>,
    gaps: Gaps,
    queues: Queues,
    /// By pass.
    traced: Vec<Traced>,
}

/// Explains the idle time; never missing, but empty without GPU work.
pub fn compute(context: &Context<'_>) -> Known<IdleTime> {
    let (session, facts) = (context.session, context.facts);
    let Some(primary) = facts.primary_pass(session) else {
        return Ok(IdleTime::default());
    };
    let calls = Calls::new(session, &facts.ops);
    let inputs = Inputs {
        gaps: Gaps::new(context, &calls),
        queues: Queues::new(context, &calls),
        traced: session
            .passes
            .ids()
            .map(|pass| Traced::new(session, pass))
            .collect(),
        calls,
    };
    let finder = Finder::new(context, &inputs.calls, &inputs.gaps);
    let secondary = session.passes.ids().filter(|pass| *pass != primary);
    let passes = std::iter::once(primary).chain(secondary);
    let summaries = passes.flat_map(|pass| summaries(facts, pass));
    let mut lines: Vec<StageIdle> = summaries
        .flat_map(|summary| line::lines(context, &inputs, summary))
        .collect();
    longest::find(context, &inputs, &mut lines);
    samples::find(context, &inputs, &mut lines);
    os_calls::find(context, &inputs, &mut lines);
    for line in &mut lines {
        let recurs = match line.is_whole(context) {
            true => Recurs::Parts,
            false => Recurs::Iterations,
        };
        line.explain(finder.sources(line.gpu, &line.windows(context), recurs));
    }
    Ok(IdleTime {
        between: between::between(context, &inputs, &finder),
        outside: outside(context, &finder),
        queues: queue::over_time(context, &inputs.queues, &lines, primary),
        account: Account::new(context, &inputs.gaps),
        lines,
    })
}

/// Idle time of a phase of the run on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseIdle {
    /// GPU.
    pub gpu: GpuId,
    /// Phase.
    pub phase: Phase,
    /// What the host did.
    pub sources: Sources,
}

/// The idle time of the phases that no figure of a stage contains.
fn outside(context: &Context<'_>, finder: &Finder<'_>) -> Vec<PhaseIdle> {
    let phases = account::phases(context).into_iter();
    let outside = phases.filter(|windows| !windows.phase.is_measured());
    outside
        .map(|PhaseWindows { gpu, phase, times }| {
            let thread = None;
            let times = times.into_iter();
            let windows: Vec<Window> = times.map(|time| Window { time, thread }).collect();
            let sources = finder.sources(gpu, &windows, Recurs::Iterations);
            PhaseIdle {
                gpu,
                phase,
                sources,
            }
        })
        .collect()
}

impl IdleTime {
    /// The lines of a stage (an index into the facts' stages) as a process ran it, one a GPU.
    pub fn of(&self, stage: usize, process: ProcessId) -> impl Iterator<Item = &StageIdle> {
        let of_stage =
            move |line: &&StageIdle| line.summary.stage == stage && line.summary.process == process;
        self.lines.iter().filter(of_stage)
    }

    /// The instance of a stage to look at: on its first GPU the nearest to the medians of all.
    pub fn nearest<'a>(
        &self,
        facts: &'a Facts,
        stage: usize,
        process: ProcessId,
    ) -> Option<&'a StageInstance> {
        self.of(stage, process).next()?.nearest(facts)
    }

    /// The lines in reading order: the primary pass first, in it and in the others the outermost stages first; and
    /// how many are outermost ones of the primary pass, and how many of that pass at all.
    pub fn ordered(&self, context: &Context<'_>) -> (Vec<&StageIdle>, usize, usize) {
        let is_other = |line: &StageIdle| !context.facts.run.contains(&line.pass(context));
        let inner = |line: &StageIdle| !line.summary.is_outermost(context.facts);
        let mut order: Vec<&StageIdle> = self.lines.iter().collect();
        order.sort_by_key(|line| (is_other(line), inner(line)));
        let outermost = order.partition_point(|line| !is_other(line) && !inner(line));
        let own_lines = order.partition_point(|line| !is_other(line));
        (order, outermost, own_lines)
    }
}

impl Inputs<'_> {
    /// What the artifact of a pass tells.
    fn traced(&self, pass: PassId) -> Traced {
        self.traced[pass.index()]
    }
}
