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
    pub(crate) const ALL: [Self; 7] =
        [Self::Fp64, Self::Fp32, Self::Tf32, Self::Fp16, Self::Bf16, Self::Fp8E4m3, Self::Int8];

    /// The name in files, as in `peaks.json`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8E4m3 => "fp8_e4m3",
            Self::Int8 => "int8",
        }
    }

    /// The format of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes of an element.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Fp64 => 8,
            Self::Fp32 | Self::Tf32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Fp8E4m3 | Self::Int8 => 1,
        }
    }

    /// The format of a matrix product's result: 8-bit operands give wider ones.
    pub(crate) const fn product(self) -> Self {
        match self {
            Self::Fp8E4m3 => Self::Bf16,
            Self::Int8 => Self::Fp32,
            other => other,
        }
    }

    /// The compute capability from which on matrix products of this format exist.
    pub(crate) const fn capability(self) -> (i32, i32) {
        match self {
            Self::Fp64 | Self::Fp32 | Self::Fp16 => (0, 0),
            Self::Int8 => (7, 2),
            Self::Tf32 | Self::Bf16 => (8, 0),
            Self::Fp8E4m3 => (8, 9),
        }
    }

    /// The macro that selects the format in our kernels.
    pub(crate) const fn define(self) -> &'static str {
        match self {
            Self::Fp64 => "FP64",
            Self::Fp32 | Self::Tf32 => "FP32",
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Fp8E4m3 => "FP8",
            Self::Int8 => "INT8",
        }
    }
}
