//! Concurrency: how much of the busy time several streams and kinds of operations share.

mod overlap;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use crate::analysis::engine::stages::WHOLE_CAPTURE;
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{Block, Chart, Findings, Method, Quantity, View, derived};
use crate::model::{GpuId, Ns, PassId};
use crate::prose;

use overlap::Overlap;

/// Concurrency.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "concurrency", title: "Concurrency", missing: |_| None, run };

/// Lines that the chart and the table show.
const SHOWN: usize = 16;

/// Bars of less overlap all look alike.
const LEAST_SHARE: f64 = 0.005;

/// Pairs of streams that the table shows.
const SHOWN_PAIRS: usize = 8;

/// A stage on one GPU, or all work of a pass on it.
struct Line {
    pass: PassId,
    /// Index of the stage; none for the whole pass.
    stage: Option<usize>,
    gpu: GpuId,
    operations: usize,
    overlap: Overlap,
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let primary = context.facts.primary_pass(session);
    let mut passes: Vec<PassId> = session.passes.ids().collect();
    passes.sort_by_key(|pass| (Some(*pass) != primary, *pass));
    let all: Vec<Line> = passes.into_iter().flat_map(|pass| lines(context, pass)).collect();
    let mut findings = Findings::default();
    let Some(first) = all.first() else { return findings };
    let own = all.iter().take_while(|line| line.pass == first.pass).count().min(SHOWN);
    let shown = all.len().min(SHOWN);
    let name = session.pass_name(first.pass);
    findings.blocks.push(Block::Prose(prose![
        "How many streams of a GPU work at once. Work on several streams gains only where it overlaps: a copy or a \
         collective that no kernel accompanies costs its whole time."
    ]));
    if all[..own].iter().any(|line| line.overlap.concurrent_share() > Some(LEAST_SHARE)) {
        findings.blocks.push(Block::Chart(chart(context, &all[..own], name)));
    }
    let columns = tables::shown_columns(&all[..shown]);
    let mut caption = "Time in which operations run at once".to_owned();
    if !columns.contains(&"pass") {
        caption.push_str(&format!(", pass {name}"));
    }
    findings.blocks.push(Block::Table(View::new("concurrency", caption, &columns, shown)));
    let pairs = tables::stream_overlap(context, &all);
    if !pairs.rows.is_empty() {
        let mut columns = tables::shown_start(&all);
        columns.extend(["stream", "other", "overlap_ns", "share"]);
        let caption = "Streams that work at once, as a share of the less busy one's time";
        let view = View::new("stream_overlap", caption, &columns, SHOWN_PAIRS);
        findings.appendix.push(Block::Table(view));
        findings.datasets.push(pairs);
    }
    findings.datasets.push(tables::concurrency(context, &all));
    findings.metrics = all.iter().filter_map(|line| metric(context, line)).collect();
    findings.methods.push(method());
    findings
}

/// The whole pass and its stages on each GPU, where operations of more than one stream are there.
fn lines(context: &Context<'_>, pass: PassId) -> Vec<Line> {
    let facts = context.facts;
    let whole = by_gpu(context, facts.ops_of(pass));
    let mut lines: Vec<Line> = Vec::new();
    for (index, stage) in facts.stages.iter().enumerate().filter(|(_, stage)| stage.pass == pass) {
        let counted = facts.instances_of(stage).iter().filter(|one| one.excluded.is_none());
        let own = counted.flat_map(|instance| instance.ops.iter().map(|op| *op as usize));
        for (gpu, rows) in by_gpu(context, own) {
            lines.extend(line(context, pass, Some(index), gpu, &rows));
        }
    }
    // A pass without ranges is one stage already.
    let one_stage = lines.iter().any(|line| line.stage_name(context) == WHOLE_CAPTURE);
    for (gpu, rows) in whole.into_iter().filter(|_| !one_stage) {
        lines.extend(line(context, pass, None, gpu, &rows));
    }
    lines
}

/// Operations by GPU, of GPUs with more than one stream.
fn by_gpu(context: &Context<'_>, rows: impl Iterator<Item = usize>) -> BTreeMap<GpuId, Vec<usize>> {
    let ops = &context.facts.ops;
    let mut lists: BTreeMap<GpuId, Vec<usize>> = BTreeMap::new();
    for row in rows {
        lists.entry(ops.gpu[row]).or_default().push(row);
    }
    let stream = |row: &usize| (ops.process[*row], ops.stream[*row]);
    lists.retain(|_, rows| rows.iter().any(|row| stream(row) != stream(&rows[0])));
    lists
}

