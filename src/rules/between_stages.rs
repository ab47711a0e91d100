//! The GPU waits between the stages: data loaders, schedulers, logging.

use rooflens_schemas::{Metric, Unit};

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Gain, Inline, Observation, Quantity, Severity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "between-stages",
    title: "The GPU waits between stages",
    thresholds: &[
        Threshold::ratio("idle time between stages, of the run, at least", SHARE),
        Threshold {
            of: "times that the same two stages follow one another, at least",
            value: Quantity::count(TIMES),
        },
    ],
    run,
};

/// Idle time between stages ÷ run from which on it is worth a finding.
const SHARE: f64 = 0.05;

/// Times that two stages follow one another from which on what lies between them is a loop, and no set-up.
const TIMES: u64 = 3;

/// Share of the time between two stages from which on a range tells what the host does in it.
const COVERED: f64 = 0.5;

fn run(results: &Results<'_>) -> Outcome {
    let mut shares = results.all(ids::BETWEEN_IDLE_SHARE).peekable();
    if shares.peek().is_none() {
        return Outcome::lacks("stages that follow one another, in a timeline or trace");
    }
    if !results.rows(ids::BETWEEN).any(|row| row.sum("windows") >= TIMES as f64) {
        let times = Quantity::count(TIMES);
        return Outcome::NotApplicable(format!("no two stages follow one another {times} times"));
    }
    Outcome::joined(shares.filter_map(|share| finding(results, share)).collect())
}

fn finding(results: &Results<'_>, share: &Metric) -> Option<Observation> {
    let run = results.number(ids::BETWEEN_IDLE, &share.scope)? / share.value.number()?;
    let label = label(share);
    let in_loop = |row: &Row<'_>| row.text("rank") == label && row.sum("windows") >= TIMES as f64;
    let rows: Vec<Row<'_>> = results.rows(ids::BETWEEN).filter(in_loop).collect();
    let idle: f64 = rows.iter().map(|row| row.sum("idle_ns")).sum();
    let (row, of_run) = (rows.first()?, idle / run);
    if of_run.is_nan() || of_run < SHARE {
        return None;
    }
    let whose = if label.is_empty() { String::new() } else { format!(" of {label}") };
    let mut statement = prose![
        format!("Between its stages the GPU{whose} is idle for "),
        Quantity::ratio(of_run),
        " of the ",
        Quantity::new(run, Unit::Nanoseconds),
        " of the run, most of it between ",
        Inline::Strong(row.text("after").to_owned()),
        " and ",
        Inline::Strong(row.text("before").to_owned()),
        ": ",
        Quantity::new(row.number("median_ns")?, Unit::Nanoseconds),
        " at the median of ",
        Quantity::count(row.number("windows")? as u64),
        ". The largest cause is ",
        Inline::Strong(row.text("cause").to_owned()),
    ];
    let range = row.number("range_share").filter(|share| *share >= COVERED);
    if let Some(covers) = range {
        statement.extend(prose![
            "; the range ",
            Inline::Code(row.text("range").to_owned()),
            " covers ",
            Quantity::ratio(covers),
            " of that time"
        ]);
    }
    statement.push(".".into());
    let gain = Gain {
        saved_ns: idle,
        of_ns: run,
        of: format!("the run{whose}"),
        basis: "the run without the idle time between its stages".to_owned(),
    };
    Some(Observation {
        title: label,
        scope: share.scope.clone(),
        severity: Severity::of_share(gain.share()),
        weight_ns: idle,
        gain: Some(gain),
        statement,
        advice: Some(advice(row)),
        next: range.is_none().then(|| {
            prose![
                "A range around what the host does there (loading data, scheduling, logging), or a PyTorch trace with \
                 Python frames: they name it."
            ]
        }),
        evidence: share.evidence.clone(),
        ..Observation::default()
    })
}

/// As the data set names the rank and GPU.
fn label(metric: &Metric) -> String {
    let rank = metric.scope.rank.map(|rank| format!("rank {rank}"));
    let gpu = metric.scope.gpu.map(|gpu| format!("GPU {gpu}"));
    rank.into_iter().chain(gpu).collect::<Vec<_>>().join(" · ")
}

fn advice(row: &Row<'_>) -> Vec<Inline> {
    match row.text("cause") {
        "synchronizing call" | "blocking copy" => prose![
            "Do not wait for the GPU there: read losses and tokens later, copy pinned buffers with ",
            Inline::Code("non_blocking=True".to_owned()),
            ", so that the host prepares the next stage while the GPU works."
        ],
        "collective" => prose![
            "Other ranks come later: compare what they do between their stages; barriers there cost all the slowest one's time."
        ],
        "operating system" | "off CPU" => prose![
            "The host waits for something else: give the data loader more workers and let it fetch ahead (",
            Inline::Code("num_workers".to_owned()),
            ", ",
            Inline::Code("prefetch_factor".to_owned()),
            "), read from faster storage, give the thread that launches a CPU of its own."
        ],
        _ => prose![
            "Prepare the next stage while the GPU works: data loader workers that fetch ahead, tokenizing and sampling in \
             other threads or processes, logging and checkpoints out of the loop."
        ],
    }
}
