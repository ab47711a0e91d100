//! The timeline of small sessions.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::{MetricValue, PassKind};

use super::bins::{Window, means, mix};
use super::*;
use crate::analysis::Options;
use crate::analysis::engine::facts::Facts;
use crate::analysis::engine::intervals::union_length;
use crate::analysis::engine::segments::{Segment, exclusive};
use crate::findings::chart::{Color, Plot, Track};
use crate::findings::{Cell, Chart};
use crate::hardware::Hardware;
use crate::model::{CounterSample, DeviceSample, Dim3, Launch, Ns, ProcessId};

const GEMM: &str = "nvjet_tst_128x64_64x11_1x2_h_bz_TNT";
const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

/// One pass without ranges: the whole capture is its stage.
fn session_of(launches: &[(&str, Ns, Ns)]) -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    session.process(pass, 0, 1);
    let gpu = session.gpu(pass, 0);
    for (name, start, end) in launches {
        let kernel = session.kernel(name, "");
        session.launches.push(Launch {
            start: *start,
            end: *end,
            kernel,
            pass,
            gpu,
            process: ProcessId(0),
            stream: 7,
            correlation: None,
            grid: Dim3::default(),
            block: Dim3::default(),
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        });
    }
    session
}

fn with<T>(session: &Session, look: impl Fn(&Context<'_>) -> T) -> T {
    let (facts, hardware, options) = (Facts::new(session), Hardware::default(), Options::default());
    look(&Context::new(session, &facts, &hardware, &options))
}

fn sample(session: &mut Session, name: &str, time: Ns, value: f64) {
    let (pass, metric) = (PassId(0), session.intern(name));
    let gpu = Some(session.gpu(pass, 0));
    session.counter_samples.push(CounterSample { time, metric, value, pass, gpu });
}

fn charts(findings: &Findings) -> Vec<&Chart> {
    fn chart(block: &Block) -> Option<&Chart> {
        match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        }
    }
    findings.blocks.iter().filter_map(chart).collect()
}

#[test]
fn a_stretch_holds_what_ran_in_it() {
    // 600 ns in 300 stretches of 2. Product in [1, 4): 1 + 2; collective in [3, 8): its part from 4 on, 2 + 2.
    let window = Window { start: 0, end: 600 };
    let session = session_of(&[(GEMM, 1, 4), (REDUCE, 3, 8), (GEMM, 599, 600)]);
    let bins = with(&session, |context| mix(&window, &exclusive(context, 0..3)));
    let at = |color: Color| Color::KERNELS.iter().position(|own| *own == color).unwrap();
    let of = |color: Color| bins.iter().take(5).map(|bin| bin[at(color)]).collect::<Vec<Ns>>();
    assert_eq!(of(Color::Gemm), [1, 2, 0, 0, 0]);
    assert_eq!(of(Color::Communication), [0, 0, 2, 2, 0]);
    assert_eq!(bins[299][at(Color::Gemm)], 1);
    assert_eq!(bins.iter().flatten().sum::<Ns>(), 8);
}

proptest::proptest! {
    /// Whatever overlaps, all stretches together are the union of the operations to the nanosecond, none is
    /// longer than it is, and every time lies in the stretch around it.
    #[test]
    fn stretches_add_up_to_busy_time(
        ops in proptest::collection::vec((0i64..5_000, 1i64..400, 0usize..2), 1..60),
    ) {
        let mut sorted: Vec<(&str, Ns, Ns)> = ops
            .iter()
            .map(|(start, length, kind)| ([GEMM, REDUCE][*kind], *start, start + length))
            .collect();
        sorted.sort_by_key(|(_, start, end)| (*start, *end));
        let session = session_of(&sorted);
        let (overview, bins) = with(&session, |context| {
            let overview = overview::of_pass(context, PassId(0)).unwrap();
            (overview.window, overview.gpus[0].1.clone())
        });
        let mut intervals: Vec<(Ns, Ns)> = sorted.iter().map(|(_, s, e)| (*s, *e)).collect();
        proptest::prop_assert_eq!(bins.iter().flatten().sum::<Ns>(), union_length(&mut intervals));
        for (bin, length) in bins.iter().zip(overview.lengths()) {
            proptest::prop_assert!(bin.iter().sum::<Ns>() <= length);
        }
        for time in (overview.start..overview.end).step_by(7) {
            let bin = overview.bin(time);
            proptest::prop_assert!(overview.edge(bin) <= time && time < overview.edge(bin + 1));
        }
    }
}

#[test]
fn a_window_without_a_whole_nanosecond_a_stretch_has_fewer() {
    let window = Window { start: -3, end: 4 };
    assert_eq!((window.count(), window.edge(0), window.edge(7)), (7, -3, 4));
    let segment = Segment { start: -10, end: 10, color: Color::Gemm };
    assert_eq!(mix(&window, &[segment]).iter().flatten().sum::<Ns>(), 7);
}

