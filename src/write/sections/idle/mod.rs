//! Idle time: why each GPU waits within a stage and between stages, what launching costs, and what bounds a stage.

mod between;
mod charts;
mod sources;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::{Evidence, Metric};
use rooflens_session::Ns;
use rooflens_units::{Measure, Ratio};

use super::{NOTABLE, Section, upper_bounds};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::idle::gaps::HOST_STRETCH;
use rooflens_analysis::time::idle::{Cause, IdleTime, StageIdle, Verdict};
use rooflens_document::catalogue::{
    IDLE, IDLE_ALLOCATOR, IDLE_COMMUNICATION, IDLE_COPY, IDLE_FIRST_USE, IDLE_HOST_CODE,
    IDLE_LAUNCHING, IDLE_OFF_CPU, IDLE_OS, IDLE_OTHER_WORK, IDLE_PROFILER, IDLE_QUEUE, IDLE_SHARE,
    IDLE_SYNC, IDLE_UNKNOWN, LAUNCH_API_TIME, LAUNCHES_PER_STEP, LAUNCHES_PER_TOKEN,
    MEAN_KERNEL_TIME, QUEUE_DEPTH, QUEUE_EMPTY_SHARE, QUEUE_TIME,
};
use rooflens_document::chart::Color;
use rooflens_document::{Block, Inline, MetricDef, Quantity, SectionContent};

/// Idle time.
pub(super) static SECTION: Section = Section { id: "idle", show };

/// Share of launching in a stage's time from which on the text says what it consists of.
const WORTH_SAYING: Ratio = Ratio(0.1);

/// Difference of times, as a share of a stage, up to which two stages are one.
const DIFFERS: Ratio = Ratio(0.01);

/// Share of a stage's time from which on its idle time stands in the report.
const MATERIAL: Ratio = Ratio(0.10);

/// Without GPU work there is no section: the one on stage times says what is missing.
fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut content = SectionContent::default();
    let idle = context.results.idle()?;
    if idle.lines.is_empty() {
        return Ok(content);
    }
    let metrics = idle.lines.iter().flat_map(|line| metrics(context, line));
    content.metrics.extend(metrics);
    let (mut order, outermost, of_primary) = idle.ordered(context);
    let run: Ns = order[..outermost].iter().map(|line| line.pool.time).sum();
    let is_notable = |line: &&&StageIdle| line.pool.time.time() >= run.time() * NOTABLE;
    order[..outermost].sort_by_key(|line| !is_notable(&line));
    let shown = &order[..outermost];
    let notable: Vec<&StageIdle> = shown.iter().filter(is_notable).copied().collect();
    let mut bars = Vec::<&StageIdle>::new();
    for line in order[..of_primary].iter().filter(is_notable) {
        // The steps of a stage that are all of it say nothing more.
        if !bars.iter().any(|bar| covers(bar, line)) {
            bars.push(line);
        }
    }
    // How causes are found is for the appendix.
    content
        .blocks
        .push(Block::Prose(say!(context, "idle.introduction")));
    let verdicts = notable.iter().map(|line| verdict(context, line));
    let mut text: Vec<Inline> = verdicts.flatten().collect();
    // A space parts them in English.
    if let Some(Inline::Text(first)) = text.first_mut() {
        *first = first.trim_start().to_owned();
    }
    let first = [
        Block::Prose(text),
        Block::Chart(charts::causes(context, &bars)),
        tables::view_of_figures(context, &notable, false),
    ];
    let is_material = shown.iter().any(|line| line.share(line.idle()) >= MATERIAL);
    if is_material {
        content.main.extend(first);
    } else {
        content.blocks.extend(first);
    }
    add_queues(context, idle, &mut content);
    content
        .datasets
        .push(tables::launch_figures(context).rows(order.iter().copied()));
    tables::add_causes(context, &order, outermost, &mut content);
    sources::add(context, idle, &order, &mut content);
    // Of equally idle stages the first.
    let most = shown.iter().rev().max_by_key(|line| line.idle());
    if let Some(line) = most.filter(|line| line.histogram.used().next().is_some()) {
        content
            .blocks
            .push(Block::Chart(charts::gap_lengths(context, line)));
    }
    content.datasets.push(tables::histogram(context, &order));
    tables::add_longest(context, &order, &mut content);
    tables::add_samples(context, &order, &mut content);
    between::add(context, &idle.between, &mut content);
    upper_bounds::add(context, &mut content)?;
    let stretch = Quantity::ns(HOST_STRETCH);
    content
        .methods
        .push(method!(context, "idle", stretch = stretch));
    content.methods.push(method!(context, "idle.figures"));
    Ok(content)
}

