//! Groups by names and order of kernels alone, where no operators with sizes were recorded.
//!
//! Names of PyTorch's kernels say what a kernel does, and the grid says on how many elements, up to a factor of two
//! between versions. Bytes are not known. A fused kernel is assumed to take half of the time of the shortest kernel on
//! all elements, because each of them reads or writes a tensor of that size.

use std::collections::BTreeMap;

use super::elementwise::without_residual;
use super::items::{Item, Items};
use super::{Chain, ChainKind, Example, Finder};
use crate::engine::classify::KernelClass;
use rooflens_session::KernelId;
use rooflens_units::{Count, Ratio, Time};

/// What only names of PyTorch's kernels contain.
pub(super) const PYTORCH: &str = "at::native";

/// Kernels that update a parameter by Adam and its kin, and their number in a step from which on they are a loop.
const UPDATE: &str = "addcdiv";
const UPDATES: usize = 8;

/// Kernels from one update to the next at most.
const PERIOD: usize = 16;

/// Kernels that update several tensors.
pub const JOINT: &str = "multi_tensor";

/// The last of the kernels by which Adam updates several tensors: it reads three tensors and writes one.
const JOINT_UPDATE: &str = "PointwiseOpScalarList";

/// Tensors that one kernel for all of Adam reads and writes (parameter, gradient, two moments) ÷ those of the last kernel.
const FUSED_UPDATE: f64 = 7.0 / 4.0;

/// Kernels that only convert, and what copies between types have in their names.
const CASTS: [&str; 2] = ["bfloat16_copy_kernel_cuda", "float16_copy_kernel_cuda"];
const CASTING: [&str; 2] = ["LoadWithCast", "StoreWithCast"];

/// Kernels between the products of attention and its softmax at most.
const NEAR: usize = 4;

/// Kernels on all elements from which on a group is a chain. An activation and what its result gates are one, too.
const LEAST: usize = 3;
const LEAST_OF_GATE: usize = 2;

/// Activations, which end a normalization before them.
const ACTIVATIONS: [&str; 12] = [
    "silu_kernel",
    "sigmoid_kernel",
    "GeluCUDAKernel",
    "tanh_kernel",
    "launch_clamp_scalar",
    "threshold_kernel",
    "leaky_relu_kernel",
    "elu_kernel",
    "softplus_kernel",
    "hardswish_kernel",
    "hardsigmoid_kernel",
    "mish_kernel",
];

/// Concatenations, which a compiler fuses with the elementwise kernels that write their inputs.
const CONCATENATION: &str = "CatArrayBatchedCopy";

/// Time of a concatenation of strided halves ÷ time of a multiplication on as many elements at most.
const STRIDED: f64 = 2.0;

/// Parts of names of kernels that normalize.
const ROOTS: [&str; 2] = ["rsqrt", "WelfordOps"];

/// The derivative of `rsqrt` is a power of it, on the rows that a reduction left.
const POWER: &str = "pow_tensor_scalar";

/// Kernels by their names, as the PyTorch profiler and nsys write them, with the elements of a block.
const BLOCKS: [(&str, f64); 6] = [
    ("unrolled_elementwise_kernel", 512.0),
    ("vectorized_elementwise_kernel", 1024.0),
    ("elementwise_kernel<128, 2", 256.0),
    ("elementwise_kernel<128, 4", 512.0),
    ("elementwise_kernel<(int)128, (int)2", 256.0),
    ("elementwise_kernel<(int)128, (int)4", 512.0),
];

/// Copies, and the kernels that run them on contiguous tensors.
const COPY: &str = "direct_copy_kernel";
const CONTIGUOUS: [&str; 2] = [
    "unrolled_elementwise_kernel",
    "vectorized_elementwise_kernel",
];

/// Kernels that only write: they are no part of a chain, and they do not end it.
const FILL: &str = "FillFunctor";

/// Multiplications, and sums.
const PRODUCT: &str = "MulFunctor";
const SUM: &str = "sum_functor";

/// Kernels that sum the rows of a batch into the gradient of a table of embeddings.
const ROW_SUMS: [&str; 3] = [
    "compute_grad_weight",
    "sum_and_scatter",
    "embedding_backward",
];

/// Kernels from the fill of such a gradient to these sums at most: the indices are sorted between.
const SORTING: usize = 16;

