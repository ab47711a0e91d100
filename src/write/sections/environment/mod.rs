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
use rooflens_document::{Block, Inline, Quantity, SectionContent, Table};
use rooflens_session::{GpuId, PassId};

/// The section says what is unknown, too: it is always there.
pub(super) static SECTION: Section = Section {
    id: "environment",
    show,
};

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let (session, environment) = (context.session, context.results.environment()?);
    let mut content = SectionContent {
        describes_capture: true,
        ..SectionContent::default()
    };
    let is_described = !(environment.gpus.is_empty() && session.environment.is_empty());
    if !is_described && session.passes.is_empty() && !session.is_measured() {
        return Ok(content);
    }
    content.main.push(Block::Facts(facts(context, environment)));
    let passes = passes(context);
    if !passes.is_empty() {
        let view = passes_table(context).view(words!(context, "environment.passes"), 20);
        content.blocks.push(Block::Table(view));
    }
    content.datasets.push(passes_table(context).rows(&passes));
    peaks::add(context, environment, &mut content);
    let recorded: Vec<usize> = (0..session.environment.len()).collect();
    if !recorded.is_empty() {
        let view = recorded_table(context).view(words!(context, "environment.recorded"), 200);
        content.appendix.push(Block::Table(view));
    }
    content
        .datasets
        .push(recorded_table(context).rows(&recorded));
    Ok(content)
}

fn facts(context: &Context<'_>, environment: &Environment) -> Vec<(String, Vec<Inline>)> {
    let session = context.session;
    let mut facts = Vec::new();
    for (name, gpu) in &environment.gpus {
        facts.push((
            words!(context, "environment.gpu"),
            describe_gpu(context, name, *gpu),
        ));
    }
    if facts.is_empty() {
        facts.push((
            words!(context, "environment.gpu"),
            say!(context, "environment.no_gpu"),
        ));
    }
    let mut add = |title: String, value: Option<String>| {
        if let Some(value) = value {
            facts.push((title, vec![value.into()]));
        }
    };
    add(
        words!(context, "environment.chosen_gpu"),
        context.options.gpu.clone(),
    );
    for (title, subject, key) in [
        (words!(context, "environment.driver"), "driver", "version"),
        (words!(context, "environment.cuda"), "driver", "CUDA"),
        (
            words!(context, "environment.pytorch"),
            "software",
            "PyTorch",
        ),
        (
            words!(context, "environment.runtime"),
            "software",
            "CUDA runtime",
        ),
    ] {
        add(
            title,
            agreed(context, stated(session, |text| text == subject, key)),
        );
    }
    let producers = session.passes.producer.iter().map(|id| session.text(*id));
    add(
        words!(context, "environment.profilers"),
        agreed(context, producers),
    );
    for (title, key) in [
        (words!(context, "environment.power_limit"), "power limit"),
        (words!(context, "environment.mig"), "MIG"),
        (words!(context, "environment.ecc"), "ECC"),
    ] {
        add(
            title,
            agreed(
                context,
                stated(session, |text| text.starts_with("gpu "), key),
            ),
        );
    }
    facts
}

/// All distinct values; artifacts that disagree are all quoted.
fn agreed<'a>(context: &Context<'_>, values: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for value in values {
        if !value.is_empty() && !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join(context.text.comma()))
}

fn describe_gpu(context: &Context<'_>, name: &str, gpu: Option<GpuId>) -> Vec<Inline> {
    let row = gpu.map(|gpu| context.session.gpus.row(gpu));
    let row = row.as_ref();
    let capability = row.and_then(|row| row.compute_capability);
    let bandwidth = row.and_then(|row| row.memory_bandwidth);
    say!(
        context,
        "environment.describe_gpu",
        name = Inline::code(name),
        sms = row
            .and_then(|row| row.sm_count)
            .map(|sms| Quantity::count(u64::from(sms))),
        memory = row
            .and_then(|row| row.memory_bytes)
            .map(|bytes| Quantity::new(bytes as f64, Unit::Bytes)),
        bandwidth = bandwidth.map(|rate| Quantity::new(rate as f64, Unit::BytesPerSecond)),
        clock = row
            .and_then(|row| row.clock_hz)
            .map(|clock| Quantity::new(clock as f64, Unit::Hertz)),
        capability = capability.map(|version| format!("{}.{}", version / 10, version % 10)),
    )
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
    rows: usize,
}

fn passes<'a>(context: &Context<'a>) -> Vec<Pass<'a>> {
    let session = context.session;
    let mut baselines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let series = context
        .results
        .baseline()
        .map_or(&[][..], |baseline| &baseline.series);
    for series in series {
        if series.profiled == Some(false) {
            let key = (session.text(series.pass), session.text(series.artifact));
            *baselines.entry(key).or_default() += series.repeats.len();
        }
    }
    let mut passes = Vec::new();
    for id in session.passes.ids() {
        passes.push(pass(context, id));
    }
    for ((name, artifact), repeats) in baselines {
        passes.push(Pass {
            name,
            kind: PassKind::Baseline,
            artifact,
            producer: "",
            rank: None,
            gpu: None,
            operations: None,
            rows: repeats,
        });
    }
    passes
}

fn pass<'a>(context: &Context<'a>, pass: PassId) -> Pass<'a> {
    let session = context.session;
    let row = session.passes.row(pass);
    let of_pass = |passes: &[PassId]| passes.iter().filter(|row| **row == pass).count();
    let gpus = (0..session.gpus.len()).filter(|gpu| session.gpus.pass[*gpu] == pass);
    Pass {
        name: session.text(row.name),
        kind: row.kind,
        artifact: session.text(row.artifact),
        producer: match session.text(row.producer) {
            // Its reports do not tell their version.
            "" if row.kind == PassKind::Counters => "ncu",
            producer => producer,
        },
        rank: row.rank,
        gpu: agreed(
            context,
            gpus.map(|gpu| session.text(session.gpus.name[gpu])),
        ),
        operations: (row.kind != PassKind::Counters).then(|| context.facts.ops_of(pass).len()),
        rows: of_pass(&session.kernel_profiles.pass) + of_pass(&session.kernel_sums.pass),
    }
}

fn passes_table<'t>(context: &Context<'t>) -> Table<'t, Pass<'t>> {
    let stated = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    columns! { context, "passes", pass: &Pass<'_> => {
        name "pass" = stated(pass.name), page;
        text "kind" = pass.kind.label(), page;
        name "artifact" = stated(pass.artifact);
        name "producer" = stated(pass.producer), page;
        count "rank" = pass.rank, page;
        name "gpu" = pass.gpu.clone(), page;
        count "operations" = pass.operations, page;
        count "rows" = Some(pass.rows).filter(|rows| *rows > 0);
    } }
}

/// Rows of the table of facts by number.
fn recorded_table<'t>(context: &Context<'t>) -> Table<'t, usize> {
    let session = context.session;
    let facts = &session.environment;
    columns! { context, "environment", row: &usize => {
        name "subject" = session.text(facts.subject[*row]), page;
        name "key" = session.text(facts.key[*row]), page;
        name "value" = session.text(facts.value[*row]), page;
        name "artifact" = session.text(facts.artifact[*row]), page;
    } }
}
