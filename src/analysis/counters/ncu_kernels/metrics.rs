//! All metrics of all launches as one long data set.

use rooflens_schemas::Unit;

use crate::analysis::engine::classify;
use crate::findings::{Cell, Column, Dataset};
use crate::model::Session;

/// Attributes of the device, the same for all launches.
const DEVICE_ATTRIBUTES: &str = "device__attribute_";

/// Every metric that ncu gave for a launch, in base units.
pub(super) fn dataset(session: &Session) -> Dataset {
    let (profiles, metrics) = (&session.kernel_profiles, &session.profile_metrics);
    let names: Vec<String> =
        profiles.name.iter().map(|name| classify::identify(session.text(*name)).short).collect();
    let mut order: Vec<_> = metrics.ids().collect();
    order.sort_by_key(|id| (metrics.profile[id.index()], *id));
    let rows = order.into_iter().filter_map(|id| {
        let row = metrics.row(id);
        let metric = session.text(row.metric);
        if metric.starts_with(DEVICE_ATTRIBUTES) {
            return None;
        }
        let at = row.profile.index();
        let pass = session.passes.name[profiles.pass[at].index()];
        Some(vec![
            Cell::Text(session.text(pass).to_owned()),
            Cell::Int(i64::from(profiles.ordinal[at])),
            Cell::Name(names[at].clone()),
            Cell::Text(session.text(row.section).to_owned()),
            Cell::Text(metric.to_owned()),
            Cell::maybe(row.value),
            Cell::Text(session.text(row.unit).to_owned()),
            row.text.map_or(Cell::Missing, |text| Cell::Text(session.text(text).to_owned())),
        ])
    });
    Dataset {
        id: "ncu_metrics",
        title: "Nsight Compute metrics by launch, device attributes left out".to_owned(),
        columns: vec![
            Column::text("pass", "Pass"),
            Column::new("launch", "Launch", Unit::Count),
            Column::text("kernel", "Kernel"),
            Column::text("section", "Section"),
            Column::text("metric", "Metric"),
            Column::new("value", "Value", Unit::One),
            Column::text("unit", "Unit"),
            Column::text("text", "Text"),
        ],
        rows: rows.collect(),
    }
}
