//! What stands on the first page: whose run it was, and three headline figures per stage.

use std::collections::BTreeSet;

use rooflens_schemas::{PassKind, StageKind, Workload};

use crate::{Context, is_same};
use rooflens_analysis::counters::represent::matching::WHOLE;
use rooflens_analysis::engine::baseline::{Series, profiled};
use rooflens_analysis::engine::command::Command;
use rooflens_analysis::engine::facts::Sizes;
use rooflens_analysis::engine::stage_names::kind_by_name;
use rooflens_analysis::engine::stage_stats::{Means, Summary};
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::report::Subject;
use rooflens_document::{Block, SectionContent, Table};
use rooflens_session::GpuId;
use rooflens_units::{Count, ImagesPerSecond, Ratio, Time, TokensPerSecond};

/// Stages that the first page shows.
const SHOWN: usize = 10;

/// Share of the run from which on a stage stands on the first page.
const NOTABLE: Ratio = Ratio(0.01);

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

/// What ran and on which GPUs, for a title: the name of the workload without its sizes, else the family of the model, else
/// what kind of program it is. Never the name of a file.
pub fn subject(context: &Context<'_>) -> String {
    let session = context.session;
    let stated = session.workload.name.as_deref().unwrap_or_default();
    let name = stated.split([',', '，']).next().unwrap_or_default().trim();
    let family = session.model.as_ref().map(|model| model.family.as_str());
    let kinds = || context.facts.stages.iter().map(|stage| stage.kind);
    let trains = kinds().any(StageKind::is_training);
    let generates = kinds().any(|kind| matches!(kind, StageKind::Prefill | StageKind::Decode));
    let name = match (name, family.unwrap_or_default()) {
        ("", "") if trains => words!(context, "headline.training"),
        ("", "") if generates => words!(context, "headline.generation"),
        ("", "") => words!(context, "headline.program"),
        ("", family) if trains => words!(context, "headline.training_of", family = family),
        ("", family) => family.to_owned(),
        (name, _) => name.to_owned(),
    };
    let gpus = gpus(context);
    let (count, product) = gpus.split_once(" × ").unwrap_or(("1", &gpus));
    let product = short_product(product.split(", ").next().unwrap_or_default());
    if product.is_empty() || name.contains(product) {
        return name;
    }
    words!(
        context,
        "headline.subject",
        name = name,
        gpu = product,
        one = (count == "1").then_some(""),
        count = (count != "1").then_some(count),
    )
}

/// What ran, where no workload names it: the title of a report without a conclusion.
pub fn title(context: &Context<'_>) -> Option<String> {
    let is_named = context.session.workload.name.is_some();
    (!is_named).then(|| subject(context))
}

