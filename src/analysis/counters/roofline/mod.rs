//! Rooflines of profiled kernels: operations per second against operations per byte, one chart a
//! memory level and pass, and compute against memory throughput.

mod ceilings;
mod charts;
mod device;
mod group;
mod tables;
pub(crate) mod workload;
mod workload_tables;

use rooflens_schemas::{Scope, Unit};

use self::ceilings::Roofs;
use self::group::Group;
use crate::analysis::counters::ncu::{BYTES_METHOD, KernelCounters, Level, flops};
use crate::analysis::{Analysis, Context};
use crate::findings::{
    Block, Dataset, Findings, Inline, Method, Quantity, View, derived, unavailable,
};
use crate::model::PassId;
use crate::prose;

/// Roofline.
pub(crate) static ANALYSIS: Analysis = Analysis {
    id: "roofline",
    title: "Roofline",
    missing: crate::analysis::counters::ncu_kernels::no_profiles,
    run,
};

/// Rows of a table in the section; the data sets hold all.
const SHOWN_ROWS: usize = 12;

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    workload::add(context, &mut findings);
    let mut points = tables::points();
    let mut unplotted = tables::unplotted();
    let mut types = tables::types();
    for (pass, kernels) in KernelCounters::by_pass(context.session) {
        let datasets = [&mut points, &mut unplotted, &mut types];
        one_pass(context, pass, &kernels, datasets, &mut findings);
    }
    findings.datasets.extend([points, unplotted, types]);
    findings.methods.extend(methods());
    findings
}

fn one_pass(
    context: &Context<'_>,
    pass: PassId,
    kernels: &[KernelCounters],
    [points, unplotted, types]: [&mut Dataset; 3],
    findings: &mut Findings,
) {
    let session = context.session;
    let name = session.pass_name(pass);
    let groups = group::groups(session, kernels, context.options.classifier);
    let device = device::of_pass(session, pass);
    let dtypes = groups.iter().filter_map(|group| group.dtype);
    let roofs = Roofs::new(context, device.as_ref(), dtypes);
    findings.blocks.push(Block::Heading(format!("Pass {name}")));
    findings.blocks.push(Block::Prose(ceilings_text(context, device.as_ref(), &roofs)));

    let first = (points.rows.len(), unplotted.rows.len());
    let level = |level| charts::level(name, level, kernels, &groups, &roofs).map(Block::Chart);
    findings.blocks.extend(level(Level::Dram));
    findings.blocks.extend(charts::levels(name, kernels, &groups, &roofs).map(Block::Chart));
    findings.blocks.extend(charts::normalized(name, &groups).map(Block::Chart));
    findings.appendix.extend([Level::L2, Level::L1].into_iter().filter_map(level));
    let alone = charts::alone(name, kernels, &groups, &roofs);
    findings.appendix.extend(alone.into_iter().map(Block::Chart));
    for group in &groups {
        sort_in(name, group, &roofs, points, unplotted);
    }
    let skip = types.rows.len();
    types.rows.extend(tables::type_rows(name, kernels, &roofs));
    if types.rows.len() > skip {
        let columns = [
            "dtype",
            "pipe",
            "launches",
            "flop",
            "flop_share",
            "flop_per_second",
            "peak_flop_per_second",
            "measured_flop_per_second",
        ];
        let caption = format!("Pass {name}: executed FLOPs by dtype and pipe");
        let limit = types.rows.len() - skip;
        let view = View { skip, ..View::new(tables::TYPES, caption, &columns, limit) };
        findings.blocks.push(Block::Table(view));
    }
    let counts = (points.rows.len() - first.0, unplotted.rows.len() - first.1);
    findings.blocks.extend(views(name, first, counts));
    findings.metrics.push(executed_flops(name, &groups));
}

/// Puts a group into the table of marks, or says why it has none.
fn sort_in(
    pass: &str,
    group: &Group,
    roofs: &Roofs<'_>,
    points: &mut Dataset,
    unplotted: &mut Dataset,
) {
    let marks = Level::ALL.map(|level| (level, group.point(level)));
    if let [(_, Err(reason)), (_, Err(second)), (_, Err(third))] = &marks
        && reason == second
        && second == third
    {
        unplotted.rows.push(tables::unplotted_row(pass, group, "all", reason));
        return;
    }
    for (level, mark) in &marks {
        if let Err(reason) = mark {
            unplotted.rows.push(tables::unplotted_row(pass, group, level.label(), reason));
        }
    }
    points.rows.push(tables::point_row(pass, group, roofs));
}

