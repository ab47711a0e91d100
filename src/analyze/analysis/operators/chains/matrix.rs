//! Groups around GEMMs: attention that is written out, and loops of small products.

use std::collections::BTreeMap;

use super::call::MatrixProduct;
use super::roof::rates;
use super::{Chain, ChainKind, Example, Finder, sizes};
use crate::engine::classify::KernelClass;
use rooflens_session::StrId;
use rooflens_units::{Bytes, Count, Flops, Ratio, Time};

/// Kernels before and after a softmax among which its products are looked for.
const NEAR: usize = 16;

/// Products of a loop at least.
const PRODUCTS: usize = 8;

/// Kernels from one product of a loop to the next at most.
const PERIOD: usize = 16;

/// Share of the products of a loop with indexing between from which on it is one over experts.
const INDEXED: Ratio = Ratio(0.8);

/// Operator and size of the weight of a product.
type Weight = (StrId, Vec<u64>);

/// Kernels after joined results among which their reader is looked for.
const READERS: usize = 4;

/// Operators by which a loop over experts picks rows and puts them back.
const INDEXING: [&str; 7] = [
    "aten::index",
    "aten::index_select",
    "aten::gather",
    "aten::nonzero",
    "aten::_index_put_impl_",
    "aten::index_add_",
    "aten::scatter_add_",
];

/// Operators that mask scores, so that half of them may not count.
const MASKS: [&str; 4] = [
    "aten::masked_fill_",
    "aten::where",
    "aten::add",
    "aten::add_",
];

/// The operator of attention without a fused kernel.
const MATH: &str = "aten::_scaled_dot_product_attention_math";

