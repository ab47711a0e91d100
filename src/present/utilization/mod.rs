//! MFU, kernel-time MFU and MBU per stage, each with its basis.

mod metrics;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::{StageUtilization, Utilization};
use rooflens_findings::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_findings::{
    Block, Chart, Dataset, Findings, Inline, Method, Quantity, Table, View, prose,
};
use rooflens_model::diagnostic::{Diagnostic, Severity};

/// Model FLOPs utilization.
pub(super) static SECTION: Section = Section { id: "utilization", show };

/// Rows that a page shows.
const SHOWN: usize = 30;

fn show(context: &Context<'_>) -> Known<Findings> {
    let utilization = context.results.utilization()?;
    let stages = &utilization.stages;
    let mut findings = Findings::default();
    findings.blocks.push(Block::Facts(basis(context, utilization)));
    findings.blocks.extend(chart(context, stages).map(Block::Chart));
    // A stage of which no work is counted has nothing to show.
    let rows: Vec<&StageUtilization> = stages.iter().filter(|stage| stage.work.is_ok()).collect();
    if !rows.is_empty() {
        let caption =
            "Utilization per stage: MFU = kernel-time MFU × busy, MBU = kernel-time MBU × busy";
        let view = View::new("utilization", caption, &shown_columns(stages), rows.len().min(SHOWN));
        findings.blocks.push(Block::Table(view));
        findings.datasets.push(dataset(context, &rows));
    }
    findings.blocks.extend(missing_rows(context, stages).into_iter().map(Block::Missing));
    for stage in stages {
        findings.metrics.extend(metrics::of(context, stage));
        findings.diagnostics.extend(above_one(stage));
    }
    findings.methods.push(method());
    Ok(findings)
}

fn basis(context: &Context<'_>, all: &Utilization) -> Vec<(String, Vec<Inline>)> {
    let session = context.session;
    let mut facts = Vec::new();
    if let Some(model) = &session.model {
        facts.push(("model".to_owned(), prose![format!(
            "{}, {} layers, hidden {}, {} query and {} key-value heads of {}, MLP {}{}, vocabulary {}",
            model.family,
            model.layers,
            model.hidden,
            model.heads,
            model.kv_heads,
            model.head_dim,
            model.intermediate,
            if model.gated_mlp { " gated" } else { "" },
            model.vocab
        )]));
    }
    facts.push(("dtype".to_owned(), prose![all.dtype.as_deref().unwrap_or("not stated")]));
    let mut ceilings = all.stages.iter().map(|stage| &stage.ceiling);
    match ceilings.clone().find_map(|ceiling| ceiling.as_ref().ok()) {
        Some(ceiling) => {
            facts.push(("peak rate".to_owned(), prose![words::rate(ceiling)]));
            facts.push(("peak bandwidth".to_owned(), prose![words::bandwidth(ceiling)]));
        }
        None => {
            let why = ceilings.find_map(|ceiling| ceiling.as_ref().err());
            let why = why.map(words::reason).unwrap_or_default();
            facts.push(("peak".to_owned(), prose![format!("unavailable: {why}")]));
        }
    }
    facts.push((
        "attention".to_owned(),
        prose!["causal: a query attends the keys up to its own; the full count stands beside it"],
    ));
    facts
}

/// What of the ceiling is used, what busy kernels leave, what idle time leaves: adds up to the stage time.
fn chart(context: &Context<'_>, lines: &[StageUtilization]) -> Option<Chart> {
    let mut bars = Vec::new();
    for line in lines {
        let Some(busy) = line.timed.busy_share() else { continue };
        let (used, of) = match (line.mfu(), line.mbu()) {
            (Ok(mfu), Ok(mbu)) if mbu > mfu => (mbu, "bandwidth"),
            (Ok(mfu), _) => (mfu, "compute"),
            _ => continue,
        };
        bars.push(Bar {
            label: format!("{} ({})", line.timed.label(context), line.timed.pass),
            values: vec![used.min(busy), (busy - used).max(0.0), 1.0 - busy],
            note: format!("{} of peak {of}", Quantity::ratio(used)),
        });
    }
    let part = |name: &str, color| Part { name: name.to_owned(), color };
    (!bars.is_empty()).then(|| Chart {
        id: "utilization".to_owned(),
        title: "How much of the GPU each stage uses".to_owned(),
        description: "One bar per stage, the whole bar being the stage time: the time that the work would take \
                      at the nearer ceiling (compute or bandwidth), the rest of the busy time, and idle time."
            .to_owned(),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Ratio,
            normalized: true,
            parts: vec![
                part("needed at the ceiling", Color::ComputeBound),
                part("kernels below the ceiling", Color::Balanced),
                part("idle", Color::Idle),
            ],
            bars,
        }),
    })
}

