//! Rules about idle time and launching.

use super::*;
use crate::known::Lost;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::memory::allocator::Allocator;
use rooflens_analysis::memory::allocator::calls::{AllocatorCalls, InstanceCalls};
use rooflens_analysis::time::idle::between::{Between, Pair};
use rooflens_analysis::time::sync::charges::Charges;
use rooflens_analysis::time::sync::{PassSync, Place, StageSync, Sum, Synchronization};
use rooflens_session::{CopyKind, MemoryKind};

#[test]
fn launch_bound_needs_launching_to_be_a_large_cause() {
    let made = decode().busy(0.2).idle(Cause::Launching, 600.0);
    let found = made.one(rule("launch-bound"));
    assert!(words(&found.statement).starts_with("launch_bound.statement{bound=decode, idle=findings.idles{stage=decode, share=60.0 %, most=60.0 %"));
    assert_eq!((saved(&found), found.weight_ns.0), (600.0, 6000.0));
    // A replay of all operations allocates nothing either, but synchronizing calls stay.
    let more = decode()
        .idle(Cause::Launching, 600.0)
        .idle(Cause::Allocator, 50.0);
    assert_eq!(
        saved(&more.idle(Cause::Sync, 30.0).one(rule("launch-bound"))),
        650.0
    );
    let busier = decode().busy(0.6).idle(Cause::Launching, 300.0);
    let text = words(&busier.one(rule("launch-bound")).statement);
    assert!(
        text.starts_with(
            "launch_bound.statement{idle=findings.idles{stage=decode, share=30.0 %, most=30.0 %"
        ),
        "{text}"
    );
    let launches_with = |time| {
        decode()
            .idle(Cause::Launching, 300.0)
            .idle(Cause::Sync, time)
    };
    assert_eq!(
        saved(&launches_with(600.0).one(rule("launch-bound"))),
        300.0
    );
    assert_eq!(
        launches_with(601.0).outcome(rule("launch-bound")),
        Outcome::PASSED
    );
    // Larger host code between many launches gives the same advice; host code in one place does not. Ten iterations.
    let code = |gaps| {
        let mut many = decode()
            .operations(200.0, 8e5)
            .idle(Cause::Launching, 300.0);
        many.session.kernel("at::native::copy", "");
        many.idle(Cause::HostCode, 301.0)
            .gaps(Cause::HostCode, gaps)
    };
    assert_eq!(code(50).outcome(rule("launch-bound")), Outcome::PASSED);
    assert!(
        words(&code(50).one(rule("host-bound")).advice.unwrap())
            .contains("host_bound.advice_launches")
    );
    assert_eq!(saved(&code(49).one(rule("launch-bound"))), 300.0);
    assert!(
        !words(&code(49).one(rule("host-bound")).advice.unwrap())
            .contains("host_bound.advice_launches")
    );
    assert_eq!(
        decode()
            .idle(Cause::Launching, 99.0)
            .outcome(rule("launch-bound")),
        Outcome::PASSED
    );
}

