//! What faster GPUs would bring.

use super::{conclusion, whole};
use crate::evidence::Evidence;
use crate::stage::StageLine;
use rooflens_analysis::counters::limits::{KernelLimit, Reason};
use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::engine::repeats::is_repeating;
use rooflens_document::Inline;
use rooflens_session::CopyKind;
use rooflens_units::{Ns, Ratio, Time};

/// Time to launch the kernels of a stage ÷ its time from which on it limits what faster GPUs bring: less than twice.
const LIMITS: Ratio = Ratio(0.5);

/// Share of a stage's GPU time from which on it is named.
const NAMED: Ratio = Ratio(0.01);

/// Whether faster GPUs would help, by stage: idle time, communication, transfers, and kernels that leave most SMs of this GPU
/// empty do not get shorter with them.
pub(super) fn faster_gpus(
    evidence: &Evidence<'_>,
    whole: &whole::Whole<'_>,
) -> Option<Vec<Inline>> {
    let (mut computing, mut all) = (Time::ZERO, Time::ZERO);
    let (mut parts, mut bound, mut launching) = (Vec::new(), Vec::new(), Vec::new());
    let (mut has_exchange, mut has_transfers, mut has_small) = (false, false, false);
    for (stage, times) in &whole.stages {
        let communicates = evidence.stage_time(stage.kernels);
        let exchange =
            communicates.map_or(Ratio::ZERO, |time| time.share(ClassGroup::Communication));
        let transfers = transfers(evidence, stage);
        let small = small_grids(evidence, stage);
        let name = stage.scope.stage.as_deref().unwrap_or(stage.label());
        let time = stage.reference() * *times;
        all += time;
        let share = stage.reference_busy() * exchange.rest() * transfers.rest() * small.rest();
        // With shorter kernels the GPU waits longer for the CPU, except where that waits for the GPU.
        let share = match stage.is_host_bound {
            true => share.min(Ratio::of(stage.beyond_host, stage.reference())),
            false => share,
        };
        if share < NAMED && stage.is_host_bound {
            bound.push(name);
            continue;
        }
        computing += time * share;
        // A sequence that repeats can begin anywhere in an iteration, also before its longest wait.
        let is_marked = !is_repeating(&evidence.facts.stages[stage.stage]);
        let span = evidence.launching(stage).filter(|_| is_marked);
        // Launches that take far less than the stage leave room for kernels that are several times shorter.
        if let Some(span) = span.filter(|span| *span >= stage.reference() * LIMITS) {
            launching.push(words!(
                evidence,
                "summary.launching",
                span = span,
                stage = name
            ));
        }
        parts.push(words!(
            evidence,
            "summary.gpu_part",
            stage = name,
            share = share
        ));
        has_exchange |= exchange >= NAMED;
        has_transfers |= transfers >= NAMED;
        has_small |= small >= NAMED;
    }
    let share = Ratio::of(computing, all);
    let comma = evidence.text.comma();
    let key = match share >= NAMED {
        true => "summary.faster_gpus",
        false => "summary.not_faster",
    };
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
    // Kernels wait for pages of managed memory as long as on another GPU.
    let faulting: Time = copies.faulting_of_each().map(|(_, time)| time).sum();
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
        causes.any(|cause| cause.reason == Reason::SmallGrid) || limit.is_small() && !is_matrix_work
    };
    let small = limits.kernels.iter().filter(is_small);
    let time: Ns = small.map(|kernel| kernel.now).sum();
    match limits.time > Ns::ZERO {
        true => Ratio::of(time, limits.time),
        false => Ratio::ZERO,
    }
}
