//! GEMMs: sizes, rate, tiles and waves, and the time above the roofline.

mod metrics;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_session::Ns;
use rooflens_units::{Ratio, Time};

use super::{Section, products};
use crate::{Context, is_same, is_slowest, shapes_advice};
use rooflens_analysis::Known;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::matmul::Products;
use rooflens_analysis::kernels::matmul::config::unsized_parts;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::{Block, Inline, Quantity, SectionContent, View};

/// GEMMs. A bundle without such kernels has no such section.
pub(super) static SECTION: Section = Section { id: "gemms", show };

/// Products that a page shows of each stage.
const SHOWN: usize = 8;

/// Rows of logs that a page shows.
const SHOWN_LOGGED: usize = 16;

/// Part of the summed durations that overlaps, from which on their sum is distinguished from busy time.
const OVERLAP: Ratio = Ratio(0.01);

/// Part of a stage's GPU time above the roofline, from which on a table is in the order of it.
const MATERIAL: Ratio = Ratio(0.01);

/// Stages that a page shows.
const SHOWN_STAGES: usize = 4;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let results = context.results;
    let (products, stages, log) = (results.matmul()?, results.gemm()?, results.gemm_log()?);
    let mut content = SectionContent::default();
    if !log.is_empty() {
        // Kernels that were found in the log say more than it does.
        let shown = (!products.is_any_logged()).then(|| log_view(context, log.len()));
        match context.session.is_measured() {
            true => content.blocks.extend(shown),
            false => content.main.extend(shown),
        }
        content.datasets.push(tables::logged(context, log));
    }
    if stages.is_empty() {
        return Ok(content);
    }
    let pass = context.facts.kernel_pass(context.session);
    let of_pass = stages
        .iter()
        .filter(|stage| Some(stage.pass) == pass)
        .count();
    let shown = if of_pass == 0 { stages.len() } else { of_pass };
    let shown = &stages[..shown.min(SHOWN_STAGES)];
    // Of several ranks the slowest: the table has what differs.
    let (mut names, mut lines) = (Vec::new(), Vec::new());
    for stage in shown {
        let name = stage.summary.stage(context.facts).name.as_str();
        if is_slowest(context, &stage.summary) && !names.contains(&name) {
            names.push(name);
            lines.push(in_words(context, stage));
        }
    }
    content.main.push(Block::Facts(lines));
    content
        .blocks
        .extend(tables::chart(context, shown).map(Block::Chart));
    let mut views = views(context, shown);
    content.main.push(views.remove(focus(context, shown)));
    content.blocks.extend(views);
    if stages.iter().all(|stage| stage.known == Ns::ZERO) {
        content.blocks.push(Block::Missing(words!(
            context,
            "gemm.no_sizes",
            advice = shapes_advice(context, context.text)
        )));
    }
    content
        .blocks
        .extend(not_by_config(context, shown).map(Block::Prose));
    for stage in stages {
        content.metrics.extend(metrics::of(context, stage));
        content.diagnostics.extend(above_peak(context, stage));
    }
    content.diagnostics.extend(contradictions(products));
    content.datasets.push(tables::dataset(context, stages));
    content.methods.push(method!(context, "gemm"));
    Ok(content)
}

/// The number of the stage whose table the report shows: the one that loses most.
fn focus(context: &Context<'_>, shown: &[StageProducts]) -> usize {
    let Some(focus) = crate::focus(context) else {
        return 0;
    };
    shown
        .iter()
        .position(|stage| is_same(&focus, &stage.summary))
        .unwrap_or(0)
}

/// GEMM time above the roofline over all measured iterations, if it is a notable part of the stage.
fn loss(stage: &StageProducts) -> Option<Time> {
    stage
        .recoverable()
        .filter(|lost| *lost >= stage.total.time() * MATERIAL)
}

/// The products of logs of which no kernel is known to be one.
/// The first page where there is nothing but logs of cuBLAS.
pub(super) fn first_page(context: &Context<'_>) -> Vec<Block> {
    let Ok(log) = context.results.gemm_log() else {
        return Vec::new();
    };
    if log.is_empty() {
        return Vec::new();
    }
    let calls = context.session.gemm_calls.len() as u64;
    let (calls, sizes) = (Quantity::count(calls), Quantity::count(log.len() as u64));
    vec![Block::Prose(say!(
        context,
        "gemm.only_logged",
        calls = calls,
        sizes = sizes
    ))]
}

fn log_view(context: &Context<'_>, rows: usize) -> Block {
    let columns = [
        "shape", "batch", "dtype", "tile", "calls", "flops", "function", "artifact",
    ];
    let caption = words!(context, "gemm.logged");
    Block::Table(View::new(
        "gemm_log",
        caption,
        &columns,
        rows.min(SHOWN_LOGGED),
    ))
}

