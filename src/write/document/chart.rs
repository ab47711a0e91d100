//! Charts as data. `render/svg` draws them.

use rooflens_schemas::Unit;
use rooflens_units::{Ratio, Time};
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
    /// From one total to another by the changes of parts.
    Waterfall(Waterfall),
    /// Operations per second against operations per byte, both axes logarithmic.
    Roofline(Roofline),
    /// Points in a plane, linear axes from 0.
    Scatter(Scatter),
    /// Measured points and lines through them, both axes logarithmic.
    LogLog(LogLog),
    /// Lines over time, with bands of stages behind them.
    Series(Series),
    /// Dots of single repeats, one row a stage: spread and outliers.
    Dots(Dots),
    /// Nested calls, callers above what they call: the width is time.
    Flame(Flame),
    /// Tracks that share a horizontal axis: what ran when, and how it went.
    Tracks(Tracks),
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

impl StackedBars {
    /// The same without the parts that no bar has.
    #[must_use]
    pub fn without_empty_parts(mut self) -> Self {
        for index in (0..self.parts.len()).rev() {
            if self.bars.iter().all(|bar| bar.values[index] <= 0.0) {
                self.parts.remove(index);
                for bar in &mut self.bars {
                    bar.values.remove(index);
                }
            }
        }
        self
    }
}

/// Totals that become others, from top to bottom, on one axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waterfall {
    /// Unit of the values.
    pub unit: Unit,
    /// From one total to another, each.
    pub falls: Vec<Fall>,
}

/// A total, the changes of its parts, and the total that they lead to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fall {
    /// The total before the changes.
    pub before: (String, f64),
    /// The changes with their signs.
    pub changes: Vec<(String, f64)>,
    /// The total after them.
    pub after: (String, f64),
}

/// A part of stacked bars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Name in the legend.
    pub name: String,
    /// Colour group.
    pub color: Color,
}

impl Part {
    /// A part by its name in the legend and its colour group.
    pub fn new(name: impl Into<String>, color: Color) -> Self {
        Self {
            name: name.into(),
            color,
        }
    }
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
    /// The same kernels at further memory levels, each joined with its mark among `points`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelMark>,
}

/// A kernel of a roofline plot at another memory level: at the height of its mark, and elsewhere on the axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelMark {
    /// Which of the plot's points it belongs to.
    pub point: usize,
    /// Operations per byte at the level.
    pub x: f64,
    /// Colour group: the level.
    pub color: Color,
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
    /// Share of the time, 0 to 1: the mark's area; or [`NO_SHARE`].
    pub weight: Ratio,
    /// Colour group. A whole stage is a diamond in rooflines.
    pub color: Color,
    /// Known by its sizes and not by counters: drawn hollow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hollow: bool,
}

/// Weight of a mark that is no share of anything: such marks have one size.
pub const NO_SHARE: Ratio = Ratio(-1.0);

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

/// Measured points and lines through them, both axes logarithmic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogLog {
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Series, a colour each.
    pub series: Vec<LogSeries>,
}

/// A series of a plot with logarithmic axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogSeries {
    /// Name in the legend.
    pub name: String,
    /// What was measured.
    pub points: Vec<(f64, f64)>,
    /// What was fitted, by ascending horizontal value; empty without a fit.
    pub line: Vec<(f64, f64)>,
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

/// Stretches of a thinned line; each keeps its least and its greatest value.
const STRETCHES: usize = 500;

/// At most about a thousand points of a line over `duration`: the least and the greatest of each stretch of
/// time, in order of time.
pub fn thin(points: &[(i64, f64)], duration: i64) -> Vec<(i64, f64)> {
    if points.len() <= 2 * STRETCHES {
        return points.to_vec();
    }
    let stretch = |t: i64| (i128::from(t) * STRETCHES as i128 / i128::from(duration.max(1))) as i64;
    let mut thinned = Vec::new();
    for stretch in points.chunk_by(|a, b| stretch(a.0) == stretch(b.0)) {
        let by_value = |a: &&(i64, f64), b: &&(i64, f64)| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0));
        let extremes = stretch
            .iter()
            .min_by(by_value)
            .zip(stretch.iter().max_by(by_value));
        let Some((low, high)) = extremes else {
            continue;
        };
        let (first, second) = if low.0 <= high.0 {
            (low, high)
        } else {
            (high, low)
        };
        thinned.push(*first);
        if first != second {
            thinned.push(*second);
        }
    }
    thinned
}

/// Tracks from top to bottom that share a horizontal axis: time, or the number of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tracks {
    /// Title of the horizontal axis, without the unit.
    pub x_label: String,
    /// Unit of the horizontal axis.
    pub x_unit: Unit,
    /// Length of the horizontal axis, which begins at 0.
    pub extent: i64,
    /// Bands behind the tracks: label, start and end.
    pub bands: Vec<(String, i64, i64)>,
    /// The tracks.
    pub tracks: Vec<Track>,
}

/// Every operation of an iteration, and the CUDA calls next to them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Iteration {
    /// Which one it is.
    pub label: String,
    /// Its length, nanoseconds.
    pub extent: i64,
    /// Names that events have, with the colour of their class.
    pub names: Vec<(String, Color)>,
    /// Threads, then streams.
    pub lanes: Vec<Lane>,
}

/// What ran in a stream, or the calls of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lane {
    /// Such as `GPU 0, stream 7`.
    pub label: String,
    /// By start.
    pub events: Vec<Event>,
}

