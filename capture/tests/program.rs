//! The program as it is run: exit codes, files, and that it needs no GPU.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use rooflens_schemas::{ArtifactKind, Environment, Manifest, PassKind};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rooflens-capture"))
}

fn manifest(bundle: &Path) -> Manifest {
    let bytes = fs::read(bundle.join("manifest.json")).expect("is there");
    Manifest::from_json(&bytes).expect("is valid")
}

#[test]
fn a_snapshot_and_a_manifest_make_a_bundle_on_any_machine() {
    let folder = tempfile::tempdir().expect("there is room");
    let bundle = folder.path().join("run1");
    program().args(["snapshot", "-o"]).arg(&bundle).assert().success().stdout("");
    let text = fs::read(bundle.join("snapshot/env.json")).expect("is there");
    let environment: Environment = serde_json::from_slice(&text).expect("is valid");
    assert_eq!(environment.version, 1);
    let keys: std::collections::BTreeSet<(&str, &str)> =
        environment.entries.iter().map(|fact| (&*fact.subject, &*fact.key)).collect();
    assert_eq!(keys.len(), environment.entries.len(), "a fact occurs once");
    for key in [("driver", "version"), ("cpu", "model"), ("tool", "nsys"), ("env", "RANK")] {
        assert!(keys.contains(&key), "{key:?}");
    }

    let name = ["--name", "First run", "--label", "ticket=12"];
    program().arg("manifest").arg(&bundle).args(name).assert().success();
    let written = manifest(&bundle);
    assert_eq!(written.name, "First run");
    assert_eq!(written.labels["ticket"], "12");
    assert_eq!(written.captured_at, environment.captured_at);
    assert_eq!(written.passes[0].kind, PassKind::Snapshot);
    assert_eq!(written.artifacts[0].kind, ArtifactKind::Environment);
    assert_eq!(written.artifacts[0].bytes, text.len() as u64);

    let refused = program().args(["snapshot", "-o"]).arg(&bundle).assert().code(125);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("is complete"), "{said}");
}

#[test]
fn a_renewed_manifest_keeps_what_people_wrote() {
    let folder = tempfile::tempdir().expect("there is room");
    let old = r#"{"version": 1, "name": "mine", "captured_at": "2026-01-02T03:04:05Z",
        "tool": {"name": "by hand"}, "passes": [{"id": "nsys", "kind": "timeline", "command": ["nsys"]}],
        "artifacts": [{"path": "nsys/a.txt", "kind": "nsys_sqlite", "pass": "nsys",
            "producer": {"name": "nsys"}, "sha256": "00", "bytes": 0}]}"#;
    fs::create_dir(folder.path().join("nsys")).expect("writable");
    fs::write(folder.path().join("nsys/a.txt"), "abc").expect("writable");
    fs::write(folder.path().join("manifest.json"), old).expect("writable");
    program().arg("manifest").arg(folder.path()).assert().success();
    let new = manifest(folder.path());
    assert_eq!((new.name.as_str(), new.tool.name.as_str()), ("mine", "rooflens-capture"));
    assert_eq!(new.captured_at.as_deref(), Some("2026-01-02T03:04:05Z"));
    assert_eq!(new.passes[0].command, ["nsys"]);
    assert_eq!(new.artifacts[0].kind, ArtifactKind::NsysSqlite);
    assert_eq!(new.artifacts[0].bytes, 3);
    assert!(new.artifacts[0].sha256.starts_with("ba7816bf"));

    let before = fs::read(folder.path().join("manifest.json")).expect("is there");
    program().arg("manifest").arg(folder.path()).assert().success();
    let after = fs::read(folder.path().join("manifest.json")).expect("is there");
    assert_eq!(before, after, "nothing changed");
}

#[test]
fn bench_and_peaks_are_a_program_beside_this_one_or_on_the_path() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tempfile::tempdir_in(root).expect("there is room");
    let alone = folder.path().join("rooflens-capture");
    fs::hard_link(env!("CARGO_BIN_EXE_rooflens-capture"), &alone).expect("one file system");
    let fakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes");
    let run = |path: &Path| {
        let arguments = ["bench", "--only", "a b", "--help", "-o=x"];
        Command::new(&alone).args(arguments).env("PATH", path).assert()
    };
    let missing = format!(
        "rooflens-capture: error: rooflens-bench is neither in {} nor on the PATH: put it there, or build both \
         with `cargo build --release -p rooflens-capture -p rooflens-bench`\n",
        folder.path().display()
    );
    run(folder.path()).code(125).stdout("").stderr(missing);
    run(&fakes).code(7).stdout("bench --only a b --help -o=x\n").stderr("");
    std::os::unix::fs::symlink(fakes.join("rooflens-bench"), folder.path().join("rooflens-bench"))
        .expect("writable");
    run(folder.path()).code(7).stdout("bench --only a b --help -o=x\n").stderr("");
}

#[test]
fn our_failures_end_with_125_and_help_with_0() {
    let folder = tempfile::tempdir().expect("there is room");
    program().arg("manifest").arg(folder.path()).assert().code(125);
    program().arg("manifest").arg(folder.path().join("nowhere")).assert().code(125);
    program().arg("frobnicate").assert().code(125);
    program().arg("--version").assert().success();
    for command in ["snapshot", "manifest", "serve"] {
        let help = program().args([command, "--help"]).assert().success();
        let text = String::from_utf8_lossy(&help.get_output().stdout).into_owned();
        assert!(text.contains("Examples:"), "{text}");
    }
}
