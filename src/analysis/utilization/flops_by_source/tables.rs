//! The data set of FLOPs.

use rooflens_schemas::Unit;

use super::Line;
use crate::analysis::Context;
use crate::findings::{Cell, Column, Dataset};

/// One row per stage and pass.
pub(super) fn dataset(context: &Context<'_>, lines: &[Line]) -> Dataset {
    let columns = vec![
        Column::text("stage", "Stage"),
        Column::text("pass", "Pass"),
        Column::new("time_ns", "Stage time", Unit::Nanoseconds),
        Column::new("model_flops", "Model", Unit::Flop),
        Column::new("model_flops_full", "Model, all pairs", Unit::Flop),
        Column::new("operator_flops", "Operators", Unit::Flop),
        Column::new("operator_flops_full", "Operators, all pairs", Unit::Flop),
        Column::new("gemm_log_flops", "Log", Unit::Flop),
        Column::new("counter_flops", "Counters", Unit::Flop),
        Column::new("known_flops", "All sources", Unit::Flop),
        Column::new("known_flops_full", "All sources, all pairs", Unit::Flop),
        Column::text("dtypes", "Types"),
        Column::new("flop_coverage", "Coverage", Unit::Ratio),
        Column::new("ideal_time_ns", "Ideal time", Unit::Nanoseconds),
        Column::new("mixed_dtype_utilization", "Utilization", Unit::Ratio),
        Column::new("mfu", "MFU", Unit::Ratio),
        Column::new("hfu", "HFU", Unit::Ratio),
        Column::new("mbu", "MBU", Unit::Ratio),
        Column::new("sm_clock_hz", "SM clock", Unit::Hertz),
        Column::new("clock_normalized_mfu", "MFU at this clock", Unit::Ratio),
    ];
    let rows = lines.iter().map(|line| row(context, line)).collect();
    let title = "FLOPs by source, per instance of the stage".to_owned();
    Dataset { id: "flops", title, columns, rows }
}

fn row(context: &Context<'_>, line: &Line) -> Vec<Cell> {
    let (session, facts, stage) = (context.session, context.facts, &line.stage);
    let pass = stage.summary.stage(facts).pass;
    let dtypes: Vec<&str> =
        stage.by_dtype.keys().copied().filter(|dtype| !dtype.is_empty()).collect();
    let dtypes = if dtypes.is_empty() { Cell::Missing } else { Cell::Text(dtypes.join(", ")) };
    vec![
        Cell::Text(stage.summary.label(session, facts)),
        Cell::Text(session.pass_name(pass).to_owned()),
        Cell::Float(stage.summary.time),
        Cell::maybe(line.model.map(|model| model.0)),
        Cell::maybe(line.model.map(|model| model.1)),
        Cell::maybe(stage.operators.map(|operators| operators.0)),
        Cell::maybe(stage.operators.map(|operators| operators.1)),
        Cell::maybe(stage.logged),
        Cell::maybe(line.executed.0),
        Cell::maybe(stage.flops()),
        Cell::maybe(stage.flops().map(|_| stage.full)),
        dtypes,
        Cell::maybe((stage.total > 0).then(|| stage.coverage())),
        Cell::maybe(stage.ideal_time(context).ok()),
        Cell::maybe(line.utilization(context).ok()),
        Cell::maybe(line.mfu.clone().ok()),
        Cell::maybe(line.executed.1),
        Cell::maybe(line.mbu),
        Cell::maybe(stage.clock.map(|clock| clock.0)),
        Cell::maybe(line.clock_normalized(context).ok()),
    ]
}
