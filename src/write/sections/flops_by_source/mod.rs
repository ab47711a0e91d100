//! FLOPs of each stage from all sources side by side, and the time that they would take at the peaks.

mod metrics;
mod tables;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use super::Section;
use crate::{Context, joined};
use rooflens_analysis::Known;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::{Block, Inline, Quantity, SectionContent, View};
use rooflens_session::Ns;

/// FLOPs by source. A bundle in which no kernel has sizes has no such section.
pub(super) static SECTION: Section = Section { id: "flops", show };

/// Stages that a page shows.
const SHOWN: usize = 12;

/// Classes without FLOPs that a sentence names.
const CLASSES: usize = 4;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let stages = context.results.flops()?;
    let mut content = SectionContent::default();
    if stages.is_empty() {
        return Ok(content);
    }
    let primary = context.facts.primary_pass(context.session);
    let of_primary = stages
        .iter()
        .filter(|stage| Some(stage.pass) == primary)
        .count();
    let shown = &stages[..if of_primary == 0 {
        stages.len()
    } else {
        of_primary
    }];
    let caption = words!(context, "flops.caption");
    let limit = shown.len().min(SHOWN);
    content.blocks.push(Block::Table(View::new(
        "flops",
        caption,
        &columns(shown),
        limit,
    )));
    let outermost = shown
        .iter()
        .filter(|stage| stage.summary.is_outermost(context.facts));
    let uncounted: Vec<_> = outermost
        .take(SHOWN)
        .filter_map(|stage| uncounted(context, stage))
        .collect();
    content
        .blocks
        .extend((!uncounted.is_empty()).then_some(Block::Facts(uncounted)));
    for stage in stages {
        content.metrics.extend(metrics::of(context, stage));
        content.diagnostics.extend(above_one(context, stage));
    }
    content.datasets.push(tables::dataset(context, stages));
    content.methods.push(method!(context, "flops"));
    Ok(content)
}

/// The columns that hold something.
fn columns(lines: &[StageFlops]) -> Vec<&'static str> {
    let any = |has: &dyn Fn(&StageFlops) -> bool| lines.iter().any(has);
    let columns = [
        ("stage", true),
        ("model_flops", any(&|line| line.model.is_some())),
        ("operator_flops", any(&|line| line.sums.operators.is_some())),
        ("gemm_log_flops", any(&|line| line.sums.logged.is_some())),
        ("counter_flops", any(&|line| line.executed.is_some())),
        ("flop_coverage", true),
        ("time_ns", true),
        ("ideal_time_ns", true),
        ("mixed_dtype_utilization", true),
        ("mfu", any(&|line| line.mfu.is_ok())),
        ("hfu", any(&|line| line.hfu.is_some())),
        (
            "clock_normalized_mfu",
            any(&|line| line.clock.is_some() && line.mfu.is_ok()),
        ),
    ];
    columns
        .into_iter()
        .filter_map(|(column, shown)| shown.then_some(column))
        .collect()
}

/// What of a stage's time has no FLOPs, in words.
fn uncounted(context: &Context<'_>, stage: &StageFlops) -> Option<(String, Vec<Inline>)> {
    let (total, unknown) = (stage.sums.total, &stage.sums.unknown);
    if unknown.is_empty() || total <= Ns::ZERO {
        return None;
    }
    let share = |time: Ns| Quantity::ratio(time.time() / total.time());
    let rest = rooflens_analysis::engine::intervals::total(unknown.values().copied());
    let mut classes: Vec<(&KernelClass, &Ns)> = unknown.iter().collect();
    classes.sort_by_key(|(_, time)| Reverse(**time));
    let of_class =
        |(class, time): (&KernelClass, &Ns)| prose![format!("{} ", class.label()), share(*time)];
    let classes = joined(classes.into_iter().take(CLASSES).map(of_class), ", ");
    let text = match unknown.len() > CLASSES {
        true => say!(
            context,
            "flops.uncounted_more",
            share = share(rest),
            classes = classes
        ),
        false => say!(
            context,
            "flops.uncounted",
            share = share(rest),
            classes = classes
        ),
    };
    Some((stage.summary.label(context.session, context.facts), text))
}

fn above_one(context: &Context<'_>, stage: &StageFlops) -> Option<Diagnostic> {
    let Err(Unavailable::AbovePeak(value)) = stage.utilization else {
        return None;
    };
    let label = stage.summary.label(context.session, context.facts);
    let message = words!(context, "flops.above_one", stage = label, share = value);
    let hint = words!(context, "flops.above_one_hint");
    Some(Diagnostic::new(Severity::Error, "flops/above-one", message).hint(hint))
}
