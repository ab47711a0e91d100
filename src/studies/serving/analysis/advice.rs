//! Settings to try, each with the numbers that speak for it and the effect that follows from them. None where the data
//! does not carry one. All follow from what limits one run, so no two of them contradict each other.

use super::Results;
use super::bottleneck::{Bottleneck, Limit};
use super::changes::{self, Change, Verdict};
use super::figures::Measure;
use crate::runs::Run;
use rooflens_document::Quantity;
use rooflens_hardware::Hardware;
use rooflens_units::{Count, Ratio, Time};

/// Throughput over that at the last load from which on a smaller batch loses nothing that matters.
const KEPT: Ratio = Ratio(0.9);

/// A setting, why, and what it brings.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// Run with the settings of another run, which did better at the same load.
    Deploy {
        /// It against the first one.
        change: Change,
    },
    /// Let fewer requests run: their time per token keeps its limit, and throughput does not fall.
    Cap {
        /// Requests that generate at a time.
        requests: Count,
        /// Median TPOT at the last load, and with so many requests.
        tpot: (Time, Time),
        /// The limit.
        limit: Time,
        /// Throughput with so many over that at the last load.
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
    /// A byte an element of the KV cache instead of two.
    SmallerKvCache {
        /// 95th percentile of the cache's use, where it is full; else reading it takes the time.
        kv: Option<Ratio>,
    },
    /// Requests wait while the KV cache has room and steps have a share that a larger batch would share.
    MoreSequences {
        /// Mean requests that wait.
        waiting: Option<Count>,
        /// Requests that run.
        running: Count,
        /// Throughput with twice the requests over that now, if a sweep shows it.
        gain: Option<Ratio>,
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
    /// The load generator does not keep up.
    MoreConnections {
        /// Mean time from due to sent.
        late: Time,
    },
    /// Throughput still rises at the last point: measure beyond it.
    MoreLoad {
        /// Load of the last point, on the sweep's axis.
        last: Quantity,
    },
}

impl Advice {
    /// Settings whose other values were tried and did worse, in the words of engines.
    fn measured(&self) -> Vec<String> {
        match self {
            Self::Deploy { change } => {
                let settings = change.settings.iter();
                settings.map(|(name, ..)| name.replace('_', "-")).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The setting in the words of engines.
    pub const fn setting(&self) -> &'static str {
        match self {
            Self::Deploy { .. } => "settings",
            Self::Cap { .. } | Self::FewerSequences { .. } | Self::MoreSequences { .. } => {
                "max-num-seqs"
            }
            Self::MoreKvCache { .. } => "gpu-memory-utilization",
            Self::SmallerKvCache { .. } => "kv-cache-dtype",
            Self::SmallerPrefills { .. } => "max-num-batched-tokens",
            Self::Quantize { .. } => "quantization",
            Self::MoreGpus { .. } => "tensor-parallel-size",
            Self::MoreConnections { .. } => "load generator",
            Self::MoreLoad { .. } => "request rate, concurrency",
        }
    }
}

/// All that the data carries, about the run that shows what limits.
pub fn of(results: &Results<'_>) -> Vec<Advice> {
    let run = results.limited();
    let bottleneck = &results.bottlenecks[run];
    let mut settings = Vec::new();
    settings.extend(deploy(results));
    match bottleneck.limit {
        Limit::Slots => settings.extend(more_sequences(bottleneck)),
        Limit::KvCache => settings.extend(kv_cache(results, run, bottleneck)),
        Limit::Bandwidth => settings.extend(fewer_bytes(results, run, bottleneck)),
        Limit::Stalls => settings.extend(smaller_prefills(results, run)),
        Limit::Client => {
            let late = bottleneck.waiting.map(|waiting| waiting.queue);
            settings.extend(late.map(|late| Advice::MoreConnections { late }));
        }
        Limit::Load => settings.extend(more_load(results, run)),
        _ => settings.extend(cap(results, run, bottleneck)),
    }
    settings.extend(more_gpus(results));
    // What was measured of a setting stands against what follows of a model of the engine.
    let measured: Vec<String> = settings.iter().flat_map(Advice::measured).collect();
    settings.retain(|advice| !measured.iter().any(|name| name == advice.setting()));
    settings
}

/// The settings of the run that did best, if one did better than the first: within limits at any load, else at the same.
fn deploy(results: &Results<'_>) -> Option<Advice> {
    let best = changes::best_goodput(results).or_else(|| changes::best(results).cloned())?;
    (best.verdict == Verdict::Better && !best.settings.is_empty())
        .then_some(Advice::Deploy { change: best })
}

fn more_sequences(bottleneck: &Bottleneck) -> Option<Advice> {
    let engine = bottleneck.engine.unwrap_or_default();
    let running = bottleneck.slots.or(engine.most_running)?;
    let gain = bottleneck.steps.map(|steps| steps.gain());
    Some(Advice::MoreSequences {
        waiting: engine.waiting,
        running,
        gain,
    })
}

fn kv_cache(results: &Results<'_>, run: usize, bottleneck: &Bottleneck) -> Vec<Advice> {
    let engine = bottleneck.engine.unwrap_or_default();
    let Some(kv) = engine.kv_p95 else {
        return Vec::new();
    };
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
    if can_store_fp8(&results.runs[run]) {
        settings.push(Advice::SmallerKvCache { kv: Some(kv) });
    }
    settings
}

/// Whether the GPU of a run computes with 8-bit floats and its cache has more than 8 bits; a GPU without a name may.
fn can_store_fp8(run: &Run) -> bool {
    let has_fp8 = |name: &str| {
        let hardware = Hardware::builtin();
        let gpu = hardware.find(name)?;
        Some(gpu.peaks.iter().any(|peak| peak.dtype == "fp8"))
    };
    let keys = ["kv-cache-dtype", "kv_cache_dtype", "cache_dtype"];
    let stored = keys.iter().find_map(|key| run.settings.get(*key));
    let is_small = stored.is_some_and(|dtype| dtype.contains("fp8") || dtype.contains("int8"));
    !is_small && run.gpu.as_deref().and_then(has_fp8) != Some(false)
}

/// What is read in each step: caches, if the time grows with the batch, else weights.
fn fewer_bytes(results: &Results<'_>, run: usize, bottleneck: &Bottleneck) -> Option<Advice> {
    let run_data = &results.runs[run];
    if bottleneck.steps.is_some() {
        return can_store_fp8(run_data).then_some(Advice::SmallerKvCache { kv: None });
    }
    let is_quantized = run_data.settings.contains_key("quantization");
    let predicted = results.options.predicted.as_ref()?;
    let tpot = results.figures[run].typical(Measure::Tpot)?;
    let bound = predicted.tpot.as_ref()?.time;
    (!is_quantized).then_some(Advice::Quantize { tpot, bound })
}

fn smaller_prefills(results: &Results<'_>, run: usize) -> Option<Advice> {
    let itl = &results.figures[run].dist(Measure::Itl).spread;
    Some(Advice::SmallerPrefills {
        itl: (itl.p50()?, itl.p99()?),
    })
}

/// Of a sweep that is answered to its end, unless a larger load was tried and ended early.
fn more_load(results: &Results<'_>, run: usize) -> Option<Advice> {
    let sweep = results.sweep_of(run)?;
    let last = sweep.points.last()?;
    (last.run == run && sweep.ended_early.is_none()).then_some(Advice::MoreLoad { last: last.load })
}

/// A smaller batch, if the last load breaks the limit of TPOT, and one of nearly its throughput keeps it.
fn cap(results: &Results<'_>, run: usize, bottleneck: &Bottleneck) -> Option<Advice> {
    let limit = results.options.slo.tpot?;
    let sweep = results.sweep_of(run)?;
    let last = sweep.points.last()?;
    let at_last = results.figures[last.run].typical(Measure::Tpot)?;
    let has_room = bottleneck.steps.is_none_or(|steps| steps.has_room());
    if at_last <= limit || has_room {
        return None;
    }
    let keeps = |run: usize| results.figures[run].typical(Measure::Tpot) <= Some(limit);
    let within = sweep.points.iter().rev().find(|point| keeps(point.run))?;
    let kept = Ratio(within.throughput.value / last.throughput.value);
    let requests = super::steps::batch(&results.figures[within.run])?;
    let tpot = results.figures[within.run].typical(Measure::Tpot)?;
    (kept >= KEPT).then_some(Advice::Cap {
        requests: Count(libm::ceil(requests.0)),
        tpot: (at_last, tpot),
        limit,
        kept,
    })
}

/// Limits of latency that no setting reaches on these GPUs.
fn more_gpus(results: &Results<'_>) -> Vec<Advice> {
    let Some(predicted) = &results.options.predicted else {
        return Vec::new();
    };
    let slo = &results.options.slo;
    let limits = [
        (Measure::Ttft, &predicted.ttft, slo.ttft),
        (Measure::Tpot, &predicted.tpot, slo.tpot),
    ];
    let mut settings = Vec::new();
    for (measure, bound, limit) in limits {
        if let (Some(bound), Some(limit)) = (bound, limit)
            && bound.time > limit
        {
            settings.push(Advice::MoreGpus {
                measure,
                bound: bound.time,
                limit,
            });
        }
    }
    settings
}
