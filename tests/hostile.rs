//! Small files whose cost once was out of proportion, made by `tests/hostile.py`: each command reads or refuses each of them
//! at a cost that goes with its size.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::Duration;

use super::support::cpu;

/// Seconds of CPU time and bytes of memory that any input may take, and each of its bytes.
const SECONDS: (f64, f64) = (1.0, 1e-6);
const MEMORY: (f64, f64) = (200e6, 12.0);

/// A loaded machine is slower. Times of a build without optimizations say nothing, and some inputs take it minutes.
const SLOWER: f64 = if cfg!(debug_assertions) {
    f64::INFINITY
} else {
    3.0
};
const LONG: [&str; 4] = ["archive", "crossing", "deep", "recordings"];

/// Inputs of 10 MB, which show what a byte costs: a report is enough.
const LARGE: &str = "large-";

/// Traces that differ in what they have many of. Of these, commands that compute what another one computes are not tried.
const VARIANT: &str = "many-";
const SHARING: [&str; 8] = [
    "gate",
    "experiments",
    "predict",
    "inspect",
    "metrics",
    "kernels",
    "query",
    "unpack",
];

/// How each command takes an input (`%`), with a folder for what it writes (`@`).
const COMMANDS: [(&str, &[&str]); 16] = [
    ("report", &["%", "-o", "@/report.md"]),
    ("compare", &["%", "%", "-o", "@/comparison.md"]),
    (
        "gate",
        &["%", "--baseline", "%", "--max", "stage_time@step:+3%"],
    ),
    ("baseline", &["add", "%", "--store", "@/baselines"]),
    ("experiments", &["%", "-o", "@/experiments.md"]),
    ("predict", &["--from", "%"]),
    ("serve-report", &["%", "-o", "@/load.md"]),
    ("bench-report", &["%", "-o", "@/bench.md"]),
    ("inspect", &["%"]),
    ("metrics", &["%"]),
    ("kernels", &["%"]),
    ("query", &["%", "select count(*) from launches"]),
    ("validate", &["%"]),
    ("pack", &["%", "-o", "@/packed.tar.zst"]),
    ("unpack", &["%", "-o", "@/unpacked"]),
    ("lake", &["add", "@/lake", "%"]),
];

/// Commands that take no capture.
const OTHERS: [&str; 5] = ["templates", "gpus", "completions", "man", "help"];

fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("rooflens"))
}

fn size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).unwrap().len();
    };
    entries.map(|entry| size(&entry.unwrap().path())).sum()
}

/// Exit code, seconds of CPU time and greatest memory of a command.
fn cost(command: &mut Command) -> (Option<i32>, f64, f64) {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = child.id().to_string();
    let (mut most, mut seconds) = (0.0_f64, 0.0_f64);
    loop {
        seconds = seconds.max(cpu::time(&process).as_secs_f64());
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(kilobytes.unwrap_or(0.0) * 1024.0);
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code(), seconds, most);
        }
        sleep(Duration::from_millis(5));
    }
}

/// A command on an input: what it cost, if that is too much.
fn excess(input: &Path, (name, arguments): (&str, &[&str])) -> Option<String> {
    let output = tempfile::tempdir().unwrap();
    let folder = output.path().to_str().unwrap();
    let mut command = program();
    command.args(["--quiet", name]);
    for argument in arguments {
        match *argument {
            "%" => command.arg(input),
            other => command.arg(other.replace('@', folder)),
        };
    }
    let times_read = arguments
        .iter()
        .filter(|argument| **argument == "%")
        .count();
    let bytes = (size(input) * times_read as u64) as f64;
    let (code, seconds, memory) = cost(&mut command);
    let file = input.file_name().unwrap().to_string_lossy();
    let seen = format!(
        "{name} {file}: {bytes} bytes, {seconds:.2} s, {:.0} MB, {code:?}",
        memory / 1e6
    );
    eprintln!("{seen}");
    let is_slow = seconds > SLOWER * (SECONDS.0 + SECONDS.1 * bytes);
    let is_large = memory > MEMORY.0 + MEMORY.1 * bytes;
    (!matches!(code, Some(0..=5)) || is_slow || is_large).then_some(seen)
}

/// Names of all commands, as the program lists them.
fn listed_commands() -> Vec<String> {
    let help = program().arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let list = list.lines().take_while(|line| !line.is_empty());
    // What a command does may go on in a line that is indented further.
    let entries = list
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '));
    let names = entries.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_command_is_tried_on_hostile_inputs_or_takes_none() {
    let known = COMMANDS.iter().map(|(name, _)| *name).chain(OTHERS);
    let mut known: Vec<&str> = known.collect();
    let mut listed = listed_commands();
    known.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, known);
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
    let mut inputs: Vec<PathBuf> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 40, "{inputs:?}");
    let mut jobs = Vec::new();
    for input in &inputs {
        let name = input.file_name().unwrap().to_string_lossy();
        if cfg!(debug_assertions) && LONG.iter().any(|long| name.starts_with(long)) {
            continue;
        }
        let commands = match name.starts_with(LARGE) {
            true => &COMMANDS[..1],
            false => &COMMANDS[..],
        };
        let is_variant = name.starts_with(VARIANT);
        let commands = commands
            .iter()
            .filter(|(command, _)| !(is_variant && SHARING.contains(command)));
        jobs.extend(commands.map(|command| (input, *command)));
    }
    let (jobs, over) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let next = || jobs.lock().unwrap().pop();
    let work = || {
        while let Some((input, command)) = next() {
            over.lock().unwrap().extend(excess(input, command));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let over = over.into_inner().unwrap();
    assert!(over.is_empty(), "{over:#?}");
}
