//! Power and clocks.

mod chart;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::{Evidence, Metric, Scope};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::system::power::Power;
use rooflens_analysis::system::power::samples::{Device, Figures, StageFigures, evidence, folder};
use rooflens_findings::catalogue::{ENERGY, POWER_MEAN, POWER_P95, SM_CLOCK_MEAN, THROTTLED_SHARE};
use rooflens_findings::{Block, Findings, Inline, Method, Quantity, prose};
use rooflens_model::Session;

/// Power and clocks.
pub(super) static SECTION: Section = Section { id: "power", show };

fn show(context: &Context<'_>) -> Known<Findings> {
    let power = context.results.power()?;
    let mut findings = Findings {
        blocks: vec![Block::Prose(introduction(context, power))],
        methods: vec![method()],
        ..Findings::default()
    };
    for (number, device) in power.devices.iter().enumerate().take(chart::MAX_CHARTS) {
        findings.blocks.extend(chart::of_device(context, number, device).map(Block::Chart));
    }
    tables::add(context, power, &mut findings);
    let devices = power.devices.iter().map(|device| device_metrics(context.session, device));
    let stages = power.stages.iter().map(|stage| stage_metrics(context, stage));
    findings.metrics = devices.chain(stages).flatten().collect();
    Ok(findings)
}

/// `, nsys` for samples in the folder of that pass, and nothing for a loose file.
fn place(session: &Session, device: &Device) -> String {
    folder(session, device.artifact).map_or(String::new(), |folder| format!(", {folder}"))
}

fn introduction(context: &Context<'_>, power: &Power) -> Vec<Inline> {
    let session = context.session;
    let mut text = Vec::new();
    for device in &power.devices {
        text.extend(prose![
            "GPU ",
            Quantity::count(u64::from(device.index)),
            place(session, device),
            ": ",
            Quantity::count(device.whole.samples),
            " samples over ",
            Quantity::ns(device.whole.duration),
            ". "
        ]);
    }
    if !power.stages.is_empty() {
        text.push(
            "Samples are counted to a stage where their UTC time lies within its projection."
                .into(),
        );
        return text;
    }
    text.push("No sample lies within a stage of a pass with a known UTC time: ".into());
    let code = |name: &str| Inline::Code(name.to_owned());
    match power.nearest.map(|(pass, gap)| (code(session.pass_name(pass)), gap)) {
        Some((pass, 0)) => {
            text.extend(prose!["they lie between the stages of pass ", pass, ". "]);
        }
        Some((pass, gap)) => text.extend(prose![
            "the samples were taken ",
            Quantity::ns(gap.abs()),
            if gap > 0 { " before the GPU work of pass " } else { " after the GPU work of pass " },
            pass,
            ", in another run of the workload. "
        ]),
        None => text.push("no pass of this bundle has one. ".into()),
    }
    if let Some((pass, total)) = power.same_period {
        text.extend(prose![
            "Their period is as long as all repeats of pass ",
            code(session.text(pass)),
            " together (",
            Quantity::ns(total),
            "), so they are likely of that one. "
        ]);
    }
    text.push("The figures below are therefore those of the whole sampled period.".into());
    text
}

fn device_metrics(session: &Session, device: &Device) -> Vec<Metric> {
    let scope = Scope { gpu: Some(device.index), ..Scope::default() };
    let evidence = device.evidence(session);
    let place = "over the whole sampled period";
    let energy = "trapezoid sum of power over the samples over the whole sampled period";
    metrics(&device.whole, &scope, place, energy, &evidence)
}

fn stage_metrics(context: &Context<'_>, of: &StageFigures) -> Vec<Metric> {
    let stage = &context.facts.stages[of.stage];
    let scope = Scope {
        pass: Some(context.session.pass_name(stage.pass).to_owned()),
        stage: Some(stage.name.clone()),
        gpu: Some(of.device),
        ..Scope::default()
    };
    let evidence = evidence(context.session, of.artifact, of.figures.samples);
    let place = "within the stage's projections";
    let energy =
        "mean power × time of the instances that hold samples, within the stage's projections";
    metrics(&of.figures, &scope, place, energy, &evidence)
}

/// The metrics of some samples, as far as samples state them.
fn metrics(
    figures: &Figures,
    scope: &Scope,
    place: &str,
    energy: &str,
    evidence: &Evidence,
) -> Vec<Metric> {
    let of = format!("of {} samples {place}", figures.samples);
    let throttled = format!("share {of} with a reason that lowers the clock");
    let measured = [
        (&POWER_MEAN, figures.power_mean, format!("mean {of}")),
        (&POWER_P95, figures.power_p95, format!("95th percentile {of}")),
        (&SM_CLOCK_MEAN, figures.sm_clock_mean, format!("mean {of}")),
        (&THROTTLED_SHARE, figures.throttled, throttled),
    ];
    let stated = measured.into_iter();
    let mut all: Vec<Metric> = stated
        .filter_map(|(metric, value, basis)| Some(metric.measured(scope.clone(), value?, basis)))
        .collect();
    all.extend(figures.energy.map(|joules| ENERGY.derived(scope.clone(), joules, energy)));
    all.iter_mut().for_each(|metric| metric.evidence.push(evidence.clone()));
    all
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
