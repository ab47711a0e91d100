//! Clocks and power while something runs, from NVML.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use serde_json::{Map, Value, json};

use super::Device;

/// Reads clocks of one GPU; says nothing where there is no NVML.
pub(crate) struct ClockReader {
    nvml: Option<Nvml>,
    address: String,
}

impl ClockReader {
    /// For the GPU that CUDA opened.
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            nvml: Nvml::init().ok(),
            address: device.pci_address().unwrap_or_default(),
        }
    }

    /// `sm_mhz`, `memory_mhz` and `power_w` now, as far as they are known.
    pub(crate) fn now(&self) -> Value {
        self.read(|gpu| {
            [
                (
                    "sm_mhz",
                    gpu.clock_info(Clock::SM).ok().map(|mhz| json!(mhz)),
                ),
                (
                    "memory_mhz",
                    gpu.clock_info(Clock::Memory).ok().map(|mhz| json!(mhz)),
                ),
                (
                    "power_w",
                    gpu.power_usage().ok().map(|mw| json!(f64::from(mw) / 1e3)),
                ),
            ]
        })
    }

    /// The highest clocks, `sm_max_mhz` and `memory_max_mhz`, and the power limit, `power_limit_w`.
    pub(crate) fn limits(&self) -> Value {
        self.read(|gpu| {
            let limit = gpu.enforced_power_limit().ok();
            [
                (
                    "sm_max_mhz",
                    gpu.max_clock_info(Clock::SM).ok().map(|mhz| json!(mhz)),
                ),
                (
                    "memory_max_mhz",
                    gpu.max_clock_info(Clock::Memory).ok().map(|mhz| json!(mhz)),
                ),
                ("power_limit_w", limit.map(|mw| json!(f64::from(mw) / 1e3))),
            ]
        })
    }

    fn read(
        &self,
        ask: impl Fn(&nvml_wrapper::Device<'_>) -> [(&'static str, Option<Value>); 3],
    ) -> Value {
        let gpu = self
            .nvml
            .as_ref()
            .and_then(|nvml| nvml.device_by_pci_bus_id(self.address.as_str()).ok());
        let Some(gpu) = gpu else { return Value::Null };
        let known = ask(&gpu)
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(known.collect::<Map<_, _>>())
    }
}
