#![allow(clippy::unwrap_used)]

use super::bound::{Bound, THRESHOLDS, Thresholds};
use super::*;
use crate::Classifier;
use crate::testing::counters::{Metric, session};
use rooflens_units::{Bytes, BytesPerSecond, Count, Flops, FlopsPerByte, Percent, Ratio, Seconds};

fn one(metrics: &[Metric<'_>]) -> KernelCounters {
    let session = session(&[("kernel", metrics)]);
    let lookup = Lookup::new(&session);
    let launch = lookup.launch(&session, ProfileId(0));
    let identity = classify::identify(session.text(session.kernel_profiles.name[0]));
    KernelCounters::read(&session, &launch, ProfileId(0), identity)
}

const FFMA: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
const FADD: &str = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum";
const FMUL: &str = "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum";

#[test]
fn fp32_flops_are_2_fma_plus_add_plus_mul_and_intensity_divides_by_bytes() {
    let kernel = one(&[
        ("", FFMA, "inst", 1000.0),
        ("", FADD, "inst", 30.0),
        ("", FMUL, "inst", 4.0),
        ("", "dram__bytes_read.sum", "byte", 800.0),
        ("", "dram__bytes_write.sum", "byte", 217.0),
        ("", "lts__t_sectors.sum", "sector", 100.0),
        ("", "gpu__time_duration.sum", "s", 1e-6),
    ]);
    // 2 × 1000 + 30 + 4 = 2034; DRAM 1017 B: 2 FLOP/B; L2 100 sectors × 32 B.
    assert_eq!(kernel.flops.total(), Some(Flops(2034.0)));
    assert_eq!(kernel.intensity(Level::Dram), Some(FlopsPerByte(2.0)));
    assert_eq!(kernel.bytes.l2, Some(Bytes(3200.0)));
    assert_eq!(kernel.intensity(Level::L1), None);
    assert_eq!(kernel.dram_rate(), Some(BytesPerSecond(1017.0 / 1e-6)));
}

#[test]
fn a_rate_per_cycle_is_multiplied_by_the_cycles_and_half_instructions_are_pairs() {
    let rate =
        |op| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed");
    let (add, mul, fma) = (rate("hadd"), rate("hmul"), rate("hfma"));
    let kernel = one(&[
        ("", &add, "inst/cycle", 0.25),
        ("", &mul, "inst/cycle", 0.5),
        ("", &fma, "inst/cycle", 1.0),
        ("", "smsp__cycles_elapsed.avg", "cycle", 1000.0),
    ]);
    // (2 × 0.25 + 2 × 0.5 + 4 × 1) × 1000 cycles.
    assert_eq!(kernel.flops.total(), Some(Flops(5500.0)));
    assert_eq!(kernel.flops.main().unwrap().dtype, "fp16_vector");
}

#[test]
fn without_a_cycle_count_the_clock_times_the_duration_is_one() {
    let rate =
        |op| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed");
    let (add, mul, fma) = (rate("fadd"), rate("fmul"), rate("ffma"));
    let kernel = one(&[
        ("", &add, "inst/cycle", 32.0),
        ("", &mul, "inst/cycle", 0.0),
        ("", &fma, "inst/cycle", 0.0),
        ("", "smsp__cycles_elapsed.avg.per_second", "Hz", 2e9),
        ("", "gpu__time_duration.sum", "s", 1e-3),
    ]);
    // 32 × 2 GHz × 1 ms.
    assert!((kernel.flops.total().unwrap() / Flops(64e6) - 1.0).abs() < 1e-12);
}

#[test]
fn half_instructions_that_only_load_constants_are_no_flops() {
    let count = |op| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum");
    let (add, mul, fma) = (count("hadd"), count("hmul"), count("hfma"));
    // 270 336 threads that copy integers and execute three HFMA2 each.
    let kernel = one(&[
        ("", &add, "inst", 0.0),
        ("", &mul, "inst", 0.0),
        ("", &fma, "inst", 811_008.0),
    ]);
    assert_eq!(kernel.flops.total(), Some(Flops(0.0)));
}

#[test]
fn overlapping_tensor_counters_are_summed_once() {
    let kernel = one(&[
        (
            "",
            "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
            "",
            268_435_456.0,
        ),
        (
            "",
            "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum",
            "",
            268_435_456.0,
        ),
        (
            "",
            "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_on.sum",
            "",
            0.0,
        ),
        ("", "sm__ops_path_tensor_src_fp8_sparsity_off.sum", "", 10.0),
        ("", "sm__ops_path_tensor_src_fp8_sparsity_on.sum", "", 5.0),
        ("", "sm__ops_path_tensor_src_fp16_dst_fp16.sum", "", 1.0),
        ("", "sm__ops_path_tensor_src_fp16_dst_fp32.sum", "", 2.0),
        (
            "",
            "sm__ops_path_tensor_src_bf16_dst_fp32.sum.per_second",
            "",
            9e15,
        ),
    ]);
    let FlopCount::Counted(parts) = &kernel.flops else {
        panic!("counted")
    };
    let flops: Vec<_> = parts.iter().map(|part| (part.dtype, part.flops)).collect();
    // bf16: a product of 8 × 4096 × 4096 is 2·8·4096·4096 operations, and its three counters are one.
    assert_eq!(
        flops,
        [
            ("bf16", Flops(268_435_456.0)),
            ("fp16", Flops(3.0)),
            ("fp8", Flops(15.0))
        ]
    );
}

#[test]
fn only_instruction_counters_by_name_count_where_no_type_total_exists() {
    let kernel = one(&[
        (
            "",
            "sm__ops_path_tensor_op_hmma_src_tf32_dst_fp32_sparsity_off.sum",
            "",
            7.0,
        ),
        (
            "",
            "sm__ops_path_tensor_op_hmma_src_tf32_dst_fp32_sparsity_on.sum",
            "",
            1.0,
        ),
    ]);
    assert_eq!(kernel.flops.total(), Some(Flops(8.0)));
}

#[test]
fn tensor_work_without_operation_counters_has_no_number() {
    let scalar = [
        ("", FFMA, "inst", 1.0),
        ("", FADD, "inst", 0.0),
        ("", FMUL, "inst", 0.0),
    ];
    let mut busy = scalar.to_vec();
    busy.push(("", "sm__inst_executed_pipe_tensor.sum", "inst", 512.0));
    assert!(matches!(one(&busy).flops, FlopCount::NotCounted(reason) if reason.contains("tensor")));
    assert_eq!(one(&scalar).flops.total(), Some(Flops(2.0)));
    // The pipe multiplied integers: the counters of its instructions tell.
    busy.push(("", "sm__inst_executed_pipe_tensor_op_hmma.sum", "inst", 0.0));
    busy.push((
        "",
        "sm__inst_executed_pipe_tensor_op_imma.sum",
        "inst",
        512.0,
    ));
    assert_eq!(one(&busy).flops.total(), Some(Flops(2.0)));
    busy.push((
        "",
        "sm__pipe_tensor_op_dmma_cycles_active.avg.pct_of_peak_sustained_active",
        "%",
        3.0,
    ));
    assert!(matches!(one(&busy).flops, FlopCount::NotCounted(reason) if reason.contains("tensor")));
    assert!(matches!(one(&[]).flops, FlopCount::NotCounted(_)));
    // One tensor counter that is 0 does not tell that nothing was computed.
    let bf16 = ("", "sm__ops_path_tensor_src_bf16_dst_fp32.sum", "", 0.0);
    assert!(matches!(one(&[bf16]).flops, FlopCount::NotCounted(_)));
}

#[test]
fn display_names_of_the_details_page_serve_as_well() {
    let sol = "GPU Speed Of Light Throughput";
    let kernel = one(&[
        (sol, "Duration", "s", 2e-6),
        (sol, "Compute (SM) Throughput", "%", 9.72),
        (sol, "DRAM Throughput", "%", 59.93),
        (sol, "L2 Cache Throughput", "%", 40.0),
        (sol, "L1/TEX Cache Throughput", "%", 200.0),
        (sol, "SM Active Cycles", "cycle", 5.0),
        (sol, "Elapsed Cycles", "cycle", 1000.0),
        (sol, "Memory Throughput", "%", 59.93),
        (
            "Memory Workload Analysis",
            "Memory Throughput",
            "byte/s",
            3e12,
        ),
        ("Occupancy", "Achieved Occupancy", "%", 14.4),
        ("Launch Statistics", "Waves Per SM", "", 0.97),
        (
            "Launch Statistics",
            "Registers Per Thread",
            "register/thread",
            168.0,
        ),
    ]);
    assert_eq!(kernel.seconds, Some(Seconds(2e-6)));
    // 3 TB/s × 2 µs = 6 MB; L1 200 % of 5 active in 1000 elapsed cycles is 1 %.
    assert_eq!(kernel.bytes.dram, Some(Bytes(3e12 * 2e-6)));
    assert_eq!(kernel.sol.memory.l1, Some(Percent(1.0)));
    assert_eq!(kernel.sol.compute, Some(Percent(9.72)));
    assert_eq!(kernel.registers, Some(Count(168.0)));
    assert_eq!(kernel.waves, Some(Ratio(0.97)));
}

#[test]
fn writeback_cycles_are_l1_bytes_only_where_nothing_passes_the_registers_by() {
    let writeback = (
        "",
        "l1tex__lsu_writeback_active_mem_lgds.sum",
        "cycle",
        2176.0,
    );
    let tma = ("", "smsp__inst_executed_op_tma_ld.sum", "inst", 1.0);
    // 2176 cycles × 128 B.
    assert_eq!(one(&[writeback]).bytes.l1, Some(Bytes(278_528.0)));
    assert_eq!(one(&[writeback, tma]).bytes.l1, None);
    // Attention with cp.async: 4.4 MB of copies next to 65 kB written back.
    let copies = ("", "smsp__inst_executed_op_ldgsts.sum", "inst", 18_944.0);
    assert_eq!(one(&[writeback, copies]).bytes.l1, None);
}

#[test]
fn a_value_in_another_unit_is_not_taken() {
    assert_eq!(
        one(&[("", "gpu__time_duration.sum", "", 5.0)]).seconds,
        None
    );
}

#[test]
fn the_top_stall_is_the_largest_state_that_waits() {
    let state =
        |reason: &str| format!("smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio");
    let (selected, long, wait) = (state("selected"), state("long_scoreboard"), state("wait"));
    let kernel = one(&[
        ("", &selected, "inst", 10.0),
        ("", &long, "inst", 8.0),
        ("", &wait, "inst", 2.0),
    ]);
    // 8 of 20.
    assert_eq!(
        kernel.top_stall,
        Some(Stall {
            reason: "long scoreboard".to_owned(),
            share: Ratio(0.4)
        })
    );
}

fn with_sol(compute: f64, dram: f64, l2: f64) -> KernelCounters {
    one(&[
        (
            "",
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
            "%",
            compute,
        ),
        (
            "",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "%",
            dram,
        ),
        (
            "",
            "lts__throughput.avg.pct_of_peak_sustained_elapsed",
            "%",
            l2,
        ),
    ])
}

/// The largest level is of the time in which SMs were active, and holds stages that ncu does not count.
#[test]
fn memory_throughput_is_the_number_of_ncu() {
    let kernel = one(&[
        (
            "",
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
            "%",
            9.45,
        ),
        (
            "",
            "lts__throughput.avg.pct_of_peak_sustained_elapsed",
            "%",
            18.9,
        ),
    ]);
    assert_eq!(kernel.sol.memory_throughput, Some(Percent(9.45)));
    assert_eq!(with_sol(1.0, 2.0, 3.0).sol.memory_throughput, None);
}

#[test]
fn classes_change_exactly_at_the_thresholds() {
    let class = |kernel: &KernelCounters| THRESHOLDS.classify(Classifier::Rooflens, kernel).bound;
    assert_eq!(class(&with_sol(59.9, 59.9, 0.0)), Bound::Latency);
    assert_eq!(class(&with_sol(60.0, 50.0, 0.0)), Bound::Compute);
    assert_eq!(class(&with_sol(60.0, 50.1, 0.0)), Bound::Balanced);
    assert_eq!(class(&with_sol(50.0, 60.0, 59.0)), Bound::Dram);
    assert_eq!(class(&with_sol(50.1, 60.0, 0.0)), Bound::Balanced);
    assert_eq!(class(&with_sol(20.0, 60.0, 80.0)), Bound::L2);
    // Weights that stream through L2: DRAM bounds up to 5 points below it.
    assert_eq!(class(&with_sol(6.0, 87.6, 90.7)), Bound::Dram);
    assert_eq!(class(&with_sol(6.0, 85.0, 90.0)), Bound::Dram);
    assert_eq!(class(&with_sol(6.0, 84.9, 90.0)), Bound::L2);
    // The highest level decides whether memory leads and whether anything is busy.
    assert_eq!(class(&with_sol(50.0, 56.0, 60.0)), Bound::Dram);
    assert_eq!(class(&with_sol(6.0, 59.0, 60.0)), Bound::Dram);
    assert_eq!(class(&one(&[])), Bound::Unknown);
    let seed = |compute, dram| {
        THRESHOLDS
            .classify(Classifier::Seed, &with_sol(compute, dram, 0.0))
            .bound
    };
    assert_eq!(seed(15.1, 10.0), Bound::Compute);
    assert_eq!(seed(15.0, 10.0), Bound::Balanced);
    assert_eq!(seed(10.0, 15.0), Bound::Balanced);
    assert_eq!(seed(10.0, 15.1), Bound::Memory);
}

#[test]
fn pipes_busy_without_floating_point_work_are_bound_by_instructions() {
    let (add, mul, fma) = (FADD, FMUL, FFMA);
    let class = |additions: f64, instructions: Option<f64>| {
        let mut metrics = vec![
            (
                "",
                "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                "%",
                80.0,
            ),
            (
                "",
                "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                "%",
                30.0,
            ),
            ("", add, "inst", additions),
            ("", mul, "inst", 0.0),
            ("", fma, "inst", 0.0),
        ];
        metrics.extend(instructions.map(|value| ("", "inst_executed", "inst", value)));
        THRESHOLDS
            .classify(Classifier::Rooflens, &one(&metrics))
            .bound
    };
    // 100 warps execute 32 × 100 thread instructions; a quarter of them are 800 additions.
    assert_eq!(class(799.0, Some(100.0)), Bound::Instruction);
    assert_eq!(class(800.0, Some(100.0)), Bound::Compute);
    assert_eq!(class(1.0, None), Bound::Compute);
}

#[test]
fn latency_has_its_first_matching_reason() {
    let mut kernel = with_sol(5.0, 5.0, 5.0);
    let reason = |kernel: &KernelCounters| {
        THRESHOLDS
            .classify(Classifier::Rooflens, kernel)
            .reason
            .unwrap()
            .to_string()
    };
    assert_eq!(reason(&kernel), "cause not counted");
    kernel.top_stall = Some(Stall {
        reason: "wait".to_owned(),
        share: Ratio(1.0),
    });
    assert_eq!(reason(&kernel), "stall: wait");
    kernel.achieved_occupancy = Some(Percent(29.9));
    assert_eq!(reason(&kernel), "low occupancy");
    kernel.waves = Some(Ratio(0.99));
    assert_eq!(reason(&kernel), "small grid");
}

#[test]
fn the_thresholds_decide() {
    let other = Thresholds {
        busy: Percent(41.5),
        lead: Percent(7.25),
        tie: Percent(2.25),
        small_grid_waves: Ratio(2.5),
        low_occupancy: Percent(12.5),
        flops_per_instruction: Flops(0.25),
        seed_margin: Percent(3.75),
        borderline: Percent(3.0),
    };
    let kernel = with_sol(45.0, 37.75, 0.0);
    assert_eq!(
        other.classify(Classifier::Rooflens, &kernel).bound,
        Bound::Compute
    );
    assert_eq!(
        THRESHOLDS.classify(Classifier::Rooflens, &kernel).bound,
        Bound::Latency
    );
}

#[test]
fn the_nearest_other_class_and_its_distance_are_told() {
    let of = |rule, sm: f64, dram: f64, l2: f64| {
        let kernel = one(&[
            (
                "",
                "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                "%",
                sm,
            ),
            (
                "",
                "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                "%",
                dram,
            ),
            (
                "",
                "lts__throughput.avg.pct_of_peak_sustained_elapsed",
                "%",
                l2,
            ),
        ]);
        let verdict = THRESHOLDS.classify(rule, &kernel);
        let next = verdict.next.unwrap();
        assert_eq!(verdict.borderline().is_some(), next.points < Percent(2.0));
        (verdict.bound, next.bound, next.points.0)
    };
    let rooflens = |sm, dram, l2| of(Classifier::Rooflens, sm, dram, l2);
    // 59 of 60 %: with one point more DRAM leads by 40.
    assert_eq!(
        rooflens(20.0, 59.0, 10.0),
        (Bound::Latency, Bound::Dram, 1.0)
    );
    assert_eq!(
        rooflens(61.0, 20.0, 10.0),
        (Bound::Compute, Bound::Latency, 1.0)
    );
    // A lead of 12 against the 10 that decide; 30 points above 60 %.
    assert_eq!(
        rooflens(90.0, 78.0, 10.0),
        (Bound::Compute, Bound::Balanced, 2.0)
    );
    // L2 would have to be more than 5 points above DRAM, or DRAM no more than 5 below L2.
    assert_eq!(rooflens(40.0, 90.0, 89.0), (Bound::Dram, Bound::L2, 6.0));
    assert_eq!(rooflens(40.0, 90.0, 94.5), (Bound::Dram, Bound::L2, 0.5));
    assert_eq!(rooflens(40.0, 89.0, 95.0), (Bound::L2, Bound::Dram, 1.0));
    assert_eq!(
        rooflens(80.0, 89.5, 10.0),
        (Bound::Balanced, Bound::Dram, 0.5)
    );
    assert_eq!(
        of(Classifier::Seed, 20.0, 26.0, 0.0),
        (Bound::Memory, Bound::Balanced, 1.0)
    );
    assert_eq!(
        of(Classifier::Seed, 24.0, 20.0, 0.0),
        (Bound::Balanced, Bound::Compute, 1.0)
    );
}
