//! Rules about kernels, clocks, pace and memory.

use super::*;
use rooflens_analysis::engine::classify::KernelClass::{self, Convolution, Elementwise, Gemm};
use rooflens_analysis::memory::allocator::states::{Figures, State};
use rooflens_analysis::memory::allocator::{Allocator, DeviceMemory};
use rooflens_analysis::system::power::Power;
use rooflens_analysis::system::power::reasons::POWER_CAP;
use rooflens_analysis::system::power::samples::{ClockLimit, Device};
use rooflens_hardware::{Gpu, Peak};
use rooflens_units::{FlopsPerSecond, Hertz, Ratio, Time, Watts};

#[test]
fn a_busy_stage_far_from_the_peak_could_save_down_to_it() {
    let made = |mfu: f64, busy: f64| prefill().busy(busy).utilization(mfu * busy, 0.0);
    // 1000 ns × 0.9 × (1 − 0.4 / 1).
    assert!((saved(&made(0.4, 0.9).one(rule("low-mfu"))) - 540.0).abs() < 1e-9);
    // A measured peak of 80 % of the specified one leaves half of the busy time.
    let mut measured = made(0.4, 0.9);
    let one = measured.utilized();
    one.measured_rate = Some(0.8 * one.ceiling.as_ref().unwrap().rate);
    assert!((saved(&measured.one(rule("low-mfu"))) - 450.0).abs() < 1e-9);
    assert_eq!(made(0.61, 0.9).outcome(rule("low-mfu")), Outcome::PASSED);
    // Where the GPU waits, kernels are not the point; where nothing computes a model's pass, neither.
    let idle = silent(made(0.4, 0.7).outcome(rule("low-mfu")));
    let why = "prefill: low_mfu.idle{idle=30.0 %}";
    assert_eq!(idle, ("not applicable", why.to_owned()));
    assert_eq!(
        silent(decode().outcome(rule("low-mfu"))).0,
        "not applicable"
    );
    assert_eq!(silent(prefill().outcome(rule("low-mfu"))).0, "abstained");
    // Without the model MFU is not known, but what could be fused is: 60 % of 900 ns, not 40 %.
    let products_with = |fusible: i64| {
        let parts = [
            (ClassGroup::Gemm, 10 * (800 - fusible)),
            (ClassGroup::Attention, 10 * 100),
            (ClassGroup::Elementwise, 10 * fusible),
        ];
        prefill().busy(0.9).groups(&parts)
    };
    let found = products_with(540).one(rule("low-mfu"));
    assert!((saved(&found) - 540.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("fusible=60.0 %"));
    assert_eq!(
        silent(products_with(360).outcome(rule("low-mfu"))).0,
        "abstained"
    );
    // A tenth of the group's durations is the optimizer's: 630 of 700 ns are left.
    let mut made = products_with(700).work_of(Elementwise, 9);
    made.known.stage_work.as_mut().unwrap()[0].classes[KernelClass::Optimizer as usize] =
        (1, Ns(1));
    let found = made.one(rule("low-mfu"));
    assert!((saved(&found) - 630.0).abs() < 1e-9, "{}", saved(&found));
    // A third of the fusible durations are the shortest kernels of their runs, which a fused kernel takes, too.
    made.known.stage_work.as_mut().unwrap()[0].kept = Ns(3);
    let found = made.one(rule("low-mfu"));
    assert!((saved(&found) - 420.0).abs() < 1e-9, "{}", saved(&found));
    // Elementwise kernels of the optimizer's range, 50 of 600 ns an iteration, run after all others.
    let made = products_with(600).holds(StageKind::Optimizer, "optimizer");
    let made = made.groups(&[(ClassGroup::Elementwise, 10 * 50)]);
    let found = made.one(rule("low-mfu"));
    assert!((saved(&found) - 550.0).abs() < 1e-9, "{}", saved(&found));
    // The same time in every other iteration is 50 ns of each, too.
    let mut made = made;
    made.times().stages[1].summary.counted = 5;
    assert!((saved(&made.one(rule("low-mfu"))) - 550.0).abs() < 1e-9);
}

#[test]
fn decode_is_near_the_bandwidth_or_its_kernels_are_slow_or_the_gpu_waits() {
    let made = |mbu: f64, busy: f64| decode().busy(busy).utilization(0.0, mbu);
    let near = made(0.7, 0.98).one(rule("decode-bandwidth"));
    assert_eq!((near.gain, near.severity), (None, Severity::Note));
    // Busy 950 ns, of which the bytes need 300 ns.
    assert!((saved(&made(0.3, 0.95).one(rule("decode-bandwidth"))) - 650.0).abs() < 1e-9);
    let idle = silent(made(0.3, 0.5).outcome(rule("decode-bandwidth")));
    let why = "decode: decode_bandwidth.idle{idle=50.0 %}";
    assert_eq!(idle, ("not applicable", why.to_owned()));
    assert_eq!(
        silent(prefill().outcome(rule("decode-bandwidth"))).0,
        "not applicable"
    );
    assert_eq!(
        silent(decode().outcome(rule("decode-bandwidth"))).0,
        "abstained"
    );
}

#[test]
fn products_without_tensor_cores_are_those_that_could_have_them() {
    let (slow, fast) = (Some(false), Some(true));
    let sized = |made: Made| {
        made.launches("nvjet", Gemm, ("bf16", fast), (9, 7000))
            .launches("gemv2T_kernel", Gemm, ("bf16", slow), (9, 900))
    };
    let mut made = sized(decode())
        .launches("add", Elementwise, ("fp32", None), (9, 1200))
        .launches(
            "winogradForwardData4x4",
            Convolution,
            ("fp32", None),
            (4, 100),
        )
        .launches("ampere_sgemm", Gemm, ("fp32", slow), (4, 800));
    let peak = |dtype: &str, dense| Peak {
        dtype: dtype.to_owned(),
        dense: FlopsPerSecond(dense),
        ..Peak::default()
    };
    let peaks = vec![peak("fp32", 60.0), peak("tf32", 480.0)];
    made.hardware.gpus = vec![Gpu {
        name: "GPU".to_owned(),
        aliases: vec!["GPU".to_owned()],
        peaks,
        ..Gpu::default()
    }];
    made.options.gpu = Some("GPU".to_owned());
    let found = made.in_loop().one(rule("no-tensor-cores"));
    assert!(
        words(&found.statement)
            .starts_with("no_tensor_cores.statement{products=no_tensor_cores.both{dtype=fp32}, time=900 ns, share=9.00 %, transforms=100 ns")
    );
    // 800 × (1 − 60 / 480), and the transforms.
    assert!((saved(&found) - 800.0).abs() < 1e-9);
    assert_eq!(
        sized(decode()).outcome(rule("no-tensor-cores")),
        Outcome::PASSED
    );
    // Convolutions are distinguished; what prepares one multiplies nothing.
    let mut other = decode();
    other = other
        .launches(
            "implicit_convolve_sgemm",
            Convolution,
            ("fp32", slow),
            (4, 300),
        )
        .launches(
            "implicit_convolve_sgemm_precompute_indices",
            Convolution,
            ("fp32", slow),
            (4, 200),
        )
        .launches(
            "cudnn_turing_scudnn_128x64_stridedB_splitK_large_nn",
            Convolution,
            ("fp16", slow),
            (4, 100),
        )
        .launches("add", Elementwise, ("fp32", None), (9, 400));
    let mut both = other.found(rule("no-tensor-cores"));
    let half = both.remove(0);
    assert!(
        words(&half.statement)
            .starts_with("no_tensor_cores.statement{products=no_tensor_cores.convolutions{dtype=fp16}, time=100 ns, share=10.0 %")
    );
    assert!(words(&half.advice.unwrap()).contains("no_tensor_cores.advice_channels"));
    let found = both.remove(0);
    assert_eq!(found.title, "no_tensor_cores.convolutions{dtype=fp32}");
    assert!(
        words(&found.statement)
            .starts_with("no_tensor_cores.statement{products=no_tensor_cores.convolutions{dtype=fp32}, time=300 ns, share=30.0 %")
    );
    assert!(words(&found.advice.unwrap()).contains("no_tensor_cores.advice_convolution"));
    // The whole is the measured loop, which has 20 000 ns.
    assert_eq!(
        made.one(rule("no-tensor-cores")).gain.unwrap().of_ns.0,
        20_000.0
    );
}

#[test]
fn products_in_tf32_could_be_in_bf16() {
    let of_class = |class, time| {
        let tf32 = ("tf32", Some(true));
        decode().launches("cutlass_80_tensorop_s1688gemm", class, tf32, (1, time))
    };
    let made = |time| {
        let made = of_class(Gemm, time);
        made.launches("nvjet", Gemm, ("bf16", Some(true)), (9, 100_000 - time))
    };
    let peak = |dtype: &str, dense| Peak {
        dtype: dtype.to_owned(),
        dense: FlopsPerSecond(dense),
        ..Peak::default()
    };
    let peaks = vec![peak("bf16", 200.0), peak("tf32", 100.0)];
    let (name, aliases) = ("GPU".to_owned(), vec!["GPU".to_owned()]);
    let gpu = Gpu {
        name,
        aliases,
        peaks,
        ..Gpu::default()
    };
    let found = |mut made: Made| {
        made.hardware.gpus = vec![gpu.clone()];
        made.options.gpu = Some("GPU".to_owned());
        made.in_loop().one(rule("tf32-gemms"))
    };
    let gemms = found(made(10_000));
    let statement = "tf32_gemms.statement{products=tf32_gemms.gemms, time=10.0 µs, share=10.0 %";
    assert!(words(&gemms.statement).starts_with(statement));
    assert!((saved(&gemms) - 5000.0).abs() < 1e-9);
    let relu = |made: Made| made.launches("relu", Elementwise, ("fp32", None), (1, 10_000));
    // Half of 15 µs in TF32 among GEMMs of mostly 16 bits; half of 20 µs and of the 10 µs between convolutions.
    assert!((saved(&found(relu(made(15_000)))) - 7500.0).abs() < 1e-9);
    let convolutions = found(relu(of_class(Convolution, 20_000)));
    assert!((saved(&convolutions) - 15_000.0).abs() < 1e-9);
    let statement = words(&convolutions.statement);
    assert!(statement.contains("products=tf32_gemms.convolutions, time=20.0 µs"));
    assert!(statement.contains("others=10.0 µs"));
    // What takes 5 µs is bound by latency.
    let short = of_class(Gemm, 5000);
    assert_eq!(short.outcome(rule("tf32-gemms")), Outcome::PASSED);
    // Without rates there is no gain, below a tenth no finding, and without names nothing is known.
    assert_eq!(made(10_000).one(rule("tf32-gemms")).gain, None);
    assert_eq!(made(9999).outcome(rule("tf32-gemms")), Outcome::PASSED);
    assert_eq!(silent(decode().outcome(rule("tf32-gemms"))).0, "abstained");
}

#[test]
fn a_clock_held_down_costs_its_share_of_the_busy_time() {
    // Two files of samples of one device; in each these limits.
    let made = |limits: [&[ClockLimit]; 2]| {
        let mut made = decode();
        made.stages[0].busy = Time(800.0);
        let device = |(busy, limits): (f64, &[ClockLimit])| Device {
            busy: Some(Time(busy)),
            limits: limits.to_vec(),
            ..Device::default()
        };
        let devices = [4000.0, 9.0].into_iter().zip(limits).map(device).collect();
        made.known.power = Ok(Power {
            devices,
            ..Power::default()
        });
        made
    };
    let limit = |reason, share, busy_share, with: Option<f64>| ClockLimit {
        reason,
        share: Ratio(share),
        busy_share: Some(Ratio(busy_share)),
        busy_clock: (with.map(Hertz), with.and(Some(Hertz(2e9)))),
        ..ClockLimit::default()
    };
    let of_first = |limits: &[ClockLimit]| made([limits, &[]]);
    let cap = limit(POWER_CAP, 0.1, 0.5, Some(1.5e9));
    let (nothing_runs, thermal) = (0x1, 0x40);
    let idle = limit(nothing_runs, 0.9, 0.9, Some(1e9));
    let found = of_first(&[cap.clone(), idle.clone()]).one(rule("clock-limits"));
    // Half of the busy time at three quarters of the clock: 12.5 % of 4000 ns, and of the ten times 800 ns that the GPU
    // is busy in stages, which are 5 % of the run of 20 000 ns.
    assert!((saved(&found) - 500.0).abs() < 1e-9 && (found.weight_ns.0 - 1000.0).abs() < 1e-9);
    assert_eq!(found.severity, Severity::Warning);
    assert!(words(&found.statement).contains("reason=sw_power_cap, share=50.0 %"));
    // Samples of at most 434 of 700 W do not bear the limit out; 670 W do.
    let said = |most: f64| {
        let mut made = of_first(&[limit(POWER_CAP, 0.1, 0.5, Some(1.5e9))]);
        made.session
            .add_fact("env.json", "gpu 0", "power_limit_w", "700");
        made.known.power.as_mut().unwrap().devices[0]
            .whole
            .power_max = Some(Watts(most));
        words(&made.one(rule("clock-limits")).statement)
    };
    assert!(said(434.0).contains("most=434 W, limit=700 W"));
    assert!(!said(434.0).contains("meaning="));
    assert!(said(670.0).contains("meaning="));
    // Only a limit that the power reaches can be raised.
    assert!(said(434.0).contains("lever=clock_limits.lever_below"));
    assert!(said(670.0).contains("lever=clock_limits.lever_power"));
    // Nor can one that is the board's maximum.
    let of_board = |maximum: &str| {
        let mut made = of_first(&[limit(POWER_CAP, 0.1, 0.5, Some(1.5e9))]);
        let session = &mut made.session;
        session.add_fact("env.json", "gpu 0", "power_limit_w", "700");
        session.add_fact("env.json", "gpu 0", "power_limit_max_w", maximum);
        words(&made.one(rule("clock-limits")).statement)
    };
    assert!(of_board("700").contains("lever=clock_limits.lever_maximum{limit=700 W}"));
    assert!(of_board("800").contains("lever=clock_limits.lever_power"));
    let hot = limit(thermal, 0.02, 0.02, None);
    let found = of_first(&[hot]).one(rule("clock-limits"));
    assert_eq!((found.severity, found.gain), (Severity::Warning, None));
    // Set only while nothing ran, or for less than 1 % of the busy time.
    let rare = limit(POWER_CAP, 0.9, 0.009, None);
    assert_eq!(
        of_first(&[idle, rare]).outcome(rule("clock-limits")),
        Outcome::PASSED
    );
    // The same cap in the samples of another pass is reported once, and one that costs 0.5 × 1 % not at all.
    let cap = [cap];
    assert_eq!(made([&cap, &cap]).found(rule("clock-limits")).len(), 1);
    let cheap = limit(POWER_CAP, 0.9, 0.5, Some(1.98e9));
    assert_eq!(
        of_first(&[cheap]).outcome(rule("clock-limits")),
        Outcome::PASSED
    );
    let mut never = of_first(&[]);
    never
        .known
        .power
        .as_mut()
        .unwrap()
        .devices
        .iter_mut()
        .for_each(|one| one.busy = None);
    assert_eq!(silent(never.outcome(rule("clock-limits"))).0, "abstained");
}

#[test]
fn pace_and_memory_have_limits() {
    let pace = |drift: f64| decode().pace(0, drift, 9.0 * drift.signum());
    assert_eq!(
        pace(0.08).one(rule("uneven-pace")).severity,
        Severity::Warning
    );
    assert!(
        words(&pace(-0.08).one(rule("uneven-pace")).statement)
            .contains("stage=decode, drift=8.00 %")
    );
    assert_eq!(
        decode().pace(0, 0.08, 1.9).outcome(rule("uneven-pace")),
        Outcome::PASSED
    );
    assert_eq!(pace(-0.04).outcome(rule("uneven-pace")), Outcome::PASSED);
    let mut short = pace(0.08);
    let series = &mut short.known.drift.as_mut().unwrap().series[0];
    (series.trend, series.drift) = (None, None);
    series.instances.truncate(5);
    series.alike.truncate(5);
    let reason = series.change().unwrap_err();
    assert!(reason.contains('5') && reason.contains('8'), "{reason}");
    let why = format!("uneven_pace.needs{{least=8, stage=decode, reason={reason}}}");
    assert_eq!(
        silent(short.outcome(rule("uneven-pace"))),
        ("abstained", why)
    );
    // The GPU has 1000 bytes.
    let memory = |allocated: i64, reserved: i64, share: f64| {
        let peak = State {
            allocated,
            ..State::default()
        };
        let (peak_reserved, fragmentation) = (Some(reserved), Some(Ratio(share)));
        let whole = Figures {
            peak,
            peak_reserved,
            fragmentation,
            ..Figures::default()
        };
        let devices = vec![DeviceMemory {
            whole,
            ..DeviceMemory::default()
        }];
        let mut made = decode();
        made.known.allocator = Ok(Allocator {
            devices,
            ..Allocator::default()
        });
        made
    };
    assert_eq!(
        memory(950, 990, 0.3).found(rule("memory-pressure")).len(),
        2
    );
    assert_eq!(
        memory(400, 500, 0.2).found(rule("memory-pressure")).len(),
        1
    );
    for clear in [memory(890, 900, 0.1), memory(100, 490, 0.8)] {
        assert_eq!(clear.outcome(rule("memory-pressure")), Outcome::PASSED);
    }
}
