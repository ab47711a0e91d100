//! Idle time of the fixtures by cause against what `tests/reference/idle.py` derives from the same exports
//! without this program, and the identity that holds for every stage. Of the captures that the fixtures were
//! made of the script derives the same numbers: they lack the calls of the operating system, which no gap
//! within these stages consists of.

use std::path::PathBuf;

use rooflens::analysis::engine::stage_stats::{Summary, summaries};
use rooflens::analysis::{self, ANALYSES, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::{Cell, Dataset, Findings, Inline};
use rooflens::hardware::Hardware;
use rooflens::model::Session;
use rooflens::rules;
use rooflens::{bundle, ingest};

/// Pass, stage, and nanoseconds by cause, the most first.
type Expected = (&'static str, &'static str, &'static [(&'static str, i64)]);

/// Nsight Systems exports, PyTorch traces and descriptions.
const TIMELINES: [&str; 3] = [".sqlite.zst", ".toml", ".pt.trace.json.zst"];

/// What `test` gives of the files of a fixture that end so.
fn with<T>(
    fixture: &str,
    kept: &[&str],
    test: impl FnOnce(&Context<'_>) -> T,
) -> (Session, Facts, T) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("the fixture opens");
    bundle.files.retain(|file| kept.iter().any(|suffix| file.path.ends_with(suffix)));
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let facts = Facts::new(&session);
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let found = test(&context);
    (session, facts, found)
}

/// The findings about idle time of a fixture, with what they were made of.
fn findings(fixture: &str) -> (Session, Facts, Findings) {
    let analysis = ANALYSES.iter().find(|one| one.id == "idle").expect("the analysis");
    with(fixture, &TIMELINES, analysis.run)
}

fn dataset(findings: Findings, id: &str) -> Dataset {
    findings.datasets.into_iter().find(|one| one.id == id).expect("the data set")
}

/// The data set `idle` of a fixture, with what it was made of.
fn idle(fixture: &str) -> (Session, Facts, Dataset) {
    let (session, facts, findings) = findings(fixture);
    (session, facts, dataset(findings, "idle"))
}

/// Cause and time of the rows of a stage.
fn causes(dataset: &Dataset, pass: &str, stage: &str) -> Vec<(String, i64)> {
    let at = |id: &str| dataset.columns.iter().position(|one| one.id == id).expect("a column");
    let text = |text: &str| Cell::Text(text.to_owned());
    let rows = dataset.rows.iter();
    let own = rows.filter(|row| row[at("stage")] == text(stage) && row[at("pass")] == text(pass));
    own.map(|row| match row[at("total_ns")] {
        Cell::Int(time) => (row[at("cause")].plain(), time),
        _ => panic!("no time in {row:?}"),
    })
    .collect()
}

/// Idle time by cause of the median instance of a stage, from the same data set.
fn median(dataset: &Dataset, stage: &str, cause: &str) -> f64 {
    let at = |id: &str| dataset.columns.iter().position(|one| one.id == id).expect("a column");
    let text = |text: &str| Cell::Text(text.to_owned());
    let own = |row: &&Vec<Cell>| {
        row[at("stage")] == text(stage)
            && row[at("pass")] == text("nsys")
            && row[at("cause")] == text(cause)
    };
    match dataset.rows.iter().find(own).expect("the row")[at("median_ns")] {
        Cell::Float(time) => time,
        _ => panic!("no time"),
    }
}

fn check(fixture: &str, expected: &[Expected]) {
    let (session, facts, dataset) = idle(fixture);
    for (pass, stage, causes_of_stage) in expected {
        let mut found = causes(&dataset, pass, stage);
        let unknown = found.iter().any(|(cause, _)| cause == "unknown");
        assert!(unknown, "{fixture} {pass} {stage}: what is not known is said");
        found.retain(|(_, time)| *time > 0);
        let expected: Vec<(String, i64)> =
            causes_of_stage.iter().map(|(cause, time)| ((*cause).to_owned(), *time)).collect();
        assert_eq!(found, expected, "{fixture} {pass} {stage}");
    }
    busy_and_idle_make_the_projection(&session, &facts, &dataset);
}

/// On all passes and stages: idle time of all causes = projection − busy of the instances that count.
fn busy_and_idle_make_the_projection(session: &Session, facts: &Facts, dataset: &Dataset) {
    let mut stages = 0;
    for pass in session.passes.ids() {
        let name = session.text(session.passes.name[pass.index()]);
        for summary in summaries(facts, pass) {
            let found = causes(dataset, name, &summary.label(session, facts));
            assert!(!found.is_empty());
            let total: i64 = found.iter().map(|(_, time)| time).sum();
            assert_eq!(total, idle_by_definition(facts, &summary), "{name} {summary:?}");
            stages += 1;
        }
    }
    assert!(stages > 0);
}

