//! Result files into [`Run`]s. A file is known by its content; one that is no result is refused with what to give instead.

mod aggregates;
mod bench_serve;
mod engine_log;
mod experiment;
mod json;
mod own;
mod perf;
mod perf_csv;
mod prometheus;
mod requests;
mod server_log;
mod table;

use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_schemas::python;
use rooflens_session::budget::Values;
use rooflens_units::Time;
use serde_json::Value;

use crate::runs::{GpuSample, Run, Tool};
pub use json::unit_of_time;

/// A file that was given.
pub struct File<'a> {
    /// Path, for messages.
    pub path: &'a str,
    /// Content, unpacked.
    pub bytes: &'a [u8],
}

/// What some files hold.
#[derive(Debug, Default)]
pub struct Input {
    /// Runs, in the order of the files.
    pub runs: Vec<Run>,
    /// Samples of GPUs.
    pub gpu: Vec<GpuSample>,
}

/// Why a file is no result, and what to do.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    message: String,
    hint: &'static str,
}

impl Refusal {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self {
            message: message.into(),
            hint,
        }
    }
}

/// What one file holds.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    runs: Vec<Run>,
    gpu: Vec<GpuSample>,
    /// Rows that are damaged.
    lost: u64,
    /// What is not read though it is there.
    notes: Vec<String>,
    /// Snapshots of counters: several files of one engine belong together.
    scrape: Option<prometheus::Scrape>,
    /// What the log of a server says of it.
    deployment: Option<engine_log::Deployment>,
}

impl From<Run> for Parsed {
    fn from(run: Run) -> Self {
        Self {
            runs: vec![run],
            ..Self::default()
        }
    }
}

type Outcome = Result<Parsed, Refusal>;

/// What to give, for files that are of no known format.
const READABLE: &str = "read are results of vllm bench serve, SGLang bench_serving, AIPerf, GenAI-Perf, Perf Analyzer, \
     InferenceX, llm-d, trtllm-bench, Optimum-Benchmark and rooflens-capture serve, tables of requests, and /metrics of \
     vLLM, SGLang and DCGM: docs/serving.md";

/// Runs that are read of an input: a report compares each with the others.
const MAX_RUNS: usize = 1024;

/// Reads files one after the other.
pub struct Reader {
    input: Input,
    scrapes: Vec<(String, prometheus::Scrape)>,
    deployments: Vec<(String, engine_log::Deployment)>,
    values: Values,
    /// Unit of times that tables of requests do not name.
    unit: Option<Time>,
}

impl Reader {
    /// A reader of files that have so many bytes together.
    pub fn of(input_bytes: u64) -> Self {
        Self {
            input: Input::default(),
            scrapes: Vec::new(),
            deployments: Vec::new(),
            values: Values::of(input_bytes),
            unit: None,
        }
    }

    /// Reads times of tables that name no unit in this one.
    #[must_use]
    pub fn with_unit(mut self, unit: Option<Time>) -> Self {
        self.unit = unit;
        self
    }

    /// Whether what the input may cost is spent: no other file is read.
    pub const fn is_full(&self) -> bool {
        self.values.is_spent()
    }

    /// Reads a file. One that is no result is an error among the diagnostics.
    pub fn read(&mut self, file: &File<'_>, diagnostics: &mut Diagnostics) {
        let mut parsed = match parse(file.bytes, self.unit, &mut self.values) {
            Ok(parsed) => parsed,
            Err(refusal) => {
                let refused = Diagnostic::new(Severity::Error, "serving/refused", refusal.message);
                return diagnostics.push(refused.artifact(file.path).hint(refusal.hint));
            }
        };
        let room = MAX_RUNS - self.input.runs.len();
        if parsed.runs.len() > room {
            let message = format!("not read: {MAX_RUNS} runs before it are the most that is read");
            let beyond = Diagnostic::new(Severity::DataLoss, "serving/runs", message);
            let count = (parsed.runs.len() - room) as u64;
            diagnostics.push(beyond.artifact(file.path).times(count));
            parsed.runs.truncate(room);
        }
        if parsed.lost > 0 {
            let message = "a row without the numbers of a request, or a damaged line, is skipped";
            let lost = Diagnostic::new(Severity::DataLoss, "serving/damaged-row", message);
            diagnostics.push(lost.artifact(file.path).times(parsed.lost));
        }
        for note in parsed.notes {
            let note = Diagnostic::new(Severity::Notice, "serving/note", note);
            diagnostics.push(note.artifact(file.path));
        }
        let scrape = parsed.scrape.map(|scrape| (file.path.to_owned(), scrape));
        self.scrapes.extend(scrape);
        let deployment = parsed.deployment.map(|found| (file.path.to_owned(), found));
        self.deployments.extend(deployment);
        self.input.gpu.extend(parsed.gpu);
        let several = parsed.runs.len() > 1;
        for run in parsed.runs {
            let load = load_name(&run).filter(|_| several && run.label.is_empty());
            let mut run = named(run, file.path);
            run.label.extend(load);
            let impossible = run.withhold_impossible();
            if impossible > 0 {
                let message = "a time, count or rate below zero is skipped";
                let lost = Diagnostic::new(Severity::DataLoss, "serving/impossible", message);
                diagnostics.push(lost.artifact(file.path).times(impossible));
            }
            self.input.runs.push(run);
        }
    }

