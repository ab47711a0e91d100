//! Which ranges are stages, by their names or by what happened in them, and how long they took.

use std::collections::BTreeMap;

use rooflens_schemas::StageKind;
use rooflens_schemas::workload::BUILT_IN_STAGES;
use rooflens_units::Ratio;
use serde_json::{Map, Value, json};

use super::facts::{Notes, Stage};

/// An instance at the beginning that is longer than this many medians is warm-up.
const SLOW: Ratio = Ratio(1.5);

/// Stages that are written: those that have a kind, then the longest.
const MAX_STAGES: usize = 40;

/// Sizes that are written for each instance.
const SIZES: [&str; 3] = ["batch", "tokens", "keys"];

/// An instance that counts.
pub(super) struct Instance {
    pub(super) ms: f64,
    /// Decode steps in it.
    pub(super) steps: Option<u64>,
    /// By name.
    pub(super) sizes: BTreeMap<String, u64>,
}

/// A stage with its measured instances.
pub(super) struct Timed {
    /// As it is written and as the report names it.
    pub(super) name: String,
    /// The name of the ranges, with `N` for digits.
    pub(super) range: String,
    pub(super) kind: StageKind,
    /// Whether its name alone says what it is.
    pub(super) is_built_in: bool,
    pub(super) counted: Vec<Instance>,
    /// Milliseconds of warm-up, of loops that stopped early, and of another clock.
    pub(super) left_out: Vec<f64>,
    /// Leading instances that are warm-up.
    pub(super) warmup: usize,
    pub(super) by_events: bool,
}

/// The stages of a run: the workload's ranges, and what models and optimizers did if no range tells.
pub(super) struct Stages {
    pub(super) all: Vec<Timed>,
    /// The workload opened no ranges at all.
    pub(super) lacks_ranges: bool,
}

/// The stages of several runs of one workload.
pub(super) fn of(runs: &[Notes]) -> Stages {
    let user = timed(runs, |notes| &notes.ranges);
    let lacks_ranges = user.is_empty();
    let is_told = user
        .iter()
        .any(|stage| !matches!(stage.kind, StageKind::Other | StageKind::Optimizer));
    let mut all = user;
    let names: Vec<String> = all.iter().map(|stage| stage.name.clone()).collect();
    let has_step = all.iter().any(|stage| stage.kind == StageKind::TrainStep);
    let steps = timed(runs, |notes| &notes.steps);
    // Ranges of forward and backward passes omit what the whole step takes.
    let is_lacking = |stage: &Timed| !is_told || !has_step && stage.kind == StageKind::TrainStep;
    all.extend(
        steps
            .into_iter()
            .filter(|stage| is_lacking(stage) && !names.contains(&stage.name)),
    );
    Stages { all, lacks_ranges }
}

fn timed(runs: &[Notes], of: impl Fn(&Notes) -> &BTreeMap<String, Stage>) -> Vec<Timed> {
    let mut by_name: BTreeMap<&str, Vec<&Stage>> = BTreeMap::new();
    for notes in runs {
        for (name, stage) in of(notes).iter().filter(|(name, _)| !name.is_empty()) {
            by_name.entry(name).or_default().push(stage);
        }
    }
    let mut all: Vec<Timed> = by_name
        .iter()
        .filter_map(|(name, runs)| one(name, runs))
        .collect();
    let total = |stage: &Timed| {
        stage
            .counted
            .iter()
            .map(|instance| instance.ms)
            .sum::<f64>()
    };
    all.sort_by(|a, b| {
        let is_other = |stage: &Timed| stage.kind == StageKind::Other;
        is_other(a)
            .cmp(&is_other(b))
            .then(total(b).total_cmp(&total(a)))
    });
    all.truncate(MAX_STAGES);
    // Spellings of one built-in name are one stage; the longest represents it.
    let mut names: Vec<String> = Vec::new();
    all.retain(|stage| {
        let is_new = !names.contains(&stage.name);
        names.push(stage.name.clone());
        is_new
    });
    all
}

