//! Idle time: why each GPU waits within a stage and between stages, what launching costs, and what bounds a stage.

mod between;
mod causes;
mod charts;
mod metrics;
mod tables;
#[cfg(test)]
mod tests;

use super::{NOTABLE, Section, upper_bounds};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::idle::gaps::HOST_STRETCH;
use rooflens_analysis::time::idle::{Cause, IdleTime, Line, Verdict};
use rooflens_document::{Block, Inline, Quantity, SectionContent};
use rooflens_session::Ns;

/// Idle time.
pub(super) static SECTION: Section = Section { id: "idle", show };

/// Share of launching in a stage's time from which on the text says what it consists of.
const WORTH_SAYING: f64 = 0.1;

/// Difference of the idle share of all iterations and that of the median one from which on both are said.
const DIFFERS: f64 = 0.01;

/// Share of a stage's time from which on its idle time stands in the report.
const MATERIAL: f64 = 0.05;

/// Without GPU work there is no section: the one on stage times says what is missing.
fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut findings = SectionContent::default();
    let idle = context.results.idle()?;
    if idle.lines.is_empty() {
        return Ok(findings);
    }
    let metrics = idle
        .lines
        .iter()
        .flat_map(|line| metrics::of_line(context, line));
    findings.metrics.extend(metrics);
    let (mut order, outermost, own) = idle.ordered(context);
    let run: Ns = order[..outermost].iter().map(|line| line.pool.time).sum();
    let is_notable = |line: &&&Line| line.pool.time as f64 >= NOTABLE * run as f64;
    order[..outermost].sort_by_key(|line| !is_notable(&line));
    let shown = &order[..outermost];
    let notable: Vec<&Line> = shown.iter().filter(is_notable).copied().collect();
    let bars: Vec<&Line> = order[..own].iter().filter(is_notable).copied().collect();
    let mut text = say!(context, "idle.introduction");
    text.extend(notable.iter().flat_map(|line| verdict(context, line)));
    let first = [
        Block::Prose(text),
        Block::Chart(charts::causes(context, &bars)),
        tables::view_of_figures(context, &notable, false),
    ];
    let is_material = shown.iter().any(|line| line.share(line.idle()) >= MATERIAL);
    let place = if is_material {
        &mut findings.main
    } else {
        &mut findings.blocks
    };
    place.extend(first);
    add_queues(context, idle, &mut findings);
    findings
        .datasets
        .push(tables::launch_figures(context).rows(&order));
    tables::add_causes(context, &order, outermost, &mut findings);
    // Of equally idle stages the first.
    let most = shown.iter().rev().max_by_key(|line| line.idle());
    if let Some(line) = most.filter(|line| line.histogram.used().next().is_some()) {
        findings
            .blocks
            .push(Block::Chart(charts::gap_lengths(context, line)));
    }
    findings.datasets.push(tables::histogram(context, &order));
    tables::add_longest(context, &order, &mut findings);
    tables::add_samples(context, &order, &mut findings);
    between::add(context, &idle.between, &mut findings);
    upper_bounds::add(context, &mut findings)?;
    let stretch = Quantity::ns(HOST_STRETCH);
    findings
        .methods
        .push(method!(context, "idle", stretch = stretch));
    findings.methods.push(method!(context, "idle.figures"));
    Ok(findings)
}

/// The queue over one instance of the stages that take most time.
fn add_queues(context: &Context<'_>, idle: &IdleTime, findings: &mut SectionContent) {
    if idle.queues.is_empty() {
        return;
    }
    findings
        .blocks
        .push(Block::Prose(say!(context, "idle.queues")));
    let (order, outermost, _) = idle.ordered(context);
    findings
        .blocks
        .push(tables::view_of_figures(context, &order[..outermost], true));
    for queue in &idle.queues {
        let chart = charts::queue(context, &idle.lines[queue.line], queue);
        findings.blocks.push(Block::Chart(chart));
    }
    findings.datasets.push(tables::queues(context, idle));
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
fn verdict(context: &Context<'_>, line: &Line) -> Vec<Inline> {
    let (verdict, share) = line.verdict();
    let (launching, calls) = (line.of(Cause::Launching), line.launching_in_calls);
    let part = |time| Quantity::ratio(time as f64 / launching.max(1) as f64);
    let worth_saying = line.share(launching) >= WORTH_SAYING;
    let (idle, median) = (line.share(line.idle()), 1.0 - line.summary.busy_share);
    say!(
        context,
        "idle.verdict",
        stage = Inline::strong(line.label(context)),
        part = context.text.line(part_of_time(verdict), &[]),
        share = Quantity::ratio(share),
        idle = Quantity::ratio(idle),
        median = ((idle - median).abs() >= DIFFERS).then(|| Quantity::ratio(median)),
        calls = worth_saying.then(|| part(calls)),
        between = part(launching - calls),
    )
}
