//! Idle time while launching, and host code between launches: the judgement that several rules share.

use rooflens_analysis::time::idle::{Activity, Cause, StageIdle};
use rooflens_schemas::StageKind;
use rooflens_units::{Count, Ratio, Time};

use crate::evidence::Evidence;
use crate::pauses;
use crate::stage::StageLine;

/// The rule that says it.
pub(crate) const RULE: &str = "launch-bound";

/// Idle time while launching ÷ stage time from which on it is worth a finding.
pub(crate) const SHARE: Ratio = Ratio(0.10);

/// Operations of an instance from which on launching them costs time.
pub(crate) const MANY: Count = Count(100.0);

/// Recurrent cells in an iteration from which on a loop of them computes a sequence.
const CELLS: Count = Count(16.0);

/// Parts of names of kernels of recurrent cells. cuDNN has others.
const CELL_KERNELS: [&str; 2] = ["lstm_cell_forward", "gru_cell_forward"];

/// Gaps with host code in an iteration from which on it lies between launches: fewer are single pieces of work, such as
/// the preparation of a batch, which no graph removes.
const BETWEEN: Count = Count(5.0);

/// Idle time while launching, if it is worth a finding: as the largest cause, or as one of at least half of the largest
/// where that is not host code whose finding has the same advice.
pub(crate) fn launching(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Time> {
    let idle = evidence.idle(stage.key())?;
    let launching = idle.rest_of_stage(Cause::Launching).ok()?;
    let (largest, most) = largest(evidence, stage, idle)?;
    let is_said = largest == Cause::HostCode && is_many(evidence, stage, idle);
    let is_large = launching >= most || !is_said && launching * 2.0 >= most;
    (stage.share(launching) >= SHARE && is_large).then_some(launching)
}

/// The cause with most idle time, and that time. Pauses that typical instances do not have are no reason to leave
/// launching alone.
pub(crate) fn largest(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
) -> Option<(Cause, Time)> {
    let mut largest: Option<(Cause, Time)> = None;
    for cause in Cause::ALL {
        let Ok(pooled) = idle.rest_of_stage(cause) else {
            continue;
        };
        let time = match cause {
            Cause::HostCode => pauses::host_code(evidence, stage),
            // Waits have a rule of their own, with all that follows from them.
            Cause::Sync => Some(idle.scaled(idle.sources.time(Activity::Synchronization))),
            _ if idle.rest_spread(&[cause]).is_rare() => None,
            _ => Some(pooled),
        };
        // Of equal ones the last.
        if let Some(time) = time
            && largest.is_none_or(|(_, most)| time.total_cmp(&most).is_ge())
        {
            largest = Some((cause, time));
        }
    }
    largest
}

/// Whether host code lies between launches rather than in one place: of decode within the steps, each of which one graph
/// holds.
pub(crate) fn is_within_steps(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
) -> bool {
    let steps = decode_steps(evidence, stage);
    idle.gaps_per_instance(Cause::HostCode) >= BETWEEN * steps.map_or(1.0, |steps| steps.0)
}

/// Steps of an iteration of decode, in the timeline or as the unprofiled run counts them.
fn decode_steps(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Count> {
    let timed = || Some(Count(evidence.unprofiled_series(stage)?.steps? as f64));
    let steps = stage.steps.or_else(timed);
    steps.filter(|_| stage.kind == StageKind::Decode)
}

/// Whether a graph of each decode step leaves host code between the steps.
pub(crate) fn leaves_host_code(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let idle = evidence.idle(stage.key());
    decode_steps(evidence, stage).is_some()
        && idle.is_some_and(|idle| !is_within_steps(evidence, stage, idle))
}

/// Whether PyTorch launches many operations one by one, with host code between them.
pub(crate) fn is_many(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> bool {
    let is_many = stage.operations >= MANY && !evidence.replays_graphs(stage);
    evidence.platform.pytorch && is_many && is_within_steps(evidence, stage, idle)
}

/// Whether the host waits for results amid the operations of a stage, so that one graph cannot hold them.
pub(crate) fn waits(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let idle = evidence.idle(stage.key());
    idle.is_some_and(|idle| idle.sources.waits_for_results())
}

/// Recurrent cells that the host launches one by one in an iteration, where they compute a sequence.
pub(crate) fn cells(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Count> {
    let mut cells = Count(0.0);
    for (kernel, launches, _) in &evidence.work(stage.key())?.kernels {
        let name = evidence.session.kernel_name(*kernel);
        if CELL_KERNELS.iter().any(|part| name.contains(part)) {
            cells += Count(*launches as f64) / stage.counted.0;
        }
    }
    (cells >= CELLS).then_some(cells)
}

/// Calls of the model in a training step that accumulates their gradients, and the batch of each.
pub(crate) fn micro_batches(evidence: &Evidence<'_>, stage: &StageLine) -> Option<[Count; 2]> {
    let of_call = evidence.session.workload.batch.filter(|batch| *batch > 0)?;
    let utilization = evidence.utilization(stage)?;
    let of_step = utilization.timed.batch(Some(of_call))?;
    let calls = of_step / of_call;
    (calls > 1).then_some([calls, of_call].map(|count| Count(count as f64)))
}
