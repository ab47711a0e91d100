//! `/metrics` in the text format of Prometheus: vLLM, SGLang, and DCGM's exporter. Counters and histograms count from the
//! engine's start, so two snapshots give what happened between them. Times are seconds.
//!
//! A comment line `# scraped_at 1763814589.25` (seconds since 1970) says when a snapshot was taken; without it there are
//! no rates.

use std::collections::BTreeMap;

use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};

use super::json::S;
use super::{Outcome, Parsed, Refusal, named};
use crate::runs::{EngineSample, GpuSample, Run, Stated, Tool};
use crate::stats::{PERCENTILES, Spread};
use rooflens_session::Arrange;
use rooflens_units::{Bytes, Count, Ratio, RequestsPerSecond, Seconds, TokensPerSecond, Watts};

/// One snapshot of an engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrape {
    engine: &'static str,
    model: Option<String>,
    /// Since 1970.
    time: Option<Seconds>,
    /// Counters and gauges, summed over labels; shares are the greatest.
    values: BTreeMap<String, f64>,
    /// Cumulative counts by upper bound in seconds, in rising order.
    buckets: BTreeMap<String, Vec<(f64, f64)>>,
    settings: BTreeMap<String, String>,
}

/// One line: name, labels, value.
struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    value: f64,
}

/// What a snapshot holds; none if the text is none.
pub(super) fn parse(text: &str) -> Option<Outcome> {
    let samples: Vec<Sample<'_>> = text.lines().filter_map(sample).collect();
    let dcgm = samples
        .iter()
        .filter(|sample| sample.name.starts_with("DCGM_FI_"))
        .count();
    let engine = ["vllm", "sglang"].into_iter().find(|engine| {
        samples.iter().any(|sample| {
            sample
                .name
                .strip_prefix(engine)
                .is_some_and(|rest| rest.starts_with([':', '_']))
        })
    });
    if let Some(engine) = engine {
        let scrape = Some(scrape(engine, text, &samples));
        return Some(Ok(Parsed {
            scrape,
            ..Parsed::default()
        }));
    }
    if dcgm > 0 {
        return Some(Ok(Parsed {
            gpu: gpus(text, &samples),
            ..Parsed::default()
        }));
    }
    let is_exposition = text.lines().any(|line| line.starts_with("# TYPE ")) && !samples.is_empty();
    is_exposition.then(|| {
        Err(Refusal::new(
            "metrics of a program that is neither vLLM, SGLang nor DCGM",
            "curl -s http://HOST:PORT/metrics of the engine",
        ))
    })
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    let starts = line.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let (head, rest) = match line.find('{').filter(|_| starts) {
        Some(open) => {
            let close = line.rfind('}').filter(|close| *close > open)?;
            (&line[..open], (&line[open + 1..close], &line[close + 1..]))
        }
        None => {
            let (name, value) = line.split_once(' ').filter(|_| starts)?;
            (name, ("", value))
        }
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let value = rest.1.split_whitespace().next()?.parse().ok()?;
    let labels = rest.0.split("\",").filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim(), value.trim().trim_matches('"')))
    });
    head.chars().all(is_name).then(|| Sample {
        name: head,
        labels: labels.collect(),
        value,
    })
}

/// Time since 1970 of the comment that says so.
fn scraped_at(text: &str) -> Option<Seconds> {
    let time = |line: &str| line.strip_prefix("# scraped_at ")?.trim().parse().ok();
    text.lines().find_map(time).map(Seconds)
}

fn scrape(engine: &'static str, text: &str, samples: &[Sample<'_>]) -> Scrape {
    let mut scrape = Scrape {
        engine,
        time: scraped_at(text),
        ..Scrape::default()
    };
    for sample in samples {
        let of_engine = sample.name.strip_prefix(engine);
        let Some(name) = of_engine.and_then(|rest| rest.strip_prefix([':', '_'])) else {
            continue;
        };
        if scrape.model.is_none() {
            scrape.model = sample
                .labels
                .get("model_name")
                .map(|model| (*model).to_owned());
        }
        if name == "cache_config_info" {
            let keys = [
                "gpu_memory_utilization",
                "num_gpu_blocks",
                "block_size",
                "cache_dtype",
                "enable_prefix_caching",
            ];
            let settings = keys
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), (*sample.labels.get(key)?).to_owned())));
            scrape.settings.extend(settings);
        } else if let Some(name) = name.strip_suffix("_bucket") {
            let bound = sample.labels.get("le").and_then(|bound| match *bound {
                "+Inf" => Some(f64::INFINITY),
                bound => bound.parse().ok(),
            });
            let Some(bound) = bound else { continue };
            let buckets = scrape.buckets.entry(name.to_owned()).or_default();
            buckets.push((bound, sample.value));
        } else {
            let value = scrape.values.entry(name.to_owned()).or_insert(0.0);
            let is_share = name.ends_with("usage_perc")
                || name.ends_with("token_usage")
                || name.ends_with("_rate");
            *value = if is_share {
                value.max(sample.value)
            } else {
                *value + sample.value
            };
        }
    }
    for buckets in scrape.buckets.values_mut() {
        buckets.arrange_by(|a, b| a.0.total_cmp(&b.0));
        // Buckets of several labels are one.
        buckets.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0.0 };
            is_same
        });
    }
    scrape
}

