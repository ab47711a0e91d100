//! What stands on the first page: whose run it was, and three headline figures per stage.

use std::collections::BTreeSet;

use rooflens_schemas::StageKind;

use crate::Context;
use rooflens_analysis::counters::represent::matching::WHOLE;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Block, SectionContent, Table};
use rooflens_session::{Arrange, GpuId};

/// Stages that the first page shows.
const SHOWN: usize = 10;

/// Share of the run from which on a stage stands on the first page.
const NOTABLE: f64 = 0.01;

/// Title and lines of the cover.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cover {
    /// The workload's name, if it has one.
    pub title: Option<String>,
    /// GPU, model, sizes, passes.
    pub facts: Vec<(String, String)>,
}

/// The cover of a session's report.
pub fn cover(context: &Context<'_>) -> Cover {
    let workload = &context.session.workload;
    let mut facts = Vec::new();
    let mut add = |name: String, value: String| {
        if !value.is_empty() {
            facts.push((name, value));
        }
    };
    add(words!(context, "headline.gpu"), gpus(context));
    add(words!(context, "headline.model"), model(context));
    add(words!(context, "headline.sizes"), sizes(context));
    add(
        words!(context, "headline.dtype"),
        workload.dtype.clone().unwrap_or_default(),
    );
    add(words!(context, "headline.passes"), passes(context));
    Cover {
        title: workload.name.clone(),
        facts,
    }
}

/// GPUs that ran something, of passes that tell; else all that there are.
fn gpus(context: &Context<'_>) -> String {
    let session = context.session;
    let used: BTreeSet<GpuId> = context.facts.ops.gpu.iter().copied().collect();
    let counts = |row: usize| used.is_empty() || used.contains(&GpuId(row as u32));
    let mut names: Vec<(&str, usize)> = Vec::new();
    for pass in session.passes.ids() {
        let own =
            (0..session.gpus.len()).filter(|row| session.gpus.pass[*row] == pass && counts(*row));
        let mut here: Vec<(&str, usize)> = Vec::new();
        for name in own
            .map(|row| session.text(session.gpus.name[row]))
            .filter(|name| !name.is_empty())
        {
            match here.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => here.push((name, 1)),
            }
        }
        // Passes of one bundle ran on one machine: the one that saw the most GPUs tells.
        for (name, count) in here {
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, most)) => *most = count.max(*most),
                None => names.push((name, count)),
            }
        }
    }
    let named = |(name, count): (&str, usize)| match count {
        1 => name.to_owned(),
        count => format!("{count} × {name}"),
    };
    names
        .into_iter()
        .map(named)
        .collect::<Vec<String>>()
        .join(", ")
}

fn model(context: &Context<'_>) -> String {
    let Some(model) = &context.session.model else {
        return String::new();
    };
    let (layers, hidden) = (model.depth().to_string(), model.hidden.to_string());
    let family = model.family.as_str();
    words!(
        context,
        "headline.model_sizes",
        family = family,
        layers = layers,
        hidden = hidden
    )
}

fn sizes(context: &Context<'_>) -> String {
    let workload = &context.session.workload;
    let written = |size: Option<u64>| size.map(|size| size.to_string());
    let (batch, prompt) = (written(workload.batch), written(workload.prompt_tokens));
    let trains = context
        .facts
        .stages
        .iter()
        .any(|stage| stage.kind.is_training());
    let sizes = [
        batch.map(|size| words!(context, "headline.batch", size = size)),
        prompt.map(|size| match trains {
            true => words!(context, "headline.sequence", size = size),
            false => words!(context, "headline.prompt", size = size),
        }),
        written(workload.output_tokens).map(|size| words!(context, "headline.output", size = size)),
    ];
    sizes
        .into_iter()
        .flatten()
        .collect::<Vec<String>>()
        .join(context.text.comma())
}

