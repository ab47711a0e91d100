//! `serve`: a load test of an OpenAI-compatible server, with NVML samples and the server's metrics next to it.
//!
//! Requests are due by a schedule that never waits for answers (Poisson arrivals), or follow answers (closed loop). Each
//! level of load leaves `NAME.jsonl` ([`rooflens_schemas::serving`]). Nothing of prompts, answers and keys is kept.

pub(crate) mod args;
mod connection;
mod http;
mod level;
mod load;
pub(crate) mod page;
mod prompts;
mod record;
mod scrape;
mod server;
#[allow(unsafe_code, reason = "times of arrival are the C library's")]
mod socket;
mod sse;
pub(crate) mod tally;
#[allow(unsafe_code, reason = "timers are the C library's")]
mod timer;
mod transport;
mod url;
mod worker;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rooflens_schemas::{Pass, PassKind};
use rooflens_units::{RequestsPerSecond, Slo};

use crate::args::{Profilers, SnapshotArguments};
use crate::error::CaptureError;
use crate::files;
use crate::manifest::{self, Description};
use crate::redact::Secrets;
use crate::run::{Forwarder, Outcome, Sampler};
use crate::{FAILED, say, snapshot, utc};
use args::{ServeArguments, Traffic};
use level::Test;
use load::Load;
use page::Page;
use prompts::Prompts;
use scrape::{Metrics, Source};
use server::Server;
use tally::Tally;
use transport::Connector;
use url::Url;
use worker::Target;

/// How long requests are sent if neither a time nor a number is given.
const DURATION: Duration = Duration::from_secs(30);

/// What a shell says of a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Runs all levels. The manifest says with which words.
pub(crate) fn run(arguments: &ServeArguments, words: &[OsString]) -> Result<Outcome, CaptureError> {
    let command: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let signals = Forwarder::start().map_err(CaptureError::io(&arguments.output))?;
    let page = Page::of(arguments.traffic.html.as_deref());
    let tested = test(arguments, &command, &[], &signals, &page, Slo::default());
    page.finish();
    let Some(tested) = tested? else {
        return Ok(Outcome {
            said: "interrupted before the first level".into(),
            code: INTERRUPTED,
        });
    };
    let description = Description {
        name: arguments.name.clone(),
        labels: arguments.labels.clone(),
        captured_at: Some(tested.started),
        passes: vec![tested.pass],
        producers: Vec::new(),
    };
    let said = manifest::describe_bundle(&arguments.output, description)?;
    Ok(Outcome {
        said,
        code: tested.code,
    })
}

/// A load test that has been.
pub(crate) struct Tested {
    pub(crate) pass: Pass,
    /// When it began.
    started: String,
    code: u8,
    /// Levels that ran: name, and what came of them.
    pub(crate) levels: Vec<(String, Tally)>,
}

