//! `tune`: a server is started with one setting after another and loaded, in search of the setting that answers the
//! most requests within limits of latency.
//!
//! Each setting is a pass of the bundle: its levels of load as `serve` writes them, and the output of the server in
//! `logs/`. `experiments.toml` is a ledger of all settings for `rooflens experiments`.

pub(crate) mod args;
mod ledger;
pub(crate) mod parameter;
mod prediction;
mod search;

use std::path;
use std::time::{Duration, Instant};

use rooflens_schemas::text::shell_word;
use rooflens_schemas::{Pass, PassKind};
use rooflens_units::{Ratio, Slo};

use crate::args::TimeLimit;
use crate::error::CaptureError;
use crate::manifest::{self, Description};
use crate::redact::Secrets;
use crate::run::{Forwarder, Outcome, Server, Unready, answers};
use crate::serve::args::ServeArguments;
use crate::serve::page::Page;
use crate::serve::tally::{Tally, percentile};
use crate::serve::{self, Tested};
use crate::{FAILED, files, say, utc};
use args::TuneArguments;
use search::{Axis, Bench, Setting, search};

/// What a shell says of a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Settings whose goodput differs from the best one by less are said to be as good, even where repeats differ less.
const CLOSE: Ratio = Ratio(0.05);

/// A measurement of a setting.
struct Trial {
    pass: String,
    setting: Setting,
    values: Vec<(String, String)>,
    command: Vec<String>,
    result: Result<Vec<(String, Tally)>, String>,
}

/// A level of a trial that keeps the limits.
struct Kept<'a> {
    level: &'a str,
    tally: &'a Tally,
}

impl Trial {
    /// The level with the most good answers per second.
    fn kept(&self) -> Option<Kept<'_>> {
        let levels = self.result.iter().flatten();
        let kept = levels.filter(|(_, tally)| tally.keeps());
        let best = kept.max_by(|(_, a), (_, b)| a.goodput().total_cmp(&b.goodput()))?;
        Some(Kept {
            level: &best.0,
            tally: &best.1,
        })
    }

    /// Good answers per second. Where no level keeps the limits, how far the first one is from that, below zero; where
    /// there is none, negative infinity.
    fn score(&self, slo: &Slo) -> f64 {
        score(self.result.iter().flatten().map(|(_, tally)| tally), slo)
    }

    /// The setting as options.
    fn options(&self) -> String {
        let options = self
            .values
            .iter()
            .map(|(name, value)| match value.as_str() {
                "true" => format!("--{name}"),
                "false" => format!("no --{name}"),
                value => format!("--{name} {value}"),
            });
        options.collect::<Vec<_>>().join(" ")
    }

    /// What came of it, for the terminal.
    fn describe(&self, slo: &Slo) -> String {
        let levels = match &self.result {
            Ok(levels) => levels,
            Err(reason) => return reason.clone(),
        };
        match (self.kept(), levels.first()) {
            (Some(kept), _) => format!(
                "{:.2} good requests/s at {}",
                kept.tally.goodput(),
                kept.level
            ),
            (None, Some((name, tally))) => format!(
                "misses the limits at {name}: {} of {} requests keep them, {:.1} times the limit",
                tally.good,
                tally.all(),
                tally.factor(slo)
            ),
            (None, None) => "no level ran".to_owned(),
        }
    }
}

/// How good the levels of a setting are.
fn score<'t>(levels: impl Iterator<Item = &'t Tally> + Clone, slo: &Slo) -> f64 {
    let kept = levels.clone().filter(|tally| tally.keeps());
    let best = kept.map(Tally::goodput).max_by(f64::total_cmp);
    let first = levels.into_iter().next();
    let missed = first.map(|tally| -tally.factor(slo).max(1.0));
    best.or(missed).unwrap_or(f64::NEG_INFINITY)
}

/// Servers as the search measures them.
struct Servers<'a> {
    arguments: &'a TuneArguments,
    url: String,
    secrets: Secrets,
    signals: Forwarder,
    page: Page,
    started: String,
    begin: Instant,
    trials: Vec<Trial>,
    longest: Duration,
    is_out_of_time: bool,
    /// What of our own went wrong.
    failed: Option<CaptureError>,
}

