//! `peaks` and `bench` as they are run on a machine without a GPU; on one with a GPU only what needs none is tested.

use std::os::unix::process::CommandExt as _;

use assert_cmd::Command;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rooflens-bench"))
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether the driver's library is somewhere the loader looks.
fn has_driver() -> bool {
    let listing = std::process::Command::new("ldconfig").arg("-p").output();
    let listed = listing.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("libcuda.so"));
    listed || std::path::Path::new("/dev/nvidiactl").exists()
}

#[test]
fn without_a_driver_both_end_with_one_sentence_and_leave_nothing() {
    if has_driver() {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room");
    let place = folder.path().join("run1");
    for command in ["peaks", "bench"] {
        let refused = program()
            .args([command, "-o"])
            .arg(&place)
            .assert()
            .code(125)
            .stdout("");
        let said = said(refused.get_output());
        assert_eq!(
            said,
            "rooflens-capture: error: no CUDA driver: libcuda.so.1 cannot be loaded\n"
        );
    }
    assert!(!place.exists());
}

#[test]
fn help_names_the_command_as_it_was_called() {
    for command in ["peaks", "bench"] {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_rooflens-bench"));
        let output = program
            .arg0("rooflens-capture")
            .args([command, "--help"])
            .output();
        let text = String::from_utf8_lossy(&output.expect("starts").stdout).into_owned();
        let usage = format!("Usage: rooflens-capture {command} [OPTIONS]");
        assert!(
            text.contains(&usage) && text.contains("Examples:"),
            "{text}"
        );
    }
}

#[test]
fn the_built_in_sweep_can_be_printed_and_read_back() {
    let printed = program()
        .args(["bench", "--print-sweep"])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&printed.get_output().stdout).into_owned();
    assert!(text.contains("operation = \"attention_prefill\""), "{text}");
}

#[test]
fn a_wrong_sweep_is_told_before_the_device_is_asked() {
    let folder = tempfile::tempdir().expect("there is room");
    let sweep = folder.path().join("sweep.toml");
    std::fs::write(&sweep, "version = 1\n[[case]]\noperation = \"sort\"\n").expect("writable");
    let refused = program()
        .args(["bench", "-o", "x", "--sweep"])
        .arg(&sweep)
        .assert()
        .code(125);
    let said = said(refused.get_output());
    assert!(
        said.contains("sweep.toml: sort: not an operation: expected one of linear,"),
        "{said}"
    );
}
