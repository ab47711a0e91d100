//! What faster GPUs would bring.

use super::actions::Action;
use super::whole::Kind;
use super::{conclusion, joint, whole};
use crate::evidence::Evidence;
use crate::stage::{HALF_BUSY, StageLine};
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_document::{Inline, Quantity};
use rooflens_session::CopyKind;
use rooflens_units::{Ratio, Time};

/// Share of a stage's GPU time from which on it is named.
const NAMED: Ratio = Ratio(0.01);

/// Difference of the share after the actions from which on it is said.
const OTHER: Ratio = Ratio(0.1);

/// A stage that the CPU bounds gets hardly shorter with shorter kernels: by less than this share.
const HARDLY: Ratio = Ratio(0.25);

/// Whether faster GPUs would help, by stage, now and after the actions: they shorten GPU time, not idle time, communication
/// and transfers, and hardly a stage in which the GPU waits for the CPU.
pub(super) fn faster_gpus(
    evidence: &Evidence<'_>,
    whole: &whole::Whole<'_>,
    actions: &[Action<'_>],
) -> Vec<Inline> {
    let between: Time = match whole.kind {
        Kind::Loop => whole::busy_between(evidence).into_iter().sum(),
        _ => Time::ZERO,
    };
    let (mut computing, mut computing_after) = (between, between);
    let (mut others, mut bound, mut launching) = (Vec::new(), Vec::new(), Time::ZERO);
    let (mut has_exchange, mut has_transfers) = (false, false);
    for (stage, times) in &whole.stages {
        let communicates = evidence.stage_time(stage.kernels);
        let exchange =
            communicates.map_or(Ratio::ZERO, |time| time.share(ClassGroup::Communication));
        let [exchange, transfers] = [exchange, transfers(evidence, stage)]
            .map(|share| if share < NAMED { Ratio::ZERO } else { share });
        let rest = exchange.rest() * transfers.rest();
        let is_bound = stage.is_host_bound && stage.beyond_host < stage.reference() * HARDLY;
        let saved = joint::saved_parts(stage, actions);
        let left = stage.alone() - saved.idle - saved.work;
        let work = stage.work() - saved.work;
        if !is_bound || work >= left * HALF_BUSY {
            computing_after += work * rest * *times;
        }
        has_exchange |= exchange > Ratio::ZERO;
        has_transfers |= transfers > Ratio::ZERO;
        let name = stage.scope.stage.as_deref().unwrap_or(stage.label());
        match is_bound {
            true => bound.push(name),
            false => {
                computing += stage.work() * rest * *times;
                launching += evidence.launching(stage).unwrap_or_default() * *times;
                others.push(name);
            }
        }
    }
    let of_between = words!(evidence, "summary.between_stages");
    if between >= whole.now * NAMED {
        others.push(&of_between);
    }
    let busy = whole.busy_share(evidence).unwrap_or(Ratio::ONE);
    let share = Ratio::of(computing, whole.now).min(busy);
    let after = Ratio::of(computing_after, whole.best().max(Time(1.0))).min(Ratio::ONE);
    // The profiler lengthens launches, so this is no bound of its own.
    let is_launched = launching >= whole.now * HALF_BUSY;
    let is_other = (after.0 - share.0).abs() >= OTHER.0;
    let comma = evidence.text.comma();
    let key = match others.is_empty() {
        true => "summary.not_faster",
        false => "summary.faster_gpus",
    };
    let count = actions.len();
    let arguments = arguments! {
        share = share,
        whole = conclusion::name_of(evidence, whole),
        stages = (!bound.is_empty()).then(|| others.join(comma)),
        exchange = has_exchange.then_some(""),
        transfers = has_transfers.then_some(""),
        bound = (!bound.is_empty()).then(|| bound.join(comma)),
        launching = is_launched.then_some(launching),
        after = is_other.then_some(after),
        one = (count == 1).then_some(""),
        last = (count > 1).then(|| Quantity::count(count as u64)),
    };
    evidence.text.say(key, &arguments)
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
