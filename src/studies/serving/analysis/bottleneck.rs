//! What limits a run, by evidence that separates the candidates.
//!
//! A limit of the scheduler (slots, cache) holds throughput back only if a larger batch would give more: if the steps of
//! the engine have a share that does not grow with the batch ([`super::steps`]). Else the GPU is the limit, and the
//! larger share of its steps says which work. What is offered is the limit while the engine answers all of it.

use super::Results;
use super::figures::{Measure, growth};
use super::predicted::Bound;
use super::steps::{self, Steps};
use super::sweep::{ELASTICITY, SUSTAINED, elasticity};
use crate::runs::{EngineSample, Run, Tool};
use crate::stats::{Spread, sorted};
use rooflens_stats::{mean, quantile_from_nearer_end};
use rooflens_units::{Count, Ratio, RequestsPerSecond, Time};

/// Share of the wait from which on queueing is the bottleneck.
pub const QUEUED: Ratio = Ratio(0.5);

/// Use of the KV cache, 95th percentile over the run, from which on it is full.
pub const KV_FULL: Ratio = Ratio(0.95);

/// Waiting over running requests from which on the engine has more work than it admits.
const PRESSED: Ratio = Ratio(0.05);

/// Median over greatest number of running requests from which on they are at a limit.
const FLAT: Ratio = Ratio(0.98);

/// Share of the step time that grows with the load, below which no work of the load is the limit: twice the batch would give at
/// least 1.8 times the throughput.
const LEAST_GROWING: Ratio = Ratio(0.1);

/// Measured over bound up to which a run is at the bound.
pub const AT_BOUND: Ratio = Ratio(1.5);

/// Measured over bound below which the prediction is of another setup.
pub const BEYOND_BOUND: Ratio = Ratio(0.97);

/// P99 over P50 of inter-token latency from which on decode stalls.
pub const STALLED: Ratio = Ratio(5.0);

/// Settings that say how many requests run at most: vLLM, SGLang, TensorRT-LLM.
const SLOTS: [&str; 5] = [
    "max-num-seqs",
    "max_num_seqs",
    "max_running_requests",
    "max-running-requests",
    "max_batch_size",
];

/// What limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing in the engine: it answers what is offered, and more load gives more throughput.
    Load,
    /// The load generator sends late while the engine has room.
    Client,
    /// As many requests run as may run, others wait, and a larger batch gives more throughput.
    Slots,
    /// The KV cache is full while requests wait or are preempted.
    KvCache,
    /// Most of the time of steps goes to prompts.
    Prefill,
    /// Most of the time of steps grows with the batch, and compute sets it.
    Compute,
    /// Most of the time of steps grows with the batch, and memory bandwidth sets it; or time per token is at that bound.
    Bandwidth,
    /// Most of the time of steps grows with the batch; no prediction says what sets it.
    Decode,
    /// Time per token is at its bound; the prediction does not say what sets it.
    Bound,
    /// Requests wait before the engine begins with them; the data does not tell what for.
    Queue,
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
            Self::Load => "load",
            Self::Client => "load generator",
            Self::Slots => "slots",
            Self::KvCache => "kv-cache",
            Self::Prefill => "prefill",
            Self::Compute => "compute",
            Self::Bandwidth => "bandwidth",
            Self::Decode => "decode",
            Self::Bound => "hardware bound",
            Self::Queue => "queue",
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
    /// Waiting requests of the engine's gauges ÷ answers per second, by Little's law; service is the rest of the mean
    /// latency, without latencies running requests ÷ answers per second.
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
    /// Most requests that may run, as the settings state.
    pub slots: Option<Count>,
    /// Answers per second over offered ones, in an open loop.
    pub sustained: Option<Ratio>,
    /// Where the time of steps goes.
    pub steps: Option<Steps>,
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
    /// Median of the running requests.
    pub median_running: Option<Count>,
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
            median_running: quantile_from_nearer_end(&running, 0.5),
            most_running: running.last().copied(),
            waiting: mean(&waiting),
            preemptions: growth(samples, |sample| sample.preemptions),
        })
    }

    /// Whether requests were preempted.
    fn preempts(&self) -> bool {
        self.preemptions > Some(Count::ZERO)
    }

    /// Whether more requests wait than a moment's fluctuation.
    fn is_pressed(&self) -> bool {
        let running = self.running.unwrap_or_default();
        let least = Count(running.0 * PRESSED.0).max(Count(1.0));
        self.preempts() || self.waiting >= Some(least)
    }

    /// Whether the KV cache has no room for a further request of mean size.
    fn is_kv_full(&self) -> bool {
        let Some(used) = self.kv_p95 else {
            return false;
        };
        let running = self.most_running.unwrap_or_default().0.max(1.0);
        used >= KV_FULL || used.0 * (1.0 + 1.0 / running) >= 1.0
    }

    /// Preempted requests over all that were computed.
    fn repeats(&self, completed: Option<Count>) -> Ratio {
        let preempted = self.preemptions.unwrap_or_default();
        let all = completed.unwrap_or_default() + preempted;
        Ratio(preempted.0 / all.0.max(1.0))
    }

    /// Whether as many requests run as may run: by the setting, else because their number stays at its maximum, which is
    /// not that of the load generator.
    fn is_at_slots(&self, slots: Option<Count>, concurrency: Option<Count>) -> bool {
        match (self.median_running, self.most_running, slots) {
            (Some(median), _, Some(slots)) => median.0 >= slots.0 * FLAT.0,
            (Some(median), Some(most), None) => {
                let all_run = concurrency.is_some_and(|concurrency| most >= concurrency);
                median.0 >= most.0 * FLAT.0 && !all_run
            }
            _ => false,
        }
    }
}

