//! Queueing, bottlenecks, changes and advice on runs made by hand.

use crate::analysis::advice::Advice;
use crate::analysis::bottleneck::{Limit, Source};
use crate::analysis::changes::Verdict;
use crate::analysis::goodput::Slo;
use crate::analysis::predicted::{Bound, Predicted};
use crate::analysis::sweep::Sweep;
use crate::analysis::thresholds::{Grade, Milliseconds, Thresholds};
use crate::analysis::{Options, Results};
use crate::import::Input;
use crate::runs::{EngineSample, GpuSample, Load, Request, Run, Stated, Tool};
use crate::stats::Spread;
use rooflens_units::{Count, Ratio, RequestsPerSecond, Time, TokensPerSecond};

const MS: Time = Time(1e6);

/// A run with a load, its output tokens per second, and median TTFT and TPOT in milliseconds.
fn run(concurrency: f64, output: f64, ttft: f64, tpot: f64) -> Run {
    let median = |ms: f64| Spread {
        percentiles: [Some(ms * MS), None, None, None],
        ..Spread::default()
    };
    let mut run = Run {
        tool: Tool::VllmBench,
        label: format!("c{concurrency}"),
        ..Run::default()
    };
    run.load = Load {
        concurrency: Some(Count(concurrency)),
        ..Load::default()
    };
    run.stated.output_rate = Some(TokensPerSecond(output));
    (run.stated.ttft, run.stated.tpot) = (median(ttft), median(tpot));
    run
}

fn input(runs: Vec<Run>) -> Input {
    Input {
        runs,
        ..Input::default()
    }
}

#[test]
fn the_knee_is_where_throughput_stops_to_follow() {
    // 100 → 190 tokens/s for twice the load is 0.93 in logarithms, 190 → 200 is 0.07.
    let input = input(vec![
        run(2.0, 190.0, 60.0, 10.0),
        run(1.0, 100.0, 50.0, 10.0),
        run(4.0, 200.0, 240.0, 11.0),
    ]);
    let options = Options::default();
    let results = Results::compute(&input, &options).expect("runs");
    let sweep = &results.sweeps[0];
    assert_eq!(
        sweep
            .points
            .iter()
            .map(|point| point.run)
            .collect::<Vec<_>>(),
        [1, 0, 2]
    );
    assert_eq!((sweep.knee, results.headline), (Some(1), 0));
    // 240 ms against 50 ms at the least load: 190 ms of 240 ms in a queue.
    let last = &results.bottlenecks[2];
    assert_eq!(
        (last.limit, last.waiting.expect("known").source),
        (Limit::Queue, Source::Sweep)
    );
    assert!((last.waiting.expect("known").share().0 - 190.0 / 240.0).abs() < 1e-12);
    // What they wait for is not known, so nothing is to be changed.
    assert_eq!(results.advice, []);
}

#[test]
fn a_sweep_that_rises_has_no_knee() {
    let input = input(vec![
        run(1.0, 100.0, 50.0, 10.0),
        run(2.0, 190.0, 55.0, 10.0),
    ]);
    let options = Options::default();
    let results = Results::compute(&input, &options).expect("runs");
    assert_eq!(results.sweeps[0].knee, None);
    let last = Count(2.0).into();
    assert_eq!(results.advice, [Advice::MoreLoad { last }]);
}

#[test]
fn no_more_load_is_advised_where_more_load_ended_early() {
    let mut runs = vec![
        run(1.0, 100.0, 50.0, 10.0),
        run(2.0, 190.0, 55.0, 10.0),
        run(4.0, 200.0, 95.0, 20.0),
    ];
    runs[2].cut = Some("too slow".to_owned());
    let input = input(runs);
    let options = Options::default();
    let results = Results::compute(&input, &options).expect("runs");
    assert_eq!(results.sweeps[0].ended_early, Some((Count(4.0).into(), 2)));
    assert_eq!(results.advice, []);
}

