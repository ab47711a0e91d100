//! Some instances of a stage hold long pauses of the host that its typical instance does not have.

use std::collections::BTreeMap;

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Gain, Inline, Observation, Quantity, Severity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "host-pauses",
    title: "Pauses of the host in some instances",
    thresholds: &[Threshold::ratio(
        "idle time in host code beyond that of the instance of median time, of the time of all stages, at least",
        SHARE,
    )],
    run,
};

/// Idle time in host code that the median instance does not have ÷ time of all stages from which on it is worth a finding.
const SHARE: f64 = 0.05;

/// The cause in the data sets of idle time.
const HOST_CODE: &str = "host code";

fn run(results: &Results<'_>) -> Outcome {
    if results.rows(ids::IDLE_SUMS).next().is_none() {
        return Outcome::lacks(super::IDLE_NEEDS);
    }
    Outcome::of(results.stages.iter().filter_map(|stage| finding(results, stage)).collect())
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let of_cause = |id| results.of_stage(id, stage).filter(|row| row.text("cause") == HOST_CODE);
    let row = of_cause(ids::IDLE_SUMS).next()?;
    let (all, typical) = (row.number("total_ns")?, row.number("median_ns")?);
    let beyond = all - typical * stage.counted;
    if beyond < SHARE * results.run_ns() || beyond <= 0.0 {
        return None;
    }
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " loses ",
        Quantity::new(beyond, rooflens_schemas::Unit::Nanoseconds),
        " over its ",
        Quantity::count(stage.counted as u64),
        " instances to host code that the instance of median time does not run; the longest pause takes ",
        Quantity::new(row.sum("longest_ns"), rooflens_schemas::Unit::Nanoseconds)
    ];
    let mut enders: BTreeMap<&str, u64> = BTreeMap::new();
    for gap in of_cause(ids::LONGEST_GAPS) {
        *enders.entry(gap.text("ended_by")).or_default() += 1;
    }
    let listed: u64 = enders.values().sum();
    if let Some((kernel, count)) = enders.into_iter().max_by_key(|(_, count)| *count) {
        statement.extend(prose![
            ". Of the ",
            Quantity::count(listed),
            " longest of them ",
            Quantity::count(count),
            " end with the launch of ",
            Inline::Code(kernel.to_owned())
        ]);
    }
    statement.push(".".into());
    // The time of all stages is made of typical instances: the pauses come on top.
    let gain = Gain {
        saved_ns: beyond,
        of_ns: results.run_ns() + beyond,
        of: "all stages with these pauses".to_owned(),
        basis: "idle time in host code of all counted instances − that of the median one, each"
            .to_owned(),
    };
    Some(Observation {
        severity: Severity::of_share(gain.share()),
        weight_ns: beyond,
        gain: Some(gain),
        title: stage.label.clone(),
        scope: stage.scope.clone(),
        statement,
        advice: Some(prose![
            "Something is prepared on first use: a plan or a kernel for a new shape (a new number of keys, say), a \
             compilation, a library that is loaded. Warm up with the very shapes of the measurement; keep shapes few \
             (padding, static caches): a server meets this again with every new one."
        ]),
        next: Some(prose![
            "A PyTorch trace with shapes and stacks over such an instance: the operator in the gap and its sizes."
        ]),
        evidence: vec![stage.evidence()],
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..Observation::default()
    })
}
