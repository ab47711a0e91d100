//! Derived tables that several analyses need, computed once.

use std::ops::{Deref, DerefMut};

use crate::engine::ranks;
use crate::engine::stage_stats::{self, Summary};
use rooflens_session::{Arrange, PassId, Session};
use rooflens_stages::StageTables;
pub use rooflens_stages::{
    Attribution, Captured, Exclusion, OpIndex, OpSource, Ops, Sizes, Stage, StageInstance,
};

/// The derived tables: those of stages, and what follows from them.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Operations, kernels, stages and instances. `Facts` dereferences to them.
    pub tables: StageTables,
    /// Stages as single processes ran them, sorted by (pass, stage, first GPU).
    pub summaries: Vec<Summary>,
    /// The primary pass and those that are other ranks of its run, by rank.
    pub run: Vec<PassId>,
    /// Passes with GPU operations of several processes.
    pub shared: Vec<PassId>,
}

impl Deref for Facts {
    type Target = StageTables;

    fn deref(&self) -> &StageTables {
        &self.tables
    }
}

impl DerefMut for Facts {
    fn deref_mut(&mut self) -> &mut StageTables {
        &mut self.tables
    }
}

/// All passes, this one first.
fn first(session: &Session, first: Option<PassId>) -> Vec<PassId> {
    let mut passes: Vec<PassId> = session.passes.ids().collect();
    passes.arrange_by_key(|pass| (Some(*pass) != first, *pass));
    passes
}

impl Facts {
    /// Derives all tables of a session.
    pub fn new(session: &Session) -> Self {
        let mut facts = Self {
            tables: StageTables::new(session),
            ..Self::default()
        };
        let is_shared = |pass: &PassId| {
            let processes = &facts.ops.process[facts.ops_of(*pass)];
            processes.iter().any(|process| *process != processes[0])
        };
        facts.shared = session.passes.ids().filter(is_shared).collect();
        facts.summaries = stage_stats::summarize(&facts);
        let primary = facts.primary_pass(session);
        facts.run = primary.map_or_else(Vec::new, |pass| ranks::of_run(session, &facts, pass));
        facts
    }

    /// The stages of the primary pass and of the other ranks of its run, one a process.
    pub fn run_summaries(&self) -> impl Iterator<Item = &Summary> {
        self.run
            .iter()
            .flat_map(|pass| stage_stats::summaries(self, *pass))
    }

    /// All passes, the primary one first.
    pub fn primary_first(&self, session: &Session) -> Vec<PassId> {
        first(session, self.primary_pass(session))
    }

    /// All passes, the one whose kernels are shown first.
    pub fn kernels_first(&self, session: &Session) -> Vec<PassId> {
        first(session, self.kernel_pass(session))
    }
}
