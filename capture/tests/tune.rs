//! `tune` with a server whose slots are what limits it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rooflens_schemas::{Manifest, PassKind, ServingLine};

/// On the command line; it must be nowhere in a bundle.
const TOKEN: &str = "planted-token-of-the-server";

const LIMITS: &str = "ttft=100ms";

/// Runs `tune` with 16 requests a level in a folder.
fn tune(folder: &Path, options: &[&str], server: &[&str]) -> Output {
    // Of a listener that is gone: nobody has the port.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port().to_string();
    drop(listener);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes/openai.py");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
    command
        .args(["tune", "-o", "tuned", "--slo", LIMITS, "--requests", "16"])
        .args([
            "--output-tokens",
            "6",
            "--prompt-tokens",
            "4",
            "--concurrency",
            "1,2,4",
        ])
        .args(options)
        .args(["--", "python3"])
        .arg(script)
        .args(["--port", &port])
        .args(["--token", TOKEN])
        .args(server)
        .current_dir(folder)
        .stdin(Stdio::null());
    command.output().expect("starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A request takes 20 ms and 5 times 15 ms: with as many slots as requests none waits, and with fewer some wait longer
/// than the limit. Of 1, 2, 4 and 8 slots, the last does not start: 4 are the best.
#[test]
fn the_setting_with_the_most_good_answers_is_deployed() {
    let folder = tempfile::tempdir().expect("there is room");
    let output = tune(
        folder.path(),
        &["--param", "slots=1,2,4,8"],
        &["--slots", "2", "--most-slots", "4"],
    );
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let deploy = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(deploy.contains(" --slots 4 --most-slots 4\n"), "{deploy}");

    let bundle = folder.path().join("tuned");
    let text = fs::read_to_string(bundle.join("experiments.toml")).expect("is there");
    let ledger: toml::Table = toml::from_str(&text).expect("is TOML");
    let experiments = ledger["experiment"].as_array().expect("experiments");
    let of = |slots: &str| {
        let entry = experiments
            .iter()
            .find(|it| it["settings"]["slots"].as_str() == Some(slots));
        entry.unwrap_or_else(|| panic!("no experiment of {slots}: {text}"))
    };
    let goodput = |slots: &str| of(slots)["figures"]["goodput"].as_float().expect("a rate");
    // At most 1, 2 and 4 requests each 95 ms.
    for (slots, most) in [("1", 10.6), ("2", 21.1), ("4", 42.2)] {
        assert!((most * 0.4..=most).contains(&goodput(slots)), "{text}");
    }
    assert!(
        goodput("1") < goodput("2") && goodput("2") < goodput("4"),
        "{text}"
    );
    let error = of("8")["error"].as_str().expect("a reason");
    assert!(
        error.contains("RuntimeError: out of memory with 8 slots"),
        "{error}"
    );

    let manifest = fs::read(bundle.join("manifest.json")).expect("is there");
    let manifest = Manifest::from_json(&manifest).expect("is valid");
    let passes: Vec<_> = manifest
        .passes
        .iter()
        .filter(|pass| pass.kind == PassKind::Serving)
        .collect();
    // Of four settings, the three that keep the limits are measured a second time.
    assert_eq!(passes.len(), 7, "{said}");
    let skipped: Vec<_> = passes
        .iter()
        .filter(|pass| pass.skipped.is_some())
        .collect();
    assert_eq!(skipped.len(), 1, "{said}");
    for pass in passes.iter().filter(|pass| pass.skipped.is_none()) {
        let header = fs::read_to_string(bundle.join(&pass.id).join("closed-1.jsonl"));
        let header = header.expect("a level");
        let Some(Ok(ServingLine::Run(header))) = header.lines().next().map(serde_json::from_str)
        else {
            panic!("no header of {}", pass.id);
        };
        let place = pass
            .command
            .iter()
            .position(|word| word == "--slots")
            .expect("an option");
        assert_eq!(header.settings["slots"], pass.command[place + 1]);
        assert_eq!(header.model.as_deref(), Some("fake"));
    }
    for entry in walk(&bundle) {
        let text = fs::read(&entry).expect("is there");
        let found = text
            .windows(TOKEN.len())
            .any(|part| part == TOKEN.as_bytes());
        assert!(!found, "{}", entry.display());
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("is there") {
        let path = entry.expect("is there").path();
        match path.is_dir() {
            true => files.extend(walk(&path)),
            false => files.push(path),
        }
    }
    files
}

#[test]
fn where_no_server_starts_the_reasons_are_the_result() {
    let folder = tempfile::tempdir().expect("there is room");
    let output = tune(
        folder.path(),
        &["--param", "slots=8,9"],
        &["--most-slots", "4"],
    );
    let said = said(&output);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(125), &b""[..]),
        "{said}"
    );
    let text = fs::read_to_string(folder.path().join("tuned/experiments.toml")).expect("is there");
    for slots in [8, 9] {
        let reason = format!("out of memory with {slots} slots");
        assert!(
            text.contains(&reason) && said.contains(&reason),
            "{said}{text}"
        );
    }
}

#[test]
fn nothing_is_measured_where_another_server_answers() {
    let folder = tempfile::tempdir().expect("there is room");
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", other.local_addr().expect("bound"));
    let output = tune(folder.path(), &["--param", "slots=1,2", "--url", &url], &[]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(!folder.path().join("tuned").exists());
}
