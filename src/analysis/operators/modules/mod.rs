//! Where the time of a stage goes by range and module: NVTX ranges, and module frames of PyTorch traces.

pub(crate) mod rows;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use crate::analysis::operators::call_tree::{Spans, Tree, flame, trees};
use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Findings, Inline, Method, View};
use crate::model::{PassId, Session};
use crate::prose;

/// Modules and ranges.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "modules", title: "Modules and ranges", missing, run };

/// Stages that the section shows; the data set holds all.
const SHOWN_STAGES: usize = 4;

/// Nodes that a table shows.
const SHOWN_NODES: usize = 15;

/// Ranges within stages are a choice of who records, so nothing is missing without them.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let mut findings = Findings::default();
    if session.ranges.is_empty() && session.frames.is_empty() {
        return findings;
    }
    let spans = Spans::of_modules(session);
    let of_passes: Vec<Vec<Tree>> =
        session.passes.ids().map(|pass| trees(context, &spans, pass)).collect();
    let Some(pass) = shown_pass(context, &of_passes) else { return findings };
    let shown = shown_stages(&of_passes[pass.index()]);
    findings.blocks.push(Block::Prose(introduction(session, pass)));
    let with_modules: Vec<&Tree> =
        of_passes.iter().flatten().filter(|tree| tree.has_modules()).collect();
    // The section of operators draws the trees of passes with operators, modules included.
    let drawn = !session.operators.pass.contains(&pass);
    for (number, tree) in shown.iter().enumerate() {
        let charts = [
            flame::of_device(context, tree, format!("modules-device-{}", number + 1)),
            flame::of_host(context, tree, format!("modules-host-{}", number + 1)),
        ];
        findings.blocks.extend(charts.into_iter().flatten().filter(|_| drawn).map(Block::Chart));
        findings.blocks.extend(table(session, &with_modules, tree).map(Block::Table));
    }
    // The pass that is shown, as a timeline, may not tell what the backward pass belongs to.
    let with_backward = with_modules.iter().filter(|tree| tree.pass != pass && tree.has_backward());
    if !shown.iter().any(|tree| tree.has_backward())
        && let Some(most) = with_backward.min_by_key(|tree| Reverse(tree.nodes[0].backward))
    {
        findings.blocks.extend(table(session, &with_modules, most).map(Block::Table));
    }
    if !with_modules.iter().any(|tree| tree.has_flops()) && !with_modules.is_empty() {
        findings.blocks.push(Block::Prose(prose![
            "FLOPs of modules are not to be had: nothing in the bundle gives the sizes of its matrix kernels, as a \
             PyTorch trace with record_shapes=True or a cuBLASLt log does."
        ]));
    }
    if !with_modules.is_empty() {
        findings.datasets.push(rows::modules(session, &with_modules));
    }
    findings.methods.push(method());
    findings
}

/// The pass that the section shows: the primary one if it has modules, or else the first that has; without
/// any, the primary one if there are no operators, whose section then shows the trees.
fn shown_pass(context: &Context<'_>, of_passes: &[Vec<Tree>]) -> Option<PassId> {
    let has = |pass: &PassId| of_passes[pass.index()].iter().any(Tree::has_modules);
    let primary = context.facts.primary_pass(context.session);
    let with_modules =
        primary.filter(has).or_else(|| context.session.passes.ids().find(|pass| has(pass)));
    with_modules.or_else(|| {
        let nested = |pass: &PassId| of_passes[pass.index()].iter().any(Tree::has_inner);
        primary.filter(|_| context.session.operators.is_empty()).filter(nested)
    })
}

/// Stages of the first process with something within them.
pub(crate) fn shown_stages(trees: &[Tree]) -> Vec<&Tree> {
    let first = trees.iter().find(|tree| tree.has_inner()).map(|tree| tree.process);
    let of_first = |tree: &&Tree| Some(tree.process) == first && tree.has_inner();
    trees.iter().filter(of_first).take(SHOWN_STAGES).collect()
}

fn table(session: &Session, with_modules: &[&Tree], tree: &Tree) -> Option<View> {
    let at = with_modules.iter().position(|other| *other == tree)?;
    let skip = with_modules[..at].iter().map(|tree| tree.nodes.len() - 1).sum();
    let pass = session.pass_name(tree.pass);
    let caption = format!("{} by range and module, pass {pass}", tree.label);
    let mut columns = vec!["path", "names", "host_total_ns", "host_self_ns", "device_total_ns"];
    if tree.has_backward() {
        columns.push("backward_ns");
    }
    columns.extend(if tree.has_flops() {
        ["device_share", "flops", "flop_rate", "flop_coverage"]
    } else {
        ["device_self_ns", "busy_ns", "device_share", "launches"]
    });
    let limit = (tree.nodes.len() - 1).min(SHOWN_NODES);
    Some(View { skip, ..View::new("modules", caption, &columns, limit) })
}

fn introduction(session: &Session, pass: PassId) -> Vec<Inline> {
    prose![
        "Stages of the pass ",
        Inline::Code(session.pass_name(pass).to_owned()),
        " by the ranges and modules within them; times are sums over the counted instances. Names that \
         differ only in numbers, such as those of layers, are one line."
    ]
}

fn method() -> Method {
    Method {
        title: "Modules, ranges and flame graphs".to_owned(),
        text: prose![
            "The ranges of the user, the module frames of PyTorch traces and, in the trees of operators, \
             the operators nest by time on their thread. Numbers that stand alone in a name become *, and spans \
             of equal path are added up. Host time is the duration of the spans on the thread that opened the \
             stage; own host time is without spans and CUDA calls within. Device time is the sum of the durations of \
             the GPU operations whose CUDA call starts within the span, own device time that of operations whose \
             innermost span it is, and busy the length of the union of their intervals on each GPU. An operation \
             that another thread issued stands below the range that was lent to it, beneath the spans of its own \
             thread, which have no host time here. FLOPs are those of matrix products, convolutions and attention of \
             known sizes, attention over all pairs of query and key, and everything else counts 0; the rate is FLOPs \
             over device time, and counted the share of the device time in kernels whose FLOPs are counted. Backward \
             is the device time of the operators of the backward pass whose forward operators lie within, by the \
             sequence numbers of autograd. Flame graphs (Gregg, The Flame Graph, Communications of the ACM, \
             2016) show the same trees down to kernels and to CUDA calls; frames below 0.3 % of the width are \
             merged, and at most 12 levels are drawn."
        ],
    }
}