/// `NVIDIA A100-SXM4-40GB` as `A100`, `NVIDIA H100 80GB HBM3` as `H100`: without maker, form and memory.
fn short_product(product: &str) -> &str {
    let product = product
        .trim_start_matches("NVIDIA ")
        .trim_start_matches("Tesla ");
    let forms = ["-SXM", "-PCI", " PCIe", " SXM", "-NVL", " NVL"];
    let ends = forms.iter().filter_map(|form| product.find(form));
    let memory = product.match_indices([' ', '-']).find_map(|(place, _)| {
        let rest = product[place + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
        let has_size = rest.len() < product.len() - place - 1 && rest.starts_with("GB");
        has_size.then_some(place)
    });
    let end = ends.chain(memory).min().unwrap_or(product.len());
    product[..end].trim()
}

/// What ran, in no language.
pub fn of_results(context: &Context<'_>) -> Subject {
    let session = context.session;
    let products = products(context);
    let names: Vec<&str> = products.iter().map(|(name, _)| *name).collect();
    let family = session.model.as_ref().map(|model| model.family.as_str());
    let family = family.filter(|family| !family.is_empty());
    let model = family.or(session.workload.name.as_deref());
    Subject {
        gpu: names.join(", "),
        gpus: products.iter().map(|(_, count)| count).sum(),
        model: model.unwrap_or_default().to_owned(),
        workload: sizes_of_results(&session.workload),
    }
}

/// Type and sizes of a workload as they are stated: what must be the same for times to be compared.
fn sizes_of_results(workload: &Workload) -> String {
    let sizes = [
        ("batch", workload.batch),
        ("prompt", workload.prompt_tokens),
        ("output", workload.output_tokens),
        ("images", workload.images),
        ("width", workload.image_size.map(|[width, _]| width)),
        ("height", workload.image_size.map(|[_, height]| height)),
    ];
    let mut parts = Vec::new();
    parts.extend(
        workload
            .dtype
            .as_ref()
            .map(|dtype| format!("dtype={dtype}")),
    );
    for (name, size) in sizes {
        parts.extend(size.map(|size| format!("{name}={size}")));
    }
    parts.join(",")
}

fn gpus(context: &Context<'_>) -> String {
    let mut parts = Vec::new();
    for (name, count) in products(context) {
        parts.push(match count {
            1 => name.to_owned(),
            count => format!("{count} × {name}"),
        });
    }
    parts.join(", ")
}

/// Products that ran something and their number, of passes that tell; else all that there are.
fn products<'a>(context: &Context<'a>) -> Vec<(&'a str, usize)> {
    let session = context.session;
    let used: BTreeSet<GpuId> = context.facts.ops.gpu.iter().copied().collect();
    let is_used = |row: usize| used.is_empty() || used.contains(&GpuId(row as u32));
    let mut names: Vec<(&str, usize)> = Vec::new();
    for pass in session.passes.ids() {
        let mut names_of_pass: Vec<(&str, usize)> = Vec::new();
        for row in 0..session.gpus.len() {
            let name = session.text(session.gpus.name[row]);
            if session.gpus.pass[row] == pass && is_used(row) && !name.is_empty() {
                *count_of(&mut names_of_pass, name) += 1;
            }
        }
        // Passes of one bundle ran on one machine: take the pass that saw the most GPUs.
        for (name, count) in names_of_pass {
            let most = count_of(&mut names, name);
            *most = count.max(*most);
        }
    }
    names
}

/// The count of a name, which is added with zero if it is new.
fn count_of<'c, 'a>(counts: &'c mut Vec<(&'a str, usize)>, name: &'a str) -> &'c mut usize {
    let index = match counts.iter().position(|(counted, _)| *counted == name) {
        Some(index) => index,
        None => {
            counts.push((name, 0));
            counts.len() - 1
        }
    };
    &mut counts[index].1
}

fn model(context: &Context<'_>) -> String {
    let Some(model) = &context.session.model else {
        return String::new();
    };
    let encoders = model.encoders.iter().map(|encoder| encoder.llm.depth());
    let encoders = Some(encoders.sum::<u64>()).filter(|layers| *layers > 0);
    words!(
        context,
        "headline.model_sizes",
        family = model.family.as_str(),
        encoder = encoders.map(|layers| layers.to_string()),
        layers = model.depth().to_string(),
        decoder = encoders.map(|_| ""),
        hidden = model.hidden.to_string()
    )
}

fn sizes(context: &Context<'_>) -> String {
    let workload = &context.session.workload;
    let mut stages = context.facts.stages.iter();
    let trains = stages.any(|stage| stage.kind.is_training_only());
    let mut sizes = Vec::new();
    // Of other models than those of text, images or both, the first size of the first input may count something else.
    let is_guess = workload.infers("batch") && context.session.model.is_none();
    let batch = batch_of_update(context).or(workload.batch);
    let batch = batch.filter(|_| !is_guess);
    let counts = |sizes: &Sizes| sizes.batch.filter(|_| !is_guess);
    if let Some(size) = size(context, batch, counts) {
        sizes.push(words!(context, "headline.batch", size = size));
    }
    // A call of one token is a decode step, whatever the prompt was.
    let prompt = size(context, workload.prompt_tokens, |sizes| sizes.tokens);
    if let Some(size) = prompt.filter(|size| size != "1") {
        sizes.push(match trains {
            true => words!(context, "headline.sequence", size = size),
            false => words!(context, "headline.prompt", size = size),
        });
    }
    if let Some(size) = workload.output_tokens {
        // Where the capture program counted decode steps, prefill made the first token.
        let mut stages = context.facts.stages.iter();
        let is_prefilled = workload.infers("output_tokens")
            && stages.any(|stage| stage.kind == StageKind::Prefill);
        sizes.push(words!(
            context,
            "headline.output",
            size = (size + u64::from(is_prefilled)).to_string(),
            steps = is_prefilled.then(|| size.to_string()),
        ));
    }
    sizes.join(context.text.comma())
}

