//! Operators of PyTorch traces: host time, device time and FLOPs by name and by shapes.

mod backward;
mod nesting;
mod quiet;
mod rows;
mod sums;
#[cfg(test)]
mod tests;
mod threads;
mod tree;

use rooflens_schemas::{Evidence, Scope, Unit};

use crate::analysis::{Analysis, Context};
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View, derived, unavailable};
use crate::model::{Ns, PassId, Session};
use crate::prose;

use nesting::Nesting;
use sums::{OperatorSum, Sums};

/// Operators.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "operators", title: "Operators", missing, run };

/// Operators shown by device time.
const SHOWN_BY_DEVICE: usize = 15;

/// Share of GPU time in operators below which the report says so.
const COVERAGE_LIMIT: f64 = 0.95;

/// Operators shown by own host time.
const SHOWN_BY_HOST: usize = 10;

fn missing(session: &Session) -> Option<&'static str> {
    session.operators.is_empty().then_some(
        "no PyTorch trace in this bundle: record one with torch.profiler.profile(record_shapes=True) \
         and export_chrome_trace",
    )
}

/// GPU work of a pass.
pub(crate) struct DeviceWork {
    /// Time of all GPU operations, nanoseconds.
    pub(crate) total: Ns,
    /// Whether any of them names the call that issued it: without, device times are unknown, not 0.
    pub(crate) linked: bool,
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let nesting = Nesting::new(context);
    let sums = sums::sums(session, &nesting);
    let work = device_work(context);
    let mut findings = Findings { methods: methods(), ..Findings::default() };
    if let Some(primary) = sums.by_name.first().map(|sum| sum.pass) {
        add_tables(session, &sums, primary, &work, &mut findings);
        quiet::add(session, &sums.by_name, &work, primary, &mut findings);
        threads::add(session, &nesting, primary, &work, &mut findings);
        tree::add(context, primary, &mut findings);
    }
    for of_pass in sums.by_name.chunk_by(|a, b| a.pass == b.pass) {
        add_metrics(session, of_pass, &sums, &work, &mut findings);
    }
    findings.datasets.push(rows::by_name(session, &sums.by_name, &work));
    findings.datasets.push(rows::by_host(session, &sums.by_name));
    findings.datasets.push(rows::by_shapes(session, &sums.by_shapes, &work));
    findings
}

/// GPU work by pass.
pub(crate) fn device_work(context: &Context<'_>) -> Vec<DeviceWork> {
    let passes = context.session.passes.len();
    let mut work: Vec<DeviceWork> =
        (0..passes).map(|_| DeviceWork { total: 0, linked: false }).collect();
    let ops = &context.facts.ops;
    for op in 0..ops.len() {
        let of_pass = &mut work[ops.pass[op].index()];
        let duration = ops.end[op].saturating_sub(ops.start[op]);
        of_pass.total = of_pass.total.saturating_add(duration);
        of_pass.linked |= ops.api_call[op].is_some();
    }
    work
}

/// Tables of the first pass with operators; other ranks and passes are in the data sets.
fn add_tables(
    session: &Session,
    sums: &Sums,
    primary: PassId,
    work: &[DeviceWork],
    findings: &mut Findings,
) {
    let name = session.pass_name(primary);
    let rows = sums.by_name.partition_point(|sum| sum.pass <= primary);
    let shaped = sums.by_shapes.partition_point(|sum| sum.pass <= primary);
    if work[primary.index()].linked {
        let columns = [
            "name",
            "calls",
            "device_self_ns",
            "device_share",
            "launches",
            "host_total_ns",
            "flops",
            "flop_rate",
        ];
        let caption = format!("Operators by own device time, pass {name}");
        let view = View::new("operators", caption, &columns, rows.min(SHOWN_BY_DEVICE));
        findings.blocks.push(Block::Table(view));
        if shaped > 0 {
            let columns =
                ["name", "shapes", "calls", "device_self_ns", "device_share", "flops", "flop_rate"];
            let caption = format!("Operators and shapes by own device time, pass {name}");
            let view = View::new("operator_shapes", caption, &columns, shaped.min(SHOWN_BY_DEVICE));
            findings.blocks.push(Block::Table(view));
        }
    } else {
        findings.blocks.push(Block::Missing(
            "the PyTorch trace names no GPU work with the calls that issued it: record it with \
             `ProfilerActivity.CUDA`"
                .to_owned(),
        ));
    }
    let columns = ["name", "calls", "host_self_ns", "host_cuda_ns", "host_total_ns"];
    let caption = format!("Operators by own host time, pass {name}");
    let view = View::new("operators_by_host", caption, &columns, rows.min(SHOWN_BY_HOST));
    findings.blocks.push(Block::Table(view));
}