fn views(pass: &str, first: (usize, usize), counts: (usize, usize)) -> Vec<Block> {
    let mut blocks = Vec::new();
    if counts.0 > 0 {
        let columns = [
            "kernel",
            "launches",
            "time_share",
            "dtype",
            "flop_per_second",
            "dram_flop_per_byte",
            "attained_share",
            "bound",
        ];
        let limit = counts.0.min(SHOWN_ROWS);
        let caption = format!("Pass {pass}: marks of the rooflines, {limit} of {}", counts.0);
        let mut view = View::new(tables::POINTS, caption, &columns, limit);
        view.skip = first.0;
        blocks.push(Block::Table(view));
    }
    if counts.1 > 0 {
        let columns = ["kernel", "roofline", "launches", "time_share", "reason"];
        let limit = counts.1.min(SHOWN_ROWS);
        let caption = format!("Pass {pass}: kernels without a mark, {limit} of {}", counts.1);
        let mut view = View::new(tables::UNPLOTTED, caption, &columns, limit);
        view.skip = first.1;
        blocks.push(Block::Table(view));
    }
    blocks
}

fn ceilings_text(
    context: &Context<'_>,
    device: Option<&device::Device>,
    roofs: &Roofs<'_>,
) -> Vec<Inline> {
    let mut text = match (roofs.gpu, device) {
        (Some(gpu), Some(device)) if context.options.gpu.is_none() => prose![
            "Specified ceilings: ",
            Inline::Strong(gpu.name.clone()),
            format!(" ({}: ", device.basis),
            Inline::Code(device.name.clone()),
            ").",
        ],
        (Some(gpu), _) => {
            prose!["Specified ceilings: ", Inline::Strong(gpu.name.clone()), ", as chosen."]
        }
        (None, Some(device)) => prose![
            "No specified ceilings: ",
            Inline::Code(device.name.clone()),
            " is not in the hardware table."
        ],
        (None, None) => prose!["No specified ceilings: unknown GPU."],
    };
    let missing = roofs.missing();
    if roofs.gpu.is_some() && !missing.is_empty() {
        text.push(format!(" No specified peak for {}.", missing.join(", ")).into());
    }
    text
}

fn executed_flops(pass: &str, groups: &[Group]) -> rooflens_schemas::Metric {
    let scope = Scope { pass: Some(pass.to_owned()), ..Scope::default() };
    let counted: Vec<&Group> = groups.iter().filter(|group| group.flops.is_ok()).collect();
    if counted.is_empty() {
        let reason = groups.iter().find_map(|group| group.flops.err()).unwrap_or("no launch");
        return unavailable("executed_flops", scope, Unit::Flop, reason);
    }
    let total: f64 = counted.iter().filter_map(|group| group.flops.ok()).sum();
    let share: f64 = counted.iter().map(|group| group.share).sum();
    let launches: u64 = counted.iter().map(|group| group.launches).sum();
    let basis = format!(
        "instruction and tensor counters of {launches} profiled launches with {} of the profiled time",
        Quantity::ratio(share)
    );
    derived("executed_flops", scope, Unit::Flop, total, basis)
}

fn methods() -> Vec<Method> {
    let roofline = format!(
        "Arithmetic intensity = executed FLOPs ÷ bytes at a memory level; launches of one kernel with one grid and \
         block are one mark (sums of FLOPs, bytes and time), its area the share of the pass's profiled time. {BYTES_METHOD} \
         Specified ceilings are dense rates and the memory bandwidth of the hardware table; cache bandwidths are ncu's \
         peak bytes per cycle × clock; dashed ceilings were measured on this GPU. Attained = FLOP/s ÷ min(peak of the \
         main dtype, DRAM intensity × memory bandwidth). Normalized plot: sm__throughput against the highest of DRAM, \
         L2 and L1 throughput, means over time, cut at 100 %."
    );
    vec![
        Method { title: "Roofline".to_owned(), text: vec![roofline.into()] },
        Method { title: "Executed FLOPs".to_owned(), text: vec![flops::describe().into()] },
    ]
}

#[cfg(test)]
mod tests;
