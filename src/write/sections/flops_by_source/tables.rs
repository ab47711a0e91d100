//! The data set of FLOPs.

use rooflens_schemas::Unit;

use crate::Context;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_document::{Dataset, Table};

/// One row per stage and pass.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageFlops]) -> Dataset {
    let (session, facts, flop) = (context.session, context.facts, Unit::Flop);
    Table::<StageFlops>::new(context.text, "flops")
        .text("stage", |stage| stage.summary.label(session, facts))
        .text("pass", |stage| session.pass_name(stage.pass))
        .time("time_ns", |stage| stage.summary.time)
        .column("model_flops", flop, |stage| {
            stage.model.map(|model| model.0)
        })
        .column("model_flops_full", flop, |stage| {
            stage.model.map(|model| model.1)
        })
        .column("operator_flops", flop, |stage| {
            stage.sums.operators.map(|one| one.0)
        })
        .column("operator_flops_full", flop, |stage| {
            stage.sums.operators.map(|one| one.1)
        })
        .column("gemm_log_flops", flop, |stage| stage.sums.logged)
        .column("counter_flops", flop, |stage| stage.executed)
        .column("known_flops", flop, |stage| stage.sums.flops())
        .column("known_flops_full", flop, |stage| {
            stage.sums.flops().map(|_| stage.sums.full)
        })
        .text("dtypes", dtypes)
        .share("flop_coverage", |stage| stage.sums.coverage())
        .time("ideal_time_ns", |stage| {
            stage.ideal_time.as_ref().ok().copied()
        })
        .share("mixed_dtype_utilization", |stage| {
            stage.utilization.as_ref().ok().copied()
        })
        .share("mfu", |stage| stage.mfu.as_ref().ok().copied())
        .share("hfu", |stage| stage.hfu)
        .share("mbu", |stage| stage.mbu)
        .column("sm_clock_hz", Unit::Hertz, |stage| {
            stage.clock.map(|clock| clock.0)
        })
        .share("clock_normalized_mfu", |stage| {
            stage.clock_normalized.as_ref().ok().copied()
        })
        .rows(stages)
}

fn dtypes(stage: &StageFlops) -> Option<String> {
    let known = stage
        .sums
        .by_dtype
        .keys()
        .copied()
        .filter(|dtype| !dtype.is_empty());
    let known: Vec<&str> = known.collect();
    (!known.is_empty()).then(|| known.join(", "))
}
