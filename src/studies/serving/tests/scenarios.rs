//! Verdicts on 200 simulated load tests, whose limits are known by trial: one resource of the engine is doubled and the
//! same load runs again.

use rooflens_simulator::{
    Arrivals, Client, Engine, Hardware, Outcome, Part, Random, Record, Setup, Step, Workload, run,
};

use crate::analysis::advice::Advice;
use crate::analysis::bottleneck::Limit;
use crate::analysis::goodput::Slo;
use crate::analysis::predicted::{Bound, Predicted};
use crate::analysis::sweep::ELASTICITY;
use crate::analysis::{Options, Results};
use crate::import::Input;
use crate::runs::{EngineSample, Load, Request, Run, Tool};
use rooflens_units::{Count, Ratio, RequestsPerSecond, Time};

/// Load tests.
const SCENARIOS: u64 = 200;

/// Gain of throughput from which on a doubled resource is the limit, and up to which it is none. Between both there is
/// no known truth, and the scenario is drawn again.
const CLEAR: (f64, f64) = (1.2, 1.1);

/// Shares of two resources that are too close to say which is the limit.
const CLOSE: f64 = 0.05;

/// A sweep: the setup at each load.
struct Scenario {
    loads: Vec<Setup>,
    truth: Limit,
    /// Indices of the last load that the engine sustains or that pays: the least and the greatest that it may be.
    knee: (usize, usize),
    slo: Option<f64>,
}

/// A model of 1 to 16 GB on a GPU, an engine and a workload, of a kind that makes one limit likely.
fn setup(random: &mut Random) -> Setup {
    let bytes = random.scale((1e9, 16e9));
    let bandwidth = random.scale((3e11, 4e12));
    // FLOPs per byte at the ridge: 40 to 300.
    let rate = bandwidth * random.scale((40.0, 300.0));
    let part = |share: f64| Part {
        flops: bytes * share,
        bytes: bytes * share,
    };
    let cached = random.scale((2e4, 5e5));
    let mut setup = Setup {
        hardware: Hardware {
            rate,
            bandwidth,
            parts: vec![part(0.3), part(0.6)],
            head: part(0.1),
            pair: cached * random.scale((1.0, 8.0)),
            cached,
            row: 0.0,
            overhead: random.scale((1e-4, 2e-3)),
            prefill_work: 1.0,
            decode_work: 1.0,
        },
        engine: Engine {
            slots: 64,
            blocks: 40_000,
            block: 16,
            budget: random.one_of(&[1024, 2048, 4096, 8192]),
            chunked: random.unit() < 0.75,
            prefix: 0,
            speculation: None,
        },
        client: Client {
            arrivals: Arrivals::Closed(1),
            connections: None,
            delay: random.scale((1e-4, 5e-3)),
        },
        workload: Workload {
            requests: 0,
            prompt: spread(random, (64.0, 1024.0)),
            output: spread(random, (32.0, 192.0)),
            seed: 0,
        },
    };
    let workload = &mut setup.workload;
    match random.between((0, 6)) {
        0 => setup.engine.slots = random.between((2, 24)),
        1 => {
            let longest = workload.prompt.1 + workload.output.1;
            setup.engine.blocks = longest.div_ceil(16) * random.between((3, 24));
        }
        2 => {
            workload.prompt = spread(random, (1024.0, 4096.0));
            workload.output = spread(random, (8.0, 64.0));
        }
        3 => {
            setup.hardware.rate = bandwidth * random.scale((10.0, 40.0));
            workload.prompt = spread(random, (16.0, 128.0));
            workload.output = spread(random, (96.0, 256.0));
        }
        4 => {
            workload.prompt = spread(random, (2048.0, 6144.0));
            setup.engine.prefix = workload.prompt.0 * 9 / 10;
            setup.hardware.cached = random.scale((1e5, 1e6));
            setup.hardware.pair = setup.hardware.cached;
        }
        5 => setup.client.connections = Some(random.between((2, 16))),
        _ => {}
    }
    if random.unit() < 0.1 {
        setup.engine.speculation = Some((random.between((2, 4)), random.scale((0.4, 0.9))));
    }
    if random.unit() < 0.2 && setup.engine.prefix == 0 {
        setup.engine.prefix = setup.workload.prompt.0 / 2;
    }
    setup
}

