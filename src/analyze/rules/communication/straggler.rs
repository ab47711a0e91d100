//! One rank computes longer than the others, which wait for it.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::lines::Line;
use rooflens_analysis::communication::speed::{BY_CLOCK, LowerClock};
use rooflens_analysis::communication::straggler::{IMBALANCE, Imbalance};
use rooflens_analysis::communication::work::WorkDifference;
use rooflens_analysis::system::power::samples::power_limit;
use rooflens_document::{Finding, Inline, Quantity, Root};
use rooflens_schemas::{Scope, Unit};

pub(crate) static RULE: Rule = Rule::new(
    "straggler",
    &[
        Threshold::one("thresholds.imbalance", IMBALANCE),
        Threshold::ratio("thresholds.by_clock", BY_CLOCK),
    ],
    run,
);

/// The ranks of a run, and their computing times in one stage.
type Stage<'a> = (&'a Ranks, &'a Imbalance);

fn run(evidence: &Evidence<'_>) -> Outcome {
    let runs = evidence
        .results
        .communication()
        .map_or(&[][..], |all| &all.runs);
    let all = runs
        .iter()
        .flat_map(|ranks| ranks.imbalances.iter().map(move |one| (ranks, one)));
    let known: Vec<Stage<'_>> = all
        .filter(|(ranks, one)| ranks.lines[one.slowest].stage.is_some() && one.ratio().is_some())
        .collect();
    if known.is_empty() && evidence.is_alone() {
        return Outcome::NotApplicable(words!(evidence, "straggler.one_rank"));
    }
    if known.is_empty() {
        return Outcome::InsufficientData(words!(evidence, "straggler.needs"));
    }
    // The primary pass tells; another one, such as that of single ranks, if it has no ranks.
    let is_primary = |(ranks, one): &Stage<'_>| {
        let name = |line: &Line| line.stage_name(&evidence.context);
        let stage = name(&ranks.lines[one.slowest]);
        let mut lines = ranks.lines.iter().filter(|line| name(line) == stage);
        lines.any(|line| stage_line(evidence, ranks, line).is_some())
    };
    let of_primary = known.iter().any(is_primary);
    let chosen = known.iter().filter(|one| !of_primary || is_primary(one));
    Outcome::of(chosen.filter_map(|one| finding(evidence, *one)).collect())
}

/// The stage of the primary pass that a line is of.
fn stage_line<'a>(evidence: &'a Evidence<'_>, ranks: &Ranks, line: &Line) -> Option<&'a StageLine> {
    let process = ranks.run.members[line.member].process;
    let mut stages = evidence.stages.iter();
    stages.find(|one| (Some(one.stage), one.process) == (line.stage, process))
}

fn finding(evidence: &Evidence<'_>, (ranks, times): Stage<'_>) -> Option<Finding> {
    times.is_uneven().then_some(())?;
    let slowest = &ranks.lines[times.slowest];
    let stage = slowest.stage_name(&evidence.context)?;
    let work = times.work.as_ref();
    let more = work.and_then(WorkDifference::more);
    // Work can be shared out, a slower GPU cannot.
    let (least, basis) = match more {
        Some(more) => (
            at_equal_work(times, more),
            words!(evidence, "straggler.basis_work"),
        ),
        None => (times.least, words!(evidence, "straggler.basis")),
    };
    let base = match stage_line(evidence, ranks, slowest) {
        Some(line) => line.saving(times.most - least, &basis),
        None => Finding {
            scope: Scope {
                pass: Some(ranks.run.name.clone()),
                stage: Some(stage.to_owned()),
                ..Scope::default()
            },
            evidence: evidence
                .stages
                .first()
                .map(StageLine::evidence)
                .into_iter()
                .collect(),
            ..Finding::default()
        },
    };
    let rank = slowest.rank.to_string();
    let by_clock = slowest
        .speed
        .lower_clock()
        .map(|lower| by_clock(evidence, lower, slowest.speed.gpu));
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    let next = || Some(say!(evidence, "straggler.next"));
    let (advice, next) = match by_clock {
        Some(_) => (say!(evidence, "straggler.advice_clock"), None),
        None if more.is_some() => (
            say!(evidence, "straggler.advice_work", least = time(least)),
            None,
        ),
        None if work.is_some_and(WorkDifference::is_equal) => {
            (say!(evidence, "straggler.advice_equal"), next())
        }
        None => (say!(evidence, "straggler.advice"), next()),
    };
    let rows = work.and_then(|work| work.rows).unzip();
    let operations = work.and_then(WorkDifference::more_operations).unzip();
    let prompt = evidence.session.workload.prompt_tokens;
    let sequences = |rows: Option<u64>| {
        let (rows, prompt) = rows.zip(prompt.filter(|prompt| *prompt > 0))?;
        (rows % prompt == 0).then(|| Quantity::count(rows / prompt))
    };
    let count = |value: f64| Quantity::new(value, Unit::Count);
    let root = root(
        evidence,
        slowest,
        &ranks.lines[times.fastest],
        work,
        sequences,
    );
    Some(Finding {
        root,
        title: words!(
            evidence,
            "straggler.title",
            stage = stage,
            rank = rank.as_str()
        ),
        statement: say!(
            evidence,
            "straggler.statement",
            stage = Inline::strong(stage),
            rank = rank,
            most = time(times.most),
            least = time(times.least),
            longer = (times.least > 0.0).then(|| Quantity::ratio(times.most / times.least - 1.0)),
            other = ranks.lines[times.fastest].rank.to_string(),
            ranks = (times.ranks > 2).then(|| Quantity::count(times.ranks as u64)),
            more = more.map(Quantity::ratio),
            rows = rows.0.map(Quantity::count),
            other_rows = rows.1.map(Quantity::count),
            sequences = sequences(rows.0),
            other_sequences = sequences(rows.1),
            prompt = prompt.map(Quantity::count),
            operations = operations.0.map(count),
            other_operations = operations.1.map(count),
            by_clock = by_clock,
        ),
        advice: Some(advice),
        next,
        ..base
    })
}

