//! The roofline of the report: kernels by counters or else by their sizes, stages by the FLOPs and bytes of the model; and
//! what bounds the GPU time of each stage.
//!
//! A report without counters had no roofline, though the sizes of GEMMs and attention give their FLOPs and bytes.

use std::collections::BTreeSet;

use rooflens_schemas::Unit;

use super::charts::{ceilings, labels};
use crate::headline::of_baseline;
use crate::kernels::NEAR;
use crate::{Context, class_color, is_same, is_slowest, ncu_kernels};
use rooflens_analysis::counters::ncu::Level;
use rooflens_analysis::counters::roofline::roofs::{Peak, Roof};
use rooflens_analysis::counters::roofline::workload;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::matmul::roof::Bound as ProductBound;
use rooflens_analysis::kernels::matmul::stages::{Group, StageProducts};
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::chart::{Bar, Color, NO_SHARE, Part, Plot, Point, Roofline, StackedBars};
use rooflens_document::{Block, Chart, Inline, Quantity};
use rooflens_session::{Arrange, Dim3, KernelId, Ns};
use rooflens_units::{FlopsPerSecond, Ratio, Time};

/// Kernels of a stage that have a mark, and stages.
const SHOWN: usize = 8;
const SHOWN_STAGES: usize = 5;

/// Share of the GPU time of its stage from which on a kernel has a mark.
const LEAST: Ratio = Ratio(0.005);

/// Share of the time of a kernel from which on a mark is all of it.
const WHOLE: Ratio = Ratio(0.995);

/// Share of the GPU time of all stages from which on a stage is shown.
const LEAST_STAGE: Ratio = Ratio(0.01);

/// The classes in the order of bars.
const CLASSES: [Color; 9] = [
    Color::ComputeBound,
    Color::InstructionBound,
    Color::Balanced,
    Color::MemoryBound,
    Color::DramBound,
    Color::L2Bound,
    Color::L1Bound,
    Color::LatencyBound,
    Color::Other,
];

/// A stage with its marks and classes.
struct Shown<'a> {
    label: String,
    work: &'a StageWork,
    marks: Vec<Point>,
    /// Time by class, in the order of [`CLASSES`].
    classes: [Time; CLASSES.len()],
    /// Time of kernels with marks by counters, and by sizes.
    by_counters: Time,
    by_sizes: Time,
}

/// The blocks of the report; what would bring them, where there are neither counters nor sizes.
pub(super) fn blocks(context: &Context<'_>) -> Vec<Block> {
    let stages: Vec<Shown<'_>> = stages(context);
    if stages.is_empty() {
        return Vec::new();
    }
    let mut blocks: Vec<Block> = Vec::new();
    blocks.extend(chart(context, &stages).map(Block::Chart));
    let is_classified = |stage: &Shown<'_>| stage.not_classified() < stage.total();
    if stages.iter().any(is_classified) {
        blocks.push(Block::Chart(bars(context, &stages)));
        let mut sentences = Vec::new();
        for stage in &stages {
            sentences.push(sentence(context, stage));
        }
        let space = Inline::from(context.text.space());
        blocks.push(Block::Prose(sentences.join(&space)));
    }
    if blocks.is_empty() {
        blocks.push(Block::Missing(words!(context, "roofline.page.missing")));
    }
    blocks
}

/// The outermost stages of the pass that shows the kernels; of several ranks the slowest.
fn stages<'a>(context: &Context<'a>) -> Vec<Shown<'a>> {
    let (session, facts) = (context.session, context.facts);
    let pass = facts.kernel_pass(session);
    let works = context.results.stage_work().map_or(&[][..], Vec::as_slice);
    let mut names = BTreeSet::new();
    let mut stages = Vec::new();
    for work in works {
        let name = &work.summary.stage(facts).name;
        let is_shown = Some(work.pass) == pass
            && work.summary.is_outermost(facts)
            && work.total > Ns::ZERO
            && is_slowest(context, &work.summary)
            && stages.len() < SHOWN_STAGES;
        if is_shown && names.insert(name.clone()) {
            stages.push(shown(context, work));
        }
    }
    let total: Time = stages.iter().map(Shown::total).sum();
    stages.retain(|stage| stage.total() >= total * LEAST_STAGE);
    stages
}