/// Sequences of a training step, which may accumulate gradients of several calls.
fn batch_of_update(context: &Context<'_>) -> Option<u64> {
    let utilization = context.results.utilization().ok()?;
    let works = utilization.stages.iter().flat_map(|stage| &stage.work);
    let formulas = works.map(|work| work.formula);
    let mut steps = formulas.filter(|formula| formula.kind == StageKind::TrainStep);
    steps.next().map(|formula| formula.batch)
}

/// A size of the workload as it is stated, or else as iterations have it, from the least to the most: of the baseline and
/// of all stages.
fn size(
    context: &Context<'_>,
    stated: Option<u64>,
    of: impl Fn(&Sizes) -> Option<u64>,
) -> Option<String> {
    if let Some(size) = stated {
        return Some(size.to_string());
    }
    let (session, facts) = (context.session, context.facts);
    // A decode step computes one token of a sequence, whatever its prompt was.
    let is_decode = |kind: StageKind| matches!(kind, StageKind::Decode | StageKind::DecodeStep);
    let series = context
        .results
        .baseline()
        .map_or(&[][..], |baseline| &baseline.series);
    let series = series.iter().filter(|series| {
        let kind = kind_by_name(&session.workload, session.text(series.stage));
        series.profiled == Some(false) && !is_decode(kind)
    });
    let repeats = series.flat_map(|series| &series.repeats);
    let mut sizes: Vec<u64> = repeats.filter_map(|repeat| of(&repeat.sizes)).collect();
    let stages = facts.stages.iter().filter(|stage| !is_decode(stage.kind));
    let instances = stages.flat_map(|stage| facts.instances_of(stage));
    sizes.extend(instances.filter_map(|instance| of(&instance.sizes)));
    let (least, most) = (sizes.iter().min()?, sizes.iter().max()?);
    Some(match least == most {
        true => least.to_string(),
        false => words!(
            context,
            "headline.size_range",
            least = least.to_string(),
            most = most.to_string()
        ),
    })
}

fn passes(context: &Context<'_>) -> String {
    let session = context.session;
    let mut shown = Vec::new();
    let has_runs = session.command_runs.kind.contains(&PassKind::Baseline);
    if has_runs || session.timings.profiled.contains(&Some(false)) {
        shown.push(words!(context, "headline.baseline"));
    }
    for pass in session.passes.ids() {
        let row = pass.index();
        let producer = session.text(session.passes.producer[row]);
        let kind = context.text.word(session.passes.kind[row].label());
        shown.push(match producer {
            "" => kind.to_owned(),
            producer => format!("{kind} ({producer})"),
        });
    }
    shown.dedup();
    shown.join(context.text.comma())
}

/// A stage's headline figures.
struct Row {
    stage: String,
    /// Stage time with a profiler.
    profiled: Option<Time>,
    /// Stage time without one.
    unprofiled: Option<Time>,
    /// Busy time with a profiler ÷ stage time, without one where that is known.
    busy_share: Option<Ratio>,
    mfu: Option<Ratio>,
    mbu: Option<Ratio>,
    /// By the FLOPs of operators with recorded shapes, where the work is not described.
    operator_utilization: Option<Ratio>,
    tokens_per_second: Option<TokensPerSecond>,
    /// Of a model of images.
    images_per_second: Option<ImagesPerSecond>,
}

