//! All metrics of all launches as one long data set, part by part: there may be millions.

use crate::Context;
use rooflens_analysis::Known;
use rooflens_document::Dataset;
use rooflens_session::{Arrange, ProfileMetric, ProfileMetricId, Session};

/// Attributes of the device, the same for all launches.
const DEVICE_ATTRIBUTES: &str = "device__attribute_";

/// Rows of a part.
const PART: usize = 4096;

/// Id of the data set.
const ID: &str = "ncu_metrics";

/// Id of the data set, where a launch has a metric.
pub fn has_ncu_metrics(context: &Context<'_>) -> Option<&'static str> {
    let mut rows = context.session.profile_metrics.ids();
    let has_rows =
        context.results.counters().is_ok() && rows.any(|row| is_of_launch(context.session, row));
    has_rows.then_some(ID)
}

fn is_of_launch(session: &Session, row: ProfileMetricId) -> bool {
    let metric = session.profile_metrics.metric[row.index()];
    !session.text(metric).starts_with(DEVICE_ATTRIBUTES)
}

/// Every metric that ncu gave for a launch, in base units, as parts of one data set: only CSV holds it.
///
/// # Errors
/// When no kernel was profiled.
pub fn ncu_metrics<'a>(context: &Context<'a>) -> Known<impl Iterator<Item = Dataset> + use<'a>> {
    let (session, counters) = (context.session, context.results.counters()?);
    let (profiles, metrics) = (&session.kernel_profiles, &session.profile_metrics);
    let mut order: Vec<_> = metrics.ids().collect();
    order.retain(|id| is_of_launch(session, *id));
    order.arrange_by_key(|id| (metrics.profile[id.index()], *id));
    let table = columns! { context, ID, metric: &ProfileMetric => {
        let launch = counters.launch(metric.profile);
        text "pass" = session.pass_name(launch.pass);
        count "launch" = profiles.ordinal[metric.profile.index()];
        name "kernel" = launch.identity.short.as_str();
        text "section" = session.text(metric.section);
        text "metric" = session.text(metric.metric);
        text "value" = metric.value;
        text "unit" = session.text(metric.unit);
        text "text" = metric.text.map(|text| session.text(text));
    } };
    let parts = order.len().div_ceil(PART);
    Ok((0..parts).map(move |part| {
        let ids = order.iter().skip(part * PART).take(PART);
        let rows: Vec<ProfileMetric> = ids.map(|id| metrics.row(*id)).collect();
        table.rows(&rows)
    }))
}
