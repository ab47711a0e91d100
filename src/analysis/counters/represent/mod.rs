//! Representativeness: what profiled launches stand for in the timeline, and what was not profiled.

mod control;
mod coverage;
mod launches;
pub(crate) mod matching;

use rooflens_schemas::{Evidence, Scope, Unit};

use self::launches::Row;
use self::matching::Matching;
use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View, derived, unavailable};
use crate::model::{PassId, Session};
use crate::prose;

/// Representativeness of profiled launches.
pub(crate) static ANALYSIS: Analysis = Analysis {
    id: "representativeness",
    title: "What the profiled launches stand for",
    missing: |_| None,
    run,
};

/// Rows of tables in the section.
const SHOWN_LAUNCHES: usize = 15;
const SHOWN_GAPS: usize = 8;

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let Some(matching) = &context.facts.matching else { return findings };
    let session = context.session;
    let rows = launches::rows(context, matching);
    let passes = passes(session);
    for pass in &passes {
        add_pass(session, *pass, &rows, &mut findings);
    }
    findings.blocks.insert(0, introduction(session, matching));
    findings.blocks.extend(coverage::chart(context, matching).map(Block::Chart));
    let shown = rows.len().min(SHOWN_LAUNCHES);
    let caption =
        format!("Profiled launches by the GPU time that they stand for, {shown} of {}", rows.len());
    findings.blocks.push(Block::Table(View::new(launches::ID, caption, launches::SHOWN, shown)));
    let gaps = coverage::gaps(context, matching);
    if !gaps.rows.is_empty() {
        let shown = gaps.rows.len().min(SHOWN_GAPS);
        let caption = format!("Kernels without a profiled launch, {shown} of {}", gaps.rows.len());
        let columns = ["kernel", "stage", "class", "launches", "time_ns", "share"];
        findings.blocks.push(Block::Table(View::new(
            coverage::UNPROFILED,
            caption,
            &columns,
            shown,
        )));
    }
    findings.blocks.extend(coverage::commands(context, matching).map(Block::Prose));
    findings.datasets =
        vec![launches::dataset(context, &rows), coverage::coverage(context, matching), gaps];
    findings.methods = vec![method()];
    findings
}

/// The passes with profiled launches.
fn passes(session: &Session) -> Vec<PassId> {
    let mut passes = session.kernel_profiles.pass.clone();
    passes.sort_unstable();
    passes.dedup();
    passes
}

fn introduction(session: &Session, matching: &Matching) -> Block {
    let pass = session.pass_name(matching.pass);
    Block::Prose(prose![
        "A profiled launch stands for the launches of the same kernel, grid and block in pass ",
        Inline::Code(pass.to_owned()),
        format!(
            "; its duration should lie within {} of their median. Counters of a launch that stands for others \
             are only as good as that likeness.",
            launches::bounds()
        ),
    ])
}

/// What a pass's launches are worth: text and metric.
fn add_pass(session: &Session, pass: PassId, rows: &[Row<'_>], findings: &mut Findings) {
    let of_pass =
        |row: &&Row<'_>| session.kernel_profiles.pass[row.profile.counters.profile.index()] == pass;
    let name = session.pass_name(pass).to_owned();
    let all = rows.iter().filter(of_pass).count() as u64;
    let alike = rows.iter().filter(of_pass).filter(|row| row.representative()).count() as u64;
    let control = control::of_command(session.text(session.passes.command[pass.index()]));
    let control = control.map_or_else(
        || "how caches and clocks were controlled is not recorded (ncu’s defaults flush caches and lock clocks to base)".to_owned(),
        |control| control.explain(),
    );
    findings.blocks.push(Block::Prose(prose![
        "Pass ",
        Inline::Code(name.clone()),
        ": ",
        Quantity::count(alike),
        " of ",
        Quantity::count(all),
        format!(" launches are representative; {control}."),
    ]));
    let scope = Scope { pass: Some(name), ..Scope::default() };
    let metric = match launches::representative_time(rows.iter().filter(of_pass)) {
        Some((share, basis)) => derived("representative_share", scope, Unit::Ratio, share, basis),
        None => {
            let reason = "no durations: the report lacks gpu__time_duration";
            unavailable("representative_share", scope, Unit::Ratio, reason)
        }
    };
    let artifact = session.artifact_of(pass).to_owned();
    let evidence =
        Evidence { artifact, table: Some("kernel_profiles".to_owned()), rows: Some(all) };
    findings.metrics.push(rooflens_schemas::Metric { evidence: vec![evidence], ..metric });
}

fn method() -> Method {
    let text = format!(
        "A profiled launch belongs to the stages whose range names are among its NVTX ranges, in a pass without ranges to \
         the whole capture. Ratio = gpu__time_duration ÷ median duration of the launches of the same kernel, grid and block \
         in the stage's counted instances; representative within {}. “Launches of this grid differ”: less than half of their \
         time is in launches within {} of their own median. A launch of the timeline takes its counters from the profiled launches of the same kernel, \
         grid, block and stage; else of the same kernel, grid and block; else, but for matrix products, attention and \
         convolutions, of the same kernel and block, scaled by blocks by at most a factor of {}; else it stays unmatched. \
         Launches of matrix products, attention and convolutions also have to last {:.2} to {:.2} times as long as the \
         profiled one: persistent kernels have one grid for products of all sizes.",
        launches::bounds(),
        launches::bounds(),
        matching::MAX_SCALE,
        matching::SAME_SIZE.start(),
        matching::SAME_SIZE.end(),
    );
    Method { title: "What profiled launches stand for".to_owned(), text: vec![text.into()] }
}

#[cfg(test)]
pub(crate) mod tests;