impl Finder<'_> {
    /// Attention as products and a softmax, forward and backward.
    pub(super) fn attention(&mut self) {
        for softmax in 0..self.items.list.len() {
            let backward = match self.items.name(softmax) {
                Some("aten::_softmax" | "aten::_safe_softmax") => false,
                Some("aten::_softmax_backward_data") => true,
                _ => continue,
            };
            if self.is_taken[softmax] {
                continue;
            }
            if let Some(chain) = self.attention_at(softmax, backward) {
                self.add(chain);
            }
        }
    }

    fn attention_at(&self, softmax: usize, backward: bool) -> Option<Chain> {
        let items = self.items;
        let scores = items.call(softmax)?.tensors.first()?;
        let [.., queries, keys] = scores.dims[..] else {
            return None;
        };
        let elements = scores.elements();
        let product = |position: usize| items.call(position)?.product(items.session);
        let makes =
            |position: usize| product(position).is_some_and(|product| product.elements == elements);
        let reads = |position: usize| {
            product(position).is_some_and(|product| {
                [product.left, product.right]
                    .iter()
                    .any(|operand| operand.elements() == elements)
            })
        };
        // Of the forward pass the product before makes the scores; of the backward pass one makes their gradient.
        let earliest = softmax.saturating_sub(NEAR);
        let first = (earliest..softmax).rev().find(|before| makes(*before))?;
        let first = match first.checked_sub(1) {
            Some(before) if backward && reads(before) => before,
            _ => first,
        };
        let end = (softmax + 1 + NEAR).min(items.list.len());
        let mut readers = (softmax + 1..end).filter(|after| reads(*after));
        let last = readers.next()?;
        let last = match backward {
            true => readers.next().unwrap_or(last),
            false => last,
        };
        let touches = |position: &usize| {
            let tensors = items.call(*position).map(|call| &call.tensors);
            let mut tensors = tensors.into_iter().flatten();
            let is_same = items.is_together(*position, softmax) && !self.is_taken[*position];
            is_same && (makes(*position) || tensors.any(|tensor| tensor.elements() == elements))
        };
        let members: Vec<usize> = (first..=last).filter(touches).collect();
        let depth = (first..=last)
            .filter(|position| makes(*position))
            .find_map(|position| Some(product(position)?.depth))?;
        let dtype = (first..=last)
            .find_map(|position| Some(product(position)?.left.dtype))
            .unwrap_or_default();
        let batch = elements.0 / (queries * keys).max(1) as f64;
        let bytes = batch * depth.0 * (2.0 * queries as f64 + 2.0 * keys as f64);
        let mut names = members.iter().filter_map(|position| items.name(*position));
        let is_masked = names.any(|name| MASKS.contains(&name));
        let products = if backward { 10.0 } else { 4.0 };
        let flops = Flops(products * elements.0 * depth.0 * if is_masked { 0.5 } else { 1.0 });
        let bytes = Bytes(bytes * dtype.bytes as f64);
        let is_math = |row: &u32| items.operator_name(*row) == MATH;
        let math = items.around(softmax).find(is_math);
        Some(Chain {
            bound: self.roof.computing(flops, &rates(dtype), bytes),
            example: Example {
                sizes: sizes(&scores.dims),
                from: dtype,
                around: math.map(|row| items.session.operators.name[row as usize]),
                ..self.example(&members)
            },
            ..self.chain(ChainKind::Attention, members)
        })
    }

    /// Loops of products with a weight of the same size.
    pub(super) fn gemm_loops(&mut self) {
        let mut by_weight: BTreeMap<Weight, Vec<usize>> = BTreeMap::new();
        for position in 0..self.items.list.len() {
            if let Some(weight) = self.weight(position) {
                by_weight.entry(weight).or_default().push(position);
            }
        }
        let mut loops = Vec::new();
        for positions in by_weight.values() {
            // A product that is much rarer than these lies between two loops, such as the router's.
            let is_rare = |position: usize| {
                let weight = self.weight(position);
                weight.is_some_and(|weight| 2 * by_weight[&weight].len() < positions.len())
            };
            let is_gemm = |position: usize| self.items.list[position].class == KernelClass::Gemm;
            let follows = |a: &usize, b: &usize| {
                b - a <= PERIOD && self.items.is_together(*a, *b) && !(a + 1..*b).any(is_rare)
            };
            let joined = |a: &usize, b: &usize| (*a..*b).all(is_gemm);
            let mut rows: Vec<&[usize]> = Vec::new();
            for run in positions.chunk_by(follows) {
                rows.extend(run.chunk_by(joined).filter(|row| row.len() >= PRODUCTS));
                if run.len() >= PRODUCTS && self.is_indexed(run) {
                    loops.extend(self.loop_of(ChainKind::Experts, run));
                }
            }
            // What reads the last row can lie beyond the end of the trace.
            let has_independent = rows.iter().any(|row| self.is_independent(row));
            for row in rows {
                let is_cut = row
                    .last()
                    .is_some_and(|last| last + READERS >= self.items.list.len());
                if self.is_independent(row) || is_cut && has_independent {
                    loops.extend(self.loop_of(ChainKind::Gemms, row));
                }
            }
        }
        // Products of one loop with weights of several sizes give the same loop: the longest has it.
        loops.sort_by_key(|chain| std::cmp::Reverse(chain.items.len()));
        for chain in loops {
            let is_free = |position: &usize| !self.is_taken[*position];
            if chain.items.iter().all(is_free) {
                self.add(chain);
            }
        }
    }

    /// Whether no product of a row reads the result of the one before: that has other sizes, or all results are joined
    /// afterwards into a tensor that a next kernel reads.
    fn is_independent(&self, row: &[usize]) -> bool {
        let last = row.last().copied().unwrap_or_default();
        let Some(product) = self.main_product(last) else {
            return false;
        };
        let joined = product.elements * row.len() as f64;
        let reads_joined = |position: usize| {
            let tensors = self.items.call(position).map(|call| &call.tensors);
            let mut tensors = tensors.into_iter().flatten();
            tensors.any(|tensor| tensor.elements() == joined)
        };
        let is_joined = self.joins(last + 1) && (last + 2..last + 2 + READERS).any(reads_joined);
        product.left.dims.last() != product.right.dims.last() || is_joined
    }

    /// Whether a kernel copies several tensors into one: a batch of products writes its results there.
    fn joins(&self, position: usize) -> bool {
        self.items.name(position) == Some("aten::cat")
    }

    /// The operator and the size of the weight of a product.
    fn weight(&self, position: usize) -> Option<Weight> {
        let product = self.main_product(position)?;
        let name = self.items.call(position)?.name;
        Some((name, product.right.dims.clone()))
    }

    /// Whether rows are picked or put back between nearly all of these products.
    fn is_indexed(&self, run: &[usize]) -> bool {
        let is_indexing = |position: usize| {
            let name = self.items.name(position);
            name.is_some_and(|name| INDEXING.contains(&name))
        };
        let between = run.windows(2).map(|pair| pair[0]..pair[1]);
        let indexed = between.filter(|between| between.clone().any(is_indexing));
        indexed.count() as f64 >= INDEXED.0 * (run.len() - 1) as f64
    }

    /// The product of a GEMM kernel that no group has.
    fn main_product(&self, position: usize) -> Option<MatrixProduct<'_>> {
        let is_gemm = self.items.list[position].class == KernelClass::Gemm;
        let product = self.items.call(position)?.product(self.items.session)?;
        (is_gemm && !self.is_taken[position]).then_some(product)
    }

    /// The loop from the first of these products to the last; none if they use the GPU.
    fn loop_of(&self, kind: ChainKind, run: &[usize]) -> Option<Chain> {
        let items = self.items;
        let (first, last) = (*run.first()?, *run.last()?);
        let is_joined =
            kind == ChainKind::Gemms && self.joins(last + 1) && items.is_together(last, last + 1);
        let last = last + usize::from(is_joined);
        let iterations = run.len() as f64;
        let members: Vec<usize> = (first..=last).collect();
        let (mut flops, mut bytes) = (Flops::ZERO, Bytes::ZERO);
        for position in &members {
            if let Some(product) = self.main_product(*position) {
                flops += Flops(2.0 * product.elements.0 * product.depth.0);
                let element = product.left.dtype.bytes as f64;
                bytes += product.left.bytes() + product.right.bytes();
                bytes += Bytes(product.elements.0 * element);
            }
        }
        let product = self.main_product(first)?;
        // The first pass of the loop begins before its product, and the last one ends after it.
        let scale = match kind {
            ChainKind::Experts => iterations / (iterations - 1.0),
            _ => 1.0,
        };
        let bound = self
            .roof
            .computing(flops, &rates(product.left.dtype), bytes)?;
        let time: f64 = members
            .iter()
            .map(|position| items.list[*position].duration().time().0)
            .sum();
        // Products that use the GPU gain little from a batch.
        if bound > Time(time) * 0.5 {
            return None;
        }
        let operations = items.list[last].op - items.list[first].op + 1;
        Some(Chain {
            scale,
            others: f64::from(operations) - members.len() as f64,
            bound: Some(bound),
            example: Example {
                sizes: sizes(&product.right.dims),
                from: product.left.dtype,
                factor: Some(Count(iterations)),
                ..self.example(&members)
            },
            ..self.chain(kind, members)
        })
    }
}
