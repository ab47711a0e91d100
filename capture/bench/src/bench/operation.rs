//! The operations, their sizes, and what they cost: pure arithmetic, no device.
//!
//! FLOP counts follow the usual convention: a multiplication and an addition are two, a function such as exp or erf is
//! one. Bytes are those that must move at least once between memory and chip: each operand read once, each result
//! written once. What a cache or a scratch matrix adds is not counted.

use std::collections::BTreeMap;

use rooflens_units::{Bytes, Flops};

use crate::cuda::Dtype;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Linear,
    BatchedGemm,
    AttentionPrefill,
    AttentionDecode,
    Softmax,
    LayerNorm,
    RmsNorm,
    Gelu,
    Silu,
    SiluMul,
    Rotary,
    Embedding,
    Conv2d,
    Lstm,
    CopyDevice,
    CopyToDevice,
    CopyToHost,
}

/// What is known of a kind: its name, its sizes with their defaults, its formulas in words, and how it is computed.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) sizes: &'static [(&'static str, u64)],
    /// FLOP in words and computed; e is bytes of an element, T = batch * sequence.
    pub(crate) flops_formula: &'static str,
    flops: fn(&Case) -> f64,
    pub(crate) bytes_formula: &'static str,
    bytes: fn(&Case) -> f64,
    pub(crate) implementation: &'static str,
}

const TOKENS: [(&str, u64); 3] = [("batch", 1), ("sequence", 2048), ("hidden", 4096)];