/// The table of headline figures; no content for a session without stages.
pub fn headline(context: &Context<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let (mut rows, mut notable) = timeline_rows(context);
    let mut baseline_rows = Vec::new();
    let utilization = context.results.utilization().ok();
    for stage in utilization
        .into_iter()
        .flat_map(|utilization| &utilization.stages)
    {
        if is_alone(context, stage) {
            baseline_rows.push(baseline_row(context, stage));
        }
    }
    notable += baseline_rows.len();
    rows.splice(0..0, baseline_rows);
    if rows.is_empty()
        && let Ok(command) = context.results.command()
    {
        rows.extend(command_row(context, command));
        notable = rows.len();
    }
    if !rows.is_empty() {
        let table = table(context, &rows);
        let caption = caption(context, &rows);
        content
            .main
            .push(Block::Table(table.view(caption, notable.min(SHOWN))));
        content.datasets.push(table.rows(&rows));
    }
    content
}

/// Columns that some row has a value in.
#[derive(Default)]
struct Shown {
    unprofiled: bool,
    profiled: bool,
    profiled_ratio: bool,
    busy_share: bool,
    mfu: bool,
    mbu: bool,
    operator_utilization: bool,
    tokens_per_second: bool,
    images_per_second: bool,
}

impl Shown {
    fn of(rows: &[Row]) -> Shown {
        let mut shown = Shown::default();
        for row in rows {
            shown.unprofiled |= row.unprofiled.is_some();
            shown.profiled |= row.profiled.is_some();
            shown.profiled_ratio |= row.profiled.is_some() && row.unprofiled.is_some();
            shown.busy_share |= row.busy_share.is_some();
            shown.mfu |= row.mfu.is_some();
            shown.mbu |= row.mbu.is_some();
            shown.operator_utilization |= row.operator_utilization.is_some();
            shown.tokens_per_second |= row.tokens_per_second.is_some();
            shown.images_per_second |= row.images_per_second.is_some();
        }
        shown
    }
}

/// The caption, by the columns that are shown.
fn caption(context: &Context<'_>, rows: &[Row]) -> String {
    let shown = Shown::of(rows);
    let figures = [
        ("mfu", shown.mfu),
        ("mbu", shown.mbu),
        (
            "operator_utilization",
            shown.operator_utilization && !shown.mfu,
        ),
        ("tokens_per_second", shown.tokens_per_second),
    ];
    let mut names = Vec::new();
    for (id, is_shown) in figures {
        if is_shown {
            names.push(context.text.column("headline", id));
        }
    }
    let from_baseline = shown.unprofiled && !names.is_empty();
    words!(
        context,
        "headline.caption",
        profiled = shown.profiled.then_some(""),
        unprofiled = shown.unprofiled.then_some(""),
        figures = from_baseline.then(|| names.join(context.text.comma())),
    )
}

