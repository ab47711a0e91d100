//! What the captures of a lake say together: where GPU time goes, what findings could save, and when stages changed.
//!
//! Captures are samples: most are of seconds, and jobs run for days. A label `gpu_hours` states the hours of the jobs that a
//! capture represents, and its shares then count with them; other captures count with the time that they hold. What lies
//! before and after all stages does not count, because it is most of a short capture and nothing of a long job.

use std::collections::BTreeMap;

use rooflens_compare::experiments::{ChangePoint, change_points};
use rooflens_query::Value;
use rooflens_stats::median;
use rooflens_units::{Ratio, Time};

use super::query::Row;
use super::{Lake, LakeError, Unread};

/// The label that states the GPU-hours that a capture represents.
const HOURS: &str = "gpu_hours=";

/// Nanoseconds of an hour.
const HOUR: Time = Time(3.6e12);

/// Idle time before the first and after the last operation of a GPU.
pub(crate) const NO_OPERATION: &str = "no operation";

/// Kernel class of collectives.
const COLLECTIVES: &str = "communication";

/// Least change of a stage's time.
const LEAST: Ratio = Ratio(0.01);

/// Probability of a change by chance anywhere in the lake from which on it is none.
pub(crate) const CHANCE: f64 = 0.05;

/// Days of a series beyond which a month is one value: each place of a series is compared with all others.
const DAYS: usize = 366;

/// Digits of `2026-11-21` and of `2026-11`.
const DAY: usize = 10;
const MONTH: usize = 7;

/// All captures of a lake.
#[derive(Debug, Default)]
pub struct Fleet {
    /// By the hash of the content.
    pub(crate) captures: BTreeMap<String, Capture>,
    /// Stages whose time changed.
    pub(crate) changed: Vec<Series>,
}

/// A capture.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    pub(crate) run: String,
    pub(crate) day: Option<String>,
    pub(crate) model: String,
    pub(crate) gpu: String,
    gpus: f64,
    workload: String,
    pub(crate) labels: Vec<String>,
    /// GPU-hours that it represents.
    pub(crate) hours: Option<Time>,
    /// GPU time that it holds.
    pub(crate) captured: Time,
    /// GPU time that counts, by use.
    pub(crate) uses: BTreeMap<Use, Time>,
    /// The largest bound of each rule, in GPU time. Bounds of a capture overlap, so that the others do not count.
    pub(crate) bounds: BTreeMap<String, Time>,
}

/// What a GPU does or waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// It runs kernels of a class.
    Busy(String),
    /// It is idle by a cause.
    Idle(String),
}

/// Captures that something holds for.
#[derive(Debug, Default)]
pub(crate) struct Group<'a> {
    pub(crate) name: String,
    pub(crate) captures: Vec<(&'a str, &'a Capture)>,
}

/// Captures with a finding and its bound in each, the largest first.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    pub(crate) rule: &'a str,
    pub(crate) captures: Vec<(&'a str, Time)>,
}

/// Times of a stage of the same model, GPUs and sizes.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) key: Key,
    pub(crate) points: Vec<Point>,
    pub(crate) changes: Vec<ChangePoint>,
}

/// Model, GPU, number of GPUs, sizes, stage.
pub(crate) type Key = (String, String, u64, String, String);

/// A day of a series, or a month.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) day: String,
    pub(crate) captures: usize,
    pub(crate) time: Time,
}

impl Fleet {
    /// Reads what a report shows. Files that cannot be read are among the unread ones.
    ///
    /// # Errors
    /// The lake cannot be listed.
    pub fn read(lake: &Lake, unread: &Unread) -> Result<Self, LakeError> {
        let mut captures = BTreeMap::new();
        let columns = [
            "capture", "run", "time", "model", "gpu", "gpus", "workload", "labels",
        ];
        for row in lake.scan("captures", &columns, unread)? {
            captures.insert(text(&row, 0), Capture::of(&row));
        }
        let mut fleet = Self {
            captures,
            changed: Vec::new(),
        };
        fleet.read_bounds(lake, unread)?;
        fleet.read_account(lake, unread)?;
        fleet.read_times(lake, unread)?;
        Ok(fleet)
    }

    fn read_bounds(&mut self, lake: &Lake, unread: &Unread) -> Result<(), LakeError> {
        let columns = ["capture", "rule", "saved_ns", "weight_ns"];
        for row in lake.scan("findings", &columns, unread)? {
            // A finding without a saving has the time that it is about as its weight.
            let (Some(_), Some(weight)) = (time(&row, 2), time(&row, 3)) else {
                continue;
            };
            if let Some(capture) = self.captures.get_mut(&text(&row, 0)) {
                // Ranks wait for each other: what one saves, all save.
                let bound = weight * capture.gpus;
                let largest = capture.bounds.entry(text(&row, 1)).or_default();
                *largest = largest.max(bound);
            }
        }
        Ok(())
    }

