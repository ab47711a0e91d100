//! Small sessions whose gaps are explained by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::workload::StageRule;

use super::gaps::Gaps;
use super::*;
use crate::Context;
use crate::testing::Made;
use rooflens_model::{GpuId, MemoryKind, Ns};

const US: Ns = 1000;

fn gaps(made: &Made) -> Vec<(Ns, Ns, Cause)> {
    made.with(|context| {
        let calls = Calls::new(context.session, &context.facts.ops);
        let gaps = Gaps::new(context, &calls);
        let all = gaps.within(GpuId(0), (Ns::MIN / 4, Ns::MAX / 4));
        all.map(|(gap, _)| (gap.start, gap.end, gap.cause)).collect()
    })
}

/// What `look` gives of the line of the stage of that name.
fn of_line<T>(made: &Made, stage: &str, look: impl FnOnce(&Line, &Context<'_>) -> T) -> T {
    made.with(|context| {
        let mut lines = context.results.idle().unwrap().lines.iter();
        let own = |line: &&Line| line.summary.stage(context.facts).name == stage;
        look(lines.find(own).unwrap(), context)
    })
}

fn stage(made: &mut Made, name: &str) {
    let (name, pattern, kind) = (name.to_owned(), None, None);
    made.session.workload.stages.push(StageRule { name, pattern, kind });
}

/// A kernel until 100, then what `add` makes: the cause of the gap that begins there.
fn cause_after_100(add: impl FnOnce(&mut Made)) -> Cause {
    let mut made = Made::timeline();
    made.call("cudaLaunchKernel", -20, -10, 1);
    made.kernel_at("axpy", 0, 100, 1);
    add(&mut made);
    let gaps = gaps(&made);
    assert_eq!((gaps.len(), gaps[0].0), (1, 100));
    gaps[0].2
}

/// The kernel of a launch call that starts at `start` and lasts 10, another 5 after its return.
fn launch(made: &mut Made, start: Ns) {
    made.call("cudaLaunchKernel", start, start + 10, 2);
    made.kernel_at("axpy", start + 15, start + 20, 2);
}

#[test]
fn the_host_issues_or_computes_by_the_length_of_its_pauses() {
    // The thread made no call from -10 on: a pause of 99 999 until 99 989, and one of 100 000.
    assert_eq!(cause_after_100(|made| launch(made, 99_989)), Cause::Launching);
    assert_eq!(cause_after_100(|made| launch(made, 99_990)), Cause::HostCode);
    // A call in between makes two pauses of it.
    let cause = cause_after_100(|made| {
        made.call("cudaEventRecord", 50_000, 50_010, 3);
        launch(made, 120_000);
    });
    assert_eq!(cause, Cause::Launching);
}

/// Gaps of 100, from 100 to 200: what covers 50 of it is the cause.
#[test]
fn what_covers_half_of_the_gap_is_its_cause() {
    for (length, covered) in [(49, false), (50, true)] {
        for (name, cause) in [
            ("cudaStreamSynchronize", Cause::Sync),
            ("cudaMalloc", Cause::Allocator),
            ("cudaGraphInstantiateWithFlags", Cause::Allocator),
            ("cudaMemcpy", Cause::Copy),
        ] {
            let found = cause_after_100(|made| {
                // It began long before: only what lies in the gap counts.
                made.call(name, 20, 100 + length, 3);
                launch(made, 185);
            });
            assert_eq!(found, if covered { cause } else { Cause::Launching }, "{name}");
        }
        let os = cause_after_100(|made| {
            made.os_call(100, 100 + length);
            launch(made, 185);
        });
        assert_eq!(os, if covered { Cause::Os } else { Cause::Launching });
        let profiler = cause_after_100(|made| {
            made.overhead(100, 100 + length);
            made.call("cudaStreamSynchronize", 100, 180, 3);
            launch(made, 185);
        });
        assert_eq!(profiler, if covered { Cause::Profiler } else { Cause::Sync });
    }
}

/// A gap from 100 to 200, ended by a call from 185 to 195.
#[test]
fn without_a_cpu_and_a_call_that_says_why_the_thread_is_off_it() {
    let cause = |off: Ns, add: &dyn Fn(&mut Made)| {
        cause_after_100(|made| {
            made.off_cpu(90, 100 + off);
            add(made);
            launch(made, 185);
        })
    };
    assert_eq!(cause(49, &|_| ()), Cause::Launching);
    assert_eq!(cause(50, &|_| ()), Cause::OffCpu);
    // Of 60 the system explains 10 or 11, and so does a CUDA call, whatever it is.
    assert_eq!(cause(60, &|made| made.os_call(100, 110)), Cause::OffCpu);
    assert_eq!(cause(60, &|made| made.os_call(100, 111)), Cause::Launching);
    assert_eq!(cause(60, &|made| made.call("cudaEventRecord", 100, 110, 3)), Cause::OffCpu);
    assert_eq!(cause(60, &|made| made.call("cudaEventRecord", 100, 111, 3)), Cause::Launching);
    // What both explain counts once: 20 of 70.
    let both = |made: &mut Made| {
        made.os_call(100, 115);
        made.call("cudaEventRecord", 110, 120, 3);
    };
    assert_eq!((cause(70, &both), cause(69, &both)), (Cause::OffCpu, Cause::Launching));
    // A synchronizing call of half of the gap goes first.
    let sync = |made: &mut Made| made.call("cudaStreamSynchronize", 100, 150, 3);
    assert_eq!(cause(85, &sync), Cause::Sync);
}

/// The call returned at 110; what becomes of its thread then is not why the GPU waits.
#[test]
fn a_thread_that_has_issued_the_operation_may_leave_the_cpu() {
    let cause = cause_after_100(|made| {
        made.off_cpu(110, 199);
        made.call("cudaLaunchKernel", 105, 110, 2);
        made.kernel_at("axpy", 200, 210, 2);
    });
    assert_eq!(cause, Cause::Launching);
}

/// Waiting for a lock within a launch call is part of that call.
#[test]
fn calls_of_the_system_within_cuda_calls_do_not_count() {
    let cause = cause_after_100(|made| {
        made.os_call(105, 190);
        made.call("cudaLaunchKernel", 105, 190, 2);
        made.kernel_at("axpy", 195, 200, 2);
    });
    assert_eq!(cause, Cause::Launching);
}

#[test]
fn a_copy_blocks_if_its_host_memory_is_pageable() {
    for (memory, cause) in
        [(MemoryKind::Pageable, Cause::Copy), (MemoryKind::Pinned, Cause::Launching)]
    {
        let found = cause_after_100(|made| {
            made.call("cudaMemcpyAsync", 110, 190, 2);
            made.copy_at(memory, 180, 189, 2);
        });
        assert_eq!(found, cause);
    }
}

#[test]
fn work_that_was_issued_before_the_gap_waits_in_the_queue() {
    let after = |end: Ns, name: &'static str| {
        cause_after_100(move |made| {
            made.call("cudaLaunchKernel", 20, end, 2);
            made.kernel_at(name, 200, 210, 2);
        })
    };
    assert_eq!(after(100, "axpy"), Cause::Queue);
    // The call had not returned.
    assert_eq!(after(101, "axpy"), Cause::Launching);
    assert_eq!(after(100, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), Cause::Communication);
}

