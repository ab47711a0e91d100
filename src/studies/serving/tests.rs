//! Figures of the files that `tests/reference/serving.py` made of one load test, against those that NumPy gave of its raw
//! samples; refusals; bottlenecks, sweeps and advice on runs made by hand.

mod formats;
mod rules;
mod scenarios;

use std::path::{Path, PathBuf};

use rooflens_diagnostic::{Diagnostics, Severity};
use serde_json::Value;

use crate::analysis::figures::{Figures, Measure, disagreement};
use crate::analysis::goodput::Slo;
use crate::analysis::{Options, Results};
use crate::import::{File, Input, Reader, format_of};
use crate::runs::Tool;
use crate::stats::{PERCENTILES, Spread};
use rooflens_units::{Bytes, Count, Ratio, Time, Watts};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../tests/data/serving")
        .join(name)
}

fn read(files: &[File<'_>], diagnostics: &mut Diagnostics) -> Input {
    let mut reader = Reader::of(files.iter().map(|file| file.bytes.len() as u64).sum());
    for file in files {
        reader.read(file, diagnostics);
    }
    reader.finish(diagnostics)
}

fn input(names: &[&str]) -> (Input, Diagnostics) {
    let contents: Vec<Vec<u8>> = names
        .iter()
        .map(|name| std::fs::read(data(name)).expect("readable"))
        .collect();
    let files: Vec<File<'_>> = names
        .iter()
        .zip(&contents)
        .map(|(path, bytes)| File { path, bytes })
        .collect();
    let mut diagnostics = Diagnostics::default();
    (read(&files, &mut diagnostics), diagnostics)
}

fn of_text(text: &str) -> (Input, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    (
        read(
            &[File {
                path: "file",
                bytes: text.as_bytes(),
            }],
            &mut diagnostics,
        ),
        diagnostics,
    )
}

fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(data("expected.json")).expect("readable")).expect("JSON")
}

#[track_caller]
fn assert_near(what: &str, value: Option<f64>, expected: f64, tolerance: f64) {
    let value = value.unwrap_or_else(|| panic!("{what} is missing"));
    assert!(
        (value - expected).abs() <= tolerance * expected.abs(),
        "{what}: {value}, expected {expected}"
    );
}

fn number<M: rooflens_units::Measure>(value: Option<M>) -> Option<f64> {
    value.map(M::number)
}

/// Figures of a measure against NumPy's, which are seconds.
#[track_caller]
fn assert_spread(
    what: &str,
    spread: &Spread,
    expected: &Value,
    percentiles: &[usize],
    tolerance: f64,
) {
    let of = |key: &str| expected[key].as_f64().expect("a number") * 1e9;
    assert_near(
        &format!("{what} mean"),
        number(spread.mean),
        of("mean"),
        tolerance,
    );
    for index in percentiles {
        let key = format!("p{}", PERCENTILES[*index]);
        assert_near(
            &format!("{what} {key}"),
            number(spread.percentiles[*index]),
            of(&key),
            tolerance,
        );
    }
}

/// A file: tool, measures that it has with their percentiles, rates that it has, tolerance.
type Case = (
    &'static str,
    Tool,
    &'static [(Measure, &'static str)],
    &'static [usize],
    &'static [&'static str],
    f64,
);

