//! Idle time while launching, and host code between launches: the judgement that several rules share.

use std::collections::BTreeMap;

use rooflens_analysis::operators::chains::ChainKind;
use rooflens_analysis::time::idle::{Activity, Cause, StageIdle};
use rooflens_schemas::StageKind;
use rooflens_session::{Ns, ThreadId};
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

/// Samples of a batch from which on computing them one by one is a loop.
const SAMPLES: Count = Count(8.0);

/// Share of the launches of a stage that are of kernels per sample, from which on a loop of samples is its work.
const MOST: Ratio = Ratio(0.5);

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
    let steps = decode_steps(evidence, stage).map_or(1.0, |steps| steps.0);
    let code = idle.sources.of(Activity::HostCode);
    let in_one_place = code.is_some_and(|code| {
        let most = code.sources.first();
        most.is_some_and(|most| {
            most.time >= code.time() / 2 && most.gaps as f64 <= most.windows as f64 * steps
        })
    });
    idle.gaps_per_instance(Cause::HostCode) >= BETWEEN * steps && !in_one_place
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

/// Calls of the model in a training step that accumulates their gradients, and the batch of each. Calls without backward
/// between them accumulate none, such as those of two towers.
pub(crate) fn micro_batches(evidence: &Evidence<'_>, stage: &StageLine) -> Option<[Count; 2]> {
    if stage.kind != StageKind::TrainStep || repeats_calls(evidence, stage) {
        return None;
    }
    let batches = &evidence.session.model_calls.batch;
    let mut of_steps = evidence.model_calls(stage).into_iter();
    let first = of_steps.next()?;
    let batch = first.first().and_then(|row| batches[*row])?;
    let is_same = |rows: &[usize]| {
        rows.len() == first.len() && rows.iter().all(|row| batches[*row] == Some(batch))
    };
    let is_even = is_same(&first) && of_steps.all(|rows| is_same(&rows));
    let calls = first.len() as u64;
    let accumulates = calls > 1 && is_even && goes_backward_between(evidence, stage, &first);
    accumulates.then_some([calls, batch].map(|count| Count(count as f64)))
}

/// Whether another thread, which is autograd's, issues work between all of these calls of the model in the first iteration.
fn goes_backward_between(evidence: &Evidence<'_>, stage: &StageLine, rows: &[usize]) -> bool {
    let (session, facts) = (evidence.session, evidence.facts);
    let (calls, api_calls) = (&session.model_calls, &session.api_calls);
    let summary = evidence.summary(stage).into_iter();
    let mut instances = summary.flat_map(|summary| summary.counted_instances(facts));
    let Some(instance) = instances.find(|instance| instance.thread.is_some()) else {
        return false;
    };
    let ops = instance.ops.iter().copied();
    let issuing = ops.filter_map(|op| facts.ops.api_call[op as usize]);
    let issued: Vec<_> = issuing
        .map(|call| {
            (
                api_calls.thread[call.index()],
                api_calls.start[call.index()],
            )
        })
        .collect();
    rows.windows(2).all(|pair| {
        let (thread, end, next) = (
            calls.thread[pair[0]],
            calls.end[pair[0]],
            calls.start[pair[1]],
        );
        let is_between =
            |(of_call, at): &(ThreadId, Ns)| *of_call != thread && end <= *at && *at < next;
        issued.iter().any(is_between)
    })
}

/// Whether a step calls the model again before backward.
fn repeats_calls(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let Ok(chains) = evidence.results.chains() else {
        return false;
    };
    let place = evidence.place(chains, stage);
    place.is_some_and(|place| place.group(ChainKind::Calls).is_some())
}

/// The least and the most operations of an iteration, if their number differs in most iterations: no CUDA graph holds them.
/// A graph of a decode step holds those of a loop of steps.
pub(crate) fn varying_operations(evidence: &Evidence<'_>, stage: &StageLine) -> Option<[Count; 2]> {
    if stage.steps.is_some() || stage.is_decode() {
        return None;
    }
    let summary = evidence.summary(stage)?;
    let mut counts = BTreeMap::<usize, usize>::new();
    for instance in summary.counted_instances(evidence.facts) {
        *counts.entry(instance.ops.len()).or_default() += 1;
    }
    let usual = counts.values().max()?;
    let [least, most] = [counts.keys().next()?, counts.keys().next_back()?];
    let varies = 2 * usual < counts.values().sum::<usize>();
    varies.then_some([least, most].map(|count| Count(*count as f64)))
}

/// Whether inference gives the model one request after another: in a batch the requests share the launches.
pub(crate) fn has_single_requests(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let mut stages = evidence.stages.iter();
    matches!(stage.kind, StageKind::Forward | StageKind::Vision)
        && evidence.session.workload.batch == Some(1)
        && !stages.any(|stage| stage.kind.is_training_only())
}

/// Samples of a batch that a stage without GEMMs computes one by one: it launches its kernels as often as the batch has
/// samples, or several times as often. Where there are GEMMs, layers may be as many.
pub(crate) fn samples(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Count> {
    let batch = evidence.session.workload.batch?;
    let samples = Count(batch as f64);
    if samples < SAMPLES || stage.kind != StageKind::Other {
        return None;
    }
    let (mut of_samples, mut launches) = (0, 0);
    let per_sample = batch * stage.counted.0 as u64;
    for (kernel, of_kernel, _) in &evidence.work(stage.key())?.kernels {
        if evidence.facts.identities[kernel.index()]
            .class
            .is_matrix_work()
        {
            return None;
        }
        launches += of_kernel;
        if of_kernel.is_multiple_of(per_sample) {
            of_samples += of_kernel;
        }
    }
    let share = Ratio(of_samples as f64 / launches.max(1) as f64);
    (share >= MOST).then_some(samples)
}
