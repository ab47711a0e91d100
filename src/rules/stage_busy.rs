//! What each stage's time is spent on, in one sentence: it opens the verdict page.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, host_pauses, profiler_overhead};
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_findings::{Inline, Observation, Quantity, Severity, prose};
use rooflens_present::group_color;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "stage-busy",
    thresholds: &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.collectives_alone", ALONE),
    ],
    run,
};

/// From this busy share on, the GPU is the limit of a stage.
pub(super) const BUSY: f64 = 0.90;

/// Below this busy share faster kernels bring little.
const IDLE: f64 = 0.50;

/// Share of the stage time in collectives, or in waiting in them, from which on it is said.
const ALONE: f64 = 0.05;

/// Share of the idle time from which on a cause is all of it.
const ALL: f64 = 0.995;

/// A share of idle time that is worth a cause.
const NAMED: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    if results.stages.is_empty() {
        return Outcome::lacks(
            "GPU operations with times: capture with nsys or the PyTorch profiler",
        );
    }
    Outcome::of(results.stages.iter().map(|stage| statement(results, stage)).collect())
}

fn statement(results: &Results<'_>, stage: &StageLine) -> Observation {
    let busy = stage.busy_share;
    let (mut statement, advice) = match busy >= BUSY {
        true => busy_stage(results, stage),
        false => idle_stage(results, stage),
    };
    statement.extend(profiler_overhead::without(stage, busy));
    statement.extend(utilization(results, stage));
    Observation {
        severity: Severity::Note,
        weight_ns: stage.time * stage.counted,
        statement,
        advice,
        evidence: vec![stage.figures.clone()],
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..stage.note()
    }
}

/// What keeps the GPU busy in a stage.
fn busy_stage(results: &Results<'_>, stage: &StageLine) -> (Vec<Inline>, Option<Vec<Inline>>) {
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " keeps the GPU busy for ",
        Quantity::ratio(stage.busy_share),
        " of its ",
        Quantity::new(stage.time, Unit::Nanoseconds),
    ];
    let largest = results.stage_time(stage).and_then(StageTime::largest);
    if let Some((group, share)) = largest {
        let with = format!(" of that with {}", group_color(group).label());
        statement.extend(prose![", ", Quantity::ratio(share), with]);
    }
    statement.push(".".into());
    let (said, waiting) = collectives(results, stage);
    statement.extend(said);
    let advice = match largest.map(|(group, _)| group) {
        _ if waiting >= ALONE => prose![
            "It waits for another rank: equal work for the ranks, or a faster slowest rank, makes it faster. With faster \
             kernels of its own it would wait longer."
        ],
        Some(ClassGroup::Communication) => prose![
            "Collectives last until the slowest rank has come: compare the ranks' other kernels before tuning \
             the network."
        ],
        Some(ClassGroup::Copy) => {
            prose!["Move less; overlap the copies with kernels, and one direction with the other."]
        }
        _ => {
            prose!["Faster kernels or less work make it faster; the host does not hold it up."]
        }
    };
    (statement, Some(advice))
}

/// How long the GPU runs collectives alone, in words; and the share of the stage in which that may be waiting.
fn collectives(results: &Results<'_>, stage: &StageLine) -> (Vec<Inline>, f64) {
    let line = results.communication(stage);
    let Some(line) = line.filter(|line| stage.share(line.exposed) >= ALONE) else {
        return (Vec::new(), 0.0);
    };
    let exposed = line.exposed;
    let mut said = prose![
        " For ",
        Quantity::ratio(stage.share(exposed)),
        " of its time it runs collectives and computes nothing"
    ];
    let waiting = line.wait.map_or(0.0, |wait| wait.min(exposed));
    if waiting > 0.0 {
        let share = Quantity::ratio(waiting / exposed);
        said.extend(prose![", up to ", share, " of that to wait for the rank that comes last"]);
    }
    said.push(".".into());
    (said, stage.share(waiting))
}

