//! What bounds a stage: the largest of a few shares of its time.

use super::cause::Cause;
use super::line::{Parts, StageIdle};
use crate::engine::tiers::Tier;
use rooflens_session::Ns;
use rooflens_stats::median;
use rooflens_units::Ratio;

/// What bounds a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The GPU computes.
    Gpu,
    /// Issued operations wait: launch latency, stream order, events.
    Latency,
    /// Collectives, exposed or waited for.
    Communication,
    /// Copies, exposed or waited for.
    Copy,
    /// The rate of launches.
    Launch,
    /// Host code, first use, allocation, the operating system.
    Host,
    /// Synchronizing calls.
    Sync,
    /// The profiler.
    Profiler,
    /// Operations of other stages.
    OtherWork,
    /// Not known.
    Unknown,
}

impl Verdict {
    /// The word of tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gpu => "GPU-bound",
            Self::Latency => "latency-bound",
            Self::Communication => "communication-bound",
            Self::Copy => "copy-bound",
            Self::Launch => "launch-bound",
            Self::Host => "host-bound",
            Self::Sync => "sync-bound",
            Self::Profiler => "bound by the profiler",
            Self::OtherWork => "bound by other work",
            Self::Unknown => "unknown",
        }
    }
}

impl StageIdle {
    /// What bounds the stage, and its share of the stage's time. Of equal shares the first of the list wins.
    pub fn verdict(&self) -> (Verdict, Ratio) {
        let mut largest = (Verdict::Gpu, Ratio::ZERO);
        for (verdict, tier, causes) in SHARES {
            let busy = |parts: &Parts| tier.map_or(Ns::ZERO, |tier| parts.busy[tier as usize]);
            let share = self.typical_share(|parts| busy(parts) + parts.causes.sum(causes));
            if share > largest.1 {
                largest = (verdict, share);
            }
        }
        largest
    }

    /// The cause of gaps with most time of a typical iteration, and its share of that.
    pub fn typical_cause(&self) -> Option<(Cause, Ratio)> {
        let causes = Cause::ALL
            .into_iter()
            .filter(|cause| *cause != Cause::OtherWork);
        let shares =
            causes.map(|cause| (cause, self.typical_share(|parts| parts.causes.of(cause))));
        let most = shares.reduce(|a, b| if b.1 > a.1 { b } else { a });
        most.filter(|(_, share)| share.is_positive())
    }

    /// A time as a share of a typical iteration, which has no cold start: the median; of two iterations the shorter if the
    /// other is a cold start, else of all of them.
    fn typical_share(&self, time: impl Fn(&Parts) -> Ns) -> Ratio {
        if let [a, b] = self.instances.as_slice() {
            let (short, long) = if a.time <= b.time { (a, b) } else { (b, a) };
            if long.time.time() > short.time.time() * COLD {
                return short.share(time(short));
            }
        }
        if self.instances.len() < TYPICAL {
            return self.share(time(&self.pool));
        }
        let instances = self.instances.iter();
        let shares: Vec<f64> = instances.map(|parts| parts.share(time(parts)).0).collect();
        Ratio(median(&shares).unwrap_or_default())
    }
}

/// Iterations from which on the median one is typical.
const TYPICAL: usize = 3;

/// Time of one of two iterations ÷ that of the other from which on it is a cold start.
const COLD: f64 = 1.5;

/// Causes of the host without a verdict of their own.
const HOST: [Cause; 5] = [
    Cause::HostCode,
    Cause::FirstUse,
    Cause::Allocator,
    Cause::Os,
    Cause::OffCpu,
];

/// What each verdict is about: busy time of a tier, and causes of idle time.
const SHARES: [(Verdict, Option<Tier>, &[Cause]); 10] = [
    (Verdict::Gpu, Some(Tier::Compute), &[]),
    (Verdict::Latency, None, &[Cause::Queue]),
    (
        Verdict::Communication,
        Some(Tier::Communication),
        &[Cause::Communication],
    ),
    (Verdict::Copy, Some(Tier::Copy), &[Cause::Copy]),
    (Verdict::Launch, None, &[Cause::Launching]),
    (Verdict::Host, None, &HOST),
    (Verdict::Sync, None, &[Cause::Sync]),
    (Verdict::Profiler, None, &[Cause::Profiler]),
    (Verdict::OtherWork, None, &[Cause::OtherWork]),
    (Verdict::Unknown, None, &[Cause::Unknown]),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::{trace, with_results};

    /// Of two iterations one waits for a launch for 885 of 901 ns, and the other is busy for all of its 98: a cold start is not what
    /// bounds the stage. Where the other lasts 700 ns, both count: 885 of 1601 ns are launching, more than the 710 of kernels.
    #[test]
    fn of_two_iterations_the_shorter_is_typical_if_the_other_is_a_cold_start() {
        let verdict = |busy: i64| {
            let (end, last) = (2092 - 90 + busy, 2100 - 90 + busy);
            let session = trace(&format!(
                "range prefill 0..901
                 launch 0..1 -> axpy 2..10
                 launch 15..895 -> axpy 901..903
                 range prefill 2000..2010
                 launch 2000..2001 -> axpy 2002..{end}
                 launch 2003..2004 -> axpy {end}..{last}"
            ));
            with_results(&session, |context| {
                let line = &context.results.idle().unwrap().lines[0];
                assert_eq!(line.instances.len(), 2);
                line.verdict().0
            })
        };
        assert_eq!(verdict(90), Verdict::Gpu);
        assert_eq!(verdict(692), Verdict::Launch);
    }
}
