//! How long passes take, and how long they may.

use std::time::{Duration, Instant};

use rooflens_schemas::PassKind;
use rooflens_units::{Count, Ratio, Seconds};

use crate::plan::ncu::LAUNCH;
use crate::plan::{Harvest, PassPlan, Step};

/// How many times as long as the unprofiled run a pass takes, and the time on top of it: of ncu, without the launches
/// that it profiles. On two H200s nsys took 1.3 to 1.5 times as long.
const TIMELINE: (Ratio, Seconds) = (Ratio(1.4), Seconds(5.0));
const OPERATORS: (Ratio, Seconds) = (Ratio(1.3), Seconds(3.0));
const COUNTERS: (Ratio, Seconds) = (Ratio(1.0), Seconds(10.0));

/// How long all passes may take if nobody says: so many times the unprofiled run, and the time on top of it.
const USUAL: (Ratio, Seconds) = (Ratio(4.0), Seconds(60.0));

/// Launches that are thought of before they are known.
const LAUNCHES: Count = Count(30.0);

/// The unprofiled run, as long as it is not known.
const UNKNOWN: Seconds = Seconds(30.0);

/// Time for all passes.
pub(super) struct Budget {
    begin: Instant,
    end: Option<Instant>,
    /// How long the unprofiled run took.
    baseline: Option<Duration>,
}

impl Budget {
    pub(super) fn new(time: Option<Duration>) -> Self {
        let begin = Instant::now();
        Self {
            begin,
            end: time.map(|time| begin + time),
            baseline: None,
        }
    }

    /// The unprofiled run has ended.
    pub(super) fn measured(&mut self, wall: Duration) {
        self.baseline.get_or_insert(wall);
    }

    /// How long a pass takes; none before the unprofiled run is measured.
    pub(super) fn estimate(&self, pass: &PassPlan) -> Option<Duration> {
        self.baseline
            .map(|_| Duration::from_secs_f64(self.time(pass).0))
    }

    /// How long the launches of ncu may take, as the last pass; none where nobody knows how long anything takes.
    pub(super) fn launches(&self) -> Option<Duration> {
        let once = seconds(self.baseline?);
        let spent = seconds(self.begin.elapsed());
        let left = match self.end {
            Some(end) => seconds(end.saturating_duration_since(Instant::now())),
            None => once * USUAL.0 + USUAL.1 - spent,
        };
        let left = left - once * COUNTERS.0 - COUNTERS.1;
        Some(Duration::from_secs_f64(left.max(Seconds::ZERO).0))
    }

    /// How long a pass may take, if time is limited: what the others leave or, if that is too little for all, its part.
    pub(super) fn limit<'a>(
        &self,
        pass: &PassPlan,
        later: impl Iterator<Item = &'a Step>,
    ) -> Option<Duration> {
        let left = seconds(self.end?.saturating_duration_since(Instant::now()));
        if self.baseline.is_none() {
            // The others are profiled runs of the same: nobody knows better.
            return Some(Duration::from_secs_f64(left.0 / 4.0));
        }
        let needed = self.time(pass);
        let later: Seconds = later.map(|step| self.time_of(step)).sum();
        let limit = if needed + later < left {
            left - later
        } else {
            Seconds(left.0 * needed.0 / (needed + later).0)
        };
        Some(Duration::from_secs_f64(limit.0))
    }

    fn time_of(&self, step: &Step) -> Seconds {
        match step {
            Step::Pass(pass) | Step::Counters(pass) => self.time(pass),
            Step::Snapshot { .. } | Step::Skip { .. } => Seconds::ZERO,
        }
    }

    fn time(&self, pass: &PassPlan) -> Seconds {
        let once = self.baseline.map_or(UNKNOWN, seconds);
        let (factor, more) = match pass.kind {
            PassKind::Timeline => TIMELINE,
            PassKind::Operators => OPERATORS,
            PassKind::Counters => COUNTERS,
            _ => (Ratio::ONE, Seconds::ZERO),
        };
        let launches = match &pass.harvest {
            Harvest::Ncu(export) => export
                .planned
                .map_or(LAUNCHES, |planned| Count(planned as f64)),
            _ => Count::ZERO,
        };
        let runs = f64::from(pass.repeats + pass.warmup);
        once * runs * factor + more + LAUNCH * launches
    }
}

fn seconds(time: Duration) -> Seconds {
    Seconds(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::some_pass;

    /// A pass of this kind, which takes factor * 10 s and some more.
    fn step(kind: PassKind) -> Step {
        Step::Pass(PassPlan {
            kind,
            ..some_pass()
        })
    }

    #[test]
    fn a_pass_may_take_what_the_others_leave_or_its_part() {
        let Step::Pass(timeline) = step(PassKind::Timeline) else {
            panic!("a pass")
        };
        let later = [step(PassKind::Operators)];
        let mut budget = Budget::new(Some(Duration::from_secs(100)));
        let quarter = budget.limit(&timeline, later.iter()).expect("limited");
        assert!(
            (24.0..=25.0).contains(&quarter.as_secs_f64()),
            "{quarter:?}"
        );
        assert_eq!(budget.estimate(&timeline), None);

        budget.measured(Duration::from_secs(10));
        // 1.4 * 10 + 5 and 1.3 * 10 + 3: of 100 s the other leaves 84.
        assert_eq!(budget.estimate(&timeline), Some(Duration::from_secs(19)));
        let limit = budget
            .limit(&timeline, later.iter())
            .expect("limited")
            .as_secs_f64();
        assert!((83.0..=84.0).contains(&limit), "{limit}");

        // Of 7 s for 35 it is 19 parts of 35.
        let mut budget = Budget::new(Some(Duration::from_secs(7)));
        budget.measured(Duration::from_secs(10));
        let limit = budget
            .limit(&timeline, later.iter())
            .expect("limited")
            .as_secs_f64();
        assert!((3.7..=3.8).contains(&limit), "{limit}");
        assert_eq!(Budget::new(None).limit(&timeline, later.iter()), None);
    }

    #[test]
    fn launches_have_what_four_runs_and_a_minute_leave_or_the_budget() {
        let mut budget = Budget::new(None);
        assert_eq!(budget.launches(), None);
        budget.measured(Duration::from_secs(20));
        // 4 * 20 + 60, of which the pass itself takes 20 + 10.
        let time = budget.launches().expect("measured").as_secs_f64();
        assert!((109.0..=110.0).contains(&time), "{time}");
        let mut budget = Budget::new(Some(Duration::from_secs(50)));
        budget.measured(Duration::from_secs(20));
        let time = budget.launches().expect("measured").as_secs_f64();
        assert!((19.0..=20.0).contains(&time), "{time}");
        let mut budget = Budget::new(Some(Duration::from_secs(50)));
        budget.measured(Duration::from_secs(60));
        assert_eq!(budget.launches(), Some(Duration::ZERO));
    }
}
