//! MFU, kernel-time MFU and MBU per stage, each with its basis.

pub(crate) mod bounds;
mod metrics;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::{StageUtilization, Utilization};
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Dataset, Inline, SectionContent, View};
use rooflens_session::Llm;
use rooflens_units::Ratio;

/// Model FLOPs utilization.
pub(super) static SECTION: Section = Section {
    id: "utilization",
    show,
};

/// Rows that a page shows.
const SHOWN: usize = 30;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let utilization = context.results.utilization()?;
    let stages = &utilization.stages;
    let mut content = SectionContent::default();
    content
        .blocks
        .push(Block::Facts(basis(context, utilization)));
    content
        .blocks
        .extend(chart(context, stages).map(Block::Chart));
    // A stage of which no work is counted has nothing to show.
    let rows: Vec<&StageUtilization> = stages.iter().filter(|stage| stage.work.is_ok()).collect();
    if !rows.is_empty() {
        let caption = words!(context, "utilization.caption");
        let view = View::new(
            "utilization",
            caption,
            &shown_columns(stages),
            rows.len().min(SHOWN),
        );
        content.blocks.push(Block::Table(view));
        content.datasets.push(dataset(context, &rows));
    }
    if let Some((blocks, dataset)) = bounds::show(context) {
        content.blocks.extend(blocks);
        content.datasets.push(dataset);
    }
    content.blocks.extend(
        missing_rows(context, stages)
            .into_iter()
            .map(Block::Missing),
    );
    for stage in stages {
        content.metrics.extend(metrics::of(context, stage));
        content.diagnostics.extend(above_one(context, stage));
    }
    content.methods.push(method!(context, "utilization"));
    Ok(content)
}

fn basis(context: &Context<'_>, all: &Utilization) -> Vec<(String, Vec<Inline>)> {
    let mut facts = Vec::new();
    if let Some(model) = &context.session.model {
        facts.push((words!(context, "utilization.model"), sizes(context, model)));
    }
    let dtype = all.dtype.as_ref().map(|dtype| prose![dtype.as_str()]);
    let dtype = dtype.unwrap_or_else(|| say!(context, "utilization.no_dtype"));
    facts.push((words!(context, "utilization.dtype"), dtype));
    let mut ceilings = all.stages.iter().map(|stage| &stage.ceiling);
    match ceilings.clone().find_map(|ceiling| ceiling.as_ref().ok()) {
        Some(ceiling) => {
            let (rate, bandwidth) = (
                words::rate(context, ceiling),
                words::bandwidth(context, ceiling),
            );
            facts.push((words!(context, "utilization.peak_rate"), prose![rate]));
            facts.push((
                words!(context, "utilization.peak_bandwidth"),
                prose![bandwidth],
            ));
        }
        None => {
            let why = ceilings.find_map(|ceiling| ceiling.as_ref().err());
            let why = why.map(|why| words::reason(context.text, why));
            let text = say!(context, "utilization.no_peak", why = why);
            facts.push((words!(context, "utilization.peak"), text));
        }
    }
    let model = context.session.model.as_ref();
    let attention = match model.is_some_and(Llm::attends_both_ways) {
        true => say!(context, "utilization.both_ways"),
        false => say!(context, "utilization.causal"),
    };
    facts.push((words!(context, "utilization.attention"), attention));
    facts
}

fn sizes(context: &Context<'_>, model: &Llm) -> Vec<Inline> {
    let outline = &model.outline;
    let mlp = outline.intermediate.to_string();
    let mlp = if outline.gated {
        words!(context, "utilization.gated", width = mlp)
    } else {
        mlp
    };
    say!(
        context,
        "utilization.model_sizes",
        family = model.family.as_str(),
        layers = model.depth().to_string(),
        hidden = model.hidden.to_string(),
        heads = outline.heads.to_string(),
        kv_heads = outline.kv_heads.to_string(),
        head_dim = outline.head_dim.to_string(),
        mlp = mlp,
        vocab = model.vocab.to_string(),
    )
}