/// Columns are on the page as far as a row has them.
fn table(context: &Context<'_>, rows: &[Row]) -> Table<'static, Row> {
    let shown = Shown::of(rows);
    columns! { context, "headline", row: &Row => {
        text "stage" = row.stage.clone(), page;
        "unprofiled_ns" = row.unprofiled, page if shown.unprofiled;
        "profiled_ns" = row.profiled, page if shown.profiled;
        text "profiled_ratio" = row.profiled.zip(row.unprofiled).map(|(with, without)| with / without),
            page if shown.profiled_ratio;
        "busy_share" = row.busy_share, page if shown.busy_share;
        "mfu" = row.mfu, page if shown.mfu;
        "mbu" = row.mbu, page if shown.mbu;
        "operator_utilization" =
            row.operator_utilization, page if shown.operator_utilization && !shown.mfu;
        "tokens_per_second" =
            row.tokens_per_second, page if shown.tokens_per_second && !shown.images_per_second;
        "images_per_second" = row.images_per_second, page if shown.images_per_second;
    } }
}

/// The outermost stages and those of encoders, and how many of them, the first, take a notable part of the run.
fn timeline_rows(context: &Context<'_>) -> (Vec<Row>, usize) {
    let facts = context.facts;
    let outermost = facts
        .run_summaries()
        .filter(|summary| summary.is_outermost(facts));
    let run: Time = outermost.map(run_time).sum();
    let (mut rows, mut others) = (Vec::new(), Vec::new());
    for summary in facts.run_summaries() {
        let parent = summary
            .stage(facts)
            .parent
            .and_then(|parent| facts.stages.get(parent));
        let mut row = timeline_row(context, summary);
        match parent {
            None => (),
            Some(parent) if summary.kind(facts) == StageKind::Vision => {
                let (stage, parent) = (row.stage.as_str(), parent.name.as_str());
                row.stage = words!(context, "headline.within", stage = stage, parent = parent);
            }
            Some(_) => continue,
        }
        if run_time(summary) >= run * NOTABLE {
            rows.push(row);
        } else {
            others.push(row);
        }
    }
    let notable = rows.len();
    rows.extend(others);
    (rows, notable)
}

/// Time of all measured iterations of a stage.
fn run_time(summary: &Summary) -> Time {
    summary.time * summary.counted as f64
}

fn timeline_row(context: &Context<'_>, line: &Summary) -> Row {
    let baseline = of_baseline(context, line);
    let utilization = context.results.utilization().ok();
    let best = utilization.and_then(|utilization| match baseline {
        Some((series, _)) => utilization.unprofiled(context.session, series),
        None => utilization
            .stages
            .iter()
            .find(|stage| stage.timed.is_of(line)),
    });
    // Loops of different lengths compare by the step.
    let steps = line.steps.filter(Count::is_positive);
    let steps = steps.filter(|_| line.kind(context.facts) == StageKind::Decode);
    let per = steps.unwrap_or(Count(1.0));
    let unprofiled = baseline.map(|(_, time)| time);
    let (profiled, busy_share) = timed(context, line);
    let time = unprofiled.unwrap_or(line.time);
    let label = line.label(context.session, context.facts);
    let rated = best.filter(|_| !is_part_of_step(context, line.kind(context.facts)));
    Row {
        stage: if steps.is_some() {
            words!(context, "breakdown.step", stage = label)
        } else {
            label
        },
        profiled: Some(profiled / per),
        unprofiled: unprofiled.map(|time| time / per),
        busy_share: Some(busy_share),
        mfu: best.and_then(|stage| stage.mfu().ok()),
        mbu: best.and_then(|stage| stage.mbu().ok()),
        operator_utilization: flops_of(context, line)
            .and_then(by_operators)
            .map(|share| share * (line.time / time)),
        tokens_per_second: rated.and_then(|stage| stage.tokens_per_second().ok()),
        images_per_second: rated.and_then(|stage| stage.images_per_second().ok()),
    }
}

/// The unprofiled repeats of a stage of a timeline, and their time.
pub(crate) fn of_baseline<'a>(
    context: &Context<'a>,
    summary: &Summary,
) -> Option<(&'a Series, Time)> {
    context
        .results
        .baseline()
        .ok()?
        .of_summary(context, summary)
}

/// Profiled time ÷ unprofiled time up to which the profiler does not slow a stage.
const NOT_SLOWED: Ratio = Ratio(1.10);

/// The profiled time of a stage, and the share of its unprofiled time in which the GPU is busy with profiled kernels; means
/// where the unprofiled time is one of two levels. Kernels that take longer than a whole unprofiled iteration are busy for
/// the share of their own.
pub(crate) fn timed(context: &Context<'_>, summary: &Summary) -> (Time, Ratio) {
    let Means { time, busy, .. } = profiled(context, summary);
    let unprofiled = of_baseline(context, summary).map(|(_, unprofiled)| unprofiled);
    let is_whole = |whole: &Time| busy <= *whole || time > *whole * NOT_SLOWED;
    let whole = unprofiled.filter(is_whole).unwrap_or(time);
    (time, Ratio::of(busy, whole).min(Ratio::ONE))
}

/// Whether unprofiled repeats are of no stage of the timeline: of steps around its stages, or of one of several ranks.
fn is_alone(context: &Context<'_>, repeats: &StageUtilization) -> bool {
    let stage = repeats.timed.stage.as_str();
    let mut summaries = context.facts.run_summaries();
    let summary = summaries.find(|summary| summary.stage(context.facts).name == stage);
    repeats.timed.profiled.is_none()
        && summary.is_none_or(|summary| of_baseline(context, summary).is_none())
}