/// What share of the GPU work the operators explain, and what share of it has FLOPs.
fn add_metrics(
    session: &Session,
    of_pass: &[OperatorSum],
    sums: &Sums,
    work: &[DeviceWork],
    findings: &mut Findings,
) {
    let Some(pass) = of_pass.first().map(|sum| sum.pass) else { return };
    let text = |id: crate::model::StrId| session.text(id).to_owned();
    let scope = Scope { pass: Some(text(session.passes.name[pass.index()])), ..Scope::default() };
    let work = &work[pass.index()];
    if !work.linked || work.total <= 0 {
        let reason = "the PyTorch trace holds no GPU work with correlation ids";
        for id in ["operator_coverage", "flop_coverage"] {
            findings.metrics.push(unavailable(id, scope.clone(), Unit::Ratio, reason));
        }
        return;
    }
    let add = |total: Ns, sum: &OperatorSum| total.saturating_add(sum.device_self);
    let covered = of_pass.iter().fold(0, add);
    let counted = sums.counted_device.get(&pass).copied().unwrap_or(0);
    let calls: u64 = of_pass.iter().map(|sum| sum.calls).sum();
    let evidence = Evidence {
        artifact: text(session.passes.artifact[pass.index()]),
        table: Some("operators".to_owned()),
        rows: Some(calls),
    };
    if (covered as f64) < work.total as f64 * COVERAGE_LIMIT {
        findings.diagnostics.push(uncovered(work.total - covered, work.total, &evidence.artifact));
    }
    for (id, time, what) in [
        ("operator_coverage", covered, "issued within operators"),
        ("flop_coverage", counted, "within operators whose FLOPs are counted"),
    ] {
        let basis = format!("{time} ns of GPU operations {what} / {} ns of all", work.total);
        let share = time as f64 / work.total as f64;
        let mut metric = derived(id, scope.clone(), Unit::Ratio, share, basis);
        metric.evidence.push(evidence.clone());
        findings.metrics.push(metric);
    }
}

/// GPU work that is in no row of the tables.
fn uncovered(time: Ns, total: Ns, artifact: &str) -> Diagnostic {
    let share = Quantity::ratio(time as f64 / total as f64);
    let message = format!(
        "{share} of the GPU time of the PyTorch trace belongs to no operator: its call is outside of \
         operators or not in the trace"
    );
    Diagnostic::new(Severity::Notice, "operators/uncovered-gpu-time", message).artifact(artifact)
}

fn methods() -> Vec<Method> {
    let text = prose![
        "Operators nest by time on their thread. Own host time is an operator's duration without the \
         operators and CUDA calls within it; total host time counts an operator within another of the \
         same name once. A GPU operation belongs to the innermost operator around the start of the CUDA \
         call that issued it, on the same thread and joined by correlation id (own device time), and to \
         all operators around that one (total). GPU work issued outside of operators is in no row; ",
        Inline::Code("operator_coverage".to_owned()),
        " is the share that is in one.",
    ];
    let flops = prose![
        "From recorded shapes: 2·M·N·K for matrix products; 2 · outputs · kernel volume · input channels of \
         a group for convolutions, and as much for each gradient in their backward pass; for attention \
         2·B·H·Sq·Sk·(d_qk + d_v), H being the query heads, and 2·B·H·Sq·Sk·(3·d_qk + 2·d_v) in the \
         backward pass, which computes the scores again. All pairs of query and key count; the value \
         under a causal mask stands beside it where the call names one. FLOPs are counted at the \
         innermost operator that has a formula, never twice; everything else counts 0, and ",
        Inline::Code("flop_coverage".to_owned()),
        " is the share of GPU time within operators that are counted. FLOP/s are FLOPs over total device \
         time.",
    ];
    vec![
        Method { title: "Operators".to_owned(), text },
        Method { title: "Operator FLOPs".to_owned(), text: flops },
    ]
}
