//! Many points at once.

use rayon::prelude::*;
use rooflens_llm::Llm;

use crate::{Load, Machine, Plan, Precision, Prediction, Setup, predict};

/// What is varied; the points are all combinations, in this order.
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

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which of the sweep's machines.
    pub machine: usize,
    /// How the model is stored and split.
    pub setup: Setup,
    /// What is asked of it.
    pub load: Load,
    /// Its bounds; none if the GPU cannot multiply numbers of these formats.
    pub prediction: Option<Prediction>,
}

/// The bounds of all combinations, in parallel and in order.
pub fn sweep(llm: &Llm, of: &Sweep, setup: &Setup, output: u64) -> Vec<Point> {
    let mut plans = Vec::new();
    for (index, machine) in of.machines.iter().enumerate() {
        for weights in &of.weights {
            for tensor in &of.tensor {
                let setup = Setup {
                    weights: *weights,
                    tensor: *tensor,
                    ..*setup
                };
                plans.push((index, machine, setup, Plan::new(llm, machine, &setup)));
            }
        }
    }
    let loads = || {
        let batches = |prompt: &u64| {
            let prompt = *prompt;
            of.batches.iter().map(move |batch| Load {
                batch: *batch,
                prompt,
                output,
            })
        };
        of.prompts.iter().flat_map(batches)
    };
    let points = |(index, machine, setup, plan): &(usize, &Machine, Setup, Option<Plan>)| {
        let point = |load: Load| Point {
            machine: *index,
            setup: *setup,
            load,
            prediction: plan
                .as_ref()
                .map(|plan| predict(plan, llm, machine, setup, load)),
        };
        loads().map(point).collect::<Vec<Point>>()
    };
    plans.par_iter().flat_map_iter(points).collect()
}
