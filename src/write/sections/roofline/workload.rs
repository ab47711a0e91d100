//! The roofline of the whole workload: counters of profiled launches, spread over the launches of the timeline
//! that they represent.

use rooflens_schemas::{Metric, Unit};

use super::charts::{labels, largest, slug, told_apart, under};
use super::workload_tables as tables;
use crate::{Context, class_color, is_same, why_unknown};
use rooflens_analysis::counters::ncu::Level;
use rooflens_analysis::counters::represent::matching::{ENOUGH, WHOLE};
use rooflens_analysis::counters::roofline::roofs::Roofs;
use rooflens_analysis::counters::roofline::workload::{
    Hfu, Lack, StageWork, Totals, Work, Workload,
};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::matmul::Gemm;
use rooflens_analysis::kernels::matmul::stages::Group;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu;
use rooflens_document::catalogue::{DRAM_BYTES, HFU, PROFILED_DRAM_SHARE, PROFILED_SHARE};
use rooflens_document::chart::{Color, Plot, Point};
use rooflens_document::{Block, Chart, Quantity, SectionContent};
use rooflens_units::{Flops, FlopsPerSecond, Ratio, Time};

/// Adds the workload's rooflines, tables and metrics, if something of it was profiled.
pub(super) fn add(context: &Context<'_>, workload: &Workload, content: &mut SectionContent) {
    let (stages, phases) = (workload.profiled(), workload.phases(context.facts));
    if stages.is_empty() {
        return;
    }
    let (stage_rows, of_stages) = tables::stages(context, stages);
    let (kernels, of_kernels) = tables::kernels(context, &phases);
    let (bounds, of_bounds) = tables::bounds(context, &phases);
    content
        .blocks
        .push(Block::Heading(words!(context, "workload.heading")));
    let least = Quantity::from(WHOLE);
    content.blocks.push(Block::Prose(say!(
        context,
        "workload.introduction",
        least = least
    )));
    content
        .blocks
        .extend(class_chart(context, &phases, &workload.roofs).map(Block::Chart));
    for stage in phases
        .iter()
        .copied()
        .filter(|stage| stage.covered >= ENOUGH)
    {
        let chart = kernel_chart(context, stage, &workload.roofs);
        content.blocks.extend(chart.map(Block::Chart));
    }
    content.blocks.extend([of_stages, of_kernels, of_bounds]);
    for stage in stages {
        content
            .metrics
            .extend(metrics(context, stage, &workload.roofs));
    }
    let classes = tables::classes(context, &phases);
    content
        .datasets
        .extend([stage_rows, kernels, classes, bounds]);
    let whole = Quantity::from(WHOLE).to_string();
    content
        .methods
        .push(method!(context, "workload", whole = whole));
}

/// A chart of marks under the roofs; none without marks.
fn chart(
    context: &Context<'_>,
    roofs: &Roofs,
    id: String,
    (title, marks): (String, String),
    points: Vec<Point>,
) -> Option<Chart> {
    let plot = under(context, roofs, Level::Dram, points);
    let ceilings = labels(context, &plot);
    let description = words!(
        context,
        "workload.chart.description",
        marks = marks,
        ceilings = ceilings
    );
    let has_points = !plot.points.is_empty();
    has_points.then_some(Chart {
        id,
        title,
        description,
        plot: Plot::Roofline(plot),
    })
}

/// The chart of stages and classes that were profiled as a whole.
fn class_chart(context: &Context<'_>, phases: &[&StageWork], roofs: &Roofs) -> Option<Chart> {
    let whole = phases.iter().filter(|stage| stage.covered >= WHOLE);
    let points = whole.flat_map(|stage| class_points(context, stage, &label(context, stage)));
    let title = words!(context, "workload.chart.stages");
    let marks = words!(context, "workload.chart.stages_marks");
    chart(
        context,
        roofs,
        "roofline-workload".to_owned(),
        (title, marks),
        points.collect(),
    )
}

