//! The data sets `power` and `throttle_reasons`.

use rooflens_schemas::Unit;

use super::busy::Busy;
use super::reasons;
use super::samples::{Device, Figures, StageFigures};
use crate::analysis::Context;
use crate::findings::{Cell, Column, Dataset};

/// One row a device for the whole period, then one a stage.
pub(super) fn power(context: &Context<'_>, devices: &[Device], stages: &[StageFigures]) -> Dataset {
    let whole = devices.iter().map(|device| {
        let what = Cell::Text(whole_period(context, device));
        let busy = Busy::of(context, device).time();
        row(what, Cell::Missing, device.index, &device.whole, busy)
    });
    let by_stage = stages.iter().map(|stage| {
        let pass = Cell::Name(stage.pass.clone());
        row(Cell::Name(stage.stage.clone()), pass, stage.device, &stage.figures, None)
    });
    Dataset {
        id: "power",
        title: "Power, clocks and throttling".to_owned(),
        columns: vec![
            Column::text("what", "What"),
            Column::text("pass", "Pass"),
            Column::new("device", "GPU", Unit::Count),
            Column::new("samples", "Samples", Unit::Count),
            Column::new("duration_ns", "Time", Unit::Nanoseconds),
            Column::new("power_mean_w", "Power", Unit::Watts),
            Column::new("power_p95_w", "Power p95", Unit::Watts),
            Column::new("power_max_w", "Power max", Unit::Watts),
            Column::new("energy_j", "Energy", Unit::Joules),
            Column::new("sm_clock_mean_hz", "SM clock", Unit::Hertz),
            Column::new("sm_clock_min_hz", "SM clock min", Unit::Hertz),
            Column::new("temperature_max_c", "Temperature max", Unit::Celsius),
            Column::new("throttled_share", "Throttled", Unit::Ratio),
            Column::new("busy_ns", "GPU busy", Unit::Nanoseconds),
        ],
        rows: whole.chain(by_stage).collect(),
    }
}

/// The sampled period of a device, in words.
fn whole_period(context: &Context<'_>, device: &Device) -> String {
    format!("whole period{}", device.place(context.session))
}

fn row(what: Cell, pass: Cell, device: u32, figures: &Figures, busy: Option<f64>) -> Vec<Cell> {
    vec![
        what,
        pass,
        Cell::Int(i64::from(device)),
        Cell::Int(figures.samples as i64),
        Cell::Int(figures.duration),
        Cell::maybe(figures.power_mean),
        Cell::maybe(figures.power_p95),
        Cell::maybe(figures.power_max),
        Cell::maybe(figures.energy),
        Cell::maybe(figures.sm_clock_mean),
        Cell::maybe(figures.sm_clock_min),
        Cell::maybe(figures.temperature_max),
        Cell::maybe(figures.throttled),
        Cell::maybe(busy),
    ]
}

/// One row a reason for a limit of clocks that was set in some sample of a device. That it was idle is none.
pub(super) fn throttle_reasons(context: &Context<'_>, devices: &[Device]) -> Dataset {
    let session = context.session;
    let mut rows = Vec::new();
    for device in devices {
        let busy = Busy::of(context, device);
        for (bit, count) in device.reason_counts.iter().filter(|(bit, _)| *bit != reasons::IDLE) {
            let (name, meaning) = reasons::describe(*bit);
            let (set, unset) = device.clock_with_and_without(*bit);
            let lowers = if reasons::lowers_clock(*bit) { "yes" } else { "no" };
            rows.push(vec![
                Cell::Name(name),
                device.folder(session).map_or(Cell::Missing, |one| Cell::Name(one.to_owned())),
                Cell::Int(i64::from(device.index)),
                Cell::Int(*count as i64),
                Cell::Float(*count as f64 / device.with_reasons.max(1) as f64),
                Cell::Text(meaning.to_owned()),
                Cell::Text(lowers.to_owned()),
                Cell::maybe(set),
                Cell::maybe(unset),
                Cell::Text(whole_period(context, device)),
                Cell::maybe(busy.share(*bit)),
                Cell::maybe(busy.clock(*bit, true)),
                Cell::maybe(busy.clock(*bit, false)),
            ]);
        }
    }
    Dataset {
        id: "throttle_reasons",
        title: "Throttle reasons".to_owned(),
        columns: vec![
            Column::text("reason", "Reason"),
            Column::text("samples_of", "Samples of"),
            Column::new("device", "GPU", Unit::Count),
            Column::new("samples", "Samples", Unit::Count),
            Column::new("share", "Share of samples", Unit::Ratio),
            Column::text("meaning", "Meaning"),
            Column::text("lowers_clock", "Lowers the clock"),
            Column::new("sm_clock_with_hz", "SM clock with it", Unit::Hertz),
            Column::new("sm_clock_without_hz", "SM clock without it", Unit::Hertz),
            Column::text("what", "What"),
            Column::new("busy_share", "Share of busy time", Unit::Ratio),
            Column::new("busy_clock_with_hz", "Busy SM clock with it", Unit::Hertz),
            Column::new("busy_clock_without_hz", "Busy SM clock without it", Unit::Hertz),
        ],
        rows,
    }
}
