//! The same files at the root, in folders, in a list, in an archive and one launch a folder give the same figures.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::support::{analyze, path};
use rooflens_schemas::Scope;

/// Metrics without the names of passes, sorted.
fn figures(paths: &[PathBuf]) -> (Vec<String>, usize) {
    let capture = rooflens::open(paths).expect("it opens");
    let mut metrics = Vec::new();
    for metric in analyze(&capture).metrics() {
        let scope = Scope {
            pass: None,
            ..metric.scope.clone()
        };
        let (id, value, unit) = (&metric.id, &metric.value, metric.unit);
        metrics.push(format!("{id} {scope:?} {value:?} {unit:?}"));
    }
    metrics.sort_unstable();
    (metrics, capture.session.passes.len())
}

/// Writes files below a new folder.
fn lay(files: &[(String, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, bytes) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }
    folder
}

fn fixture(file: &str) -> Vec<u8> {
    let file = File::open(path("h200-llama-1b").join(file)).expect("it is there");
    let mut bytes = Vec::new();
    zstd::Decoder::new(file)
        .expect("zstd")
        .read_to_end(&mut bytes)
        .expect("whole");
    bytes
}

/// A page by launch: rows begin with the launch's number in quotes.
fn by_launch(page: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(page);
    let mut pages = BTreeMap::<String, String>::new();
    let (mut header, mut last) = (String::new(), None::<String>);
    for line in text.split_inclusive('\n') {
        let number = line
            .strip_prefix('"')
            .and_then(|rest| rest.split_once("\",\""));
        match number.filter(|(number, _)| number.parse::<u32>().is_ok()) {
            Some((number, _)) => last = Some(number.to_owned()),
            None if line.starts_with("\"ID\",") => header = line.to_owned(),
            None => {}
        }
        if let Some(number) = &last {
            pages
                .entry(number.clone())
                .or_insert_with(|| header.clone())
                .push_str(line);
        }
    }
    pages
}

#[test]
fn pages_of_one_report_are_one_pass_wherever_they_lie() {
    let (raw, details) = (
        fixture("ncu-decode/decode.raw.csv.zst"),
        fixture("ncu-decode/decode.details.csv.zst"),
    );
    let timeline = fixture("nsys-gated-decode/timeline.sqlite.zst");
    let under = |ncu: &str, nsys: &str| {
        vec![
            (format!("{ncu}decode.raw.csv"), raw.as_slice()),
            (format!("{ncu}decode.details.csv"), details.as_slice()),
            (format!("{nsys}timeline.sqlite"), timeline.as_slice()),
        ]
    };
    let root = lay(&under("", ""));
    let (expected, passes) = figures(&[root.path().to_owned()]);
    assert_eq!(passes, 2, "the timeline and the report");
    assert!(
        expected
            .iter()
            .any(|metric| metric.starts_with("representative_share"))
    );
    let folders = lay(&under("ncu/", "nsys/"));
    let below = lay(&under("run/", "run/"));
    let list: Vec<PathBuf> = under("", "")
        .iter()
        .map(|(name, _)| root.path().join(name))
        .collect();
    let archive = folders.path().join("archive.tar");
    pack(&archive, &under("", ""));
    let folder = |folder: &tempfile::TempDir, name: &str| vec![folder.path().join(name)];
    for (how, paths) in [
        ("list", list),
        ("archive", vec![archive.clone()]),
        ("subfolder", folder(&below, "")),
        (
            "folders",
            vec![folders.path().join("ncu"), folders.path().join("nsys")],
        ),
    ] {
        assert_eq!(figures(&paths), (expected.clone(), 2), "{how}");
    }
}

#[test]
fn folders_of_one_launch_each_are_one_pass() {
    let page = fixture("ncu-decode/decode.details.csv.zst");
    let whole = lay(&[("ncu/decode.csv".to_owned(), page.as_slice())]);
    let (expected, passes) = figures(&[whole.path().to_owned()]);
    assert_eq!(passes, 1);
    let pages = by_launch(&page);
    assert!(pages.len() > 3, "{} launches", pages.len());
    for name in [
        |at: &str| format!("kernel_{at:0>4}_x/ncu.csv"),
        |at: &str| format!("k{at:0>4}.csv"),
    ] {
        let files: Vec<_> = pages
            .iter()
            .map(|(at, page)| (name(at), page.as_bytes()))
            .collect();
        let single = lay(&files);
        assert_eq!(figures(&[single.path().to_owned()]), (expected.clone(), 1));
    }
}

fn pack(archive: &Path, files: &[(String, &[u8])]) {
    let mut tar = tar::Builder::new(File::create(archive).expect("created"));
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *bytes).expect("packed");
    }
    tar.finish().expect("packed");
}
