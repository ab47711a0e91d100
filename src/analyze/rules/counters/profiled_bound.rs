//! What bounds most of the GPU time of a stage, as far as counters tell.

use std::collections::BTreeMap;

use crate::profiled::{self, Profiled};
use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, Rule, Threshold, counters::small_grids};
use rooflens_analysis::Classifier;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::ncu::bound::{Bound, Reason};
use rooflens_analysis::counters::represent::summed::Summed;
use rooflens_analysis::counters::roofline::workload::Sum;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Scope;
use rooflens_session::{Arrange, PassId};

pub(crate) static RULE: Rule = Rule::new(
    "profiled-bound",
    &[
        Threshold::ratio("thresholds.bound_class", SHARE),
        Threshold::ratio("thresholds.counter_time", profiled::ENOUGH),
    ],
    run,
);

/// Share of a bound class in the time with counters from which on it speaks for it.
const SHARE: f64 = 0.5;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let (context, known) = (evidence.context, evidence.results);
    let passes = known.ncu_kernels().map_or(&[][..], Vec::as_slice);
    let of_pass = passes
        .iter()
        .map(|pass| (pass.pass, pass.shares(context.options.classifier)));
    let shares: Vec<_> = of_pass.filter(|(_, shares)| !shares.is_empty()).collect();
    if shares.is_empty() {
        return Outcome::InsufficientData(words!(evidence, "profiled_bound.needs"));
    }
    if known
        .workload()
        .is_ok_and(|all| !all.phases(context.facts).is_empty())
    {
        let needs = words!(evidence, "profiled_bound.needs_of_stage");
        return evidence.each_stage(&needs, |stage| look(evidence, stage));
    }
    if let (Ok(summed), Ok(counters)) = (known.summed(), known.counters()) {
        return of_sums(evidence, summed, counters);
    }
    // Without a timeline only the profiled time itself can be weighed.
    let all = shares
        .iter()
        .flat_map(|(pass, own)| own.iter().map(|one| (*pass, one.0, one.2)));
    let speaks = |(_, bound, share): &_| *bound != Bound::Unknown && *share >= SHARE;
    Outcome::of(
        all.filter(speaks)
            .map(|one| of_pass_time(evidence, one))
            .collect(),
    )
}

/// Of a run that is known by the sums of its kernels.
fn of_sums(evidence: &Evidence<'_>, summed: &Summed, counters: &Counters) -> Outcome {
    let covered = summed.covered();
    let shares = summed.bounds(counters, evidence.context.options.classifier);
    let Some((bound, share)) = shares.first().filter(|_| covered >= profiled::ENOUGH) else {
        return Outcome::InsufficientData(words!(evidence, "profiled_bound.needs_of_stage"));
    };
    if *bound == Bound::Unknown || *share < SHARE * covered {
        return Outcome::of(Vec::new());
    }
    let name = evidence.session.pass_name(summed.pass).to_owned();
    Outcome::Found(vec![Finding {
        title: name.clone(),
        scope: Scope {
            pass: Some(name.clone()),
            ..Scope::default()
        },
        statement: say!(
            evidence,
            "profiled_bound.statement",
            stage = Inline::Strong(name),
            share = Quantity::ratio(*share),
            class = Inline::strong(evidence.text.word(bound.label())),
            others = others(evidence, &shares),
            covered = Quantity::ratio(covered),
            bound = bound.label(),
            part = None::<Quantity>,
            reason = None::<String>,
        ),
        advice: advice(evidence, *bound),
        evidence: evidence.profile_evidence(counters.launch(summed.launches[0].profile).pass),
        ..Finding::default()
    }])
}

