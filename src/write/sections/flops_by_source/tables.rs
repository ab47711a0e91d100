//! The data set of FLOPs.

use rooflens_schemas::Unit;

use crate::Context;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_document::Dataset;

/// One row per stage and pass.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageFlops]) -> Dataset {
    let (session, facts, _flop) = (context.session, context.facts, Unit::Flop);
    columns! { context, "flops", stage: &StageFlops => {
        text "stage" = stage.summary.label(session, facts);
        text "pass" = session.pass_name(stage.pass);
        time "time_ns" = stage.summary.time;
        Flop "model_flops" = stage.model.map(|model| model.0);
        Flop "model_flops_full" = stage.model.map(|model| model.1);
        Flop "operator_flops" = stage.sums.operators.map(|flops| flops.0);
        Flop "operator_flops_full" = stage.sums.operators.map(|flops| flops.1);
        Flop "gemm_log_flops" = stage.sums.logged;
        Flop "counter_flops" = stage.executed;
        Flop "known_flops" = stage.sums.flops();
        Flop "known_flops_full" = stage.sums.flops().map(|_| stage.sums.full);
        text "dtypes" = dtypes(stage);
        share "flop_coverage" = stage.sums.coverage();
        time "ideal_time_ns" = stage.ideal_time.as_ref().ok().copied();
        share "mixed_dtype_utilization" = stage.utilization.as_ref().ok().copied();
        share "mfu" = stage.mfu.as_ref().ok().copied();
        share "hfu" = stage.hfu;
        share "mbu" = stage.mbu;
        Hertz "sm_clock_hz" = stage.clock.map(|clock| clock.0);
        share "clock_normalized_mfu" = stage.clock_normalized.as_ref().ok().copied();
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
