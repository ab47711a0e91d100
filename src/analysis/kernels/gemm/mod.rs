//! Matrix products: sizes, rate, tiles and waves, and the time above the roofline.

mod lines;
mod logged;
mod tables;
#[cfg(test)]
mod tests;
mod tiles;

use rooflens_schemas::{Evidence, Metric, Polarity, Unit};

use crate::analysis::kernels::matmul::config::unsized_parts;
use crate::analysis::kernels::matmul::{Products, roof};
use crate::analysis::{Analysis, Context};
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{
    Block, Findings, Inline, Method, Quantity, View, derived, measured, unavailable,
};
use crate::model::{PassId, ProcessId};
use crate::prose;

use lines::StageGemms;

/// Matrix products. A bundle without such kernels has no such section.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "gemms", title: "Matrix products", missing: |_| None, run };

/// Products that a page shows of each stage.
const SHOWN: usize = 8;

/// Rows of logs that a page shows.
const SHOWN_LOGGED: usize = 16;

/// Part of the summed durations that overlaps, from which on their sum is told from busy time.
const OVERLAP: f64 = 0.01;

/// Stages that a page shows.
const SHOWN_STAGES: usize = 4;

fn run(context: &Context<'_>) -> Findings {
    let (session, facts) = (context.session, context.facts);
    let primary = facts.primary_pass(session);
    let others = session.passes.ids().filter(|pass| Some(*pass) != primary);
    let mut stages: Vec<StageGemms<'_>> = Vec::new();
    let mut of_primary = 0;
    for pass in primary.into_iter().chain(others) {
        stages.extend(lines::of_stages(context, pass));
        if Some(pass) == primary {
            of_primary = stages.len();
        }
    }
    let mut findings = Findings::default();
    if let Some(dataset) = logged::dataset(session) {
        // Kernels that were found in the log say more than it does.
        if !context.results.matmul().is_ok_and(Products::is_any_logged) {
            findings.blocks.push(log_view(dataset.rows.len()));
        }
        findings.datasets.push(dataset);
    }
    if stages.is_empty() {
        return findings;
    }
    let shown = if of_primary == 0 { stages.len() } else { of_primary };
    let shown: Vec<&StageGemms<'_>> = stages[..shown].iter().take(SHOWN_STAGES).collect();
    findings
        .blocks
        .push(Block::Facts(shown.iter().map(|stage| in_words(context, stage)).collect()));
    findings.blocks.extend(tables::chart(context, &shown).map(Block::Chart));
    add_views(context, &shown, &mut findings);
    if stages.iter().all(|stage| stage.known == 0) {
        let text = "sizes of matrix products: record a PyTorch trace with record_shapes=True, or a cuBLASLt log";
        findings.blocks.push(Block::Missing(text.to_owned()));
    }
    findings.blocks.extend(not_by_config(context, &shown).map(Block::Prose));
    for stage in &stages {
        findings.metrics.extend(metrics(context, stage));
        findings.diagnostics.extend(above_peak(context, stage));
    }
    findings.diagnostics.extend(contradictions(context));
    findings.datasets.push(tables::dataset(context, &stages));
    findings.methods.push(method());
    findings
}

/// The products of logs of which no kernel is known to be one.
fn log_view(rows: usize) -> Block {
    let columns = ["shape", "batch", "dtype", "tile", "calls", "flops", "function", "artifact"];
    let caption = "Matrix products in logs, by FLOPs; cuBLAS calls cuBLASLt, so both logs may hold one product";
    Block::Table(View::new("gemm_log", caption, &columns, rows.min(SHOWN_LOGGED)))
}

/// A stage in one sentence.
fn in_words(context: &Context<'_>, stage: &StageGemms<'_>) -> (String, Vec<Inline>) {
    let per = |value: f64| Quantity::new(value / stage.instances.max(1) as f64, Unit::Nanoseconds);
    let mut text = prose![
        "products take ",
        per(stage.gemm as f64),
        ", ",
        Quantity::ratio(share(stage.gemm, stage.total)),
        " of the GPU time",
    ];
    if share(stage.total - stage.busy, stage.total) >= OVERLAP {
        text.push(" (durations summed, of which some overlap: of the busy time it is more)".into());
    }
    if stage.known == 0 {
        text.push("; the sizes are not known".into());
    } else if stage.known < stage.gemm {
        let known = Quantity::ratio(share(stage.known, stage.gemm));
        text.extend(prose!["; the sizes are known of ", known, " of it"]);
    }
    if let Some(lost) = recoverable(stage) {
        text.extend(prose!["; ", per(lost), " are above the roofline"]);
    }
    (stage.summary.label(context.session, context.facts), text)
}

