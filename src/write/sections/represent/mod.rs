//! Representativeness: what profiled launches represent in the timeline, and what was not profiled.

mod coverage;
mod launches;
mod summed;

use rooflens_schemas::Metric;

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::represent::Sums;
use rooflens_analysis::counters::represent::control::{self, Control};
use rooflens_analysis::counters::represent::matching::{ALIKE, MAX_SCALE, Matching, SAME_SIZE};
use rooflens_document::catalogue::REPRESENTATIVE_SHARE;
use rooflens_document::{Block, Inline, Method, Quantity, SectionContent};
use rooflens_session::PassId;

/// Representativeness of profiled launches.
pub(super) static SECTION: Section = Section {
    id: "representativeness",
    show,
};

/// Profiled launches that the section shows.
const SHOWN: usize = 15;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let results = context.results;
    let (Ok(counters), Ok(matching), Ok(all)) =
        (results.counters(), results.matching(), results.represent())
    else {
        let sums = results.counters().ok().zip(results.summed().ok());
        let of_sums = sums.map(|(counters, sums)| summed::show(context, counters, sums));
        return Ok(of_sums.unwrap_or_default());
    };
    let mut blocks = vec![introduction(context, matching)];
    blocks.extend(
        all.passes
            .iter()
            .map(|(pass, sums)| summary(context, *pass, sums)),
    );
    blocks.extend(coverage::chart(context, matching).map(Block::Chart));
    let (launches, of_launches) = launches::table(context, (counters, matching), all);
    let (gaps, of_gaps) = coverage::gaps(context, matching, all);
    blocks.push(of_launches);
    blocks.extend(of_gaps);
    blocks.extend(coverage::commands(context, matching).map(Block::Prose));
    let metrics = all
        .passes
        .iter()
        .map(|(pass, sums)| metric(context, counters, (*pass, sums)));
    Ok(SectionContent {
        blocks,
        metrics: metrics.collect(),
        datasets: vec![launches, coverage::coverage(context, matching), gaps],
        methods: vec![method(context)],
        ..SectionContent::default()
    })
}

fn introduction(context: &Context<'_>, matching: &Matching) -> Block {
    let pass = Inline::code(context.session.pass_name(matching.pass));
    Block::Prose(say!(
        context,
        "represent.introduction",
        pass = pass,
        bounds = bounds()
    ))
}

/// What a pass's launches are worth.
fn summary(context: &Context<'_>, pass: PassId, sums: &Sums) -> Block {
    let session = context.session;
    let control = control::of_command(session.text(session.passes.command[pass.index()]));
    Block::Prose(say!(
        context,
        "represent.summary",
        pass = Inline::code(session.pass_name(pass)),
        alike = Quantity::count(sums.alike),
        launches = Quantity::count(sums.launches),
        control = explain(context, control.as_ref()),
    ))
}

/// What the control of caches and clocks means for the figures.
fn explain(context: &Context<'_>, control: Option<&Control<'_>>) -> Vec<Inline> {
    let Some(Control { cache, clock }) = control else {
        return say!(context, "represent.control.not_recorded");
    };
    let cache_meaning = match *cache {
        "all" => say!(context, "represent.control.cache_all"),
        "none" => say!(context, "represent.control.cache_none"),
        _ => say!(context, "represent.control.cache_other"),
    };
    let clock_meaning = match *clock {
        "base" => say!(context, "represent.control.clock_base"),
        "boost" => say!(context, "represent.control.clock_boost"),
        "none" => say!(context, "represent.control.clock_none"),
        _ => say!(context, "represent.control.clock_other"),
    };
    say!(
        context,
        "represent.control.both",
        cache = *cache,
        cache_meaning = cache_meaning,
        clock = *clock,
        clock_meaning = clock_meaning,
    )
}

/// The share of a pass's profiled time in representative launches.
fn metric(context: &Context<'_>, counters: &Counters, (pass, sums): (PassId, &Sums)) -> Metric {
    let context = &context.in_english();
    let basis = format!(
        "{} of {} of profiled time: {} of {} launches last {} of the median of the same kernel and grid in the timeline",
        Quantity::from(sums.alike_seconds),
        Quantity::from(sums.seconds),
        sums.alike,
        sums.launches,
        bounds()
    );
    let share = sums.share().map(|share| (share.0, basis));
    let share = share.ok_or_else(|| words!(context, "represent.no_durations"));
    let metric = REPRESENTATIVE_SHARE.known(pass_scope(context.session, pass), share);
    Metric {
        evidence: vec![counters.evidence(context.session, pass)],
        ..metric
    }
}

/// The bounds of likeness in words.
fn bounds() -> String {
    format!("[{}, {}]", ALIKE.start().0, ALIKE.end().0)
}

fn method(context: &Context<'_>) -> Method {
    method!(
        context,
        "represent",
        bounds = bounds(),
        max_scale = MAX_SCALE.0.to_string(),
        least = format!("{:.2}", SAME_SIZE.start().0),
        most = format!("{:.2}", SAME_SIZE.end().0),
    )
}

#[cfg(test)]
mod tests;