fn passes(context: &Context<'_>) -> String {
    let session = context.session;
    let mut shown: Vec<String> = session
        .passes
        .ids()
        .map(|pass| {
            let row = pass.index();
            let producer = session.text(session.passes.producer[row]);
            let kind = context.text.word(session.passes.kind[row].label());
            if producer.is_empty() {
                kind.to_owned()
            } else {
                format!("{kind} ({producer})")
            }
        })
        .collect();
    if session.timings.profiled.contains(&Some(false)) {
        shown.insert(0, words!(context, "headline.baseline"));
    }
    shown.dedup();
    shown.join(context.text.comma())
}

/// A stage's headline figures.
struct Row {
    stage: String,
    /// Stage time with a profiler, nanoseconds.
    profiled: Option<f64>,
    /// Stage time without one, nanoseconds.
    unprofiled: Option<f64>,
    /// Busy time with a profiler ÷ stage time, without one where that is known.
    busy_share: Option<f64>,
    mfu: Option<f64>,
    mbu: Option<f64>,
    /// By the FLOPs of operators with recorded shapes, where the work is not described.
    operator_utilization: Option<f64>,
    tokens_per_second: Option<f64>,
    /// Of a model of images.
    images_per_second: Option<f64>,
}

/// The table of headline figures; no findings for a session without stages.
pub fn headline(context: &Context<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let utilization = context
        .results
        .utilization()
        .map_or(&[][..], |all| &all.stages);
    let (mut rows, mut notable) = timeline_rows(context, utilization);
    // What no timeline has: all of it without one, and steps around the stages of one.
    let is_profiled = |one: &StageUtilization| one.timed.profiled.is_some();
    let is_alone = |one: &&StageUtilization| {
        let mut same = utilization
            .iter()
            .filter(|other| other.timed.stage == one.timed.stage);
        !same.any(is_profiled)
    };
    let alone: Vec<Row> = utilization
        .iter()
        .filter(is_alone)
        .map(baseline_row)
        .collect();
    notable += alone.len();
    rows.splice(0..0, alone);
    if !rows.is_empty() {
        let table = table(context, &rows);
        let caption = caption(context, &rows);
        findings
            .main
            .push(Block::Table(table.view(caption, notable.min(SHOWN))));
        findings.datasets.push(table.rows(&rows));
    }
    findings
}

/// What the columns that are shown rest on.
fn caption(context: &Context<'_>, rows: &[Row]) -> String {
    let has = |value: fn(&Row) -> Option<f64>| rows.iter().any(|row| value(row).is_some());
    let figures = [
        ("mfu", has(|row| row.mfu)),
        ("mbu", has(|row| row.mbu)),
        ("tokens_per_second", has(|row| row.tokens_per_second)),
    ];
    let shown = figures.iter().filter(|(_, shown)| *shown);
    let names: Vec<&str> = shown
        .map(|(id, _)| context.text.column("headline", id))
        .collect();
    let from_baseline = has(|row| row.unprofiled) && !names.is_empty();
    words!(
        context,
        "headline.caption",
        profiled = has(|row| row.profiled).then_some(""),
        unprofiled = has(|row| row.unprofiled).then_some(""),
        figures = from_baseline.then(|| names.join(context.text.comma())),
    )
}

