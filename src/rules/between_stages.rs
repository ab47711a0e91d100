//! The GPU waits between the stages: data loaders, schedulers, logging.

use rooflens_schemas::Unit;

use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::time::idle::between::{Between, Pair};
use rooflens_findings::{Gain, Inline, Observation, Quantity, Severity, prose};

pub(super) static RULE: Rule = Rule {
    id: "between-stages",
    thresholds: &[
        Threshold::ratio("thresholds.between_idle", SHARE),
        Threshold { key: "thresholds.between_times", value: Quantity::count(TIMES) },
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
    let all = results.context.results.idle().map_or(&[][..], |idle| &idle.between);
    if all.is_empty() {
        return Outcome::lacks("stages that follow one another, in a timeline or trace");
    }
    if !all.iter().any(|one| one.pairs.iter().any(is_loop)) {
        let times = Quantity::count(TIMES);
        return Outcome::NotApplicable(format!("no two stages follow one another {times} times"));
    }
    Outcome::joined(all.iter().filter_map(|one| finding(results, one)).collect())
}

fn is_loop(pair: &Pair) -> bool {
    pair.windows() as u64 >= TIMES
}

fn finding(results: &Results<'_>, between: &Between) -> Option<Observation> {
    let (context, run) = (&results.context, between.run as f64);
    let (session, stages) = (context.session, &context.facts.stages);
    let pairs = || between.pairs.iter().filter(|pair| is_loop(pair));
    let idle: f64 = pairs().map(|pair| pair.idle() as f64).sum();
    let (pair, of_run) = (pairs().next()?, idle / run);
    if of_run.is_nan() || of_run < SHARE {
        return None;
    }
    let label = between.label(context);
    let whose = if label.is_empty() { String::new() } else { format!(" of {label}") };
    let mut statement = prose![
        format!("Between its stages the GPU{whose} is idle for "),
        Quantity::ratio(of_run),
        " of the ",
        Quantity::new(run, Unit::Nanoseconds),
        " of the run, most of it between ",
        Inline::Strong(stages[pair.after].name.clone()),
        " and ",
        Inline::Strong(stages[pair.before].name.clone()),
        ": ",
        Quantity::new(pair.median()?, Unit::Nanoseconds),
        " at the median of ",
        Quantity::count(pair.windows() as u64),
        ". The largest cause is ",
        Inline::Strong(pair.cause().label().to_owned()),
    ];
    let range = pair.range(session).filter(|(_, share)| *share >= COVERED);
    if let Some((name, covers)) = range {
        statement.extend(prose![
            "; the range ",
            Inline::Code(session.text(name).to_owned()),
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
        scope: between.scope(context),
        severity: Severity::of_share(gain.share()),
        weight_ns: idle,
        gain: Some(gain),
        statement,
        advice: Some(advice(pair.cause())),
        next: range.is_none().then(|| {
            prose![
                "A range around what the host does there (loading data, scheduling, logging), or a PyTorch trace with \
                 Python frames: they name it."
            ]
        }),
        evidence: vec![between.evidence(context)],
        ..Observation::default()
    })
}

fn advice(cause: Cause) -> Vec<Inline> {
    match cause {
        Cause::Sync | Cause::Copy => prose![
            "Do not wait for the GPU there: read losses and tokens later, copy pinned buffers with ",
            Inline::Code("non_blocking=True".to_owned()),
            ", so that the host prepares the next stage while the GPU works."
        ],
        Cause::Communication => prose![
            "Other ranks come later: compare what they do between their stages; barriers there cost all the slowest one's time."
        ],
        Cause::Os | Cause::OffCpu => prose![
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
