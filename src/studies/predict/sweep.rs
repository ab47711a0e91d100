//! Many points at once.

use rayon::prelude::*;
use rooflens_llm::Llm;

use crate::{Load, Machine, Plan, Precision, Prediction, Setup, predict};

/// Varied settings; the points are all combinations, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    /// GPUs.
    pub machines: Vec<Machine>,
    /// Formats of weights.
    pub weights: Vec<Precision>,
    /// GPUs that share each layer.
    pub tensor: Vec<u64>,
    /// Tokens of a prompt.
    pub prompts: Vec<u64>,
    /// Sequences at a time.
    pub batches: Vec<u64>,
}

/// A combination of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Index into the sweep's machines.
    pub machine: usize,
    /// How the model is stored and split.
    pub setup: Setup,
    /// Sequences and their lengths.
    pub load: Load,
    /// Its bounds; none if the GPU cannot multiply numbers of these formats.
    pub prediction: Option<Prediction>,
}

/// The bounds of all combinations, in parallel and in order.
pub fn sweep(llm: &Llm, sweep: &Sweep, setup: &Setup, output: u64) -> Vec<Point> {
    let mut splits = Vec::new();
    for index in 0..sweep.machines.len() {
        for weights in &sweep.weights {
            for tensor in &sweep.tensor {
                let setup = Setup {
                    weights: *weights,
                    tensor: *tensor,
                    ..*setup
                };
                splits.push((index, setup));
            }
        }
    }
    let loads = sweep.loads(output);
    let points = |(index, setup): &(usize, Setup)| {
        let machine = &sweep.machines[*index];
        let mut points = Vec::with_capacity(loads.len());
        for of_prompt in loads.chunk_by(|load, next| load.prompt == next.prompt) {
            let llm = llm.reading(of_prompt[0].prompt);
            let plan = Plan::new(&llm, machine, setup);
            for load in of_prompt {
                let plan = plan.as_ref();
                points.push(Point {
                    machine: *index,
                    setup: *setup,
                    load: *load,
                    prediction: plan.map(|plan| predict(plan, &llm, machine, setup, *load)),
                });
            }
        }
        points
    };
    splits.par_iter().flat_map_iter(points).collect()
}

impl Sweep {
    fn loads(&self, output: u64) -> Vec<Load> {
        let mut loads = Vec::new();
        for prompt in &self.prompts {
            for batch in &self.batches {
                loads.push(Load {
                    batch: *batch,
                    prompt: *prompt,
                    output,
                });
            }
        }
        loads
    }
}
