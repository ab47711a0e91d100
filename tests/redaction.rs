//! What packing covers in reports of Nsight Compute, and that their figures stay.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use rooflens::bundle::{self, PackOptions};
use rooflens::diagnostic::Diagnostics;
use rooflens::session::table::Cell;

/// A block as ncu writes it before the launches: the host's name, a command line, the address of the process.
const PLANTED: &[u8] =
    b"\x39\0\0\0\x1a\x26\x1a\x0e\x2a\x0cplanted-host\x5a\x14/home/planted-user/x\
    \x28\x80\x80\x00\x32\x0b\x12\x09127.0.0.1";

const SECRETS: [&str; 3] = ["planted-host", "planted-user", "127.0.0.1"];

/// A trimmed report of a real run, with a block that tells of a host and a user.
fn report() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/h200-llama-1b/ncu-decode/decode.ncu-rep.zst");
    let mut bytes = zstd::decode_all(&*fs::read(path).unwrap()).unwrap();
    bytes.extend(PLANTED);
    bytes
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// All cells of all tables of the bundle at `path`, and how many of them are launches.
fn cells(path: &Path) -> (Vec<String>, usize) {
    let session = rooflens::open([path]).unwrap().session;
    let mut cells = Vec::new();
    for table in session.tables() {
        for (at, column) in table.columns().into_iter().enumerate() {
            let text = |row| match table.cell(row, at) {
                Cell::Interned(id) => session.text(id).to_owned(),
                other => format!("{other:?}"),
            };
            let values: Vec<String> = (0..table.rows()).map(text).collect();
            cells.push(format!("{}.{}: {values:?}", table.name(), column.name));
        }
    }
    (cells, session.kernel_profiles.len())
}

#[test]
fn a_packed_report_tells_nothing_of_host_and_user_and_imports_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = report();
    assert!(SECRETS.iter().all(|secret| holds(&bytes, secret)));
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("ncu")).unwrap();
    let packed = zstd::encode_all(&*bytes, 3).unwrap();
    fs::write(source.join("ncu/kernels.ncu-rep.zst"), packed).unwrap();

    let bundle = rooflens::open([&source]).unwrap().bundle;
    let out = folder.path().join("out.tar.zst");
    let report = bundle::pack(&bundle, &out, PackOptions::default()).unwrap();
    assert_eq!(report.redacted, ["ncu/kernels.ncu-rep.zst"]);

    let unpacked = folder.path().join("unpacked");
    bundle::unpack(&out, &unpacked).unwrap();
    let covered = fs::read(unpacked.join("ncu/kernels.ncu-rep.zst")).unwrap();
    let covered = zstd::decode_all(&*covered).unwrap();
    assert_eq!(covered.len(), bytes.len());
    assert!(!SECRETS.iter().any(|secret| holds(&covered, secret)));
    assert!(holds(&covered, "/home/************/x"));
    let differing = bytes.iter().zip(&covered).filter(|(a, b)| a != b).count();
    assert_eq!(
        differing,
        SECRETS.iter().map(|secret| secret.len()).sum::<usize>()
    );

    let (before, launches) = cells(&source.join("ncu"));
    assert_eq!(launches, 45);
    assert_eq!(before, cells(&unpacked.join("ncu")).0);

    let kept = PackOptions {
        keep_environment: true,
    };
    assert_eq!(bundle::pack(&bundle, &out, kept).unwrap().redacted, [""; 0]);
}

#[test]
fn a_report_that_cannot_be_covered_is_not_packed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir_all(&source).unwrap();
    // A file header of 4 GiB.
    fs::write(
        source.join("a.ncu-rep"),
        b"NVR\0\x02\0\0\0\x08\x07\xff\xff\xff\xffhost",
    )
    .unwrap();
    let bundle = bundle::open(&[source], &mut Diagnostics::default()).unwrap();
    let out = folder.path().join("out.tar.zst");
    let error = bundle::pack(&bundle, &out, PackOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot redact a.ncu-rep: not a report of a known format"),
        "{error}"
    );
    assert!(!out.exists());
}
