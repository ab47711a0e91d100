//! What is written where: as a whole or not at all, and never over what is another's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn rooflens(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens"));
    command
        .args(args)
        .current_dir(folder)
        .output()
        .expect("rooflens runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A working folder with a trace of one kernel, `one.json`, and one of a kernel twice as long, `two.json`.
fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let one = include_str!("data/one_kernel.json");
    fs::write(folder.path().join("one.json"), one).expect("writable");
    let two = one
        .replace("\"dur\":40", "\"dur\":80")
        .replace("gemm_kernel", "other_kernel");
    fs::write(folder.path().join("two.json"), two).expect("writable");
    fs::write(
        folder.path().join("none.json"),
        r#"{"schemaVersion": 1, "traceEvents": []}"#,
    )
    .expect("writable");
    folder
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("readable").path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(root).expect("below it").to_owned();
                    found.insert(name, fs::read(&path).expect("readable"));
                }
            }
        }
    }
    found
}

/// The targets of the pictures of a Markdown file, as paths next to it.
fn pictures(path: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(path).expect("readable");
    let target = |event| match event {
        pulldown_cmark::Event::Start(pulldown_cmark::Tag::Image { dest_url, .. }) => {
            Some(path.with_file_name(dest_url.replace("%20", " ")))
        }
        _ => None,
    };
    pulldown_cmark::Parser::new(&text)
        .filter_map(target)
        .collect()
}

#[test]
fn reports_in_one_folder_show_their_own_charts() {
    let folder = prepared();
    let path = |name: &str| folder.path().join(name);
    for (trace, report) in [("one.json", "a.md"), ("two.json", "b c.md")] {
        assert!(
            rooflens(folder.path(), &["report", trace, "-o", report])
                .status
                .success()
        );
    }
    let (a, b) = (pictures(&path("a.md")), pictures(&path("b c.md")));
    assert!(
        !a.is_empty() && a.iter().chain(&b).all(|chart| chart.is_file()),
        "{a:?} {b:?}"
    );
    assert!(a.iter().all(|chart| chart.starts_with(path("a_files"))));
    assert!(b.iter().all(|chart| chart.starts_with(path("b c_files"))));
    // A second report of that name without charts leaves none.
    assert!(
        rooflens(folder.path(), &["report", "none.json", "-o", "a.md"])
            .status
            .code()
            == Some(3)
    );
    assert!(
        a.iter().all(|chart| chart.is_file()),
        "nothing was written, nothing is gone"
    );
    let summary = ["report", "one.json", "--kind", "summary", "-o", "a.md"];
    assert!(rooflens(folder.path(), &summary).status.success());
    assert_eq!(
        pictures(&path("a.md")).is_empty(),
        !path("a_files").exists()
    );
}

#[test]
fn a_second_report_into_a_folder_leaves_nothing_of_the_first() {
    let folder = prepared();
    let report = |trace: &str, out: &str, more: &[&str]| {
        let args = [&["report", trace, "-o", out], more].concat();
        let output = rooflens(folder.path(), &args);
        assert!(output.status.success(), "{}", said(&output));
    };
    report("one.json", "out", &[]);
    fs::write(folder.path().join("out/mine.txt"), "mine").expect("writable");
    report("two.json", "out", &["--format", "md"]);
    report("two.json", "fresh", &["--format", "md"]);
    let mut after = files(&folder.path().join("out"));
    assert_eq!(
        after.remove(Path::new("mine.txt")).as_deref(),
        Some(&b"mine"[..])
    );
    assert_eq!(after, files(&folder.path().join("fresh")));
    // A mark that names files elsewhere leads to none of them.
    let mark = folder
        .path()
        .join("out")
        .join(rooflens::bundle::REPORT_MARK);
    fs::write(
        mark,
        "../one.json\n/etc/hostname\nmine.txt/../../two.json\n",
    )
    .expect("writable");
    report("two.json", "out", &["--format", "json"]);
    assert!(folder.path().join("one.json").is_file() && folder.path().join("two.json").is_file());
}

#[test]
fn by_force_a_report_goes_among_other_files_and_leaves_them() {
    let folder = prepared();
    fs::create_dir(folder.path().join("out")).expect("writable");
    fs::write(folder.path().join("out/mine.txt"), "mine").expect("writable");
    let args = ["report", "one.json", "-o", "out", "--format", "csv"];
    assert_eq!(rooflens(folder.path(), &args).status.code(), Some(2));
    assert_eq!(files(&folder.path().join("out")).len(), 1);
    assert!(
        rooflens(folder.path(), &[&args[..], &["--force"]].concat())
            .status
            .success()
    );
    let after = files(&folder.path().join("out"));
    assert_eq!(after[Path::new("mine.txt")], b"mine");
    assert!(
        after.contains_key(Path::new("kernels.csv")),
        "{:?}",
        after.keys()
    );
}