/// Lengths around a random one: all alike, or between half and one and a half times it.
fn spread(random: &mut Random, range: (f64, f64)) -> (usize, usize) {
    let length = random.scale(range) as usize;
    match random.unit() < 0.5 {
        true => (length, length),
        false => (length / 2, length * 3 / 2),
    }
}

/// The setup at a load with so many requests.
fn at(setup: &Setup, arrivals: Arrivals, requests: usize, seed: u64) -> Setup {
    let mut setup = setup.clone();
    setup.client.arrivals = arrivals;
    (setup.workload.requests, setup.workload.seed) = (requests, seed);
    setup
}

/// Answers per second of the engine with as many requests as it wants.
fn capacity(setup: &Setup) -> f64 {
    run(&at(setup, Arrivals::Closed(400), 400, 1)).steady_rate()
}

fn scenario(random: &mut Random) -> Option<Scenario> {
    let setup = setup(random);
    let mut loads = Vec::new();
    let knee = if setup.client.connections.is_some() || random.unit() < 0.5 {
        let mut engine = setup.clone();
        engine.client.connections = None;
        let capacity = match setup.client.connections {
            // What so many connections get out of the engine.
            Some(connections) => {
                run(&at(&engine, Arrivals::Closed(connections), 400, 1)).steady_rate()
            }
            None => capacity(&engine),
        };
        let most = random.one_of(&[0.6, 1.5, 2.0, 3.0]);
        let rates: Vec<f64> = (0..6)
            .rev()
            .map(|n| capacity * most / f64::from(1 << n))
            .collect();
        for rate in &rates {
            loads.push(at(
                &setup,
                Arrivals::Open(*rate),
                300,
                random.between((1, 1 << 30)) as u64,
            ));
        }
        let last = rates.iter().rposition(|rate| *rate <= capacity)?;
        (last, last)
    } else {
        let most = random.between((3, 7));
        let at_load = |n: usize, requests: usize, seed: u64| {
            at(&setup, Arrivals::Closed(1 << n), requests, seed)
        };
        let mut rates = Vec::new();
        for n in 0..=most {
            loads.push(at_load(
                n,
                48 + (3 << n),
                random.between((1, 1 << 30)) as u64,
            ));
            rates.push(run(&at_load(n, 100 + (5 << n), 1)).steady_rate());
        }
        let last = |elasticity: f64| {
            let pays = |n: &usize| rates[*n] >= rates[*n - 1] * elasticity.exp2();
            (1..rates.len()).rev().find(pays).unwrap_or(0)
        };
        (last(ELASTICITY.0 + CLOSE), last(ELASTICITY.0 - CLOSE))
    };
    let truth = truth(loads.last()?)?;
    let slo = (random.unit() < 0.3).then(|| random.scale((0.01, 0.2)));
    Some(Scenario {
        loads,
        truth,
        knee,
        slo,
    })
}

/// What limits a load: the resource that, doubled, raises throughput. None if no one clearly does.
fn truth(setup: &Setup) -> Option<Limit> {
    let mut long = setup.clone();
    long.workload.requests = long.workload.requests * 3 / 2;
    let now = run(&long).steady_rate();
    let with = |change: &dyn Fn(&mut Setup)| {
        let mut setup = long.clone();
        change(&mut setup);
        run(&setup).steady_rate() / now
    };
    let slots = |setup: &mut Setup| setup.engine.slots *= 2;
    let cache = |setup: &mut Setup| setup.engine.blocks *= 2;
    let connections = |setup: &mut Setup| {
        setup.client.connections = setup.client.connections.map(|connections| connections * 2);
    };
    let load = |setup: &mut Setup| match &mut setup.client.arrivals {
        Arrivals::Open(rate) => *rate *= 2.0,
        Arrivals::Closed(concurrency) => *concurrency *= 2,
    };
    let limits = [
        (Limit::Load, with(&load)),
        (Limit::Client, with(&connections)),
        (Limit::Slots, with(&slots)),
        (Limit::KvCache, with(&cache)),
    ];
    let (limit, gain) = *limits.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if gain >= CLEAR.0 {
        return Some(limit);
    }
    // Two limits at once are no single one.
    let both = with(&|setup| {
        slots(setup);
        cache(setup);
        connections(setup);
    });
    if gain.max(both) > CLEAR.1 {
        return None;
    }
    let mut work = [
        (
            Limit::Prefill,
            with(&|setup| setup.hardware.prefill_work /= 2.0),
        ),
        (
            Limit::Compute,
            with(&|setup| setup.hardware.decode_work /= 2.0),
        ),
        (
            Limit::Bandwidth,
            with(&|setup| setup.hardware.bandwidth *= 2.0),
        ),
    ];
    work.sort_by(|a, b| b.1.total_cmp(&a.1));
    let is_clear = work[0].1 > CLEAR.0 && work[0].1 - work[1].1 > CLOSE;
    is_clear.then_some(work[0].0)
}

