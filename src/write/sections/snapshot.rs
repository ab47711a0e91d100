//! GPU state: what nvidia-smi reports of each GPU at one moment.

use super::{Section, joined};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::system::power::reasons;
use rooflens_analysis::system::snapshot::{Processes, Reading, Remark};
use rooflens_document::{Block, Cell, Inline, Quantity, SectionContent, Table};
use rooflens_session::{GpuSnapshotId, StrId};
use rooflens_units::{Bytes, Celsius, Hertz, Ratio, Watts};

/// In a report of measured work the section would only repeat the environment.
pub(super) static SECTION: Section = Section {
    id: "gpu-state",
    show,
};

/// GPUs that the first page speaks of one by one.
const SHOWN: usize = 8;

/// Rows of a table on the page.
const ROWS: usize = 64;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let (session, mut content) = (context.session, SectionContent::default());
    let rows: Vec<GpuSnapshotId> = session.gpu_snapshots.ids().collect();
    let Ok(snapshot) = context.results.snapshot() else {
        return Ok(content);
    };
    if session.is_measured() {
        return Ok(content);
    }
    if !snapshot.processes.is_empty() {
        let table = processes(context);
        let caption = words!(context, "snapshot.process_table");
        content.main.push(Block::Table(table.view(caption, ROWS)));
        content.datasets.push(table.rows(&snapshot.processes));
    }
    if !snapshot.readings.is_empty() {
        let table = readings(context);
        let caption = words!(context, "snapshot.readings");
        content.main.push(Block::Table(table.view(caption, ROWS)));
        content.datasets.push(table.rows(&snapshot.readings));
        return Ok(content);
    }
    if rows.is_empty() {
        return Ok(content);
    }
    let (load, clocks) = (load(context), clocks(context));
    let caption = words!(context, "snapshot.load");
    content.main.push(Block::Table(load.view(caption, ROWS)));
    let caption = words!(context, "snapshot.clocks");
    content.main.push(Block::Table(clocks.view(caption, ROWS)));
    content.datasets.push(load.rows(&rows));
    content.datasets.push(clocks.rows(&rows));
    let slices: Vec<usize> = (0..session.mig_devices.len()).collect();
    if !slices.is_empty() {
        let table = mig(context);
        content.main.push(Block::Table(
            table.view(words!(context, "snapshot.mig_table"), ROWS),
        ));
        content.datasets.push(table.rows(&slices));
    }
    Ok(content)
}

/// The first page: each GPU in a sentence, what stands out, and what a moment does not tell.
pub(super) fn first_page(context: &Context<'_>) -> Vec<Block> {
    let gpus = &context.session.gpu_snapshots;
    let Ok(snapshot) = context.results.snapshot() else {
        return Vec::new();
    };
    let mut blocks = Vec::new();
    if !snapshot.processes.is_empty() {
        let rows = Quantity::count(context.session.process_samples.len() as u64);
        let commands = Quantity::count(snapshot.processes.len() as u64);
        let text = say!(context, "snapshot.pmon", rows = rows, commands = commands);
        blocks.push(Block::Prose(text));
    }
    let Some(first) = gpus.ids().next() else {
        return blocks;
    };
    if !snapshot.readings.is_empty() {
        blocks.extend(readings_of_gpus(context, &snapshot.readings));
        return blocks;
    }
    let text = |id: Option<StrId>| id.map(|id| context.session.text(id).to_owned());
    let row = gpus.row(first);
    let intro = say!(
        context,
        "snapshot.intro",
        count = Quantity::count(gpus.len() as u64),
        time = text(row.time),
        driver = text(row.driver),
        cuda = text(row.cuda),
    );
    let mut states = Vec::new();
    for gpu in gpus.ids().take(SHOWN) {
        states.push(state(context, gpu));
    }
    let mut blocks = vec![Block::Prose(intro), Block::Bullets(states)];
    let mut remarks = Vec::new();
    for (gpu, remark) in &snapshot.remarks {
        remarks.push(say_remark(context, *gpu, remark));
    }
    if !remarks.is_empty() {
        blocks.push(Block::Heading(words!(context, "snapshot.remarks")));
        blocks.push(Block::Bullets(remarks));
    }
    blocks.push(Block::Prose(say!(context, "snapshot.next")));
    blocks
}

/// The readings of each GPU without times: utilization, power and memory, if they are there.
fn readings_of_gpus(context: &Context<'_>, readings: &[Reading]) -> Vec<Block> {
    let rows = Quantity::count(context.session.gpu_snapshots.len() as u64);
    let mut blocks = vec![Block::Prose(say!(context, "snapshot.untimed", rows = rows))];
    let gpus = readings.chunk_by(|a, b| (a.artifact, a.device) == (b.artifact, b.device));
    let lines: Vec<_> = gpus
        .filter_map(|gpu| readings_of_gpu(context, gpu))
        .take(SHOWN)
        .collect();
    if !lines.is_empty() {
        blocks.push(Block::Bullets(lines));
    }
    blocks
}

