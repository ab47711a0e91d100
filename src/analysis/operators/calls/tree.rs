//! Operators by who called them: a data set of paths, and flame graphs of the stages.

use super::backward;
use crate::analysis::Context;
use crate::analysis::operators::call_tree::{Spans, Tree, flame, trees, whole};
use crate::analysis::operators::modules::{rows, shown_stages};
use crate::findings::{Block, Findings};
use crate::model::PassId;

/// Adds the trees of all passes with operators as data, and those of `primary` as charts: of the GPU's time in
/// the section, of the host's in the appendix.
pub(super) fn add(context: &Context<'_>, primary: PassId, findings: &mut Findings) {
    let session = context.session;
    let spans = Spans::of_operators(session);
    let passes = session.passes.ids().filter(|pass| session.operators.pass.contains(pass));
    let of_pass = |pass| {
        let mut trees = trees(context, &spans, pass);
        trees.extend(whole(context, &spans, pass, &trees));
        (pass, trees)
    };
    let trees: Vec<(PassId, Vec<Tree>)> = passes.map(of_pass).collect();
    let of_primary = trees.iter().filter(|(pass, _)| *pass == primary);
    let shown: Vec<&Tree> = of_primary.flat_map(|(_, trees)| shown_stages(trees)).collect();
    for (number, tree) in shown.iter().enumerate() {
        let device = flame::of_device(context, tree, format!("operators-device-{}", number + 1));
        findings.blocks.extend(device.map(Block::Chart));
        let host = flame::of_host(context, tree, format!("operators-host-{}", number + 1));
        findings.appendix.extend(host.map(Block::Chart));
    }
    let all: Vec<&Tree> = trees.iter().flat_map(|(_, trees)| trees).collect();
    if all.iter().any(|tree| tree.has_inner()) {
        let title = "Operators by path".to_owned();
        findings.datasets.push(rows::paths(session, "operator_tree", title, &all, &|_, _| true));
        backward::add(context, primary, &all, findings);
    }
}
