//! Environment: the GPU, the tools, the passes, and the peaks that utilization divides by.

mod peaks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use rooflens_schemas::{PassKind, Unit};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::system::environment::{Environment, stated};
use rooflens_findings::{Block, Findings, Inline, Quantity, Table, prose};
use rooflens_model::{GpuId, PassId, Session};

/// The section says what is unknown, too: it is always there.
pub(super) static SECTION: Section = Section { id: "environment", show };

fn show(context: &Context<'_>) -> Known<Findings> {
    let (session, environment) = (context.session, context.results.environment()?);
    let mut findings = Findings::default();
    findings.blocks.push(Block::Facts(facts(context, environment)));
    let passes = passes(context);
    if !passes.is_empty() {
        let view =
            passes_table(context).view("Passes: each is a run of its own on its own clock", 20);
        findings.blocks.push(Block::Table(view));
    }
    findings.datasets.push(passes_table(context).rows(&passes));
    peaks::add(context, environment, &mut findings);
    let recorded: Vec<usize> = (0..session.environment.len()).collect();
    if !recorded.is_empty() {
        let view = recorded_table(context).view("Environment as recorded", 200);
        findings.appendix.push(Block::Table(view));
    }
    findings.datasets.push(recorded_table(context).rows(&recorded));
    Ok(findings)
}

fn facts(context: &Context<'_>, environment: &Environment) -> Vec<(String, Vec<Inline>)> {
    let session = context.session;
    let mut facts = Vec::new();
    for (name, gpu) in &environment.gpus {
        facts.push(("GPU".to_owned(), describe_gpu(session, name, *gpu)));
    }
    if facts.is_empty() {
        facts.push(("GPU".to_owned(), prose!["unknown: no artifact names it"]));
    }
    if let Some(chosen) = &context.options.gpu {
        facts.push(("GPU chosen for peaks".to_owned(), prose![chosen.clone()]));
    }
    let mut add = |title: &str, value: Option<String>| {
        facts.extend(value.map(|value| (title.to_owned(), prose![value])));
    };
    for (title, subject, key) in [
        ("Driver", "driver", "version"),
        ("CUDA of the driver", "driver", "CUDA"),
        ("PyTorch", "software", "PyTorch"),
        ("CUDA runtime", "software", "CUDA runtime"),
    ] {
        add(title, agreed(stated(session, |text| text == subject, key)));
    }
    add("Profilers", agreed(session.passes.producer.iter().map(|id| session.text(*id))));
    for (title, key) in [("Power limit", "power limit"), ("MIG", "MIG"), ("ECC", "ECC")] {
        add(title, agreed(stated(session, |text| text.starts_with("gpu "), key)));
    }
    facts
}

/// All distinct values; artifacts that disagree are all quoted.
fn agreed<'a>(values: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for value in values {
        if !value.is_empty() && !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join(", "))
}

fn describe_gpu(session: &Session, name: &str, gpu: Option<GpuId>) -> Vec<Inline> {
    let mut text = prose![Inline::Code(name.to_owned())];
    let Some(gpu) = gpu else { return text };
    let row = session.gpus.row(gpu);
    if let Some(sms) = row.sm_count {
        text.extend(prose![", ", Quantity::count(u64::from(sms)), " SMs"]);
    }
    if let Some(bytes) = row.memory_bytes {
        text.extend(prose![", ", Quantity::new(bytes as f64, Unit::Bytes)]);
    }
    if let Some(bandwidth) = row.memory_bandwidth {
        let quantity = Quantity::new(bandwidth as f64, Unit::BytesPerSecond);
        text.extend(prose![", ", quantity, " by its memory clock"]);
    }
    if let Some(clock) = row.clock_hz {
        text.extend(prose![", up to ", Quantity::new(clock as f64, Unit::Hertz)]);
    }
    if let Some(capability) = row.compute_capability {
        text.push(format!(", compute capability {}.{}", capability / 10, capability % 10).into());
    }
    text
}

/// A pass, or the repeats of a baseline: its timings have no clock and no pass of their own.
struct Pass<'a> {
    name: &'a str,
    kind: PassKind,
    artifact: &'a str,
    producer: &'a str,
    rank: Option<u32>,
    gpu: Option<String>,
    operations: Option<usize>,
    others: usize,
}

fn passes<'a>(context: &Context<'a>) -> Vec<Pass<'a>> {
    let session = context.session;
    let mut baselines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let series = context.results.baseline().map_or(&[][..], |baseline| &baseline.series);
    for series in series.iter().filter(|series| !series.profiled) {
        let key = (session.text(series.pass), session.text(series.artifact));
        *baselines.entry(key).or_default() += series.repeats.len();
    }
    let baseline = |((name, artifact), others)| {
        let kind = PassKind::Baseline;
        let (rank, gpu, operations) = (None, None, None);
        Pass { name, kind, artifact, producer: "", rank, gpu, operations, others }
    };
    let own = session.passes.ids().map(|id| pass(context, id));
    own.chain(baselines.into_iter().map(baseline)).collect()
}

fn pass<'a>(context: &Context<'a>, pass: PassId) -> Pass<'a> {
    let session = context.session;
    let row = session.passes.row(pass);
    let of_pass = |passes: &[PassId]| passes.iter().filter(|own| **own == pass).count();
    let gpus = (0..session.gpus.len()).filter(|gpu| session.gpus.pass[*gpu] == pass);
    Pass {
        name: session.text(row.name),
        kind: row.kind,
        artifact: session.text(row.artifact),
        producer: session.text(row.producer),
        rank: row.rank,
        gpu: agreed(gpus.map(|gpu| session.text(session.gpus.name[gpu]))),
        operations: Some(context.facts.ops_of(pass).len()),
        others: of_pass(&session.kernel_profiles.pass) + of_pass(&session.kernel_sums.pass),
    }
}

fn passes_table<'t>(context: &Context<'t>) -> Table<'t, Pass<'t>> {
    let stated = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Table::new(context.text, "passes")
        .name("pass", move |pass: &Pass<'_>| stated(pass.name))
        .on_page()
        .text("kind", |pass| pass.kind.label())
        .on_page()
        .name("artifact", move |pass| stated(pass.artifact))
        .name("producer", move |pass| stated(pass.producer))
        .on_page()
        .count("rank", |pass| pass.rank)
        .on_page()
        .name("gpu", |pass| pass.gpu.clone())
        .on_page()
        .count("operations", |pass| pass.operations)
        .on_page()
        .count("rows", |pass| Some(pass.others).filter(|rows| *rows > 0))
}

/// Rows of the table of facts by number.
fn recorded_table<'t>(context: &Context<'t>) -> Table<'t, usize> {
    let session = context.session;
    let facts = &session.environment;
    Table::new(context.text, "environment")
        .name("subject", |row: &usize| session.text(facts.subject[*row]))
        .on_page()
        .name("key", |row| session.text(facts.key[*row]))
        .on_page()
        .name("value", |row| session.text(facts.value[*row]))
        .on_page()
        .name("artifact", |row| session.text(facts.artifact[*row]))
        .on_page()
}
