//! The timeline of small sessions.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::MetricValue;

use super::*;
use crate::testing::{column, dataset, show, show_keys};
use rooflens_analysis::testing::trace;
use rooflens_document::Cell;
use rooflens_document::chart::{Plot, Track};
use rooflens_session::{CounterSample, DeviceSample, Ns, PassId, Session};

fn sample(session: &mut Session, name: &str, time: i64, value: f64) {
    let (pass, metric) = (PassId(0), session.intern(name));
    let gpu = Some(session.gpu(pass, 0));
    session.counter_samples.push(CounterSample {
        time: Ns(time),
        metric,
        value,
        pass,
        gpu,
    });
}

#[test]
fn a_stage_has_the_mean_of_the_samples_in_its_projection() {
    // The kernel runs in [100, 400]: of the samples 10, 20, 60 the last two count. No tensor counter was sampled.
    let mut session = trace("stream 7: gemm 100..400");
    for (time, value) in [(50, 10.0), (100, 20.0), (400, 60.0), (401, 90.0)] {
        sample(&mut session, "SMs Active [Throughput %]", time, value);
        sample(
            &mut session,
            "DRAM Read Bandwidth [Throughput %]",
            time,
            value / 2.0,
        );
        sample(
            &mut session,
            "DRAM Write Bandwidth [Throughput %]",
            time,
            1.0,
        );
        sample(
            &mut session,
            "GPC Clock Frequency [MHz]",
            time,
            1_980_000_000.0,
        );
        sample(
            &mut session,
            "PCIe RX Throughput [Throughput %]",
            time,
            99.0,
        );
    }
    let content = show(&SECTION, &session);
    let value = |id: &str| {
        &content
            .metrics
            .iter()
            .find(|metric| metric.id == id)
            .unwrap()
            .value
    };
    assert_eq!(value("sm_active"), &MetricValue::Measured { value: 0.4 });
    // Read 10 % and 30 %, mean 20 %; write 1 %.
    let traffic = value("dram_bandwidth_share").number().unwrap();
    assert!((traffic - 0.21).abs() < 1e-12, "{traffic}");
    let reason = basis!("basis.no_counter");
    assert_eq!(value("tensor_active"), &MetricValue::Unavailable { reason });
    let counters = "SMs Active [Throughput %]";
    let basis = basis!(
        "basis.sampled",
        counters = counters,
        samples = 2,
        instances = 1
    );
    assert_eq!(content.metrics[0].basis, basis);
    let of = |id: &str| column(dataset(&content, "gpu_metrics"), id)[0].clone();
    assert_eq!(of("samples"), Cell::Int(2));
    assert_eq!(
        (of("tensor_active"), of("sm_clock_hz")),
        (Cell::Missing, Cell::Float(1.98e9))
    );
}

#[test]
fn a_stage_between_two_samples_has_no_mean() {
    let mut session = trace("stream 7: gemm 100..400");
    sample(&mut session, "SM Active", 50, 10.0);
    sample(&mut session, "SM Active", 1_050, 10.0);
    let content = show(&SECTION, &session);
    let metric = content
        .metrics
        .iter()
        .find(|metric| metric.id == "sm_active")
        .unwrap();
    let reason = basis!("basis.no_sample", time = "300 ns", period = "1.00 µs");
    assert_eq!(metric.value, MetricValue::Unavailable { reason });
}

#[test]
fn power_is_shown_where_its_samples_fall_in_the_pass() {
    // Zero of the pass is 1000 in UTC: samples at 1000, 1100, 1200 lie in it, 1300 behind it. In the middle
    // one the clock is 95 % of the highest, with a reason; 98 % later is not worth a mark.
    let mut session = trace("stream 7: gemm 0..250");
    session.passes.utc_origin[0] = Some(Ns(1_000));
    let artifact = session.intern("nvml.csv");
    for (utc, watts, clock, reasons) in [
        (1_000, 100, 2_000, 0),
        (1_100, 300, 1_900, 4),
        (1_200, 200, 1_960, 4),
        (1_300, 900, 1_000, 4),
    ] {
        session.device_samples.push(DeviceSample {
            utc: Ns(utc),
            device: 0,
            power_mw: Some(watts * 1_000),
            sm_mhz: Some(clock),
            memory_mhz: None,
            gpu_util: None,
            memory_util: None,
            temperature: None,
            memory_used: None,
            throttle_reasons: Some(reasons),
            artifact,
        });
    }
    let content = show_keys(&SECTION, &session);
    let chart = content.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(&chart.plot),
        _ => None,
    });
    let Some(Plot::Tracks(plot)) = chart else {
        panic!("{chart:?}")
    };
    let lines = plot.tracks.iter().filter_map(|track| match track {
        Track::Lines(lines) => Some(lines),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    let [power, _] = lines.as_slice() else {
        panic!("power and clock: {lines:?}")
    };
    assert_eq!(
        power.lines[0].points,
        [(0, 100.0), (100, 300.0), (200, 200.0)]
    );
    assert_eq!(
        power.shades,
        Some((
            "timeline.throttled{least=97.0 %}".to_owned(),
            vec![(100, 200)]
        ))
    );
}

#[test]
fn nothing_to_show_makes_no_section() {
    let content = show(&SECTION, &Session::default());
    assert!(content.blocks.is_empty() && content.datasets.is_empty() && content.methods.is_empty());
}