/// All operations.
pub(crate) static DESCRIPTIONS: &[Description] = &[
    Description {
        kind: Kind::Linear,
        name: "linear",
        sizes: &[
            ("batch", 1),
            ("sequence", 2048),
            ("in", 4096),
            ("out", 4096),
            ("bias", 0),
        ],
        flops_formula: "2*T*out*in + bias*T*out",
        flops: |c| c.t() * c.f("out") * (2.0 * c.f("in") + c.f("bias")),
        bytes_formula: "e*(T*in + out*in + T*out + bias*out)",
        bytes: |c| {
            c.e() * (c.t() * (c.f("in") + c.f("out")) + c.f("out") * (c.f("in") + c.f("bias")))
        },
        implementation: "cuBLASLt, first choice of its heuristic",
    },
    Description {
        kind: Kind::BatchedGemm,
        name: "batched_gemm",
        sizes: &[("batch", 32), ("m", 1024), ("n", 1024), ("k", 128)],
        flops_formula: "2*batch*m*n*k",
        flops: |c| 2.0 * c.f("batch") * c.f("m") * c.f("n") * c.f("k"),
        bytes_formula: "e*batch*(m*k + n*k + m*n)",
        bytes: |c| {
            let [m, n, k] = ["m", "n", "k"].map(|name| c.f(name));
            c.e() * c.f("batch") * (m * k + n * k + m * n)
        },
        implementation: "cublasGemmStridedBatchedEx",
    },
    Description {
        kind: Kind::AttentionPrefill,
        name: "attention_prefill",
        sizes: &[
            ("batch", 1),
            ("sequence", 2048),
            ("heads", 32),
            ("kv_heads", 8),
            ("head_dim", 128),
        ],
        flops_formula: "2*batch*heads*head_dim*sequence*(sequence + 1), causal",
        flops: |c| 2.0 * c.t() * c.f("heads") * c.f("head_dim") * (c.f("sequence") + 1.0),
        bytes_formula: "2*e*T*head_dim*(heads + kv_heads)",
        bytes: |c| 2.0 * c.e() * c.t() * c.f("head_dim") * (c.f("heads") + c.f("kv_heads")),
        implementation: "Rooflens kernel prefill: tensor cores by mma.sync, running softmax",
    },
    Description {
        kind: Kind::AttentionDecode,
        name: "attention_decode",
        sizes: &[
            ("batch", 8),
            ("context", 2048),
            ("heads", 32),
            ("kv_heads", 8),
            ("head_dim", 128),
        ],
        flops_formula: "4*batch*heads*head_dim*context",
        flops: |c| 4.0 * c.f("batch") * c.f("heads") * c.f("head_dim") * c.f("context"),
        bytes_formula: "2*e*batch*head_dim*(heads + kv_heads*context)",
        bytes: |c| {
            let rows = c.f("heads") + c.f("kv_heads") * c.f("context");
            2.0 * c.e() * c.f("batch") * c.f("head_dim") * rows
        },
        implementation: "Rooflens kernel decode: the context is split, the last block of a head merges",
    },
    Description {
        kind: Kind::Softmax,
        name: "softmax",
        sizes: &[
            ("batch", 1),
            ("heads", 32),
            ("sequence", 1024),
            ("keys", 1024),
        ],
        flops_formula: "5*batch*heads*sequence*keys",
        flops: |c| 5.0 * c.t() * c.f("heads") * c.f("keys"),
        bytes_formula: "2*e*batch*heads*sequence*keys",
        bytes: |c| 2.0 * c.e() * c.t() * c.f("heads") * c.f("keys"),
        implementation: "Rooflens kernel softmax",
    },
    Description {
        kind: Kind::LayerNorm,
        name: "layer_norm",
        sizes: &TOKENS,
        flops_formula: "7*T*hidden",
        flops: |c| 7.0 * c.t() * c.f("hidden"),
        bytes_formula: "2*e*T*hidden + 2*e*hidden",
        bytes: |c| 2.0 * c.e() * c.f("hidden") * (c.t() + 1.0),
        implementation: "Rooflens kernel layer_norm",
    },
    Description {
        kind: Kind::RmsNorm,
        name: "rms_norm",
        sizes: &TOKENS,
        flops_formula: "4*T*hidden",
        flops: |c| 4.0 * c.t() * c.f("hidden"),
        bytes_formula: "2*e*T*hidden + e*hidden",
        bytes: |c| c.e() * c.f("hidden") * (2.0 * c.t() + 1.0),
        implementation: "Rooflens kernel rms_norm",
    },
    Description {
        kind: Kind::Gelu,
        name: "gelu",
        sizes: &TOKENS,
        flops_formula: "5*T*hidden",
        flops: |c| 5.0 * c.t() * c.f("hidden"),
        bytes_formula: "2*e*T*hidden",
        bytes: |c| 2.0 * c.e() * c.t() * c.f("hidden"),
        implementation: "Rooflens kernel gelu, exact form",
    },
    Description {
        kind: Kind::Silu,
        name: "silu",
        sizes: &TOKENS,
        flops_formula: "4*T*hidden",
        flops: |c| 4.0 * c.t() * c.f("hidden"),
        bytes_formula: "2*e*T*hidden",
        bytes: |c| 2.0 * c.e() * c.t() * c.f("hidden"),
        implementation: "Rooflens kernel silu",
    },
    Description {
        kind: Kind::SiluMul,
        name: "silu_mul",
        sizes: &TOKENS,
        flops_formula: "5*T*hidden",
        flops: |c| 5.0 * c.t() * c.f("hidden"),
        bytes_formula: "3*e*T*hidden",
        bytes: |c| 3.0 * c.e() * c.t() * c.f("hidden"),
        implementation: "Rooflens kernel silu_mul",
    },
    Description {
        kind: Kind::Rotary,
        name: "rotary",
        sizes: &[
            ("batch", 1),
            ("sequence", 2048),
            ("heads", 32),
            ("head_dim", 128),
        ],
        flops_formula: "3*T*heads*head_dim",
        flops: |c| 3.0 * c.t() * c.f("heads") * c.f("head_dim"),
        bytes_formula: "2*e*T*heads*head_dim + 4*sequence*head_dim (tables in fp32)",
        bytes: |c| c.f("head_dim") * (2.0 * c.e() * c.t() * c.f("heads") + 4.0 * c.f("sequence")),
        implementation: "Rooflens kernel rotary, halves of a head paired",
    },
    Description {
        kind: Kind::Embedding,
        name: "embedding",
        sizes: &[
            ("batch", 1),
            ("sequence", 2048),
            ("hidden", 4096),
            ("vocabulary", 32000),
        ],
        flops_formula: "0",
        flops: |_| 0.0,
        bytes_formula: "2*e*T*hidden + 4*T",
        bytes: |c| 2.0 * c.e() * c.t() * c.f("hidden") + 4.0 * c.t(),
        implementation: "Rooflens kernel embedding",
    },
    Description {
        kind: Kind::Conv2d,
        name: "conv2d",
        sizes: &[
            ("batch", 8),
            ("channels_in", 64),
            ("channels_out", 64),
            ("height", 56),
            ("width", 56),
            ("kernel", 3),
            ("stride", 1),
            ("padding", 1),
        ],
        flops_formula: "2*batch*rows*columns*channels_out*kernel^2*channels_in",
        flops: |c| 2.0 * c.f("batch") * c.pixels() * c.filters(),
        bytes_formula: "e*(batch*height*width*channels_in + channels_out*kernel^2*channels_in + batch*rows*columns*channels_out)",
        bytes: |c| {
            let image = c.f("height") * c.f("width") * c.f("channels_in");
            let result = c.pixels() * c.f("channels_out");
            c.e() * (c.f("batch") * (image + result) + c.filters())
        },
        implementation: "Rooflens kernel patches, then cuBLASLt; channels last",
    },
    Description {
        kind: Kind::Lstm,
        name: "lstm",
        sizes: &[
            ("batch", 64),
            ("sequence", 64),
            ("in", 1024),
            ("hidden", 1024),
        ],
        flops_formula: "8*T*hidden*(in + hidden), matrix products alone",
        flops: |c| 8.0 * c.t() * c.f("hidden") * (c.f("in") + c.f("hidden")),
        bytes_formula: "e*(T*in + 4*hidden*(in + hidden) + T*hidden)",
        bytes: |c| (c.t() + 4.0 * c.f("hidden")) * (c.f("in") + c.f("hidden")) * c.e(),
        implementation: "cuBLASLt for all steps' inputs, then cuBLASLt and own kernel lstm_step a step",
    },
    Description {
        kind: Kind::CopyDevice,
        name: "copy_d2d",
        sizes: &[("bytes", 1 << 30)],
        flops_formula: "0",
        flops: |_| 0.0,
        bytes_formula: "2*bytes, read plus write",
        bytes: |c| 2.0 * c.f("bytes"),
        implementation: "cuMemcpyDtoDAsync",
    },
    Description {
        kind: Kind::CopyToDevice,
        name: "copy_h2d",
        sizes: &[("bytes", 1 << 28)],
        flops_formula: "0",
        flops: |_| 0.0,
        bytes_formula: "bytes, over the link",
        bytes: |c| c.f("bytes"),
        implementation: "cuMemcpyHtoDAsync, pinned memory",
    },
    Description {
        kind: Kind::CopyToHost,
        name: "copy_d2h",
        sizes: &[("bytes", 1 << 28)],
        flops_formula: "0",
        flops: |_| 0.0,
        bytes_formula: "bytes, over the link",
        bytes: |c| c.f("bytes"),
        implementation: "cuMemcpyDtoHAsync, pinned memory",
    },
];

