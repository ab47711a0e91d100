//! The details page: one row a metric or rule.

use csv::StringRecord;

use super::header::Header;
use super::merge::{Merge, Origin, Rule};
use super::number::{Decimal, Value, value};
use super::unit;
use rooflens_units::Percent;

/// Reads one row. Metric rows may end before the rule columns, rule rows leave the metric columns empty.
pub(super) fn read(header: &Header, row: &StringRecord, decimal: Decimal, merge: &mut Merge<'_>) {
    let profile = merge.launch(header, row);
    let field = |name| header.field(row, name);
    let section = field("Section Name");
    let metric = field("Metric Name");
    let cell = value(field("Metric Value"), decimal);
    if !metric.is_empty() && cell != Value::Empty {
        // The same name stands under several labels in a section's charts.
        let label = field("Body Item Label");
        let section = if label.is_empty() {
            section.to_owned()
        } else {
            format!("{section}: {label}")
        };
        let printed = match field("Metric Unit") {
            "" => unit::implied(metric),
            printed => printed,
        };
        merge.metric(Origin::Details, profile, &section, metric, printed, &cell);
    }
    let rule = field("Rule Name");
    if !rule.is_empty() {
        let speedup = match value(field("Estimated Speedup"), decimal) {
            Value::Number(percent) => Some(Percent(percent)),
            Value::Empty | Value::Text(_) => None,
        };
        merge.rule(
            profile,
            &Rule {
                section,
                name: rule,
                kind: field("Rule Type"),
                description: field("Rule Description"),
                speedup_kind: field("Estimated Speedup Type"),
                speedup,
            },
        );
    }
}
