//! The metrics of a stage's utilization.

use rooflens_schemas::{Metric, Unit};

use super::words;
use crate::Context;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::catalogue::{
    IMAGES_PER_SECOND, KERNEL_TIME_MBU, KERNEL_TIME_MFU, MBU, MFU, MFU_FULL_ATTENTION, MODEL_FLOPS,
    TOKENS_PER_SECOND,
};
use rooflens_document::{MetricDef, Quantity};

/// All metrics of a stage; images of a model of images alone.
pub(super) fn of(context: &Context<'_>, stage: &StageUtilization) -> Vec<Metric> {
    let context = &context.in_english();
    let scope = stage.timed.scope(context);
    let metric = |def: &MetricDef, value: Result<f64, Unavailable>, basis: String| {
        let value = value
            .map(|value| (value, basis))
            .map_err(|why| words::reason(context.text, &why));
        def.known(scope.clone(), value)
    };
    let work = stage.work.as_ref();
    let formula = work.map_or_else(
        |_| String::new(),
        |work| words::formula(context, &work.formula),
    );
    let ceiling = stage.ceiling.as_ref();
    let rate = ceiling.map_or_else(|_| String::new(), |ceiling| words::rate(context, ceiling));
    let bandwidth = ceiling.map_or_else(
        |_| String::new(),
        |ceiling| words::bandwidth(context, ceiling),
    );
    let time = Quantity::new(stage.timed.time, Unit::Nanoseconds);
    let kind = if stage.timed.profiled.is_some() {
        "projection"
    } else {
        "un-profiled repeats"
    };
    let over = format!(
        "stage time {time} (median, {kind} of pass {})",
        stage.timed.pass
    );
    let flops = work.map(|work| work.flops).map_err(Clone::clone);
    let images = stage.images_per_second().ok();
    let images =
        images.map(|rate| metric(&IMAGES_PER_SECOND, Ok(rate), format!("{formula}; ÷ {over}")));
    let metrics = [
        metric(&MODEL_FLOPS, flops, format!("{formula}; causal attention")),
        metric(
            &MFU,
            stage.mfu(),
            format!("{formula}; causal attention; ÷ ({over} × {rate})"),
        ),
        metric(
            &MFU_FULL_ATTENTION,
            stage.mfu_full_attention(),
            format!("{formula}; full attention; ÷ ({over} × {rate})"),
        ),
        metric(
            &KERNEL_TIME_MFU,
            stage.kernel_time_mfu(),
            "MFU ÷ busy share".to_owned(),
        ),
        metric(
            &MBU,
            stage.mbu(),
            format!(
                "{formula}: weights once a pass, cache read and written; ÷ ({over} × {bandwidth})"
            ),
        ),
        metric(
            &KERNEL_TIME_MBU,
            stage.kernel_time_mbu(),
            "MBU ÷ busy share".to_owned(),
        ),
        metric(
            &TOKENS_PER_SECOND,
            stage.tokens_per_second(),
            format!("{formula}; ÷ {over}"),
        ),
    ];
    metrics.into_iter().chain(images).collect()
}