fn line(
    context: &Context<'_>,
    pass: PassId,
    stage: Option<usize>,
    gpu: GpuId,
    rows: &[usize],
) -> Option<Line> {
    let overlap = overlap::of_ops(context, rows);
    let several = overlap.streams.len() > 1;
    several.then_some(Line { pass, stage, gpu, operations: rows.len(), overlap })
}

impl Line {
    fn stage_name<'a>(&self, context: &'a Context<'_>) -> &'a str {
        self.stage.map_or("whole pass", |stage| &context.facts.stages[stage].name)
    }

    fn ordinal(&self, context: &Context<'_>) -> u32 {
        context.session.gpus.ordinal[self.gpu.index()]
    }
}

fn chart(context: &Context<'_>, lines: &[Line], pass: &str) -> Chart {
    let gpus: BTreeSet<GpuId> = lines.iter().map(|line| line.gpu).collect();
    let bar = |line: &Line| {
        let values: Vec<f64> = line.overlap.by_streams.iter().map(|time| *time as f64).collect();
        let name = line.stage_name(context);
        let label = match gpus.len() {
            1 => name.to_owned(),
            _ => format!("{name} · GPU {}", line.ordinal(context)),
        };
        let busy = Quantity::ns(line.overlap.busy);
        Bar { label, values, note: format!("{busy} busy") }
    };
    let part = |(name, color): (&str, Color)| Part { name: name.to_owned(), color };
    let parts = [
        ("one stream", Color::Idle),
        ("two streams", Color::Elementwise),
        ("three or more", Color::Gemm),
    ];
    let bars = StackedBars {
        unit: Unit::Nanoseconds,
        normalized: true,
        parts: parts.into_iter().map(part).collect(),
        bars: lines.iter().map(bar).collect(),
    };
    let most = lines.iter().max_by_key(|line| line.overlap.concurrent);
    let most = most.map_or_else(String::new, |line| {
        format!(
            " Most overlaps in {}: {} of {} busy.",
            line.stage_name(context),
            Quantity::ns(line.overlap.concurrent),
            Quantity::ns(line.overlap.busy)
        )
    });
    Chart {
        id: "concurrency".to_owned(),
        title: "Streams that work at once, as shares of busy time".to_owned(),
        description: format!(
            "One bar a stage and GPU of pass {pass}: the shares of busy time in which operations of one, of two, and of \
             three or more streams run.{most}"
        ),
        plot: Plot::StackedBars(bars.without_empty_parts()),
    }
}

fn metric(context: &Context<'_>, line: &Line) -> Option<Metric> {
    let session = context.session;
    let row = line.pass.index();
    let gpus = session.gpus.pass.iter().filter(|pass| **pass == line.pass).count();
    let scope = Scope {
        pass: Some(session.text(session.passes.name[row]).to_owned()),
        stage: line.stage.map(|stage| context.facts.stages[stage].name.clone()),
        gpu: (gpus > 1).then(|| line.ordinal(context)),
        ..Scope::default()
    };
    let (concurrent, busy) = (line.overlap.concurrent, line.overlap.busy);
    let basis = format!(
        "{concurrent} ns with two or more operations at once ÷ {busy} ns busy, {} streams",
        line.overlap.streams.len()
    );
    let share = line.overlap.concurrent_share()?;
    let mut metric = derived("concurrent_share", scope, Unit::Ratio, share, basis);
    metric.evidence.push(Evidence {
        artifact: session.text(session.passes.artifact[row]).to_owned(),
        table: Some("launches, copies".to_owned()),
        rows: Some(line.operations as u64),
    });
    Some(metric)
}

fn method() -> Method {
    Method {
        title: "Concurrency".to_owned(),
        text: prose![
            "A sweep over the starts and ends of the operations of a stage's counted instances on one GPU; operations that \
             touch do not overlap. Busy is the length of their union. Computing is every kernel that is no collective, and \
             every whole CUDA graph; copies include memsets. The time of one kind with itself is that in which two or more \
             operations of it run. Whole CUDA graphs count as one operation of one stream: what overlaps within them \
             does not show."
        ],
    }
}

/// Time as a share of the busy time.
fn share(time: Ns, busy: Ns) -> Option<f64> {
    (busy > 0).then(|| time as f64 / busy as f64)
}

#[cfg(test)]
mod tests;
