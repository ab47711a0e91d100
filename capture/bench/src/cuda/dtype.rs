//! Number formats.

/// A number format of operands. TF32 is an arithmetic on FP32 operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dtype {
    Fp64,
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp8E4m3,
    Int8,
}

impl Dtype {
    /// All of them, widest first.
    pub(crate) const ALL: [Self; 7] = [
        Self::Fp64,
        Self::Fp32,
        Self::Tf32,
        Self::Fp16,
        Self::Bf16,
        Self::Fp8E4m3,
        Self::Int8,
    ];

    /// Name, bytes, capability and macro.
    const fn facts(self) -> (&'static str, u64, (i32, i32), &'static str) {
        match self {
            Self::Fp64 => ("fp64", 8, (0, 0), "FP64"),
            Self::Fp32 => ("fp32", 4, (0, 0), "FP32"),
            Self::Tf32 => ("tf32", 4, (8, 0), "FP32"),
            Self::Fp16 => ("fp16", 2, (0, 0), "FP16"),
            Self::Bf16 => ("bf16", 2, (8, 0), "BF16"),
            Self::Fp8E4m3 => ("fp8_e4m3", 1, (8, 9), "FP8"),
            Self::Int8 => ("int8", 1, (7, 2), "INT8"),
        }
    }

    /// The name in files, as in `peaks.json`.
    pub(crate) const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The format of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes of an element.
    pub(crate) const fn bytes(self) -> u64 {
        self.facts().1
    }

    /// The format of a GEMM's result: 8-bit operands give wider ones.
    pub(crate) const fn product(self) -> Self {
        match self {
            Self::Fp8E4m3 => Self::Bf16,
            Self::Int8 => Self::Fp32,
            other => other,
        }
    }

    /// The compute capability from which on GEMMs of this format exist.
    pub(crate) const fn capability(self) -> (i32, i32) {
        self.facts().2
    }

    /// The macro that selects the format in our kernels.
    pub(crate) const fn define(self) -> &'static str {
        self.facts().3
    }
}