fn of_pass_time(evidence: &Evidence<'_>, (pass, bound, share): (PassId, Bound, f64)) -> Finding {
    let name = evidence.session.pass_name(pass).to_owned();
    let class = evidence.text.word(bound.label()).to_owned();
    let scope = Scope {
        pass: Some(name.clone()),
        class: Some(class.clone()),
        ..Scope::default()
    };
    Finding {
        title: name.clone(),
        scope,
        statement: say!(
            evidence,
            "profiled_bound.of_pass",
            share = Quantity::ratio(share),
            pass = Inline::Code(name),
            class = Inline::Strong(class),
        ),
        advice: advice(evidence, bound),
        evidence: evidence.profile_evidence(pass),
        ..Finding::default()
    }
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let Some(executed) = evidence.executed(stage) else {
        return Look::InsufficientData;
    };
    let sums = executed.bounds(Classifier::Rooflens).into_iter();
    let share = |(bound, sum): (_, Sum)| (bound, sum.time as f64 / executed.time as f64);
    let mut shares: Vec<(Bound, f64)> = sums.map(share).filter(|(_, share)| *share > 0.0).collect();
    shares.arrange_by(|a, b| b.1.total_cmp(&a.1));
    let covered: f64 = shares.iter().map(|(_, share)| share).sum();
    let Some((bound, share)) = shares.first().filter(|_| covered >= profiled::ENOUGH) else {
        return Look::InsufficientData;
    };
    if *bound == Bound::Unknown || *share < SHARE * covered {
        return Look::Passed;
    }
    if *bound == Bound::Latency && small_grids::holds(evidence, stage) {
        return Look::said_by(evidence, &small_grids::RULE);
    }
    Look::found(finding(evidence, stage, *bound, &shares, covered))
}

fn finding(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    bound: Bound,
    shares: &[(Bound, f64)],
    covered: f64,
) -> Finding {
    let profiled = profiled::of_stage(evidence, stage);
    let (reason, part) = reason(&profiled, bound).unzip();
    Finding {
        statement: say!(
            evidence,
            "profiled_bound.statement",
            stage = Inline::strong(&stage.label),
            share = shares.first().map(|(_, share)| Quantity::ratio(*share)),
            class = Inline::strong(evidence.text.word(bound.label())),
            others = others(evidence, shares),
            covered = Quantity::ratio(covered),
            bound = bound.label(),
            part = part.map(Quantity::ratio),
            reason = reason.map(ToString::to_string),
        ),
        advice: advice(evidence, bound),
        evidence: profiled::evidence(evidence, stage, &profiled),
        ..stage.note()
    }
}

/// The two classes after the first, in words.
fn others(evidence: &Evidence<'_>, shares: &[(Bound, f64)]) -> Vec<Inline> {
    let words = |(class, share): &(Bound, f64)| {
        let (share, class) = (
            Quantity::ratio(*share),
            Inline::strong(evidence.text.word(class.label())),
        );
        say!(
            evidence,
            "profiled_bound.other",
            share = share,
            class = class
        )
    };
    shares.iter().skip(1).take(2).flat_map(words).collect()
}

/// The reason that most of a class's time has, and its share of that.
fn reason<'a>(profiled: &'a [Profiled<'_>], bound: Bound) -> Option<(&'a Reason, f64)> {
    let own = || profiled.iter().filter(|one| one.verdict.bound == bound);
    let mut reasons = BTreeMap::<&Reason, f64>::new();
    for one in own() {
        if let Some(reason) = &one.verdict.reason {
            *reasons.entry(reason).or_default() += one.share;
        }
    }
    let total: f64 = own().map(|one| one.share).sum();
    let largest = reasons
        .into_iter()
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    largest
        .filter(|_| total > 0.0)
        .map(|(reason, share)| (reason, share / total))
}

fn advice(evidence: &Evidence<'_>, bound: Bound) -> Option<Vec<Inline>> {
    Some(match bound {
        Bound::Latency => say!(evidence, "profiled_bound.advice_latency"),
        Bound::Compute => say!(evidence, "profiled_bound.advice_compute"),
        Bound::Instruction => say!(evidence, "profiled_bound.advice_instruction"),
        Bound::Balanced => return None,
        _ => say!(evidence, "profiled_bound.advice_memory"),
    })
}
