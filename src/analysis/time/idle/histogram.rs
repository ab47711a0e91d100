//! Lengths of gaps: how many and how much idle time, by length and cause.

use rooflens_schemas::Unit;

use super::cause::Cause;
use super::gaps::Gaps;
use super::line::Line;
use crate::analysis::Context;
use crate::analysis::engine::stage_stats::counted;
use crate::findings::chart::{Bar, Part, Plot, StackedBars};
use crate::findings::{Cell, Chart, Column, Dataset, Quantity};
use crate::model::Ns;

/// Upper ends of the bins, nanoseconds, three a decade; the last bin has none.
const ENDS: [Ns; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// Gaps of one length: number, and time by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) gaps: u64,
    pub(super) times: [Ns; Cause::ALL.len()],
}

impl Bin {
    fn time(&self) -> Ns {
        self.times.iter().fold(0, |total: Ns, time| total.saturating_add(*time))
    }
}

/// Gaps of a line by length. A bin holds lengths from the end of the one before on.
pub(super) struct Histogram {
    bins: [Bin; ENDS.len() + 1],
}

impl Histogram {
    pub(super) fn new(context: &Context<'_>, gaps: &Gaps, line: &Line) -> Self {
        let mut bins = [Bin::default(); ENDS.len() + 1];
        for instance in counted(context.facts, &line.summary) {
            let window = instance.projection.filter(|_| instance.gpus.contains(&line.gpu));
            for (gap, time) in window.into_iter().flat_map(|window| gaps.within(line.gpu, window)) {
                let bin = &mut bins[ENDS.partition_point(|end| *end <= time)];
                bin.gaps += 1;
                let sum = &mut bin.times[gap.cause as usize];
                *sum = sum.saturating_add(time);
            }
        }
        Self { bins }
    }

    /// Whether there is no gap.
    pub(super) fn is_empty(&self) -> bool {
        self.bins.iter().all(|bin| bin.gaps == 0)
    }

    /// From the first bin with gaps to the last one: lower end, upper end, bin.
    fn used(&self) -> impl Iterator<Item = (Ns, Option<Ns>, &Bin)> {
        let has_gaps = |bin: &Bin| bin.gaps > 0;
        let first = self.bins.iter().position(has_gaps).unwrap_or(self.bins.len());
        let last = self.bins.iter().rposition(has_gaps).map_or(0, |last| last + 1);
        let lower = |at: usize| at.checked_sub(1).map_or(0, |before| ENDS[before]);
        (first..last).map(move |at| (lower(at), ENDS.get(at).copied(), &self.bins[at]))
    }

    /// A bar a bin, its idle time by cause.
    pub(super) fn chart(&self, context: &Context<'_>, line: &Line) -> Chart {
        let label = line.label(context);
        let causes: Vec<Cause> = Cause::ALL
            .into_iter()
            .filter(|cause| self.bins.iter().any(|bin| bin.times[*cause as usize] > 0))
            .collect();
        let part = |cause: &Cause| Part { name: cause.label().to_owned(), color: cause.color() };
        let bar = |(lower, upper, bin): (Ns, Option<Ns>, &Bin)| Bar {
            label: bounds(lower, upper),
            values: causes.iter().map(|cause| bin.times[*cause as usize] as f64).collect(),
            note: match bin.gaps {
                1 => "1 gap".to_owned(),
                gaps => format!("{} gaps", Quantity::count(gaps)),
            },
        };
        Chart {
            id: "gap-lengths".to_owned(),
            title: format!("Idle time of {label} by length of the gaps"),
            description: format!(
                "One bar a range of gap lengths: the idle time of the counted instances of {label} in gaps \
                 of that length, by cause, and their number."
            ),
            plot: Plot::StackedBars(StackedBars {
                unit: Unit::Nanoseconds,
                normalized: false,
                parts: causes.iter().map(part).collect(),
                bars: self.used().map(bar).collect(),
            }),
        }
    }

    fn rows(&self, context: &Context<'_>, line: &Line) -> Vec<Vec<Cell>> {
        let idle = line.idle_total();
        let row = |(lower, upper, bin): (Ns, Option<Ns>, &Bin)| {
            vec![
                Cell::Text(line.label(context)),
                Cell::Text(line.pass_name(context)),
                Cell::Int(lower),
                upper.map_or(Cell::Missing, Cell::Int),
                Cell::Int(bin.gaps as i64),
                Cell::Int(bin.time()),
                Cell::maybe((idle > 0).then(|| bin.time() as f64 / idle as f64)),
            ]
        };
        self.used().map(row).collect()
    }
}

/// `10 to 20 µs`.
fn bounds(lower: Ns, upper: Option<Ns>) -> String {
    let short = |time: Ns| match time {
        0..1_000_000 => format!("{} µs", time / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", time / 1_000_000),
        _ => format!("{} s", time / 1_000_000_000),
    };
    match upper {
        Some(upper) if lower == 0 => format!("below {}", short(upper)),
        Some(upper) => format!("{} to {}", short(lower), short(upper)),
        None => format!("{} and more", short(lower)),
    }
}

/// The histograms of all lines as one table.
pub(super) fn dataset(context: &Context<'_>, lines: &[(&Line, Histogram)]) -> Dataset {
    Dataset {
        id: "gap_histogram",
        title: "Gaps by length".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::new("from_ns", "From", Unit::Nanoseconds),
            Column::new("to_ns", "To", Unit::Nanoseconds),
            Column::new("gaps", "Gaps", Unit::Count),
            Column::new("total_ns", "Idle time", Unit::Nanoseconds),
            Column::new("idle_share", "Share of idle", Unit::Ratio),
        ],
        rows: lines.iter().flat_map(|(line, histogram)| histogram.rows(context, line)).collect(),
    }
}
