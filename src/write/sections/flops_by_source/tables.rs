//! The data set of FLOPs.

use crate::Context;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_document::Dataset;

/// One row per stage and pass.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageFlops]) -> Dataset {
    let (session, facts) = (context.session, context.facts);
    columns! { context, "flops", stage: &StageFlops => {
        text "stage" = stage.summary.label(session, facts);
        text "pass" = session.pass_name(stage.pass);
        "time_ns" = stage.summary.time;
        "model_flops" = stage.model.map(|model| model.0);
        "model_flops_full" = stage.model.map(|model| model.1);
        "operator_flops" = stage.sums.operators.map(|flops| flops.0);
        "operator_flops_full" = stage.sums.operators.map(|flops| flops.1);
        "gemm_log_flops" = stage.sums.logged;
        "counter_flops" = stage.executed;
        "known_flops" = stage.sums.flops();
        "known_flops_full" = stage.sums.flops().map(|_| stage.sums.full);
        text "dtypes" = dtypes(stage);
        "flop_coverage" = stage.sums.coverage();
        "ideal_time_ns" = stage.ideal_time.as_ref().ok().copied();
        "mixed_dtype_utilization" = stage.utilization.as_ref().ok().copied();
        "mfu" = stage.mfu.as_ref().ok().copied();
        "hfu" = stage.hfu;
        "mbu" = stage.mbu;
        "sm_clock_hz" = stage.clock.map(|clock| clock.0);
        "clock_normalized_mfu" = stage.clock_normalized.as_ref().ok().copied();
    } }
    .rows(stages)
}

fn dtypes(stage: &StageFlops) -> Option<String> {
    let dtypes = stage
        .sums
        .by_dtype
        .keys()
        .copied()
        .filter(|dtype| !dtype.is_empty());
    let dtypes: Vec<&str> = dtypes.collect();
    (!dtypes.is_empty()).then(|| dtypes.join(", "))
}
