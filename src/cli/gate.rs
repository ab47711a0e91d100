//! `rooflens gate`: fails if figures of a run changed beyond limits.

use std::path::PathBuf;

use rooflens_units::Ratio;
use serde_json::json;

use super::args::{Gate as Args, GateFormat};
use super::baseline::{Store, figures, read};
use super::compare::{captures, refused};
use super::error::CliError;
use super::files::write_file;
use super::load::errors;
use super::output::file_stem;
use super::term::Term;
use crate::bundle;
use crate::compare::conditions::Subject;
use crate::compare::gate::{self, Judgement, Limit};
use crate::compare::{Pair, Record};
use crate::document::Quantity;
use crate::pipeline::{self, Capture, LoadTests, Study};
use crate::render::checks::{self, Check, Level};
use crate::render::{RenderError, Rendered};
use rooflens_schemas::Tool;

/// Judges the limits, prints what became of them, and fails on a regression.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let limits = limits(args)?;
    let confidence = Ratio(args.confidence / 100.0);
    if !(0.5..1.0).contains(&confidence.0) {
        let message = format!(
            "--confidence {}: expected a percentage from 50 to below 100",
            args.confidence
        );
        return Err(CliError::Usage(message));
    }
    let (run, runs) = record(&args.run, term)?;
    let baseline = baseline(args, &run, term)?;
    refuse_other_work(&args.allowed, &baseline, &run)?;
    let records = Pair {
        before: &baseline,
        after: &run,
    };
    let mut judgements = Vec::new();
    for limit in &limits {
        let judgement = gate::judge(&records, limit, confidence);
        judgements.push(judgement.map_err(|missing| CliError::unusable(missing.to_string()))?);
    }
    let is_failure = |judgement: &&Judgement| {
        judgement.outcome == gate::Outcome::Regression
            || (args.strict && judgement.outcome.is_open())
    };
    let is_listed = args.format == GateFormat::Text;
    let open = judgements
        .iter()
        .filter(|judgement| !is_failure(judgement) && judgement.outcome.is_open());
    for judgement in open.filter(|_| !is_listed) {
        term.note(&format!("notice: {}", line(judgement)));
    }
    let failures: Vec<&Judgement> = judgements.iter().filter(is_failure).collect();
    print(args, &judgements, &failures, term)?;
    if !failures.is_empty() {
        let mut lines: Vec<String> = failures.iter().map(|judgement| line(judgement)).collect();
        if is_listed {
            lines = vec![format!(
                "{} of {} limits not kept",
                failures.len(),
                limits.len()
            )];
        }
        return Err(CliError::Regression(lines));
    }
    errors(runs.iter().flat_map(|capture| capture.diagnostics.iter()))
}

/// The limits of arguments and of the file.
fn limits(args: &Args) -> Result<Vec<Limit>, CliError> {
    let mut limits = args.limits.clone();
    if let Some(path) = &args.thresholds {
        let wrong = |reason: String| CliError::Usage(format!("{}: {reason}", path.display()));
        let text = bundle::argument_text(path).map_err(|error| wrong(error.to_string()))?;
        limits.extend(gate::thresholds(&text).map_err(wrong)?);
    }
    match limits.is_empty() {
        true => Err(CliError::Usage(
            "no limit: give --max METRIC@STAGE:+PERCENT% or --thresholds FILE".to_owned(),
        )),
        false => Ok(limits),
    }
}

/// The record of repeats of one run, each a capture or a file of figures, with the captures.
pub(super) fn record(
    paths: &[PathBuf],
    term: &mut Term,
) -> Result<(Record, Vec<Capture>), CliError> {
    let (mut records, mut of_captures) = (Vec::new(), Vec::new());
    for path in paths {
        match figures(path)? {
            Some(record) => records.push(record),
            None => of_captures.push(path.clone()),
        }
    }
    let (mut analyzed, mut tested) = (Vec::new(), Vec::new());
    for (capture, path) in captures(&of_captures, term)?.into_iter().zip(&of_captures) {
        match capture.study() {
            Study::LoadTest { .. } => {
                let tests =
                    LoadTests::open(std::slice::from_ref(path), &[], &[], None, &mut |_| ())?;
                records.push(pipeline::record_of_load_tests(&tests));
                tested.push(capture);
            }
            _ => analyzed.push(capture),
        }
    }
    if !analyzed.is_empty() {
        records.insert(0, record_of(&analyzed, term)?);
    }
    let mut records = records.into_iter();
    let mut whole = records.next().unwrap_or_default();
    for repeat in records {
        refuse_other_work(&[], &whole, &repeat)?;
        whole.add(repeat);
    }
    analyzed.append(&mut tested);
    Ok((whole, analyzed))
}

/// The record of captures of one condition.
fn record_of(captures: &[Capture], term: &mut Term) -> Result<Record, CliError> {
    term.step("analyzing".to_owned());
    pipeline::record(captures).map_err(|error| refused(error, captures, term))
}