/// One operation with its sizes and number format.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) dtype: Dtype,
    /// One for each size of the kind's description.
    pub(crate) sizes: BTreeMap<&'static str, u64>,
}

impl Kind {
    /// What is known of it.
    pub(crate) fn description(self) -> &'static Description {
        let found = DESCRIPTIONS
            .iter()
            .find(|description| description.kind == self);
        found.expect("each kind is in the table: a test counts them")
    }

    /// Whether cuDNN is tried.
    pub(crate) fn uses_cudnn(self) -> bool {
        matches!(
            self,
            Self::Conv2d | Self::AttentionPrefill | Self::AttentionDecode
        )
    }

    /// Copies have no number format.
    pub(crate) fn is_copy(self) -> bool {
        matches!(
            self,
            Self::CopyDevice | Self::CopyToDevice | Self::CopyToHost
        )
    }
}

impl Case {
    /// A size by its name; zero where the kind has none of that name.
    pub(crate) fn size(&self, name: &str) -> u64 {
        self.sizes.get(name).copied().unwrap_or(0)
    }

    /// batch * sequence.
    pub(crate) fn tokens(&self) -> u64 {
        self.size("batch") * self.size("sequence")
    }

    /// Height and width of a convolution's result; zero where the kernel is larger than the image.
    pub(crate) fn image(&self) -> (u64, u64) {
        let one = |length: u64| {
            let room = (length + 2 * self.size("padding")).checked_sub(self.size("kernel"));
            room.map_or(0, |room| room / self.size("stride").max(1) + 1)
        };
        (one(self.size("height")), one(self.size("width")))
    }

