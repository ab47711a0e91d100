//! Elementwise kernels and reductions on the same elements, which one kernel could do; and operators in FP64.

use super::call::Dtype;
use super::{Chain, ChainKind, Example, Finder, sizes};
use crate::engine::classify::KernelClass;
use rustc_hash::FxHashSet;

use rooflens_units::{Bytes, Count, Flops, Time};

/// Kernels on all elements from which on a group is a chain.
const LEAST: usize = 3;

/// Elements below which a tensor is no reason to change a type.
const FEW: Count = Count(4_096.0);

/// Operators that normalize, which elementwise code does not need otherwise.
const ROOTS: [&str; 4] = ["aten::rsqrt", "aten::var", "aten::var_mean", "aten::std"];

/// Reductions that a chain may contain: each output is a sum or maximum of a row.
const REDUCTIONS: [&str; 13] = [
    "aten::mean",
    "aten::sum",
    "aten::var",
    "aten::var_mean",
    "aten::std",
    "aten::norm",
    "aten::linalg_vector_norm",
    "aten::max",
    "aten::min",
    "aten::amax",
    "aten::amin",
    "aten::logsumexp",
    "aten::prod",
];

/// Operators without an input: they are no part of a chain, and they do not end it.
const FILLS: [&str; 3] = ["aten::fill_", "aten::zero_", "aten::zeros"];

