//! Profiled kernels in depth: occupancy and what limits it, warp states, schedulers, tensor pipe, waves, and
//! what ncu's own rules estimate; launches of one kernel with one grid and block together.

pub mod figures;
pub mod groups;
pub mod histograms;
pub mod remarks;
pub mod stalls;
mod timeline;

use std::collections::BTreeMap;

use self::figures::Figures;
use self::groups::{Group, Launch};
use self::histograms::Histogram;
use self::remarks::RuleSum;
use self::timeline::Timeline;
use crate::counters::ncu::KernelCounters;
use crate::{Context, Known};
use rooflens_session::{PassId, ProfileId, ProfileRule};
use rooflens_units::{Ratio, Seconds};

/// Profiled kernels in depth.
pub struct Details {
    /// All profiled launches, by [`ProfileId`].
    pub launches: Vec<Launch>,
    /// By pass.
    pub passes: Vec<PassDetails>,
    /// ncu's remarks by launch that advise something: estimates first, the largest first.
    pub advice: BTreeMap<ProfileId, Vec<ProfileRule>>,
}

/// Profiled kernels of one pass.
pub struct PassDetails {
    /// The pass.
    pub pass: PassId,
    /// Its launches, in the order of their rows.
    pub launches: Vec<ProfileId>,
    /// Their profiled time.
    pub seconds: Seconds,
    /// Means over them, weighted by duration.
    pub means: Figures,
    /// Launches of one kernel, grid and block, the longest first.
    pub groups: Vec<Group>,
    /// What ncu's rules say, those first that estimate to save most.
    pub rules: Vec<RuleSum>,
    /// How figures spread.
    pub histograms: Vec<Histogram>,
}

impl PassDetails {
    /// A time as a share of the profiled time; absent without any.
    pub fn share(&self, seconds: Seconds) -> Option<Ratio> {
        self.seconds
            .is_positive()
            .then(|| Ratio(seconds / self.seconds))
    }
}

impl Details {
    /// One launch.
    pub fn launch(&self, profile: ProfileId) -> &Launch {
        &self.launches[profile.index()]
    }
}

/// Figures of all launches, and by pass.
pub fn compute(context: &Context<'_>) -> Known<Details> {
    let (session, counters) = (context.session, context.results.counters()?);
    let (timeline, advice) = (Timeline::new(context), remarks::advice(session));
    let launches = groups::launches(session, counters);
    let pass_details = |(pass, kernels): (PassId, Vec<&KernelCounters>)| {
        let ids: Vec<ProfileId> = kernels.iter().map(|kernel| kernel.profile).collect();
        let pass_launches: Vec<&Launch> = ids.iter().map(|id| &launches[id.index()]).collect();
        let weights = groups::weights(&pass_launches).into_iter();
        let figures: Vec<_> = weights
            .zip(&pass_launches)
            .map(|(weight, pass_details)| (weight, &pass_details.figures))
            .collect();
        PassDetails {
            pass,
            seconds: pass_launches.iter().map(|launch| launch.seconds).sum(),
            means: Figures::mean(&figures),
            groups: groups::groups(counters, &timeline, &pass_launches),
            rules: remarks::sums(session, &pass_launches, &advice),
            histograms: histograms::of(&pass_launches),
            launches: ids,
        }
    };
    let passes = counters.by_pass().into_iter().map(pass_details).collect();
    Ok(Details {
        launches,
        passes,
        advice,
    })
}
