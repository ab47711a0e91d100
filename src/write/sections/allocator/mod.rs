//! Device memory: what the framework's allocator held, and calls that allocate while a stage runs.

mod chart;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::memory::allocator::calls::StageCalls;
use rooflens_analysis::memory::allocator::states::Figures;
use rooflens_analysis::memory::allocator::{DeviceMemory, MemoryUsed};
use rooflens_analysis::system::power::samples;
use rooflens_document::catalogue::{
    ALLOCATOR_CALLS, MEMORY_FRAGMENTATION, MEMORY_PEAK_ALLOCATED, MEMORY_PEAK_RESERVED,
    MEMORY_PEAK_USED,
};
use rooflens_document::{Block, Inline, Quantity, SectionContent};
use rooflens_session::Session;
use rooflens_units::Ratio;

/// Memory.
pub(super) static SECTION: Section = Section { id: "memory", show };

/// Share of a GPU's memory from which on the report shows how it is used.
const NEARLY_FULL: Ratio = Ratio(0.5);

/// GPUs that have charts and tables of holders; the data sets hold all.
const SHOWN_GPUS: usize = 4;

/// GPUs whose memory in use, as NVML saw it, the text names.
const SHOWN_DEVICES: usize = 8;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let session = context.session;
    let allocator = context.results.allocator()?;
    let mut content = SectionContent::default();
    for (number, memory) in allocator.devices.iter().enumerate().take(SHOWN_GPUS) {
        // The report shows one GPU, if that is nearly full: ranks hold much the same.
        let is_shown = number == 0 && fills(context, memory);
        let blocks = if is_shown {
            &mut content.main
        } else {
            &mut content.blocks
        };
        blocks.push(Block::Prose(summary(context, memory)));
        blocks.push(Block::Chart(chart::chart(
            context,
            &memory.states,
            number + 1,
        )));
    }
    if !allocator.devices.is_empty() {
        tables::add(context, &allocator.devices, &mut content);
    }
    content.metrics.extend(
        allocator
            .devices
            .iter()
            .flat_map(|memory| metrics(context, memory)),
    );
    for (number, used) in allocator.used.iter().enumerate() {
        if number < SHOWN_DEVICES {
            content.blocks.push(Block::Prose(say!(
                context,
                "allocator.used",
                bytes = Quantity::new(used.bytes as f64, Unit::Bytes),
                gpu = Quantity::count(u64::from(used.device)),
            )));
        }
        content.metrics.push(used_metric(session, used));
    }
    tables::add_calls(context, &allocator.calls, &mut content);
    let stages = allocator.calls.stages.iter();
    content
        .metrics
        .extend(stages.map(|stage| calls_metric(context, stage)));
    if !content.blocks.is_empty() {
        content.methods.push(method!(context, "allocator"));
    }
    Ok(content)
}

/// Whether a notable part of a GPU's memory is reserved, as far as its size is known.
fn fills(context: &Context<'_>, memory: &DeviceMemory) -> bool {
    let peak = memory
        .whole
        .peak_reserved
        .unwrap_or(memory.whole.peak.allocated);
    let least = context.session.gpus.memory_bytes.iter().flatten().min();
    least.is_none_or(|least| peak as f64 >= NEARLY_FULL.0 * *least as f64)
}

fn summary(context: &Context<'_>, memory: &DeviceMemory) -> Vec<Inline> {
    let DeviceMemory { states, whole, .. } = memory;
    let peak = whole.peak;
    let bytes = |bytes: i64| Quantity::new(bytes as f64, Unit::Bytes);
    say!(
        context,
        "allocator.summary",
        pass = Inline::code(context.session.pass_name(states.pass)),
        allocated = bytes(peak.allocated),
        gpu = Quantity::count(u64::from(states.device)),
        time = Quantity::ns(peak.time.saturating_sub(states.span().0)),
        stage = memory
            .stage_at_peak
            .map(|stage| Inline::strong(&*context.facts.stages[stage].name)),
        reserved = peak.reserved.map(bytes),
        unused = peak.fragmentation(),
    )
}

/// The metrics of the whole trace, then of each stage.
fn metrics(context: &Context<'_>, memory: &DeviceMemory) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (scope, figures) in memory.figures(context) {
        let place = match scope.stage {
            None => "the whole trace",
            Some(_) => "the ranges of the counted instances",
        };
        metrics.extend(figures_metrics(figures, &scope, place));
    }
    let evidence = memory.evidence(context.session);
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}

fn figures_metrics(figures: &Figures, scope: &Scope, place: &str) -> Vec<Metric> {
    let peak = figures.peak;
    let basis = format!(
        "most bytes allocated after an allocator event within {place}, at {} ns",
        peak.time
    );
    let scope = || scope.clone();
    let mut metrics = vec![MEMORY_PEAK_ALLOCATED.measured(scope(), peak.allocated as f64, basis)];
    let basis = format!("most bytes reserved after an allocator event within {place}");
    let reserved = figures.peak_reserved.map(|bytes| bytes as f64);
    metrics.extend(reserved.map(|bytes| MEMORY_PEAK_RESERVED.measured(scope(), bytes, basis)));
    let basis = format!("1 − allocated ÷ reserved, averaged over the time of {place}");
    let unused = figures.fragmentation;
    metrics.extend(unused.map(|unused| MEMORY_FRAGMENTATION.derived(scope(), unused.0, basis)));
    metrics
}

fn used_metric(session: &Session, used: &MemoryUsed) -> Metric {
    let scope = Scope {
        gpu: Some(used.device),
        ..Scope::default()
    };
    let basis = format!(
        "maximum of {} samples over the whole sampled period",
        used.samples
    );
    let mut metric = MEMORY_PEAK_USED.measured(scope, used.bytes as f64, basis);
    metric
        .evidence
        .push(samples::evidence(session, used.artifact, used.samples));
    metric
}

fn calls_metric(context: &Context<'_>, of: &StageCalls) -> Metric {
    let (session, line) = (context.session, &of.stage);
    let basis = format!(
        "median number of CUDA calls of the process that allocate or free memory within the \
         range of an instance, over {} of {} instances; {} ns in all",
        line.counted, line.instances, of.time
    );
    let scope = line.scope(session, context.facts);
    let mut metric = ALLOCATOR_CALLS.derived(scope, of.calls.0, basis);
    let pass = line.stage(context.facts).pass;
    metric.evidence.push(Evidence {
        rows: None,
        ..session.evidence(pass, "api_calls", 0)
    });
    metric
}