    /// The name of its NVTX range: operation, number format, sizes in the order of the description.
    pub(crate) fn name(&self) -> String {
        let description = self.kind.description();
        let mut name = description.name.to_owned();
        if !self.kind.is_copy() {
            name = format!("{name} {}", self.dtype.name());
        }
        for (size, _) in description.sizes {
            name = format!("{name} {size}={}", self.size(size));
        }
        name
    }

    /// FLOP of one launch. Exact below 2⁵³.
    pub(crate) fn flops(&self) -> Flops {
        Flops((self.kind.description().flops)(self))
    }

    /// Bytes that one launch must move. Exact below 2⁵³.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes((self.kind.description().bytes)(self))
    }

    fn f(&self, name: &str) -> f64 {
        self.size(name) as f64
    }

    /// T of the formulas.
    fn t(&self) -> f64 {
        self.f("batch") * self.f("sequence")
    }

    /// e of the formulas.
    fn e(&self) -> f64 {
        self.dtype.bytes() as f64
    }

    /// Rows times columns of a convolution's result.
    fn pixels(&self) -> f64 {
        let (rows, columns) = self.image();
        rows as f64 * columns as f64
    }

    /// Weights of a convolution.
    fn filters(&self) -> f64 {
        self.f("channels_out") * self.f("kernel") * self.f("kernel") * self.f("channels_in")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(kind: Kind, dtype: Dtype, sizes: &[(&'static str, u64)]) -> Case {
        let mut all: BTreeMap<_, _> = kind.description().sizes.iter().copied().collect();
        for (name, value) in sizes {
            assert!(
                all.insert(name, *value).is_some(),
                "{name} is a size of {kind:?}"
            );
        }
        Case {
            kind,
            dtype,
            sizes: all,
        }
    }

    #[test]
    fn the_table_has_each_kind_once() {
        // 17 variants; `description` finds each by the last one's number.
        assert_eq!(DESCRIPTIONS.len(), 17);
        assert_eq!(Kind::CopyToHost as usize, 16);
        for (number, description) in DESCRIPTIONS.iter().enumerate() {
            assert_eq!(description.kind as usize, number);
        }
    }

    #[test]
    fn a_linear_layer_costs_two_flop_a_weight_and_token() {
        let sizes = [
            ("batch", 2),
            ("sequence", 3),
            ("in", 5),
            ("out", 7),
            ("bias", 1),
        ];
        let linear = case(Kind::Linear, Dtype::Bf16, &sizes);
        // 2·6·5·7 + 6·7 = 462; 2·(6·5 + 7·5 + 6·7 + 7) = 228.
        assert_eq!((linear.flops().0, linear.bytes().0), (462.0, 228.0));
        assert_eq!(
            linear.name(),
            "linear bf16 batch=2 sequence=3 in=5 out=7 bias=1"
        );
    }

    #[test]
    fn causal_attention_counts_the_lower_triangle() {
        let sizes = [
            ("batch", 1),
            ("sequence", 4),
            ("heads", 2),
            ("kv_heads", 1),
            ("head_dim", 8),
        ];
        let prefill = case(Kind::AttentionPrefill, Dtype::Bf16, &sizes);
        // 10 of 16 pairs, two products of 2·8 FLOP each, 2 heads: 10·2·16·2 = 640.
        assert_eq!(prefill.flops().0, 640.0);
        // Q and O 2·4·8, K and V 1·4·8 elements: 2·(64 + 64 + 32 + 32).
        assert_eq!(prefill.bytes().0, 384.0);
        let sizes = [
            ("batch", 3),
            ("context", 5),
            ("heads", 4),
            ("kv_heads", 2),
            ("head_dim", 8),
        ];
        let decode = case(Kind::AttentionDecode, Dtype::Fp16, &sizes);
        // 3·4 heads · 5 keys · 2 products · 16 FLOP = 1920; Q, O 3·4·8 and K, V 3·2·5·8 elements.
        assert_eq!(
            (decode.flops().0, decode.bytes().0),
            (1920.0, 2.0 * (2.0 * 96.0 + 2.0 * 240.0))
        );
    }

    #[test]
    fn rows_move_in_and_out_once_and_weights_once() {
        let sizes = [("batch", 2), ("sequence", 8), ("hidden", 64)];
        let of = |kind| case(kind, Dtype::Fp32, &sizes);
        // 16 rows of 64 elements of 4 bytes: 4096 bytes.
        assert_eq!(of(Kind::RmsNorm).bytes().0, 2.0 * 4096.0 + 256.0);
        assert_eq!(of(Kind::LayerNorm).bytes().0, 2.0 * 4096.0 + 512.0);
        assert_eq!(of(Kind::SiluMul).bytes().0, 3.0 * 4096.0);
        assert_eq!(of(Kind::RmsNorm).flops().0, 4.0 * 1024.0);
        let softmax = [("batch", 1), ("heads", 2), ("sequence", 3), ("keys", 4)];
        assert_eq!(
            case(Kind::Softmax, Dtype::Bf16, &softmax).bytes().0,
            2.0 * 2.0 * 24.0
        );
    }

    #[test]
    fn convolutions_and_lstm_are_matrix_products() {
        let sizes = [
            ("batch", 1),
            ("channels_in", 3),
            ("channels_out", 2),
            ("height", 5),
            ("width", 4),
            ("kernel", 3),
            ("stride", 2),
            ("padding", 1),
        ];
        let conv = case(Kind::Conv2d, Dtype::Bf16, &sizes);
        // (5 + 2 − 3)/2 + 1 = 3 rows, (4 + 2 − 3)/2 + 1 = 2 columns; 2·6·2·27 FLOP.
        assert_eq!((conv.image(), conv.flops().0), ((3, 2), 648.0));
        assert_eq!(conv.bytes().0, 2.0 * (60.0 + 54.0 + 12.0));
        let sizes = [("batch", 2), ("sequence", 3), ("in", 5), ("hidden", 7)];
        let lstm = case(Kind::Lstm, Dtype::Fp32, &sizes);
        // Six products of a vector of 12 by 12 × 28: 2·12·28·6 = 4032.
        assert_eq!(
            (lstm.flops().0, lstm.bytes().0),
            (4032.0, 4.0 * (30.0 + 336.0 + 42.0))
        );
    }

    #[test]
    fn the_rest_moves_bytes() {
        let rotary = [("batch", 2), ("sequence", 3), ("heads", 4), ("head_dim", 8)];
        let rotary = case(Kind::Rotary, Dtype::Bf16, &rotary);
        // 192 elements; tables 2 × 3 × 4 numbers of 4 bytes.
        assert_eq!(
            (rotary.flops().0, rotary.bytes().0),
            (576.0, 2.0 * 2.0 * 192.0 + 96.0)
        );
        let embedding = [
            ("batch", 1),
            ("sequence", 3),
            ("hidden", 16),
            ("vocabulary", 9),
        ];
        assert_eq!(
            case(Kind::Embedding, Dtype::Bf16, &embedding).bytes().0,
            2.0 * 96.0 + 12.0
        );
        let copy = case(Kind::CopyDevice, Dtype::Bf16, &[("bytes", 100)]);
        assert_eq!(
            (copy.bytes().0, copy.name().as_str()),
            (200.0, "copy_d2d bytes=100")
        );
    }
}
