//! Where the time of a stage goes by range and module: NVTX ranges, and module frames of PyTorch traces.

use super::call_tree::{Spans, Tree, trees};
use crate::{Context, Known};
use rooflens_session::PassId;

/// Ranges and modules of all passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Modules {
    /// Trees of the outermost stages, by pass.
    pub trees: Vec<Tree>,
    /// The pass that is shown: the primary one if it has modules, or else the first that has; without any, the primary
    /// one if there are no operators, whose section then shows the trees.
    pub shown: Option<PassId>,
}

impl Modules {
    /// The trees of a pass.
    pub fn of_pass(&self, pass: PassId) -> &[Tree] {
        let from = self.trees.partition_point(|tree| tree.pass < pass);
        let to = self.trees.partition_point(|tree| tree.pass <= pass);
        &self.trees[from..to]
    }
}

/// Makes the trees; ranges within stages are a choice of who records, so nothing is missing without them.
pub fn compute(context: &Context<'_>) -> Known<Modules> {
    let session = context.session;
    if session.ranges.is_empty() && session.frames.is_empty() {
        return Ok(Modules::default());
    }
    let spans = Spans::of_modules(session);
    let trees = session
        .passes
        .ids()
        .flat_map(|pass| trees(context, &spans, pass))
        .collect();
    let mut modules = Modules { trees, shown: None };
    let has = |pass: &PassId| modules.of_pass(*pass).iter().any(Tree::has_modules);
    let nested = |pass: &PassId| modules.of_pass(*pass).iter().any(Tree::has_inner);
    let primary = context.facts.primary_pass(session);
    let with_modules = primary
        .filter(has)
        .or_else(|| session.passes.ids().find(has));
    let drawn = primary
        .filter(|_| session.operators.is_empty())
        .filter(nested);
    modules.shown = with_modules.or(drawn);
    Ok(modules)
}
