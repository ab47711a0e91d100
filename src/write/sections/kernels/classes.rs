//! What kind of work each stage is made of.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::{Metric, Scope, Unit};

use super::tables::number;
use crate::Context;
use crate::{class_color, is_same, is_slowest};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::matmul::roof::Bound as ProductBound;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::catalogue::CLASS_SHARE;
use rooflens_document::chart::{Bar, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Dataset, Quantity, SectionContent, Table, View};
use rooflens_session::{Arrange, KernelId, Ns, PassId};
use rooflens_units::{Ratio, Time};

/// Adds class mix and kernels per stage: data sets, charts of the passes shown, metrics.
pub(super) fn add(
    context: &Context<'_>,
    work: &[StageWork],
    shown: &[PassId],
    content: &mut SectionContent,
) {
    for (index, pass) in shown.iter().enumerate() {
        let of_pass: Vec<&StageWork> = work
            .iter()
            .filter(|work| work.pass == *pass && work.total > Ns::ZERO)
            .collect();
        if !of_pass.is_empty() {
            content
                .blocks
                .push(Block::Chart(chart(context, *pass, index, &of_pass)));
        }
    }
    content
        .metrics
        .extend(work.iter().flat_map(|work| shares(context, work)));
    content.datasets.push(class_rows(context, work));
    content.datasets.push(kernel_rows(context, work));
}

fn label(context: &Context<'_>, work: &StageWork) -> String {
    work.summary.label(context.session, context.facts)
}

fn chart(context: &Context<'_>, pass: PassId, index: usize, work: &[&StageWork]) -> Chart {
    let occurs = |class: &KernelClass| {
        work.iter()
            .any(|work| work.occurring().any(|(occurring, ..)| occurring == *class))
    };
    let classes: Vec<KernelClass> = KernelClass::ALL.into_iter().filter(occurs).collect();
    let part = |class: &KernelClass| Part::new(class.label(), class_color(*class));
    let bar = |work: &&StageWork| Bar {
        label: label(context, work),
        values: classes
            .iter()
            .map(|class| work.time(*class).time().0)
            .collect(),
        note: Quantity::ns(work.total).to_string(),
    };
    let largest = |work: &&StageWork| {
        let (class, _, time) = work
            .occurring()
            .max_by_key(|(class, _, time)| (*time, Reverse(*class)))?;
        let share = Quantity::from(work.share(time)?);
        Some(format!(
            "{}: {} {share}",
            label(context, work),
            class.label()
        ))
    };
    let largest: Vec<String> = work.iter().filter_map(largest).collect();
    Chart {
        id: format!("kernel-classes-{}", index + 1),
        title: words!(
            context,
            "kernels.classes.title",
            pass = context.session.pass_name(pass)
        ),
        description: words!(
            context,
            "kernels.classes.description",
            largest = largest.join(context.text.semicolon())
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: classes.iter().map(part).collect(),
            bars: work.iter().map(bar).collect(),
        }),
    }
}

fn shares(context: &Context<'_>, work: &StageWork) -> Vec<Metric> {
    let metric = |(class, operations, time): (KernelClass, u64, Ns)| {
        let class = Some(class.label().to_owned());
        let scope = Scope {
            class,
            ..work.summary.scope(context.session, context.facts)
        };
        let total = work.total;
        let basis = format!("{time} ns in {operations} operations / {total} ns of GPU operations");
        let mut metric = CLASS_SHARE.derived(scope, work.share(time)?.0, basis);
        metric.evidence.push(work.evidence(context.session));
        Some(metric)
    };
    work.occurring().filter_map(metric).collect()
}

/// One row per (pass, stage, class) that occurs, by time descending within a stage.
fn class_rows(context: &Context<'_>, work: &[StageWork]) -> Dataset {
    let mut rows: Vec<(&StageWork, (KernelClass, u64, Ns))> = Vec::new();
    for work in work {
        let mut classes: Vec<_> = work.occurring().collect();
        classes.arrange_by_key(|(class, _, time)| (Reverse(*time), *class));
        rows.extend(classes.into_iter().map(|class| (work, class)));
    }
    Table::<(&StageWork, (KernelClass, u64, Ns))>::new(context.text, "kernel_classes")
        .text("class", |(_, (class, ..))| class.label())
        .text("pass", |(work, _)| context.session.pass_name(work.pass))
        .text("stage", |(work, _)| label(context, work))
        .count("operations", |(_, (_, operations, _))| *operations)
        .time("total_ns", |(_, (.., time))| *time)
        .share("share", |(work, (.., time))| work.share(*time))
        .rows(&rows)
}

/// One row per (pass, stage, kernel), by time descending within a stage.
fn kernel_rows(context: &Context<'_>, work: &[StageWork]) -> Dataset {
    let identity = |kernel: KernelId| &context.facts.identities[kernel.index()];
    let rows = work
        .iter()
        .flat_map(|work| work.kernels.iter().map(move |kernel| (work, kernel)));
    Table::<(&StageWork, &(KernelId, u64, Ns))>::new(context.text, "stage_kernels")
        .name("short", |(_, (kernel, ..))| identity(*kernel).short.clone())
        .count("number", |(_, (kernel, ..))| number(*kernel))
        .text("pass", |(work, _)| context.session.pass_name(work.pass))
        .text("stage", |(work, _)| label(context, work))
        .text("class", |(_, (kernel, ..))| identity(*kernel).class.label())
        .count("count", |(_, (_, launches, _))| *launches)
        .time("total_ns", |(_, (.., time))| *time)
        .share("share", |(work, (.., time))| work.share(*time))
        .text("bound", |(work, (kernel, ..))| {
            bound_of_kernel(context, work, *kernel).0
        })
        .share("of_roofline", |(work, (kernel, ..))| {
            bound_of_kernel(context, work, *kernel).1
        })
        .rows(&rows.collect::<Vec<_>>())
}

