//! Profiled launches that last longer or shorter than those of the run.

use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::counters::represent::{Comparison, Likeness};
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_model::PassId;
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "unrepresentative-profile",
    thresholds: &[Threshold::ratio("thresholds.as_long", SHARE)],
    run,
};

/// `representative_share` below which rates and durations of a profile are not those of the run.
const SHARE: f64 = 0.50;

fn run(results: &Results<'_>) -> Outcome {
    let passes = results.context.results.represent().into_iter().flat_map(|all| &all.passes);
    let known: Vec<(PassId, f64)> =
        passes.filter_map(|(pass, sums)| Some((*pass, sums.share()?))).collect();
    if known.is_empty() {
        return Outcome::lacks("kernels profiled with counters beside a timeline of the workload");
    }
    let low = known.into_iter().filter(|(_, share)| *share < SHARE);
    Outcome::joined(low.map(|(pass, share)| finding(results, pass, share)).collect())
}

fn finding(results: &Results<'_>, pass: PassId, share: f64) -> Observation {
    let name = results.context.session.pass_name(pass).to_owned();
    let mut statement = prose![
        Quantity::ratio(share),
        " of the time profiled in pass ",
        Inline::Code(name.clone()),
        " is in launches that last about as long as in the timeline"
    ];
    statement.extend(unlike(results, pass).unwrap_or_default());
    statement.push(".".into());
    Observation {
        title: name.clone(),
        scope: Scope { pass: Some(name), ..Scope::default() },
        statement,
        advice: Some(prose![
            "Take instructions, bytes and occupancy from this profile; rates, throughputs and durations are those of the profiled launch alone."
        ]),
        next: Some(prose![
            "An Nsight Compute pass with ",
            Inline::Code("--clock-control none --cache-control none".to_owned()),
            " over launches in the middle of the run."
        ]),
        evidence: results.profile_evidence(pass),
        ..Observation::default()
    }
}

/// The launch unlike the timeline's that stands for most time, and by how much it is longer or shorter, in words.
fn unlike(results: &Results<'_>, pass: PassId) -> Option<Vec<Inline>> {
    let (context, known) = (results.context, results.context.results);
    let (counters, matching) = (known.counters().ok()?, known.matching().ok()?);
    let is_unlike = |one: &&Comparison| {
        counters.launch(one.profile).pass == pass
            && matches!(one.likeness, Likeness::Longer | Likeness::Shorter)
    };
    // Those that stand for most time come first.
    let one = known.represent().ok()?.launches.iter().find(is_unlike)?;
    Some(prose![
        ". Of the others, ",
        Inline::Code(counters.launch(one.profile).identity.short.clone()),
        " stands for the most time (",
        Quantity::ratio(one.share.unwrap_or_default()),
        " of ",
        Inline::Strong(matching.lines[one.line?].summary.label(context.session, context.facts)),
        "): its launch took ",
        Quantity::new(one.ratio?, Unit::One),
        " times the median"
    ])
}
