//! MFU, kernel-time MFU and MBU per stage, each with its basis.

#[cfg(test)]
mod tests;
pub(crate) mod timed;
mod work;

use std::collections::BTreeMap;

use rooflens_schemas::{Metric, Polarity, StageKind, Unit};

use crate::analysis::engine::measured_peaks::Measured;
use crate::analysis::{Analysis, Context};
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{
    Block, Cell, Chart, Column, Dataset, Findings, Inline, Method, Quantity, View, derived,
    unavailable,
};
use crate::hardware::Gpu;
use crate::model::Session;
use crate::prose;
use timed::{Timed, timed};
use work::{Work, work};

/// Model FLOPs utilization.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "utilization", title: "Utilization", missing, run };

fn missing(session: &Session) -> Option<&'static str> {
    (session.ranges.is_empty() && session.timings.is_empty()).then_some(
        "no stages: neither ranges in a timeline nor timings of un-profiled repeats in this bundle",
    )
}

/// How the reason ends where a utilization cannot be.
pub(crate) const ABOVE_PEAK: &str = "is more than the peak allows";

/// How the reason begins where a GPU has no peak.
pub(crate) const NO_PEAK: &str = "no peak for";

/// Rows that a page shows.
const SHOWN: usize = 30;

/// One line of the result.
pub(crate) struct Line {
    pub(crate) timed: Timed,
    work: Result<Work, String>,
    /// Specified dense rate and bandwidth, with their sources; or why there are none.
    ceiling: Result<Ceiling, String>,
    measured_rate: Option<f64>,
}

struct Ceiling {
    rate: f64,
    bandwidth: f64,
    basis: String,
    bandwidth_basis: String,
}

/// One line per stage and source of its time: un-profiled repeats first, then the passes.
pub(crate) fn lines(context: &Context<'_>) -> Vec<Line> {
    let dtype = dtype(context);
    timed(context)
        .into_iter()
        .filter(|timed| !matches!(timed.kind, StageKind::Other | StageKind::Optimizer))
        .map(|timed| line(context, timed, dtype.as_deref()))
        .collect()
}

fn run(context: &Context<'_>) -> Findings {
    let dtype = dtype(context);
    let lines = lines(context);
    let mut findings = Findings::default();
    if lines.is_empty() {
        let reason = "none of the stages has a FLOPs formula; name prefill, decode, forward, backward or \
                      train_step stages in workload.toml";
        findings.blocks.push(Block::Missing(reason.to_owned()));
        return findings;
    }
    findings.blocks.push(Block::Facts(basis(context, &lines, dtype.as_deref())));
    if let Some(chart) = chart(&lines) {
        findings.blocks.push(Block::Chart(chart));
    }
    add_table(&lines, &mut findings);
    for line in &lines {
        findings.metrics.extend(metrics(line));
        findings.diagnostics.extend(above_one(line));
    }
    findings.methods.push(method());
    findings
}

/// The dtype of the matrix work: stated, or that of the weights.
fn dtype(context: &Context<'_>) -> Option<String> {
    let stated = context.session.workload.dtype.clone();
    stated.or_else(|| context.session.model.as_ref().and_then(|model| model.dtype.clone()))
}

fn line(context: &Context<'_>, timed: Timed, dtype: Option<&str>) -> Line {
    let session = context.session;
    let workload = session.workload.for_pass(&timed.pass);
    let known = dtype.ok_or("workload.toml does not state the dtype".to_owned());
    let steps = timed.steps;
    let work = known
        .clone()
        .and_then(|dtype| work(timed.kind, steps, &workload, session.model.as_ref(), dtype));
    let ceiling = known.and_then(|dtype| ceiling(context, &timed.gpu, dtype));
    let gpu = context.gpu_spec(&timed.gpu);
    let measured_rate = dtype.and_then(|dtype| Measured::of(context, &timed.gpu).rate(gpu, dtype));
    Line { timed, work, ceiling, measured_rate }
}