/// Most requests that may run, if the settings of a run or of its engine state it.
fn slots(results: &Results<'_>, run: usize) -> Option<Count> {
    let engine = results.watched(run).map(|engine| &results.runs[engine]);
    let runs = [Some(&results.runs[run]), engine];
    let stated = |run: &Run| {
        let value = SLOTS.iter().find_map(|key| run.settings.get(*key))?;
        value.parse().ok().map(Count)
    };
    runs.into_iter().flatten().find_map(stated)
}

/// What limits a run.
pub fn of(results: &Results<'_>, run: usize) -> Bottleneck {
    let figures = &results.figures[run];
    let (mut ttft_bound, mut tpot_bound, mut rate_bound) = (None, None, None);
    if let Some(bounds) = &results.options.predicted {
        (ttft_bound, tpot_bound) = (bounds.ttft.as_ref(), bounds.tpot.as_ref());
        rate_bound = bounds.output_rate;
    }
    let factor = |measure: Measure, bound: Option<&Bound>| {
        Some(Ratio(figures.typical(measure)? / bound?.time))
    };
    let mut bottleneck = Bottleneck {
        limit: Limit::Unknown,
        waiting: waiting(results, run),
        ttft_factor: factor(Measure::Ttft, ttft_bound),
        tpot_factor: factor(Measure::Tpot, tpot_bound),
        rate_share: match (figures.output_rate, rate_bound) {
            (Some(rate), Some(bound)) => Some(Ratio(rate / bound)),
            _ => None,
        },
        stalls: stalls(&figures.dist(Measure::Itl).spread),
        engine: Engine::of(results.engine_of(run)),
        slots: slots(results, run),
        sustained: sustained(results, run),
        steps: steps::of(results, run),
    };
    bottleneck.limit = limit(results, run, &bottleneck);
    bottleneck
}

/// Answers over offered requests of a run in an open loop.
fn sustained(results: &Results<'_>, run: usize) -> Option<Ratio> {
    let point = |run: usize| {
        let points = &results.sweep_of(run)?.points;
        points.iter().find(|point| point.run == run)?.sustained
    };
    point(run).or_else(|| super::sweep::sustained(&results.runs[run], &results.figures[run], None))
}

fn limit(results: &Results<'_>, run: usize, evidence: &Bottleneck) -> Limit {
    if evidence.sustained >= Some(SUSTAINED) {
        return Limit::Load;
    }
    let engine = evidence.engine.unwrap_or_default();
    // What a larger batch gives is known from a sweep; a step at its compute bound gives nothing.
    let has_room = match evidence.steps {
        Some(steps) => steps.has_room(),
        None => at_bound(results, evidence) != Some(Limit::Compute),
    };
    if evidence.is_sent_late() && !engine.is_pressed() && has_room {
        return Limit::Client;
    }
    if evidence.is_pressed() {
        let is_at_slots = engine.is_at_slots(evidence.slots, results.runs[run].load.concurrency);
        let is_kv_full = engine.is_kv_full();
        // A larger cache also saves what preempted requests compute again.
        let repeats = engine.repeats(results.figures[run].completed);
        let has_room_with_cache = match evidence.steps {
            Some(steps) => steps.without_repeats(repeats).has_room(),
            None => has_room,
        };
        return match has_room {
            true if is_at_slots && !is_kv_full => Limit::Slots,
            _ if is_kv_full && has_room_with_cache => Limit::KvCache,
            true if is_at_slots => Limit::Slots,
            _ => hardware(results, run, evidence).unwrap_or(Limit::Queue),
        };
    }
    if follows(results, run, 0) {
        return Limit::Load;
    }
    if let Some(steps) = evidence.steps {
        return match steps.has_room() {
            true => Limit::Load,
            false => hardware(results, run, evidence).unwrap_or(Limit::Decode),
        };
    }
    if follows(results, run, 1) {
        return Limit::Load;
    }
    let stalls = evidence.stalls >= Some(STALLED);
    match (at_bound(results, evidence), evidence.tpot_factor) {
        (Some(limit), _) => limit,
        _ if stalls => Limit::Stalls,
        (None, Some(factor)) if factor > AT_BOUND => Limit::Scheduling,
        _ => Limit::Unknown,
    }
}

