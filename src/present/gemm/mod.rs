//! GEMMs: sizes, rate, tiles and waves, and the time above the roofline.

mod metrics;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::Unit;

use super::{Section, products};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::kernels::matmul::Products;
use rooflens_analysis::kernels::matmul::config::unsized_parts;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_findings::{Block, Findings, Inline, Method, Quantity, View, prose};
use rooflens_model::diagnostic::{Diagnostic, Severity};

/// GEMMs. A bundle without such kernels has no such section.
pub(super) static SECTION: Section = Section { id: "gemms", show };

/// Products that a page shows of each stage.
const SHOWN: usize = 8;

/// Rows of logs that a page shows.
const SHOWN_LOGGED: usize = 16;

/// Part of the summed durations that overlaps, from which on their sum is told from busy time.
const OVERLAP: f64 = 0.01;

/// Stages that a page shows.
const SHOWN_STAGES: usize = 4;

fn show(context: &Context<'_>) -> Known<Findings> {
    let results = context.results;
    let (products, stages, log) = (results.matmul()?, results.gemm()?, results.gemm_log()?);
    let mut findings = Findings::default();
    if !log.is_empty() {
        // Kernels that were found in the log say more than it does.
        findings.blocks.extend((!products.is_any_logged()).then(|| log_view(log.len())));
        findings.datasets.push(tables::logged(context, log));
    }
    if stages.is_empty() {
        return Ok(findings);
    }
    let primary = context.facts.primary_pass(context.session);
    let of_primary = stages.iter().filter(|stage| Some(stage.pass) == primary).count();
    let shown = if of_primary == 0 { stages.len() } else { of_primary };
    let shown = &stages[..shown.min(SHOWN_STAGES)];
    let words = shown.iter().map(|stage| in_words(context, stage));
    findings.blocks.push(Block::Facts(words.collect()));
    findings.blocks.extend(tables::chart(context, shown).map(Block::Chart));
    findings.blocks.extend(views(context, shown));
    if stages.iter().all(|stage| stage.known == 0) {
        let text = "sizes of matrix products: record a PyTorch trace with record_shapes=True, or a cuBLASLt log";
        findings.blocks.push(Block::Missing(text.to_owned()));
    }
    findings.blocks.extend(not_by_config(context, shown).map(Block::Prose));
    for stage in stages {
        findings.metrics.extend(metrics::of(context, stage));
        findings.diagnostics.extend(above_peak(context, stage));
    }
    findings.diagnostics.extend(contradictions(products));
    findings.datasets.push(tables::dataset(context, stages));
    findings.methods.push(method());
    Ok(findings)
}

/// The products of logs of which no kernel is known to be one.
fn log_view(rows: usize) -> Block {
    let columns = ["shape", "batch", "dtype", "tile", "calls", "flops", "function", "artifact"];
    let caption = "Matrix products in logs, by FLOPs; cuBLAS calls cuBLASLt, so both logs may hold one product";
    Block::Table(View::new("gemm_log", caption, &columns, rows.min(SHOWN_LOGGED)))
}

/// A stage in one sentence.
fn in_words(context: &Context<'_>, stage: &StageProducts) -> (String, Vec<Inline>) {
    let per = |sum: f64| Quantity::new(stage.per_instance(sum), Unit::Nanoseconds);
    let mut text = prose![
        "products take ",
        per(stage.time as f64),
        ", ",
        Quantity::ratio(stage.time_share()),
        " of the GPU time",
    ];
    if share(stage.total - stage.busy, stage.total) >= OVERLAP {
        text.push(" (durations summed, of which some overlap: of the busy time it is more)".into());
    }
    if stage.known == 0 {
        text.push("; the sizes are not known".into());
    } else if stage.known < stage.time {
        let known = Quantity::ratio(stage.shape_coverage());
        text.extend(prose!["; the sizes are known of ", known, " of it"]);
    }
    if let Some(lost) = stage.recoverable() {
        text.extend(prose!["; ", per(lost), " are above the roofline"]);
    }
    (stage.summary.label(context.session, context.facts), text)
}