#[test]
fn a_bound_is_that_of_the_unprofiled_stage_where_its_time_is_known() {
    // Profiled 1000 ns, busy for 300 of them and launching for 600; unprofiled 4 steps of 175 ns = 700 ns.
    // Gaps are then 700 − 300 = 400 ns at most, and so is what launches can cost.
    let mut made = decode().steps(4.0).idle(Cause::Launching, 600.0);
    made = made.repeats("decode", "torch", Some(1), &[9]);
    made.session.timings.profiled[0] = Some(true);
    made = made.repeats("decode", "baseline", Some(40), &[7000]);
    made.stages[0].busy = Time(300.0);
    let found = made.one(rule("launch-bound"));
    assert_eq!(found.weight_ns.0, 4000.0);
    let gain = found.gain.unwrap();
    assert_eq!(
        (gain.saved_ns.0, gain.of_ns.0, gain.of.as_str()),
        (400.0, 700.0, "findings.unprofiled{stage=decode}")
    );
    assert!(
        gain.basis
            .contains("findings.part_of_profiled{part=600 ns, whole=1.00 µs}"),
        "{}",
        gain.basis
    );
    // Work lasts as long without the profiler.
    let made = made.copies(&[(CopyKind::HostToDevice, MemoryKind::Pinned, 8, 250, 250)]);
    assert_eq!(saved(&made.one(rule("exposed-copies"))), 250.0);
    // A profiled stage may be the shorter one: what it shows, of the time without the profiler.
    let made = decode().steps(4.0).idle(Cause::Launching, 600.0);
    let made = made.repeats("decode", "baseline", Some(40), &[12_000]);
    let gain = made.one(rule("launch-bound")).gain.unwrap();
    assert_eq!((gain.saved_ns.0, gain.of_ns.0), (600.0, 1200.0));
}

#[test]
fn causes_of_idle_time_have_a_rule_each() {
    // Rule, a stage of 1000 ns, nanoseconds saved; and the same below the threshold.
    let host = |time| decode().idle(Cause::HostCode, time);
    let cases: [(&Rule, Made, f64, Made); 4] = [
        (
            rule("first-use"),
            decode().idle(Cause::FirstUse, 10.0),
            10.0,
            decode().idle(Cause::FirstUse, 9.0),
        ),
        (
            rule("host-bound"),
            host(80.0).idle(Cause::Os, 20.0),
            100.0,
            host(49.0),
        ),
        (
            rule("sync-bound"),
            decode().idle(Cause::Sync, 30.0),
            30.0,
            decode().idle(Cause::Sync, 19.0),
        ),
        (
            rule("allocator-stalls"),
            decode().idle(Cause::Allocator, 10.0),
            10.0,
            decode().idle(Cause::Allocator, 9.0),
        ),
    ];
    for (rule, holds, expected, below) in cases {
        let found = holds.one(rule);
        assert!((saved(&found) - expected).abs() < 1e-9, "{}", rule.id);
        assert!(
            (found.weight_ns.0 - 10.0 * expected).abs() < 1e-9,
            "{}",
            rule.id
        );
        assert!(found.advice.is_some(), "{}", rule.id);
        assert_eq!(below.outcome(rule), Outcome::PASSED, "{}", rule.id);
    }
}

/// Ten iterations of 1000 ns on the median and of 2000 ns on the mean wait for 300 ns each: 3 of 20 µs, and not 15 % of
/// the median one.
#[test]
fn a_loss_of_uneven_iterations_is_summed_over_them() {
    let mut made = decode().idle(Cause::Sync, 300.0);
    assert_eq!(
        made.one(rule("sync-bound")).gain.unwrap().of_ns,
        Time(1000.0)
    );
    made.last_line().pool.time = Ns(20_000);
    let found = made.one(rule("sync-bound"));
    let gain = found.gain.unwrap();
    assert_eq!((gain.saved_ns, gain.of_ns), (Time(3000.0), Time(20_000.0)));
    assert_eq!(gain.kind, GainKind::Stalls);
    assert_eq!(found.weight_ns, Time(3000.0));
}

/// 200 ns of first use in one of ten iterations of 1000 ns, and in two of them.
#[test]
fn other_idle_time_goes_with_a_cause_as_far_as_the_host_can_be_sooner() {
    let lost = |idle| Lost {
        idle: Time(idle),
        issued: Time(3.0),
        windows: 2,
        most: Time(100.0),
    };
    // Of 90 ns idle the cause has 60, two thirds; the host can be 10 or 40 ns sooner with the rest.
    let all = Time(90.0);
    assert_eq!(lost(60.0).bound(all, Time::ZERO, Time(10.0)), Time(73.0));
    assert_eq!(lost(60.0).bound(all, Time::ZERO, Time(40.0)), Time(93.0));
    // Less than two thirds explain no other idle time.
    assert_eq!(lost(59.0).bound(all, Time::ZERO, Time(40.0)), Time(62.0));
    // Of the host's 90 ns, 60 are most, whatever latency its launches have beyond them.
    let latency = Time(5.0);
    assert_eq!(lost(60.0).bound(all, latency, Time(40.0)), Time(98.0));
    // No repair saves more than the most.
    let least = Lost {
        most: Time(50.0),
        ..lost(60.0)
    };
    assert_eq!(least.bound(all, Time::ZERO, Time(40.0)), Time(50.0));
}

