//! The data sets `power` and `throttle_reasons`.

use rooflens_schemas::Unit;

use crate::Context;
use rooflens_analysis::system::power::Power;
use rooflens_analysis::system::power::reasons;
use rooflens_analysis::system::power::samples::{ClockLimit, Device, Figures, folder};
use rooflens_document::{Block, Cell, SectionContent, Table, View};
use rooflens_session::Session;

/// Rows of each table on the page.
const SHOWN: usize = 20;

/// A device over the whole period, or a stage on it.
struct Row<'a> {
    what: Cell,
    pass: Option<&'a str>,
    device: u32,
    figures: &'a Figures,
    busy: Option<f64>,
}

/// Adds both data sets, and their views where they have rows.
pub(super) fn add(context: &Context<'_>, power: &Power, findings: &mut SectionContent) {
    let session = context.session;
    let devices = power.devices.iter().map(|device| Row {
        what: whole_period(session, device).into(),
        pass: None,
        device: device.index,
        figures: &device.whole,
        busy: device.busy,
    });
    let stages = power.stages.iter().map(|of| {
        let stage = &context.facts.stages[of.stage];
        Row {
            what: Cell::Name(stage.name.clone()),
            pass: Some(session.pass_name(stage.pass)),
            device: of.device,
            figures: &of.figures,
            busy: None,
        }
    });
    let rows: Vec<Row<'_>> = devices.chain(stages).collect();
    let table = table(context, !power.stages.is_empty());
    findings.blocks.push(Block::Table(
        table.view(words!(context, "power.table"), SHOWN),
    ));
    findings.datasets.push(table.rows(&rows));
    let limits: Vec<(&Device, &ClockLimit)> = power
        .devices
        .iter()
        .flat_map(|device| device.limits.iter().map(move |limit| (device, limit)))
        .collect();
    if !limits.is_empty() {
        findings
            .blocks
            .push(Block::Table(limits_view(context, &power.devices)));
    }
    findings.datasets.push(limits_table(context).rows(&limits));
}

/// One row a device for the whole period, then one a stage; the pass is named where there are rows of stages.
fn table<'t>(context: &Context<'t>, stages: bool) -> Table<'t, Row<'t>> {
    Table::new(context.text, "power")
        .text("what", |row: &Row<'_>| row.what.clone())
        .on_page()
        .name("pass", |row| row.pass)
        .on_page_if(stages)
        .count("device", |row| row.device)
        .on_page()
        .count("samples", |row| row.figures.samples)
        .on_page()
        .time("duration_ns", |row| row.figures.duration)
        .on_page()
        .column("power_mean_w", Unit::Watts, |row| row.figures.power_mean)
        .on_page()
        .column("power_p95_w", Unit::Watts, |row| row.figures.power_p95)
        .on_page()
        .column("power_max_w", Unit::Watts, |row| row.figures.power_max)
        .column("energy_j", Unit::Joules, |row| row.figures.energy)
        .on_page()
        .column("sm_clock_mean_hz", Unit::Hertz, |row| {
            row.figures.sm_clock_mean
        })
        .on_page()
        .column("sm_clock_min_hz", Unit::Hertz, |row| {
            row.figures.sm_clock_min
        })
        .column("temperature_max_c", Unit::Celsius, |row| {
            row.figures.temperature_max
        })
        .on_page()
        .share("throttled_share", |row| row.figures.throttled)
        .on_page()
        .time("busy_ns", |row| row.busy)
}

/// `whole period, nsys` for samples in the folder of that pass, and without a folder for a loose file.
fn whole_period(session: &Session, device: &Device) -> String {
    let folder = folder(session, device.artifact);
    folder.map_or("whole period".to_owned(), |folder| {
        format!("whole period, {folder}")
    })
}

/// The folder of the samples is named where there are several.
fn limits_view(context: &Context<'_>, devices: &[Device]) -> View {
    let mut columns = vec![
        "reason",
        "device",
        "samples",
        "share",
        "busy_share",
        "meaning",
    ];
    let mut folders = devices
        .iter()
        .map(|device| folder(context.session, device.artifact));
    let first = folders.next();
    if folders.any(|folder| Some(folder) != first) {
        columns.insert(1, "samples_of");
    }
    View::new(
        "throttle_reasons",
        words!(context, "power.limits"),
        &columns,
        SHOWN,
    )
}

/// One row a reason for a limit of clocks that was set in some sample of a device.
fn limits_table<'t>(context: &Context<'t>) -> Table<'t, (&'t Device, &'t ClockLimit)> {
    let session = context.session;
    let clock = Unit::Hertz;
    Table::new(context.text, "throttle_reasons")
        .name("reason", |(_, limit): &(&Device, &ClockLimit)| {
            reasons::describe(limit.reason).0
        })
        .name("samples_of", |(device, _)| folder(session, device.artifact))
        .count("device", |(device, _)| device.index)
        .count("samples", |(_, limit)| limit.samples)
        .share("share", |(_, limit)| limit.share)
        .text("meaning", |(_, limit)| reasons::describe(limit.reason).1)
        .text("lowers_clock", |(_, limit)| {
            reasons::lowers_clock(limit.reason)
        })
        .column("sm_clock_with_hz", clock, |(_, limit)| limit.clock.0)
        .column("sm_clock_without_hz", clock, |(_, limit)| limit.clock.1)
        .text("what", |(device, _)| whole_period(session, device))
        .share("busy_share", |(_, limit)| limit.busy_share)
        .column("busy_clock_with_hz", clock, |(_, limit)| limit.busy_clock.0)
        .column("busy_clock_without_hz", clock, |(_, limit)| {
            limit.busy_clock.1
        })
}
