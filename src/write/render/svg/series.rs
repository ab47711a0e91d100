//! Lines over time with the stages behind them: tracks of one line each.

use rooflens_schemas::Unit;

use super::page::{Drawn, Page};
use super::tracks::{Content, Shared, TITLE, stack};
use rooflens_document::chart::{Line, Lines, Series, thin};
use rooflens_document::words;

const PANEL: f64 = 64.0;

/// Draws all panels; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &Series) -> Drawn<f64> {
    let lines: Vec<Lines> = chart
        .panels
        .iter()
        .map(|panel| {
            let mut points = panel.points.clone();
            points.retain(|(t, value)| *t >= 0 && value.is_finite());
            let points = thin(&points, chart.duration);
            Lines {
                label: panel.label.clone(),
                unit: panel.unit,
                lines: vec![Line {
                    name: String::new(),
                    filled: false,
                    points,
                }],
                shades: None,
                outliers: Vec::new(),
            }
        })
        .collect();
    let limits = chart.panels.iter().map(|panel| panel.limit.as_ref());
    let panels = lines
        .iter()
        .zip(limits)
        .map(|(lines, limit)| (PANEL, Content::Lines(lines, limit)));
    let time = words!(page, "chart.time");
    let shared = Shared::new(&chart.bands, chart.duration, Unit::Nanoseconds, &time);
    stack(page, TITLE, &shared, &panels.collect::<Vec<_>>())
}
