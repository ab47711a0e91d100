use std::fs;
use std::path::Path;

use clap::Parser as _;

use super::*;
use crate::snapshot::runner::Fake;

const VERSION: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Sep  2 2026\n\
GCC version:  gcc version 13.3.0\n";
const NCU: &str = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation\n\
Version 2025.3.1.0 (build 36398880) (public-release)\n";
const NSYS: &str = "NVIDIA Nsight Systems version 2025.3.2.367-253236111111v0\n";

/// A machine on which all is well: root in no container, on a driver that fits.
fn good(root: &Path) -> Fake {
    write(root, "proc/driver/nvidia/version", VERSION);
    write(
        root,
        "proc/driver/nvidia/params",
        "ResmanDebugLevel: 1\nRmProfilingAdminOnly: 1\n",
    );
    write(
        root,
        "proc/self/status",
        "Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n",
    );
    write(root, "proc/sys/kernel/perf_event_paranoid", "2\n");
    write(root, "proc/sys/kernel/yama/ptrace_scope", "1\n");
    write(root, "sys/fs/cgroup/memory.max", "max\n");
    write(root, "dev/shm/.keep", "");
    Fake::new()
        .with("nsys", Ok(NSYS))
        .with("ncu", Ok(NCU))
        .with("nvidia-smi", Ok("0, Disabled\n1, [N/A]\n"))
        .with("python3", Ok("2.11.0+cu130 13.0\n"))
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("has one")).expect("writable");
    fs::write(path, text).expect("writable");
}

fn checks(root: &Path, fake: &Fake) -> Vec<Check> {
    let command = [
        "rooflens-capture",
        "doctor",
        "--root",
        root.to_str().expect("text"),
    ];
    let crate::args::Command::Doctor(arguments) =
        crate::args::Arguments::parse_from(command).command
    else {
        panic!("another command")
    };
    Machine {
        root,
        runner: fake,
        arguments: &arguments,
    }
    .checks()
}

/// The status and the remedy of one check after a change of the good machine.
fn after(id: &str, change: impl Fn(&Path, Fake) -> Fake) -> (Status, String) {
    let root = tempfile::tempdir().expect("there is room");
    let fake = change(root.path(), good(root.path()));
    let found = checks(root.path(), &fake)
        .into_iter()
        .find(|check| check.id == id);
    let check = found.expect("is there");
    (
        check.status,
        check
            .fix
            .unwrap_or_default()
            .replace(root.path().to_str().expect("text"), ""),
    )
}

#[test]
fn a_good_machine_has_no_problems_and_no_remedies() {
    let root = tempfile::tempdir().expect("there is room");
    let found = checks(root.path(), &good(root.path()));
    for check in found
        .iter()
        .filter(|check| !["disk", "shared-memory"].contains(&check.id))
    {
        assert_eq!(
            (check.status, &check.fix),
            (Status::Ok, &None),
            "{}: {}",
            check.id,
            check.finding
        );
    }
    let finding = |id| {
        found
            .iter()
            .find(|check| check.id == id)
            .map(|check| check.finding.as_str())
    };
    assert_eq!(finding("driver"), Some("580.159.04"));
    assert_eq!(
        (finding("ncu"), finding("nsys")),
        (Some("2025.3.1.0"), Some("2025.3.2.367"))
    );
    assert_eq!(finding("torch"), Some("2.11.0+cu130 with CUDA 13.0"));
    let ids: std::collections::BTreeSet<&str> = found.iter().map(|check| check.id).collect();
    assert_eq!(ids.len(), found.len(), "a name occurs once");
}

#[test]
fn counters_need_the_permission_or_the_capability() {
    // All capabilities but CAP_SYS_ADMIN (bit 21) and CAP_PERFMON (bit 38).
    let user = |root: &Path| {
        write(
            root,
            "proc/self/status",
            "CapEff:\t000001bfffdfffff\nSeccomp:\t2\n",
        );
    };
    let (status, fix) = after("gpu-counters", |root, fake| {
        user(root);
        fake
    });
    assert_eq!(status, Status::Problem);
    assert!(
        fix.contains("NVreg_RestrictProfilingToAdminUsers=0"),
        "{fix}"
    );
    let inside = |root: &Path, fake| {
        user(root);
        write(root, ".dockerenv", "");
        fake
    };
    let docker = "docker run --cap-add=SYS_ADMIN ...".to_owned();
    assert_eq!(after("gpu-counters", inside), (Status::Problem, docker));
    assert_eq!(after("seccomp", inside).0, Status::Warning);
    let (status, _) = after("gpu-counters", |root, fake| {
        user(root);
        write(
            root,
            "proc/driver/nvidia/params",
            "RmProfilingAdminOnly: 0\n",
        );
        fake
    });
    assert_eq!(status, Status::Ok);
    let paranoid = after("perf-events", |root, fake| {
        user(root);
        write(root, "proc/sys/kernel/perf_event_paranoid", "4\n");
        fake
    });
    let fix = "sudo sysctl -w kernel.perf_event_paranoid=2".to_owned();
    assert_eq!(paranoid, (Status::Warning, fix));
    let (status, _) = after("ptrace", |root, fake| {
        write(root, "proc/sys/kernel/yama/ptrace_scope", "3\n");
        fake
    });
    assert_eq!(status, Status::Warning);
}

