//! Advice against what the trace shows: in use already, or ruled out.

use super::*;
use crate::practices::adapt;
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::kernels::stage_work::StageWork;

/// A decode stage with kernels: name, class, data type, nanoseconds.
fn with_kernels(kernels: &[(&str, KernelClass, &'static str, i64)]) -> Made {
    let mut made = decode();
    let mut work = StageWork {
        summary: made.last_summary(),
        ..StageWork::default()
    };
    for (name, class, dtype, time) in kernels {
        let identity = KernelIdentity {
            class: *class,
            dtype,
            tensor_cores: Some(*dtype != "fp32"),
            ..KernelIdentity::default()
        };
        work.kernels
            .push((made.kernel(name, identity), 1, Ns(*time)));
    }
    made.known.stage_work = Ok(vec![work]);
    made
}

/// What is left of an English advice.
fn adapted(made: &Made, rule: &'static str, key: &str) -> String {
    let mut evidence = made.evidence();
    evidence.text = Catalogue::english();
    let mut finding = Finding {
        id: rule,
        scope: scope("nsys", "decode"),
        advice: Some(evidence.text.say(key, &[])),
        ..Finding::default()
    };
    adapt(&evidence, &mut finding);
    words(&finding.advice.unwrap_or_default())
}

/// An English advice as a program gets it that has none of the practices.
fn whole(key: &str) -> String {
    words(&Catalogue::english().say(key, &[]))
}

/// The sentence that a practice is in use, for a share or for all of the work.
fn in_use(key: &str, share: Option<f64>) -> String {
    Catalogue::english().line(key, &[("share", share.map(Ratio).into())])
}

const FUSED: &str = "triton_poi_fused_mul_0";

#[test]
fn a_compiler_in_use_is_advised_only_where_it_is_not() {
    use KernelClass::Elementwise;
    let made = |eager| {
        with_kernels(&[
            (FUSED, Elementwise, "", 60),
            ("at::native::mul", Elementwise, "", eager),
        ])
    };
    // 60 of 100 ns are fused.
    let partly = adapted(&made(40), "launch-bound", "launch_bound.advice");
    assert!(partly.contains("Fuse small kernels"), "{partly}");
    assert!(partly.contains("60.0 % of the fusible time"), "{partly}");
    let nearly = adapted(&made(6), "launch-bound", "launch_bound.advice");
    assert!(!nearly.contains("Fuse small kernels"), "{nearly}");
    let wholly = adapted(&made(0), "launch-bound", "launch_bound.advice");
    assert!(!wholly.contains("Fuse small kernels"), "{wholly}");
    assert!(wholly.contains("is in use already: TORCH_LOGS"), "{wholly}");
    let none = with_kernels(&[("at::native::mul", Elementwise, "", 40)]);
    let none = adapted(&none, "launch-bound", "launch_bound.advice");
    assert!(!none.contains("already"), "{none}");
}

#[test]
fn graphs_are_no_advice_where_they_run_or_where_the_host_waits() {
    // 100 operations in each of 10 iterations.
    let advice = |made: &Made| adapted(made, "stage-busy", "stage_busy.advice_idle");
    let made = || decode().operations(100.0, 1e3);
    assert_eq!(advice(&made()), whole("stage_busy.advice_idle"));
    let wholly = advice(&made().replays(1000));
    assert!(!wholly.contains("Replay them"), "{wholly}");
    assert!(
        wholly.ends_with("replay the operations already."),
        "{wholly}"
    );
    assert!(advice(&made().replays(300)).ends_with("already: 30.0 % of them."));
    // Six of ten iterations wait for a result amid their operations, then four.
    let waiting = |iterations: usize| {
        let mut made = made().idle(Cause::Sync, 10.0);
        let waits = (0..10).map(|window| usize::from(window < iterations));
        made.last_line().sources.waits = waits.collect();
        advice(&made)
    };
    assert!(!waiting(6).contains("CUDA graph"));
    assert_eq!(waiting(4), whole("stage_busy.advice_idle"));
}

#[test]
fn memory_and_kernels_in_use_are_not_advised() {
    let pinned = |pageable| {
        let to = |host, bytes| (CopyKind::HostToDevice, host, bytes, 10, 10);
        let copies = [
            to(MemoryKind::Pageable, pageable),
            to(MemoryKind::Pinned, 60),
        ];
        let made = decode().copies(&copies);
        adapted(&made, "host-bound", "host_bound.advice_system")
    };
    let partly = pinned(40);
    assert!(partly.contains("pin_memory=True"), "{partly}");
    assert!(partly.ends_with(&in_use("practices.pinned", Some(0.6))));
    let wholly = pinned(0);
    assert!(!wholly.contains("pin_memory=True"), "{wholly}");
    assert!(wholly.ends_with(&in_use("practices.pinned", None)));

    use KernelClass::{Convolution, Gather, Layout, Optimizer};
    let multi = with_kernels(&[("at::native::multi_tensor_apply_kernel", Optimizer, "", 9)]);
    let advice = adapted(&multi, "host-bound", "host_bound.advice_training");
    assert!(!advice.contains("fused=True"), "{advice}");

    let copy = with_kernels(&[("at::native::index_copy_kernel_impl", Gather, "", 9)]);
    let advice = adapted(&copy, "launch-bound", "launch_bound.advice_decode");
    assert!(!advice.contains("cache_implementation"), "{advice}");
    assert!(advice.ends_with(&in_use("practices.static_cache", None)));

    // cuDNN computes in NHWC with tensors in NCHW, too: then it converts them.
    let nhwc = ("sm90_xmma_fprop_nhwc", Convolution, "fp16", 9);
    let advice = |kernels: &[_]| {
        let made = with_kernels(kernels);
        adapted(&made, "layout-conversions", "layout_conversions.advice")
    };
    assert!(!advice(&[nhwc]).contains("model.to("));
    let converts = ("nchwToNhwcKernel", Layout, "", 1);
    assert!(advice(&[nhwc, converts]).contains("model.to("));
}

#[test]
fn tf32_in_use_is_no_cause_of_other_products() {
    let gemm = |dtype| ("gemm", KernelClass::Gemm, dtype, 10);
    let made = |kernels: &[(&'static str, KernelClass, &'static str, i64)]| {
        let made = with_kernels(kernels);
        let sgemm = ("fp32", Some(false));
        let made = made.launches("ampere_sgemm", KernelClass::Gemm, sgemm, (4, 800));
        made.one(rule("no-tensor-cores"))
    };
    let without = made(&[gemm("fp32")]);
    assert_eq!(
        words(&without.advice.unwrap()),
        "no_tensor_cores.advice_fp32"
    );
    assert!(without.root.is_some());
    let with = made(&[gemm("fp32"), ("s1688gemm", KernelClass::Gemm, "tf32", 5)]);
    assert_eq!(words(&with.advice.unwrap()), "no_tensor_cores.advice_tf32");
    assert_eq!(with.root, None);
}

/// What a stage of ten instances that waits for launches is advised.
fn advised(made: Made) -> String {
    let made = made.operations(200.0, 8e5).idle(Cause::Launching, 600.0);
    words(&made.one(rule("launch-bound")).advice.unwrap())
}

#[test]
fn a_loop_of_recurrent_cells_is_one_call_of_the_layer() {
    let with_cells = |launches| {
        let mut made = with_kernels(&[("lstm_cell_forward", KernelClass::Elementwise, "", 40)]);
        made.known.stage_work.as_mut().unwrap()[0].kernels[0].1 = launches;
        made
    };
    // 16 cells in each of 10 iterations, and one less.
    assert_eq!(
        advised(with_cells(160)),
        "launch_bound.advice_cells{cells=16}"
    );
    assert_eq!(advised(with_cells(159)), "launch_bound.advice_decode");
}
