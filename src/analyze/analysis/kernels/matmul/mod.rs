//! What each matrix kernel computes: sizes of products and attention, and how they are known.
//!
//! Sizes are recorded with operators (PyTorch traces) and in logs of cuBLAS and cuBLASLt, never in a timeline.
//! Kernels of a timeline get them from the same stage of the pass that recorded them: both run the same kernels in
//! the same order. Passes are joined by name, grid, block and order, never by time.

pub mod beaten;
pub mod config;
mod log;
mod operators;
pub mod roof;
mod search;
mod sequence;
mod shape;
pub mod stages;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::engine::classify::KernelClass;
use crate::engine::facts::{Facts, OpIndex, OpSource, StageInstance};
use crate::{Context, Known};
use rooflens_session::{KernelId, Ns, Session};

pub use shape::{Attention, Gemm, Shape};

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Product {
    /// Sizes.
    pub shape: Shape,
    /// Type of the operands, such as `bf16`; empty if unknown.
    pub operand: &'static str,
    /// Type of the output; empty if unknown.
    pub output: &'static str,
    /// How the sizes are known.
    pub source: Source,
    /// The kernel that does the work, rather than one that helps it, such as the sum after a split.
    pub main: bool,
}

rooflens_stages::labels! {
    /// How sizes are known, the surest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Source {
        /// The operator that launched the kernel.
        Operator = "operator",
        /// The operator of the kernel at the same place of a sequence that is the same in another pass.
        SameOrder = "operator, same order",
        /// Calls of a cuBLASLt log with the same tiles in the same order.
        Log = "cuBLASLt log",
        /// The operator of the kernel's partner in a sequence that is alike in another pass.
        Aligned = "operator, aligned",
        /// The model's dimensions: as many products, in the order of its layers.
        Model = "model config",
    }
}

impl Source {
    /// How sure it is.
    pub const fn confidence(self) -> &'static str {
        match self {
            Self::Operator | Self::SameOrder | Self::Log => "high",
            Self::Aligned | Self::Model => "medium",
        }
    }
}

/// What all operations compute, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Products {
    /// Distinct products.
    all: Vec<Product>,
    index: FxHashMap<Product, u32>,
    /// By operation the number of its product, from 1; 0 is unknown. Empty if nothing is known.
    by_op: Vec<u32>,
    /// The same by the log alone.
    logged: Vec<u32>,
    /// Names of stages with logits of a part of the positions.
    in_part: BTreeSet<String>,
}

/// Numbers of products by operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Best,
    Log,
}

/// Finds what the operations of a session compute; never missing, but empty where nothing is known.
pub fn compute(context: &Context<'_>) -> Known<Products> {
    Ok(Products::new(context.session, context.facts))
}

impl Products {
    /// Finds what the operations of a session compute.
    fn new(session: &Session, facts: &Facts) -> Self {
        let mut products = Self {
            by_op: vec![0; facts.ops.len()],
            ..Self::default()
        };
        let matrix = Matrix::new(session, facts);
        operators::find(session, facts, &matrix, &mut products);
        sequence::find(session, facts, &matrix, &mut products);
        log::find(session, facts, &matrix, &mut products);
        config::find(session, facts, &matrix, &mut products);
        products
    }

    /// What an operation computes.
    pub fn get(&self, op: OpIndex) -> Option<&Product> {
        self.numbered(&self.by_op, op)
    }

    /// What an operation computes by the log alone.
    pub fn logged(&self, op: OpIndex) -> Option<&Product> {
        self.numbered(&self.logged, op)
    }

    /// Whether a stage computes logits of a part of the positions, of unknown number.
    pub fn has_logits_in_part(&self, stage: &str) -> bool {
        self.in_part.contains(stage)
    }

