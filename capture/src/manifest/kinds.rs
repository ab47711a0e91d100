//! What a file is by its name. The analyzer checks the content against it.

use rooflens_schemas::ArtifactKind;

/// The kind of the file at this path inside the bundle.
pub(crate) fn kind_of(path: &str) -> ArtifactKind {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name
        .strip_suffix(".zst")
        .or_else(|| name.strip_suffix(".gz"))
        .unwrap_or(name);
    let by_name = match name {
        "env.json" => ArtifactKind::Environment,
        "timings.json" => ArtifactKind::Timings,
        "runs.json" => ArtifactKind::Runs,
        "peaks.json" | "bench.json" => ArtifactKind::Peaks,
        "config.json" => ArtifactKind::ModelConfig,
        "workload.toml" => ArtifactKind::Workload,
        "nvml.csv" => ArtifactKind::NvmlCsv,
        "nvidia-smi.xml" => ArtifactKind::SmiXml,
        "notes.md" if folder.is_empty() => ArtifactKind::Notes,
        _ => ArtifactKind::Other,
    };
    if by_name != ArtifactKind::Other {
        return by_name;
    }
    let ends = |ending: &str| name.ends_with(ending);
    if ends(".sqlite") {
        ArtifactKind::NsysSqlite
    } else if ends("_cuda_gpu_kern_sum.csv") {
        ArtifactKind::NsysKernelSum
    } else if [
        "_cuda_api_sum.csv",
        "_osrt_sum.csv",
        "_nvtx_sum.csv",
        "_nvtx_pushpop_sum.csv",
    ]
    .iter()
    .any(|ending| ends(ending))
    {
        ArtifactKind::NsysCallSum
    } else if ends("_cuda_gpu_trace.csv") {
        ArtifactKind::NsysGpuTrace
    } else if ends(".nsys-rep") {
        ArtifactKind::NsysReport
    } else if ends(".ncu-rep") {
        ArtifactKind::NcuReport
    } else if ends(".raw.csv") || ends(".details.csv") || folder.starts_with("ncu") && ends(".csv")
    {
        ArtifactKind::NcuCsv
    } else if ends(".trace.json") || folder.starts_with("torch") && ends("trace.json") {
        ArtifactKind::TorchTrace
    } else if ends(".prom") {
        ArtifactKind::ServerMetrics
    } else if ends(".jsonl") && (name.starts_with("open-") || name.starts_with("closed-")) {
        ArtifactKind::Serving
    } else if name.starts_with("cublas") && ends(".log") {
        ArtifactKind::GemmLog
    } else {
        ArtifactKind::Other
    }
}

/// Whether such a file comes from a run: descriptions of the workload do not.
pub(crate) const fn belongs_to_a_pass(kind: ArtifactKind) -> bool {
    !matches!(
        kind,
        ArtifactKind::ModelConfig | ArtifactKind::Workload | ArtifactKind::Notes
    )
}

/// The rank in a name such as `rank3.pt.trace.json`.
pub(crate) fn rank_of(path: &str) -> Option<u32> {
    let name = path.rsplit('/').next()?;
    let (digits, _) = name.strip_prefix("rank")?.split_once('.')?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_kinds_whatever_they_are_packed_in() {
        for (path, kind) in [
            ("nsys/timeline.sqlite", ArtifactKind::NsysSqlite),
            ("nsys/timeline.sqlite.zst", ArtifactKind::NsysSqlite),
            ("nsys/timeline.nsys-rep", ArtifactKind::NsysReport),
            ("nsys/x_cuda_gpu_kern_sum.csv", ArtifactKind::NsysKernelSum),
            ("nsys/x_cuda_api_sum.csv", ArtifactKind::NsysCallSum),
            ("nsys/x_cuda_gpu_trace.csv", ArtifactKind::NsysGpuTrace),
            ("ncu-decode/decode.csv", ArtifactKind::NcuCsv),
            ("any/decode.raw.csv.zst", ArtifactKind::NcuCsv),
            ("torch/rank0.pt.trace.json.gz", ArtifactKind::TorchTrace),
            ("torch/key_averages.json", ArtifactKind::Other),
            ("snapshot/env.json", ArtifactKind::Environment),
            ("baseline/nvml.csv", ArtifactKind::NvmlCsv),
            ("baseline/runs.json", ArtifactKind::Runs),
            ("config.json", ArtifactKind::ModelConfig),
            ("cublas/cublaslt.log", ArtifactKind::GemmLog),
            ("serving/open-0.5.jsonl", ArtifactKind::Serving),
            ("serving/closed-16.jsonl.zst", ArtifactKind::Serving),
            ("serving/prompts.jsonl", ArtifactKind::Other),
            (
                "serving/metrics/open-8.0001.prom",
                ArtifactKind::ServerMetrics,
            ),
            ("README.md", ArtifactKind::Other),
            ("notes.md", ArtifactKind::Notes),
            ("nsys/notes.md", ArtifactKind::Other),
        ] {
            assert_eq!(kind_of(path), kind, "{path}");
        }
    }

    #[test]
    fn ranks_are_numbers_after_the_word() {
        assert_eq!(rank_of("torch/rank12.pt.trace.json"), Some(12));
        assert_eq!(rank_of("torch/ranks.json"), None);
        assert_eq!(rank_of("rank1/trace.json"), None);
    }
}