/// Samples of GPUs from DCGM's exporter. Power is watts, utilization percent, memory MiB.
fn gpus(text: &str, samples: &[Sample<'_>]) -> Vec<GpuSample> {
    let utc = scraped_at(text).map(|moment| moment.time().0 as i64);
    let mut gpus: BTreeMap<u32, GpuSample> = BTreeMap::new();
    for gauge in samples {
        let Some(gpu) = gauge.labels.get("gpu").and_then(|gpu| gpu.parse().ok()) else {
            continue;
        };
        let sample = gpus.entry(gpu).or_insert(GpuSample {
            gpu,
            utc,
            ..GpuSample::default()
        });
        match gauge.name {
            "DCGM_FI_DEV_GPU_UTIL" => sample.utilization = Some(Ratio(gauge.value / 100.0)),
            "DCGM_FI_DEV_POWER_USAGE" => sample.power = Some(Watts(gauge.value)),
            "DCGM_FI_DEV_FB_USED" => sample.memory_used = Some(Bytes(gauge.value * 1_048_576.0)),
            _ => {}
        }
    }
    gpus.into_values().collect()
}

/// Time around a load test within which a snapshot is of it.
const AROUND: Seconds = Seconds(2.0);

/// One run an engine and load test, or one an engine where times do not tell: what the last snapshot counts beyond the
/// first one.
pub(super) fn runs(
    scrapes: Vec<(String, Scrape)>,
    tests: &[Run],
    diagnostics: &mut Diagnostics,
) -> Vec<Run> {
    let mut engines: Vec<Vec<(String, Scrape)>> = Vec::new();
    for scrape in scrapes {
        let is_same = |group: &&mut Vec<(String, Scrape)>| {
            group.first().is_some_and(|(_, first)| {
                first.engine == scrape.1.engine && first.model == scrape.1.model
            })
        };
        match engines.iter_mut().find(is_same) {
            Some(group) => group.push(scrape),
            None => engines.push(vec![scrape]),
        }
    }
    let mut runs = Vec::new();
    for mut scrapes in engines {
        if scrapes.iter().all(|(_, scrape)| scrape.time.is_some()) {
            scrapes.arrange_by(|(_, a), (_, b)| {
                a.time
                    .unwrap_or_default()
                    .total_cmp(&b.time.unwrap_or_default())
            });
        }
        let watching: Vec<Run> = tests
            .iter()
            .enumerate()
            .filter_map(|(index, test)| {
                let during = during(&scrapes, test)?;
                let label = format!("{}, engine", test.label);
                Some(Run {
                    watches: Some(index),
                    label,
                    ..run(during, diagnostics)
                })
            })
            .collect();
        match watching.is_empty() {
            true => runs.push(run(&scrapes, diagnostics)),
            false => runs.extend(watching),
        }
    }
    runs
}

/// The snapshots from just before a load test to just after it, if there are two or more.
fn during<'a>(scrapes: &'a [(String, Scrape)], test: &Run) -> Option<&'a [(String, Scrape)]> {
    let (begin, length) = (test.began()?, test.duration()?.seconds());
    let before = |limit: Seconds| {
        scrapes.partition_point(|(_, scrape)| scrape.time.is_some_and(|time| time <= limit))
    };
    // The last one before the first request, and the first one after the last.
    let from = before(begin).saturating_sub(1);
    let to = (before(begin + length) + 1).min(scrapes.len());
    let near = |scrape: &Scrape| {
        scrape
            .time
            .is_some_and(|time| time >= begin - AROUND && time <= begin + length + AROUND)
    };
    let window = scrapes.get(from..to)?;
    let skip = window
        .iter()
        .take_while(|(_, scrape)| !near(scrape))
        .count();
    let keep = window
        .iter()
        .skip(skip)
        .take_while(|(_, scrape)| near(scrape))
        .count();
    window
        .get(skip..skip + keep)
        .filter(|window| window.len() > 1)
}