fn one(range: &str, runs: &[&Stage]) -> Option<Timed> {
    let seen = most_frequent(runs.iter().flat_map(|stage| &stage.seen))
        .cloned()
        .unwrap_or_default();
    let built_in = built_in(range);
    let kind = built_in.map_or_else(|| kind(&seen), |(_, kind)| kind);
    let by_events = runs.iter().any(|stage| stage.events.contains(&true));
    // By calls of the model, or else by ranges of single steps.
    let steps_of = |seen: &BTreeMap<String, u64>| {
        (kind == StageKind::Decode)
            .then(|| seen.get("decode").or(seen.get("step")).copied())
            .flatten()
    };
    let usual_steps = usual_steps(runs.iter().flat_map(|stage| &stage.seen).map(steps_of));
    let mut stage = Timed {
        name: built_in.map_or(range, |(name, _)| name).to_owned(),
        range: range.to_owned(),
        kind,
        is_built_in: built_in.is_some(),
        counted: Vec::new(),
        left_out: Vec::new(),
        warmup: 0,
        by_events,
    };
    for run in runs {
        let instances = run.ms.iter().enumerate().map(|(index, ms)| Instance {
            ms: *ms,
            steps: run.seen.get(index).and_then(steps_of),
            sizes: run.sizes.get(index).cloned().unwrap_or_default(),
        });
        let instances: Vec<Instance> = instances.collect();
        let warmup = leading_slow(&instances);
        stage.warmup = stage.warmup.max(warmup);
        for (index, instance) in instances.into_iter().enumerate() {
            let stopped_early = usual_steps.is_some_and(|usual| instance.steps != Some(usual));
            let is_other_clock = run.events.get(index) != Some(&by_events);
            if index < warmup || is_other_clock || stopped_early {
                stage.left_out.push(instance.ms)
            } else {
                stage.counted.push(instance)
            }
        }
    }
    (!stage.counted.is_empty()).then_some(stage)
}

/// The number of steps that at least half of the loops have. Prompts of different lengths have no usual number.
fn usual_steps(steps: impl Iterator<Item = Option<u64>> + Clone) -> Option<u64> {
    let usual = most_frequent(steps.clone().flatten())?;
    let count = steps.clone().filter(|steps| *steps == Some(usual)).count();
    (2 * count >= steps.flatten().count()).then_some(usual)
}

/// The built-in stage that ranges of this name are.
fn built_in(range: &str) -> Option<(&'static str, StageKind)> {
    let plain = |name: &str| {
        name.trim()
            .to_ascii_lowercase()
            .replace(['_', ' ', '-'], "")
    };
    BUILT_IN_STAGES
        .iter()
        .find(|(name, _)| plain(name) == plain(range))
        .copied()
}

/// What a range computes, by what happens in one.
fn kind(seen: &BTreeMap<String, u64>) -> StageKind {
    let count = |what: &str| seen.get(what).copied().unwrap_or(0);
    let (forward, backward, update) = (count("train"), count("backward"), count("update"));
    let inference = (count("prefill"), count("decode"), count("forward"));
    match (forward, backward, update, inference) {
        (1.., 1.., 1, (0, 0, 0)) => StageKind::TrainStep,
        (1.., 0, 0, (0, 0, 0)) => StageKind::Forward,
        (0, 1.., 0, (0, 0, 0)) => StageKind::Backward,
        (0, 0, 1.., (0, 0, 0)) => StageKind::Optimizer,
        (0, 0, 0, (1, 0, 0)) => StageKind::Prefill,
        (0, 0, 0, (0, 1, 0)) => StageKind::DecodeStep,
        (0, 0, 0, (0, 2.., 0)) => StageKind::Decode,
        (0, 0, 0, (0, 0, 1)) => StageKind::Forward,
        _ => StageKind::Other,
    }
}

/// Leading instances that are slow against the later half, at most half of all. They compare with those that are no larger,
/// whose times may grow with the size and no more: a first prompt that is the longest of all is no warm-up for that.
fn leading_slow(instances: &[Instance]) -> usize {
    let (leading, later) = instances.split_at(instances.len() / 2);
    let is_slow = |instance: &&Instance| {
        let size = instance.size();
        let no_larger = later.iter().filter(|later| later.size() <= size);
        let mut expected: Vec<f64> = no_larger
            .map(|later| later.ms * size / later.size())
            .collect();
        if expected.is_empty() {
            expected.extend(later.iter().map(|later| later.ms));
        }
        expected.sort_by(f64::total_cmp);
        let median = expected.get((expected.len().max(1) - 1) / 2);
        median.is_some_and(|median| instance.ms > SLOW.0 * median)
    };
    leading.iter().take_while(is_slow).count()
}

impl Instance {
    /// Tokens that it computes, up to a factor that instances of a stage share.
    fn size(&self) -> f64 {
        let of = |name: &str| self.sizes.get(name).copied();
        let parts = [of("batch"), of("tokens"), self.steps];
        let parts = parts.into_iter().flatten().filter(|part| *part > 0);
        parts.map(|part| part as f64).product()
    }
}