/// Runs all levels into the folder of a pass. With limits of latency, levels end early that clearly miss them, and those
/// after a level that misses them are not run. `command` is that of the pass. None if it was interrupted before the first level.
pub(crate) fn test(
    arguments: &ServeArguments,
    command: &[String],
    server_command: &[String],
    signals: &Forwarder,
    page: &Page,
    slo: Slo,
) -> Result<Option<Tested>, CaptureError> {
    timer::raise_open_files();
    let (bundle, folder) = (&arguments.output, arguments.output.join(&arguments.pass));
    if folder.exists() {
        return Err(CaptureError::PassExists(folder));
    }
    let loads = loads(arguments)?;
    let url = Url::parse(&arguments.url).map_err(CaptureError::Tool)?;
    let key = key(&arguments.traffic)?;
    let secrets = secrets(key.as_deref(), command);
    let target = Target {
        connector: Connector::to(&url).map_err(CaptureError::Tool)?,
        head: head(&url, arguments.traffic.chat, key.as_deref()),
        prompts: Prompts::of(arguments)?,
        timeout: arguments.traffic.timeout,
    };
    let (metrics, gpu, notes) = (None, None, Vec::new());
    let mut test = Test {
        arguments,
        url: &url,
        target: &target,
        secrets: &secrets,
        signals,
        metrics,
        gpu,
        server: Server::default(),
        server_command,
        page,
        slo,
        notes,
    };
    let warm = test.warm_up();
    if signals.interrupted() {
        return Ok(None);
    }
    warm?;
    files::make(&folder)?;
    files::make(&folder.join("metrics"))?;
    let mut pass = Pass {
        id: arguments.pass.clone(),
        kind: PassKind::Serving,
        command: secrets.masked(command),
        ..Pass::default()
    };
    let started = utc::now();
    take_snapshot(bundle)?;
    test.gpu = target
        .connector
        .is_local
        .then(snapshot::first_gpu)
        .flatten();
    let (levels, code) = measure(&mut test, &loads, &folder, &mut pass, key.as_deref())?;
    for note in &test.notes {
        say(&format!("{}: {note}", arguments.pass));
    }
    pass.notes = test.notes;
    Ok(Some(Tested {
        pass,
        started,
        code,
        levels,
    }))
}

/// The first model that a server lists, which it does once it is ready.
pub(crate) fn first_model(url: &str, traffic: &Traffic) -> Result<String, String> {
    let url = Url::parse(url)?;
    let key = key(traffic).map_err(|error| error.to_string())?;
    let models = Url {
        path: url.below("models"),
        ..url
    };
    let answer = Source::of(models)?.ask(key.as_deref())?;
    let answer: serde_json::Value =
        serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
    let model = answer["data"][0]["id"].as_str().map(str::to_owned);
    model.ok_or_else(|| "the server lists no model: name it with --model".to_owned())
}

/// Whether something listens at the address.
pub(crate) fn listens(url: &str) -> Result<bool, String> {
    Ok(Connector::to(&Url::parse(url)?).is_ok())
}

/// The secrets of the environment, the command line, and the key.
pub(crate) fn secrets(key: Option<&str>, command: &[String]) -> Secrets {
    let variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let given = key.map(|key| ("API_KEY".to_owned(), key.to_owned()));
    Secrets::of(variables.chain(given), command, false)
}

/// Runs the levels, with the server's metrics and NVML next to them, and says of the pass how long it took. Gives the
/// levels that ran, and the exit code.
fn measure(
    test: &mut Test<'_>,
    loads: &[Load],
    folder: &Path,
    pass: &mut Pass,
    key: Option<&str>,
) -> Result<(Vec<(String, Tally)>, u8), CaptureError> {
    let metrics = metrics(&test.arguments.traffic, test.url).unwrap_or_else(|reason| {
        test.notes
            .push(format!("no metrics of the server: {reason}"));
        None
    });
    let (metrics, text) = metrics.unzip();
    test.metrics = metrics;
    let arguments = test.arguments;
    let server = Server::ask(test.url, &arguments.model, key, text.as_deref());
    test.server = server.with_labels(&arguments.labels, test.secrets);
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let start = Instant::now();
    let sampler = sampler(test, folder);
    let (mut levels, mut offset) = (Vec::new(), test.arguments.traffic.warmup);
    for (index, load) in (0..).zip(loads) {
        if test.signals.interrupted() {
            break;
        }
        let tally = test.level(*load, index, offset, folder)?;
        offset += tally.sent;
        let is_last = !test.slo.is_empty() && !tally.keeps();
        levels.push((load.name(), tally));
        if is_last {
            break;
        }
    }
    if let Some(Err(reason)) = sampler.map(Sampler::finish) {
        test.notes.push(reason);
    }
    let snapshots = folder.join("metrics");
    // Only if the server has none.
    let _ = fs::remove_dir(&snapshots);
    let code = match test.signals.interrupted() {
        true => {
            test.notes.push("interrupted".to_owned());
            INTERRUPTED
        }
        false if levels.iter().all(|(_, tally)| tally.ok == 0) => FAILED,
        false => 0,
    };
    pass.wall_ns = u64::try_from(start.elapsed().as_nanos()).ok();
    pass.started_utc_ns = u64::try_from(since.as_nanos()).ok();
    pass.exit_code = Some(code.into());
    Ok((levels, code))
}

