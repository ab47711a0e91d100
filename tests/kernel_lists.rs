//! Kernels to profile, as the analyzer chooses them: the capture program is held to the same files.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

#[test]
fn the_capture_program_is_tested_with_what_the_analyzer_lists() {
    let mut lists = 0;
    for entry in fs::read_dir("capture/tests/lists").expect("is there") {
        let path = entry.expect("readable").path();
        let name = path
            .file_stem()
            .expect("named")
            .to_string_lossy()
            .into_owned();
        let is_fixture = |name: &str| Path::new("fixtures").join(name).is_dir();
        let (fixture, stage) = match name
            .rsplit_once('-')
            .filter(|(fixture, _)| is_fixture(fixture))
        {
            Some((fixture, stage)) => (fixture, Some(stage)),
            None => (name.as_str(), None),
        };
        let mut command = Command::cargo_bin("rooflens").expect("is built");
        command.args([
            "kernels",
            &format!("fixtures/{fixture}"),
            "--top",
            "10",
            "--yaml",
        ]);
        let output = command
            .args(stage.map(|stage| ["--stage", stage]).iter().flatten())
            .output();
        let output = output.expect("starts");
        let expected = fs::read_to_string(&path).expect("readable");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}");
        lists += 1;
    }
    assert_eq!(lists, 9);
}
