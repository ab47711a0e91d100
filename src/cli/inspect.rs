//! `rooflens inspect`: what is here.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::args::Inspect;
use super::error::CliError;
use super::load::{count, errors, load, strict};
use super::term::Term;
use crate::bundle::ArtifactFile;
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::Quantity;
use crate::pipeline::{Capture, StageOverview};
use crate::render::text::{self, clean};

/// Prints artifacts, tables, passes, stages and data quality.
pub(super) fn run(args: &Inspect, term: &mut Term) -> Result<(), CliError> {
    let capture = load(&args.input, term)?;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = match (args.suggest_workload, args.json) {
        (true, _) => out.write_str(&capture.suggested_workload()),
        (false, true) => writeln!(out, "{}", text::json(&format!("{:#}", json(&capture)))),
        (false, false) => describe(&mut out, &capture),
    };
    term.print(out.as_bytes())?;
    if capture.is_unreadable() {
        let nothing = capture.nothing_to_report();
        let unreadable = count(capture.diagnostics.iter(), Severity::Error);
        if args.json || unreadable == 0 {
            return Err(nothing.into());
        }
        // The reason is printed above, under data quality.
        return Err(CliError::Unusable {
            message: format!("{unreadable} artifact(s) cannot be read, and there are no others"),
            hint: nothing.hint().map(str::to_owned),
        });
    }
    strict(&args.input, capture.diagnostics.iter())?;
    errors(capture.diagnostics.iter())
}

/// What [`describe`] says, for programs; times in nanoseconds.
fn json(capture: &Capture) -> Value {
    let bundle = &capture.bundle;
    let session = &capture.session;
    let passes = &session.passes;
    let mut pass_values = Vec::new();
    for row in 0..passes.len() {
        pass_values.push(json!({
            "name": session.text(passes.name[row]),
            "kind": passes.kind[row].label(),
            "artifact": session.text(passes.artifact[row]),
            "producer": session.text(passes.producer[row]),
            "rank": passes.rank[row],
        }));
    }
    let stage = |stage: StageOverview| {
        json!({
            "pass": session.pass_name(stage.pass),
            "name": stage.name,
            "instances": stage.instances,
            "operations": stage.operations,
            "time_ns": stage.time,
        })
    };
    let mut rows = Map::new();
    for table in session.tables() {
        if table.rows() > 0 {
            rows.insert(table.name().to_owned(), table.rows().into());
        }
    }
    json!({
        "bundle": bundle.name,
        "identity": bundle.id,
        "manifest": bundle.manifest.is_some(),
        "artifacts": bundle.files.iter().map(artifact).collect::<Vec<_>>(),
        "passes": pass_values,
        "tables": rows,
        "stages": capture.stages().into_iter().map(stage).collect::<Vec<_>>(),
        "data_quality": capture.diagnostics.iter().collect::<Vec<_>>(),
    })
}

fn artifact(file: &ArtifactFile) -> Value {
    json!({
        "path": file.path,
        "kind": file.kind.map(|kind| kind.label()),
        "pass": file.pass,
        "sha256": file.sha256,
    })
}

fn describe(out: &mut String, capture: &Capture) -> std::fmt::Result {
    let bundle = &capture.bundle;
    let session = &capture.session;
    let manifest = match bundle.manifest {
        Some(_) => "yes",
        None => "none",
    };
    writeln!(out, "bundle    {}", clean(&bundle.name))?;
    writeln!(out, "identity  {}", bundle.id)?;
    writeln!(out, "manifest  {manifest}")?;
    writeln!(out, "\nartifacts")?;
    for file in &bundle.files {
        let kind = file.kind.map_or("not recognized", |kind| kind.label());
        writeln!(out, "  {:<44} {kind}", clean(&file.path))?;
    }
    writeln!(out, "\npasses")?;
    let passes = &session.passes;
    for row in 0..passes.len() {
        let name = clean(session.text(passes.name[row]));
        let kind = passes.kind[row].label();
        let producer = clean(session.text(passes.producer[row]));
        writeln!(out, "  {name:<24} {kind:<10} {producer}")?;
    }
    writeln!(out, "\ntables")?;
    for table in session.tables() {
        if table.rows() > 0 {
            writeln!(out, "  {:<20} {:>12} rows", table.name(), table.rows())?;
        }
    }
    describe_stages(out, capture)?;
    writeln!(out, "\ndata quality")?;
    for diagnostic in capture.diagnostics.iter() {
        writeln!(out, "  {}", remark(diagnostic))?;
    }
    if capture.diagnostics.iter().next().is_none() {
        writeln!(out, "  nothing to remark")?;
    }
    Ok(())
}

fn describe_stages(out: &mut String, capture: &Capture) -> std::fmt::Result {
    let stages = capture.stages();
    if stages.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nstages")?;
    for stage in &stages {
        let pass = clean(capture.session.pass_name(stage.pass));
        let name = clean(&stage.name);
        let (instances, operations) = (stage.instances, stage.operations);
        let time = Quantity::ns(stage.time);
        writeln!(
            out,
            "  {pass:<18} {name:<24} {instances:>6} instances {operations:>9} operations, {time} in all"
        )?;
    }
    Ok(())
}

fn remark(diagnostic: &Diagnostic) -> String {
    let artifact = diagnostic.artifact.as_deref().unwrap_or_default();
    let severity = diagnostic.severity.label();
    let (place, message) = (&diagnostic.at, &diagnostic.message);
    let line = format!("{severity}: {artifact}{place}: {message}");
    let mut line = clean(&line).into_owned();
    if diagnostic.count > 1 {
        line.push_str(&format!(" ({} times)", diagnostic.count));
    }
    line
}
