//! How a command ends that is not let to: by a signal, by a disk that is full, by a reader who has gone.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::programs::ONE_KERNEL;

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// A command that keeps its standard input, which does not end, in a folder below `place`; it has begun to.
fn waiting(place: &Path) -> Child {
    let before = names(place);
    let mut child = Command::new(env!("CARGO_BIN_EXE_rooflens"))
        .args(["inspect", "-"])
        .env("TMPDIR", place)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("rooflens runs");
    child
        .stdin
        .as_mut()
        .expect("a pipe")
        .write_all(b"[")
        .expect("it is read");
    let kept = || {
        let mut new = names(place)
            .into_iter()
            .filter(|name| !before.contains(name));
        // The lock, and what holds the input.
        new.any(|name| names(&place.join(name)).len() == 2)
    };
    while !kept() {
        assert_eq!(child.try_wait().expect("a state"), None);
        sleep(Duration::from_millis(5));
    }
    child
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_signal_leaves_nothing_of_what_was_unpacked() {
    let place = tempfile::tempdir().expect("a temporary folder");
    for (signal, number) in [("-TERM", 15), ("-INT", 2)] {
        let mut child = waiting(place.path());
        send(signal, &child);
        assert_eq!(child.wait().expect("it ends").signal(), Some(number));
        assert_eq!(names(place.path()), [""; 0], "{signal}");
    }
}

#[test]
fn what_a_killed_command_left_the_next_one_removes_and_nothing_else() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut killed = waiting(place.path());
    let left = names(place.path());
    let mut alive = waiting(place.path());
    let kept: Vec<String> = names(place.path())
        .into_iter()
        .filter(|name| !left.contains(name))
        .collect();
    send("-KILL", &killed);
    killed.wait().expect("it ends");
    // Folders that others call so, one of them with a link where a lock would be.
    let (foreign, linked) = (
        place.path().join("rooflens-a"),
        place.path().join("rooflens-b"),
    );
    fs::create_dir(&foreign).expect("writable");
    fs::create_dir(&linked).expect("writable");
    std::os::unix::fs::symlink("/dev/zero", linked.join("lock")).expect("a link");
    let next = Command::new(env!("CARGO_BIN_EXE_rooflens"))
        .arg("gpus")
        .env("TMPDIR", place.path())
        .stdout(Stdio::null())
        .status();
    assert!(next.expect("rooflens runs").success());
    let mut expected = [kept, vec!["rooflens-a".to_owned(), "rooflens-b".to_owned()]].concat();
    expected.sort();
    assert_eq!(names(place.path()), expected);
    drop(alive.stdin.take());
    alive.wait().expect("it ends");
}

#[test]
fn a_full_disk_leaves_the_former_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |line: &str| {
        // A limit on the size of files, in blocks of 512 bytes; its signal is ignored, so writing fails.
        let script = format!("trap '' XFSZ; ulimit -f 2; exec \"$0\" report \"$1\" {line}");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_rooflens"), ONE_KERNEL])
            .current_dir(folder.path())
            .output();
        output.expect("sh runs")
    };
    fs::write(folder.path().join("x.md"), "former").expect("writable");
    fs::create_dir(folder.path().join("x")).expect("writable");
    fs::write(folder.path().join("x/report.md"), "former").expect("writable");
    fs::write(folder.path().join("x/.rooflens-files"), "report.md\n").expect("writable");
    for line in [
        "-o x.md",
        "-o x --format md",
        "-o new.md",
        "-o new/folder --format json",
    ] {
        let output = run(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{line}: {said}");
        assert!(said.contains("cannot write"), "{line}: {said}");
    }
    for path in ["x.md", "x/report.md"] {
        assert_eq!(
            fs::read_to_string(folder.path().join(path)).expect("there"),
            "former"
        );
    }
    let left = [names(folder.path()), names(&folder.path().join("x"))];
    assert_eq!(left[1], [".rooflens-files", "report.md"]);
    assert!(!left[0].contains(&"new.md".to_owned()) && left[0].contains(&"x".to_owned()));
}

