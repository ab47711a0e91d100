//! Number formats of weights and caches.

use rooflens_units::Bytes;

/// How weights or a cache are stored, and at which rate they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Size of an element, scales and zero points of its group included.
    pub element: Bytes,
    /// Rates of the GPU table that such weights can be multiplied at, the fastest first.
    pub rates: &'static [&'static str],
    /// How the bytes come about; empty where they are the format's own.
    pub scales: &'static str,
    /// Only routed experts are stored so, where there are any.
    pub experts_only: bool,
}

const fn plain(name: &'static str, element: Bytes, rates: &'static [&'static str]) -> Precision {
    Precision {
        name,
        element,
        rates,
        scales: "",
        experts_only: false,
    }
}

const SIXTEEN: &[&str] = &["bf16", "fp16"];

/// All formats. Weights of 4 bits as integers are multiplied in 16 bits; those as floats too, where a GPU has no rate
/// for them.
pub const PRECISIONS: &[Precision] = &[
    plain("fp32", Bytes(4.0), &["tf32", "fp32"]),
    plain("bf16", Bytes(2.0), SIXTEEN),
    plain("fp16", Bytes(2.0), &["fp16"]),
    plain("fp8", Bytes(1.0), &["fp8", "bf16", "fp16"]),
    plain("int8", Bytes(1.0), &["int8", "bf16", "fp16"]),
    Precision {
        scales: "4 bits, a 16-bit scale for 128",
        ..plain("int4", Bytes(0.5 + 2.0 / 128.0), SIXTEEN)
    },
    Precision {
        scales: "4 bits, a 16-bit scale and a 4-bit zero point for 128",
        ..plain("awq", Bytes(0.5 + 2.5 / 128.0), SIXTEEN)
    },
    Precision {
        scales: "4 bits, a 16-bit scale and a 4-bit zero point for 128",
        ..plain("gptq", Bytes(0.5 + 2.5 / 128.0), SIXTEEN)
    },
    Precision {
        scales: "4 bits, an 8-bit scale for 32; of a mixture of experts the routed experts only",
        experts_only: true,
        ..plain("mxfp4", Bytes(0.5 + 1.0 / 32.0), &["fp4", "bf16", "fp16"])
    },
    Precision {
        scales: "4 bits, an 8-bit scale for 16",
        ..plain("nvfp4", Bytes(0.5 + 1.0 / 16.0), &["fp4", "bf16", "fp16"])
    },
];

impl Precision {
    /// The format of that name.
    pub fn find(name: &str) -> Option<Self> {
        let mut precisions = PRECISIONS.iter().copied();
        precisions.find(|precision| precision.name == name)
    }
}
