//! Tables of requests: CSV, JSON, JSON Lines. A column of time ends in its unit (`ttft_ms`, `latency_s`, `TTFT (ms)`);
//! only replays of recorded conversations and conversations of LMBench, which are known by their columns, have seconds
//! without saying so. The user may state the unit of others.
//!
//! Source: `multi-round-qa.py` of vLLM's production stack, which LMBench runs.

use csv::StringRecord;
use serde_json::Value;

use super::json::{S, as_number, unit_of_time};
use super::table::Table;
use super::{Outcome, Parsed, READABLE, Refusal};
use crate::runs::{Request, Run, Tool};
use rooflens_units::{Count, Ratio, Time};

/// What columns hold, with the names that tools give them.
const TIMES: [(Field, &[&str]); 9] = [
    (
        Field::Scheduled,
        &["scheduled", "scheduled_time", "arrival", "arrival_time"],
    ),
    (
        Field::Start,
        &[
            "start",
            "start_time",
            "request_start",
            "request_start_time",
            "launch_time",
        ],
    ),
    (
        Field::FirstToken,
        &["first_token", "first_token_time", "prefill_complete_time"],
    ),
    (
        Field::End,
        &[
            "end",
            "end_time",
            "request_end",
            "request_end_time",
            "request_complete_time",
            "finish_time",
        ],
    ),
    (Field::Ttft, &["ttft", "time_to_first_token"]),
    (
        Field::Latency,
        &[
            "latency",
            "e2e",
            "e2el",
            "e2e_latency",
            "request_latency",
            "end_to_end_latency",
            "ttlt",
        ],
    ),
    (
        Field::Tpot,
        &[
            "tpot",
            "time_per_output_token",
            "inter_token_latency",
            "mean_itl",
        ],
    ),
    (
        Field::Gaps,
        &["itl", "itls", "inter_chunk_latency", "token_timestamps"],
    ),
    (
        Field::Queue,
        &["queue", "queued", "queue_time", "queueing_time"],
    ),
];
const OTHERS: [(Field, &[&str]); 5] = [
    (
        Field::Prompt,
        &[
            "prompt_tokens",
            "input_tokens",
            "input_len",
            "isl",
            "input_num_tokens",
            "input_sequence_length",
            "prompt_len",
        ],
    ),
    (
        Field::Output,
        &[
            "output_tokens",
            "output_tokens_actual",
            "completion_tokens",
            "generated_tokens",
            "generation_tokens",
            "output_len",
            "osl",
            "output_num_tokens",
            "output_sequence_length",
        ],
    ),
    (Field::Cached, &["approx_cached_percent", "cached_percent"]),
    (Field::Status, &["status", "success", "ok"]),
    (Field::Error, &["error", "error_message"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Scheduled,
    Start,
    FirstToken,
    End,
    Ttft,
    Latency,
    Tpot,
    Gaps,
    Queue,
    Prompt,
    Output,
    Cached,
    Status,
    Error,
}

/// The columns that are read: what, index, nanoseconds in its unit.
struct Columns(Vec<(Field, usize, Time)>);

impl Columns {
    /// Finds the columns.
    ///
    /// # Errors
    /// A time without a unit, or no latency at all.
    fn of(header: &[String], unit: Option<Time>) -> Result<Self, Refusal> {
        let mut fields: Vec<(Field, usize, Time)> = Vec::new();
        for (index, heading) in header.iter().enumerate() {
            let (name, factor) = split(heading);
            let is = |(field, names): &(Field, &[&str])| {
                names.contains(&name.as_str()).then_some(*field)
            };
            let field = if let Some(field) = TIMES.iter().find_map(is) {
                let Some(factor) = factor.or(unit) else {
                    return Err(Refusal::new(
                        format!("its column {heading} names no unit"),
                        "let the names of times end in _s, _ms, _us or _ns, such as ttft_ms, or state the unit: --unit ms",
                    ));
                };
                Some((field, index, factor))
            } else {
                OTHERS
                    .iter()
                    .find_map(is)
                    .map(|field| (field, index, Time(1.0)))
            };
            // Of gaps the mean may stand next to the list.
            let is_new = |(field, ..): &(Field, usize, Time)| {
                *field == Field::Gaps || fields.iter().all(|(taken, ..)| taken != field)
            };
            let field = field.filter(is_new);
            fields.extend(field);
        }
        let columns = Self(fields);
        let has = |field| columns.get(field).is_some();
        match has(Field::Ttft) || has(Field::Latency) || has(Field::Start) && has(Field::End) {
            true => Ok(columns),
            false => Err(Refusal::new(
                "it is a table, but not one of requests: it has no latency",
                READABLE,
            )),
        }
    }

    fn get(&self, field: Field) -> Option<(usize, Time)> {
        self.0
            .iter()
            .find(|(known_field, ..)| *known_field == field)
            .map(|(_, index, factor)| (*index, *factor))
    }
}

/// `TTFT (ms)` or `ttft_ms` to `ttft` and the nanoseconds of its unit.
fn split(heading: &str) -> (String, Option<Time>) {
    let name = heading.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let (base, unit) = match name.split_once("_(").or_else(|| name.split_once('(')) {
        Some((base, unit)) => (base, unit.trim_end_matches(')')),
        None => name.rsplit_once('_').unwrap_or((name.as_str(), "")),
    };
    match unit_of_time(unit) {
        Some(factor) => (base.to_owned(), Some(factor)),
        None => (name, None),
    }
}

/// Requests of a CSV.
pub(super) fn of_table(table: &Table, unit: Option<Time>) -> Outcome {
    let replay = table.column("trace_id").is_some()
        && table.column("theoretical_cache_hit_blocks").is_some();
    let is_conversation = table.column("generation_time").is_some()
        && table.column("launch_time").is_some()
        && table.column("finish_time").is_some();
    let unit = (replay || is_conversation).then_some(S).or(unit);
    let text = |cell: &str| Value::String(cell.to_owned());
    let rows = table.rows.iter().map(|row| row.iter().map(text).collect());
    let mut parsed = read(&table.header, rows, unit)?;
    parsed.lost += table.lost;
    if replay {
        let hit = |row: &StringRecord| {
            let [hit, missed] =
                ["cache_hit_blocks", "cache_miss_blocks"].map(|name| table.number(row, name));
            Some(Ratio(hit? / (hit? + missed?))).filter(|share| share.is_finite())
        };
        for run in &mut parsed.runs {
            run.tool = Tool::TraceReplay;
            // Only if no row was excluded do rows and requests correspond.
            if run.requests.len() == table.rows.len() {
                run.requests
                    .iter_mut()
                    .zip(&table.rows)
                    .for_each(|(request, row)| request.cached = hit(row));
            }
        }
    }
    Ok(parsed)
}

/// Requests of JSON objects.
pub(super) fn of_json(values: &[Value], unit: Option<Time>) -> Outcome {
    // `{"requests": [...]}` holds the list.
    let inner = values
        .first()
        .and_then(|first| first.get("requests"))
        .and_then(Value::as_array);
    let values = inner.map_or(values, Vec::as_slice);
    let mut header: Vec<String> = Vec::new();
    for key in values
        .iter()
        .take(100)
        .filter_map(Value::as_object)
        .flat_map(|object| object.keys())
    {
        if !header.contains(key) {
            header.push(key.clone());
        }
    }
    let row = |value: &Value| {
        header
            .iter()
            .map(|key| value.get(key).cloned().unwrap_or(Value::Null))
            .collect()
    };
    read(&header, values.iter().map(row), unit)
}

/// Requests of rows, which are made one after another.
fn read(
    header: &[String],
    rows: impl Iterator<Item = Vec<Value>> + Clone,
    unit: Option<Time>,
) -> Outcome {
    let columns = Columns::of(header, unit)?;
    let begins = [Field::Scheduled, Field::Start]
        .into_iter()
        .find_map(|field| columns.get(field));
    // Times since 1970 in seconds keep their digits only as differences.
    let zero = begins.map_or(0.0, |(index, _)| {
        let starts = rows.clone().filter_map(|row| as_number(row.get(index)?));
        starts.fold(f64::INFINITY, f64::min)
    });
    let mut lost = 0;
    let mut requests = Vec::new();
    for row in rows {
        match request(
            &columns,
            &row,
            begins.map(|(index, factor)| (index, factor, zero)),
        ) {
            Some(request) => requests.push(request),
            None => lost += 1,
        }
    }
    if requests.is_empty() {
        return Err(Refusal::new("none of its rows is a request", READABLE));
    }
    Ok(Parsed {
        runs: vec![Run {
            requests,
            ..Run::default()
        }],
        lost,
        ..Parsed::default()
    })
}

/// The request of a row; none if it has neither a latency nor a failure.
fn request(
    columns: &Columns,
    row: &[Value],
    begins: Option<(usize, Time, f64)>,
) -> Option<Request> {
    let cell = |field| {
        columns
            .get(field)
            .and_then(|(index, factor)| Some((row.get(index)?, factor)))
    };
    let time = |field| cell(field).and_then(|(value, factor)| Some(as_number(value)? * factor));
    let number = |field| cell(field).and_then(|(value, _)| as_number(value));
    let count = |field| number(field).map(Count);
    // Instants as differences to when the request was due, in the unit of the column.
    let due = begins.and_then(|(index, factor, _)| Some((as_number(row.get(index)?)?, factor)));
    let since = |field| {
        let ((value, factor), (due, due_factor)) = (cell(field)?, due?);
        let moment = as_number(value)?;
        let passed = if factor == due_factor {
            (moment - due) * factor
        } else {
            moment * factor - due * due_factor
        };
        (passed >= Time::ZERO).then_some(passed)
    };
    let output_tokens = count(Field::Output);
    let says_no = |value: &Value| match value {
        Value::Bool(fine) => !fine,
        Value::String(text) => {
            ["false", "error", "failed", "0"].contains(&text.to_ascii_lowercase().as_str())
        }
        Value::Number(code) => code.as_f64() == Some(0.0),
        _ => false,
    };
    let is_said = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| !text.is_empty() && text != "None")
    };
    let ttft = time(Field::Ttft).or_else(|| since(Field::FirstToken));
    let nothing = output_tokens == Some(Count::ZERO) && ttft.unwrap_or_default() == Time::ZERO;
    let failed = nothing
        || cell(Field::Status).is_some_and(|(value, _)| says_no(value))
        || cell(Field::Error).is_some_and(|(value, _)| is_said(value));
    let latency = time(Field::Latency).or_else(|| since(Field::End));
    (failed || ttft.or(latency).is_some()).then(|| Request {
        due: begins
            .zip(due)
            .map(|((_, factor, zero), (moment, _))| (moment - zero) * factor),
        queued: time(Field::Queue).or_else(|| {
            columns
                .get(Field::Scheduled)
                .and_then(|_| since(Field::Start))
        }),
        ttft: ttft.filter(|_| !failed),
        latency: latency.filter(|_| !failed),
        tpot: time(Field::Tpot),
        itl: if failed {
            Vec::new()
        } else {
            gaps(columns, row)
        },
        prompt_tokens: count(Field::Prompt),
        output_tokens,
        cached: number(Field::Cached).map(|percent| Ratio(percent / 100.0)),
        failed,
    })
}

