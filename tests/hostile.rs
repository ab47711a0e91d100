//! Small files whose cost once was out of proportion, made by `tests/hostile.py`: each is read, or refused, at a cost that
//! goes with its size.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Seconds and bytes of memory that any input may take, and each of its bytes.
const SECONDS: (f64, f64) = (1.0, 2e-6);
const MEMORY: (f64, f64) = (200e6, 40.0);

/// A loaded machine is slower. Times of a build without optimizations say nothing, and some inputs take it minutes.
const SLOWER: f64 = if cfg!(debug_assertions) {
    f64::INFINITY
} else {
    3.0
};
const LONG: [&str; 4] = ["archive", "crossing", "deep", "recordings"];

fn size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).unwrap().len();
    };
    entries.map(|entry| size(&entry.unwrap().path())).sum()
}

/// Exit code, seconds of CPU time and greatest memory of a report.
fn cost(input: &Path, output: &Path) -> (Option<i32>, f64, f64) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("rooflens"))
        .args(["--quiet", "report"])
        .args([input, Path::new("-o"), output])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = format!("/proc/{}", child.id());
    let file = |name: &str| fs::read_to_string(format!("{process}/{name}"));
    let (mut most, mut seconds) = (0.0_f64, 0.0_f64);
    loop {
        // Fields 14 and 15, in hundredths of a second; the second one is the name, in parentheses.
        let stat = file("stat").unwrap_or_default();
        let fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let ticks = fields
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<f64>().ok());
        seconds = seconds.max(ticks.sum::<f64>() / 100.0);
        let status = file("status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(kilobytes.unwrap_or(0.0) * 1024.0);
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code(), seconds, most);
        }
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn hostile_inputs_cost_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile.py");
    let made = Command::new("python3")
        .arg(script)
        .arg(folder.path())
        .status();
    let Ok(made) = made else {
        return eprintln!("python3 is missing: skipped");
    };
    assert!(made.success());
    let mut inputs: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 30, "{inputs:?}");
    let output = tempfile::tempdir().unwrap();
    let mut over = Vec::new();
    for input in inputs {
        let bytes = size(&input) as f64;
        let name = input.file_name().unwrap().to_string_lossy().into_owned();
        if cfg!(debug_assertions) && LONG.iter().any(|long| name.starts_with(long)) {
            continue;
        }
        let (code, seconds, memory) = cost(&input, &output.path().join("report.md"));
        let seen = format!(
            "{name}: {bytes} bytes, {seconds:.2} s, {:.0} MB, {code:?}",
            memory / 1e6
        );
        eprintln!("{seen}");
        let is_slow = seconds > SLOWER * (SECONDS.0 + SECONDS.1 * bytes);
        if !matches!(code, Some(0 | 1 | 3)) || is_slow || memory > MEMORY.0 + MEMORY.1 * bytes {
            over.push(seen);
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
