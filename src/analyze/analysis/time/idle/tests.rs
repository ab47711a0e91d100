//! Small sessions whose gaps are explained by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::workload::StageRule;

use super::gaps::{Gap, Gaps};
use super::*;
use crate::Context;
use crate::testing::{trace, with_results};
use rooflens_session::{GpuId, Ns, Session};
use rooflens_units::{Count, Ratio, Time};

const US: i64 = 1000;

fn gaps(session: &Session) -> Vec<Gap> {
    with_results(session, |context| {
        let calls = Calls::new(context.session, &context.facts.ops);
        Gaps::new(context, &calls)
            .within(GpuId(0), (Ns::MIN / 4, Ns::MAX / 4))
            .collect()
    })
}

/// What `look` gives of the line of the stage of that name.
fn of_line<T>(
    session: &Session,
    stage: &str,
    look: impl FnOnce(&StageIdle, &Context<'_>) -> T,
) -> T {
    with_results(session, |context| {
        let mut lines = context.results.idle().unwrap().lines.iter();
        let is_stage = |line: &&StageIdle| line.summary.stage(context.facts).name == stage;
        look(lines.find(is_stage).unwrap(), context)
    })
}

fn stage(session: &mut Session, name: &str) {
    let (name, pattern, kind) = (name.to_owned(), None, None);
    session.workload.stages.push(StageRule {
        name,
        pattern,
        kind,
    });
}

/// A kernel until 100, then these events: time by cause of the gap that begins there.
fn times_after_100(events: &str) -> Vec<(Cause, Ns)> {
    let gaps = gaps(&trace(&format!("launch -20..-10 -> axpy 0..100\n{events}")));
    assert_eq!((gaps.len(), gaps[0].start), (1, Ns(100)));
    assert_eq!(gaps[0].times.total(), gaps[0].end - Ns(100));
    gaps[0].times.causes().collect()
}

/// The kernel of a launch call of 10 begins another 5 after its return.
#[test]
fn the_host_issues_or_computes_by_the_length_of_its_pauses() {
    // The thread made no call from -10 on: a pause of 99 999 until 99 989, and one of 100 000.
    let times = times_after_100("launch 99_989..99_999 -> axpy 100_004..100_009");
    assert_eq!(
        times,
        [(Cause::Launching, Ns(99_899)), (Cause::Queue, Ns(5))]
    );
    let times = times_after_100("launch 99_990..100_000 -> axpy 100_005..100_010");
    let (code, call) = ((Cause::HostCode, Ns(99_890)), (Cause::Launching, Ns(10)));
    assert_eq!(times, [call, code, (Cause::Queue, Ns(5))]);
    // A call in between makes two pauses of it: one from -10, and one of 99 989 or 99 990.
    for (launch, code) in [
        ("launch 149_999..150_009 -> axpy 150_014..150_019", 0),
        ("launch 150_010..150_020 -> axpy 150_025..150_030", 100_000),
    ] {
        let mut times = times_after_100(&format!("cudaEventRecord 50_000..50_010\n{launch}"));
        times.retain(|(cause, _)| *cause == Cause::HostCode);
        let expected = [(Cause::HostCode, Ns(code))];
        assert_eq!(times, expected[..usize::from(code > 0)]);
    }
}

/// Before the first launch of `gemm`, a call that frees memory takes 1 ms, the others 1 ns; `axpy` was launched before.
#[test]
fn a_library_loads_itself_within_a_call_of_the_allocator() {
    for (kernel, cause) in [("gemm", Cause::FirstUse), ("axpy", Cause::Allocator)] {
        let times = times_after_100(&format!(
            "cudaMalloc -40..-39
             cudaMalloc -38..-37
             cudaFree 20..1_000_020
             launch 1_000_050..1_000_060 -> {kernel} 1_000_065..1_000_070"
        ));
        let mut expected = vec![
            (Cause::Launching, Ns(40)),
            (cause, Ns(999_920)),
            (Cause::Queue, Ns(5)),
        ];
        expected.sort();
        assert_eq!(times, expected, "{kernel}");
    }
}

/// A call from 20 on covers 40 of the gap from 100 to 200; the launch returns at 195.
#[test]
fn a_call_has_the_time_within_it_and_no_more() {
    for (name, cause) in [
        ("cudaStreamSynchronize", Cause::Sync),
        ("cuCtxSynchronize", Cause::Sync),
        ("hipDeviceSynchronize", Cause::Sync),
        ("cudaMalloc", Cause::Allocator),
        ("cuMemAlloc_v2", Cause::Allocator),
        ("hipFree", Cause::Allocator),
        ("cuModuleLoadDataEx", Cause::FirstUse),
        ("cuLibraryLoadData", Cause::FirstUse),
        ("cudaGraphInstantiateWithFlags", Cause::FirstUse),
        ("cudaMemcpy", Cause::Copy),
    ] {
        let call = format!("{name} 20..140\n launch 185..195 -> axpy 200..205");
        let times = times_after_100(&call);
        // 45 between the calls and 10 in the launch.
        let mut expected = vec![
            (Cause::Launching, Ns(55)),
            (cause, Ns(40)),
            (Cause::Queue, Ns(5)),
        ];
        expected.sort();
        assert_eq!(times, expected, "{name}");
    }
    // Neither allocates nor waits.
    for name in [
        "cuMemsetD8Async",
        "cudaMemPrefetchAsync",
        "cudaHostGetDevicePointer",
    ] {
        let call = format!("{name} 20..140\n launch 185..195 -> axpy 200..205");
        let times = times_after_100(&call);
        assert_eq!(
            times,
            [(Cause::Launching, Ns(95)), (Cause::Queue, Ns(5))],
            "{name}"
        );
    }
}

/// A gap from 100 to 200, ended by a call from 185 to 195; the host waits in a call from 100 to 150.
#[test]
fn the_profiler_goes_before_calls_and_these_before_the_system_and_the_scheduler() {
    let times = times_after_100(
        "overhead CUPTI Buffer flush 110..120
         cudaStreamSynchronize 90..150
         os read 140..160
         off-cpu 130..170
         launch 185..195 -> axpy 200..205",
    );
    // [110, 120) profiler; to 150 sync; to 160 system; to 170 off; to 195 launching.
    let expected = [
        (Cause::Launching, Ns(25)),
        (Cause::Sync, Ns(40)),
        (Cause::Os, Ns(10)),
        (Cause::OffCpu, Ns(10)),
        (Cause::Profiler, Ns(10)),
        (Cause::Queue, Ns(5)),
    ];
    assert_eq!(times, expected);
}

/// The host waits until 105 in a synchronizing call, computes for 200 000, and launches.
#[test]
fn what_follows_a_synchronizing_call_is_not_its_time() {
    let times = times_after_100(
        "cudaStreamSynchronize 10..105
         launch 200_105..200_115 -> axpy 200_120..200_125",
    );
    let code = (Cause::HostCode, Ns(200_000));
    assert_eq!(
        times,
        [
            (Cause::Launching, Ns(10)),
            code,
            (Cause::Sync, Ns(5)),
            (Cause::Queue, Ns(5))
        ]
    );
}

/// The call returned at 110; what becomes of its thread then is not why the GPU waits.
#[test]
fn after_the_return_of_the_launch_the_device_takes_its_time() {
    let times = times_after_100(
        "off-cpu 110..199
         launch 105..110 -> axpy 200..210
         cudaStreamSynchronize 115..300",
    );
    assert_eq!(times, [(Cause::Launching, Ns(10)), (Cause::Queue, Ns(90))]);
}

/// Waiting for a lock within a launch call is part of that call.
#[test]
fn calls_of_the_system_within_cuda_calls_do_not_count() {
    let times = times_after_100(
        "os read 105..190
         launch 105..190 -> axpy 195..200",
    );
    assert_eq!(times, [(Cause::Launching, Ns(90)), (Cause::Queue, Ns(5))]);
}

/// The fourth launch of a thread lasts 150 000: of a kernel that ran before it is launching, of a new one it loads it.
/// The others last 10; of 1 600 each it is less than ten times as long.
#[test]
fn the_first_launch_of_a_kernel_that_lasts_is_first_use() {
    let long = |name: &str, short: i64, length: i64| {
        let (returned, begun, ended) = (50_000 + length, 49_990 + length, 51_000 + length);
        let session = trace(&format!(
            "launch 0..{short} -> axpy 2000..2100
             launch 20_000..{} -> axpy 22_000..22_100
             launch 40_000..{} -> axpy 42_000..42_100
             launch 50_000..{returned} -> {name} {begun}..{ended}",
            20_000 + short,
            40_000 + short,
        ));
        gaps(&session).last().unwrap().times.of(Cause::FirstUse)
    };
    // The kernel begins 10 before the call returns.
    assert_eq!(long("gemm", 10, 150_000), Ns(149_990));
    assert_eq!(long("axpy", 10, 150_000), Ns::ZERO);
    assert_eq!(long("gemm", 10, 100_000), Ns::ZERO);
    assert_eq!(long("gemm", 15_000, 150_000), Ns::ZERO);
}

#[test]
fn a_copy_blocks_if_its_host_memory_is_pageable() {
    let times = |memory: &str| {
        let copy = format!("cudaMemcpyAsync 110..190 -> memcpy HtoD {memory} 180..189");
        times_after_100(&copy)
    };
    let (launching, copy) = ((Cause::Launching, Ns(10)), (Cause::Copy, Ns(70)));
    assert_eq!(times("pageable"), [launching, copy]);
    assert_eq!(times("pinned"), [(Cause::Launching, Ns(80))]);
}

#[test]
fn work_that_was_issued_before_the_gap_waits_in_the_queue() {
    let times = times_after_100("launch 20..100 -> axpy 200..210");
    assert_eq!(times, [(Cause::Queue, Ns(100))]);
    // The call had not returned.
    let times = times_after_100("launch 20..101 -> axpy 200..210");
    assert_eq!(times, [(Cause::Launching, Ns(1)), (Cause::Queue, Ns(99))]);
    let collective = "launch 20..100 -> ncclDevKernel_AllReduce_Sum_f32_RING_LL 200..210";
    let times = times_after_100(collective);
    assert_eq!(times, [(Cause::Communication, Ns(100))]);
}

#[test]
fn without_a_call_or_with_one_that_comes_too_late_the_cause_is_unknown() {
    let unknown = [(Cause::Unknown, Ns(100))];
    assert_eq!(times_after_100("stream 7: axpy 200..210"), unknown);
    let late = "launch 201..205 -> axpy 200..210";
    assert_eq!(times_after_100(late), unknown);
}

/// A graph launch that returns at 100: only the gap before its first kernel is the host's.
#[test]
fn kernels_of_one_graph_launch_wait_for_each_other() {
    let session = trace(
        "launch 0..5 -> axpy 6..10
         cudaGraphLaunch 15..100 -> axpy 20..25, axpy 30..35, axpy 40..45",
    );
    let found: Vec<_> = gaps(&session)
        .iter()
        .map(|gap| (gap.start, gap.end, gap.times.main()))
        .collect();
    let (host, queue) = (Cause::Launching, Cause::Queue);
    assert_eq!(
        found,
        [
            (Ns(10), Ns(20), host),
            (Ns(25), Ns(30), queue),
            (Ns(35), Ns(40), queue)
        ]
    );
}

/// A gap from 100 to 200: a synchronizing call until 130, then launching until 195. Windows cut it.
#[test]
fn a_window_cuts_a_gap_to_the_nanosecond() {
    let session = trace(
        "launch -20..-10 -> axpy 0..100
         cudaStreamSynchronize 50..130
         launch 185..195 -> axpy 200..205",
    );
    with_results(&session, |context| {
        let gaps = Gaps::new(context, &Calls::new(context.session, &context.facts.ops));
        let within = |window| gaps.within(GpuId(0), window).next().unwrap();
        let cut = within((Ns(120), Ns(140)));
        assert_eq!((cut.start, cut.end), (Ns(120), Ns(140)));
        let times: Vec<_> = cut.times.causes().collect();
        assert_eq!(times, [(Cause::Launching, Ns(10)), (Cause::Sync, Ns(10))]);
        assert_eq!(
            (
                cut.launching_in_calls,
                within((Ns(180), Ns(300))).launching_in_calls
            ),
            (Ns::ZERO, Ns(10))
        );
        let times: Vec<_> = within((Ns(190), Ns(198))).times.causes().collect();
        assert_eq!(times, [(Cause::Launching, Ns(5)), (Cause::Queue, Ns(3))]);
    });
}

/// Stage: [0, 10) and [30, 40). Another stage's kernel at [15, 20). Idle 20 = 5 + 10 of gaps + 5 of other work.
#[test]
fn operations_of_others_are_no_gaps() {
    let session = trace(
        "range prefill -10..0
         launch -10..-9 -> axpy 0..10
         launch -8..-7 -> axpy 30..40
         range decode 1..9
         launch 2..3 -> axpy 15..20",
    );
    of_line(&session, "prefill", |line, _| {
        let of = |cause: Cause| line.of(cause);
        assert_eq!(
            (of(Cause::Queue), of(Cause::OtherWork), of(Cause::Unknown)),
            (Ns(15), Ns(5), Ns::ZERO)
        );
    });
}

/// Calls return at 5, 6 and 7, kernels begin at 10, 20 and 30 without a gap: waits 5, 14, 23. Over the busy
/// time of 30 the second waits 10 and the third 20: a mean depth of 1, and 3 before the first begins.
#[test]
fn the_queue_of_three_launches() {
    let session = trace(
        "range prefill 0..8
         launch 4..5 -> axpy 10..20
         launch 5..6 -> axpy 20..30
         launch 6..7 -> axpy 30..40",
    );
    of_line(&session, "prefill", |line, context| {
        let launches = &line.launches;
        assert_eq!(launches.queue_time, Some(Time(14.0)));
        assert_eq!(launches.depth_mean(), Some(Count(1.0)));
        assert_eq!(launches.depth_max, 3);
        assert_eq!((launches.calls, launches.begun_in_call), (3, 0));
        assert_eq!(
            (launches.median_call, launches.mean_kernel()),
            (Some(Time(1.0)), Some(Time(10.0)))
        );
        assert_eq!(line.verdict().0, Verdict::Gpu);
        // From 10 on two wait, from 20 on one, and from 30 to 40 none. Each nanosecond is a stretch.
        assert_eq!(line.queue_empty_share(), Some(Ratio(10.0 / 30.0)));
        let queue = &context.results.idle().unwrap().queues[0];
        assert_eq!(
            (queue.window, queue.busy.as_slice()),
            ((Ns(10), Ns(40)), &[(Ns(10), Ns(40))][..])
        );
        let expected = (10..40)
            .map(|start| 3 - start / 10)
            .map(|depth| (Count(depth as f64), depth));
        assert_eq!(queue.bins, expected.collect::<Vec<_>>());
    });
}

/// A gap from 10 to 30, ended by a launch call from 15 to 25: 5 before it, 10 in it, 5 after it.
#[test]
fn launching_is_in_calls_and_between_them() {
    let session = trace(
        "range prefill 0..26
         launch 0..1 -> axpy 2..10
         launch 15..25 -> axpy 30..32",
    );
    of_line(&session, "prefill", |line, _| {
        assert_eq!(
            (line.of(Cause::Launching), line.launching_in_calls),
            (Ns(15), Ns(10))
        );
        // 20 of 30 idle; busy 8 + 2, and 5 of latency: less than 15 of launching.
        assert_eq!(line.verdict(), (Verdict::Launch, Ratio(0.5)));
        assert_eq!(
            (line.idle(), line.of_stage(Cause::Launching)),
            (Ns(20), Ok(Time(15.0)))
        );
        assert_eq!(line.of_stage(Cause::Sync), Ok(Time::ZERO));
        // Nobody traced the operating system: not 0.
        assert!(line.of_stage(Cause::Os).is_err());
    });
}

/// A stage from 0 to 200; between kernels until 10 and from 180 on the thread reads from 20 to 90 and, within a longer call
/// of another library, from 100 to 160, before it launches at 170.
#[test]
fn calls_of_the_system_are_named_by_their_time_in_gaps() {
    let session = trace(
        "range prefill 0..200
         launch 0..1 -> axpy 2..10
         os read 5..9
         os read 20..90
         os read 100..160
         os fread 95..165
         launch 170..175 -> axpy 180..190",
    );
    of_line(&session, "prefill", |line, context| {
        let named = line
            .os_calls
            .iter()
            .map(|(name, time)| (context.session.text(*name), *time));
        assert_eq!(
            named.collect::<Vec<_>>(),
            [("fread", Ns(70)), ("read", Ns(70))]
        );
        assert_eq!(line.of(Cause::Os), Ns(140));
    });
}

/// Eleven steps of 1 ms busy and 1 ms in which the host computes; the second allocates for 24 ms more.
#[test]
fn what_one_step_of_eleven_does_is_told_as_such() {
    let (mut events, mut at) = (String::new(), 0);
    for step in 0..11 {
        let more = if step == 1 { 24_000 * US } else { 0 };
        let (half, second, end) = (at + 500 * US, at + 1500 * US + more, at + 2000 * US + more);
        events += &format!("range step {at}..{end}\n");
        events += &format!("launch {at}..{} -> forward {}..{half}\n", at + 10, at + 10);
        if more > 0 {
            events += &format!("cudaMalloc {half}..{}\n", half + more);
        }
        events += &format!(
            "launch {}..{second} -> backward {second}..{end}\n",
            second - 10
        );
        at = end;
    }
    let mut session = trace(&events);
    session.workload.warmup = Some(0);
    stage(&mut session, "step");
    of_line(&session, "step", |line, context| {
        // The time of a step is from its first kernel on: 10 ns less.
        let (time, slow) = (2000 * US - 10, 26_000 * US - 10);
        assert_eq!(line.pool.time, Ns(10 * time + slow));
        let spread = line.spread(&[Cause::Allocator]);
        assert_eq!(
            (spread.instances, spread.of, spread.is_rare()),
            (1, 11, true)
        );
        let most = Ratio((24_000 * US) as f64 / slow as f64);
        assert_eq!((spread.least, spread.most), (Ratio::ZERO, most));
        assert_eq!(line.of(Cause::Allocator), Ns(24_000 * US));
        assert_eq!(line.median_of(Cause::Allocator), Ok(Time::ZERO));
        let spread = line.spread(&[Cause::HostCode]);
        assert_eq!((spread.instances, spread.is_rare()), (11, false));
        // The one that allocates is not what the others are like.
        assert_ne!(line.nearest(context.facts).unwrap().ordinal, 1);
    });
}

/// The GPU waits from 10 to 200 030 and the call returns at 200 025: samples at 9 and 200 026 are outside, one of another
/// library is in the call, two of one function are before it.
#[test]
fn cpu_samples_count_while_the_gpu_waits_for_the_host() {
    let session = trace(
        "range decode 0..300_000
         launch 0..1 -> axpy 2..10
         sample python3.12 _PyEval_EvalFrameDefault 9
         sample python3.12 _PyEval_EvalFrameDefault 10
         sample python3.12 _PyEval_EvalFrameDefault 150_000
         sample python3.12 _PyEval_EvalFrameDefault 200_026
         sample libcuda.so.580.95.05 200_022
         launch 200_020..200_025 -> axpy 200_030..200_032",
    );
    of_line(&session, "decode", |line, context| {
        let text = |id| context.session.text(id).to_owned();
        let libraries = line.libraries(context.session);
        let libraries: Vec<_> = libraries
            .iter()
            .map(|(id, count)| (text(*id), *count))
            .collect();
        assert_eq!(
            libraries,
            [("python3.12".into(), 2), ("libcuda.so.580.95.05".into(), 1)]
        );
        let first = line.sampled[0];
        assert_eq!(
            (text(first.function), first.samples),
            ("_PyEval_EvalFrameDefault".into(), 2)
        );
        assert_eq!(line.samples(), 3);
    });
}

/// Microseconds: the GPU waits from 20 to 802 while the host collects garbage from 100 to 700.
#[test]
fn a_mark_of_the_host_names_the_gap_that_it_covers() {
    let session = trace(
        "range step 0..900us
         launch 5us..10us -> axpy 15us..20us
         range rooflens:gc generation 2 100us..700us
         launch 800us..801us -> axpy 802us..803us",
    );
    of_line(&session, "step", |line, context| {
        let gap = &line.longest[0];
        let ranges = gap.ranges.iter().map(|range| context.session.text(*range));
        assert_eq!(ranges.collect::<Vec<_>>(), ["step", "gc generation 2"]);
        assert_eq!(gap.gap.times.main(), Cause::HostCode);
    });
}

/// The same gap with a thread that no CPU ran for 150 000 of it.
#[test]
fn the_longest_gaps_say_how_long_the_thread_was_off_the_cpu() {
    let events = "range decode 0..300_000
        launch 0..1 -> axpy 2..10
        launch 200_020..200_025 -> axpy 200_030..200_032\n";
    let of_gap = |events: &str| {
        of_line(&trace(events), "decode", |line, _| {
            (line.longest[0].clone(), line.of_stage(Cause::OffCpu))
        })
    };
    let (long, time) = of_gap(&format!("{events}off-cpu -50..60\noff-cpu 50_000..199_950"));
    let gap = long.gap;
    assert_eq!(
        (gap.end - gap.start, long.off_cpu),
        (Ns(200_020), Some(Ns(150_000)))
    );
    // Of 60 before the first event 50 are the GPU's; 49 950 host code and 70 more, 5 in the call, 5 latency.
    assert_eq!(
        (gap.times.main(), time),
        (Cause::OffCpu, Ok(Time(150_000.0)))
    );
    // Without events of the scheduler it is not known: not 0.
    let (long, time) = of_gap(events);
    assert!(long.off_cpu.is_none() && time.is_err());
}

/// Three steps with a loader between: the GPU works 100, waits 50 (20 of it before `load` begins), works 100.
#[test]
fn what_lies_between_stages_is_told_with_the_range_of_the_host() {
    // The host issues the next step after loading, 1 µs before the GPU starts.
    let mut session = trace(
        "range step -2us..10us
         launch -1us..1us -> work 0us..100us
         range load 120us..148us
         range step 148us..160us
         launch 149us..151us -> work 150us..250us
         range load 270us..298us
         range step 298us..310us
         launch 299us..301us -> work 300us..400us",
    );
    stage(&mut session, "step");
    with_results(&session, |context| {
        let between = &context.results.idle().unwrap().between[0];
        assert_eq!(between.pairs.len(), 1);
        let pair = &between.pairs[0];
        let name = |stage: usize| context.facts.stages[stage].name.as_str();
        assert_eq!(
            (name(pair.from), name(pair.to), pair.windows()),
            ("step", "step", 2)
        );
        // Two times of 50 µs; the run is 3 × 100 + 2 × 50.
        assert_eq!((pair.time, pair.idle()), (Ns(100 * US), Ns(100 * US)));
        assert_eq!(between.share(pair.idle()), Ratio(0.25));
        assert_eq!(
            (pair.median(), pair.longest()),
            (Some(Time(50_000.0)), Ns(50 * US))
        );
        // The thread makes no call for 149 µs; `load` covers 28 of 50.
        assert_eq!(pair.causes.main(), Cause::HostCode);
        let (range, share) = pair.range(context.session).unwrap();
        assert_eq!(context.session.text(range), "load");
        assert_eq!(share, Ratio(0.56));
        assert_eq!(
            (between.idle(), between.share(between.idle())),
            (Ns(100_000), Ratio(0.25))
        );
        // Of each 49 µs until the call starts, and the part of the call before the GPU does.
        assert_eq!(between.host(), Ok(Ns(100_000)));
    });
}

/// Work of no stage is no idle time, and what lies next to an instance that does not count is excluded.
#[test]
fn between_stages_only_idle_time_next_to_instances_that_count_is_counted() {
    let mut session = trace(
        "range step -2us..10us
         launch -1us..1us -> work 0us..100us
         range step 148us..160us
         launch 149us..151us -> work 150us..250us
         launch 260us..261us -> outside 270us..280us
         range step 298us..310us
         launch 299us..301us -> work 300us..400us
         range step 448us..460us
         launch 449us..451us -> work 450us..550us",
    );
    session.workload.warmup = Some(1);
    stage(&mut session, "step");
    with_results(&session, |context| {
        let between = &context.results.idle().unwrap().between[0];
        // Steps 1 to 3 count: two times of 50 µs, 10 of the first with a kernel of no stage.
        assert_eq!(
            (between.idle(), between.share(between.idle())),
            (Ns(90_000), Ratio(90.0 / 400.0))
        );
    });
}

/// Activities of a stage with the microseconds of idle time, and the number of iterations that have them.
fn activities(session: &Session, name: &str) -> Vec<(Activity, i64, usize)> {
    of_line(session, name, |line, _| {
        let of_activity =
            |idle: &sources::ActivityIdle| (idle.activity, idle.time().0 / US, idle.windows());
        line.sources.activities.iter().map(of_activity).collect()
    })
}

/// Three steps of a kernel each before and after the host's work, in microseconds; nothing more in the third.
fn three_steps(first: &str, second: &str) -> Session {
    trace(&format!(
        "range step 0..1000us
         launch 0us..5us -> axpy 10us..20us
         {first}
         launch 900us..905us -> axpy 910us..920us
         range step 2000us..3000us
         launch 2000us..2005us -> axpy 2010us..2020us
         {second}
         launch 2900us..2905us -> axpy 2910us..2920us
         range step 4000us..5000us
         launch 4000us..4005us -> axpy 4010us..4020us
         launch 4900us..4905us -> axpy 4910us..4920us"
    ))
}

/// Of 890 µs idle in each step 600 lie in the mark; the gap ends 10 after the launch begins, 5 of them latency.
#[test]
fn idle_time_belongs_to_the_mark_that_is_open_in_it() {
    let session = three_steps("range rooflens:gc generation 2 100us..700us", "");
    let expected = [
        (Activity::HostCode, 280 + 2 * 880, 3),
        (Activity::GarbageCollection, 600, 1),
        (Activity::Launching, 15, 3),
        (Activity::NotHost, 15, 3),
    ];
    assert_eq!(activities(&session, "step"), expected);
    of_line(&session, "step", |line, context| {
        let collection = line.sources.of(Activity::GarbageCollection).unwrap();
        let name = collection.sources[0].subject.unwrap();
        assert_eq!(context.session.text(name), "gc generation 2");
        assert_eq!(
            (collection.gaps, &collection.by_window[..]),
            (1, &[Ns(600 * US), Ns(0), Ns(0)][..])
        );
        // 880 of host code in each step, 600 of them collection in the first.
        let rest: Vec<Ns> = line
            .instances
            .iter()
            .map(|step| step.rest(&[Cause::HostCode]))
            .collect();
        assert_eq!(rest, [Ns(280 * US), Ns(880 * US), Ns(880 * US)]);
    });
}

/// A collection within compilation belongs to the compiler, and so does the host code around it in the gap: 600 of 890
/// µs are more than half.
#[test]
fn what_a_compiler_does_belongs_to_it() {
    let marks = "range rooflens:compile inductor 100us..700us
        range rooflens:gc generation 0 200us..300us";
    let expected = [
        (Activity::HostCode, 2 * 880, 2),
        (Activity::Compilation, 885, 1),
        (Activity::NotHost, 15, 3),
        (Activity::Launching, 10, 2),
    ];
    let mut found = activities(&three_steps(marks, ""), "step");
    found.sort_by_key(|row| expected.iter().position(|other| other.0 == row.0));
    assert_eq!(found, expected);
}

/// A wait for one value: the launch after it is late because of it, host code is not. A wait for 64 KiB, and a
/// copy back to the GPU: the host code works on this data. So does any code after a wait for 1 MiB.
#[test]
fn code_after_a_wait_for_data_belongs_to_the_wait() {
    let wait = |step: i64, bytes: &str| {
        let at = |time: i64| step + time;
        format!(
            "cudaMemcpyAsync {}us..{}us -> memcpy DtoH pinned {bytes} {}us..{}us
             cudaStreamSynchronize {}us..{}us\n",
            at(5),
            at(7),
            at(21),
            at(22),
            at(7),
            at(25),
        )
    };
    let back = |step: i64| {
        let at = |time: i64| step + time;
        let (call, copy) = ((at(500), at(502)), (at(503), at(504)));
        format!(
            "cudaMemcpyAsync {}us..{}us -> memcpy HtoD pinned 64B {}us..{}us",
            call.0, call.1, copy.0, copy.1
        )
    };
    let first = wait(0, "4B") + &back(0);
    let second = wait(2000, "65536B") + &back(2000);
    of_line(&three_steps(&first, &second), "step", |line, _| {
        let waiting = line.sources.of(Activity::Synchronization).unwrap();
        // From 22 on: 3 in the call and 2 in that of the copy back; or 475 more of code.
        assert_eq!(waiting.by_window, [Ns(5 * US), Ns(480 * US), Ns(0)]);
        assert_eq!(line.sources.waits, [1, 1, 0]);
    });
    // Without a copy back the code of 875 is no part of it, but the launch call of 5 is.
    let waiting = |bytes: &str| {
        let mut time = Ns::ZERO;
        of_line(&three_steps("", &wait(2000, bytes)), "step", |line, _| {
            time = line.sources.time(Activity::Synchronization);
        });
        time
    };
    assert_eq!(waiting("65536B"), Ns(8 * US));
    assert_eq!(waiting("1MiB"), Ns((8 + 875) * US));
}

/// Four waits after one launch each are a loop; to copy to the GPU is no wait for a result.
#[test]
fn idle_time_between_waits_in_a_loop_belongs_to_them() {
    let turns = |kind: &str| {
        let turn = |turn: i64| {
            let at = 100 * turn;
            format!(
                "launch {}us..{}us -> axpy {}us..{}us
                 cudaMemcpyAsync {}us..{}us -> memcpy {kind} pinned 4B {}us..{}us
                 cudaStreamSynchronize {}us..{}us\n",
                at,
                at + 2,
                at + 3,
                at + 4,
                at + 5,
                at + 6,
                at + 7,
                at + 8,
                at + 6,
                at + 9,
            )
        };
        let turns: String = (0..4).map(turn).collect();
        trace(&format!(
            "range step 0..1000us\n{turns}launch 400us..402us -> axpy 403us..404us"
        ))
    };
    let time = |session: &Session| {
        of_line(session, "step", |line, _| {
            line.sources.time(Activity::Synchronization)
        })
    };
    // After each copy 1 in the call, 91 of code and 2 in the next launch; before the copies but the first 2.
    assert_eq!(time(&turns("DtoH")), Ns((4 * 94 + 3 * 2) * US));
    assert_eq!(time(&turns("HtoD")), Ns(4 * US));
}

/// The thread of the backward pass waits for the main thread, which collects garbage.
#[test]
fn while_the_issuing_thread_waits_the_thread_of_the_stage_counts() {
    let session = trace(
        "range step 0..1000us
         launch 0us..5us -> axpy 10us..20us
         range rooflens:gc generation 2 100us..700us
         thread 2
         os pthread_cond_wait 1us..800us
         launch 900us..905us -> axpy 910us..920us",
    );
    let found = activities(&session, "step");
    assert!(
        found.contains(&(Activity::GarbageCollection, 600, 1)),
        "{found:?}"
    );
}

/// 980 µs between two steps: 500 in a loader, which is no part of either.
#[test]
fn idle_time_between_stages_and_before_them_has_sources_too() {
    let session = trace(
        "launch -500us..-495us -> axpy -490us..-480us
         range step 0..50us
         launch 0us..5us -> axpy 10us..20us
         range rooflens:enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ 300us..800us
         range step 1000us..1050us
         launch 1000us..1005us -> axpy 1010us..1020us",
    );
    with_results(&session, |context| {
        let idle = context.results.idle().unwrap();
        let pair = &idle.between[0].pairs[0];
        assert_eq!(pair.sources.time(Activity::DataLoader), Ns(500 * US));
        assert_eq!(pair.sources.windows, 1);
        let before = idle
            .outside
            .iter()
            .find(|phase| phase.phase == Phase::BeforeStages);
        // From the end of the first kernel to the start of the first step: 490, of which 5 latency.
        let before = &before.unwrap().sources;
        assert_eq!(
            before.time(Activity::HostCode) + before.time(Activity::Launching),
            Ns(485 * US)
        );
    });
}
