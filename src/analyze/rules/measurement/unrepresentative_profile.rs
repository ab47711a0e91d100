//! Profiled launches that last longer or shorter than those of the run.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::counters::represent::Likeness;
use rooflens_document::{Inline, Quantity};
use rooflens_schemas::Unit;
use rooflens_session::PassId;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "unrepresentative-profile",
    &[Threshold::ratio("thresholds.as_long", SHARE)],
    outcome,
)
.on_measurement();

/// `representative_share` below which rates and durations of a profile are not those of the run.
const SHARE: Ratio = Ratio(0.50);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let results = evidence.results;
    let of_timeline = results
        .represent()
        .into_iter()
        .flat_map(|represented| &represented.passes);
    let of_sums = results
        .summed()
        .into_iter()
        .flat_map(|summed| &summed.passes);
    let (mut is_known, mut drafts) = (false, Vec::new());
    for (pass, sums) in of_timeline.chain(of_sums) {
        let Some(share) = sums.share() else {
            continue;
        };
        is_known = true;
        if share < SHARE {
            drafts.push(draft(evidence, *pass, share));
        }
    }
    match is_known {
        true => Outcome::joined(drafts),
        false => Outcome::INSUFFICIENT_DATA,
    }
}

fn draft(evidence: &Evidence<'_>, pass: PassId, share: Ratio) -> Draft {
    let arguments = arguments! {
        share = share,
        pass = Inline::code(evidence.session.pass_name(pass)),
        unlike = unlike(evidence, pass).or_else(|| unlike_sum(evidence, pass)),
    };
    Draft::new(evidence.note_on_pass(pass), arguments)
}

const fn is_unlike(likeness: Likeness) -> bool {
    matches!(likeness, Likeness::Longer | Likeness::Shorter)
}

/// The launch unlike the timeline's that represents most time, and by how much it is longer or shorter, in words.
fn unlike(evidence: &Evidence<'_>, pass: PassId) -> Option<Vec<Inline>> {
    let results = evidence.results;
    let (counters, matching) = (results.counters().ok()?, results.matching().ok()?);
    // Those that represent most time come first.
    let mut launches = results.represent().ok()?.launches.iter();
    let launch = launches.find(|launch| {
        counters.launch(launch.profile).pass == pass && is_unlike(launch.likeness)
    })?;
    let summary = &matching.lines[launch.line?].summary;
    Some(say!(
        evidence,
        "unrepresentative_profile.unlike",
        kernel = Inline::code(&counters.launch(launch.profile).identity.short),
        share = launch.share.unwrap_or_default(),
        stage = Inline::Strong(summary.label(evidence.session, evidence.facts)),
        ratio = Quantity::new(launch.ratio?.0, Unit::One),
    ))
}

/// The same of a launch that is unlike the sums of its kernel.
fn unlike_sum(evidence: &Evidence<'_>, pass: PassId) -> Option<Vec<Inline>> {
    let results = evidence.results;
    let (counters, summed) = (results.counters().ok()?, results.summed().ok()?);
    let mut launches = summed.launches.iter();
    let launch = launches.find(|launch| {
        counters.launch(launch.profile).pass == pass && is_unlike(launch.likeness)
    })?;
    Some(say!(
        evidence,
        "unrepresentative_profile.unlike",
        kernel = Inline::code(&counters.launch(launch.profile).identity.short),
        share = launch.share?,
        stage = Inline::strong(evidence.session.pass_name(summed.pass)),
        ratio = Quantity::new(launch.ratio?.0, Unit::One),
    ))
}
