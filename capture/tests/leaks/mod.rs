//! Secrets that are planted wherever a capture looks: none is in the bundle, at no time, and nobody else could read it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::machine::{Machine, contains, text, unpacked, walk};

/// Variables of the environment: name, value, and what of it is secret.
const VARIABLES: [(&str, &str, &[&str]); 20] = [
    ("HF_TOKEN", "hf_Zq8planted01", &["hf_Zq8planted01"]),
    (
        "OPENAI_API_KEY",
        "sk-planted02ABCDEF",
        &["sk-planted02ABCDEF"],
    ),
    (
        "AWS_SECRET_ACCESS_KEY",
        "wJalr/XUtn+planted03",
        &["wJalr/XUtn+planted03"],
    ),
    (
        "DB_PASSWORD",
        "p\"l\\an'ted04 é€😀",
        &["p\"l\\an'ted04 é€😀"],
    ),
    ("MYSQL_PWD", "planted05-pwd", &["planted05-pwd"]),
    ("DB_PASS", "planted06-pass", &["planted06-pass"]),
    ("SESSION_COOKIE", "sid=planted07; x", &["sid=planted07; x"]),
    (
        "SLACK_WEBHOOK_URL",
        "https://hooks/services/T1/planted08",
        &["/T1/planted08"],
    ),
    (
        "DATABASE_URL",
        "postgres://me:planted09-db@host/db",
        &["planted09-db"],
    ),
    (
        "MIRRORS",
        "https://u:planted10@a,https://planted11tok@b",
        &["planted10", "planted11tok"],
    ),
    (
        "SERVICE",
        "{\"password\":\"planted12-json\",\"n\":1}",
        &["planted12-json"],
    ),
    ("VPN_PSK", "tab\tplanted13", &["tab\tplanted13"]),
    (
        "GITHUB_TOKEN",
        "ghp_planted14abcdefgh",
        &["ghp_planted14abcdefgh"],
    ),
    (
        "CI_JOB_JWT",
        "eyJplanted15.abc.def",
        &["eyJplanted15.abc.def"],
    ),
    (
        "SMTP_PASSPHRASE",
        "correct horse planted16",
        &["correct horse planted16"],
    ),
    ("WEIRD_SECRET", "!#$%&()=?@", &["!#$%&()=?@"]),
    ("HEX_CREDENTIAL", "00ff11ee22dd33cc", &["00ff11ee22dd33cc"]),
    (
        "PEM_SECRET",
        "-----BEGIN-----\nplanted18",
        &["-----BEGIN-----\nplanted18"],
    ),
    ("SHORT_PASS", "s9x", &[]),
    ("SORT_KEY", "decode", &[]),
];

/// Arguments of the workload, and what of them is secret.
const ARGUMENTS: [(&str, &[&str]); 14] = [
    ("--token", &[]),
    ("planted19-arg", &["planted19-arg"]),
    ("--pass", &[]),
    ("planted20", &["planted20"]),
    ("-u", &[]),
    ("me:planted21-login", &["planted21-login"]),
    ("-H", &[]),
    (
        "Authorization: Bearer planted22.bearer",
        &["planted22.bearer"],
    ),
    ("https://planted23tok@host/x", &["planted23tok"]),
    ("{\"api_key\":\"planted24-json\"}", &["planted24-json"]),
    (
        "https://x:planted25@h https://y:planted26@i",
        &["planted25", "planted26"],
    ),
    ("API_KEY=planted27", &["planted27"]),
    (
        "FOO_SECRET=planted28 run --password planted29",
        &["planted28", "planted29"],
    ),
    ("--batch=8", &[]),
];

/// Texts that only a short secret's own name makes one.
const SHORT: [&str; 3] = [
    "SHORT_PASS=s9x",
    "\"SHORT_PASS\": \"s9x\"",
    "SHORT_PASS: s9x",
];

fn forms(secrets: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/leaks/forms.py");
    let mut python = Command::new("python3");
    let mut python = python
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let input = serde_json::to_vec(secrets).expect("texts");
    python
        .stdin
        .take()
        .expect("piped")
        .write_all(&input)
        .expect("small");
    let output = python.wait_with_output().expect("ends").stdout;
    serde_json::from_slice::<Vec<Vec<String>>>(&output)
        .expect("lists")
        .concat()
}

/// An export that holds the texts in facts, in names of ranges, and next to what stays.
fn export(texts: &[String]) -> String {
    let mut sql = "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, text TEXT, textId INTEGER);
        CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
        INSERT INTO NVTX_EVENTS VALUES (1, 'decode', NULL);"
        .to_owned();
    for (at, text) in texts.iter().enumerate() {
        let text = text.replace('\'', "''");
        sql.push_str(&format!(
            "INSERT INTO StringIds VALUES ({at}, 'a {text} b');
             INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ARGUMENT_{at}', '{text}'),
                 ('PROCESS_0:ENVIRONMENT_VARIABLE_{at}', 'X={text}');"
        ));
    }
    sql
}

