//! Charts as data. `render/svg` draws them.

use rooflens_schemas::Unit;
use serde::Serialize;

/// A chart, with the sentence that a reader who cannot see it gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// File name without extension: `roofline-dram` becomes `charts/roofline-dram.svg`.
    pub id: String,
    /// Caption.
    pub title: String,
    /// What the chart shows, in words: its alternative text.
    pub description: String,
    /// What is drawn.
    pub plot: Plot,
}

/// The kinds of charts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// Horizontal bars of stacked parts, one bar a row, all on one scale or each to 100 %.
    StackedBars(StackedBars),
    /// Operations per second against operations per byte, both axes logarithmic.
    Roofline(Roofline),
    /// Points in a plane, linear axes from 0.
    Scatter(Scatter),
    /// Lines over time, with bands of stages behind them.
    Series(Series),
    /// Dots of single repeats, one row a stage: spread and outliers.
    Dots(Dots),
}

/// Horizontal stacked bars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackedBars {
    /// Unit of the values.
    pub unit: Unit,
    /// Each bar fills the width; values become shares.
    pub normalized: bool,
    /// Names of the parts in drawing order; the legend.
    pub parts: Vec<Part>,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// A part of stacked bars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Name in the legend.
    pub name: String,
    /// Colour group.
    pub color: Color,
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Label at the left.
    pub label: String,
    /// One value a part, in the order of `parts`.
    pub values: Vec<f64>,
    /// Label at the right, such as the total.
    pub note: String,
}

/// A roofline plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// Slanted roofs: bandwidths in bytes per second.
    pub bandwidths: Vec<Ceiling>,
    /// Flat roofs: rates in operations per second.
    pub rates: Vec<Ceiling>,
    /// Kernels.
    pub points: Vec<Point>,
}

/// A roof of a roofline plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ceiling {
    /// Label on the roof, such as `DRAM 4.80 TB/s`.
    pub label: String,
    /// Value per second.
    pub value: f64,
    /// Measured on this GPU rather than specified: drawn dashed.
    pub measured: bool,
}

/// A mark in a roofline or scatter plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Label; shown where there is room, always in the tooltip.
    pub label: String,
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Share of the time, 0 to 1: the mark's area.
    pub weight: f64,
    /// Colour group.
    pub color: Color,
}

/// A scatter plot with linear axes from 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scatter {
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// End of the horizontal axis.
    pub x_max: f64,
    /// End of the vertical axis.
    pub y_max: f64,
    /// Draw the diagonal.
    pub diagonal: bool,
    /// Marks.
    pub points: Vec<Point>,
}

/// Lines over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Panels from top to bottom; they share the time axis.
    pub panels: Vec<Panel>,
    /// Stage bands: label, start and end in nanoseconds from the axis' zero.
    pub bands: Vec<(String, i64, i64)>,
    /// Length of the time axis in nanoseconds.
    pub duration: i64,
}

/// One panel of a time chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// Label of the vertical axis.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Time in nanoseconds from the axis' zero, and value.
    pub points: Vec<(i64, f64)>,
    /// A level to mark, such as a power limit.
    pub limit: Option<(String, f64)>,
}

/// Dots per row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dots {
    /// Unit of the values.
    pub unit: Unit,
    /// Rows: label, and each dot's value and whether it is an outlier.
    pub rows: Vec<(String, Vec<(f64, bool)>)>,
}

/// Colour groups; the palette is the renderer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// Matrix products.
    Gemm,
    /// Attention.
    Attention,
    /// Normalization and softmax.
    Normalization,
    /// Elementwise, activation, reduction.
    Elementwise,
    /// Copies, casts, layout changes, gathers.
    Copy,
    /// Collectives.
    Communication,
    /// Everything else.
    Other,
    /// Nothing runs.
    Idle,
    /// Compute-bound.
    ComputeBound,
    /// Memory-bound.
    MemoryBound,
    /// Latency-bound.
    LatencyBound,
    /// Between the bounds.
    Balanced,
}

impl Color {
    /// Colour groups of kernel classes, in the order of legends.
    pub const KERNELS: [Self; 7] = [
        Self::Gemm,
        Self::Attention,
        Self::Normalization,
        Self::Elementwise,
        Self::Copy,
        Self::Communication,
        Self::Other,
    ];

    /// The group of kernels of that label.
    pub fn of_label(label: &str) -> Option<Self> {
        Self::KERNELS.into_iter().find(|color| color.label() == label)
    }

    /// The words of legends.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gemm => "matrix products",
            Self::Attention => "attention",
            Self::Normalization => "norms, softmax",
            Self::Elementwise => "elementwise, reductions",
            Self::Copy => "copies, layout, gathers",
            Self::Communication => "communication",
            Self::Other => "other",
            Self::Idle => "idle",
            Self::ComputeBound => "compute-bound",
            Self::MemoryBound => "memory-bound",
            Self::LatencyBound => "latency-bound",
            Self::Balanced => "balanced",
        }
    }
}
