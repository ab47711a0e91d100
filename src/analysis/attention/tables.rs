//! The data set of attention kernels.

use rooflens_schemas::Unit;

use super::lines::{Line, StageAttention};
use crate::analysis::Context;
use crate::analysis::products::Attention;
use crate::analysis::products::roof::dtype;
use crate::findings::{Cell, Column, Dataset};

/// One row per (stage, kernel, sizes), in the order of stages and of time.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageAttention]) -> Dataset {
    let columns = vec![
        Column::text("kernel", "Kernel"),
        Column::text("stage", "Stage"),
        Column::text("pass", "Pass"),
        Column::text("shape", "Sizes"),
        Column::new("batch", "Batch", Unit::Count),
        Column::new("heads", "Query heads", Unit::Count),
        Column::new("kv_heads", "Key heads", Unit::Count),
        Column::new("queries", "Queries", Unit::Count),
        Column::new("keys_min", "Fewest keys", Unit::Count),
        Column::new("keys_max", "Most keys", Unit::Count),
        Column::new("head_size", "Head size", Unit::Count),
        Column::text("causal", "Causal"),
        Column::text("backward", "Backward"),
        Column::text("dtype", "Type"),
        Column::text("source", "Sizes from"),
        Column::text("confidence", "Confidence"),
        Column::new("launches", "Launches", Unit::Count),
        Column::new("time_ns", "Time", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
        Column::new("helper_ns", "Of it helpers", Unit::Nanoseconds),
        Column::new("flops", "FLOPs", Unit::Flop),
        Column::new("flops_full", "FLOPs, all pairs", Unit::Flop),
        Column::new("flop_per_second", "Rate", Unit::FlopPerSecond),
        Column::new("of_peak", "Of peak", Unit::Ratio),
        Column::new("bytes", "Bytes", Unit::Bytes),
        Column::new("bytes_per_second", "Bandwidth", Unit::BytesPerSecond),
        Column::new("of_bandwidth", "Of bandwidth", Unit::Ratio),
        Column::new("intensity", "Intensity", Unit::FlopPerByte),
        Column::text("bound", "Bound"),
        Column::new("roof_ns", "At the roofline", Unit::Nanoseconds),
        Column::new("recoverable_ns", "Recoverable", Unit::Nanoseconds),
        Column::text("name", "Whole name"),
    ];
    let rows = stages
        .iter()
        .flat_map(|stage| stage.lines.iter().map(move |line| row(context, stage, line)));
    let title = "Attention, per instance of its stage".to_owned();
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
    let (session, facts) = (context.session, context.facts);
    let identity = &facts.identities[line.kernel.index()];
    let pass = stage.summary.stage(facts).pass;
    let per = |value: f64| value / stage.instances.max(1) as f64;
    let count = |value: u64| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let size = |value: fn(&Attention) -> u64| {
        line.product.map_or(Cell::Missing, |(attention, _)| count(value(&attention)))
    };
    let words = |text: Option<&str>| {
        text.filter(|text| !text.is_empty())
            .map_or(Cell::Missing, |text| Cell::Text(text.to_owned()))
    };
    let flag = |value: fn(&Attention) -> bool| {
        words(line.product.map(|(attention, _)| if value(&attention) { "yes" } else { "no" }))
    };
    let source = line.product.map(|(_, product)| product.source);
    let known = line.product.is_some();
    let keys = |keys: u64| if known { count(keys) } else { Cell::Missing };
    let flops = Some(line.flops).filter(|_| known);
    let sized = line.product.map(|(attention, _)| shape(line, &attention));
    vec![
        Cell::Name(identity.short.clone()),
        Cell::Text(stage.summary.label(session, facts)),
        Cell::Text(session.text(session.passes.name[pass.index()]).to_owned()),
        sized.map_or(Cell::Missing, Cell::Text),
        size(|attention| attention.batch),
        size(|attention| attention.heads),
        size(|attention| attention.kv_heads),
        size(|attention| attention.queries),
        keys(line.keys.0),
        keys(line.keys.1),
        size(|attention| attention.size),
        flag(|attention| attention.causal),
        flag(|attention| attention.backward),
        words(line.product.map(|(_, product)| dtype(identity, &product))),
        words(source.map(|source| source.label())),
        words(source.map(|source| source.confidence())),
        Cell::Float(per(line.launches as f64)),
        Cell::Float(per(line.time as f64)),
        Cell::maybe((stage.total > 0).then(|| line.time as f64 / stage.total as f64)),
        Cell::Float(per(line.helpers as f64)),
        Cell::maybe(flops.map(per)),
        Cell::maybe(Some(line.flops_full).filter(|_| known).map(per)),
        Cell::maybe(line.per_second(line.flops)),
        Cell::maybe(line.of_peak()),
        Cell::maybe(line.bytes.map(per)),
        Cell::maybe(line.bytes.and_then(|bytes| line.per_second(bytes))),
        Cell::maybe(line.of_bandwidth()),
        Cell::maybe(flops.zip(line.bytes).map(|(flops, bytes)| flops / bytes)),
        words(line.bound().map(|bound| bound.label())),
        Cell::maybe(line.roof.map(per)),
        Cell::maybe(line.recoverable().map(per)),
        Cell::Name(session.kernel_name(line.kernel).to_owned()),
    ]
}
