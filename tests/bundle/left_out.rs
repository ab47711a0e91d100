//! What packing omits, and what it removes.

use super::*;

const TRACE: &str = r#"{"schemaVersion":1,"deviceProperties":[],"traceEvents":[
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":20,"args":{"device":0,"stream":7,"correlation":1}}]}"#;

#[test]
fn what_cannot_be_looked_through_is_left_out_and_named() {
    let folder = tempdir();
    let root = folder.path().join("in");
    write(&root, "torch/trace.json", TRACE.as_bytes());
    let secret = b"TOKEN=hunter2";
    let unfit = [
        ("logs/run.stdout.txt", secret.as_slice(), "no known format"),
        ("notes.txt.bz2", b"BZh91AY&SY hunter2", "packed in a way"),
        ("nsys/a.nsys-rep", secret, "environment of the process"),
        ("nsys/a.sqlite-journal", secret, "a journal of SQLite"),
        ("nsys/a.sqlite-wal", secret, "a journal of SQLite"),
        ("nsys/b.sqlite.xz", b"\xfd7zXZ\0 hunter2", "packed in a way"),
    ];
    for (path, bytes, _) in unfit {
        write(&root, path, bytes);
    }
    let other = rusqlite::Connection::open(root.join("other.sqlite")).expect("opens");
    other
        .execute_batch("CREATE TABLE t AS SELECT 'hunter2'")
        .expect("runs");
    let (mut bundle, mut diagnostics) = open(&root);
    rooflens::ingest::identify(&mut bundle, &mut diagnostics);
    let out = folder.path().join("out.tar.zst");
    let packed = bundle::pack(&bundle, &out, PackOptions::default()).expect("packs");
    let mut expected: Vec<(&str, &str)> = unfit.map(|(path, _, reason)| (path, reason)).into();
    expected.push(("other.sqlite", "no known format"));
    assert_eq!(packed.left_out.len(), expected.len());
    for ((path, reason), (left_out, why)) in expected.iter().zip(&packed.left_out) {
        assert_eq!(path, left_out);
        assert!(why.contains(reason), "{path}: {why}");
    }
    let (clean, diagnostics) = open(&out);
    assert_eq!(
        codes(&diagnostics),
        [""; 0],
        "the manifest states what is packed"
    );
    assert_eq!(clean.files.len(), 1);
    let told = bundle::validate(&[root]);
    let told = told
        .iter()
        .filter(|one| one.code == "bundle/not-packed")
        .count();
    assert_eq!(told, 5, "what can be told without a manifest");
    let kept = bundle::pack(
        &bundle,
        &out,
        PackOptions {
            keep_environment: true,
        },
    )
    .expect("packs");
    assert_eq!((kept.left_out.len(), kept.files), (0, 9));
}

#[test]
fn packing_removes_environment_variables_unless_told_otherwise() {
    let folder = tempdir();
    let plain = folder.path().join("export.sqlite");
    let sql = "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
        INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE_0', 'TOKEN=hunter2');";
    rusqlite::Connection::open(&plain)
        .expect("opens")
        .execute_batch(sql)
        .expect("runs");
    let packed = zstd::encode_all(&*fs::read(&plain).expect("readable"), 3).expect("packs");
    write(folder.path(), "in/nsys/timeline.sqlite.zst", &packed);
    let (bundle, _) = open(&folder.path().join("in"));

    let out = folder.path().join("out.tar.zst");
    let report = bundle::pack(&bundle, &out, PackOptions::default()).expect("packs");
    assert_eq!(report.redacted, ["nsys/timeline.sqlite.zst"]);
    let (clean, diagnostics) = open(&out);
    assert_eq!(
        codes(&diagnostics),
        [""; 0],
        "the manifest states the redacted file"
    );
    assert!(!holds_secret(&clean));
    assert!(!codes(&bundle::validate(&[out])).contains(&"bundle/secrets"));

    let out = folder.path().join("kept.tar.zst");
    let keep = PackOptions {
        keep_environment: true,
    };
    assert!(
        bundle::pack(&bundle, &out, keep)
            .expect("packs")
            .redacted
            .is_empty()
    );
    assert!(holds_secret(&open(&out).0));
    assert!(codes(&bundle::validate(&[out])).contains(&"bundle/secrets"));
}

fn holds_secret(bundle: &Bundle) -> bool {
    let bytes = fs::read(&bundle.files[0].location).expect("readable");
    let plain = zstd::decode_all(&*bytes).expect("zstd");
    plain.windows(7).any(|window| window == b"hunter2")
}