const ALL: &[(Measure, &str)] = &[
    (Measure::Ttft, "ttft"),
    (Measure::Tpot, "tpot"),
    (Measure::Itl, "itl"),
    (Measure::Latency, "e2e"),
];
const NO_ITL: &[(Measure, &str)] = &[
    (Measure::Ttft, "ttft"),
    (Measure::Tpot, "tpot"),
    (Measure::Latency, "e2e"),
];
const NO_E2E: &[(Measure, &str)] = &[(Measure::Ttft, "ttft"), (Measure::Tpot, "tpot")];
const BOTH: &[&str] = &["request_rate", "output_rate"];
const OUTPUT: &[&str] = &["output_rate"];
/// Nanosecond timestamps are rounded, genai-perf's CSV to 10 µs.
const CASES: &[Case] = &[
    (
        "vllm.json",
        Tool::VllmBench,
        ALL,
        &[0, 1, 2, 3],
        BOTH,
        1e-12,
    ),
    (
        "vllm_detailed.json",
        Tool::VllmBench,
        ALL,
        &[0, 1, 2, 3],
        BOTH,
        1e-12,
    ),
    ("sglang.jsonl", Tool::SglangBench, ALL, &[0, 3], BOTH, 1e-12),
    (
        "sglang_detailed.jsonl",
        Tool::SglangBench,
        ALL,
        &[0, 1, 2, 3],
        BOTH,
        1e-12,
    ),
    ("aiperf.json", Tool::AiPerf, ALL, &[0, 1, 2, 3], BOTH, 1e-12),
    ("aiperf.jsonl", Tool::AiPerf, ALL, &[0, 1, 2, 3], BOTH, 1e-7),
    ("aiperf.csv", Tool::AiPerf, ALL, &[0, 1, 2, 3], BOTH, 1e-12),
    (
        "genai_perf.json",
        Tool::GenAiPerf,
        NO_ITL,
        &[0, 1, 2, 3],
        BOTH,
        1e-12,
    ),
    (
        "genai_perf.csv",
        Tool::GenAiPerf,
        NO_ITL,
        &[0, 1, 2, 3],
        &[],
        1e-3,
    ),
    (
        "inferencex.json",
        Tool::InferenceX,
        ALL,
        &[0, 3],
        OUTPUT,
        1e-12,
    ),
    ("llm_d.json", Tool::LlmD, ALL, &[0, 1, 2, 3], BOTH, 1e-12),
    (
        "trtllm.json",
        Tool::TrtLlmBench,
        NO_ITL,
        &[0, 1, 2, 3],
        BOTH,
        1e-12,
    ),
    (
        "optimum.json",
        Tool::Optimum,
        NO_E2E,
        &[0, 1, 2, 3],
        OUTPUT,
        1e-12,
    ),
    (
        "llm_perf.csv",
        Tool::Optimum,
        NO_E2E,
        &[0, 1, 2, 3],
        OUTPUT,
        1e-12,
    ),
    (
        "rooflens.jsonl",
        Tool::Rooflens,
        ALL,
        &[0, 1, 2, 3],
        BOTH,
        1e-12,
    ),
    (
        "requests.csv",
        Tool::Requests,
        NO_ITL,
        &[0, 1, 2, 3],
        BOTH,
        1e-7,
    ),
    (
        "requests.jsonl",
        Tool::Requests,
        ALL,
        &[0, 1, 2, 3],
        BOTH,
        1e-12,
    ),
    (
        "replay.csv",
        Tool::TraceReplay,
        NO_ITL,
        &[0, 1, 2, 3],
        BOTH,
        1e-7,
    ),
];

#[test]
fn every_format_gives_the_figures_of_the_raw_samples() {
    let expected = &expected()["run"];
    for (name, tool, measures, percentiles, has, tolerance) in CASES {
        let (input, diagnostics) = input(&[name]);
        assert_eq!(
            diagnostics.iter().count(),
            0,
            "{name}: {:?}",
            diagnostics.iter().next()
        );
        let [run] = input.runs.as_slice() else {
            panic!("{name}: {} runs", input.runs.len())
        };
        assert_eq!(run.tool, *tool, "{name}");
        let figures = Figures::of(run);
        for (measure, key) in *measures {
            let spread = &figures.dist(*measure).spread;
            assert_spread(
                &format!("{name} {key}"),
                spread,
                &expected[*key],
                percentiles,
                *tolerance,
            );
        }
        let rates = [
            ("request_rate", number(figures.request_rate)),
            ("output_rate", number(figures.output_rate)),
        ];
        for (key, rate) in rates.iter().filter(|(key, _)| has.contains(key)) {
            assert_near(
                &format!("{name} {key}"),
                *rate,
                expected[*key].as_f64().expect("a number"),
                1e-7,
            );
        }
        let apart = disagreement(run, &figures).map_or(0.0, |(_, apart)| apart.0);
        assert!(
            apart < 1e-2,
            "{name}: figures of one file differ by {apart}"
        );
    }
}

