//! GPUs and driver as NVML tells of them, where it is there.

use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use rooflens_schemas::Fact;

/// NVLink links that a GPU of today may have.
const MAX_LINKS: u32 = 18;

/// Facts about the driver and each GPU, with UUIDs if asked for; one reason if there is no NVML.
pub(crate) fn facts(with_uuid: bool) -> Vec<Fact> {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(error) => {
            let reason = format!("NVML cannot be loaded: {error}");
            return vec![Fact::missing("driver", "version", reason)];
        }
    };
    let cuda = nvml.sys_cuda_driver_version().map(|version| {
        format!(
            "{}.{}",
            cuda_driver_version_major(version),
            cuda_driver_version_minor(version)
        )
    });
    let (count, gpu_count) = match nvml.device_count() {
        Ok(count) => (count, Fact::known("driver", "gpu_count", count.to_string())),
        Err(error) => (
            0,
            Fact::missing("driver", "gpu_count", format!("NVML: {error}")),
        ),
    };
    let mut facts = vec![
        fact("driver", "version", nvml.sys_driver_version()),
        fact("driver", "cuda_version", cuda),
        gpu_count,
    ];
    for index in 0..count {
        let subject = format!("gpu {index}");
        match nvml.device_by_index(index) {
            Ok(gpu) => {
                facts.extend(gpu_facts(&subject, &gpu));
                facts.extend(link_facts(&subject, &gpu));
                facts.extend(with_uuid.then(|| fact(&subject, "uuid", gpu.uuid())));
            }
            Err(error) => facts.push(Fact::missing(subject, "name", error.to_string())),
        }
    }
    facts
}

/// The name of the first GPU, where there is one.
pub(crate) fn first_gpu() -> Option<String> {
    Nvml::init().ok()?.device_by_index(0).ok()?.name().ok()
}

fn gpu_facts(gpu_name: &str, gpu: &Device<'_>) -> Vec<Fact> {
    let capability = gpu
        .cuda_compute_capability()
        .map(|at| format!("{}.{}", at.major, at.minor));
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    let mode = gpu
        .mig_mode()
        .map(|mode| if mode.current == 0 { "off" } else { "on" });
    let on = |is_on: bool| if is_on { "on" } else { "off" };
    vec![
        fact(gpu_name, "name", gpu.name()),
        fact(gpu_name, "compute_capability", capability),
        fact(gpu_name, "cuda_cores", gpu.num_cores()),
        fact(
            gpu_name,
            "memory_bytes",
            gpu.memory_info().map(|memory| memory.total),
        ),
        fact(gpu_name, "memory_bus_bits", gpu.memory_bus_width()),
        fact(gpu_name, "sm_clock_max_mhz", gpu.max_clock_info(Clock::SM)),
        fact(
            gpu_name,
            "memory_clock_max_mhz",
            gpu.max_clock_info(Clock::Memory),
        ),
        fact(
            gpu_name,
            "sm_clock_application_mhz",
            gpu.applications_clock(Clock::SM),
        ),
        fact(
            gpu_name,
            "power_limit_w",
            gpu.enforced_power_limit().map(watts),
        ),
        fact(
            gpu_name,
            "power_limit_default_w",
            gpu.power_management_limit_default().map(watts),
        ),
        fact(
            gpu_name,
            "power_limit_max_w",
            gpu.power_management_limit_constraints()
                .map(|limits| watts(limits.max_limit)),
        ),
        fact(
            gpu_name,
            "ecc",
            gpu.is_ecc_enabled().map(|ecc| on(ecc.currently_enabled)),
        ),
        fact(gpu_name, "mig", mode),
        fact(
            gpu_name,
            "persistence_mode",
            gpu.is_in_persistent_mode().map(on),
        ),
        fact(gpu_name, "pcie_generation", gpu.current_pcie_link_gen()),
        fact(gpu_name, "pcie_lanes", gpu.current_pcie_link_width()),
        fact(gpu_name, "pcie_generation_max", gpu.max_pcie_link_gen()),
        fact(gpu_name, "pcie_lanes_max", gpu.max_pcie_link_width()),
    ]
}

/// NVLink: how many links are up, and their version.
fn link_facts(gpu_name: &str, gpu: &Device<'_>) -> Vec<Fact> {
    let links: Vec<_> = (0..MAX_LINKS)
        .map(|link| gpu.link_wrapper_for(link))
        .collect();
    let states: Vec<_> = links.iter().map(|link| link.is_active()).collect();
    let active = states.iter().position(|state| matches!(state, Ok(true)));
    let up = states
        .iter()
        .filter(|state| matches!(state, Ok(true)))
        .count();
    let known = states.iter().any(Result::is_ok);
    let first = states
        .into_iter()
        .next()
        .unwrap_or(Err(NvmlError::NotSupported));
    let count = if known {
        Ok(up)
    } else {
        first.map(usize::from)
    };
    let mut facts = vec![fact(gpu_name, "nvlink_active_links", count)];
    facts.extend(active.map(|link| fact(gpu_name, "nvlink_version", links[link].version())));
    facts
}

fn fact(subject: &str, key: &str, value: Result<impl ToString, NvmlError>) -> Fact {
    match value {
        Ok(value) => Fact::known(subject, key, value.to_string()),
        Err(error) => Fact::missing(subject, key, format!("NVML: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nvml_does_not_know_is_missing_with_its_words() {
        let unsupported = fact("gpu 0", "ecc", Err::<u32, _>(NvmlError::NotSupported));
        assert_eq!(unsupported.value.known(), None);
        assert_eq!(
            fact("gpu 0", "pcie_lanes", Ok(16)),
            Fact::known("gpu 0", "pcie_lanes", "16")
        );
    }

    #[test]
    fn there_is_a_fact_on_any_machine() {
        assert_eq!(facts(false)[0].key, "version");
    }
}