/// Whether a stage has, up to [`DIFFERS`], the same time as another of its process and GPU, as far as it is idle and busy.
fn covers(outer: &StageIdle, inner: &StageIdle) -> bool {
    let nearly = |a: Ns, b: Ns| (a - b).abs().time() <= outer.pool.time.time() * DIFFERS;
    (outer.summary.process, outer.gpu) == (inner.summary.process, inner.gpu)
        && nearly(outer.pool.time, inner.pool.time)
        && nearly(outer.idle(), inner.idle())
}

/// The queue over one instance of the stages that take most time.
fn add_queues(context: &Context<'_>, idle: &IdleTime, content: &mut SectionContent) {
    if idle.queues.is_empty() {
        return;
    }
    content
        .blocks
        .push(Block::Prose(say!(context, "idle.queues")));
    let (order, outermost, _) = idle.ordered(context);
    content
        .blocks
        .push(tables::view_of_figures(context, &order[..outermost], true));
    for queue in &idle.queues {
        let chart = charts::queue(context, &idle.lines[queue.line], queue);
        content.blocks.push(Block::Chart(chart));
    }
    content.datasets.push(tables::queues(context, idle));
}

/// The words for the part of a stage's time that a verdict names.
const fn part_of_time(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Gpu => "idle.part.gpu",
        Verdict::Latency => "idle.part.latency",
        Verdict::Communication => "idle.part.communication",
        Verdict::Copy => "idle.part.copy",
        Verdict::Launch => "idle.part.launch",
        Verdict::Host => "idle.part.host",
        Verdict::Sync => "idle.part.sync",
        Verdict::Profiler => "idle.part.profiler",
        Verdict::OtherWork => "idle.part.other",
        Verdict::Unknown => "idle.part.unknown",
    }
}

/// The largest part of a stage's time, and what its launching consists of where it is worth it.
fn verdict(context: &Context<'_>, line: &StageIdle) -> Vec<Inline> {
    let (verdict, _) = line.verdict();
    let (launching, calls) = (line.of(Cause::Launching), line.launching_in_calls);
    let part = |time: Ns| Ratio::of(time, launching.max(Ns(1)));
    let worth_saying = line.share(launching) >= WORTH_SAYING;
    let idle = line.share(line.idle());
    say!(
        context,
        "idle.verdict",
        stage = Inline::strong(line.label(context)),
        part = context.text.line(part_of_time(verdict), &[]),
        idle = idle,
        calls = worth_saying.then(|| part(calls)),
        between = part(launching - calls),
    )
}

/// All metrics of a stage.
fn metrics(context: &Context<'_>, line: &StageIdle) -> Vec<Metric> {
    let mut metrics = idle_metrics(context, line);
    metrics.extend(launch_metrics(context, line));
    with_evidence(metrics, &line.evidence(context))
}

fn with_evidence(mut metrics: Vec<Metric>, evidence: &Evidence) -> Vec<Metric> {
    for metric in &mut metrics {
        metric.evidence = vec![evidence.clone()];
    }
    metrics
}

fn idle_metrics(context: &Context<'_>, line: &StageIdle) -> Vec<Metric> {
    let (scope, idle) = (line.scope(context), line.idle());
    let over = basis!(
        "basis.over_instances",
        time = Quantity::ns(line.pool.time),
        instances = line.instances.len(),
        measured = line.summary.instances,
    );
    let basis = basis!("basis.idle", idle = Quantity::ns(idle), over = over);
    let share = basis!("basis.idle_share", idle = Quantity::ns(idle), over = over);
    let mut metrics = vec![
        IDLE.derived(scope.clone(), line.scaled(idle).0, basis),
        IDLE_SHARE.derived(scope.clone(), line.share(idle).0, share),
    ];
    for cause in Cause::ALL {
        let (metric, _, meaning) = presentation(cause);
        let value = line.of_stage(cause).map(|time| {
            let basis = basis!(
                "basis.idle_cause",
                idle = Quantity::ns(line.of(cause)),
                over = over,
                instances = line.spread(&[cause]).instances,
                meaning = meaning,
            );
            (time.0, basis)
        });
        metrics.push(metric.known(scope.clone(), context.reason_if_missing(value)));
    }
    metrics
}