fn shown<'a>(context: &Context<'a>, work: &'a StageWork) -> Shown<'a> {
    let mut stage = Shown {
        label: work.summary.label(context.session, context.facts),
        work,
        marks: Vec::new(),
        classes: Default::default(),
        by_counters: Time::ZERO,
        by_sizes: Time::ZERO,
    };
    let mut counted: BTreeSet<(KernelId, Dim3)> = BTreeSet::new();
    if let Ok(workload) = context.results.workload() {
        let of_stage = |known: &&workload::StageWork| is_same(&known.summary, &work.summary);
        let works = workload.stages.iter().find(of_stage);
        for kernel in works.into_iter().flat_map(|known| &known.works) {
            counted.insert((kernel.kernel, kernel.grid));
            stage.add_counted(context, kernel);
        }
    }
    for products in products(context, &work.summary) {
        for group in &products.groups {
            if !counted.contains(&(group.kernel, group.grid)) {
                stage.add_sized(context, group);
            }
        }
    }
    let known: Time = stage.classes.iter().copied().sum();
    let rest = (stage.total() - known).max(Time::ZERO);
    stage.classes[CLASSES.len() - 1] += rest;
    stage.marks.retain(|point| point.weight >= LEAST);
    stage.marks.arrange_by(|a, b| b.weight.total_cmp(&a.weight));
    stage.marks.truncate(SHOWN);
    stage
}

/// GEMMs and attention of a stage.
fn products<'a>(
    context: &Context<'a>,
    summary: &'a Summary,
) -> impl Iterator<Item = &'a StageProducts> {
    let gemms = context.results.gemm().map_or(&[][..], Vec::as_slice);
    let attention = context.results.attention().map_or(&[][..], Vec::as_slice);
    let stages = gemms.iter().chain(attention);
    stages.filter(move |products| is_same(&products.summary, summary))
}

impl Shown<'_> {
    fn total(&self) -> Time {
        self.work.total.time()
    }

    fn not_classified(&self) -> Time {
        self.classes[CLASSES.len() - 1]
    }

    fn class(&mut self, color: Color) -> &mut Time {
        let place = CLASSES.iter().position(|class| *class == color);
        &mut self.classes[place.unwrap_or(CLASSES.len() - 1)]
    }

    fn add_counted(&mut self, context: &Context<'_>, kernel: &workload::Work) {
        let time = kernel.time.time();
        let bound = kernel.bound(context.options.classifier);
        *self.class(ncu_kernels::color(bound)) += time;
        let rate: Option<FlopsPerSecond> = kernel.per_second(kernel.flops());
        if let (Some(x), Some(y)) = (kernel.intensity(Level::Dram), rate)
            && x.is_positive()
            && y.is_positive()
        {
            self.by_counters += time;
            let weight = Ratio::of(time, self.total());
            self.mark(
                context,
                (kernel.kernel, kernel.grid, None),
                Point {
                    label: String::new(),
                    x: x.0,
                    y: y.0,
                    weight,
                    color: class_color(kernel.class),
                    hollow: false,
                },
            );
        }
    }

    fn add_sized(&mut self, context: &Context<'_>, group: &Group) {
        let (sum, time) = (&group.sum, group.sum.time.time());
        let is_near = sum.least.is_some_and(|least| least >= time * NEAR);
        match sum.bound().filter(|_| is_near) {
            Some(ProductBound::Compute) => *self.class(Color::ComputeBound) += time,
            Some(ProductBound::Memory) => *self.class(Color::DramBound) += time,
            None => {}
        }
        if let (Some(x), Some(y)) = (sum.intensity(), sum.rate()) {
            self.by_sizes += time;
            let class = context.facts.identities[group.kernel.index()].class;
            let sizes = group.gemm().map(|gemm| gemm.to_string().replace(' ', ""));
            // The kernel alone, as tables of kernels have it.
            let weight = Ratio::of(time - sum.helpers.time(), self.total());
            self.mark(
                context,
                (group.kernel, group.grid, sizes),
                Point {
                    label: String::new(),
                    x: x.0,
                    y: y.0,
                    weight,
                    color: class_color(class),
                    hollow: true,
                },
            );
        }
    }

    /// With its grid or sizes where it is a part of the launches of its kernel.
    fn mark(
        &mut self,
        context: &Context<'_>,
        (kernel, grid, sizes): (KernelId, Dim3, Option<String>),
        mut point: Point,
    ) {
        let mut kernels = self.work.kernels.iter();
        let whole = kernels.find(|(row, ..)| *row == kernel);
        let whole = whole.map(|(.., time)| Ratio::of(time.time(), self.total()));
        let is_part = whole.is_some_and(|whole| point.weight < whole * WHOLE);
        let grid = sizes.is_none().then(|| grid.to_string());
        point.label = words!(
            context,
            "roofline.page.mark",
            kernel = context.facts.identities[kernel.index()].short.as_str(),
            stage = self.label.as_str(),
            grid = grid.filter(|_| is_part),
            sizes = sizes.filter(|_| is_part),
        );
        self.marks.push(point);
    }
}

