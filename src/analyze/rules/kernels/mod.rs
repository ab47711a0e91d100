//! Rules about kernels that a stage does not need, or whose time another form of the same code shortens: their names and
//! types say so, whatever their speed.

pub(crate) mod decode_rows;
pub(crate) mod double_kernels;
pub(crate) mod named;
pub(crate) mod nan_checks;
pub(crate) mod repeated_backward;
pub(crate) mod sequences;

use std::collections::BTreeMap;

use self::sequences::Launch;
use crate::draft::{Arguments, Draft};
use crate::evidence::Evidence;
use crate::rule::{Look, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::KernelIdentity;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::{Finding, Inline, Part, Quantity};
use rooflens_session::{KernelId, Ns};
use rooflens_units::{Ratio, Time};

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &nan_checks::RULE,
    &repeated_backward::RULE,
    &named::GROWING_CACHE,
    &named::GATHERED_CACHE,
    &sequences::COPIED_CACHE,
    &decode_rows::RULE,
    &named::SORTED_SUMS,
    &named::DEPTHWISE,
    &named::PRIME_FFTS,
    &named::PERMUTATIONS,
    &named::ROW_SAMPLING,
    &named::VALUE_SORTS,
    &sequences::CONSTANT_MASKS,
    &sequences::PACKED_ATTENTION,
    &sequences::ONE_HOT_SELECTION,
    &sequences::EARLY_UPSAMPLING,
    &sequences::POOL_WINDOWS,
    &double_kernels::RULE,
];

/// Time of such kernels ÷ GPU time of the stage from which on they are worth a finding.
const SHARE: Ratio = Ratio(0.05);

const THRESHOLD: Threshold = Threshold::ratio("thresholds.gpu_share", SHARE);

/// Kernels of one kind in the measured iterations of a stage.
struct Kernels<'a> {
    work: &'a StageWork,
    /// GPU time of an iteration.
    whole: Time,
    /// The one with the most time.
    largest: &'a KernelIdentity,
    launches: u64,
    time: Time,
    /// What goes of each, per iteration.
    saved: Vec<(Part, Time)>,
}

impl<'a> Kernels<'a> {
    /// The kernels for which `saved` gives the part of their time that another form saves.
    fn of_stage(
        evidence: &Evidence<'a>,
        stage: &StageLine,
        work: &'a StageWork,
        saved: impl Fn(&KernelIdentity, &str) -> Option<Ratio>,
    ) -> Option<Self> {
        let mut kernels: Option<Self> = None;
        for (kernel, launches, time) in &work.kernels {
            let identity = &evidence.facts.identities[kernel.index()];
            let Some(part) = saved(identity, evidence.session.kernel_name(*kernel)) else {
                continue;
            };
            // The kernel with the most time comes first.
            let kernels = kernels.get_or_insert(Self {
                work,
                whole: stage.operation_time,
                largest: identity,
                launches: 0,
                time: Time::ZERO,
                saved: Vec::new(),
            });
            let time = kernels.whole * Ratio::of(*time, work.total);
            kernels.launches += launches;
            kernels.time += time;
            kernels.saved.push((Part::Kernel(kernel.0), time * part));
        }
        kernels
    }

    /// These launches of the measured iterations, of which all time goes.
    fn of_launches(
        evidence: &Evidence<'a>,
        stage: &StageLine,
        work: &'a StageWork,
        launches: &[Launch<'_>],
    ) -> Option<Self> {
        let mut times: BTreeMap<KernelId, Ns> = BTreeMap::new();
        for launch in launches {
            *times.entry(launch.kernel).or_default() += launch.time;
        }
        let (largest, _) = times.iter().max_by_key(|(_, time)| **time)?;
        let whole = stage.operation_time;
        let saved = times.iter().map(|(kernel, time)| {
            let time = whole * Ratio::of(*time, work.total);
            (Part::Kernel(kernel.0), time)
        });
        let saved: Vec<(Part, Time)> = saved.collect();
        Some(Self {
            work,
            whole,
            largest: &evidence.facts.identities[largest.index()],
            launches: launches.len() as u64,
            time: saved.iter().map(|(_, time)| *time).sum(),
            saved,
        })
    }

    /// Their time ÷ GPU time of the stage.
    fn share(&self) -> Ratio {
        Ratio::of(self.time, self.whole)
    }

    fn per_iteration(&self) -> Quantity {
        Quantity::count(self.work.per_instance(self.launches as f64).round() as u64)
    }

    fn saved(&self) -> Time {
        self.saved.iter().map(|(_, time)| *time).sum()
    }

    /// A finding that could save these parts of them, whose cause is known; none if they take little of the stage.
    fn look(self, stage: &StageLine, arguments: impl FnOnce(&Self) -> Arguments) -> Look {
        if self.share() < SHARE {
            return Look::Passed;
        }
        let arguments = arguments(&self);
        let draft = Draft::new(self.finding(stage), arguments);
        draft.cause_if(true).into()
    }

    /// A finding that could save these parts of them.
    fn finding(&self, stage: &StageLine) -> Finding {
        Finding {
            parts: self.saved.clone(),
            evidence: vec![stage.figures.clone()],
            ..stage.saving_kernels(self.saved())
        }
    }

    fn name(&self) -> Inline {
        Inline::code(&self.largest.short)
    }
}
