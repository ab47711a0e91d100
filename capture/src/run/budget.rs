//! How long passes take, and how long they may take.

use std::time::{Duration, Instant};

use rooflens_schemas::PassKind;

use crate::args::TimeLimit;
use crate::plan::ncu::LAUNCH;
use crate::plan::schedule::TimeForCounters;
use crate::plan::{Harvest, NsysExport, PassPlan, Step};

/// A pass takes so many times as long as the unprofiled run, and so many seconds more: of ncu, without the launches
/// that it profiles. On two H200s nsys took 1.3 to 1.5 times as long.
const TIMELINE: (f64, f64) = (1.4, 5.0);
const OPERATORS: (f64, f64) = (1.3, 3.0);
const COUNTERS: (f64, f64) = (1.0, 10.0);

/// All passes may take so many times the unprofiled run, and so many seconds more, if nobody says.
const USUAL: (f64, f64) = (4.0, 60.0);

/// What a log of cuBLAS calls adds to that: it is slow.
const GEMM_LOG: (f64, f64) = (3.0, 30.0);

/// Launches that are assumed before they are known.
const LAUNCHES: f64 = 30.0;

/// The unprofiled run, as long as it is not known, in seconds.
const UNKNOWN: f64 = 30.0;

/// Seconds that earlier passes leave to ncu for launches, after an unprofiled run and its start: where there is room for all
/// passes, and where time is short. ncu profiles fewer kernels then; another pass that is cut lacks all of its end.
const LAUNCHING: f64 = 15.0;
const LAUNCHING_SHORT: f64 = 5.0;

/// Seconds after the end of the last pass: ncu writes its report and prints it, and files are hashed.
const RESERVE: Duration = Duration::from_secs(10);

/// Time for all passes.
pub(super) struct Budget {
    begin: Instant,
    limit: TimeLimit,
    /// How long the unprofiled run took.
    baseline: Option<Duration>,
    /// What the passes that the user added may take: times the unprofiled run, and seconds.
    added: (f64, f64),
}

impl Budget {
    pub(super) fn new(limit: TimeLimit, begin: Instant) -> Self {
        Self {
            begin,
            limit,
            baseline: None,
            added: (0.0, 0.0),
        }
    }

    /// Takes into account what the user added to one run per pass: repeats, and the log of cuBLAS calls.
    pub(super) fn expect(&mut self, steps: &[Step]) {
        for step in steps {
            let Step::Pass(pass) = step else { continue };
            self.added.0 += f64::from(pass.warmup + pass.repeats) - 1.0;
            if pass.harvest == Harvest::GemmLog {
                self.added.0 += GEMM_LOG.0;
                self.added.1 += GEMM_LOG.1;
            }
        }
    }

    /// The unprofiled run has ended.
    pub(super) fn measured(&mut self, wall: Duration) {
        self.baseline.get_or_insert(wall);
    }

    /// How long a pass takes; none before the unprofiled run is measured.
    pub(super) fn estimate(&self, pass: &PassPlan) -> Option<Duration> {
        self.baseline
            .map(|_| Duration::from_secs_f64(self.seconds(pass)))
    }

    /// What the passes of ncu are planned by.
    pub(super) fn for_counters(&self) -> TimeForCounters {
        TimeForCounters {
            left: self.left(),
            unprofiled: self.baseline,
        }
    }

    /// The time that is left for all passes, if it is limited: by default it is from the unprofiled run on.
    pub(super) fn left(&self) -> Option<Duration> {
        let total = match self.limit {
            TimeLimit::None => return None,
            TimeLimit::Total(total) => total,
            TimeLimit::Usual => {
                let (runs, seconds) = (USUAL.0 + self.added.0, USUAL.1 + self.added.1);
                self.baseline?.mul_f64(runs) + Duration::from_secs_f64(seconds)
            }
        };
        let left = total.saturating_sub(self.begin.elapsed());
        Some(left.saturating_sub(RESERVE))
    }