    fn read_account(&mut self, lake: &Lake, unread: &Unread) -> Result<(), LakeError> {
        // Uses within stages and outside.
        let mut uses = BTreeMap::<String, [BTreeMap<Use, Time>; 2]>::new();
        // A node comes after the node that it is a part of.
        let mut is_outside = false;
        let columns = ["capture", "kind", "label", "ns"];
        for row in lake.scan("account", &columns, unread)? {
            let (kind, label) = (text(&row, 1), text(&row, 2));
            let used = match kind.as_str() {
                "kernel class" => Use::Busy(label),
                "idle cause" => Use::Idle(label),
                NO_OPERATION => Use::Idle(kind),
                "busy" | "idle" | "operation" => continue,
                phase => {
                    is_outside = matches!(phase, "before stages" | "after stages");
                    continue;
                }
            };
            if let Some(time) = time(&row, 3) {
                let parts = uses.entry(text(&row, 0)).or_default();
                *parts[usize::from(is_outside)].entry(used).or_default() += time;
            }
        }
        for (hash, [within, outside]) in uses {
            if let Some(capture) = self.captures.get_mut(&hash) {
                capture.account(within, outside);
            }
        }
        // Without an account, a bound is of no whole.
        for capture in self.captures.values_mut() {
            if capture.uses.is_empty() {
                capture.bounds.clear();
            }
        }
        Ok(())
    }

    fn read_times(&mut self, lake: &Lake, unread: &Unread) -> Result<(), LakeError> {
        let mut times = BTreeMap::<Key, Vec<(String, Time)>>::new();
        let columns = ["capture", "stage", "unprofiled_ns", "profiled_ns"];
        for row in lake.scan("headline", &columns, unread)? {
            let capture = self.captures.get(&text(&row, 0));
            let day = capture.and_then(|capture| capture.day.clone());
            let time = time(&row, 2).or_else(|| time(&row, 3));
            if let (Some(capture), Some(day), Some(time)) = (capture, day, time) {
                let key = (
                    capture.model.clone(),
                    capture.gpu.clone(),
                    capture.gpus as u64,
                    capture.workload.clone(),
                    text(&row, 1),
                );
                times.entry(key).or_default().push((day, time));
            }
        }
        let tests = times.len() as f64;
        for (key, times) in times {
            let mut points = points(&times, DAY);
            if points.len() > DAYS {
                points = self::points(&times, MONTH);
            }
            let values: Vec<f64> = points.iter().map(|point| point.time.0).collect();
            let mut changes = change_points(&values, LEAST);
            changes.retain(|change| change.p * tests <= CHANCE);
            if !changes.is_empty() {
                self.changed.push(Series {
                    key,
                    points,
                    changes,
                });
            }
        }
        Ok(())
    }

    /// Whether the lake has no captures.
    pub fn is_empty(&self) -> bool {
        self.captures.is_empty()
    }

    /// GPU time that counts.
    pub(crate) fn time(&self) -> Time {
        self.captures.values().map(Capture::time).sum()
    }

    /// GPU time by use, the most first.
    pub(crate) fn uses(&self) -> Vec<(&Use, Time)> {
        let mut sums = BTreeMap::<&Use, Time>::new();
        for capture in self.captures.values() {
            for (used, time) in &capture.uses {
                *sums.entry(used).or_default() += *time;
            }
        }
        let mut sums: Vec<(&Use, Time)> = sums.into_iter().collect();
        sums.sort_by(|one, other| other.1.total_cmp(&one.1));
        sums
    }

    /// Captures by what they have in common, those with the most GPU time first.
    pub(crate) fn groups<'a>(
        &'a self,
        names: impl Fn(&'a Capture) -> &'a [String],
    ) -> Vec<Group<'a>> {
        let mut groups = BTreeMap::<&str, Group<'a>>::new();
        for (hash, capture) in &self.captures {
            for name in names(capture) {
                let group = groups.entry(name).or_default();
                group.name.clone_from(name);
                group.captures.push((hash, capture));
            }
        }
        let mut groups: Vec<Group<'_>> = groups.into_values().collect();
        groups.sort_by(|one, other| other.time().total_cmp(&one.time()));
        groups
    }

    /// Rules by their bounds in all captures, the largest first.
    pub(crate) fn bounds(&self) -> Vec<Bound<'_>> {
        let mut bounds = BTreeMap::<&str, Bound<'_>>::new();
        for (hash, capture) in &self.captures {
            for (rule, time) in &capture.bounds {
                let captures = Vec::new();
                let bound = bounds.entry(rule).or_insert(Bound { rule, captures });
                bound.captures.push((hash, *time));
            }
        }
        let mut bounds: Vec<Bound<'_>> = bounds.into_values().collect();
        for bound in &mut bounds {
            let by_time = |one: &(&str, Time), other: &(&str, Time)| other.1.total_cmp(&one.1);
            bound.captures.sort_by(by_time);
        }
        bounds.sort_by(|one, other| other.time().total_cmp(&one.time()));
        bounds
    }
}

