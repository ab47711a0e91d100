//! Bundles as they come: folders, archives, loose files, damaged and hostile ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rooflens::bundle::{self, Bundle, BundleError, PackOptions, PathFault};
use rooflens::diagnostic::{Diagnostics, Severity};
use rooflens_schemas::{ArtifactKind, PassKind};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};
use tempfile::TempDir;

use crate::support::path as fixture;

#[test]
fn a_fixture_opens_clean_with_what_its_manifest_states() {
    let (bundle, diagnostics) = open(&fixture("h200-llama-1b"));
    assert_eq!(codes(&diagnostics), [""; 0]);
    assert_eq!(bundle.name, "Llama-3.2-1B shape on one H200, batch 4");
    let nsys = file(&bundle, "nsys/timeline.sqlite.zst");
    assert_eq!(
        (nsys.kind, nsys.pass.as_str()),
        (Some(ArtifactKind::NsysSqlite), "nsys")
    );
    assert_eq!(nsys.pass_kind, Some(PassKind::Timeline));
    let bytes = fs::read(fixture("h200-llama-1b").join("manifest.json")).expect("readable");
    assert_eq!(bundle.id, sha256(&bytes));
    assert!(bundle.files.is_sorted_by(|a, b| a.path < b.path));
}

#[test]
fn every_fixture_is_valid() {
    let mut checked = 0;
    for entry in fs::read_dir(fixture("")).expect("there are fixtures") {
        let path = entry.expect("readable").path();
        if path.join("manifest.json").is_file() {
            let diagnostics = bundle::validate(&[path]);
            assert!(
                diagnostics.worst() <= Some(Severity::Notice),
                "{diagnostics:?}"
            );
            checked += 1;
        }
    }
    assert!(checked >= 6, "checked {checked}");
}

#[test]
fn packed_and_unpacked_it_is_the_same_bundle() {
    let (original, _) = open(&fixture("edge-empty-window"));
    let folder = tempdir();
    let (first, second) = (
        folder.path().join("a.tar.zst"),
        folder.path().join("b.tar.zst"),
    );
    // Its README is of no known format.
    let all = PackOptions {
        keep_environment: true,
    };
    let packed = bundle::pack(&original, &first, all).expect("packs");
    bundle::pack(&original, &second, all).expect("packs");
    assert_eq!(packed.files, original.files.len() + 1);
    assert_eq!(
        fs::read(&first).expect("written"),
        fs::read(&second).expect("written")
    );

    let (archived, diagnostics) = open(&first);
    assert_eq!(codes(&diagnostics), [""; 0]);
    assert_eq!(
        (&archived.id, &archived.name),
        (&original.id, &original.name)
    );
    assert_eq!(contents(&archived), contents(&original));

    let target = folder.path().join("out");
    assert_eq!(
        bundle::unpack(&first, &target).expect("unpacks"),
        packed.files
    );
    let (unpacked, _) = open(&target);
    assert_eq!(unpacked.id, original.id);
    assert!(matches!(
        bundle::unpack(&first, &target),
        Err(BundleError::NotEmpty(_))
    ));
}

#[test]
fn what_an_archive_was_unpacked_to_goes_with_the_bundle() {
    let folder = tempdir();
    let path = archive(folder.path(), &[entry("a.csv", b"x")]);
    let (bundle, _) = open(&path);
    let location = bundle.files[0].location.clone();
    assert!(location.is_file());
    drop(bundle);
    assert!(!location.exists());
}

#[test]
fn a_folder_without_manifest_is_known_by_its_paths_and_bytes() {
    let (one, two) = (tempdir(), tempdir());
    for folder in [&one, &two] {
        write(folder.path(), "torch/rank0.pt.trace.json.gz", b"{}");
        write(folder.path(), "Llama-3.2.sqlite", b"x");
    }
    let (first, diagnostics) = open(one.path());
    assert_eq!(codes(&diagnostics), [""; 0]);
    assert!(first.manifest.is_none());
    assert_eq!(first.id, open(two.path()).0.id);
    // SHA-256 over "path NUL hash LF" of each file in order of path.
    let (x, braces) = (sha256(b"x"), sha256(b"{}"));
    let text = format!("Llama-3.2.sqlite\0{x}\ntorch/rank0.pt.trace.json.gz\0{braces}\n");
    assert_eq!(first.id, sha256(text.as_bytes()));
    let passes: Vec<&str> = first.files.iter().map(|file| file.pass.as_str()).collect();
    assert_eq!(passes, ["Llama-3.2", "torch"]);
    write(two.path(), "torch/rank0.pt.trace.json.gz", b"[]");
    assert_ne!(first.id, open(two.path()).0.id);
}

