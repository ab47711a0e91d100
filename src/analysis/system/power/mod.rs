//! Power and clocks: NVML samples, over the whole sampled period and per stage where they were taken during one.

mod busy;
mod chart;
pub(crate) mod reasons;
pub(crate) mod samples;
mod tables;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View, derived, measured};
use crate::model::{Ns, Session};
use crate::prose;
use samples::{Device, Figures, StageFigures};

/// Power and clocks.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "power", title: "Power and clocks", missing, run };

/// Relative difference up to which the sampled period and the repeats' total time may be one and the same run.
const SAME_PERIOD: f64 = 0.05;

fn missing(session: &Session) -> Option<&'static str> {
    session.device_samples.is_empty().then_some(
        "no power or clock samples in this bundle; sample NVML during the run (nvidia-smi \
         --query-gpu=timestamp,index,power.draw,clocks.sm,temperature.gpu,clocks_event_reasons.active --format=csv -lms 20)",
    )
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let devices = samples::devices(session);
    let stages: Vec<StageFigures> =
        devices.iter().flat_map(|device| samples::of_stages(context, device)).collect();
    let mut findings = Findings {
        blocks: vec![Block::Prose(introduction(context, &devices, &stages))],
        methods: vec![method()],
        ..Findings::default()
    };
    for (number, device) in devices.iter().enumerate().take(chart::MAX_CHARTS) {
        findings.blocks.extend(chart::of_device(context, number, device).map(Block::Chart));
    }
    let power = tables::power(context, &devices, &stages);
    let reasons = tables::throttle_reasons(context, &devices);
    findings.blocks.push(Block::Table(power_view(&stages)));
    if !reasons.rows.is_empty() {
        findings.blocks.push(Block::Table(reasons_view(session, &devices)));
    }
    findings.datasets = vec![power, reasons];
    for device in &devices {
        findings.metrics.extend(device_metrics(session, device));
    }
    for stage in &stages {
        findings.metrics.extend(stage_metrics(session, stage));
    }
    findings
}

/// The pass is named where there are rows of stages.
fn power_view(stages: &[StageFigures]) -> View {
    let mut columns = vec![
        "what",
        "device",
        "samples",
        "duration_ns",
        "power_mean_w",
        "power_p95_w",
        "energy_j",
        "sm_clock_mean_hz",
        "temperature_max_c",
        "throttled_share",
    ];
    if !stages.is_empty() {
        columns.insert(1, "pass");
    }
    View::new("power", "Power, clocks and throttling", &columns, 20)
}

/// The folder of the samples is named where there are several.
fn reasons_view(session: &Session, devices: &[Device]) -> View {
    let mut columns = vec!["reason", "device", "samples", "share", "busy_share", "meaning"];
    let mut folders = devices.iter().map(|device| device.folder(session));
    let first = folders.next();
    if folders.any(|folder| Some(folder) != first) {
        columns.insert(1, "samples_of");
    }
    View::new(
        "throttle_reasons",
        "Reasons for limited clocks over the whole sampled period",
        &columns,
        20,
    )
}

fn introduction(context: &Context<'_>, devices: &[Device], stages: &[StageFigures]) -> Vec<Inline> {
    let mut text = Vec::new();
    for device in devices {
        text.extend(prose![
            "GPU ",
            Quantity::count(u64::from(device.index)),
            device.place(context.session),
            ": ",
            Quantity::count(device.whole.samples),
            " samples over ",
            Quantity::ns(device.whole.duration),
            ". "
        ]);
    }
    if !stages.is_empty() {
        text.push(
            "Samples are counted to a stage where their UTC time lies within its projection."
                .into(),
        );
        return text;
    }
    text.push("No sample lies within a stage of a pass with a known UTC time: ".into());
    match samples::nearest_pass(context, devices) {
        Some((name, 0)) => {
            text.extend(prose!["they lie between the stages of pass ", Inline::Code(name), ". "]);
        }
        Some((name, gap)) => text.extend(prose![
            "the samples were taken ",
            Quantity::ns(gap.abs()),
            if gap > 0 { " before the GPU work of pass " } else { " after the GPU work of pass " },
            Inline::Code(name),
            ", in another run of the workload. "
        ]),
        None => text.push("no pass of this bundle has one. ".into()),
    }
    if let Some((pass, total)) = matching_repeats(context, devices) {
        text.extend(prose![
            "Their period is as long as all repeats of pass ",
            Inline::Code(pass),
            " together (",
            Quantity::ns(total),
            "), so they are likely of that one. "
        ]);
    }
    text.push("The figures below are therefore those of the whole sampled period.".into());
    text
}

