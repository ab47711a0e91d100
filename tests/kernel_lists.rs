//! `rooflens kernels --yaml` prints the list that the library chooses. Tests of `rooflens-capture` compare that list with its
//! own, because cargo builds no program of another package for these tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use rooflens::analysis::Facts;
use rooflens::analysis::kernels::kernel_sums::{select, window, yaml};
use rooflens::bundle;
use rooflens::diagnostic::Diagnostics;
use rooflens::ingest;

/// Fixtures of which few rows are read.
const FIXTURES: [&str; 2] = ["h200-llama-1b", "h200-cuda-graph"];

/// What the program prints, or nothing where it fails.
fn printed(fixture: &Path, stage: Option<&str>) -> Option<String> {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("rooflens"));
    command
        .arg("kernels")
        .arg(fixture)
        .args(["--yaml", "--top", "20"]);
    command.args(stage.iter().flat_map(|stage| ["--stage", stage]));
    let output = command.output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("it is text");
    output.status.success().then_some(text)
}

#[test]
fn the_program_prints_the_list_that_the_library_chooses() {
    let mut lists = 0;
    for name in FIXTURES {
        let fixture = PathBuf::from("fixtures").join(name);
        let mut diagnostics = Diagnostics::default();
        let opened = bundle::open(std::slice::from_ref(&fixture), &mut diagnostics);
        let mut bundle = opened.expect("it opens");
        ingest::identify(&mut bundle, &mut diagnostics);
        let session = ingest::import(&bundle, &mut diagnostics, &mut |_| ());
        let facts = Facts::new(&session);
        let names = facts.stages.iter().map(|stage| stage.name.as_str());
        for stage in names.map(Some).chain([None, Some("nothing")]) {
            let selected = select(&session, &facts, stage, 20);
            let list = selected
                .map(|selected| yaml(&selected, window(&session, &facts, stage, &selected)));
            assert_eq!(printed(&fixture, stage), list, "{name}, stage {stage:?}");
            lists += usize::from(list.is_some());
        }
    }
    assert!(lists >= 5, "{lists}");
}