#[test]
fn a_capture_that_did_not_end_is_told_so() {
    let folder = tempdir();
    write(folder.path(), "workload.toml", b"batch = 1");
    assert_eq!(codes(&open(folder.path()).1), ["bundle/no-manifest"]);
}

#[test]
fn packing_loose_files_writes_a_manifest() {
    let folder = tempdir();
    write(folder.path(), "in/torch/trace.json", b"{}");
    let (mut loose, _) = open(&folder.path().join("in"));
    loose.files[0].kind = Some(ArtifactKind::TorchTrace);
    let out = folder.path().join("out.tar.zst");
    bundle::pack(&loose, &out, PackOptions::default()).expect("packs");
    let (bundle, diagnostics) = open(&out);
    assert_eq!(codes(&diagnostics), [""; 0]);
    let manifest = bundle.manifest.as_ref().expect("one was written");
    assert_eq!(manifest.passes[0].kind, PassKind::Operators);
    assert_eq!(manifest.artifacts[0].sha256, sha256(b"{}"));
    assert_eq!(manifest.artifacts[0].bytes, 2);
}

#[test]
fn files_that_changed_went_missing_or_were_added_are_told() {
    let folder = tempdir();
    for (path, bytes) in [
        ("same", "a"),
        ("other", "b"),
        ("longer", "cc"),
        ("unlisted", "d"),
        (".hidden", "e"),
    ] {
        write(folder.path(), path, bytes.as_bytes());
    }
    manifest(
        folder.path(),
        &[
            ("same", "a"),
            ("other", "B"),
            ("longer", "c"),
            ("gone", "x"),
        ],
    );
    let (bundle, diagnostics) = open(folder.path());
    let mut told: Vec<(&str, &str)> = diagnostics
        .iter()
        .map(|diagnostic| {
            (
                diagnostic.code,
                diagnostic.artifact.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            ("bundle/hash-mismatch", "longer"),
            ("bundle/hash-mismatch", "other"),
            ("bundle/missing-file", "gone"),
            ("bundle/unlisted-file", "unlisted"),
        ]
    );
    let read: Vec<&str> = bundle.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(read, ["longer", "other", "same"]);
    let other = file(&bundle, "other");
    assert_eq!(other.sha256.as_deref(), Some(sha256(b"b").as_str()));
}

#[test]
fn without_a_manifest_of_use_the_files_are_read_and_it_is_an_error() {
    for text in [
        r#"{"version": 2}"#,
        "[]",
        "{",
        r#"{"version": 1, "artifacts": 3}"#,
    ] {
        let folder = tempdir();
        write(folder.path(), "manifest.json", text.as_bytes());
        write(folder.path(), "torch/trace.json", b"{}");
        let (bundle, diagnostics) = open(folder.path());
        assert_eq!(codes(&diagnostics), [bundle::BROKEN_MANIFEST], "{text}");
        assert_eq!(diagnostics.worst(), Some(Severity::Error));
        assert!(bundle.manifest.is_none());
        let read: Vec<&str> = bundle.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(read, ["manifest.json", "torch/trace.json"]);
        assert_ne!(
            bundle::validate(&[folder.path().to_owned()]).worst(),
            Some(Severity::Notice)
        );
    }
}

#[test]
fn a_manifest_cannot_point_outside_the_bundle() {
    for path in ["../secret", "/etc/passwd", r"a\\b", "a/../../secret", ""] {
        let folder = tempdir();
        write(folder.path(), "secret", b"x");
        manifest(&folder.path().join("bundle"), &[(path, "x")]);
        let (bundle, diagnostics) = open(&folder.path().join("bundle"));
        let said: Vec<&str> = diagnostics.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(codes(&diagnostics), [bundle::BROKEN_MANIFEST], "{path}");
        assert!(said[0].contains("inside the bundle"), "{path}: {said:?}");
        assert!(
            bundle.files.iter().all(|file| file.path == "manifest.json"),
            "{path}"
        );
    }
}

#[test]
fn a_manifest_cannot_list_a_file_twice() {
    let folder = tempdir();
    write(folder.path(), "a", b"x");
    manifest(folder.path(), &[("a", "x"), ("a", "y")]);
    let (bundle, diagnostics) = open(folder.path());
    assert_eq!(codes(&diagnostics), [bundle::BROKEN_MANIFEST]);
    assert_eq!(
        bundle.files.iter().filter(|file| file.path == "a").count(),
        1
    );
}

#[test]
fn nothing_to_open_is_an_error() {
    let folder = tempdir();
    assert!(matches!(refused(folder.path()), BundleError::Empty(_)));
    assert!(matches!(
        refused(&folder.path().join("nowhere")),
        BundleError::Io { .. }
    ));
    #[cfg(unix)]
    assert!(matches!(
        refused(Path::new("/dev/zero")),
        BundleError::NoFile(_)
    ));
    let error = bundle::open(&[], &mut Diagnostics::default()).expect_err("refused");
    assert!(matches!(error, BundleError::NoPath));
    let empty = archive(folder.path(), &[]);
    let (bundle, _) = open(&empty);
    assert_eq!(
        bundle.files.len(),
        1,
        "a tar without a header is no tar but a file"
    );
}

#[test]
fn loose_files_take_their_folder_s_name_where_names_collide() {
    let folder = tempdir();
    let paths: Vec<PathBuf> = [
        "r0/trace.json",
        "r1/trace.json",
        "x/kernels.csv",
        "dir/deep/a.csv",
    ]
    .map(|path| write(folder.path(), path, path.as_bytes()))
    .into();
    let mut named = paths[..3].to_vec();
    named.push(folder.path().join("dir"));
    let bundle = bundle::open(&named, &mut Diagnostics::default()).expect("opens");
    let read: Vec<&str> = bundle.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        read,
        [
            "dir/deep/a.csv",
            "kernels.csv",
            "r0/trace.json",
            "r1/trace.json"
        ]
    );
    let twice = [paths[0].clone(), paths[0].clone()];
    let error = bundle::open(&twice, &mut Diagnostics::default()).expect_err("refused");
    assert!(matches!(error, BundleError::Duplicate(_)), "{error}");
}

