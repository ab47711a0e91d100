use super::*;
use crate::testing::counters::{Metric, count, profile};
use crate::testing::{trace, with_results};
use rooflens_schemas::PassKind;
use rooflens_session::Session;

const COMPUTE: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
const DRAM: &str = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed";
const L2: &str = "lts__throughput.avg.pct_of_peak_sustained_elapsed";
const SLICE: &str = "lts__throughput.max.pct_of_peak_sustained_elapsed";
const SECTORS: &str = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed";
const L1: &str = "l1tex__throughput.avg.pct_of_peak_sustained_elapsed";

/// Kernel `k` of 1 ms in a grid of 2 × 64 blocks of 384 threads, on a GPU of 132 SMs, next to 1 ms of other kernels.
fn timeline() -> Session {
    let mut session =
        trace("stream 7: k <<<2x64,384>>> 0..1000000, other <<<5000,256>>> 1000000..2000000");
    session.gpus.sm_count[0] = Some(132);
    session
}

/// The limit of `k` with these uses of compute, DRAM, L2 and L1, and other counters.
fn limit_of(uses: [f64; 4], metrics: &[Metric<'_>]) -> Option<Cause> {
    let mut session = timeline();
    let pass = session.add_pass("ncu", PassKind::Counters, "ncu/raw.csv");
    let launch = profile(&mut session, pass, "k");
    for (name, percent) in [COMPUTE, DRAM, L2, L1].into_iter().zip(uses) {
        count(&mut session, launch, ("", name, "%", percent));
    }
    let defaults = [
        ("", "gpu__time_duration.sum", "s", 1e-3),
        ("", "launch__waves_per_multiprocessor", "", 4.0),
    ];
    for metric in metrics.iter().chain(&defaults) {
        count(&mut session, launch, *metric);
    }
    first(&session)
}

/// The first fault of the first kernel of the only stage.
fn first(session: &Session) -> Option<Cause> {
    let mut first = None;
    with_results(session, |context| {
        let limits = context.results.limits().expect("a timeline");
        first = limits.stages[0].1.kernels[0].cause().copied();
    });
    first
}

#[track_caller]
fn assert_cause(cause: Option<Cause>, reason: Reason, figure: f64, rest: f64) {
    let cause = cause.expect("a fault");
    assert_eq!(cause.reason, reason);
    assert!((cause.figure.0 - figure).abs() < 1e-9, "{cause:?}");
    assert!((cause.rest.0 - rest).abs() < 1e-9, "{cause:?}");
}

const LOADS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
const LOADED: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
const USED: &str = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio";
const LONG: &str = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio";
const SELECTED: &str = "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio";

#[test]
fn coalesced_accesses_move_the_used_sectors_only() {
    // 4 of 32 bytes of 32 sectors per request. 1000 requests need 4000 sectors: 128 kB of 512 kB in DRAM.
    let strided = [
        ("", LOADS, "", 1000.0),
        ("", LOADED, "sector", 32_000.0),
        ("", USED, "byte/sector", 4.0),
        ("", "dram__bytes.sum", "byte", 512_000.0),
    ];
    // DRAM: 80 % ÷ 4. L2 is at 96 %, but not by sectors.
    let cause = limit_of([5.0, 80.0, 96.0, 40.0], &strided);
    assert_cause(cause, Reason::Uncoalesced, 0.125, 0.2);
    // No more is needed than fits the L2 cache: DRAM is no limit. Of 64 % for 32000 sectors, 4000 take 8 %.
    let cached = [
        &strided[..],
        &[
            ("", "device__attribute_l2_cache_size", "", 5e7),
            ("", SECTORS, "%", 64.0),
        ],
    ]
    .concat();
    let cause = limit_of([5.0, 80.0, 96.0, 40.0], &cached);
    assert_cause(cause, Reason::Uncoalesced, 0.125, 0.08);
    // All threads of a warp read one word: one sector per request cannot be fewer.
    let broadcast = [
        ("", LOADS, "", 1000.0),
        ("", LOADED, "sector", 1000.0),
        ("", USED, "byte/sector", 4.0),
    ];
    assert_eq!(limit_of([5.0, 80.0, 96.0, 40.0], &broadcast), None);
    // No level is busy, and no warp is known to wait.
    assert_eq!(limit_of([62.0, 20.0, 50.0, 40.0], &strided), None);
}

#[test]
fn conflicts_add_wavefronts_to_l1() {
    let conflicts = |added| {
        [
            (
                "",
                "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
                "",
                added,
            ),
            (
                "",
                "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
                "",
                3200.0,
            ),
        ]
    };
    // 3100 of 3200 wavefronts: 1 ÷ 32 of 96 % is 3 %; then SMs, at 10 %, are the busiest.
    let cause = limit_of([10.0, 2.0, 2.0, 96.0], &conflicts(3100.0));
    assert_cause(cause, Reason::BankConflicts, 0.96875, 0.1);
    assert_eq!(limit_of([10.0, 2.0, 2.0, 96.0], &conflicts(900.0)), None);
}

#[test]
fn local_memory_moves_sectors_that_global_memory_does_not() {
    let local = [
        ("", LOADS, "", 250.0),
        ("", LOADED, "sector", 1000.0),
        (
            "",
            "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
            "sector",
            5000.0,
        ),
        (
            "",
            "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
            "sector",
            4000.0,
        ),
        ("", "dram__bytes.sum", "byte", 320_000.0),
    ];
    // 32 kB of 320 kB at 70 %.
    let cause = limit_of([5.0, 70.0, 65.0, 20.0], &local);
    assert_cause(cause, Reason::LocalMemory, 0.9, 0.07);
    let spills = [
        &local[..],
        &[("", "sass__inst_executed_register_spilling", "", 9.0)],
    ]
    .concat();
    let cause = limit_of([5.0, 70.0, 65.0, 20.0], &spills).expect("a fault");
    assert!(cause.spills);
    // Half of the warps wait for memory that is in use; without that, local memory is in the caches.
    let waits = |wait| {
        [
            &local[..],
            &[("", LONG, "inst", wait), ("", SELECTED, "inst", 1.0)],
        ]
        .concat()
    };
    let reason = |wait| limit_of([62.0, 35.0, 44.0, 20.0], &waits(wait)).map(|cause| cause.reason);
    assert_eq!(reason(1.0), Some(Reason::LocalMemory));
    assert_eq!(reason(0.9), None);
}

#[test]
fn atomics_of_which_no_unit_is_busy_wait_for_each_other() {
    let atomics = |count, waves| {
        [
            (
                "",
                "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
                "",
                count,
            ),
            ("", LOADS, "", 900.0),
            ("", LOADED, "sector", 3600.0),
            ("", "dram__bytes.sum", "byte", 460_800.0),
            ("", LONG, "inst", 9.0),
            ("", SELECTED, "inst", 1.0),
            ("", "launch__waves_per_multiprocessor", "", waves),
        ]
    };
    let cause = limit_of([8.0, 3.0, 6.0, 2.0], &atomics(100.0, 4.0));
    // 3600 sectors are 115.2 kB of 460.8 kB at 3 %. The atomics, too, keep SMs busy at 8 %.
    assert_cause(cause, Reason::Atomics, 0.1, 0.0075);
    assert_eq!(cause.and_then(|cause| cause.coalesced), None);
    // Of each sector 8 bytes are used: 900 sectors would do, and DRAM is faster than the shortest kernel of 2 µs.
    let strided = [&atomics(100.0, 4.0)[..], &[("", USED, "byte/sector", 8.0)]].concat();
    let cause = limit_of([8.0, 3.0, 6.0, 2.0], &strided);
    assert_cause(cause, Reason::Atomics, 0.1, 0.002);
    assert_eq!(cause.and_then(|cause| cause.coalesced), Some(Ratio(0.25)));
    assert_eq!(limit_of([8.0, 3.0, 6.0, 2.0], &atomics(99.0, 4.0)), None);
    // Few slices of L2 take them. Where that is not counted, the grid must fill half of the GPU.
    let slices = |waves, metrics: &[Metric<'_>]| {
        let metrics = [&atomics(100.0, waves)[..], metrics].concat();
        let cause = limit_of([8.0, 3.0, 6.0, 2.0], &metrics);
        cause.map(|cause| cause.reason)
    };
    let busiest = |percent| [("", SLICE, "%", percent)];
    assert_eq!(slices(0.003, &[]), Some(Reason::SmallGrid));
    assert_eq!(slices(0.003, &busiest(24.0)), Some(Reason::Atomics));
    assert_eq!(slices(4.0, &busiest(23.0)), None);
    // L2 that is busy with atomics is no sign of contention.
    assert_eq!(limit_of([8.0, 3.0, 65.0, 2.0], &atomics(500.0, 4.0)), None);
}

#[test]
fn whole_warps_need_fewer_instructions() {
    let active = |threads| {
        [(
            "",
            "smsp__thread_inst_executed_per_inst_executed.ratio",
            "",
            threads,
        )]
    };
    let cause = limit_of([90.0, 5.0, 5.0, 5.0], &active(4.0));
    assert_cause(cause, Reason::Divergence, 0.125, 0.1125);
    assert_eq!(limit_of([90.0, 5.0, 5.0, 5.0], &active(17.0)), None);
    assert_eq!(limit_of([55.0, 5.0, 5.0, 5.0], &active(4.0)), None);
}

#[test]
fn reused_data_need_not_come_from_l2_again() {
    let hits = |rate| {
        [
            ("", "sm__ops_path_tensor_src_fp16_dst_fp32.sum", "", 1e9),
            ("", "lts__t_sector_hit_rate.pct", "%", rate),
        ]
    };
    // SMs at 30 % remain the busiest.
    let cause = limit_of([30.0, 10.0, 90.0, 50.0], &hits(95.0));
    assert_cause(cause, Reason::CacheTraffic, 0.95, 0.3);
    // Half of the sectors are from DRAM; SMs as busy as L2; no computation on tensor cores.
    assert_eq!(limit_of([30.0, 10.0, 90.0, 50.0], &hits(50.0)), None);
    assert_eq!(limit_of([60.0, 10.0, 90.0, 50.0], &hits(95.0)), None);
    assert_eq!(limit_of([30.0, 10.0, 90.0, 50.0], &hits(95.0)[1..]), None);
}

#[test]
fn double_precision_takes_twice_the_bytes() {
    let session = |name: &str| {
        let mut session = trace(&format!("stream 7: {name} <<<2x64,384>>> 0..100000"));
        let pass = session.add_pass("ncu", PassKind::Counters, "ncu/raw.csv");
        let launch = profile(&mut session, pass, name);
        count(&mut session, launch, ("", COMPUTE, "%", 5.0));
        count(&mut session, launch, ("", DRAM, "%", 80.0));
        first(&session)
    };
    assert_cause(session("copy<double>"), Reason::Fp64, 1.0, 0.5);
    assert_eq!(session("copy<float>"), None);
    // A GPU without a specification may compute at 1 ÷ 64 of the rate of fp32.
    let operation = |name| ("", name, "inst", 9.0);
    let computes = [
        operation("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum"),
        operation("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum"),
        operation("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum"),
    ];
    let cause = |uses| limit_of(uses, &computes);
    assert_cause(cause([90.0, 9.0, 9.0, 9.0]), Reason::Fp64, 1.0, 0.015625);
    assert_cause(cause([30.0, 90.0, 9.0, 9.0]), Reason::Fp64, 1.0, 0.5);
}

#[test]
fn a_small_grid_is_known_without_counters() {
    let cause = |size: &str, duration: u64| {
        let mut session = trace(&format!("stream 7: k <<<{size}>>> 0..{duration}"));
        session.gpus.sm_count[0] = Some(100);
        first(&session)
    };
    // One block of 256 threads where 100 SMs hold 8 each.
    assert_cause(cause("1,256", 10_000_000), Reason::SmallGrid, 0.01, 0.00125);
    // No launch is shorter than 2 µs, and one of less than 10 µs has little work to split.
    assert_cause(cause("1,256", 10_000), Reason::SmallGrid, 0.01, 0.2);
    assert_eq!(cause("1,256", 9_999), None);
    assert_eq!(cause("50,256", 1_000_000), None);
    // 49 blocks leave half of the SMs empty for a short kernel, too, although no larger grid shortens it.
    let is_small = |size: &str| {
        let mut session = trace(&format!("stream 7: k <<<{size}>>> 0..5000"));
        session.gpus.sm_count[0] = Some(100);
        let mut is_small = false;
        with_results(&session, |context| {
            let limits = context.results.limits().expect("a timeline");
            is_small = limits.stages[0].1.kernels[0].is_small();
        });
        is_small
    };
    assert_eq!([is_small("49,256"), is_small("50,256")], [true, false]);
    // A collective uses few blocks on purpose.
    let mut session = trace("stream 7: ncclDevKernel_AllReduce_Sum <<<1,256>>> 0..1000000");
    session.gpus.sm_count[0] = Some(100);
    assert_eq!(first(&session), None);
}

#[test]
fn the_least_limit_comes_first_and_a_kernel_near_it_is_sound() {
    let mut session = timeline();
    let pass = session.add_pass("ncu", PassKind::Counters, "ncu/raw.csv");
    let launch = profile(&mut session, pass, "k");
    for metric in [
        ("", COMPUTE, "%", 75.0),
        ("", DRAM, "%", 5.0),
        (
            "",
            "smsp__thread_inst_executed_per_inst_executed.ratio",
            "",
            8.0,
        ),
        // Two waves for 1.25, and 2.6 of 3 would be sound.
        ("", "launch__waves_per_multiprocessor", "", 1.25),
    ] {
        count(&mut session, launch, metric);
    }
    with_results(&session, |context| {
        let limits = context.results.limits().expect("a timeline");
        let kernel = &limits.stages[0].1.kernels[0];
        let reasons: Vec<Reason> = kernel.causes.iter().map(|cause| cause.reason).collect();
        assert_eq!(reasons, [Reason::Divergence, Reason::Tail]);
        // 75 % × 8 ÷ 32 of 1 ms.
        assert_eq!(kernel.limit(), Time(187_500.0));
        assert_eq!(kernel.source, LimitSource::Counters(launch));
        assert_eq!(limits.stages[0].1.covered, Ratio(0.5));
        let sound = &limits.stages[0].1.kernels[1];
        assert_eq!((sound.causes.len(), sound.limit()), (0, Time(1_000_000.0)));
    });
}

#[test]
fn without_a_timeline_profiled_launches_have_limits() {
    let mut session = Session::default();
    let pass = session.add_pass("ncu", PassKind::Counters, "ncu/raw.csv");
    for seconds in [1e-3, 3e-3] {
        let launch = profile(&mut session, pass, "k");
        for metric in [
            ("", COMPUTE, "%", 80.0),
            ("", DRAM, "%", 5.0),
            ("", "gpu__time_duration.sum", "s", seconds),
            (
                "",
                "smsp__thread_inst_executed_per_inst_executed.ratio",
                "",
                8.0,
            ),
        ] {
            count(&mut session, launch, metric);
        }
    }
    with_results(&session, |context| {
        let limits = context.results.limits().expect("counters");
        assert!(limits.stages.is_empty());
        let (of, limits) = &limits.passes[0];
        let kernel = &limits.kernels[0];
        assert_eq!((*of, limits.kernels.len()), (pass, 1));
        assert_eq!((kernel.launches, kernel.now), (2, Ns(4_000_000)));
        // 80 % × 8 ÷ 32 of 4 ms.
        assert_cause(kernel.cause().copied(), Reason::Divergence, 0.25, 0.2);
    });
}
