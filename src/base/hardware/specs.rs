//! Reads the built-in table from `specs.toml`.

use std::collections::BTreeMap;
use std::ops::Mul;

use rooflens_units::{Bytes, BytesPerSecond, FlopsPerSecond, Hertz, Watts};
use serde::Deserialize;

use super::{DTYPES, Gpu, Hardware, Peak, PerClock};

const SPECS: &str = include_str!("specs.toml");

/// A quantity that the file states in multiples of its unit.
#[derive(Clone, Copy, Deserialize)]
#[serde(transparent)]
struct Multiple<M, const FACTOR: u64>(M);

type Mega<M> = Multiple<M, 1_000_000>;
type Giga<M> = Multiple<M, 1_000_000_000>;
type Tera<M> = Multiple<M, 1_000_000_000_000>;

impl<M: Mul<f64, Output = M>, const FACTOR: u64> Multiple<M, FACTOR> {
    fn measure(self) -> M {
        self.0 * FACTOR as f64
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Specs {
    documents: BTreeMap<String, String>,
    per_clock: PerClock,
    gpu: Vec<GpuSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuSpec {
    name: String,
    architecture: String,
    names: Vec<String>,
    sm_count: u32,
    boost_mhz: Mega<Hertz>,
    vector_mhz: Option<Mega<Hertz>>,
    memory: MemorySpec,
    power_watts: Watts,
    nvlink: Option<Giga<BytesPerSecond>>,
    source: String,
    #[serde(default)]
    sparse_halved: bool,
    #[serde(default)]
    peaks: BTreeMap<String, PeakSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemorySpec {
    gigabytes: Giga<Bytes>,
    bandwidth: Giga<BytesPerSecond>,
    source: String,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeakSpec {
    dense: Tera<FlopsPerSecond>,
    sparse: Option<Tera<FlopsPerSecond>>,
    note: Option<String>,
}

pub(super) fn builtin() -> Hardware {
    let specs: Specs = toml::from_str(SPECS).expect("the built-in table is read by a test");
    let document = |key: &str| specs.documents.get(key).cloned().unwrap_or_default();
    let gpus = specs
        .gpu
        .iter()
        .map(|gpu| gpu.build(&document, &specs.per_clock))
        .collect();
    Hardware {
        gpus,
        per_clock: specs.per_clock,
    }
}

impl GpuSpec {
    fn build(&self, document: &impl Fn(&str) -> String, per_clock: &PerClock) -> Gpu {
        let mut peaks = Vec::new();
        for dtype in DTYPES {
            let Some(spec) = self.peaks.get(*dtype) else {
                continue;
            };
            peaks.push(Peak {
                dtype: (*dtype).to_owned(),
                dense: spec.dense.measure(),
                sparse: spec.sparse.map(Tera::measure),
                source: self.peak_source(dtype, spec, document),
            });
        }
        let mut memory_source = document(&self.memory.source);
        append(&mut memory_source, self.memory.note.as_deref());
        let mut gpu = Gpu {
            name: self.name.clone(),
            architecture: self.architecture.clone(),
            aliases: self.names.clone(),
            sm_count: self.sm_count,
            boost_hz: self.boost_mhz.measure(),
            vector_boost_hz: self.vector_mhz.unwrap_or(self.boost_mhz).measure(),
            memory_bandwidth: self.memory.bandwidth.measure(),
            memory_source,
            memory_bytes: self.memory.gigabytes.measure(),
            power_watts: self.power_watts,
            nvlink_bandwidth: self.nvlink.map(|both_ways| both_ways.measure() / 2.0),
            peaks,
        };
        if gpu.peaks.is_empty() {
            gpu.compute_peaks(per_clock, &document(&self.source));
        }
        gpu
    }

    fn peak_source(
        &self,
        dtype: &str,
        spec: &PeakSpec,
        document: &impl Fn(&str) -> String,
    ) -> String {
        let mut source = document(&self.source);
        let accumulates = matches!(dtype, "fp16" | "bf16" | "fp8" | "fp4");
        append(&mut source, accumulates.then_some("FP32 accumulate"));
        let halved = self.sparse_halved && spec.sparse.is_some();
        append(
            &mut source,
            halved.then_some("sparse figure of the source ÷ 2"),
        );
        append(&mut source, spec.note.as_deref());
        source
    }
}

fn append(source: &mut String, note: Option<&str>) {
    if let Some(note) = note {
        source.push_str("; ");
        source.push_str(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Datasheets round to two digits at worst (V100 PCIe: 7 TFLOP/s for 7.07; B200: 37 for 37.2).
    const TOLERANCE: f64 = 0.013;

    #[test]
    fn peaks_are_sms_times_operations_per_clock_times_boost() {
        let hardware = builtin();
        for gpu in &hardware.gpus {
            // The export-capped H20 runs its tensor cores below what its clock would give.
            if gpu.name == "H20" {
                continue;
            }
            for peak in &gpu.peaks {
                let per_clock = &hardware.per_clock[&gpu.architecture][&peak.dtype];
                let vector = matches!(peak.dtype.as_str(), "fp32" | "fp64" | "fp64_tensor");
                let clock = if vector {
                    gpu.vector_boost_hz
                } else {
                    gpu.boost_hz
                };
                let computed = f64::from(gpu.sm_count) * *per_clock * clock;
                let off = peak.dense / computed - 1.0;
                assert!(
                    off.abs() < TOLERANCE,
                    "{} {}: {off:+.4}",
                    gpu.name,
                    peak.dtype
                );
            }
        }
    }

    #[test]
    fn computed_rates_are_those_that_whitepapers_print() {
        let hardware = builtin();
        // Whitepapers of Turing (reference boards), GA102, Ada and RTX Blackwell, and datasheets of the rest, which print tensor
        // rates with sparsity: half of these. 10^12 operations per second, dense, with FP32 accumulation.
        for (gpu, dtype, printed) in [
            ("GeForce RTX 2080 Ti", "fp16", 53.8),
            ("GeForce RTX 2080 Ti", "int8", 215.2),
            ("GeForce RTX 2080", "fp16", 40.3),
            ("GeForce RTX 2080", "fp32", 10.1),
            ("TITAN RTX", "fp16", 130.5),
            ("GeForce RTX 3080", "fp32", 29.8),
            ("GeForce RTX 3080", "bf16", 59.5),
            ("GeForce RTX 4080", "fp32", 48.7),
            ("GeForce RTX 4080", "fp16", 97.5),
            ("GeForce RTX 5070 Ti", "fp16", 87.9),
            ("GeForce RTX 5080", "fp16", 112.6),
            ("GeForce RTX 5080", "fp8", 225.1),
            ("NVIDIA A100-PG509-200", "bf16", 312.0),
            ("NVIDIA A16", "fp16", 17.9),
            (
                "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                "fp4",
                3511.0 / 2.0,
            ),
            (
                "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                "fp32",
                110.0,
            ),
            ("NVIDIA RTX 5000 Ada Generation", "fp8", 1044.4 / 2.0),
            ("NVIDIA RTX 4500 Ada Generation", "fp8", 634.0 / 2.0),
            ("NVIDIA RTX 4000 Ada Generation", "fp8", 427.6 / 2.0),
            ("NVIDIA RTX 2000 Ada Generation", "fp8", 191.9 / 2.0),
            ("NVIDIA RTX A5500", "fp16", 272.8 / 2.0),
            ("NVIDIA RTX A4500", "fp16", 189.2 / 2.0),
            ("NVIDIA RTX A2000", "fp16", 63.9 / 2.0),
            ("Quadro RTX 4000", "fp16", 57.0),
            ("Jetson AGX Orin 64GB", "int8", 85.0),
            ("Jetson AGX Orin 64GB", "fp32", 5.3),
            ("Jetson T5000", "fp4", 2070.0 / 2.0),
            ("Jetson T4000", "fp4", 1200.0 / 2.0),
            ("TITAN Xp", "fp32", 12.15),
            ("Tesla P40", "fp32", 11.76),
        ] {
            let peak = hardware
                .find(gpu)
                .and_then(|gpu| gpu.peak(dtype))
                .expect(gpu);
            assert!(
                peak.source.starts_with("computed"),
                "{gpu} {dtype}: {}",
                peak.source
            );
            let off = peak.dense.0 / 1e12 / printed - 1.0;
            assert!(off.abs() < 0.005, "{gpu} {dtype}: {off:+.4}");
        }
    }

    #[test]
    fn sparse_is_twice_dense_and_every_number_has_a_source() {
        for gpu in builtin().gpus {
            assert!(gpu.memory_source.contains("https://"), "{}", gpu.name);
            for peak in &gpu.peaks {
                let (name, dtype) = (&gpu.name, &peak.dtype);
                assert!(peak.source.contains("https://"), "{name} {dtype}");
                if let Some(sparse) = peak.sparse {
                    let ratio = sparse / peak.dense;
                    assert!((ratio - 2.0).abs() < 0.026, "{name} {dtype}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn every_entry_of_the_file_is_read() {
        let specs: Specs = toml::from_str(SPECS).expect("valid TOML");
        for gpu in &specs.gpu {
            for dtype in gpu.peaks.keys() {
                assert!(DTYPES.contains(&dtype.as_str()), "{} {dtype}", gpu.name);
            }
            assert!(specs.documents.contains_key(&gpu.source), "{}", gpu.name);
            assert!(
                specs.documents.contains_key(&gpu.memory.source),
                "{}",
                gpu.name
            );
        }
        assert_eq!(builtin().gpus.len(), SPECS.matches("[[gpu]]").count());
    }

    #[test]
    fn known_contradictions_are_settled_dense_with_fp32_accumulation() {
        let hardware = builtin();
        let dense = |gpu: &str, dtype: &str| {
            hardware
                .find(gpu)
                .and_then(|gpu| gpu.peak(dtype))
                .map(|peak| peak.dense.0 / 1e12)
        };
        // 330 is FP16 accumulate; 125 is the A10's; 1979 is sparse.
        assert_eq!(dense("NVIDIA GeForce RTX 4090", "fp16"), Some(165.2));
        assert_eq!(dense("NVIDIA A10G", "bf16"), Some(70.0));
        assert_eq!(dense("NVIDIA A10", "bf16"), Some(125.0));
        assert_eq!(dense("NVIDIA H200", "bf16"), Some(989.4));
        assert_eq!(dense("NVIDIA GB200", "bf16"), Some(2500.0));
        assert_eq!(dense("Tesla T4", "bf16"), None);
        // 900 GB/s is both directions.
        assert_eq!(
            hardware
                .find("NVIDIA H200")
                .and_then(|gpu| gpu.nvlink_bandwidth),
            Some(BytesPerSecond(450e9))
        );
        assert_eq!(
            hardware
                .find("NVIDIA L40S")
                .and_then(|gpu| gpu.nvlink_bandwidth),
            None
        );
        assert_eq!(
            hardware.find("H100 SXM").map(|gpu| gpu.memory_bandwidth),
            Some(BytesPerSecond(3.35e12))
        );
    }
}
