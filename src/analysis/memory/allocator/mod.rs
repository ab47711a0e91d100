//! Device memory: what the framework's allocator held and when, who held it at the peak, and calls that
//! allocate while a stage runs.

mod calls;
mod chart;
mod lines;
mod peak;
mod rows;
#[cfg(test)]
mod tests;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use crate::analysis::engine::stage_stats::summaries;
use crate::analysis::operators::call_tree::Spans;
use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View, derived, measured};
use crate::model::Session;
use crate::prose;

use lines::{Figures, Line};

/// Memory.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "memory", title: "Device memory", missing, run };

/// GPUs that have charts and tables of holders; the data sets hold all.
const SHOWN_LINES: usize = 4;

/// GPUs whose memory in use, as NVML saw it, the text names.
const SHOWN_DEVICES: usize = 8;

/// Makers of live allocations that a table shows.
const SHOWN_HOLDERS: usize = 10;

/// Calls that a table shows.
const SHOWN_CALLS: usize = 10;

/// Figures of a line over one stage, or over the whole trace.
struct Row<'a> {
    line: &'a Line,
    label: String,
    scope: Scope,
    whole: bool,
    figures: Figures,
}

/// The allocator's events are a choice of who records, so nothing is missing without them.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let mut findings = Findings::default();
    let lines = lines::lines(session);
    let calls = calls::calls(context);
    add_lines(context, &lines, &mut findings);
    add_used(session, &mut findings);
    if calls.any_counted() {
        let columns = ["call", "pass", "stage", "instance", "calls", "time_ns"];
        let data = calls.dataset(session, context);
        let counted = data.rows.iter().filter(|row| row[4].plain() == "yes").count();
        let caption = "CUDA calls that allocate or free memory in counted instances of stages";
        let view = View::new("allocator_calls", caption, &columns, counted.min(SHOWN_CALLS));
        findings.blocks.push(Block::Table(view));
    } else if calls.left_out() > 0 && !findings.blocks.is_empty() {
        findings.blocks.push(Block::Prose(prose![
            "No CUDA call allocates or frees memory in the counted instances of stages; ",
            Quantity::count(calls.left_out()),
            " do in those that are left out.",
        ]));
    }
    if calls.left_out() > 0 || calls.any_counted() {
        findings.datasets.push(calls.dataset(session, context));
    }
    findings.metrics.extend(calls.metrics(context));
    if !findings.blocks.is_empty() {
        findings.methods.push(method());
    }
    findings
}

/// What the allocators held: a chart and the holders at the peak of each, a table of all stages.
fn add_lines(context: &Context<'_>, lines: &[Line], findings: &mut Findings) {
    let session = context.session;
    let rows: Vec<Row<'_>> = lines.iter().flat_map(|line| rows_of(context, line)).collect();
    if rows.is_empty() {
        return;
    }
    let spans = Spans::of_operators(session);
    let mut held = Vec::new();
    for row in rows.iter().filter(|row| row.whole) {
        if held.len() < SHOWN_LINES {
            findings.blocks.push(Block::Prose(summary(context, row)));
            findings.blocks.push(Block::Chart(chart::of_line(context, row.line, held.len() + 1)));
        }
        let peak = row.figures.peak;
        held.push((row.line, peak.allocated, peak::held(session, &spans, row.line, &peak)));
    }
    let columns = [
        "stage",
        "pass",
        "device",
        "peak_allocated_bytes",
        "peak_reserved_bytes",
        "fragmentation_at_peak",
        "fragmentation",
        "allocations",
        "allocated_bytes",
    ];
    let caption =
        "Allocator by stage: peaks, unused share of what is reserved, allocations an instance";
    findings.blocks.push(Block::Table(View::new("memory", caption, &columns, rows.len().min(20))));
    let mut skip = 0;
    for (line, _, of_line) in held.iter().take(SHOWN_LINES) {
        let count = of_line.holders.len() + usize::from(of_line.before.is_some());
        let pass = session.pass_name(line.pass);
        let caption = format!("Live allocations at the peak of GPU {}, pass {pass}", line.device);
        let columns = ["operator", "range", "allocations", "bytes", "share"];
        let limit = count.min(SHOWN_HOLDERS);
        let view = View { skip, ..View::new("memory_at_peak", caption, &columns, limit) };
        findings.blocks.push(Block::Table(view));
        skip += count;
    }
    findings.datasets.push(rows::memory(session, &rows));
    findings.datasets.push(peak::dataset(session, &held));
    findings.metrics.extend(rows.iter().flat_map(|row| metrics(session, row)));
}

/// Rows of a line: the whole trace, then each stage.
fn rows_of<'a>(context: &Context<'_>, line: &'a Line) -> Vec<Row<'a>> {
    let session = context.session;
    let gpu = Some(line.device);
    let pass = session.pass_name(line.pass).to_owned();
    let whole = line.figures(session, &[line.span()]).map(|figures| Row {
        line,
        label: "whole trace".to_owned(),
        scope: Scope { pass: Some(pass), gpu, ..Scope::default() },
        whole: true,
        figures,
    });
    let stages = summaries(context.facts, line.pass).iter().filter_map(|stage| {
        let has_range = |one: &crate::analysis::engine::facts::StageInstance| one.range.is_some();
        let facts = context.facts;
        if !facts.instances_of(stage.stage(facts)).iter().all(has_range) {
            return None;
        }
        let figures = line.figures(session, &lines::stretches(facts, stage))?;
        let scope = Scope { gpu, ..stage.scope(session, facts) };
        Some(Row { line, label: stage.label(session, facts), scope, whole: false, figures })
    });
    whole.into_iter().chain(stages).collect()
}

