//! Settings to try, each with the numbers that speak for it and the effect that follows from them. None where the data
//! does not carry one.

use super::Results;
use super::bottleneck::{AT_BOUND, Limit, STALLED};
use super::figures::Measure;
use super::sweep::Axis;
use crate::runs::Run;
use rooflens_document::Quantity;
use rooflens_units::{Count, Ratio, Time};

/// Gain of the median TTFT from which on a limit at the knee is worth it.
const WORTH: Ratio = Ratio(1.2);

/// A setting, why, and what it brings.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// Let no more requests run than at the knee: beyond it they wait.
    CapAtKnee {
        /// Requests in flight at the knee.
        requests: Count,
        /// Load of the last point, on the sweep's axis.
        last: Quantity,
        /// Median TTFT at the last point, and at the knee.
        ttft: (Time, Time),
        /// Throughput at the knee over that at the last point.
        kept: Ratio,
    },
    /// The KV cache is full: fewer requests at once.
    FewerSequences {
        /// 95th percentile of the cache's use.
        kv: Ratio,
        /// Requests that were thrown out.
        preemptions: Option<Count>,
        /// Mean requests that run.
        running: Count,
    },
    /// The KV cache is full: more memory for it.
    MoreKvCache {
        /// 95th percentile of the cache's use.
        kv: Ratio,
        /// The setting now, if the engine says it.
        now: Option<Ratio>,
    },
    /// The KV cache is full: a byte an element instead of two.
    SmallerKvCache {
        /// 95th percentile of the cache's use.
        kv: Ratio,
    },
    /// Requests wait while the KV cache has room.
    MoreSequences {
        /// Mean requests that wait.
        waiting: Count,
        /// Most requests that ran.
        running: Count,
        /// 95th percentile of the cache's use.
        kv: Ratio,
    },
    /// Decode steps wait for prefills.
    SmallerPrefills {
        /// Inter-token latency, P50 and P99.
        itl: (Time, Time),
    },
    /// Time per token is at the bound of memory bandwidth: fewer bytes of weights.
    Quantize {
        /// Median TPOT.
        tpot: Time,
        /// Its bound.
        bound: Time,
    },
    /// A limit of latency lies below the bound of the hardware: more GPUs a replica.
    MoreGpus {
        /// Which latency.
        measure: Measure,
        /// Its bound.
        bound: Time,
        /// The limit.
        limit: Time,
    },
    /// Throughput still rises at the last point: measure beyond it.
    MoreLoad {
        /// Load of the last point, on the sweep's axis.
        last: Quantity,
    },
}

impl Advice {
    /// The setting in the words of engines.
    pub const fn setting(&self) -> &'static str {
        match self {
            Self::CapAtKnee { .. } | Self::FewerSequences { .. } | Self::MoreSequences { .. } => {
                "max-num-seqs"
            }
            Self::MoreKvCache { .. } => "gpu-memory-utilization",
            Self::SmallerKvCache { .. } => "kv-cache-dtype",
            Self::SmallerPrefills { .. } => "max-num-batched-tokens",
            Self::Quantize { .. } => "quantization",
            Self::MoreGpus { .. } => "tensor-parallel-size",
            Self::MoreLoad { .. } => "request rate, concurrency",
        }
    }
}

/// All that the data carries, about the run of the first page and its sweep.
pub fn of(results: &Results<'_>) -> Vec<Advice> {
    let run = results.headline;
    let mut settings = Vec::new();
    settings.extend(engine(results, run));
    settings.extend(sweep(results, run));
    let bottleneck = &results.bottlenecks[run];
    let itl = &results.figures[run].dist(Measure::Itl).spread;
    if let (Some(ratio), Some(p50), Some(p99)) = (bottleneck.stalls, itl.p50(), itl.p99())
        && ratio >= STALLED
        && bottleneck.limit == Limit::Stalls
    {
        settings.push(Advice::SmallerPrefills { itl: (p50, p99) });
    }
    settings.extend(bounds(results, run));
    settings
}

fn engine(results: &Results<'_>, run: usize) -> Vec<Advice> {
    let Some(engine) = results.bottlenecks[run].engine else {
        return Vec::new();
    };
    let Some(kv) = engine.kv_p95 else {
        return Vec::new();
    };
    if engine.is_kv_full() {
        let mut settings = Vec::new();
        if let Some(running) = engine.running
            && engine.preemptions > Some(Count::ZERO)
        {
            settings.push(Advice::FewerSequences {
                kv,
                preemptions: engine.preemptions,
                running,
            });
        }
        let stated = |run: &Run| run.settings.get("gpu_memory_utilization")?.parse().ok();
        let now = results.runs.iter().find_map(stated).map(Ratio);
        settings.push(Advice::MoreKvCache { kv, now });
        settings.push(Advice::SmallerKvCache { kv });
        return settings;
    }
    let (Some(waiting), Some(running), true) =
        (engine.waiting, engine.most_running, engine.is_slots_full())
    else {
        return Vec::new();
    };
    vec![Advice::MoreSequences {
        waiting,
        running,
        kv,
    }]
}

/// What the sweep of a run says.
fn sweep(results: &Results<'_>, run: usize) -> Option<Advice> {
    let sweep = results.sweep_of(run)?;
    let last = sweep.points.last()?;
    let Some(knee) = sweep.knee.map(|knee| &sweep.points[knee]) else {
        return Some(Advice::MoreLoad { last: last.load });
    };
    let ttft = |run: usize| results.figures[run].typical(Measure::Ttft);
    let (at_last, at_knee) = (ttft(last.run)?, ttft(knee.run)?);
    let requests = match sweep.axis {
        Axis::Concurrency => Count(knee.load.value),
        Axis::Rate => results.figures[knee.run].in_flight?,
    };
    (at_last >= at_knee * WORTH).then(|| Advice::CapAtKnee {
        requests: Count(libm::ceil(requests.0)),
        last: last.load,
        ttft: (at_last, at_knee),
        kept: Ratio(knee.throughput.value / last.throughput.value),
    })
}

/// What the bounds of the hardware say.
fn bounds(results: &Results<'_>, run: usize) -> Vec<Advice> {
    let Some(predicted) = &results.options.predicted else {
        return Vec::new();
    };
    let (bottleneck, figures) = (&results.bottlenecks[run], &results.figures[run]);
    let mut settings = Vec::new();
    let at_bound = bottleneck
        .tpot_factor
        .is_some_and(|factor| factor <= AT_BOUND);
    if let (Some(tpot), Some(bound), true) =
        (figures.typical(Measure::Tpot), &predicted.tpot, at_bound)
        && bottleneck.limit == Limit::Bandwidth
    {
        settings.push(Advice::Quantize {
            tpot,
            bound: bound.time,
        });
    }
    let (slo, levels) = (&results.options.slo, &results.options.thresholds);
    let limits = [
        (
            Measure::Ttft,
            &predicted.ttft,
            slo.ttft.unwrap_or(levels.ttft_p50_ms.bad.time()),
        ),
        (
            Measure::Tpot,
            &predicted.tpot,
            slo.tpot.unwrap_or(levels.tpot_p50_ms.bad.time()),
        ),
    ];
    for (measure, bound, limit) in limits {
        if let Some(bound) = bound.as_ref().filter(|bound| bound.time > limit) {
            settings.push(Advice::MoreGpus {
                measure,
                bound: bound.time,
                limit,
            });
        }
    }
    settings
}