/// The chart of the kernels of a stage.
fn kernel_chart(context: &Context<'_>, stage: &StageWork, roofs: &Roofs) -> Option<Chart> {
    let points = kernel_points(context, stage);
    let label = label(context, stage);
    let rate = |point: &Point| Quantity::new(point.y, Unit::FlopPerSecond);
    let largest = largest(&points)?;
    let title = words!(
        context,
        "workload.chart.kernels",
        stage = label.as_str(),
        kernel = largest.label.as_str(),
        of_time = largest.weight,
        rate = rate(largest),
    );
    let share: Ratio = points.iter().map(|point| point.weight).sum();
    let marks = words!(context, "workload.chart.kernels_marks", share = share);
    let id = format!("roofline-workload-{}", slug(&label));
    chart(context, roofs, id, (title, marks), points)
}

fn label(context: &Context<'_>, stage: &StageWork) -> String {
    stage.summary.label(context.session, context.facts)
}

/// The marks of kernels, with their sizes or else mean durations where several have one name.
fn kernel_points(context: &Context<'_>, stage: &StageWork) -> Vec<Point> {
    let mark = |work| Some((work, kernel_point(context, stage, work)?));
    let marks: Vec<(&Work, Point)> = stage.works.iter().filter_map(mark).collect();
    told_apart(marks, |work, kernel| match gemm(context, stage, work) {
        Some(gemm) => {
            let size = gemm.to_string();
            words!(
                context,
                "workload.chart.of_size",
                kernel = kernel,
                size = size
            )
        }
        None => {
            let time = work.time.time().0 / work.launches.max(1) as f64;
            let time = Quantity::new(time, Unit::Nanoseconds);
            words!(
                context,
                "workload.chart.of_time",
                kernel = kernel,
                time = time
            )
        }
    })
}

/// The sizes of the GEMM of these launches, if all GEMMs of their kernel and grid have the same.
fn gemm(context: &Context<'_>, stage: &StageWork, work: &Work) -> Option<Gemm> {
    let gemms = context.results.gemm().ok()?;
    let products = gemms
        .iter()
        .find(|products| is_same(&products.summary, &stage.summary))?;
    let same = |group: &&Group| (group.kernel, group.grid) == (work.kernel, work.grid);
    let mut sizes = products.groups.iter().filter(same).map(Group::gemm);
    let first = sizes.next()??;
    sizes.all(|size| size == Some(first)).then_some(first)
}

fn kernel_point(context: &Context<'_>, stage: &StageWork, work: &Work) -> Option<Point> {
    let x = work.intensity(Level::Dram)?;
    let y: FlopsPerSecond = work.per_second(work.flops())?;
    let label = context.facts.identities[work.kernel.index()].short.clone();
    let weight = Ratio::of(work.time.time(), stage.time.time());
    x.is_positive().then(|| Point {
        label,
        x: x.0,
        y: y.0,
        weight,
        color: class_color(work.class),
        hollow: false,
    })
}

/// A mark for each class of a stage, and one for the stage.
fn class_points(context: &Context<'_>, stage: &StageWork, label: &str) -> Vec<Point> {
    let point = |totals: &Totals, name: &str, weight: Ratio, color| {
        let (x, y) = totals.mark()?;
        Some(Point {
            label: format!("{label} · {name}"),
            x: x.0,
            y: y.0,
            weight,
            color,
            hollow: false,
        })
    };
    let of_class = |class: KernelClass| {
        let totals = Totals::of(tables::of_class(stage, class));
        point(
            &totals,
            class.label(),
            Ratio(totals.time / stage.time.time()),
            class_color(class),
        )
    };
    let flops = stage.totals.all_flops().unwrap_or_default();
    let name = words!(context, "workload.chart.whole_stage");
    let whole = point(&stage.totals, &name, stage.covered, Color::Stage);
    let rate: FlopsPerSecond = stage.per_second(flops);
    let whole = whole.map(|point| Point { y: rate.0, ..point });
    KernelClass::ALL
        .into_iter()
        .filter_map(of_class)
        .chain(whole)
        .collect()
}

