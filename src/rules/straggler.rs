//! One rank computes longer than the others, which wait for it.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::lines::Line;
use rooflens_analysis::communication::speed::{BY_CLOCK, LowerClock};
use rooflens_analysis::communication::straggler::{IMBALANCE, Imbalance};
use rooflens_findings::{Inline, Observation, Quantity, prose};
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
        return Outcome::NotApplicable("one rank, and no collective in its timeline".to_owned());
    }
    if known.is_empty() {
        return Outcome::lacks("stages on several ranks: traces of all ranks in one bundle");
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
    let basis = "the slowest rank computes as long as the fastest";
    let base = match stage_line(results, ranks, slowest) {
        Some(line) => line.saving(times.most - times.least, basis),
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
    let by_clock = slowest.speed.lower_clock().map(by_clock);
    let (advice, next) = words(by_clock.is_some());
    let mut statement = prose![
        "In ",
        Inline::Strong(stage.to_owned()),
        format!(" rank {} computes for ", slowest.rank),
        Quantity::new(times.most, Unit::Nanoseconds),
        " of its ",
        Quantity::new(slowest.time, Unit::Nanoseconds),
        ", ",
        Quantity::new(imbalance, Unit::One),
        " times the mean of ",
        Quantity::count(times.ranks as u64),
        " ranks; the others wait for it in their collectives."
    ];
    statement.extend(by_clock.into_iter().flatten());
    Some(Observation {
        title: format!("{stage}, rank {}", slowest.rank),
        statement,
        advice: Some(advice),
        next,
        ..base
    })
}

/// That the rank does the same work at a lower clock, with the figures.
fn by_clock(lower: LowerClock) -> Vec<Inline> {
    let hertz = |clock| Quantity::new(clock, Unit::Hertz);
    let mut text = prose![
        " It runs the same kernels, but they take ",
        Quantity::new(lower.slowdown, Unit::One),
        " times as long, at an SM clock of ",
        hertz(lower.clocks.0),
        " on average, where the fastest rank has ",
        hertz(lower.clocks.1),
        ": the clock accounts for ",
        Quantity::ratio(lower.share),
        " of it."
    ];
    if let Some((reason, samples)) = lower.limit {
        text.extend(prose![
            " ",
            Inline::Code(reason.to_owned()),
            " was set in ",
            Quantity::ratio(samples),
            " of its samples."
        ]);
    }
    text
}

/// Advice, and what to capture next.
fn words(by_clock: bool) -> (Vec<Inline>, Option<Vec<Inline>>) {
    if by_clock {
        let advice = prose![
            "Look at what lowers the clock of this GPU (power limit, heat, a worse board), or give it less work: \
             tuning its kernels or its host would not help."
        ];
        return (advice, None);
    }
    let advice = prose![
        "Compare its work first (tokens, layers, experts), then its SM clock and its host: equal work at equal clocks \
         computes equally long."
    ];
    let next = prose![
        "NVML samples of all GPUs: a lower clock on one rank is a cause that no trace shows."
    ];
    (advice, Some(next))
}
