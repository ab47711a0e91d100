//! Which changes explain that of an iteration, and by how much: a sum over the account and the kernels.
//!
//! Each explanation is a part of the change of the captured time in a mean iteration, so that all of them sum to it. Time
//! from an iteration to the next one is explained by the account alone.
//! Idle time comes from the account. Busy time is split by what happened to kernels; what kernels do not explain are
//! copies and operations that run at once. Kernels that all slow down by one factor have one cause: the clocks, where
//! the captures sampled them and they changed by that factor.

use std::collections::BTreeMap;

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::time::idle::cause::Cause;
use rooflens_stats::mean;
use rooflens_units::{Count, Hertz, Ratio, Time};

use crate::account::{self, Change, Explained, Part};
use crate::conditions::{GRAPH_MODE, Setting};
use crate::findings::{Change as FindingChange, Target};
use crate::kernels::{Change as KernelChange, Fate};
use crate::{Analyzed, Pair};

/// Part of the kernels' time that must follow a factor for it to be that of all.
const FOLLOWING: f64 = 0.8;

/// Distance from the factor, ÷ its distance from 1, up to which a kernel follows it.
const APART: f64 = 0.25;

/// Part of the change of a factor by which kernels of other classes, or the clocks, must change with it.
const ALONG: f64 = 0.5;

/// Part of the kernels' time below which a class says nothing on all kernels.
const SMALL: f64 = 0.01;

/// A part of the change of an iteration, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The stage, or the stages that the time lies between; empty for all stages together.
    pub stage: String,
    /// What time it is about.
    pub explained: Explained,
    /// Why that time changed.
    pub reason: Reason,
    /// By how much.
    pub time: Time,
    /// The same ÷ change of the iteration; negative if it works against it.
    pub share: Ratio,
    /// Findings of the slower side that the other one does not have, the most likely reason first.
    pub findings: Vec<Behind>,
    /// Settings that differ and may be behind it.
    pub settings: Vec<Setting>,
}

/// A finding that may be behind a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The rule.
    pub rule: &'static str,
    /// Its title.
    pub title: String,
}

/// Why an iteration changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// All kernels take another time, by the factor by which the SM clock changed.
    Clocks {
        /// Time of kernels after ÷ before.
        factor: Ratio,
        /// Mean SM clock.
        clock: Pair<Hertz>,
    },
    /// All kernels take another time, and no sample of the clock says why.
    AllKernels {
        /// Time of kernels after ÷ before.
        factor: Ratio,
    },
    /// Kernels of a class take another time per launch.
    Duration {
        /// The class.
        class: KernelClass,
        /// Time of a launch after ÷ before.
        factor: Ratio,
    },
    /// Kernels of a class are launched more or less often.
    Launches {
        /// The class.
        class: KernelClass,
        /// Launches in an iteration.
        launches: Pair<Count>,
    },
    /// Kernels of a class have other grids, which takes another time per launch.
    Grids {
        /// The class.
        class: KernelClass,
    },
    /// Fewer kernels at the same places of the iteration.
    Fused {
        /// Launches in an iteration.
        launches: Pair<Count>,
    },
    /// More kernels at the same places of the iteration.
    Split {
        /// Launches in an iteration.
        launches: Pair<Count>,
    },
    /// As many other kernels at the same places, or launched as often: another library or another tile.
    Replaced {
        /// The class.
        class: KernelClass,
        /// Launches in an iteration.
        launches: Count,
    },
    /// Other kernels that have no counterpart: operators were added or removed.
    Exchanged {
        /// Launches in an iteration of kernels that are only in one of the captures.
        launches: Pair<Count>,
    },
    /// Operations of a class where kernels are not compared one by one: between stages, or in different stages.
    Work {
        /// The class.
        class: KernelClass,
    },
    /// Copies and memsets.
    Copies,
    /// Work of CUDA graphs that were traced as one operation: their kernels are unknown.
    WholeGraphs,
    /// Kernels run at once for another time.
    Overlap,
    /// Idle time of a cause.
    Idle(Cause),
    /// Time before the first and after the last operation.
    NoOperation,
}

