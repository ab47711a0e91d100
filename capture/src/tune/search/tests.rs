//! The search on 20 landscapes of simulated engines. The truth is the whole grid.

use std::collections::BTreeMap;

use rooflens_schemas::ServingRequest;
use rooflens_simulator::{
    Arrivals, Client, Engine, Hardware, Outcome, Part, Random, Setup, Workload, run,
};
use rooflens_units::{Slo, Time};

use super::*;
use crate::serve::tally::Tally;
use crate::tune::score;

/// Landscapes.
const LANDSCAPES: u64 = 20;

/// Share of the settings of a grid that a search may measure.
const MOST: f64 = 0.4;

/// A setting that is that close to the best one is as good: a load of 80 requests shows no smaller difference.
const AS_GOOD: f64 = 0.99;

/// What a parameter sets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Knob {
    /// Requests that run at most.
    Slots,
    /// Tokens of a step at most.
    Budget,
    /// Memory of the GPU, as a share; from a share on, the server does not start.
    Memory,
    /// Guessed tokens of a step.
    Guesses,
    /// Whether prompts are cut into chunks.
    Chunks,
}

/// A server, loads and limits, and what can be set.
struct Landscape {
    setup: Setup,
    loads: Vec<Arrivals>,
    slo: Slo,
    knobs: Vec<(Knob, Vec<f64>)>,
    /// Blocks of the cache if all of the memory could be used, blocks that the weights take, and from which share on the
    /// server does not start.
    memory: (f64, f64, f64),
    /// Probability that a guess is right.
    right: f64,
}

fn landscape(number: u64) -> Landscape {
    let mut random = Random::new(1000 + number);
    let random = &mut random;
    let bytes = random.scale((2e9, 16e9));
    let bandwidth = random.scale((3e11, 3e12));
    let part = |share: f64| Part {
        flops: bytes * share,
        bytes: bytes * share,
    };
    let cached = random.scale((5e4, 5e5));
    let (prompt, output) = (random.scale((64.0, 2048.0)), random.scale((16.0, 128.0)));
    let (prompt, output) = (prompt as usize, output as usize);
    let setup = Setup {
        hardware: Hardware {
            rate: bandwidth * random.scale((15.0, 150.0)),
            bandwidth,
            parts: vec![part(0.9)],
            head: part(0.1),
            pair: cached * 2.0,
            cached,
            row: 0.0,
            overhead: random.scale((2e-4, 2e-3)),
            prefill_work: 1.0,
            decode_work: 1.0,
        },
        engine: Engine {
            slots: 32,
            blocks: 20_000,
            block: 16,
            budget: 2048,
            chunked: true,
            prefix: 0,
            speculation: None,
        },
        client: Client {
            arrivals: Arrivals::Closed(1),
            connections: None,
            delay: 1e-3,
        },
        workload: Workload {
            requests: 80,
            prompt: (prompt / 2, prompt * 3 / 2),
            output: (output / 2, output * 3 / 2),
            seed: number,
        },
    };
    let range = |most: u32| (1..=most).map(f64::from).collect::<Vec<_>>();
    let budgets = || vec![256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
    let memory = || vec![0.8, 0.85, 0.9, 0.95];
    let knobs = match number % 5 {
        0 => vec![(Knob::Slots, range(64)), (Knob::Memory, vec![0.85, 0.9])],
        1 => vec![(Knob::Slots, range(32)), (Knob::Budget, budgets())],
        2 => vec![
            (Knob::Slots, vec![4.0, 8.0, 16.0, 32.0, 64.0, 128.0]),
            (Knob::Budget, budgets()),
            (Knob::Memory, memory()),
        ],
        3 => vec![
            (Knob::Slots, range(32)),
            (Knob::Guesses, vec![0.0, 1.0, 2.0, 3.0, 4.0]),
        ],
        _ => vec![
            (Knob::Chunks, vec![0.0, 1.0]),
            (Knob::Slots, range(32)),
            (Knob::Memory, memory()),
        ],
    };
    // A cache for so many of the longest requests at 0.9 of the memory, of which weights take a half.
    let longest = (setup.workload.prompt.1 + setup.workload.output.1).div_ceil(16);
    let requests = random.scale((4.0, 100.0));
    let all = longest as f64 * requests / 0.4;
    let fails = random.one_of(&[0.93, 0.97]);
    // Limits between the least that the server needs and some times it.
    let alone = run(&Setup {
        workload: Workload {
            requests: 20,
            ..setup.workload
        },
        ..setup.clone()
    });
    let tally = tally(&alone, &Slo::default());
    let median = |values: &[Time]| {
        crate::serve::tally::percentile(values, rooflens_units::Ratio(0.5)).expect("answers")
    };
    let (ttft, tpot) = (median(&tally.ttft), median(&tally.tpot));
    let slo = Slo {
        ttft: (random.unit() < 0.7).then(|| ttft * random.scale((3.0, 60.0))),
        tpot: Some(tpot * random.scale((1.3, 6.0))),
        latency: None,
    };
    let loads = match random.unit() < 0.5 {
        true => (0..6).map(|n| Arrivals::Closed(1 << n)).collect(),
        false => {
            let rate = run(&with(&setup, Arrivals::Closed(64))).steady_rate();
            let share = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
            share.map(|share| Arrivals::Open(rate * share)).to_vec()
        }
    };
    Landscape {
        setup,
        loads,
        slo,
        knobs,
        memory: (all, all * 0.5, fails),
        right: random.scale((0.4, 0.9)),
    }
}

fn with(setup: &Setup, arrivals: Arrivals) -> Setup {
    let mut setup = setup.clone();
    setup.client.arrivals = arrivals;
    setup
}

/// What the load generator would count.
fn tally(outcome: &Outcome, slo: &Slo) -> Tally {
    let mut tally = Tally::default();
    for record in &outcome.requests {
        let request = ServingRequest {
            scheduled_s: record.due,
            start_s: record.sent,
            first_token_s: Some(record.tokens[0]),
            end_s: record.end(),
            output_tokens: record.tokens.len() as u64,
            ..ServingRequest::default()
        };
        tally.add(&request, slo);
    }
    tally
}

impl Landscape {
    fn axes(&self) -> Vec<Axis> {
        let values = self.knobs.iter().map(|(_, values)| values.clone());
        values.map(Axis::Ordered).collect()
    }

    fn setup(&self, setting: &[usize]) -> Option<Setup> {
        let mut setup = self.setup.clone();
        for ((knob, values), place) in self.knobs.iter().zip(setting) {
            let value = values[*place];
            match knob {
                Knob::Slots => setup.engine.slots = value as usize,
                Knob::Budget => setup.engine.budget = value as usize,
                Knob::Chunks => setup.engine.chunked = value > 0.0,
                Knob::Guesses if value > 0.0 => {
                    setup.engine.speculation = Some((value as usize, self.right));
                }
                Knob::Guesses => {}
                Knob::Memory => {
                    let (all, weights, fails) = self.memory;
                    if value >= fails {
                        return None;
                    }
                    setup.engine.blocks = (all * value - weights) as usize;
                }
            }
        }
        let workload = setup.workload;
        let longest = (workload.prompt.1 + workload.output.1 + 8).div_ceil(setup.engine.block);
        (setup.engine.blocks > longest).then_some(setup)
    }

    /// As `tune` measures it: level after level until one misses the limits.
    fn score(&self, setting: &[usize]) -> f64 {
        let Some(setup) = self.setup(setting) else {
            return f64::NEG_INFINITY;
        };
        let mut levels = Vec::new();
        for load in &self.loads {
            let level = tally(&run(&with(&setup, *load)), &self.slo);
            let keeps = level.keeps();
            levels.push(level);
            if !keeps {
                break;
            }
        }
        score(levels.iter(), &self.slo)
    }
}

/// A landscape that counts what is measured.
struct Counted<'a> {
    grid: &'a BTreeMap<Setting, f64>,
    runs: usize,
}

