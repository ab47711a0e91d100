//! Kernels that are chosen of the fixtures' exports: the same as `rooflens kernels --yaml` chooses. The analyzer's own test
//! (`tests/kernel_lists.rs`) holds it to the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lists in `tests/lists`: fixture, pass, stage.
const LISTS: [(&str, &str, Option<&str>); 9] = [
    ("h100-train", "nsys", Some("backward")),
    ("h100-train", "nsys", Some("train_step")),
    ("h100-vit-train", "nsys", None),
    ("h100x2-parallel", "nsys", Some("step")),
    ("h200-cuda-graph", "nsys-node", Some("decode_step")),
    ("h200-llama-1b", "nsys", Some("decode")),
    ("h200-llama-capture", "nsys", Some("prefill")),
    ("h200-llama-capture", "nsys", Some("decode")),
    ("h200x2-ddp", "nsys", Some("backward")),
];

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

#[test]
fn lists_are_those_of_the_analyzer() {
    for (fixture, pass, stage) in LISTS {
        let folder = tempfile::tempdir().expect("there is room");
        let bundle = bundle(folder.path(), fixture, pass);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
        command
            .arg("kernels")
            .arg(bundle)
            .args(stage.map(|stage| ["--stage", stage]).iter().flatten());
        let output = command.output().expect("starts");
        assert!(
            output.status.success(),
            "{fixture}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let name = format!(
            "tests/lists/{fixture}{}.yaml",
            stage.map_or_else(String::new, |s| format!("-{s}"))
        );
        let expected = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&name));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            expected.expect("is there"),
            "{name}"
        );
    }
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
