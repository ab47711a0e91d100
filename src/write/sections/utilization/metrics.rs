//! The metrics of a stage's utilization.

use rooflens_schemas::Metric;

use super::words;
use crate::{Context, metric};
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::Quantity;
use rooflens_document::catalogue::{
    IMAGES_PER_SECOND, KERNEL_TIME_MBU, KERNEL_TIME_MFU, MBU, MFU, MFU_FULL_ATTENTION, MODEL_FLOPS,
    TOKENS_PER_SECOND,
};

/// All metrics of a stage; images of a model of images alone.
pub(super) fn of(context: &Context<'_>, stage: &StageUtilization) -> Vec<Metric> {
    let context = &context.in_english();
    let scope = stage.timed.scope(context);
    let why = |unavailable: Unavailable| words::reason(context.text, &unavailable);
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
    let time = Quantity::from(stage.timed.time);
    let kind = if stage.timed.profiled.is_some() {
        "projection"
    } else {
        "unprofiled repeats"
    };
    let over = format!(
        "stage time {time} (median, {kind} of pass {})",
        stage.timed.pass
    );
    let flops = work.map(|work| work.flops).map_err(Clone::clone);
    let images = stage.images_per_second().ok();
    let images = images.map(|rate| {
        let basis = format!("{formula}; ÷ {over}");
        metric(&IMAGES_PER_SECOND, &scope, Ok(rate), basis)
    });
    let metrics = [
        metric(
            &MODEL_FLOPS,
            &scope,
            flops.map_err(why),
            format!("{formula}; causal attention"),
        ),
        metric(
            &MFU,
            &scope,
            stage.mfu().map_err(why),
            format!("{formula}; causal attention; ÷ ({over} × {rate})"),
        ),
        metric(
            &MFU_FULL_ATTENTION,
            &scope,
            stage.mfu_full_attention().map_err(why),
            format!("{formula}; full attention; ÷ ({over} × {rate})"),
        ),
        metric(
            &KERNEL_TIME_MFU,
            &scope,
            stage.kernel_time_mfu().map_err(why),
            "MFU ÷ busy share".to_owned(),
        ),
        metric(
            &MBU,
            &scope,
            stage.mbu().map_err(why),
            format!(
                "{formula}: weights once a pass, cache read and written; ÷ ({over} × {bandwidth})"
            ),
        ),
        metric(
            &KERNEL_TIME_MBU,
            &scope,
            stage.kernel_time_mbu().map_err(why),
            "MBU ÷ busy share".to_owned(),
        ),
        metric(
            &TOKENS_PER_SECOND,
            &scope,
            stage.tokens_per_second().map_err(why),
            format!("{formula}; ÷ {over}"),
        ),
    ];
    metrics.into_iter().chain(images).collect()
}
