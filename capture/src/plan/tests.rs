use clap::Parser as _;

use super::*;
use crate::args::{Arguments, Command};
use crate::tools::Profiler;

/// What versions of nsys say of the options that differ between them.
fn nsys(version: &str, help: &str) -> Profiler {
    let common = "--trace=\n--sample=\n--nvtx-capture=\n--env-var=\n--force-overwrite=\n";
    Profiler {
        program: "nsys".to_owned(),
        version: version.to_owned(),
        help: format!("{common}{help}"),
        lists: String::new(),
    }
}

fn nsys_2025() -> Profiler {
    let help = "--cpuctxsw=\n--cuda-graph-trace=<granularity>\n--gpu-metrics-devices=\n--capture-range-end=\n--lazy=";
    nsys("NVIDIA Nsight Systems version 2025.3.1", help)
}

fn nsys_2023() -> Profiler {
    let help = "--cpuctxsw=\n--cuda-graph-trace=\n--gpu-metrics-device=\n--capture-range-end=\n";
    nsys("NVIDIA Nsight Systems version 2023.1.2", help)
}

fn nsys_2020() -> Profiler {
    nsys(
        "NVIDIA Nsight Systems version 2020.3.2",
        "--stop-on-range-end=\n",
    )
}

fn ncu(version: &str, help: &str, lists: &str) -> Profiler {
    let common =
        "--target-processes arg\n--nvtx-include arg\n--cache-control arg\n--clock-control arg\n";
    Profiler {
        program: "ncu".to_owned(),
        version: version.to_owned(),
        help: format!("{common}{help}"),
        lists: lists.to_owned(),
    }
}

fn ncu_2025() -> Profiler {
    let lists = "SpeedOfLight  GPU Speed Of Light Throughput\nSpeedOfLight_RooflineChart  x\n\
        SpeedOfLight_HierarchicalTensorRooflineChart x\nSpeedOfLight_HierarchicalHalfRooflineChart x\n\
        SpeedOfLight_HierarchicalSingleRooflineChart x\nMemoryWorkloadAnalysis x\nLaunchStats x\nOccupancy x\n";
    ncu(
        "Version 2025.3.1.0",
        "--kernel-name-base arg\n--range-filter arg\n",
        lists,
    )
}

fn ncu_2020() -> Profiler {
    let lists = "LaunchStats  Launch Statistics  ...\nSpeedOfLight  GPU Speed Of Light  ...\n";
    ncu(
        "Version 2020.1.0.0",
        "--kernel-regex-base arg\n--kernel-regex arg\n",
        lists,
    )
}

fn command(line: &str) -> Command {
    let words = std::iter::once("rooflens-capture").chain(line.split(' '));
    Arguments::try_parse_from(words).expect("valid").command
}

fn nsys_line(line: &str, nsys: Profiler) -> Result<String, String> {
    let Command::Nsys(arguments) = command(line) else {
        panic!("not nsys")
    };
    let probe = Probe {
        nsys: Ok(nsys),
        ncu: Err(String::new()),
    };
    super::nsys(&arguments, &probe).map(|steps| last_command(&steps))
}

fn ncu_line(line: &str, kernels: Option<&Kernels>, ncu: Profiler) -> Result<String, String> {
    let Command::Ncu(arguments) = command(line) else {
        panic!("not ncu")
    };
    let probe = Probe {
        nsys: Err(String::new()),
        ncu: Ok(ncu),
    };
    super::ncu(&arguments, kernels, &probe).map(|steps| last_command(&steps))
}

fn last_command(steps: &[Step]) -> String {
    let Some(Step::Pass(pass)) = steps.last() else {
        panic!("no pass")
    };
    quote::line(&pass.command)
}

#[test]
fn nsys_is_given_what_its_help_names() {
    let line = "nsys -o b --gate decode@llm --gpu-metrics -- python3 a.py";
    assert_eq!(
        nsys_line(line, nsys_2025()).expect("planned"),
        "nsys profile --trace=cuda,nvtx,osrt --sample=none --cpuctxsw=none --force-overwrite=true \
         --cuda-graph-trace=node --gpu-metrics-devices=all --capture-range=nvtx --nvtx-capture=decode@llm \
         --env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0 --capture-range-end=stop --output b/.work/nsys/timeline \
         python3 a.py"
    );
    let older = nsys_line(line, nsys_2023()).expect("planned");
    assert!(older.contains("--gpu-metrics-device=all"), "{older}");
}

