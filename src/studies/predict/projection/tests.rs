//! Numbers that a reader can check in the head.

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_session::KernelId;

use rooflens_units::{Bytes, BytesPerSecond, Count, Flops, FlopsPerSecond, Ratio, Time};

use super::kernel::time;
use super::{Bound, Change, Device, Interval, Kernel, Part, Stage, Work, project};

/// 1 TB/s, 100 TFLOP/s in bf16 and 200 in fp8, 100 SMs.
fn device(name: &str, factor: f64) -> Device {
    let rates = [("bf16", 1e14 * factor), ("fp8", 2e14 * factor)];
    Device {
        name: name.to_owned(),
        bandwidth: BytesPerSecond(1e12 * factor),
        rates: rates
            .map(|(name, rate)| (name.to_owned(), FlopsPerSecond(rate)))
            .into(),
        sms: Count(100.0),
        measured: false,
    }
}

fn change(batch: f64) -> Change {
    let (from, to) = (device("A", 1.0), device("A", 1.0));
    Change {
        batch: Ratio(batch),
        dtype: None,
        graphs: false,
        from,
        to,
    }
}

/// 20 MB of weights and 1 MB of activations: 21 µs at 1 TB/s. It takes 31 µs.
fn gemm() -> Kernel {
    let work = Work {
        flops: Flops(1e8),
        weights: Bytes(20e6),
        inputs: Bytes(0.5e6),
        outputs: Bytes(0.5e6),
        dtype: "bf16",
        element: Bytes(2.0),
        linear: true,
    };
    Kernel {
        kernel: Some(KernelId(0)),
        class: KernelClass::Gemm,
        launches: Count(1.0),
        time: Time(31_000.0),
        work: Some(work),
        ..Kernel::default()
    }
}

/// Both bounds to the nanosecond.
#[track_caller]
fn assert_bounds(time: Interval, low: f64, high: f64) {
    let near = |bound: Time, expected: f64| (bound.0 - expected).abs() < 1.0;
    assert!(
        near(time.low, low) && near(time.high, high),
        "{time:?} is not {low} to {high}"
    );
}

#[test]
fn weights_do_not_grow_with_the_batch() {
    // 20 + 4 MB are 24 µs. Overhead kept: 31 − 21 + 24 = 34. Efficiency kept: 1 + 30 · 24/21 = 35.286.
    let new = time(&gemm(), &change(4.0), Time(1000.0));
    // Another kernel: 5 % less or 15 % more.
    assert_bounds(new, 32_300.0, 40_579.0);
}

#[test]
fn twice_the_bandwidth_halves_the_roofline_or_all_of_the_time() {
    let other = Change {
        to: device("B", 2.0),
        ..change(1.0)
    };
    // Overhead kept: 31 − 21 + 10.5 = 20.5. Efficiency kept: 1 + 30/2 = 16.
    assert_bounds(time(&gemm(), &other, Time(1000.0)), 16_000.0, 20_500.0);
}

#[test]
fn another_dtype_halves_weights_and_inputs_of_linear_layers_alone() {
    let fp8 = Change {
        dtype: Some("fp8".to_owned()),
        ..change(1.0)
    };
    // 10 + 0.25 + 0.5 MB are 10.75 µs. Overhead kept: 20.75. Efficiency kept: 1 + 30 · 10.75/21 = 16.357.
    assert_bounds(time(&gemm(), &fp8, Time(1000.0)), 15_539.3, 23_862.5);
    let mut attention = gemm();
    if let Some(work) = &mut attention.work {
        work.linear = false;
    }
    assert_bounds(time(&attention, &fp8, Time(1000.0)), 31_000.0, 31_000.0);
}

#[test]
fn waves_bound_kernels_of_unknown_sizes() {
    let kernel = |waves: f64, grid_grows: bool| Kernel {
        kernel: Some(KernelId(1)),
        class: KernelClass::Elementwise,
        time: Time(3000.0),
        waves: Some(Ratio(waves)),
        grid_grows,
        ..Kernel::default()
    };
    let of = |waves, grows| time(&kernel(waves, grows), &change(4.0), Time(1000.0));
    // Still one wave: as now, to 1 + 2 · 1.25; ± another kernel.
    assert_bounds(of(0.1, true), 2850.0, 4025.0);
    // 2 to 8 waves: 1 + 2 · 4 = 9.
    assert_bounds(of(2.0, true), 8550.0, 10_350.0);
    // Blocks may do all of the growth, or none of it.
    assert_bounds(of(0.1, false), 2850.0, 10_350.0);
}

