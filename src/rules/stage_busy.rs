//! What each stage's time is spent on, in one sentence: it opens the verdict page.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, host_pauses, ids, profiler_overhead};
use crate::analysis::time::idle::{Cause, Line};
use crate::findings::chart::Color;
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "stage-busy",
    title: "Where the time goes",
    thresholds: &[
        Threshold::ratio("the GPU is busy for at least", BUSY),
        Threshold::ratio("collectives alone, of the stage time, at least", ALONE),
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
    let own = results.of_stage(ids::STAGE_PARTS, stage);
    let heaviest = own.max_by(|a, b| a.sum("time_ns").total_cmp(&b.sum("time_ns")));
    if let Some(row) = heaviest {
        let share = Quantity::ratio(row.sum("busy_share"));
        statement.extend(prose![", ", share, format!(" of that with {}", row.text("part"))]);
    }
    statement.push(".".into());
    let (said, waiting) = collectives(results, stage);
    statement.extend(said);
    let part = heaviest.and_then(|row| Color::of_label(row.text("part")));
    let advice = match part {
        _ if waiting >= ALONE => prose![
            "It waits for another rank: equal work for the ranks, or a faster slowest rank, makes it faster. With faster \
             kernels of its own it would wait longer."
        ],
        Some(Color::Communication) => prose![
            "Collectives last until the slowest rank has come: compare the ranks' other kernels before tuning \
             the network."
        ],
        Some(Color::Copy) => {
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
    let number = |id| results.number(id, &stage.scope);
    let Some(exposed) = number(ids::COMM_EXPOSED).filter(|time| stage.share(*time) >= ALONE) else {
        return (Vec::new(), 0.0);
    };
    let mut said = prose![
        " For ",
        Quantity::ratio(stage.share(exposed)),
        " of its time it runs collectives and computes nothing"
    ];
    let waiting = number(ids::COMM_WAIT).map_or(0.0, |wait| wait.min(exposed));
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
            cause => ids::because(cause),
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

/// MFU and MBU, where they are known: without a profiler, if that was measured.
fn utilization(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    let best = |id| {
        let unprofiled = results.unprofiled(id, stage).map(|value| (value, " un-profiled"));
        unprofiled.or_else(|| Some((results.number(id, &stage.scope)?, "")))
    };
    let mut text = Vec::new();
    if let (Some((mbu, how)), true) = (best(ids::MBU), stage.is_decode()) {
        let mbu = Quantity::ratio(mbu);
        text.extend(prose![" It uses ", mbu, format!(" of the memory bandwidth (MBU){how}.")]);
    } else if let Some((mfu, how)) = best(ids::MFU) {
        text.extend(prose![" Its MFU is ", Quantity::ratio(mfu), how]);
        if let Some(kernels) = results.number(ids::KERNEL_TIME_MFU, &stage.scope) {
            text.extend(prose![", and ", Quantity::ratio(kernels), " while the GPU is busy"]);
        }
        text.push(".".into());
    }
    text
}