/// A call or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Index into the names.
    pub name: usize,
    /// Start, nanoseconds from that of the iteration.
    pub start: i64,
    /// Duration, nanoseconds.
    pub duration: i64,
    /// The call that launched it: its number among the events of all lanes, from 0.
    pub call: Option<usize>,
}

/// One track.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Track {
    /// Shares of equally long stretches of the axis, stacked.
    Areas(Areas),
    /// Lines on one vertical axis.
    Lines(Lines),
    /// Rows of marks: when something ran.
    Marks(Vec<MarkRow>),
}

/// Stacked shares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Areas {
    /// Label above the track.
    pub label: String,
    /// Parts from the bottom up; the legend.
    pub parts: Vec<Part>,
    /// One list a part: its share, 0 to 1, of each stretch of the axis.
    pub shares: Vec<Vec<f64>>,
}

/// Lines on one vertical axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lines {
    /// Label above the track.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Lines; later ones are drawn over earlier ones.
    pub lines: Vec<Line>,
    /// Stretches to mark, and what they are.
    pub shades: Option<(String, Vec<(i64, i64)>)>,
    /// Points to mark as outliers.
    pub outliers: Vec<(i64, f64)>,
}

/// One line of a track.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Name next to the label of the track; empty if the label says it all.
    pub name: String,
    /// Drawn as a light area rather than as a dark line.
    pub filled: bool,
    /// Place on the axis, and value.
    pub points: Vec<(i64, f64)>,
}

/// A row of marks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarkRow {
    /// Label at the left.
    pub label: String,
    /// Colour group.
    pub color: Color,
    /// Start and end of each mark, ascending.
    pub marks: Vec<(i64, i64)>,
}

/// Dots per row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dots {
    /// Unit of the values.
    pub unit: Unit,
    /// Rows: label, and each dot's value and whether it is an outlier.
    pub rows: Vec<(String, Vec<(f64, bool)>)>,
}

/// Nested calls with equal paths merged (Gregg, "The Flame Graph", 2016), drawn from the top down.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flame {
    /// Unit of the times.
    pub unit: Unit,
    /// Full width: the time of the outermost frame.
    pub total: Time,
    /// Colours of innermost frames; the legend.
    pub parts: Vec<Part>,
    /// Frames, callers before what they call.
    pub frames: Vec<FlameFrame>,
}

/// One frame of a flame graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlameFrame {
    /// Name.
    pub label: String,
    /// Row: number of frames around it.
    pub depth: u32,
    /// Left edge.
    pub start: Time,
    /// Width.
    pub time: Time,
    /// Its entry in `parts`; none: a caller, drawn in grey.
    pub part: Option<usize>,
}

/// Colour groups; the palette is the renderer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// GEMMs.
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
    /// Operations that are not of the stage.
    OtherWork,
    /// Nothing runs.
    Idle,
    /// Compute-bound.
    ComputeBound,
    /// Bound by instructions other than floating-point ones.
    InstructionBound,
    /// Memory-bound.
    MemoryBound,
    /// Bound by device memory.
    DramBound,
    /// Bound by the L2 cache.
    L2Bound,
    /// Bound by the L1 cache.
    L1Bound,
    /// Latency-bound.
    LatencyBound,
    /// Between the bounds.
    Balanced,
    /// At device memory.
    Dram,
    /// At the L2 cache.
    L2,
    /// At the L1 cache.
    L1,
    /// A stage as a whole.
    Stage,
    /// A change to more.
    More,
    /// A change to less.
    Less,
    /// The GPU runs something.
    Busy,
    /// The host issues work.
    Launching,
    /// The host computes without a CUDA call.
    Host,
    /// The host waits in a call.
    Blocked,
    /// Before a change.
    Before,
    /// After it.
    After,
    /// A load test.
    Run,
    /// The load test beyond which throughput does not follow the load.
    Knee,
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
            Self::OtherWork => "other work",
            Self::Idle => "idle",
            Self::ComputeBound => "compute-bound",
            Self::InstructionBound => "instruction-bound",
            Self::MemoryBound => "memory-bound",
            Self::DramBound => "dram-bound",
            Self::L2Bound => "l2-bound",
            Self::L1Bound => "l1-bound",
            Self::LatencyBound => "latency-bound",
            Self::Balanced => "balanced",
            Self::Dram => "at DRAM",
            Self::L2 => "at L2",
            Self::L1 => "at L1",
            Self::Stage => "whole stage",
            Self::More => "more",
            Self::Less => "less",
            Self::Busy => "busy",
            Self::Launching => "launching",
            Self::Host => "host code",
            Self::Blocked => "blocked",
            Self::Before => "before",
            Self::After => "after",
            Self::Run => "run",
            Self::Knee => "knee",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks() {
        let mut points: Vec<(i64, f64)> = (0..100_000).map(|t| (t, 1.0)).collect();
        points[31_415].1 = 9.0;
        points[27_182].1 = -3.0;
        let thinned = thin(&points, 100_000);
        assert!(thinned.len() <= 2 * STRETCHES, "{} points", thinned.len());
        assert!(thinned.contains(&(31_415, 9.0)) && thinned.contains(&(27_182, -3.0)));
        assert!(thinned.is_sorted_by_key(|point| point.0));
    }

    #[test]
    fn short_lines_stay_whole() {
        assert_eq!(thin(&[(0, 1.0), (5, 2.0)], 10), [(0, 1.0), (5, 2.0)]);
    }
}
