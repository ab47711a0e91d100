//! Batch sizes: where weights stop being the bound, what fits, what limits of latency allow.

use rooflens_llm::{Llm, Part, Shape};

use crate::{Load, Machine, Plan, Prediction, Setup, predict};

/// Beyond this no batch is looked for.
const MAX_BATCH: u64 = 1 << 20;

/// Limits of latency, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Of the time to first token.
    pub ttft: Option<f64>,
    /// Of the time per output token.
    pub tpot: Option<f64>,
}

/// Batch sizes that come into question.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Smallest batch from which on a decode pass takes longer to compute with its weights than to read them.
    pub ridge: Option<u64>,
    /// Largest batch that fits into memory; 0 if the weights do not.
    pub fits: u64,
    /// Largest batch that fits and whose prompts are prefilled together within the limit of TTFT.
    pub within_ttft: Option<u64>,
    /// Largest batch that fits and decodes within the limit of TPOT.
    pub within_tpot: Option<u64>,
    /// The largest within all limits, and its bounds; none if not one sequence is.
    pub recommended: Option<(u64, Prediction)>,
}

/// Batch sizes for prompts and outputs of this length.
pub fn advise(
    plan: &Plan,
    llm: &Llm,
    machine: &Machine,
    setup: &Setup,
    (load, limits): (Load, Limits),
) -> Advice {
    let at = |batch: u64| predict(plan, llm, machine, setup, Load { batch, ..load });
    let fits = at(1).memory.fits / setup.pipeline.max(1);
    let largest =
        |holds: &dyn Fn(&Prediction) -> bool| last(fits.min(MAX_BATCH), |batch| holds(&at(batch)));
    let by_ttft = |of: &Prediction| limits.ttft.is_none_or(|limit| of.ttft <= limit);
    let by_tpot = |of: &Prediction| {
        limits
            .tpot
            .is_none_or(|limit| of.tpot.is_some_and(|tpot| tpot <= limit))
    };
    let recommended = largest(&|of| by_ttft(of) && by_tpot(of));
    Advice {
        ridge: ridge_batch(plan),
        fits,
        within_ttft: limits.ttft.map(|_| largest(&by_ttft)),
        within_tpot: limits.tpot.map(|_| largest(&by_tpot)),
        recommended: (recommended > 0).then(|| (recommended, at(recommended))),
    }
}

/// The smallest batch at which a decode pass is compute-bound in its weights; none up to 2²⁰.
pub fn ridge_batch(plan: &Plan) -> Option<u64> {
    let memory_bound = |batch: u64| {
        let pass = plan.pass(Shape {
            batch,
            new: 1,
            past: 0,
            logits: 1,
        });
        let parts = [Part::Projections, Part::Mlp, Part::Experts, Part::Head];
        let (compute, memory) = parts
            .map(|part| pass.part(part))
            .iter()
            .fold((0.0, 0.0), |(compute, memory), cost| {
                (compute + cost.compute, memory + cost.memory)
            });
        compute < memory
    };
    let last = last(MAX_BATCH, memory_bound);
    (last < MAX_BATCH).then_some(last + 1)
}

/// The last of 1 to `most` that holds, where all up to it hold; 0 if none does.
fn last(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut good, mut bad) = (0, most.saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}