fn share(part: i64, whole: i64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// Time above the roofline over all counted instances; none if it is known of no product.
fn recoverable(stage: &StageGemms<'_>) -> Option<f64> {
    let lost: Vec<f64> = stage.lines.iter().filter_map(|line| line.sum.recoverable()).collect();
    (!lost.is_empty()).then(|| lost.iter().sum())
}

/// Time of a stage's matrix products above their roofline, nanoseconds per counted instance: stage and process of each,
/// of the primary pass.
pub(crate) fn above_roofline(context: &Context<'_>) -> Vec<(usize, ProcessId, f64)> {
    let Some(pass) = context.facts.primary_pass(context.session) else { return Vec::new() };
    let stages = lines::of_stages(context, pass);
    let one = |stage: &StageGemms<'_>| {
        let lost = recoverable(stage)? / stage.instances.max(1) as f64;
        Some((stage.summary.stage, stage.summary.process, lost))
    };
    stages.iter().filter_map(one).collect()
}

/// One table a stage, of the products that lose most.
fn add_views(context: &Context<'_>, shown: &[&StageGemms<'_>], findings: &mut Findings) {
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
    for stage in shown {
        let label = stage.summary.label(context.session, context.facts);
        let (columns, order) = match stage.known {
            0 => (&unknown[..], "time"),
            _ => (&known[..], "time above the roofline"),
        };
        let under = roof::under(stage.roofs());
        let caption = format!("Matrix products of {label}, by {order}{under}");
        let limit = stage.lines.len().min(SHOWN);
        findings
            .blocks
            .push(Block::Table(View { skip, ..View::new("gemms", caption, columns, limit) }));
        skip += stage.lines.len();
    }
}

/// Why products without sizes have none by the model's dimensions, though its FLOPs follow from them.
fn not_by_config(context: &Context<'_>, shown: &[&StageGemms<'_>]) -> Option<Vec<Inline>> {
    let parts = unsized_parts(context.session.model.as_ref()?);
    let known = shown.iter().all(|stage| stage.known == stage.gemm);
    (!parts.is_empty() && !known).then(|| {
        prose![format!(
            "The model's dimensions give the FLOPs of its stages, but not the sizes of its products ({}): only operators \
             with recorded shapes and logs of cuBLASLt do.",
            parts.join("; ")
        )]
    })
}

fn metrics(context: &Context<'_>, stage: &StageGemms<'_>) -> Vec<Metric> {
    let (session, facts) = (context.session, context.facts);
    let scope = stage.summary.scope(session, facts);
    let pass: PassId = stage.summary.stage(facts).pass;
    let evidence = Evidence {
        artifact: session.artifact_of(pass).to_owned(),
        table: Some("launches".to_owned()),
        rows: Some(stage.lines.iter().map(|line| line.sum.launches).sum()),
    };
    let over = format!("{} counted instances", stage.instances);
    let time_share = measured(
        "gemm_time_share",
        scope.clone(),
        Unit::Ratio,
        share(stage.gemm, stage.total),
        format!(
            "{} ns of matrix products ÷ {} ns of all GPU operations, {over}",
            stage.gemm, stage.total
        ),
    );
    let coverage = derived(
        "gemm_shape_coverage",
        scope.clone(),
        Unit::Ratio,
        share(stage.known, stage.gemm),
        format!(
            "{} ns of products of known sizes ÷ {} ns of all products, {over}",
            stage.known, stage.gemm
        ),
    );
    let lost = match recoverable(stage) {
        Some(lost) => {
            let basis = format!(
                "Σ max(0, time − max(FLOPs ÷ rate, bytes ÷ bandwidth)) over products of known sizes, mean of {over}; \
                 {}",
                roof::in_words(stage.roofs())
            );
            let value = lost / stage.instances.max(1) as f64;
            derived("gemm_recoverable", scope, Unit::Nanoseconds, value, basis)
        }
        None => {
            let reason = if stage.known == 0 {
                "the sizes of no product are known: no recorded shapes, no cuBLASLt log, no model config that fits"
            } else {
                "no peak for this GPU and dtype"
            };
            unavailable("gemm_recoverable", scope, Unit::Nanoseconds, reason)
        }
    };
    let mut all = vec![time_share, coverage, lost];
    all[2].polarity = Polarity::Lower;
    all.iter_mut().for_each(|metric| metric.evidence.push(evidence.clone()));
    all
}

/// A product above the peak is no result: its sizes or the peak are wrong.
fn above_peak(context: &Context<'_>, stage: &StageGemms<'_>) -> Option<Diagnostic> {
    let is_above = |line: &&lines::Line| line.sum.of_peak().is_some_and(|part| part > 1.0);
    let mut above = stage.lines.iter().filter(is_above);
    let line = above.next()?;
    let message = format!(
        "a product of {} ({}, {}) runs at {} of the peak: its sizes or the peak are wrong",
        stage.summary.label(context.session, context.facts),
        lines::identity(context, line).short,
        tables::shape(line).unwrap_or_default(),
        Quantity::ratio(line.sum.of_peak()?),
    );
    let diagnostic = Diagnostic::new(Severity::Error, "gemms/above-one", message);
    Some(
        diagnostic
            .times(1 + above.count() as u64)
            .hint("check GPU and dtype, and whether all passes ran the same workload"),
    )
}

fn contradictions(context: &Context<'_>) -> Option<Diagnostic> {
    let count = context.results.matmul().map_or(0, Products::contradictions);
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