/// FLOPs of a stage by source.
fn flops_of<'a>(context: &Context<'a>, line: &Summary) -> Option<&'a StageFlops> {
    let mut stages = context.results.flops().ok()?.iter();
    stages.find(|flops| is_same(&flops.summary, line))
}

/// Utilization by FLOPs of operators with recorded shapes, if those of nearly all matrix kernels are known.
pub fn by_operators(flops: &StageFlops) -> Option<Ratio> {
    let sums = &flops.sums;
    sums.operators?;
    if sums.matrix_known.time() < sums.matrix.time() * WHOLE {
        return None;
    }
    flops.utilization.as_ref().ok().copied()
}

/// The whole command, where no stage has a time.
fn command_row(context: &Context<'_>, command: &Command) -> Option<Row> {
    let repeats = command.baselines.first()?;
    Some(Row {
        stage: words!(context, "headline.command"),
        profiled: None,
        unprofiled: Some(repeats.statistics.median),
        busy_share: None,
        mfu: None,
        mbu: None,
        operator_utilization: None,
        tokens_per_second: None,
        images_per_second: None,
    })
}

fn baseline_row(context: &Context<'_>, line: &StageUtilization) -> Row {
    let rated = Some(line).filter(|line| !is_part_of_step(context, line.timed.kind));
    Row {
        stage: line.timed.stage.clone(),
        profiled: None,
        unprofiled: Some(line.timed.time),
        busy_share: None,
        mfu: line.mfu().ok(),
        mbu: line.mbu().ok(),
        operator_utilization: None,
        tokens_per_second: rated.and_then(|line| line.tokens_per_second().ok()),
        images_per_second: rated.and_then(|line| line.images_per_second().ok()),
    }
}

/// Whether a stage is the forward or backward pass of training: neither has a throughput of its own.
fn is_part_of_step(context: &Context<'_>, kind: StageKind) -> bool {
    let mut stages = context.facts.stages.iter();
    matches!(kind, StageKind::Forward | StageKind::Backward)
        && stages.any(|stage| stage.kind.is_training_only())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_analysis::testing::{repeats, trace};
    use rooflens_analysis::{Facts, Options, Results};
    use rooflens_document::Catalogue;
    use rooflens_hardware::Hardware;
    use rooflens_session::Session;

    fn sizes_of(session: &Session) -> String {
        let (facts, options, hardware) =
            (Facts::new(session), Options::default(), Hardware::default());
        let context = rooflens_analysis::Context::new(session, &facts, &hardware, &options);
        let results = Results::compute(&context);
        sizes(&Context::new(context.with(&results), Catalogue::english()))
    }

    #[test]
    fn products_lose_maker_form_and_memory() {
        let products = [
            "NVIDIA H200",
            "NVIDIA A100-SXM4-40GB",
            "NVIDIA H100 80GB HBM3",
            "Tesla V100-SXM2-16GB",
            "NVIDIA GeForce RTX 4090",
            "NVIDIA H100 PCIe",
        ];
        let short = ["H200", "A100", "H100", "V100", "GeForce RTX 4090", "H100"];
        assert_eq!(products.map(short_product), short);
    }

    #[test]
    fn sizes_that_change_are_shown_from_the_least_to_the_most() {
        let mut session = repeats(&[
            ("prefill", "baseline", None, &[5, 7, 6]),
            ("decode", "baseline", None, &[5]),
        ]);
        session.timings.batch = vec![Some(8), Some(8), Some(3), Some(8)];
        session.timings.tokens = vec![Some(128), Some(1500), None, Some(1)];
        assert_eq!(sizes_of(&session), "batch 3 to 8, prompt 128 to 1500");
        // What is stated for the whole workload counts.
        session.workload.batch = Some(8);
        session.timings.tokens = vec![Some(128), Some(128), None, Some(1)];
        assert_eq!(sizes_of(&session), "batch 8, prompt 128");
        assert_eq!(sizes_of(&trace("")), "");
    }
}
