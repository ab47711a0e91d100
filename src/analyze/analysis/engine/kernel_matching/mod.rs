//! Which kernel name of one tool is which of another, and how that was found.

mod names;
mod signature;

use std::collections::BTreeMap;

use crate::engine::facts::OpSource;
use crate::{Context, Facts, Known, Missing};
use rooflens_session::{Arrange, KernelId, PassId, Session, StrId};

pub use names::{How, Names, md5_hex};

/// The kernel names of all passes, matched with those of the primary pass.
pub struct KernelMatching {
    /// The primary pass.
    pub reference: PassId,
    /// The names of all other passes: those without a partner first, then by pass and name; never empty.
    pub names: Vec<MatchedName>,
}

/// One name in one pass.
pub struct MatchedName {
    /// Pass.
    pub pass: PassId,
    /// Name as the pass spells it.
    pub name: StrId,
    /// Launches of that name.
    pub launches: u64,
    /// How the partner was found.
    pub how: How,
    /// The kernel of the primary pass.
    pub kernel: Option<KernelId>,
}

/// Matches the names of all other passes; missing where no other pass has kernels.
pub fn compute(context: &Context<'_>) -> Known<KernelMatching> {
    let session = context.session;
    let reference = context
        .facts
        .primary_pass(session)
        .ok_or(Missing("missing.kernels"))?;
    let counts = others(session, reference);
    if counts.is_empty() {
        return Err(Missing("missing.other_kernels"));
    }
    let reference_names = of_pass(session, context.facts, reference);
    let find = |((pass, name), launches): ((PassId, StrId), u64)| {
        let (how, kernel) = reference_names.find(session.text(name), session.artifact_of(pass));
        MatchedName {
            pass,
            name,
            launches,
            how,
            kernel,
        }
    };
    let mut names: Vec<MatchedName> = counts.into_iter().map(find).collect();
    let key = |matched: &MatchedName| {
        (
            matched.kernel.is_some(),
            matched.pass,
            session.text(matched.name),
        )
    };
    names.arrange_by(|a, b| key(a).cmp(&key(b)));
    Ok(KernelMatching { reference, names })
}

impl KernelMatching {
    /// Names without a partner.
    pub fn unmatched(&self) -> usize {
        self.names
            .iter()
            .take_while(|matched| matched.kernel.is_none())
            .count()
    }

    /// By pass: how many of its names matched how.
    pub fn by_pass(&self) -> Vec<(PassId, BTreeMap<How, u64>)> {
        let mut passes = BTreeMap::<PassId, BTreeMap<How, u64>>::new();
        for matched in &self.names {
            *passes
                .entry(matched.pass)
                .or_default()
                .entry(matched.how)
                .or_default() += 1;
        }
        passes.into_iter().collect()
    }
}

/// The kernels that ran in a pass, to be found by name.
pub fn of_pass(session: &Session, facts: &Facts, pass: PassId) -> Names<KernelId> {
    let mut ran = vec![false; session.kernels.len()];
    for source in &facts.ops.source[facts.ops_of(pass)] {
        if let OpSource::Launch(launch) = source {
            ran[session.launches.kernel[launch.index()].index()] = true;
        }
    }
    let kernels = session.kernels.ids().filter(|kernel| ran[kernel.index()]);
    Names::new(kernels.map(|kernel| (session.kernel_name(kernel), kernel)))
}

/// The names of all other passes, with their numbers of launches.
fn others(session: &Session, reference: PassId) -> BTreeMap<(PassId, StrId), u64> {
    let (launches, profiles, sums) = (
        &session.launches,
        &session.kernel_profiles,
        &session.kernel_sums,
    );
    let name = |kernel: &KernelId| session.kernels.name[kernel.index()];
    let launched = launches.pass.iter().zip(&launches.kernel);
    let launched = launched.filter(|(pass, _)| **pass != reference);
    let launched = launched.map(|(pass, kernel)| (*pass, name(kernel), 1));
    let profiled = profiles
        .pass
        .iter()
        .zip(&profiles.name)
        .map(|(pass, name)| (*pass, *name, 1));
    let summed =
        (0..sums.len()).map(|row| (sums.pass[row], name(&sums.kernel[row]), sums.count[row]));
    let mut counts = BTreeMap::new();
    for (pass, name, count) in launched.chain(profiled).chain(summed) {
        *counts.entry((pass, name)).or_default() += count;
    }
    counts
}
