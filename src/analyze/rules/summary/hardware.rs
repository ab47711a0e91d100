//! What faster GPUs would bring.

use super::actions::Action;
use super::{conclusion, joint, whole};
use crate::evidence::Evidence;
use crate::stage::{HALF_BUSY, StageLine};
use rooflens_analysis::counters::limits::{KernelLimit, Reason};
use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::engine::repeats::is_repeating;
use rooflens_document::{Inline, Quantity};
use rooflens_session::CopyKind;
use rooflens_units::{Ns, Ratio, Time};

/// Share of a stage's GPU time from which on it is named.
const NAMED: Ratio = Ratio(0.01);

/// Difference of the share after the actions from which on it is said.
const OTHER: Ratio = Ratio(0.1);

/// Whether faster GPUs would help, by stage, now and after the actions: idle time, communication, transfers, and kernels that
/// leave most SMs of this GPU empty do not get shorter with them, nor do launches of the CPU.
pub(super) fn faster_gpus(
    evidence: &Evidence<'_>,
    whole: &whole::Whole<'_>,
    actions: &[Action<'_>],
) -> Option<Vec<Inline>> {
    let (mut computing, mut computing_after) = (Time::ZERO, Time::ZERO);
    let (mut parts, mut bound, mut launching) = (Vec::new(), Vec::new(), Vec::new());
    let (mut has_exchange, mut has_transfers, mut has_small) = (false, false, false);
    for (stage, times) in &whole.stages {
        let communicates = evidence.stage_time(stage.kernels);
        let exchange =
            communicates.map_or(Ratio::ZERO, |time| time.share(ClassGroup::Communication));
        let transfers = transfers(evidence, stage);
        let small = small_grids(evidence, stage);
        let rest = exchange.rest() * transfers.rest() * small.rest();
        let name = stage.scope.stage.as_deref().unwrap_or(stage.label());
        // With shorter kernels the GPU waits longer for the CPU, except where that waits for the GPU.
        let beyond_host = match stage.is_host_bound {
            true => stage.beyond_host,
            false => stage.reference(),
        };
        let is_bound = Ratio::of(beyond_host, stage.reference()) < NAMED;
        // A sequence that repeats can begin anywhere in an iteration, also before its longest wait.
        let issuing = match is_repeating(&evidence.facts.stages[stage.stage]) {
            true => Time::ZERO,
            false => stage.issuing,
        };
        let saved = joint::saved_parts(stage, actions);
        let is_changed = saved.idle + saved.work > Time::ZERO;
        let left = stage.alone() - saved.idle - saved.work;
        let work = stage.work() - saved.work;
        if !is_bound || is_changed && work >= left * HALF_BUSY {
            let issuing = if is_changed { Time::ZERO } else { issuing };
            computing_after += (work * rest).min(left - issuing).max(Time::ZERO) * *times;
        }
        if is_bound {
            bound.push(name);
            continue;
        }
        // The CPU launches shorter kernels no sooner.
        let without_launches = (stage.alone() - issuing).max(Time::ZERO);
        let work = (stage.work() * rest).min(beyond_host);
        if without_launches < work {
            launching.push(words!(
                evidence,
                "summary.launching",
                time = issuing,
                stage = name
            ));
        }
        let work = work.min(without_launches);
        computing += work * *times;
        parts.push(words!(
            evidence,
            "summary.gpu_part",
            stage = name,
            share = Ratio::of(work, stage.reference())
        ));
        has_exchange |= exchange >= NAMED;
        has_transfers |= transfers >= NAMED;
        has_small |= small >= NAMED;
    }
    let share = Ratio::of(computing, whole.now);
    let after = Ratio::of(computing_after, whole.best().max(Time(1.0))).min(Ratio::ONE);
    let is_other = (after.0 - share.0).abs() >= OTHER.0;
    let comma = evidence.text.comma();
    let key = match share >= NAMED {
        true => "summary.faster_gpus",
        false => "summary.not_faster",
    };
    let count = actions.len();
    let arguments = arguments! {
        share = share,
        whole = conclusion::name_of(evidence, whole),
        parts = (whole.stages.len() > 1 && !parts.is_empty()).then(|| parts.join(comma)),
        exchange = has_exchange.then_some(""),
        transfers = has_transfers.then_some(""),
        small = has_small.then_some(""),
        waits = bound.is_empty().then_some(""),
        launching = (!launching.is_empty()).then(|| launching.join(comma)),
        bound = (!bound.is_empty()).then(|| bound.join(comma)),
        after = is_other.then_some(after),
        one = (count == 1).then_some(""),
        last = (count > 1).then(|| Quantity::count(count as u64)),
    };
    Some(evidence.text.say(key, &arguments))
}

/// Share of the busy time of a stage in which only transfers between host and GPU run.
pub(super) fn transfers(evidence: &Evidence<'_>, stage: &StageLine) -> Ratio {
    let Some(copies) = evidence.copies(stage) else {
        return Ratio::ZERO;
    };
    let with_host = [
        CopyKind::HostToDevice,
        CopyKind::DeviceToHost,
        CopyKind::MigrateToDevice,
        CopyKind::MigrateToHost,
    ];
    let exposed: Time = with_host
        .iter()
        .map(|kind| copies.exposed(Some(*kind)))
        .sum();
    // While pages of managed memory move, kernels wait for them on any GPU.
    let to_device = Some(CopyKind::MigrateToDevice);
    let faulting = copies.time(to_device) - copies.exposed(to_device);
    match stage.busy.is_positive() {
        true => Ratio::of(exposed + faulting, stage.busy).min(Ratio::ONE),
        false => Ratio::ZERO,
    }
}

/// The same of all stages.
pub(super) fn transfers_of(evidence: &Evidence<'_>, whole: &whole::Whole<'_>) -> Ratio {
    let (mut copied, mut busy) = (Time::ZERO, Time::ZERO);
    for (stage, times) in &whole.stages {
        copied += stage.busy * transfers(evidence, stage) * *times;
        busy += stage.busy * *times;
    }
    Ratio::of(copied, busy.max(Time(1.0)))
}

/// Share of the GPU time of a stage in kernels that leave most SMs empty. GEMMs of few blocks read weights, which a GPU with
/// more bandwidth does faster.
fn small_grids(evidence: &Evidence<'_>, stage: &StageLine) -> Ratio {
    let Some(limits) = evidence.limits(stage) else {
        return Ratio::ZERO;
    };
    let identities = &evidence.facts.identities;
    let is_small = |limit: &&KernelLimit| {
        let mut causes = limit.causes.iter();
        let class = limit.kernel.map(|kernel| identities[kernel.index()].class);
        let is_matrix_work = class.is_some_and(KernelClass::is_matrix_work);
        let is_small = causes.any(|cause| cause.reason == Reason::SmallGrid)
            || limit.is_small() && !is_matrix_work;
        // Collectives are communication.
        is_small && class != Some(KernelClass::Communication)
    };
    let small = limits.kernels.iter().filter(is_small);
    let time: Ns = small.map(|kernel| kernel.now).sum();
    match limits.time > Ns::ZERO {
        true => Ratio::of(time, limits.time),
        false => Ratio::ZERO,
    }
}
