//! GPU state: what nvidia-smi told of each GPU at one moment.

use rooflens_schemas::Unit;

use super::{Section, joined};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::system::power::reasons;
use rooflens_analysis::system::snapshot::{Processes, Reading, Remark};
use rooflens_document::{Block, Cell, Inline, Quantity, SectionContent, Table};
use rooflens_session::{GpuSnapshotId, StrId};

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
    let (session, mut findings) = (context.session, SectionContent::default());
    let rows: Vec<GpuSnapshotId> = session.gpu_snapshots.ids().collect();
    let found = context.results.snapshot();
    let Some(found) = found.ok().filter(|_| !session.is_measured()) else {
        return Ok(findings);
    };
    if !found.processes.is_empty() {
        let table = processes(context);
        let caption = words!(context, "snapshot.process_table");
        findings.main.push(Block::Table(table.view(caption, ROWS)));
        findings.datasets.push(table.rows(&found.processes));
    }
    if !found.readings.is_empty() {
        let table = readings(context);
        let caption = words!(context, "snapshot.readings");
        findings.main.push(Block::Table(table.view(caption, ROWS)));
        findings.datasets.push(table.rows(&found.readings));
        return Ok(findings);
    }
    if rows.is_empty() {
        return Ok(findings);
    }
    let (load, clocks) = (load(context), clocks(context));
    let caption = words!(context, "snapshot.load");
    findings.main.push(Block::Table(load.view(caption, ROWS)));
    let caption = words!(context, "snapshot.clocks");
    findings.main.push(Block::Table(clocks.view(caption, ROWS)));
    findings.datasets.push(load.rows(&rows));
    findings.datasets.push(clocks.rows(&rows));
    let slices: Vec<usize> = (0..session.mig_devices.len()).collect();
    if !slices.is_empty() {
        let table = mig(context);
        findings.main.push(Block::Table(
            table.view(words!(context, "snapshot.mig_table"), ROWS),
        ));
        findings.datasets.push(table.rows(&slices));
    }
    Ok(findings)
}

/// The first page: each GPU in a sentence, what stands out, and what a moment does not tell.
pub(super) fn first_page(context: &Context<'_>) -> Vec<Block> {
    let all = &context.session.gpu_snapshots;
    let Ok(found) = context.results.snapshot() else {
        return Vec::new();
    };
    let mut blocks = Vec::new();
    if !found.processes.is_empty() {
        let rows = Quantity::count(context.session.process_samples.len() as u64);
        let commands = Quantity::count(found.processes.len() as u64);
        let said = say!(context, "snapshot.pmon", rows = rows, commands = commands);
        blocks.push(Block::Prose(said));
    }
    let Some(first) = all.ids().next() else {
        return blocks;
    };
    if !found.readings.is_empty() {
        blocks.extend(of_readings(context, &found.readings));
        return blocks;
    }
    let text = |id: Option<StrId>| id.map(|id| context.session.text(id).to_owned());
    let row = all.row(first);
    let intro = say!(
        context,
        "snapshot.intro",
        count = Quantity::count(all.len() as u64),
        time = text(row.time),
        driver = text(row.driver),
        cuda = text(row.cuda),
    );
    let each = all
        .ids()
        .take(SHOWN)
        .map(|gpu| of_gpu(context, gpu))
        .collect();
    let mut blocks = vec![Block::Prose(intro), Block::Bullets(each)];
    let remarks = context
        .results
        .snapshot()
        .map_or(&[][..], |found| &found.remarks);
    let remarks: Vec<_> = remarks
        .iter()
        .map(|(gpu, remark)| say_remark(context, *gpu, remark))
        .collect();
    if !remarks.is_empty() {
        blocks.push(Block::Heading(words!(context, "snapshot.remarks")));
        blocks.push(Block::Bullets(remarks));
    }
    blocks.push(Block::Prose(say!(context, "snapshot.next")));
    blocks
}