#[test]
fn samples_are_averaged_where_there_are_some() {
    // 3000 ns: stretches of 10. 1 and 3 in the first, 8 in the third; what lies outside does not count.
    let window = Window { start: 1_000, end: 4_000 };
    let values = [(999, 99.0), (1_000, 1.0), (1_009, 3.0), (1_025, 8.0), (4_000, 99.0)];
    assert_eq!(means(&window, values.into_iter()), [(5, 2.0), (25, 8.0)]);
}

#[test]
fn a_stage_has_the_mean_of_the_samples_in_its_projection() {
    // The kernel runs in [100, 400]: of the samples 10, 20, 60 the last two count. No tensor counter was sampled.
    let mut session = session_of(&[(GEMM, 100, 400)]);
    for (time, value) in [(50, 10.0), (100, 20.0), (400, 60.0), (401, 90.0)] {
        sample(&mut session, "SMs Active [Throughput %]", time, value);
        sample(&mut session, "DRAM Read Bandwidth [Throughput %]", time, value / 2.0);
        sample(&mut session, "DRAM Write Bandwidth [Throughput %]", time, 1.0);
        sample(&mut session, "GPC Clock Frequency [MHz]", time, 1_980_000_000.0);
        sample(&mut session, "PCIe RX Throughput [Throughput %]", time, 99.0);
    }
    let findings = with(&session, run);
    let value = |id: &str| &findings.metrics.iter().find(|metric| metric.id == id).unwrap().value;
    assert_eq!(value("sm_active"), &MetricValue::Measured { value: 0.4 });
    // Read 10 % and 30 %, mean 20 %; write 1 %.
    let traffic = value("dram_bandwidth_share").number().unwrap();
    assert!((traffic - 0.21).abs() < 1e-12, "{traffic}");
    assert!(matches!(value("tensor_active"), MetricValue::Unavailable { reason }
        if reason.contains("no such counter")));
    assert!(findings.metrics[0].basis.contains("SMs Active [Throughput %], mean of 2 samples"));
    let table = findings.datasets.iter().find(|dataset| dataset.id == "gpu_metrics").unwrap();
    assert_eq!(table.rows[0][4], Cell::Int(2));
    assert_eq!((&table.rows[0][6], &table.rows[0][9]), (&Cell::Missing, &Cell::Float(1.98e9)));
}

#[test]
fn a_stage_between_two_samples_has_no_mean() {
    let mut session = session_of(&[(GEMM, 100, 400)]);
    sample(&mut session, "SM Active", 50, 10.0);
    sample(&mut session, "SM Active", 1_050, 10.0);
    let findings = with(&session, run);
    let metric = findings.metrics.iter().find(|metric| metric.id == "sm_active").unwrap();
    assert!(
        matches!(&metric.value, MetricValue::Unavailable { reason }
        if reason.contains("300.0 ns") && reason.contains("1.000 µs")),
        "{metric:?}"
    );
}

#[test]
fn power_is_shown_where_its_samples_fall_in_the_pass() {
    // Zero of the pass is 1000 in UTC: samples at 1000, 1100, 1200 lie in it, 1300 behind it; throttled in the middle.
    let mut session = session_of(&[(GEMM, 0, 250)]);
    session.passes.utc_origin[0] = Some(1_000);
    let artifact = session.intern("nvml.csv");
    for (utc, watts, reasons) in
        [(1_000, 100, 0), (1_100, 300, 4), (1_200, 200, 0), (1_300, 900, 4)]
    {
        session.device_samples.push(DeviceSample {
            utc,
            device: 0,
            power_mw: Some(watts * 1_000),
            sm_mhz: None,
            memory_mhz: None,
            gpu_util: None,
            memory_util: None,
            temperature: None,
            memory_used: None,
            throttle_reasons: Some(reasons),
            artifact,
        });
    }
    let findings = with(&session, run);
    let charts = charts(&findings);
    let Plot::Tracks(plot) = &charts[0].plot else { panic!("{:?}", charts[0].plot) };
    let lines = plot.tracks.iter().filter_map(|track| match track {
        Track::Lines(lines) => Some(lines),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    let [power] = lines.as_slice() else {
        panic!("one track, the clock was not sampled: {lines:?}")
    };
    assert_eq!(power.lines[0].points, [(0, 100.0), (100, 300.0), (200, 200.0)]);
    assert_eq!(power.shades, Some(("throttled".to_owned(), vec![(100, 200)])));
}

#[test]
fn nothing_to_show_makes_no_section() {
    let findings = with(&Session::default(), run);
    assert!(
        findings.blocks.is_empty() && findings.datasets.is_empty() && findings.methods.is_empty()
    );
}
