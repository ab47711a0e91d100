//! What could be gained: a part of the section on idle time.

use rooflens_schemas::Metric;

use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::upper_bounds::{Overhead, StageBounds, UpperBound};
use rooflens_document::catalogue::{
    BOUND_COMMUNICATION, BOUND_COPIES, BOUND_HOST, BOUND_LAUNCHING, BOUND_MATRIX_PRODUCTS,
};
use rooflens_document::{Block, Inline, Method, MetricDef, SectionContent, Table};
use rooflens_session::Arrange;
use rooflens_units::Ratio;

/// Rows that a page shows.
const SHOWN: usize = 15;

/// Share of the stage time below which a gain is in no table.
const NEGLIGIBLE: Ratio = Ratio(0.001);

/// A bound of a stage.
type OfStage<'a> = (&'a StageBounds, &'a UpperBound);

/// Adds metrics and the table of all stages; pages show the outermost ones of the primary pass.
pub(super) fn add(context: &Context<'_>, content: &mut SectionContent) -> Known<()> {
    let stages = &context.results.upper_bounds()?.stages;
    let primary = context.facts.primary_pass(context.session);
    let (mut rows, mut shown) = (Vec::new(), 0);
    for stage in stages {
        content.metrics.extend(metrics(context, stage));
        let worth = |bound: &&UpperBound| {
            bound.gain().is_positive() && bound.gain() >= bound.time * NEGLIGIBLE
        };
        let mut bounds: Vec<&UpperBound> = stage.known().filter(worth).collect();
        bounds.arrange_by(|a, b| {
            b.gain()
                .total_cmp(&a.gain())
                .then(a.overhead.cmp(&b.overhead))
        });
        rows.extend(bounds.into_iter().map(|bound| (stage, bound)));
        let is_primary = Some(stage.summary.stage(context.facts).pass) == primary;
        if is_primary && stage.summary.is_outermost(context.facts) {
            shown = rows.len();
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    content
        .blocks
        .push(Block::Heading(words!(context, "upper_bounds.heading")));
    content
        .blocks
        .push(Block::Prose(say!(context, "upper_bounds.introduction")));
    let table = table(context);
    let view = table.view(words!(context, "upper_bounds.caption"), shown.min(SHOWN));
    content.blocks.push(Block::Table(view));
    content.datasets.push(table.rows(&rows));
    content.methods.push(method(context));
    Ok(())
}

const fn metric(overhead: Overhead) -> &'static MetricDef {
    match overhead {
        Overhead::Launching => &BOUND_LAUNCHING,
        Overhead::Host => &BOUND_HOST,
        Overhead::Copies => &BOUND_COPIES,
        Overhead::Communication => &BOUND_COMMUNICATION,
        Overhead::MatrixProducts => &BOUND_MATRIX_PRODUCTS,
    }
}

const fn label(overhead: Overhead) -> &'static str {
    match overhead {
        Overhead::Launching => "no launching gaps",
        Overhead::Host => "no gaps because of the host",
        Overhead::Copies => "copies overlapped",
        Overhead::Communication => "collectives overlapped",
        Overhead::MatrixProducts => "matrix products at their roofline",
    }
}

const fn formula(overhead: Overhead) -> &'static str {
    match overhead {
        Overhead::Launching => "idle time of cause launching",
        Overhead::Host => {
            "idle time of causes launching, host code, synchronizing call, allocation, blocking copy, \
             operating system, off CPU"
        }
        Overhead::Copies => {
            "time in which only copies run, but for half of it, in which both directions of the link carry them"
        }
        Overhead::Communication => "time in which a collective runs and no other kernel",
        Overhead::MatrixProducts => {
            "time of matrix products of known sizes above max(FLOPs ÷ rate, bytes ÷ bandwidth), as measured on this GPU, \
             else as specified"
        }
    }
}

const fn assumption(overhead: Overhead) -> &'static str {
    match overhead {
        Overhead::Launching => "launches cost nothing, as with CUDA graphs; kernels take as long",
        Overhead::Host => "the host is always ahead; kernels take as long",
        Overhead::Copies => "all copies overlap kernels, which they do not slow",
        Overhead::Communication => "all collectives overlap kernels, which they do not slow",
        Overhead::MatrixProducts => "the host keeps up: no gap takes its place",
    }
}

fn metrics(context: &Context<'_>, stage: &StageBounds) -> Vec<Metric> {
    let context = &context.in_english();
    let summary = &stage.summary;
    let scope = summary.scope(context.session, context.facts);
    let pass = summary.stage(context.facts).pass;
    let rows = summary.operations.0 as u64;
    let evidence = context
        .session
        .evidence(pass, "launches, copies, api_calls", rows);
    let metric = |overhead: Overhead| {
        let value = stage
            .get(overhead)
            .map_err(|missing| context.missing(missing))
            .map(|bound| {
                let basis = format!(
                    "stage time of {} ns without {}; {}",
                    bound.time.0,
                    formula(overhead),
                    assumption(overhead)
                );
                (bound.new_time.0, basis)
            });
        Metric {
            evidence: vec![evidence.clone()],
            ..metric(overhead).known(scope.clone(), value)
        }
    };
    Overhead::ALL.into_iter().map(metric).collect()
}

fn table<'t>(context: &'t Context<'_>) -> Table<'t, OfStage<'t>> {
    let (session, facts) = (context.session, context.facts);
    columns! { context, "bounds", (stage, bound): &OfStage<'_> => {
        text "stage" = stage.summary.label(session, facts), page;
        text "pass" = session.pass_name(stage.summary.stage(facts).pass);
        text "what" = label(bound.overhead), page;
        "time_ns" = bound.time;
        "new_time_ns" = bound.new_time, page;
        "gain_ns" = bound.gain(), page;
        share "gain_share" =
            bound.time.is_positive().then(|| bound.gain() / bound.time), page;
        text "formula" = formula(bound.overhead);
        text "assumption" = assumption(bound.overhead), page;
    } }
}

fn method(context: &Context<'_>) -> Method {
    let bound = |overhead: Overhead| {
        say!(
            context,
            "upper_bounds.bound",
            what = Inline::strong(context.text.word(label(overhead))),
            formula = context.text.word(formula(overhead)),
            assumption = context.text.word(assumption(overhead)),
        )
    };
    let bounds: Vec<Inline> = Overhead::ALL.into_iter().flat_map(bound).collect();
    method!(context, "upper_bounds", bounds = bounds)
}