/// What was read of each GPU without times: utilization and power, if they are there.
fn of_readings(context: &Context<'_>, readings: &[Reading]) -> Vec<Block> {
    let rows = Quantity::count(context.session.gpu_snapshots.len() as u64);
    let mut said = vec![Block::Prose(say!(context, "snapshot.untimed", rows = rows))];
    let of_gpu = |gpu: &[Reading]| {
        let part = |quantity: &str| gpu.iter().find(|one| one.quantity == quantity);
        let of = |one: &Reading| {
            let value = |number: f64| Quantity::new(number, one.unit);
            let what = context.text.word(one.quantity);
            let (mean, min, max) = (value(one.mean), value(one.min), value(one.max));
            say!(
                context,
                "snapshot.reading",
                what = what,
                mean = mean,
                min = min,
                max = max
            )
        };
        let parts = ["GPU utilization", "power", "memory used"]
            .map(part)
            .into_iter()
            .flatten();
        let parts = joined(parts.map(of), context.text.comma())?;
        let gpu = Inline::strong(format!("GPU {}", gpu.first()?.device));
        Some(say!(
            context,
            "snapshot.gpu",
            gpu = gpu,
            name = None::<&str>,
            parts = parts
        ))
    };
    let gpus = readings.chunk_by(|a, b| (a.artifact, a.device) == (b.artifact, b.device));
    let each: Vec<_> = gpus.filter_map(of_gpu).take(SHOWN).collect();
    said.extend((!each.is_empty()).then_some(Block::Bullets(each)));
    said
}

