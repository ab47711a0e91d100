//! The log of a vLLM server: its version, its settings, and how many requests run and wait every ten seconds. Its times
//! have neither a year nor a zone, as those of the load generators that ran next to it.

use std::collections::BTreeMap;

use super::{Parsed, named};
use crate::runs::{EngineSample, Run, Tool};
use rooflens_units::{Count, Ratio, Seconds};

/// What begins the arguments that are not the defaults.
const ARGUMENTS: &str = "non-default args: {";

/// Words of levels before a time.
const LEVELS: [&str; 3] = ["INFO ", "WARNING ", "ERROR "];

/// Arguments that are no setting of the engine.
const NO_SETTINGS: [&str; 7] = [
    "model",
    "model_tag",
    "host",
    "port",
    "api_key",
    "served_model_name",
    "api_server_count",
];

/// A server from its start to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Deployment {
    model: Option<String>,
    settings: BTreeMap<String, String>,
    /// First and last time, within a year.
    span: (f64, f64),
    samples: Vec<EngineSample>,
}

/// What a log holds; none if the text is none of vLLM.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    let (_, arguments) = text.split_once(ARGUMENTS)?;
    let mut deployment = Deployment::default();
    for (name, value) in members(arguments.lines().next()?) {
        if name == "model" || name == "model_tag" {
            deployment.model = Some(value);
        } else if !NO_SETTINGS.contains(&name.as_str()) {
            deployment.settings.insert(name, value);
        }
    }
    let version = text.split_once(" version ").map(|(_, rest)| rest);
    let version = version.and_then(|rest| rest.split_whitespace().next());
    let engine = version.map_or("vLLM".to_owned(), |version| format!("vLLM {version}"));
    deployment.settings.insert("engine".to_owned(), engine);
    let mut times = text.lines().filter_map(time);
    let first = times.next()?;
    deployment.span = (first, times.next_back().unwrap_or(first));
    deployment.samples = text.lines().filter_map(sample).collect();
    Some(Parsed {
        deployment: Some(deployment),
        ..Parsed::default()
    })
}

/// Gives each load test the settings and samples of the server whose log covers its start. Where the logs of several do,
/// nothing tells which it was.
pub(super) fn assign(deployments: &[(String, Deployment)], runs: &mut Vec<Run>) {
    let mut engines = Vec::new();
    for (index, run) in runs.iter_mut().enumerate() {
        let Some(start) = run.started.as_deref().and_then(local_start) else {
            continue;
        };
        let covers = |(_, deployment): &&(String, Deployment)| {
            (deployment.span.0..=deployment.span.1).contains(&start)
        };
        let mut covering = deployments.iter().filter(covers);
        let (Some((path, deployment)), None) = (covering.next(), covering.next()) else {
            continue;
        };
        run.model = run.model.take().or_else(|| deployment.model.clone());
        for (name, value) in &deployment.settings {
            run.settings
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
        let end = start + run.duration().map_or(0.0, |time| time.seconds().0);
        let is_during = |sample: &&EngineSample| {
            sample
                .time
                .is_some_and(|time| (start..=end).contains(&time.seconds().0))
        };
        let engine: Vec<EngineSample> = deployment
            .samples
            .iter()
            .filter(is_during)
            .copied()
            .collect();
        if !engine.is_empty() {
            let engine = Run {
                tool: Tool::EngineMetrics,
                model: run.model.clone(),
                engine,
                watches: Some(index),
                ..Run::default()
            };
            engines.push(named(engine, path));
        }
    }
    runs.extend(engines);
}

/// A start without a zone, in seconds of its year.
fn local_start(text: &str) -> Option<f64> {
    let (date, clock) = text.split_once(['T', ' '])?;
    let has_zone = clock.contains(['Z', 'z', '+', '-']);
    let (_, day) = date.split_once('-').filter(|_| !has_zone)?;
    instant(day, clock)
}

/// The time of a line, in seconds of its year.
fn time(line: &str) -> Option<f64> {
    let after = LEVELS.iter().find_map(|level| line.split_once(level));
    let mut words = after?.1.split_whitespace();
    instant(words.next()?, words.next()?)
}

/// `02-11` and `10:20:46.5`; each year counts as a leap year.
fn instant(day: &str, clock: &str) -> Option<f64> {
    const DAYS_BEFORE: [f64; 12] = [
        0.0, 31.0, 60.0, 91.0, 121.0, 152.0, 182.0, 213.0, 244.0, 274.0, 305.0, 335.0,
    ];
    let (month, day) = day.split_once('-')?;
    let mut parts = clock.splitn(3, ':');
    let mut part = || parts.next()?.parse::<f64>().ok();
    let (hour, minute, second) = (part()?, part()?, part()?);
    let month = month.parse::<usize>().ok()?.checked_sub(1)?;
    let day = DAYS_BEFORE.get(month)? + day.parse::<f64>().ok()?;
    Some(((day * 24.0 + hour) * 60.0 + minute) * 60.0 + second)
}

/// `Running: 8 reqs, Waiting: 92 reqs, GPU KV cache usage: 5.0%`.
fn sample(line: &str) -> Option<EngineSample> {
    let number = |name: &str| {
        let (_, rest) = line.split_once(name)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        rest[..end].parse::<f64>().ok()
    };
    let running = number("Running: ")?;
    Some(EngineSample {
        time: Some(Seconds(time(line)?).time()),
        running: Some(Count(running)),
        waiting: number("Waiting: ").map(Count),
        kv_cache: number("KV cache usage: ").map(|percent| Ratio(percent / 100.0)),
        ..EngineSample::default()
    })
}

/// Members of a dictionary as Python prints it, up to its end: plain values alone.
fn members(text: &str) -> Vec<(String, String)> {
    let (mut members, mut parts) = (Vec::new(), vec![String::new()]);
    let (mut depth, mut quote) = (0_u32, None);
    for letter in text.chars() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => quote = Some(letter),
            ('{' | '[' | '(', None) => depth += 1,
            ('}', None) if depth == 0 => break,
            ('}' | ']' | ')', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("one").push(letter);
    }
    for part in parts {
        let Some((name, value)) = part.split_once(':') else {
            continue;
        };
        let plain = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
        if !value.contains(['{', '[', '(']) {
            members.push((plain(name), plain(value)));
        }
    }
    members
}