/// The most frequent value; of equally frequent ones the greatest.
pub(super) fn most_frequent<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts
        .into_iter()
        .filter(|(_, count)| *count == most)
        .map(|(value, _)| value)
        .next_back()
}

impl Stages {
    /// Warm-up instances at the beginning of the stages that are not steps of others.
    pub(super) fn warmup(&self) -> Option<u64> {
        let whole = self
            .all
            .iter()
            .filter(|stage| !matches!(stage.kind, StageKind::Other | StageKind::DecodeStep));
        whole
            .map(|stage| stage.warmup as u64)
            .max()
            .filter(|count| *count > 0)
    }

    /// `timings.json`, next to what the sizes say.
    pub(super) fn timings(&self, mut head: Map<String, Value>) -> Value {
        let by_events = self.all.iter().any(|stage| stage.by_events);
        let stages: Map<String, Value> = self
            .all
            .iter()
            .map(|stage| {
                let ms: Vec<f64> = stage.counted.iter().map(|instance| instance.ms).collect();
                let mut entry = json!({ "ms": ms });
                let steps = stage.counted.iter().map(|instance| instance.steps);
                let steps = ("steps", steps.collect::<Vec<_>>());
                let sizes = SIZES.map(|size| {
                    let counted = stage.counted.iter();
                    let sizes = counted.map(|instance| instance.sizes.get(size).copied());
                    (size, sizes.collect())
                });
                for (name, values) in std::iter::once(steps).chain(sizes) {
                    if let Some(value) = of_instances(&values) {
                        entry[name] = value;
                    }
                }
                if !stage.left_out.is_empty() {
                    entry["left_out_ms"] = json!(stage.left_out);
                }
                (stage.name.clone(), entry)
            })
            .collect();
        head.insert("version".to_owned(), 1.into());
        head.insert(
            "measured_by".to_owned(),
            if by_events {
                "cuda_events"
            } else {
                "host_clock"
            }
            .into(),
        );
        head.insert(
            "ranges".to_owned(),
            if self.lacks_ranges {
                INJECTED
            } else {
                "workload"
            }
            .into(),
        );
        head.insert("stages".to_owned(), stages.into());
        head.into()
    }
}

/// A number that all instances have, or else the number of each; nothing if none is known.
fn of_instances(values: &[Option<u64>]) -> Option<Value> {
    let first = values.iter().flatten().next()?;
    let is_constant = values.iter().all(|value| value.as_ref() == Some(first));
    Some(match is_constant {
        true => json!(first),
        false => json!(values),
    })
}