fn time(seconds: f64) -> Time {
    Time(seconds * 1e9)
}

/// A load test as `rooflens-capture serve` records it, and the engine's gauges.
fn runs(setup: &Setup, index: usize, outcome: &Outcome) -> [Run; 2] {
    let (rate, concurrency) = match setup.client.arrivals {
        Arrivals::Open(rate) => (Some(RequestsPerSecond(rate)), None),
        Arrivals::Closed(concurrency) => (None, Some(Count(concurrency as f64))),
    };
    let request = |record: &Record| {
        let first = record.tokens[0];
        let gaps = record.tokens.windows(2).map(|pair| time(pair[1] - pair[0]));
        Request {
            due: Some(time(record.due)),
            queued: rate.map(|_| time(record.sent - record.due)),
            ttft: Some(time(first - record.due)),
            latency: Some(time(record.end() - record.due)),
            itl: gaps.collect(),
            prompt_tokens: Some(Count(record.prompt as f64)),
            output_tokens: Some(Count(record.tokens.len() as f64)),
            cached: Some(Ratio(
                setup.engine.prefix.min(record.prompt - 1) as f64 / record.prompt as f64,
            )),
            ..Request::default()
        }
    };
    let test = Run {
        label: format!("load {index}"),
        tool: Tool::Rooflens,
        load: Load {
            rate,
            concurrency,
            burst: false,
        },
        requests: outcome.requests.iter().map(request).collect(),
        ..Run::default()
    };
    let mut engine = Run {
        label: format!("engine {index}"),
        tool: Tool::EngineMetrics,
        ..Run::default()
    };
    for sample in &outcome.samples {
        engine.engine.push(EngineSample {
            time: Some(time(sample.time)),
            running: Some(Count(sample.running as f64)),
            waiting: Some(Count(sample.waiting as f64)),
            kv_cache: Some(Ratio(sample.cache)),
            preemptions: Some(Count(sample.preemptions as f64)),
            completed: Some(Count(sample.completed as f64)),
            ..EngineSample::default()
        });
    }
    [test, engine]
}

/// The bounds of one prompt and of a step with so many sequences.
fn predicted(setup: &Setup, batch: f64) -> Predicted {
    let hardware = Hardware {
        overhead: 0.0,
        ..setup.hardware.clone()
    };
    let middle = |(least, most): (usize, usize)| usize::midpoint(least, most);
    let (prompt, output) = (middle(setup.workload.prompt), middle(setup.workload.output));
    let prefix = setup.engine.prefix.min(prompt - 1);
    let prefill = Step {
        prefill: vec![(prompt - prefix, prefix, true)],
        decode: Vec::new(),
    };
    let guesses = setup.engine.speculation.map_or(0, |(guesses, _)| guesses);
    let decode = Step {
        prefill: Vec::new(),
        decode: vec![(1 + guesses, prompt + output / 2); (batch.round() as usize).max(1)],
    };
    let tokens = setup.engine.speculation.map_or(1.0, |(guesses, right)| {
        (1.0 - libm::pow(right, guesses as f64 + 1.0)) / (1.0 - right)
    });
    let bound = |step: &Step, tokens: f64| {
        let by = if hardware.is_compute_bound(step) {
            "compute"
        } else {
            "memory"
        };
        Some(Bound {
            time: time(hardware.time(step) / tokens),
            by: Some(by.to_owned()),
        })
    };
    Predicted {
        ttft: bound(&prefill, 1.0),
        tpot: bound(&decode, tokens),
        output_rate: None,
    }
}