fn share(part: i64, whole: i64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// One table a stage, of the products that lose most.
fn views(context: &Context<'_>, shown: &[StageProducts]) -> Vec<Block> {
    let known = [
        "kernel",
        "shape",
        "launches",
        "time_ns",
        "share",
        "of_peak",
        "bound",
        "tile_efficiency",
        "wave_efficiency",
        "recoverable_ns",
    ];
    let unknown =
        ["kernel", "dtype", "tile", "tensor_cores", "grid", "launches", "time_ns", "share"];
    let mut skip = 0;
    let view = |stage: &StageProducts| {
        let label = stage.summary.label(context.session, context.facts);
        let (columns, order) = match stage.known {
            0 => (&unknown[..], "time"),
            _ => (&known[..], "time above the roofline"),
        };
        let under = products::under(stage.roofs());
        let caption = format!("Matrix products of {label}, by {order}{under}");
        let limit = stage.groups.len().min(SHOWN);
        let view = View { skip, ..View::new("gemms", caption, columns, limit) };
        skip += stage.groups.len();
        Block::Table(view)
    };
    shown.iter().map(view).collect()
}

/// Why products without sizes have none by the model's dimensions, though its FLOPs follow from them.
fn not_by_config(context: &Context<'_>, shown: &[StageProducts]) -> Option<Vec<Inline>> {
    let parts = unsized_parts(context.session.model.as_ref()?);
    let known = shown.iter().all(|stage| stage.known == stage.time);
    (!parts.is_empty() && !known).then(|| {
        prose![format!(
            "The model's dimensions give the FLOPs of its stages, but not the sizes of its products ({}): only operators \
             with recorded shapes and logs of cuBLASLt do.",
            parts.join("; ")
        )]
    })
}

/// A product above the peak is no result: its sizes or the peak are wrong.
fn above_peak(context: &Context<'_>, stage: &StageProducts) -> Option<Diagnostic> {
    let mut above = stage.above_peak();
    let (group, part) = above.next()?;
    let message = format!(
        "a product of {} ({}, {}) runs at {} of the peak: its sizes or the peak are wrong",
        stage.summary.label(context.session, context.facts),
        context.facts.identities[group.kernel.index()].short,
        group.gemm().map(|gemm| gemm.to_string()).unwrap_or_default(),
        Quantity::ratio(part),
    );
    let diagnostic = Diagnostic::new(Severity::Error, "gemms/above-one", message);
    Some(
        diagnostic
            .times(1 + above.count() as u64)
            .hint("check GPU and dtype, and whether all passes ran the same workload"),
    )
}

fn contradictions(products: &Products) -> Option<Diagnostic> {
    let count = products.contradictions();
    let message = "kernels have other sizes by the cuBLASLt log than by operators: the sizes of operators are taken";
    (count > 0)
        .then(|| Diagnostic::new(Severity::Notice, "gemms/sources-differ", message).times(count))
}

fn method() -> Method {
    Method {
        title: "Matrix products".to_owned(),
        text: prose![
            "M × N × K row-major: M rows of the output, N columns, sums over K. Sizes are those of the operator that \
             launched the kernel; in a pass without operators those of the kernel at the same place of an instance of \
             the same stage that ran the same kernels (name, grid, block) in the same order, else of its partner in \
             the longest common subsequence; else those of the calls in a cuBLASLt log that have the same tiles in \
             the same order, where all such places agree; else those of the model's dimensions, where a stage runs \
             just as many products as its layers have. FLOPs 2·M·N·K; bytes are both operands once and the output \
             once. Time includes the sum after a split of K. The roofline is max(FLOPs ÷ rate, bytes ÷ bandwidth), of \
             what was measured on this GPU where the bundle has it, else of the specification; recoverable is what \
             time exceeds it by, of peak the share of the specified dense rate. Tiles full is M·N ÷ (tile rows · tile \
             columns · tiles); waves are tiles · parts of K ÷ (SMs · blocks that fit on an SM), and waves full is \
             waves ÷ ⌈waves⌉. Persistent kernels count the same, stream-K kernels have no waves. Alignment is that of \
             N and K. All figures are per instance of the stage."
        ],
    }
}
