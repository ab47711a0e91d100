//! How far ncu is, by what it prints, and how long it still takes.
//!
//! The plan says which launches follow, and how their times compare. The measured times say how fast this machine is:
//! replays have a ratio of measured to planned time, and so have launches that ncu passes over.

use std::time::Duration;

use crate::plan::schedule::{Schedule, Slot};

/// How ncu begins and ends the line of a launch that it profiles.
const BEGINS: &[u8] = b"==PROF== Profiling \"";
const ENDS: &[u8] = b"100% - ";

/// Launches that ncu has profiled until now. Points of time are since the start of the command.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) count: u64,
    /// Measured times of the launches that ended, and their times by the plan.
    measured: Slot,
    planned: Slot,
    /// When the last launch ended, and when the one after it began.
    ended: Option<Duration>,
    begun: Option<Duration>,
    /// The end of what was read: a word may be cut in two.
    tail: Vec<u8>,
}

impl Progress {
    /// Takes more of the output, which was read at `now`.
    pub(super) fn read(&mut self, bytes: &[u8], now: Duration, schedule: Option<&Schedule>) {
        self.tail.extend_from_slice(bytes);
        let text = std::mem::take(&mut self.tail);
        let mut rest = text.as_slice();
        let (mut ends, mut is_open) = (0, false);
        loop {
            let begin = memchr::memmem::find(rest, BEGINS);
            let end = memchr::memmem::find(rest, ENDS);
            let next = match (begin, end) {
                (Some(begin), end) if end.is_none_or(|end| begin < end) => {
                    is_open = true;
                    begin + BEGINS.len()
                }
                (_, Some(end)) => {
                    (ends, is_open) = (ends + 1, false);
                    end + ENDS.len()
                }
                _ => break,
            };
            rest = &rest[next..];
        }
        let kept = rest.len().min(BEGINS.len() - 1);
        self.tail = rest[rest.len() - kept..].to_vec();
        if ends > 0 {
            self.end(ends, now, schedule);
        }
        if is_open {
            self.begun = Some(now);
        }
    }

    /// Launches have ended.
    fn end(&mut self, launches: u64, now: Duration, schedule: Option<&Schedule>) {
        if let Some(schedule) = schedule {
            let planned = sum(slots(schedule, self.count).take(launches as usize));
            let measured = match (self.ended, self.begun) {
                (Some(ended), Some(begun)) if launches == 1 => Some(Slot {
                    passed: begun.saturating_sub(ended),
                    replays: now.saturating_sub(begun),
                }),
                // ncu wrote the whole line at once, or several: the plan divides the time.
                (Some(ended), _) => Some(divided(now.saturating_sub(ended), planned)),
                // What precedes the first launch is run-up, too.
                (None, Some(begun)) if launches == 1 => Some(Slot {
                    passed: planned.passed,
                    replays: now.saturating_sub(begun),
                }),
                (None, _) => None,
            };
            if let Some(measured) = measured {
                self.measured = sum([self.measured, measured].into_iter());
                self.planned = sum([self.planned, planned].into_iter());
            }
        }
        self.count += launches;
        (self.ended, self.begun) = (Some(now), None);
    }

    /// How long ncu still takes.
    pub(super) fn left(&self, schedule: &Schedule, now: Duration) -> Duration {
        if (self.ended, self.begun) == (None, None) {
            // Once the run-up is over, it is longer than planned.
            let profiling = sum(slots(schedule, 0)).total();
            return schedule.total().saturating_sub(now).max(profiling);
        }
        let Some(next) = slots(schedule, self.count).next() else {
            return Duration::ZERO;
        };
        let later = sum(slots(schedule, self.count + 1));
        let since = |time: Option<Duration>| now.saturating_sub(time.unwrap_or(now));
        let replaying = ratio(self.measured.replays, self.planned.replays);
        let mut passing = ratio(self.measured.passed, self.planned.passed);
        let replays = next.replays.mul_f64(replaying);
        let of_next = match self.begun {
            Some(_) => replays.saturating_sub(since(self.begun)),
            None => {
                // Launches that are overdue say that ncu passes them over more slowly.
                let waited = self.measured.passed + since(self.ended);
                passing = passing.max(ratio(waited, self.planned.passed + next.passed));
                let passed = next.passed.mul_f64(passing);
                (passed + replays).saturating_sub(since(self.ended))
            }
        };
        of_next + later.passed.mul_f64(passing) + later.replays.mul_f64(replaying)
    }
}