impl Bottleneck {
    /// Whether the load generator's own delay is most of the time to first token.
    fn is_sent_late(&self) -> bool {
        let late = |waiting: Waiting| waiting.source == Source::Client && waiting.share() >= QUEUED;
        self.waiting.is_some_and(late)
    }

    /// Whether the engine has more work than it admits: by its gauges, else by what requests wait.
    fn is_pressed(&self) -> bool {
        match self.engine {
            Some(engine) if engine.waiting.is_some() || engine.preemptions.is_some() => {
                engine.is_pressed()
            }
            _ => self
                .waiting
                .is_some_and(|waiting| waiting.share() >= QUEUED),
        }
    }
}

/// Whether throughput follows the load in the step of the sweep that begins (`end` 0) or ends (1) with a run.
fn follows(results: &Results<'_>, run: usize, end: usize) -> bool {
    let Some(sweep) = results.sweep_of(run) else {
        return false;
    };
    let mut steps = sweep.points.windows(2);
    steps.any(|step| step[end].run == run && elasticity(&step[0], &step[1]) >= ELASTICITY)
}

/// What sets the time per token, if it is at its bound. A time below its bound speaks against the prediction.
fn at_bound(results: &Results<'_>, evidence: &Bottleneck) -> Option<Limit> {
    let factor = evidence.tpot_factor?;
    (BEYOND_BOUND..=AT_BOUND)
        .contains(&factor)
        .then(|| bound(results).unwrap_or(Limit::Bound))
}

/// What sets the predicted time per token.
fn bound(results: &Results<'_>) -> Option<Limit> {
    let predicted = results.options.predicted.as_ref()?;
    match predicted.tpot.as_ref().and_then(Bound::by)? {
        "compute" => Some(Limit::Compute),
        "bandwidth" | "memory" => Some(Limit::Bandwidth),
        _ => None,
    }
}

/// The work that takes most of the steps' time that grows with the load.
fn hardware(results: &Results<'_>, run: usize, evidence: &Bottleneck) -> Option<Limit> {
    let figures = &results.figures[run];
    let is_of_setup = evidence.tpot_factor >= Some(BEYOND_BOUND);
    let bound = bound(results).filter(|_| is_of_setup);
    let Some(steps) = evidence.steps else {
        // At its least, prefill takes this share of the time.
        let predicted = results.options.predicted.as_ref()?;
        let prompt = predicted.ttft.as_ref()?.time;
        let prefill = figures.request_rate?.0 * prompt.seconds().0;
        return if prefill >= 0.5 {
            Some(Limit::Prefill)
        } else {
            at_bound(results, evidence)
        };
    };
    let growing = steps.prefill.0 + steps.per_request.0;
    if growing < LEAST_GROWING.0 {
        return None;
    }
    let mut prefill = steps.prefill.0;
    if bound == Some(Limit::Compute)
        && let (Some(prompt), Some(output)) = (figures.prompt_tokens, figures.output_tokens)
    {
        // Where compute is the limit, a token of a prompt takes as long as one of an answer.
        let computed = prompt.0 * (1.0 - figures.cached.unwrap_or_default().0);
        prefill = prefill.max(growing * computed / (computed + output.0));
    }
    if prefill >= growing / 2.0 {
        return Some(Limit::Prefill);
    }
    Some(bound.unwrap_or(Limit::Decode))
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

/// Little's law: requests in a state ÷ answers per second is the time in that state. The load generator knows how long
/// requests take; gauges only sample how many run.
fn by_gauges(results: &Results<'_>, run: usize) -> Option<Waiting> {
    let engine = Engine::of(results.engine_of(run))?;
    let figures = &results.figures[run];
    let rate = figures
        .request_rate
        .filter(RequestsPerSecond::is_positive)?;
    let per_nanosecond = rate.0 / 1e9;
    let queue = Time(engine.waiting?.0 / per_nanosecond);
    let service = match figures.dist(Measure::Latency).spread.mean {
        Some(latency) => (latency - queue).max(Time::ZERO),
        None => Time(engine.running?.0 / per_nanosecond),
    };
    Some(Waiting {
        source: Source::Gauges,
        queue,
        service,
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