fn dataset(context: &Context<'_>, rows: &[&StageUtilization]) -> Dataset {
    Table::<&StageUtilization>::new(context.text, "utilization")
        .text("stage", |stage| stage.timed.label(context))
        .text("pass", |stage| stage.timed.pass.clone())
        .time("time_ns", |stage| stage.timed.time)
        .column("flops", Unit::Flop, |stage| stage.flops())
        .column("flops_full_attention", Unit::Flop, |stage| {
            stage.work.as_ref().ok().map(|work| work.flops_full)
        })
        .column("flop_per_second", Unit::FlopPerSecond, |stage| {
            stage.flops().map(|flops| stage.per_second(flops))
        })
        .share("mfu", |stage| stage.mfu().ok())
        .share("mfu_full_attention", |stage| stage.mfu_full_attention().ok())
        .share("mfu_measured", |stage| stage.of_measured())
        .share("busy_share", |stage| stage.timed.busy_share())
        .share("kernel_time_mfu", |stage| stage.kernel_time_mfu().ok())
        .bytes("bytes", |stage| stage.work.as_ref().ok().and_then(|work| work.bytes))
        .share("mbu", |stage| stage.mbu().ok())
        .share("kernel_time_mbu", |stage| stage.kernel_time_mbu().ok())
        .column("tokens_per_second", Unit::TokensPerSecond, |stage| stage.tokens_per_second().ok())
        .text("formula", |stage| stage.work.as_ref().ok().map(|work| words::formula(&work.formula)))
        .rows(rows)
}

/// The columns of the table that hold something.
fn shown_columns(lines: &[StageUtilization]) -> Vec<&'static str> {
    let moved = lines.iter().any(|line| line.mbu().is_ok());
    let measured = lines.iter().any(|line| line.measured_rate.is_some() && line.mfu().is_ok());
    let all = [
        ("stage", true),
        ("pass", true),
        ("time_ns", true),
        ("flops", true),
        ("mfu", true),
        ("busy_share", true),
        ("kernel_time_mfu", true),
        ("mbu", moved),
        ("kernel_time_mbu", moved),
        ("mfu_measured", measured),
        ("tokens_per_second", true),
    ];
    all.into_iter().filter_map(|(column, shown)| shown.then_some(column)).collect()
}

/// The stages that are not in the table, and those in it without MFU, by reason.
fn missing_rows(context: &Context<'_>, stages: &[StageUtilization]) -> Vec<String> {
    let mut reasons: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for stage in stages {
        let what = if stage.work.is_err() { "utilization" } else { "MFU" };
        if let Err(reason) = stage.mfu() {
            let labels = reasons.entry((what, words::reason(&reason))).or_default();
            let label = stage.timed.label(context);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    let sentence = |((what, reason), labels): ((&str, String), Vec<String>)| {
        format!("{what} of {}: {reason}", labels.join(", "))
    };
    reasons.into_iter().map(sentence).collect()
}

fn above_one(line: &StageUtilization) -> Option<Diagnostic> {
    let mut all = [("MFU", line.mfu()), ("MBU", line.mbu())].into_iter();
    let (name, value) = all.find_map(|(name, value)| match value {
        Err(Unavailable::AbovePeak(value)) => Some((name, value)),
        _ => None,
    })?;
    let message = format!(
        "{name} of {} in pass {} is {}: the peak, the sizes or the stage's ranges are wrong",
        line.timed.stage,
        line.timed.pass,
        Quantity::ratio(value)
    );
    let hint = "check GPU, dtype, batch and lengths in workload.toml";
    Some(Diagnostic::new(Severity::Error, "utilization/above-one", message).hint(hint))
}

fn method() -> Method {
    Method {
        title: "Model FLOPs, MFU and MBU".to_owned(),
        text: prose![
            "Model FLOPs of a forward pass: projections 2·B·S·(matrix parameters that a token passes), attention \
             2·(d_qk + d_v) per query-key pair and query head, LM head 2·B·(positions with logits)·hidden·vocabulary; \
             look-ups, norms and activations count 0 (PaLM, appendix B). Grouped-query attention narrows the key and \
             value projections only. A mixture of experts counts router, chosen and shared experts. Training is \
             3 × forward. MFU = model FLOPs ÷ (stage time × specified dense peak of the dtype). Kernel-time MFU \
             divides by busy time instead, so MFU = kernel-time MFU × busy share; kernel-time MBU likewise. MBU = (weights once per forward \
             pass + key-value cache read and written) ÷ (stage time × specified bandwidth); of experts only those \
             expected to be chosen, E·(1 − (1 − k/E)^tokens). A value above 100 % is reported as an error, not as \
             a result."
        ],
    }
}
