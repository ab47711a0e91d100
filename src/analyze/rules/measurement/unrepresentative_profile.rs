//! Profiled launches that last longer or shorter than those of the run.

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::counters::represent::{Comparison, Likeness};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::{Scope, Unit};
use rooflens_session::PassId;

pub(crate) static RULE: Rule = Rule::new(
    "unrepresentative-profile",
    &[Threshold::ratio("thresholds.as_long", SHARE)],
    run,
)
.on_measurement();

/// `representative_share` below which rates and durations of a profile are not those of the run.
const SHARE: f64 = 0.50;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let known = evidence.results;
    let of_timeline = known.represent().into_iter().flat_map(|all| &all.passes);
    let of_sums = known.summed().into_iter().flat_map(|all| &all.passes);
    let known: Vec<(PassId, f64)> = of_timeline
        .chain(of_sums)
        .filter_map(|(pass, sums)| Some((*pass, sums.share()?)))
        .collect();
    if known.is_empty() {
        return Outcome::InsufficientData(words!(evidence, "unrepresentative_profile.needs"));
    }
    let low = known.into_iter().filter(|(_, share)| *share < SHARE);
    Outcome::joined(
        evidence.text,
        low.map(|(pass, share)| finding(evidence, pass, share))
            .collect(),
    )
}

fn finding(evidence: &Evidence<'_>, pass: PassId, share: f64) -> Finding {
    let name = evidence.session.pass_name(pass).to_owned();
    Finding {
        title: name.clone(),
        statement: say!(
            evidence,
            "unrepresentative_profile.statement",
            share = Quantity::ratio(share),
            pass = Inline::code(&name),
            unlike = unlike(evidence, pass).or_else(|| unlike_sum(evidence, pass)),
        ),
        scope: Scope {
            pass: Some(name),
            ..Scope::default()
        },
        advice: Some(say!(evidence, "unrepresentative_profile.advice")),
        next: Some(say!(evidence, "unrepresentative_profile.next")),
        evidence: evidence.profile_evidence(pass),
        ..Finding::default()
    }
}

/// The launch unlike the timeline's that stands for most time, and by how much it is longer or shorter, in words.
fn unlike(evidence: &Evidence<'_>, pass: PassId) -> Option<Vec<Inline>> {
    let (context, known) = (evidence.context, evidence.results);
    let (counters, matching) = (known.counters().ok()?, known.matching().ok()?);
    let is_unlike = |one: &&Comparison| {
        counters.launch(one.profile).pass == pass
            && matches!(one.likeness, Likeness::Longer | Likeness::Shorter)
    };
    // Those that stand for most time come first.
    let one = known.represent().ok()?.launches.iter().find(is_unlike)?;
    let stage = matching.lines[one.line?]
        .summary
        .label(context.session, context.facts);
    Some(say!(
        evidence,
        "unrepresentative_profile.unlike",
        kernel = Inline::code(&counters.launch(one.profile).identity.short),
        share = Quantity::ratio(one.share.unwrap_or_default()),
        stage = Inline::Strong(stage),
        ratio = Quantity::new(one.ratio?, Unit::One),
    ))
}

/// The same of a launch that is unlike the sums of its kernel.
fn unlike_sum(evidence: &Evidence<'_>, pass: PassId) -> Option<Vec<Inline>> {
    let (session, known) = (evidence.session, evidence.results);
    let (counters, summed) = (known.counters().ok()?, known.summed().ok()?);
    let is_unlike = |likeness| matches!(likeness, Likeness::Longer | Likeness::Shorter);
    let mut own = summed
        .launches
        .iter()
        .filter(|one| counters.launch(one.profile).pass == pass);
    let one = own.find(|one| is_unlike(one.likeness))?;
    Some(say!(
        evidence,
        "unrepresentative_profile.unlike",
        kernel = Inline::code(&counters.launch(one.profile).identity.short),
        share = Quantity::ratio(one.share?),
        stage = Inline::strong(session.pass_name(summed.pass)),
        ratio = Quantity::new(one.ratio?, Unit::One),
    ))
}
