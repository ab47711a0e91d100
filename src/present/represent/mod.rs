//! Representativeness: what profiled launches stand for in the timeline, and what was not profiled.

mod coverage;
mod launches;

use rooflens_schemas::{Metric, Unit};

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::represent::Sums;
use rooflens_analysis::counters::represent::control::{self, Control};
use rooflens_analysis::counters::represent::matching::{ALIKE, MAX_SCALE, Matching, SAME_SIZE};
use rooflens_findings::catalogue::REPRESENTATIVE_SHARE;
use rooflens_findings::{Block, Findings, Inline, Method, Quantity, prose};
use rooflens_model::{PassId, Session};

/// Representativeness of profiled launches.
pub(super) static SECTION: Section = Section { id: "representativeness", show };

fn show(context: &Context<'_>) -> Known<Findings> {
    let results = context.results;
    let (Ok(counters), Ok(matching), Ok(all)) =
        (results.counters(), results.matching(), results.represent())
    else {
        return Ok(Findings::default());
    };
    let session = context.session;
    let mut blocks = vec![introduction(session, matching)];
    blocks.extend(all.passes.iter().map(|(pass, sums)| summary(session, *pass, sums)));
    blocks.extend(coverage::chart(context, matching).map(Block::Chart));
    let (launches, of_launches) = launches::table(context, (counters, matching), all);
    let (gaps, of_gaps) = coverage::gaps(context, matching, all);
    blocks.push(of_launches);
    blocks.extend(of_gaps);
    blocks.extend(coverage::commands(context, matching).map(Block::Prose));
    let metrics = all.passes.iter().map(|(pass, sums)| metric(session, counters, (*pass, sums)));
    Ok(Findings {
        blocks,
        metrics: metrics.collect(),
        datasets: vec![launches, coverage::coverage(context, matching), gaps],
        methods: vec![method()],
        ..Findings::default()
    })
}

fn introduction(session: &Session, matching: &Matching) -> Block {
    let pass = session.pass_name(matching.pass);
    Block::Prose(prose![
        "A profiled launch stands for the launches of the same kernel, grid and block in pass ",
        Inline::Code(pass.to_owned()),
        format!(
            "; its duration should lie within {} of their median. Counters of a launch that stands for others \
             are only as good as that likeness.",
            bounds()
        ),
    ])
}

/// What a pass's launches are worth.
fn summary(session: &Session, pass: PassId, sums: &Sums) -> Block {
    let control = control::of_command(session.text(session.passes.command[pass.index()]));
    let control = control.as_ref().map_or_else(
        || "how caches and clocks were controlled is not recorded (ncu’s defaults flush caches and lock clocks to base)".to_owned(),
        explain,
    );
    Block::Prose(prose![
        "Pass ",
        Inline::Code(session.pass_name(pass).to_owned()),
        ": ",
        Quantity::count(sums.alike),
        " of ",
        Quantity::count(sums.launches),
        format!(" launches are representative; {control}."),
    ])
}

/// What it means for the figures.
fn explain(control: &Control<'_>) -> String {
    let cache = match control.cache {
        "all" => {
            "caches were flushed before each replay: a short launch takes longer than in the timeline, and reads \
             from DRAM what its predecessor left in L2"
        }
        "none" => "caches were left as they were: each replay finds the data of the one before",
        _ => "caches were controlled in an unknown way",
    };
    let clock = match control.clock {
        "base" => "the SM clock was locked to its base rate, below that of the timeline",
        "boost" => "the SM clock was locked to its boost rate",
        "none" => "clocks were left as they were, as in the timeline",
        _ => "clocks were controlled in an unknown way",
    };
    format!("cache control {}: {cache}; clock control {}: {clock}", control.cache, control.clock)
}

/// The share of a pass's profiled time in representative launches.
fn metric(session: &Session, counters: &Counters, (pass, sums): (PassId, &Sums)) -> Metric {
    let time = |seconds: f64| Quantity::new(seconds * 1e9, Unit::Nanoseconds);
    let basis = format!(
        "{} of {} of profiled time: {} of {} launches last {} of the median of the same kernel and grid in the timeline",
        time(sums.alike_seconds),
        time(sums.seconds),
        sums.alike,
        sums.launches,
        bounds()
    );
    let share = sums.share().map(|share| (share, basis));
    let share = share.ok_or("no durations: the report lacks gpu__time_duration".to_owned());
    let metric = REPRESENTATIVE_SHARE.known(pass_scope(session, pass), share);
    Metric { evidence: vec![counters.evidence(session, pass)], ..metric }
}

/// The bounds of likeness in words.
fn bounds() -> String {
    format!("[{}, {}]", ALIKE.start(), ALIKE.end())
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
        bounds(),
        bounds(),
        MAX_SCALE,
        SAME_SIZE.start(),
        SAME_SIZE.end(),
    );
    Method { title: "What profiled launches stand for".to_owned(), text: vec![text.into()] }
}

#[cfg(test)]
mod tests;