fn summary(context: &Context<'_>, row: &Row<'_>) -> Vec<Inline> {
    let session = context.session;
    let Row { line, figures, .. } = row;
    let peak = figures.peak;
    let pass = session.pass_name(line.pass).to_owned();
    let bytes = |bytes: i64| Quantity::new(bytes as f64, Unit::Bytes);
    let mut text = prose![
        "In pass ",
        Inline::Code(pass),
        " the allocator holds at most ",
        bytes(peak.allocated),
        " on GPU ",
        Quantity::count(u64::from(line.device)),
        ", ",
        Quantity::ns(peak.time.saturating_sub(line.span().0)),
        " after its first event",
    ];
    if let Some(stage) = lines::stage_at(context, line.pass, peak.time) {
        text.extend(prose![", in ", Inline::Strong(stage)]);
    }
    if let (Some(reserved), Some(unused)) = (peak.reserved, peak.fragmentation()) {
        text.extend(prose![
            "; it has reserved ",
            bytes(reserved),
            " then, of which ",
            Quantity::ratio(unused),
            " are not allocated",
        ]);
    }
    text.push(".".into());
    text
}

fn metrics(session: &Session, row: &Row<'_>) -> Vec<Metric> {
    let Row { line, scope, figures, .. } = row;
    let place = if row.whole { "the whole trace" } else { "the ranges of the counted instances" };
    let peak = figures.peak;
    let evidence = Evidence {
        artifact: session.artifact_of(line.pass).to_owned(),
        table: Some("memory_events".to_owned()),
        rows: Some(line.events.len() as u64),
    };
    let basis = format!(
        "most bytes allocated after an allocator event within {place}, at {} ns",
        peak.time
    );
    let allocated = peak.allocated as f64;
    let mut all =
        vec![measured("memory_peak_allocated", scope.clone(), Unit::Bytes, allocated, basis)];
    if let Some(reserved) = figures.peak_reserved {
        let basis = format!("most bytes reserved after an allocator event within {place}");
        let scope = scope.clone();
        all.push(measured("memory_peak_reserved", scope, Unit::Bytes, reserved as f64, basis));
    }
    if let Some(unused) = figures.fragmentation {
        let basis = format!("1 − allocated ÷ reserved, averaged over the time of {place}");
        all.push(derived("memory_fragmentation", scope.clone(), Unit::Ratio, unused, basis));
    }
    for metric in &mut all {
        metric.evidence.push(evidence.clone());
    }
    all
}

/// The most memory in use that NVML saw, by device.
fn add_used(session: &Session, findings: &mut Findings) {
    let samples = &session.device_samples;
    let mut devices: Vec<u32> = samples.device.clone();
    devices.sort_unstable();
    devices.dedup();
    for (number, device) in devices.into_iter().enumerate() {
        let own = samples.ids().filter(|id| samples.device[id.index()] == device);
        let used: Vec<(u64, usize)> =
            own.filter_map(|id| Some((samples.memory_used[id.index()]?, id.index()))).collect();
        let Some((most, row)) =
            used.iter().max_by_key(|(bytes, row)| (*bytes, std::cmp::Reverse(*row)))
        else {
            continue;
        };
        if number < SHOWN_DEVICES {
            findings.blocks.push(Block::Prose(prose![
                "NVML saw at most ",
                Quantity::new(*most as f64, Unit::Bytes),
                " in use on GPU ",
                Quantity::count(u64::from(device)),
                ", CUDA contexts and other processes included.",
            ]));
        }
        let scope = Scope { gpu: Some(device), ..Scope::default() };
        let basis = format!("maximum of {} samples over the whole sampled period", used.len());
        let mut metric = measured("memory_peak_used", scope, Unit::Bytes, *most as f64, basis);
        metric.evidence.push(Evidence {
            artifact: session.text(samples.artifact[*row]).to_owned(),
            table: Some("device_samples".to_owned()),
            rows: Some(used.len() as u64),
        });
        findings.metrics.push(metric);
    }
}

fn method() -> Method {
    Method {
        title: "Device memory".to_owned(),
        text: prose![
            "Allocated and reserved are what the allocator of the framework states after each of its events; a state \
             holds until the next. It allocates and frees when the host asks for it, so its events belong to the \
             host's ranges of stages, and a peak lies ahead of the kernels that use the memory. Unused is \
             1 − allocated ÷ reserved, at the peak and averaged over time. Allocations at the peak are those that no \
             event up to it freed, by the outermost operator and the innermost range or module around the event; what \
             they do not explain was allocated before the trace began. Calls that allocate or free are those of CUDA's \
             memory management (cudaMalloc, cudaFree, cudaHostAlloc, cuMemCreate, cuMemMap and their kin) that the \
             process makes, on any thread, within the range of a stage."
        ],
    }
}