    /// Whether anything is known of any operation.
    pub fn is_any_known(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether any operation was found in a log.
    pub fn is_any_logged(&self) -> bool {
        self.logged.iter().any(|number| *number > 0)
    }

    /// Kernels of which a log and an operator give different sizes.
    pub fn contradictions(&self) -> u64 {
        let differs = |op: OpIndex| match (self.get(op), self.logged(op)) {
            (Some(one), Some(other)) => !one.shape.is_same_work(&other.shape),
            _ => false,
        };
        (0..self.logged.len() as OpIndex)
            .filter(|op| differs(*op))
            .count() as u64
    }

    fn numbered(&self, layer: &[u32], op: OpIndex) -> Option<&Product> {
        let number = *layer.get(op as usize)?;
        self.all.get((number as usize).checked_sub(1)?)
    }

    fn is_known(&self, op: OpIndex) -> bool {
        self.by_op
            .get(op as usize)
            .is_some_and(|number| *number > 0)
    }

    /// Says what an operation computes; what was said before stays.
    fn set(&mut self, layer: Layer, op: OpIndex, product: Product) {
        let numbers = match layer {
            Layer::Best => &mut self.by_op,
            Layer::Log => &mut self.logged,
        };
        let Some(slot) = numbers.get_mut(op as usize).filter(|number| **number == 0) else {
            return;
        };
        let products = &mut self.all;
        *slot = *self.index.entry(product).or_insert_with(|| {
            products.push(product);
            products.len() as u32
        });
    }
}

/// Parts of names of kernels that help a product: sums after a split, conversions and sums around attention,
/// arguments of grouped products.
const HELPERS: [&str; 11] = [
    "splitkreduce",
    "splitk_reduce",
    "lean_reduction",
    "combine",
    "convert_dq",
    "dot_do_o",
    "mergestate",
    "merge_attn",
    "reduce_1block",
    "prepare_grouped",
    "group_gemm_starts",
];

/// Which kernels do matrix work, and which of them help others; by `KernelId`.
struct Matrix {
    class: Vec<Option<KernelClass>>,
    helper: Vec<bool>,
}

impl Matrix {
    fn new(session: &Session, facts: &Facts) -> Self {
        let class = facts.identities.iter().map(|identity| identity.class);
        let class: Vec<Option<KernelClass>> = class
            .map(|class| Some(class).filter(|class| class.is_matrix_work()))
            .collect();
        let helper = session.kernels.ids().map(|kernel| {
            class.get(kernel.index()).copied().flatten().is_some()
                && is_helper(session.kernel_name(kernel))
        });
        Self {
            helper: helper.collect(),
            class,
        }
    }

    fn class(&self, kernel: KernelId) -> Option<KernelClass> {
        self.class.get(kernel.index()).copied().flatten()
    }

    fn is_main(&self, kernel: KernelId) -> bool {
        self.class(kernel).is_some() && !self.helper[kernel.index()]
    }

    /// Matrix kernels of a stage instance with their kernels, by start.
    fn of<'a>(
        &'a self,
        session: &'a Session,
        facts: &'a Facts,
        instance: &'a StageInstance,
    ) -> impl Iterator<Item = (OpIndex, KernelId)> + 'a {
        let kernel = |op: &OpIndex| Some((*op, facts.kernel(session, *op)?));
        instance
            .ops
            .iter()
            .filter_map(kernel)
            .filter(|(_, kernel)| self.class(*kernel).is_some())
    }
}

/// Whether a matrix kernel of this name helps another one.
pub fn is_helper(name: &str) -> bool {
    let name = name.to_lowercase();
    HELPERS.iter().any(|part| name.contains(part))
}

/// Place of each stage instance among those of its stage in the same instance of the outer stage: the number of a
/// decode step in its loop. None where there is no outer instance around it.
fn positions(facts: &Facts) -> Vec<Option<u32>> {
    let mut positions = vec![None; facts.instances.len()];
    for stage in &facts.stages {
        let Some(parent) = stage.parent.and_then(|parent| facts.stages.get(parent)) else {
            continue;
        };
        let mut outer: Vec<(u32, Ns, Ns, u32)> = facts
            .instances_of(parent)
            .iter()
            .map(|instance| {
                (
                    instance.process.0,
                    instance.host_start,
                    instance.host_end,
                    0,
                )
            })
            .collect();
        outer.sort_unstable();
        for index in stage.instances.clone() {
            let instance = &facts.instances[index];
            let after = outer.partition_point(|range| {
                (range.0, range.1) <= (instance.process.0, instance.host_start)
            });
            let around = after.checked_sub(1).map(|index| &mut outer[index]);
            let around = around
                .filter(|range| range.0 == instance.process.0 && instance.host_end <= range.2);
            if let Some(around) = around {
                positions[index] = Some(around.3);
                around.3 += 1;
            }
        }
    }
    positions
}

/// Stages, those within others first.
fn innermost_first(facts: &Facts) -> Vec<usize> {
    let depth = |stage: usize| {
        let parents = std::iter::successors(facts.stages[stage].parent, |outer| {
            facts.stages.get(*outer).and_then(|stage| stage.parent)
        });
        parents.take(facts.stages.len()).count()
    };
    let mut order: Vec<usize> = (0..facts.stages.len()).collect();
    order.sort_by_key(|stage| (std::cmp::Reverse(depth(*stage)), *stage));
    order
}

/// The dtype that a framework's or a log's name of a type means; empty for others.
fn dtype(name: &str) -> &'static str {
    match name {
        "c10::BFloat16" | "R_16BF" => "bf16",
        "c10::Half" | "R_16F" => "fp16",
        "float" | "R_32F" => "fp32",
        "double" | "R_64F" => "fp64",
        "signed char" | "unsigned char" | "R_8I" | "R_8U" => "int8",
        name if name.contains("Float8") || name.starts_with("R_8F") => "fp8",
        name if name.starts_with("R_4F") => "fp4",
        _ => "",
    }
}

/// The row of the launch that an operation is.
fn launch_of(facts: &Facts, op: OpIndex) -> Option<usize> {
    match facts.ops.source[op as usize] {
        OpSource::Launch(launch) => Some(launch.index()),
        OpSource::Copy(_) | OpSource::Graph(_) => None,
    }
}