#[test]
fn archives_of_other_tools_open_too() {
    let folder = tempdir();
    let long = format!("run/{}/trace.json", "d".repeat(150));
    let mut entries = vec![
        special("./run/", EntryType::Directory, b""),
        entry("./run/a.csv", b"x"),
        entry("run/._a.csv", b"resource fork"),
        special(
            "././@LongLink",
            EntryType::GNULongName,
            format!("{long}\0").as_bytes(),
        ),
        entry("cut", b"y"),
    ];
    let name = "run/pax.csv";
    let record = format!("{} path={name}\n", name.len() + 9);
    entries.push(special(
        "PaxHeaders/x",
        EntryType::XHeader,
        record.as_bytes(),
    ));
    entries.push(entry("short", b"z"));
    let (bundle, diagnostics) = open(&archive(folder.path(), &entries));
    assert_eq!(codes(&diagnostics), [""; 0]);
    assert_eq!(
        bundle.name, "run",
        "the only folder of the archive is the bundle"
    );
    let read: Vec<&str> = bundle.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(read, ["a.csv", &long[4..], "pax.csv"]);
}

#[test]
fn archives_with_paths_that_lead_out_are_refused() {
    for (path, expected) in [
        ("../evil", PathFault::Part),
        ("a/../../evil", PathFault::Part),
        ("/tmp/evil", PathFault::Absolute),
        (r"..\evil", PathFault::Sign),
    ] {
        let folder = tempdir();
        let error = refused(&archive(folder.path(), &[entry(path, b"x")]));
        assert!(
            matches!(error, BundleError::Path { fault, .. } if fault == expected),
            "{path}: {error}"
        );
        assert!(!folder.path().join("evil").exists());
    }
}