/// What of the ceiling is used, what busy kernels leave, what idle time leaves: adds up to the stage time.
fn chart(context: &Context<'_>, lines: &[StageUtilization]) -> Option<Chart> {
    let mut bars = Vec::new();
    for line in lines {
        let Some(busy) = line.timed.busy_share() else {
            continue;
        };
        let (used, note) = match (line.mfu(), line.mbu()) {
            (Ok(mfu), Ok(mbu)) if mbu > mfu => (
                mbu,
                words!(context, "utilization.chart.bandwidth", share = mbu),
            ),
            (Ok(mfu), _) => (
                mfu,
                words!(context, "utilization.chart.compute", share = mfu),
            ),
            _ => continue,
        };
        bars.push(Bar {
            label: format!("{} ({})", line.timed.label(context), line.timed.pass),
            values: [used.min(busy), (busy - used).max(Ratio::ZERO), busy.rest()]
                .map(|share| share.0)
                .to_vec(),
            note,
        });
    }
    (!bars.is_empty()).then(|| Chart {
        id: "utilization".to_owned(),
        title: words!(context, "utilization.chart.title"),
        description: words!(context, "utilization.chart.description"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Ratio,
            normalized: true,
            parts: vec![
                Part::new(
                    words!(context, "utilization.chart.needed"),
                    Color::ComputeBound,
                ),
                Part::new(words!(context, "utilization.chart.below"), Color::Balanced),
                Part::new(words!(context, "utilization.chart.idle"), Color::Idle),
            ],
            bars,
        }),
    })
}

fn dataset(context: &Context<'_>, rows: &[&StageUtilization]) -> Dataset {
    columns! { context, "utilization", stage: &StageUtilization => {
        text "stage" = stage.timed.label(context);
        text "pass" = stage.timed.pass.clone();
        "time_ns" = stage.timed.time;
        "flops" = stage.flops();
        "flops_full_attention" = stage.work.as_ref().ok().map(|work| work.flops_full);
        "flop_per_second" = stage.rate();
        "mfu" = stage.mfu().ok();
        "mfu_full_attention" = stage.mfu_full_attention().ok();
        "mfu_measured" = stage.of_measured();
        "busy_share" = stage.timed.busy_share();
        "kernel_time_mfu" = stage.kernel_time_mfu().ok();
        "bytes" = stage.work.as_ref().ok().and_then(|work| work.bytes);
        "mbu" = stage.mbu().ok();
        "kernel_time_mbu" = stage.kernel_time_mbu().ok();
        "tokens_per_second" = stage.tokens_per_second().ok();
        "images_per_second" = stage.images_per_second().ok();
        text "formula" = stage.work.as_ref().ok().map(|work| words::formula(context, &work.formula));
    } }
    .rows(rows.iter().copied())
}

/// The columns of the table that hold something.
fn shown_columns(lines: &[StageUtilization]) -> Vec<&'static str> {
    let moved = lines.iter().any(|line| line.mbu().is_ok());
    let measured = lines
        .iter()
        .any(|line| line.measured_rate.is_some() && line.mfu().is_ok());
    let images = lines.iter().any(|line| line.images_per_second().is_ok());
    let columns = [
        ("stage", true),
        ("pass", true),
        ("time_ns", true),
        ("flops", true),
        ("mfu", true),
        ("busy_share", true),
        ("kernel_time_mfu", true),
        ("mbu", moved),
        ("kernel_time_mbu", moved),
        ("mfu_measured", measured),
        ("tokens_per_second", !images),
        ("images_per_second", images),
    ];
    columns
        .into_iter()
        .filter_map(|(column, shown)| shown.then_some(column))
        .collect()
}

/// The stages that are not in the table, and those in it without MFU, by reason.
fn missing_rows(context: &Context<'_>, stages: &[StageUtilization]) -> Vec<String> {
    let mut reasons: BTreeMap<(bool, String), Vec<String>> = BTreeMap::new();
    for stage in stages {
        if let Err(why) = stage.mfu() {
            let reason = words::reason(context.text, &why);
            let labels = reasons.entry((stage.work.is_err(), reason)).or_default();
            let label = stage.timed.label(context);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    let sentence = |((without_work, reason), labels): ((bool, String), Vec<String>)| {
        let stages = labels.join(context.text.comma());
        match without_work {
            true => {
                words!(
                    context,
                    "utilization.without_work",
                    stages = stages,
                    reason = reason
                )
            }
            false => words!(
                context,
                "utilization.without_mfu",
                stages = stages,
                reason = reason
            ),
        }
    };
    reasons.into_iter().map(sentence).collect()
}

fn above_one(context: &Context<'_>, line: &StageUtilization) -> Option<Diagnostic> {
    let mut shares = [("MFU", line.mfu()), ("MBU", line.mbu())].into_iter();
    let (figure, value) = shares.find_map(|(figure, value)| match value {
        Err(Unavailable::AbovePeak(value)) => Some((figure, value)),
        _ => None,
    })?;
    let message = words!(
        context,
        "utilization.above_one",
        figure = figure,
        stage = line.timed.stage.as_str(),
        pass = line.timed.pass.as_str(),
        share = value,
    );
    let hint = words!(context, "utilization.above_one_hint");
    Some(Diagnostic::new(Severity::Error, "utilization/above-one", message).hint(hint))
}
