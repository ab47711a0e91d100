//! The data sets of what allocators held, and of the CUDA calls that allocate.

use super::SHOWN_GPUS;
use crate::Context;
use rooflens_analysis::memory::allocator::DeviceMemory;
use rooflens_analysis::memory::allocator::calls::{AllocatorCalls, InstanceCalls};
use rooflens_analysis::memory::allocator::states::{Figures, States};
use rooflens_document::{Block, Cell, Quantity, SectionContent, Table, View};

/// Rows of the tables on pages: stages, makers of live allocations, calls.
const SHOWN_ROWS: usize = 20;
const SHOWN_HOLDERS: usize = 10;
const SHOWN_CALLS: usize = 10;

/// Figures of an allocator over one stage, or over the whole trace.
type Row<'a> = (&'a States, String, &'a Figures);

/// Live allocations of one maker at the peak of an allocator.
struct HolderRow<'a> {
    memory: &'a DeviceMemory,
    operator: Cell,
    range: Cell,
    allocations: Option<u64>,
    bytes: i64,
}

/// Adds a table of all stages, and the holders at the peak of each allocator.
pub(super) fn add(context: &Context<'_>, devices: &[DeviceMemory], content: &mut SectionContent) {
    let session = context.session;
    let mut rows: Vec<Row<'_>> = Vec::new();
    for memory in devices {
        rows.push((&memory.states, "whole trace".to_owned(), &memory.whole));
        rows.extend(memory.stages.iter().map(|(stage, figures)| {
            (&memory.states, stage.label(session, context.facts), figures)
        }));
    }
    let table = table(context);
    let view = table.view(
        words!(context, "allocator.stages"),
        rows.len().min(SHOWN_ROWS),
    );
    content.blocks.push(Block::Table(view));
    content.datasets.push(table.rows(&rows));
    let table = holders_table(context);
    let mut holders: Vec<HolderRow<'_>> = Vec::new();
    for (number, memory) in devices.iter().enumerate() {
        let skip = holders.len();
        holders.extend(holder_rows(memory));
        if number < SHOWN_GPUS {
            let (pass, gpu) = (session.pass_name(memory.states.pass), memory.states.device);
            let caption = words!(
                context,
                "allocator.live",
                gpu = gpu.to_string(),
                pass = pass
            );
            let limit = (holders.len() - skip).min(SHOWN_HOLDERS);
            content.blocks.push(Block::Table(View {
                skip,
                ..table.view(caption, limit)
            }));
        }
    }
    content.datasets.push(table.rows(&holders));
}

/// One row per (allocator, stage); the whole trace first.
fn table<'t>(context: &Context<'t>) -> Table<'t, Row<'t>> {
    let session = context.session;
    columns! { context, "memory", (states, stage, figures): &Row<'_> => {
        let peak = figures.peak;
        text "stage" = stage.as_str(), page;
        text "pass" = session.pass_name(states.pass), page;
        count "device" = states.device, page;
        bytes "peak_allocated_bytes" = peak.allocated, page;
        time "peak_time_ns" = peak.time.saturating_sub(states.span().0);
        bytes "reserved_at_peak_bytes" = peak.reserved;
        bytes "peak_reserved_bytes" = figures.peak_reserved, page;
        share "fragmentation_at_peak" = peak.fragmentation(), page;
        share "fragmentation" = figures.fragmentation, page;
        count "allocations" = figures.allocations, page;
        bytes "allocated_bytes" = figures.bytes, page;
    } }
}

fn holder_rows(memory: &DeviceMemory) -> impl Iterator<Item = HolderRow<'_>> {
    let before = memory.held.before.map(|bytes| HolderRow {
        memory,
        operator: "before the trace began".into(),
        range: Cell::Missing,
        allocations: None,
        bytes,
    });
    let name = |text: &String| Some(Cell::Name(text.as_str().into())).filter(|_| !text.is_empty());
    let holders = memory.held.holders.iter().map(move |holder| HolderRow {
        memory,
        operator: name(&holder.operator).unwrap_or_else(|| "outside of operators".into()),
        range: name(&holder.range).unwrap_or(Cell::Missing),
        allocations: Some(holder.allocations),
        bytes: holder.bytes,
    });
    before.into_iter().chain(holders)
}

fn holders_table<'t>(context: &Context<'t>) -> Table<'t, HolderRow<'t>> {
    let session = context.session;
    columns! { context, "memory_at_peak", row: &HolderRow<'_> => {
        text "operator" = row.operator.clone(), page;
        text "range" = row.range.clone(), page;
        text "pass" = session.pass_name(row.memory.states.pass);
        count "device" = row.memory.states.device;
        count "allocations" = row.allocations, page;
        bytes "bytes" = row.bytes, page;
        share "share" = {
            let peak = row.memory.whole.peak.allocated;
            (peak > 0).then(|| row.bytes as f64 / peak as f64)
        }, page;
    } }
}

/// Adds the calls, and says where there are none in instances that count.
pub(super) fn add_calls(
    context: &Context<'_>,
    calls: &AllocatorCalls,
    content: &mut SectionContent,
) {
    let table = calls_table(context);
    let counted = calls.rows.iter().filter(|row| row.counted).count();
    if counted > 0 {
        let caption = words!(context, "allocator.calls");
        content
            .blocks
            .push(Block::Table(table.view(caption, counted.min(SHOWN_CALLS))));
    } else if calls.left_out() > 0 && !content.blocks.is_empty() {
        let calls = Quantity::count(calls.left_out());
        content.blocks.push(Block::Prose(say!(
            context,
            "allocator.no_calls",
            calls = calls
        )));
    }
    if !calls.rows.is_empty() {
        content.datasets.push(table.rows(&calls.rows));
    }
}

/// One row per (pass, stage, process, instance, call).
fn calls_table<'t>(context: &Context<'t>) -> Table<'t, InstanceCalls> {
    let (session, facts) = (context.session, context.facts);
    columns! { context, "allocator_calls", row: &InstanceCalls => {
        name "call" = session.text(row.name), page;
        text "pass" = session.pass_name(row.stage.stage(facts).pass), page;
        text "stage" = row.stage.label(session, facts), page;
        count "instance" = row.instance, page;
        text "counted" = row.counted;
        count "calls" = row.calls, page;
        time "time_ns" = row.time, page;
    } }
}