    /// What the files hold together.
    pub fn finish(self, diagnostics: &mut Diagnostics) -> Input {
        let mut input = self.input;
        let engine = prometheus::runs(self.scrapes, &input.runs, diagnostics);
        input.runs.extend(engine);
        engine_log::assign(&self.deployments, &mut input.runs);
        shorten(&mut input.runs);
        input
    }
}

/// Names longer than this are shortened where there are several.
const LONG: usize = 24;

/// Takes away what the names of all runs begin and end with, as far as words go, if they are long.
fn shorten(runs: &mut [Run]) {
    let Some(first) = runs
        .first()
        .map(|run| run.label.clone())
        .filter(|first| runs.len() > 1 && first.chars().count() > LONG)
    else {
        return;
    };
    let is_mark = |mark: char| "-_. ".contains(mark);
    let common = |label: &mut dyn Iterator<Item = char>, marks: &mut dyn Iterator<Item = char>| {
        label
            .zip(marks)
            .take_while(|(a, b)| a == b)
            .map(|(mark, _)| mark)
            .collect::<Vec<char>>()
    };
    let cut = |same: &[char]| {
        same.iter()
            .rposition(|mark| is_mark(*mark))
            .map_or(0, |last| last + 1)
    };
    let front = runs
        .iter()
        .map(|run| cut(&common(&mut first.chars(), &mut run.label.chars())))
        .min()
        .unwrap_or(0);
    let back = |run: &Run| {
        cut(&common(
            &mut first.chars().rev(),
            &mut run.label.chars().rev(),
        ))
    };
    let back = runs.iter().map(back).min().unwrap_or(0);
    let short = |run: &Run| {
        let length = run
            .label
            .chars()
            .count()
            .checked_sub(front + back)
            .filter(|length| *length > 0)?;
        Some(
            run.label
                .chars()
                .skip(front)
                .take(length)
                .collect::<String>(),
        )
    };
    let labels: Option<Vec<String>> = runs.iter().map(short).collect();
    for (run, label) in runs.iter_mut().zip(labels.into_iter().flatten()) {
        run.label = label;
    }
}

/// The name of a file's format by its first bytes, if it holds a result.
pub fn format_of(prefix: &[u8], is_whole: bool) -> Option<&'static str> {
    let values = &mut Values::of(prefix.len() as u64);
    let parsed = if is_whole {
        parse(prefix, None, values).ok()?
    } else {
        parse(
            json::closed(&String::from_utf8_lossy(prefix)).as_bytes(),
            None,
            values,
        )
        .ok()?
    };
    // A table with a latency may be anything; one with a TTFT is a load test.
    let is_one = |run: &&Run| {
        run.tool != Tool::Requests || run.requests.iter().any(|request| request.ttft.is_some())
    };
    let run = parsed.runs.first().filter(is_one);
    run.map(|run| run.tool.label())
        .or(parsed.scrape.map(|_| Tool::EngineMetrics.label()))
}

/// What tells the runs of one file apart in their names.
fn load_name(run: &Run) -> Option<String> {
    let by_rate = run
        .load
        .rate
        .map(|rate| format!(" ({} requests/s)", rate.0));
    by_rate.or_else(|| {
        run.load
            .concurrency
            .map(|most| format!(" ({} concurrent)", most.0))
    })
}

fn named(mut run: Run, path: &str) -> Run {
    run.artifact = path.to_owned();
    if run.label.is_empty() {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ends = [
            ".zst", ".gz", ".xz", ".bz2", ".jsonl", ".json", ".csv", ".prom", ".txt", ".log",
        ];
        let stem = ends
            .iter()
            .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
        run.label = stem.to_owned();
    }
    run
}

fn parse(bytes: &[u8], unit: Option<Time>, values: &mut Values) -> Outcome {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err(Refusal::new("the file is empty", READABLE));
    }
    let is_json = text.starts_with(['{', '[']);
    if let Some(outcome) = of_lines(text, values).filter(|_| is_json) {
        return outcome;
    }
    if !values.take(text.as_bytes()) {
        return Err(Refusal::new(
            Values::refusal(),
            "give fewer results at once, or those without raw samples",
        ));
    }
    if is_json {
        return match json::values(text) {
            Some((values, lost)) => of_json(values, lost, unit),
            // A log begins with its time in brackets.
            None if text.contains("] INFO") => Err(console_log()),
            None => Err(damaged()),
        };
    }
    let (text, cut) = whole_lines(text, bytes);
    let add_cut = |parsed: Parsed| Parsed {
        lost: parsed.lost + cut,
        ..parsed
    };
    if let Some(scrape) = prometheus::parse(text) {
        return scrape.map(add_cut);
    }
    if text.contains("DCGM_FI_") && text.contains("gauge,") {
        return Err(Refusal::new(
            "a list of the DCGM fields that an exporter gives: it holds no measurement",
            "save what the exporter gives during the run: curl -s HOST:9400/metrics > dcgm.txt",
        ));
    }
    // The ledger of a search of settings lies next to its loads; `rooflens experiments` reads it.
    if text.starts_with("rooflens_ledger") {
        return Ok(Parsed::default());
    }
    if let Some(parsed) = engine_log::parse(text) {
        return Ok(parsed);
    }
    if text
        .lines()
        .take(200)
        .any(|line| line.contains("INFO") || line.contains("Serving Benchmark Result"))
    {
        return Err(console_log());
    }
    table::parse(text, unit).map(add_cut)
}

