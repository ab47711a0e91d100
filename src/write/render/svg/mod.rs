//! Charts as SVG text, drawn by plotters: the same bytes everywhere.
//!
//! One unit is one point; every chart is as wide as the page's text.

mod backend;
mod bars;
mod dots;
mod flame;
mod labels;
mod legend;
mod loglog;
mod marks;
mod page;
mod palette;
mod roofline;
mod scale;
mod scatter;
mod series;
mod tracks;
mod waterfall;

use crate::length::Pt;
use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use rooflens_document::chart::{Chart, Color, Plot};
use rooflens_document::{Catalogue, words};
use rooflens_units::Time;

use page::{Page, Style, WIDTH};

/// A colour as style sheets write it.
pub(crate) fn hex(color: Color) -> String {
    let RGBColor(red, green, blue) = palette::fill(color);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Draws a chart; the result is a whole SVG file with the chart's description as alternative text.
pub fn draw(text: &'static Catalogue, chart: &Chart) -> String {
    let page = Page::new(text);
    let height = match &chart.plot {
        plot if is_empty(plot) => {
            let style = Style::MUTED.at(HPos::Center);
            page.text(WIDTH / 2.0, Pt(20.0), &words!(page, "chart.empty"), style)
                .map(|()| Pt(32.0))
        }
        Plot::StackedBars(plot) => bars::draw(&page, plot),
        Plot::Waterfall(plot) => waterfall::draw(&page, plot),
        Plot::Roofline(plot) => roofline::draw(&page, plot),
        Plot::Scatter(plot) => scatter::draw(&page, plot),
        Plot::LogLog(plot) => loglog::draw(&page, plot),
        Plot::Series(plot) => series::draw(&page, plot),
        Plot::Dots(plot) => dots::draw(&page, plot),
        Plot::Flame(plot) => flame::draw(&page, plot),
        Plot::Tracks(plot) => tracks::draw(&page, plot),
    };
    // Writing into memory does not fail.
    page.finish(height.unwrap_or(WIDTH), &chart.title, &chart.description)
}

fn is_empty(plot: &Plot) -> bool {
    match plot {
        Plot::StackedBars(plot) => plot.bars.is_empty() || plot.parts.is_empty(),
        Plot::Roofline(plot) => {
            plot.points.is_empty() && plot.rates.is_empty() && plot.bandwidths.is_empty()
        }
        Plot::Scatter(_) | Plot::Waterfall(_) => false,
        Plot::LogLog(plot) => plot.series.iter().all(|series| series.points.is_empty()),
        Plot::Series(plot) => plot.panels.is_empty() || plot.duration <= 0,
        Plot::Dots(plot) => plot.rows.is_empty(),
        Plot::Flame(plot) => {
            plot.frames.is_empty() || plot.total.0.is_nan() || plot.total <= Time::ZERO
        }
        Plot::Tracks(plot) => plot.tracks.is_empty() || plot.extent <= 0,
    }
}
