//! Idle time: why each GPU waits within a stage and between stages, what launching costs, and what bounds a stage.

mod between;
mod causes;
mod charts;
mod metrics;
mod tables;
#[cfg(test)]
mod tests;

use super::{Section, what_if};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::idle::gaps::HOST_STRETCH;
use rooflens_analysis::time::idle::{Cause, IdleTime, Line};
use rooflens_findings::{Block, Findings, Inline, Method, Quantity, prose};

/// Idle time.
pub(super) static SECTION: Section = Section { id: "idle", show };

/// Share of launching in a stage's time from which on the text says what it consists of.
const WORTH_SAYING: f64 = 0.1;

/// Without GPU work there is no section: the one on stage times says what is missing.
fn show(context: &Context<'_>) -> Known<Findings> {
    let mut findings = Findings::default();
    let idle = context.results.idle()?;
    if idle.lines.is_empty() {
        return Ok(findings);
    }
    let metrics = idle.lines.iter().flat_map(|line| metrics::of_line(context, line));
    findings.metrics.extend(metrics);
    let (order, outermost, own) = idle.ordered(context);
    let shown = &order[..outermost];
    findings.blocks.push(Block::Prose(introduction(context, shown)));
    findings.blocks.push(Block::Chart(charts::causes(context, &order[..own])));
    findings.blocks.push(tables::view_of_figures(shown));
    add_queues(context, idle, &mut findings);
    findings.datasets.push(tables::launch_figures(context).rows(&order));
    tables::add_causes(context, &order, outermost, &mut findings);
    // Of equally idle stages the first.
    let most = shown.iter().rev().max_by_key(|line| line.idle_total());
    if let Some(line) = most.filter(|line| line.histogram.used().next().is_some()) {
        findings.blocks.push(Block::Chart(charts::gap_lengths(context, line)));
    }
    findings.datasets.push(tables::histogram(context, &order));
    tables::add_longest(context, &order, &mut findings);
    between::add(context, &idle.between, &mut findings);
    what_if::add(context, &mut findings)?;
    findings.methods.extend(methods());
    Ok(findings)
}

/// The queue over the median instance of the stages that take most time.
fn add_queues(context: &Context<'_>, idle: &IdleTime, findings: &mut Findings) {
    if idle.queues.is_empty() {
        return;
    }
    findings.blocks.push(Block::Prose(prose![
        "How far the host is ahead of the GPU: idle with an empty queue, the GPU waits for a host that is too slow \
         (or, for moments, for the next kernel of the graph that it runs); busy with an empty queue, the host comes \
         just in time, or one long operation or graph runs; where much waits, the host is far ahead and faster launches \
         gain nothing."
    ]));
    for queue in &idle.queues {
        let chart = charts::queue(context, &idle.lines[queue.line], queue);
        findings.blocks.push(Block::Chart(chart));
    }
    findings.datasets.push(tables::queues(context, idle));
}

/// A sentence or two a stage.
fn introduction(context: &Context<'_>, lines: &[&Line]) -> Vec<Inline> {
    let mut text = prose![
        "Each gap between operations of a GPU has one cause, that of the operation that ends it. Tracing slows the \
         host: without it the gaps are shorter."
    ];
    for line in lines {
        let (verdict, share) = line.verdict();
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

fn methods() -> Vec<Method> {
    let stretch = || Quantity::ns(HOST_STRETCH);
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