/// Times between outputs: a list of them, or of the instants of outputs. A single number is a mean and no sample.
fn gaps(columns: &Columns, row: &[Value]) -> Vec<Time> {
    let list = |index: usize, unit: Time| {
        let list: Option<Vec<f64>> = match row.get(index)? {
            Value::Array(list) => Some(list.iter().filter_map(as_number).collect()),
            // To the last digit, which serde_json does not promise: seconds since 1970 need it.
            Value::String(text) => {
                let inner = text
                    .strip_prefix('[')
                    .and_then(|text| text.strip_suffix(']'))?;
                inner
                    .split(',')
                    .map(|number| number.trim().parse().ok())
                    .collect()
            }
            _ => None,
        };
        Some((list?, unit))
    };
    let columns_of_gaps = columns.0.iter().filter(|(field, ..)| *field == Field::Gaps);
    let Some((list, factor)) = columns_of_gaps
        .into_iter()
        .find_map(|(_, index, factor)| list(*index, *factor))
    else {
        return Vec::new();
    };
    // Instants rise, and no gap lasts for years.
    match list
        .first()
        .is_some_and(|first| *first * factor > Time(1e17))
    {
        true => list
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) * factor)
            .collect(),
        false => list.iter().map(|gap| *gap * factor).collect(),
    }
}
