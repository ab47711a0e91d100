//! `manifest.json`, version 1: every pass and every artifact of a capture bundle.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "json-schema")]
use schemars::JsonSchema;

/// The version of the manifest that this crate reads and writes.
pub const VERSION: u32 = 1;

/// The file name of a bundle's manifest.
pub const FILE_NAME: &str = "manifest.json";

/// The key of the fact how a pass ended that did not run to its end: an exit code, or [`ENDED_BY_TIME`].
pub const ENDED: &str = "ended";

/// How a pass ended that the capture ended when its time was up.
pub const ENDED_BY_TIME: &str = "time was up";

/// The index of a capture bundle. Written last: a bundle without one is an incomplete capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Manifest {
    /// Always 1; anything else is refused.
    pub version: u32,
    /// A name for people; the bundle's identity is the hash of this manifest.
    pub name: String,
    /// When the capture began, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_at: Option<String>,
    /// The program that wrote the manifest.
    pub tool: Tool,
    /// The passes in the order in which they ran.
    #[serde(default)]
    pub passes: Vec<Pass>,
    /// The artifacts, sorted by path.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// Free facts for people: hardware owner, ticket, remarks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A program and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Tool {
    /// Name of the program, such as `nsys`.
    pub name: String,
    /// Its version as it prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What ends the name of a timeline that holds the nodes of CUDA graphs in a part of a run. Another timeline holds all of
/// the run with graphs as a whole: times come from that one.
pub const NODES: &str = "-nodes";

/// What ends the name of a pass that holds Python stacks of another one: they slow down the workload, and no time counts.
pub const STACKS: &str = "-stacks";

/// One run of the workload. A bundle holds several, because profilers disturb one another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Pass {
    /// Unique within the bundle; by habit the folder's name.
    pub id: String,
    /// What was recorded in it.
    pub kind: PassKind,
    /// The exact command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Wall time of the command in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
    /// Exit code of the command; 128 and the number of the signal if one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// When the command was started, nanoseconds since 1970 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_utc_ns: Option<u64>,
    /// Why the pass was ended early, if the capture did so: what was recorded until then is there, and the exit code is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Why the pass did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// What should be known of the run: the range that did not occur, the clocks that were left as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a pass records.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PassKind {
    /// Unprofiled repeats: end-to-end times.
    Baseline,
    /// nsys: kernels, API calls, ranges on one clock.
    Timeline,
    /// ncu: hardware counters of replayed kernels.
    Counters,
    /// PyTorch profiler: framework operators and their kernels.
    Operators,
    /// Load test of a server.
    Serving,
    /// Environment, peaks: no run of the workload.
    #[default]
    Snapshot,
}

impl PassKind {
    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Timeline => "timeline",
            Self::Counters => "counters",
            Self::Operators => "operators",
            Self::Serving => "serving",
            Self::Snapshot => "snapshot",
        }
    }
}

/// One file of the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
pub struct Artifact {
    /// Path inside the bundle, `/`-separated, relative, without `..`.
    pub path: String,
    /// What it is. The content is checked against this.
    pub kind: ArtifactKind,
    /// The pass that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// The program that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<Tool>,
    /// Rank of the process in a distributed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// SHA-256 of the file's bytes, lower-case hex.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// The kinds of artifacts. Kinds that this version does not know are kept as `other` and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// Nsight Systems SQLite export.
    NsysSqlite,
    /// `nsys stats` CSV of kernel sums.
    NsysKernelSum,
    /// `nsys stats` CSV of sums of calls or ranges.
    NsysCallSum,
    /// `nsys stats` GPU trace: one row a kernel or copy.
    NsysGpuTrace,
    /// rocpd database of rocprofv3: SQLite.
    RocpdSqlite,
    /// Nsight Systems report, not exported.
    NsysReport,
    /// Nsight Compute CSV: raw, details or section page.
    NcuCsv,
    /// Nsight Compute report.
    NcuReport,
    /// PyTorch profiler (Kineto) Chrome trace.
    TorchTrace,
    /// Memory snapshot of PyTorch: pickle.
    TorchMemory,
    /// Trace of XLA's profiler, as JAX writes it: Chrome trace.
    XlaTrace,
    /// NVML samples as CSV.
    NvmlCsv,
    /// `nvidia-smi -q -x`.
    SmiXml,
    /// Our `env.json`.
    Environment,
    /// Our `timings.json`: unprofiled repeats.
    Timings,
    /// Our `runs.json`: runs of the whole command.
    Runs,
    /// Our `peaks.json` or `bench.json`: measured ceilings.
    Peaks,
    /// Hugging Face `config.json`.
    ModelConfig,
    /// Our `workload.toml`.
    Workload,
    /// cuBLAS or cuBLASLt log.
    GemmLog,
    /// Our results of a load test: `rooflens.serving.v1`.
    Serving,
    /// Prometheus metrics of a server.
    ServerMetrics,
    /// `notes.md` at the root of the bundle: the analyst's notes, Markdown.
    Notes,
    /// Anything else: logs.
    #[serde(other)]
    Other,
}

