//! `--self-test`: each operation on small sizes, against the host.

use std::collections::BTreeMap;

use super::operation::{Case, Kind};
use super::reference::{self, Attention, Convolution};
use super::workloads::{self, Tensor};
use crate::cuda::{CudaError, Device, Dtype};

/// What one check found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    pub(super) name: String,
    /// The largest error as a share of what is allowed; or why there is no result.
    pub(super) outcome: Result<f64, String>,
}

impl Check {
    /// Whether the result is right.
    pub(super) fn passed(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|error| *error <= 1.0)
    }

    /// One line of the table.
    pub(super) fn line(&self) -> String {
        let verdict = if self.passed() { "pass" } else { "FAIL" };
        match &self.outcome {
            Ok(error) => format!("{verdict} {} ({error:.3} of the tolerance)", self.name),
            Err(reason) => format!("{verdict} {} ({reason})", self.name),
        }
    }
}

/// Small and awkward sizes: rows that are not a multiple of a tile, heads that share keys unevenly.
const CASES: &[(Kind, &[(&str, u64)])] = &[
    (Kind::Linear, &[("batch", 1), ("sequence", 24), ("in", 64), ("out", 40), ("bias", 0)]),
    (Kind::Linear, &[("batch", 2), ("sequence", 8), ("in", 128), ("out", 64), ("bias", 1)]),
    (Kind::BatchedGemm, &[("batch", 3), ("m", 16), ("n", 24), ("k", 64)]),
    (
        Kind::AttentionPrefill,
        &[("batch", 2), ("sequence", 150), ("heads", 4), ("kv_heads", 2), ("head_dim", 128)],
    ),
    (
        Kind::AttentionPrefill,
        &[("batch", 1), ("sequence", 128), ("heads", 2), ("kv_heads", 2), ("head_dim", 128)],
    ),
    (
        Kind::AttentionPrefill,
        &[("batch", 1), ("sequence", 1), ("heads", 1), ("kv_heads", 1), ("head_dim", 128)],
    ),
    (
        Kind::AttentionDecode,
        &[("batch", 2), ("context", 333), ("heads", 12), ("kv_heads", 2), ("head_dim", 128)],
    ),
    (
        Kind::AttentionDecode,
        &[("batch", 1), ("context", 7), ("heads", 3), ("kv_heads", 3), ("head_dim", 128)],
    ),
    (Kind::Softmax, &[("batch", 1), ("heads", 2), ("sequence", 3), ("keys", 1000)]),
    (Kind::LayerNorm, &[("batch", 1), ("sequence", 5), ("hidden", 1048)]),
    (Kind::RmsNorm, &[("batch", 1), ("sequence", 5), ("hidden", 1048)]),
    (Kind::Gelu, &[("batch", 1), ("sequence", 3), ("hidden", 136)]),
    (Kind::Silu, &[("batch", 1), ("sequence", 3), ("hidden", 136)]),
    (Kind::SiluMul, &[("batch", 1), ("sequence", 3), ("hidden", 136)]),
    (Kind::Rotary, &[("batch", 2), ("sequence", 5), ("heads", 3), ("head_dim", 64)]),
    (Kind::Embedding, &[("batch", 2), ("sequence", 9), ("hidden", 72), ("vocabulary", 31)]),
    (
        Kind::Conv2d,
        &[
            ("batch", 2),
            ("channels_in", 8),
            ("channels_out", 16),
            ("height", 9),
            ("width", 7),
            ("kernel", 3),
            ("stride", 2),
            ("padding", 1),
        ],
    ),
    (Kind::Lstm, &[("batch", 8), ("sequence", 4), ("in", 16), ("hidden", 32)]),
];

/// Runs all checks; one that fails costs that one.
pub(super) fn run(device: &Device) -> Vec<Check> {
    let mut checks = Vec::new();
    for (kind, sizes) in CASES {
        for dtype in [Dtype::Bf16, Dtype::Fp16, Dtype::Fp32] {
            if *kind == Kind::AttentionPrefill && dtype == Dtype::Fp32 {
                continue;
            }
            let case =
                Case { kind: *kind, dtype, sizes: BTreeMap::from_iter(sizes.iter().copied()) };
            let outcome = one(device, &case).map_err(|error| error.to_string());
            checks.push(Check { name: case.name(), outcome });
        }
    }
    checks
}

fn one(device: &Device, case: &Case) -> Result<f64, CudaError> {
    let mut workload = workloads::prepare(device, case)?;
    (workload.launch)(0)?;
    device.synchronize()?;
    let read = |tensor: &Tensor| Ok(decode(&tensor.download()?, tensor));
    let inputs: Result<Vec<_>, CudaError> = workload.inputs.iter().map(|t| read(t)).collect();
    let output = workload.output.as_deref().map(read).transpose()?.unwrap_or_default();
    let expected = expect(case, &inputs?);
    if output.len() != expected.len() {
        let message = format!("{} values instead of {}", output.len(), expected.len());
        return Err(CudaError::Unsupported(message));
    }
    Ok(worst(&output, &expected, tolerance(case)))
}

/// Allowed error of a value of size one, and of larger ones in proportion: some roundings of the format. In an LSTM the
/// gates, and the state after each step, are rounded as well.
fn tolerance(case: &Case) -> f64 {
    let rounding = match case.dtype {
        Dtype::Bf16 => 1.0 / 256.0,
        Dtype::Fp16 => 1.0 / 2048.0,
        _ => 1e-5,
    };
    match case.kind {
        Kind::Lstm => 8.0 * rounding,
        _ => 2.0 * rounding,
    }
}