/// 100 launches of a 31 µs GEMM: 3.1 ms of GPU work in a stage that takes as long as given.
fn stage(time: f64) -> Stage {
    Stage {
        name: "decode".to_owned(),
        static_shapes: true,
        time: Interval::exact(Time(time)),
        busy: Interval::exact(Time(3_100_000.0)),
        sum: Time(3_100_000.0),
        launches: Count(100.0),
        kernels: vec![Kernel {
            launches: Count(100.0),
            ..gemm()
        }],
        ..Stage::default()
    }
}

#[test]
fn a_graph_takes_the_launches_away() {
    let graphs = Change {
        graphs: true,
        ..change(1.0)
    };
    let mut slow = stage(8_100_000.0);
    slow.kept = vec![("sync", Time(500_000.0))];
    let new = project(&slow, &graphs);
    assert_eq!(
        (new.bound_now, new.bound, new.graphed),
        (Bound::Host, Bound::Gpu, true)
    );
    // 3.1 ms and gaps of 0.25 to 1.5 µs, ± 3 %, and 0.5 ms that stay.
    assert_bounds(
        new.time,
        3_125_000.0 * 0.97 + 500_000.0,
        3_250_000.0 * 1.03 + 500_000.0,
    );
    // Now: 8.1 − 0.5 − 3.1 − 100 · 0.5 µs wait for launches.
    let waits = new
        .parts
        .iter()
        .find(|(part, _, _)| *part == Part::Launches)
        .map(|part| part.1);
    assert_eq!(waits, Some(Time(4_450_000.0)));
}

#[test]
fn a_launch_bound_stage_stays_so_with_faster_kernels() {
    let other = Change {
        to: device("B", 2.0),
        ..change(1.0)
    };
    let new = project(&stage(8_000_000.0), &other);
    // The host alone: 8 ms by 4/3 either way.
    assert_bounds(new.time, 6_000_000.0, 8_000_000.0 * 4.0 / 3.0);
    assert_eq!(new.bound, Bound::Host);
}

#[test]
fn a_gpu_bound_stage_keeps_its_gaps_and_hides_the_host() {
    let mut fast = stage(3_200_000.0);
    // 10 µs a launch elsewhere: 1 ms here.
    fast.host_launch = Some(Time(10_000.0));
    let new = project(&fast, &change(1.0));
    assert_eq!(new.bound_now, Bound::Gpu);
    // (3.2 − 3.1) ms ÷ 100 = 1 µs a gap, 0.25 µs at least.
    assert_bounds(new.time, 3_125_000.0 * 0.97, 3_200_000.0 * 1.03);
    // Two factors of 1.25: by exp(√2 · ln 1.25) = 1.371044 either way.
    assert_bounds(new.host, 1_000_000.0 / 1.371_044, 1_371_044.0);
}

#[test]
fn independent_errors_add_in_squares() {
    let of = |mid: f64, below: f64, above: f64| Interval {
        low: Time(mid - below),
        mid: Time(mid),
        high: Time(mid + above),
    };
    let sum = Interval::sum_of_independent([of(10.0, 3.0, 0.0), of(20.0, 4.0, 5.0)]);
    assert_eq!(sum, of(30.0, 5.0, 5.0));
    // A factor of e twice: by e to the power of √2.
    let twice = Interval {
        low: Time(1.0 / libm::exp(1.0)),
        mid: Time(1.0),
        high: Time(1.0),
    }
    .with_error(Ratio(libm::exp(1.0)));
    assert!((libm::log(twice.low.0) + libm::sqrt(2.0)).abs() < 1e-12);
    assert!((libm::log(twice.high.0) - 1.0).abs() < 1e-12);
}