#[test]
fn a_full_kv_cache_is_the_bottleneck() {
    let sample = |at: f64, kv: f64, waiting: f64, preempted: f64| EngineSample {
        time: Some(at * Time(1e9)),
        running: Some(Count(30.0)),
        waiting: Some(Count(waiting)),
        kv_cache: Some(Ratio(kv)),
        preemptions: Some(Count(preempted)),
        completed: Some(Count(at)),
        ..EngineSample::default()
    };
    let engine = |kv: f64, waiting: f64, preempted: f64| {
        let samples = (0..10).map(|n| sample(f64::from(n), kv, waiting, preempted * f64::from(n)));
        input(vec![Run {
            tool: Tool::EngineMetrics,
            engine: samples.collect(),
            ..Run::default()
        }])
    };
    let options = Options::default();
    let limit = |input: &Input| {
        let results = Results::compute(input, &options).expect("runs");
        let settings: Vec<&str> = results.advice.iter().map(Advice::setting).collect();
        (results.bottlenecks[0].limit, settings)
    };
    let (full, short) = (engine(0.99, 4.0, 1.0), engine(0.5, 40.0, 0.0));
    assert_eq!(
        limit(&full),
        (
            Limit::KvCache,
            vec!["max-num-seqs", "gpu-memory-utilization", "kv-cache-dtype"]
        )
    );
    // 40 waiting, always 30 running, and room in the cache.
    assert_eq!(limit(&short), (Limit::Slots, vec!["max-num-seqs"]));
    // A cache that is full and holds nobody back is none.
    assert_eq!(limit(&engine(0.99, 0.0, 0.0)).0, Limit::Unknown);
}

#[test]
fn a_tpot_at_its_bound_names_what_sets_it() {
    let input = input(vec![run(1.0, 100.0, 50.0, 12.0)]);
    let limit = |bound: f64, by: &str| {
        let tpot = Some(Bound {
            time: bound * MS,
            by: Some(by.to_owned()),
        });
        let predicted = Some(Predicted {
            tpot,
            ..Predicted::default()
        });
        let options = Options {
            predicted,
            ..Options::default()
        };
        let results = Results::compute(&input, &options).expect("runs");
        (
            results.bottlenecks[0].limit,
            results.advice.first().map(Advice::setting),
        )
    };
    assert_eq!(
        limit(10.0, "bandwidth"),
        (Limit::Bandwidth, Some("quantization"))
    );
    assert_eq!(limit(10.0, "compute"), (Limit::Compute, None));
    assert_eq!(limit(5.0, "bandwidth"), (Limit::Scheduling, None));
}