fn idle_by_definition(facts: &Facts, summary: &Summary) -> i64 {
    let instances = facts.instances_of(summary.stage(facts)).iter();
    let counted = instances.filter(|one| one.process == summary.process && one.excluded.is_none());
    counted.filter_map(|one| Some(one.time()? * one.gpus.len() as i64 - one.busy)).sum()
}

#[test]
fn llama_8b() {
    check(
        "h200-llama-8b",
        &[
            (
                "nsys",
                "prefill",
                &[("queue, latency", 7_266_160), ("launching", 893_858), ("host code", 361_216)],
            ),
            (
                "nsys",
                "decode",
                &[
                    ("launching", 853_594_245),
                    ("host code", 450_093_967),
                    ("queue, latency", 16_776_943),
                ],
            ),
            (
                "nsys",
                "decode_step",
                &[
                    ("launching", 853_594_245),
                    ("host code", 449_916_397),
                    ("queue, latency", 16_729_135),
                ],
            ),
        ],
    );
}

#[test]
fn qwen_0_5b() {
    check(
        "h200-qwen-0.5b",
        &[
            (
                "nsys",
                "prefill",
                &[("launching", 61_899_474), ("host code", 784_928), ("queue, latency", 29_761)],
            ),
            (
                "nsys",
                "decode",
                &[
                    ("launching", 1_709_460_900),
                    ("host code", 1_051_761_071),
                    ("queue, latency", 1_668_329),
                ],
            ),
        ],
    );
}

#[test]
fn cuda_graph() {
    check(
        "h200-cuda-graph",
        &[
            (
                "nsys-node",
                "eager",
                &[
                    ("launching", 874_210),
                    ("allocation, loading", 156_769),
                    ("queue, latency", 32_096),
                ],
            ),
            ("nsys-node", "decode", &[("queue, latency", 259_548)]),
            ("nsys-node", "offload", &[("queue, latency", 114_765)]),
            ("nsys-graph", "decode", &[("queue, latency", 59_712)]),
        ],
    );
}

#[test]
fn llama_1b() {
    check(
        "h200-llama-1b",
        &[
            (
                "nsys",
                "decode",
                &[
                    ("host code", 186_158_428),
                    ("launching", 156_757_666),
                    ("queue, latency", 408_354),
                ],
            ),
            (
                "nsys-gated-decode",
                "decode",
                &[
                    ("host code", 87_654_350),
                    ("launching", 20_342_589),
                    ("allocation, loading", 8_813_020),
                    ("queue, latency", 43_841),
                ],
            ),
        ],
    );
}

#[test]
fn ddp() {
    check(
        "h200x2-ddp",
        &[
            (
                "nsys",
                "forward · rank 0",
                &[
                    ("queue, latency", 1_882_207),
                    ("host code", 725_408),
                    ("launching", 364_064),
                    ("blocking copy", 105_792),
                    ("collective", 2_080),
                ],
            ),
            (
                "nsys",
                "forward · rank 1",
                &[
                    ("queue, latency", 1_948_857),
                    ("host code", 777_439),
                    ("launching", 224_960),
                    ("blocking copy", 11_136),
                    ("collective", 2_240),
                ],
            ),
        ],
    );
}

/// `idle.py EXPORT decode 3 1`: of the loops that count the second is the one of median stage time. The first
/// has 14 and 30 gaps of some 30 ms, which the median does not have.
#[test]
fn the_median_instance_of_decode() {
    for (fixture, launching, host_code, queue) in [
        ("h200-llama-8b", 332_582_909.0, 8_290_896.0, 4_899_921.0),
        ("h200-qwen-0.5b", 581_701_412.0, 9_957_262.0, 504_818.0),
    ] {
        let (_, _, dataset) = idle(fixture);
        assert_eq!(median(&dataset, "decode", "launching"), launching);
        assert_eq!(median(&dataset, "decode", "host code"), host_code);
        assert_eq!(median(&dataset, "decode", "queue, latency"), queue);
    }
}

/// The rows of a stage in a pass.
fn rows<'a>(
    dataset: &'a Dataset,
    pass: &'a str,
    stage: &'a str,
) -> impl Iterator<Item = &'a [Cell]> {
    let text = |text: &str| Cell::Text(text.to_owned());
    let (pass, stage) = (text(pass), text(stage));
    let own = dataset.rows.iter().filter(move |row| row[0] == stage && row[1] == pass);
    own.map(Vec::as_slice)
}

fn number(dataset: &Dataset, row: &[Cell], id: &str) -> f64 {
    let at = dataset.columns.iter().position(|one| one.id == id).expect("a column");
    match row[at] {
        Cell::Int(number) => number as f64,
        Cell::Float(number) => number,
        _ => panic!("no number in {row:?}"),
    }
}

