//! Power and clocks.

mod chart;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::{Evidence, Metric, Scope};
use rooflens_units::Measure;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::system::power::Power;
use rooflens_analysis::system::power::samples::{Device, Figures, StageFigures, evidence, folder};
use rooflens_document::catalogue::{ENERGY, POWER_MEAN, POWER_P95, SM_CLOCK_MEAN, THROTTLED_SHARE};
use rooflens_document::{Block, Inline, Quantity, SectionContent};
use rooflens_session::{Ns, Session};

/// Power and clocks.
pub(super) static SECTION: Section = Section { id: "power", show };

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let power = context.results.power()?;
    let mut content = SectionContent {
        blocks: vec![Block::Prose(introduction(context, power))],
        methods: vec![method!(context, "power")],
        ..SectionContent::default()
    };
    for (number, device) in power.devices.iter().enumerate().take(chart::MAX_CHARTS) {
        content
            .blocks
            .extend(chart::of_device(context, number, device).map(Block::Chart));
    }
    tables::add(context, power, &mut content);
    let devices = power
        .devices
        .iter()
        .map(|device| device_metrics(context.session, device));
    let stages = power
        .stages
        .iter()
        .map(|stage| stage_metrics(context, stage));
    content.metrics = devices.chain(stages).flatten().collect();
    Ok(content)
}

/// Devices that the text names; the table has all.
const SHOWN: usize = 16;

fn introduction(context: &Context<'_>, power: &Power) -> Vec<Inline> {
    let session = context.session;
    let of_device = |device: &Device| {
        say!(
            context,
            "power.device",
            gpu = Quantity::count(u64::from(device.index)),
            folder = folder(session, device.artifact),
            samples = Quantity::count(device.whole.samples),
            duration = Quantity::ns(device.whole.duration),
        )
    };
    let mut text: Vec<Inline> = power
        .devices
        .iter()
        .take(SHOWN)
        .flat_map(of_device)
        .collect();
    if !power.stages.is_empty() {
        text.extend(say!(context, "power.by_stage"));
        return text;
    }
    let nearest = power
        .nearest
        .map(|(pass, gap)| (Inline::code(session.pass_name(pass)), gap));
    let nearest_pass = match nearest {
        None => say!(context, "power.no_pass"),
        Some((pass, Ns::ZERO)) => say!(context, "power.between", pass = pass),
        Some((pass, gap)) if gap > Ns(0) => {
            say!(
                context,
                "power.before",
                gap = Quantity::ns(gap),
                pass = pass
            )
        }
        Some((pass, gap)) => {
            say!(
                context,
                "power.after",
                gap = Quantity::ns(gap.abs()),
                pass = pass
            )
        }
    };
    text.extend(say!(
        context,
        "power.whole_period",
        place = nearest_pass,
        pass = power
            .same_period
            .map(|(pass, _)| Inline::code(session.text(pass))),
        total = power.same_period.map(|(_, total)| Quantity::ns(total)),
    ));
    text
}

fn device_metrics(session: &Session, device: &Device) -> Vec<Metric> {
    let scope = Scope {
        gpu: Some(device.index),
        ..Scope::default()
    };
    let evidence = device.evidence(session);
    let extent = "over the whole sampled period";
    let energy = "trapezoid sum of power over the samples over the whole sampled period";
    metrics(&device.whole, &scope, extent, energy, &evidence)
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
    let extent = "within the stage's projections";
    let energy =
        "mean power × time of the instances that hold samples, within the stage's projections";
    metrics(&of.figures, &scope, extent, energy, &evidence)
}

/// The metrics of some samples, as far as samples state them.
fn metrics(
    figures: &Figures,
    scope: &Scope,
    extent: &str,
    energy: &str,
    evidence: &Evidence,
) -> Vec<Metric> {
    let of_samples = format!("of {} samples {extent}", figures.samples);
    let throttled = format!("share {of_samples} with a reason that lowers the clock");
    let measured = [
        (
            &POWER_MEAN,
            figures.power_mean.map(Measure::number),
            format!("mean {of_samples}"),
        ),
        (
            &POWER_P95,
            figures.power_p95.map(Measure::number),
            format!("95th percentile {of_samples}"),
        ),
        (
            &SM_CLOCK_MEAN,
            figures.sm_clock_mean.map(Measure::number),
            format!("mean {of_samples}"),
        ),
        (
            &THROTTLED_SHARE,
            figures.throttled.map(Measure::number),
            throttled,
        ),
    ];
    let stated = measured.into_iter();
    let mut metrics: Vec<Metric> = stated
        .filter_map(|(metric, value, basis)| Some(metric.measured(scope.clone(), value?, basis)))
        .collect();
    metrics.extend(
        figures
            .energy
            .map(|joules| ENERGY.derived(scope.clone(), joules.0, energy)),
    );
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}
