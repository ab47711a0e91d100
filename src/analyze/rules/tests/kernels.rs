//! Kernels that a stage does not need, by their names and types.

use super::named::findings;
use super::*;
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::memory::allocator::{Allocator, MemoryUsed};
use rooflens_hardware::Gpu;
use rooflens_session::StrId;
use rooflens_units::BytesPerSecond;

const CAT: &str = "void at::native::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>";
const SORTED: &str = "void indexing_backward_kernel<float, 4>(const long *, const long *)";
const COMPARISON: &str = "void vectorized_elementwise_kernel<4, BinaryFunctor<float, float, bool, CompareEqFunctor<float>>>";
const FLAG: &str = "void reduce_kernel<512, 1, ReduceOp<bool, or_kernel_cuda>>";

/// A stage of 1000 ns, all of it operations, with kernels in ten iterations: name, class, type, launches, nanoseconds.
fn made(kind: StageKind, kernels: &[(&str, KernelClass, &'static str, u64, i64)]) -> Made {
    let mut made = Made::default()
        .stage("stage", kind, 1000.0, 20_000.0)
        .busy(1.0)
        .operations(10.0, 1000.0);
    let mut work = StageWork {
        summary: made.last_summary(),
        ..StageWork::default()
    };
    for (name, class, dtype, launches, time) in kernels {
        let identity = KernelIdentity {
            class: *class,
            dtype,
            ..KernelIdentity::default()
        };
        let kernel = made.kernel(name, identity);
        work.kernels.push((kernel, *launches, Ns(*time)));
        work.total += Ns(*time);
    }
    made.known.stage_work = Ok(vec![work]);
    made
}

#[test]
fn a_cache_that_grows_by_copies_is_one_of_a_decode_stage() {
    let gemm = ("nvjet", KernelClass::Gemm, "bf16", 10, 6000);
    let cat = |time| (CAT, KernelClass::Layout, "", 320, time);
    let found = made(StageKind::Decode, &[gemm, cat(4000)]).one(rule("growing-cache"));
    // 4000 of 10 000 ns of operations, of 1000 ns per iteration; 320 launches in ten.
    assert!((saved(&found) - 400.0).abs() < 1e-9);
    let text = words(&found.statement);
    assert!(
        text.contains("kernels=32, time=400 ns, share=40.0 %"),
        "{text}"
    );
    let little = made(StageKind::Decode, &[gemm, cat(300)]);
    assert_eq!(little.outcome(rule("growing-cache")), Outcome::PASSED);
    let written = ("index_copy_kernel", KernelClass::Gather, "", 10, 4000);
    let fixed = made(StageKind::Decode, &[gemm, cat(4000), written]);
    assert_eq!(fixed.outcome(rule("growing-cache")), Outcome::PASSED);
    let training = made(StageKind::TrainStep, &[gemm, cat(4000)]);
    assert_eq!(
        silent(training.outcome(rule("growing-cache"))).0,
        "not applicable"
    );
}

#[test]
fn sums_by_sorted_index_are_named_by_their_kernel() {
    let gemm = ("nvjet", KernelClass::Gemm, "bf16", 10, 3000);
    let made = made(
        StageKind::TrainStep,
        &[(SORTED, KernelClass::Gather, "fp32", 120, 7000), gemm],
    );
    let found = made.one(rule("sorted-sums"));
    assert!((saved(&found) - 700.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("kernels=12, time=700 ns, share=70.0 %"));
}

#[test]
fn filters_of_any_size_are_named_by_their_kernel() {
    let of = |name| {
        let filter = (name, KernelClass::Convolution, "fp32", 20, 3500);
        let gemm = ("nvjet", KernelClass::Gemm, "bf16", 10, 6500);
        made(StageKind::TrainStep, &[gemm, filter])
    };
    let found = of("void conv_depthwise2d_forward_kernel_generic<float, int>")
        .one(rule("depthwise-filters"));
    assert!((saved(&found) - 350.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("kernels=2, time=350 ns, share=35.0 %"));
    let small = of("void conv_depthwise2d_forward_kernel<3, float, int>");
    assert_eq!(small.outcome(rule("depthwise-filters")), Outcome::PASSED);
}

#[test]
fn a_cache_that_a_beam_search_reorders_is_one_of_a_decode_stage() {
    let gemm = ("nvjet", KernelClass::Gemm, "bf16", 10, 5000);
    let gather = (
        "void vectorized_gather_kernel<16, long>",
        KernelClass::Gather,
        "",
        480,
        5000,
    );
    let found = made(StageKind::Decode, &[gemm, gather]).one(rule("gathered-cache"));
    // 5000 of 10 000 ns of operations, of 1000 ns per iteration; 480 launches in ten.
    assert!((saved(&found) - 500.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("kernels=48, time=500 ns, share=50.0 %"));
    let training = made(StageKind::TrainStep, &[gemm, gather]);
    assert_eq!(
        silent(training.outcome(rule("gathered-cache"))).0,
        "not applicable"
    );
}

#[test]
fn a_permutation_is_its_sort_and_what_it_sorts() {
    let gemm = ("nvjet", KernelClass::Gemm, "bf16", 10, 4000);
    let sort = (
        "cub::DeviceRadixSortOnesweepKernel<long>",
        KernelClass::Other,
        "",
        80,
        5000,
    );
    let numbers = (
        "elementwise_kernel_with_index<int, arange_cuda_out>",
        KernelClass::Elementwise,
        "",
        10,
        600,
    );
    let repeats = (
        "randperm_handle_duplicate_keys_kernel<long>",
        KernelClass::Other,
        "",
        10,
        400,
    );
    let found =
        made(StageKind::TrainStep, &[sort, gemm, numbers, repeats]).one(rule("permutations"));
    // 6000 of 10 000 ns of operations, of 1000 ns per iteration; 100 launches in ten.
    assert!((saved(&found) - 600.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("kernels=10, time=600 ns, share=60.0 %"));
    let sorted = made(StageKind::TrainStep, &[sort, gemm]);
    assert_eq!(sorted.outcome(rule("permutations")), Outcome::PASSED);
}

/// Four iterations of two layers: forward on one thread, backward on another, which also runs a GEMM. Backward takes 250 µs;
/// of two passes one goes.
#[test]
fn a_backward_pass_that_runs_twice_is_one_too_many() {
    let of = |passes: usize| {
        let mut text = String::new();
        for step in 0..4 {
            let mut at = step * 2000;
            text += &format!("thread 1\nrange train_step {at}us..{}us\n", at + 1500);
            let (norm, gradient) = (
                ("batch_norm_transform_input", 50),
                ("batch_norm_backward_elemt", 100),
            );
            let backward = [gradient, gradient, ("nvjet", 50)];
            for (number, (name, length)) in [norm, norm]
                .into_iter()
                .chain(backward.repeat(passes))
                .enumerate()
            {
                let (call, start) = (at, at + 5);
                at = start + length;
                let thread = if number < 2 { 1 } else { 2 };
                text += &format!("thread {thread}\n");
                text += &format!("launch {call}us..{start}us -> {name} {start}us..{at}us\n");
            }
        }
        findings(&trace(&text))
    };
    let is_of_rule = |found: &&(&str, f64, String)| found.0 == "repeated-backward";
    let twice = of(2);
    let (_, saved, statement) = twice.iter().find(is_of_rule).unwrap();
    assert!((saved - 250_000.0).abs() < 1.0, "{saved}");
    assert!(
        statement.contains("kernels=4, times=2, time=500 µs"),
        "{statement}"
    );
    assert!(of(1).iter().find(is_of_rule).is_none());
}

#[test]
fn kernels_with_one_use_are_named() {
    let gemm = ("nvjet", KernelClass::Gemm, "bf16", 10, 6000);
    for (name, id) in [
        ("multi_bluestein_fft<729u, float>", "prime-ffts"),
        ("void at::native::renormRowsL1<float>", "row-sampling"),
        (
            "cub::DeviceRadixSortOnesweepKernel<radix::policy_hub<float, long>>",
            "value-sorts",
        ),
    ] {
        let kernel = (name, KernelClass::Other, "fp32", 40, 4000);
        let found = made(StageKind::Other, &[gemm, kernel]).one(rule(id));
        assert!((saved(&found) - 400.0).abs() < 1e-9);
        let text = words(&found.statement);
        assert!(
            text.contains("kernels=4, time=400 ns, share=40.0 %"),
            "{text}"
        );
        assert_eq!(
            made(StageKind::Other, &[gemm]).outcome(rule(id)),
            Outcome::PASSED
        );
    }
    // Sums by index sort indices.
    let indices = "cub::DeviceRadixSortOnesweepKernel<radix::policy_hub<long, OpaqueType<8>>>";
    let indices = (indices, KernelClass::Other, "", 40, 4000);
    let sums = made(StageKind::Other, &[gemm, indices]);
    assert_eq!(sums.outcome(rule("value-sorts")), Outcome::PASSED);
}

#[test]
fn kernels_of_fp64_save_half_of_their_time() {
    let made = made(
        StageKind::Other,
        &[
            ("copy", KernelClass::Layout, "fp64", 40, 4000),
            ("dgemm", KernelClass::Gemm, "fp64", 10, 2000),
            ("add", KernelClass::Elementwise, "fp32", 10, 4000),
        ],
    );
    // Without rates of a GPU, GEMMs save half as well: (4000 + 2000) ÷ 2 of ten iterations.
    let found = made.one(rule("double-kernels"));
    assert!((saved(&found) - 300.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("kernels=5, time=600 ns, share=60.0 %"));
}

#[test]
fn checks_for_nan_are_many_pairs_of_a_comparison_and_a_flag() {
    let kernels = |checks| {
        [
            ("nvjet", KernelClass::Gemm, "bf16", 10, 8000),
            (COMPARISON, KernelClass::Elementwise, "fp32", checks, 1000),
            (FLAG, KernelClass::Reduction, "", checks, 1000),
        ]
    };
    let mut stage = made(StageKind::TrainStep, &kernels(200));
    stage.last().busy = Time(400.0);
    // 20 % of the operations, and 600 ns of idle time.
    let found = stage.one(rule("nan-checks"));
    assert!((saved(&found) - 800.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("checks=20, time=200 ns, idle=600 ns"));
    let few = made(StageKind::TrainStep, &kernels(150));
    assert_eq!(few.outcome(rule("nan-checks")), Outcome::PASSED);
}

/// Memory in use of 100 kB, read in 100 ns. GEMMs of 60 µs take 40 % of operations of 1000 ns per token.
#[test]
fn gemms_beyond_memory_have_more_rows_than_sequences() {
    let decode = |kind, launches: u64, sequences, used| {
        let mut made = made(
            kind,
            &[
                ("other", KernelClass::Elementwise, "bf16", 10, 900_000),
                ("gemm", KernelClass::Gemm, "bf16", launches, 600_000),
            ],
        );
        made.session.workload.batch = Some(sequences);
        made.hardware.gpus = vec![Gpu {
            name: "GPU".to_owned(),
            aliases: vec!["GPU".to_owned()],
            memory_bandwidth: BytesPerSecond(1e12),
            ..Gpu::default()
        }];
        made.options.gpu = Some("GPU".to_owned());
        made.known.allocator = Ok(Allocator {
            used: vec![MemoryUsed {
                device: 0,
                bytes: used,
                samples: 1,
                artifact: StrId::default(),
            }],
            ..Allocator::default()
        });
        made
    };
    let found = decode(StageKind::Decode, 10, 64, 100_000).one(rule("decode-rows"));
    assert!((saved(&found) - 400.0).abs() < 1e-9);
    let text = words(&found.statement);
    assert!(
        text.contains("time=400 ns, share=40.0 %, factor=4, sequences=64"),
        "{text}"
    );
    // More memory in use, GEMMs of 40 µs, and more sequences explain the time.
    let outcome = |made: Made| made.outcome(rule("decode-rows"));
    assert_eq!(
        outcome(decode(StageKind::Decode, 10, 64, 100_001)),
        Outcome::PASSED
    );
    assert_eq!(
        outcome(decode(StageKind::Decode, 15, 64, 100_000)),
        Outcome::PASSED
    );
    let many = decode(StageKind::Decode, 10, 65, 100_000);
    assert_eq!(silent(outcome(many)).0, "not applicable");
}

/// 16 checks in each of five steps, by the thread of the backward pass or by the one with the ranges.
#[test]
fn checks_of_the_program_are_no_anomaly_detection() {
    let step = |thread: u32| {
        let mut text = String::new();
        for start in (0..5000).step_by(1000) {
            text += &format!(
                "range train_step {start}..{}\nthread {thread}\n",
                start + 950
            );
            for check in 0..16 {
                for (number, kernel) in [COMPARISON, FLAG].into_iter().enumerate() {
                    let at = start + 50 * check + 20 * number as i64;
                    text += &format!(
                        "launch {at}..{} -> {kernel} {}..{}\n",
                        at + 5,
                        at + 5,
                        at + 10
                    );
                }
            }
            text += "thread 0\n";
        }
        let found = super::named::findings(&trace(&text));
        super::named::finding(&found, "nan-checks").is_some()
    };
    assert!(step(1));
    assert!(!step(0));
}

/// Steps of 1000 ns with 900 ns of kernels: a fill of 100 ns and its triangle of 300 ns.
#[test]
fn a_mask_of_constants_saves_its_kernels() {
    let mut text = String::new();
    for start in (0..5000).step_by(1000) {
        let time = |from: i64, to: i64| format!("{}..{}", start + from, start + to);
        text += &format!("range step {}\n", time(0, 950));
        let kernels = [
            ("FillFunctor<float> <<<4,128>>>", 0, 100),
            ("triu_tril_kernel<float> <<<16,128>>>", 100, 400),
            ("nvjet <<<1,128>>>", 400, 900),
        ];
        for (number, (kernel, from, to)) in kernels.into_iter().enumerate() {
            let call = 10 * number as i64;
            text += &format!(
                "launch {} -> {kernel} {}\n",
                time(call, call + 5),
                time(from, to)
            );
        }
    }
    let found = super::named::findings(&trace(&text));
    let (_, saved, statement) = super::named::finding(&found, "constant-masks").expect("a finding");
    assert!((saved - 400.0).abs() < 1e-9, "{saved}");
    assert!(
        statement.contains("kernels=2, time=400 ns, share=44.4 %"),
        "{statement}"
    );
}
