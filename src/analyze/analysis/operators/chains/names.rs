//! Groups by names and order of kernels alone, where no operators with sizes were recorded.
//!
//! Names of PyTorch's kernels say what a kernel does, and the grid says on how many elements, up to a factor of two
//! between versions. Bytes are not known. A fused kernel is assumed to take half of the time of the shortest kernel on
//! all elements, because each of them reads or writes a tensor of that size.

use super::{Chain, ChainKind, Example, Finder};
use crate::engine::classify::KernelClass;
use rooflens_units::{Count, Time};

/// What only names of PyTorch's kernels contain.
pub(super) const PYTORCH: &str = "at::native";

/// Kernels that update a parameter by Adam and its kin, and their number in a step from which on they are a loop.
const UPDATE: &str = "addcdiv";
const UPDATES: usize = 8;

/// Kernels from one update to the next at most.
const PERIOD: usize = 16;

/// Kernels that update several tensors.
const JOINT: &str = "multi_tensor";

/// Kernels that only convert.
const CASTS: [&str; 2] = ["bfloat16_copy_kernel_cuda", "float16_copy_kernel_cuda"];

/// Kernels between the products of attention and its softmax at most.
const NEAR: usize = 4;

/// Kernels on all elements from which on a group is a chain.
const LEAST: usize = 3;

/// Parts of names of kernels that normalize.
const ROOTS: [&str; 2] = ["rsqrt", "WelfordOps"];

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

/// Part of the time of the products of attention that a fused kernel needs at least: it writes no scores.
const PRODUCTS: f64 = 0.25;

impl Finder<'_> {
    /// All groups that names show.
    pub(super) fn named(&mut self) {
        self.named_updates();
        self.named_attention();
        self.layouts();
        self.named_chains();
        self.named_casts();
    }

    fn contains(&self, position: usize, part: &str) -> bool {
        self.items.kernel(position).contains(part)
    }

    fn is_elementwise_by_name(&self, position: usize) -> bool {
        let class = self.items.list[position].class;
        matches!(class, KernelClass::Elementwise | KernelClass::Layout)
            && self.contains(position, PYTORCH)
            && !self.contains(position, JOINT)
            && !self.is_strided_copy(position)
            && !self.is_taken[position]
    }

    /// Whether a kernel copies between layouts: for another reason than a type, and not into a chain.
    fn is_strided_copy(&self, position: usize) -> bool {
        let is_contiguous = CONTIGUOUS.iter().any(|part| self.contains(position, part));
        self.contains(position, COPY) && !is_contiguous
    }

    /// Loops of an optimizer over parameters.
    fn named_updates(&mut self) {
        let is_update = |position: &usize| {
            self.is_elementwise_by_name(*position) && self.contains(*position, UPDATE)
        };
        let updates: Vec<usize> = (0..self.items.list.len()).filter(is_update).collect();
        let follows = |a: &usize, b: &usize| {
            b - a <= PERIOD
                && self.items.is_together(*a, *b)
                && (*a..*b).all(|position| self.is_elementwise_by_name(position))
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

    /// A softmax between two products, with nothing but elementwise kernels between.
    fn named_attention(&mut self) {
        for softmax in 0..self.items.list.len() {
            let item = self.items.list[softmax];
            if item.class != KernelClass::Softmax || self.is_taken[softmax] {
                continue;
            }
            let is_product = |position: &usize| {
                self.items.list[*position].class == KernelClass::Gemm
                    && self.items.is_together(*position, softmax)
            };
            let end = (softmax + 1 + NEAR).min(self.items.list.len());
            let first = (softmax.saturating_sub(NEAR)..softmax)
                .rev()
                .find(is_product);
            let last = (softmax + 1..end).find(is_product);
            let (Some(first), Some(last)) = (first, last) else {
                continue;
            };
            let is_between =
                |position: usize| position == softmax || self.is_elementwise_by_name(position);
            if (first + 1..last).all(is_between) {
                let products = [first, last];
                let time = products.map(|position| self.items.list[position].duration().time());
                let bound = (time[0] + time[1]) * PRODUCTS;
                self.add_named(ChainKind::Attention, (first..=last).collect(), bound);
            }
        }
    }

    /// Chains of elementwise kernels on as many elements, and reductions between them.
    fn named_chains(&mut self) {
        let mut run: Vec<usize> = Vec::new();
        let mut elements = Count::ZERO;
        for position in 0..self.items.list.len() {
            if self.contains(position, FILL) {
                continue;
            }
            let is_reduction = self.items.list[position].class == KernelClass::Reduction
                && self.contains(position, "reduce_kernel");
            let is_elementwise = self.is_elementwise_by_name(position);
            let own = self.elements_by_grid(position);
            let has_reduction = |run: &[usize]| {
                let class = |position: &usize| self.items.list[*position].class;
                run.iter()
                    .any(|position| class(position) == KernelClass::Reduction)
            };
            let is_open = run
                .last()
                .is_some_and(|last| self.items.is_together(*last, position));
            let fits = match own {
                Some(own) => {
                    let ratio = own.0 / elements.0.max(1.0);
                    (0.5..=2.0).contains(&ratio) || ratio < 0.5 && has_reduction(&run)
                }
                None => is_reduction,
            };
            if !(is_open && fits && (is_elementwise || is_reduction)) {
                self.close_named(std::mem::take(&mut run), elements);
                elements = Count::ZERO;
            }
            if is_elementwise && own.is_some() || is_reduction && !run.is_empty() {
                elements = elements.max(own.unwrap_or_default());
                run.push(position);
            }
        }
        self.close_named(run, elements);
    }

    fn close_named(&mut self, run: Vec<usize>, elements: Count) {
        let is_full = |position: &&usize| {
            let own = self.elements_by_grid(**position);
            own.is_some_and(|own| own.0 >= 0.5 * elements.0)
        };
        let full: Vec<usize> = run.iter().filter(is_full).copied().collect();
        let is_cast = |position: &usize| CASTS.iter().any(|part| self.contains(*position, part));
        if full.len() < LEAST || run.iter().all(is_cast) {
            return;
        }
        let is_root = |position: &usize| ROOTS.iter().any(|part| self.contains(*position, part));
        let has_reduction = full.len() < run.len();
        let kind = match has_reduction && run.iter().any(is_root) {
            true => ChainKind::Norm,
            false => ChainKind::Pointwise,
        };
        let bound = self.shortest(&full) * 0.5;
        self.add_named(kind, run, bound);
    }

    /// Conversions to narrower types; those to wider ones have the name of plain copies.
    fn named_casts(&mut self) {
        for position in 0..self.items.list.len() {
            let is_cast = CASTS.iter().any(|part| self.contains(position, part));
            if is_cast && !self.is_taken[position] {
                self.add_named(ChainKind::Cast, vec![position], Time::ZERO);
            }
        }
    }

    /// Elements that an elementwise kernel of PyTorch works on, by its grid.
    fn elements_by_grid(&self, position: usize) -> Option<Count> {
        let name = self.items.kernel(position);
        let blocks = self.items.list[position].blocks as f64;
        let (_, elements) = BLOCKS.iter().find(|(part, _)| name.contains(part))?;
        Some(Count(blocks * elements))
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
