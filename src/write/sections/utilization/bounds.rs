//! The predicted lower bound of each stage next to its measured time.

use rooflens_analysis::Context as Analysis;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_predict::{Machine, Plan, Precision, Setup};
use rooflens_schemas::StageKind;
use rooflens_units::{Ratio, Seconds, Time};

use crate::Context;
use rooflens_document::{Block, Dataset};

/// A stage's lower bound and measured time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The stage, with the rank where several processes ran.
    pub stage: String,
    /// Pass, or that of the unprofiled repeats.
    pub pass: String,
    /// What the stage computes.
    pub kind: StageKind,
    /// Lower bound.
    pub bound: Time,
    /// Median.
    pub measured: Time,
    /// Busy share of the GPU, in a profiled pass.
    pub busy: Option<Ratio>,
}

impl Bound {
    /// Measured time ÷ bound.
    pub fn factor(&self) -> Ratio {
        Ratio(self.measured / self.bound)
    }

    /// Bound ÷ busy time: what kernels reach of the roofline while they run.
    pub fn of_busy(&self) -> Option<Ratio> {
        self.busy
            .filter(Ratio::is_positive)
            .map(|busy| Ratio(self.bound / (self.measured * busy)))
    }
}

/// The bounds of all stages that are forward passes of a known model, by the peaks of a machine that may be `adjusted`
/// from those of the table.
pub fn bounds(context: &Analysis<'_>, adjusted: &dyn Fn(Machine) -> Machine) -> Vec<Bound> {
    let stages = context
        .results
        .utilization()
        .map_or(&[][..], |utilization| &utilization.stages);
    stages
        .iter()
        .filter_map(|stage| of_stage(context, stage, adjusted))
        .collect()
}

fn of_stage(
    context: &Analysis<'_>,
    stage: &StageUtilization,
    adjusted: &dyn Fn(Machine) -> Machine,
) -> Option<Bound> {
    let (model, work) = (context.session.model.as_ref()?, stage.work.as_ref().ok()?);
    // Only of forward passes it is known what they move.
    work.bytes?;
    let ceiling = stage.ceiling.as_ref().ok()?;
    let machine = adjusted(Machine::from(context.hardware.find(&ceiling.gpu)?));
    let dtype = if ceiling.dtype == "tf32" {
        "fp32"
    } else {
        &ceiling.dtype
    };
    let mut setup = Setup::plain(Precision::find(dtype)?);
    setup.tensor = work.formula.model_parallel;
    let plan = Plan::new(model, &machine, &setup)?;
    let mut time = Seconds::ZERO;
    for shape in &work.shapes {
        time += plan.pass(*shape).total().bound;
    }
    let read = plan.read(work.read);
    for (_, pass) in read.iter().filter(|(name, _)| *name == "vision") {
        time += pass.total().bound;
    }
    Some(Bound {
        stage: stage.timed.stage.clone(),
        pass: stage.timed.pass.clone(),
        kind: stage.timed.kind,
        bound: (time * work.share).time(),
        measured: stage.timed.time,
        busy: stage.timed.busy_share(),
    })
    .filter(|bound| bound.bound.is_positive() && bound.measured.is_positive())
}

/// The table, and the sentence that explains the factor.
pub(super) fn show(context: &Context<'_>) -> Option<(Vec<Block>, Dataset)> {
    let rows = bounds(context, &|machine| machine);
    if rows.is_empty() {
        return None;
    }
    let table = columns! { context, "predicted_bounds", row: &Bound => {
        text "stage" = row.stage.clone(), page;
        text "pass" = row.pass.clone(), page;
        "bound_ns" = row.bound, page;
        "time_ns" = row.measured, page;
        text "factor" = Bound::factor(row), page;
        "busy_share" = row.busy, page;
        "of_busy" = Bound::of_busy(row), page;
    } };
    let view = table.view(
        words!(context, "utilization.bounds"),
        rows.len().min(super::SHOWN),
    );
    let explained = Block::Prose(say!(context, "utilization.bounds_factor"));
    Some((vec![Block::Table(view), explained], table.rows(&rows)))
}