fn run(scrapes: &[(String, Scrape)], diagnostics: &mut Diagnostics) -> Run {
    let (path, last) = scrapes.last().cloned().unwrap_or_default();
    let first = if scrapes.len() > 1 {
        scrapes[0].1.clone()
    } else {
        Scrape::default()
    };
    let begin = first.time.unwrap_or_default();
    let duration = first
        .time
        .zip(last.time)
        .map(|(first, last)| last - first)
        .filter(Seconds::is_positive);
    if duration.is_none() {
        let message = match scrapes.len() {
            1 => {
                "one snapshot of counters: figures are since the start of the engine, and there are no rates"
            }
            _ => "the snapshots do not say when they were taken: there are no rates",
        };
        let note = Diagnostic::new(Severity::Notice, "serving/no-rates", message);
        let hint = "take one before and one after the run: { echo \"# scraped_at $(date +%s.%N)\"; curl -s URL/metrics; } > after.prom";
        diagnostics.push(note.artifact(&path).hint(hint));
    }
    let delta = |names: &[&str]| {
        names.iter().find_map(|name| {
            Some(Count(
                last.values.get(*name)? - first.values.get(*name).copied().unwrap_or(0.0),
            ))
        })
    };
    let spread = |names: &[&str]| {
        names
            .iter()
            .map(|name| spread(&first, &last, name))
            .find(|spread| !spread.is_empty())
            .unwrap_or_default()
    };
    let rate = |count: Option<Count>| Some(count?.0 / duration?.0);
    let completed = delta(&[
        "request_success_total",
        "num_requests_total",
        "e2e_request_latency_seconds_count",
    ]);
    let (prompt, output) = (
        delta(&["prompt_tokens_total"]),
        delta(&["generation_tokens_total"]),
    );
    let stated = Stated {
        duration: duration.map(|time| time.time()),
        completed,
        failed: None,
        prompt_tokens: prompt,
        output_tokens: output,
        request_rate: rate(completed).map(RequestsPerSecond),
        output_rate: rate(output).map(TokensPerSecond),
        total_rate: rate(prompt.zip(output).map(|(prompt, output)| prompt + output))
            .map(TokensPerSecond),
        ttft: spread(&["time_to_first_token_seconds"]),
        tpot: spread(&["request_time_per_output_token_seconds"]),
        itl: spread(&[
            "inter_token_latency_seconds",
            "time_per_output_token_seconds",
        ]),
        latency: spread(&["e2e_request_latency_seconds"]),
        queued: spread(&["request_queue_time_seconds", "queue_time_seconds"]),
    };
    let run = Run {
        tool: Tool::EngineMetrics,
        model: last.model.clone(),
        settings: last.settings.clone(),
        stated,
        engine: scrapes
            .iter()
            .map(|(_, scrape)| engine_sample(scrape, begin))
            .collect(),
        ..Run::default()
    };
    named(run, &path)
}

fn engine_sample(scrape: &Scrape, begin: Seconds) -> EngineSample {
    let gauge = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| scrape.values.get(*name).copied())
    };
    let count = |names: &[&str]| gauge(names).map(Count);
    EngineSample {
        time: scrape.time.map(|time| (time - begin).time()),
        running: count(&["num_requests_running", "num_running_reqs"]),
        waiting: count(&["num_requests_waiting", "num_queue_reqs"]),
        kv_cache: gauge(&["kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage"]).map(Ratio),
        preemptions: count(&["num_preemptions_total"]),
        completed: count(&["request_success_total", "num_requests_total"]),
        prompt_tokens: count(&["prompt_tokens_total"]),
        output_tokens: count(&["generation_tokens_total"]),
        cache_hits: count(&[
            "prefix_cache_hits_total",
            "gpu_prefix_cache_hits_total",
            "prefix_cache_hits",
        ]),
        cache_queries: count(&[
            "prefix_cache_queries_total",
            "gpu_prefix_cache_queries_total",
            "prefix_cache_queries",
        ]),
    }
}

/// Mean from sum and count, percentiles from the buckets.
fn spread(first: &Scrape, last: &Scrape, name: &str) -> Spread {
    let delta = |what: &str| {
        let key = format!("{name}_{what}");
        Some(last.values.get(&key)? - first.values.get(&key).copied().unwrap_or(0.0))
    };
    let Some(count) = delta("count").filter(|count| *count > 0.0) else {
        return Spread::default();
    };
    let before = first
        .buckets
        .get(name)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let since = |(bound, count): &(f64, f64)| {
        let old = before
            .iter()
            .find(|(known_bound, _)| known_bound == bound)
            .map_or(0.0, |(_, old)| *old);
        (*bound, count - old)
    };
    let buckets: Vec<(f64, f64)> = last
        .buckets
        .get(name)
        .into_iter()
        .flatten()
        .map(since)
        .collect();
    let mean = delta("sum").map(|sum| sum / count);
    let percentiles = PERCENTILES.map(|percent| quantile(&buckets, Ratio(percent / 100.0)));
    Spread {
        count: Some(Count(count)),
        ..Spread::in_unit(S, [mean, None, None, None], percentiles)
    }
}

/// The quantile of cumulative buckets, linear within one, as Prometheus' `histogram_quantile`; none in the last bucket,
/// which has no end.
fn quantile(buckets: &[(f64, f64)], share: Ratio) -> Option<f64> {
    let rank = share.0 * buckets.last()?.1;
    let (mut below, mut counted) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= rank && *count > counted {
            return bound
                .is_finite()
                .then(|| below + (bound - below) * (rank - counted) / (count - counted));
        }
        (below, counted) = (*bound, *count);
    }
    None
}
