//! Profiled kernels: what Nsight Compute measured, one row a launch, and what bounds each.

mod metrics;
mod tables;

pub use metrics::{has_ncu_metrics, ncu_metrics};

use rooflens_schemas::{Metric, Scope, Unit};

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::ncu::bound::{Bound, THRESHOLDS, Thresholds};
use rooflens_analysis::counters::ncu_kernels::PassBounds;
use rooflens_analysis::{Classifier, Known};
use rooflens_document::catalogue::{BOUND_SHARE, PROFILED_TIME};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Inline, Method, Quantity, SectionContent};
use rooflens_units::{Ratio, Seconds};

/// Profiled kernels.
pub(super) static SECTION: Section = Section {
    id: "profiled",
    show,
};

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let (counters, passes) = (context.results.counters()?, context.results.ncu_kernels()?);
    let mut blocks: Vec<Block> = passes.iter().map(|pass| summary(context, pass)).collect();
    blocks.extend(chart(context, passes).map(Block::Chart));
    let (classes, of_classes) = tables::classes(context, passes);
    let (launches, of_launches) = tables::launches(context, counters);
    blocks.extend([of_classes, of_launches]);
    Ok(SectionContent {
        blocks,
        metrics: passes
            .iter()
            .flat_map(|pass| metrics(context, counters, pass))
            .collect(),
        datasets: vec![launches, classes],
        methods: vec![
            bound_classes(context, &THRESHOLDS),
            method!(context, "profiled"),
        ],
        ..SectionContent::default()
    })
}

fn summary(context: &Context<'_>, pass: &PassBounds) -> Block {
    Block::Prose(say!(
        context,
        "profiled.summary",
        pass = Inline::code(context.session.pass_name(pass.pass)),
        launches = Quantity::count(pass.launches),
        kernels = Quantity::count(pass.kernels),
        time = pass.seconds,
    ))
}

/// Profiled time and its shares by class.
fn metrics(context: &Context<'_>, counters: &Counters, pass: &PassBounds) -> Vec<Metric> {
    let context = &context.in_english();
    let (scope, rule) = (
        pass_scope(context.session, pass.pass),
        context.options.classifier,
    );
    if pass.timed == 0 {
        return vec![PROFILED_TIME.unavailable(scope, words!(context, "profiled.no_durations"))];
    }
    let basis = format!(
        "sum of gpu__time_duration over {} of {} profiled launches",
        pass.timed, pass.launches
    );
    let mut metrics = vec![PROFILED_TIME.derived(scope.clone(), pass.seconds.time().0, basis)];
    metrics.extend(
        pass.shares(rule)
            .into_iter()
            .map(|(bound, seconds, share)| {
                let scope = Scope {
                    class: Some(bound.label().to_owned()),
                    ..scope.clone()
                };
                let basis = format!(
                    "{} of {} of profiled time, by rule {}",
                    Quantity::from(seconds),
                    Quantity::from(pass.seconds),
                    rule_name(rule)
                );
                BOUND_SHARE.derived(scope, share.0, basis)
            }),
    );
    let evidence = counters.evidence(context.session, pass.pass);
    metrics
        .iter_mut()
        .for_each(|metric| metric.evidence.push(evidence.clone()));
    metrics
}

/// Colour group of a class.
pub(super) const fn color(bound: Bound) -> Color {
    match bound {
        Bound::Compute => Color::ComputeBound,
        Bound::Instruction => Color::InstructionBound,
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
        .filter(|pass| pass.seconds.is_positive())
        .map(|pass| {
            let name = context.session.pass_name(pass.pass);
            (name, pass.seconds, pass.shares(context.options.classifier))
        })
        .collect();
    let occurs = |bound: &Bound| {
        timed
            .iter()
            .any(|(.., shares)| shares.iter().any(|(classified, ..)| classified == bound))
    };
    let bounds: Vec<Bound> = Bound::ALL.into_iter().filter(occurs).collect();
    let bar = |(name, seconds, shares): &(&str, Seconds, Vec<(Bound, Seconds, Ratio)>)| {
        let time = |bound: &Bound| shares.iter().find(|(classified, ..)| classified == bound);
        Bar {
            label: (*name).to_owned(),
            values: bounds
                .iter()
                .map(|bound| time(bound).map_or(0.0, |share| share.1.time().0))
                .collect(),
            note: Quantity::from(*seconds).to_string(),
        }
    };
    let in_words = |(name, _, shares): &(&str, Seconds, Vec<(Bound, Seconds, Ratio)>)| {
        let part = |(bound, _, share): &(Bound, Seconds, Ratio)| {
            format!("{} {}", Quantity::from(*share), bound.label())
        };
        let parts: Vec<String> = shares.iter().map(part).collect();
        format!(
            "{name}{}{}",
            context.text.colon(),
            parts.join(context.text.comma())
        )
    };
    let shares_of_passes: Vec<String> = timed.iter().map(in_words).collect();
    let part = |bound: &Bound| Part::new(bound.label(), color(*bound));
    (!timed.is_empty()).then(|| Chart {
        id: "profiled-bounds".to_owned(),
        title: words!(context, "profiled.chart"),
        description: words!(
            context,
            "profiled.chart_description",
            passes = shares_of_passes.join(context.text.semicolon())
        ),
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

/// The rules in words, with the thresholds that ran.
fn bound_classes(context: &Context<'_>, of: &Thresholds) -> Method {
    method!(
        context,
        "bound_classes",
        busy = of.busy.0.to_string(),
        small_grid_waves = of.small_grid_waves.0.to_string(),
        low_occupancy = of.low_occupancy.0.to_string(),
        lead = of.lead.0.to_string(),
        tie = of.tie.0.to_string(),
        seed_margin = of.seed_margin.0.to_string(),
        borderline = of.borderline.0.to_string(),
        flops_per_instruction = of.flops_per_instruction.0.to_string(),
        rule = rule_name(context.options.classifier),
    )
}

#[cfg(test)]
mod tests;