impl Capture {
    /// From the columns of [`Fleet::read`].
    fn of(row: &Row) -> Self {
        let labels = text(row, 7);
        let labels = labels.split(',').filter(|label| !label.is_empty());
        let (hours, labels): (Vec<&str>, Vec<&str>) =
            labels.partition(|label| label.starts_with(HOURS));
        let hours = hours
            .first()
            .and_then(|label| label[HOURS.len()..].parse().ok());
        let hours = hours.filter(|hours: &f64| hours.is_finite() && *hours > 0.0);
        Self {
            run: text(row, 1),
            day: day(&text(row, 2)),
            model: text(row, 3),
            gpu: text(row, 4),
            gpus: number(row, 5).unwrap_or(1.0).max(1.0),
            workload: text(row, 6),
            labels: labels.into_iter().map(str::to_owned).collect(),
            hours: hours.map(|hours| HOUR * hours),
            ..Self::default()
        }
    }

    /// Takes the uses within stages, or all where there are no stages, at the hours that the capture represents.
    fn account(&mut self, within: BTreeMap<Use, Time>, outside: BTreeMap<Use, Time>) {
        let captured = within.values().chain(outside.values()).copied();
        self.captured = captured.sum();
        self.uses = if within.is_empty() { outside } else { within };
        let held = self.time();
        let factor = self
            .hours
            .map_or(Ratio::ONE, |hours| Ratio::of(hours, held));
        for time in self.uses.values_mut() {
            *time = *time * factor.0;
        }
        for bound in self.bounds.values_mut() {
            *bound = bound.min(held) * factor.0;
        }
    }

    /// GPU time that counts.
    pub(crate) fn time(&self) -> Time {
        self.uses.values().copied().sum()
    }

    fn of_uses(&self, is_meant: impl Fn(&Use) -> bool) -> Time {
        let meant = self.uses.iter().filter(|(used, _)| is_meant(used));
        meant.map(|(_, time)| *time).sum()
    }
}

impl Group<'_> {
    pub(crate) fn time(&self) -> Time {
        let captures = self.captures.iter();
        captures.map(|(_, capture)| capture.time()).sum()
    }

    /// GPU time in kernels other than collectives, in collectives, and idle.
    pub(crate) fn parts(&self) -> [Time; 3] {
        let of = |is_meant: fn(&Use) -> bool| {
            let captures = self.captures.iter();
            captures.map(|(_, capture)| capture.of_uses(is_meant)).sum()
        };
        [
            of(|used| matches!(used, Use::Busy(class) if class != COLLECTIVES)),
            of(|used| matches!(used, Use::Busy(class) if class == COLLECTIVES)),
            of(|used| matches!(used, Use::Idle(_))),
        ]
    }

    /// The rule with the largest bound, and the bound.
    pub(crate) fn largest(&self) -> Option<(&str, Time)> {
        let mut sums = BTreeMap::<&str, Time>::new();
        for (_, capture) in &self.captures {
            for (rule, bound) in &capture.bounds {
                *sums.entry(rule).or_default() += *bound;
            }
        }
        let sums = sums.into_iter().rev();
        sums.max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

impl Bound<'_> {
    pub(crate) fn time(&self) -> Time {
        self.captures.iter().map(|(_, time)| *time).sum()
    }
}

/// One value a period, the median of its captures: those of a day are often of one machine and one state.
fn points(times: &[(String, Time)], digits: usize) -> Vec<Point> {
    let mut periods = BTreeMap::<&str, Vec<Time>>::new();
    for (day, time) in times {
        periods.entry(&day[..digits]).or_default().push(*time);
    }
    let mut points = Vec::new();
    for (day, times) in periods {
        points.extend(median(&times).map(|time| Point {
            day: day.to_owned(),
            captures: times.len(),
            time,
        }));
    }
    points
}

/// `2026-11-21` of `2026-11-21T01:06:27Z`.
fn day(time: &str) -> Option<String> {
    let day = time.get(..DAY)?;
    let is_like = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    day.bytes().enumerate().all(is_like).then(|| day.to_owned())
}

fn text(row: &Row, place: usize) -> String {
    row[place]
        .as_ref()
        .map(Value::to_string)
        .unwrap_or_default()
}

fn number(row: &Row, place: usize) -> Option<f64> {
    let number = row[place].as_ref().and_then(Value::as_float);
    number.filter(|number| number.is_finite())
}

/// A time above zero.
fn time(row: &Row, place: usize) -> Option<Time> {
    number(row, place).map(Time).filter(Time::is_positive)
}