#[test]
fn first_use_in_one_iteration_is_a_note() {
    let of = |cause, times: &[f64]| {
        let rest = vec![0.0; 10 - times.len()];
        decode().each(cause, &[times, &rest].concat())
    };
    let once = of(Cause::FirstUse, &[200.0]).one(rule("first-use"));
    assert_eq!((once.gain, once.severity), (None, Severity::Note));
    assert!(once.advice.is_some());
    // What is allocated once is no stall of the loop.
    let once = of(Cause::Allocator, &[200.0]).outcome(rule("allocator-stalls"));
    assert_eq!(once, Outcome::PASSED);
    for (name, cause) in [
        ("first-use", Cause::FirstUse),
        ("allocator-stalls", Cause::Allocator),
    ] {
        let twice = of(cause, &[100.0, 100.0]).one(rule(name));
        assert_eq!(saved(&twice), 200.0);
    }
}

/// A stage like `decode` of another kind.
fn stage_of(name: &str, kind: StageKind) -> Made {
    Made::default().stage(name, kind, 1000.0, 20_000.0)
}

#[test]
fn file_access_is_the_data_loaders_in_training_alone() {
    let system = |made: Made| {
        let made = made.idle(Cause::HostCode, 30.0).idle(Cause::Os, 170.0);
        let found = made.one(rule("host-bound"));
        let text = words(&found.statement);
        let said = "does=host_bound.waits, system=85.0 %";
        assert!(text.contains(said), "{text}");
        words(&found.advice.unwrap())
    };
    let training = stage_of("train_step", StageKind::TrainStep);
    assert_eq!(system(training), "host_bound.advice_system");
    assert_eq!(system(decode()), "host_bound.advice_system_other");
}

#[test]
fn advice_on_cpu_work_is_that_of_the_workload() {
    let advice = |made: Made| {
        words(
            &made
                .idle(Cause::HostCode, 100.0)
                .one(rule("host-bound"))
                .advice
                .unwrap(),
        )
    };
    let training = advice(stage_of("train_step", StageKind::TrainStep));
    assert_eq!(training, "host_bound.advice_training");
    let inference = advice(decode());
    assert_eq!(inference, "host_bound.advice_inference");
    let unknown = advice(stage_of("solve", StageKind::Other));
    assert_eq!(unknown, "host_bound.advice");
}