/// `idle.py EXPORT STAGE SKIP`: time, mean depth and empty time of the instance of median time.
#[test]
fn the_queue_of_the_median_instance() {
    let qwen: &[(&str, &str, f64, Option<f64>, f64)] = &[
        ("nsys", "prefill", 21_246_727.0, Some(0.102_690_169_643_540_86), 19_064_897.0),
        ("nsys", "decode", 658_568_614.0, Some(0.104_181_345_028_386_07), 589_958_050.0),
    ];
    let graph: &[_] = &[
        ("nsys-node", "decode", 13_618_956.0, Some(8.630_759_141_890_172), 746_727.0),
        ("nsys-node", "offload", 12_499_977.0, Some(1.767_635_332_449_010_8), 2_044_905.0),
        // No chart: of these the share alone.
        ("nsys-node", "eager", 1_735_878.0, None, 1_357_300.0),
        ("nsys-graph", "decode", 13_373_835.0, None, 683_637.0),
    ];
    for (fixture, expected) in [("h200-qwen-0.5b", qwen), ("h200-cuda-graph", graph)] {
        let (_, _, found) = findings(fixture);
        let figures = dataset(found.clone(), "launch_figures");
        let queue = dataset(found, "queue_over_time");
        for (pass, stage, time, depth, empty) in expected {
            let row = rows(&figures, pass, stage).next().expect("the row");
            assert_eq!(
                number(&figures, row, "queue_empty_share"),
                empty / time,
                "{fixture} {stage}"
            );
            let (mut sum, mut length) = (0.0, 0.0);
            for row in rows(&queue, pass, stage) {
                let [from, to] = ["start_ns", "end_ns"].map(|id| number(&queue, row, id));
                sum += number(&queue, row, "depth_mean") * (to - from);
                length += to - from;
            }
            let found = (length > 0.0).then(|| sum / length);
            assert_eq!(found.is_some(), depth.is_some(), "{fixture} {stage}");
            if let Some((found, depth)) = found.zip(*depth) {
                assert_eq!(length, *time);
                assert!((found - depth).abs() < 1e-9, "{fixture} {stage}: {found}, {depth}");
            }
        }
    }
}

/// `pauses.py EXPORT decode 2 TIMINGS decode_step`: 440 057 502, 8 290 896 and 1 745 569 ns of host code in instances of
/// 832.6, 469.5 and 389.9 ms; the time of all stages is 1 519 596 450.8 ns; of the 20 longest gaps 15 end with one kernel.
#[test]
fn the_pauses_of_decode() {
    let kept = [".sqlite.zst", ".toml", "timings.json", "config.json"];
    let (_, _, found) =
        with("h200-llama-8b", &kept, |context| rules::run(context, &analysis::run(context)));
    let pauses: Vec<_> = found.observations.iter().filter(|one| one.id == "host-pauses").collect();
    let [one] = pauses.as_slice() else { panic!("{pauses:?}") };
    assert_eq!(one.scope.stage.as_deref(), Some("decode"));
    let beyond = 440_057_502.0 + 8_290_896.0 + 1_745_569.0 - 3.0 * 8_290_896.0;
    let gain = one.gain.as_ref().expect("a gain");
    assert_eq!(gain.saved_ns, beyond);
    assert!((gain.of_ns - (1_519_596_450.8 + beyond)).abs() < 1.0, "{gain:?}");
    let quantities = one.statement.iter().filter_map(|inline| match inline {
        Inline::Quantity(quantity) => Some(quantity.value),
        _ => None,
    });
    let quantities: Vec<f64> = quantities.collect();
    assert_eq!(quantities[..5], [beyond, 3.0, 32_904_414.0, 20.0, 15.0]);
    // Repeat 0 and the median of `decode` in timings.json, by `jq`.
    assert_eq!(quantities[6..], [3_054_683_105.0, 1_139_342_041.0]);
}

/// Idle time and run as `tests/reference/between.py` derives them from the exports.
#[test]
fn idle_time_between_stages_is_that_of_the_export() {
    let expected: [(&str, &[(i64, i64)]); 3] = [
        ("h100-train", &[(7_433_313, 710_231_617)]),
        ("h100x2-parallel", &[(55_232, 1_349_581_544), (52_192, 1_350_018_791)]),
        ("h200-llama-8b", &[(693_122, 2_363_214_178)]),
    ];
    for (fixture, ranks) in expected {
        let (_, _, findings) = findings(fixture);
        let values = |id: &str| -> Vec<f64> {
            let own = findings.metrics.iter().filter(|one| one.id == id);
            own.filter_map(|one| one.value.number()).collect()
        };
        let idle: Vec<f64> = ranks.iter().map(|rank| rank.0 as f64).collect();
        let share: Vec<f64> = ranks.iter().map(|rank| rank.0 as f64 / rank.1 as f64).collect();
        assert_eq!(values("between_idle"), idle, "{fixture}");
        assert_eq!(values("between_idle_share"), share, "{fixture}");
    }
}
