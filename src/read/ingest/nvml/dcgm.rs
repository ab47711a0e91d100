//! Text of DCGM's exporter: a line a metric and GPU, `DCGM_FI_DEV_GPU_TEMP{gpu="0",…} 42`.
//!
//! A scrape has no time of its own. A metric of a GPU that comes again begins its next state.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ArtifactFile, Diagnostic, Diagnostics, GpuSnapshot, IngestError, IngestErrorKind, Session,
    Severity,
};
use crate::check_count;

/// True if a text is of the exporter: its metrics carry the number of their GPU.
pub(super) fn is_scrape(text: &str) -> bool {
    text.lines()
        .take(400)
        .any(|line| line.starts_with("DCGM_FI_") && line.contains("{gpu=\""))
}

/// Reads the states.
pub(super) fn import(
    text: &str,
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let artifact = session.intern(&file.path);
    let mut rows: Vec<GpuSnapshot> = Vec::new();
    // Of each GPU the row that is being filled, and what it has.
    let mut open: BTreeMap<u32, (usize, BTreeSet<&str>)> = BTreeMap::new();
    let most = session.room() / size_of::<GpuSnapshot>() as u64;
    // A value that is cut is another one.
    let end = text.rfind('\n').map_or(0, |last| last + 1);
    if !text[end..].trim().is_empty() {
        let message = "the last line has no end: it may be cut and is skipped";
        let cut = Diagnostic::new(Severity::DataLoss, "nvml/cut", message);
        diagnostics.push(cut.artifact(&file.path));
    }
    for line in text[..end].lines() {
        let Some((name, labels, value)) = metric(line) else {
            continue;
        };
        let Some(gpu) = label(labels, "gpu").and_then(|gpu| gpu.parse().ok()) else {
            continue;
        };
        check_count("GPUs", open.len())?;
        let is_new = open.get(&gpu).is_none_or(|(_, seen)| seen.contains(name));
        if is_new && rows.len() as u64 >= most {
            return Err(IngestErrorKind::Budget.into());
        }
        if is_new {
            let mut named = |key: &str| label(labels, key).map(|text| session.intern(text));
            let (name, driver) = (named("modelName"), named("DCGM_FI_DRIVER_VERSION"));
            open.insert(gpu, (rows.len(), BTreeSet::new()));
            rows.push(GpuSnapshot {
                name,
                driver,
                ..GpuSnapshot::of(artifact, gpu)
            });
        }
        if let Some((row, seen)) = open.get_mut(&gpu) {
            seen.insert(name);
            set(&mut rows[*row], name, value);
        }
    }
    if rows.is_empty() {
        return Err(IngestErrorKind::Empty("it has no metric of a GPU".to_owned()).into());
    }
    let message = "a scrape has no time: its values are read in order";
    diagnostics
        .push(Diagnostic::new(Severity::Notice, "nvml/no-time", message).artifact(&file.path));
    for row in rows {
        session.gpu_snapshots.push(row);
    }
    Ok(())
}

/// Name, labels and value of a line.
fn metric(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = line
        .split_once('{')
        .filter(|(name, _)| name.starts_with("DCGM_FI_"))?;
    let (labels, value) = rest.rsplit_once('}')?;
    let value = value.split_whitespace().next()?.parse().ok();
    Some((
        name,
        labels,
        value.filter(|value| (0.0..1e15).contains(value))?,
    ))
}

fn label<'t>(labels: &'t str, name: &str) -> Option<&'t str> {
    let find = |pair: &'t str| pair.trim().strip_prefix(name)?.strip_prefix("=\"");
    labels
        .split("\",")
        .find_map(find)
        .map(|value| value.trim_end_matches('"'))
}

/// Sets what a field of DCGM is about: megahertz, watts, percent, degrees Celsius, MiB.
fn set(row: &mut GpuSnapshot, name: &str, value: f64) {
    let (small, mib) = (Some(value as u32), Some((value * 1_048_576.0) as u64));
    match name {
        "DCGM_FI_DEV_SM_CLOCK" => row.sm_mhz = small,
        "DCGM_FI_DEV_MEM_CLOCK" => row.memory_mhz = small,
        "DCGM_FI_DEV_GPU_TEMP" => row.temperature = small,
        "DCGM_FI_DEV_POWER_USAGE" => row.power_mw = Some((value * 1e3) as u64),
        "DCGM_FI_DEV_GPU_UTIL" => row.gpu_util = small.filter(|share| *share <= 100),
        "DCGM_FI_DEV_MEM_COPY_UTIL" => row.memory_util = small.filter(|share| *share <= 100),
        "DCGM_FI_DEV_FB_USED" => row.memory_used = mib,
        "DCGM_FI_DEV_FB_TOTAL" => row.memory_total = mib,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" => row.throttle_reasons = Some(value as u64),
        _ => {}
    }
}
