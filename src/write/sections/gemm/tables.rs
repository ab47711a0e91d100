//! The data sets and the chart of GEMMs.

use std::cmp::Reverse;

use rooflens_schemas::Unit;

use super::loss;
use crate::Context;
use crate::products::{Row, figures, heads, whole_name};
use rooflens_analysis::kernels::gemm::LoggedGemm;
use rooflens_analysis::kernels::matmul::stages::{Group, StageProducts};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Chart, Dataset, Quantity};
use rooflens_session::Arrange;
use rooflens_units::{Ratio, Time};

/// Bars of the chart.
const BARS: usize = 12;

/// Loss below which a product has no bar, as a part of the greatest one.
const LEAST: Ratio = Ratio(0.005);

/// One row per (stage, kernel, grid, sizes), in the order of stages and of what is lost, or of time if that is little.
pub(super) fn dataset(context: &Context<'_>, stages: &[StageProducts]) -> Dataset {
    let tiling = |row: &Row<'_>| row.group.tiling;
    let rows = stages.iter().flat_map(|stage| {
        ordered(stage)
            .into_iter()
            .map(move |group| row(context, stage, group))
    });
    let table = heads(context, "gemms");
    columns! { table, row: &Row<'_> => {
        count "m" = Some(row.group.gemm()?.m);
        count "n" = Some(row.group.gemm()?.n);
        count "k" = Some(row.group.gemm()?.k);
        count "batch" = Some(row.group.gemm()?.batch);
        with figures(true) of row;
        text "tile" = row.identity.tile.map(|tile| format!("{} × {}", tile.m, tile.n));
        share "tile_efficiency" = tiling(row).tile_efficiency;
        count "splits" = tiling(row).splits;
        text "waves" = tiling(row).waves;
        share "wave_efficiency" = tiling(row).wave_efficiency();
        bytes "alignment_bytes" = Some(row.group.least_aligned(&row.identity.short)?.1);
        text "tensor_cores" = row.identity.tensor_cores;
        text "grid" = row.group.grid.to_string();
        with whole_name(context) of row;
    } }
    .rows(&rows.collect::<Vec<_>>())
}

/// The products with most time above the roofline first, or those with most time.
fn ordered(stage: &StageProducts) -> Vec<&Group> {
    let mut groups: Vec<&Group> = stage.groups.iter().collect();
    if loss(stage).is_none() {
        groups.arrange_by_key(|group| Reverse(group.sum.time));
    }
    groups
}

fn row<'a>(context: &Context<'a>, stage: &'a StageProducts, group: &'a Group) -> Row<'a> {
    let row = Row::new(
        context,
        stage,
        group,
        group.gemm().map(|gemm| gemm.to_string()),
    );
    match at_most(context, &row).filter(|_| group.product.is_none()) {
        Some(bound) => Row {
            shape: Some(bound),
            source: Some(("tile and grid", "low")),
            ..row
        },
        None => row,
    }
}

/// Blocks of a matrix kernel that fit on an SM at most, all but a few.
const BLOCKS_PER_SM: u64 = 2;

/// What tile and grid allow at most, where the sizes are not known.
fn at_most(context: &Context<'_>, row: &Row<'_>) -> Option<String> {
    let tile = row.identity.tile?;
    let blocks = row.group.grid.volume();
    // A grid that fits on the GPU at once may be that of a persistent kernel: it bounds nothing.
    let gpus = &context.session.gpus;
    let sms = gpus
        .sm_count
        .iter()
        .flatten()
        .max()
        .copied()
        .unwrap_or(u32::MAX);
    if blocks <= u64::from(sms).saturating_mul(BLOCKS_PER_SM) {
        return None;
    }
    let elements = blocks
        .checked_mul(u64::from(tile.m))?
        .checked_mul(u64::from(tile.n))?;
    let name = context.session.kernel_name(row.group.kernel);
    (!name.starts_with("nvjet")).then(|| format!("M · N ≤ {elements}"))
}

/// One row per (log, function, sizes, type, tile).
pub(super) fn logged(context: &Context<'_>, log: &[LoggedGemm]) -> Dataset {
    let session = context.session;
    columns! { context, "gemm_log", row: &LoggedGemm => {
        text "shape" = format!("{} × {} × {}", row.gemm.m, row.gemm.n, row.gemm.k);
        count "m" = row.gemm.m;
        count "n" = row.gemm.n;
        count "k" = row.gemm.k;
        count "batch" = row.gemm.batch;
        text "dtype" = session.text(row.dtype);
        text "tile" = row.tile.map(|(m, n)| format!("{m} × {n}"));
        count "calls" = row.calls;
        "flops" = LoggedGemm::flops(row);
        name "function" = session.text(row.function);
        name "artifact" = session.text(row.artifact);
    } }
    .rows(log)
}

/// Time of the products against their least time; of those that lose most. A single one is none: the text tells it.
pub(super) fn chart(context: &Context<'_>, stages: &[StageProducts]) -> Option<Chart> {
    let mut bars: Vec<(Time, Bar)> = Vec::new();
    for stage in stages.iter().filter(|stage| loss(stage).is_some()) {
        let per = |sum: Time| stage.per_instance(sum);
        for group in &stage.groups {
            let sum = &group.sum;
            let (Some(lost), Some(roof)) = (sum.recoverable(), sum.least) else {
                continue;
            };
            let quantization = group.quantization().unwrap_or_default();
            let roof = roof.min(sum.time.time());
            let label = stage.summary.label(context.session, context.facts);
            let bar = Bar {
                label: format!(
                    "{label} {}",
                    group
                        .gemm()
                        .map(|gemm| gemm.to_string())
                        .unwrap_or_default()
                ),
                values: [roof, quantization, lost - quantization]
                    .map(|time| per(time).0)
                    .to_vec(),
                note: Quantity::from(per(sum.time.time())).to_string(),
            };
            bars.push((per(lost), bar));
        }
    }
    // The order of stages and lines decides between equal ones.
    bars.arrange_by(|a, b| b.0.total_cmp(&a.0));
    let least = bars.first().map_or(Time::ZERO, |most| most.0 * LEAST);
    let seen = bars.into_iter().take_while(|(lost, _)| *lost >= least);
    let bars: Vec<Bar> = seen.take(BARS).map(|(_, bar)| bar).collect();
    let most = stages
        .iter()
        .filter_map(|stage| Some((stage.per_instance(loss(stage)?), stage)));
    let (lost, stage) = most.rev().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (bars.len() > 1).then(|| Chart {
        id: "gemms".to_owned(),
        title: words!(
            context,
            "gemm.chart",
            stage = stage.summary.label(context.session, context.facts),
            lost = lost,
            time = stage.per_instance(stage.time.time()),
        ),
        description: words!(context, "gemm.chart_description"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts: vec![
                Part::new(words!(context, "gemm.at_roofline"), Color::ComputeBound),
                Part::new(words!(context, "gemm.not_full"), Color::Balanced),
                Part::new(words!(context, "gemm.above_roofline"), Color::LatencyBound),
            ],
            bars,
        }),
    })
}
