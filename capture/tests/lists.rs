//! Kernels that are chosen by workload descriptions. `tests/kernel_lists.rs` of the analyzer compares both programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The fixture as a bundle of this program: its export plain, in a pass `nsys`.
fn bundle(folder: &Path, fixture: &str, pass: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures")
        .join(fixture);
    let bundle = folder.join(fixture);
    fs::create_dir_all(bundle.join("nsys")).expect("writable");
    let packed = fs::File::open(from.join(pass).join("timeline.sqlite.zst")).expect("is there");
    let plain = fs::File::create(bundle.join("nsys/timeline.sqlite")).expect("writable");
    zstd::stream::copy_decode(packed, plain).expect("is packed");
    fs::copy(from.join("workload.toml"), bundle.join("workload.toml")).expect("is there");
    bundle
}

/// Lists the kernels of stage `decode` of a fixture with a description of its workload.
fn listed(bundle: &Path, workload: &str) -> String {
    fs::write(bundle.join("workload.toml"), workload).expect("writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
    command
        .arg("kernels")
        .arg(bundle)
        .args(["--stage", "decode"]);
    let output = command.output().expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{workload}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn patterns_of_stages_are_regular_expressions() {
    let folder = tempfile::tempdir().expect("there is room");
    let bundle = bundle(folder.path(), "h200-llama-1b", "nsys");
    let rule = "[[stages]]\nname = \"decode\"\nkind = \"decode\"\n";
    let by_name = listed(&bundle, rule);
    for pattern in ["decod.", "(decode|generate)"] {
        let by_pattern = listed(&bundle, &format!("{rule}match = \"{pattern}\"\n"));
        assert_eq!(by_pattern, by_name, "{pattern}");
    }
}
