//! The data set of attention kernels.

use rooflens_schemas::Unit;

use super::lines::{Line, StageAttention};
use crate::analysis::Context;
use crate::analysis::kernels::matmul::Attention;
use crate::analysis::kernels::matmul::roof::dtype;
use crate::analysis::kernels::matmul::table::{self, Row, count, text};
use crate::findings::{Cell, Column, Dataset};

/// One row per (stage, kernel, sizes), in the order of stages and of time.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageAttention]) -> Dataset {
    let sizes = [
        Column::new("batch", "Batch", Unit::Count),
        Column::new("heads", "Query heads", Unit::Count),
        Column::new("kv_heads", "Key heads", Unit::Count),
        Column::new("queries", "Queries", Unit::Count),
        Column::new("keys_min", "Fewest keys", Unit::Count),
        Column::new("keys_max", "Most keys", Unit::Count),
        Column::new("head_size", "Head size", Unit::Count),
        Column::text("causal", "Causal"),
        Column::text("backward", "Backward"),
    ];
    let more = [
        Column::new("flops_full", "FLOPs, all pairs", Unit::Flop),
        Column::new("bytes_per_second", "Bandwidth", Unit::BytesPerSecond),
        Column::new("of_bandwidth", "Of bandwidth", Unit::Ratio),
    ];
    let rows = stages
        .iter()
        .flat_map(|stage| stage.lines.iter().map(move |line| row(context, stage, line)));
    let title = "Attention, per instance of its stage".to_owned();
    let columns = table::columns("Sizes", sizes, more);
    Dataset { id: "attention", title, columns, rows: rows.collect() }
}

/// `B 8, H 32/8, 1024 × 1024, D 128, causal`: query heads over key-value heads, queries × keys.
fn shape(line: &Line, attention: &Attention) -> String {
    let Attention { batch, heads, kv_heads, queries, size, .. } = attention;
    let heads = if heads == kv_heads { format!("{heads}") } else { format!("{heads}/{kv_heads}") };
    let keys = match line.keys {
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

fn row(context: &Context<'_>, stage: &StageAttention, line: &Line) -> Vec<Cell> {
    let identity = &context.facts.identities[line.kernel.index()];
    let size = |value: fn(&Attention) -> u64| count(line.product.map(|(found, _)| value(&found)));
    let flag = |value: fn(&Attention) -> bool| {
        text(line.product.map(|(found, _)| if value(&found) { "yes" } else { "no" }))
    };
    let known = line.product.is_some();
    let source = line.product.map(|(_, product)| product.source);
    let row = Row {
        summary: &stage.summary,
        instances: stage.instances,
        total: stage.total,
        kernel: line.kernel,
        shape: line.product.map(|(attention, _)| shape(line, &attention)),
        dtype: line.product.map(|(_, product)| dtype(identity, &product)),
        source: source.map(|source| (source.label(), source.confidence())),
        sum: &line.sum,
    };
    row.cells(
        context,
        [
            size(|attention| attention.batch),
            size(|attention| attention.heads),
            size(|attention| attention.kv_heads),
            size(|attention| attention.queries),
            count(known.then_some(line.keys.0)),
            count(known.then_some(line.keys.1)),
            size(|attention| attention.size),
            flag(|attention| attention.causal),
            flag(|attention| attention.backward),
        ],
        [
            Cell::maybe(known.then(|| row.per(line.flops_full))),
            Cell::maybe(line.sum.per_second(line.sum.bytes)),
            Cell::maybe(line.of_bandwidth()),
        ],
    )
}