fn slots(schedule: &Schedule, from: u64) -> impl Iterator<Item = Slot> {
    schedule.launches.iter().copied().skip(from as usize)
}

fn sum(slots: impl Iterator<Item = Slot>) -> Slot {
    let mut sum = Slot::default();
    for slot in slots {
        sum.passed += slot.passed;
        sum.replays += slot.replays;
    }
    sum
}

/// A time in the proportion of the plan.
fn divided(time: Duration, planned: Slot) -> Slot {
    let total = planned.total();
    let share = match total.is_zero() {
        true => 0.0,
        false => planned.passed.as_secs_f64() / total.as_secs_f64(),
    };
    let passed = time.mul_f64(share);
    Slot {
        passed,
        replays: time.saturating_sub(passed),
    }
}

/// Measured to planned time; 1 before anything is measured.
fn ratio(measured: Duration, planned: Duration) -> f64 {
    match planned.is_zero() {
        true => 1.0,
        false => measured.as_secs_f64() / planned.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &[u8] = b"==PROF== Profiling \"gemm\" - 0: 0%....50%";
    const END: &[u8] = b"....100% - 25 passes\n";

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Ten seconds until launches; each takes a second after two seconds of others.
    fn schedule(launches: usize) -> Schedule {
        let slot = Slot {
            passed: seconds(2),
            replays: seconds(1),
        };
        Schedule {
            run_up: seconds(10),
            launches: vec![slot; launches],
        }
    }

    #[test]
    fn launches_are_counted_across_reads() {
        let mut progress = Progress::default();
        let mut read = |bytes: &[u8]| {
            progress.read(bytes, Duration::ZERO, None);
            progress.count
        };
        assert_eq!(read(b"==PROF== Profiling \"a\": 0%....50%....10"), 0);
        let next = b"0% - 25 passes\n==PROF== Profiling \"b\": 0%....50%....100%";
        assert_eq!(read(next), 1);
        assert_eq!(read(b" -"), 1);
        assert_eq!(read(b" 25 passes\n"), 2);
    }

    #[test]
    fn what_is_left_is_corrected_by_the_measured_times() {
        let schedule = schedule(4);
        let mut progress = Progress::default();
        // 10 s run-up, 10 s of ncu, and four times 3 s.
        assert_eq!(progress.left(&schedule, seconds(1)), seconds(31));
        assert_eq!(progress.left(&schedule, seconds(500)), seconds(12));
        let mut read = |bytes: &[u8], at| progress.read(bytes, seconds(at), Some(&schedule));
        // The first launch takes 3 s instead of 1 s, and then 4 s pass instead of 2 s.
        read(BEGIN, 20);
        read(END, 23);
        read(BEGIN, 27);
        // It is 1 s into its replays, which take 3 s: 2 s are left of them, and twice (2 + 3) s after it.
        // What passed is measured with the launch that follows.
        assert_eq!(progress.left(&schedule, seconds(28)), seconds(12));
        let mut read = |bytes: &[u8], at| progress.read(bytes, seconds(at), Some(&schedule));
        read(END, 30);
        // 6 of 4 planned seconds passed, of which the first two are the plan's: 1.5 * 2 + 3, twice.
        assert_eq!(progress.left(&schedule, seconds(30)), seconds(12));
        // After 10 s without a launch, 16 s passed for 6 planned ones: one launch with 3 s, and one with 2 * 16 / 6 more.
        let left = progress.left(&schedule, seconds(40)).as_secs_f64();
        assert!((left - (3.0 + 16.0 / 3.0)).abs() < 1e-6, "{left}");
    }

    #[test]
    fn a_line_that_is_read_at_once_is_divided_as_planned() {
        let schedule = schedule(3);
        let mut progress = Progress::default();
        let line = [BEGIN, END].concat();
        progress.read(&line, seconds(13), Some(&schedule));
        progress.read(&line, seconds(19), Some(&schedule));
        // 6 s instead of 3 s, and so the next launch.
        assert_eq!(progress.left(&schedule, seconds(19)), seconds(6));
        progress.read(&line, seconds(26), Some(&schedule));
        assert_eq!(progress.left(&schedule, seconds(26)), Duration::ZERO);
    }
}
