//! CSV of AIPerf and GenAI-Perf: a row a metric with its unit in parentheses, and the table of `genai-perf analyze`, a row
//! a configuration. Blocks of other columns follow after an empty line.

use super::json::unit_of_time;
use super::{Outcome, Parsed, Refusal};
use crate::runs::{Load, Run, Stated, Tool};
use crate::stats::Spread;
use rooflens_units::{Count, RequestsPerSecond, Time, TokensPerSecond};

/// Reads either.
pub(super) fn read(text: &str) -> Outcome {
    let mut blocks: Vec<Vec<Vec<String>>> = vec![Vec::new()];
    let mut reader = csv::ReaderBuilder::new();
    for line in text.lines() {
        if line.trim().is_empty() {
            blocks.push(Vec::new());
            continue;
        }
        let record = reader
            .has_headers(false)
            .flexible(true)
            .from_reader(line.as_bytes())
            .records()
            .next();
        let Some(Ok(record)) = record else { continue };
        let cells = record.iter().map(|cell| cell.trim().to_owned()).collect();
        if let Some(block) = blocks.last_mut() {
            block.push(cells);
        }
    }
    blocks.retain(|block| block.len() > 1);
    let parsed = match blocks.first() {
        Some(block) if block[0][0] == "Config Name" => configurations(block, blocks.len() > 1),
        Some(_) => Parsed::from(metrics(&blocks)),
        None => Parsed::default(),
    };
    let is_empty = |run: &Run| {
        run.stated.ttft.is_empty()
            && run.stated.latency.is_empty()
            && run.stated.request_rate.is_none()
    };
    match parsed.runs.iter().all(is_empty) {
        true => Err(Refusal::new(
            "a table of metrics without a latency or a throughput that names its unit",
            "give profile_export_genai_perf.csv or profile_export_aiperf.csv as the tool wrote it",
        )),
        false => Ok(parsed),
    }
}

/// `Time To First Token (ms)` to a name in small letters and the unit.
fn name_and_unit(heading: &str) -> (String, &str) {
    match heading.rsplit_once('(') {
        Some((name, unit)) => (name.trim().to_ascii_lowercase(), unit.trim_end_matches(')')),
        None => (heading.trim().to_ascii_lowercase(), ""),
    }
}

/// A number with or without signs between groups of digits.
fn number(cell: &str) -> Option<f64> {
    cell.replace(',', "")
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}

/// A row a metric: the first block has figures of distributions, the next ones single values.
fn metrics(blocks: &[Vec<Vec<String>>]) -> Run {
    let mut run = Run {
        tool: Tool::GenAiPerf,
        ..Run::default()
    };
    let mut input_mean = None;
    for block in blocks {
        let header: Vec<String> = block[0]
            .iter()
            .map(|cell| cell.to_ascii_lowercase())
            .collect();
        for row in &block[1..] {
            let column = |names: &[&str]| {
                let column = header
                    .iter()
                    .position(|heading| names.contains(&heading.as_str()))?;
                number(row.get(column)?)
            };
            let (name, unit) = name_and_unit(&row[0]);
            let mean = column(&["avg", "mean"]);
            let figures = [mean, column(&["std"]), column(&["min"]), column(&["max"])];
            let percentiles = ["p50", "p90", "p95", "p99"].map(|name| column(&[name]));
            let spread = |unit: Time| Spread {
                count: column(&["count"]).map(Count),
                ..Spread::in_unit(unit, figures, percentiles)
            };
            let time = unit_of_time(unit).map(spread);
            let value = column(&["value"]).or(mean);
            if name == "input sequence length" {
                input_mean = value;
            }
            run.tool =
                if name == "benchmark duration" || name == "request count" && unit == "requests" {
                    Tool::AiPerf
                } else {
                    run.tool
                };
            enter(&mut run.stated, &name, unit, time, value);
        }
    }
    let stated = &mut run.stated;
    if let (None, Some(output_rate), Some(tokens), Some(request_rate)) = (
        stated.total_rate,
        stated.output_rate,
        input_mean,
        stated.request_rate,
    ) {
        stated.total_rate = Some(output_rate + TokensPerSecond(tokens * request_rate.0));
    }
    run
}

/// Enters a metric under its name; a time without a unit is not one.
fn enter(stated: &mut Stated, name: &str, unit: &str, time: Option<Spread>, value: Option<f64>) {
    let time = time.unwrap_or_default();
    match name {
        "time to first token" => stated.ttft = time,
        "inter token latency" => stated.tpot = time,
        "inter chunk latency" => stated.itl = time,
        "request latency" => stated.latency = time,
        "request throughput" => stated.request_rate = value.map(RequestsPerSecond),
        "output token throughput" => stated.output_rate = value.map(TokensPerSecond),
        "total token throughput" => stated.total_rate = value.map(TokensPerSecond),
        "request count" => stated.completed = value.map(Count),
        "error request count" => stated.failed = value.map(Count),
        "benchmark duration" => {
            stated.duration = value
                .zip(unit_of_time(unit))
                .map(|(value, unit)| value * unit)
        }
        _ => {}
    }
}

/// A row a configuration: `p99 Time To First Token (ms)`, `Avg. Output Token Throughput (tokens/sec)`.
fn configurations(block: &[Vec<String>], more: bool) -> Parsed {
    let header = &block[0];
    let mut parsed = Parsed::default();
    for row in &block[1..] {
        let mut run = Run {
            tool: Tool::GenAiPerf,
            ..Run::default()
        };
        for (heading, cell) in header.iter().zip(row) {
            let (name, unit) = name_and_unit(heading);
            let (statistic, name) = match name.split_once(' ') {
                Some((
                    statistic @ ("p50" | "p90" | "p95" | "p99" | "avg." | "min" | "max"),
                    name,
                )) => (statistic, name.to_owned()),
                _ => ("", name),
            };
            let value = number(cell);
            let figure = |name_of_figure: &str| value.filter(|_| statistic == name_of_figure);
            let figures = [figure("avg."), None, figure("min"), figure("max")];
            let percentiles = ["p50", "p90", "p95", "p99"].map(figure);
            let time = unit_of_time(unit).map(|unit| Spread::in_unit(unit, figures, percentiles));
            match name.as_str() {
                "config name" => run.label.clone_from(cell),
                "concurrency" => {
                    run.load = Load {
                        concurrency: value.map(Count),
                        ..Load::default()
                    }
                }
                "request rate" => {
                    run.load = Load {
                        rate: value.map(RequestsPerSecond),
                        ..Load::default()
                    }
                }
                _ if unit.is_empty() => {
                    run.settings.insert(heading.clone(), cell.clone());
                }
                name => enter(&mut run.stated, name, unit, time, value),
            }
        }
        parsed.runs.push(run);
    }
    if more {
        parsed.notes.push("the second table, of GPU power and memory, is not read: give samples with --gpu-metrics".to_owned());
    }
    parsed
}
