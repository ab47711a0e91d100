//! Profiled kernels by what bounds them.

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::ncu::KernelCounters;
use crate::counters::ncu::bound::{Bound, THRESHOLDS};
use crate::{Classifier, Context, Known};
use rooflens_session::{PassId, StrId};
use rooflens_units::{Ratio, Seconds};

/// Profiled launches of one pass by bound class.
pub struct PassBounds {
    /// The pass.
    pub pass: PassId,
    /// Launches.
    pub launches: u64,
    /// Launches with a duration.
    pub timed: u64,
    /// Distinct kernels.
    pub kernels: u64,
    /// Profiled time.
    pub seconds: Seconds,
    /// By the rule “rooflens”, as far as they occur.
    pub rooflens: BTreeMap<Bound, BoundSum>,
    /// By the seed's rule, as far as they occur.
    pub seed: BTreeMap<Bound, BoundSum>,
}

/// Profiled launches of a bound class.
#[derive(Clone, Debug, Default)]
pub struct BoundSum {
    /// Launches.
    pub launches: u64,
    /// Distinct kernels.
    pub kernels: BTreeSet<StrId>,
    /// Profiled time.
    pub seconds: Seconds,
    /// Launches that are near another class.
    pub borderline: u64,
}

/// Bound classes of all passes with profiled launches.
pub fn compute(context: &Context<'_>) -> Known<Vec<PassBounds>> {
    let pass_kernels = |(pass, kernels): (PassId, Vec<&KernelCounters>)| {
        let names: BTreeSet<StrId> = kernels.iter().map(|kernel| kernel.name).collect();
        PassBounds {
            pass,
            launches: kernels.len() as u64,
            timed: kernels
                .iter()
                .filter(|kernel| kernel.seconds.is_some())
                .count() as u64,
            kernels: names.len() as u64,
            seconds: kernels
                .iter()
                .map(|kernel| kernel.seconds.unwrap_or_default())
                .sum(),
            rooflens: sums(&kernels, Classifier::Rooflens),
            seed: sums(&kernels, Classifier::Seed),
        }
    };
    Ok(context
        .results
        .counters()?
        .by_pass()
        .into_iter()
        .map(pass_kernels)
        .collect())
}

fn sums(kernels: &[&KernelCounters], rule: Classifier) -> BTreeMap<Bound, BoundSum> {
    let mut sums = BTreeMap::<Bound, BoundSum>::new();
    for kernel in kernels {
        let verdict = THRESHOLDS.classify(rule, kernel);
        let sum = sums.entry(verdict.bound).or_default();
        sum.launches += 1;
        sum.kernels.insert(kernel.name);
        sum.seconds += kernel.seconds.unwrap_or_default();
        sum.borderline += u64::from(verdict.borderline().is_some());
    }
    sums
}

impl PassBounds {
    /// The sums by one rule.
    pub const fn by(&self, rule: Classifier) -> &BTreeMap<Bound, BoundSum> {
        match rule {
            Classifier::Rooflens => &self.rooflens,
            Classifier::Seed => &self.seed,
        }
    }

    /// Classes with profiled time by one rule, in the order of reports: class, time, share.
    pub fn shares(&self, rule: Classifier) -> Vec<(Bound, Seconds, Ratio)> {
        let timed = self
            .by(rule)
            .iter()
            .filter(|(_, sum)| sum.seconds.is_positive());
        timed
            .map(|(bound, sum)| (*bound, sum.seconds, Ratio(sum.seconds / self.seconds)))
            .collect()
    }

    /// A time as a share of the profiled time; absent without any.
    pub fn share(&self, seconds: Seconds) -> Option<Ratio> {
        self.seconds
            .is_positive()
            .then(|| Ratio(seconds / self.seconds))
    }
}
