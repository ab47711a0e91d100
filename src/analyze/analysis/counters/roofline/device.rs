//! Which GPU a pass of Nsight Compute ran on: only raw pages name it.

use std::collections::BTreeSet;

use rooflens_session::{PassId, Session};

/// A device name and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name as the driver reports it.
    pub name: String,
    /// How it was found: a key of the catalogue.
    pub basis: &'static str,
}

/// The GPU of a pass: named by its own report, else the only name that the rest of the session has for
/// GPUs of its compute capability, else the only name among the measured peaks or the environment.
pub fn of_pass(session: &Session, pass: PassId) -> Option<Device> {
    let gpus = &session.gpus;
    let named = |index: &usize| !session.text(gpus.name[*index]).is_empty();
    let gpu_rows = || (0..gpus.len()).filter(|index| gpus.pass[*index] == pass);
    let device_named = |names: BTreeSet<&str>, basis| match names.len() {
        1 => names.first().map(|name| Device {
            name: (*name).to_owned(),
            basis,
        }),
        _ => None,
    };
    let stated = gpu_rows()
        .filter(named)
        .map(|index| session.text(gpus.name[index]))
        .collect();
    let capability = gpu_rows().find_map(|index| gpus.compute_capability[index]);
    let of_capability = (0..gpus.len())
        .filter(|index| capability.is_some() && gpus.compute_capability[*index] == capability)
        .filter(named)
        .map(|index| session.text(gpus.name[index]))
        .collect();
    let peaks = session
        .measured_peaks
        .gpu
        .iter()
        .map(|name| session.text(*name));
    let peaks = peaks.filter(|name| !name.is_empty()).collect();
    device_named(stated, "device.report")
        .or_else(|| device_named(of_capability, "device.capability"))
        .or_else(|| device_named(peaks, "device.peaks"))
        .or_else(|| device_named(environment(session), "device.environment"))
}

fn environment(session: &Session) -> BTreeSet<&str> {
    let facts = &session.environment;
    let is_name = |index: &usize| {
        session.text(facts.subject[*index]).starts_with("gpu")
            && ["name", "product name", "product_name"].contains(&session.text(facts.key[*index]))
    };
    (0..facts.len())
        .filter(is_name)
        .map(|index| session.text(facts.value[index]))
        .collect()
}
