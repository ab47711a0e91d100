//! Stages: how long each takes, how long the GPU is busy in it, and what is attributed to none.

mod attribution_quality;
mod tables;

use rooflens_schemas::{Metric, Polarity, Unit};

use crate::analysis::engine::segments::exclusive;
use crate::analysis::engine::stage_stats::{Summary, counted, summaries};
use crate::analysis::engine::stats::doubtful_first;
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{
    Block, Cell, Chart, Column, Dataset, Findings, Inline, Method, Quantity, derived,
};
use crate::model::{PassId, Session};
use crate::prose;

/// Stages and their time.
pub(crate) static ANALYSIS: Analysis = Analysis { id: "stages", title: "Stages", missing, run };

fn missing(session: &Session) -> Option<&'static str> {
    let nothing = session.launches.is_empty()
        && session.copies.is_empty()
        && session.graph_launches.is_empty();
    nothing.then_some(
        "no GPU operation with a time in this bundle; capture with nsys or the PyTorch profiler",
    )
}

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let Some(primary) = context.facts.primary_pass(context.session) else { return findings };
    let lines = summaries(context.facts, primary);
    let mut introduction = introduction(context, primary);
    introduction.extend(lines.iter().flat_map(|line| doubt(context, line)));
    findings.blocks.push(Block::Prose(introduction));
    findings.blocks.push(Block::Chart(chart(context, primary, lines)));
    tables::add(context, primary, &mut findings);
    attribution_quality::add(context, primary, &mut findings);
    for pass in context.session.passes.ids() {
        for line in summaries(context.facts, pass) {
            findings.metrics.extend(metrics(context, line));
        }
    }
    findings.datasets.push(parts(context, lines));
    findings.methods.push(method());
    findings
}

fn introduction(context: &Context<'_>, primary: PassId) -> Vec<Inline> {
    let session = context.session;
    let name = session.pass_name(primary).to_owned();
    let kind = session.passes.kind[primary.index()].label();
    prose![
        "Times of this section are those of the pass ",
        Inline::Code(name),
        format!(
            " ({kind}). Stage time is the projection of a stage onto the GPU: from the start of its \
             first GPU operation to the end of its last. Profiling itself slows the host; the \
             un-profiled times stand under Repeats where the bundle has them."
        ),
    ]
}

/// What is to be said of a stage with a first instance that may be a cold one, and too few others to tell.
fn doubt(context: &Context<'_>, line: &Summary) -> Vec<Inline> {
    let times: Vec<f64> =
        counted(context.facts, line).filter_map(|one| Some(one.time()? as f64)).collect();
    let factor = doubtful_first(&times).filter(|_| line.is_outermost(context.facts));
    let Some(factor) = factor else { return Vec::new() };
    prose![
        " The first instance of ",
        Inline::Strong(line.label(context.session, context.facts)),
        " that counts takes ",
        Quantity::new(factor, Unit::One),
        format!(
            " times the median of the {} others. It may be a cold one; so few others have no spread to tell it by, so \
             it counts. A longer declared warm-up would leave it out.",
            times.len() - 1
        )
    ]
}

/// One bar a stage: busy time by kernel class, then idle time, as shares of the stage time.
fn chart(context: &Context<'_>, primary: PassId, lines: &[Summary]) -> Chart {
    let mut bars = Vec::new();
    for line in lines {
        let times = class_times(context, line);
        let busy: f64 = times.iter().sum();
        let mut values = times;
        let idle = (busy / line.busy_share.max(1e-12) - busy).max(0.0);
        values.push(idle);
        let note = format!(
            "{} · {} busy",
            Quantity::new(line.time, Unit::Nanoseconds),
            Quantity::ratio(line.busy_share)
        );
        bars.push(Bar { label: line.label(context.session, context.facts), values, note });
    }
    let colors = Color::KERNELS.into_iter().chain([Color::Idle]);
    let mut parts: Vec<Part> =
        colors.map(|color| Part { name: color.label().to_owned(), color }).collect();
    drop_empty_parts(&mut parts, &mut bars);
    let pass = context.session.pass_name(primary);
    Chart {
        id: "stage-time".to_owned(),
        title: "Where the stage time goes".to_owned(),
        description: format!(
            "One bar per stage of the pass {pass}: the shares of the stage time in which the GPU runs \
             each class of kernels, and the share in which it is idle. The table below holds the numbers."
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts,
            bars,
        }),
    }
}

/// Takes out the parts that no bar has.
pub(crate) fn drop_empty_parts(parts: &mut Vec<Part>, bars: &mut [Bar]) {
    for index in (0..parts.len()).rev() {
        if bars.iter().all(|bar| bar.values[index] <= 0.0) {
            parts.remove(index);
            for bar in bars.iter_mut() {
                bar.values.remove(index);
            }
        }
    }
}

/// Busy time of the counted instances by colour group; the parts add up to busy time exactly.
fn class_times(context: &Context<'_>, line: &Summary) -> Vec<f64> {
    let mut times = vec![0.0; Color::KERNELS.len()];
    let stage = line.stage(context.facts);
    let counted = context.facts.instances_of(stage).iter();
    for instance in counted.filter(|one| one.process == line.process && one.excluded.is_none()) {
        for gpu in &instance.gpus {
            let ops = &context.facts.ops;
            let own = instance.ops.iter().map(|op| *op as usize).filter(|op| ops.gpu[*op] == *gpu);
            for segment in exclusive(context, own) {
                if let Some(part) = Color::KERNELS.iter().position(|own| *own == segment.color) {
                    times[part] += (segment.end - segment.start) as f64;
                }
            }
        }
    }
    times
}

