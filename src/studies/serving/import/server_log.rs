//! Gauges and counters of an engine over time, as a CSV: `num_requests_running`, `num_requests_waiting`,
//! `kv_cache_usage_pct` and counters, at `timestamp_sec`.

use super::table::Table;
use super::{Outcome, Parsed, Refusal};
use crate::runs::{EngineSample, Run, Tool};
use rooflens_units::{Count, Ratio, Seconds};

/// Reads the samples.
pub(super) fn read(table: &Table) -> Outcome {
    if table
        .column("timestamp_sec")
        .or(table.column("relative_time_sec"))
        .is_none()
    {
        return Err(Refusal::new(
            "samples of an engine without a time",
            "add a column timestamp_sec or relative_time_sec, in seconds",
        ));
    }
    let mut lost = table.lost;
    let mut engine = Vec::new();
    for row in &table.rows {
        let number = |name: &str| table.number(row, name);
        let Some(time) = number("relative_time_sec").or_else(|| number("timestamp_sec")) else {
            lost += 1;
            continue;
        };
        let count = |name: &str| number(name).map(Count);
        engine.push(EngineSample {
            time: Some(Seconds(time).time()),
            running: count("num_requests_running"),
            waiting: count("num_requests_waiting"),
            kv_cache: number("kv_cache_usage_pct").map(|percent| Ratio(percent / 100.0)),
            preemptions: count("num_preemptions_total"),
            completed: count("request_success_total"),
            prompt_tokens: count("prompt_tokens_total"),
            output_tokens: count("generation_tokens_total"),
            cache_hits: count("prefix_cache_hits"),
            cache_queries: count("prefix_cache_queries"),
        });
    }
    let mut parsed = Parsed::from(Run {
        tool: Tool::EngineMetrics,
        engine,
        ..Run::default()
    });
    parsed.lost = lost;
    Ok(parsed)
}