#[test]
fn timestamps_of_responses_give_latencies_to_the_nanosecond() {
    let (input, _) = input(&["perf_analyzer.json"]);
    let figures = Figures::of(&input.runs[0]);
    let expected = &expected()["run"];
    assert_eq!(input.runs[0].load.concurrency, Some(Count(8.0)));
    for (measure, key) in [
        (Measure::Ttft, "ttft"),
        (Measure::Itl, "itl"),
        (Measure::Latency, "e2e"),
    ] {
        assert_spread(
            key,
            &figures.dist(measure).spread,
            &expected[key],
            &[0, 1, 2, 3],
            1e-7,
        );
    }
}

#[test]
fn gaps_of_a_replay_are_those_between_its_timestamps() {
    let (input, _) = input(&["replay.csv"]);
    // Seconds since 1970 hold a quarter of a microsecond.
    let spread = Figures::of(&input.runs[0]).dist(Measure::Itl).spread;
    assert_spread(
        "itl",
        &spread,
        &expected()["run"]["itl"],
        &[0, 1, 2, 3],
        2e-5,
    );
    // Three of four blocks of each prompt.
    assert_near(
        "cached",
        number(Figures::of(&input.runs[0]).cached),
        0.75,
        1e-12,
    );
}

#[test]
fn two_snapshots_give_what_happened_between_them() {
    let (input, diagnostics) = input(&["before.prom", "after.prom"]);
    assert_eq!(diagnostics.iter().count(), 0);
    let [run] = input.runs.as_slice() else {
        panic!("one engine")
    };
    let (figures, run_figures) = (Figures::of(run), &expected()["run"]);
    let of = |key: &str| run_figures[key].as_f64().expect("a number");
    assert_eq!(run.tool, Tool::EngineMetrics);
    assert_near("duration", number(figures.duration), 20e9, 1e-12);
    assert_near("requests", number(figures.request_rate), 40.0 / 20.0, 1e-12);
    assert_near(
        "output",
        number(figures.output_rate),
        of("output") / 20.0,
        1e-12,
    );
    let mean = run_figures["ttft"]["mean"].as_f64().expect("a number") * 1e9;
    assert_near(
        "ttft",
        number(figures.dist(Measure::Ttft).spread.mean),
        mean,
        1e-9,
    );
    assert_near(
        "queue",
        number(figures.dist(Measure::Queued).spread.mean),
        0.25 * mean,
        1e-9,
    );
    assert_eq!(run.settings["gpu_memory_utilization"], "0.9");
}

#[test]
fn the_engine_and_its_settings_are_settings_of_the_run() {
    let text = "{\"schema\":\"rooflens.serving.v1\",\"mode\":\"closed\",\"url\":\"http://h/v1\",\
        \"engine\":\"vLLM 0.10.1\",\"settings\":{\"max-num-seqs\":\"8\"}}\n";
    let file = File {
        path: "a.jsonl",
        bytes: text.as_bytes(),
    };
    let run = &read(&[file], &mut Diagnostics::default()).runs[0];
    let settings: Vec<(&str, &str)> = run
        .settings
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    let expected = [
        ("engine", "vLLM 0.10.1"),
        ("max-num-seqs", "8"),
        ("url", "http://h/v1"),
    ];
    assert_eq!(settings, expected);
}

#[test]
fn a_request_that_the_end_of_the_test_cut_off_has_no_answer() {
    // Two requests per second are offered, and one of three has its last token: 10 tokens in 2 s.
    let record = |sent: f64, first: &str, last: &str, tokens: u64| {
        format!(
            "{{\"timestamp_sent\":{sent},\"timestamp_first_token\":{first},\"timestamp_last_token\":{last},\
            \"input_tokens\":5,\"output_tokens\":{tokens},\"error\":null}}"
        )
    };
    let records = [
        record(100.0, "100.5", "102.0", 10),
        record(100.5, "101.0", "null", 0),
        record(101.0, "null", "null", 0),
    ];
    let text = format!(
        "{{\"experiment_id\":\"a\",\"config\":{{\"target_rps\":2.0,\"open_loop\":true}},\
        \"metrics\":{{\"successful_requests\":3}},\"records\":[{}]}}",
        records.join(",")
    );
    let (input, _) = of_text(&text);
    let figures = Figures::of(&input.runs[0]);
    assert_eq!(
        (figures.completed, figures.failed),
        (Some(Count(1.0)), Some(Count(2.0)))
    );
    assert_near("output", number(figures.output_rate), 5.0, 1e-12);
    let options = Options::default();
    let results = Results::compute(&input, &options).expect("runs");
    assert!(results.bottlenecks[0].sustained < Some(Ratio(0.5)));
}

