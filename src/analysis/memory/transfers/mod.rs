//! Memory transfers: what moves where, how fast, and whether kernels hide it.

pub mod link;
pub mod sums;

use crate::analysis::engine::facts::{OpIndex, StageInstance};
use crate::analysis::engine::intervals::total;
use crate::analysis::engine::stage_stats::{Summary, summaries};
use crate::analysis::engine::tiers::by_gpu;
use crate::analysis::{Context, Known};
use crate::model::PassId;

use link::Link;
use sums::{Group, Sums};

/// Memory transfers of all passes.
pub struct Transfers {
    /// Each pass as a whole, then its stages, as far as they copy; the primary pass first.
    pub places: Vec<Place>,
    /// Copies of each pass by size and range, those with the most time first.
    pub groups: Vec<(PassId, Vec<Group>)>,
    /// The link between host and GPU, where the bundle says what it is.
    pub link: Option<Link>,
    /// The time of the copies of the first place as a share of that of all its GPU operations.
    pub share: f64,
}

/// Copies in one stage of one process, or in a whole pass.
pub struct Place {
    /// Pass.
    pub pass: PassId,
    /// Stage; none: the whole pass.
    pub stage: Option<Summary>,
    /// By measured iteration.
    pub instances: Vec<Sums>,
    /// Of all of them together.
    pub sums: Sums,
}

/// Adds up the copies; never missing, but empty without copies.
pub fn compute(context: &Context<'_>) -> Known<Transfers> {
    let session = context.session;
    let primary = context.facts.primary_pass(session);
    let mut passes: Vec<PassId> = session.passes.ids().collect();
    passes.sort_by_key(|pass| (Some(*pass) != primary, *pass));
    let places: Vec<Place> = passes.iter().flat_map(|pass| places(context, *pass)).collect();
    let share = places.first().map_or(0.0, |first| first.share(context));
    let groups = |pass: PassId| {
        let ops = context.facts.ops_of(pass).map(|op| op as OpIndex);
        (pass, sums::groups(context, ops))
    };
    let groups = passes.into_iter().map(groups).collect();
    Ok(Transfers { places, groups, link: link::pcie(session), share })
}

/// The whole pass, then its stages, as far as they copy.
fn places(context: &Context<'_>, pass: PassId) -> Vec<Place> {
    let facts = context.facts;
    let tiers = by_gpu(context.session, facts, pass);
    let all = sums::by_kind(context, &tiers, facts.ops_of(pass).map(|op| op as OpIndex));
    if all.kinds.is_empty() {
        return Vec::new();
    }
    let mut places = vec![Place { pass, stage: None, instances: vec![all.clone()], sums: all }];
    for line in summaries(facts, pass) {
        let counts = |one: &&StageInstance| one.process == line.process && one.excluded.is_none();
        let own: Vec<&StageInstance> =
            facts.instances_of(line.stage(facts)).iter().filter(counts).collect();
        let of = |one: &&StageInstance| sums::by_kind(context, &tiers, one.ops.iter().copied());
        let together = own.iter().flat_map(|one| one.ops.iter().copied());
        let sums = sums::by_kind(context, &tiers, together);
        let instances = own.iter().map(of).collect();
        places.extend((!sums.kinds.is_empty()).then_some(Place {
            pass,
            stage: Some(line),
            instances,
            sums,
        }));
    }
    places
}

impl Place {
    /// The time of its copies ÷ that of all GPU operations of its pass.
    fn share(&self, context: &Context<'_>) -> f64 {
        let ops = &context.facts.ops;
        let all = total(context.facts.ops_of(self.pass).map(|op| ops.end[op] - ops.start[op]));
        let copies = total(self.sums.kinds.values().map(|sum| sum.total));
        copies as f64 / all.max(1) as f64
    }
}
