//! Gauges and counters of an engine over time, as a CSV: `num_requests_running`, `num_requests_waiting`,
//! `kv_cache_usage_pct` and counters, at `timestamp_sec`.

use super::table::Table;
use super::{Outcome, Parsed, Refusal};
use crate::runs::{EngineSample, Run, Tool};

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
        engine.push(EngineSample {
            time: Some(time * 1e9),
            running: number("num_requests_running"),
            waiting: number("num_requests_waiting"),
            kv_cache: number("kv_cache_usage_pct").map(|percent| percent / 100.0),
            preemptions: number("num_preemptions_total"),
            completed: number("request_success_total"),
            prompt_tokens: number("prompt_tokens_total"),
            output_tokens: number("generation_tokens_total"),
            cache_hits: number("prefix_cache_hits"),
            cache_queries: number("prefix_cache_queries"),
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