#[test]
fn an_old_nsys_does_without_or_says_what_it_cannot() {
    let oldest = nsys_line("nsys -o b --gate decode -- x", nsys_2020()).expect("planned");
    assert!(
        oldest.contains("--stop-on-range-end=true") && !oldest.contains("graph"),
        "{oldest}"
    );
    for line in [
        "nsys -o b --gpu-metrics -- x",
        "nsys -o b --scheduling -- x",
        "nsys -o b --gate a --instances 2 -- x",
    ] {
        let error = nsys_line(line, nsys_2020()).expect_err(line);
        assert!(
            error.contains("2020.3.2") && error.contains("leave"),
            "{error}"
        );
    }
}

#[test]
fn threads_off_the_cpu_are_recorded_when_asked_for() {
    let line = nsys_line("nsys -o b --scheduling -- x", nsys_2025()).expect("planned");
    assert!(
        line.contains("--sample=none --cpuctxsw=process-tree "),
        "{line}"
    );
}

#[test]
fn exports_hold_empty_tables_and_payloads_where_the_tool_knows_them() {
    let export = |nsys: Profiler| {
        let Command::Nsys(arguments) = command("nsys -o b -- x") else {
            panic!("not nsys")
        };
        let probe = Probe {
            nsys: Ok(nsys),
            ncu: Err(String::new()),
        };
        let steps = super::nsys(&arguments, &probe).expect("planned");
        let Some(Step::Pass(pass)) = steps.last() else {
            panic!("no pass")
        };
        let Harvest::Nsys(export) = &pass.harvest else {
            panic!("no export")
        };
        quote::line(&export.command("timeline"))
    };
    let recorded = recorded().nsys.expect("recorded");
    assert!(export(recorded).contains("--lazy=false --include-blobs=true --output"));
    assert!(export(nsys_2020()).contains("--force-overwrite true --output"));
}

#[test]
fn several_instances_are_a_repeated_capture_and_a_gate_needs_nvtx() {
    let line = "nsys -o b --pass decode --trace cuda --gate decode --instances 3 -- x";
    let planned = nsys_line(line, nsys_2025()).expect("planned");
    assert!(planned.contains("--trace=cuda,nvtx "), "{planned}");
    assert!(
        planned.contains("--capture-range-end=repeat:3 "),
        "{planned}"
    );
    assert!(
        planned.contains("--output b/.work/decode/timeline x"),
        "{planned}"
    );
}

#[test]
fn ncu_is_given_sections_that_it_lists_and_ranges_with_a_slash() {
    let line = "ncu -o b --gate decode_step --instance 3 --launch-count 5 -- python3 a.py";
    assert_eq!(
        ncu_line(line, None, ncu_2025()).expect("planned"),
        "ncu --target-processes all --section SpeedOfLight --section SpeedOfLight_RooflineChart \
         --section SpeedOfLight_HierarchicalTensorRooflineChart --section SpeedOfLight_HierarchicalHalfRooflineChart \
         --section SpeedOfLight_HierarchicalSingleRooflineChart --section MemoryWorkloadAnalysis --section LaunchStats \
         --section Occupancy --cache-control all --clock-control none --nvtx --nvtx-include decode_step/ \
         --range-filter ::3 --launch-count 5 --force-overwrite --export b/.work/ncu/kernels python3 a.py"
    );
    let old = ncu_line("ncu -o b -- x", None, ncu_2020()).expect("planned");
    assert!(
        old.contains("--section SpeedOfLight --section LaunchStats --cache"),
        "{old}"
    );
    assert!(ncu_line(line, None, ncu_2020()).is_err_and(|error| error.contains("instance")));
    let full = ncu_line(
        "ncu -o b --preset full --clock-control base -- x",
        None,
        ncu_2020(),
    );
    assert!(
        full.is_ok_and(|line| line.contains("--set full") && line.contains("--clock-control base"))
    );
}

