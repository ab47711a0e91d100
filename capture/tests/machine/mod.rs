//! A machine with fakes of the profilers.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rooflens_schemas::{Manifest, Pass};
use sha2::{Digest as _, Sha256};

/// Planted in the environment and on the command line; it must be nowhere in a bundle.
pub(crate) const TOKEN: &str = "hunter2-planted-token";
pub(crate) const ARGUMENT: &str = "swordfish-planted-argument";

/// Planted in what the fake of ncu leaves: names of host and user, and the address of the process.
const NAMES: [&str; 3] = ["planted-host", "planted-user", "127.0.0.1"];

/// What an export of nsys holds of the process, next to the ranges `prefill` and `decode`.
const EXPORT: &str = "
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO StringIds VALUES (1, 'decode');
    CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, text TEXT, textId INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (1, 'prefill', NULL), (2, NULL, 1);
    CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
    INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COMMAND', 'workload'),
        ('PROCESS_0:ARGUMENT_0', 'swordfish-planted-argument'),
        ('PROCESS_0:ENVIRONMENT_VARIABLE_0', 'FAKE_SECRET_TOKEN=hunter2-planted-token');
    CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT NOT NULL, value TEXT NOT NULL);
    INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment', 'X=hunter2-planted-token');";

pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(EXPORT)
    }

    /// One whose nsys exports this.
    pub(crate) fn with(export: &str) -> Self {
        let sql = export;
        let folder = tempfile::tempdir().expect("there is room");
        let export = rusqlite::Connection::open(folder.path().join("export.sqlite"));
        export.expect("writable").execute_batch(sql).expect("valid");
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command without a bundle.
    pub(crate) fn plain(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
        command.args(arguments).output().expect("starts")
    }

    pub(crate) fn bundle(&self) -> PathBuf {
        self.folder.path().join("run1")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let (subcommand, rest) = arguments.split_first().expect("a subcommand");
        let path = format!(
            "{}:{}",
            fakes().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
        command
            .arg(subcommand)
            .arg("-o")
            .arg(self.bundle())
            .args(rest)
            .env("PATH", path)
            .env("FAKE_EXPORT", self.folder.path().join("export.sqlite"))
            .env("FAKE_RANGES", "prefill decode")
            .env("FAKE_SECRET_TOKEN", TOKEN)
            .env_remove("PYTHONPATH")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("starts")
    }

    /// The manifest, after checking that the bundle is as it says, and without secrets.
    pub(crate) fn manifest(&self) -> Manifest {
        let bundle = self.bundle();
        let bytes = fs::read(bundle.join("manifest.json")).expect("is there");
        let manifest = Manifest::from_json(&bytes).expect("is valid");
        let mut listed = vec!["manifest.json".to_owned()];
        for artifact in &manifest.artifacts {
            let bytes = fs::read(bundle.join(&artifact.path)).expect("is there");
            let hash: String = Sha256::digest(&bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(
                (hash, bytes.len() as u64),
                (artifact.sha256.clone(), artifact.bytes)
            );
            let is_known = |id: &String| manifest.passes.iter().any(|pass| pass.id == *id);
            let is_profile = artifact.kind.pass_kind().is_some();
            let fits = artifact.pass.as_ref().map_or(!is_profile, is_known);
            assert!(fits, "{}: no pass {:?}", artifact.path, artifact.pass);
            listed.push(artifact.path.clone());
        }
        let mut files = Vec::new();
        walk(&bundle, &bundle, &mut files);
        files.sort_unstable();
        listed.sort_unstable();
        assert_eq!(files, listed, "every file is listed");
        for file in files {
            let bytes = fs::read(bundle.join(&file)).expect("is there");
            let bytes = unpacked(&file, bytes);
            for secret in [TOKEN, ARGUMENT].iter().chain(&NAMES) {
                assert!(!contains(&bytes, secret), "{secret} is in {file}");
            }
        }
        manifest
    }
}

pub(crate) fn fakes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes")
}

pub(crate) fn walk(root: &Path, folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            walk(root, &path, files);
        } else {
            let path = path.strip_prefix(root).expect("is below");
            files.push(path.to_string_lossy().into_owned());
        }
    }
}

pub(crate) fn unpacked(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut gzip = Command::new("gzip");
    gzip.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = gzip.spawn().expect("there is gzip");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), &bytes).expect("small");
    child.wait_with_output().expect("ends").stdout
}

pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

pub(crate) fn pass<'a>(manifest: &'a Manifest, id: &str) -> &'a Pass {
    manifest
        .passes
        .iter()
        .find(|pass| pass.id == id)
        .unwrap_or_else(|| panic!("no pass {id}"))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
