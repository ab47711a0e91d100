//! Rooflines of profiled kernels: operations per second against operations per byte, one chart a
//! memory level and pass, and compute against memory throughput.

mod charts;
mod page;
mod tables;
mod workload;
mod workload_tables;

use rooflens_schemas::Metric;

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::counters::ncu::{Level, flops};
use rooflens_analysis::counters::roofline::PassRoofline;
use rooflens_analysis::counters::roofline::device::Device;
use rooflens_analysis::counters::roofline::group::Group;
use rooflens_analysis::counters::roofline::roofs::Roofs;
use rooflens_document::catalogue::EXECUTED_FLOPS;
use rooflens_document::{Block, Inline, Quantity, SectionContent};
use rooflens_units::{Flops, Ratio};

/// Roofline.
pub(super) static SECTION: Section = Section {
    id: "roofline",
    show,
};

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let main = page::blocks(context);
    let rooflines = match context.results.rooflines() {
        Ok(rooflines) => rooflines,
        // Without counters there is the roofline of sizes alone.
        Err(_) if !main.is_empty() => return Ok(main.into()),
        Err(missing) => return Err(missing),
    };
    let mut content = SectionContent::from(main);
    if let Ok(workload) = context.results.workload() {
        workload::add(context, workload, &mut content);
    }
    let mut rows = tables::Rows::default();
    for pass in rooflines {
        add_pass(context, pass, &mut content);
        content.blocks.extend(rows.add(context, pass));
        content.metrics.push(executed_flops(context, pass));
    }
    content.datasets.extend(rows.datasets(context));
    let instructions = flops::instructions();
    content.methods.push(method!(context, "roofline"));
    content.methods.push(method!(
        context,
        "executed_flops",
        instructions = instructions
    ));
    Ok(content)
}

fn add_pass(context: &Context<'_>, pass: &PassRoofline, content: &mut SectionContent) {
    let name = context.session.pass_name(pass.pass);
    content.blocks.push(Block::Heading(words!(
        context,
        "roofline.heading",
        pass = name
    )));
    let text = ceilings_text(context, pass.device.as_ref(), &pass.roofs);
    content.blocks.push(Block::Prose(text));
    let level = |level| charts::level(context, name, level, pass).map(Block::Chart);
    content.blocks.extend(level(Level::Dram));
    content
        .blocks
        .extend(charts::levels(context, name, pass).map(Block::Chart));
    content
        .blocks
        .extend(charts::normalized(context, name, pass).map(Block::Chart));
    content
        .appendix
        .extend([Level::L2, Level::L1].into_iter().filter_map(level));
    content.appendix.extend(
        charts::alone(context, name, pass)
            .into_iter()
            .map(Block::Chart),
    );
}

fn ceilings_text(context: &Context<'_>, device: Option<&Device>, roofs: &Roofs) -> Vec<Inline> {
    let missing = roofs.missing();
    let missing = (!missing.is_empty()).then(|| missing.join(context.text.comma()));
    match (&roofs.gpu, device) {
        (Some(gpu), Some(device)) if context.options.gpu.is_none() => say!(
            context,
            "roofline.ceilings",
            gpu = Inline::strong(&gpu.name),
            basis = context.text.line(device.basis, &[]),
            device = Inline::code(&device.name),
            missing = missing,
        ),
        (Some(gpu), _) => {
            let gpu = Inline::strong(&gpu.name);
            say!(
                context,
                "roofline.ceilings_chosen",
                gpu = gpu,
                missing = missing
            )
        }
        (None, Some(device)) => {
            say!(
                context,
                "roofline.ceilings_unspecified",
                device = Inline::code(&device.name)
            )
        }
        (None, None) => say!(context, "roofline.ceilings_unknown"),
    }
}

fn executed_flops(context: &Context<'_>, pass: &PassRoofline) -> Metric {
    let context = &context.in_english();
    let scope = pass_scope(context.session, pass.pass);
    let counted: Vec<&Group> = pass
        .groups
        .iter()
        .filter(|group| group.flops.is_ok())
        .collect();
    if counted.is_empty() {
        let reason = pass.groups.iter().find_map(|group| group.flops.err());
        let reason = reason.unwrap_or("roofline.not_counted.launch");
        return EXECUTED_FLOPS.unavailable(scope, context.text.line(reason, &[]));
    }
    let total: Flops = counted.iter().filter_map(|group| group.flops.ok()).sum();
    let share: Ratio = counted.iter().map(|group| group.share).sum();
    let launches: u64 = counted.iter().map(|group| group.launches).sum();
    let basis = format!(
        "instruction and tensor counters of {launches} profiled launches with {} of the profiled time",
        Quantity::from(share)
    );
    EXECUTED_FLOPS.derived(scope, total.0, basis)
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workload_tests;