/// A stage in one sentence.
fn in_words(context: &Context<'_>, stage: &StageProducts) -> (String, Vec<Inline>) {
    let per = |sum: Time| stage.per_instance(sum);
    let overlaps = share(stage.total - stage.busy, stage.total) >= OVERLAP;
    let sizes = match stage.known {
        Ns(0) => Some(say!(context, "gemm.sizes_unknown")),
        known if known < stage.time => {
            let coverage = stage.shape_coverage();
            Some(say!(context, "gemm.sizes_known", known = coverage))
        }
        _ => None,
    };
    let text = say!(
        context,
        "gemm.stage",
        time = per(stage.time.time()),
        count = Quantity::count(stage.summary.counted as u64),
        share = stage.time_share(),
        overlap = overlaps.then(|| say!(context, "gemm.overlap")),
        sizes = sizes,
        lost = stage.recoverable().map(per),
        convolutions = convolutions(context, stage).map(per),
    );
    (stage.summary.label(context.session, context.facts), text)
}

/// Time of the stage's convolutions over all counted instances: the group of GEMMs in charts holds them.
fn convolutions(context: &Context<'_>, stage: &StageProducts) -> Option<Time> {
    let work = context.results.stage_work().ok()?;
    let stage_work = work
        .iter()
        .find(|work| is_same(&work.summary, &stage.summary))?;
    Some(stage_work.time(KernelClass::Convolution).time()).filter(Time::is_positive)
}

fn share(part: Ns, whole: Ns) -> Ratio {
    if whole > Ns::ZERO {
        Ratio::of(part, whole)
    } else {
        Ratio::ZERO
    }
}

/// One table a stage: of the products that lose most, or take most time.
fn views(context: &Context<'_>, shown: &[StageProducts]) -> Vec<Block> {
    let columns_with_sizes = [
        "kernel",
        "shape",
        "launches",
        "time_ns",
        "share",
        "bound",
        "of_roofline",
        "tile_efficiency",
        "wave_efficiency",
        "recoverable_ns",
    ];
    let columns_without_sizes = [
        "kernel",
        "dtype",
        "tile",
        "tensor_cores",
        "grid",
        "launches",
        "time_ns",
        "share",
    ];
    let mut skip = 0;
    let view = |stage: &StageProducts| {
        let label = stage.summary.label(context.session, context.facts);
        let roofs = products::in_words(context.text, stage.roofs());
        let time = stage.per_instance(stage.time.time());
        let lost = loss(stage).map(|lost| stage.per_instance(lost));
        let has_helpers = stage
            .groups
            .iter()
            .any(|group| group.sum.helpers > Ns::ZERO);
        let reduce = has_helpers.then_some("");
        let (columns, caption) = match (stage.known, lost) {
            (Ns(1..), Some(lost)) => (
                &columns_with_sizes[..],
                words!(
                    context,
                    "gemm.by_loss",
                    stage = label,
                    lost = lost,
                    time = time,
                    reduce = reduce,
                    roofs = roofs
                ),
            ),
            (known_time, _) => (
                if known_time > Ns::ZERO {
                    &columns_with_sizes[..columns_with_sizes.len() - 1]
                } else {
                    &columns_without_sizes[..]
                },
                words!(
                    context,
                    "gemm.by_time",
                    stage = label,
                    time = time,
                    reduce = reduce,
                    roofs = roofs
                ),
            ),
        };
        let mut columns = columns.to_vec();
        // Tables of kernels have these kernels in rows of their own.
        if has_helpers && let Some(time) = columns.iter().position(|column| *column == "time_ns") {
            columns.insert(time + 1, "helper_ns");
        }
        let limit = stage.groups.len().min(SHOWN);
        let view = View {
            skip,
            ..View::new("gemms", caption, &columns, limit)
        };
        skip += stage.groups.len();
        Block::Table(view)
    };
    shown.iter().map(view).collect()
}

/// Why products without sizes have none by the model's dimensions, though its FLOPs follow from them.
fn not_by_config(context: &Context<'_>, shown: &[StageProducts]) -> Option<Vec<Inline>> {
    let parts = unsized_parts(context.session.model.as_ref()?);
    let has_all_sizes = shown.iter().all(|stage| stage.known == stage.time);
    (!parts.is_empty() && !has_all_sizes).then(|| {
        say!(
            context,
            "gemm.not_by_config",
            parts = parts.join(context.text.semicolon()),
            advice = shapes_advice(context, context.text),
        )
    })
}

/// A product above the peak is no result: its sizes or the peak are wrong.
fn above_peak(context: &Context<'_>, stage: &StageProducts) -> Option<Diagnostic> {
    let mut above = stage.above_peak();
    let (group, part) = above.next()?;
    let message = format!(
        "a product of {} ({}, {}) runs at {} of the peak: its sizes or the peak are wrong",
        stage.summary.label(context.session, context.facts),
        context.facts.identities[group.kernel.index()].short,
        group
            .gemm()
            .map(|gemm| gemm.to_string())
            .unwrap_or_default(),
        Quantity::from(part),
    );
    let diagnostic = Diagnostic::new(Severity::Error, "gemms/above-one", message);
    Some(
        diagnostic
            .times(1 + above.count() as u64)
            .hint("check GPU and dtype, and whether all passes ran the same workload"),
    )
}

fn contradictions(products: &Products) -> Option<Diagnostic> {
    let count = products.contradictions();
    let message = "kernels have other sizes by the cuBLASLt log than by operators: the sizes of operators are taken";
    (count > 0)
        .then(|| Diagnostic::new(Severity::Notice, "gemms/sources-differ", message).times(count))
}
