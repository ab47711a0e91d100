//! What a kernel does, whose it is and what its name encodes.
//!
//! Class, library, dtype and tensor cores come from the rules in `rules.toml`; tile and short name from
//! patterns of the libraries' naming schemes.

mod engine;
mod gemm;
mod names;
mod short;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

#[cfg(feature = "parallel")]
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use rooflens_schemas::PassKind;
use rooflens_session::{CopyKind, Ns, Session, StrId};

use engine::{RULES, first};
use names::Name;

crate::labels! {
    /// What a kernel does.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum KernelClass {
        /// GEMM, GEMV included.
        Gemm = "gemm",
        /// Attention.
        Attention = "attention",
        /// Convolution.
        Convolution = "convolution",
        /// Fourier transform.
        Fft = "fft",
        /// Pooling and resampling of images.
        Pooling = "pooling",
        /// Layer norm, RMS norm, batch norm.
        Normalization = "normalization",
        /// Softmax outside of attention.
        Softmax = "softmax",
        /// Sums, maxima, norms, scans.
        Reduction = "reduction",
        /// Activation and other elementwise work.
        Elementwise = "elementwise",
        /// Concatenation, transposition, cast, fill.
        Layout = "layout",
        /// Embedding look-up, gather, scatter, index.
        Gather = "gather",
        /// Sampling of tokens.
        Sampling = "sampling",
        /// Sorting and top-k.
        Sorting = "sorting",
        /// Quantization and scaling.
        Quantization = "quantization",
        /// Mixture-of-experts routing.
        MoeRouting = "moe routing",
        /// Optimizer update.
        Optimizer = "optimizer",
        /// Collective or peer communication.
        Communication = "communication",
        /// Copy or memset executed by the copy engines.
        Copy = "copy",
        /// A whole CUDA graph of unknown content.
        Graph = "cuda graph",
        /// Operators fused by a compiler that does not name the kind of work.
        Fusion = "fusion",
        /// Code of the profiled program itself, of no library.
        Application = "application",
        /// None of these.
        #[default]
        Other = "other",
    }
}

impl KernelClass {
    /// The class of that label.
    pub fn of_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.label() == label)
    }

    /// Group of classes that charts show as one.
    pub const fn group(self) -> ClassGroup {
        match self {
            Self::Gemm | Self::Convolution => ClassGroup::Gemm,
            Self::Attention => ClassGroup::Attention,
            Self::Normalization | Self::Softmax => ClassGroup::Normalization,
            Self::Reduction | Self::Elementwise | Self::Quantization | Self::Optimizer => {
                ClassGroup::Elementwise
            }
            Self::Layout | Self::Gather | Self::Copy => ClassGroup::Copy,
            Self::Communication => ClassGroup::Communication,
            Self::Fft
            | Self::Pooling
            | Self::Sampling
            | Self::Sorting
            | Self::MoeRouting
            | Self::Graph
            | Self::Fusion
            | Self::Application
            | Self::Other => ClassGroup::Other,
        }
    }

    /// Whether its work is GEMMs.
    pub const fn is_matrix_work(self) -> bool {
        matches!(self, Self::Gemm | Self::Attention | Self::Convolution)
    }

    /// Whether its kernels could be fused into others: products and attention do the work, collectives and copy engines
    /// move it, the optimizer's run after all of them, and of others nobody knows.
    pub const fn is_fusible(self) -> bool {
        matches!(
            self,
            Self::Normalization
                | Self::Softmax
                | Self::Elementwise
                | Self::Reduction
                | Self::Quantization
                | Self::Layout
                | Self::Gather
        )
    }
}

crate::labels! {
    /// Group of kernel classes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ClassGroup {
        /// GEMMs and convolutions.
        Gemm,
        /// Attention.
        Attention,
        /// Normalization and softmax.
        Normalization,
        /// Elementwise, reduction, quantization, optimizer.
        Elementwise,
        /// Copies, layout changes, gathers.
        Copy,
        /// Collectives.
        Communication,
        /// Everything else, whole CUDA graphs included.
        Other,
    }
}

/// Time by group, in the order of [`ClassGroup::ALL`], nanoseconds.
pub type GroupTimes = [Ns; ClassGroup::ALL.len()];