/// The marks under the roofs; none without marks.
fn chart(context: &Context<'_>, stages: &[Shown<'_>]) -> Option<Chart> {
    let marks = stages.iter().flat_map(|stage| stage.marks.clone());
    let mut points: Vec<Point> = marks.collect();
    for stage in stages {
        points.extend(of_model(context, stage));
    }
    if points.is_empty() {
        return None;
    }
    let roofs = roofs(context, stages);
    let (bandwidths, rates): (Vec<Roof>, Vec<Roof>) = roofs
        .into_iter()
        .partition(|roof| !matches!(roof.peak, Peak::Dtype(..)));
    let plot = Roofline {
        bandwidths: ceilings(context, bandwidths),
        rates: ceilings(context, rates),
        points,
        levels: Vec::new(),
    };
    let total: Time = stages.iter().map(Shown::total).sum();
    let share = |of: fn(&Shown<'_>) -> Time| {
        let time: Time = stages.iter().map(of).sum();
        let share = Ratio::of(time, total);
        share.is_positive().then_some(share)
    };
    let has_models = plot.points.iter().any(|point| point.color == Color::Stage);
    Some(Chart {
        id: "roofline-page".to_owned(),
        title: words!(
            context,
            "roofline.page.title",
            counters = share(|stage| stage.by_counters),
            sizes = share(|stage| stage.by_sizes),
            models = has_models.then_some(""),
        ),
        description: words!(
            context,
            "roofline.page.description",
            ceilings = labels(context, &plot)
        ),
        plot: Plot::Roofline(plot),
    })
}

/// The mark of a stage by the FLOPs and bytes of the model.
fn of_model(context: &Context<'_>, stage: &Shown<'_>) -> Option<Point> {
    let utilization = utilization(context, &stage.work.summary)?;
    let work = utilization.work.as_ref().ok()?;
    let bytes = work.bytes.filter(|bytes| bytes.is_positive())?;
    let rate = utilization.rate()?;
    Some(Point {
        label: words!(context, "roofline.page.stage", stage = stage.label.as_str()),
        x: (work.flops / bytes).0,
        y: rate.0,
        weight: NO_SHARE,
        color: Color::Stage,
        hollow: false,
    })
}

/// Utilization of a stage, without a profiler where that is known.
fn utilization<'a>(context: &Context<'a>, summary: &Summary) -> Option<&'a StageUtilization> {
    let utilization = context.results.utilization().ok()?;
    if let Some((series, _)) = of_baseline(context, summary) {
        return utilization.unprofiled(context.session, series);
    }
    let mut stages = utilization.stages.iter();
    stages.find(|stage| stage.timed.is_of(summary))
}

