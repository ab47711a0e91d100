//! Calls of one model that a training step repeats before it goes backward.
//!
//! The capture program marks the calls of the outermost model with their sizes. Two of them with the same sizes that
//! launch the same GEMMs and attention, without backward between, may compute the same outputs: then one call is enough, and backward
//! goes through it once. Micro-batches of gradient accumulation have backward between them. Whether the inputs are equal
//! no trace shows, so these kernels stay in the groups of other kinds, too.

use std::collections::BTreeMap;

use super::{Chain, ChainKind, Example, Finder};
use rooflens_session::{KernelId, Ns, ThreadId};
use rooflens_units::{Count, Ratio, Time};

/// Phase of calls that train.
const TRAIN: &str = "train";

/// GEMMs and attention of a call below which it is none of a model that is worth a look.
const KERNELS: usize = 16;

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
        let calls = &self.items.session.model_calls;
        let train = |row: &usize| self.items.session.text(calls.phase[*row]) == TRAIN;
        let mut rows: Vec<usize> = (0..calls.len()).filter(train).collect();
        rows.sort_unstable_by_key(|row| (calls.thread[*row], calls.start[*row]));
        if rows.is_empty() {
            return;
        }
        let mut instances: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for (position, item) in self.items.list.iter().enumerate() {
            instances.entry(item.instance()).or_default().push(position);
        }
        for positions in instances.into_values() {
            let called = self.calls_of(&rows, &positions);
            if called.len() > 1 && self.is_repeated(&called, &positions) {
                self.add_calls(&called, &positions);
            }
        }
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
        let sizes = |row: usize| (calls.batch[row], calls.tokens[row], calls.keys[row]);
        let kernels = |call: &ModelCall| -> Vec<(KernelId, u64)> {
            let items = call.kernels.iter().map(|kernel| self.items.list[*kernel]);
            let products = items.filter(|item| item.class.is_matrix_work());
            products.map(|item| (item.kernel, item.blocks)).collect()
        };
        let (first, last) = (&called[0], &called[called.len() - 1]);
        let thread = calls.thread[first.row];
        let is_between = |(of_kernel, issued): (ThreadId, Ns)| {
            of_kernel != thread && first.end < issued && issued < last.start
        };
        let mut issued = positions
            .iter()
            .filter_map(|position| self.items.list[*position].issued);
        let expected = kernels(first);
        expected.len() >= KERNELS
            && called
                .iter()
                .all(|call| sizes(call.row) == sizes(first.row))
            && called.iter().all(|call| kernels(call) == expected)
            && !issued.any(is_between)
    }

    fn add_calls(&mut self, called: &[ModelCall], positions: &[usize]) {
        let calls = &self.items.session.model_calls;
        let row = called[0].row;
        let sizes = [calls.batch[row], calls.tokens[row]];
        let sizes: Vec<u64> = sizes.into_iter().flatten().collect();
        let example = Example {
            sizes: super::sizes(&sizes),
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