/// Searches, and says what to deploy.
pub(crate) fn run(arguments: &TuneArguments) -> Result<Outcome, CaptureError> {
    let mut arguments = arguments.clone();
    arguments.output =
        path::absolute(&arguments.output).map_err(CaptureError::io(&arguments.output))?;
    if arguments.output.join(ledger::FILE).exists() {
        return Err(CaptureError::PassExists(
            arguments.output.join(ledger::FILE),
        ));
    }
    let url = arguments
        .url
        .clone()
        .unwrap_or_else(|| url_of(&arguments.command));
    if serve::listens(&url).map_err(CaptureError::Tool)? {
        return Err(CaptureError::Tool(format!(
            "something answers at {url} already: end it, or give the server another port and --url"
        )));
    }
    let key = serve::key(&arguments.traffic)?;
    files::make(&arguments.output.join("logs"))?;
    prediction::say_bounds(&arguments);
    let axes: Vec<Axis> = arguments.parameters.iter().map(|it| it.axis()).collect();
    let start: Setting = arguments
        .parameters
        .iter()
        .map(|parameter| parameter.start(&arguments.command))
        .collect();
    let settings: usize = axes.iter().map(Axis::len).product();
    say(&format!(
        "{settings} settings; the search tries some of them"
    ));
    let mut servers = Servers {
        secrets: serve::secrets(key.as_deref(), &arguments.command),
        signals: Forwarder::start().map_err(CaptureError::io(&arguments.output))?,
        page: Page::of(arguments.traffic.html.as_deref()),
        arguments: &arguments,
        url,
        started: utc::now(),
        begin: Instant::now(),
        trials: Vec::new(),
        longest: Duration::ZERO,
        is_out_of_time: false,
        failed: None,
    };
    let best = search(&axes, start, &mut servers);
    servers.page.finish();
    servers.finish(best, settings)
}

/// Where the server of a command listens, by its options.
fn url_of(command: &[String]) -> String {
    let of = |option: &str| {
        let after = command.iter().position(|word| word == option);
        let after = after.and_then(|place| command.get(place + 1).cloned());
        let prefix = format!("{option}=");
        after.or_else(|| {
            let words = command.iter();
            words
                .filter_map(|word| word.strip_prefix(&prefix))
                .next_back()
                .map(str::to_owned)
        })
    };
    let host = of("--host").filter(|host| host != "0.0.0.0" && host != "::");
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    let port = of("--port").unwrap_or_else(|| "8000".to_owned());
    format!("http://{host}:{port}/v1")
}

impl Bench for Servers<'_> {
    fn measure(&mut self, setting: &[usize]) -> Option<f64> {
        self.is_out_of_time = !self.has_time();
        if self.failed.is_some() || self.signals.interrupted() || self.is_out_of_time {
            return None;
        }
        let begin = Instant::now();
        let trial = match self.trial(setting) {
            Ok(trial) => trial?,
            Err(error) => {
                self.failed = Some(error);
                return None;
            }
        };
        self.longest = self.longest.max(begin.elapsed());
        let slo = &self.arguments.slo;
        say(&format!("{}: {}", trial.pass, trial.describe(slo)));
        let score = trial.score(slo);
        self.trials.push(trial);
        Some(score)
    }
}

