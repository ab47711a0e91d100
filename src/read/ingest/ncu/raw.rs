//! The raw page: one row a launch, one column a metric.

use csv::StringRecord;

use super::header::Header;
use super::merge::{Merge, Origin};
use super::number::{Decimal, Value, value};
use super::unit;

/// Reads the row of one launch. Without a row of units the scale of the values is unknown: they keep no unit.
pub(super) fn read(
    header: &Header,
    units: Option<&StringRecord>,
    row: &StringRecord,
    decimal: Decimal,
    merge: &mut Merge<'_>,
) {
    let profile = merge.launch(header, row);
    if row.len() < header.names.len() {
        merge.short_row();
    }
    for index in header
        .metrics
        .iter()
        .take_while(|index| **index < row.len())
    {
        let cell = value(row.get(*index).unwrap_or_default(), decimal);
        if cell == Value::Empty {
            continue;
        }
        let name = &header.names[*index];
        let printed = match units.map(|units| units.get(*index).unwrap_or_default().trim()) {
            Some("") => unit::implied(name),
            Some(printed) => printed,
            None => "",
        };
        if let Value::Text(text) = cell {
            merge.device_text(profile, name, text);
        } else if let Value::Number(number) = cell {
            merge.device_number(profile, name, number);
        }
        merge.metric(Origin::Raw, profile, "", name, printed, &cell);
    }
}
