//! Files of one run, and of several.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

/// A trace of one kernel on that GPU, launched by that process in that second of UTC.
pub(super) fn recorded(gpu: &str, second: u64, process: u32) -> String {
    format!(
        r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"{gpu}"}}],"baseTimeNanoseconds":{second}000000000,
"traceEvents":[
{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":2,"dur":3,"args":{{"stream":7,"device":0,"correlation":1}}}},
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":{process},"tid":1,"ts":0,"dur":1,"args":{{"correlation":1}}}}]}}"#
    )
}

#[test]
fn files_that_may_be_of_one_run_are_one_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |path: &str, text: String| fs::write(folder.path().join(path), text);
    let gpu = "NVIDIA H100 80GB HBM3";
    write("first.json", recorded(gpu, 1_700_000_000, 11)).expect("writable");
    write("second-cycle.json", recorded(gpu, 1_700_000_900, 11)).expect("writable");
    write("second-rank.json", recorded(gpu, 1_700_000_000, 12)).expect("writable");
    write("later.json", recorded(gpu, 1_700_000_900, 12)).expect("writable");
    for others in [&["second-cycle.json"], &["second-rank.json"]] as [&[&str]; 2] {
        run(
            folder.path(),
            &[&["inspect", "first.json"], others].concat(),
        )
        .success();
    }
    run(
        folder.path(),
        &["inspect", "first.json", "later.json", "--merge"],
    )
    .success();
    run(folder.path(), &["inspect", "."]).success();
}

fn run(folder: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("rooflens"));
    command.args(arguments).current_dir(folder).assert()
}

/// The manifest of a bundle of one trace.
pub(super) fn manifest(trace: &[u8]) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(trace);
    let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    serde_json::json!({
        "version": 1, "name": "one kernel", "tool": {"name": "test"},
        "passes": [{"id": "torch", "kind": "operators"}],
        "artifacts": [{
            "path": "torch/rank0.json", "kind": "torch_trace", "pass": "torch",
            "sha256": sha256, "bytes": trace.len(),
        }],
    })
    .to_string()
}