/// Share of its roofline from which on a kernel with known sizes is bound by what the roofline says.
pub const NEAR: Ratio = Ratio(0.5);

/// Share of the time of a kernel in launches of one bound class from which on the kernel has it: a launch of one grid says
/// nothing about the others.
const MOST: Ratio = Ratio(0.5);

/// What bounds a kernel of a stage, by its counters or else its sizes, and its roofline time as a share of its time.
pub fn bound_of_kernel(
    context: &Context<'_>,
    work: &StageWork,
    kernel: KernelId,
) -> (Option<&'static str>, Option<Ratio>) {
    let results = context.results;
    let gemms = results.gemm().map_or(&[][..], Vec::as_slice);
    let attention = results.attention().map_or(&[][..], Vec::as_slice);
    let of_stage = |products: &&StageProducts| is_same(&products.summary, &work.summary);
    let (mut classes, mut counted) = (BTreeMap::<&str, Time>::new(), BTreeSet::new());
    let workload = results.workload().ok();
    let stages = workload.map_or(&[][..], |workload| &workload.stages);
    let stage = stages
        .iter()
        .find(|stage| is_same(&stage.summary, &work.summary));
    let works = stage.into_iter().flat_map(|stage| &stage.works);
    for launches in works.filter(|launches| launches.kernel == kernel) {
        let bound = launches.bound(context.options.classifier).label();
        *classes.entry(bound).or_default() += launches.time.time();
        counted.insert(launches.grid);
    }
    let products = gemms.iter().chain(attention).filter(of_stage);
    let groups = products.flat_map(|products| &products.groups);
    let (mut time, mut least) = (Ns::ZERO, Some(Time::ZERO));
    for group in groups.filter(|group| group.kernel == kernel) {
        time += group.sum.time;
        least = least.zip(group.sum.least).map(|(sum, least)| sum + least);
        let of_group = group.sum.time.time();
        let is_near = group
            .sum
            .least
            .is_some_and(|least| least >= of_group * NEAR);
        if let Some(bound) = group
            .sum
            .bound()
            .filter(|_| is_near && !counted.contains(&group.grid))
        {
            let bound = match bound {
                ProductBound::Compute => Bound::Compute,
                ProductBound::Memory => Bound::Dram,
            };
            *classes.entry(bound.label()).or_default() += of_group;
        }
    }
    let share = least.filter(|_| time > Ns::ZERO);
    let share = share.map(|least| Ratio::of(least, time.time()));
    let mut kernels = work.kernels.iter();
    let whole = kernels.find(|(row, ..)| *row == kernel);
    let most = classes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let is_most =
        |(_, time): &(&str, Time)| whole.is_some_and(|(.., whole)| *time >= whole.time() * MOST);
    (most.filter(is_most).map(|(bound, _)| bound), share)
}

/// The kernels with the most time of each stage, in measured iterations alone: set-up is no part of what is to be sped up.
pub(super) fn views(context: &Context<'_>, work: &[StageWork], pass: PassId) -> Vec<View> {
    let (mut skip, mut views, mut names) = (0, Vec::new(), Vec::new());
    let of_pass = work.iter().filter(|stage| stage.pass == pass);
    let outermost = of_pass
        .filter(|stage| stage.summary.is_outermost(context.facts))
        .count();
    let of_kernels = |stage: &StageWork| {
        let of_kernel =
            |(kernel, ..): &(KernelId, u64, Ns)| bound_of_kernel(context, stage, *kernel);
        stage.kernels.iter().map(of_kernel).collect::<Vec<_>>()
    };
    for stage in work {
        let name = stage.summary.stage(context.facts).name.as_str();
        let rows = stage.kernels.len();
        let is_shown = stage.pass == pass
            && rows > 0
            && stage.summary.is_outermost(context.facts)
            && is_slowest(context, &stage.summary)
            && views.len() < SHOWN_STAGES
            && !names.contains(&name);
        if is_shown {
            names.push(name);
            let known = of_kernels(stage);
            let mut columns = vec!["short", "class", "count", "total_ns", "share"];
            if known.iter().any(|(bound, _)| bound.is_some()) {
                columns.push("bound");
            }
            if known.iter().any(|(_, of_roofline)| of_roofline.is_some()) {
                columns.push("of_roofline");
            }
            let few = if outermost > 2 {
                SHOWN_OF_MANY
            } else {
                SHOWN_OF_STAGE
            };
            let shown = rows.min(few);
            let time: Ns = stage.kernels[..shown].iter().map(|(.., time)| *time).sum();
            let caption = words!(
                context,
                "kernels.of_stage",
                stage = label(context, stage),
                shown = shown.to_string(),
                rows = rows.to_string(),
                share = stage.share(time).unwrap_or_default(),
                count = Quantity::count(stage.summary.counted as u64),
            );
            let view = View::new("stage_kernels", caption, &columns, shown);
            views.push(View { skip, ..view });
        }
        skip += rows;
    }
    views
}

/// Stages with a table of kernels in the report, and rows of it.
const SHOWN_STAGES: usize = 3;
const SHOWN_OF_STAGE: usize = 8;
const SHOWN_OF_MANY: usize = 6;
