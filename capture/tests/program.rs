//! The program as it is run: exit codes, files, and that it needs no GPU.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

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
    program()
        .args(["snapshot", "-o"])
        .arg(&bundle)
        .assert()
        .success()
        .stdout("");
    let text = fs::read(bundle.join("snapshot/env.json")).expect("is there");
    let environment: Environment = serde_json::from_slice(&text).expect("is valid");
    assert_eq!(environment.version, 1);
    let keys: std::collections::BTreeSet<(&str, &str)> = environment
        .entries
        .iter()
        .map(|fact| (&*fact.subject, &*fact.key))
        .collect();
    assert_eq!(keys.len(), environment.entries.len(), "a fact occurs once");
    for key in [
        ("driver", "version"),
        ("cpu", "model"),
        ("tool", "nsys"),
        ("env", "RANK"),
    ] {
        assert!(keys.contains(&key), "{key:?}");
    }

    let name = ["--name", "First run", "--label", "ticket=12"];
    program()
        .arg("manifest")
        .arg(&bundle)
        .args(name)
        .assert()
        .success();
    let written = manifest(&bundle);
    assert_eq!(written.name, "First run");
    assert_eq!(written.labels["ticket"], "12");
    assert_eq!(written.captured_at, environment.captured_at);
    assert_eq!(written.passes[0].kind, PassKind::Snapshot);
    assert_eq!(written.artifacts[0].kind, ArtifactKind::Environment);
    assert_eq!(written.artifacts[0].bytes, text.len() as u64);

    let refused = program()
        .args(["snapshot", "-o"])
        .arg(&bundle)
        .assert()
        .code(125);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("is complete"), "{said}");
}

/// A bundle of a host with one rank: collectives end when `end` says, and a kernel of its own follows each.
fn host(folder: &Path, rank: u32, origin: i64, end: impl Fn(i64) -> i64) -> PathBuf {
    let bundle = folder.join(format!("node{rank}"));
    for pass in ["nsys", "torch", "baseline", "snapshot"] {
        fs::create_dir_all(bundle.join(pass)).expect("writable");
    }
    fs::write(bundle.join(format!("torch/rank{rank}.pt.trace.json")), "{}").expect("writable");
    fs::write(bundle.join("baseline/nvml.csv"), "t_ns\n").expect("writable");
    let machine = r#"{"version": 1, "captured_at": "2026-01-02T03:04:05Z", "entries": []}"#;
    fs::write(bundle.join("snapshot/env.json"), machine).expect("writable");
    let mut sql = format!(
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)'), (2, 'gemm');
         CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
         INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES ({origin}, '', '');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);"
    );
    for index in 0..41 {
        let end = end(index) - origin;
        sql.push_str(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({end} - 300000, {end}, 0, 7, {index}, 16777216, 1, 1),
                ({end}, {end} + 9000, 0, 7, {index}, 16777216, 2, 2);"
        ));
    }
    let export = rusqlite::Connection::open(bundle.join("nsys/timeline.sqlite"));
    export
        .expect("writable")
        .execute_batch(&sql)
        .expect("valid");
    program().arg("manifest").arg(&bundle).assert().success();
    bundle
}

