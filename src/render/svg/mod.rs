//! Charts as SVG text: our own drawing, the same bytes everywhere.
//!
//! One unit is one point; every chart is as wide as the page's text.

mod bars;
mod canvas;
mod dots;
mod flame;
mod frame;
mod labels;
mod legend;
mod marks;
mod measure;
mod palette;
mod roofline;
mod scale;
mod scatter;
mod series;

use crate::findings::chart::{Chart, Plot};

use canvas::{Canvas, Style, WIDTH};

/// Draws a chart; the result is a whole SVG file with the chart's description as alternative text.
pub fn draw(chart: &Chart) -> String {
    let mut canvas = Canvas::default();
    let height = if is_empty(&chart.plot) {
        canvas.text(WIDTH / 2.0, 20.0, "nothing to draw", Style::MUTED.at(canvas::Anchor::Middle));
        32.0
    } else {
        match &chart.plot {
            Plot::StackedBars(plot) => bars::draw(&mut canvas, plot),
            Plot::Roofline(plot) => roofline::draw(&mut canvas, plot),
            Plot::Scatter(plot) => scatter::draw(&mut canvas, plot),
            Plot::Series(plot) => series::draw(&mut canvas, plot),
            Plot::Dots(plot) => dots::draw(&mut canvas, plot),
            Plot::Flame(plot) => flame::draw(&mut canvas, plot),
        }
    };
    canvas.finish(height, &chart.title, &chart.description)
}

fn is_empty(plot: &Plot) -> bool {
    match plot {
        Plot::StackedBars(plot) => plot.bars.is_empty() || plot.parts.is_empty(),
        Plot::Roofline(plot) => {
            plot.points.is_empty() && plot.rates.is_empty() && plot.bandwidths.is_empty()
        }
        Plot::Scatter(_) => false,
        Plot::Series(plot) => plot.panels.is_empty() || plot.duration <= 0,
        Plot::Dots(plot) => plot.rows.is_empty(),
        Plot::Flame(plot) => plot.frames.is_empty() || plot.total.is_nan() || plot.total <= 0.0,
    }
}
