//! Which rank the others wait for, and why: in one stage the one that computes longest; over the run the one that comes
//! last again and again, because it computes longer, or is idle longer.

use super::Ranks;
use super::calls::Run;
use super::lines::RankTimes;
use super::speed::LowerClock;
use super::work::WorkDifference;
use crate::Context;
use crate::engine::intervals::total;
use rooflens_session::Ns;
use rooflens_stats::median;
use rooflens_units::{Ratio, Time};

/// Longest ÷ mean computing time of the ranks from which on one of them is a straggler of a stage.
pub const IMBALANCE: Ratio = Ratio(1.05);

/// Ranks of which a balance is reported at least.
const MIN_RANKS: usize = 2;

/// Collectives that a straggler is distinguished from at least.
const MIN_COLLECTIVES: u64 = 8;

/// Chance with which equal ranks would come last so often, over all ranks, below which one is a straggler.
pub const CHANCE: Ratio = Ratio(1e-3);

/// A difference below this share of the others' is none.
const DIFFERENCE: Ratio = Ratio(0.02);

/// The computing times of the ranks in one stage, or in the whole pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imbalance {
    /// Ranks that run it, two or more.
    pub ranks: usize,
    /// RankTimes of the rank that computes longest.
    pub slowest: usize,
    /// RankTimes of the rank that computes shortest.
    pub fastest: usize,
    /// Longest computing time.
    pub most: Time,
    /// Shortest computing time.
    pub least: Time,
    /// Mean computing time.
    pub mean: Time,
    /// The work of the slowest rank against that of the fastest.
    pub work: Option<WorkDifference>,
}

/// The rank that comes last again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// Member of the run.
    pub member: usize,
    /// Collectives of all ranks in which it came last.
    pub last: u64,
    /// Collectives in which one rank came last.
    pub of: u64,
    /// Chance of that if ranks came last at random.
    pub chance: Ratio,
    /// What the other ranks waited in the collectives of the whole pass, on average.
    pub waited: Ns,
    /// What sets it apart.
    pub cause: Option<Cause>,
}

/// What sets a rank apart from the median of the others, in the stage with the most communication.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Name of the stage; none for the whole pass.
    pub stage: Option<String>,
    /// Computing time of the rank and of the others.
    pub compute: (Time, Time),
    /// Idle time of the rank and of the others.
    pub idle: (Time, Time),
    /// The larger of the two.
    pub reason: Reason,
}

/// The largest difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// It computes longer, in other kernels or grids, or in more of them.
    MoreWork,
    /// The same kernels take this many times as long as on the rank that computes shortest.
    SlowerKernels(Ratio),
    /// So they do, and the clock is lower.
    LowerClock(LowerClock),
    /// The host keeps it waiting longer.
    MoreIdle,
    /// Nothing that the artifact shows.
    Unknown,
}

/// The balance of each stage with several ranks, in the order of the lines.
pub(super) fn imbalances(context: &Context<'_>, run: &Run, lines: &[RankTimes]) -> Vec<Imbalance> {
    let mut by_stage: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let name = line.stage_name(context);
        match by_stage.iter_mut().find(|(its, _)| *its == name) {
            Some((_, own)) => own.push(at),
            None => by_stage.push((name, vec![at])),
        }
    }
    let several = by_stage
        .into_iter()
        .filter(|(_, own)| own.len() >= MIN_RANKS);
    several
        .filter_map(|(_, own)| Imbalance::of(context, run, lines, &own))
        .collect()
}

impl Imbalance {
    fn of(context: &Context<'_>, run: &Run, lines: &[RankTimes], own: &[usize]) -> Option<Self> {
        let compute = |index: &usize| lines[*index].compute;
        let slowest = *own
            .iter()
            .max_by(|a, b| compute(a).total_cmp(&compute(b)))?;
        let fastest = *own
            .iter()
            .min_by(|a, b| compute(a).total_cmp(&compute(b)))?;
        let mean = own.iter().map(compute).sum::<Time>() / own.len() as f64;
        let (most, least) = (compute(&slowest), compute(&fastest));
        let work = WorkDifference::of(context, run, &lines[slowest], &lines[fastest]);
        Some(Self {
            ranks: own.len(),
            slowest,
            fastest,
            most,
            least,
            mean,
            work,
        })
    }

    /// Longest ÷ mean computing time; absent where no rank computes.
    pub fn ratio(&self) -> Option<Ratio> {
        (self.mean > Time::ZERO).then(|| Ratio(self.most / self.mean))
    }

    /// Whether a rank computes so much shorter than the slowest one that it waits for it.
    pub fn waits(&self, line: &RankTimes) -> bool {
        line.compute * (1.0 + DIFFERENCE.0) < self.most
    }

    /// Whether the slowest rank is a straggler.
    pub fn is_uneven(&self) -> bool {
        self.ratio() >= Some(IMBALANCE)
    }
}

