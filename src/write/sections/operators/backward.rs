//! GPU time of the backward pass by the operators of the forward pass.

use rooflens_schemas::Scope;
use rooflens_session::Ns;

use crate::Context;
use crate::paths::{self, Place, node};
use rooflens_analysis::operators::backward::PassBackward;
use rooflens_analysis::operators::calls::Operators;
use rooflens_document::catalogue::BACKWARD_COVERAGE;
use rooflens_document::{Block, Quantity, SectionContent, View};

/// Paths that the table shows.
const SHOWN: usize = 10;

/// Adds the metric and the data set of all passes, and the table of the first with operators.
pub(super) fn add(context: &Context<'_>, operators: &Operators, content: &mut SectionContent) {
    let (session, primary) = (context.session, operators.primary().pass);
    let backward = context.results.backward().ok();
    let Some(backward) = backward.filter(|backward| !backward.work.is_empty()) else {
        return;
    };
    for of_pass in &backward.passes {
        add_coverage(context, of_pass, of_pass.pass == primary, content);
    }
    let gradients = operators.gradients.iter();
    let places: Vec<Place<'_>> = gradients
        .map(|gradient| (&operators.trees[gradient.tree], gradient.node))
        .collect();
    let skip = places
        .iter()
        .filter(|(tree, _)| tree.pass < primary)
        .count();
    let shown = places
        .iter()
        .filter(|(tree, _)| tree.pass == primary)
        .count()
        .min(SHOWN);
    let table = columns! { context, "backward_by_operator", row: &Place<'_> => {
        with paths::stage(session) of row;
        count "calls" = node(row).sum.calls;
        time "device_total_ns" = node(row).sum.within.device;
        time "backward_ns" = node(row).sum.own.backward;
        text "ratio" = {
            let sum = &node(row).sum;
            (sum.within.device > Ns::ZERO).then(|| sum.own.backward.time().0 / sum.within.device.time().0)
        };
    } };
    if shown > 0 {
        let caption = words!(
            context,
            "operators.backward_caption",
            pass = session.pass_name(primary)
        );
        let columns = [
            "path",
            "stage",
            "calls",
            "device_total_ns",
            "backward_ns",
            "ratio",
        ];
        let view = View {
            skip,
            ..View::new("backward_by_operator", caption, &columns, shown)
        };
        content.blocks.push(Block::Table(view));
    }
    content.datasets.push(table.rows(&places));
}

/// What share of the GPU time that autograd issued belongs to operators of the forward pass.
fn add_coverage(
    context: &Context<'_>,
    of: &PassBackward,
    is_shown: bool,
    content: &mut SectionContent,
) {
    let session = context.session;
    let PassBackward {
        pass,
        issued,
        tied,
        operators,
    } = *of;
    let scope = Scope {
        pass: Some(session.pass_name(pass).to_owned()),
        ..Scope::default()
    };
    let basis = format!(
        "{tied} ns of GPU operations of backward operators with a forward operator / {issued} ns of all that autograd issued"
    );
    let mut metric = BACKWARD_COVERAGE.derived(scope, of.coverage().0, basis);
    metric
        .evidence
        .push(session.evidence(pass, "backward_operators", operators));
    content.metrics.push(metric);
    if is_shown {
        content.blocks.push(Block::Prose(say!(
            context,
            "operators.backward",
            issued = Quantity::ns(issued),
            tied = Quantity::ns(tied),
            share = of.coverage(),
        )));
    }
}