/// Sums of rows ÷ fill, by time, up to which a batch uses few rows of a table.
const FEW_ROWS: f64 = 0.5;

/// Additions. Those right after the sums add the gradient of an output layer that has the same weight.
const ADDITION: &str = "CUDAFunctor_add";

/// Elements that a block of a kernel on several tensors works on: `kChunkSize` of `MultiTensorApply.cuh`.
const CHUNK: f64 = 65_536.0;

/// Share of the parameters of an optimizer from which on tables are most of them.
const MOST: Ratio = Ratio(0.5);

/// Part of the time of the products of attention that a fused kernel needs at least: it writes no scores.
const PRODUCTS: f64 = 0.25;

/// What the name of a kernel says.
#[derive(Clone, Copy, Default)]
pub(super) struct KernelName {
    /// Elementwise, on one tensor, and no copy between layouts.
    is_elementwise: bool,
    is_reduction: bool,
    is_update: bool,
    is_cast: bool,
    is_root: bool,
    is_power: bool,
    is_fill: bool,
    is_activation: bool,
    is_concatenation: bool,
    /// Multiplies, or sums.
    pub(super) is_product: bool,
    pub(super) is_sum: bool,
    /// Elements that a block of an elementwise kernel works on.
    block: Option<f64>,
}

impl KernelName {
    fn new(name: &str, class: KernelClass) -> Self {
        let contains = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let is_native = name.contains(PYTORCH);
        let is_strided = name.contains(COPY) && !contains(&CONTIGUOUS);
        let is_class = matches!(class, KernelClass::Elementwise | KernelClass::Layout);
        let block = BLOCKS.iter().find(|(part, _)| name.contains(part));
        Self {
            is_elementwise: is_native && is_class && !name.contains(JOINT) && !is_strided,
            is_reduction: class == KernelClass::Reduction && name.contains("reduce_kernel"),
            is_update: name.contains(UPDATE),
            is_cast: contains(&CASTS) || name.contains(COPY) && contains(&CASTING),
            is_root: contains(&ROOTS),
            is_power: name.contains(POWER),
            is_fill: name.contains(FILL),
            is_activation: contains(&ACTIVATIONS),
            is_concatenation: name.contains(CONCATENATION),
            is_product: name.contains(PRODUCT),
            is_sum: name.contains(SUM),
            block: block.map(|(_, elements)| *elements),
        }
    }
}

/// What the names of all kernels say, by `KernelId`.
pub(super) struct Names(Vec<KernelName>);

impl Names {
    fn new(items: &Items<'_>) -> Self {
        let mut names = vec![KernelName::default(); items.session.kernels.len()];
        let mut is_known = vec![false; names.len()];
        for (position, item) in items.list.iter().enumerate() {
            let kernel = item.kernel.index();
            if !is_known[kernel] {
                names[kernel] = KernelName::new(items.kernel(position), item.class);
                is_known[kernel] = true;
            }
        }
        // Without a root, a power is no derivative of one.
        if !names.iter().any(|name| name.is_root) {
            for name in &mut names {
                name.is_power = false;
            }
        }
        Self(names)
    }

    fn of(&self, item: &Item) -> KernelName {
        self.0[item.kernel.index()]
    }
}

/// A chain that is still growing.
#[derive(Default)]
struct Run {
    items: Vec<usize>,
    elements: Count,
    has_reduction: bool,
    has_root: bool,
    longest: Time,
}

impl Run {
    /// Whether a kernel on so many elements, or a reduction of unknown size, continues the chain.
    fn takes(&self, elements: Option<Count>) -> bool {
        let Some(elements) = elements else {
            return true;
        };
        let ratio = elements.0 / self.elements.0.max(1.0);
        (0.5..=2.0).contains(&ratio) || ratio < 0.5 && self.has_reduction
    }
}

