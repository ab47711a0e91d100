//! Room, other profilers, and limits of the container.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Check, Machine, Status};
use crate::snapshot::runner::Runner;

const GIB: u64 = 1 << 30;

/// Room that a capture needs at least, and that it should have: a timeline of minutes takes gigabytes.
const DISK: (u64, u64) = (2 * GIB, 10 * GIB);

/// Shared memory that data loaders and NCCL do with, and memory that profilers need next to the workload.
const SHARED: u64 = GIB;
const MEMORY: u64 = 4 * GIB;

/// Programs that hold the counters of GPUs, as the kernel names processes: at most 15 letters.
const PROFILERS: [&str; 5] = ["nsys", "ncu", "nv-nsight-cu-cl", "nvprof", "QuadDDaemon"];
const MONITORS: [&str; 3] = ["nv-hostengine", "dcgm-exporter", "dcgmproftester"];

pub(super) fn checks<R: Runner>(machine: &Machine<'_, R>) -> Vec<Check> {
    vec![
        disk(machine),
        mig(machine),
        other_profilers(machine),
        shared_memory(machine),
        memory(machine),
    ]
}

/// Free bytes for users, and the size of the file system.
fn room(path: &Path) -> Option<(u64, u64)> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeros is a valid value of this struct of numbers.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero, and the call writes to the struct given.
    let code = unsafe { libc::statvfs(path.as_ptr(), &raw mut found) };
    (code == 0).then_some((
        found.f_bavail * found.f_frsize,
        found.f_blocks * found.f_frsize,
    ))
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / GIB as f64)
}

fn disk<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "disk";
    let folder = machine.arguments.output.as_path();
    let existing = folder
        .ancestors()
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("."));
    let Some((free, _)) = room(existing) else {
        return Check::new(
            id,
            Status::Unknown,
            format!("{} cannot be asked", existing.display()),
        );
    };
    let finding = format!("{} free in {}", gib(free), existing.display());
    disk_status(id, free, finding)
}

fn disk_status(id: &'static str, free: u64, finding: String) -> Check {
    let fix = "rooflens-capture all -o /path/on/a/larger/disk ...";
    match free {
        free if free < DISK.0 => Check::new(id, Status::Problem, finding).fix(fix),
        free if free < DISK.1 => Check::new(id, Status::Warning, finding).fix(fix),
        _ => Check::new(id, Status::Ok, finding),
    }
}

/// Instances of a GPU share clocks and power, and some counters cannot be read in them.
fn mig<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "mig";
    let query = [
        "--query-gpu=index,mig.mode.current",
        "--format=csv,noheader",
    ];
    let said = match machine.runner.output("nvidia-smi", &query) {
        Ok(said) => said,
        Err(reason) => return Check::new(id, Status::Unknown, reason),
    };
    let enabled = said.lines().filter_map(|line| line.split_once(','));
    let enabled = enabled
        .filter(|(_, mode)| mode.trim() == "Enabled")
        .map(|(gpu, _)| gpu.trim());
    match enabled.collect::<Vec<_>>().join(",") {
        gpus if gpus.is_empty() => Check::new(id, Status::Ok, "no GPU is divided"),
        gpus => {
            let finding = format!(
                "GPU {gpus} is divided: power, clocks and peaks are those of the whole GPU"
            );
            Check::new(id, Status::Warning, finding)
                .fix(format!("sudo nvidia-smi -i {gpus} -mig 0"))
        }
    }
}

/// Two programs cannot read the same counters.
fn other_profilers<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "other-profilers";
    let (mut profilers, mut monitors) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(machine.root.join("proc"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let name = machine
            .read(&format!("proc/{pid}/comm"))
            .unwrap_or_default();
        let name = name.trim();
        if PROFILERS.contains(&name) {
            profilers.push((pid, name.to_owned()));
        } else if MONITORS
            .iter()
            .any(|monitor| name.starts_with(&monitor[..monitor.len().min(15)]))
        {
            monitors.push(name.to_owned());
        }
    }
    profilers.sort();
    monitors.sort();
    monitors.dedup();
    if !profilers.is_empty() {
        let names: Vec<&str> = profilers.iter().map(|(_, name)| name.as_str()).collect();
        let pids: Vec<&str> = profilers.iter().map(|(pid, _)| pid.as_str()).collect();
        let finding = format!(
            "running: {}: one program at a time can profile",
            names.join(", ")
        );
        return Check::new(id, Status::Problem, finding).fix(format!("kill {}", pids.join(" ")));
    }
    if !monitors.is_empty() {
        let finding = format!(
            "running: {}: it may hold the counters that ncu reads",
            monitors.join(", ")
        );
        return Check::new(id, Status::Warning, finding).fix("dcgmi profile --pause");
    }
    Check::new(id, Status::Ok, "none runs")
}

fn shared_memory<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "shared-memory";
    let Some((_, size)) = room(&machine.root.join("dev/shm")) else {
        return Check::new(id, Status::Unknown, "/dev/shm is not there");
    };
    shared_status(id, size, machine.is_container())
}

fn shared_status(id: &'static str, size: u64, is_container: bool) -> Check {
    let finding = format!("/dev/shm has {}", gib(size));
    if size >= SHARED {
        return Check::new(id, Status::Ok, finding);
    }
    let finding = format!("{finding}: data loaders and NCCL may fail");
    Check::new(id, Status::Warning, finding).fix(match is_container {
        true => "docker run --shm-size=16g ...",
        false => "sudo mount -o remount,size=16g /dev/shm",
    })
}

/// Memory that the container may still take.
fn memory<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "memory";
    let of_group = |name: &str| {
        let text = machine.read(&format!("sys/fs/cgroup/{name}"))?;
        text.trim().parse::<u64>().ok()
    };
    let limit = of_group("memory.max").or_else(|| of_group("memory/memory.limit_in_bytes"));
    let used = of_group("memory.current").or_else(|| of_group("memory/memory.usage_in_bytes"));
    // Without a limit the first version of control groups says the largest number of pages.
    match (limit.filter(|limit| *limit < 1 << 60), used) {
        (Some(limit), used) => {
            let left = limit.saturating_sub(used.unwrap_or(0));
            let finding = format!("{} of {} are left to the container", gib(left), gib(limit));
            match left < MEMORY {
                true => Check::new(id, Status::Warning, finding).fix("docker run --memory=0 ..."),
                false => Check::new(id, Status::Ok, finding),
            }
        }
        (None, _) => Check::new(id, Status::Ok, "no limit of a container"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_judged_by_what_a_capture_needs() {
        let status = |free| disk_status("disk", free, String::new()).status;
        assert_eq!(status(GIB), Status::Problem);
        assert_eq!(status(5 * GIB), Status::Warning);
        assert_eq!(status(50 * GIB), Status::Ok);
        // Docker's default is 64 MiB.
        let shared = shared_status("shared-memory", 64 << 20, true);
        assert_eq!(
            shared.finding,
            "/dev/shm has 0.1 GiB: data loaders and NCCL may fail"
        );
        assert_eq!(shared.fix.as_deref(), Some("docker run --shm-size=16g ..."));
        assert!(room(Path::new("/")).is_some_and(|(free, size)| free <= size && size > 0));
    }
}