/// The class of an operation of the copy engines.
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
    /// Name for people, such as `nvjet 128x64 tile, split-K`; never empty, at most 48 characters.
    pub short: String,
    /// GEMM tile, if the name encodes it.
    pub tile: Option<Tile>,
    /// Whether the kernel runs on tensor cores, if the name tells.
    pub tensor_cores: Option<bool>,
}

impl KernelIdentity {
    /// Whether it is attention of cuDNN, which is planned for each length of the sequence.
    pub fn is_cudnn_attention(&self) -> bool {
        self.library == "cuDNN" && self.class == KernelClass::Attention
    }
}

/// Tile of a GEMM: the part that one block computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Depth of a step; 0 if the name does not tell.
    pub k: u32,
}

/// What one kernel's name tells. The name may come from any profiler, mangled or not.
pub fn identify(name: &str) -> KernelIdentity {
    let name = Name::new(name);
    let class = first(&RULES.class, &name)
        .and_then(KernelClass::of_label)
        .unwrap_or_default();
    let dtype = first(&RULES.dtype, &name).unwrap_or_default();
    let tile = match class {
        KernelClass::Gemm | KernelClass::Convolution => gemm::tile(&name.text),
        _ => None,
    };
    let tensor_cores = first(&RULES.tensor_cores, &name)
        .filter(|_| class.is_matrix_work())
        .map(|answer| answer == "yes");
    KernelIdentity {
        class,
        library: first(&RULES.library, &name).unwrap_or_default(),
        dtype,
        short: short::short(&name, class, dtype, tile),
        tile,
        tensor_cores,
    }
}

/// A kernel's name in the spelling that all profilers share: without parameters, spaces and casts.
pub fn signature(name: &str) -> String {
    let whole = Name::new(name)
        .whole
        .replace("true", "1")
        .replace("false", "0");
    let mut signature = String::with_capacity(whole.len());
    let mut depth = 0_usize;
    for c in whole.chars().filter(|c| !c.is_whitespace()) {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ => {}
        }
        signature.push(c);
    }
    signature
}

/// Libraries that programs of any kind call; a kernel of any other comes with a framework.
const PLAIN_LIBRARIES: [&str; 15] = [
    "",
    "CUB / Thrust",
    "CUTLASS",
    "CuPy",
    "Kokkos",
    "NCCL",
    "NVSHMEM",
    "RAJA",
    "cuBLAS",
    "cuBLASLt",
    "cuDNN",
    "cuFFT",
    "cuRAND",
    "cuSPARSE",
    "cuTENSOR",
];

/// What the names of all kernels of a session tell, by `KernelId`.
pub fn identities(session: &Session) -> Vec<KernelIdentity> {
    let identities = by_name(session);
    session
        .kernels
        .name
        .iter()
        .map(|name| identities[name].clone())
        .collect()
}

/// What the names of all kernels and of all profiled launches of a session tell.
///
/// A kernel of no known library and no known class is the program's own where the session has no trace of a
/// framework and no kernel that came with one; with one it may be the framework's, and stays unknown.
pub fn by_name(session: &Session) -> FxHashMap<StrId, KernelIdentity> {
    let names = session
        .kernels
        .name
        .iter()
        .chain(&session.kernel_profiles.name)
        .copied();
    let names: BTreeSet<StrId> = names.collect();
    let identity = |name: StrId| (name, identify(session.text(name)));
    #[cfg(feature = "parallel")]
    let mut identities: Vec<(StrId, KernelIdentity)> =
        names.into_par_iter().map(identity).collect();
    #[cfg(not(feature = "parallel"))]
    let mut identities: Vec<(StrId, KernelIdentity)> = names.into_iter().map(identity).collect();
    let traced = session.passes.kind.contains(&PassKind::Operators);
    if !traced
        && identities
            .iter()
            .all(|(_, identity)| PLAIN_LIBRARIES.contains(&identity.library))
    {
        let unknown = |identity: &KernelIdentity| {
            identity.class == KernelClass::Other && identity.library.is_empty()
        };
        for (_, identity) in identities
            .iter_mut()
            .filter(|(_, identity)| unknown(identity))
        {
            identity.class = KernelClass::Application;
        }
    }
    identities.into_iter().collect()
}