/// A setting and whether it is to rise.
fn direction(advice: &Advice) -> (&'static str, bool) {
    let rises = match advice {
        Advice::Cap { .. }
        | Advice::FewerSequences { .. }
        | Advice::SmallerPrefills { .. }
        | Advice::SmallerKvCache { .. }
        | Advice::Quantize { .. } => false,
        Advice::Deploy { .. }
        | Advice::MoreKvCache { .. }
        | Advice::MoreSequences { .. }
        | Advice::MoreGpus { .. }
        | Advice::MoreConnections { .. }
        | Advice::MoreLoad { .. } => true,
    };
    (advice.setting(), rises)
}

/// What was found of a scenario.
struct Verdict {
    is_right: bool,
    is_near: bool,
    contradictions: usize,
    truth: Limit,
    wrong: String,
}

fn verdict(number: u64) -> Verdict {
    let mut random = Random::new(number);
    let scenario = loop {
        if let Some(scenario) = scenario(&mut random) {
            break scenario;
        }
    };
    let (mut tests, mut engines, mut batch) = (Vec::new(), Vec::new(), 0.0);
    for (index, setup) in scenario.loads.iter().enumerate() {
        let outcome = run(setup);
        let [test, mut engine] = runs(setup, index, &outcome);
        engine.watches = Some(index);
        tests.push(test);
        engines.push(engine);
        batch = outcome.batch;
    }
    tests.extend(engines);
    let input = Input {
        runs: tests,
        ..Input::default()
    };
    let options = Options {
        slo: Slo {
            tpot: scenario.slo.map(time),
            ..Slo::default()
        },
        predicted: Some(predicted(&scenario.loads[0], batch)),
        ..Options::default()
    };
    let results = Results::compute(&input, &options).expect("runs");
    let sweep = &results.sweeps[0];
    let last = sweep.points[sweep.points.len() - 1].run;
    let found = &results.bottlenecks[last];
    let knee = match sweep.is_saturated {
        true => sweep.knee.unwrap_or(0),
        false => sweep.points.len() - 1,
    };
    let (least, most) = scenario.knee;
    let directions: Vec<(&str, bool)> = results.advice.iter().map(direction).collect();
    let opposite =
        |(setting, rises): &&(&'static str, bool)| directions.contains(&(*setting, !*rises));
    let setup = &scenario.loads[scenario.loads.len() - 1];
    let wrong = format!(
        "{number}: {} for {}, knee {knee} for {least} to {most}: {:?} {:?} {:?}\n  {found:?}",
        found.limit.id(),
        scenario.truth.id(),
        setup.engine,
        setup.client,
        setup.workload,
    );
    Verdict {
        is_right: found.limit == scenario.truth,
        is_near: (least.saturating_sub(1)..=most + 1).contains(&knee),
        contradictions: directions.iter().filter(opposite).count(),
        truth: scenario.truth,
        wrong,
    }
}

#[test]
fn limits_of_simulated_load_tests_are_found() {
    let next = std::sync::atomic::AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let mut verdicts = Vec::new();
        loop {
            let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if number >= SCENARIOS {
                return verdicts;
            }
            verdicts.push(verdict(number));
        }
    };
    let verdicts: Vec<Verdict> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let finished = workers
            .into_iter()
            .map(|worker| worker.join().expect("verdicts"));
        finished.flatten().collect()
    });
    let count = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
    let (right, near) = (
        count(|verdict| verdict.is_right),
        count(|verdict| verdict.is_near),
    );
    let contradictions: usize = verdicts.iter().map(|verdict| verdict.contradictions).sum();
    let wrong = verdicts
        .iter()
        .filter(|verdict| !verdict.is_right || !verdict.is_near);
    let wrong: Vec<&str> = wrong.map(|verdict| &*verdict.wrong).collect();
    let limits = [
        Limit::Load,
        Limit::Client,
        Limit::Slots,
        Limit::KvCache,
        Limit::Prefill,
        Limit::Compute,
        Limit::Bandwidth,
    ];
    for limit in limits {
        let of_limit = verdicts.iter().filter(|verdict| verdict.truth == limit);
        let of_limit = of_limit.count();
        assert!(of_limit >= 5, "{of_limit} scenarios of {}", limit.id());
    }
    let wrong = wrong.join("\n");
    assert!(right >= 190, "{right} right:\n{wrong}");
    assert_eq!((near, contradictions), (SCENARIOS as usize, 0), "{wrong}");
}