fn metrics(context: &Context<'_>, line: &Summary) -> Vec<Metric> {
    let scope = line.scope(context.session, context.facts);
    let over = format!("median of {} of {} instances", line.counted, line.instances);
    let evidence = line.evidence(context.session, context.facts);
    let time = |id, value, basis: String, polarity| {
        let mut metric = derived(id, scope.clone(), Unit::Nanoseconds, value, basis);
        metric.polarity = polarity;
        metric
    };
    let projection = format!("first start to last end of the stage's GPU operations, {over}");
    let mut busy_share = derived(
        "busy_share",
        scope.clone(),
        Unit::Ratio,
        line.busy_share,
        "median length of the union of operation intervals ÷ (stage time × GPUs)",
    );
    busy_share.polarity = Polarity::Higher;
    let mut all = vec![
        time("stage_time", line.time, projection, Polarity::Lower),
        time(
            "host_time",
            line.host,
            format!("duration of the range on the host, {over}"),
            Polarity::Lower,
        ),
        time(
            "operation_time_sum",
            line.sum,
            format!("sum of operation durations, {over}"),
            Polarity::Neutral,
        ),
        busy_share,
        derived("operations", scope.clone(), Unit::Count, line.operations, over),
        derived(
            "inferred_share",
            scope,
            Unit::Ratio,
            line.inferred_share,
            "operations issued by a thread without ranges, attributed to the one other thread with an open range",
        ),
    ];
    for metric in &mut all {
        metric.evidence = vec![evidence.clone()];
    }
    all
}

/// The parts of the chart's bars as a table.
fn parts(context: &Context<'_>, lines: &[Summary]) -> Dataset {
    let mut rows = Vec::new();
    for line in lines {
        let scope = line.scope(context.session, context.facts);
        let times = class_times(context, line);
        let busy: f64 = times.iter().sum();
        for (color, time) in Color::KERNELS.into_iter().zip(times).filter(|(_, time)| *time > 0.0) {
            rows.push(vec![
                Cell::Text(line.label(context.session, context.facts)),
                Cell::Text(scope.pass.clone().unwrap_or_default()),
                Cell::Text(color.label().to_owned()),
                Cell::Float(time),
                Cell::Float(time / busy),
            ]);
        }
    }
    Dataset {
        id: "stage_parts",
        title: "Busy time of stages by group of classes".to_owned(),
        columns: vec![
            Column::text("stage", "stage"),
            Column::text("pass", "pass"),
            Column::text("part", "part"),
            Column::new("time_ns", "busy time", Unit::Nanoseconds),
            Column::new("busy_share", "of busy time", Unit::Ratio),
        ],
        rows,
    }
}

fn method() -> Method {
    Method {
        title: "Stage time and busy share".to_owned(),
        text: prose![
            "A GPU operation (kernel, copy, memset, or a whole CUDA graph) belongs to every range that encloses \
             the start of the API call that issued it, on the same thread; operation and call join on process and \
             correlation id. An operation issued by a thread without an open range is lent the range of the one \
             other thread of the process that has one open over the whole call, and counted as inferred; where \
             several threads have, it stays unattributed. Stage time is the projection: last end minus first start \
             of the stage's operations. Busy is the length of the union of their intervals, per GPU; busy share is \
             busy ÷ projection; idle is the difference. Where several operations run at once, charts give the moment to a \
             computing kernel, then to a collective, then to a copy. Sums of durations count overlap twice and are never called \
             busy. Aggregates are medians over the instances that count: declared warm-up, instances with another \
             number of decode steps than the workload states, and a first instance whose modified z-score against \
             the later ones exceeds ",
            Quantity::new(crate::analysis::engine::stages::WARMUP_Z, Unit::One),
            " are left out and shown as left out."
        ],
    }
}

#[cfg(test)]
mod tests {
    use rooflens_schemas::PassKind;

    use super::*;
    use crate::analysis::{Facts, Options};
    use crate::hardware::Hardware;
    use crate::model::{Copy, CopyKind, Dim3, GpuId, Launch, MemoryKind, Ns, ProcessId};

    fn launch(session: &mut Session, name: &str, start: Ns, end: Ns) {
        let (pass, gpu, kernel) = (PassId(0), GpuId(0), session.kernel(name, ""));
        session.launches.push(Launch {
            start,
            end,
            kernel,
            pass,
            gpu,
            process: ProcessId(0),
            stream: 7,
            correlation: None,
            grid: Dim3::default(),
            block: Dim3::default(),
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        });
    }

    /// A matrix product in [0, 10), an all-reduce in [5, 20), a copy in [15, 30): 10 + 10 + 10 = busy 30.
    #[test]
    fn overlap_belongs_to_computing_then_to_communication_then_to_copies() {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
        session.process(pass, 0, 1);
        session.gpu(pass, 0);
        launch(&mut session, "ampere_sgemm_128x64_tn", 0, 10);
        launch(&mut session, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 20);
        session.copies.push(Copy {
            start: 15,
            end: 30,
            kind: CopyKind::HostToDevice,
            bytes: 1,
            source: MemoryKind::Pinned,
            destination: MemoryKind::Device,
            pass,
            gpu: GpuId(0),
            process: ProcessId(0),
            stream: 8,
            correlation: None,
            graph_node: None,
            graph: None,
        });
        let (facts, hardware, options) =
            (Facts::new(&session), Hardware::default(), Options::default());
        let context = Context::new(&session, &facts, &hardware, &options);
        let line = &summaries(&facts, pass)[0];
        let mut times: Vec<(Color, f64)> =
            Color::KERNELS.into_iter().zip(class_times(&context, line)).collect();
        times.retain(|(_, time)| *time > 0.0);
        assert_eq!(times, [(Color::Gemm, 10.0), (Color::Copy, 10.0), (Color::Communication, 10.0)]);
        assert_eq!(line.busy, 30.0);
    }
}
