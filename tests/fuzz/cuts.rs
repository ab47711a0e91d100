//! Files that end too early: what a beginning of a file says differs from the whole only if the reader says so.
//!
//! `ROOFLENS_FUZZ_CUTS=10000` makes so many cuts, `ROOFLENS_FUZZ_FOLDER=DIR` takes files from there too.
//!
//! A text that is cut between two of its lines may be whole for all that anybody knows: a log that ended there has the same
//! bytes. Such cuts are counted and listed apart.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use rooflens::bundle::ArtifactFile;
use rooflens::diagnostic::{Diagnostics, Severity};
use rooflens::pipeline::{LoadTests, Study};
use rooflens::session::table::Cell;

use super::corpus;
use super::mutate::Random;
use super::setting;

/// Files of more bytes are left to other tests: each cut reads what is before it.
const MOST: u64 = 2 << 20;

/// Cuts without a setting.
const CUTS: u64 = 300;

/// What a command makes of a file.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// No report, with an error.
    Refused,
    /// A report that says that something is lost.
    Lossy,
    /// A report as if the file were whole: what it is made of.
    Whole(u64),
}

fn is_loss(diagnostics: &Diagnostics) -> bool {
    diagnostics.worst() >= Some(Severity::DataLoss)
}

fn outcome(path: &Path) -> Outcome {
    let Ok(capture) = rooflens::open([path]) else {
        return Outcome::Refused;
    };
    if matches!(capture.study(), Study::LoadTest { .. }) || !capture.is_reportable() {
        return load_test(path);
    }
    if is_loss(&capture.diagnostics) {
        return Outcome::Lossy;
    }
    let (session, mut hash) = (&capture.session, DefaultHasher::new());
    for table in session.tables() {
        for row in 0..table.rows() {
            for column in 0..table.columns().len() {
                match table.cell(row, column) {
                    Cell::Interned(id) => session.text(id).hash(&mut hash),
                    other => format!("{other:?}").hash(&mut hash),
                }
            }
        }
    }
    Outcome::Whole(hash.finish())
}

fn load_test(path: &Path) -> Outcome {
    let Ok(tests) = LoadTests::open(&[path.to_owned()], &[], &[], None, &mut |_| ()) else {
        return Outcome::Refused;
    };
    let mut hash = DefaultHasher::new();
    format!("{:?}", tests.input).hash(&mut hash);
    match tests.input.runs.is_empty() {
        true => Outcome::Refused,
        false if is_loss(&tests.diagnostics) => Outcome::Lossy,
        false => Outcome::Whole(hash.finish()),
    }
}

/// All files below a folder.
fn below(folder: PathBuf) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// Bytes of small files, unpacked, that are read without a loss, by name.
fn whole_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = below(root.join("fixtures"));
    paths.extend(below(root.join("tests/data")));
    paths.extend(below(setting("FOLDER").unwrap_or_default().into()));
    let mut files = Vec::new();
    for location in paths {
        let name = location.to_string_lossy().into_owned();
        let file = ArtifactFile {
            location,
            ..ArtifactFile::default()
        };
        let bytes = file.content().and_then(|content| content.bytes(MOST));
        files.extend(bytes.ok().map(|bytes| (name, bytes)));
    }
    for (at, bytes) in corpus::of("import").into_iter().enumerate() {
        files.push((format!("corpus {at}"), bytes));
    }
    files.retain(|(_, bytes)| {
        matches!(written(folder, bytes), Outcome::Whole(_)) && !is_description(bytes)
    });
    files
}

/// Whether people write such files by hand: `workload.toml` and notes say what they say.
fn is_description(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    !text.trim_start().starts_with('{') && text.parse::<toml::Table>().is_ok()
}

fn written(folder: &Path, bytes: &[u8]) -> Outcome {
    let path = folder.join("file");
    std::fs::write(&path, bytes).unwrap();
    outcome(&path)
}

/// Whether a cut is between two lines of a text.
fn is_between_lines(bytes: &[u8], cut: usize) -> bool {
    !bytes.contains(&0)
        && (bytes[cut - 1] == b'\n'
            || bytes[cut..].starts_with(b"\n")
            || bytes[cut..].starts_with(b"\r\n"))
}

#[test]
fn what_is_cut_is_reported_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = whole_files(folder.path());
    let cuts = setting("CUTS")
        .and_then(|text| text.parse().ok())
        .unwrap_or(CUTS);
    let mut random = Random(
        setting("SEED")
            .and_then(|text| text.parse().ok())
            .unwrap_or(1),
    );
    let (mut reported, mut same, mut between) = (0, 0, BTreeMap::<&str, u64>::new());
    let mut silent = Vec::new();
    for _ in 0..cuts {
        let (name, bytes) = &files[random.below(files.len())];
        let cut = 1 + random.below(bytes.len().max(2) - 1);
        match written(folder.path(), &bytes[..cut]) {
            Outcome::Refused | Outcome::Lossy => reported += 1,
            whole if whole == written(folder.path(), bytes) => same += 1,
            _ if is_between_lines(bytes, cut) => *between.entry(name).or_default() += 1,
            _ => silent.push(format!("{name} at {cut} of {}", bytes.len())),
        }
    }
    eprintln!(
        "{cuts} cuts of {} files: {reported} reported or refused, {same} lose nothing, {} between lines, {} silent",
        files.len(),
        between.values().sum::<u64>(),
        silent.len()
    );
    for (name, count) in between {
        eprintln!("between lines: {count} of {name}");
    }
    assert!(silent.is_empty(), "{silent:#?}");
}
