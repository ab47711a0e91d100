//! One rank computes longer than the others, which wait for it.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::imbalances::{RULE as ID, UnevenStage, uneven_stages};
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::communication::speed::{BY_CLOCK, LowerClock};
use rooflens_analysis::communication::straggler::{IMBALANCE, Imbalance};
use rooflens_analysis::communication::work::WorkDifference;
use rooflens_analysis::system::power::samples::power_limit;
use rooflens_document::{Finding, Inline, Quantity, Root};
use rooflens_schemas::{Scope, Unit};
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    ID,
    &[
        Threshold::number("thresholds.imbalance", IMBALANCE.0),
        Threshold::ratio("thresholds.by_clock", BY_CLOCK),
    ],
    outcome,
);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let mut stages = uneven_stages(evidence);
    stages.retain(|(ranks, imbalance)| {
        ranks.lines[imbalance.slowest].stage.is_some() && imbalance.ratio().is_some()
    });
    if stages.is_empty() && evidence.is_alone() {
        return Outcome::NotApplicable(words!(evidence, "straggler.one_rank"));
    }
    if stages.is_empty() {
        return Outcome::INSUFFICIENT_DATA;
    }
    // The primary pass tells; another one, such as that of single ranks, if it has no ranks.
    if stages.iter().any(|stage| is_primary(evidence, *stage)) {
        stages.retain(|stage| is_primary(evidence, *stage));
    }
    Outcome::of_drafts(
        stages
            .into_iter()
            .filter_map(|stage| draft(evidence, stage)),
    )
}

fn is_primary(evidence: &Evidence<'_>, (ranks, imbalance): UnevenStage<'_>) -> bool {
    let stage = ranks.lines[imbalance.slowest].stage_name(&evidence.context);
    ranks.lines.iter().any(|line| {
        line.stage_name(&evidence.context) == stage && stage_line(evidence, ranks, line).is_some()
    })
}

/// The stage of the primary pass that a line is of.
fn stage_line<'a>(
    evidence: &'a Evidence<'_>,
    ranks: &Ranks,
    line: &RankTimes,
) -> Option<&'a StageLine> {
    let process = ranks.run.members[line.member].process;
    let key = (line.stage?, process);
    evidence.stages.iter().find(|stage| stage.key() == key)
}

fn draft(evidence: &Evidence<'_>, (ranks, times): UnevenStage<'_>) -> Option<Draft> {
    if !times.is_uneven() {
        return None;
    }
    let (slowest, fastest) = (&ranks.lines[times.slowest], &ranks.lines[times.fastest]);
    let stage = slowest.stage_name(&evidence.context)?;
    let work = times.work.as_ref();
    let more = work.and_then(WorkDifference::more);
    let (most, shortest) = (times.most, times.least);
    // Work can be shared out, a slower GPU cannot.
    let (least, basis) = match more {
        Some(more) => (at_equal_work(times, more), "basis_work"),
        None => (shortest, "basis"),
    };
    let finding = match stage_line(evidence, ranks, slowest) {
        Some(line) => line.saving_behind_host(most - least),
        None => Finding {
            scope: Scope {
                pass: Some(ranks.run.name.clone()),
                stage: Some(stage.to_owned()),
                ..Scope::default()
            },
            evidence: evidence
                .stages
                .first()
                .into_iter()
                .map(StageLine::evidence)
                .collect(),
            ..Finding::default()
        },
    };
    let rank = slowest.rank.to_string();
    let title = words!(
        evidence,
        "straggler.title",
        stage = stage,
        rank = rank.as_str()
    );
    let lower_clock = slowest.speed.lower_clock();
    let rows = Rows::of(evidence, work);
    let operations = work.and_then(WorkDifference::more_operations).unzip();
    let longer = (shortest > Time::ZERO).then(|| Ratio(most / shortest - 1.0));
    let arguments = arguments! {
        stage = Inline::strong(stage),
        rank = rank,
        most = most,
        least = shortest,
        longer = longer,
        other = fastest.rank.to_string(),
        ranks = (times.ranks > 2).then(|| Quantity::count(times.ranks as u64)),
        more = more,
        rows = rows.rows.0,
        other_rows = rows.rows.1,
        sequences = rows.sequences.0,
        other_sequences = rows.sequences.1,
        prompt = evidence.session.workload.prompt_tokens.map(Quantity::count),
        operations = operations.0,
        other_operations = operations.1,
        by_clock = lower_clock.map(|lower| by_clock(evidence, lower, slowest.speed.gpu)),
    };
    let root = match lower_clock {
        Some(lower) => Some(clock_root(evidence, lower, slowest, fastest)),
        None if more.is_some() => work_root(evidence, &rows, slowest, fastest),
        None => None,
    };
    let draft = Draft::new(Finding { title, ..finding }, arguments)
        .basis(basis)
        .known_cause(root);
    let draft = match lower_clock {
        Some(lower) if !is_apart(lower) => draft.without_gain(),
        _ => draft,
    };
    Some(match lower_clock {
        Some(_) => draft.advice("advice_clock").next(None),
        None if more.is_some() => draft
            .advice(say!(
                evidence,
                "straggler.advice_work",
                least = least,
                mean = (times.ranks == 2 && times.mean > least).then_some(times.mean)
            ))
            .next(None),
        None if work.is_some_and(WorkDifference::is_equal) => draft.advice("advice_equal"),
        None => draft,
    })
}

/// The least computing time of the slowest rank at equal work: as much shorter as its share of the FLOPs, the other ranks
/// taken to have those of the fastest, or the mean of all, whichever is less. The fastest rank gets more work and so does
/// not become faster.
fn at_equal_work(times: &Imbalance, more: Ratio) -> Time {
    let ranks = times.ranks.max(1) as f64;
    let part = (1.0 + (ranks - 1.0) / (1.0 + more.0)) / ranks;
    times.mean.min(times.most * part).max(times.least)
}

