//! What kind of work each stage is made of.

use rooflens_schemas::{Scope, Unit};

use super::rows::{count, number, share};
use super::{evidence, pass_name};
use crate::analysis::Context;
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::facts::OpIndex;
use crate::analysis::engine::stage_stats::{Summary, summaries};
use crate::findings::chart::{Bar, Part, Plot, StackedBars};
use crate::findings::{Block, Cell, Chart, Column, Dataset, Findings, Quantity, derived};
use crate::model::{KernelId, Ns, PassId};

const CLASSES: usize = KernelClass::ALL.len();

/// GPU operations of one stage of one process, added up.
struct StageWork {
    pass: PassId,
    line: Summary,
    /// Name of the stage, with its rank if there are several.
    label: String,
    /// Operations and their time, by class.
    classes: [(u64, Ns); CLASSES],
    /// Launches and their time of the kernels that ran.
    kernels: Vec<(KernelId, u64, Ns)>,
}

impl StageWork {
    fn total(&self) -> Ns {
        self.classes.iter().fold(0, |total: Ns, class| total.saturating_add(class.1))
    }

    fn operations(&self) -> u64 {
        self.classes.iter().map(|class| class.0).sum()
    }

    /// Classes that occur, with operations and time, in report order.
    fn occurring(&self) -> impl Iterator<Item = (KernelClass, u64, Ns)> {
        let classes = KernelClass::ALL.into_iter().zip(self.classes);
        classes.filter(|(_, sum)| sum.0 > 0).map(|(class, sum)| (class, sum.0, sum.1))
    }
}

/// Adds class mix and kernels per stage: data sets, charts of the passes shown, metrics.
pub(super) fn add(context: &Context<'_>, shown: &[PassId], findings: &mut Findings) {
    let work = stage_work(context);
    for (index, pass) in shown.iter().enumerate() {
        let of_pass: Vec<&StageWork> =
            work.iter().filter(|work| work.pass == *pass && work.total() > 0).collect();
        if !of_pass.is_empty() {
            findings.blocks.push(Block::Chart(chart(context, *pass, index, &of_pass)));
        }
    }
    for work in &work {
        add_shares(context, work, findings);
    }
    findings.datasets.push(class_rows(context, &work));
    findings.datasets.push(kernel_rows(context, &work));
}

fn stage_work(context: &Context<'_>) -> Vec<StageWork> {
    let mut by_kernel = vec![(0_u64, 0 as Ns); context.session.kernels.len()];
    let passes = context.session.passes.ids();
    let lines = passes.flat_map(|pass| summaries(context.facts, pass));
    lines.map(|line| work_of(context, line.clone(), &mut by_kernel)).collect()
}

/// Adds up one line. `by_kernel` is all zero, before and after.
fn work_of(context: &Context<'_>, line: Summary, by_kernel: &mut [(u64, Ns)]) -> StageWork {
    let facts = context.facts;
    let mut work = StageWork {
        pass: line.stage(facts).pass,
        label: line.label(context.session, facts),
        line,
        classes: [(0, 0); CLASSES],
        kernels: Vec::new(),
    };
    let mut seen: Vec<KernelId> = Vec::new();
    for op in work.line.counted_instances(facts).flat_map(|instance| &instance.ops) {
        let (class, kernel) = class_of(context, *op);
        let row = *op as usize;
        let duration = facts.ops.end[row].saturating_sub(facts.ops.start[row]);
        add_to(&mut work.classes[class as usize], duration);
        if let Some(kernel) = kernel {
            let sum = &mut by_kernel[kernel.index()];
            if sum.0 == 0 {
                seen.push(kernel);
            }
            add_to(sum, duration);
        }
    }
    for kernel in seen {
        let (launches, total) = std::mem::take(&mut by_kernel[kernel.index()]);
        work.kernels.push((kernel, launches, total));
    }
    work.kernels.sort_unstable_by_key(|(kernel, _, total)| (std::cmp::Reverse(*total), *kernel));
    work
}

fn add_to(sum: &mut (u64, Ns), duration: Ns) {
    sum.0 += 1;
    sum.1 = sum.1.saturating_add(duration);
}

fn class_of(context: &Context<'_>, op: OpIndex) -> (KernelClass, Option<KernelId>) {
    let (session, facts) = (context.session, context.facts);
    (facts.class(session, op as usize), facts.kernel(session, op))
}

