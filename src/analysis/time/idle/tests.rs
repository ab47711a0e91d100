//! Small sessions whose gaps are explained by hand.

mod between;

use rooflens_schemas::PassKind;
use rooflens_schemas::workload::StageRule;

use super::*;
use crate::analysis::{Facts, Options};
use crate::findings::Cell;
use crate::findings::chart::Track;
use crate::hardware::Hardware;
use crate::model::*;

const US: Ns = 1000;

/// One process with one thread and one GPU.
pub(crate) struct Made {
    pub(crate) session: Session,
    pass: PassId,
    process: ProcessId,
    thread: ThreadId,
}

impl Made {
    pub(crate) fn new() -> Self {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
        let process = session.process(pass, 7, 7);
        let thread = session.thread(process, 7);
        session.gpu(pass, 0);
        Self { session, pass, process, thread }
    }

    pub(crate) fn call(&mut self, name: &str, start: Ns, end: Ns, correlation: i64) {
        self.session.api_calls.push(ApiCall {
            start,
            end,
            name: self.session.strings.intern(name),
            level: ApiLevel::Runtime,
            nested: false,
            pass: self.pass,
            process: self.process,
            thread: self.thread,
            correlation: Some(correlation),
        });
    }

    pub(crate) fn kernel(&mut self, name: &str, start: Ns, end: Ns, correlation: i64) {
        let kernel = self.session.kernel(name, name);
        self.session.launches.push(Launch {
            start,
            end,
            kernel,
            pass: self.pass,
            gpu: GpuId(0),
            process: self.process,
            stream: 7,
            correlation: Some(correlation),
            grid: Dim3::default(),
            block: Dim3::default(),
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        });
    }

    pub(crate) fn copy(&mut self, host: MemoryKind, start: Ns, end: Ns, correlation: i64) {
        self.session.copies.push(Copy {
            start,
            end,
            kind: CopyKind::HostToDevice,
            bytes: 1,
            source: host,
            destination: MemoryKind::Device,
            pass: self.pass,
            gpu: GpuId(0),
            process: self.process,
            stream: 7,
            correlation: Some(correlation),
            graph_node: None,
            graph: None,
        });
    }

    pub(crate) fn range(&mut self, name: &str, start: Ns, end: Ns) {
        self.session.ranges.push(Range {
            start,
            end,
            name: self.session.strings.intern(name),
            domain: StrId::default(),
            kind: RangeKind::PushPop,
            unclosed: false,
            pass: self.pass,
            thread: self.thread,
        });
    }

    fn os_call(&mut self, start: Ns, end: Ns) {
        let (pass, thread, name) = (self.pass, self.thread, self.session.strings.intern("read"));
        self.session.os_calls.push(OsCall { start, end, name, pass, thread });
    }

    fn off_cpu(&mut self, start: Ns, end: Ns) {
        let (pass, thread) = (self.pass, self.thread);
        self.session.off_cpu.push(OffCpuTime { start, end, pass, thread });
    }

    fn overhead(&mut self, start: Ns, end: Ns) {
        let (pass, process, thread) = (self.pass, self.process, self.thread);
        let name = self.session.strings.intern("CUPTI Buffer flush");
        self.session.overheads.push(Overhead { start, end, name, pass, process, thread });
    }

    fn stage(&mut self, name: &str) {
        let (name, pattern, kind) = (name.to_owned(), None, None);
        self.session.workload.stages.push(StageRule { name, pattern, kind });
    }