/// Rows of the batch on the slowest and on the fastest rank, and sequences where rows are whole ones.
#[derive(Default)]
struct Rows {
    rows: (Option<Quantity>, Option<Quantity>),
    sequences: (Option<Quantity>, Option<Quantity>),
}

impl Rows {
    fn of(evidence: &Evidence<'_>, work: Option<&WorkDifference>) -> Self {
        let Some((slowest, fastest)) = work.and_then(|work| work.rows) else {
            return Self::default();
        };
        let prompt = evidence.session.workload.prompt_tokens.unwrap_or(0);
        let sequences = |rows: u64| {
            let is_whole = prompt > 0 && rows.is_multiple_of(prompt);
            is_whole.then(|| Quantity::count(rows / prompt))
        };
        Self {
            rows: (
                Some(Quantity::count(slowest)),
                Some(Quantity::count(fastest)),
            ),
            sequences: (sequences(slowest), sequences(fastest)),
        }
    }
}

/// A rank is slower than the fastest one by its clock.
fn clock_root(
    evidence: &Evidence<'_>,
    lower: LowerClock,
    slowest: &RankTimes,
    fastest: &RankTimes,
) -> Root {
    let rank = slowest.rank.to_string();
    let is_apart = is_apart(lower);
    let limit = lower.limit.map(|(name, _)| name).filter(|_| is_apart);
    let (power, other_power) = lower.power.filter(|_| !is_apart).unzip();
    Root {
        cause: words!(
            evidence,
            "straggler.root_clock",
            rank = rank.as_str(),
            clock = lower.clocks.0,
            fastest = lower.clocks.1,
            other = fastest.rank.to_string(),
            limit = limit,
            power = power,
            other_power = other_power,
        ),
        // The limit holds on both: more power at the same kernels can come from the data of the rank.
        action: match is_apart {
            true => words!(
                evidence,
                "straggler.action_clock",
                rank = rank,
                limit = limit
            ),
            false => words!(evidence, "straggler.action_swap", rank = rank),
        },
        condition: Some(match is_apart {
            true => words!(evidence, "straggler.if_clock"),
            false => words!(evidence, "straggler.if_swap"),
        }),
        passes: 1,
    }
}

/// A rank is slower than the fastest one by its work: in sequences where both have whole ones, else in rows.
fn work_root(
    evidence: &Evidence<'_>,
    rows: &Rows,
    slowest: &RankTimes,
    fastest: &RankTimes,
) -> Option<Root> {
    let (rank, other) = (slowest.rank.to_string(), fastest.rank.to_string());
    let other_rows = rows.rows.1?;
    let has_sequences = rows.sequences.0.is_some() && rows.sequences.1.is_some();
    let sequences = rows.sequences.0.filter(|_| has_sequences);
    let other_sequences = rows.sequences.1.filter(|_| has_sequences);
    let rows = rows.rows.0.filter(|_| !has_sequences);
    Some(Root {
        cause: words!(
            evidence,
            "straggler.root_work",
            rank = rank.as_str(),
            sequences = sequences,
            other_sequences = other_sequences,
            rows = rows,
            other_rows = other_rows,
            other = other.as_str(),
        ),
        action: words!(
            evidence,
            "straggler.action_work",
            rank = rank,
            sequences = sequences,
            other_sequences = other_sequences,
            rows = rows,
            other_rows = other_rows,
            other = other,
        ),
        condition: None,
        passes: 1,
    })
}

/// A reason of both ranks does not tell why one is slower: swapping the ranks shows whether the GPU or the data of the rank
/// lowers the clock, and saves nothing by itself.
fn is_apart(lower: LowerClock) -> bool {
    lower.other_limit.is_none_or(|other| other < SEPARATES)
}

/// Share of the samples of the fastest rank below which a reason that lowers clocks is one of the slowest rank alone.
const SEPARATES: Ratio = Ratio(0.5);

/// That the rank does the same work at a lower clock, with the figures.
fn by_clock(evidence: &Evidence<'_>, lower: LowerClock, gpu: Option<u32>) -> Vec<Inline> {
    let (limit, samples) = lower.limit.unzip();
    let (power, other_power) = lower.power.unzip();
    let power_limit = gpu.and_then(|gpu| power_limit(evidence.session, gpu));
    say!(
        evidence,
        "straggler.by_clock",
        slowdown = Quantity::new(lower.slowdown.0, Unit::One),
        clock = lower.clocks.0,
        fastest = lower.clocks.1,
        share = lower.share,
        limit = limit.map(Inline::code),
        samples = samples,
        other_samples = lower.other_limit,
        power = power,
        other_power = other_power,
        power_limit = power_limit,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_work_makes_no_rank_faster() {
        let times = |most, least, mean| Imbalance {
            ranks: 2,
            most: Time(most),
            least: Time(least),
            mean: Time(mean),
            ..Imbalance::default()
        };
        let equal = |times, expected: f64| {
            let least = at_equal_work(&times, Ratio(0.25));
            assert!((least.0 - expected).abs() < 1e-9, "{least:?}");
        };
        // Of 10 and 8 sequences 9 each: 0.9 of 82.9 are 74.6, but the rank with 8 takes 75 already.
        equal(times(82.9, 75.0, 78.95), 75.0);
        equal(times(100.0, 80.0, 90.0), 90.0);
        // The mean of both is less than 0.9 of the slowest.
        equal(times(100.0, 70.0, 85.0), 85.0);
    }
}