#[test]
fn archives_with_long_names_that_lead_out_are_refused() {
    let folder = tempdir();
    let long = special("././@LongLink", EntryType::GNULongName, b"../evil\0");
    let error = refused(&archive(folder.path(), &[long, entry("good", b"x")]));
    assert!(matches!(error, BundleError::Path { .. }), "{error}");
    let pax = special("PaxHeaders/x", EntryType::XHeader, b"16 path=../evil\n");
    let error = refused(&archive(folder.path(), &[pax, entry("good", b"x")]));
    assert!(matches!(error, BundleError::Path { .. }), "{error}");
}

#[test]
fn archives_with_links_and_devices_are_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::GNUSparse,
    ] {
        let folder = tempdir();
        let error = refused(&archive(folder.path(), &[special("a", kind, b"")]));
        assert!(
            matches!(error, BundleError::Entry { .. }),
            "{kind:?}: {error}"
        );
    }
}

#[test]
fn archives_with_two_files_of_one_path_are_refused() {
    let folder = tempdir();
    let path = archive(folder.path(), &[entry("a", b"x"), entry("./a", b"y")]);
    assert!(matches!(refused(&path), BundleError::Duplicate(path) if path == "a"));
    // A file where another entry needs a folder.
    let path = archive(folder.path(), &[entry("a", b"x"), entry("a/b", b"y")]);
    assert!(matches!(refused(&path), BundleError::Archive { .. }));
}

