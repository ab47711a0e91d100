//! Where the time of an engine's steps goes, from a sweep alone.
//!
//! A step takes a + b·n for n generating requests, and p more for each prompt. Per answer with O tokens that is
//! O·(a + b·n) ÷ n + p, so at X answers per second three shares add up to 1:
//!
//! - **fixed**, a ÷ TPOT: weights and launches, which more requests share;
//! - **per request**, b·n ÷ TPOT: compute and reads of caches, which grow with the batch;
//! - **prefill**, X·p.
//!
//! Twice the requests then give 2 ÷ (2 − fixed) times the throughput: only the fixed share makes a larger batch worth it.
//! n is measured as answers per second × (latency − TTFT), by Little's law; a and b come from two loads of the sweep;
//! p is the TTFT of the sweep without a queue, less one step. That TTFT has the network in it, so X·p is at most what
//! leaves time for decode steps as long as at the least load.

use super::Results;
use super::figures::{Figures, Measure};
use rooflens_units::{Count, Ratio, Time};

/// Growth of the batch between two loads that shows how steps grow with it.
const GROWN: f64 = 1.5;

/// Shares of the time of steps at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// Does not depend on the batch.
    pub fixed: Ratio,
    /// Grows with the batch.
    pub per_request: Ratio,
    /// Prompts.
    pub prefill: Ratio,
}

/// Gain of throughput by twice the requests from which on more of them are worth it.
pub const WORTH: Ratio = Ratio(1.15);

impl Steps {
    /// Throughput with twice the requests at a time over that now.
    pub fn gain(&self) -> Ratio {
        Ratio(2.0 / (2.0 - self.fixed.0))
    }

    /// Whether a larger batch gives more throughput.
    pub fn has_room(&self) -> bool {
        self.gain() >= WORTH
    }

    /// The same steps without the share of prompts that is computed again.
    #[must_use]
    pub fn without_repeats(mut self, share: Ratio) -> Self {
        let repeated = Ratio(self.prefill.0 * share.0);
        self.prefill -= repeated;
        self.fixed += repeated;
        self
    }
}

/// The shares of a run's steps, if its sweep has a load with a clearly smaller batch.
pub fn of(results: &Results<'_>, run: usize) -> Option<Steps> {
    let sweep = results.sweep_of(run)?;
    let index = sweep.points.iter().position(|point| point.run == run)?;
    let figures = |index: usize| &results.figures[sweep.points[index].run];
    let prompt = Prompt::of(sweep.points.iter().map(|point| &results.figures[point.run]))?;
    let here = Decode::of(figures(index), &prompt)?;
    let smaller = (0..index).rev().find_map(|index| {
        let decode = Decode::of(figures(index), &prompt)?;
        (decode.batch * GROWN <= here.batch).then_some(decode)
    })?;
    let slope = (here.step - smaller.step) / (here.batch - smaller.batch);
    let growing = (slope.max(Time::ZERO) * here.batch).min(here.step);
    let share = |time: Time| Ratio(time / here.tpot);
    Some(Steps {
        fixed: share(here.step - growing),
        per_request: share(growing),
        prefill: here.prefill,
    })
}

/// Generating requests and their steps at one load.
struct Decode {
    batch: f64,
    tpot: Time,
    /// TPOT without the prompts of other requests.
    step: Time,
    prefill: Ratio,
}

/// Mean generating requests, by Little's law. A step has at least the request that it is a step of.
pub fn batch(figures: &Figures) -> Option<Count> {
    let rate = figures.request_rate?.0 / 1e9;
    let latency = figures.dist(Measure::Latency).spread.mean?;
    let ttft = figures.dist(Measure::Ttft).spread.mean?;
    Some(Count(((latency - ttft).0 * rate).max(1.0)))
}

impl Decode {
    fn of(figures: &Figures, prompt: &Prompt) -> Option<Self> {
        let tpot = figures.typical(Measure::Tpot).filter(Time::is_positive)?;
        let rate = figures.request_rate?.0 / 1e9;
        let most = (1.0 - prompt.step / tpot).max(0.0);
        let prefill = Ratio((prompt.time.0 * rate).clamp(0.0, most));
        Some(Self {
            batch: batch(figures)?.0,
            tpot,
            step: tpot * (1.0 - prefill.0),
            prefill,
        })
    }
}

/// What a sweep without a queue shows of prompts and steps.
struct Prompt {
    /// Time that a prompt adds to steps: the least median TTFT, less the least median TPOT.
    time: Time,
    /// The least median TPOT.
    step: Time,
}

impl Prompt {
    fn of<'a>(sweep: impl Iterator<Item = &'a Figures>) -> Option<Self> {
        let (mut ttfts, mut tpots) = (Vec::new(), Vec::new());
        for figures in sweep {
            ttfts.extend(figures.typical(Measure::Ttft));
            tpots.extend(figures.typical(Measure::Tpot));
        }
        let ttft = ttfts.into_iter().min_by(Time::total_cmp)?;
        let step = tpots.into_iter().min_by(Time::total_cmp)?;
        Some(Self {
            time: (ttft - step).max(Time::ZERO),
            step,
        })
    }
}
