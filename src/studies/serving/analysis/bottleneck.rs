//! What limits a run, as far as its data tells: queueing, the KV cache, the bound of the hardware, or stalls of decode.

use super::Results;
use super::figures::{Measure, growth};
use super::thresholds::Grade;
use crate::runs::{EngineSample, Tool};
use crate::stats::sorted;
use rooflens_stats::quantile_from_nearer_end;

/// Share of the wait from which on queueing is the bottleneck.
pub const QUEUED: f64 = 0.5;

/// Use of the KV cache, 95th percentile over the run, from which on it is full; below [`KV_FREE`] it is not short.
pub const KV_FULL: f64 = 0.95;
/// See [`KV_FULL`].
pub const KV_FREE: f64 = 0.8;

/// Measured over bound up to which a run is at the bound.
pub const AT_BOUND: f64 = 1.5;

/// P99 over P50 of inter-token latency from which on decode stalls.
pub const STALLED: f64 = 5.0;

/// What limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Requests wait before the engine begins with them.
    Queue,
    /// The KV cache is full while requests wait or are thrown out.
    KvCache,
    /// Time per token is at its bound, which compute sets.
    Compute,
    /// Time per token is at its bound, which memory bandwidth sets.
    Bandwidth,
    /// Time per token is at its bound; the prediction does not say what sets it.
    Bound,
    /// Time per token is above its bound: scheduling, launches, other requests of the batch.
    Scheduling,
    /// Some outputs take much longer than most: decode waits for prefill of other requests.
    Stalls,
    /// The data does not tell.
    Unknown,
}

impl Limit {
    /// The name in data files.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::KvCache => "kv-cache",
            Self::Compute => "compute",
            Self::Bandwidth => "bandwidth",
            Self::Bound => "hardware bound",
            Self::Scheduling => "scheduling",
            Self::Stalls => "decode stalls",
            Self::Unknown => "unknown",
        }
    }
}

/// Where a wait is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The engine's histogram of queue times; service is the rest of the TTFT.
    Histogram,
    /// The load generator: due to sent; service is the rest of the TTFT.
    Client,
    /// Gauges of the engine, by Little's law: waiting and running requests ÷ answers per second.
    Gauges,
    /// The median TTFT beyond that at the least load of the sweep, which is the service.
    Sweep,
}

impl Source {
    /// The name in data files.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Histogram => "engine histogram",
            Self::Client => "load generator",
            Self::Gauges => "engine gauges",
            Self::Sweep => "least load of the sweep",
        }
    }
}

/// Time in a queue beside time of service, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// Where it is known from.
    pub source: Source,
    /// In a queue.
    pub queue: f64,
    /// Not in a queue.
    pub service: f64,
}

impl Waiting {
    /// Share of the queue.
    pub fn share(&self) -> f64 {
        self.queue / (self.queue + self.service)
    }
}

/// What limits a run, and what says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// What.
    pub limit: Limit,
    /// Queueing, if it is known.
    pub waiting: Option<Waiting>,
    /// Median TTFT over its bound.
    pub ttft_factor: Option<f64>,
    /// Median TPOT over its bound.
    pub tpot_factor: Option<f64>,
    /// Output tokens per second over the most that is possible.
    pub rate_share: Option<f64>,
    /// P99 over P50 of inter-token latency.
    pub stalls: Option<f64>,
    /// The engine's KV cache and slots.
    pub engine: Option<Engine>,
}

impl Bottleneck {
    /// Whether the engine of the run was sampled.
    pub const fn has_engine(&self) -> bool {
        self.engine.is_some()
    }
}

/// What an engine's gauges say of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Engine {
    /// 95th percentile of the KV cache's use.
    pub kv_p95: Option<f64>,
    /// Mean running requests.
    pub running: Option<f64>,
    /// Most running requests.
    pub most_running: Option<f64>,
    /// Mean waiting requests.
    pub waiting: Option<f64>,
    /// Requests that were thrown out during the samples.
    pub preemptions: Option<f64>,
}

impl Engine {
    /// Of at least two samples.
    pub fn of(samples: &[EngineSample]) -> Option<Self> {
        let gauge =
            |value: fn(&EngineSample) -> Option<f64>| sorted(samples.iter().filter_map(value));
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let running = gauge(|sample| sample.running);
        (samples.len() > 1).then(|| Self {
            kv_p95: quantile_from_nearer_end(&gauge(|sample| sample.kv_cache), 0.95),
            running: mean(&running),
            most_running: running.last().copied(),
            waiting: mean(&gauge(|sample| sample.waiting)),
            preemptions: growth(samples, |sample| sample.preemptions),
        })
    }

