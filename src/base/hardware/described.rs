//! Rates of GPUs that no datasheet in the table covers, from their SMs and clock.

use rooflens_units::{Bytes, BytesPerSecond, Hertz};

use super::{DTYPES, Gpu, Hardware, Peak, PerClock};

/// A GPU as its driver describes it.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Device name.
    pub name: &'a str,
    /// Compute capability, major × 10 + minor.
    pub capability: u32,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Highest SM clock.
    pub clock: Hertz,
    /// Memory bandwidth.
    pub memory_bandwidth: BytesPerSecond,
    /// Device memory.
    pub memory: Bytes,
}

impl Hardware {
    /// Adds a GPU that is not in the table, if its rates follow from its compute capability and name.
    pub fn describe(&mut self, device: &Device<'_>) {
        let architecture = architecture(device).filter(|_| self.find(device.name).is_none());
        let Some(architecture) = architecture else {
            return;
        };
        let source = "as the capture describes the device";
        let mut gpu = Gpu {
            name: device.name.to_owned(),
            architecture: architecture.to_owned(),
            sm_count: device.sm_count,
            boost_hz: device.clock,
            vector_boost_hz: device.clock,
            memory_bandwidth: device.memory_bandwidth,
            memory_source: source.to_owned(),
            memory_bytes: device.memory,
            ..Gpu::default()
        };
        gpu.compute_peaks(&self.per_clock, source);
        self.gpus.push(gpu);
    }
}

/// The architecture whose rates a device has; none where they depend on more than compute capability and name, as with
/// data-centre products whose rates are capped.
fn architecture(device: &Device<'_>) -> Option<&'static str> {
    let has = |part| device.name.contains(part);
    let (geforce, rtx) = (has("GeForce"), has("RTX"));
    Some(match device.capability {
        60 => "Pascal",
        61 => "Pascal GeForce",
        70 => "Volta",
        75 if has("GTX") || has("MX") || has("Quadro T") => "Turing without tensor cores",
        75 if geforce => "Turing GeForce",
        75 => "Turing",
        86 if geforce => "Ampere GA102 GeForce",
        86 if rtx => "Ampere GA102 professional",
        87 => "Ampere GA10B",
        89 if geforce => "Ada GeForce",
        89 if rtx => "Ada professional",
        101 | 110 => "Blackwell Thor",
        120 if geforce => "RTX Blackwell GeForce",
        120 if rtx => "RTX Blackwell professional",
        _ => return None,
    })
}

impl Gpu {
    /// Rates from SMs, operations per SM and clock of the architecture, and boost clock.
    pub(super) fn compute_peaks(&mut self, per_clock: &PerClock, source: &str) {
        let Some(rates) = per_clock.get(&self.architecture) else {
            return;
        };
        let (sms, mhz) = (self.sm_count, self.boost_hz.0 / 1e6);
        self.peaks.clear();
        for dtype in DTYPES {
            let Some(rate) = rates.get(*dtype) else {
                continue;
            };
            let rate_of_all = f64::from(sms) * *rate;
            self.peaks.push(Peak {
                dtype: (*dtype).to_owned(),
                dense: rate_of_all * self.boost_hz,
                sparse: None,
                source: format!(
                    "computed: {sms} SMs × {} operations per SM and clock × {mhz} MHz; {source}",
                    rate.0
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_units::FlopsPerSecond;

    const LAPTOP: Device<'_> = Device {
        name: "NVIDIA GeForce RTX 3060 Laptop GPU",
        capability: 86,
        sm_count: 30,
        clock: Hertz(1.425e9),
        memory_bandwidth: BytesPerSecond(336e9),
        memory: Bytes(6e9),
    };

    #[test]
    fn a_device_that_describes_itself_has_the_rates_of_its_architecture() {
        let mut hardware = Hardware::builtin();
        hardware.describe(&LAPTOP);
        let gpu = hardware.find(LAPTOP.name).expect("it was added");
        // 30 SMs × 256 and × 512 × 1.425 GHz.
        assert_eq!(
            gpu.peak("fp32").map(|peak| peak.dense),
            Some(FlopsPerSecond(10.944e12))
        );
        assert_eq!(
            gpu.peak("fp16").map(|peak| peak.dense),
            Some(FlopsPerSecond(21.888e12))
        );
        assert!(gpu.peak("fp8").is_none());
        assert_eq!(gpu.memory_bandwidth, BytesPerSecond(336e9));
    }

    #[test]
    fn what_the_table_has_or_what_may_be_capped_is_not_computed() {
        let mut hardware = Hardware::builtin();
        let known = hardware.gpus.len();
        for (name, capability) in [
            ("NVIDIA H20", 90),
            ("NVIDIA L20", 89),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 80),
        ] {
            hardware.describe(&Device {
                name,
                capability,
                ..LAPTOP
            });
        }
        hardware.describe(&Device {
            name: "NVIDIA GeForce RTX 3060",
            ..LAPTOP
        });
        assert_eq!(hardware.gpus.len(), known);
        // 28 SMs × 512 × 1777 MHz, whatever the capture says.
        let dense = |gpu: &str| {
            hardware
                .find(gpu)
                .and_then(|gpu| gpu.peak("bf16"))
                .map(|peak| peak.dense)
        };
        assert_eq!(
            dense("RTX 3060"),
            Some(FlopsPerSecond(28.0 * 512.0 * 1777e6))
        );
    }
}