#[test]
fn runs_of_the_same_name_have_the_name_of_their_bundle_or_a_number() {
    let text = b"{\"schema\":\"rooflens.serving.v1\",\"mode\":\"closed\"}\n";
    let paths = [
        "a/x.jsonl",
        "b/x.jsonl",
        "b/y.jsonl",
        "c/z.jsonl",
        "c/d/z.jsonl",
    ];
    let files = paths.map(|path| File { path, bytes: text });
    let mut diagnostics = Diagnostics::default();
    let mut input = read(&files, &mut diagnostics);
    crate::check(&mut input, &mut diagnostics);
    let labels: Vec<&str> = input.runs.iter().map(|run| &*run.label).collect();
    assert_eq!(labels, ["a/x", "b/x", "y", "z #1", "z #2"]);
}

#[test]
fn snapshots_belong_to_the_load_test_of_their_time() {
    let snapshot = |at: f64, running: u64, done: u64| {
        format!(
            "# scraped_at {at}\nvllm:num_requests_running {running}\nvllm:request_success_total {done}\n"
        )
    };
    let request = |end: f64| {
        format!(
            "{{\"id\":0,\"scheduled_s\":0.0,\"start_s\":0.0,\"first_token_s\":0.5,\"end_s\":{end},\"prompt_tokens\":1,\"output_tokens\":2,\"status\":\"ok\"}}\n"
        )
    };
    let header = |at: &str| {
        format!(
            "{{\"schema\":\"rooflens.serving.v1\",\"mode\":\"open\",\"rate\":1.0,\"started_at\":\"{at}\"}}\n"
        )
    };
    // 12:00:00 is 1795348800: the first test lasts 4 s, the second one, a minute later, 2 s.
    let tests = [
        header("2026-11-22T12:00:00Z"),
        request(4.0),
        header("2026-11-22T12:01:00Z"),
        request(2.0),
    ]
    .concat();
    let times = [(-0.1, 5), (2.0, 6), (4.1, 8), (59.9, 8), (62.1, 11)];
    let snapshots: Vec<String> = times
        .iter()
        .map(|(at, done)| snapshot(1_795_348_800.0 + at, 1, *done))
        .collect();
    let mut files = vec![File {
        path: "tests.jsonl",
        bytes: tests.as_bytes(),
    }];
    files.extend(snapshots.iter().map(|text| File {
        path: "x.prom",
        bytes: text.as_bytes(),
    }));
    let mut diagnostics = Diagnostics::default();
    let input = read(&files, &mut diagnostics);
    let engines: Vec<_> = input.runs[2..]
        .iter()
        .map(|run| (run.watches, run.engine.len(), run.stated.completed))
        .collect();
    assert_eq!(
        engines,
        [
            (Some(0), 3, Some(Count(3.0))),
            (Some(1), 2, Some(Count(3.0)))
        ]
    );
}

#[test]
fn the_first_bytes_of_a_long_result_say_what_it_is() {
    let gaps = vec!["[0.01, 0.02]"; 10_000].join(", ");
    let text = format!(
        "{{\"duration\": 2.0, \"completed\": 1, \"request_throughput\": 0.5, \"mean_ttft_ms\": 3.0, \"itls\": [{gaps}]}}"
    );
    let prefix = &text.as_bytes()[..64 << 10];
    assert_eq!(format_of(prefix, false), Some("vLLM bench serve"));
    assert_eq!(format_of(prefix, true), None, "as a whole it is cut");
    // Rows of a replay may be as long as all that is read of a file.
    let cell = "1.5, ".repeat(8 << 10);
    let row = format!("a,0,3,0.5,1.5,\"{cell}\"\n");
    let replay = format!(
        "trace_id,theoretical_cache_hit_blocks,output_tokens_actual,ttft,ttlt,token_timestamps\n{}",
        row.repeat(3)
    );
    let prefix = &replay.as_bytes()[..64 << 10];
    assert_eq!(format_of(prefix, false), Some("trace replay"));
}

