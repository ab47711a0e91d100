//! The metrics of a stage's FLOPs.

use rooflens_schemas::Metric;
use rooflens_session::Ns;
use rooflens_units::{Flops, Ratio};

use crate::utilization::words::reason;
use crate::{Context, metric};
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_document::Quantity;
use rooflens_document::catalogue::{
    CLOCK_NORMALIZED_MFU, FLOP_COVERAGE, GEMM_LOG_FLOPS, IDEAL_TIME, MIXED_DTYPE_UTILIZATION,
    OPERATOR_FLOPS,
};

/// All metrics of a stage.
pub(super) fn of(context: &Context<'_>, stage: &StageFlops) -> [Metric; 6] {
    let context = &context.in_english();
    let scope = stage.summary.scope(context.session, context.facts);
    let over = format!("mean of {} counted instances", stage.summary.counted);
    let why = |unavailable: &Unavailable| reason(context.text, unavailable);
    let sums = &stage.sums;
    let full = sums.operators.map_or(Flops::ZERO, |(_, full)| full);
    let full = Quantity::from(full);
    let (matched, gemms) = sums.log_matched;
    let by_dtype = sums.by_dtype.iter();
    let by_dtype = by_dtype.map(|(dtype, flops)| format!("{dtype} {}", Quantity::from(*flops)));
    let by_dtype = by_dtype.collect::<Vec<String>>().join(", ");
    let sized = match sums.matrix {
        Ns(0) => Ratio::ZERO,
        matrix => Ratio::of(sums.matrix_known, matrix),
    };
    let sized = format!(
        "{} of the time of matrix kernels has known sizes",
        Quantity::from(sized)
    );
    let time = Quantity::from(stage.summary.time);
    let clock = stage.clock.map_or_else(String::new, |(clock, source)| {
        format!("MFU × boost clock ÷ {} ({source})", Quantity::from(clock))
    });
    [
        metric(
            &OPERATOR_FLOPS,
            &scope,
            sums.operators
                .map(|(masked, _)| masked)
                .ok_or_else(|| words!(context, "flops.no_operator")),
            format!("recorded shapes, causal; {full} with all pairs; {over}"),
        ),
        metric(
            &GEMM_LOG_FLOPS,
            &scope,
            sums.logged.ok_or_else(|| words!(context, "flops.no_log")),
            format!("2·M·N·K of {matched} of {gemms} matrix kernels found in the log; {over}"),
        ),
        metric(
            &FLOP_COVERAGE,
            &scope,
            sums.coverage()
                .ok_or_else(|| words!(context, "flops.no_time")),
            format!(
                "{} ns of kernels with known sizes ÷ {} ns of all GPU operations",
                sums.known, sums.total
            ),
        ),
        metric(
            &IDEAL_TIME,
            &scope,
            stage.ideal_time.as_ref().copied().map_err(why),
            format!("Σ FLOPs ÷ specified dense rate over {by_dtype}; {sized}; {over}"),
        ),
        metric(
            &MIXED_DTYPE_UTILIZATION,
            &scope,
            stage.utilization.as_ref().copied().map_err(why),
            format!("ideal time ÷ stage time {time}; {by_dtype}; {sized}"),
        ),
        metric(
            &CLOCK_NORMALIZED_MFU,
            &scope,
            stage.clock_normalized.as_ref().copied().map_err(why),
            clock,
        ),
    ]
}