    /// Calls `test` with the context of this session.
    pub(crate) fn with<T>(&self, test: impl FnOnce(&Context<'_>) -> T) -> T {
        let (facts, hardware, options) =
            (Facts::new(&self.session), Hardware::default(), Options::default());
        let session = &self.session;
        let context = Context::new(session, &facts, &hardware, &options);
        test(&context.with(&crate::analysis::Results::compute(&context)))
    }

    fn gaps(&self) -> Vec<(Ns, Ns, Cause)> {
        self.with(|context| {
            let calls = Calls::new(context.session, &context.facts.ops);
            let gaps = Gaps::new(context, &calls);
            let all = gaps.within(GpuId(0), (Ns::MIN / 4, Ns::MAX / 4));
            all.map(|(gap, _)| (gap.start, gap.end, gap.cause)).collect()
        })
    }

    pub(crate) fn findings(&self) -> Findings {
        self.with(run)
    }
}

/// A kernel until 100, then what `add` makes: the cause of the gap that begins there.
fn cause_after_100(add: impl FnOnce(&mut Made)) -> Cause {
    let mut made = Made::new();
    made.call("cudaLaunchKernel", -20, -10, 1);
    made.kernel("axpy", 0, 100, 1);
    add(&mut made);
    let gaps = made.gaps();
    assert_eq!((gaps.len(), gaps[0].0), (1, 100));
    gaps[0].2
}

/// The kernel of a launch call that starts at `start` and lasts 10, another 5 after its return.
fn launch(made: &mut Made, start: Ns) {
    made.call("cudaLaunchKernel", start, start + 10, 2);
    made.kernel("axpy", start + 15, start + 20, 2);
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
        made.kernel("axpy", 200, 210, 2);
    });
    assert_eq!(cause, Cause::Launching);
}

/// Waiting for a lock within a launch call is part of that call.
#[test]
fn calls_of_the_system_within_cuda_calls_do_not_count() {
    let cause = cause_after_100(|made| {
        made.os_call(105, 190);
        made.call("cudaLaunchKernel", 105, 190, 2);
        made.kernel("axpy", 195, 200, 2);
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
            made.copy(memory, 180, 189, 2);
        });
        assert_eq!(found, cause);
    }
}

#[test]
fn work_that_was_issued_before_the_gap_waits_in_the_queue() {
    let after = |end: Ns, name: &'static str| {
        cause_after_100(move |made| {
            made.call("cudaLaunchKernel", 20, end, 2);
            made.kernel(name, 200, 210, 2);
        })
    };
    assert_eq!(after(100, "axpy"), Cause::Queue);
    // The call had not returned.
    assert_eq!(after(101, "axpy"), Cause::Launching);
    assert_eq!(after(100, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), Cause::Communication);
}

#[test]
fn without_a_call_or_with_one_that_comes_too_late_the_cause_is_unknown() {
    assert_eq!(cause_after_100(|made| made.kernel("axpy", 200, 210, 9)), Cause::Unknown);
    let late = |made: &mut Made| {
        made.call("cudaLaunchKernel", 201, 205, 2);
        made.kernel("axpy", 200, 210, 2);
    };
    assert_eq!(cause_after_100(late), Cause::Unknown);
}

/// A graph launch that returns at 100: only the gap before its first kernel is the host's.
#[test]
fn kernels_of_one_graph_launch_wait_for_each_other() {
    let mut made = Made::new();
    made.call("cudaLaunchKernel", 0, 5, 1);
    made.kernel("axpy", 6, 10, 1);
    made.call("cudaGraphLaunch", 15, 100, 2);
    for start in [20, 30, 40] {
        made.kernel("axpy", start, start + 5, 2);
    }
    let (host, queue) = (Cause::Launching, Cause::Queue);
    assert_eq!(made.gaps(), [(10, 20, host), (25, 30, queue), (35, 40, queue)]);
}

/// A cell of the row of `dataset` whose first columns hold these texts.
fn cell<'a>(findings: &'a Findings, dataset: &str, keys: &[(&str, &str)], id: &str) -> &'a Cell {
    let dataset = findings.datasets.iter().find(|one| one.id == dataset).expect("the data set");
    let column = |id: &str| dataset.columns.iter().position(|one| one.id == id).expect("a column");
    let matches = |row: &&Vec<Cell>| {
        keys.iter().all(|(key, value)| row[column(key)] == Cell::Text((*value).to_owned()))
    };
    &dataset.rows.iter().find(matches).expect("the row")[column(id)]
}

