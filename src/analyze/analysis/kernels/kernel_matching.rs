//! Kernel names of all passes and their partners in the primary pass.

use std::collections::BTreeMap;

use crate::engine::kernel_names::{How, of_pass};
use crate::{Context, Known, Missing};
use rooflens_session::{Arrange, KernelId, PassId, Session, StrId};

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
        .kernel_pass(session)
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
