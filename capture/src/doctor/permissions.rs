//! What this process may do.

use super::{Check, Machine, Status};
use crate::snapshot::runner::Runner;

/// Bits of `CapEff`.
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;

pub(super) fn checks<R: Runner>(machine: &Machine<'_, R>) -> Vec<Check> {
    vec![
        counters(machine),
        perf_events(machine),
        ptrace(machine),
        seccomp(machine),
    ]
}

fn has_capability<R: Runner>(machine: &Machine<'_, R>, bit: u32) -> bool {
    let effective = machine.field("proc/self/status", "CapEff");
    let effective = effective.and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    effective.is_some_and(|set| set >> bit & 1 == 1)
}

/// ncu and `--gpu-metrics` of nsys read counters, which the driver may keep for administrators.
fn counters<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "gpu-counters";
    let params = "proc/driver/nvidia/params";
    let names = [
        "RmProfilingAdminOnly",
        "NVreg_RestrictProfilingToAdminUsers",
    ];
    let restricted = names.iter().find_map(|name| machine.field(params, name));
    match restricted.as_deref() {
        None => Check::new(
            id,
            Status::Unknown,
            format!("/{params} does not say who may read them"),
        ),
        Some("0") => Check::new(id, Status::Ok, "all users may read them"),
        Some(_) if has_capability(machine, SYS_ADMIN) => Check::new(
            id,
            Status::Ok,
            "administrators alone may read them, and this process is one",
        ),
        Some(_) => {
            let finding =
                "administrators alone may read them (ERR_NVGPUCTRPERM): the ncu pass would fail";
            let fix = match machine.is_container() {
                true => "docker run --cap-add=SYS_ADMIN ...",
                false => {
                    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | \
                     sudo tee /etc/modprobe.d/nvidia-profiling.conf && sudo update-initramfs -u && sudo reboot"
                }
            };
            Check::new(id, Status::Problem, finding).fix(fix)
        }
    }
}

/// `--scheduling` of nsys needs perf events of the kernel.
fn perf_events<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "perf-events";
    match machine.number("proc/sys/kernel/perf_event_paranoid") {
        None => Check::new(id, Status::Unknown, "perf_event_paranoid is not there"),
        Some(level)
            if level <= 2
                || has_capability(machine, SYS_ADMIN)
                || has_capability(machine, PERFMON) =>
        {
            Check::new(id, Status::Ok, format!("perf_event_paranoid is {level}"))
        }
        Some(level) => {
            let finding =
                format!("perf_event_paranoid is {level}: nsys cannot sample CPUs (--scheduling)");
            Check::new(id, Status::Warning, finding)
                .fix("sudo sysctl -w kernel.perf_event_paranoid=2")
        }
    }
}

/// Profilers follow processes that they did not start themselves by ptrace.
fn ptrace<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "ptrace";
    match machine.number("proc/sys/kernel/yama/ptrace_scope") {
        None => Check::new(id, Status::Ok, "ptrace is not restricted by Yama"),
        Some(scope) if scope <= 1 || scope == 2 && has_capability(machine, SYS_PTRACE) => {
            Check::new(id, Status::Ok, format!("ptrace_scope is {scope}"))
        }
        Some(3) => {
            let finding =
                "ptrace_scope is 3 until the next boot: profilers cannot attach to processes";
            let fix = "echo kernel.yama.ptrace_scope=1 | sudo tee /etc/sysctl.d/10-ptrace.conf && sudo reboot";
            Check::new(id, Status::Warning, finding).fix(fix)
        }
        Some(scope) => {
            let finding = format!("ptrace_scope is {scope}: profilers cannot attach to processes");
            Check::new(id, Status::Warning, finding)
                .fix("sudo sysctl -w kernel.yama.ptrace_scope=1")
        }
    }
}

/// The default filter of container runtimes keeps `perf_event_open` away.
fn seccomp<R: Runner>(machine: &Machine<'_, R>) -> Check {
    let id = "seccomp";
    let mode = machine.field("proc/self/status", "Seccomp");
    match mode.as_deref() {
        Some("2") if machine.is_container() && !has_capability(machine, SYS_ADMIN) => {
            let finding = "the container filters system calls: nsys may be unable to sample CPUs";
            let fix = "docker run --security-opt seccomp=unconfined ...";
            Check::new(id, Status::Warning, finding).fix(fix)
        }
        Some(_) => Check::new(id, Status::Ok, "system calls of profilers are not filtered"),
        None => Check::new(id, Status::Unknown, "/proc/self/status does not say"),
    }
}