#[test]
fn without_a_call_or_with_one_that_comes_too_late_the_cause_is_unknown() {
    assert_eq!(cause_after_100(|made| made.kernel_at("axpy", 200, 210, 9)), Cause::Unknown);
    let late = |made: &mut Made| {
        made.call("cudaLaunchKernel", 201, 205, 2);
        made.kernel_at("axpy", 200, 210, 2);
    };
    assert_eq!(cause_after_100(late), Cause::Unknown);
}

/// A graph launch that returns at 100: only the gap before its first kernel is the host's.
#[test]
fn kernels_of_one_graph_launch_wait_for_each_other() {
    let mut made = Made::timeline();
    made.call("cudaLaunchKernel", 0, 5, 1);
    made.kernel_at("axpy", 6, 10, 1);
    made.call("cudaGraphLaunch", 15, 100, 2);
    for start in [20, 30, 40] {
        made.kernel_at("axpy", start, start + 5, 2);
    }
    let (host, queue) = (Cause::Launching, Cause::Queue);
    assert_eq!(gaps(&made), [(10, 20, host), (25, 30, queue), (35, 40, queue)]);
}

/// Stage: [0, 10) and [30, 40). Another stage's kernel at [15, 20). Idle 20 = 5 + 10 of gaps + 5 of other work.
#[test]
fn operations_of_others_are_no_gaps() {
    let mut made = Made::timeline();
    made.range_at("prefill", -10, 0);
    made.call("cudaLaunchKernel", -10, -9, 1);
    made.call("cudaLaunchKernel", -8, -7, 2);
    made.kernel_at("axpy", 0, 10, 1);
    made.kernel_at("axpy", 30, 40, 2);
    made.range_at("decode", 1, 9);
    made.call("cudaLaunchKernel", 2, 3, 3);
    made.kernel_at("axpy", 15, 20, 3);
    of_line(&made, "prefill", |line, _| {
        let of = |cause: Cause| line.sums[cause as usize].time;
        assert_eq!((of(Cause::Queue), of(Cause::OtherWork), of(Cause::Unknown)), (15, 5, 0));
    });
}