/// Columns are on the page as far as a row has them.
fn table(context: &Context<'_>, rows: &[Row]) -> Table<'static, Row> {
    let has = |value: fn(&Row) -> Option<f64>| rows.iter().any(|row| value(row).is_some());
    columns! { context, "headline", row: &Row => {
        text "stage" = row.stage.clone(), page;
        time "unprofiled_ns" = row.unprofiled, page if has(|row| row.unprofiled);
        time "profiled_ns" = row.profiled, page if has(|row| row.profiled);
        share "busy_share" = row.busy_share, page if has(|row| row.busy_share);
        share "mfu" = row.mfu, page if has(|row| row.mfu);
        share "mbu" = row.mbu, page if has(|row| row.mbu);
        share "operator_utilization" =
            row.operator_utilization, page if has(|row| row.operator_utilization) && !has(|row| row.mfu);
        TokensPerSecond "tokens_per_second" =
            row.tokens_per_second, page if has(|row| row.tokens_per_second) && !has(|row| row.images_per_second);
        ImagesPerSecond "images_per_second" =
            row.images_per_second, page if has(|row| row.images_per_second);
    } }
}

/// The outermost stages, and how many of them, the first, take a notable part of the run.
fn timeline_rows(context: &Context<'_>, utilization: &[StageUtilization]) -> (Vec<Row>, usize) {
    let outermost = context
        .facts
        .run_summaries()
        .filter(|line| line.is_outermost(context.facts));
    let mut outermost: Vec<&Summary> = outermost.collect();
    let total = |line: &Summary| line.time * line.counted as f64;
    let run: f64 = outermost.iter().map(|line| total(line)).sum();
    let is_notable = |line: &Summary| total(line) >= NOTABLE * run;
    outermost.arrange_by_key(|line| !is_notable(line));
    let notable = outermost.iter().filter(|line| is_notable(line)).count();
    (
        outermost
            .iter()
            .map(|line| timeline_row(context, line, utilization))
            .collect(),
        notable,
    )
}

fn timeline_row(context: &Context<'_>, line: &Summary, utilization: &[StageUtilization]) -> Row {
    let stage = &line.stage(context.facts).name;
    let unprofiled = utilization
        .iter()
        .find(|one| one.timed.stage == *stage && one.timed.profiled.is_none());
    let profiled = utilization.iter().find(|one| one.timed.is_of(line));
    let best = unprofiled.or(profiled);
    // Loops of different lengths compare by the step.
    let steps = line.steps.filter(|steps| *steps > 0.0);
    let steps = steps.filter(|_| line.kind(context.facts) == StageKind::Decode);
    let unprofiled_time = unprofiled.and_then(|one| match (steps, one.timed.steps) {
        (None, _) => Some(one.timed.time),
        (Some(_), Some(own)) if own > 0 => Some(one.timed.time / own as f64),
        (Some(_), _) => None,
    });
    // Optimizers have times, but no utilization.
    let of_baseline = || {
        let baseline = context
            .results
            .baseline()
            .ok()
            .filter(|_| steps.is_none())?;
        Some(
            baseline
                .unprofiled(context.session, stage)?
                .statistics
                .median,
        )
    };
    let per = steps.unwrap_or(1.0);
    let unprofiled_time = unprofiled_time.or_else(of_baseline);
    // What kernels take with a profiler they take without one, where the CPU gains.
    let busy = line.busy_share * line.time / per;
    let without = unprofiled_time.filter(|time| (busy..line.time / per).contains(time));
    let label = line.label(context.session, context.facts);
    Row {
        stage: if steps.is_some() {
            words!(context, "breakdown.step", stage = label)
        } else {
            label
        },
        profiled: Some(line.time / per),
        unprofiled: unprofiled_time,
        busy_share: Some(without.map_or(line.busy_share, |time| busy / time)),
        mfu: best.and_then(|one| one.mfu().ok()),
        mbu: best.and_then(|one| one.mbu().ok()),
        operator_utilization: by_operators(context, line),
        tokens_per_second: best.and_then(|one| one.tokens_per_second().ok()),
        images_per_second: best.and_then(|one| one.images_per_second().ok()),
    }
}

/// Utilization by FLOPs of operators with recorded shapes, if those of nearly all matrix kernels are known.
fn by_operators(context: &Context<'_>, line: &Summary) -> Option<f64> {
    let own =
        |one: &&StageFlops| (one.summary.stage, one.summary.process) == (line.stage, line.process);
    let flops = context.results.flops().ok()?.iter().find(own)?;
    let sums = &flops.sums;
    sums.operators?;
    (sums.matrix_known as f64 >= WHOLE * sums.matrix as f64).then_some(())?;
    flops.utilization.as_ref().ok().copied()
}

fn baseline_row(line: &StageUtilization) -> Row {
    Row {
        stage: line.timed.stage.clone(),
        profiled: None,
        unprofiled: Some(line.timed.time),
        busy_share: None,
        mfu: line.mfu().ok(),
        mbu: line.mbu().ok(),
        operator_utilization: None,
        tokens_per_second: line.tokens_per_second().ok(),
        images_per_second: line.images_per_second().ok(),
    }
}
