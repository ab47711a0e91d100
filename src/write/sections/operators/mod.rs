//! Operators of PyTorch traces: host time, device time and FLOPs by name, by shapes, by thread and by path.

mod backward;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::Scope;

use super::paths::{self, shown_stages};
use super::{Section, flame};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::operators::call_tree::Tree;
use rooflens_analysis::operators::calls::{Operators, PassOperators};
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::catalogue::{FLOP_COVERAGE, OPERATOR_COVERAGE};
use rooflens_document::{Block, Quantity, SectionContent};
use rooflens_session::Session;
use rooflens_units::Ratio;

/// Operators.
pub(super) static SECTION: Section = Section {
    id: "operators",
    show,
};

/// Share of GPU time in operators below which the report says so.
const COVERAGE_LIMIT: Ratio = Ratio(0.95);

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let session = context.session;
    let operators = context.results.operators()?;
    let methods = vec![
        method!(context, "operators"),
        method!(context, "operators.flops"),
    ];
    let mut content = SectionContent {
        methods,
        ..SectionContent::default()
    };
    tables::views(context, operators, &mut content);
    tables::add_quiet(context, operators, &mut content);
    tables::add_threads(context, operators, &mut content);
    add_trees(context, operators, &mut content);
    for of_pass in &operators.passes {
        add_metrics(session, of_pass, &mut content);
    }
    content
        .datasets
        .extend(tables::operators(context, operators));
    Ok(content)
}

/// Adds the trees of all passes with operators as data, and those of the first as charts: of the GPU's time in the
/// section, of the host's in the appendix.
fn add_trees(context: &Context<'_>, operators: &Operators, content: &mut SectionContent) {
    let (trees, primary) = (&operators.trees, operators.primary().pass);
    let shown = shown_stages(trees.iter().filter(|tree| tree.pass == primary));
    for (number, tree) in (1..).zip(shown) {
        let device = flame::of_device(context, tree, format!("operators-device-{number}"));
        content.blocks.extend(device.map(Block::Chart));
        let host = flame::of_host(context, tree, format!("operators-host-{number}"));
        content.appendix.extend(host.map(Block::Chart));
    }
    if trees.iter().any(Tree::has_inner) {
        let places = paths::places(trees.iter(), &|_, _| true);
        content
            .datasets
            .push(paths::dataset(context, "operator_tree", &places));
        backward::add(context, operators, content);
    }
}

/// What share of the GPU work the operators explain, and what share of it has FLOPs.
fn add_metrics(session: &Session, of_pass: &PassOperators, content: &mut SectionContent) {
    let scope = Scope {
        pass: Some(session.pass_name(of_pass.pass).to_owned()),
        ..Scope::default()
    };
    let (covered, all) = (of_pass.device, of_pass.work.device);
    for (metric, share, time, what) in [
        (
            &OPERATOR_COVERAGE,
            of_pass.coverage(),
            covered,
            "issued within operators",
        ),
        (
            &FLOP_COVERAGE,
            of_pass.flop_coverage(),
            of_pass.counted,
            "within operators whose FLOPs are counted",
        ),
    ] {
        let Some(share) = share else {
            let reason = "the PyTorch trace holds no GPU work with correlation ids";
            content
                .metrics
                .push(metric.unavailable(scope.clone(), reason));
            continue;
        };
        let basis = format!("{time} ns of GPU operations {what} / {all} ns of all");
        let mut metric = metric.derived(scope.clone(), share.0, basis);
        metric
            .evidence
            .push(session.evidence(of_pass.pass, "operators", of_pass.calls));
        content.metrics.push(metric);
    }
    if of_pass.coverage().is_some() && covered.time() < all.time() * COVERAGE_LIMIT {
        let share = Quantity::ratio((all - covered).time() / all.time());
        let message = format!(
            "{share} of the GPU time of the PyTorch trace belongs to no operator: its call is outside of \
             operators or not in the trace"
        );
        let code = "operators/uncovered-gpu-time";
        let diagnostic = Diagnostic::new(Severity::Notice, code, message);
        content
            .diagnostics
            .push(diagnostic.artifact(session.artifact_of(of_pass.pass)));
    }
}