impl Finder<'_> {
    /// Kernels on FP64 tensors.
    pub(super) fn fp64(&mut self) {
        for position in 0..self.items.list.len() {
            let item = self.items.list[position];
            let Some(call) = self
                .items
                .call(position)
                .filter(|_| !self.is_taken[position])
            else {
                continue;
            };
            let is_fp64 = |dtype: Dtype| dtype.name == "fp64";
            let is_wide = call
                .tensors
                .iter()
                .any(|tensor| is_fp64(tensor.dtype) && tensor.elements() > Count(1.0));
            if !is_wide || call.elements < FEW {
                continue;
            }
            // The operator got other types, too: the result is FP64 because of one input.
            let narrow = call
                .tensors
                .iter()
                .find(|tensor| tensor.dtype.is_float() && !is_fp64(tensor.dtype));
            let product = call.product(self.items.session);
            let flops = product.map_or(Flops::ZERO, |product| {
                Flops(2.0 * product.elements.0 * product.depth.0)
            });
            // Each tensor takes half of its bytes at most; inputs smaller than the result are read once.
            let output = match item.class {
                KernelClass::Elementwise | KernelClass::Layout => call.elements.0 * 4.0,
                _ => 0.0,
            };
            let bytes = call.bytes(self.items.session) / 2.0 + Bytes(output);
            let largest = call
                .tensors
                .iter()
                .max_by(|a, b| a.elements().total_cmp(&b.elements()));
            let dtype = |tensor: &super::call::Tensor| tensor.dtype;
            let chain = Chain {
                bound: self.roof.computing(flops, &["fp32"], bytes),
                example: Example {
                    sizes: largest.map_or_else(String::new, |tensor| sizes(&tensor.dims)),
                    from: narrow.map(dtype).unwrap_or_default(),
                    ..self.example(&[position])
                },
                ..self.chain(ChainKind::Fp64, vec![position])
            };
            self.add(chain);
        }
    }

    /// Chains of elementwise kernels and reductions.
    pub(super) fn elementwise(&mut self) {
        let mut chain = Run::default();
        for position in 0..self.items.list.len() {
            if self.is_fill(position) {
                continue;
            }
            let elements = self.items.elements(position);
            let is_open = chain
                .items
                .last()
                .is_some_and(|last| self.items.is_together(*last, position));
            let is_elementwise = self.is_elementwise(position);
            let is_part = is_elementwise && is_open && chain.takes(elements);
            if !is_part {
                self.close(std::mem::take(&mut chain));
            }
            if is_elementwise {
                chain.elements = chain.elements.max(elements);
                let class = self.items.list[position].class;
                chain.has_reduction |= class == KernelClass::Reduction;
                chain.items.push(position);
            }
        }
        self.close(chain);
    }

    pub(super) fn is_fill(&self, position: usize) -> bool {
        let name = self.items.name(position);
        name.is_some_and(|name| FILLS.contains(&name))
    }

    fn is_elementwise(&self, position: usize) -> bool {
        let item = self.items.list[position];
        let name = self.items.name(position).unwrap_or_default();
        let is_class = match item.class {
            KernelClass::Elementwise => true,
            KernelClass::Reduction => REDUCTIONS.contains(&name),
            KernelClass::Layout => name == "aten::copy_",
            _ => false,
        };
        let is_operator = name.starts_with("aten::") && !name.starts_with("aten::_foreach");
        is_class
            && is_operator
            && !self.is_taken[position]
            && self.items.elements(position) > Count(1.0)
    }

    /// Adds a chain if it is one.
    fn close(&mut self, run: Run) {
        let items = self.items;
        let elements = run.elements;
        let is_full = |position: &&usize| items.elements(**position) == elements;
        if run.items.iter().filter(is_full).count() < LEAST {
            return;
        }
        let names = run
            .items
            .iter()
            .filter_map(|position| items.name(*position));
        let is_cast = |name: &str| name == "aten::copy_";
        if names.clone().all(is_cast) {
            return;
        }
        // The derivative of `rsqrt` is a power of it, on the rows that a reduction left.
        let has_rsqrt = items.session.strings.find("aten::rsqrt").is_some();
        let is_power = |position: &usize| {
            has_rsqrt
                && items.name(*position) == Some("aten::pow")
                && items.elements(*position) < elements
        };
        let has_root = names.clone().any(|name| ROOTS.contains(&name));
        let is_norm = run.has_reduction && (has_root || run.items.iter().any(is_power));
        let kind = match is_norm {
            true => ChainKind::Norm,
            false => ChainKind::Pointwise,
        };
        let is_addition =
            |position: &usize| matches!(items.name(*position), Some("aten::add" | "aten::add_"));
        let members = match is_norm {
            true => without_residual(run.items, is_addition),
            false => run.items,
        };
        let main = members.iter().find(is_full).copied();
        let call = main.and_then(|position| items.call(position));
        let tensors = call.map_or(&[][..], |call| &call.tensors);
        let main = tensors
            .iter()
            .max_by(|a, b| a.elements().total_cmp(&b.elements()));
        let example = Example {
            sizes: main.map_or_else(String::new, |tensor| sizes(&tensor.dims)),
            from: main.map(|tensor| tensor.dtype).unwrap_or_default(),
            ..self.example(&members)
        };
        let chain = Chain {
            bound: self.fused(&members),
            example,
            ..self.chain(kind, members)
        };
        self.add(chain);
    }

    /// The least time of one kernel for all: inputs that no kernel before wrote are read, the last output is written, in
    /// the narrowest type that such a tensor of the chain has.
    fn fused(&self, positions: &[usize]) -> Option<Time> {
        // Sizes as integers, because tensors of a trace have fewer than 2^63 elements.
        let mut written: FxHashSet<(u64, Dtype)> = FxHashSet::default();
        let mut bytes = Bytes::ZERO;
        let mut narrowest = u64::MAX;
        for (place, position) in positions.iter().enumerate() {
            let call = self.items.call(*position)?;
            let mut read = Vec::new();
            for tensor in call.inputs(self.items.session) {
                let signature = (tensor.elements().0 as u64, tensor.dtype);
                if tensor.dtype.is_float() && tensor.elements() == call.elements {
                    narrowest = narrowest.min(tensor.dtype.bytes);
                }
                if !written.contains(&signature) && !read.contains(&signature) {
                    bytes += tensor.bytes();
                    read.push(signature);
                }
            }
            // What is read once may be read again without a cost.
            written.extend(read);
            let is_reduction = self.items.list[*position].class == KernelClass::Reduction;
            let output = call.output(self.items.session);
            if !is_reduction {
                written.insert((call.elements.0 as u64, output));
            }
            if place + 1 == positions.len() && !is_reduction {
                bytes += Bytes(call.elements.0 * output.bytes.min(narrowest) as f64);
            }
        }
        self.roof.moving(bytes)
    }
}

/// Kernels of a normalization without the additions before it, which add up its input.
pub(super) fn without_residual(
    mut positions: Vec<usize>,
    is_addition: impl Fn(&usize) -> bool,
) -> Vec<usize> {
    let additions = positions
        .iter()
        .take_while(|position| is_addition(position));
    positions.drain(..additions.count());
    positions
}

/// A chain that is still growing.
#[derive(Default)]
struct Run {
    items: Vec<usize>,
    elements: Count,
    has_reduction: bool,
}

impl Run {
    /// Whether a kernel on so many elements continues the chain: on as many, or on what a reduction of it left.
    fn takes(&self, elements: Count) -> bool {
        let (whole, part) = (self.elements.0, elements.0);
        elements == self.elements || self.has_reduction && part < whole && whole % part == 0.0
    }
}
