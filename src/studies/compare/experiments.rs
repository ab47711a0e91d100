//! What the experiments of a ledger show: verdicts by the figure that decides, side effects, and trends over commits.
//!
//! An experiment is compared with the one that it builds on. Values with an interval are judged by it. Too few values have
//! none, and chance may have ordered them: if all of them lie on one side of the others, that is an outcome of its own.

use std::collections::BTreeMap;

use rooflens_document::catalogue;
use rooflens_schemas::{Polarity, Unit};
use rooflens_stats::{Shift, median};
use rooflens_units::Ratio;

use crate::Pair;
use crate::gate::STAGE_TIME;
use crate::ledger::Ledger;
use crate::record::Record;
use crate::times::{CONFIDENCE, StageTimes, Verdict, of_interval};

/// Probability of a change point where nothing changed, over all places of a trend.
pub const RATE: f64 = 0.05;

/// The values of a figure.
#[derive(Clone, Debug, PartialEq)]
struct Values {
    unit: Unit,
    polarity: Polarity,
    values: Vec<f64>,
    /// Whether it was stated in the ledger.
    is_stated: bool,
}

/// Figures by `METRIC@STAGE`, `METRIC`, or the name in the ledger.
type Figures = BTreeMap<String, Values>;

/// A figure of an experiment and of the one that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The figure.
    pub figure: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Number of values.
    pub samples: Pair<usize>,
    /// Their medians.
    pub median: Pair<f64>,
    /// After ÷ before; absent where one of them is 0, or their signs differ.
    pub ratio: Option<Ratio>,
    /// Its interval; absent with too few values.
    pub interval: Option<(Ratio, Ratio)>,
    /// Better or worse.
    pub verdict: Verdict,
}

/// What became of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Others are compared with it, and it with none.
    Reference,
    /// By the interval of the figure that decides, or that nothing tells.
    Judged(Verdict),
    /// By too few values for an interval: all of them are better, or worse, than all before.
    Few(Verdict),
    /// It has an error instead of a result.
    Failed,
}

impl Change {
    /// What it says.
    pub fn status(&self) -> Status {
        match self.verdict {
            verdict @ (Verdict::Better | Verdict::Worse) if self.interval.is_none() => {
                Status::Few(verdict)
            }
            verdict => Status::Judged(verdict),
        }
    }
}

impl Status {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Judged(verdict) => verdict.label(),
            Self::Few(Verdict::Better) => "better by few values",
            Self::Few(_) => "worse by few values",
            Self::Failed => "failed",
        }
    }
}

/// An experiment, and what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its place in the ledger.
    pub place: usize,
    /// The place of the one that it is compared with.
    pub against: Option<usize>,
    /// What became of it.
    pub status: Status,
    /// The figure that decides, where both have it.
    pub goal: Option<Change>,
    /// Other figures that became better or worse, the largest change first.
    pub side_effects: Vec<Change>,
    /// Conditions of the work that differ: name, before and after. Times are not compared then.
    pub other_work: Vec<[String; 3]>,
}

/// A figure over commits.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// The figure.
    pub figure: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Experiments with a commit: place in the ledger, values, and their median.
    pub points: Vec<(usize, usize, f64)>,
    /// Where it changed, in order.
    pub changes: Vec<ChangePoint>,
}

/// A commit from which on a figure differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index into the points.
    pub at: usize,
    /// Medians from here to the next change point ÷ those since the last one.
    pub ratio: Ratio,
    /// Its interval.
    pub interval: (Ratio, Ratio),
    /// Probability of ranks that differ as much somewhere if nothing changed.
    pub p: f64,
}

/// A study.
pub struct Study<'a> {
    /// The ledger.
    pub ledger: &'a Ledger,
    /// The figure that decides; none if no experiment has a figure.
    pub goal: Option<String>,
    /// The least change that counts.
    pub least: Ratio,
    /// The experiments in order.
    pub experiments: Vec<Experiment>,
    /// Trends of the figure that decides and of stage times.
    pub trends: Vec<Trend>,
    /// The place of the recommended experiment.
    pub recommended: Option<usize>,
}