fn ceiling(context: &Context<'_>, name: &str, dtype: &str) -> Result<Ceiling, String> {
    let shown = context.options.gpu.as_deref().unwrap_or(name);
    if shown.is_empty() {
        return Err("the bundle does not name the GPU; give --gpu".to_owned());
    }
    let gpu: &Gpu = context.gpu_spec(name).ok_or_else(|| format!("{NO_PEAK} {shown}"))?;
    let peak = gpu.peak(dtype).ok_or_else(|| format!("no {dtype} peak for {}", gpu.name))?;
    let rate = Quantity::new(peak.dense, Unit::FlopPerSecond);
    let bandwidth = Quantity::new(gpu.memory_bandwidth, Unit::BytesPerSecond);
    Ok(Ceiling {
        rate: peak.dense,
        bandwidth: gpu.memory_bandwidth,
        basis: format!("{} {dtype} dense {rate} ({})", gpu.name, peak.source),
        bandwidth_basis: format!("{} {bandwidth} ({})", gpu.name, gpu.memory_source),
    })
}

impl Line {
    /// Model FLOPs, causal and with full attention.
    pub(crate) fn flops(&self) -> Option<(f64, f64)> {
        self.work.as_ref().ok().map(|work| (work.flops, work.flops_full))
    }

    fn seconds(&self) -> f64 {
        self.timed.time / 1e9
    }

    pub(crate) fn mfu(&self) -> Result<f64, String> {
        self.raw_mfu().and_then(possible)
    }

    pub(crate) fn mbu(&self) -> Result<f64, String> {
        self.raw_mbu().and_then(possible)
    }

    fn raw_mfu(&self) -> Result<f64, String> {
        let (work, ceiling) = (self.work.as_ref()?, self.ceiling.as_ref()?);
        Ok(work.flops / (self.seconds() * ceiling.rate))
    }

    fn raw_mbu(&self) -> Result<f64, String> {
        let (work, ceiling) = (self.work.as_ref()?, self.ceiling.as_ref()?);
        let decode = matches!(self.timed.kind, StageKind::Decode | StageKind::DecodeStep);
        let bytes = work.bytes.filter(|_| decode);
        let bytes = bytes.ok_or("bytes are counted for decode stages only")?;
        Ok(bytes / (self.seconds() * ceiling.bandwidth))
    }

    fn kernel_time_mfu(&self) -> Result<f64, String> {
        self.of_busy(self.mfu())
    }

    fn kernel_time_mbu(&self) -> Result<f64, String> {
        self.of_busy(self.mbu())
    }

    /// A utilization of the stage time, of its busy time.
    fn of_busy(&self, utilization: Result<f64, String>) -> Result<f64, String> {
        let share = self.timed.busy_share.filter(|share| *share > 0.0);
        let share = share.ok_or("un-profiled repeats have no busy time")?;
        possible(utilization? / share)
    }

    pub(crate) fn tokens_per_second(&self) -> Result<f64, String> {
        Ok(self.work.as_ref()?.tokens / self.seconds())
    }
}

/// More than the peak is no result: the peak, the sizes or the ranges are wrong.
fn possible(utilization: f64) -> Result<f64, String> {
    if utilization <= 1.0 {
        return Ok(utilization);
    }
    Err(format!("{} {ABOVE_PEAK}", Quantity::ratio(utilization)))
}