/// Of `timings.json`: the stages are ranges of the injected modules, because the workload opened none.
pub(super) const INJECTED: &str = "injected";

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(ms: &[f64], seen: &[(&str, u64)]) -> Stage {
        let seen: BTreeMap<String, u64> = seen.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        Stage {
            opened: ms.len() as u64,
            ms: ms.to_vec(),
            events: vec![true; ms.len()],
            seen: vec![seen; ms.len()],
            sizes: Vec::new(),
        }
    }

    fn notes(ranges: &[(&str, Stage)], steps: &[(&str, Stage)]) -> Notes {
        let map = |list: &[(&str, Stage)]| {
            list.iter()
                .map(|(name, stage)| ((*name).to_owned(), stage.clone()))
                .collect()
        };
        Notes {
            ranges: map(ranges),
            steps: map(steps),
            ..Notes::default()
        }
    }

    #[test]
    fn what_happens_in_a_range_says_what_it_computes() {
        let step = [("train", 2), ("backward", 2), ("update", 1)];
        let run = notes(
            &[
                ("iteration N", stage(&[9.0, 9.0], &step)),
                (
                    "epoch",
                    stage(&[20.0], &[("train", 4), ("backward", 4), ("update", 2)]),
                ),
                ("fwd", stage(&[3.0, 3.0], &[("train", 1)])),
                ("Decode-Step", stage(&[1.0], &[])),
                ("data", stage(&[2.0], &[])),
            ],
            &[("train_step", stage(&[9.0], &step))],
        );
        let found = of(&[run]);
        let kinds: BTreeMap<&str, StageKind> = found
            .all
            .iter()
            .map(|stage| (stage.name.as_str(), stage.kind))
            .collect();
        let expected = [
            ("iteration N", StageKind::TrainStep),
            ("epoch", StageKind::Other),
            ("fwd", StageKind::Forward),
            ("decode_step", StageKind::DecodeStep),
            ("data", StageKind::Other),
        ];
        // A range tells what a step is: ours are not wanted.
        assert_eq!(kinds, BTreeMap::from(expected));
        assert!(!found.lacks_ranges);
    }

    #[test]
    fn without_ranges_steps_are_the_stages() {
        let run = notes(&[], &[("train_step", stage(&[9.0, 8.0], &[("update", 1)]))]);
        let found = of(&[run]);
        assert_eq!(found.all[0].name, "train_step");
        assert_eq!(found.timings(Map::new())["ranges"], INJECTED);
    }

    #[test]
    fn ranges_of_passes_leave_out_the_step_around_them() {
        let own = [
            ("forward", stage(&[3.0], &[("train", 1)])),
            ("backward", stage(&[5.0], &[])),
        ];
        let step = [
            ("train_step", stage(&[9.0], &[("update", 1)])),
            ("forward", stage(&[1.0], &[])),
        ];
        let found = of(&[notes(&own, &step)]);
        let times: BTreeMap<&str, f64> = found
            .all
            .iter()
            .map(|stage| (stage.name.as_str(), stage.counted[0].ms))
            .collect();
        let expected = [("forward", 3.0), ("backward", 5.0), ("train_step", 9.0)];
        assert_eq!(times, BTreeMap::from(expected));
    }

    #[test]
    fn warm_up_and_loops_of_other_lengths_are_left_out() {
        let mut decode = stage(&[90.0, 10.0, 40.0, 41.0, 42.0], &[("decode", 16)]);
        decode.seen[1] = BTreeMap::from([("decode".to_owned(), 4)]);
        let found = of(&[notes(&[("decode", decode)], &[])]);
        // Of 40, 41, 42 the median is 41: 90 is more than 1.5 times that, 10 is not, but it has four steps.
        let decode = &found.all[0];
        let entry = &found.timings(Map::new())["stages"]["decode"];
        let expected = json!({"ms": [40.0, 41.0, 42.0], "steps": 16, "left_out_ms": [90.0, 10.0]});
        assert_eq!(entry, &expected);
        assert_eq!((decode.warmup, found.warmup()), (1, Some(1)));
    }

    #[test]
    fn steps_are_counted_by_their_ranges_where_no_model_was_seen() {
        let found = of(&[notes(
            &[("decode", stage(&[3.0, 3.0], &[("step", 5)]))],
            &[],
        )]);
        assert_eq!(found.all[0].counted[0].steps, Some(5));
    }

    #[test]
    fn each_instance_has_its_sizes_and_a_large_first_one_is_no_warm_up() {
        let size = |batch: u64, tokens: u64| {
            [("batch", batch), ("tokens", tokens)]
                .map(|(name, size)| (name.to_owned(), size))
                .into()
        };
        let of = |first: f64| {
            let mut prefill = stage(&[first, 9.0, 5.0, 3.0], &[("prefill", 1)]);
            prefill.sizes = vec![size(4, 900), size(4, 500), size(4, 300), size(1, 300)];
            let found = of(&[notes(&[("prefill", prefill)], &[])]);
            found.timings(Map::new())["stages"]["prefill"].clone()
        };
        // 3600 tokens take up to 3 times as long as the 1200 in 5 ms, and 12 times as long as the 300 in 3 ms: the lower
        // median of 15 and 36 is 15, and 1.5 times that 22.5.
        let expected = json!({"ms": [22.0, 9.0, 5.0, 3.0], "batch": [4, 4, 4, 1],
            "tokens": [900, 500, 300, 300]});
        assert_eq!(of(22.0), expected);
        let expected = json!({"ms": [9.0, 5.0, 3.0], "batch": [4, 4, 1],
            "tokens": [500, 300, 300], "left_out_ms": [23.0]});
        assert_eq!(of(23.0), expected);
    }

    #[test]
    fn loops_without_a_usual_length_all_count() {
        let mut decode = stage(&[10.0, 20.0, 40.0, 30.0], &[]);
        decode.seen = [1, 2, 4, 3]
            .map(|steps| BTreeMap::from([("decode".to_owned(), steps)]))
            .into();
        decode.sizes = vec![BTreeMap::new(); 4];
        let found = of(&[notes(&[("decode", decode)], &[])]);
        let expected = json!({"ms": [10.0, 20.0, 40.0, 30.0], "steps": [1, 2, 4, 3]});
        assert_eq!(found.timings(Map::new())["stages"]["decode"], expected);
    }
}