impl Reason {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Clocks { .. } => "clocks",
            Self::AllKernels { .. } => "all kernels",
            Self::Duration { .. } => "duration of kernels",
            Self::Launches { .. } => "number of launches",
            Self::Grids { .. } => "other grids",
            Self::Fused { .. } => "fused kernels",
            Self::Split { .. } => "split kernels",
            Self::Replaced { .. } => "replaced kernels",
            Self::Exchanged { .. } => "other kernels",
            Self::Work { .. } => "operations",
            Self::Copies => "copies",
            Self::WholeGraphs => "whole graphs",
            Self::Overlap => "overlap",
            Self::Idle(_) => "idle time",
            Self::NoOperation => "no operation",
        }
    }

    /// Whether a finding is about this time.
    fn is_of(self, target: &Target) -> bool {
        let is_of_class = |class: &KernelClass| {
            target.is_busy && (target.classes.is_empty() || target.classes.contains(class))
        };
        match self {
            Self::Idle(_) | Self::NoOperation => target.is_idle,
            Self::Copies => target.is_copies,
            Self::Duration { class, .. }
            | Self::Launches { class, .. }
            | Self::Grids { class }
            | Self::Work { class }
            | Self::Replaced { class, .. } => is_of_class(&class),
            Self::Exchanged { .. }
            | Self::Fused { .. }
            | Self::Split { .. }
            | Self::AllKernels { .. }
            | Self::Overlap => target.is_busy,
            Self::Clocks { .. } | Self::WholeGraphs => false,
        }
    }

    /// Whether a setting may be behind it.
    fn is_set_by(self, setting: &Setting) -> bool {
        const OF_PROGRAM: [&str; 5] = ["driver", "env", "git", "software", "tool"];
        const OF_HOST: [&str; 4] = ["container", "cpu", "memory", "os"];
        let subject = setting.subject.as_str();
        match self {
            Self::Clocks { .. } | Self::AllKernels { .. } => {
                let mut words = ["clock", "power"].iter();
                words.any(|word| setting.name.contains(word))
            }
            Self::Idle(_) => {
                let mut subjects = OF_PROGRAM.iter().chain(&OF_HOST).chain([&GRAPH_MODE]);
                subjects.any(|known| *known == subject)
            }
            Self::Copies | Self::WholeGraphs | Self::Overlap | Self::NoOperation => false,
            _ => OF_PROGRAM.contains(&subject),
        }
    }
}

/// The explanations of all stages that both sides have, the largest part of the change first.
pub(crate) fn explanations(
    clocks: Option<Pair<Hertz>>,
    account: &[Change],
    kernels: &[KernelChange],
    settings: &[Setting],
    findings: &[FindingChange],
    least: Ratio,
) -> Vec<Explanation> {
    let whole = account::whole(account);
    let mut explained = account::explained(account);
    if explained.is_empty() {
        explained.push(("", Explained::Whole, whole.iter().collect()));
    }
    let stages: Vec<&str> = explained.iter().map(|(stage, ..)| *stage).collect();
    let mut explanations = Vec::new();
    for (stage, explained, account) in explained {
        let total: Time = account
            .iter()
            .filter_map(|change| change.of_iteration())
            .sum();
        let mut of_stage = match explained {
            Explained::Between | Explained::Whole => {
                account.iter().map(|change| of_part(change)).collect()
            }
            Explained::Iteration => {
                let kernels = kernels.iter().filter(|change| change.stage == stage);
                reasons(clocks, &account, &kernels.collect::<Vec<_>>(), least)
            }
        };
        of_stage.retain(|(_, time)| time.0 != 0.0);
        of_stage.sort_by(|a, b| (b.1.0 / total.0).total_cmp(&(a.1.0 / total.0)));
        explanations.extend(of_stage.into_iter().map(|(reason, time)| {
            Explanation {
                stage: stage.to_owned(),
                explained,
                share: Ratio::of(time, total),
                findings: behind(findings, stage, &stages, reason, time),
                settings: settings
                    .iter()
                    .filter(|setting| setting.is_known() && reason.is_set_by(setting))
                    .filter(|setting| setting.subject != GRAPH_MODE || setting.name == stage)
                    .cloned()
                    .collect(),
                reason,
                time,
            }
        }));
    }
    explanations
}

/// A part of time in which kernels are not compared one by one, as a reason.
fn of_part(change: &Change) -> (Reason, Time) {
    let reason = match change.place.part {
        Part::Class(KernelClass::Copy) => Reason::Copies,
        Part::Class(class) => Reason::Work { class },
        Part::Idle(cause) => Reason::Idle(cause),
        Part::NoOperation => Reason::NoOperation,
    };
    (reason, change.of_iteration().unwrap_or_default())
}

