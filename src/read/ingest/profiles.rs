//! Parts that the importers of Nsight Compute share: the pass that files of one report lie in, and what the
//! attributes of a launch say of its GPU.

use std::collections::BTreeMap;

use rooflens_schemas::PassKind;

use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::{GpuId, PassId, ProfileId, Session, StrId};

/// Where the launches of a file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Process of the first launch.
    pub(super) process: i64,
    /// Number of the launch, if it is the only one.
    pub(super) only_launch: Option<u32>,
}

/// The pass of a file, if it is open: files of one report lie in one pass.
pub(super) fn find_pass(file: &ArtifactFile, session: &Session) -> Option<PassId> {
    let name = session.strings.find(&file.pass)?;
    let passes = &session.passes;
    passes
        .ids()
        .find(|id| passes.name[id.index()] == name && passes.kind[id.index()] == PassKind::Counters)
}

/// Opens the pass of a file.
pub(super) fn open_pass(file: &ArtifactFile, session: &mut Session) -> PassId {
    let pass = session.add_pass(&file.pass, PassKind::Counters, &file.path);
    if let Some(tool) = &file.producer {
        let producer = format!(
            "{} {}",
            tool.name,
            tool.version.as_deref().unwrap_or_default()
        );
        session.passes.producer[pass.index()] = session.strings.intern(producer.trim());
    }
    session.passes.rank[pass.index()] = file.rank;
    pass
}

/// Takes the GPU's name from an attribute of a launch.
pub(super) fn device_text(session: &mut Session, profile: ProfileId, metric: &str, text: &str) {
    if metric == "device__attribute_display_name" {
        let gpu = gpu(session, profile);
        session.gpus.name[gpu.index()] = session.strings.intern(text);
    }
}

/// Takes the GPU's dimensions from an attribute of a launch.
pub(super) fn device_number(session: &mut Session, profile: ProfileId, metric: &str, value: f64) {
    let Some(attribute) = metric.strip_prefix("device__attribute_") else {
        return;
    };
    let row = gpu(session, profile).index();
    let gpus = &mut session.gpus;
    match attribute {
        "multiprocessor_count" => gpus.sm_count[row] = Some(value as u32),
        "total_memory" => gpus.memory_bytes[row] = Some(value as u64),
        // Kilohertz.
        "clock_rate" => gpus.clock_hz[row] = Some((value as u64).saturating_mul(1000)),
        _ => {}
    }
}

/// Takes the bandwidth of the GPUs' memories from the attributes of launches: its width on both edges of its clock.
pub(super) fn memory_bandwidths(session: &mut Session) {
    let attribute = |name: &str| session.strings.find(name);
    let (Some(clock), Some(width)) = (
        attribute("device__attribute_memory_clock_rate"),
        attribute("device__attribute_global_memory_bus_width"),
    ) else {
        return;
    };
    let mut attributes_of = BTreeMap::<ProfileId, (Option<f64>, Option<f64>)>::new();
    let metrics = &session.profile_metrics;
    for row in 0..metrics.len() {
        match metrics.metric[row] {
            id if id == clock => {
                attributes_of.entry(metrics.profile[row]).or_default().0 = metrics.value[row]
            }
            id if id == width => {
                attributes_of.entry(metrics.profile[row]).or_default().1 = metrics.value[row]
            }
            _ => {}
        }
    }
    for (profile, attributes) in attributes_of {
        // Kilohertz and bits; an integrated GPU has zeros.
        if let (Some(clock), Some(width)) = attributes
            && clock > 0.0
            && width > 0.0
        {
            let row = gpu(session, profile).index();
            session.gpus.memory_bandwidth[row] = Some((clock * 1e3 * 2.0 * width / 8.0) as u64);
        }
    }
}

/// The GPU of a launch.
pub(super) fn gpu(session: &mut Session, profile: ProfileId) -> GpuId {
    let profiles = &session.kernel_profiles;
    let (pass, device) = (
        profiles.pass[profile.index()],
        profiles.device[profile.index()],
    );
    session.gpu(pass, device)
}

/// Units of what is counted or timed, which is never negative.
const COUNTED: [&str; 8] = [
    "s", "byte", "byte/s", "Hz", "cycle", "inst", "sector", "warp",
];

/// No count or rate of a launch comes near: the fastest GPUs have rates of 2e16 a second.
const MOST: f64 = 1e21;

/// The most that a share of a peak was seen with in tiny kernels is 222 %, a hit rate 897 %; occupancy 105 %.
const MOST_PERCENT: f64 = 1000.0;
const MOST_OCCUPANCY: f64 = 150.0;

