//! Idle time: why each GPU waits within a stage, what launching costs, and what bounds the stage.

mod between;
mod between_pages;
mod calls;
mod cause;
mod gaps;
mod histogram;
mod launches;
mod line;
mod longest;
mod metrics;
mod pages;
mod queue;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod verdict;

use rooflens_schemas::Unit;

use crate::analysis::engine::stage_stats::summaries;
use crate::analysis::time::what_if;
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Bar, Chart, Color, Part, Plot, StackedBars};
use crate::findings::{Block, Findings, Inline, Method, Quantity};
use crate::model::{PassId, Session};
use crate::prose;

use calls::Calls;
use gaps::Gaps;
use metrics::Traced;
use queue::Queues;
use verdict::Verdict;

pub(crate) use cause::Cause;
pub(crate) use line::Line;

/// Idle time.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "idle", title: "Idle time", missing: |_: &Session| None, run };

/// Share of launching in a stage's time from which on the text says what it consists of.
const WORTH_SAYING: f64 = 0.1;

/// What all lines are made of, each made in one sweep.
struct Sweeps<'a> {
    calls: Calls<'a>,
    gaps: Gaps,
    queues: Queues,
}

impl<'a> Sweeps<'a> {
    fn new(context: &Context<'a>) -> Self {
        let calls = Calls::new(context.session, &context.facts.ops);
        let (gaps, queues) = (Gaps::new(context, &calls), Queues::new(context, &calls));
        Self { calls, gaps, queues }
    }
}

/// Without GPU work there is no section: the one on stage times says what is missing.
fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let Some(primary) = context.facts.primary_pass(context.session) else { return findings };
    let sweeps = Sweeps::new(context);
    let lines = lines(context, &sweeps, primary);
    if lines.is_empty() {
        return findings;
    }
    for of_pass in lines.chunk_by(|a, b| pass(context, a) == pass(context, b)) {
        let traced = Traced::new(context.session, pass(context, &of_pass[0]));
        for line in of_pass {
            findings.metrics.extend(metrics::metrics(context, line, traced));
        }
    }
    // Stages of the primary pass first, and of these the outermost ones.
    let mut order: Vec<&Line> = lines.iter().collect();
    let inner = |line: &Line| !line.summary.is_outermost(context.facts);
    order.sort_by_key(|line| (pass(context, line) != primary, inner(line)));
    let shown = order.partition_point(|line| pass(context, line) == primary);
    let outermost = order.partition_point(|line| pass(context, line) == primary && !inner(line));
    findings.blocks.push(Block::Prose(introduction(context, &order[..outermost])));
    findings.blocks.push(Block::Chart(chart(context, &order[..shown])));
    pages::add(context, &sweeps, &order, outermost, &mut findings);
    let between = between::between(context, &sweeps, summaries(context.facts, primary));
    let traced = context.session.api_calls.pass.contains(&primary);
    between_pages::add(context, &between, traced, &mut findings);
    what_if::add(context, &order, outermost, &mut findings);
    findings.methods.extend(methods());
    findings
}

/// The lines of all passes, the primary one first.
fn lines(context: &Context<'_>, sweeps: &Sweeps<'_>, primary: PassId) -> Vec<Line> {
    let others = context.session.passes.ids().filter(|pass| *pass != primary);
    let passes = std::iter::once(primary).chain(others);
    let summaries = passes.flat_map(|pass| summaries(context.facts, pass));
    summaries.flat_map(|summary| line::lines(context, sweeps, summary)).collect()
}

fn pass(context: &Context<'_>, line: &Line) -> PassId {
    line.summary.stage(context.facts).pass
}

/// A sentence or two a stage.
fn introduction(context: &Context<'_>, lines: &[&Line]) -> Vec<Inline> {
    let mut text = prose![
        "Each gap between operations of a GPU has one cause, that of the operation that ends it. Tracing slows the \
         host: without it the gaps are shorter."
    ];
    for line in lines {
        let (verdict, share) = Verdict::of(line);
        text.extend(prose![
            " ",
            Inline::Strong(line.label(context)),
            format!(" is {} (", verdict.label()),
            Quantity::ratio(share),
            " of its time); its GPU is idle for ",
            Quantity::ratio(line.share(line.idle())),
            "."
        ]);
        if line.share(line.of(Cause::Launching)) >= WORTH_SAYING {
            text.extend(issuing(line));
        }
    }
    text
}