#[test]
fn presets_collect_metrics_of_faults_and_named_sections_do_not() {
    let line = |line| ncu_line(line, None, recorded().ncu.expect("recorded")).expect("planned");
    let conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum,";
    assert!(line("ncu -o b -- x").contains(conflicts));
    assert!(line("ncu -o b --preset memory -- x").contains(conflicts));
    assert!(!line("ncu -o b --section Occupancy -- x").contains("--metrics"));
    assert!(!line("ncu -o b --preset full -- x").contains("--metrics"));
}

#[test]
fn where_time_is_short_a_launch_has_fewer_passes() {
    let ncu = recorded().ncu.expect("recorded");
    let Command::Ncu(arguments) = command("ncu -o run -- ./a") else {
        panic!("ncu")
    };
    for is_whole in [true, false] {
        let pace = super::ncu::Pace {
            schedule: None,
            is_short: !is_whole,
        };
        let pass = super::ncu::pass(
            "ncu",
            &arguments.common,
            &Gate::default(),
            &arguments.ncu,
            None,
            pace,
            &ncu,
        );
        let pass = pass.expect("planned");
        assert_eq!(
            pass.command.contains(&"WarpStateStats".to_owned()),
            is_whole
        );
        assert!(
            pass.command
                .contains(&"SpeedOfLight_HierarchicalTensorRooflineChart".to_owned())
        );
        assert_eq!(
            pass.notes
                .iter()
                .any(|note| note.starts_with("skipped for time: ")),
            !is_whole
        );
    }
}

#[test]
fn a_section_that_ncu_does_not_have_is_refused() {
    let error = ncu_line("ncu -o b --section SpeedOfLigth -- x", None, ncu_2025());
    assert!(error.is_err_and(|error| error.contains("SpeedOfLigth") && error.contains("--list-sections")));
}

#[test]
fn chosen_kernels_are_one_run_with_one_expression() {
    let text =
        "- name: a\n  regex: '^a$'\n  launches: [10]\n- name: b\n  regex: ^b\n  launches: [4]\n";
    let kernels = Kernels::parse(text).expect("valid");
    let line = ncu_line(
        "ncu -o b --section SpeedOfLight -- x",
        Some(&kernels),
        ncu_2025(),
    );
    // 10 launches of a and 4 of b come before those that were chosen.
    assert!(line.is_ok_and(|line| line.contains(
        "--kernel-name-base function --kernel-name 'regex:^a$|^b' --launch-skip 14 --launch-count 32"
    )));
    let old = ncu_line(
        "ncu -o b --launch-skip 1 --launch-count 2 -- x",
        Some(&kernels),
        ncu_2020(),
    );
    assert!(old.is_ok_and(|line| line.contains(
        "--kernel-regex-base function --kernel-regex '^a$|^b' --launch-skip 1 --launch-count 2"
    )));
}

#[test]
fn all_skips_what_is_missing_and_plans_the_rest() {
    let Command::All(arguments) = command("all -o b --gate decode --gemm-log -- python3 a.py")
    else {
        panic!("not all")
    };
    let names = |steps: &[Step]| {
        let name = |step: &Step| match step {
            Step::Snapshot { python, .. } => format!("snapshot {python}"),
            Step::Pass(pass) => pass.id.clone(),
            Step::Deferred(pass) => format!("{} later", pass.id),
            Step::Skip { pass, reason, .. } => format!("no {pass}: {reason}"),
        };
        steps.iter().map(name).collect::<Vec<_>>()
    };
    let probe = Probe {
        nsys: Ok(nsys_2025()),
        ncu: Ok(ncu_2025()),
    };
    let expected = [
        "snapshot python3",
        "baseline",
        "gemm-log",
        "nsys",
        "nsys-nodes later",
        "torch later",
        "ncu later",
    ];
    assert_eq!(names(&all(&arguments, &probe)), expected);
    let bare = Probe {
        nsys: Err("no nsys".to_owned()),
        ncu: Err("no ncu".to_owned()),
    };
    let expected = [
        "snapshot python3",
        "baseline",
        "gemm-log",
        "no nsys: no nsys",
        "torch later",
        "no ncu: no ncu",
    ];
    assert_eq!(names(&all(&arguments, &bare)), expected);
}