/// Calls return at 5, 6 and 7, kernels begin at 10, 20 and 30 without a gap: waits 5, 14, 23. Over the busy
/// time of 30 the second waits 10 and the third 20: a mean depth of 1, and 3 before the first begins.
#[test]
fn the_queue_of_three_launches() {
    let mut made = Made::timeline();
    made.range_at("prefill", 0, 8);
    for number in 0..3 {
        made.call("cudaLaunchKernel", 4 + number, 5 + number, number);
        made.kernel_at("axpy", 10 + 10 * number, 20 + 10 * number, number);
    }
    of_line(&made, "prefill", |line, context| {
        let launches = &line.launches;
        assert_eq!(launches.queue_time, Some(14.0));
        assert_eq!((launches.depth_mean(), launches.depth_max), (Some(1.0), 3));
        assert_eq!((launches.calls, launches.begun_in_call), (3, 0));
        assert_eq!((launches.mean_call(), launches.mean_kernel()), (Some(1.0), Some(10.0)));
        assert_eq!(line.verdict().0, Verdict::Gpu);
        // From 10 on two wait, from 20 on one, and from 30 to 40 none. Each nanosecond is a stretch.
        assert_eq!(line.queue_empty_share(), Some(10.0 / 30.0));
        let queue = &context.results.idle().unwrap().queues[0];
        assert_eq!((queue.window, queue.busy.as_slice()), ((10, 40), &[(10, 40)][..]));
        let expected = (10..40).map(|start| 3 - start / 10).map(|depth| (depth as f64, depth));
        assert_eq!(queue.bins, expected.collect::<Vec<_>>());
    });
}

/// A gap from 10 to 30, ended by a launch call from 15 to 25: 5 before it, 10 in it, 5 after it.
#[test]
fn launching_is_in_calls_between_them_and_after_them() {
    let mut made = Made::timeline();
    made.range_at("prefill", 0, 26);
    made.call("cudaLaunchKernel", 0, 1, 1);
    made.kernel_at("axpy", 2, 10, 1);
    made.call("cudaLaunchKernel", 15, 25, 2);
    made.kernel_at("axpy", 30, 32, 2);
    of_line(&made, "prefill", |line, _| {
        let issuing = line.issuing;
        assert_eq!((issuing.calls, issuing.between, issuing.latency), (10, 5, 5));
        // 20 of 30 idle; busy 8 + 2.
        assert_eq!(line.verdict(), (Verdict::Launch, 20.0 / 30.0));
        assert_eq!((line.idle(), line.typical(Cause::Launching)), (20, Ok(20.0)));
        assert_eq!(line.typical(Cause::Sync), Ok(0.0));
        // Nobody traced the operating system: not 0.
        assert!(line.typical(Cause::Os).is_err());
    });
}

