//! Rooflines of profiled kernels: operations per second against operations per byte, one chart a
//! memory level and pass, and compute against memory throughput.

mod charts;
mod tables;
mod workload;
mod workload_tables;

use rooflens_schemas::Metric;

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::counters::ncu::{BYTES_METHOD, Level, flops};
use rooflens_analysis::counters::roofline::PassRoofline;
use rooflens_analysis::counters::roofline::device::Device;
use rooflens_analysis::counters::roofline::group::Group;
use rooflens_analysis::counters::roofline::roofs::Roofs;
use rooflens_findings::catalogue::EXECUTED_FLOPS;
use rooflens_findings::{Block, Findings, Inline, Method, Quantity, prose};

/// Roofline.
pub(super) static SECTION: Section = Section { id: "roofline", show };

fn show(context: &Context<'_>) -> Known<Findings> {
    let rooflines = context.results.rooflines()?;
    let mut findings = Findings::default();
    if let Ok(workload) = context.results.workload() {
        workload::add(context, workload, &mut findings);
    }
    let mut rows = tables::Rows::default();
    for pass in rooflines {
        add_pass(context, pass, &mut findings);
        findings.blocks.extend(rows.add(context, pass));
        findings.metrics.push(executed_flops(context, pass));
    }
    findings.datasets.extend(rows.datasets(context));
    findings.methods.extend(methods());
    Ok(findings)
}

fn add_pass(context: &Context<'_>, pass: &PassRoofline, findings: &mut Findings) {
    let name = context.session.pass_name(pass.pass);
    findings.blocks.push(Block::Heading(format!("Pass {name}")));
    let text = ceilings_text(context, pass.device.as_ref(), &pass.roofs);
    findings.blocks.push(Block::Prose(text));
    let level = |level| charts::level(name, level, pass).map(Block::Chart);
    findings.blocks.extend(level(Level::Dram));
    findings.blocks.extend(charts::levels(name, pass).map(Block::Chart));
    findings.blocks.extend(charts::normalized(name, pass).map(Block::Chart));
    findings.appendix.extend([Level::L2, Level::L1].into_iter().filter_map(level));
    findings.appendix.extend(charts::alone(name, pass).into_iter().map(Block::Chart));
}

fn ceilings_text(context: &Context<'_>, device: Option<&Device>, roofs: &Roofs) -> Vec<Inline> {
    let mut text = match (&roofs.gpu, device) {
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

fn executed_flops(context: &Context<'_>, pass: &PassRoofline) -> Metric {
    let scope = pass_scope(context.session, pass.pass);
    let counted: Vec<&Group> = pass.groups.iter().filter(|group| group.flops.is_ok()).collect();
    if counted.is_empty() {
        let reason = pass.groups.iter().find_map(|group| group.flops.err()).unwrap_or("no launch");
        return EXECUTED_FLOPS.unavailable(scope, reason);
    }
    let total = counted.iter().filter_map(|group| group.flops.ok()).sum();
    let share: f64 = counted.iter().map(|group| group.share).sum();
    let launches: u64 = counted.iter().map(|group| group.launches).sum();
    let basis = format!(
        "instruction and tensor counters of {launches} profiled launches with {} of the profiled time",
        Quantity::ratio(share)
    );
    EXECUTED_FLOPS.derived(scope, total, basis)
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
#[cfg(test)]
mod workload_tests;