/// The record that the run is compared with.
fn baseline(args: &Args, run: &Record, term: &mut Term) -> Result<Record, CliError> {
    if let [path] = &args.baseline[..] {
        let store = Store::new(path);
        if store.is_store()? {
            let stored = store.find(&run.key())?;
            let stored = stored.ok_or_else(|| CliError::Unusable {
                message: format!(
                    "{} has no baseline of this workload, {}",
                    path.display(),
                    run.key()
                ),
                hint: Some(
                    "rooflens baseline list shows what it has; rooflens baseline add stores a run"
                        .to_owned(),
                ),
            })?;
            return read(&stored);
        }
    }
    Ok(record(&args.baseline, term)?.0)
}

/// Refuses records of other GPUs or workloads, unless that is allowed.
pub(super) fn refuse_other_work(
    allowed: &[Subject],
    baseline: &Record,
    run: &Record,
) -> Result<(), CliError> {
    let allowed = |name: &str| {
        let mut allowed = allowed.iter().map(|subject| subject.label());
        allowed.any(|label| label == name || (label == "workload" && !name.starts_with("gpu")))
    };
    let mut differing = baseline.differing(run).into_iter();
    let Some([name, before, after]) = differing.find(|[name, ..]| !allowed(name)) else {
        return Ok(());
    };
    let subject = if name.starts_with("gpu") {
        name.as_str()
    } else {
        "workload"
    };
    Err(CliError::Unusable {
        message: format!("{name} differs: {before} in the baseline, {after} in the run"),
        hint: Some(format!("--allow {subject} compares them nevertheless")),
    })
}

/// A judgement in a line.
fn line(judgement: &Judgement) -> String {
    let quantity = |value: f64| Quantity::new(value, judgement.unit);
    let Pair { before, after } = judgement.median;
    let mut line = format!(
        "{}: {}: {} → {}",
        judgement.outcome.label(),
        figure(&judgement.limit),
        quantity(before),
        quantity(after)
    );
    if let Some(ratio) = judgement.ratio {
        line += &format!(" ({}", percent(ratio));
        if let Some((low, high)) = judgement.interval {
            line += &format!(", interval {} to {}", percent(low), percent(high));
        }
        line += ")";
    }
    let samples = judgement.samples;
    line += &format!(", limit {} %", judgement.limit.percent().replace('-', "−"));
    line += &format!(", n = {} and {}", samples.before, samples.after);
    if judgement.profiled {
        line += ", profiled";
    }
    if judgement.outcome == gate::Outcome::FewValues {
        line += ": too few values for an interval; capture more repeats, or several runs";
    }
    line
}

fn figure(limit: &Limit) -> String {
    match &limit.stage {
        Some(stage) => format!("{} of {stage}", limit.metric),
        None => limit.metric.clone(),
    }
}

/// A factor as a signed change.
fn percent(factor: Ratio) -> String {
    let change = factor.0 - 1.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    format!("{sign}{}", Quantity::ratio(change.abs()))
}

/// Prints in the format that was asked for: of machine formats, annotations are of failures only.
fn print(
    args: &Args,
    judgements: &[Judgement],
    failures: &[&Judgement],
    term: &mut Term,
) -> Result<(), CliError> {
    let run = file_stem(&args.run[0].to_string_lossy());
    let check = |judgement: &Judgement| Check {
        rule: judgement.limit.to_string(),
        title: figure(&judgement.limit),
        level: match judgement.outcome {
            gate::Outcome::Regression => Level::Critical,
            gate::Outcome::Passed => Level::Note,
            _ if args.strict => Level::Critical,
            _ => Level::Skipped,
        },
        text: line(judgement),
        artifact: Some(args.run[0].to_string_lossy().into_owned()),
    };
    let failed = || {
        failures
            .iter()
            .map(|judgement| check(judgement))
            .collect::<Vec<_>>()
    };
    let all = || judgements.iter().map(check).collect::<Vec<_>>();
    let tool = Tool {
        name: "rooflens".to_owned(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    };
    let bytes = match args.format {
        GateFormat::Text => judgements
            .iter()
            .map(|judgement| line(judgement) + "\n")
            .collect::<String>()
            .into_bytes(),
        GateFormat::Junit => content(checks::junit(&run, &all())),
        GateFormat::Sarif => content(checks::sarif(&tool, &failed())?),
        GateFormat::Github => content(checks::github(&failed())),
        GateFormat::Json => json(judgements)?,
    };
    match &args.output {
        Some(path) => write_file(path, &bytes),
        None => term.print(&bytes),
    }
}

fn content(mut rendered: Rendered) -> Vec<u8> {
    rendered.files.remove(&rendered.main).unwrap_or_default()
}

fn json(judgements: &[Judgement]) -> Result<Vec<u8>, CliError> {
    let row = |judgement: &Judgement| {
        let change = |factor: Ratio| factor.0 - 1.0;
        json!({
            "limit": judgement.limit.to_string(),
            "outcome": judgement.outcome.label(),
            "unit": judgement.unit,
            "before": judgement.median.before,
            "after": judgement.median.after,
            "samples": [judgement.samples.before, judgement.samples.after],
            "profiled": judgement.profiled,
            "change": judgement.ratio.map(change),
            "interval": judgement.interval.map(|(low, high)| [change(low), change(high)]),
        })
    };
    let limits: Vec<_> = judgements.iter().map(row).collect();
    let text = serde_json::to_string_pretty(&json!({"version": 1, "limits": limits}));
    Ok((text.map_err(RenderError::from)? + "\n").into_bytes())
}
