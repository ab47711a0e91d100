//! Driver, profilers, CUDA and PyTorch: whether they are there and fit each other.

use std::fs;
use std::path::PathBuf;

use super::{Check, Machine, Status};
use crate::snapshot::runner::Runner;

/// The oldest driver for the major version of CUDA (CUDA release notes, minor version compatibility).
const DRIVERS: [(u32, u32); 3] = [(11, 450), (12, 525), (13, 580)];

/// The release of the profilers that came with each branch of the driver (of the CUDA toolkit of that time).
const RELEASES: [(u32, (u32, u32)); 9] = [
    (520, (2022, 3)),
    (525, (2022, 4)),
    (535, (2023, 2)),
    (545, (2023, 3)),
    (550, (2024, 1)),
    (560, (2024, 3)),
    (570, (2025, 1)),
    (575, (2025, 2)),
    (580, (2025, 3)),
];

/// Where toolkits put the profilers, below the root; `*` is any folder.
const PLACES: [(&str, [&str; 3]); 2] = [
    (
        "nsys",
        [
            "opt/nvidia/nsight-systems/*/bin",
            "usr/local/cuda/bin",
            "opt/nvidia/nsight-compute/*/host/target-linux-x64",
        ],
    ),
    (
        "ncu",
        [
            "opt/nvidia/nsight-compute/*",
            "usr/local/cuda/bin",
            "usr/local/NVIDIA-Nsight-Compute",
        ],
    ),
];

/// Prints the version of PyTorch and that of its CUDA without importing it.
const TORCH: &str = "import importlib.util as u, os, runpy; \
v = runpy.run_path(os.path.join(os.path.dirname(u.find_spec('torch').origin), 'version.py')); \
print(v['__version__'], v.get('cuda'))";

pub(super) fn checks<R: Runner>(machine: &Machine<'_, R>) -> Vec<Check> {
    let driver = driver(machine);
    let profilers = &machine.arguments.profilers;
    vec![
        driver_check(machine, driver.as_deref()),
        profiler(machine, "nsys", &profilers.nsys, driver.as_deref()),
        profiler(machine, "ncu", &profilers.ncu, driver.as_deref()),
        torch(machine, driver.as_deref()),
    ]
}

/// The version of the kernel module, such as `580.159.04`.
fn driver<R: Runner>(machine: &Machine<'_, R>) -> Option<String> {
    let text = machine.read("proc/driver/nvidia/version")?;
    let line = text.lines().find(|line| line.contains("NVRM version"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// The leading numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn driver_check<R: Runner>(machine: &Machine<'_, R>, driver: Option<&str>) -> Check {
    match driver {
        Some(version) => Check::new("driver", Status::Ok, version),
        None => {
            let fix = match machine.is_container() {
                true => "docker run --gpus all ...",
                false => "sudo apt-get install nvidia-driver-580 && sudo reboot",
            };
            let finding = "/proc/driver/nvidia/version is not there: no pass would see a GPU";
            Check::new("driver", Status::Problem, finding).fix(fix)
        }
    }
}

fn profiler<R: Runner>(
    machine: &Machine<'_, R>,
    id: &'static str,
    program: &str,
    driver: Option<&str>,
) -> Check {
    let text = match machine.runner.output(program, &["--version"]) {
        Ok(text) => text,
        Err(reason) => return missing(machine, id, &reason),
    };
    // The year tells the version from a copyright.
    let version = text
        .split_whitespace()
        .filter(|word| word.matches('.').count() >= 2);
    let Some(version) = version
        .map(|word| word.split('-').next().unwrap_or(word))
        .next()
    else {
        return Check::new(
            id,
            Status::Unknown,
            format!("{program} --version does not say"),
        );
    };
    let branch = driver.map(|driver| numbers(driver).0).unwrap_or(0);
    let newest = RELEASES.iter().rev().find(|(driver, _)| *driver <= branch);
    match newest {
        Some((driver, (year, minor))) if numbers(version) < (*year, *minor) => {
            let finding =
                format!("{version} is older than driver {driver}, which came with {year}.{minor}");
            Check::new(id, Status::Warning, finding).fix(install(id))
        }
        _ => Check::new(id, Status::Ok, version),
    }
}

fn missing<R: Runner>(machine: &Machine<'_, R>, id: &'static str, reason: &str) -> Check {
    let found = PLACES
        .iter()
        .filter(|(name, _)| *name == id)
        .flat_map(|(_, places)| places);
    let mut found: Vec<PathBuf> = found.flat_map(|place| below(machine, place, id)).collect();
    found.sort();
    // Nothing is newer than the last one: names hold versions.
    match found.last() {
        Some(path) => {
            let finding = format!("{reason}, but it is in {}", path.display());
            let fix = format!("export ROOFLENS_{}={}", id.to_uppercase(), path.display());
            Check::new(id, Status::Problem, finding).fix(fix)
        }
        None => {
            let finding = format!("{reason}: the {id} pass is skipped");
            Check::new(id, Status::Problem, finding).fix(install(id))
        }
    }
}

/// The programs of this name in a place.
fn below<R: Runner>(machine: &Machine<'_, R>, place: &str, name: &str) -> Vec<PathBuf> {
    let whole = |folder: &str| {
        let path = machine.root.join(folder).join(name);
        path.is_file().then_some(path)
    };
    let Some((before, after)) = place.split_once('*') else {
        return whole(place).into_iter().collect();
    };
    let entries = fs::read_dir(machine.root.join(before))
        .into_iter()
        .flatten()
        .flatten();
    let folders =
        entries.map(|entry| format!("{before}{}{after}", entry.file_name().to_string_lossy()));
    folders.filter_map(|folder| whole(&folder)).collect()
}

fn install(id: &str) -> String {
    let package = if id == "nsys" { "systems" } else { "compute" };
    format!("sudo apt-get install cuda-nsight-{package}-13-0")
}

/// The CUDA that PyTorch was built with needs a driver of its time.
fn torch<R: Runner>(machine: &Machine<'_, R>, driver: Option<&str>) -> Check {
    let id = "torch";
    let python = machine.arguments.python.as_str();
    let said = match machine.runner.output(python, &["-c", TORCH]) {
        Ok(said) => said,
        Err(reason) => return Check::new(id, Status::Unknown, format!("no PyTorch: {reason}")),
    };
    let mut words = said.split_whitespace();
    let (version, cuda) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or("None"),
    );
    if cuda == "None" {
        let finding = format!("{version} is built without CUDA: the workload does not use the GPU");
        let fix = format!("{python} -m pip install --force-reinstall torch");
        return Check::new(id, Status::Warning, finding).fix(fix);
    }
    let needed = DRIVERS
        .iter()
        .find(|(major, _)| *major == numbers(cuda).0)
        .map(|(_, driver)| *driver);
    match (needed, driver.map(|driver| numbers(driver).0)) {
        (Some(needed), Some(has)) if has < needed => {
            let finding =
                format!("{version} with CUDA {cuda} needs driver {needed}; there is {has}");
            let fix = format!("sudo apt-get install nvidia-driver-{needed} && sudo reboot");
            Check::new(id, Status::Problem, finding).fix(fix)
        }
        _ => Check::new(id, Status::Ok, format!("{version} with CUDA {cuda}")),
    }
}