/// The findings behind a change: those about this time that went with less of it, or came with more. What the report of the
/// slower side advises first comes first, then what is about the stage. A finding of another stage that is explained on its
/// own is about that one.
fn behind(
    findings: &[FindingChange],
    stage: &str,
    explained: &[&str],
    reason: Reason,
    time: Time,
) -> Vec<Behind> {
    let is_less = time < Time::ZERO;
    let is_behind = |change: &&FindingChange| match is_less {
        true => change.is_done(),
        false => change.is_added(),
    };
    // Time between stages is called by both of them.
    let is_of_stage = |change: &FindingChange| {
        let mut stages = stage.split(account::ARROW);
        stages.any(|stage| change.stage.as_deref() == Some(stage))
    };
    let is_of_other = |change: &FindingChange| {
        let stage = change.stage.as_deref();
        !is_of_stage(change) && stage.is_some_and(|stage| explained.contains(&stage))
    };
    let rank = |change: &FindingChange| {
        let Pair { before, after } = change.action;
        let number = if is_less { before } else { after };
        (
            number.unwrap_or(usize::MAX),
            !is_of_stage(change),
            change.target.is_general,
        )
    };
    let of_time = findings
        .iter()
        .filter(|change| reason.is_of(&change.target) && !is_of_other(change));
    let mut behind: Vec<&FindingChange> = of_time.filter(is_behind).collect();
    behind.sort_by_key(|change| rank(change));
    let shown = behind.into_iter().map(|change| Behind {
        rule: change.rule,
        title: change.title.clone(),
    });
    shown.collect()
}

fn reasons(
    clocks: Option<Pair<Hertz>>,
    account: &[&Change],
    kernels: &[&KernelChange],
    least: Ratio,
) -> Vec<(Reason, Time)> {
    let mut reasons = of_kernels(kernels);
    if let Some(factor) = factor_of_all(kernels, least) {
        let clock = clocks.filter(|clock| follows(factor, clock.before / clock.after));
        let reason = match clock {
            Some(clock) => Some(Reason::Clocks { factor, clock }),
            None => all_classes_follow(kernels, factor).then_some(Reason::AllKernels { factor }),
        };
        if let Some(reason) = reason {
            let is_duration =
                |(reason, _): &(Reason, Time)| matches!(reason, Reason::Duration { .. });
            let time = reasons.iter().filter(|reason| is_duration(reason));
            let time = time.map(|(_, time)| *time).sum();
            reasons.retain(|reason| !is_duration(reason));
            reasons.push((reason, time));
        }
    }
    let (mut busy, mut copies, mut has_graphs) = (Time::ZERO, Time::ZERO, false);
    for change in account {
        let time = change.of_iteration().unwrap_or_default();
        match change.place.part {
            Part::Class(class) => {
                busy += time;
                if class == KernelClass::Copy {
                    copies += time;
                }
                has_graphs |= class == KernelClass::Graph;
            }
            Part::Idle(cause) => reasons.push((Reason::Idle(cause), time)),
            Part::NoOperation => reasons.push((Reason::NoOperation, time)),
        }
    }
    let of_copies = kernels
        .iter()
        .filter(|change| change.class == KernelClass::Copy);
    copies -= of_copies.map(|change| change.difference()).sum::<Time>();
    let of_all: Time = kernels.iter().map(|change| change.difference()).sum();
    reasons.push((Reason::Copies, copies));
    // Sums of floating-point numbers: what is less than a part of a nanosecond is no overlap.
    let overlap = busy - of_all - copies;
    if overlap.0.abs() > 1e-3 {
        let reason = if has_graphs {
            Reason::WholeGraphs
        } else {
            Reason::Overlap
        };
        reasons.push((reason, overlap));
    }
    reasons
}