/// Judges the experiments of a ledger; the records are those of their runs, none for those without.
pub fn study<'a>(ledger: &'a Ledger, records: &[Option<Record>], least: Ratio) -> Study<'a> {
    let mut figures = Vec::new();
    for (place, record) in records.iter().enumerate() {
        figures.push(figures_of(ledger, place, record.as_ref()));
    }
    let goal = ledger
        .goal
        .clone()
        .or_else(|| first_figure(ledger, &figures));
    let mut experiments = Vec::new();
    for place in 0..ledger.experiments.len() {
        let against = ledger.against(place);
        experiments.push(experiment(
            ledger,
            place,
            against,
            goal.as_deref(),
            &figures,
            records,
            least,
        ));
    }
    let trends = trends(ledger, goal.as_deref(), &figures, least);
    let recommended = recommended(ledger, &experiments);
    Study {
        ledger,
        goal,
        least,
        experiments,
        trends,
        recommended,
    }
}

/// The figures that an experiment states, and those of its runs.
fn figures_of(ledger: &Ledger, place: usize, record: Option<&Record>) -> Figures {
    let mut figures = Figures::new();
    for stage in record.map_or(&[][..], |record| &record.stages) {
        let values = Values {
            unit: Unit::Nanoseconds,
            polarity: Polarity::Lower,
            values: times(stage).to_vec(),
            is_stated: false,
        };
        if !values.values.is_empty() {
            figures.insert(format!("{STAGE_TIME}@{}", stage.name), values);
        }
    }
    for metric in record.map_or(&[][..], |record| &record.metrics) {
        let known = catalogue::ALL.iter().find(|known| known.id == metric.id);
        let name = match &metric.stage {
            Some(stage) => format!("{}@{stage}", metric.id),
            None => metric.id.clone(),
        };
        figures.entry(name).or_insert_with(|| Values {
            unit: metric.unit,
            polarity: known.map_or(Polarity::Neutral, |known| known.polarity),
            values: metric.values.clone(),
            is_stated: false,
        });
    }
    for (name, stated) in &ledger.experiments[place].figures {
        let known = ledger.figures.iter().find(|figure| figure.name == *name);
        let Some((figure, (unit, factor))) = known.and_then(|known| Some((known, known.unit()?)))
        else {
            continue;
        };
        let values = Values {
            unit,
            polarity: figure.better,
            values: stated.values().iter().map(|value| value * factor).collect(),
            is_stated: true,
        };
        figures.insert(name.clone(), values);
    }
    figures
}

/// Unprofiled times, or those of the timeline.
fn times(stage: &StageTimes) -> &[f64] {
    match stage.unprofiled.is_empty() {
        true => &stage.profiled,
        false => &stage.unprofiled,
    }
}

/// The first figure of the ledger that an experiment states, or the first stage time, or the throughput of a load test.
fn first_figure(ledger: &Ledger, figures: &[Figures]) -> Option<String> {
    let is_known = |name: &String| figures.iter().any(|figures| figures.contains_key(name));
    let mut stated = ledger.figures.iter().map(|figure| &figure.name);
    if let Some(name) = stated.find(|name| is_known(name)) {
        return Some(name.clone());
    }
    let first = |id: &str| {
        let mut names = figures.iter().flat_map(BTreeMap::keys);
        names.find(|name| name.starts_with(id)).cloned()
    };
    first(STAGE_TIME).or_else(|| first(catalogue::OUTPUT_THROUGHPUT.id))
}

