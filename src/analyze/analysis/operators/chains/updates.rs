//! Updates of many small tensors, and sums into few rows.

use super::{Chain, ChainKind, Example, Finder, sizes};
use crate::engine::classify::KernelClass;
use crate::engine::nesting::innermost;
use rooflens_session::{Ns, ThreadId};
use rooflens_units::{Bytes, Count, Ratio, Time};

/// How PyTorch names the range of an optimizer step.
const STEP: &str = "Optimizer.step#";

/// Kernels of a step below which an optimizer has no loop over parameters.
const LAUNCHES: usize = 48;

/// Share of the kernels of a step that update several tensors from which on an optimizer has no loop.
const JOINT: Ratio = Ratio(0.2);

/// Operators that add rows into others by atomic operations.
const ADDING: [&str; 5] = [
    "aten::index_add_",
    "aten::scatter_add_",
    "aten::scatter_reduce_",
    "aten::_index_put_impl_",
    "aten::embedding_dense_backward",
];

/// Rows that meet at one address on average from which on atomic operations contend.
const CONTENDED: Count = Count(64.0);

/// Time of a kernel ÷ the least time for its bytes from which on contention is seen.
const SLOWER: f64 = 4.0;

impl Finder<'_> {
    /// Steps of optimizers that launch kernels for each parameter.
    pub(super) fn optimizers(&mut self) {
        let (steps, of_steps) = self.steps();
        let ranges = &self.items.session.ranges;
        for of_step in of_steps.chunk_by(|a, b| a.0 == b.0) {
            let positions = of_step.iter().map(|(_, position)| *position);
            let free = positions.filter(|position| !self.is_taken[*position]);
            self.optimizer(ranges.name[steps[of_step[0].0]], free.collect());
        }
    }

    /// Rows of the steps of optimizers, and their kernels: the number of a step and the position of the kernel. The first
    /// step of any optimizer fills the state of each parameter; fills do not count.
    pub(super) fn steps(&self) -> (Vec<usize>, Vec<(usize, usize)>) {
        let session = self.items.session;
        let ranges = &session.ranges;
        let is_step = |row: &usize| session.text(ranges.name[*row]).starts_with(STEP);
        let steps: Vec<usize> = (0..ranges.len()).filter(is_step).collect();
        let column = |column: &[Ns]| -> Vec<Ns> { steps.iter().map(|row| column[*row]).collect() };
        let threads: Vec<ThreadId> = steps.iter().map(|row| ranges.thread[*row]).collect();
        let (mut launched, mut moments) = (Vec::new(), Vec::new());
        for (position, item) in self.items.list.iter().enumerate() {
            if let Some(row) = item.operator.filter(|_| !self.is_fill(position)) {
                let operators = &session.operators;
                let row = row as usize;
                launched.push(position);
                moments.push((operators.thread[row], operators.start[row]));
            }
        }
        let around = innermost(
            &moments,
            &threads,
            &column(&ranges.start),
            &column(&ranges.end),
        );
        let mut of_steps: Vec<(usize, usize)> = around
            .into_iter()
            .zip(launched)
            .filter_map(|(step, position)| Some((step?, position)))
            .collect();
        of_steps.sort_unstable();
        (steps, of_steps)
    }

    fn optimizer(&mut self, name: rooflens_session::StrId, positions: Vec<usize>) {
        let items = self.items;
        let is_joint = |position: &&usize| {
            let name = items.name(**position).unwrap_or_default();
            let class = items.list[**position].class;
            name.contains("_foreach") || name.contains("_fused") || class == KernelClass::Optimizer
        };
        let joint = positions.iter().filter(is_joint).count() as f64;
        if positions.len() < LAUNCHES || joint > JOINT.0 * positions.len() as f64 {
            return;
        }
        // Each parameter is updated at least once: the operator that moves the most bytes.
        let mut bytes_of: Vec<(&str, Bytes)> = Vec::new();
        for position in &positions {
            let Some(call) = items.call(*position) else {
                continue;
            };
            let name = items.session.text(call.name);
            let bytes = call.bytes(items.session);
            match bytes_of.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += bytes,
                None => bytes_of.push((name, bytes)),
            }
        }
        let bytes = bytes_of
            .iter()
            .fold(Bytes::ZERO, |most, (_, bytes)| most.max(*bytes));
        let chain = Chain {
            bound: self.roof.moving(bytes),
            example: Example {
                around: Some(name),
                ..self.example(&positions)
            },
            ..self.chain(ChainKind::Optimizer, positions)
        };
        self.add(chain);
    }

    /// Sums of many rows into few.
    pub(super) fn atomics(&mut self) {
        for position in 0..self.items.list.len() {
            let items = self.items;
            let is_adding = items
                .name(position)
                .is_some_and(|name| ADDING.contains(&name));
            let Some(call) = items.call(position).filter(|_| is_adding) else {
                continue;
            };
            let Some(target) = call.tensors.first() else {
                continue;
            };
            let floats = call.tensors.iter().filter(|tensor| tensor.dtype.is_float());
            let Some(source) = floats.max_by(|a, b| a.elements().total_cmp(&b.elements())) else {
                continue;
            };
            let rows = Count(source.elements().0 / target.elements().0.max(1.0));
            let least = self.roof.moving(source.bytes() + target.bytes());
            let time = items.list[position].duration().time();
            let is_slow = least.is_some_and(|least: Time| time > least * SLOWER);
            if rows < CONTENDED || !is_slow || self.is_taken[position] {
                continue;
            }
            let chain = Chain {
                bound: least,
                example: Example {
                    sizes: format!("{} → {}", sizes(&source.dims), sizes(&target.dims)),
                    from: source.dtype,
                    to: target.dtype,
                    factor: Some(rows),
                    ..self.example(&[position])
                },
                ..self.chain(ChainKind::Atomics, vec![position])
            };
            self.add(chain);
        }
    }
}