#[test]
fn of_a_server_all_profiled_passes_are_limited_to_the_window() {
    let probe = recorded();
    let passes = |line: &str| {
        let Command::All(arguments) = command(line) else {
            panic!("not all")
        };
        let told = |step: Step| match step {
            Step::Pass(pass) | Step::Deferred(pass) => {
                let limit = |word: &str| pass.command.iter().any(|one| one == word);
                let waits =
                    limit("--capture-range=cudaProfilerApi") || limit("--profile-from-start");
                Some((pass.id, pass.window.is_some(), waits))
            }
            _ => None,
        };
        all(&arguments, &probe)
            .into_iter()
            .filter_map(told)
            .collect::<Vec<_>>()
    };
    let told = |id: &str, is_limited, waits| (id.to_owned(), is_limited, waits);
    let server = "all -o b --window 5:3 --client c --ready h:1/x -- python3 a.py";
    let expected = [
        told("baseline", false, false),
        told("nsys", true, true),
        told("nsys-nodes", true, true),
        told("torch", true, false),
        told("ncu", true, true),
    ];
    assert_eq!(passes(server), expected);
    // Of another workload torch alone is: the timeline of all is small enough.
    let expected = [false, false, false, true, false];
    let own = passes("all -o b --window 5:3 -- python3 a.py");
    assert_eq!(
        own.iter()
            .map(|(_, is_limited, _)| *is_limited)
            .collect::<Vec<_>>(),
        expected
    );

    let Command::Nsys(gated) = command("nsys -o b --gate decode --window 1:2 -- x") else {
        panic!("not nsys")
    };
    assert!(super::nsys(&gated, &probe).is_err_and(|reason| reason.contains("choose --instances")));
}

#[test]
fn the_plan_is_shown_as_a_shell_would_run_it() {
    let Command::Torch(arguments) =
        command("torch -o b --gate decode --window 1:2 -- python3 a.py")
    else {
        panic!("not torch")
    };
    assert_eq!(
        show(&torch(&arguments)),
        "# snapshot, with python3\n# torch\n#   profiler injected: 2 instances of range decode after 1\n\
         ROOFLENS_TORCH_DIR=b/.work/torch ROOFLENS_TORCH_RECORD=shapes ROOFLENS_TORCH_RANGE=decode \
         ROOFLENS_TORCH_SKIP=1 ROOFLENS_TORCH_COUNT=2 python3 a.py\n"
    );
}

/// The option names and sections of nsys and ncu 2025.3.1, as their `--help` and `--list-sections` print them.
fn recorded() -> Probe {
    let nsys = Profiler {
        program: "nsys".to_owned(),
        version: "NVIDIA Nsight Systems version 2025.3.1.0".to_owned(),
        help: include_str!("../../tests/probes/nsys-2025.3.1.txt").to_owned(),
        lists: String::new(),
    };
    let ncu = Profiler {
        program: "ncu".to_owned(),
        version: "Version 2025.3.1.0 (build 36398880) (public-release)".to_owned(),
        help: include_str!("../../tests/probes/ncu-2025.3.1.txt").to_owned(),
        lists: include_str!("../../tests/probes/ncu-2025.3.1-sections.txt").to_owned(),
    };
    Probe {
        nsys: Ok(nsys),
        ncu: Ok(ncu),
    }
}

#[test]
fn the_recorded_tools_know_every_option_that_they_are_given() {
    let probe = recorded();
    let line = "all -o b --gate decode@llm --gate-nsys --instances 2 --gpu-metrics --scheduling --preset compute -- x";
    let Command::All(arguments) = command(line) else {
        panic!("not all")
    };
    let mut checked = 0;
    for step in all(&arguments, &probe) {
        let (Step::Pass(pass) | Step::Deferred(pass)) = step else {
            continue;
        };
        let tool = match pass.kind {
            PassKind::Timeline => probe.nsys.as_ref(),
            PassKind::Counters => probe.ncu.as_ref(),
            _ => continue,
        };
        let tool = tool.expect("recorded");
        for word in pass.command.iter().filter(|word| word.starts_with("--")) {
            let option = word.split('=').next().expect("a word");
            assert!(
                tool.knows(option),
                "{} does not know {option}",
                tool.version
            );
            checked += 1;
        }
        let named = pass
            .command
            .windows(2)
            .filter(|pair| pair[0] == "--section");
        for pair in named {
            assert!(
                tool.lists(&pair[1]),
                "{} has no section {}",
                tool.version,
                pair[1]
            );
        }
    }
    assert!(checked > 15, "{checked} options");
}