/// What others could read in a folder, or may of the files that are part of the bundle.
fn readable(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.path().symlink_metadata() else {
            continue;
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(format!(
                "{:o} {}",
                metadata.permissions().mode(),
                entry.path().display()
            ));
        }
        // What is in the hidden folder has modes of its own; nobody comes that far.
        if metadata.is_dir() && entry.file_name() != ".work" {
            readable(&entry.path(), found);
        }
    }
}

fn leaks(bundle: &Path, texts: &[String]) -> Vec<String> {
    let (mut files, mut found) = (Vec::new(), Vec::new());
    walk(bundle, bundle, &mut files);
    for file in files {
        let bytes = unpacked(&file, fs::read(bundle.join(&file)).expect("is there"));
        let held = texts.iter().filter(|text| contains(&bytes, text));
        found.extend(held.map(|text| format!("{text:?} in {file}")));
    }
    found
}

/// Watches until it is asked to end: what others could read, and secrets in logs.
fn watch(bundle: &Path, secrets: &[&str], ended: &AtomicBool) -> (Vec<String>, u32) {
    let (mut found, mut looks) = (Vec::new(), 0);
    while !ended.load(Ordering::SeqCst) {
        if bundle.exists() {
            readable(bundle.parent().expect("it has one"), &mut found);
            looks += 1;
        }
        for log in fs::read_dir(bundle.join("logs"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let bytes = fs::read(log.path()).unwrap_or_default();
            let held = secrets.iter().filter(|secret| contains(&bytes, secret));
            found.extend(held.map(|secret| format!("{secret} in {}", log.path().display())));
        }
        thread::sleep(Duration::from_millis(3));
    }
    (found, looks)
}

#[test]
fn no_secret_is_in_a_bundle_at_any_time_in_any_form() {
    let of_variables = VARIABLES.iter().flat_map(|(.., secrets)| secrets.iter());
    let of_arguments = ARGUMENTS.iter().flat_map(|(_, secrets)| secrets.iter());
    let secrets: Vec<&str> = of_variables.chain(of_arguments).copied().collect();
    assert!(secrets.len() >= 25);
    let mut texts = forms(&secrets);
    texts.extend(SHORT.map(str::to_owned));
    let machine = Machine::with(&export(&texts));
    let planted = machine.folder().join("planted");
    fs::create_dir(&planted).expect("writable");
    fs::write(planted.join("text"), texts.join("\n")).expect("writable");
    let json = serde_json::json!({ "model_type": "llama", "traceEvents": [], "leaks": texts });
    fs::write(planted.join("config.json"), json.to_string()).expect("writable");
    for path in [
        planted.join("text"),
        planted.join("config.json"),
        machine.folder().join("export.sqlite"),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("ours");
    }
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o700)).expect("ours");

    let mut arguments = vec![
        "all",
        "--no-inject",
        "--gemm-log",
        "--nvml-period",
        "0",
        "--",
        "leaky",
    ];
    arguments.extend(ARGUMENTS.iter().map(|(argument, _)| *argument));
    let mut command = machine.command(&arguments);
    command
        .envs(VARIABLES.iter().map(|(name, value, _)| (name, value)))
        .env("LEAKS", &planted);
    let ended = AtomicBool::new(false);
    let (output, (found, looks)) = thread::scope(|scope| {
        let watched = scope.spawn(|| watch(&machine.bundle(), &secrets, &ended));
        let output = command.output().expect("starts");
        ended.store(true, Ordering::SeqCst);
        (output, watched.join().expect("no panic"))
    });
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(looks > 20, "looked {looks} times");
    assert_eq!(found, [""; 0]);
    assert_eq!(leaks(&machine.bundle(), &texts), [""; 0]);
    for file in [
        "torch/rank1.pt.trace.json.gz",
        "gemm-log/cublaslt.log.gz",
        "nsys/timeline.sqlite",
        "config.json",
    ] {
        assert!(machine.bundle().join(file).is_file(), "{file}");
    }
    // An ordinary word stays where it is a range's name.
    let export = fs::read(machine.bundle().join("nsys/timeline.sqlite")).expect("is there");
    assert!(contains(&export, "decode"));
    let log = fs::read(machine.bundle().join("logs/baseline.stdout.txt")).expect("is there");
    assert_eq!(
        log.len(),
        texts.join("\n").len(),
        "masks are as long as what they cover"
    );
}

#[test]
fn a_link_in_place_of_a_folder_is_refused_and_nothing_is_written_through_it() {
    let machine = Machine::new();
    let elsewhere = machine.folder().join("elsewhere");
    fs::create_dir_all(&elsewhere).expect("writable");
    for name in ["logs", ".work"] {
        fs::create_dir_all(machine.bundle()).expect("writable");
        std::os::unix::fs::symlink(&elsewhere, machine.bundle().join(name)).expect("writable");
        let output = machine.run(&["baseline", "--", "true"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains(&format!("{name} is neither a file nor a folder")));
        assert_eq!(fs::read_dir(&elsewhere).expect("is there").count(), 0);
        fs::remove_dir_all(machine.bundle()).expect("ours");
    }
}