#[test]
fn versions_must_fit_each_other() {
    let old_driver = VERSION.replace("580.159.04", "550.54.14");
    let torch = after("torch", |root, fake| {
        write(root, "proc/driver/nvidia/version", &old_driver);
        fake
    });
    let fix = "sudo apt-get install nvidia-driver-580 && sudo reboot".to_owned();
    assert_eq!(torch, (Status::Problem, fix));
    let (status, _) = after("torch", |_, fake| {
        fake.with("python3", Ok("2.11.0+cpu None\n"))
    });
    assert_eq!(status, Status::Warning);
    let old = after("ncu", |_, fake| {
        fake.with("ncu", Ok("Version 2023.1.0.0 (build 1)\n"))
    });
    assert_eq!(old.0, Status::Warning);
    // A driver that is older than the tool is none of its concern.
    let (status, _) = after("ncu", |root, fake| {
        write(root, "proc/driver/nvidia/version", &old_driver);
        fake
    });
    assert_eq!(status, Status::Ok);
    let (status, _) = after("driver", |root, fake| {
        fs::remove_file(root.join("proc/driver/nvidia/version")).expect("is there");
        fake
    });
    assert_eq!(status, Status::Problem);
}

#[test]
fn a_profiler_next_to_the_path_is_named() {
    let missing = |fake: Fake| fake.with("nsys", Err("nsys is not on the path"));
    let (status, fix) = after("nsys", |_, fake| missing(fake));
    assert_eq!(
        (status, fix.as_str()),
        (
            Status::Problem,
            "sudo apt-get install cuda-nsight-systems-13-0"
        )
    );
    let hidden = "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys";
    let (_, fix) = after("nsys", |root, fake| {
        write(root, hidden, "");
        missing(fake)
    });
    assert_eq!(fix, format!("export ROOFLENS_NSYS=/{hidden}"));
}

#[test]
fn other_profilers_monitors_mig_and_limits_are_found() {
    let (status, fix) = after("other-profilers", |root, fake| {
        write(root, "proc/4242/comm", "ncu\n");
        write(root, "proc/7/comm", "python3\n");
        fake
    });
    assert_eq!((status, fix.as_str()), (Status::Problem, "kill 4242"));
    let (status, fix) = after("other-profilers", |root, fake| {
        write(root, "proc/99/comm", "nv-hostengine\n");
        fake
    });
    assert_eq!(
        (status, fix.as_str()),
        (Status::Warning, "dcgmi profile --pause")
    );
    let (status, fix) = after("mig", |_, fake| {
        fake.with("nvidia-smi", Ok("0, Disabled\n1, Enabled\n"))
    });
    assert_eq!(
        (status, fix.as_str()),
        (Status::Warning, "sudo nvidia-smi -i 1 -mig 0")
    );
    let (status, _) = after("memory", |root, fake| {
        // 5 GiB, of which 2 are used: 3 are less than 4.
        write(root, "sys/fs/cgroup/memory.max", "5368709120\n");
        write(root, "sys/fs/cgroup/memory.current", "2147483648\n");
        fake
    });
    assert_eq!(status, Status::Warning);
}

#[test]
fn the_table_shows_the_remedy_below_the_finding() {
    let checks = [
        Check::new("driver", Status::Ok, "580"),
        Check::new("ncu", Status::Problem, "it is not there").fix("install it"),
    ];
    let expected = "ok      driver  580\nPROBLEM ncu     it is not there\n                fix: install it\n\
                    Some passes would fail; problems: 1, warnings: 0.\n";
    assert_eq!(table(&checks), expected);
}