fn readings_of_gpu(context: &Context<'_>, readings: &[Reading]) -> Option<Vec<Inline>> {
    let mut parts = Vec::new();
    for quantity in ["GPU utilization", "power", "memory used"] {
        let Some(reading) = readings.iter().find(|reading| reading.quantity == quantity) else {
            continue;
        };
        parts.push(say!(
            context,
            "snapshot.reading",
            what = context.text.word(quantity),
            mean = Quantity::new(reading.mean, reading.unit),
            min = Quantity::new(reading.min, reading.unit),
            max = Quantity::new(reading.max, reading.unit),
        ));
    }
    let parts = joined(parts, context.text.comma())?;
    let gpu = Inline::strong(format!("GPU {}", readings.first()?.device));
    let name = None::<&str>;
    Some(say!(
        context,
        "snapshot.gpu",
        gpu = gpu,
        name = name,
        parts = parts
    ))
}

/// A GPU in a sentence.
fn state(context: &Context<'_>, gpu: GpuSnapshotId) -> Vec<Inline> {
    let row = context.session.gpu_snapshots.row(gpu);
    let parts = [
        row.gpu_util
            .map(|percent| say!(context, "snapshot.utilization", share = share(percent))),
        row.power_mw.map(|power| {
            let limit = row.power_limit_mw.map(watts);
            say!(
                context,
                "snapshot.power",
                power = watts(power),
                limit = limit
            )
        }),
        row.memory_used.map(|used| {
            let total = row.memory_total.map(bytes);
            say!(
                context,
                "snapshot.memory",
                used = bytes(used),
                total = total
            )
        }),
        row.temperature
            .map(|degrees| vec![Quantity::from(celsius(degrees)).into()]),
        row.processes.map(|count| {
            say!(
                context,
                "snapshot.processes",
                count = Quantity::count(u64::from(count))
            )
        }),
    ];
    let parts = joined(parts.into_iter().flatten(), context.text.comma()).unwrap_or_default();
    let name = row
        .name
        .map(|name| Inline::code(context.session.text(name)));
    let gpu = Inline::strong(format!("GPU {}", row.device));
    say!(
        context,
        "snapshot.gpu",
        gpu = gpu,
        name = name,
        parts = parts
    )
}

fn watts(milliwatts: u64) -> Watts {
    Watts(milliwatts as f64 / 1e3)
}

fn share(percent: u32) -> Ratio {
    Ratio(f64::from(percent) / 100.0)
}

fn celsius(degrees: u32) -> Celsius {
    Celsius(f64::from(degrees))
}

fn hertz(megahertz: u32) -> Hertz {
    Hertz(f64::from(megahertz) * 1e6)
}

fn bytes(size: u64) -> Bytes {
    Bytes(size as f64)
}

/// `Gen5 x16`.
fn link(generation: Option<u32>, lanes: Option<u32>) -> Option<String> {
    match (generation, lanes) {
        (Some(generation), Some(lanes)) => Some(format!("Gen{generation} x{lanes}")),
        (Some(generation), None) => Some(format!("Gen{generation}")),
        (None, Some(lanes)) => Some(format!("x{lanes}")),
        (None, None) => None,
    }
}

fn say_remark(context: &Context<'_>, gpu: GpuSnapshotId, remark: &Remark) -> Vec<Inline> {
    let gpu = context.session.gpu_snapshots.device[gpu.index()].to_string();
    match remark {
        Remark::Throttled(names) => {
            let reasons = names.join(context.text.comma());
            say!(
                context,
                "snapshot.throttled",
                gpu = gpu,
                reasons = Inline::code(reasons)
            )
        }
        Remark::Uncorrectable(now, ever) => say!(
            context,
            "snapshot.uncorrectable",
            gpu = gpu,
            now = now.map(Quantity::count),
            ever = ever.map(Quantity::count),
        ),
        Remark::RepairPending => say!(context, "snapshot.repair", gpu = gpu),
        Remark::LoweredLimit(limit, product) => say!(
            context,
            "snapshot.lowered_limit",
            gpu = gpu,
            limit = *limit,
            product = *product,
        ),
        Remark::FullMemory(used, total) => {
            let (used, total) = (bytes(*used), bytes(*total));
            say!(
                context,
                "snapshot.full",
                gpu = gpu,
                used = used,
                total = total
            )
        }
        Remark::Hot(now, slow) => {
            say!(
                context,
                "snapshot.hot",
                gpu = gpu,
                now = celsius(*now),
                slow = celsius(*slow)
            )
        }
        Remark::Mig(0) => say!(context, "snapshot.mig", gpu = gpu),
        Remark::Mig(count) => {
            let count = Quantity::count(*count as u64);
            say!(context, "snapshot.mig_slices", gpu = gpu, count = count)
        }
    }
}