#[test]
fn bundles_of_hosts_become_one_with_their_clocks_told_apart() {
    let folder = tempfile::tempdir().expect("there is room");
    // Host 1 began to record 7 s later, its clock is 3.2 ms ahead, and ends are scattered over 80 us.
    let (origin, ahead) = (1_790_000_000_000_000_000, 3_200_000);
    let end = move |index: i64| {
        origin + 9_000_000_000 + index * 20_000_000 + (index * index * 77_777) % 5_000_000
    };
    let jitter = |index: i64| (index * 48_271) % 80_001 - 40_000;
    let first = host(folder.path(), 0, origin, end);
    let second = host(folder.path(), 1, origin + 7_000_000_000, move |index| {
        end(index) + ahead + jitter(index)
    });
    let merged = folder.path().join("run1");
    let merge = |first: &Path, second: &Path| {
        program()
            .args(["merge", "-o"])
            .arg(&merged)
            .arg(first)
            .arg(second)
            .assert()
    };
    let said = merge(&first, &second).success();
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    let (_, found) = said.split_once("host 1: its clock is +").expect("is said");
    let found: f64 = found
        .split(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a number");
    assert!((found - 3.2).abs() < 0.04, "{said}");
    assert!(said.contains("by the ends of 41 collectives"), "{said}");
    assert!(
        said.contains("node1: 2 files are of this host alone"),
        "{said}"
    );

    let manifest = manifest(&merged);
    let files: Vec<(&str, Option<u32>)> = manifest
        .artifacts
        .iter()
        .map(|file| (file.path.as_str(), file.rank))
        .collect();
    let expected = [
        ("baseline/nvml.csv", None),
        ("nsys/rank0.sqlite", Some(0)),
        ("nsys/rank1.sqlite", Some(1)),
        ("snapshot/env.json", None),
        ("torch/rank0.pt.trace.json", Some(0)),
        ("torch/rank1.pt.trace.json", Some(1)),
    ];
    assert_eq!(files, expected);
    let timeline = manifest
        .passes
        .iter()
        .find(|pass| pass.id == "nsys")
        .expect("is there");
    assert!(
        timeline.notes[0].contains("host 1: its clock is +3."),
        "{:?}",
        timeline.notes
    );

    let passes: Vec<&str> = manifest
        .passes
        .iter()
        .map(|pass| pass.id.as_str())
        .collect();
    let mut once = passes.clone();
    once.sort_unstable();
    assert_eq!(once, ["baseline", "nsys", "snapshot", "torch"]);
    assert_eq!(
        manifest.captured_at.as_deref(),
        Some("2026-01-02T03:04:05Z")
    );
    for file in &manifest.artifacts {
        let there = fs::metadata(merged.join(&file.path)).expect("is there");
        assert_eq!(there.permissions().mode() & 0o777, 0o600, "{}", file.path);
    }

    // What is there stays, and what is no bundle is named.
    let refused = merge(&first, &second).code(125);
    assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("is complete"));
    let nothing = folder.path().join("nothing");
    let refused = program()
        .args(["merge", "-o"])
        .arg(folder.path().join("x"))
        .arg(&first)
        .arg(&nothing)
        .assert()
        .code(125);
    assert!(
        String::from_utf8_lossy(&refused.get_output().stderr).contains("nothing/manifest.json")
    );
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
    program()
        .arg("manifest")
        .arg(folder.path())
        .assert()
        .success();
    let new = manifest(folder.path());
    assert_eq!(
        (new.name.as_str(), new.tool.name.as_str()),
        ("mine", "rooflens-capture")
    );
    assert_eq!(new.captured_at.as_deref(), Some("2026-01-02T03:04:05Z"));
    assert_eq!(new.passes[0].command, ["nsys"]);
    assert_eq!(new.artifacts[0].kind, ArtifactKind::NsysSqlite);
    assert_eq!(new.artifacts[0].bytes, 3);
    assert!(new.artifacts[0].sha256.starts_with("ba7816bf"));

    let before = fs::read(folder.path().join("manifest.json")).expect("is there");
    program()
        .arg("manifest")
        .arg(folder.path())
        .assert()
        .success();
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
        Command::new(&alone)
            .args(arguments)
            .env("PATH", path)
            .assert()
    };
    let missing = format!(
        "rooflens-capture: error: rooflens-bench is neither in {} nor on the PATH: put it there, or build both \
         with `cargo build --release -p rooflens-capture -p rooflens-bench`\n",
        folder.path().display()
    );
    run(folder.path()).code(125).stdout("").stderr(missing);
    run(&fakes)
        .code(7)
        .stdout("bench --only a b --help -o=x\n")
        .stderr("");
    std::os::unix::fs::symlink(
        fakes.join("rooflens-bench"),
        folder.path().join("rooflens-bench"),
    )
    .expect("writable");
    run(folder.path())
        .code(7)
        .stdout("bench --only a b --help -o=x\n")
        .stderr("");
}

#[test]
fn our_failures_end_with_125_and_help_with_0() {
    let folder = tempfile::tempdir().expect("there is room");
    program()
        .arg("manifest")
        .arg(folder.path())
        .assert()
        .code(125);
    program()
        .arg("manifest")
        .arg(folder.path().join("nowhere"))
        .assert()
        .code(125);
    program().arg("frobnicate").assert().code(125);
    program().arg("--version").assert().success();
    for command in ["snapshot", "manifest", "serve"] {
        let help = program().args([command, "--help"]).assert().success();
        let text = String::from_utf8_lossy(&help.get_output().stdout).into_owned();
        assert!(text.contains("Examples:"), "{text}");
    }
}