fn of_gpu(context: &Context<'_>, gpu: GpuSnapshotId) -> Vec<Inline> {
    let row = context.session.gpu_snapshots.row(gpu);
    let bytes = |value: u64| Quantity::new(value as f64, Unit::Bytes);
    let percent = |value: u32| Quantity::ratio(f64::from(value) / 100.0);
    let celsius = |value: u32| Quantity::new(f64::from(value), Unit::Celsius);
    let parts = [
        row.gpu_util
            .map(|share| say!(context, "snapshot.utilization", share = percent(share))),
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
        row.temperature.map(|value| vec![celsius(value).into()]),
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

fn watts(milliwatts: u64) -> Quantity {
    Quantity::new(milliwatts as f64 / 1e3, Unit::Watts)
}

fn say_remark(context: &Context<'_>, gpu: GpuSnapshotId, remark: &Remark) -> Vec<Inline> {
    let gpu = context.session.gpu_snapshots.device[gpu.index()].to_string();
    let watts = |value: f64| Quantity::new(value, Unit::Watts);
    let bytes = |value: u64| Quantity::new(value as f64, Unit::Bytes);
    let celsius = |value: u32| Quantity::new(f64::from(value), Unit::Celsius);
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
        Remark::LoweredLimit(own, product) => say!(
            context,
            "snapshot.lowered_limit",
            gpu = gpu,
            limit = watts(*own),
            product = watts(*product),
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
    let (session, all) = (context.session, &context.session.gpu_snapshots);
    let celsius = |value: u32| f64::from(value);
    let share = |percent: u32| f64::from(percent) / 100.0;
    Table::new(context.text, "gpu_states")
        .count("gpu", |gpu: &GpuSnapshotId| all.device[gpu.index()])
        .on_page()
        .name("name", |gpu| {
            all.name[gpu.index()].map(|name| session.text(name).to_owned())
        })
        .on_page()
        .share("gpu_utilization", move |gpu| {
            all.gpu_util[gpu.index()].map(share)
        })
        .on_page()
        .share("memory_utilization", move |gpu| {
            all.memory_util[gpu.index()].map(share)
        })
        .on_page()
        .bytes("memory_used_bytes", |gpu| all.memory_used[gpu.index()])
        .on_page()
        .bytes("memory_bytes", |gpu| all.memory_total[gpu.index()])
        .on_page()
        .column("power_w", Unit::Watts, |gpu| {
            all.power_mw[gpu.index()].map(|own| own as f64 / 1e3)
        })
        .on_page()
        .column("power_limit_w", Unit::Watts, |gpu| {
            all.power_limit_mw[gpu.index()].map(|own| own as f64 / 1e3)
        })
        .on_page()
        .column("temperature_c", Unit::Celsius, move |gpu| {
            all.temperature[gpu.index()].map(celsius)
        })
        .on_page()
        .count("processes", |gpu| all.processes[gpu.index()])
        .on_page()
        .name("artifact", |gpu| session.text(all.artifact[gpu.index()]))
}

fn clocks<'t>(context: &Context<'t>) -> Table<'t, GpuSnapshotId> {
    let (session, all) = (context.session, &context.session.gpu_snapshots);
    let hertz = |clock: u32| f64::from(clock) * 1e6;
    let link = |generation: Option<u32>, width: Option<u32>| {
        let generation = generation.map(|number| format!("Gen{number}"));
        let parts = generation
            .into_iter()
            .chain(width.map(|lanes| format!("x{lanes}")));
        let parts = parts.collect::<Vec<String>>().join(" ");
        (!parts.is_empty()).then_some(parts)
    };
    Table::new(context.text, "gpu_clocks")
        .count("gpu", |gpu: &GpuSnapshotId| all.device[gpu.index()])
        .on_page()
        .text("performance_state", |gpu| {
            all.performance_state[gpu.index()].map(|state| session.text(state).to_owned())
        })
        .on_page()
        .column("sm_clock_hz", Unit::Hertz, move |gpu| {
            all.sm_mhz[gpu.index()].map(hertz)
        })
        .on_page()
        .column("sm_clock_max_hz", Unit::Hertz, move |gpu| {
            all.sm_max_mhz[gpu.index()].map(hertz)
        })
        .on_page()
        .column("memory_clock_hz", Unit::Hertz, move |gpu| {
            all.memory_mhz[gpu.index()].map(hertz)
        })
        .on_page()
        .column("memory_clock_max_hz", Unit::Hertz, move |gpu| {
            all.memory_max_mhz[gpu.index()].map(hertz)
        })
        .on_page()
        .text("pcie", move |gpu| {
            link(
                all.pcie_generation[gpu.index()],
                all.pcie_width[gpu.index()],
            )
        })
        .on_page()
        .text("pcie_max", move |gpu| {
            link(
                all.pcie_generation_max[gpu.index()],
                all.pcie_width_max[gpu.index()],
            )
        })
        .on_page()
        .text("ecc", |gpu| all.ecc[gpu.index()])
        .on_page()
        .count("ecc_corrected", |gpu| all.ecc_corrected[gpu.index()])
        .count("ecc_uncorrectable", |gpu| {
            all.ecc_uncorrectable[gpu.index()]
        })
        .text("throttle_reasons", |gpu| {
            all.throttle_reasons[gpu.index()].map(active)
        })
        .on_page()
}

/// The names of the active reasons.
fn active(mask: u64) -> String {
    let names = reasons::REASONS
        .iter()
        .filter(|reason| mask & reason.bit != 0);
    let names = names
        .map(|reason| reason.name)
        .collect::<Vec<_>>()
        .join(", ");
    if names.is_empty() {
        "none".to_owned()
    } else {
        names
    }
}

fn readings<'t>(context: &Context<'t>) -> Table<'t, Reading> {
    let (session, text) = (context.session, context.text);
    let value = |of: fn(&Reading) -> f64| {
        move |one: &Reading| Cell::Quantity(Quantity::new(of(one), one.unit))
    };
    Table::new(text, "gpu_readings")
        .count("gpu", |one: &Reading| one.device)
        .on_page()
        .text("quantity", |one| text.word(one.quantity).to_owned())
        .on_page()
        .count("readings", |one| one.count)
        .on_page()
        .text("min", value(|one| one.min))
        .on_page()
        .text("mean", value(|one| one.mean))
        .on_page()
        .text("max", value(|one| one.max))
        .on_page()
        .name("artifact", |one| session.text(one.artifact))
}

fn processes<'t>(context: &Context<'t>) -> Table<'t, Processes> {
    let session = context.session;
    Table::new(context.text, "gpu_processes")
        .count("gpu", |one: &Processes| one.device)
        .on_page()
        .name("command", |one| session.text(one.command))
        .on_page()
        .count("processes", |one| one.processes)
        .on_page()
        .count("rows", |one| one.rows)
        .on_page()
        .share("gpu_utilization", |one| one.util.map(|(mean, _)| mean))
        .on_page()
        .share("gpu_utilization_max", |one| one.util.map(|(_, most)| most))
        .on_page()
        .name("artifact", |one| session.text(one.artifact))
}

fn mig<'t>(context: &Context<'t>) -> Table<'t, usize> {
    let all = &context.session.mig_devices;
    Table::new(context.text, "mig_devices")
        .count("gpu", |row: &usize| all.device[*row])
        .count("gpu_instance", |row| all.gpu_instance[*row])
        .count("compute_instance", |row| all.compute_instance[*row])
        .count("sms", |row| all.sm_count[*row])
        .bytes("memory_used_bytes", |row| all.memory_used[*row])
        .bytes("memory_bytes", |row| all.memory_total[*row])
        .all_on_page()
}
