//! `--self-test`: each operation on small sizes, against the host.

use super::operation::{Case, Kind};
use super::reference::{self, Attention};
use super::sweep::Sweep;
use super::workloads::{self, Setup, Tensor, Way};
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

/// What is checked: all operations but copies.
const CASES: &str = include_str!("check.toml");

/// Runs all checks, each way of an operation for itself; one that fails costs that one.
pub(super) fn run(device: &Device) -> Vec<Check> {
    let sweep = Sweep::parse(CASES).expect("a test reads the cases");
    sweep
        .cases
        .iter()
        .flat_map(|case| ways(device, case))
        .collect()
}

fn ways(device: &Device, case: &Case) -> Vec<Check> {
    // The first way is ours.
    let names = [case.name(), format!("{} by cuDNN", case.name())];
    let ways = names.into_iter().zip(workloads::ways(case.kind));
    let mut checks: Vec<(String, Result<f64, CudaError>)> = ways
        .map(|(name, way)| (name, one(device, case, way)))
        .collect();
    // What one way does not have another one must.
    let lacks = |outcome: &Result<f64, CudaError>| {
        matches!(
            outcome,
            Err(CudaError::Unsupported(_) | CudaError::NoLibrary(_))
        )
    };
    if checks.iter().any(|(_, outcome)| !lacks(outcome)) {
        checks.retain(|(_, outcome)| !lacks(outcome));
    }
    let check = |(name, outcome): (String, Result<f64, CudaError>)| Check {
        name,
        outcome: outcome.map_err(|error| error.to_string()),
    };
    checks.into_iter().map(check).collect()
}

fn one(device: &Device, case: &Case, way: &Way) -> Result<f64, CudaError> {
    let mut workload = way(&Setup::new(device, case)?)?;
    (workload.launch)(0)?;
    device.synchronize()?;
    let read = |tensor: &Tensor| Ok(decode(&tensor.download()?, tensor));
    let inputs: Result<Vec<_>, CudaError> = workload.inputs.iter().map(|t| read(t)).collect();
    let output = workload
        .output
        .as_deref()
        .map(read)
        .transpose()?
        .unwrap_or_default();
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
            let pairs = a
                .chunks_exact(s("m") * s("k"))
                .zip(b.chunks_exact(s("n") * s("k")));
            pairs
                .flat_map(|(x, w)| reference::linear(x, w, None, s("k")))
                .collect()
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
        Kind::SiluMul => a
            .iter()
            .zip(b)
            .map(|(g, u)| reference::silu(*g) * u)
            .collect(),
        Kind::Rotary => reference::rotary(a, b, c, s("heads"), s("head_dim")),
        Kind::Embedding => {
            let row = |index: &f32| a.chunks_exact(s("hidden")).nth(*index as usize);
            b.iter().filter_map(row).flatten().copied().collect()
        }
        Kind::Conv2d => reference::conv2d(a, b, case),
        Kind::Lstm => reference::lstm(a, b, c, s("batch"), s("hidden")),
        Kind::CopyDevice | Kind::CopyToDevice | Kind::CopyToHost => Vec::new(),
    }
}

fn attention(case: &Case, queries: usize, keys: usize) -> Attention {
    let s = |name| case.size(name) as usize;
    Attention {
        heads: s("heads"),
        kv_heads: s("kv_heads"),
        queries,
        keys,
        dim: s("head_dim"),
    }
}

/// The numbers of a tensor; indices as they are.
fn decode(bytes: &[u8], tensor: &Tensor) -> Vec<f32> {
    let wide = bytes.as_chunks::<4>().0.iter();
    let narrow = bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u16::from_ne_bytes(*pair));
    match tensor.dtype {
        _ if tensor.indices => wide.map(|four| u32::from_ne_bytes(*four) as f32).collect(),
        Dtype::Bf16 => narrow
            .map(|bits| f32::from_bits(u32::from(bits) << 16))
            .collect(),
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
    use super::super::operation::DESCRIPTIONS;
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
        let check = |outcome| Check {
            name: "x".to_owned(),
            outcome,
        };
        assert!(check(Ok(0.9)).passed() && !check(Ok(1.1)).passed());
        assert!(!check(Err("no".to_owned())).passed());
    }

    #[test]
    fn every_operation_is_checked_on_sizes_that_are_stated() {
        let sweep = Sweep::parse(CASES).expect("is valid");
        // 15 entries in three formats and 5 in two.
        assert_eq!(sweep.cases.len(), 55);
        let table: toml::Table = CASES.parse().expect("is valid");
        let entries = table["case"].as_array().expect("a list");
        for description in DESCRIPTIONS
            .iter()
            .filter(|description| !description.kind.is_copy())
        {
            let is_it =
                |entry: &&toml::Value| entry["operation"].as_str() == Some(description.name);
            assert!(
                entries.iter().any(|entry| is_it(&entry)),
                "{}",
                description.name
            );
            for entry in entries.iter().filter(is_it) {
                let stated = |(name, _): &(&str, u64)| entry.get(name).is_some();
                assert!(description.sizes.iter().all(stated), "{entry}");
            }
        }
    }
}
