//! All metrics of all launches as one long data set.

use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_document::{Dataset, Table};
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
    let launch = |row: &ProfileMetric| counters.launch(row.profile);
    Table::new(context.text, "ncu_metrics")
        .text("pass", |row| session.pass_name(launch(row).pass))
        .count("launch", |row| profiles.ordinal[row.profile.index()])
        .name("kernel", |row| launch(row).identity.short.as_str())
        .text("section", |row| session.text(row.section))
        .text("metric", |row| session.text(row.metric))
        .text("value", |row| row.value)
        .text("unit", |row| session.text(row.unit))
        .text("text", |row| row.text.map(|text| session.text(text)))
        .rows(&rows)
}