/// The same gap with a thread that no CPU ran for 150 000 of it.
#[test]
fn the_longest_gaps_say_how_long_the_thread_was_off_the_cpu() {
    let made = |off: bool| {
        let mut made = Made::timeline();
        made.range_at("decode", 0, 300_000);
        made.call("cudaLaunchKernel", 0, 1, 1);
        made.kernel_at("axpy", 2, 10, 1);
        if off {
            made.off_cpu(-50, 60);
            made.off_cpu(50_000, 199_950);
        }
        made.call("cudaLaunchKernel", 200_020, 200_025, 2);
        made.kernel_at("axpy", 200_030, 200_032, 2);
        of_line(&made, "decode", |line, _| (line.longest[0].clone(), line.typical(Cause::OffCpu)))
    };
    let (long, time) = made(true);
    let gap = long.gap;
    assert_eq!((gap.end - gap.start, long.off_cpu), (200_020, Some(150_000)));
    assert_eq!((gap.cause, time), (Cause::OffCpu, Ok(200_020.0)));
    // Without events of the scheduler it is not known: not 0.
    let (long, time) = made(false);
    assert!(long.off_cpu.is_none() && time.is_err());
}

/// Three steps with a loader between: the GPU works 100, waits 50 (20 of it before `load` begins), works 100.
#[test]
fn what_lies_between_stages_is_told_with_the_range_of_the_host() {
    let mut made = Made::timeline();
    for step in 0..3 {
        let at = step * 150 * US;
        if step > 0 {
            // The host issues the next step after loading, 1 µs before the GPU starts.
            made.range_at("load", at - 30 * US, at - 2 * US);
        }
        made.range_at("step", at - 2 * US, at + 10 * US);
        made.call("cudaLaunchKernel", at - US, at + US, step);
        made.kernel_at("work", at, at + 100 * US, step);
    }
    stage(&mut made, "step");
    made.with(|context| {
        let between = &context.results.idle().unwrap().between[0];
        assert_eq!(between.pairs.len(), 1);
        let pair = &between.pairs[0];
        let name = |stage: usize| context.facts.stages[stage].name.as_str();
        assert_eq!((name(pair.after), name(pair.before), pair.windows()), ("step", "step", 2));
        // Two times of 50 µs; the run is 3 × 100 + 2 × 50.
        assert_eq!((pair.time, pair.idle()), (100 * US, 100 * US));
        assert_eq!(between.share(pair.idle()), 0.25);
        assert_eq!((pair.median(), pair.longest()), (Some(50_000.0), 50 * US));
        // The thread makes no call for 149 µs; `load` covers 28 of 50.
        assert_eq!(pair.cause(), Cause::HostCode);
        let (range, share) = pair.range(context.session).unwrap();
        assert_eq!((context.session.text(range), share), ("load", 0.56));
        assert_eq!((between.idle(), between.share(between.idle())), (100_000, 0.25));
        assert_eq!(between.host(), Ok(100_000));
    });
}

/// Work of no stage is no idle time, and what lies next to an instance that does not count is left out.
#[test]
fn between_stages_only_idle_time_next_to_instances_that_count_is_counted() {
    let mut made = Made::timeline();
    for step in 0..4 {
        let at = step * 150 * US;
        made.range_at("step", at - 2 * US, at + 10 * US);
        made.call("cudaLaunchKernel", at - US, at + US, step);
        made.kernel_at("work", at, at + 100 * US, step);
    }
    made.call("cudaLaunchKernel", 260 * US, 261 * US, 9);
    made.kernel_at("outside", 270 * US, 280 * US, 9);
    made.session.workload.warmup = Some(1);
    stage(&mut made, "step");
    made.with(|context| {
        let between = &context.results.idle().unwrap().between[0];
        // Steps 1 to 3 count: two times of 50 µs, 10 of the first with a kernel of no stage.
        assert_eq!((between.idle(), between.share(between.idle())), (90_000, 90.0 / 400.0));
    });
}