#[test]
fn of_outputs_one_that_is_full_is_an_error_and_a_reader_who_went_is_none() {
    let run = |stdout: Stdio| {
        Command::new(env!("CARGO_BIN_EXE_rooflens"))
            .args(["report", ONE_KERNEL, "-o", "-", "--format", "json"])
            .stdout(stdout)
            .stderr(Stdio::null())
            .spawn()
            .expect("rooflens runs")
    };
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    assert_eq!(run(full.into()).wait().expect("it ends").code(), Some(4));
    let mut child = run(Stdio::piped());
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// Bytes of the files below a folder by path; what lies aside does not count, and the list of files neither.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for name in names(&next) {
            let path = next.join(&name);
            if name.starts_with(".rooflens-") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), fs::read(path).expect("readable"));
            }
        }
    }
    files
}

/// `ROOFLENS_KILLS=200` kills so many.
#[test]
fn a_kill_leaves_the_old_report_the_new_one_or_a_mark() {
    let kills = std::env::var("ROOFLENS_KILLS").map_or(10, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let start = |language: &str| {
        Command::new(env!("CARGO_BIN_EXE_rooflens"))
            .args(["--quiet", "report", ONE_KERNEL, "--lang", language])
            .args(["--format", "md", "--format", "csv", "--format", "json"])
            .arg("-o")
            .arg(&out)
            .env("TMPDIR", folder.path())
            .spawn()
            .expect("rooflens runs")
    };
    let whole = |language: &str| {
        assert!(start(language).wait().expect("it ends").success());
        contents(&out)
    };
    let reports = [whole("en"), whole("zh")];
    let is_aside = |name: &String| name.starts_with(".rooflens-") && name != ".rooflens-files";
    for kill in 0..kills {
        let mut child = start(["en", "zh"][kill % 2]);
        // The files are being written aside; those of dead commands are gone by then.
        let old: Vec<String> = names(&out).into_iter().filter(is_aside).collect();
        while !names(&out)
            .iter()
            .any(|name| is_aside(name) && !old.contains(name))
        {
            if child.try_wait().expect("a state").is_some() {
                break;
            }
        }
        // From 0 to 12.7 ms, in an order without a period.
        sleep(Duration::from_micros((kill * 7919 % 128 * 100) as u64));
        // One that has ended is ended.
        let _ = child.kill();
        child.wait().expect("it ends");
        let left = contents(&out);
        let is_marked = left.contains_key(&out.join("INCOMPLETE.txt"));
        assert!(
            is_marked || reports.contains(&left),
            "kill {kill}: {:?}",
            left.keys()
        );
    }
    assert_eq!(whole("en"), reports[0]);
    // What was killed before it locked its folder wrote nothing into it.
    for aside in names(&out).iter().filter(|name| is_aside(name)) {
        let inside = names(&out.join(aside));
        assert!(inside.is_empty() || inside == ["new"], "{inside:?}");
    }
}

#[test]
fn memory_that_runs_out_is_an_unusable_input() {
    let fixture = crate::support::path("h200-llama-1b");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut refused, mut read) = (0, 0);
    // From too little for the tables to enough for the report.
    for megabytes in [150, 200, 250, 300, 350, 400, 500, 600, 800, 4000] {
        let limited = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1024);
        let output = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_rooflens")])
            .args(["--quiet", "--threads", "2", "report"])
            .arg(&fixture)
            .arg("-o")
            .arg(folder.path().join("report.md"))
            .output()
            .expect("sh runs");
        match output.status.code() {
            Some(0) => read += 1,
            // Where no artifact can be decompressed, each is an error of its own.
            Some(1 | 3) => {
                refused += 1;
                let message = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(message.contains("memory"), "{megabytes} MB: {message}");
            }
            other => panic!("{megabytes} MB: {other:?}, {:?}", output.status.signal()),
        }
    }
    assert!(refused > 0 && read > 0, "{refused} refused, {read} read");
}
