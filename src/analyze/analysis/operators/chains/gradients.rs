//! Gradients that no optimizer uses.
//!
//! Backward goes from the loss to the inputs. What it runs after the last gradient of a parameter that an optimizer updates
//! serves parameters that stay as they are, such as those of a pretrained encoder. Parameters are known by their sizes
//! alone: one with the sizes of an updated parameter counts as updated.

use std::collections::BTreeMap;

use super::call::Call;
use super::{Chain, ChainKind, Example, Finder, sizes};
use rooflens_session::{Ns, ThreadId};
use rooflens_units::{Bytes, Time};
use rustc_hash::FxHashSet;

/// How PyTorch names the operators around a step of backward.
pub(super) const ENGINE: &str = "autograd::engine::";

/// The last step of backward for a parameter.
const ACCUMULATE: &str = "torch::autograd::AccumulateGrad";

/// The gradient of a parameter.
struct Gradient {
    thread: ThreadId,
    start: Ns,
    dims: Vec<u64>,
}

impl Gradient {
    fn elements(&self) -> u64 {
        self.dims
            .iter()
            .fold(1, |product, size| product.saturating_mul(*size))
    }
}

/// Kernels by the start of their operator, with their positions among the items.
type Started = Vec<(Ns, usize)>;

impl Finder<'_> {
    /// The kernels of backward after the last gradient that an optimizer uses, as one group per instance.
    pub(super) fn gradients(&mut self) {
        let updated = self.updated();
        if updated.is_empty() {
            return;
        }
        let gradients = self.all_gradients();
        let operators = &self.items.session.operators;
        let mut kernels: BTreeMap<(ThreadId, (u32, u32)), Started> = BTreeMap::new();
        for (position, item) in self.items.list.iter().enumerate() {
            if let Some(row) = item.operator.filter(|_| self.items.is_backward(position)) {
                let (thread, start) = (
                    operators.thread[row as usize],
                    operators.start[row as usize],
                );
                let of_instance = kernels.entry((thread, item.instance())).or_default();
                of_instance.push((start, position));
            }
        }
        let mut backwards: Vec<(ThreadId, Started)> = Vec::new();
        for ((thread, _), mut kernels) in kernels {
            kernels.sort_unstable();
            backwards.push((thread, kernels));
        }
        backwards.sort_unstable();
        for (number, (thread, kernels)) in backwards.iter().enumerate() {
            let next = backwards.get(number + 1);
            let end = next.filter(|(of_next, _)| of_next == thread);
            let end = end.map_or(Ns::MAX, |(_, kernels)| kernels[0].0);
            let before = |start: Ns| {
                gradients.partition_point(|gradient| {
                    (gradient.thread, gradient.start) < (*thread, start)
                })
            };
            let of_instance = &gradients[before(kernels[0].0)..before(end)];
            self.unused(&updated, of_instance, kernels);
        }
    }

    /// The part of one backward after the last gradient of an updated parameter, if it has all of them.
    fn unused(
        &mut self,
        updated: &FxHashSet<Vec<u64>>,
        gradients: &[Gradient],
        kernels: &[(Ns, usize)],
    ) {
        let is_updated = |gradient: &&Gradient| updated.contains(&gradient.dims);
        let used: Vec<_> = gradients.iter().filter(is_updated).collect();
        let has_all = updated
            .iter()
            .all(|dims| used.iter().any(|gradient| gradient.dims == *dims));
        let Some(last) = used.iter().map(|gradient| gradient.start).max() else {
            return;
        };
        let after = gradients.iter().filter(|gradient| gradient.start > last);
        let Some(largest) = after.max_by_key(|gradient| gradient.elements()) else {
            return;
        };
        let after = kernels.iter().filter(|(start, _)| *start > last);
        let mut positions: Vec<usize> = after.map(|(_, position)| *position).collect();
        positions.sort_unstable();
        if !has_all || positions.is_empty() {
            return;
        }
        let chain = Chain {
            kernels_left: 0.0,
            bound: self.roof.moving(Bytes::ZERO).map(|_| Time::ZERO),
            example: Example {
                sizes: sizes(&largest.dims),
                ..self.example(&positions)
            },
            ..self.chain(ChainKind::Gradients, positions)
        };
        self.add(chain);
    }

    /// Sizes of the tensors that steps of optimizers work on.
    fn updated(&self) -> FxHashSet<Vec<u64>> {
        let (_, of_steps) = self.steps();
        let mut updated = FxHashSet::default();
        for (_, position) in of_steps {
            let Some(call) = self.items.call(position) else {
                continue;
            };
            let single = call.tensors.first().filter(|_| call.list.is_empty());
            updated.extend(single.map(|tensor| tensor.dims.clone()));
            // A list of numbers of steps has no dimensions.
            let list = call.list.iter().filter(|dims| !dims.is_empty());
            updated.extend(list.cloned());
        }
        updated
    }

    /// The gradients of all parameters, by thread and start.
    fn all_gradients(&self) -> Vec<Gradient> {
        let session = self.items.session;
        let operators = &session.operators;
        let mut gradients = Vec::new();
        for row in 0..operators.len() {
            if session.text(operators.name[row]) != ACCUMULATE {
                continue;
            }
            let tensors = Call::new(session, row).tensors.into_iter();
            gradients.extend(tensors.take(1).map(|tensor| Gradient {
                thread: operators.thread[row],
                start: operators.start[row],
                dims: tensor.dims,
            }));
        }
        gradients.sort_by_key(|gradient| (gradient.thread, gradient.start));
        gradients
    }
}