/// Stage: [0, 10) and [30, 40). Another stage's kernel at [15, 20). Idle 20 = 5 + 10 of gaps + 5 of other work.
#[test]
fn operations_of_others_are_no_gaps() {
    let mut made = Made::new();
    made.range("prefill", -10, 0);
    made.call("cudaLaunchKernel", -10, -9, 1);
    made.call("cudaLaunchKernel", -8, -7, 2);
    made.kernel("axpy", 0, 10, 1);
    made.kernel("axpy", 30, 40, 2);
    made.range("decode", 1, 9);
    made.call("cudaLaunchKernel", 2, 3, 3);
    made.kernel("axpy", 15, 20, 3);
    let findings = made.findings();
    let of = |cause| cell(&findings, "idle", &[("stage", "prefill"), ("cause", cause)], "total_ns");
    assert_eq!(of("queue, latency"), &Cell::Int(15));
    assert_eq!(of("other work"), &Cell::Int(5));
    assert_eq!(of("unknown"), &Cell::Int(0));
}

/// Calls return at 5, 6 and 7, kernels begin at 10, 20 and 30 without a gap: waits 5, 14, 23. Over the busy
/// time of 30 the second waits 10 and the third 20: a mean depth of 1, and 3 before the first begins.
#[test]
fn the_queue_of_three_launches() {
    let mut made = Made::new();
    made.range("prefill", 0, 8);
    for number in 0..3 {
        made.call("cudaLaunchKernel", 4 + number, 5 + number, number);
        made.kernel("axpy", 10 + 10 * number, 20 + 10 * number, number);
    }
    let findings = made.findings();
    let of = |id| cell(&findings, "launch_figures", &[("stage", "prefill")], id);
    assert_eq!(of("queue_time_ns"), &Cell::Float(14.0));
    assert_eq!(of("queue_depth_mean"), &Cell::Float(1.0));
    assert_eq!(of("queue_depth_max"), &Cell::Int(3));
    assert_eq!(of("launches"), &Cell::Int(3));
    assert_eq!(of("launch_api_mean_ns"), &Cell::Float(1.0));
    assert_eq!(of("kernel_mean_ns"), &Cell::Float(10.0));
    assert_eq!(of("begun_in_call"), &Cell::Int(0));
    assert_eq!(of("verdict"), &Cell::Text("GPU-bound".to_owned()));
    // From 10 on two wait, from 20 on one, and from 30 to 40 none. Each nanosecond is a stretch.
    assert_eq!(of("queue_empty_share"), &Cell::Float(10.0 / 30.0));
    let queue = findings.datasets.iter().find(|one| one.id == "queue_over_time").expect("a queue");
    let depths = queue.rows.iter().map(|row| (row[3].clone(), row[5].clone(), row[6].clone()));
    let expected = (10..40).map(|start| {
        let depth = 3 - start / 10;
        (Cell::Int(start), Cell::Float(depth as f64), Cell::Int(depth))
    });
    assert_eq!(depths.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    // Busy throughout: with work that waits until 30, and without from then on.
    let shares = findings.blocks.iter().find_map(|block| match block {
        Block::Chart(Chart { plot: Plot::Tracks(plot), .. }) => match &plot.tracks[1] {
            Track::Areas(areas) => Some(areas.shares.clone()),
            _ => None,
        },
        _ => None,
    });
    let (waits, empty) = ([vec![1.0; 20], vec![0.0; 10]], [vec![0.0; 20], vec![1.0; 10]]);
    assert_eq!(shares, Some(vec![waits.concat(), empty.concat(), vec![0.0; 30]]));
}

/// A gap from 10 to 30, ended by a launch call from 15 to 25: 5 before it, 10 in it, 5 after it.
#[test]
fn launching_is_in_calls_between_them_and_after_them() {
    let mut made = Made::new();
    made.range("prefill", 0, 26);
    made.call("cudaLaunchKernel", 0, 1, 1);
    made.kernel("axpy", 2, 10, 1);
    made.call("cudaLaunchKernel", 15, 25, 2);
    made.kernel("axpy", 30, 32, 2);
    let findings = made.findings();
    let of = |id| cell(&findings, "launch_figures", &[("stage", "prefill")], id);
    assert_eq!(of("launching_calls_ns"), &Cell::Int(10));
    assert_eq!(of("launching_between_ns"), &Cell::Int(5));
    assert_eq!(of("launching_latency_ns"), &Cell::Int(5));
    // 20 of 30 idle; busy 8 + 2.
    assert_eq!(of("verdict"), &Cell::Text("launch-bound".to_owned()));
    assert_eq!(of("verdict_share"), &Cell::Float(20.0 / 30.0));
    let metric = |id: &str| {
        let found = findings.metrics.iter().find(|metric| metric.id == id).expect("the metric");
        found.value.number()
    };
    assert_eq!((metric("idle"), metric("idle_launching")), (Some(20.0), Some(20.0)));
    assert_eq!(metric("idle_sync"), Some(0.0));
    // Nobody traced the operating system: not 0.
    assert_eq!(metric("idle_os"), None);
}

/// What a page shows of a gap: 10 to 200 030 in the range `layer`, in a pause of the host.
#[test]
fn the_longest_gaps_say_where_the_host_was() {
    let mut made = Made::new();
    made.range("decode", 0, 300_000);
    made.range("layer", 20, 200_050);
    made.call("cudaLaunchKernel", 0, 1, 1);
    made.kernel("axpy", 2, 10, 1);
    made.os_call(100_000, 100_030);
    for (name, start, end) in [
        ("/home/me/run/train.py(3): main", 5, 300_000),
        ("/home/me/run/data.py(7): __next__", 50, 200_010),
        ("<built-in method acquire of lock object at 0x7f00>", 100, 200_000),
        ("/home/me/run/data.py(9): other", 200_000, 200_010),
    ] {
        let name = made.session.intern(name);
        let (pass, thread) = (made.session.ranges.pass[0], made.session.ranges.thread[0]);
        made.session.frames.push(Frame { start, end, name, pass, thread });
    }
    made.call("cudaLaunchKernel", 200_020, 200_025, 2);
    made.kernel("axpy", 200_030, 200_032, 2);
    let findings = made.findings();
    let of = |id| cell(&findings, "gaps", &[("stage", "decode")], id);
    assert_eq!(of("frame"), &Cell::Name("run/data.py:7(__next__)".to_owned()));
    assert_eq!((of("start_ns"), of("length_ns")), (&Cell::Int(10), &Cell::Int(200_020)));
    assert_eq!(of("cause"), &Cell::Text("host code".to_owned()));
    // The middle of the pause from 10 to 200 020 is 100 015.
    assert_eq!(of("host"), &Cell::Text("read".to_owned()));
    assert_eq!(of("path"), &Cell::Name("decode / layer".to_owned()));
    assert_eq!(of("issued_by"), &Cell::Name("cudaLaunchKernel".to_owned()));
}

/// The same gap with a thread that no CPU ran for 150 000 of it.
#[test]
fn the_longest_gaps_say_how_long_the_thread_was_off_the_cpu() {
    let made = |off: bool| {
        let mut made = Made::new();
        made.range("decode", 0, 300_000);
        made.call("cudaLaunchKernel", 0, 1, 1);
        made.kernel("axpy", 2, 10, 1);
        if off {
            made.off_cpu(-50, 60);
            made.off_cpu(50_000, 199_950);
        }
        made.call("cudaLaunchKernel", 200_020, 200_025, 2);
        made.kernel("axpy", 200_030, 200_032, 2);
        made.findings()
    };
    let findings = made(true);
    let of = |id| cell(&findings, "gaps", &[("stage", "decode")], id);
    assert_eq!((of("length_ns"), of("off_cpu_ns")), (&Cell::Int(200_020), &Cell::Int(150_000)));
    assert_eq!(of("cause"), &Cell::Text("off CPU".to_owned()));
    let metric = |findings: &Findings| {
        findings
            .metrics
            .iter()
            .find(|metric| metric.id == "idle_off_cpu")
            .map(|one| one.value.number())
    };
    assert_eq!(metric(&findings), Some(Some(200_020.0)));
    // Without events of the scheduler it is not known: not 0.
    let findings = made(false);
    assert_eq!(cell(&findings, "gaps", &[("stage", "decode")], "off_cpu_ns"), &Cell::Missing);
    assert_eq!(metric(&findings), Some(None));
}
