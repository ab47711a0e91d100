//! The data set of FLOPs.

use rooflens_schemas::Unit;

use rooflens_analysis::Context;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_findings::{Dataset, Table};

/// One row per stage and pass.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageFlops]) -> Dataset {
    let (session, facts, flop) = (context.session, context.facts, Unit::Flop);
    Table::<StageFlops>::new("flops", "FLOPs by source, per instance of the stage")
        .text("stage", "Stage", |stage| stage.summary.label(session, facts))
        .text("pass", "Pass", |stage| session.pass_name(stage.pass))
        .time("time_ns", "Stage time", |stage| stage.summary.time)
        .column("model_flops", "Model", flop, |stage| stage.model.map(|model| model.0))
        .column("model_flops_full", "Model, all pairs", flop, |stage| {
            stage.model.map(|model| model.1)
        })
        .column("operator_flops", "Operators", flop, |stage| stage.sums.operators.map(|one| one.0))
        .column("operator_flops_full", "Operators, all pairs", flop, |stage| {
            stage.sums.operators.map(|one| one.1)
        })
        .column("gemm_log_flops", "Log", flop, |stage| stage.sums.logged)
        .column("counter_flops", "Counters", flop, |stage| stage.executed)
        .column("known_flops", "All sources", flop, |stage| stage.sums.flops())
        .column("known_flops_full", "All sources, all pairs", flop, |stage| {
            stage.sums.flops().map(|_| stage.sums.full)
        })
        .text("dtypes", "Types", dtypes)
        .share("flop_coverage", "Coverage", |stage| stage.sums.coverage())
        .time("ideal_time_ns", "Ideal time", |stage| stage.ideal_time.as_ref().ok().copied())
        .share("mixed_dtype_utilization", "Utilization", |stage| {
            stage.utilization.as_ref().ok().copied()
        })
        .share("mfu", "MFU", |stage| stage.mfu.as_ref().ok().copied())
        .share("hfu", "HFU", |stage| stage.hfu)
        .share("mbu", "MBU", |stage| stage.mbu)
        .column("sm_clock_hz", "SM clock", Unit::Hertz, |stage| stage.clock.map(|clock| clock.0))
        .share("clock_normalized_mfu", "MFU at this clock", |stage| {
            stage.clock_normalized.as_ref().ok().copied()
        })
        .rows(stages)
}

fn dtypes(stage: &StageFlops) -> Option<String> {
    let known = stage.sums.by_dtype.keys().copied().filter(|dtype| !dtype.is_empty());
    let known: Vec<&str> = known.collect();
    (!known.is_empty()).then(|| known.join(", "))
}
