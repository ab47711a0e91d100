//! What a kernel does, whose it is and what its name encodes.

use crate::model::CopyKind;

/// What a kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelClass {
    /// Matrix product, GEMV included.
    Gemm,
    /// Attention.
    Attention,
    /// Convolution.
    Convolution,
    /// Layer norm, RMS norm, batch norm.
    Normalization,
    /// Softmax outside of attention.
    Softmax,
    /// Sums, maxima, norms.
    Reduction,
    /// Activation and other elementwise work.
    Elementwise,
    /// Concatenation, transposition, cast, fill.
    Layout,
    /// Embedding look-up, gather, scatter, index.
    Gather,
    /// Sorting, top-k, sampling.
    Sampling,
    /// Quantization and scaling.
    Quantization,
    /// Mixture-of-experts routing.
    MoeRouting,
    /// Optimizer update.
    Optimizer,
    /// Collective or peer communication.
    Communication,
    /// Copy or memset executed by the copy engines.
    Copy,
    /// A whole CUDA graph of unknown content.
    Graph,
    /// None of these.
    #[default]
    Other,
}

/// Whether an operation's class is known from its direction.
pub const fn copy_class(_: CopyKind) -> KernelClass {
    KernelClass::Copy
}

/// What a kernel's name tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelIdentity {
    /// What it does.
    pub class: KernelClass,
    /// Whose it is, such as `cuBLASLt`; empty if unknown.
    pub library: &'static str,
    /// Data type of its work, such as `bf16`; empty if the name does not tell.
    pub dtype: &'static str,
    /// Name for people, such as `nvjet 128x64 tile, split-K`; never empty.
    pub short: String,
    /// GEMM tile, if the name encodes it.
    pub tile: Option<Tile>,
    /// Whether the kernel runs on tensor cores, if the name tells.
    pub tensor_cores: Option<bool>,
}

/// Tile of a matrix product: the part that one block computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Depth of a step; 0 if the name does not tell.
    pub k: u32,
}

/// What the name of a kernel tells.
pub fn identify(name: &str) -> KernelIdentity {
    KernelIdentity { short: name.to_owned(), ..KernelIdentity::default() }
}