fn launch_metrics(context: &Context<'_>, line: &StageIdle) -> Vec<Metric> {
    let (launches, instances) = (&line.launches, line.instances.len());
    let calls = launches.calls;
    let no_calls = match line.has_calls() {
        Ok(()) => basis!("basis.no_launch_calls"),
        Err(missing) => context.in_english().missing(missing),
    };
    let reason = |reason| if calls == 0 { no_calls.clone() } else { reason };
    let mean_call = launches
        .mean_call
        .map(|mean| Quantity::from(mean).to_string());
    let metrics = [
        (
            &LAUNCHES_PER_STEP,
            launches.per_step.map(Measure::number),
            basis!(
                "basis.launches_per_step",
                calls = calls,
                instances = instances
            ),
            reason(basis!("basis.no_steps")),
        ),
        (
            &LAUNCHES_PER_TOKEN,
            launches.per_token.map(Measure::number),
            basis!(
                "basis.launches_per_token",
                calls = calls,
                instances = instances
            ),
            reason(basis!("basis.no_sizes")),
        ),
        (
            &MEAN_KERNEL_TIME,
            launches.mean_kernel().map(Measure::number),
            basis!(
                "basis.mean_kernel_time",
                time = launches.kernel_time,
                kernels = launches.kernels
            ),
            basis!("basis.no_kernel"),
        ),
        (
            &LAUNCH_API_TIME,
            launches.median_call.map(Measure::number),
            basis!(
                "basis.launch_api_time",
                calls = calls,
                mean = mean_call.unwrap_or_default()
            ),
            no_calls.clone(),
        ),
        (
            &QUEUE_TIME,
            launches.queue_time.map(Measure::number),
            basis!(
                "basis.queue_time",
                begun = launches.begun_in_call,
                calls = calls
            ),
            no_calls.clone(),
        ),
        (
            &QUEUE_DEPTH,
            launches.depth_mean().map(Measure::number),
            basis!("basis.queue_depth", most = launches.depth_max),
            no_calls.clone(),
        ),
        (
            &QUEUE_EMPTY_SHARE,
            line.queue_empty_share().map(Measure::number),
            basis!("basis.queue_empty_share"),
            no_calls.clone(),
        ),
    ];
    let scope = line.scope(context);
    let metric = |(metric, value, basis, reason): (&MetricDef, Option<f64>, String, String)| {
        metric.known(
            scope.clone(),
            value.map(|value| (value, basis)).ok_or(reason),
        )
    };
    metrics.into_iter().map(metric).collect()
}

/// The metric of a cause, its colour, and what a reader makes of it. Tints distinguish causes of one colour.
const fn presentation(cause: Cause) -> (&'static MetricDef, Color, &'static str) {
    match cause {
        Cause::Launching => (
            &IDLE_LAUNCHING,
            Color::Launching,
            "the host issues launches one after the other, at its rate",
        ),
        Cause::HostCode => (
            &IDLE_HOST_CODE,
            Color::Host,
            "the host computes without a CUDA call",
        ),
        Cause::FirstUse => (
            &IDLE_FIRST_USE,
            Color::Host,
            "the host loads or links code, launches a kernel for the first time, or instantiates a graph",
        ),
        Cause::Sync => (
            &IDLE_SYNC,
            Color::Blocked,
            "the host waits in a synchronizing call",
        ),
        Cause::Allocator => (
            &IDLE_ALLOCATOR,
            Color::Blocked,
            "the host allocates or frees memory in a CUDA call",
        ),
        Cause::Copy => (
            &IDLE_COPY,
            Color::Blocked,
            "the host waits in a copy that blocks it",
        ),
        Cause::Os => (
            &IDLE_OS,
            Color::Blocked,
            "the host is in a call of the operating system",
        ),
        Cause::OffCpu => (
            &IDLE_OFF_CPU,
            Color::Blocked,
            "no CPU runs the host's thread: preempted, or blocked outside of traced calls",
        ),
        Cause::Profiler => (
            &IDLE_PROFILER,
            Color::Other,
            "the profiler holds up the host",
        ),
        Cause::Communication => (
            &IDLE_COMMUNICATION,
            Color::Communication,
            "work that was issued waits at a collective",
        ),
        Cause::Queue => (
            &IDLE_QUEUE,
            Color::Busy,
            "work that was issued waits: launch latency, stream order, events",
        ),
        Cause::OtherWork => (
            &IDLE_OTHER_WORK,
            Color::Other,
            "the GPU runs operations that are not of this stage",
        ),
        Cause::Unknown => (
            &IDLE_UNKNOWN,
            Color::Idle,
            "the call that issued the next operation is not in the artifact",
        ),
    }
}
