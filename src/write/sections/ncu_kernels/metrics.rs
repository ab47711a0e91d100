//! All metrics of all launches as one long data set.

use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_document::Dataset;
use rooflens_session::{Arrange, ProfileMetric};

/// Attributes of the device, the same for all launches.
const DEVICE_ATTRIBUTES: &str = "device__attribute_";

/// Every metric that ncu gave for a launch, in base units.
pub(super) fn dataset(context: &Context<'_>, counters: &Counters) -> Dataset {
    let session = context.session;
    let (profiles, metrics) = (&session.kernel_profiles, &session.profile_metrics);
    let mut order: Vec<_> = metrics.ids().collect();
    order.arrange_by_key(|id| (metrics.profile[id.index()], *id));
    let rows = order.into_iter().map(|id| metrics.row(id));
    let rows: Vec<ProfileMetric> = rows
        .filter(|row| !session.text(row.metric).starts_with(DEVICE_ATTRIBUTES))
        .collect();
    columns! { context, "ncu_metrics", metric: &ProfileMetric => {
        let launch = counters.launch(metric.profile);
        text "pass" = session.pass_name(launch.pass);
        count "launch" = profiles.ordinal[metric.profile.index()];
        name "kernel" = launch.identity.short.as_str();
        text "section" = session.text(metric.section);
        text "metric" = session.text(metric.metric);
        text "value" = metric.value;
        text "unit" = session.text(metric.unit);
        text "text" = metric.text.map(|text| session.text(text));
    } }
    .rows(&rows)
}