/// What happened to kernels, by class.
fn of_kernels(kernels: &[&KernelChange]) -> Vec<(Reason, Time)> {
    #[derive(Default)]
    struct Class {
        kept: Pair<Time>,
        launches: Pair<Count>,
        by_launches: Time,
        by_mix: Time,
        by_duration: Time,
        replaced: (Count, Time),
    }
    /// Launches of kernels that changed together, and their difference.
    #[derive(Default)]
    struct Group {
        launches: Pair<Count>,
        time: Time,
    }
    impl Group {
        fn add(&mut self, change: &KernelChange) {
            self.launches.before += change.used.before.launches;
            self.launches.after += change.used.after.launches;
            self.time += change.difference();
        }
    }
    let [mut fused, mut split, mut exchanged] = [(); 3].map(|()| Group::default());
    let mut classes: BTreeMap<KernelClass, Class> = BTreeMap::new();
    for change in kernels {
        let used = change.used;
        let class = classes.entry(change.class).or_default();
        match change.fate() {
            Fate::Kept => {
                class.by_launches += change.by_launches();
                class.by_mix += change.by_mix();
                class.by_duration += change.by_duration();
                class.kept.before += used.before.time + change.by_launches() + change.by_mix();
                class.kept.after += used.after.time;
                class.launches.before += used.before.launches;
                class.launches.after += used.after.launches;
            }
            Fate::Replaced => {
                class.replaced.0 += used.after.launches;
                class.replaced.1 += change.difference();
            }
            Fate::Fused => fused.add(change),
            Fate::Split => split.add(change),
            Fate::Gone | Fate::New => exchanged.add(change),
        }
    }
    let mut reasons = Vec::new();
    for (group, reason) in [
        (fused, (|launches| Reason::Fused { launches }) as fn(_) -> _),
        (split, |launches| Reason::Split { launches }),
        (exchanged, |launches| Reason::Exchanged { launches }),
    ] {
        reasons.push((reason(group.launches), group.time));
    }
    for (class, of_class) in classes {
        let factor = Ratio::of(of_class.kept.after, of_class.kept.before);
        let launches = of_class.launches;
        reasons.push((Reason::Duration { class, factor }, of_class.by_duration));
        reasons.push((Reason::Launches { class, launches }, of_class.by_launches));
        reasons.push((Reason::Grids { class }, of_class.by_mix));
        let (launches, time) = of_class.replaced;
        reasons.push((Reason::Replaced { class, launches }, time));
    }
    reasons
}

/// Kernels that stay, with their time before and the time of a launch after ÷ before.
fn factors<'a>(kernels: &'a [&KernelChange]) -> Vec<(KernelClass, Time, f64)> {
    let kept = kernels.iter().filter(|change| change.fate() == Fate::Kept);
    let factor = |change: &'a &KernelChange| {
        let speed = change.speed()?;
        Some((change.class, change.used.before.time, speed.0))
    };
    kept.filter_map(factor).collect()
}

/// The factor that nearly all kernels follow: those of matrix work, if there are some, as others are bound by memory.
fn factor_of_all(kernels: &[&KernelChange], least: Ratio) -> Option<Ratio> {
    let mut factors = factors(kernels);
    if factors.iter().any(|(class, ..)| class.is_matrix_work()) {
        factors.retain(|(class, ..)| class.is_matrix_work());
    } else if factors.len() < 2 {
        // One kernel of the application does not tell the clock from its code.
        return None;
    }
    factors.sort_by(|a, b| a.2.total_cmp(&b.2));
    let whole: Time = factors.iter().map(|(_, time, _)| *time).sum();
    let mut sum = Time::ZERO;
    let middle = factors.iter().find(|(_, time, _)| {
        sum += *time;
        sum.0 >= whole.0 / 2.0
    });
    let factor = middle?.2;
    let change = (factor - 1.0).abs();
    let following = factors
        .iter()
        .filter(|(_, _, other)| (other - factor).abs() <= APART * change);
    let following: Time = following.map(|(_, time, _)| *time).sum();
    let is_of_all = following.0 >= FOLLOWING * whole.0;
    (change >= least.0 && is_of_all).then_some(Ratio(factor))
}

/// Whether each class changed by a good part of the factor: otherwise it is that of one class.
fn all_classes_follow(kernels: &[&KernelChange], factor: Ratio) -> bool {
    let mut classes: BTreeMap<KernelClass, (Time, f64)> = BTreeMap::new();
    for (class, time, factor) in factors(kernels) {
        let (sum, after) = classes.entry(class).or_default();
        *sum += time;
        *after += time.0 * factor;
    }
    let whole: Time = classes.values().map(|(time, _)| *time).sum();
    let large = classes
        .values()
        .filter(|(time, _)| time.0 >= SMALL * whole.0);
    let is_following = |(time, after): &(Time, f64)| follows(factor, after / time.0);
    classes.len() > 1 && large.into_iter().all(is_following)
}

/// Whether a change by `other` is one by `factor`, or half of it at least.
fn follows(factor: Ratio, other: f64) -> bool {
    let part = (other - 1.0) / (factor.0 - 1.0);
    (ALONG..=1.0 + ALONG).contains(&part)
}

