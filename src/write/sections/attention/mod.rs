//! Attention: sizes, rate and bandwidth of its kernels, and the time above the roofline.

#[cfg(test)]
mod tests;

use super::Section;
use super::products::{Row, figures, heads, in_words, shapes_advice, whole_name};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::kernels::matmul::Attention;
use rooflens_analysis::kernels::matmul::stages::{Group, StageProducts};
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::{Block, Dataset, Quantity, SectionContent, View};
use rooflens_session::Ns;

/// Attention. A bundle without such kernels has no such section.
pub(super) static SECTION: Section = Section {
    id: "attention",
    show,
};

/// Kernels that a page shows.
const SHOWN: usize = 10;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let stages = context.results.attention()?;
    let mut content = SectionContent::default();
    let Some(first) = stages.first() else {
        return Ok(content);
    };
    let of_first = stages.iter().take_while(|stage| stage.pass == first.pass);
    let shown: usize = of_first.map(|stage| stage.groups.len()).sum();
    let has_shapes = stages.iter().any(|stage| stage.known > Ns::ZERO);
    let columns: &[&str] = match has_shapes {
        true => &[
            "kernel",
            "stage",
            "shape",
            "launches",
            "time_ns",
            "share",
            "of_peak",
            "of_bandwidth",
            "bound",
            "recoverable_ns",
        ],
        false => &["kernel", "stage", "pass", "launches", "time_ns", "share"],
    };
    let roofs = in_words(context.text, stages.iter().flat_map(StageProducts::roofs));
    let caption = words!(context, "attention.kernels", roofs = roofs);
    content.blocks.push(Block::Table(View::new(
        "attention",
        caption,
        columns,
        shown.min(SHOWN),
    )));
    // Where no size is known, the section of GEMMs says so.
    if !has_shapes && context.results.matmul()?.is_any_known() {
        content.blocks.push(Block::Missing(words!(
            context,
            "attention.no_sizes",
            advice = shapes_advice(context, context.text)
        )));
    }
    content
        .diagnostics
        .extend(stages.iter().filter_map(|stage| above_peak(context, stage)));
    content.datasets.push(dataset(context, stages));
    content.methods.push(method!(context, "attention"));
    Ok(content)
}

fn above_peak(context: &Context<'_>, stage: &StageProducts) -> Option<Diagnostic> {
    let (_, part) = stage.above_peak().next()?;
    let message = format!(
        "attention of {} runs at {} of the peak: its sizes, its mask or the peak are wrong",
        stage.summary.label(context.session, context.facts),
        Quantity::from(part),
    );
    Some(Diagnostic::new(
        Severity::Error,
        "attention/above-one",
        message,
    ))
}

/// One row per (stage, kernel, sizes), in the order of stages and of time.
fn dataset(context: &Context<'_>, stages: &[StageProducts]) -> Dataset {
    let mut rows = Vec::new();
    for stage in stages {
        rows.extend(stage.groups.iter().map(|group| {
            let shape = group.attention().map(|attention| shape(group, &attention));
            Row::new(context, stage, group, shape)
        }));
    }
    let table = heads(context, "attention");
    columns! { table, row: &Row<'_> => {
        count "batch" = Some(row.group.attention()?.batch);
        count "heads" = Some(row.group.attention()?.heads);
        count "kv_heads" = Some(row.group.attention()?.kv_heads);
        count "queries" = Some(row.group.attention()?.queries);
        count "keys_min" = row.group.product.map(|_| row.group.keys.0);
        count "keys_max" = row.group.product.map(|_| row.group.keys.1);
        count "head_size" = Some(row.group.attention()?.size);
        text "causal" = Some(row.group.attention()?.causal);
        text "backward" = Some(row.group.attention()?.backward);
        with figures(false) of row;
        "flops_full" = row.per(row.group.product.map(|_| row.group.flops_full));
        "bytes_per_second" = row.group.sum.bandwidth();
        "of_bandwidth" = row.group.of_bandwidth();
        with whole_name(context) of row;
    } }
    .rows(&rows)
}

/// `B 8, H 32/8, 1024 × 1024, D 128, causal`: query heads over key-value heads, queries × keys.
fn shape(group: &Group, attention: &Attention) -> String {
    let Attention {
        batch,
        heads,
        kv_heads,
        queries,
        size,
        ..
    } = attention;
    let heads = if heads == kv_heads {
        format!("{heads}")
    } else {
        format!("{heads}/{kv_heads}")
    };
    let keys = match group.keys {
        (fewest, most) if fewest == most => fewest.to_string(),
        (fewest, most) => format!("{fewest}–{most}"),
    };
    let mut text = format!("B {batch}, H {heads}, {queries} × {keys}, D {size}");
    if attention.causal {
        text.push_str(", causal");
    }
    if attention.backward {
        text.push_str(", backward");
    }
    text
}