    /// How long a pass may take, if time is limited: what the others leave or, if that is too little for all, its part.
    pub(super) fn limit<'a>(
        &self,
        pass: &PassPlan,
        later: impl Iterator<Item = &'a Step>,
    ) -> Option<Duration> {
        let left = self.left()?.as_secs_f64();
        if self.baseline.is_none() {
            // The others are profiled runs of the same: nobody knows better.
            return Some(Duration::from_secs_f64(left / 4.0));
        }
        let estimate = self.seconds(pass);
        let later: Vec<&Step> = later.collect();
        let after =
            |launching: f64| -> f64 { later.iter().map(|step| self.least(step, launching)).sum() };
        let (usual, least) = (after(LAUNCHING), after(LAUNCHING_SHORT));
        let limit = if estimate + usual < left {
            left - usual
        } else if estimate + least < left {
            left - least
        } else {
            left * estimate / (estimate + least)
        };
        Some(Duration::from_secs_f64(limit))
    }

    /// What earlier passes leave to a step. ncu profiles what fits into the rest. A second timeline is not known to be
    /// needed.
    fn least(&self, step: &Step, launching: f64) -> f64 {
        match step {
            Step::Deferred(pass) if pass.kind == PassKind::Counters => {
                self.once() * COUNTERS.0 + COUNTERS.1 + launching
            }
            Step::Deferred(pass) if pass.kind == PassKind::Timeline => 0.0,
            Step::Pass(pass) | Step::Deferred(pass) => self.seconds(pass),
            Step::Snapshot { .. } | Step::Skip { .. } => 0.0,
        }
    }

    fn once(&self) -> f64 {
        self.baseline.map_or(UNKNOWN, |wall| wall.as_secs_f64())
    }

    fn seconds(&self, pass: &PassPlan) -> f64 {
        let (factor, more) = match pass.kind {
            PassKind::Timeline => TIMELINE,
            PassKind::Operators => OPERATORS,
            PassKind::Counters => COUNTERS,
            _ => (1.0, 0.0),
        };
        let launches = match &pass.harvest {
            Harvest::Nsys(NsysExport {
                estimate: Some(estimate),
                ..
            }) => return estimate.as_secs_f64(),
            Harvest::Ncu(export) => match &export.schedule {
                Some(schedule) => return schedule.total().as_secs_f64(),
                None => export.planned.map_or(LAUNCHES, |planned| planned as f64),
            },
            _ => 0.0,
        };
        f64::from(pass.repeats + pass.warmup) * self.once() * factor + more + launches * LAUNCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::some_pass;

    /// A pass of this kind, which takes factor * 10 s and some more.
    fn pass(kind: PassKind) -> PassPlan {
        PassPlan {
            kind,
            ..some_pass()
        }
    }

    fn budget(limit: TimeLimit, baseline: u64) -> Budget {
        let mut budget = Budget::new(limit, Instant::now());
        budget.measured(Duration::from_secs(baseline));
        budget
    }

    fn total(seconds: u64) -> TimeLimit {
        TimeLimit::Total(Duration::from_secs(seconds))
    }

    /// Whether a time is at most the expected one, and little less: the test takes time, too.
    #[track_caller]
    fn assert_about(time: Option<Duration>, expected: f64) {
        let time = time.expect("limited").as_secs_f64();
        assert!((expected - 0.5..=expected).contains(&time), "{time}");
    }

    #[test]
    fn a_pass_may_take_what_the_others_leave_or_its_part() {
        let timeline = pass(PassKind::Timeline);
        let later = [Step::Pass(pass(PassKind::Operators))];
        let unmeasured = Budget::new(total(110), Instant::now());
        // 10 s are reserved, and a quarter is the baseline's.
        assert_about(unmeasured.limit(&timeline, later.iter()), 25.0);
        assert_eq!(unmeasured.estimate(&timeline), None);

        // 1.4 * 10 + 5 and 1.3 * 10 + 3: of 100 s the other leaves 84.
        let long = budget(total(110), 10);
        assert_eq!(long.estimate(&timeline), Some(Duration::from_secs(19)));
        assert_about(long.limit(&timeline, later.iter()), 84.0);
        // Of 7 s for 35 it is 19 parts of 35.
        assert_about(budget(total(17), 10).limit(&timeline, later.iter()), 3.8);
        let none = budget(TimeLimit::None, 10);
        assert_eq!(none.limit(&timeline, later.iter()), None);
    }

    #[test]
    fn without_a_budget_four_runs_and_a_minute_are_left() {
        let usual = Budget::new(TimeLimit::Usual, Instant::now());
        assert_eq!(usual.left(), None, "the baseline is not limited");
        // 4 * 20 + 60, of which 10 are reserved.
        assert_about(budget(TimeLimit::Usual, 20).left(), 130.0);
        // ncu needs as long as the baseline, 10 s to start, and 15 s for launches.
        let later = [Step::Deferred(pass(PassKind::Counters))];
        let timeline = pass(PassKind::Timeline);
        let short = budget(TimeLimit::Usual, 15);
        assert_about(short.limit(&timeline, later.iter()), 110.0 - 40.0);
        let long = budget(TimeLimit::Usual, 100);
        assert_about(long.limit(&timeline, later.iter()), 450.0 - 125.0);
        // Of 60 s the timeline needs 26 and ncu 40, or 30 with fewer launches.
        let shorter = budget(total(70), 15);
        assert_about(shorter.limit(&timeline, later.iter()), 60.0 - 30.0);
    }

    #[test]
    fn repeats_and_logs_that_the_user_adds_are_not_of_the_four_runs() {
        let mut repeated = budget(TimeLimit::Usual, 20);
        let baseline = PassPlan {
            repeats: 5,
            warmup: 1,
            ..pass(PassKind::Baseline)
        };
        let baseline = PassPlan {
            harvest: Harvest::Timings,
            ..baseline
        };
        repeated.expect(&[Step::Pass(baseline)]);
        assert_about(repeated.left(), 230.0);
        repeated.expect(&[Step::Pass(pass(PassKind::Operators))]);
        // Three more runs and 30 s: some_pass is a log.
        assert_about(repeated.left(), 320.0);
    }
}
