//! Batch sizes: where weights stop being the bound, what fits, what limits of latency allow.

use rooflens_llm::{Llm, Part, Shape};
use rooflens_units::Seconds;

use crate::{Load, Machine, Plan, Prediction, Setup, predict};

/// Beyond this no batch is looked for.
const MAX_BATCH: u64 = 1 << 20;

/// Limits of latency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Of the time to first token.
    pub ttft: Option<Seconds>,
    /// Of the time per output token.
    pub tpot: Option<Seconds>,
}

impl Limits {
    fn allow_ttft(&self, prediction: &Prediction) -> bool {
        self.ttft.is_none_or(|limit| prediction.ttft <= limit)
    }

    fn allow_tpot(&self, prediction: &Prediction) -> bool {
        match (self.tpot, prediction.tpot) {
            (None, _) => true,
            (Some(limit), Some(tpot)) => tpot <= limit,
            (Some(_), None) => false,
        }
    }
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
    let of_batch = |batch: u64| predict(plan, llm, machine, setup, Load { batch, ..load });
    let fits = of_batch(1).memory.fits / setup.pipeline.max(1);
    let largest = |is_allowed: &dyn Fn(&Prediction) -> bool| {
        last(fits.min(MAX_BATCH), |batch| is_allowed(&of_batch(batch)))
    };
    let by_ttft = |prediction: &Prediction| limits.allow_ttft(prediction);
    let by_tpot = |prediction: &Prediction| limits.allow_tpot(prediction);
    let recommended = largest(&|prediction| by_ttft(prediction) && by_tpot(prediction));
    Advice {
        ridge: ridge_batch(plan),
        fits,
        within_ttft: limits.ttft.map(|_| largest(&by_ttft)),
        within_tpot: limits.tpot.map(|_| largest(&by_tpot)),
        recommended: (recommended > 0).then(|| (recommended, of_batch(recommended))),
    }
}

/// The smallest batch at which a decode pass is compute-bound in its weights; none up to 2²⁰.
pub fn ridge_batch(plan: &Plan) -> Option<u64> {
    let last = last(MAX_BATCH, |batch| is_memory_bound(plan, batch));
    (last < MAX_BATCH).then_some(last + 1)
}

/// Whether a decode pass of this batch takes longer to read its weights than to compute with them.
fn is_memory_bound(plan: &Plan, batch: u64) -> bool {
    let pass = plan.pass(Shape {
        batch,
        new: 1,
        past: 0,
        logits: 1,
    });
    let (mut compute, mut memory) = (Seconds::ZERO, Seconds::ZERO);
    for part in [Part::Projections, Part::Mlp, Part::Experts, Part::Head] {
        compute += pass.part(part).compute;
        memory += pass.part(part).memory;
    }
    compute < memory
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
