//! What bounds most of the GPU time of a stage, as far as counters tell.

use std::collections::BTreeMap;

use super::profiled::{self, Profiled};
use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, small_grids};
use rooflens_analysis::Classifier;
use rooflens_analysis::counters::ncu::bound::{Bound, Reason};
use rooflens_analysis::counters::roofline::workload::Sum;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_model::PassId;
use rooflens_schemas::Scope;

pub(super) static RULE: Rule = Rule {
    id: "profiled-bound",
    thresholds: &[
        Threshold::ratio("thresholds.bound_class", SHARE),
        Threshold::ratio("thresholds.counter_time", profiled::ENOUGH),
    ],
    run,
};

/// Share of a bound class in the time with counters from which on it speaks for it.
const SHARE: f64 = 0.5;

fn run(results: &Results<'_>) -> Outcome {
    let (context, known) = (results.context, results.context.results);
    let passes = known.ncu_kernels().map_or(&[][..], Vec::as_slice);
    let of_pass = passes.iter().map(|pass| (pass.pass, pass.shares(context.options.classifier)));
    let shares: Vec<_> = of_pass.filter(|(_, shares)| !shares.is_empty()).collect();
    if shares.is_empty() {
        return Outcome::lacks("kernels profiled with counters (an Nsight Compute pass)");
    }
    if known.workload().is_ok_and(|all| !all.phases(context.facts).is_empty()) {
        let needs = "counters of launches that stand for a quarter of a stage's GPU time, and kernels in the timeline one by one";
        return results.each_stage(needs, |stage| look(results, stage));
    }
    // Without a timeline only the profiled time itself can be weighed.
    let all = shares.iter().flat_map(|(pass, own)| own.iter().map(|one| (*pass, one.0, one.2)));
    let speaks = |(_, bound, share): &_| *bound != Bound::Unknown && *share >= SHARE;
    Outcome::of(all.filter(speaks).map(|one| of_pass_time(results, one)).collect())
}

fn of_pass_time(results: &Results<'_>, (pass, bound, share): (PassId, Bound, f64)) -> Observation {
    let name = results.context.session.pass_name(pass).to_owned();
    let class = bound.label().to_owned();
    let scope = Scope { pass: Some(name.clone()), class: Some(class.clone()), ..Scope::default() };
    Observation {
        title: name.clone(),
        scope,
        statement: prose![
            Quantity::ratio(share),
            " of the time profiled in pass ",
            Inline::Code(name),
            " is ",
            Inline::Strong(class),
            ". Without a timeline it is not known what part of the run that is."
        ],
        advice: advice(bound),
        evidence: results.profile_evidence(pass),
        ..Observation::default()
    }
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let Some(executed) = results.executed(stage) else { return Look::Lacks };
    let sums = executed.bounds(Classifier::Rooflens).into_iter();
    let share = |(bound, sum): (_, Sum)| (bound, sum.time as f64 / executed.time as f64);
    let mut shares: Vec<(Bound, f64)> = sums.map(share).filter(|(_, share)| *share > 0.0).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let covered: f64 = shares.iter().map(|(_, share)| share).sum();
    let Some((bound, share)) = shares.first().filter(|_| covered >= profiled::ENOUGH) else {
        return Look::Lacks;
    };
    if *bound == Bound::Unknown || *share < SHARE * covered {
        return Look::Clear;
    }
    if *bound == Bound::Latency && small_grids::holds(results, stage) {
        return Look::said_by(results, &small_grids::RULE);
    }
    Look::found(finding(results, stage, *bound, &shares, covered))
}

fn finding(
    results: &Results<'_>,
    stage: &StageLine,
    bound: Bound,
    shares: &[(Bound, f64)],
    covered: f64,
) -> Observation {
    let profiled = profiled::of_stage(results, stage);
    let mut statement = prose!["Of the GPU time of ", Inline::Strong(stage.label.clone())];
    for (number, (class, share)) in shares.iter().take(3).enumerate() {
        statement.extend(prose![
            if number == 0 { " " } else { ", " },
            Quantity::ratio(*share),
            if number == 0 { " is " } else { " " },
            Inline::Strong(class.label().to_owned())
        ]);
    }
    statement.push("; counters are of launches that stand for ".into());
    statement.extend(prose![Quantity::ratio(covered), " of it."]);
    if let Some((reason, share)) = reason(&profiled, bound) {
        statement.extend(prose![
            format!(" What is {} is so for ", bound.label()),
            Quantity::ratio(share),
            format!(" of its time by: {reason}.")
        ]);
    }
    Observation {
        statement,
        advice: advice(bound),
        evidence: profiled::evidence(results, stage, &profiled),
        ..stage.note()
    }
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
    let largest =
        reasons.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    largest.filter(|_| total > 0.0).map(|(reason, share)| (reason, share / total))
}

fn advice(bound: Bound) -> Option<Vec<Inline>> {
    Some(match bound {
        Bound::Latency => prose![
            "Give each launch more work (larger batch, fused kernels): neither units nor memory are busy."
        ],
        Bound::Compute => {
            prose!["A lower precision or fewer operations help; more bandwidth does not."]
        }
        Bound::Balanced => return None,
        _ => prose!["Move fewer bytes: fuse, quantize, reuse what caches hold."],
    })
}