#[test]
fn predictions_are_metrics() {
    let text = std::fs::read(super::data("predicted.json")).expect("readable");
    let predicted = Predicted::parse(&text).expect("bounds");
    assert_eq!(
        predicted.tpot.and_then(|bound| bound.by).as_deref(),
        Some("bandwidth")
    );
    assert!(predicted.ttft.is_some() && predicted.output_rate.is_some());
    assert!(Predicted::parse(br#"{"metrics": []}"#).is_err());
}

#[test]
fn another_setup_is_compared_at_the_same_load() {
    let with = |value: &str, output: f64, ttft: f64, load: f64| {
        let mut run = run(load, output, ttft, 10.0);
        run.settings
            .insert("max_num_seqs".to_owned(), value.to_owned());
        run
    };
    let runs = vec![
        with("64", 100.0, 50.0, 8.0),
        with("128", 120.0, 49.0, 8.0),
        with("256", 121.0, 90.0, 8.0),
        with("256", 80.0, 90.0, 16.0),
    ];
    let (input, options) = (input(runs), Options::default());
    let results = Results::compute(&input, &options).expect("runs");
    let verdicts: Vec<(usize, Verdict)> = results
        .changes
        .iter()
        .map(|change| (change.run, change.verdict))
        .collect();
    assert_eq!(verdicts, [(1, Verdict::Better), (2, Verdict::Mixed)]);
    assert_eq!(
        results.changes[0].settings,
        [("max_num_seqs".to_owned(), "64".to_owned(), "128".to_owned())]
    );
    assert!((results.changes[0].changes[0].expect("a rate").0 - 0.2).abs() < 1e-12);
}

#[test]
fn goodput_decides_between_setups_where_limits_are_stated() {
    // 30 ms per token after a late first token, against 230 ms after an early one.
    let with = |slots: &str, ttft: f64, tpot: f64| {
        let request = |n: u32| Request {
            due: Some(f64::from(n) * MS),
            ttft: Some(ttft * MS),
            latency: Some((ttft + 10.0 * tpot) * MS),
            output_tokens: Some(Count(11.0)),
            ..Request::default()
        };
        let mut run = Run {
            tool: Tool::VllmBench,
            model: Some("m".to_owned()),
            requests: (0..20).map(request).collect(),
            ..Run::default()
        };
        run.settings
            .insert("max-num-seqs".to_owned(), slots.to_owned());
        run
    };
    let input = input(vec![with("256", 600.0, 230.0), with("8", 9000.0, 30.0)]);
    let verdict = |slo: &str| {
        let options = Options {
            slo: Slo::parse(slo).expect("limits"),
            ..Options::default()
        };
        let results = Results::compute(&input, &options).expect("runs");
        let is_deployment =
            |advice: &Advice| matches!(advice, Advice::Deploy { change } if change.run == 1);
        let deploys = results.advice.iter().any(is_deployment);
        (results.changes[0].verdict, deploys)
    };
    assert_eq!(verdict(""), (Verdict::Mixed, false));
    assert_eq!(verdict("tpot=50ms"), (Verdict::Better, true));
    assert_eq!(verdict("ttft=1s"), (Verdict::Worse, false));
}

#[test]
fn levels_come_from_a_profile() {
    let text = "ttft_p50_ms = { good = 100, bad = 500 }
        output_tokens_per_second = { good = 200, bad = 150 }
        gpu_utilization_percent = { low = 80, high = 95 }";
    let levels = Thresholds::parse(text).expect("a profile");
    let ttft = levels.ttft_p50_ms.expect("levels");
    let grades = [99.0, 100.0, 500.0, 501.0].map(|ms| ttft.grade(Milliseconds(ms)));
    assert_eq!(grades, [Grade::Good, Grade::Fair, Grade::Fair, Grade::Bad]);
    let output = levels.output_tokens_per_second.expect("levels");
    assert_eq!(
        [201.0, 175.0, 149.0].map(|rate| output.grade(TokensPerSecond(rate))),
        [Grade::Good, Grade::Fair, Grade::Bad]
    );
    assert_eq!(
        [0.79, 0.9, 0.96].map(|share| levels.utilization(Ratio(share))),
        [Some(Grade::Bad), Some(Grade::Good), Some(Grade::Fair)]
    );
    // What a profile does not state is not graded.
    assert_eq!(levels.tpot_p50_ms, None);
    assert_eq!(Thresholds::default().utilization(Ratio(0.1)), None);
    assert!(Thresholds::parse("ttft = 3").is_err());
}

#[test]
fn limits_have_units() {
    let slo = Slo::parse("ttft=0.2s, tpot=50ms,e2e=3").expect("limits");
    assert_eq!(
        (slo.ttft, slo.tpot, slo.latency),
        (Some(200.0 * MS), Some(50.0 * MS), Some(3.0 * MS))
    );
    assert!(Slo::parse("ttft=200parsecs").is_err() && Slo::parse("speed=1ms").is_err());
}

#[test]
fn samples_of_gpus_are_those_of_the_run() {
    let mut test = run(1.0, 100.0, 50.0, 10.0);
    // 2026-11-22T12:00:00Z is 1795348800.
    test.started = Some("2026-11-22T12:00:00Z".to_owned());
    test.stated.duration = Some(Time(10e9));
    let sample = |at: i64, share: f64| GpuSample {
        utc: Some((1_795_348_800 + at) * 1_000_000_000),
        utilization: Some(Ratio(share)),
        ..GpuSample::default()
    };
    let gpus = |samples: Vec<GpuSample>| {
        let (input, options) = (
            Input {
                runs: vec![test.clone()],
                gpu: samples,
            },
            Options::default(),
        );
        let results = Results::compute(&input, &options).expect("runs");
        (results.gpus[0].utilization, results.gpus_elsewhere)
    };
    assert_eq!(
        gpus(vec![
            sample(-5, 0.0),
            sample(1, 0.9),
            sample(9, 0.7),
            sample(99, 0.0)
        ]),
        (Some(Ratio(0.8)), false)
    );
    assert_eq!(gpus(vec![sample(99, 0.5)]), (Some(Ratio(0.5)), true));
}

/// Whole runs of two setups at three loads: the second one is best at a load that the first one was not asked for.
#[test]
fn each_setup_is_judged_at_its_best_load() {
    let run = |slots: &str, concurrency: f64, ttft: f64, port: u32| {
        let request = |n: u32| Request {
            due: Some(f64::from(n) * MS),
            ttft: Some(ttft * MS),
            latency: Some((ttft + 100.0) * MS),
            output_tokens: Some(Count(11.0)),
            ..Request::default()
        };
        let settings = [
            ("max-num-seqs", slots),
            ("engine", "SGLang 0.5"),
            ("port", &*port.to_string()),
        ];
        Run {
            tool: Tool::Rooflens,
            model: Some("m".to_owned()),
            load: Load {
                concurrency: Some(Count(concurrency)),
                ..Load::default()
            },
            requests: (0..20).map(request).collect(),
            settings: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Run::default()
        }
    };
    let mut runs = vec![
        run("4", 1.0, 100.0, 1),
        run("4", 4.0, 300.0, 1),
        run("8", 1.0, 110.0, 2),
        run("8", 8.0, 50.0, 2),
    ];
    let options = Options {
        slo: Slo::parse("ttft=200ms").expect("limits"),
        ..Options::default()
    };
    let deployed = |runs: Vec<Run>| {
        let input = input(runs);
        let results = Results::compute(&input, &options).expect("runs");
        results.advice.iter().find_map(|advice| match advice {
            Advice::Deploy { change } => {
                Some((change.baseline, change.run, change.settings.clone()))
            }
            _ => None,
        })
    };
    // 20 good answers in 219 ms against 169 ms; the port is another one, too, and explains nothing.
    let slots = ("max-num-seqs".to_owned(), "4".to_owned(), "8".to_owned());
    assert_eq!(deployed(runs.clone()), Some((0, 3, vec![slots])));
    let tried = input(runs.clone());
    let results = Results::compute(&tried, &options).expect("runs");
    let is_of_slots = |advice: &&Advice| advice.setting() == "max-num-seqs";
    assert_eq!(results.advice.iter().filter(is_of_slots).count(), 0);
    // A load that ended early is not compared.
    runs[3].cut = Some("too slow".to_owned());
    assert_eq!(deployed(runs), None);
}

#[test]
fn deployments_that_differ_in_the_name_of_their_file_are_sweeps_of_their_own() {
    let run = |path: &str, rate: f64| Run {
        artifact: path.to_owned(),
        load: Load {
            rate: Some(RequestsPerSecond(rate)),
            ..Load::default()
        },
        stated: Stated {
            output_rate: Some(TokensPerSecond(rate)),
            ..Stated::default()
        },
        ..Run::default()
    };
    let sweeps = |runs: Vec<Run>| {
        let input = input(runs);
        let options = Options::default();
        let results = Results::compute(&input, &options).expect("runs");
        let runs = |sweep: &Sweep| {
            sweep
                .points
                .iter()
                .map(|point| point.run)
                .collect::<Vec<_>>()
        };
        results.sweeps.iter().map(runs).collect::<Vec<_>>()
    };
    let by_name = vec![
        run("b1_20rps.json", 20.0),
        run("b8_20rps.json", 20.0),
        run("b1_50rps.json", 50.0),
        run("b8_50rps.json", 50.0),
    ];
    assert_eq!(sweeps(by_name), [[0, 2], [1, 3]]);
    let by_folder = vec![
        run("a/open-1.json", 1.0),
        run("a/open-2.json", 2.0),
        run("b/open-1.json", 1.0),
        run("b/open-2.json", 2.0),
    ];
    assert_eq!(sweeps(by_folder), [[0, 1], [2, 3]]);
    // Nothing tells which of the first two the third belongs to.
    let repeats = vec![run("x.json", 1.0), run("y.json", 1.0), run("z.json", 2.0)];
    assert_eq!(sweeps(repeats).len(), 0);
}