/// A disk that takes no more than a few kilobytes of a file is a full one.
#[test]
#[cfg(unix)]
fn on_a_full_disk_the_former_output_stays() {
    let folder = prepared();
    fs::create_dir(folder.path().join("run")).expect("writable");
    fs::copy(
        folder.path().join("one.json"),
        folder.path().join("run/trace.json"),
    )
    .expect("a copy");
    let noise: Vec<u8> = (0..60_000_u64)
        .map(|at| {
            let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed >> 40) as u8
        })
        .collect();
    fs::write(folder.path().join("run/noise.bin"), noise).expect("writable");
    for args in [
        &["report", "one.json", "-o", "out"][..],
        &["report", "one.json", "-o", "out.html"],
        &["report", "one.json", "-o", "new/out.html"],
        &["report", "one.json", "-o", "out.md", "-o", "out.json"],
        &["pack", "run", "--keep-environment", "-o", "run.tar.zst"],
    ] {
        if !args.contains(&"new/out.html") {
            let output = rooflens(folder.path(), args);
            assert!(output.status.success(), "{args:?}: {}", said(&output));
        }
        let before = files(folder.path());
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_rooflens"))
            .args(args)
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        assert_eq!(output.status.code(), Some(4), "{args:?}: {}", said(&output));
        assert!(
            said(&output).contains("cannot write"),
            "{args:?}: {}",
            said(&output)
        );
        let after = files(folder.path());
        let differing: Vec<_> = before.keys().chain(after.keys()).collect();
        let differing: Vec<_> = differing
            .into_iter()
            .filter(|path| before.get(*path) != after.get(*path))
            .collect();
        assert!(differing.is_empty(), "{args:?}: {differing:?}");
        assert!(!folder.path().join("new").join("out.html").exists());
    }
}

#[test]
#[cfg(unix)]
fn a_link_stays_a_link_and_a_device_a_device() {
    let folder = prepared();
    let link = folder.path().join("link.json");
    fs::write(folder.path().join("real.json"), "old").expect("writable");
    std::os::unix::fs::symlink("real.json", &link).expect("writable");
    assert!(
        rooflens(folder.path(), &["report", "one.json", "-o", "link.json"])
            .status
            .success()
    );
    assert!(link.is_symlink());
    assert!(
        fs::read(folder.path().join("real.json"))
            .expect("readable")
            .starts_with(b"{")
    );
}

#[test]
fn what_was_done_with_errors_is_1() {
    let folder = prepared();
    let bundle = folder.path().join("broken");
    fs::create_dir_all(bundle.join("torch")).expect("writable");
    fs::copy(
        folder.path().join("one.json"),
        bundle.join("torch/trace.json"),
    )
    .expect("a copy");
    fs::write(bundle.join("manifest.json"), "{").expect("writable");
    // One launch with the FLOPs of 10 s of an H200.
    let impossible = include_str!("data/one_kernel.json").replace(
        "[[64,64],[64,64]]",
        r#"[[131072,131072],[131072,65536]],"Input type":["c10::BFloat16","c10::BFloat16"]"#,
    );
    fs::write(folder.path().join("impossible.json"), impossible).expect("writable");
    for (args, words) in [
        (
            &["report", "broken", "-o", "x.md"][..],
            "the files are read without it",
        ),
        (&["inspect", "broken"], "error"),
        (&["metrics", "broken"], "the files are read without it"),
        (&["kernels", "broken"], "the files are read without it"),
        (
            &["report", "impossible.json", "-o", "y.md"],
            "of its stage time",
        ),
    ] {
        let output = rooflens(folder.path(), args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{args:?}: {}", said(&output));
    }
    assert!(folder.path().join("x.md").is_file() && folder.path().join("y.md").is_file());
}

#[test]
fn parts_of_one_run_are_merged_if_asked_for() {
    let folder = prepared();
    for name in ["a", "b"] {
        let run = folder.path().join("runs").join(name);
        fs::create_dir_all(&run).expect("writable");
        fs::copy(folder.path().join("one.json"), run.join("trace.json")).expect("a copy");
        let output = rooflens(folder.path(), &["pack", &format!("runs/{name}")]);
        assert!(output.status.success(), "{}", said(&output));
        fs::remove_dir_all(&run).expect("writable");
        let archive = format!("runs/{name}.tar.zst");
        let unpacked = format!("runs/{name}");
        let output = rooflens(folder.path(), &["unpack", &archive, "-o", &unpacked]);
        assert!(output.status.success(), "{}", said(&output));
        fs::remove_file(folder.path().join(archive)).expect("writable");
    }
    let refused = rooflens(folder.path(), &["inspect", "runs"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let merged = rooflens(folder.path(), &["inspect", "runs", "--merge"]);
    let shown = String::from_utf8_lossy(&merged.stdout).into_owned();
    assert!(
        merged.status.success() && shown.contains("a/trace.json"),
        "{shown}"
    );
    assert!(shown.contains("b/trace.json"), "{shown}");
}

/// By a script over the CSV: 52 launches, 2 072.608 µs, of which the backward attention takes 7.3106 %.
#[test]
fn a_report_of_counters_alone_consists_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = "fixtures/h200-vit-train/ncu/kernels.raw.csv.zst";
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join(input);
    let input = input.to_str().expect("a path");
    let output = rooflens(
        folder.path(),
        &["report", input, "-o", "-", "--format", "md"],
    );
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    for figure in ["52", "2.07 ms", "`cuDNN sdpa bwd 64x64x64`", "7.31 %"] {
        assert!(page.contains(figure), "{figure}: {page}");
    }
    for section in ["## Roofline", "## Profiled kernels", "## Kernel details"] {
        assert!(page.contains(section), "{section}");
    }
    assert!(!page.contains("In the appendix"));
}
