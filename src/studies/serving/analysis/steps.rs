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
//! p is the TTFT of the sweep without a queue, less one step.

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
}

/// The shares of a run's steps, if its sweep has a load with a clearly smaller batch.
pub fn of(results: &Results<'_>, run: usize) -> Option<Steps> {
    let sweep = results.sweep_of(run)?;
    let index = sweep.points.iter().position(|point| point.run == run)?;
    let figures = |index: usize| &results.figures[sweep.points[index].run];
    let prompt = prompt(sweep.points.iter().map(|point| &results.figures[point.run]))?;
    let here = Decode::of(figures(index), prompt)?;
    let smaller = (0..index).rev().find_map(|index| {
        let decode = Decode::of(figures(index), prompt)?;
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
    fn of(figures: &Figures, prompt: Time) -> Option<Self> {
        let tpot = figures.typical(Measure::Tpot).filter(Time::is_positive)?;
        let rate = figures.request_rate?.0 / 1e9;
        let prefill = Ratio((prompt.0 * rate).clamp(0.0, 1.0));
        Some(Self {
            batch: batch(figures)?.0,
            tpot,
            step: tpot * (1.0 - prefill.0),
            prefill,
        })
    }
}

/// Time that a prompt adds to steps: the least median TTFT of a sweep, less the least median TPOT.
fn prompt<'a>(sweep: impl Iterator<Item = &'a Figures>) -> Option<Time> {
    let (mut ttft, mut tpot): (Option<Time>, Option<Time>) = (None, None);
    let least = |least: Option<Time>, time: Option<Time>| match (least, time) {
        (Some(least), Some(time)) => Some(least.min(time)),
        (least, time) => least.or(time),
    };
    for figures in sweep {
        ttft = least(ttft, figures.typical(Measure::Ttft));
        tpot = least(tpot, figures.typical(Measure::Tpot));
    }
    Some((ttft? - tpot?).max(Time::ZERO))
}
