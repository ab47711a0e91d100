//! Kernels of a capture: the table of their times, and the list of those to profile.

use std::collections::BTreeSet;

use super::open::Capture;
use crate::analysis::Facts;
use crate::analysis::engine::classify;
use crate::analysis::engine::facts::OpSource;
use crate::analysis::kernels::kernel_sums::{self, Selected, Window};
use crate::document::{Catalogue, Dataset};
use crate::sections;
use crate::session::{Copies, GraphLaunches, KernelSums, Launches};

/// Kernels to profile with Nsight Compute.
pub struct ProfileList {
    /// The kernels with the most time, the most first.
    pub kernels: Vec<Selected>,
    /// The shortest run of launches of all these functions that holds a typical launch of each.
    pub window: Option<Window>,
}

/// A stage that the input does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no stage {name} in the input; there are {}", known.join(", "))]
pub struct UnknownStage {
    /// Its name.
    pub name: String,
    /// Names of the stages of the input.
    pub known: Vec<String>,
}

impl Capture {
    /// Removes the GPU operations outside of some stages, so that shares of time are shares of these stages.
    ///
    /// # Errors
    /// There is no such stage.
    pub fn keep_stages(&mut self, names: &[String]) -> Result<(), UnknownStage> {
        let session = &mut self.session;
        let facts = Facts::new(session);
        let known: BTreeSet<&str> = facts
            .stages
            .iter()
            .map(|stage| stage.name.as_str())
            .collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name.as_str())) {
            return Err(UnknownStage {
                name: name.clone(),
                known: known.into_iter().map(str::to_owned).collect(),
            });
        }
        let mut operations = BTreeSet::new();
        for stage in &facts.stages {
            if !names.contains(&stage.name) {
                continue;
            }
            for instance in facts.instances_of(stage) {
                operations.extend(instance.ops.iter().copied());
            }
        }
        let mut launches = Launches::default();
        let mut copies = Copies::default();
        let mut graph_launches = GraphLaunches::default();
        for operation in operations {
            match facts.ops.source[operation as usize] {
                OpSource::Launch(id) => drop(launches.push(session.launches.row(id))),
                OpSource::Copy(id) => drop(copies.push(session.copies.row(id))),
                OpSource::Graph(id) => drop(graph_launches.push(session.graph_launches.row(id))),
            }
        }
        session.launches = launches;
        session.copies = copies;
        session.graph_launches = graph_launches;
        session.kernel_sums = KernelSums::default();
        Ok(())
    }

    /// The kernels of all passes, the most time first; none without a kernel that has a time.
    pub fn kernel_table(&self) -> Option<Dataset> {
        let session = &self.session;
        let identities = classify::identities(session);
        let passes = kernel_sums::by_pass(session, &identities);
        if passes.is_empty() {
            return None;
        }
        let words = Catalogue::english();
        Some(sections::kernels::table(
            words,
            session,
            &identities,
            &passes,
        ))
    }

    /// The kernels of a stage, or of all stages, with the most time; none without such a stage or a kernel in it. Without
    /// a timeline, the kernels of sums.
    pub fn kernels_to_profile(&self, stage: Option<&str>, count: usize) -> Option<ProfileList> {
        if self.session.launches.is_empty() && stage.is_none() {
            let kernels = kernel_sums::select_of_sums(&self.session, count);
            let window = None;
            return (!kernels.is_empty()).then_some(ProfileList { kernels, window });
        }
        let facts = Facts::new(&self.session);
        let kernels = kernel_sums::select(&self.session, &facts, stage, count)?;
        let window = kernel_sums::window(&self.session, &facts, stage, &kernels);
        Some(ProfileList { kernels, window })
    }
}