#[test]
fn what_values_take_in_memory_ends_reading() {
    let (mut reader, mut diagnostics) = (Reader::of(1000), Diagnostics::default());
    // An object of no entry takes the room of one with eleven.
    let bytes = format!("[{}]", vec!["{}"; 100_000].join(",")).into_bytes();
    reader.read(
        &File {
            path: "a",
            bytes: &bytes,
        },
        &mut diagnostics,
    );
    assert!(reader.is_full());
    let refused = diagnostics.iter().next().expect("it is refused");
    assert_eq!(
        (refused.code, refused.severity),
        ("serving/refused", Severity::Error)
    );
}

#[test]
fn impossible_figures_are_left_out_and_said() {
    let (input, diagnostics) = of_text(
        r#"{"duration": -5.0, "completed": -1, "request_throughput": 0.5, "mean_ttft_ms": 3.0, "p99_ttft_ms": -2.0,
            "ttfts": [0.5], "itls": [[0.1, -1.0]], "output_lens": [3]}"#,
    );
    let run = &input.runs[0];
    assert_eq!((run.stated.duration, run.stated.completed), (None, None));
    assert_eq!(
        (run.stated.ttft.p99(), run.stated.ttft.mean),
        (None, Some(3.0 * Time(1e6)))
    );
    assert_eq!(run.requests[0].itl, [Time(1e8)]);
    let lost = diagnostics
        .iter()
        .find(|lost| lost.code == "serving/impossible")
        .expect("it is said");
    // Duration, completed, a percentile, a gap, and the latency that is their sum: 0.5 + 0.1 - 1.
    assert_eq!((lost.severity, lost.count), (Severity::DataLoss, 5));
}

#[test]
fn more_runs_than_a_report_compares_are_data_loss() {
    let run =
        r#"{"duration": 2.0, "completed": 1, "request_throughput": 0.5, "mean_ttft_ms": 3.0}"#;
    let (input, diagnostics) = of_text(&vec![run; 1030].join("\n"));
    assert_eq!(input.runs.len(), 1024);
    let lost = diagnostics
        .iter()
        .find(|lost| lost.code == "serving/runs")
        .expect("it is said");
    assert_eq!((lost.severity, lost.count), (Severity::DataLoss, 6));
}

#[test]
fn one_snapshot_has_no_rates() {
    let (input, diagnostics) = input(&["after.prom"]);
    assert_eq!(Figures::of(&input.runs[0]).request_rate, None);
    assert_eq!(
        diagnostics.iter().next().map(|one| one.code),
        Some("serving/no-rates")
    );
}

#[test]
fn dcgm_gives_samples_of_each_gpu() {
    let (input, _) = input(&["dcgm.txt"]);
    let [first, second] = input.gpu.as_slice() else {
        panic!("two GPUs")
    };
    assert_eq!(
        (first.utilization, first.power, first.memory_used),
        (
            Some(Ratio(0.9)),
            Some(Watts(512.5)),
            Some(Bytes(1_073_741_824.0))
        )
    );
    assert_eq!((second.gpu, second.utilization), (1, Some(Ratio(0.4))));
}