impl Bench for Counted<'_> {
    fn measure(&mut self, setting: &[usize]) -> Option<f64> {
        self.runs += 1;
        self.grid.get(setting).copied()
    }
}

fn grid(axes: &[Axis], score: impl Fn(&[usize]) -> f64) -> BTreeMap<Setting, f64> {
    let mut settings = vec![Setting::new()];
    for axis in axes {
        let longer = settings.iter().flat_map(|setting| {
            (0..axis.len()).map(move |place| [setting.as_slice(), &[place]].concat())
        });
        settings = longer.collect();
    }
    let scored = settings.into_iter();
    scored
        .map(|setting| (setting.clone(), score(&setting)))
        .collect()
}

#[test]
fn the_best_setting_is_found_with_few_runs() {
    let next = std::sync::atomic::AtomicU64::new(0);
    let work = || {
        let mut lines = Vec::new();
        loop {
            let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if number >= LANDSCAPES {
                return lines;
            }
            let landscape = landscape(number);
            let axes = landscape.axes();
            let grid = grid(&axes, |setting| landscape.score(setting));
            let best = grid.values().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = grid.values().copied().fold(f64::INFINITY, f64::min);
            let start: Setting = landscape
                .knobs
                .iter()
                .map(|(_, values)| values.len() / 2)
                .collect();
            let mut bench = Counted {
                grid: &grid,
                runs: 0,
            };
            let (found, score) = search(&axes, start, &mut bench).expect("no limit of time");
            let share = bench.runs as f64 / grid.len() as f64;
            let is_found = score >= best * if best > 0.0 { AS_GOOD } else { 1.0 / AS_GOOD };
            let as_good = grid
                .values()
                .filter(|score| **score >= best * AS_GOOD)
                .count();
            let line = format!(
                "{number}: {:?} {found:?} {score:.3} of {best:.3} (least {least:.3}, {as_good} as good), {} of {} runs",
                landscape
                    .knobs
                    .iter()
                    .map(|(knob, _)| *knob)
                    .collect::<Vec<_>>(),
                bench.runs,
                grid.len(),
            );
            lines.push((is_found && share <= MOST, best > 0.0, line));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let lines: Vec<(bool, bool, String)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let lines = workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("landscapes"));
        lines.collect()
    });
    let text: Vec<&str> = lines.iter().map(|(.., line)| line.as_str()).collect();
    let text = text.join("\n");
    let found = lines.iter().filter(|(is_found, ..)| *is_found).count();
    let kept = lines.iter().filter(|(_, is_kept, _)| *is_kept).count();
    assert_eq!((found, kept), (20, 20), "{text}");
}