impl ArtifactKind {
    /// The words that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NsysSqlite => "Nsight Systems export",
            Self::NsysKernelSum => "nsys stats kernel summary",
            Self::NsysCallSum => "nsys stats summary of calls or ranges",
            Self::NsysGpuTrace => "nsys stats GPU trace",
            Self::RocpdSqlite => "rocpd database",
            Self::NsysReport => "Nsight Systems report",
            Self::NcuCsv => "Nsight Compute CSV",
            Self::NcuReport => "Nsight Compute report",
            Self::TorchTrace => "PyTorch profiler trace",
            Self::TorchMemory => "PyTorch memory snapshot",
            Self::XlaTrace => "XLA profiler trace",
            Self::NvmlCsv => "NVML samples",
            Self::SmiXml => "nvidia-smi XML",
            Self::Environment => "environment snapshot",
            Self::Timings => "unprofiled timings",
            Self::Runs => "runs of the command",
            Self::Peaks => "measured peaks",
            Self::ModelConfig => "model config",
            Self::Workload => "workload description",
            Self::GemmLog => "cuBLAS log",
            Self::Serving => "load-test results",
            Self::ServerMetrics => "server metrics",
            Self::Notes => "analyst's notes",
            Self::Other => "other file",
        }
    }

    /// The kind of pass that leaves such a file; descriptions of the workload and logs come from none.
    pub const fn pass_kind(self) -> Option<PassKind> {
        match self {
            Self::NsysSqlite
            | Self::NsysKernelSum
            | Self::NsysCallSum
            | Self::NsysGpuTrace
            | Self::NsysReport
            | Self::RocpdSqlite
            | Self::XlaTrace => Some(PassKind::Timeline),
            Self::NcuCsv | Self::NcuReport => Some(PassKind::Counters),
            Self::TorchTrace | Self::TorchMemory => Some(PassKind::Operators),
            Self::NvmlCsv | Self::Timings | Self::Runs => Some(PassKind::Baseline),
            Self::Serving | Self::ServerMetrics => Some(PassKind::Serving),
            Self::SmiXml | Self::Environment | Self::Peaks => Some(PassKind::Snapshot),
            Self::ModelConfig | Self::Workload | Self::GemmLog | Self::Notes | Self::Other => None,
        }
    }
}

/// Why the bytes of a manifest were refused.
#[derive(Debug)]
pub enum ManifestError {
    /// Not JSON, or not of a manifest's shape.
    Json(serde_json::Error),
    /// Of a version that this crate does not know.
    Version(u32),
}

impl std::fmt::Display for ManifestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a valid manifest: {error}"),
            Self::Version(found) => {
                write!(
                    f,
                    "version {found} of the manifest is not supported, only {VERSION} is"
                )
            }
        }
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// Reads a manifest. The version is looked at first: the rest of another version may differ in shape.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_slice(bytes).map_err(ManifestError::Json)?;
        if version != VERSION {
            return Err(ManifestError::Version(version));
        }
        serde_json::from_slice(bytes).map_err(ManifestError::Json)
    }

    /// The manifest as it is written to a file: indented, with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest has string keys only");
        text.push('\n');
        text
    }
}

/// What is wrong with a path inside a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// Nothing.
    Empty,
    /// Leads to a place of the machine.
    Absolute,
    /// Holds `..`, `.` or an empty part.
    Part,
    /// Backslash, colon or control sign.
    Sign,
    /// Not text.
    Encoding,
}

impl std::fmt::Display for PathFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "is empty",
            Self::Absolute => "is absolute",
            Self::Part => "has a part that is empty, \".\" or \"..\"",
            Self::Sign => "has a backslash, a colon or a control sign",
            Self::Encoding => "is not UTF-8",
        })
    }
}

/// Checks a path inside a bundle: relative, `/`-separated, portable, and leading nowhere else.
pub fn check_path(path: &str) -> Result<(), PathFault> {
    if path.is_empty() {
        Err(PathFault::Empty)
    } else if path.starts_with('/') {
        Err(PathFault::Absolute)
    } else if path.contains(|c: char| matches!(c, '\\' | ':') || c.is_control()) {
        Err(PathFault::Sign)
    } else if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        Err(PathFault::Part)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"{"version": 1, "name": "x", "tool": {"name": "hand"}, "artifacts":
        [{"path": "a/b.bin", "kind": "from_the_future", "sha256": "00", "bytes": 3}]}"#;

    #[test]
    fn kinds_of_the_future_are_other() {
        let manifest = Manifest::from_json(MINIMAL.as_bytes()).expect("valid");
        assert_eq!(manifest.artifacts[0].kind, ArtifactKind::Other);
        assert_eq!(manifest.artifacts[0].pass, None);
    }

    #[test]
    fn unknown_keys_are_additions() {
        let text = MINIMAL.replacen('{', r#"{"added_later": [1],"#, 1);
        assert!(Manifest::from_json(text.as_bytes()).is_ok());
    }

    #[test]
    fn other_versions_are_refused_before_their_shape_matters() {
        let error = Manifest::from_json(br#"{"version": 2, "files": []}"#).expect_err("refused");
        assert!(matches!(error, ManifestError::Version(2)), "{error}");
        assert!(Manifest::from_json(b"{}").is_err());
        assert!(Manifest::from_json(b"[1]").is_err());
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let manifest = Manifest::from_json(MINIMAL.as_bytes()).expect("valid");
        assert_eq!(
            Manifest::from_json(manifest.to_json().as_bytes()).expect("valid"),
            manifest
        );
    }

    #[test]
    fn paths_stay_inside_the_bundle() {
        assert_eq!(check_path("nsys/timeline.sqlite.zst"), Ok(()));
        assert_eq!(check_path("a b/ü...json"), Ok(()));
        for (path, fault) in [
            ("", PathFault::Empty),
            ("/etc/passwd", PathFault::Absolute),
            ("../x", PathFault::Part),
            ("a/../x", PathFault::Part),
            ("a/./x", PathFault::Part),
            ("a//x", PathFault::Part),
            ("a/", PathFault::Part),
            ("a\\..\\x", PathFault::Sign),
            ("C:x", PathFault::Sign),
            ("a\nb", PathFault::Sign),
        ] {
            assert_eq!(check_path(path), Err(fault), "{path:?}");
        }
    }
}
