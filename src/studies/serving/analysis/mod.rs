//! Typed results of runs: figures, goodput, sweeps, queueing, bounds, advice. No words.

pub mod advice;
pub mod bottleneck;
pub mod changes;
pub mod figures;
pub mod goodput;
pub mod gpus;
pub mod predicted;
pub mod steps;
pub mod sweep;
pub mod thresholds;

use crate::import::Input;
use crate::runs::{EngineSample, Run, Tool};
use advice::Advice;
use bottleneck::Bottleneck;
use changes::{Change, Verdict};
use figures::Figures;
use goodput::{Goodput, Slo};
use gpus::Gpu;
use predicted::Predicted;
use sweep::Sweep;
use thresholds::Thresholds;

use rooflens_units::RequestsPerSecond;

/// What a user states next to the results.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits of a good request.
    pub slo: Slo,
    /// Good and bad levels.
    pub thresholds: Thresholds,
    /// Lower bounds of a prediction.
    pub predicted: Option<Predicted>,
}

/// All results.
#[derive(Debug)]
pub struct Results<'a> {
    /// The runs.
    pub runs: &'a [Run],
    /// What the user stated.
    pub options: &'a Options,
    /// Figures of each run.
    pub figures: Vec<Figures>,
    /// Goodput of each run, if there are limits and raw samples.
    pub goodput: Vec<Option<Goodput>>,
    /// Runs that differ in their load alone.
    pub sweeps: Vec<Sweep>,
    /// What limits each run.
    pub bottlenecks: Vec<Bottleneck>,
    /// GPUs that were sampled.
    pub gpus: Vec<Gpu>,
    /// The samples of GPUs are from another time than the runs.
    pub gpus_elsewhere: bool,
    /// The run that the first page is about.
    pub headline: usize,
    /// Settings to try.
    pub advice: Vec<Advice>,
    /// What runs with other settings gained or lost.
    pub changes: Vec<Change>,
}

impl<'a> Results<'a> {
    /// Computes all results of at least one run; none of no run.
    pub fn compute(input: &'a Input, options: &'a Options) -> Option<Self> {
        let runs = &input.runs;
        let figures: Vec<Figures> = runs.iter().map(Figures::of).collect();
        let good = |run: &Run, figures: &Figures| Goodput::of(run, &options.slo, figures.duration);
        let goodput: Vec<_> = runs
            .iter()
            .zip(&figures)
            .map(|(run, figures)| good(run, figures))
            .collect();
        let sweeps = sweep::find(runs, &figures);
        let (samples, gpus_elsewhere) = gpus::during(runs, &input.gpu);
        let gpus = gpus::by_index(&samples);
        let headline = headline(runs, &figures, &goodput, &sweeps)?;
        let is_saturated = sweeps.iter().any(|sweep| sweep.is_saturated);
        let mut results = Self {
            runs,
            options,
            figures,
            goodput,
            sweeps,
            bottlenecks: Vec::new(),
            gpus,
            gpus_elsewhere,
            headline,
            advice: Vec::new(),
            changes: Vec::new(),
        };
        results.bottlenecks = (0..runs.len())
            .map(|run| bottleneck::of(&results, run))
            .collect();
        results.changes = changes::of(&results);
        let best = changes::best(&results).filter(|_| !is_saturated);
        let run = best.map(|change| match change.verdict {
            Verdict::Better => change.run,
            _ => change.baseline,
        });
        results.headline = run.unwrap_or(results.headline);
        results.advice = advice::of(&results);
        Some(results)
    }

    /// The run that shows what limits: beyond the knee the largest load, else the run of the first page.
    pub fn limited(&self) -> usize {
        let sweep = self.sweep_of(self.headline);
        let last = sweep.filter(|sweep| sweep.is_saturated);
        last.and_then(|sweep| sweep.points.last())
            .map_or(self.headline, |point| point.run)
    }

    /// The sweep that a run belongs to.
    pub fn sweep_of(&self, run: usize) -> Option<&Sweep> {
        self.sweeps
            .iter()
            .find(|sweep| sweep.points.iter().any(|point| point.run == run))
    }

    /// The run that holds what the engine said of a run: that run itself if an engine wrote it, or the one engine where
    /// there is one load test.
    pub fn watched(&self, run: usize) -> Option<usize> {
        let is_engine = |index: &usize| self.runs[*index].tool == Tool::EngineMetrics;
        if is_engine(&run) {
            return Some(run);
        }
        let watches = |index: &usize| self.runs[*index].watches;
        if let Some(engine) = (0..self.runs.len()).find(|index| watches(index) == Some(run)) {
            return Some(engine);
        }
        let (engines, tests): (Vec<usize>, Vec<usize>) = (0..self.runs.len()).partition(is_engine);
        (engines.len() == 1 && tests.len() == 1)
            .then(|| engines[0])
            .filter(|engine| watches(engine).is_none())
    }

    /// Good requests per second of a run, if limits are given and its samples show them.
    pub fn goodput_rate(&self, run: usize) -> Option<RequestsPerSecond> {
        self.goodput[run]?.rate
    }

    /// The samples of the engine of a run.
    pub fn engine_of(&self, run: usize) -> &'a [EngineSample] {
        self.watched(run)
            .map_or(&[], |engine| &self.runs[engine].engine)
    }
}

/// The run at the knee of the largest sweep; else the one with the most good requests, else with the most tokens; what
/// engines say of themselves only if there is nothing else.
fn headline(
    runs: &[Run],
    figures: &[Figures],
    goodput: &[Option<Goodput>],
    sweeps: &[Sweep],
) -> Option<usize> {
    let largest = sweeps
        .iter()
        .max_by_key(|sweep| (sweep.points.len(), std::cmp::Reverse(sweep.points[0].run)));
    if let Some(knee) = largest.and_then(|sweep| Some(sweep.points[sweep.knee?].run)) {
        return Some(knee);
    }
    let weight = |run: &usize| {
        let measured = u8::from(runs[*run].engine.is_empty() && runs[*run].cut.is_none());
        let good = goodput[*run].and_then(|goodput| goodput.rate);
        let throughput = match (figures[*run].output_rate, figures[*run].request_rate) {
            (Some(tokens), _) => tokens.0,
            (None, Some(requests)) => requests.0,
            (None, None) => 0.0,
        };
        (measured, good.unwrap_or_default(), throughput)
    };
    (0..runs.len()).max_by(|a, b| {
        let (weight_a, weight_b) = (weight(a), weight(b));
        weight_a
            .0
            .cmp(&weight_b.0)
            .then(weight_a.1.total_cmp(&weight_b.1))
            .then(weight_a.2.total_cmp(&weight_b.2))
            .then(b.cmp(a))
    })
}