impl Servers<'_> {
    /// Whether another setting is probably over in time. The first one always is.
    fn has_time(&self) -> bool {
        match self.arguments.budget {
            TimeLimit::Total(budget) => {
                self.trials.is_empty() || self.begin.elapsed() + self.longest <= budget
            }
            TimeLimit::Usual | TimeLimit::None => true,
        }
    }

    /// Starts the server with a setting, loads it, and ends it. None if it was interrupted.
    fn trial(&mut self, setting: &[usize]) -> Result<Option<Trial>, CaptureError> {
        let arguments = self.arguments;
        let mut command = arguments.command.clone();
        let mut values = Vec::new();
        for (parameter, place) in arguments.parameters.iter().zip(setting) {
            let value = &parameter.values[*place];
            command = parameter.put(&command, value);
            values.push((parameter.name.clone(), value.clone()));
        }
        let mut trial = Trial {
            pass: format!("setting-{:02}", self.trials.len() + 1),
            setting: setting.to_vec(),
            values,
            command,
            result: Err(String::new()),
        };
        say(&format!("{}: {}", trial.pass, trial.options()));
        let log = arguments
            .output
            .join("logs")
            .join(format!("{}.log", trial.pass));
        let server = Server::start(&trial.command, &log, &self.secrets, &self.signals);
        let mut server =
            server.map_err(|error| CaptureError::Start(trial.command[0].clone(), error))?;
        let ready = || match &arguments.ready {
            Some(ready) => answers(ready),
            None => serve::first_model(&self.url, &arguments.traffic).is_ok(),
        };
        let pass = match server.wait(arguments.start_timeout, ready) {
            Ok(()) => match self.load(&trial) {
                Ok(None) => return Ok(None),
                Ok(Some(Tested {
                    mut pass, levels, ..
                })) => {
                    if server.has_ended() {
                        let words = server.last_words();
                        pass.notes.push(format!("the server ended: {words}"));
                    }
                    trial.result = Ok(levels);
                    pass
                }
                // That no request of the warm-up is answered is a result of the setting.
                Err(CaptureError::Tool(reason)) => self.refused(&mut trial, reason),
                Err(error) => return Err(error),
            },
            Err(Unready::Interrupted) => return Ok(None),
            Err(Unready::Ended(words)) => {
                self.refused(&mut trial, format!("the server does not start: {words}"))
            }
            Err(Unready::Late) => {
                let seconds = arguments.start_timeout.as_secs();
                let words = server.last_words();
                self.refused(
                    &mut trial,
                    format!("the server is not ready after {seconds} s: {words}"),
                )
            }
        };
        drop(server);
        self.describe(pass)?;
        // What an interrupt cut off is no result.
        Ok((!self.signals.interrupted()).then_some(trial))
    }

    /// A setting with which the server does not serve: the reason is its result.
    fn refused(&self, trial: &mut Trial, reason: String) -> Pass {
        trial.result = Err(reason.clone());
        Pass {
            id: trial.pass.clone(),
            kind: PassKind::Serving,
            command: self.secrets.masked(&trial.command),
            skipped: Some(reason),
            ..Pass::default()
        }
    }

    /// Loads the server that is ready.
    fn load(&self, trial: &Trial) -> Result<Option<Tested>, CaptureError> {
        let arguments = self.arguments;
        let model = match &arguments.model {
            Some(model) => model.clone(),
            None => {
                serve::first_model(&self.url, &arguments.traffic).map_err(CaptureError::Tool)?
            }
        };
        let (mut rate, mut concurrency) = (arguments.rate.clone(), Vec::new());
        rate.sort_by(f64::total_cmp);
        rate.dedup();
        if rate.is_empty() {
            concurrency.clone_from(&arguments.concurrency);
            concurrency.sort_unstable();
            concurrency.dedup();
        }
        let load = ServeArguments {
            output: arguments.output.clone(),
            url: self.url.clone(),
            model,
            rate,
            concurrency,
            traffic: arguments.traffic.clone(),
            pass: trial.pass.clone(),
            name: None,
            labels: trial
                .values
                .iter()
                .chain(&arguments.labels)
                .cloned()
                .collect(),
        };
        let command = &trial.command;
        serve::test(
            &load,
            command,
            command,
            &self.signals,
            &self.page,
            arguments.slo,
        )
    }

    /// Writes the manifest: what was measured is whole, whatever becomes of the settings after it.
    fn describe(&self, pass: Pass) -> Result<String, CaptureError> {
        let is_first = self.trials.is_empty();
        let description = Description {
            name: self.arguments.name.clone(),
            labels: if is_first {
                self.arguments.labels.clone()
            } else {
                Vec::new()
            },
            captured_at: Some(self.started.clone()),
            passes: vec![pass],
            producers: Vec::new(),
        };
        manifest::describe_bundle(&self.arguments.output, description)
    }

    /// Writes the ledger, and says which setting is best.
    fn finish(
        self,
        best: Option<(Setting, f64)>,
        settings: usize,
    ) -> Result<Outcome, CaptureError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let is_interrupted = self.signals.interrupted();
        let output = &self.arguments.output;
        let slo = &self.arguments.slo;
        let Some((setting, best)) = best else {
            return Ok(Outcome {
                said: "interrupted before the first setting was measured".to_owned(),
                code: INTERRUPTED,
            });
        };
        let path = output.join(ledger::FILE);
        let results = results(&self.trials, slo);
        let ledger = ledger::write(&results, self.arguments, &self.secrets);
        files::write(&path, ledger).map_err(CaptureError::io(&path))?;
        let description = Description {
            captured_at: Some(self.started.clone()),
            ..Description::default()
        };
        let said = manifest::describe_bundle(output, description)?;
        let tried = results.len();
        let how = match () {
            () if is_interrupted => ", then interrupted",
            () if self.is_out_of_time => ", then the time of --budget was over",
            () => "",
        };
        say(&format!("{tried} of {settings} settings tried{how}"));
        let result = results
            .iter()
            .find(|result| result.trial.setting == setting);
        let result = result.expect("the search names a setting that it measured");
        let trial = result.trial;
        let Some(kept) = trial.kept() else {
            say(&match best.is_finite() {
                true => format!(
                    "no setting keeps the limits; the nearest is {}: {}",
                    trial.options(),
                    trial.describe(slo)
                ),
                false => "no setting keeps the limits: no server answered".to_owned(),
            });
            return Ok(Outcome {
                said,
                code: if is_interrupted { INTERRUPTED } else { FAILED },
            });
        };
        for line in front(&self.trials) {
            say(&line);
        }
        let spread = results.iter().filter_map(|result| result.spread(slo));
        let spread = spread.fold(0.0, f64::max);
        let least = best * (1.0 - spread.max(CLOSE.0));
        let is_close =
            |other: &&Measured<'_>| other.trial.setting != setting && other.most(slo) >= least;
        let close: Vec<String> = results
            .iter()
            .filter(is_close)
            .map(|other| other.trial.options())
            .collect();
        if !close.is_empty() {
            let repeats = match spread > CLOSE.0 {
                true => format!("repeats of one setting differ by {:.0} %", spread * 100.0),
                false => "within 5 %".to_owned(),
            };
            say(&format!(
                "not distinguishable from the best ({repeats}): {}",
                close.join("; ")
            ));
        }
        let basis = match &result.repeat {
            Some(repeat) => format!(
                "the lower of two measurements; the other: {:.2}",
                repeat.score(slo)
            ),
            None => "measured once".to_owned(),
        };
        say(&format!(
            "best: {:.2} good requests/s at {} ({}; {basis})",
            best,
            kept.level,
            trial.options()
        ));
        let command = trial.command.iter().map(|word| shell_word(word));
        // Nobody reads the command: nothing is left to be done.
        let line = command.collect::<Vec<_>>().join(" ");
        let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
        let code = if is_interrupted { INTERRUPTED } else { 0 };
        Ok(Outcome { said, code })
    }
}

