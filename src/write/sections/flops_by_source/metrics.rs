//! The metrics of a stage's FLOPs.

use rooflens_schemas::{Metric, Unit};
use rooflens_session::Ns;

use crate::Context;
use crate::utilization::words::reason;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_document::catalogue::{
    CLOCK_NORMALIZED_MFU, FLOP_COVERAGE, GEMM_LOG_FLOPS, IDEAL_TIME, MIXED_DTYPE_UTILIZATION,
    OPERATOR_FLOPS,
};
use rooflens_document::{MetricDef, Quantity};

/// All metrics of a stage.
pub(super) fn of(context: &Context<'_>, stage: &StageFlops) -> [Metric; 6] {
    let context = &context.in_english();
    let scope = stage.summary.scope(context.session, context.facts);
    let over = format!("mean of {} counted instances", stage.summary.counted);
    let metric = |def: &MetricDef, value: Option<f64>, missing: String, basis: String| {
        def.known(
            scope.clone(),
            value.map(|value| (value, basis)).ok_or(missing),
        )
    };
    let of_result = |def: &MetricDef, value: &Result<f64, Unavailable>, basis: String| {
        let value = value.as_ref().map(|value| (*value, basis));
        def.known(
            scope.clone(),
            value.map_err(|why| reason(context.text, why)),
        )
    };
    let sums = &stage.sums;
    let full = Quantity::new(sums.operators.map_or(0.0, |(_, full)| full), Unit::Flop);
    let (matched, gemms) = sums.log_matched;
    let by_dtype = sums.by_dtype.iter();
    let by_dtype =
        by_dtype.map(|(dtype, flops)| format!("{dtype} {}", Quantity::new(*flops, Unit::Flop)));
    let by_dtype = by_dtype.collect::<Vec<String>>().join(", ");
    let sized = match sums.matrix {
        Ns(0) => 0.0,
        matrix => sums.matrix_known.time() / matrix.time(),
    };
    let sized = format!(
        "{} of the time of matrix kernels has known sizes",
        Quantity::ratio(sized)
    );
    let time = Quantity::new(stage.summary.time, Unit::Nanoseconds);
    let clock = stage.clock.map_or_else(String::new, |(hz, source)| {
        format!(
            "MFU × boost clock ÷ {} ({source})",
            Quantity::new(hz, Unit::Hertz)
        )
    });
    [
        metric(
            &OPERATOR_FLOPS,
            sums.operators.map(|(masked, _)| masked),
            words!(context, "flops.no_operator"),
            format!("recorded shapes, causal; {full} with all pairs; {over}"),
        ),
        metric(
            &GEMM_LOG_FLOPS,
            sums.logged,
            words!(context, "flops.no_log"),
            format!("2·M·N·K of {matched} of {gemms} matrix kernels found in the log; {over}"),
        ),
        metric(
            &FLOP_COVERAGE,
            sums.coverage(),
            words!(context, "flops.no_time"),
            format!(
                "{} ns of kernels with known sizes ÷ {} ns of all GPU operations",
                sums.known, sums.total
            ),
        ),
        of_result(
            &IDEAL_TIME,
            &stage.ideal_time,
            format!("Σ FLOPs ÷ specified dense rate over {by_dtype}; {sized}; {over}"),
        ),
        of_result(
            &MIXED_DTYPE_UTILIZATION,
            &stage.utilization,
            format!("ideal time ÷ stage time {time}; {by_dtype}; {sized}"),
        ),
        of_result(&CLOCK_NORMALIZED_MFU, &stage.clock_normalized, clock),
    ]
}