/// Coverage, executed operations and bytes of a stage.
fn metrics(context: &Context<'_>, stage: &StageWork, roofs: &Roofs) -> [Metric; 4] {
    let context = &context.in_english();
    let scope = stage.summary.scope(context.session, context.facts);
    let basis = format!(
        "{} of {} of GPU operations in {} counted instances",
        Quantity::from(stage.totals.time),
        Quantity::new(stage.time.time().0, Unit::Nanoseconds),
        stage.summary.counted
    );
    let lacks = |lack| reason(context, lack);
    let hfu = mfu::hfu(context, stage).map(|hfu| (hfu.share.0, hfu_basis(stage, hfu)));
    let hfu = hfu.map_err(lacks);
    let share = stage
        .dram_share
        .map(|share| (share.0, dram_basis(stage, roofs)))
        .map_err(lacks);
    let bytes = stage.dram_bytes().map_err(lacks).map(|bytes| {
        let (low, high) = stage.totals.dram_range;
        let bytes_of = |sum| Quantity::from(stage.per_instance(sum));
        let basis = format!(
            "per instance, {} to {} by the least and the most of several profiled launches; {}{}",
            bytes_of(low),
            bytes_of(high),
            matched(stage, stage.totals.dram_time),
            caches(stage)
        );
        (stage.per_instance(bytes).0, basis)
    });
    [
        PROFILED_SHARE.derived(scope.clone(), stage.covered.0, basis),
        HFU.known(scope.clone(), hfu),
        DRAM_BYTES.known(scope.clone(), bytes),
        PROFILED_DRAM_SHARE.known(scope, share),
    ]
}

fn reason(context: &Context<'_>, lack: Lack) -> String {
    match lack {
        Lack::FewFlops(share) => {
            words!(
                context,
                "workload.few_flops",
                covered = share,
                whole = WHOLE
            )
        }
        Lack::FewBytes(share) => {
            words!(
                context,
                "workload.few_bytes",
                covered = share,
                whole = WHOLE
            )
        }
        Lack::NoPeak => words!(context, "workload.no_peak"),
        Lack::NoFlops => words!(context, "workload.no_flops"),
        Lack::NoBytes => words!(context, "workload.no_bytes"),
        Lack::BelowModel(executed, model) => {
            words!(
                context,
                "workload.below_model",
                executed = executed,
                model = model
            )
        }
        Lack::AbovePeak(share) => why_unknown(context.text, &Unavailable::AbovePeak(share)),
    }
}

fn hfu_basis(stage: &StageWork, hfu: &Hfu) -> String {
    let part = |(dtype, flops, peak): &(&str, Flops, FlopsPerSecond)| {
        let flops = Quantity::from(*flops);
        format!("{flops} {dtype} / {}", Quantity::from(*peak))
    };
    let parts: Vec<String> = hfu.parts.iter().map(part).collect();
    let matched = matched(stage, stage.totals.flops_time);
    let mut basis = format!("({}) / {}; {matched}", parts.join(" + "), time(stage));
    if !hfu.left_out.is_empty() {
        basis += &format!("; without {}, which has no peak", hfu.left_out.join(", "));
    }
    basis
}

fn dram_basis(stage: &StageWork, roofs: &Roofs) -> String {
    let bytes = stage.per_instance(stage.totals.bytes.dram.unwrap_or_default());
    let bytes = Quantity::from(bytes);
    let bandwidth = roofs.gpu.as_ref().map(|gpu| gpu.memory_bandwidth);
    let bandwidth = Quantity::from(bandwidth.unwrap_or_default());
    let matched = matched(stage, stage.totals.dram_time);
    format!(
        "{bytes} / ({} × {bandwidth}); {matched}{}",
        time(stage),
        caches(stage)
    )
}

fn time(stage: &StageWork) -> String {
    let time = Quantity::from(stage.summary.time);
    match stage.gpus {
        1 => format!("stage time {time}"),
        gpus => format!("(stage time {time} × {gpus} GPUs)"),
    }
}

fn matched(stage: &StageWork, time: Time) -> String {
    let covered = Ratio(time / stage.time.time());
    let rest = if covered < Ratio(0.9995) {
        ", the rest not counted"
    } else {
        ""
    };
    let share = Quantity::from(covered);
    format!("counters of profiled launches that stand for {share} of the GPU time{rest}")
}

/// What flushed caches mean for bytes.
const fn caches(stage: &StageWork) -> &'static str {
    if stage.flushed {
        "; caches were flushed before each profiled launch, so that what its predecessor left in L2 counts as read"
    } else {
        ""
    }
}
