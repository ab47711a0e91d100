//! One rank computes longer than the others, which wait for it.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::lines::Line;
use rooflens_analysis::communication::speed::{BY_CLOCK, LowerClock};
use rooflens_analysis::communication::straggler::{IMBALANCE, Imbalance};
use rooflens_findings::{Inline, Observation, Quantity};
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "straggler",
    thresholds: &[
        Threshold::one("thresholds.imbalance", IMBALANCE),
        Threshold::ratio("thresholds.by_clock", BY_CLOCK),
    ],
    run,
};

/// The ranks of a run, and their computing times in one stage.
type Stage<'a> = (&'a Ranks, &'a Imbalance);

fn run(results: &Results<'_>) -> Outcome {
    let runs = results.context.results.communication().map_or(&[][..], |all| &all.runs);
    let all = runs.iter().flat_map(|ranks| ranks.imbalances.iter().map(move |one| (ranks, one)));
    let known: Vec<Stage<'_>> = all
        .filter(|(ranks, one)| ranks.lines[one.slowest].stage.is_some() && one.ratio().is_some())
        .collect();
    if known.is_empty() && results.is_alone() {
        return Outcome::NotApplicable(words!(results, "straggler.one_rank"));
    }
    if known.is_empty() {
        return Outcome::Abstained(words!(results, "straggler.needs"));
    }
    // The primary pass tells; another one, such as that of single ranks, if it has no ranks.
    let is_primary = |(ranks, one): &Stage<'_>| {
        let name = |line: &Line| line.stage_name(&results.context);
        let stage = name(&ranks.lines[one.slowest]);
        let mut lines = ranks.lines.iter().filter(|line| name(line) == stage);
        lines.any(|line| stage_line(results, ranks, line).is_some())
    };
    let of_primary = known.iter().any(is_primary);
    let chosen = known.iter().filter(|one| !of_primary || is_primary(one));
    Outcome::of(chosen.filter_map(|one| finding(results, *one)).collect())
}

/// The stage of the primary pass that a line is of.
fn stage_line<'a>(results: &'a Results<'_>, ranks: &Ranks, line: &Line) -> Option<&'a StageLine> {
    let process = ranks.run.members[line.member].process;
    let mut stages = results.stages.iter();
    stages.find(|one| (Some(one.stage), one.process) == (line.stage, process))
}

fn finding(results: &Results<'_>, (ranks, times): Stage<'_>) -> Option<Observation> {
    let imbalance = times.ratio().filter(|_| times.is_uneven())?;
    let slowest = &ranks.lines[times.slowest];
    let stage = slowest.stage_name(&results.context)?;
    let base = match stage_line(results, ranks, slowest) {
        Some(line) => line.saving(times.most - times.least, &words!(results, "straggler.basis")),
        None => Observation {
            scope: Scope {
                pass: Some(ranks.run.name.clone()),
                stage: Some(stage.to_owned()),
                ..Scope::default()
            },
            evidence: results.stages.first().map(StageLine::evidence).into_iter().collect(),
            ..Observation::default()
        },
    };
    let rank = slowest.rank.to_string();
    let by_clock = slowest.speed.lower_clock().map(|lower| by_clock(results, lower));
    let (advice, next) = match by_clock {
        Some(_) => (say!(results, "straggler.advice_clock"), None),
        None => (say!(results, "straggler.advice"), Some(say!(results, "straggler.next"))),
    };
    Some(Observation {
        title: words!(results, "straggler.title", stage = stage, rank = rank.as_str()),
        statement: say!(
            results,
            "straggler.statement",
            stage = Inline::strong(stage),
            rank = rank,
            most = Quantity::new(times.most, Unit::Nanoseconds),
            time = Quantity::new(slowest.time, Unit::Nanoseconds),
            imbalance = Quantity::new(imbalance, Unit::One),
            ranks = Quantity::count(times.ranks as u64),
            by_clock = by_clock,
        ),
        advice: Some(advice),
        next,
        ..base
    })
}

/// That the rank does the same work at a lower clock, with the figures.
fn by_clock(results: &Results<'_>, lower: LowerClock) -> Vec<Inline> {
    let (limit, samples) = lower.limit.unzip();
    say!(
        results,
        "straggler.by_clock",
        slowdown = Quantity::new(lower.slowdown, Unit::One),
        clock = Quantity::new(lower.clocks.0, Unit::Hertz),
        fastest = Quantity::new(lower.clocks.1, Unit::Hertz),
        share = Quantity::ratio(lower.share),
        limit = limit.map(Inline::code),
        samples = samples.map(Quantity::ratio),
    )
}
