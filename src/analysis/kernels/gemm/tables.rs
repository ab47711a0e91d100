//! The data set and the chart of matrix products.

use rooflens_schemas::Unit;

use super::lines::{Line, StageGemms, identity};
use crate::analysis::Context;
use crate::analysis::kernels::matmul::Gemm;
use crate::analysis::kernels::matmul::roof::dtype;
use crate::analysis::kernels::matmul::table::{self, Row, count, text};
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{Cell, Chart, Column, Dataset, Quantity};

/// Bars of the chart.
const BARS: usize = 12;

/// Loss below which a product has no bar, as a part of the greatest one.
const LEAST: f64 = 0.005;

/// One row per (stage, kernel, grid, sizes), in the order of stages and of what is lost.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageGemms<'_>]) -> Dataset {
    let sizes = [
        Column::new("m", "M", Unit::Count),
        Column::new("n", "N", Unit::Count),
        Column::new("k", "K", Unit::Count),
        Column::new("batch", "Batch", Unit::Count),
    ];
    let more = [
        Column::text("tile", "Tile"),
        Column::new("tile_efficiency", "Tiles full", Unit::Ratio),
        Column::new("splits", "Parts of K", Unit::Count),
        Column::new("waves", "Waves", Unit::One),
        Column::new("wave_efficiency", "Waves full", Unit::Ratio),
        Column::new("alignment_bytes", "Alignment", Unit::Bytes),
        Column::text("tensor_cores", "Tensor cores"),
        Column::text("grid", "Grid"),
    ];
    let rows = stages
        .iter()
        .flat_map(|stage| stage.lines.iter().map(move |line| row(context, stage, line)));
    let title = "Matrix products, per instance of their stage".to_owned();
    let columns = table::columns("M × N × K", sizes, more);
    Dataset { id: "gemms", title, columns, rows: rows.collect() }
}

/// Sizes in words: `8192 × 4096 × 14336`.
pub(super) fn shape(line: &Line) -> Option<String> {
    let (gemm, _) = line.product?;
    let batch = if gemm.batch > 1 { format!("{} × ", gemm.batch) } else { String::new() };
    Some(format!("{batch}{} × {} × {}", gemm.m, gemm.n, gemm.k))
}

/// What tile and grid allow at most, where the sizes are not known.
fn at_most(context: &Context<'_>, line: &Line) -> Option<String> {
    let tile = identity(context, line).tile?;
    let blocks = line.grid.volume();
    // A grid of as many blocks as SMs is that of a persistent kernel: it bounds nothing.
    let elements = blocks.checked_mul(u64::from(tile.m))?.checked_mul(u64::from(tile.n))?;
    let name = context.session.kernel_name(line.kernel);
    (!name.starts_with("nvjet")).then(|| format!("M · N ≤ {elements}"))
}

fn row(context: &Context<'_>, stage: &StageGemms<'_>, line: &Line) -> Vec<Cell> {
    let identity = identity(context, line);
    let size = |value: fn(&Gemm) -> u64| count(line.product.map(|(gemm, _)| value(&gemm)));
    let bounded = line.product.is_none().then(|| at_most(context, line)).flatten();
    let source = match (&line.product, &bounded) {
        (Some((_, product)), _) => Some((product.source.label(), product.source.confidence())),
        (None, Some(_)) => Some(("tile and grid", "low")),
        (None, None) => None,
    };
    let dtype = line.product.map_or(identity.dtype, |(_, product)| dtype(identity, &product));
    let tile = identity.tile.map(|tile| format!("{} × {}", tile.m, tile.n));
    let tiling = &line.tiling;
    let row = Row {
        summary: stage.summary,
        instances: stage.instances,
        total: stage.total,
        kernel: line.kernel,
        shape: shape(line).or(bounded),
        dtype: Some(dtype),
        source,
        sum: &line.sum,
    };
    row.cells(
        context,
        [size(|gemm| gemm.m), size(|gemm| gemm.n), size(|gemm| gemm.k), size(|gemm| gemm.batch)],
        [
            text(tile.as_deref()),
            Cell::maybe(tiling.tile_efficiency),
            count(tiling.splits),
            Cell::maybe(tiling.waves),
            Cell::maybe(tiling.wave_efficiency()),
            line.alignment().map_or(Cell::Missing, Cell::Int),
            text(identity.tensor_cores.map(|used| if used { "yes" } else { "no" })),
            Cell::Text(line.grid.to_string()),
        ],
    )
}

/// Time of the products against their least time; of those that lose most.
pub(super) fn chart(context: &Context<'_>, stages: &[&StageGemms<'_>]) -> Option<Chart> {
    let mut all: Vec<(f64, Bar)> = Vec::new();
    for stage in stages {
        let per = |value: f64| value / stage.instances.max(1) as f64;
        for line in &stage.lines {
            let sum = &line.sum;
            let (Some(lost), Some(roof)) = (sum.recoverable(), sum.least) else { continue };
            let quantization = line.quantization().unwrap_or(0.0);
            let roof = roof.min(sum.time as f64);
            let label = stage.summary.label(context.session, context.facts);
            let bar = Bar {
                label: format!("{label} {}", shape(line).unwrap_or_default()),
                values: vec![per(roof), per(quantization), per(lost - quantization)],
                note: Quantity::new(per(sum.time as f64), Unit::Nanoseconds).to_string(),
            };
            all.push((per(lost), bar));
        }
    }
    // The order of stages and lines decides between equal ones.
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let least = all.first().map_or(0.0, |most| most.0 * LEAST);
    let seen = all.into_iter().take_while(|(lost, _)| *lost >= least);
    let bars: Vec<Bar> = seen.take(BARS).map(|(_, bar)| bar).collect();
    let part = |name: &str, color| Part { name: name.to_owned(), color };
    (!bars.is_empty()).then(|| Chart {
        id: "gemms".to_owned(),
        title: "Matrix products: time against the roofline".to_owned(),
        description: "One bar per stage and size, M × N × K: time per instance of the stage, parted into the least \
                      time that rate and bandwidth allow, what tiles and waves that are not full add, and the rest."
            .to_owned(),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts: vec![
                part("at the roofline", Color::ComputeBound),
                part("tiles and waves not full", Color::Balanced),
                part("above the roofline", Color::LatencyBound),
            ],
            bars,
        }),
    })
}
