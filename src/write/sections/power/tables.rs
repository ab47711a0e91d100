//! The data sets `power` and `throttle_reasons`.

use rooflens_schemas::Unit;

use crate::Context;
use rooflens_analysis::system::power::Power;
use rooflens_analysis::system::power::reasons;
use rooflens_analysis::system::power::samples::{ClockLimit, Device, Figures, folder};
use rooflens_document::{Block, Cell, SectionContent, Table, View};
use rooflens_session::Session;
use rooflens_units::Time;

/// Rows of each table on the page.
const SHOWN: usize = 20;

/// A device over the whole period, or a stage on it.
struct Row<'a> {
    what: Cell,
    pass: Option<&'a str>,
    device: u32,
    figures: &'a Figures,
    busy: Option<Time>,
}

/// Adds both data sets, and their views where they have rows.
pub(super) fn add(context: &Context<'_>, power: &Power, content: &mut SectionContent) {
    let session = context.session;
    let devices = power.devices.iter().map(|device| Row {
        what: whole_period(session, device).into(),
        pass: None,
        device: device.index,
        figures: &device.whole,
        busy: device.busy,
    });
    let stages = power.stages.iter().map(|sum| {
        let stage = &context.facts.stages[sum.stage];
        Row {
            what: Cell::Name(stage.name.as_str().into()),
            pass: Some(session.pass_name(stage.pass)),
            device: sum.device,
            figures: &sum.figures,
            busy: None,
        }
    });
    let rows: Vec<Row<'_>> = devices.chain(stages).collect();
    let table = table(context, !power.stages.is_empty());
    content.blocks.push(Block::Table(
        table.view(words!(context, "power.table"), SHOWN),
    ));
    content.datasets.push(table.rows(&rows));
    let limits: Vec<(&Device, &ClockLimit)> = power
        .devices
        .iter()
        .flat_map(|device| device.limits.iter().map(move |limit| (device, limit)))
        .collect();
    if !limits.is_empty() {
        content
            .blocks
            .push(Block::Table(limits_view(context, &power.devices)));
    }
    content.datasets.push(limits_table(context).rows(&limits));
}

/// One row a device for the whole period, then one a stage; the pass is named where there are rows of stages.
fn table<'t>(context: &Context<'t>, stages: bool) -> Table<'t, Row<'t>> {
    columns! { context, "power", row: &Row<'_> => {
        text "what" = row.what.clone(), page;
        name "pass" = row.pass, page if stages;
        count "device" = row.device, page;
        count "samples" = row.figures.samples, page;
        time "duration_ns" = row.figures.duration, page;
        Watts "power_mean_w" = row.figures.power_mean, page;
        Watts "power_p95_w" = row.figures.power_p95, page;
        Watts "power_max_w" = row.figures.power_max;
        Joules "energy_j" = row.figures.energy, page;
        Hertz "sm_clock_mean_hz" = row.figures.sm_clock_mean, page;
        Hertz "sm_clock_min_hz" = row.figures.sm_clock_min;
        Celsius "temperature_max_c" = row.figures.temperature_max, page;
        share "throttled_share" = row.figures.throttled, page;
        "busy_ns" = row.busy;
    } }
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
    let _clock = Unit::Hertz;
    columns! { context, "throttle_reasons", (device, limit): &(&Device, &ClockLimit) => {
        name "reason" = reasons::describe(limit.reason).0;
        name "samples_of" = folder(session, device.artifact);
        count "device" = device.index;
        count "samples" = limit.samples;
        share "share" = limit.share;
        text "meaning" = reasons::describe(limit.reason).1;
        text "lowers_clock" = reasons::lowers_clock(limit.reason);
        Hertz "sm_clock_with_hz" = limit.clock.0;
        Hertz "sm_clock_without_hz" = limit.clock.1;
        text "what" = whole_period(session, device);
        share "busy_share" = limit.busy_share;
        Hertz "busy_clock_with_hz" = limit.busy_clock.0;
        Hertz "busy_clock_without_hz" = limit.busy_clock.1;
    } }
}