#[test]
fn archives_with_too_many_entries_or_folders_are_refused() {
    let folder = tempdir();
    // Each member counts 16 KiB, of which an archive may hold 100 times its size: these bytes do not compress.
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()
    };
    let contents: Vec<Vec<u8>> = (0..=bundle::MAX_FILES)
        .map(|_| (0..32).flat_map(|_| noise()).collect())
        .collect();
    let many: Vec<Entry> = contents
        .iter()
        .enumerate()
        .map(|(at, content)| entry(&format!("f{at}"), content))
        .collect();
    let error = refused(&archive(folder.path(), &many));
    assert!(
        matches!(
            error,
            BundleError::TooMany {
                limit: bundle::MAX_FILES,
                ..
            }
        ),
        "{error}"
    );
    let deep = "d/".repeat(bundle::MAX_DEPTH + 1) + "f";
    let error = refused(&archive(folder.path(), &[entry(&deep, b"x")]));
    assert!(
        matches!(
            error,
            BundleError::TooMany {
                limit: bundle::MAX_DEPTH,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_long_name_without_end_does_not_fill_the_memory() {
    let folder = tempdir();
    let name = vec![b'a'; 10 << 20];
    let long = special("././@LongLink", EntryType::GNULongName, &name);
    let error = refused(&archive(folder.path(), &[long, entry("a", b"x")]));
    assert!(error.to_string().contains("too long"), "{error}");
}

/// A frame of zeros: 300 MiB in about 10 KiB, past the 256 MiB that are allowed to any ratio.
#[test]
fn a_bomb_is_refused() {
    let folder = tempdir();
    let path = folder.path().join("bomb.tar.zst");
    let size: u64 = 300 << 20;
    let mut encoder =
        zstd::Encoder::new(fs::File::create(&path).expect("writable"), 1).expect("new");
    encoder
        .write_all(header("zeros", EntryType::Regular, size).as_bytes())
        .expect("writes");
    let zeros = vec![0; 1 << 20];
    for _ in 0..size >> 20 {
        encoder.write_all(&zeros).expect("writes");
    }
    encoder.finish().expect("ends");
    let packed = fs::metadata(&path).expect("written").len();
    assert!(packed < 1 << 17, "{packed}");
    assert!(matches!(refused(&path), BundleError::Archive { .. }));
}

#[test]
fn cut_archives_are_refused() {
    let folder = tempdir();
    let path = archive(
        folder.path(),
        &[entry("a", &[7; 3000]), entry("b", &[8; 3000])],
    );
    let whole = fs::read(&path).expect("readable");
    for keep in [whole.len() / 2, whole.len() - 8] {
        fs::write(&path, &whole[..keep]).expect("writable");
        assert!(
            matches!(refused(&path), BundleError::Archive { .. }),
            "{keep} bytes"
        );
    }
    let plain = folder.path().join("cut.tar");
    let mut tar = header("a", EntryType::Regular, 3000).as_bytes().to_vec();
    tar.extend([7; 1000]);
    fs::write(&plain, tar).expect("writable");
    assert!(matches!(refused(&plain), BundleError::Archive { .. }));
}

#[test]
fn a_workload_that_does_not_fit_its_bundle_is_an_error() {
    for (workload, code) in [
        ("batches = 8", "bundle/workload"),
        ("config = 'config.json'", "bundle/workload"),
        ("[passes.ncu]\nbatch = 1", "bundle/pass-id"),
    ] {
        let folder = tempdir();
        write(folder.path(), "workload.toml", workload.as_bytes());
        manifest(folder.path(), &[("workload.toml", workload)]);
        let diagnostics = bundle::validate(&[folder.path().to_owned()]);
        let errors: Vec<&str> = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .map(|diagnostic| diagnostic.code)
            .collect();
        assert_eq!(errors, [code], "{workload}");
    }
}

/// A member of a tar: its header and its bytes.
type Entry = (Header, Vec<u8>);

fn entry(path: &str, bytes: &[u8]) -> Entry {
    special(path, EntryType::Regular, bytes)
}

fn special(path: &str, kind: EntryType, bytes: &[u8]) -> Entry {
    (header(path, kind, bytes.len() as u64), bytes.to_vec())
}

/// A header with any path: the library refuses to write the hostile ones.
fn header(path: &str, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// A `.tar.zst` of the entries as they are.
fn archive(folder: &Path, entries: &[Entry]) -> PathBuf {
    let mut tar = Vec::new();
    for (header, bytes) in entries {
        tar.extend(header.as_bytes());
        tar.extend(bytes);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.extend([0; 1024]);
    let path = folder.join("archive.tar.zst");
    fs::write(&path, zstd::encode_all(&*tar, 1).expect("packs")).expect("writable");
    path
}

/// Writes a manifest that states these paths and contents, whatever there is.
fn manifest(folder: &Path, artifacts: &[(&str, &str)]) {
    let artifacts: Vec<serde_json::Value> = artifacts
        .iter()
        .map(|(path, content)| {
            let kind = if path.ends_with(".toml") {
                "workload"
            } else {
                "other"
            };
            let (sha256, bytes) = (sha256(content.as_bytes()), content.len());
            serde_json::json!({"path": path, "kind": kind, "sha256": sha256, "bytes": bytes})
        })
        .collect();
    let manifest = serde_json::json!({
        "version": 1, "name": "x", "tool": {"name": "test"},
        "passes": [{"id": "baseline", "kind": "baseline"}], "artifacts": artifacts,
    });
    write(folder, "manifest.json", manifest.to_string().as_bytes());
}

fn write(folder: &Path, path: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().expect("below a folder")).expect("writable");
    fs::write(&path, bytes).expect("writable");
    path
}

fn tempdir() -> TempDir {
    tempfile::tempdir().expect("there is room")
}

fn open(path: &Path) -> (Bundle, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    let bundle = bundle::open(&[path.to_owned()], &mut diagnostics).expect("opens");
    (bundle, diagnostics)
}

fn refused(path: &Path) -> BundleError {
    bundle::open(&[path.to_owned()], &mut Diagnostics::default()).expect_err("is refused")
}

fn codes(diagnostics: &Diagnostics) -> Vec<&'static str> {
    diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect()
}

fn file<'a>(bundle: &'a Bundle, path: &str) -> &'a bundle::ArtifactFile {
    bundle
        .files
        .iter()
        .find(|file| file.path == path)
        .expect("is in the bundle")
}

fn contents(bundle: &Bundle) -> BTreeMap<&str, Vec<u8>> {
    let read = |file: &bundle::ArtifactFile| fs::read(&file.location).expect("readable");
    bundle
        .files
        .iter()
        .map(|file| (file.path.as_str(), read(file)))
        .collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

mod left_out;
mod whole;