/// The SM clocks of the sampled stages of a capture, or of the whole sampled period.
pub(crate) fn clocks(capture: &Analyzed<'_>) -> Vec<Hertz> {
    let Ok(power) = capture.context.results.power() else {
        return Vec::new();
    };
    let stages = power.stages.iter();
    let of_stages = stages.filter_map(|stage| stage.figures.sm_clock_mean);
    let mut clocks: Vec<Hertz> = of_stages.collect();
    if clocks.is_empty() {
        let devices = power.devices.iter();
        clocks.extend(devices.filter_map(|device| device.whole.sm_clock_mean));
    }
    clocks
}

/// The mean SM clocks, where both sides have some.
pub(crate) fn mean_clocks(clocks: Pair<&[Hertz]>) -> Option<Pair<Hertz>> {
    Some(Pair {
        before: mean(clocks.before)?,
        after: mean(clocks.after)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Use;

    fn kernel(class: KernelClass, before: f64, factor: f64) -> KernelChange {
        let used = |time| Use {
            launches: Count(10.0),
            time: Time(time),
        };
        KernelChange {
            stage: "step".to_owned(),
            class,
            names: Pair {
                before: vec!["kernel".to_owned()],
                after: vec!["kernel".to_owned()],
            },
            used: Pair {
                before: used(before),
                after: used(before * factor),
            },
            by_grid: Ratio::ONE,
        }
    }

    fn factor(kernels: &[KernelChange]) -> Option<(f64, bool)> {
        let kernels: Vec<&KernelChange> = kernels.iter().collect();
        let factor = factor_of_all(&kernels, Ratio(0.01))?;
        Some((factor.0, all_classes_follow(&kernels, factor)))
    }

    #[test]
    fn a_factor_is_that_of_all_kernels_only_if_all_classes_follow() {
        let gemm = |factor| kernel(KernelClass::Gemm, 100.0, factor);
        let copy = |factor| kernel(KernelClass::Layout, 100.0, factor);
        assert_eq!(factor(&[gemm(1.25), copy(1.2)]), Some((1.25, true)));
        // Layout changes are bound by memory, whose clock stays; with samples of the SM clock, it is the reason still.
        assert_eq!(factor(&[gemm(1.25), copy(1.0)]), Some((1.25, false)));
        assert_eq!(factor(&[gemm(1.25)]), Some((1.25, false)));
        assert_eq!(factor(&[gemm(1.25), gemm(1.0), copy(1.25)]), None);
        assert_eq!(factor(&[gemm(1.005), copy(1.005)]), None);
        assert_eq!(factor(&[copy(1.25)]), None);
    }

    #[test]
    fn findings_of_a_stage_with_explanations_stay_with_it() {
        let finding = |stage: Option<&str>| FindingChange {
            rule: "rule",
            title: stage.unwrap_or("capture").to_owned(),
            stage: stage.map(str::to_owned),
            is_there: Pair {
                before: true,
                after: false,
            },
            target: Target {
                is_idle: true,
                ..Target::default()
            },
            ..FindingChange::default()
        };
        let findings = [Some("prefill"), Some("decode"), Some("layer"), None].map(finding);
        let titles = |stage: &str| {
            let reason = Reason::Idle(Cause::Launching);
            let explained = ["prefill", "decode", "prefill → decode"];
            let behind = behind(&findings, stage, &explained, reason, Time(-1.0));
            behind
                .into_iter()
                .map(|found| found.title)
                .collect::<Vec<_>>()
        };
        assert_eq!(titles("decode"), ["decode", "layer", "capture"]);
        let between = ["prefill", "decode", "layer", "capture"];
        assert_eq!(titles("prefill → decode"), between);
    }

    #[test]
    fn settings_go_with_what_they_can_change() {
        let setting = |subject: &str, name: &str| Setting {
            subject: subject.to_owned(),
            name: name.to_owned(),
            values: Pair::default(),
        };
        let clocks = Reason::AllKernels { factor: Ratio(1.2) };
        let idle = Reason::Idle(Cause::Launching);
        let power = setting("gpu 0", "power limit");
        assert!(clocks.is_set_by(&power) && !idle.is_set_by(&power));
        let version = setting("software", "PyTorch");
        assert!(idle.is_set_by(&version) && !clocks.is_set_by(&version));
    }
}
