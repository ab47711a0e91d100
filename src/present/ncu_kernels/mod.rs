//! Profiled kernels: what Nsight Compute measured, one row a launch, and what bounds each.

mod metrics;
mod tables;

use rooflens_schemas::{Metric, Scope, Unit};

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::ncu::bound::{Bound, THRESHOLDS};
use rooflens_analysis::counters::ncu_kernels::PassBounds;
use rooflens_analysis::{Classifier, Known};
use rooflens_findings::catalogue::{BOUND_SHARE, PROFILED_TIME};
use rooflens_findings::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_findings::{Block, Chart, Findings, Inline, Method, Quantity, prose};

/// Profiled kernels.
pub(super) static SECTION: Section = Section { id: "profiled", show };

fn show(context: &Context<'_>) -> Known<Findings> {
    let (counters, passes) = (context.results.counters()?, context.results.ncu_kernels()?);
    let rule = context.options.classifier;
    let mut blocks: Vec<Block> = passes.iter().map(|pass| summary(context, pass)).collect();
    blocks.extend(chart(context, passes).map(Block::Chart));
    let (classes, of_classes) = tables::classes(context, passes);
    let (launches, of_launches) = tables::launches(context, counters);
    blocks.extend([of_classes, of_launches]);
    Ok(Findings {
        blocks,
        metrics: passes.iter().flat_map(|pass| metrics(context, counters, pass)).collect(),
        datasets: vec![launches, metrics::dataset(context, counters), classes],
        methods: methods(rule),
        ..Findings::default()
    })
}

fn nanoseconds(seconds: f64) -> Quantity {
    Quantity::new(seconds * 1e9, Unit::Nanoseconds)
}

fn summary(context: &Context<'_>, pass: &PassBounds) -> Block {
    Block::Prose(prose![
        "Pass ",
        Inline::Code(context.session.pass_name(pass.pass).to_owned()),
        ": ",
        Quantity::count(pass.launches),
        " launches of ",
        Quantity::count(pass.kernels),
        " kernels, ",
        nanoseconds(pass.seconds),
        " in all. Durations are those of replays under the profiler, with its control of clocks and caches: \
         shares of them say which counters matter, not how long the workload takes.",
    ])
}

/// Profiled time and its shares by class.
fn metrics(context: &Context<'_>, counters: &Counters, pass: &PassBounds) -> Vec<Metric> {
    let (scope, rule) = (pass_scope(context.session, pass.pass), context.options.classifier);
    if pass.timed == 0 {
        let reason = "no durations: the report lacks gpu__time_duration (ncu section SpeedOfLight)";
        return vec![PROFILED_TIME.unavailable(scope, reason)];
    }
    let basis = format!(
        "sum of gpu__time_duration over {} of {} profiled launches",
        pass.timed, pass.launches
    );
    let mut metrics = vec![PROFILED_TIME.derived(scope.clone(), pass.seconds * 1e9, basis)];
    metrics.extend(pass.shares(rule).into_iter().map(|(bound, seconds, share)| {
        let scope = Scope { class: Some(bound.label().to_owned()), ..scope.clone() };
        let basis = format!(
            "{} of {} of profiled time, by rule {}",
            nanoseconds(seconds),
            nanoseconds(pass.seconds),
            rule_name(rule)
        );
        BOUND_SHARE.derived(scope, share, basis)
    }));
    let evidence = counters.evidence(context.session, pass.pass);
    metrics.iter_mut().for_each(|metric| metric.evidence.push(evidence.clone()));
    metrics
}

/// Colour group of a class.
pub(super) const fn color(bound: Bound) -> Color {
    match bound {
        Bound::Compute => Color::ComputeBound,
        Bound::Dram => Color::DramBound,
        Bound::L2 => Color::L2Bound,
        Bound::L1 => Color::L1Bound,
        Bound::Memory => Color::MemoryBound,
        Bound::Latency => Color::LatencyBound,
        Bound::Balanced => Color::Balanced,
        Bound::Unknown => Color::Other,
    }
}

fn chart(context: &Context<'_>, passes: &[PassBounds]) -> Option<Chart> {
    let timed: Vec<_> = passes
        .iter()
        .filter(|pass| pass.seconds > 0.0)
        .map(|pass| {
            let name = context.session.pass_name(pass.pass);
            (name, pass.seconds, pass.shares(context.options.classifier))
        })
        .collect();
    let occurs = |bound: &Bound| {
        timed.iter().any(|(.., shares)| shares.iter().any(|(own, ..)| own == bound))
    };
    let bounds: Vec<Bound> = Bound::ALL.into_iter().filter(occurs).collect();
    let bar = |(name, seconds, shares): &(&str, f64, Vec<(Bound, f64, f64)>)| {
        let time = |bound: &Bound| shares.iter().find(|(own, ..)| own == bound);
        Bar {
            label: (*name).to_owned(),
            values: bounds.iter().map(|one| time(one).map_or(0.0, |own| own.1 * 1e9)).collect(),
            note: nanoseconds(*seconds).to_string(),
        }
    };
    let said = |(name, _, shares): &(&str, f64, Vec<(Bound, f64, f64)>)| {
        let part = |(bound, _, share): &(Bound, f64, f64)| {
            format!("{} {}", Quantity::ratio(*share), bound.label())
        };
        let parts: Vec<String> = shares.iter().map(part).collect();
        format!("{name}: {}", parts.join(", "))
    };
    let said: Vec<String> = timed.iter().map(said).collect();
    let part = |bound: &Bound| Part { name: bound.label().to_owned(), color: color(*bound) };
    (!timed.is_empty()).then(|| Chart {
        id: "profiled-bounds".to_owned(),
        title: "Profiled time by bound class".to_owned(),
        description: format!("Share of profiled time by bound class. {}.", said.join("; ")),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: bounds.iter().map(part).collect(),
            bars: timed.iter().map(bar).collect(),
        }),
    })
}

const fn rule_name(rule: Classifier) -> &'static str {
    match rule {
        Classifier::Rooflens => "rooflens",
        Classifier::Seed => "seed",
    }
}

fn methods(rule: Classifier) -> Vec<Method> {
    let rules = format!(
        "{} {} {} Charts and shares use rule “{}”. Speed-of-light figures are percentages of what the unit sustains over \
         the launch's whole duration: sm__throughput, gpu__dram_throughput, lts__throughput, l1tex__throughput \
         (avg.pct_of_peak_sustained_elapsed), or the details page's figures of the same meaning, L1/TEX there scaled \
         by SM active ÷ elapsed cycles.",
        THRESHOLDS.describe(Classifier::Rooflens),
        THRESHOLDS.describe(Classifier::Seed),
        THRESHOLDS.describe_borderline(),
        rule_name(rule),
    );
    let counters = "Durations: gpu__time_duration.sum. DRAM rate = DRAM bytes ÷ duration. Top stall: the warp state, other than \
         “selected”, with the largest share of warp states. Where a bundle holds the raw and the details page of \
         one report, numbers are those of the raw page.";
    vec![
        Method { title: "Bound classes".to_owned(), text: vec![rules.into()] },
        Method { title: "Profiled launches".to_owned(), text: vec![counters.into()] },
    ]
}

#[cfg(test)]
mod tests;
