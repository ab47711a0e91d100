//! Lines over time with the stages behind them: tracks of one line each.

use crate::length::Pt;
use rooflens_schemas::Unit;

use super::page::{Drawn, Page};
use super::tracks::{Content, Shared, TITLE, stack};
use rooflens_document::chart::{Line, Lines, Series, thin};
use rooflens_document::words;

const PANEL: Pt = Pt(64.0);

/// Draws all panels; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &Series) -> Drawn<Pt> {
    let mut lines = Vec::new();
    for panel in &chart.panels {
        let mut points = panel.points.clone();
        points.retain(|(t, value)| *t >= 0 && value.is_finite());
        let line = Line {
            name: String::new(),
            filled: false,
            points: thin(&points, chart.duration),
        };
        lines.push(Lines {
            label: panel.label.clone(),
            unit: panel.unit,
            lines: vec![line],
            shades: None,
            outliers: Vec::new(),
        });
    }
    let mut panels = Vec::new();
    for (panel, lines) in chart.panels.iter().zip(&lines) {
        panels.push((PANEL, Content::Lines(lines, panel.limit.as_ref())));
    }
    let time = words!(page, "chart.time");
    let shared = Shared::new(&chart.bands, chart.duration, Unit::Nanoseconds, &time);
    stack(page, TITLE, &shared, &panels)
}