/// The lines of a text that end, and 1 if its last one does not: a number that is cut is another one.
fn whole_lines<'a>(text: &'a str, bytes: &[u8]) -> (&'a str, u64) {
    if bytes[bytes.trim_ascii_end().len()..].contains(&b'\n') {
        return (text, 0);
    }
    (text.rfind('\n').map_or("", |end| &text[..end]), 1)
}

fn damaged() -> Refusal {
    Refusal::new(
        "it is damaged: it begins as JSON and is none",
        "write it again; a file that was cut off while it was written cannot be mended",
    )
}

fn console_log() -> Refusal {
    Refusal::new(
        "the console log of a load test: what it prints is rounded",
        "give the result file that the same run wrote: --save-result (vLLM), --output-file (SGLang), \
         profile_export_aiperf.json, trace_replay/detailed_results.csv",
    )
}

/// Files of one request a line, of which the requests alone stay in memory.
fn of_lines(text: &str, values: &Values) -> Option<Outcome> {
    let (first, _) = text.split_once('\n')?;
    let first = python::json(first).ok()?;
    let (mut whole, mut broken) = (0_u64, 0_u64);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| {
        let value = values
            .fits(line.as_bytes())
            .then(|| python::json(line).ok());
        let value = value.flatten();
        *(if value.is_some() {
            &mut whole
        } else {
            &mut broken
        }) += 1;
        value
    });
    let outcome = if own::is(&first) {
        own::read(lines)
    } else if perf::is_record(&first) {
        perf::records(lines)
    } else {
        return None;
    };
    Some(match broken < whole {
        true => outcome,
        false => Err(damaged()),
    })
}

/// JSON, or lines of it.
fn of_json(mut values: Vec<Value>, lost: u64, unit: Option<Time>) -> Outcome {
    // A list of results, as of requests, is a file of lines.
    if let [Value::Array(list)] = values.as_mut_slice() {
        values = std::mem::take(list);
    }
    let mut parsed = of_values(values, unit)?;
    parsed.lost += lost;
    match parsed.runs.is_empty() && parsed.gpu.is_empty() && parsed.scrape.is_none() {
        true => Err(Refusal::new("it holds no request and no figure", READABLE)),
        false => Ok(parsed),
    }
}

fn of_values(values: Vec<Value>, unit: Option<Time>) -> Outcome {
    let Some(first) = values.first().filter(|first| first.is_object()) else {
        return Err(Refusal::new(
            "it is JSON, but no result of a load test",
            READABLE,
        ));
    };
    if own::is(first) {
        return own::read(values.into_iter().map(Some));
    }
    if perf::is_record(first) {
        return perf::records(values.into_iter().map(Some));
    }
    if let Some(refusal) = refused(first) {
        return Err(refusal);
    }
    let readers: [fn(&Value) -> Option<Run>; 7] = [
        perf::aggregate,
        bench_serve::read,
        aggregates::inference_x,
        aggregates::llm_d,
        aggregates::trtllm,
        aggregates::optimum,
        experiment::read,
    ];
    let run = |value: &Value| readers.iter().find_map(|reader| reader(value));
    let runs: Vec<Run> = values.iter().filter_map(run).collect();
    if !runs.is_empty() {
        let lost = (values.len() - runs.len()) as u64;
        return Ok(Parsed {
            runs,
            lost,
            ..Parsed::default()
        });
    }
    match perf::timestamps(first) {
        Some(runs) => Ok(Parsed {
            runs,
            ..Parsed::default()
        }),
        None => requests::of_json(&values, unit),
    }
}

/// Files that lie next to results and are none.
fn refused(value: &Value) -> Option<Refusal> {
    if value
        .get("Results")
        .and_then(Value::as_str)
        .is_some_and(|text| text.contains("run_config"))
    {
        return Some(Refusal::new(
            "a checkpoint of GenAI-Perf: the state of a search, not its results",
            "give profile_export_genai_perf.json of each run, or the CSV that analyze exports",
        ));
    }
    if value
        .get("data")
        .is_some_and(|data| data[0].get("payloads").is_some() || data[0].get("payload").is_some())
    {
        return Some(Refusal::new(
            "the prompts of a load test, not its results",
            "give profile_export_aiperf.json, profile_export.jsonl or profile_export_genai_perf.json next to it",
        ));
    }
    if value.get("traceEvents").is_some() {
        return Some(Refusal::new(
            "a PyTorch trace, not a load test",
            "rooflens report FILE makes a report of it",
        ));
    }
    None
}