/// The rank that came last more often than chance explains, and why.
pub(super) fn find(context: &Context<'_>, ranks: &Ranks) -> Option<Straggler> {
    let mut straggler = last_by_chance(&ranks.last)?;
    let is_other = |line: &&RankTimes| line.stage.is_none() && line.member != straggler.member;
    let waits: Vec<Ns> = ranks
        .lines
        .iter()
        .filter(is_other)
        .map(|line| line.sum.wait)
        .collect();
    straggler.waited = total(waits.iter().copied()) / (waits.len().max(1) as i64);
    straggler.cause = cause(context, &ranks.lines, straggler.member);
    Some(straggler)
}

/// The member that came last in more of the collectives than chance explains; who waited and why is not known yet.
fn last_by_chance(last: &[u64]) -> Option<Straggler> {
    let of: u64 = last.iter().sum();
    let (member, most) = last
        .iter()
        .copied()
        .enumerate()
        .max_by_key(|(at, n)| (*n, std::cmp::Reverse(*at)))?;
    let of_one = upper_tail(of, most, Ratio(1.0 / last.len() as f64));
    let chance = (last.len() as f64 * of_one).min(Ratio::ONE);
    let straggler = Straggler {
        member,
        last: most,
        of,
        chance,
        waited: Ns::ZERO,
        cause: None,
    };
    (of >= MIN_COLLECTIVES && chance < CHANCE).then_some(straggler)
}

/// P(X ≥ k) of a binomial distribution.
fn upper_tail(n: u64, k: u64, p: Ratio) -> Ratio {
    let ln_factorial = |n: u64| libm::lgamma(n as f64 + 1.0);
    let term = |i: u64| {
        let ln = ln_factorial(n) - ln_factorial(i) - ln_factorial(n - i)
            + i as f64 * libm::log(p.0)
            + (n - i) as f64 * libm::log(p.rest().0);
        Ratio(libm::exp(ln))
    };
    if p >= Ratio::ONE {
        Ratio::ONE
    } else {
        (k..=n).map(term).sum()
    }
}

/// Compares a member with the others in the stage with the most communication.
fn cause(context: &Context<'_>, lines: &[RankTimes], member: usize) -> Option<Cause> {
    let stage = main_stage(context, lines);
    let same: Vec<&RankTimes> = lines
        .iter()
        .filter(|line| line.stage_name(context) == stage)
        .collect();
    let member_line = same.iter().find(|line| line.member == member)?;
    let median_of_others = |value: &dyn Fn(&RankTimes) -> Time| {
        let values: Vec<f64> = same
            .iter()
            .filter(|line| line.member != member)
            .map(|line| value(line).0)
            .collect();
        median(&values).map(Time)
    };
    let compute = (member_line.compute, median_of_others(&|line| line.compute)?);
    let idle = (member_line.idle, median_of_others(&|line| line.idle)?);
    let (longer, waits) = (compute.0 - compute.1, idle.0 - idle.1);
    let reason = if longer >= waits && longer > compute.1 * DIFFERENCE {
        of_longer_computing(member_line)
    } else if waits > member_line.time * DIFFERENCE {
        Reason::MoreIdle
    } else {
        Reason::Unknown
    };
    Some(Cause {
        stage: stage.map(str::to_owned),
        compute,
        idle,
        reason,
    })
}

/// The outermost stage whose ranks communicate longest; none, the whole pass, where no stage does.
fn main_stage<'a>(context: &Context<'a>, lines: &[RankTimes]) -> Option<&'a str> {
    let outermost = |stage: usize| context.facts.stages[stage].parent.is_none();
    let stages = lines
        .iter()
        .filter(|line| line.stage.is_some_and(outermost) && line.sum.calls > 0);
    let longest =
        stages.max_by_key(|line| (line.sum.parts.communication, std::cmp::Reverse(line.stage)));
    longest?.stage_name(context)
}

/// Why a rank computes longer: the same kernels are slower, or else there is more work.
fn of_longer_computing(line: &RankTimes) -> Reason {
    match line
        .speed
        .slowdown
        .filter(|slowdown| *slowdown > Ratio::ONE + DIFFERENCE)
    {
        None => Reason::MoreWork,
        Some(slowdown) => {
            let clock = line.speed.lower_clock();
            clock.map_or(Reason::SlowerKernels(slowdown), Reason::LowerClock)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straggler_comes_last_more_often_than_chance_explains() {
        // P(X ≥ 8 of 8) = 2⁻⁸, twice that for two ranks: 0.0078, not below 0.001; of 12: 2 · 2⁻¹².
        assert_eq!(last_by_chance(&[0, 8]), None);
        let found = last_by_chance(&[0, 12]).expect("12 of 12");
        assert_eq!((found.member, found.last, found.of), (1, 12, 12));
        assert!((found.chance.0 - 2.0 / 4096.0).abs() < 1e-12);
        assert_eq!(last_by_chance(&[30, 33]), None);
        assert_eq!(last_by_chance(&[]), None);
    }
}
