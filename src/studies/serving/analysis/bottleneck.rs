//! What limits a run, as far as its data tells: queueing, the KV cache, the bound of the hardware, or stalls of decode.

use super::Results;
use super::figures::{Measure, growth};
use super::predicted::Bound;
use super::thresholds::Grade;
use crate::runs::{EngineSample, Tool};
use crate::stats::{Spread, sorted};
use rooflens_stats::{mean, quantile_from_nearer_end};
use rooflens_units::{Count, Ratio, RequestsPerSecond, Time};

/// Share of the wait from which on queueing is the bottleneck.
pub const QUEUED: Ratio = Ratio(0.5);

/// Use of the KV cache, 95th percentile over the run, from which on it is full; below [`KV_FREE`] it is not short.
pub const KV_FULL: Ratio = Ratio(0.95);
/// See [`KV_FULL`].
pub const KV_FREE: Ratio = Ratio(0.8);

/// Measured over bound up to which a run is at the bound.
pub const AT_BOUND: Ratio = Ratio(1.5);

/// P99 over P50 of inter-token latency from which on decode stalls.
pub const STALLED: Ratio = Ratio(5.0);

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

/// Time in a queue and time of service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// Where it is known from.
    pub source: Source,
    /// In a queue.
    pub queue: Time,
    /// Not in a queue.
    pub service: Time,
}

impl Waiting {
    /// Share of the queue.
    pub fn share(&self) -> Ratio {
        Ratio(self.queue / (self.queue + self.service))
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
    pub ttft_factor: Option<Ratio>,
    /// Median TPOT over its bound.
    pub tpot_factor: Option<Ratio>,
    /// Output tokens per second over the most that is possible.
    pub rate_share: Option<Ratio>,
    /// P99 over P50 of inter-token latency.
    pub stalls: Option<Ratio>,
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
    pub kv_p95: Option<Ratio>,
    /// Mean running requests.
    pub running: Option<Count>,
    /// Most running requests.
    pub most_running: Option<Count>,
    /// Mean waiting requests.
    pub waiting: Option<Count>,
    /// Requests that were thrown out during the samples.
    pub preemptions: Option<Count>,
}

impl Engine {
    /// Of at least two samples.
    pub fn of(samples: &[EngineSample]) -> Option<Self> {
        if samples.len() < 2 {
            return None;
        }
        let (mut running, mut waiting, mut kv_cache) = (Vec::new(), Vec::new(), Vec::new());
        for sample in samples {
            running.extend(sample.running);
            waiting.extend(sample.waiting);
            kv_cache.extend(sample.kv_cache);
        }
        let (running, waiting) = (sorted(running), sorted(waiting));
        Some(Self {
            kv_p95: quantile_from_nearer_end(&sorted(kv_cache), 0.95),
            running: mean(&running),
            most_running: running.last().copied(),
            waiting: mean(&waiting),
            preemptions: growth(samples, |sample| sample.preemptions),
        })
    }

    /// Whether requests wait or are thrown out.
    fn is_short(&self) -> bool {
        self.preemptions > Some(Count::ZERO) || self.waiting >= Some(Count(1.0))
    }

    /// Whether the KV cache holds requests back.
    pub fn is_kv_full(&self) -> bool {
        self.is_short() && self.kv_p95 >= Some(KV_FULL)
    }

