//! The class of bound that most of a stage's profiled time has.

use std::collections::BTreeMap;

use crate::counters::limits::SMALL_GRIDS;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled::{self, ENOUGH, Profiled};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::Classifier;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::ncu::bound::{Bound, Reason};
use rooflens_analysis::counters::represent::summed::Summed;
use rooflens_document::{Finding, Inline};
use rooflens_schemas::Scope;
use rooflens_session::{Arrange, PassId};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "profiled-bound",
    &[
        Threshold::ratio("thresholds.bound_class", SHARE),
        Threshold::ratio("thresholds.counter_time", ENOUGH),
    ],
    outcome,
)
.on_kernels();

/// Share of a bound class in the time with counters from which on it speaks for it.
const SHARE: Ratio = Ratio(0.5);

/// Classes with their shares, the largest first.
type Shares = [(Bound, Ratio)];

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let results = evidence.results;
    let classifier = evidence.context.options.classifier;
    let mut passes = Vec::new();
    for pass in results.ncu_kernels().into_iter().flatten() {
        let shares = pass.shares(classifier);
        if !shares.is_empty() {
            passes.push((pass.pass, shares));
        }
    }
    if passes.is_empty() {
        return Outcome::INSUFFICIENT_DATA;
    }
    let needs = || words!(evidence, "profiled_bound.needs_of_stage");
    if let Ok(workload) = results.workload()
        && !workload.phases(evidence.facts).is_empty()
    {
        return evidence
            .each_stage(|stage| look(evidence, stage))
            .or_needs(needs());
    }
    if let (Ok(summed), Ok(counters)) = (results.summed(), results.counters()) {
        return outcome_of_sums(evidence, summed, counters).or_needs(needs());
    }
    // Without a timeline only the profiled time itself can be weighed.
    let mut drafts = Vec::new();
    for (pass, shares) in passes {
        for (bound, _, share) in shares {
            if bound != Bound::Unknown && share >= SHARE {
                drafts.push(draft_of_pass(evidence, pass, bound, share));
            }
        }
    }
    Outcome::of_drafts(drafts)
}

/// The class that speaks for the covered time.
fn dominant(shares: &Shares, covered: Ratio) -> Option<Bound> {
    let (bound, share) = *shares.first()?;
    (bound != Bound::Unknown && share >= covered * SHARE.0).then_some(bound)
}

/// Of a run that is known by the sums of its kernels.
fn outcome_of_sums(evidence: &Evidence<'_>, summed: &Summed, counters: &Counters) -> Outcome {
    let covered = summed.covered();
    let shares = summed.bounds(counters, evidence.context.options.classifier);
    if shares.is_empty() || covered < ENOUGH {
        return Outcome::INSUFFICIENT_DATA;
    }
    let Some(bound) = dominant(&shares, covered) else {
        return Outcome::PASSED;
    };
    let name = evidence.session.pass_name(summed.pass).to_owned();
    let finding = Finding {
        title: name.clone(),
        scope: Scope {
            pass: Some(name.clone()),
            ..Scope::default()
        },
        evidence: evidence.profile_evidence(counters.launch(summed.launches[0].profile).pass),
        ..Finding::default()
    };
    Outcome::Found(vec![draft(
        evidence,
        finding,
        &name,
        bound,
        &shares,
        covered,
        &[],
    )])
}

fn draft_of_pass(evidence: &Evidence<'_>, pass: PassId, bound: Bound, share: Ratio) -> Draft {
    let name = evidence.session.pass_name(pass).to_owned();
    let class = evidence.text.word(bound.label()).to_owned();
    let note = evidence.note_on_pass(pass);
    let scope = Scope {
        class: Some(class.clone()),
        ..note.scope
    };
    let arguments = arguments! {
        share = share,
        pass = Inline::Code(name),
        class = Inline::Strong(class),
    };
    let draft = Draft::new(Finding { scope, ..note }, arguments);
    draft.statement("of_pass").advice(advice(bound))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let Some(executed) = evidence.executed(stage) else {
        return Look::InsufficientData;
    };
    let mut shares = Vec::new();
    for (bound, sum) in executed.bounds(Classifier::Rooflens) {
        let share = Ratio::of(sum.time, executed.time);
        if share.is_positive() {
            shares.push((bound, share));
        }
    }
    shares.arrange_by(|a, b| b.1.total_cmp(&a.1));
    let covered: Ratio = shares.iter().map(|(_, share)| share).sum();
    if shares.is_empty() || covered < ENOUGH {
        return Look::InsufficientData;
    }
    let Some(bound) = dominant(&shares, covered) else {
        return Look::Passed;
    };
    if bound == Bound::Latency && profiled::has_small_grids(evidence, stage) {
        return Look::suppressed_by(evidence, SMALL_GRIDS.id);
    }
    let profiled = profiled::of_stage(evidence, stage);
    let finding = Finding {
        evidence: profiled::evidence(evidence, stage, &profiled),
        ..stage.note()
    };
    draft(
        evidence,
        finding,
        stage.label(),
        bound,
        &shares,
        covered,
        &profiled,
    )
    .into()
}

fn draft(
    evidence: &Evidence<'_>,
    finding: Finding,
    label: &str,
    bound: Bound,
    shares: &Shares,
    covered: Ratio,
    profiled: &[Profiled<'_>],
) -> Draft {
    let (reason, part) = reason(profiled, bound).unzip();
    let arguments = arguments! {
        stage = Inline::strong(label),
        share = shares.first().map(|(_, share)| *share),
        class = Inline::strong(evidence.text.word(bound.label())),
        others = others(evidence, shares),
        covered = covered,
        bound = bound.label(),
        part = part,
        reason = reason.map(ToString::to_string),
    };
    Draft::new(finding, arguments).advice(advice(bound))
}

/// The two classes after the first, in words.
fn others(evidence: &Evidence<'_>, shares: &Shares) -> Vec<Inline> {
    let mut words = Vec::new();
    for (class, share) in shares.iter().skip(1).take(2) {
        let class = Inline::strong(evidence.text.word(class.label()));
        words.extend(say!(
            evidence,
            "profiled_bound.other",
            share = *share,
            class = class
        ));
    }
    words
}

/// The reason that most of a class's time has, and its share of that.
fn reason<'a>(profiled: &'a [Profiled<'_>], bound: Bound) -> Option<(&'a Reason, Ratio)> {
    let mut reasons = BTreeMap::<&Reason, Ratio>::new();
    let mut total = Ratio::ZERO;
    for kernel in profiled
        .iter()
        .filter(|kernel| kernel.verdict.bound == bound)
    {
        total += kernel.share;
        if let Some(reason) = &kernel.verdict.reason {
            *reasons.entry(reason).or_default() += kernel.share;
        }
    }
    let mut largest: Option<(&Reason, Ratio)> = None;
    for (reason, share) in reasons {
        if largest.is_none_or(|(_, most)| share > most) {
            largest = Some((reason, share));
        }
    }
    let (reason, share) = largest.filter(|_| total > Ratio::ZERO)?;
    Some((reason, Ratio::of(share, total)))
}

/// The key of the advice.
fn advice(bound: Bound) -> Option<&'static str> {
    match bound {
        Bound::Latency => Some("advice_latency"),
        Bound::Compute => Some("advice_compute"),
        Bound::Instruction => Some("advice_instruction"),
        Bound::Balanced => None,
        _ => Some("advice_memory"),
    }
}