/// What the launching gaps of a stage consist of.
fn issuing(line: &Line) -> Vec<Inline> {
    let parts = line.issuing;
    let all = parts.calls.saturating_add(parts.between).saturating_add(parts.latency).max(1);
    let share = |time| Quantity::ratio(time as f64 / all as f64);
    prose![
        " Of the time of its launching gaps ",
        share(parts.calls),
        " lie in CUDA calls, ",
        share(parts.between),
        " between them in the framework, and ",
        share(parts.latency),
        " after the call, until the operation starts."
    ]
}

/// One bar a stage: busy time and idle time by cause.
fn chart(context: &Context<'_>, lines: &[&Line]) -> Chart {
    let causes: Vec<Cause> =
        Cause::ALL.into_iter().filter(|cause| lines.iter().any(|l| l.of(*cause) > 0)).collect();
    let mut parts = vec![Part { name: Color::Busy.label().to_owned(), color: Color::Busy }];
    let part = |cause: &Cause| Part { name: cause.label().to_owned(), color: cause.color() };
    parts.extend(causes.iter().map(part));
    let bar = |line: &&Line| Bar {
        label: line.label(context),
        values: std::iter::once(line.middle.busy.total())
            .chain(causes.iter().map(|cause| line.of(*cause)))
            .map(|time| time as f64)
            .collect(),
        note: format!("{} idle", Quantity::new(line.per_instance(line.idle()), Unit::Nanoseconds)),
    };
    Chart {
        id: "idle-causes".to_owned(),
        title: "Why the GPU is idle".to_owned(),
        description:
            "One bar a stage: the share of its time in which the GPU is busy, and the shares in \
                      which it is idle, by cause, in the instance of median stage time. The table below holds the \
                      numbers."
                .to_owned(),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts,
            bars: lines.iter().map(bar).collect(),
        }),
    }
}

fn methods() -> Vec<Method> {
    let stretch = || Quantity::ns(gaps::HOST_STRETCH);
    let causes = prose![
        "A gap is a time without any operation on a GPU, whatever stage it belongs to. Within the projection of a \
         stage instance, busy + gaps + operations of others (other work) = projection, to the nanosecond. The \
         operation that ends a gap decides its cause, by the API call that issued it and the thread that made the \
         call. First: without a call in the artifact, or with one that starts after the operation, the cause is \
         unknown. If the call had returned when the gap began, or issued other operations before (a graph), the \
         work waits in the queue: at a collective if one ends the gap or ended where it begins, else for launch \
         latency, stream order or an event. Otherwise the host had not issued it yet, and the first of these holds: \
         the profiler's overhead on that thread covers half of the gap or more; synchronizing calls do; calls that \
         allocate, load code or instantiate graphs do; blocking copies do (also asynchronous ones with pageable \
         memory); calls of the operating system outside of CUDA calls do; off CPU, if the scheduler took the thread off \
         its CPU for as long outside of CUDA calls and calls of the operating system; launching, if the thread made no pause of ",
        stretch(),
        " or more between CUDA calls (a pause that began before the gap counts whole); else host code, which made \
         such a pause. The dispatch of a framework between two launches is thus launching, as CUDA graphs would \
         remove it, and a long pause is host code, as they would not."
    ];
    let verdict = prose![
        "The verdict on a stage names the largest share of its time: GPU-bound (computing, or work in the queue), \
         communication-bound and copy-bound (exposed, or waited for), launch-bound (launching), host-bound (host \
         code, allocation and loading, operating system, off CPU), sync-bound (synchronizing calls), or what else is \
         largest. Queue time is the time from the return of a launch call to the start of its first operation; \
         launches that begin before their call returns have none and are counted apart. Queue depth is the number \
         of launches issued and not begun, a graph being one: a launch joins the queue when its call returns and leaves \
         it when its first operation begins. The mean is that over busy time of the launches of the stage; the chart \
         and the share of time with an empty queue are over the whole instance of median stage time, with the launches \
         of all stages of the process on the GPU."
    ];
    vec![
        Method { title: "Idle time by cause".to_owned(), text: causes },
        Method { title: "Verdict and launch figures".to_owned(), text: verdict },
    ]
}