    /// Whether requests wait or are thrown out.
    fn is_short(&self) -> bool {
        self.preemptions.is_some_and(|count| count > 0.0)
            || self.waiting.is_some_and(|mean| mean >= 1.0)
    }

    /// Whether the KV cache holds requests back.
    pub fn is_kv_full(&self) -> bool {
        self.is_short() && self.kv_p95.is_some_and(|share| share >= KV_FULL)
    }

    /// Whether requests wait though the KV cache has room: the most running requests are the limit.
    pub fn is_slots_full(&self) -> bool {
        self.waiting.is_some_and(|mean| mean >= 1.0)
            && self.kv_p95.is_some_and(|share| share < KV_FREE)
    }
}

/// What limits a run.
pub fn of(results: &Results<'_>, run: usize) -> Bottleneck {
    let figures = &results.figures[run];
    let engine = Engine::of(results.engine_of(run));
    let waiting = waiting(results, run);
    let predicted = results.options.predicted.as_ref();
    let factor = |measure: Measure, bound: Option<f64>| Some(figures.typical(measure)? / bound?);
    let bound = predicted.and_then(|bounds| bounds.tpot.as_ref());
    let itl = &figures.dist(Measure::Itl).spread;
    // What stalls decode does not explain a late first token.
    let late = results.options.thresholds.of(figures, Measure::Ttft) == Some(Grade::Bad);
    let mut bottleneck = Bottleneck {
        limit: Limit::Unknown,
        waiting,
        ttft_factor: factor(
            Measure::Ttft,
            predicted.and_then(|bounds| Some(bounds.ttft.as_ref()?.time)),
        ),
        tpot_factor: factor(Measure::Tpot, bound.map(|bound| bound.time)),
        rate_share: predicted.and_then(|bounds| Some(figures.output_rate? / bounds.output_rate?)),
        stalls: itl
            .p99()
            .zip(itl.p50())
            .map(|(p99, p50)| p99 / p50)
            .filter(|ratio| ratio.is_finite()),
        engine,
    };
    bottleneck.limit = match bottleneck.tpot_factor {
        _ if engine.is_some_and(|engine| engine.is_kv_full()) => Limit::KvCache,
        _ if waiting.is_some_and(|waiting| waiting.share() >= QUEUED) => Limit::Queue,
        Some(factor) if factor <= AT_BOUND => match bound.and_then(|bound| bound.by.as_deref()) {
            Some("compute") => Limit::Compute,
            Some("bandwidth" | "memory") => Limit::Bandwidth,
            _ => Limit::Bound,
        },
        _ if !late && bottleneck.stalls.is_some_and(|ratio| ratio >= STALLED) => Limit::Stalls,
        Some(_) => Limit::Scheduling,
        None => Limit::Unknown,
    };
    bottleneck
}

/// Queueing of a run, by the first source that has it. A load generator that sends in time says nothing of the engine.
fn waiting(results: &Results<'_>, run: usize) -> Option<Waiting> {
    let load_test = &results.runs[run];
    let figures = &results.figures[run];
    let rest = |source, queue: f64, total: f64| Waiting {
        source,
        queue,
        service: (total - queue).max(0.0),
    };
    let mean = |run: usize, measure: Measure| results.figures[run].dist(measure).spread.mean;
    let histogram = results.watched(run).and_then(|engine| {
        Some(rest(
            Source::Histogram,
            mean(engine, Measure::Queued)?,
            mean(engine, Measure::Ttft)?,
        ))
    });
    let client = || {
        let (queue, ttft) = (mean(run, Measure::Queued)?, mean(run, Measure::Ttft)?);
        // The TTFT of our own generator begins when the request was due, that of others when it was sent.
        let total = if load_test.tool == Tool::Rooflens {
            ttft
        } else {
            ttft + queue
        };
        Some(rest(Source::Client, queue, total)).filter(|waiting| waiting.share() >= 0.01)
    };
    let gauges = || {
        let engine = Engine::of(results.engine_of(run))?;
        let rate = figures.request_rate.filter(|rate| *rate > 0.0)? / 1e9;
        Some(Waiting {
            source: Source::Gauges,
            queue: engine.waiting? / rate,
            service: engine.running? / rate,
        })
    };
    let sweep = || {
        let least = results
            .sweep_of(run)?
            .points
            .first()
            .filter(|least| least.run != run)?;
        let service = results.figures[least.run]
            .dist(Measure::Ttft)
            .spread
            .p50()?;
        let queue = figures.dist(Measure::Ttft).spread.p50()? - service;
        Some(Waiting {
            source: Source::Sweep,
            queue: queue.max(0.0),
            service,
        })
    };
    let is_known = |waiting: &Waiting| waiting.queue + waiting.service > 0.0;
    histogram
        .or_else(client)
        .or_else(gauges)
        .or_else(sweep)
        .filter(is_known)
}