/// The un-profiled pass whose repeats last as long together as the samples do.
fn matching_repeats(context: &Context<'_>, devices: &[Device]) -> Option<(String, Ns)> {
    let period = devices.first()?.whole.duration;
    let series = &context.results.baseline().ok()?.series;
    let mut passes: Vec<_> = series.iter().filter(|s| !s.profiled).map(|s| s.pass).collect();
    passes.dedup();
    passes.into_iter().find_map(|pass| {
        let of_pass = series.iter().filter(|series| series.pass == pass);
        let times = of_pass.flat_map(|series| series.repeats.iter().map(|one| one.duration));
        let total = times.fold(0, Ns::saturating_add);
        let same = (period as f64 / total as f64 - 1.0).abs() <= SAME_PERIOD;
        same.then(|| (context.session.text(pass).to_owned(), total))
    })
}

fn device_metrics(session: &Session, device: &Device) -> Vec<Metric> {
    let scope = Scope { gpu: Some(device.index), ..Scope::default() };
    let evidence = device.evidence(session);
    figures_metrics(&device.whole, &scope, "over the whole sampled period", &evidence)
}

fn stage_metrics(session: &Session, stage: &StageFigures) -> Vec<Metric> {
    let scope = Scope {
        pass: Some(stage.pass.clone()),
        stage: Some(stage.stage.clone()),
        gpu: Some(stage.device),
        ..Scope::default()
    };
    let evidence = Evidence {
        artifact: session.text(stage.artifact).to_owned(),
        table: Some("device_samples".to_owned()),
        rows: Some(stage.figures.samples),
    };
    figures_metrics(&stage.figures, &scope, "within the stage's projections", &evidence)
}

fn figures_metrics(
    figures: &Figures,
    scope: &Scope,
    place: &str,
    evidence: &Evidence,
) -> Vec<Metric> {
    let n = figures.samples;
    let measured_ones = [
        ("power_mean", Unit::Watts, figures.power_mean, format!("mean of {n} samples {place}")),
        (
            "power_p95",
            Unit::Watts,
            figures.power_p95,
            format!("95th percentile of {n} samples {place}"),
        ),
        (
            "sm_clock_mean",
            Unit::Hertz,
            figures.sm_clock_mean,
            format!("mean of {n} samples {place}"),
        ),
        (
            "throttled_share",
            Unit::Ratio,
            figures.throttled,
            format!("share of {n} samples {place} with a reason that lowers the clock"),
        ),
    ];
    let mut metrics: Vec<Metric> = measured_ones
        .into_iter()
        .filter_map(|(id, unit, value, basis)| {
            Some(measured(id, scope.clone(), unit, value?, basis))
        })
        .collect();
    if let Some(energy) = figures.energy {
        let basis = format!("{} {place}", figures.energy_basis);
        metrics.push(derived("energy", scope.clone(), Unit::Joules, energy, basis));
    }
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}

fn method() -> Method {
    Method {
        title: "Power and clocks".to_owned(),
        text: prose![
            "Means and percentiles are over samples, not weighted by time. A sample belongs to a stage if its UTC time lies \
             within the projection of a counted instance (UTC time of the pass's zero plus the projection). Energy of the \
             whole period is the trapezoid sum over the samples; energy of a stage is its mean power times the time of its \
             instances that hold samples. A sample counts as throttled if a reason other than gpu_idle, \
             applications_clocks_setting or display_clock_setting is set; reasons are the bits of \
             nvmlClocksEventReasons. NVML averages power over a time of its own, up to a second on some boards."
        ],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