fn load<'t>(context: &Context<'t>) -> Table<'t, GpuSnapshotId> {
    let session = context.session;
    let snapshots = &session.gpu_snapshots;
    columns! { context, "gpu_states", gpu: GpuSnapshotId => {
        let state = snapshots.row(gpu);
        count "gpu" = state.device, page;
        name "name" = state.name.map(|name| session.text(name)), page;
        "gpu_utilization" = state.gpu_util.map(share), page;
        "memory_utilization" = state.memory_util.map(share), page;
        bytes "memory_used_bytes" = state.memory_used, page;
        bytes "memory_bytes" = state.memory_total, page;
        "power_w" = state.power_mw.map(watts), page;
        "power_limit_w" = state.power_limit_mw.map(watts), page;
        "temperature_c" = state.temperature.map(celsius), page;
        count "processes" = state.processes, page;
        name "artifact" = session.text(state.artifact);
    } }
}

fn clocks<'t>(context: &Context<'t>) -> Table<'t, GpuSnapshotId> {
    let session = context.session;
    let snapshots = &session.gpu_snapshots;
    columns! { context, "gpu_clocks", gpu: GpuSnapshotId => {
        let state = snapshots.row(gpu);
        count "gpu" = state.device, page;
        text "performance_state" = state.performance_state.map(|name| session.text(name)), page;
        "sm_clock_hz" = state.sm_mhz.map(hertz), page;
        "sm_clock_max_hz" = state.sm_max_mhz.map(hertz), page;
        "memory_clock_hz" = state.memory_mhz.map(hertz), page;
        "memory_clock_max_hz" = state.memory_max_mhz.map(hertz), page;
        text "pcie" = link(state.pcie_generation, state.pcie_width), page;
        text "pcie_max" = link(state.pcie_generation_max, state.pcie_width_max), page;
        text "ecc" = state.ecc, page;
        count "ecc_corrected" = state.ecc_corrected;
        count "ecc_uncorrectable" = state.ecc_uncorrectable;
        text "throttle_reasons" = state.throttle_reasons.map(active), page;
    } }
}

/// The names of the active reasons.
fn active(mask: u64) -> String {
    let mut names = Vec::new();
    for reason in reasons::REASONS {
        if mask & reason.bit != 0 {
            names.push(reason.name);
        }
    }
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn readings<'t>(context: &Context<'t>) -> Table<'t, Reading> {
    let (session, text) = (context.session, context.text);
    columns! { context, "gpu_readings", reading: &Reading => {
        count "gpu" = reading.device, page;
        text "quantity" = text.word(reading.quantity).to_owned(), page;
        count "readings" = reading.count, page;
        text "min" = quantity(reading, reading.min), page;
        text "mean" = quantity(reading, reading.mean), page;
        text "max" = quantity(reading, reading.max), page;
        name "artifact" = session.text(reading.artifact);
    } }
}

/// A number of a reading with its unit.
fn quantity(reading: &Reading, value: f64) -> Cell {
    Cell::Quantity(Quantity::new(value, reading.unit))
}

fn processes<'t>(context: &Context<'t>) -> Table<'t, Processes> {
    let session = context.session;
    columns! { context, "gpu_processes", command: &Processes => {
        count "gpu" = command.device, page;
        name "command" = session.text(command.command), page;
        count "processes" = command.processes, page;
        count "rows" = command.rows, page;
        share "gpu_utilization" = command.util.map(|(mean, _)| mean), page;
        share "gpu_utilization_max" = command.util.map(|(_, most)| most), page;
        name "artifact" = session.text(command.artifact);
    } }
}

fn mig<'t>(context: &Context<'t>) -> Table<'t, usize> {
    let slices = &context.session.mig_devices;
    columns! { context, "mig_devices", slice: usize => {
        count "gpu" = slices.device[slice], page;
        count "gpu_instance" = slices.gpu_instance[slice], page;
        count "compute_instance" = slices.compute_instance[slice], page;
        count "sms" = slices.sm_count[slice], page;
        bytes "memory_used_bytes" = slices.memory_used[slice], page;
        bytes "memory_bytes" = slices.memory_total[slice], page;
    } }
}
