//! `rooflens inspect`: what is here.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::args::Inspect;
use super::error::CliError;
use super::load::{Loaded, errors, load, strict, unusable};
use super::suggest;
use super::term::Term;
use crate::analysis::Facts;
use crate::analysis::engine::facts::Stage;
use crate::bundle::ArtifactFile;
use crate::diagnostic::Severity;
use crate::document::Quantity;
use crate::render::text::{self, clean};
use crate::session::PassId;

/// Prints artifacts, tables, passes, stages and data quality.
pub(super) fn run(args: &Inspect, term: &mut Term) -> Result<(), CliError> {
    let loaded = load(&args.input, term)?;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = match (args.suggest_workload, args.json) {
        (true, _) => out.write_str(&suggest::workload(&loaded)),
        (false, true) => writeln!(out, "{}", text::json(&format!("{:#}", json(&loaded)))),
        (false, false) => describe(&mut out, &loaded),
    };
    term.print(out.as_bytes())?;
    let unreadable = loaded
        .diagnostics
        .iter()
        .filter(|one| one.severity == Severity::Error)
        .count();
    let readable = loaded
        .bundle
        .files
        .iter()
        .filter(|file| file.kind.is_some())
        .count();
    if readable == 0
        || (unreadable >= readable && loaded.session.tables().iter().all(|t| t.rows() == 0))
    {
        return Err(match unusable(&loaded.bundle, &loaded.diagnostics) {
            // Said above, under data quality.
            CliError::Unusable { hint, .. } if unreadable > 0 && !args.json => CliError::Unusable {
                message: format!(
                    "{unreadable} artifact(s) cannot be read, and there are no others"
                ),
                hint,
            },
            other => other,
        });
    }
    strict(&args.input, loaded.diagnostics.iter())?;
    errors(loaded.diagnostics.iter())
}

/// What [`describe`] says, for programs; times in nanoseconds.
fn json(loaded: &Loaded) -> Value {
    let Loaded {
        bundle,
        session,
        diagnostics,
        ..
    } = loaded;
    let artifact = |file: &ArtifactFile| json!({"path": file.path, "kind": file.kind.map(|kind| kind.label()), "pass": file.pass, "sha256": file.sha256});
    let pass = |id: PassId| {
        let (passes, row) = (&session.passes, id.index());
        let text = |id| session.text(id);
        json!({
            "name": text(passes.name[row]),
            "kind": passes.kind[row].label(),
            "artifact": text(passes.artifact[row]),
            "producer": text(passes.producer[row]),
            "rank": passes.rank[row],
        })
    };
    let facts = Facts::new(session);
    let stage = |stage: &Stage| {
        let instances = facts.instances_of(stage);
        json!({
            "pass": session.pass_name(stage.pass),
            "name": stage.name,
            "instances": instances.len(),
            "operations": instances.iter().map(|one| one.ops.len()).sum::<usize>(),
            "time_ns": instances.iter().filter_map(|one| one.time()).sum::<i64>(),
        })
    };
    let tables = session
        .tables()
        .into_iter()
        .filter(|table| table.rows() > 0);
    let rows: Map<String, Value> = tables
        .map(|table| (table.name().to_owned(), table.rows().into()))
        .collect();
    json!({
        "bundle": bundle.name,
        "identity": bundle.id,
        "manifest": bundle.manifest.is_some(),
        "artifacts": bundle.files.iter().map(artifact).collect::<Vec<_>>(),
        "passes": session.passes.ids().map(pass).collect::<Vec<_>>(),
        "tables": rows,
        "stages": facts.stages.iter().map(stage).collect::<Vec<_>>(),
        "data_quality": diagnostics.iter().collect::<Vec<_>>(),
    })
}

fn describe(out: &mut String, loaded: &Loaded) -> std::fmt::Result {
    let Loaded {
        bundle,
        session,
        diagnostics,
        ..
    } = loaded;
    writeln!(out, "bundle    {}", clean(&bundle.name))?;
    writeln!(out, "identity  {}", bundle.id)?;
    writeln!(
        out,
        "manifest  {}",
        if bundle.manifest.is_some() {
            "yes"
        } else {
            "none"
        }
    )?;
    writeln!(out, "\nartifacts")?;
    for file in &bundle.files {
        let kind = file.kind.map_or("not recognized", |kind| kind.label());
        writeln!(out, "  {:<44} {kind}", clean(&file.path))?;
    }
    writeln!(out, "\npasses")?;
    for pass in session.passes.ids() {
        let row = pass.index();
        let producer = clean(session.text(session.passes.producer[row]));
        let (name, kind) = (
            clean(session.text(session.passes.name[row])),
            session.passes.kind[row].label(),
        );
        writeln!(out, "  {name:<24} {kind:<10} {producer}")?;
    }
    writeln!(out, "\ntables")?;
    for table in session
        .tables()
        .into_iter()
        .filter(|table| table.rows() > 0)
    {
        writeln!(out, "  {:<20} {:>12} rows", table.name(), table.rows())?;
    }
    stages(out, loaded)?;
    writeln!(out, "\ndata quality")?;
    for one in diagnostics.iter() {
        let artifact = one.artifact.as_deref().unwrap_or_default();
        let times = if one.count > 1 {
            format!(" ({} times)", one.count)
        } else {
            String::new()
        };
        let line = format!(
            "{}: {artifact}{}: {}",
            one.severity.label(),
            one.at,
            one.message
        );
        writeln!(out, "  {}{times}", clean(&line))?;
    }
    if diagnostics.iter().next().is_none() {
        writeln!(out, "  nothing to remark")?;
    }
    Ok(())
}

fn stages(out: &mut String, loaded: &Loaded) -> std::fmt::Result {
    let session = &loaded.session;
    let facts = Facts::new(session);
    if facts.stages.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nstages")?;
    for stage in &facts.stages {
        let instances = facts.instances_of(stage);
        let pass = clean(session.pass_name(stage.pass));
        let time: i64 = instances
            .iter()
            .filter_map(|instance| instance.time())
            .sum();
        let operations: usize = instances.iter().map(|instance| instance.ops.len()).sum();
        let (name, count) = (clean(&stage.name), instances.len());
        let time = Quantity::ns(time);
        writeln!(
            out,
            "  {pass:<18} {name:<24} {count:>6} instances {operations:>9} operations, {time} in all"
        )?;
    }
    Ok(())
}