    /// Whether requests wait though the KV cache has room: the most running requests are the limit.
    pub fn is_slots_full(&self) -> bool {
        self.waiting >= Some(Count(1.0)) && self.kv_p95.is_some_and(|share| share < KV_FREE)
    }
}

/// What limits a run.
pub fn of(results: &Results<'_>, run: usize) -> Bottleneck {
    let figures = &results.figures[run];
    let engine = Engine::of(results.engine_of(run));
    let waiting = waiting(results, run);
    let (mut ttft_bound, mut tpot_bound, mut rate_bound) = (None, None, None);
    if let Some(bounds) = &results.options.predicted {
        (ttft_bound, tpot_bound) = (bounds.ttft.as_ref(), bounds.tpot.as_ref());
        rate_bound = bounds.output_rate;
    }
    let factor = |measure: Measure, bound: Option<&Bound>| {
        Some(Ratio(figures.typical(measure)? / bound?.time))
    };
    let tpot_factor = factor(Measure::Tpot, tpot_bound);
    let stalls = stalls(&figures.dist(Measure::Itl).spread);
    // What stalls decode does not explain a late first token.
    let late = results.options.thresholds.of(figures, Measure::Ttft) == Some(Grade::Bad);
    let limit = match tpot_factor {
        _ if engine.is_some_and(|engine| engine.is_kv_full()) => Limit::KvCache,
        _ if waiting.is_some_and(|waiting| waiting.share() >= QUEUED) => Limit::Queue,
        Some(factor) if factor <= AT_BOUND => match tpot_bound.and_then(Bound::by) {
            Some("compute") => Limit::Compute,
            Some("bandwidth" | "memory") => Limit::Bandwidth,
            _ => Limit::Bound,
        },
        _ if !late && stalls >= Some(STALLED) => Limit::Stalls,
        Some(_) => Limit::Scheduling,
        None => Limit::Unknown,
    };
    Bottleneck {
        limit,
        waiting,
        ttft_factor: factor(Measure::Ttft, ttft_bound),
        tpot_factor,
        rate_share: match (figures.output_rate, rate_bound) {
            (Some(rate), Some(bound)) => Some(Ratio(rate / bound)),
            _ => None,
        },
        stalls,
        engine,
    }
}

/// P99 over P50 of inter-token latency.
fn stalls(itl: &Spread) -> Option<Ratio> {
    let ratio = Ratio(itl.p99()? / itl.p50()?);
    ratio.is_finite().then_some(ratio)
}

/// Queueing of a run, by the first source that has it.
fn waiting(results: &Results<'_>, run: usize) -> Option<Waiting> {
    let sources = [by_histogram, by_client, by_gauges, by_sweep];
    let mut waits = sources
        .into_iter()
        .filter_map(|source| source(results, run));
    waits
        .next()
        .filter(|waiting| (waiting.queue + waiting.service).is_positive())
}

fn by_histogram(results: &Results<'_>, run: usize) -> Option<Waiting> {
    let figures = &results.figures[results.watched(run)?];
    let queue = figures.dist(Measure::Queued).spread.mean?;
    let ttft = figures.dist(Measure::Ttft).spread.mean?;
    Some(Waiting {
        source: Source::Histogram,
        queue,
        service: (ttft - queue).max(Time::ZERO),
    })
}

/// A load generator that sends in time says nothing of the engine.
fn by_client(results: &Results<'_>, run: usize) -> Option<Waiting> {
    let figures = &results.figures[run];
    let queue = figures.dist(Measure::Queued).spread.mean?;
    let ttft = figures.dist(Measure::Ttft).spread.mean?;
    // The TTFT of our own generator begins when the request was due, that of others when it was sent.
    let total = if results.runs[run].tool == Tool::Rooflens {
        ttft
    } else {
        ttft + queue
    };
    let waiting = Waiting {
        source: Source::Client,
        queue,
        service: (total - queue).max(Time::ZERO),
    };
    (waiting.share() >= Ratio(0.01)).then_some(waiting)
}

/// Little's law: requests in a state ÷ answers per second is the time in that state.
fn by_gauges(results: &Results<'_>, run: usize) -> Option<Waiting> {
    let engine = Engine::of(results.engine_of(run))?;
    let rate = results.figures[run]
        .request_rate
        .filter(RequestsPerSecond::is_positive)?;
    let per_nanosecond = rate.0 / 1e9;
    Some(Waiting {
        source: Source::Gauges,
        queue: Time(engine.waiting?.0 / per_nanosecond),
        service: Time(engine.running?.0 / per_nanosecond),
    })
}

fn by_sweep(results: &Results<'_>, run: usize) -> Option<Waiting> {
    let least = results.sweep_of(run)?.points.first()?;
    if least.run == run {
        return None;
    }
    let ttft = |run: usize| results.figures[run].dist(Measure::Ttft).spread.p50();
    let service = ttft(least.run)?;
    Some(Waiting {
        source: Source::Sweep,
        queue: (ttft(run)? - service).max(Time::ZERO),
        service,
    })
}