#[test]
fn a_cpu_is_asked_for_where_none_ran_the_thread() {
    let off = decode()
        .idle(Cause::HostCode, 40.0)
        .idle(Cause::OffCpu, 160.0);
    let found = off.one(rule("host-bound"));
    assert!((saved(&found) - 200.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("does=host_bound.waits, off_cpu=80.0 %"));
    assert!(words(&found.advice.unwrap()).contains("host_bound.advice_off_cpu"));
    let root = found.root.unwrap();
    assert!(
        root.cause.contains("host_bound.root_cause_blocked"),
        "{root:?}"
    );
    let computes = decode()
        .idle(Cause::HostCode, 101.0)
        .idle(Cause::OffCpu, 100.0);
    let root = computes.one(rule("host-bound")).root;
    assert!(root.is_none_or(|root| !root.cause.contains("blocked")));
}

#[test]
fn short_kernels_are_said_where_launching_is_not() {
    let made = |operations: f64, sum: f64| {
        decode()
            .operations(operations, sum)
            .work_of(KernelClass::Gemm, 100)
    };
    let found = made(200.0, 800_000.0).one(rule("short-kernels"));
    assert!(words(&found.statement).contains("stage=decode, mean=4.00 µs, operations=200"));
    assert_eq!(words(&found.advice.unwrap()), "short_kernels.advice");
    for clear in [made(200.0, 2e6), made(50.0, 1e5)] {
        assert_eq!(clear.outcome(rule("short-kernels")), Outcome::PASSED);
    }
    let launching = made(200.0, 8e5).idle(Cause::Launching, 600.0);
    let (word, why) = silent(launching.outcome(rule("short-kernels")));
    assert_eq!(
        (word, &*why),
        (
            "not applicable",
            &*format!("decode: {}", covered_by(rule("launch-bound")))
        )
    );
    // Of whole graphs nothing is known of the kernels in them.
    let whole = made(200.0, 8e5).work_of(KernelClass::Graph, 90);
    assert_eq!(silent(whole.outcome(rule("short-kernels"))).0, "abstained");
}

/// The gaps of these calls are 200 ns; the host waits in them for 30, most in the call with the smaller gaps.
#[test]
fn a_synchronizing_call_costs_the_time_within_it() {
    let mut made = decode().idle(Cause::Sync, 30.0);
    let place =
        |session: &mut Session, call: &str, operator: &str, in_stage: i64, in_stage_calls| Place {
            stage: Some(0),
            call: session.intern(call),
            ranges: vec![session.intern("decode")],
            operator: Some(session.intern(operator)),
            sum: Sum {
                in_stage: Ns(in_stage),
                in_stage_calls,
                ..Sum::default()
            },
        };
    let session = &mut made.session;
    let summary = Summary {
        stage: 0,
        ..Summary::default()
    };
    let stages = vec![StageSync {
        summary,
        instances: 10,
        calls: Count(2.0),
        time: Time(300.0),
        idle: Time(200.0),
    }];
    let places = vec![
        place(session, "cudaEventSynchronize", "", 150, Ns(5)),
        place(session, "cudaStreamSynchronize", "aten::item", 50, Ns(25)),
    ];
    let others = vec![place(session, "cudaDeviceSynchronize", "b", 900, Ns(900))];
    let pass = |pass, stages, places| PassSync {
        pass,
        charges: Charges::default(),
        stages,
        places,
    };
    let passes = vec![
        pass(PassId(0), stages, places),
        pass(PassId(1), Vec::new(), others),
    ];
    made.known.sync = Ok(Synchronization { passes });
    let found = made.one(rule("sync-bound"));
    assert_eq!(saved(&found), 30.0);
    assert_eq!(
        words(&found.statement),
        "sync_bound.statement{idle=known.stage{share=3.00 %, stage=decode}, occurs=known.iterations{windows=10, of=10, each=30.0 ns}, within=100 %, calls=2, call=cudaStreamSynchronize, around=aten::item}"
    );
}

#[test]
fn blocking_copies_count_with_synchronizing_calls() {
    // 10 and 30 of 1000 ns in each of ten iterations.
    let found = decode()
        .idle(Cause::Sync, 10.0)
        .idle(Cause::Copy, 30.0)
        .one(rule("sync-bound"));
    assert_eq!(saved(&found), 40.0);
    let statement = words(&found.statement);
    let expected = "occurs=known.iterations{windows=10, of=10, each=40.0 ns}, within=100 %";
    assert!(statement.contains(expected), "{statement}");
    let little = decode().idle(Cause::Sync, 10.0).idle(Cause::Copy, 9.0);
    assert_eq!(little.outcome(rule("sync-bound")), Outcome::PASSED);
}

#[test]
fn time_of_other_iterations_is_no_idle_time() {
    // 200 ns busy, 170 with others, 630 idle.
    let made = decode()
        .busy(0.2)
        .idle(Cause::OtherWork, 170.0)
        .idle(Cause::Queue, 630.0);
    let statement = words(&made.one(rule("stage-busy")).statement);
    let expected =
        "stage_busy.idle{stage=decode, idle=63.0 %, others=17.0 %, time=1.00 µs, share=63.0 %";
    assert!(statement.contains(expected), "{statement}");
}

#[test]
fn what_few_iterations_have_is_told_of_them() {
    // 240 of 11 × 1000 ns are 2.2 %, all of them in two iterations.
    let mut times = [0.0; 11];
    times[1..3].fill(120.0);
    let made = decode().each(Cause::Allocator, &times);
    let found = made.one(rule("allocator-stalls"));
    assert_eq!(
        words(&found.statement),
        "allocator_stalls.statement{idle=findings.idles{stage=decode, most=12.0 %, few=2, all=11, time=240 ns}}"
    );
    let gain = found.gain.unwrap();
    let whole = (gain.saved_ns.0, gain.of_ns.0, gain.of.as_str());
    assert_eq!(
        whole,
        (240.0, 11_000.0, "findings.all_iterations{stage=decode}")
    );
    // The sentence about the stage does not name it.
    assert!(!words(&made.one(rule("stage-busy")).statement).contains("allocation"));
    // In 6 of 11 it is the stage's, with its spread: 6 × 40 ns.
    let mut times = [0.0; 11];
    times[..6].fill(40.0);
    let text = words(
        &decode()
            .each(Cause::Allocator, &times)
            .one(rule("allocator-stalls"))
            .statement,
    );
    let expected = "allocator_stalls.statement{idle=findings.idles{stage=decode, share=2.18 %, least=0.00 %, most=4.00 %";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_stage_of_unknown_idle_time_is_not_clear_of_a_cause() {
    let outcome = |unknown| {
        decode()
            .idle(Cause::Unknown, unknown)
            .outcome(rule("sync-bound"))
    };
    assert_eq!(outcome(19.0), Outcome::PASSED);
    assert_eq!(silent(outcome(20.0)).0, "abstained");
}

#[test]
fn allocating_calls_that_take_only_the_host_are_a_note() {
    let made = |time| {
        let mut made = decode()
            .idle(Cause::Allocator, 1.0)
            .summary(|summary| summary.host = Time(400.0));
        let (stage, name) = (made.last_summary(), made.session.intern("cudaMalloc"));
        let of = |counted, calls, time| InstanceCalls {
            stage: stage.clone(),
            instance: 0,
            counted,
            name,
            calls,
            time,
        };
        let rows = vec![of(true, 3, time), of(false, 9, Ns(9999))];
        let calls = AllocatorCalls {
            rows,
            ..AllocatorCalls::default()
        };
        made.known.allocator = Ok(Allocator {
            calls,
            ..Allocator::default()
        });
        made
    };
    // Ten counted instances of 400 ns on the host.
    let found = made(Ns(100)).one(rule("allocator-stalls"));
    assert!(
        words(&found.statement).starts_with(
            "allocator_stalls.calls{stage=decode, count=3, iterations=10, share=2.50 %}"
        )
    );
    assert_eq!((found.gain, found.severity), (None, Severity::Note));
    assert_eq!(
        made(Ns(30)).outcome(rule("allocator-stalls")),
        Outcome::PASSED
    );
}

#[test]
fn the_verdict_on_a_stage_decides_the_word() {
    // Launching takes 400 of 1000 ns. The GPU is busy for 490 of them, with collectives for some or none.
    let says = |collectives: i64| {
        let mut made = decode().busy(0.49).idle(Cause::Launching, 400.0);
        for parts in &mut made.last_line().instances {
            (parts.busy[0], parts.busy[1]) = (Ns(490 - collectives), Ns(collectives));
        }
        words(&made.one(rule("launch-bound")).statement).contains("bound=decode")
    };
    assert!(says(100) && !says(0));
}

#[test]
fn idle_time_between_stages_is_said_with_the_stages_and_the_range() {
    let between = |idle: &[i64], covered: i64| {
        let mut made = Made::default().stage("step", StageKind::TrainStep, 0.0, 1000.0);
        let step = made.last().stage;
        let warm = made.add_stage("warm", StageKind::Other, 0.0, None);
        let load = made.session.intern("load");
        // What lies between `warm` and `step` once is no loop.
        let pairs = vec![
            Pair::made((warm, step), &[100], Cause::HostCode, (load, 100)),
            Pair::made((step, step), idle, Cause::HostCode, (load, covered)),
        ];
        let between = vec![Between::made(Ns(1000), pairs)];
        made.known.idle = Ok(IdleTime {
            between,
            ..IdleTime::default()
        });
        made
    };
    // 80 ns in seven windows, of which the range covers 90 %, or 40 %.
    let loops = [10, 10, 10, 10, 10, 10, 20];
    let found = between(&loops, 72).one(rule("between-stages"));
    let statement = words(&found.statement);
    let whole = "between_stages.statement{share=8.00 %, run=1.00 µs";
    assert!(statement.contains(whole), "{statement}");
    assert!(
        statement.contains("after=step, before=step, median=10.0 ns, count=7"),
        "{statement}"
    );
    assert!(
        statement.contains("place=load, covers=90.0 %"),
        "{statement}"
    );
    assert_eq!((saved(&found), found.next.is_none()), (80.0, true));
    // Without a range that covers half of it, one is asked for.
    assert!(
        between(&loops, 32)
            .one(rule("between-stages"))
            .next
            .is_some()
    );
    assert_eq!(
        between(&[7; 7], 44).outcome(rule("between-stages")),
        Outcome::PASSED
    );
    // Of 170 ns, 100 occur once: beyond the median of 10 ns. They are no loss of each iteration, and alone a note.
    let once = between(&[10, 10, 10, 10, 10, 10, 110], 72).one(rule("between-stages"));
    assert_eq!(saved(&once), 70.0);
    assert!(words(&once.statement).contains("once=100 ns"));
    let alone = between(&[2, 2, 2, 102], 72).one(rule("between-stages"));
    assert_eq!(alone.gain, None);
    assert_eq!(
        words(&alone.statement),
        "between_stages.statement_once{once=100 ns}"
    );
    let few = silent(between(&[40, 40], 72).outcome(rule("between-stages")));
    assert_eq!(few.0, "not applicable");
}

/// A stage of ten instances with 200 operations, of which graphs replay `nodes` each, once an instance.
fn replaying(nodes: u64) -> Made {
    decode()
        .operations(200.0, 8e5)
        .work_of(KernelClass::Gemm, 100)
        .replays(10 * nodes)
}

#[test]
fn no_graph_is_advised_inside_of_a_graph() {
    let advice = |made: Made, rule| words(&made.one(rule).advice.unwrap());
    // 100 of 200 operations are half, 99 are less.
    let short = advice(replaying(100), rule("short-kernels"));
    assert_eq!(short, "short_kernels.advice_graph");
    let eager = advice(replaying(99), rule("short-kernels"));
    assert_eq!(eager, "short_kernels.advice");
    let launching = |nodes| replaying(nodes).idle(Cause::Launching, 600.0);
    assert_eq!(
        advice(launching(100), rule("launch-bound")),
        "launch_bound.advice_graphs"
    );
    assert_eq!(
        advice(launching(99), rule("launch-bound")),
        "launch_bound.advice_decode"
    );
}

#[test]
fn gaps_with_work_issued_are_not_the_hosts() {
    let made = |nodes, idle| {
        replaying(nodes)
            .busy(0.8)
            .idle(Cause::Queue, idle)
            .gaps(Cause::Queue, 50)
    };
    // 150 of 1000 ns; all instances have 50 gaps of 1500 ns in all.
    let found = made(200, 150.0).one(rule("queue-gaps"));
    assert_eq!(saved(&found), 150.0);
    assert_eq!(
        words(&found.statement),
        "queue_gaps.statement{idle=findings.idles{stage=decode, share=15.0 %, most=15.0 %, all=10, time=1.50 µs}, which=queue_gaps.replayed, gaps=50, mean=30.0 ns}"
    );
    assert!(words(&found.advice.unwrap()).contains("queue_gaps.advice_graph"));
    assert!(
        !words(&made(200, 150.0).one(rule("queue-gaps")).advice.unwrap())
            .contains("queue_gaps.advice_between")
    );
    // 1200 of 1500 ns inside replays, 300 in nine gaps between them.
    let mut parts = made(200, 150.0);
    let stages = &mut parts.known.graphs.as_mut().unwrap().stages;
    let figures = &mut stages.last_mut().unwrap().figures;
    (
        figures.gpu_time,
        figures.busy,
        figures.gaps,
        figures.gap_idle_total,
    ) = (Ns(9200), Ns(8000), 9, Ns(300));
    let found = parts.one(rule("queue-gaps"));
    let text = words(&found.statement);
    assert!(
        text.contains("inside=1.20 µs, between=300 ns, betweens=9"),
        "{text}"
    );
    assert!(words(&found.advice.unwrap()).contains("queue_gaps.advice_between"));
    let eager = made(0, 150.0).one(rule("queue-gaps"));
    assert!(words(&eager.statement).contains("which=queue_gaps.issued"));
    assert!(eager.root.is_none() && words(&eager.advice.unwrap()) == "queue_gaps.advice");
    // Ten instances with one gap of 150 µs each, of a stage of 1 ms: no launch takes so long.
    let stage = Made::default()
        .stage("decode", StageKind::Decode, 1e6, 1e7)
        .operations(200.0, 8e5);
    let slices = stage
        .busy(0.8)
        .idle(Cause::Queue, 150e3)
        .gaps(Cause::Queue, 10);
    let advice = words(&slices.one(rule("queue-gaps")).advice.unwrap());
    assert!(advice.contains("queue_gaps.advice_held_up"), "{advice}");
    let action = slices.one(rule("queue-gaps")).root.unwrap().action;
    assert!(action.starts_with("queue_gaps.held_up_action"), "{action}");
    // Of 1.5 ms in 30 gaps, 50 µs on the mean, 600 or 800 µs lie in gaps from 100 µs on.
    let mixed = |long: i64| {
        let stage = Made::default().stage("decode", StageKind::Decode, 1e6, 1e7);
        let mut made = stage.operations(200.0, 8e5).busy(0.8);
        made = made.idle(Cause::Queue, 150e3).gaps(Cause::Queue, 30);
        (0..long).for_each(|_| made.last_line().add_gap(Cause::Queue, Ns(100_000)));
        made.one(rule("queue-gaps")).root.is_some()
    };
    assert!(!mixed(6) && mixed(8));
    assert_eq!(made(200, 99.0).outcome(rule("queue-gaps")), Outcome::PASSED);
    // The sentence about the stage has the words, too: of 200 ns of idle time, and where it is all of them.
    let stage = |idle| words(&made(200, idle).one(rule("stage-busy")).statement);
    let (most, all) = (
        "idle=20.0 %, time=1.00 µs, share=15.0 %, count=10, why=stage_busy.replayed, mean=0 ns}",
        "idle=20.0 %, time=1.00 µs, count=10, why=stage_busy.replayed, sole=stage_busy.replayed, mean=0 ns}",
    );
    assert!(stage(150.0).ends_with(most), "{}", stage(150.0));
    assert!(stage(199.5).ends_with(all), "{}", stage(199.5));
}
