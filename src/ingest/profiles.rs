//! What importers of Nsight Compute share: the pass that files of one report lie in, and what the
//! attributes of a launch say of its GPU.

use rooflens_schemas::PassKind;

use rooflens_bundle::ArtifactFile;
use rooflens_model::{GpuId, PassId, ProfileId, Session};

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
        let producer = format!("{} {}", tool.name, tool.version.as_deref().unwrap_or_default());
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
    let Some(attribute) = metric.strip_prefix("device__attribute_") else { return };
    let at = gpu(session, profile).index();
    let gpus = &mut session.gpus;
    match attribute {
        "multiprocessor_count" => gpus.sm_count[at] = Some(value as u32),
        "total_memory" => gpus.memory_bytes[at] = Some(value as u64),
        // Kilohertz.
        "clock_rate" => gpus.clock_hz[at] = Some((value as u64).saturating_mul(1000)),
        _ => {}
    }
}

/// The GPU of a launch.
pub(super) fn gpu(session: &mut Session, profile: ProfileId) -> GpuId {
    let profiles = &session.kernel_profiles;
    let (pass, device) = (profiles.pass[profile.index()], profiles.device[profile.index()]);
    session.gpu(pass, device)
}
