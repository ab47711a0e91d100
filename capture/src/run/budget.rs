//! How long passes take, and how long they may.

use std::time::{Duration, Instant};

use rooflens_schemas::PassKind;

use crate::plan::ncu::LAUNCH;
use crate::plan::{Harvest, PassPlan, Step};

/// How many times as long as the unprofiled run a pass takes, and seconds on top of it: of ncu, without the launches
/// that it profiles. On two H200s nsys took 1.3 to 1.5 times as long.
const TIMELINE: (f64, f64) = (1.4, 5.0);
const OPERATORS: (f64, f64) = (1.3, 3.0);
const COUNTERS: (f64, f64) = (1.0, 10.0);

/// How long all passes may take if nobody says: so many times the unprofiled run, and seconds on top of it.
const USUAL: (f64, f64) = (4.0, 60.0);

/// Launches that are thought of before they are known.
const LAUNCHES: f64 = 30.0;

/// The unprofiled run, as long as it is not known, in seconds.
const UNKNOWN: f64 = 30.0;

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
            .map(|_| Duration::from_secs_f64(self.seconds(pass)))
    }

    /// How long the launches of ncu may take, as the last pass; none where nobody knows how long anything takes.
    pub(super) fn launches(&self) -> Option<Duration> {
        let (once, spent) = (
            self.baseline?.as_secs_f64(),
            self.begin.elapsed().as_secs_f64(),
        );
        let left = match self.end {
            Some(end) => end.saturating_duration_since(Instant::now()).as_secs_f64(),
            None => USUAL.0 * once + USUAL.1 - spent,
        };
        Some(Duration::from_secs_f64(
            (left - COUNTERS.0 * once - COUNTERS.1).max(0.0),
        ))
    }

    /// How long a pass may take, if time is limited: what the others leave or, if that is too little for all, its part.
    pub(super) fn limit<'a>(
        &self,
        pass: &PassPlan,
        later: impl Iterator<Item = &'a Step>,
    ) -> Option<Duration> {
        let left = self
            .end?
            .saturating_duration_since(Instant::now())
            .as_secs_f64();
        if self.baseline.is_none() {
            // The others are profiled runs of the same: nobody knows better.
            return Some(Duration::from_secs_f64(left / 4.0));
        }
        let own = self.seconds(pass);
        let later: f64 = later.map(|step| self.seconds_of(step)).sum();
        let limit = if own + later < left {
            left - later
        } else {
            left * own / (own + later)
        };
        Some(Duration::from_secs_f64(limit))
    }

    fn seconds_of(&self, step: &Step) -> f64 {
        match step {
            Step::Pass(pass) | Step::Counters(pass) => self.seconds(pass),
            Step::Snapshot { .. } | Step::Skip { .. } => 0.0,
        }
    }

    fn seconds(&self, pass: &PassPlan) -> f64 {
        let once = self.baseline.map_or(UNKNOWN, |wall| wall.as_secs_f64());
        let (factor, more) = match pass.kind {
            PassKind::Timeline => TIMELINE,
            PassKind::Operators => OPERATORS,
            PassKind::Counters => COUNTERS,
            _ => (1.0, 0.0),
        };
        let launches = match &pass.harvest {
            Harvest::Ncu(export) => export.planned.map_or(LAUNCHES, |planned| planned as f64),
            _ => 0.0,
        };
        f64::from(pass.repeats + pass.warmup) * once * factor + more + launches * LAUNCH
    }
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
