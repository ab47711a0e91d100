//! The metrics of a stage's FLOPs.

use rooflens_schemas::{Metric, Polarity, Scope, Unit};

use super::Line;
use crate::analysis::Context;
use crate::findings::{Quantity, derived, unavailable};

/// All metrics of a stage.
pub(super) fn of(context: &Context<'_>, line: &Line) -> Vec<Metric> {
    let scope = line.stage.summary.scope(context.session, context.facts);
    let mut all = sources(line, &scope).to_vec();
    all.extend(times(context, line, &scope));
    all
}

fn metric(
    id: &str,
    scope: &Scope,
    unit: Unit,
    value: Result<f64, String>,
    basis: String,
) -> Metric {
    let mut metric = match value {
        Ok(value) => derived(id, scope.clone(), unit, value, basis),
        Err(reason) => unavailable(id, scope.clone(), unit, reason),
    };
    if unit == Unit::Ratio {
        metric.polarity = Polarity::Higher;
    }
    metric
}

/// FLOPs by source, and the share of the time that they are of.
fn sources(line: &Line, scope: &Scope) -> [Metric; 3] {
    let stage = &line.stage;
    let over = format!("mean of {} counted instances", stage.instances);
    let missing = |reason: &str| reason.to_owned();
    let operators = stage.operators.map(|(masked, _)| masked);
    let full = Quantity::new(stage.operators.map_or(0.0, |(_, full)| full), Unit::Flop);
    let (matched, gemms) = stage.log_matched;
    [
        metric(
            "operator_flops",
            scope,
            Unit::Flop,
            operators
                .ok_or_else(|| missing("no operator recorded sizes for kernels of this stage")),
            format!("recorded shapes, causal; {full} with all pairs; {over}"),
        ),
        metric(
            "gemm_log_flops",
            scope,
            Unit::Flop,
            stage
                .logged
                .ok_or_else(|| missing("no cuBLASLt log in which the order of tiles is found")),
            format!("2·M·N·K of {matched} of {gemms} matrix kernels found in the log; {over}"),
        ),
        metric(
            "flop_coverage",
            scope,
            Unit::Ratio,
            (stage.total > 0).then(|| stage.coverage()).ok_or_else(|| missing("no GPU time")),
            format!(
                "{} ns of kernels with known sizes ÷ {} ns of all GPU operations",
                stage.known, stage.total
            ),
        ),
    ]
}

/// The time that they would take, and what that is of the stage's.
fn times(context: &Context<'_>, line: &Line, scope: &Scope) -> [Metric; 3] {
    let stage = &line.stage;
    let by_dtype = stage
        .by_dtype
        .iter()
        .map(|(dtype, flops)| format!("{dtype} {}", Quantity::new(*flops, Unit::Flop)));
    let by_dtype = by_dtype.collect::<Vec<String>>().join(", ");
    let known = match stage.matrix {
        0 => 0.0,
        matrix => stage.matrix_known as f64 / matrix as f64,
    };
    let sized = format!("{} of the time of matrix kernels has known sizes", Quantity::ratio(known));
    let time = Quantity::new(stage.summary.time, Unit::Nanoseconds);
    let clock = stage.clock.map_or_else(String::new, |(hz, source)| {
        format!("MFU × boost clock ÷ {} ({source})", Quantity::new(hz, Unit::Hertz))
    });
    [
        metric(
            "ideal_time",
            scope,
            Unit::Nanoseconds,
            stage.ideal_time(context),
            format!(
                "Σ FLOPs ÷ specified dense rate over {by_dtype}; {sized}; mean of {} counted instances",
                stage.instances
            ),
        ),
        metric(
            "mixed_dtype_utilization",
            scope,
            Unit::Ratio,
            line.utilization(context),
            format!("ideal time ÷ stage time {time}; {by_dtype}; {sized}"),
        ),
        metric("clock_normalized_mfu", scope, Unit::Ratio, line.clock_normalized(context), clock),
    ]
}
