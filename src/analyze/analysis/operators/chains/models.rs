//! Calls of a model that may be needless: in a training step again before it goes backward, or in each iteration with the
//! same inputs.
//!
//! The capture program marks the calls of the outermost model with their sizes. Two of them with the same sizes that
//! launch the same GEMMs and attention, without backward between, may compute the same outputs: then one call is enough, and backward
//! goes through it once. Micro-batches of gradient accumulation have backward between them. Whether the inputs are equal
//! no trace shows, so these kernels stay in the groups of other kinds, too.
//!
//! A loop whose iterations call the model with the same sizes, next to the GEMMs of another network, may compute the same
//! outputs each time, such as those of a text encoder in a diffusion loop. A benchmark that calls one model again and again
//! has no other network.

use std::collections::BTreeMap;

use super::{Chain, ChainKind, Example, Finder};
use rooflens_session::{KernelId, Ns, ThreadId};
use rooflens_units::{Count, Ratio, Time};

/// Phase of calls that train.
const TRAIN: &str = "train";

/// GEMMs and attention of a call below which it is none of a model that is worth a look.
const KERNELS: usize = 16;

/// Iterations from which on calls of the same sizes are those of a loop.
const INSTANCES: usize = 3;

/// A call of the model in an instance.
struct ModelCall {
    row: usize,
    start: Ns,
    end: Ns,
    /// Positions of its kernels.
    kernels: Vec<usize>,
}