/// Samples NVML if it is asked for and the server is on this machine.
fn sampler(test: &mut Test<'_>, folder: &Path) -> Option<Sampler> {
    let period = Duration::from_millis(test.arguments.traffic.nvml_period);
    if period.is_zero() {
        return None;
    }
    let sampler = match test.target.connector.is_local {
        true => Sampler::start(&folder.join("nvml.csv"), period, true),
        false => Err("the server is on another machine".to_owned()),
    };
    sampler
        .map_err(|reason| test.notes.push(format!("no NVML samples: {reason}")))
        .ok()
}

/// The levels in their order, each once: their files have their names.
fn loads(arguments: &ServeArguments) -> Result<Vec<Load>, CaptureError> {
    let rates = arguments.rate.iter().copied().map(RequestsPerSecond);
    let open = rates.map(Load::Open);
    let closed = arguments.concurrency.iter().copied().map(Load::Closed);
    let loads: Vec<Load> = open.chain(closed).collect();
    match loads
        .iter()
        .enumerate()
        .find(|(index, load)| loads[..*index].contains(load))
    {
        Some((_, twice)) => Err(CaptureError::Tool(format!(
            "{} is asked for twice: name each level once",
            twice.name()
        ))),
        None => Ok(loads),
    }
}

/// The key of the variable that the command line names.
pub(crate) fn key(arguments: &Traffic) -> Result<Option<String>, CaptureError> {
    let Some(name) = &arguments.api_key_env else {
        return Ok(None);
    };
    let key = env::var(name).unwrap_or_default();
    match key.bytes().all(|byte| byte.is_ascii_graphic()) && !key.is_empty() {
        true => Ok(Some(key)),
        false => Err(CaptureError::Tool(format!(
            "the environment variable {name} of --api-key-env holds no key: export it"
        ))),
    }
}

/// The head of a request, up to the length of its body.
fn head(url: &Url, is_chat: bool, key: Option<&str>) -> String {
    let path = url.below(if is_chat {
        "chat/completions"
    } else {
        "completions"
    });
    let key = authorization(key);
    format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: rooflens-capture/{}\r\nAccept: text/event-stream\r\n\
         {key}Content-Type: application/json\r\nContent-Length: ",
        url.authority,
        env!("CARGO_PKG_VERSION"),
    )
}

/// The line of a head that has the key; empty without one.
fn authorization(key: Option<&str>) -> String {
    key.map(|key| format!("Authorization: Bearer {key}\r\n"))
        .unwrap_or_default()
}

/// Where the metrics of the server are, if they are wanted and there.
fn metrics(arguments: &Traffic, url: &Url) -> Result<Option<(Metrics, Vec<u8>)>, String> {
    let url = match &arguments.metrics_url {
        _ if arguments.no_metrics => return Ok(None),
        Some(url) => Url::parse(url)?,
        None => Url {
            path: "/metrics".to_owned(),
            ..url.clone()
        },
    };
    let metrics = Metrics::of(url)?;
    let text = metrics.ask()?;
    if !scrape::has_samples(&text) {
        return Err(format!(
            "{metrics} answers, but not with Prometheus metrics"
        ));
    }
    Ok(Some((metrics, text)))
}

fn take_snapshot(bundle: &Path) -> Result<(), CaptureError> {
    let [nsys, ncu, python] = ["nsys", "ncu", "python3"].map(str::to_owned);
    let (output, profilers) = (bundle.to_owned(), Profilers { nsys, ncu });
    snapshot::write_if_absent(&SnapshotArguments {
        output,
        python,
        uuid: false,
        profilers,
    })
}