fn chart(context: &Context<'_>, pass: PassId, index: usize, work: &[&StageWork]) -> Chart {
    let occurs = |class: &KernelClass| work.iter().any(|work| work.classes[*class as usize].0 > 0);
    let classes: Vec<KernelClass> = KernelClass::ALL.into_iter().filter(occurs).collect();
    let part = |class: &KernelClass| Part { name: class.label().to_owned(), color: class.color() };
    let bar = |work: &&StageWork| Bar {
        label: work.label.clone(),
        values: classes.iter().map(|class| work.classes[*class as usize].1 as f64).collect(),
        note: Quantity::ns(work.total()).to_string(),
    };
    let largest = |work: &&StageWork| {
        let (class, _, time) =
            work.occurring().max_by_key(|(class, _, time)| (*time, std::cmp::Reverse(*class)))?;
        let share = Quantity::ratio(time as f64 / work.total() as f64);
        Some(format!("{}: {} {share}", work.label, class.label()))
    };
    let largest: Vec<String> = work.iter().filter_map(largest).collect();
    Chart {
        id: format!("kernel-classes-{}", index + 1),
        title: format!("Kernel classes per stage, pass {}", pass_name(context.session, pass)),
        description: format!(
            "Share of each kernel class in the GPU operation time of each stage; the largest are {}.",
            largest.join("; ")
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: classes.iter().map(part).collect(),
            bars: work.iter().map(bar).collect(),
        }),
    }
}

fn add_shares(context: &Context<'_>, work: &StageWork, findings: &mut Findings) {
    let total = work.total();
    if total <= 0 {
        return;
    }
    for (class, operations, time) in work.occurring() {
        let scope = Scope {
            class: Some(class.label().to_owned()),
            ..work.line.scope(context.session, context.facts)
        };
        let basis = format!("{time} ns in {operations} operations / {total} ns of GPU operations");
        let share = time as f64 / total as f64;
        let mut metric = derived("class_share", scope, Unit::Ratio, share, basis);
        let rows = work.operations();
        metric.evidence.push(evidence(context.session, work.pass, "launches", rows));
        findings.metrics.push(metric);
    }
}

/// One row per (pass, stage, class) that occurs, by time descending within a stage.
fn class_rows(context: &Context<'_>, work: &[StageWork]) -> Dataset {
    let columns = vec![
        Column::text("class", "Class"),
        Column::text("pass", "Pass"),
        Column::text("stage", "Stage"),
        Column::new("operations", "Operations", Unit::Count),
        Column::new("total_ns", "Total", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
    ];
    let mut rows = Vec::new();
    for work in work {
        let mut classes: Vec<_> = work.occurring().collect();
        classes.sort_by_key(|(class, _, time)| (std::cmp::Reverse(*time), *class));
        rows.extend(classes.into_iter().map(|(class, operations, time)| {
            vec![
                Cell::Text(class.label().to_owned()),
                Cell::Text(pass_name(context.session, work.pass).to_owned()),
                Cell::Text(work.label.clone()),
                count(operations),
                Cell::Int(time),
                share(time, work.total()),
            ]
        }));
    }
    let title = "GPU operation time by stage and class".to_owned();
    Dataset { id: "kernel_classes", title, columns, rows }
}

/// One row per (pass, stage, kernel), by time descending within a stage.
fn kernel_rows(context: &Context<'_>, work: &[StageWork]) -> Dataset {
    let columns = vec![
        Column::text("short", "Kernel"),
        Column::new("number", "No.", Unit::Count),
        Column::text("pass", "Pass"),
        Column::text("stage", "Stage"),
        Column::text("class", "Class"),
        Column::new("count", "Launches", Unit::Count),
        Column::new("total_ns", "Total", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
    ];
    let mut rows = Vec::new();
    for work in work {
        rows.extend(work.kernels.iter().map(|(kernel, launches, time)| {
            let identity = &context.facts.identities[kernel.index()];
            vec![
                Cell::Name(identity.short.clone()),
                Cell::Int(number(*kernel)),
                Cell::Text(pass_name(context.session, work.pass).to_owned()),
                Cell::Text(work.label.clone()),
                Cell::Text(identity.class.label().to_owned()),
                count(*launches),
                Cell::Int(*time),
                share(*time, work.total()),
            ]
        }));
    }
    Dataset { id: "stage_kernels", title: "Kernels by stage".to_owned(), columns, rows }
}