/// Takes away values that no GPU can have, so that no figure rests on them; what stood there stays as text.
pub(super) fn withhold_impossible(session: &mut Session, diagnostics: &mut Diagnostics) {
    let mut losses = BTreeMap::<StrId, (u64, String)>::new();
    for row in 0..session.profile_metrics.len() {
        let metrics = &session.profile_metrics;
        let (name, unit) = (
            session.text(metrics.metric[row]),
            session.text(metrics.unit[row]),
        );
        let Some(value) = metrics.value[row].filter(|value| !is_possible(name, unit, *value))
        else {
            continue;
        };
        let artifact = session.kernel_profiles.artifact[metrics.profile[row].index()];
        let shown = format!("{value} {unit}");
        let first = || (0, format!("{name} = {}", shown.trim_end()));
        losses.entry(artifact).or_insert_with(first).0 += 1;
        let text = session.intern(&format!("impossible: {}", shown.trim_end()));
        session.profile_metrics.value[row] = None;
        session.profile_metrics.text[row] = Some(text);
    }
    for (artifact, (count, first)) in losses {
        let message =
            format!("counters with values that no GPU can have are skipped; the first: {first}");
        let diagnostic =
            Diagnostic::new(Severity::DataLoss, "ncu/impossible", message).times(count);
        diagnostics.push(diagnostic.artifact(session.text(artifact)));
    }
}

/// True if a GPU can have this value. Maxima over units of a chip are scaled by ncu to other peaks, and attributes of
/// the device are no measurements.
fn is_possible(name: &str, unit: &str, value: f64) -> bool {
    if name.starts_with("device__attribute_") {
        return value.is_finite();
    }
    let most = match unit {
        "%" if name.contains(".max") || name.starts_with("derived__") => MOST,
        "%" if name.contains("Occupancy") || name.starts_with("sm__warps_active.") => {
            MOST_OCCUPANCY
        }
        "%" => MOST_PERCENT,
        _ => MOST,
    };
    let least = match unit {
        "%" => -MOST_PERCENT,
        _ if COUNTED.contains(&unit) => 0.0,
        _ => -MOST,
    };
    (least..=most).contains(&value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn import(page: &str) -> (Session, Diagnostics) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("raw.csv");
        std::fs::write(&path, page).unwrap();
        let mut diagnostics = Diagnostics::default();
        let mut bundle = rooflens_bundle::open(&[path], &mut diagnostics).unwrap();
        crate::identify(&mut bundle, &mut diagnostics);
        let session = crate::import(&bundle, &mut diagnostics, &mut |_| ());
        (session, diagnostics)
    }

    #[test]
    fn attributes_of_the_device_give_its_memory_bandwidth() {
        let page = "\"ID\",\"Process ID\",\"Process Name\",\"Kernel Name\",\"device__attribute_memory_clock_rate\",\"device__attribute_global_memory_bus_width\"\n\
            \"\",\"\",\"\",\"\",\"\",\"\"\n\"0\",\"7\",\"a\",\"k\",";
        // 7.001 GHz × 2 × 192 bits ÷ 8; an integrated GPU has no clock of its own.
        for (values, expected) in [
            ("\"7,001,000\",\"192\"", Some(336_048_000_000)),
            ("\"0\",\"0\"", None),
        ] {
            let (session, _) = import(&format!("{page}{values}\n"));
            assert_eq!(session.gpus.memory_bandwidth, [expected], "{values}");
        }
    }

    #[test]
    fn impossible_counters_are_kept_as_texts_and_said() {
        let (session, diagnostics) = import(
            "\"ID\",\"Process ID\",\"Process Name\",\"Kernel Name\",\"gpu__time_duration.sum\",\"sm__warps_active.avg.pct_of_peak_sustained_active\"\n\
            \"\",\"\",\"\",\"\",\"us\",\"%\"\n\
            \"0\",\"7\",\"a\",\"k\",\"-10\",\"4000\"\n\"1\",\"7\",\"a\",\"k\",\"10\",\"50\"\n",
        );
        let metrics = &session.profile_metrics;
        assert_eq!(metrics.value, [None, None, Some(1e-5), Some(50.0)]);
        let texts: Vec<_> = metrics
            .text
            .iter()
            .map(|text| text.map(|id| session.text(id)))
            .collect();
        assert_eq!(
            texts[..2],
            [Some("impossible: -0.00001 s"), Some("impossible: 4000 %")]
        );
        let loss = diagnostics
            .iter()
            .find(|diagnostic| diagnostic.code == "ncu/impossible")
            .unwrap();
        assert_eq!((loss.severity, loss.count), (Severity::DataLoss, 2));
    }

    #[test]
    fn values_that_no_gpu_can_have_are_told() {
        let occupancy = "sm__warps_active.avg.pct_of_peak_sustained_active";
        for (name, unit, value, expected) in [
            (occupancy, "%", 4000.0, false),
            ("Achieved Occupancy", "%", 4000.0, false),
            (occupancy, "%", 104.7, true),
            (
                "sm__warps_active.max.pct_of_peak_sustained_active",
                "%",
                3267.8,
                true,
            ),
            ("DRAM Throughput", "%", 1e300, false),
            (
                "l1tex__throughput.avg.pct_of_peak_sustained_active",
                "%",
                221.8,
                true,
            ),
            ("gpu__time_duration.sum", "s", -1e-5, false),
            ("gpu__time_duration.sum", "s", 1e-5, true),
            ("dram__bytes_read.sum", "byte", f64::NAN, false),
            ("dram__bytes_read.sum", "byte", f64::INFINITY, false),
            ("device__attribute_numa_id", "", -1.0, true),
            ("derived__pct_occupancy_per_block_size", "%", 5706.0, true),
        ] {
            assert_eq!(is_possible(name, unit, value), expected, "{name} {value}");
        }
    }
}