/// How long the GPU is idle in a stage, and mostly why.
fn idle_stage(results: &Results<'_>, stage: &StageLine) -> (Vec<Inline>, Option<Vec<Inline>>) {
    let idle = 1.0 - stage.busy_share;
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " leaves the GPU idle for ",
        Quantity::ratio(idle),
        " of its ",
        Quantity::new(stage.time, Unit::Nanoseconds),
    ];
    let causes = results.idle(stage.key()).into_iter().flat_map(Line::causes);
    let cause = causes.reduce(|best, next| if next.1 > best.1 { next } else { best });
    if let Some((cause, time)) = cause.filter(|(_, time)| stage.share(*time) >= NAMED) {
        let words = match cause {
            Cause::Queue if results.replays_graphs(stage) => {
                "operations that a CUDA graph replays follow one another with gaps"
            }
            Cause::HostCode if host_pauses::hold(results, stage) => {
                "the host pauses for other code in some instances or steps"
            }
            cause => because(cause),
        };
        if time < ALL * idle * stage.time {
            statement.extend(prose![", for ", Quantity::ratio(stage.share(time))]);
        } else {
            statement.push(", all of it".into());
        }
        statement.push(format!(" because {words}").into());
    } else {
        statement.extend(prose![
            ", between ",
            Quantity::new(stage.operations, Unit::Count),
            " operations of ",
            Quantity::new(stage.operation_time / stage.operations.max(1.0), Unit::Nanoseconds),
            " on average"
        ]);
    }
    statement.push(".".into());
    statement.extend(collectives(results, stage).0);
    // Where causes are known, the rules of each cause advise.
    let advice = cause.is_none().then(|| match stage.busy_share < IDLE {
        true => prose![
            "Faster kernels cannot bring more than the busy share. Issue fewer or larger operations: CUDA graphs, \
             fusion, larger batches, fewer synchronizing calls."
        ],
        false => prose!["Both count: the kernels, and the gaps between them."],
    });
    (statement, advice)
}

/// Why the GPU is idle, in words.
const fn because(cause: Cause) -> &'static str {
    match cause {
        Cause::Launching => "the host is launching",
        Cause::HostCode => "the host runs other code",
        Cause::Sync => "the host waits in a synchronizing call",
        Cause::Allocator => "the host is in the allocator",
        Cause::Copy => "a synchronous copy holds the host up",
        Cause::Communication => "another rank is late",
        Cause::Os => "the host thread is in the operating system",
        Cause::OffCpu => "no CPU runs the host thread",
        Cause::Profiler => "the profiler runs",
        Cause::Queue => "issued work waits for its turn",
        Cause::OtherWork => "it runs work of others",
        Cause::Unknown => "the cause is unknown",
    }
}

/// MFU and MBU, where they are known: without a profiler, if that was measured.
fn utilization(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    let (profiled, unprofiled) =
        (results.utilization(stage), results.unprofiled_utilization(stage));
    let best = |value: fn(&StageUtilization) -> Result<f64, Unavailable>| {
        let known = |one: Option<&StageUtilization>| value(one?).ok();
        let unprofiled = known(unprofiled).map(|value| (value, " un-profiled"));
        unprofiled.or_else(|| Some((known(profiled)?, "")))
    };
    let mut text = Vec::new();
    if let (Some((mbu, how)), true) = (best(StageUtilization::mbu), stage.is_decode()) {
        let mbu = Quantity::ratio(mbu);
        text.extend(prose![" It uses ", mbu, format!(" of the memory bandwidth (MBU){how}.")]);
    } else if let Some((mfu, how)) = best(StageUtilization::mfu) {
        text.extend(prose![" Its MFU is ", Quantity::ratio(mfu), how]);
        if let Some(kernels) = profiled.and_then(|own| own.kernel_time_mfu().ok()) {
            text.extend(prose![", and ", Quantity::ratio(kernels), " while the GPU is busy"]);
        }
        text.push(".".into());
    }
    text
}