#[test]
fn a_sweep_has_the_goodput_and_the_knee_of_its_samples() {
    let (input, diagnostics) = input(&["sweep.jsonl"]);
    assert_eq!(diagnostics.iter().count(), 0);
    let slo = Slo::parse("ttft=100ms,tpot=25ms").expect("limits");
    let options = Options {
        slo,
        ..Options::default()
    };
    let results = Results::compute(&input, &options).expect("runs");
    let expected = expected();
    let loads = expected["sweep"].as_array().expect("a list");
    assert_eq!(results.runs.len(), loads.len());
    for (index, load) in loads.iter().enumerate() {
        let good = results.goodput[index].expect("goodput");
        assert_eq!(
            Some(good.good),
            load["good"].as_u64(),
            "at {}",
            load["rate"]
        );
        let seconds = load["duration"].as_f64().expect("a number");
        assert_near(
            "goodput",
            number(good.rate),
            good.good as f64 / seconds,
            1e-9,
        );
    }
    let [sweep] = results.sweeps.as_slice() else {
        panic!("one sweep")
    };
    // ln(output(64) ÷ output(32)) ÷ ln 2 is 0.08, and 0.48 from 16 to 32: by hand from expected.json.
    let knee = sweep.knee.map(|knee| sweep.points[knee].load.value);
    let rate = |n: usize| loads[n]["output_rate"].as_f64().expect("a number");
    let flat = |n: usize| libm::log2(rate(n + 1) / rate(n)) < 0.5;
    let first_flat = (0..5).rev().take_while(|n| flat(*n)).last();
    assert_eq!(
        knee,
        first_flat.map(|n| loads[n]["rate"].as_f64().expect("a number"))
    );
}

#[test]
fn files_that_are_no_results_are_refused_by_name() {
    let cases = [
        (r#"{"Results": "{\"run_configs\": []}"}"#, "checkpoint"),
        (
            "# a comment\nDCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).\n",
            "DCGM fields",
        ),
        (
            "[2026-01-01 00:00:00,000] INFO - Test Complete\n",
            "console log",
        ),
        ("", "empty"),
        (r#"{"duration": 1.0, "compl"#, "damaged"),
        ("a,ttft,output_tokens\n1,2,3\n", "names no unit"),
        ("name,size\nx,1\n", "no latency"),
        (r#"{"hello": "world"}"#, "not one of requests"),
        (
            r#"{"schema": "rooflens.serving.v9", "mode": "open"}"#,
            "another version",
        ),
        (
            r#"{"data": [{"session_id": "x", "payloads": []}]}"#,
            "prompts",
        ),
    ];
    for (text, reason) in cases {
        let (input, diagnostics) = of_text(text);
        let first = diagnostics
            .iter()
            .next()
            .unwrap_or_else(|| panic!("{text} is read"));
        assert!(
            input.runs.is_empty() && first.severity == Severity::Error,
            "{text}"
        );
        assert!(first.message.contains(reason), "{text}: {}", first.message);
        assert!(first.hint.is_some(), "{text}");
    }
}

#[test]
fn a_damaged_line_costs_itself() {
    let text = std::fs::read_to_string(data("rooflens.jsonl")).expect("readable");
    let cut = text.len() - 40;
    let (input, diagnostics) = of_text(&text[..cut]);
    assert_eq!(input.runs[0].requests.len(), 39);
    assert_eq!(
        diagnostics
            .iter()
            .next()
            .map(|one| (one.severity, one.count)),
        Some((Severity::DataLoss, 1))
    );
}

#[test]
fn no_damage_to_a_file_stops_the_report() {
    let text = rooflens_document::Catalogue::english();
    // xorshift64: the same damage in each run.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let names = CASES.iter().map(|case| case.0).chain([
        "perf_analyzer.json",
        "engine_log.csv",
        "after.prom",
        "dcgm.txt",
    ]);
    for name in names {
        let whole = std::fs::read(data(name)).expect("readable");
        for _ in 0..12 {
            let mut bytes = whole.clone();
            for _ in 0..=random(6) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes[at] = b"0-9eE\"[]{},:\n\xff"[random(14)],
                    1 => bytes.truncate(at.max(1)),
                    2 => bytes
                        .splice(at..at, b"1e308".iter().copied())
                        .for_each(drop),
                    _ => bytes
                        .splice(at..at, b"-99999999999999999999".iter().copied())
                        .for_each(drop),
                }
            }
            let mut diagnostics = Diagnostics::default();
            let mut input = read(
                &[File {
                    path: name,
                    bytes: &bytes,
                }],
                &mut diagnostics,
            );
            crate::check(&mut input, &mut diagnostics);
            let options = Options {
                slo: Slo::parse("ttft=1,tpot=1,e2e=1").expect("limits"),
                ..Options::default()
            };
            if let Some(results) = Results::compute(&input, &options) {
                crate::report(
                    &results,
                    text,
                    rooflens_document::report::Provenance::default(),
                    &diagnostics,
                );
            }
        }
    }
}