/// The roofs: those of counters, else of the types of products, else of the model's.
fn roofs(context: &Context<'_>, stages: &[Shown<'_>]) -> Vec<Roof> {
    if let Ok(workload) = context.results.workload() {
        let roofs = &workload.roofs;
        let mut all = roofs.bandwidths(Level::Dram);
        all.extend(roofs.rates(&roofs.dtypes));
        if all.len() > 1 {
            return all;
        }
    }
    let mut roofs: Vec<Roof> = Vec::new();
    let mut add = |peak: Peak, measured: bool| {
        let is_known = |known: &Roof| match (&known.peak, &peak) {
            (Peak::Dtype(a, _), Peak::Dtype(b, _)) => a == b,
            (Peak::Memory(_), Peak::Memory(_)) => true,
            _ => false,
        };
        if !roofs.iter().any(is_known) {
            roofs.push(Roof { peak, measured });
        }
    };
    for stage in stages {
        for products in products(context, &stage.work.summary) {
            let known = products
                .groups
                .iter()
                .filter(|group| group.sum.least.is_some());
            for roof in known.filter_map(|group| group.sum.roof) {
                if let (Some(rate), Some(bandwidth)) = (roof.rate, roof.bandwidth) {
                    add(Peak::Memory(bandwidth.value), bandwidth.measured);
                    add(Peak::Dtype(roof.dtype, rate.value), rate.measured);
                }
            }
        }
        let utilization = utilization(context, &stage.work.summary);
        if let Some(Ok(ceiling)) = utilization.map(|utilization| utilization.ceiling.as_ref()) {
            add(Peak::Memory(ceiling.bandwidth), false);
        }
    }
    roofs
}

/// One bar a stage: its GPU time by what bounds it.
fn bars(context: &Context<'_>, stages: &[Shown<'_>]) -> Chart {
    let name = |color: &Color| match color {
        Color::Other => words!(context, "roofline.page.not_classified"),
        color => context.text.word(color.label()).to_owned(),
    };
    let parts = CLASSES.iter().map(|color| Part::new(name(color), *color));
    let bar = |stage: &Shown<'_>| Bar {
        label: stage.label.clone(),
        values: stage.classes.iter().map(|time| time.0).collect(),
        note: Quantity::from(stage.work.per_instance(stage.total())).to_string(),
    };
    let bars = StackedBars {
        unit: Unit::Nanoseconds,
        normalized: true,
        parts: parts.collect(),
        bars: stages.iter().map(bar).collect(),
    };
    Chart {
        id: "bound-classes-page".to_owned(),
        title: words!(context, "roofline.page.classes"),
        description: words!(context, "roofline.page.classes_text"),
        plot: Plot::StackedBars(bars.without_empty_parts()),
    }
}

/// The two largest classes of a stage, and what is not classified.
fn sentence(context: &Context<'_>, stage: &Shown<'_>) -> Vec<Inline> {
    let mut known: Vec<(Color, Time)> = CLASSES.into_iter().zip(stage.classes).collect();
    let (_, rest) = known.pop().unwrap_or((Color::Other, Time::ZERO));
    known.retain(|(_, time)| time.is_positive());
    known.arrange_by(|a, b| b.1.total_cmp(&a.1));
    let share = |time: Time| Ratio::of(time, stage.total());
    let name = |color: Color| context.text.word(color.label());
    let (first, second) = (known.first(), known.get(1));
    say!(
        context,
        "roofline.page.sentence",
        stage = Inline::strong(&stage.label),
        class = first.map(|(color, _)| name(*color)),
        share = first.map(|(_, time)| share(*time)),
        other = second.map(|(color, _)| name(*color)),
        other_share = second.map(|(_, time)| share(*time)),
        rest = (rest.is_positive() && !known.is_empty()).then(|| share(rest)),
        none = known.is_empty().then_some(""),
    )
}