fn basis(context: &Context<'_>, lines: &[Line], dtype: Option<&str>) -> Vec<(String, Vec<Inline>)> {
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
    facts.push(("dtype".to_owned(), prose![dtype.unwrap_or("not stated")]));
    let known = lines.iter().find_map(|line| line.ceiling.as_ref().ok());
    match known {
        Some(ceiling) => {
            facts.push(("peak rate".to_owned(), prose![ceiling.basis.clone()]));
            facts.push(("peak bandwidth".to_owned(), prose![ceiling.bandwidth_basis.clone()]));
        }
        None => {
            let reason = lines.iter().find_map(|line| line.ceiling.as_ref().err());
            let reason = reason.cloned().unwrap_or_default();
            facts.push(("peak".to_owned(), prose![format!("unavailable: {reason}")]));
        }
    }
    facts.push((
        "attention".to_owned(),
        prose!["causal: a query attends the keys up to its own; the full count stands beside it"],
    ));
    facts
}

/// What of the ceiling is used, what busy kernels leave, what idle time leaves: adds up to the stage time.
fn chart(lines: &[Line]) -> Option<Chart> {
    let mut bars = Vec::new();
    for line in lines {
        let Some(busy) = line.timed.busy_share else { continue };
        let (used, of) = match (line.mfu(), line.mbu()) {
            (Ok(mfu), Ok(mbu)) if mbu > mfu => (mbu, "bandwidth"),
            (Ok(mfu), _) => (mfu, "compute"),
            _ => continue,
        };
        bars.push(Bar {
            label: format!("{} ({})", line.timed.label, line.timed.pass),
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

fn add_table(lines: &[Line], findings: &mut Findings) {
    // A stage of which no work is counted has nothing to show.
    let rows: Vec<Vec<Cell>> = lines.iter().filter(|line| line.work.is_ok()).map(row).collect();
    if !rows.is_empty() {
        let shown = rows.len().min(SHOWN);
        let caption =
            "Utilization per stage: MFU = kernel-time MFU × busy, MBU = kernel-time MBU × busy";
        let view = View::new("utilization", caption, &shown_columns(lines), shown);
        findings.blocks.push(Block::Table(view));
    }
    findings.blocks.extend(missing_rows(lines).into_iter().map(Block::Missing));
    if rows.is_empty() {
        return;
    }
    findings.datasets.push(Dataset {
        id: "utilization",
        title: "Utilization".to_owned(),
        columns: vec![
            Column::text("stage", "stage"),
            Column::text("pass", "pass"),
            Column::new("time_ns", "stage time", Unit::Nanoseconds),
            Column::new("flops", "model FLOPs", Unit::Flop),
            Column::new("flops_full_attention", "full attention", Unit::Flop),
            Column::new("flop_per_second", "achieved", Unit::FlopPerSecond),
            Column::new("mfu", "MFU", Unit::Ratio),
            Column::new("mfu_full_attention", "MFU, full attention", Unit::Ratio),
            Column::new("mfu_measured", "of measured", Unit::Ratio),
            Column::new("busy_share", "busy", Unit::Ratio),
            Column::new("kernel_time_mfu", "kernel-time MFU", Unit::Ratio),
            Column::new("bytes", "bytes", Unit::Bytes),
            Column::new("mbu", "MBU", Unit::Ratio),
            Column::new("kernel_time_mbu", "kernel-time MBU", Unit::Ratio),
            Column::new("tokens_per_second", "tokens", Unit::TokensPerSecond),
            Column::text("formula", "work counted"),
        ],
        rows,
    });
}

/// The columns of the table that hold something.
fn shown_columns(lines: &[Line]) -> Vec<&'static str> {
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
fn missing_rows(lines: &[Line]) -> Vec<String> {
    let mut reasons: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for line in lines {
        let what = if line.work.is_err() { "utilization" } else { "MFU" };
        if let Err(reason) = line.mfu() {
            let labels = reasons.entry((what, reason)).or_default();
            if !labels.contains(&line.timed.label.as_str()) {
                labels.push(&line.timed.label);
            }
        }
    }
    let sentence = |((what, reason), labels): ((&str, String), Vec<&str>)| {
        format!("{what} of {}: {reason}", labels.join(", "))
    };
    reasons.into_iter().map(sentence).collect()
}

fn row(line: &Line) -> Vec<Cell> {
    let work = line.work.as_ref().ok();
    let flops = work.map(|work| work.flops);
    let mfu = line.mfu().ok();
    let full = work.and_then(|work| Some(mfu? * work.flops_full / work.flops));
    let measured = line.measured_rate.and_then(|rate| Some(flops? / (line.seconds() * rate)));
    vec![
        Cell::Text(line.timed.label.clone()),
        Cell::Text(line.timed.pass.clone()),
        Cell::Float(line.timed.time),
        Cell::maybe(flops),
        Cell::maybe(work.map(|work| work.flops_full)),
        Cell::maybe(flops.map(|flops| flops / line.seconds())),
        Cell::maybe(mfu),
        Cell::maybe(full),
        Cell::maybe(measured),
        Cell::maybe(line.timed.busy_share),
        Cell::maybe(line.kernel_time_mfu().ok()),
        Cell::maybe(work.and_then(|work| work.bytes)),
        Cell::maybe(line.mbu().ok()),
        Cell::maybe(line.kernel_time_mbu().ok()),
        Cell::maybe(line.tokens_per_second().ok()),
        work.map_or(Cell::Missing, |work| Cell::Text(work.formula.clone())),
    ]
}

fn metrics(line: &Line) -> Vec<Metric> {
    let scope = &line.timed.scope;
    let metric = |id: &str, unit, value: Result<f64, String>, basis: String| {
        let mut metric = match value {
            Ok(value) => derived(id, scope.clone(), unit, value, basis),
            Err(reason) => unavailable(id, scope.clone(), unit, reason),
        };
        metric.polarity = Polarity::Higher;
        metric
    };
    let formula = line.work.as_ref().map_or_else(|_| String::new(), |work| work.formula.clone());
    let rate = line.ceiling.as_ref().map_or_else(|_| String::new(), |one| one.basis.clone());
    let bandwidth =
        line.ceiling.as_ref().map_or_else(|_| String::new(), |one| one.bandwidth_basis.clone());
    let time = Quantity::new(line.timed.time, Unit::Nanoseconds);
    let kind = if line.timed.busy_share.is_some() { "projection" } else { "un-profiled repeats" };
    let over = format!("stage time {time} (median, {kind} of pass {})", line.timed.pass);
    let full = line.mfu().and_then(|mfu| {
        let work = line.work.as_ref()?;
        Ok(mfu * work.flops_full / work.flops)
    });
    let flops = line.work.as_ref().map(|work| work.flops).map_err(Clone::clone);
    vec![
        metric("model_flops", Unit::Flop, flops, format!("{formula}; causal attention")),
        metric(
            "mfu",
            Unit::Ratio,
            line.mfu(),
            format!("{formula}; causal attention; ÷ ({over} × {rate})"),
        ),
        metric(
            "mfu_full_attention",
            Unit::Ratio,
            full,
            format!("{formula}; full attention; ÷ ({over} × {rate})"),
        ),
        metric(
            "kernel_time_mfu",
            Unit::Ratio,
            line.kernel_time_mfu(),
            "MFU ÷ busy share".to_owned(),
        ),
        metric(
            "mbu",
            Unit::Ratio,
            line.mbu(),
            format!(
                "{formula}: weights once a pass, cache read and written; ÷ ({over} × {bandwidth})"
            ),
        ),
        metric(
            "kernel_time_mbu",
            Unit::Ratio,
            line.kernel_time_mbu(),
            "MBU ÷ busy share".to_owned(),
        ),
        metric(
            "tokens_per_second",
            Unit::TokensPerSecond,
            line.tokens_per_second(),
            format!("{formula}; ÷ {over}"),
        ),
    ]
}

fn above_one(line: &Line) -> Option<Diagnostic> {
    let (name, value) = [("MFU", line.raw_mfu()), ("MBU", line.raw_mbu())]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.ok()?)))
        .find(|(_, value)| *value > 1.0)?;
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