impl Finder<'_> {
    /// All groups that names show.
    pub(super) fn named(&mut self) {
        let names = Names::new(self.items);
        self.named_tables(&names);
        self.named_updates(&names);
        self.joint_updates();
        self.named_attention(&names);
        self.layouts();
        self.contractions(Some(&names));
        self.named_chains(&names);
        self.named_casts(&names);
    }

    pub(super) fn name_of(&self, names: &Names, position: usize) -> KernelName {
        names.of(&self.items.list[position])
    }

    /// Loops of an optimizer over parameters.
    fn named_updates(&mut self, names: &Names) {
        let name = |position: usize| self.name_of(names, position);
        let is_update =
            |position: &usize| name(*position).is_elementwise && name(*position).is_update;
        let updates: Vec<usize> = (0..self.items.list.len()).filter(is_update).collect();
        let follows = |a: &usize, b: &usize| {
            b - a <= PERIOD
                && self.items.is_together(*a, *b)
                && (*a..*b).all(|position| name(position).is_elementwise)
        };
        let mut loops = Vec::new();
        for run in updates.chunk_by(follows) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            if run.len() >= UPDATES && last - first >= 3 * run.len() {
                loops.push((*first..=*last).collect::<Vec<usize>>());
            }
        }
        for members in loops {
            let bound = self.shortest(&members);
            self.add_named(ChainKind::Optimizer, members, bound);
        }
    }

    /// Fills of dense gradients of tables of which a batch uses few rows, and the steps of optimizers that update mostly
    /// such tables.
    fn named_tables(&mut self, names: &Names) {
        let tables: Vec<(Vec<usize>, Count)> = (0..self.items.list.len())
            .filter_map(|position| self.sparse_table(names, position))
            .collect();
        let mut left = tables.as_slice();
        for run in self.joint_runs() {
            let before = left.partition_point(|(gradient, _)| gradient[0] < run[0]);
            let elements: Count = left[..before].iter().map(|(_, elements)| *elements).sum();
            left = &left[before..];
            let mut blocks: BTreeMap<KernelId, f64> = BTreeMap::new();
            for position in &run {
                let item = self.items.list[*position];
                *blocks.entry(item.kernel).or_default() += item.blocks as f64;
            }
            let most = blocks.into_values().fold(1.0, f64::max);
            let share = Ratio(elements.0 / (most * CHUNK)).min(Ratio::ONE);
            if share >= MOST {
                let kernels = run.len() as f64 * share.0;
                self.add_table(run, share.0, kernels);
            }
        }
        for (gradient, _) in tables {
            self.add_table(gradient, 1.0, 0.0);
        }
    }

    fn add_table(&mut self, members: Vec<usize>, scale: f64, kernels_left: f64) {
        let chain = Chain {
            scale,
            kernels_left,
            bound: Some(Time::ZERO),
            ..self.chain(ChainKind::Embeddings, members)
        };
        self.add(chain);
    }

    /// The kernels that make the gradient of a table, and its elements, if this kernel fills it and a batch uses few of its
    /// rows. PyTorch cuts a fill that 32-bit indices do not reach.
    fn sparse_table(&self, names: &Names, fill: usize) -> Option<(Vec<usize>, Count)> {
        let name = |position: usize| self.name_of(names, position);
        let part = self
            .elements_by_grid(names, fill)
            .filter(|_| name(fill).is_fill)?;
        let is_part = |position: &usize| {
            let same = self.items.list[*position].kernel == self.items.list[fill].kernel;
            let elements = self.elements_by_grid(names, *position);
            same && self.items.is_together(*position, fill) && elements == Some(part)
        };
        let parts = (0..=fill).rev().take_while(is_part).count();
        let fills: Vec<usize> = (fill + 1 - parts..=fill).collect();
        let elements = part * parts as f64;
        let end = self.items.list.len();
        let follows =
            |position: &usize| self.items.is_together(fill, *position) && !name(*position).is_fill;
        let after = (fill + 1..end).take(SORTING).take_while(follows);
        let is_sum = |position: &usize| {
            let kernel = self.items.kernel(*position);
            ROW_SUMS.iter().any(|part| kernel.contains(part))
        };
        let sums: Vec<usize> = after.filter(is_sum).collect();
        let next = sums.last()? + 1;
        let duration = |position: &usize| self.items.list[*position].duration().time();
        let time: Time = sums.iter().map(duration).sum();
        let filling: Time = fills.iter().map(duration).sum();
        let is_tied = (next..end.min(next + NEAR)).any(|position| {
            let added = self.elements_by_grid(names, position).unwrap_or_default();
            self.items.kernel(position).contains(ADDITION) && added.0 >= 0.5 * part.0
        });
        (time <= filling * FEW_ROWS && !is_tied).then(|| ((fills[0]..next).collect(), elements))
    }

    /// Kernels on several tensors that follow one another and belong to no group.
    fn joint_runs(&self) -> Vec<Vec<usize>> {
        let items = self.items;
        let is_joint =
            |position: &usize| !self.is_taken[*position] && items.kernel(*position).contains(JOINT);
        let joint: Vec<usize> = (0..items.list.len()).filter(is_joint).collect();
        let follows = |a: &usize, b: &usize| b - a == 1 && items.is_together(*a, *b);
        joint.chunk_by(follows).map(<[usize]>::to_vec).collect()
    }

    /// Steps of an optimizer that updates several tensors at a time, with a kernel for each operation.
    fn joint_updates(&mut self) {
        let items = self.items;
        let is_last = |position: &&usize| items.kernel(**position).contains(JOINT_UPDATE);
        for run in self.joint_runs() {
            let updates: Vec<&usize> = run.iter().filter(is_last).collect();
            let durations = updates
                .iter()
                .map(|position| items.list[**position].duration().time());
            let update: Time = durations.sum();
            if update.is_positive() {
                let chain = Chain {
                    bound: Some(update * FUSED_UPDATE),
                    example: Example {
                        operators: JOINT.to_owned(),
                        ..Example::default()
                    },
                    kernels_left: updates.len() as f64,
                    ..self.chain(ChainKind::Optimizer, run)
                };
                self.add(chain);
            }
        }
    }

    /// A softmax between two products, with nothing but elementwise kernels between.
    fn named_attention(&mut self, names: &Names) {
        for softmax in 0..self.items.list.len() {
            let item = self.items.list[softmax];
            if item.class != KernelClass::Softmax || self.is_taken[softmax] {
                continue;
            }
            let is_product = |position: &usize| {
                self.items.list[*position].class == KernelClass::Gemm
                    && self.items.is_together(*position, softmax)
            };
            let first = self.near((0..softmax).rev(), is_product);
            let last = self.near(softmax + 1..self.items.list.len(), is_product);
            let (Some(first), Some(last)) = (first, last) else {
                continue;
            };
            let is_between = |position: usize| {
                let is_elementwise = self.name_of(names, position).is_elementwise;
                position == softmax || is_elementwise && !self.is_taken[position]
            };
            if (first + 1..last).all(is_between) {
                let products = [first, last];
                let time = products.map(|position| self.items.list[position].duration().time());
                let bound = (time[0] + time[1]) * PRODUCTS;
                self.add_named(ChainKind::Attention, (first..=last).collect(), bound);
            }
        }
    }

    /// Chains of elementwise kernels on as many elements, and reductions between them.
    fn named_chains(&mut self, names: &Names) {
        let mut run = Run::default();
        for position in 0..self.items.list.len() {
            let name = self.name_of(names, position);
            let is_free = !self.is_taken[position];
            let elements = self.elements_by_grid(names, position);
            // Conversions of parameters for the next GEMM lie between an activation and the conversion of its result.
            let is_small = elements.is_some_and(|elements| elements.0 < 0.5 * run.elements.0);
            if name.is_fill || name.is_cast && is_small && !run.has_reduction {
                continue;
            }
            let is_elementwise = name.is_elementwise && elements.is_some() && is_free;
            let is_reduction = name.is_reduction && is_free;
            let is_open = run
                .items
                .last()
                .is_some_and(|last| self.items.is_together(*last, position));
            let duration = self.items.list[position].duration().time();
            // What takes longer concatenates other tensors, too, such as a cache.
            let longest = match self.is_before_product(names, position, &run) {
                true => run.longest * STRIDED,
                false => run.longest,
            };
            let is_concatenation = name.is_concatenation && is_free && duration <= longest;
            let is_chained = is_elementwise || is_reduction || is_concatenation;
            let ends_norm = run.has_reduction && run.has_root && name.is_activation;
            let is_part = is_open && is_chained && run.takes(elements) && !ends_norm;
            if !is_part {
                self.close_named(names, std::mem::take(&mut run));
            }
            if is_elementwise || is_part {
                run.elements = run.elements.max(elements.unwrap_or_default());
                run.has_reduction |= is_reduction;
                run.has_root |= name.is_root;
                run.longest = run.longest.max(duration);
                run.items.push(position);
            }
        }
        self.close_named(names, run);
    }

    /// Whether a multiplication on as many elements follows, as in rotary embeddings.
    fn is_before_product(&self, names: &Names, position: usize, run: &Run) -> bool {
        let next = position + 1;
        next < self.items.list.len()
            && self.items.is_together(position, next)
            && self.name_of(names, next).is_product
            && run.takes(self.elements_by_grid(names, next))
    }

    fn close_named(&mut self, names: &Names, run: Run) {
        let is_full = |position: &&usize| {
            let elements = self.elements_by_grid(names, **position);
            elements.is_some_and(|elements| elements.0 >= 0.5 * run.elements.0)
        };
        let full: Vec<usize> = run.items.iter().filter(is_full).copied().collect();
        let name = |position: &usize| self.name_of(names, *position);
        let is_cast = |position: &usize| name(position).is_cast;
        let is_activation = |position: &usize| name(position).is_activation;
        let is_gate = full.iter().any(is_activation) && !full.iter().any(is_cast);
        let least = if is_gate { LEAST_OF_GATE } else { LEAST };
        if full.len() < least || run.items.iter().all(is_cast) {
            return;
        }
        let is_power = |position: &usize| name(position).is_power && !is_full(&position);
        let has_root = run.has_root || run.items.iter().any(is_power);
        let kind = match run.has_reduction && has_root {
            true => ChainKind::Norm,
            false => ChainKind::Pointwise,
        };
        let bound = self.shortest(&full) * 0.5;
        let is_addition = |position: &usize| self.items.kernel(*position).contains(ADDITION);
        let members = match kind {
            ChainKind::Norm => without_residual(run.items, is_addition),
            _ => run.items,
        };
        self.add_named(kind, members, bound);
    }

    /// Conversions of types. Some to wider types have the names of plain copies.
    fn named_casts(&mut self, names: &Names) {
        for position in 0..self.items.list.len() {
            if self.name_of(names, position).is_cast && !self.is_taken[position] {
                self.add_named(ChainKind::Cast, vec![position], Time::ZERO);
            }
        }
    }

    /// Elements that an elementwise kernel of PyTorch works on, by its grid.
    pub(super) fn elements_by_grid(&self, names: &Names, position: usize) -> Option<Count> {
        let block = self.name_of(names, position).block?;
        Some(Count(self.items.list[position].blocks as f64 * block))
    }

    /// The first of these positions that is wanted, behind few other kernels. One that is cut into several launches counts
    /// once.
    fn near(
        &self,
        positions: impl Iterator<Item = usize>,
        is_wanted: impl Fn(&usize) -> bool,
    ) -> Option<usize> {
        let (mut kernels, mut last) = (0, None);
        for position in positions {
            let kernel = self.items.list[position].kernel;
            kernels += usize::from(last.replace(kernel) != Some(kernel));
            if kernels > NEAR {
                return None;
            }
            if is_wanted(&position) {
                return Some(position);
            }
        }
        None
    }

    /// The shortest duration of kernels.
    fn shortest(&self, positions: &[usize]) -> Time {
        let durations = positions
            .iter()
            .map(|position| self.items.list[*position].duration().time());
        durations.reduce(Time::min).unwrap_or_default()
    }

    fn add_named(&mut self, kind: ChainKind, members: Vec<usize>, bound: Time) {
        let chain = Chain {
            bound: Some(bound),
            example: Example {
                operators: self.items.short_names(&members),
                ..Example::default()
            },
            kernels_left: if kind == ChainKind::Cast { 0.0 } else { 1.0 },
            ..self.chain(kind, members)
        };
        self.add(chain);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MUL, SOFTMAX, by_names};
    use super::*;

    /// A fused kernel needs a quarter of the products of 16 µs: it saves 12 of them, five parts of 3 µs, and 20 µs.
    #[test]
    fn a_kernel_that_is_cut_counts_once_between_softmax_and_product() {
        let product = [("gemm", 1, 8)];
        let parts = [(MUL, 64, 3); 5];
        let attention = [&product[..], &parts, &[(SOFTMAX, 1, 20)], &product].concat();
        let expected = [(ChainKind::Attention, 8.0, Time(47_000.0))];
        assert_eq!(by_names(&attention), expected);
    }
}
