//! Kernels that the program lists. `src/timeline/agreement` compares its reader with the analyzer's importer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rooflens_diagnostic::Diagnostics;
use rooflens_stages::StageTables;
use rooflens_stages::selection::{select, window, yaml};

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

/// The list that the analyzer chooses, or nothing where it chooses none.
fn analyzed(bundle: &Path, stage: Option<&str>) -> Option<String> {
    let mut diagnostics = Diagnostics::default();
    let opened = rooflens_bundle::open(&[bundle.to_owned()], &mut diagnostics);
    let mut bundle = opened.expect("it opens");
    rooflens_ingest::identify(&mut bundle, &mut diagnostics);
    let session = rooflens_ingest::import(&bundle, &mut diagnostics, &mut |_| ());
    let tables = StageTables::new(&session);
    let selected = select(&session, &tables, stage, 20)?;
    Some(yaml(&selected, window(&session, &tables, stage, &selected)))
}

#[test]
fn the_program_prints_the_list_that_the_analyzer_chooses() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut lists = 0;
    for (fixture, pass) in [("h200-llama-1b", "nsys"), ("h100-vit-train", "nsys")] {
        let bundle = bundle(folder.path(), fixture, pass);
        for stage in [
            None,
            Some("prefill"),
            Some("decode"),
            Some("train_step"),
            Some("nothing"),
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
            command.arg("kernels").arg(&bundle).args(["--top", "20"]);
            command.args(stage.iter().flat_map(|stage| ["--stage", stage]));
            let output = command.output().expect("starts");
            let text = String::from_utf8(output.stdout).expect("is text");
            let list = output.status.success().then_some(text);
            assert_eq!(list, analyzed(&bundle, stage), "{fixture}, stage {stage:?}");
            lists += usize::from(list.is_some());
        }
    }
    assert!(lists >= 4, "{lists}");
}
