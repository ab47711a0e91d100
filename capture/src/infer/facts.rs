//! Notes of the injected modules, as Python wrote them: one file a process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// Notes beyond this are not ours.
const MAX_BYTES: u64 = 64 << 20;

/// What one process saw of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Notes {
    pub(super) rank: Option<u64>,
    pub(super) world_size: Option<u64>,
    pub(super) torch: Option<String>,
    pub(super) models: Vec<Model>,
    pub(super) compile: BTreeMap<String, Value>,
    /// Updates by class of optimizer.
    pub(super) optimizers: BTreeMap<String, u64>,
    pub(super) parallel: Parallel,
    /// Arguments by engine.
    pub(super) engines: BTreeMap<String, BTreeMap<String, Value>>,
    pub(super) served_config: Option<Served>,
    /// The workload's own ranges.
    pub(super) ranges: BTreeMap<String, Stage>,
    /// Phases by what models and optimizers did.
    pub(super) steps: BTreeMap<String, Stage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Model {
    pub(super) class: String,
    pub(super) config: Option<Value>,
    /// Elements by data type.
    pub(super) parameters: BTreeMap<String, u64>,
    /// Quantized layers and weights by package and class.
    pub(super) layers: BTreeMap<String, u64>,
    pub(super) recomputes: bool,
    pub(super) gradients: Option<Gradients>,
    pub(super) attention: Option<String>,
    /// Devices that the layers of one model lie on.
    pub(super) devices: Option<u64>,
    pub(super) tensor_parallel: Option<u64>,
    pub(super) is_fsdp: bool,
    pub(super) matmul_precision: Option<String>,
    pub(super) autocast: Option<String>,
    pub(super) calls: Vec<Call>,
    /// Decode steps in a row, and how often there were so many.
    pub(super) decodes: Vec<(u64, u64)>,
}

/// Shares of the matrix parameters of a model.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Gradients {
    /// What training updates.
    pub(super) weights: f64,
    /// What gradients pass through to those.
    pub(super) inputs: f64,
}

/// Calls of a model with one shape.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    /// train, prefill, decode or forward.
    pub(super) phase: String,
    pub(super) batch: Option<u64>,
    pub(super) tokens: Option<u64>,
    pub(super) count: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Parallel {
    pub(super) world_size: Option<u64>,
    pub(super) backend: Option<String>,
    pub(super) meshes: Vec<Mesh>,
    /// Wrappers such as `ddp`, and the stage of ZeRO.
    #[serde(flatten)]
    pub(super) wrappers: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mesh {
    pub(super) names: Vec<String>,
    pub(super) shape: Vec<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Served {
    pub(super) config: Value,
}

/// Instances of one name, in order.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stage {
    pub(super) opened: u64,
    pub(super) ms: Vec<f64>,
    /// Whether CUDA events measured the instance; the host's clock did otherwise.
    pub(super) events: Vec<bool>,
    /// What happened in it, and how often.
    pub(super) seen: Vec<BTreeMap<String, u64>>,
    /// Its sizes by name: `batch`, `tokens`, `keys`.
    pub(super) sizes: Vec<BTreeMap<String, u64>>,
}

/// Notes of all processes of a run. What cannot be read is excluded.
pub(super) fn read(folder: &Path) -> Vec<Notes> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    files.sort_by_key(fs::DirEntry::file_name);
    let notes = files.iter().filter_map(|file| {
        let is_notes = file
            .path()
            .extension()
            .is_some_and(|ending| ending == "json");
        let is_small = file
            .metadata()
            .is_ok_and(|metadata| metadata.len() < MAX_BYTES);
        let text = (is_notes && is_small)
            .then(|| fs::read(file.path()).ok())
            .flatten()?;
        serde_json::from_slice(&text).ok()
    });
    notes.collect()
}

/// The process whose notes describe the run: the first rank; without ranks the one that did the most.
pub(super) fn main_of(all: Vec<Notes>) -> Option<Notes> {
    let opened = |notes: &Notes| notes.steps.values().map(|stage| stage.opened).sum::<u64>();
    // An engine's arguments are in one process, and its steps in those that compute.
    let steps = all
        .iter()
        .max_by_key(|notes| opened(notes))
        .map(|notes| notes.steps.clone());
    let engines = all.iter().find(|notes| !notes.engines.is_empty());
    let engines = engines.map(|notes| (notes.engines.clone(), notes.served_config.clone()));
    let main = all.into_iter().min_by_key(|notes| {
        let calls: u64 = notes
            .models
            .iter()
            .flat_map(|model| &model.calls)
            .map(|call| call.count)
            .sum();
        let ranges: u64 = notes.ranges.values().map(|stage| stage.opened).sum();
        let done = calls
            .saturating_add(ranges)
            .saturating_add(notes.engines.len() as u64);
        (notes.rank.unwrap_or(0), u64::MAX - done)
    });
    main.map(|mut main| {
        if opened(&main) == 0 {
            main.steps = steps.unwrap_or_default();
        }
        if let Some((engines, config)) = engines.filter(|_| main.engines.is_empty()) {
            (main.engines, main.served_config) = (engines, config.or(main.served_config.take()));
        }
        main
    })
}