/// The least computing time of the slowest rank at equal work, nanoseconds: as much shorter as its share of the FLOPs, the other
/// ranks taken to have those of the fastest, or the mean of all, whichever is less. The fastest rank gets more work and so
/// does not become faster.
fn at_equal_work(times: &Imbalance, more: f64) -> f64 {
    let ranks = times.ranks.max(1) as f64;
    let part = (1.0 + (ranks - 1.0) / (1.0 + more)) / ranks;
    times.mean.min(times.most * part).max(times.least)
}

/// Why a rank is slower than the fastest one, and what to do about it: its clock, or else its work.
fn root(
    evidence: &Evidence<'_>,
    slowest: &Line,
    fastest: &Line,
    work: Option<&WorkDifference>,
    sequences: impl Fn(Option<u64>) -> Option<Quantity>,
) -> Option<Root> {
    let (rank, other) = (slowest.rank.to_string(), fastest.rank.to_string());
    if let Some(lower) = slowest.speed.lower_clock() {
        let hertz = |hertz| Quantity::new(hertz, Unit::Hertz);
        let limit = lower.limit.map(|(name, _)| name);
        return Some(Root {
            cause: words!(
                evidence,
                "straggler.root_clock",
                rank = rank.as_str(),
                clock = hertz(lower.clocks.0),
                fastest = hertz(lower.clocks.1),
                other = other,
                limit = limit,
            ),
            action: words!(
                evidence,
                "straggler.action_clock",
                rank = rank.as_str(),
                limit = limit,
            ),
            condition: Some(words!(evidence, "straggler.if_clock")),
            passes: 1,
        });
    }
    let (rows, other_rows) = work.filter(|work| work.more().is_some())?.rows?;
    let (own, others) = (sequences(Some(rows)), sequences(Some(other_rows)));
    let by_rows = (own.is_none() || others.is_none()).then(|| Quantity::count(rows));
    let (own, others) = (
        own.filter(|_| by_rows.is_none()),
        others.filter(|_| by_rows.is_none()),
    );
    let other_rows = Quantity::count(other_rows);
    Some(Root {
        cause: words!(
            evidence,
            "straggler.root_work",
            rank = rank.as_str(),
            sequences = own,
            other_sequences = others,
            rows = by_rows,
            other_rows = other_rows,
            other = other.as_str(),
        ),
        action: words!(
            evidence,
            "straggler.action_work",
            rank = rank,
            sequences = own,
            other_sequences = others,
            rows = by_rows,
            other_rows = other_rows,
            other = other,
        ),
        condition: None,
        passes: 1,
    })
}

/// Whether a lower clock of this GPU by this reason is what makes a straggler.
pub(crate) fn explains(evidence: &Evidence<'_>, gpu: u32, reason: &str) -> bool {
    let runs = evidence
        .results
        .communication()
        .map_or(&[][..], |all| &all.runs);
    let uneven = |ranks: &&Ranks| -> bool {
        let mut all = ranks.imbalances.iter().filter(|one| one.is_uneven());
        all.any(|one| {
            let speed = &ranks.lines[one.slowest].speed;
            let limit = speed.lower_clock().and_then(|clock| clock.limit);
            speed.gpu == Some(gpu) && limit.is_some_and(|(name, _)| name == reason)
        })
    };
    runs.iter().any(|ranks| uneven(&ranks))
}

/// That the rank does the same work at a lower clock, with the figures.
fn by_clock(evidence: &Evidence<'_>, lower: LowerClock, gpu: Option<u32>) -> Vec<Inline> {
    let (limit, samples) = lower.limit.unzip();
    let (own, other) = lower.power.unzip();
    let watts = |watts: f64| Quantity::new(watts, Unit::Watts);
    say!(
        evidence,
        "straggler.by_clock",
        slowdown = Quantity::new(lower.slowdown, Unit::One),
        clock = Quantity::new(lower.clocks.0, Unit::Hertz),
        fastest = Quantity::new(lower.clocks.1, Unit::Hertz),
        share = Quantity::ratio(lower.share),
        limit = limit.map(Inline::code),
        samples = samples.map(Quantity::ratio),
        power = own.map(watts),
        other_power = other.map(watts),
        power_limit = gpu
            .and_then(|gpu| power_limit(evidence.session, gpu))
            .map(watts),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_work_makes_no_rank_faster() {
        let times = |most, least, mean| Imbalance {
            ranks: 2,
            most,
            least,
            mean,
            ..Imbalance::default()
        };
        let equal = |times, expected: f64| {
            let least = at_equal_work(&times, 0.25);
            assert!((least - expected).abs() < 1e-9, "{least}");
        };
        // Of 10 and 8 sequences 9 each: 0.9 of 82.9 are 74.6, but the rank with 8 takes 75 already.
        equal(times(82.9, 75.0, 78.95), 75.0);
        equal(times(100.0, 80.0, 90.0), 90.0);
        // The mean of both is less than 0.9 of the slowest.
        equal(times(100.0, 70.0, 85.0), 85.0);
    }
}
