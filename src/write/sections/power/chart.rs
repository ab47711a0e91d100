//! The time chart of a device: power, SM clock, throttling.

use rooflens_schemas::Unit;

use crate::Context;
use rooflens_analysis::system::power::reasons::lowers_clock;
use rooflens_analysis::system::power::samples::{Device, Sample, folder, power_limit};
use rooflens_document::Chart;
use rooflens_document::chart::{Panel, Plot, Series};
use rooflens_session::{Arrange, Ns};

/// Devices beyond this number have their rows in the tables, but no chart.
pub(super) const MAX_CHARTS: usize = 8;

/// Points of a line; more are averaged in groups of neighbours.
const MAX_POINTS: usize = 1000;

/// Bands of stages that a chart can show legibly.
const MAX_BANDS: usize = 64;

/// A value of a sample.
type Value = fn(&Sample) -> Option<f64>;

/// `number` tells devices apart: several files may hold samples of one GPU. A value that never changes has no panel: the
/// table holds it. Power has one always, with its limit. None if there is no panel.
pub(super) fn of_device(context: &Context<'_>, number: usize, device: &Device) -> Option<Chart> {
    let index = device.index;
    let lines: [(String, Unit, Value); 3] = [
        (words!(context, "power.power"), Unit::Watts, |sample| {
            Some(sample.watts?.0)
        }),
        (words!(context, "power.clock"), Unit::Hertz, |sample| {
            Some(sample.sm_hz?.0)
        }),
        (words!(context, "power.throttled"), Unit::Ratio, |sample| {
            sample
                .reasons
                .map(|mask| f64::from(u8::from(lowers_clock(mask))))
        }),
    ];
    let panels = lines.into_iter().map(|(label, unit, value)| Panel {
        label,
        unit,
        points: points(device, value),
        limit: limit(context, index).filter(|_| unit == Unit::Watts),
    });
    let says_something =
        |panel: &Panel| varies(panel) || panel.unit == Unit::Watts && !panel.points.is_empty();
    let panels: Vec<Panel> = panels.filter(says_something).collect();
    let folder = folder(context.session, device.artifact);
    (!panels.is_empty()).then(|| Chart {
        id: format!("power-{}", number + 1),
        title: title(context, &panels, index, folder),
        description: words!(context, "power.chart_description"),
        plot: Plot::Series(Series {
            panels,
            bands: bands(context, device),
            duration: device.whole.duration.0,
        }),
    })
}

/// Whether a panel's values differ.
fn varies(panel: &Panel) -> bool {
    panel
        .points
        .first()
        .is_some_and(|first| panel.points.iter().any(|point| point.1 != first.1))
}

/// What the panels show: `Power, SM clock and throttling of GPU 0, nsys`.
fn title(context: &Context<'_>, panels: &[Panel], gpu: u32, folder: Option<&str>) -> String {
    let has = |unit| panels.iter().any(|panel| panel.unit == unit);
    let shown = match (has(Unit::Watts), has(Unit::Hertz), has(Unit::Ratio)) {
        (true, true, true) => words!(context, "power.title.power_clock_throttling"),
        (true, true, false) => words!(context, "power.title.power_clock"),
        (true, false, true) => words!(context, "power.title.power_throttling"),
        (true, false, false) => words!(context, "power.title.power"),
        (false, true, true) => words!(context, "power.title.clock_throttling"),
        (false, true, false) => words!(context, "power.title.clock"),
        (false, false, _) => words!(context, "power.title.throttling"),
    };
    words!(
        context,
        "power.title.of_gpu",
        what = shown,
        gpu = gpu.to_string(),
        folder = folder
    )
}

/// The line of a value, averaged over groups of neighbours where there are too many samples.
fn points(device: &Device, value: Value) -> Vec<(i64, f64)> {
    let start = device.start();
    let stated: Vec<(Ns, f64)> = device
        .samples
        .iter()
        .filter_map(|sample| Some((sample.utc.saturating_sub(start), value(sample)?)))
        .collect();
    let group = stated.len().div_ceil(MAX_POINTS).max(1);
    let average = |group: &[(Ns, f64)]| {
        let sum: f64 = group.iter().map(|(_, value)| value).sum();
        (group[group.len() / 2].0.0, sum / group.len() as f64)
    };
    stated.chunks(group).map(average).collect()
}

/// The power limit of the device, with its label.
fn limit(context: &Context<'_>, device: u32) -> Option<(String, f64)> {
    let watts = power_limit(context.session, device)?;
    Some((words!(context, "power.limit", limit = watts), watts.0))
}

/// Outermost stages that ran during the samples, from the chart's zero.
fn bands(context: &Context<'_>, device: &Device) -> Vec<(String, i64, i64)> {
    let session = context.session;
    let mut bands = Vec::new();
    for stage in context
        .facts
        .stages
        .iter()
        .filter(|stage| stage.parent.is_none())
    {
        let Some(origin) = session.passes.utc_origin[stage.pass.index()] else {
            continue;
        };
        for instance in context.facts.instances_of(stage) {
            let Some((start, end)) = instance.projection else {
                continue;
            };
            let shift = origin.saturating_sub(device.start());
            let (start, end) = (start.saturating_add(shift), end.saturating_add(shift));
            let inside = end >= Ns::ZERO && start <= device.whole.duration;
            if inside && device.is_of(session, instance) {
                bands.push((
                    stage.name.clone(),
                    start.max(Ns::ZERO).0,
                    end.min(device.whole.duration).0,
                ));
            }
        }
    }
    bands.arrange_by(|a, b| (a.1, a.2, &a.0).cmp(&(b.1, b.2, &b.0)));
    bands.truncate(MAX_BANDS);
    bands
}