impl Finder<'_> {
    /// Kernels of all calls but the first, and their part of backward.
    pub(super) fn repeated_calls(&mut self) {
        let rows = self.model_calls(true);
        if rows.is_empty() {
            return;
        }
        for positions in self.instances().into_values() {
            let called = self.calls_of(&rows, &positions);
            if called.len() > 1 && self.is_repeated(&called, &positions) {
                self.add_calls(&called, &positions);
            }
        }
    }

    /// Kernels of the calls of a model with the same sizes in each iteration of a stage, next to another network. A program
    /// that trains reads new data in each step.
    pub(super) fn constant_calls(&mut self) {
        let rows = self.model_calls(false);
        if rows.is_empty() || !self.model_calls(true).is_empty() {
            return;
        }
        let mut places: BTreeMap<u32, Vec<Vec<ModelCall>>> = BTreeMap::new();
        for ((place, _), positions) in self.instances() {
            let called = self.calls_of(&rows, &positions);
            let of_calls = called.iter().map(|call| self.products(&call.kernels).len());
            let of_calls: usize = of_calls.sum();
            let others = self.products(&positions).len() - of_calls;
            let is_next_to_network = of_calls >= KERNELS && others >= KERNELS;
            let called = if is_next_to_network {
                called
            } else {
                Vec::new()
            };
            places.entry(place).or_default().push(called);
        }
        for instances in places.into_values() {
            let first = self.sizes(&instances[0]);
            let is_same = |called: &Vec<ModelCall>| self.sizes(called) == first;
            if !first.is_empty() && instances.len() >= INSTANCES && instances.iter().all(is_same) {
                for called in &instances {
                    self.add_constant(called);
                }
            }
        }
    }

    fn add_constant(&mut self, called: &[ModelCall]) {
        let kernels = called.iter().flat_map(|call| call.kernels.iter().copied());
        let chain = Chain {
            kernels_left: 0.0,
            bound: Some(Time::ZERO),
            example: Example {
                sizes: self.example_sizes(called[0].row),
                ..Example::default()
            },
            ..self.chain(ChainKind::Constant, kernels.collect())
        };
        self.chains.push(chain);
    }

    /// Calls that train, or that do not and compute sequences of more than a token, by thread and start.
    fn model_calls(&self, trains: bool) -> Vec<usize> {
        let calls = &self.items.session.model_calls;
        let is_of_kind = |row: &usize| {
            let of_training = self.items.session.text(calls.phase[*row]) == TRAIN;
            of_training == trains && (trains || calls.tokens[*row].is_some_and(|tokens| tokens > 1))
        };
        let mut rows: Vec<usize> = (0..calls.len()).filter(is_of_kind).collect();
        rows.sort_unstable_by_key(|row| (calls.thread[*row], calls.start[*row]));
        rows
    }

    /// Positions of the operations of each instance.
    pub(super) fn instances(&self) -> BTreeMap<(u32, u32), Vec<usize>> {
        let mut instances: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for (position, item) in self.items.list.iter().enumerate() {
            instances.entry(item.instance()).or_default().push(position);
        }
        instances
    }

    /// Batch, tokens and keys of calls.
    fn sizes(&self, called: &[ModelCall]) -> Vec<[Option<u64>; 3]> {
        let calls = &self.items.session.model_calls;
        let sizes = |call: &ModelCall| {
            [
                calls.batch[call.row],
                calls.tokens[call.row],
                calls.keys[call.row],
            ]
        };
        called.iter().map(sizes).collect()
    }

    /// GEMMs and attention, with their blocks.
    fn products(&self, positions: &[usize]) -> Vec<(KernelId, u64)> {
        let items = positions.iter().map(|position| self.items.list[*position]);
        let products = items.filter(|item| item.class.is_matrix_work());
        products.map(|item| (item.kernel, item.blocks)).collect()
    }

    /// Batch and tokens of a call.
    fn example_sizes(&self, row: usize) -> String {
        let calls = &self.items.session.model_calls;
        let sizes: Vec<u64> = [calls.batch[row], calls.tokens[row]]
            .into_iter()
            .flatten()
            .collect();
        super::sizes(&sizes)
    }

    /// The calls that launched kernels of an instance.
    fn calls_of(&self, rows: &[usize], positions: &[usize]) -> Vec<ModelCall> {
        let calls = &self.items.session.model_calls;
        let mut called: Vec<ModelCall> = Vec::new();
        for position in positions {
            let Some((thread, issued)) = self.items.list[*position].issued else {
                continue;
            };
            let before = rows
                .partition_point(|row| (calls.thread[*row], calls.start[*row]) <= (thread, issued));
            let row = before.checked_sub(1).map(|last| rows[last]);
            let is_inside = |row: &usize| calls.thread[*row] == thread && issued < calls.end[*row];
            let Some(row) = row.filter(is_inside) else {
                continue;
            };
            match called.iter_mut().rev().find(|call| call.row == row) {
                Some(call) => call.kernels.push(*position),
                None => called.push(ModelCall {
                    row,
                    start: calls.start[row],
                    end: calls.end[row],
                    kernels: vec![*position],
                }),
            }
        }
        called.sort_unstable_by_key(|call| call.start);
        called
    }

    /// Whether all calls have the same sizes, GEMMs and attention, and no other thread issues work between them. Autocast
    /// converts weights in the first call alone.
    fn is_repeated(&self, called: &[ModelCall], positions: &[usize]) -> bool {
        let calls = &self.items.session.model_calls;
        let (first, last) = (&called[0], &called[called.len() - 1]);
        let thread = calls.thread[first.row];
        let is_between = |(of_kernel, issued): (ThreadId, Ns)| {
            of_kernel != thread && first.end < issued && issued < last.start
        };
        let mut issued = positions
            .iter()
            .filter_map(|position| self.items.list[*position].issued);
        let (expected, sizes) = (self.products(&first.kernels), self.sizes(called));
        expected.len() >= KERNELS
            && sizes.iter().all(|of_call| *of_call == sizes[0])
            && called
                .iter()
                .all(|call| self.products(&call.kernels) == expected)
            && !issued.any(is_between)
    }

    fn add_calls(&mut self, called: &[ModelCall], positions: &[usize]) {
        let calls = &self.items.session.model_calls;
        let row = called[0].row;
        let example = Example {
            sizes: self.example_sizes(row),
            factor: Some(Count(called.len() as f64)),
            ..Example::default()
        };
        let repeated: Vec<usize> = called[1..]
            .iter()
            .flat_map(|call| call.kernels.iter().copied())
            .collect();
        let thread = calls.thread[row];
        let is_backward = |position: &usize| {
            let issued = self.items.list[*position].issued;
            issued.is_some_and(|(of_kernel, _)| of_kernel != thread)
        };
        let backward: Vec<usize> = positions.iter().copied().filter(is_backward).collect();
        let part = Ratio((called.len() - 1) as f64 / called.len() as f64);
        for (kernels, scale) in [(repeated, 1.0), (backward, part.0)] {
            let chain = Chain {
                scale,
                kernels_left: 0.0,
                bound: Some(Time::ZERO),
                example: example.clone(),
                ..self.chain(ChainKind::Calls, kernels)
            };
            self.chains.push(chain);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tests::chains;
    use super::super::{Group, Place};
    use super::*;

    /// Two calls of a model of 16 kernels of 10 µs, the second with these tokens, and backward of 200 µs before or after it.
    fn two_calls(tokens: u64, backward: i64) -> Place {
        let mut text = String::from("range step 0..900us\n");
        let mut gpu = 100;
        for (start, tokens) in [(0, 512), (200, tokens)] {
            text += &format!(
                "range rooflens:call train batch=16 tokens={tokens} keys=512 {start}us..{}us\n",
                start + 100
            );
            if start == 0 {
                // Autocast converts weights once.
                text += "launch 90us..91us -> direct_copy_kernel 90us..95us\n";
            }
            for number in 0..16 {
                let call = start + 5 * number;
                text += &format!(
                    "launch {call}us..{}us -> gemm {gpu}us..{}us\n",
                    call + 1,
                    gpu + 10
                );
                gpu += 10;
            }
        }
        let call = format!("{backward}us..{}us", backward + 1);
        text += &format!("thread 2\nlaunch {call} -> gemm {gpu}us..{}us", gpu + 200);
        // Operators with sizes make it a pass of operators.
        text += "\nthread 1\noperator aten::mm [[8,8],[8,8]] float 0us..1us";
        chains(&text).places[0].clone()
    }

    #[test]
    fn a_model_called_again_before_backward_may_do_the_same_work() {
        let place = two_calls(512, 400);
        let group = place.group(ChainKind::Calls).unwrap();
        // 160 µs of the second call, and half of backward.
        assert_eq!(group.saved(), Some(Time(260_000.0)));
        assert_eq!(group.example.factor, Some(Count(2.0)));
        assert_eq!(group.example.sizes, "16 × 512");
        // Other sizes, or backward between: a micro-batch.
        assert!(two_calls(256, 400).group(ChainKind::Calls).is_none());
        assert!(two_calls(512, 150).group(ChainKind::Calls).is_none());
    }

    /// Three steps that call a model of 16 GEMMs of 10 µs with these tokens, and launch so many GEMMs of another network.
    fn two_networks(tokens: [u64; 3], others: usize) -> Option<Group> {
        let mut text = String::new();
        for (step, tokens) in (0..).zip(tokens) {
            let start = 1000 * step;
            text += &format!("range step {start}us..{}us\n", start + 300);
            text += &format!(
                "range rooflens:call prefill batch=8 tokens={tokens} keys={tokens} {start}us..{}us\n",
                start + 100
            );
            for number in 0..16 + others as i64 {
                let call = start + 5 * number + if number < 16 { 0 } else { 50 };
                let gpu = start + 100 + 10 * number;
                text += &format!(
                    "launch {call}us..{}us -> gemm {gpu}us..{}us\n",
                    call + 1,
                    gpu + 10
                );
            }
        }
        text += "operator aten::mm [[8,8],[8,8]] float 0us..1us";
        chains(&text).places[0].group(ChainKind::Constant).cloned()
    }

    #[test]
    fn a_model_called_in_each_step_next_to_another_network_may_do_the_same_work() {
        let group = two_networks([256; 3], 16).unwrap();
        // 160 µs of each of three calls.
        assert_eq!(group.saved(), Some(Time(480_000.0)));
        assert_eq!(group.example.sizes, "8 × 256");
        // Without another network it may be a benchmark, and with other sizes the inputs differ.
        assert_eq!(two_networks([256; 3], 15), None);
        assert_eq!(two_networks([256, 256, 257], 16), None);
    }
}