fn experiment(
    ledger: &Ledger,
    place: usize,
    against: Option<usize>,
    goal: Option<&str>,
    figures: &[Figures],
    records: &[Option<Record>],
    least: Ratio,
) -> Experiment {
    let entry = &ledger.experiments[place];
    let mut experiment = Experiment {
        place,
        against,
        status: Status::Judged(Verdict::CannotTell),
        goal: None,
        side_effects: Vec::new(),
        other_work: Vec::new(),
    };
    let Some(before) = against else {
        experiment.status = match entry.error {
            Some(_) => Status::Failed,
            None => Status::Reference,
        };
        return experiment;
    };
    if let (Some(first), Some(second)) = (&records[before], &records[place]) {
        experiment.other_work = first.differing(second);
    }
    for (name, after) in &figures[place] {
        let Some(before) = figures[before]
            .get(name)
            .filter(|before| before.unit == after.unit)
        else {
            continue;
        };
        // A time or a rate of other work is not better or worse.
        let is_of_runs = !before.is_stated && !after.is_stated;
        let is_of_work = matches!(
            after.unit,
            Unit::Nanoseconds | Unit::RequestsPerSecond | Unit::TokensPerSecond
        );
        if is_of_runs && !experiment.other_work.is_empty() && is_of_work {
            continue;
        }
        let Some(change) = change(name, before, after, least) else {
            continue;
        };
        if Some(name.as_str()) == goal {
            experiment.status = change.status();
            experiment.goal = Some(change);
        } else if matches!(change.verdict, Verdict::Better | Verdict::Worse) {
            experiment.side_effects.push(change);
        }
    }
    experiment.side_effects.sort_by(|a, b| {
        let by_size = size(b).total_cmp(&size(a));
        by_size.then_with(|| a.figure.cmp(&b.figure))
    });
    if entry.error.is_some() {
        experiment.status = Status::Failed;
    }
    experiment
}

fn size(change: &Change) -> Ratio {
    let ratio = change.ratio.unwrap_or(Ratio::ONE);
    ratio.max(Ratio(1.0 / ratio.0))
}

fn change(name: &str, before: &Values, after: &Values, least: Ratio) -> Option<Change> {
    let median = Pair {
        before: median(&before.values)?,
        after: median(&after.values)?,
    };
    let is_ratio = median.before * median.after > 0.0;
    let ratio = is_ratio.then(|| Ratio(median.after / median.before));
    let shift = Shift::of(&before.values, &after.values, CONFIDENCE);
    let interval = shift.and_then(|shift| shift.interval);
    let (factor, lower) = match (shift, interval) {
        (Some(shift), Some(_)) => (Some(shift.ratio), of_interval(shift.ratio, interval, least)),
        _ => (
            ratio,
            of_ranges(ratio, &before.values, &after.values, least),
        ),
    };
    let verdict = match (after.polarity, lower) {
        (Polarity::Neutral, Verdict::Better | Verdict::Worse) => Verdict::CannotTell,
        (Polarity::Higher, Verdict::Better) => Verdict::Worse,
        (Polarity::Higher, Verdict::Worse) => Verdict::Better,
        (_, verdict) => verdict,
    };
    Some(Change {
        figure: name.to_owned(),
        unit: after.unit,
        samples: Pair {
            before: before.values.len(),
            after: after.values.len(),
        },
        median,
        ratio: factor,
        interval,
        verdict,
    })
}

/// What too few values for an interval say, if less is better: all of them lie on one side of all others.
fn of_ranges(ratio: Option<Ratio>, before: &[f64], after: &[f64], least: Ratio) -> Verdict {
    let Some(ratio) = ratio else {
        return Verdict::CannotTell;
    };
    let least_of = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most_of = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most_of(after) < least_of(before) && ratio.0 <= 1.0 / (1.0 + least.0) {
        Verdict::Better
    } else if least_of(after) > most_of(before) && ratio.0 >= 1.0 + least.0 {
        Verdict::Worse
    } else {
        Verdict::CannotTell
    }
}

/// The experiment in use; without one, the last that is better than the one it builds on, as are all that it builds on.
fn recommended(ledger: &Ledger, experiments: &[Experiment]) -> Option<usize> {
    let deployed = ledger.experiments.iter().rposition(|entry| entry.deployed);
    let builds_on_better = |experiment: &Experiment| {
        let mut at = Some(experiment.place);
        while let Some(place) = at {
            match experiments[place].status {
                Status::Judged(Verdict::Better) => at = experiments[place].against,
                Status::Reference => return true,
                _ => return false,
            }
        }
        true
    };
    let better = experiments
        .iter()
        .rposition(|experiment| experiment.against.is_some() && builds_on_better(experiment));
    deployed.or(better)
}