/// The largest |a − b| / (tolerance · max(1, |b|)); infinite where a value is not a number.
fn worst(output: &[f32], expected: &[f32], tolerance: f64) -> f64 {
    let error = |(a, b): (&f32, &f32)| {
        let (a, b) = (f64::from(*a), f64::from(*b));
        let error = (a - b).abs() / (tolerance * b.abs().max(1.0));
        if error.is_nan() { f64::INFINITY } else { error }
    };
    output.iter().zip(expected).map(error).fold(0.0, f64::max)
}

fn expect(case: &Case, inputs: &[Vec<f32>]) -> Vec<f32> {
    let s = |name| case.size(name) as usize;
    let input = |number: usize| inputs.get(number).map_or(&[][..], Vec::as_slice);
    let [a, b, c] = [input(0), input(1), input(2)];
    match case.kind {
        Kind::Linear => reference::linear(a, b, inputs.get(2).map(Vec::as_slice), s("in")),
        Kind::BatchedGemm => {
            let pairs = a.chunks_exact(s("m") * s("k")).zip(b.chunks_exact(s("n") * s("k")));
            pairs.flat_map(|(x, w)| reference::linear(x, w, None, s("k"))).collect()
        }
        Kind::AttentionPrefill => {
            reference::attention(a, b, c, attention(case, s("sequence"), s("sequence")))
        }
        Kind::AttentionDecode => reference::attention(a, b, c, attention(case, 1, s("context"))),
        Kind::Softmax => reference::softmax(a, s("keys")),
        Kind::LayerNorm => reference::layer_norm(a, b, c),
        Kind::RmsNorm => reference::rms_norm(a, b),
        Kind::Gelu => a.iter().map(|x| reference::gelu(*x)).collect(),
        Kind::Silu => a.iter().map(|x| reference::silu(*x)).collect(),
        Kind::SiluMul => a.iter().zip(b).map(|(g, u)| reference::silu(*g) * u).collect(),
        Kind::Rotary => reference::rotary(a, b, c, s("heads"), s("head_dim")),
        Kind::Embedding => {
            let row = |index: &f32| a.chunks_exact(s("hidden")).nth(*index as usize);
            b.iter().filter_map(row).flatten().copied().collect()
        }
        Kind::Conv2d => reference::conv2d(a, b, convolution(case)),
        Kind::Lstm => reference::lstm(a, b, c, s("batch"), s("hidden")),
        Kind::CopyDevice | Kind::CopyToDevice | Kind::CopyToHost => Vec::new(),
    }
}

fn attention(case: &Case, queries: usize, keys: usize) -> Attention {
    let s = |name| case.size(name) as usize;
    Attention { heads: s("heads"), kv_heads: s("kv_heads"), queries, keys, dim: s("head_dim") }
}

fn convolution(case: &Case) -> Convolution {
    let s = |name| case.size(name) as usize;
    let (rows, columns) = case.image();
    Convolution {
        height: s("height"),
        width: s("width"),
        channels: s("channels_in"),
        rows: rows as usize,
        columns: columns as usize,
        kernel: s("kernel"),
        stride: s("stride"),
        padding: s("padding"),
    }
}

/// The numbers of a tensor; indices as they are.
fn decode(bytes: &[u8], tensor: &Tensor) -> Vec<f32> {
    let wide = bytes.as_chunks::<4>().0.iter();
    let narrow = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_ne_bytes(*pair));
    match tensor.dtype {
        _ if tensor.indices => wide.map(|four| u32::from_ne_bytes(*four) as f32).collect(),
        Dtype::Bf16 => narrow.map(|bits| f32::from_bits(u32::from(bits) << 16)).collect(),
        Dtype::Fp16 => narrow.map(half).collect(),
        _ => wide.map(|four| f32::from_ne_bytes(*four)).collect(),
    }
}

/// The value of an IEEE half.
fn half(bits: u16) -> f32 {
    let (sign, exponent) = (if bits >> 15 == 0 { 1.0 } else { -1.0 }, bits >> 10 & 31);
    let fraction = f32::from(bits & 1023) / 1024.0;
    sign * match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2f32.powi(i32::from(exponent) - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_ieee_values() {
        let values = [0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x7c00].map(half);
        assert_eq!(values[..2], [1.0, -2.0]);
        assert!((values[2] - 1.0 / 3.0).abs() < 1e-4);
        assert_eq!(values[3..], [5.960_464_5e-8, 65504.0, f32::INFINITY]);
    }

    #[test]
    fn errors_are_measured_against_the_tolerance() {
        // |10.1 − 10| = 0.1 of an allowed 10 · 0.02; |0.5 − 0.49| = 0.01 of 0.02.
        assert!((worst(&[10.1, 0.5], &[10.0, 0.49], 0.02) - 0.5).abs() < 1e-4);
        assert_eq!(worst(&[f32::NAN], &[1.0], 0.1), f64::INFINITY);
        let check = |outcome| Check { name: "x".to_owned(), outcome };
        assert!(check(Ok(0.9)).passed() && !check(Ok(1.1)).passed());
        assert!(!check(Err("no".to_owned())).passed());
    }

    #[test]
    fn every_case_states_all_sizes_of_its_kind() {
        for (kind, sizes) in CASES {
            let known: Vec<&str> = kind.description().sizes.iter().map(|(name, _)| *name).collect();
            let stated: Vec<&str> = sizes.iter().map(|(name, _)| *name).collect();
            assert_eq!(known, stated);
        }
    }
}