/// What was measured of a setting.
struct Measured<'a> {
    /// With the lower score.
    trial: &'a Trial,
    /// With the higher one, if there are two.
    repeat: Option<&'a Trial>,
}

impl Measured<'_> {
    /// The higher score.
    fn most(&self, slo: &Slo) -> f64 {
        self.repeat.unwrap_or(self.trial).score(slo)
    }

    /// How far the two scores differ, as a share of the higher one. None if there is one, or if one misses the limits.
    fn spread(&self, slo: &Slo) -> Option<f64> {
        let (low, high) = (self.trial.score(slo), self.repeat?.score(slo));
        (low > 0.0).then(|| (high - low) / high)
    }
}

/// The measurements by setting, in the order of the first ones.
fn results<'a>(trials: &'a [Trial], slo: &Slo) -> Vec<Measured<'a>> {
    let mut results: Vec<Measured<'a>> = Vec::new();
    for trial in trials {
        let known = results
            .iter_mut()
            .find(|result| result.trial.setting == trial.setting);
        match known {
            Some(known) if trial.score(slo) < known.trial.score(slo) => {
                known.repeat = Some(std::mem::replace(&mut known.trial, trial));
            }
            Some(known) => known.repeat = Some(trial),
            None => results.push(Measured {
                trial,
                repeat: None,
            }),
        }
    }
    results
}

/// The levels of all settings that no other one beats in tokens per second and in time per token.
fn front(trials: &[Trial]) -> Vec<String> {
    let mut points = Vec::new();
    for trial in trials {
        for (name, tally) in trial
            .result
            .iter()
            .flatten()
            .filter(|(_, tally)| !tally.is_cut)
        {
            let rate = tally.output_tokens as f64 / tally.ended.0.max(1e-9);
            if let Some(tpot) = percentile(&tally.tpot, Ratio(0.5)) {
                points.push((tpot.0 / 1e6, rate, trial, name));
            }
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut lines = vec!["Pareto front: median TPOT, output tokens/s, level, setting".to_owned()];
    let mut most = 0.0;
    for (tpot, rate, trial, name) in points {
        if rate > most {
            most = rate;
            lines.push(format!(
                "  {tpot:8.2} ms {rate:10.1}  {name:10}  {}",
                trial.options()
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_that_of_the_command() {
        let of = |text: &str| url_of(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("vllm serve m"), "http://localhost:8000/v1");
        assert_eq!(
            of("s --host 0.0.0.0 --port 30000"),
            "http://localhost:30000/v1"
        );
        assert_eq!(of("s --host=10.0.0.1 --port=1"), "http://10.0.0.1:1/v1");
    }
}