/// The figure that decides and stage times of the experiments with a commit, where two of them have it.
fn trends(ledger: &Ledger, goal: Option<&str>, figures: &[Figures], least: Ratio) -> Vec<Trend> {
    let with_commit = |place: &usize| ledger.experiments[*place].commit.is_some();
    let places: Vec<usize> = (0..figures.len()).filter(with_commit).collect();
    let mut names: Vec<&str> = goal.into_iter().collect();
    for place in &places {
        for name in figures[*place].keys() {
            if name.starts_with(STAGE_TIME) && !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    let mut trends = Vec::new();
    for name in names {
        let mut points = Vec::new();
        let mut unit = Unit::One;
        for place in &places {
            let Some(values) = figures[*place].get(name) else {
                continue;
            };
            unit = values.unit;
            let median = median(&values.values);
            points.extend(median.map(|median| (*place, values.values.len(), median)));
        }
        if points.len() > 1 {
            let medians: Vec<f64> = points.iter().map(|(_, _, median)| *median).collect();
            trends.push(Trend {
                figure: name.to_owned(),
                unit,
                points,
                changes: change_points(&medians, least),
            });
        }
    }
    trends
}

/// Where a series changes: a place divides it if the ranks before and after differ by more than chance and the factor
/// counts. Of several places, that one does which leaves the least spread; both parts are divided again. Values within a run are not independent of each
/// other, so that each run is one value.
pub fn change_points(values: &[f64], least: Ratio) -> Vec<ChangePoint> {
    let mut borders = Vec::new();
    divide(values, 0, least, &mut borders);
    borders.sort_unstable();
    let ends = borders.iter().skip(1).copied().chain([values.len()]);
    let mut start = 0;
    let mut changes = Vec::new();
    for (at, end) in borders.iter().copied().zip(ends.collect::<Vec<_>>()) {
        if let Some(shift) = Shift::of(&values[start..at], &values[at..end], CONFIDENCE) {
            changes.push(ChangePoint {
                at,
                ratio: shift.ratio,
                interval: shift.interval.unwrap_or((shift.ratio, shift.ratio)),
                p: corrected(shift.p, end - start),
            });
        }
        start = at;
    }
    changes
}

/// Bonferroni's correction for all places of a series.
fn corrected(p: f64, values: usize) -> f64 {
    (p * (values.saturating_sub(1)) as f64).min(1.0)
}

fn divide(values: &[f64], offset: usize, least: Ratio, borders: &mut Vec<usize>) {
    let mut found: Option<(usize, f64)> = None;
    for at in 1..values.len() {
        let (first, second) = values.split_at(at);
        let Some(shift) = Shift::of(first, second, CONFIDENCE) else {
            continue;
        };
        let verdict = of_interval(shift.ratio, shift.interval, least);
        let counts = matches!(verdict, Verdict::Better | Verdict::Worse)
            && corrected(shift.p, values.len()) < RATE;
        // Ranks say whether it changed. Where, both parts say that spread least around their medians.
        let spread = spread(first) + spread(second);
        if counts && found.is_none_or(|(_, least)| spread < least) {
            found = Some((at, spread));
        }
    }
    if let Some((at, _)) = found {
        divide(&values[..at], offset, least, borders);
        borders.push(offset + at);
        divide(&values[at..], offset + at, least, borders);
    }
}

/// Sum of the distances from the median.
fn spread(values: &[f64]) -> f64 {
    let middle = median(values).unwrap_or_default();
    values.iter().map(|value| (value - middle).abs()).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LEDGER: &str = r#"
        rooflens_ledger = 1
        name = "made"
        [[figure]]
        name = "throughput"
        unit = "tok/s"
        better = "higher"
        [[figure]]
        name = "latency"
        unit = "ms"
        better = "lower"
        [[experiment]]
        label = "first"
        figures = { throughput = 100.0, latency = 20.0 }
        [[experiment]]
        label = "faster"
        figures = { throughput = [120.0, 125.0], latency = [40.0, 50.0] }
        [[experiment]]
        label = "slower"
        against = "faster"
        figures = { throughput = 110.0 }
        [[experiment]]
        label = "between"
        against = "faster"
        figures = { throughput = 122.0 }
        [[experiment]]
        label = "broken"
        error = "out of memory"
        [[experiment]]
        label = "no number"
    "#;

    #[test]
    fn few_values_tell_only_if_all_lie_on_one_side() {
        let ledger = Ledger::parse(LEDGER).unwrap();
        let study = study(&ledger, &[const { None }; 6], Ratio(0.01));
        let labels: Vec<&str> = study
            .experiments
            .iter()
            .map(|experiment| experiment.status.label())
            .collect();
        let expected = [
            "reference",
            "better by few values",
            "worse by few values",
            "cannot tell",
            "failed",
            "cannot tell",
        ];
        assert_eq!(labels, expected);
        assert_eq!(study.goal.as_deref(), Some("throughput"));
        // Chance may have ordered so few values.
        assert_eq!(study.recommended, None);
        // Latency rose from 20 to 45 ms.
        let [latency] = &study.experiments[1].side_effects[..] else {
            panic!("{:?}", study.experiments[1].side_effects)
        };
        assert_eq!(latency.verdict, Verdict::Worse);
        assert_eq!(
            latency.median,
            Pair {
                before: 20e6,
                after: 45e6
            }
        );
        assert_eq!(latency.interval, None);
    }

    #[test]
    fn many_values_recommend_the_last_of_better_ones() {
        let entry = |label: &str, against: &str, from: u32| {
            let values: Vec<String> = (0..8).map(|step| format!("{}.0", from + step)).collect();
            let values = values.join(", ");
            format!(
                "[[experiment]]\nlabel = {label:?}\n{against}figures = {{ latency = [{values}] }}\n"
            )
        };
        let figure = "[[figure]]\nname = \"latency\"\nunit = \"ms\"\nbetter = \"lower\"\n";
        let ledger = [
            "rooflens_ledger = 1\nname = \"made\"\n",
            figure,
            &entry("first", "", 200),
            &entry("second", "", 150),
            &entry("third", "against = \"second\"\n", 100),
            &entry("fourth", "against = \"third\"\n", 180),
        ];
        let ledger = Ledger::parse(&ledger.concat()).unwrap();
        let study = study(&ledger, &[const { None }; 4], Ratio(0.01));
        let better = Status::Judged(Verdict::Better);
        let statuses: Vec<Status> = study.experiments.iter().map(|row| row.status).collect();
        let worse = Status::Judged(Verdict::Worse);
        assert_eq!(statuses, [Status::Reference, better, better, worse]);
        assert_eq!(study.recommended, Some(2));
    }

    /// Runs around 100 with a deviation of 2, from a number on a tenth longer.
    fn runs(random: &mut u64, count: usize, from: usize) -> Vec<f64> {
        let mut uniform = || {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            (*random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut run = |index: usize| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            (100.0 + 2.0 * normal) * if index >= from { 1.1 } else { 1.0 }
        };
        (0..count).map(&mut run).collect()
    }

    #[test]
    fn a_change_point_is_found_where_it_is_and_not_by_chance() {
        let (mut false_ones, mut found, mut random) = (0, 0, 0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..200 {
            let even = runs(&mut random, 30, 30);
            false_ones += usize::from(!change_points(&even, Ratio(0.01)).is_empty());
            let raised = runs(&mut random, 30, 18);
            let changes = change_points(&raised, Ratio(0.01));
            let [change] = &changes[..] else { continue };
            let is_right = change.at == 18 && (change.ratio.0 - 1.1).abs() < 0.03;
            found += usize::from(is_right);
        }
        assert!(
            false_ones <= 10,
            "{false_ones} of 200 series change by chance"
        );
        assert!(found >= 180, "{found} of 200 changes are found");
    }
}
