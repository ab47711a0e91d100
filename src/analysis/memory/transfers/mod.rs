//! Copies: what moves where, how fast, and whether kernels hide it.

mod link;
mod metrics;
mod sums;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::Scope;

use crate::analysis::engine::facts::{OpIndex, StageInstance};
use crate::analysis::engine::intervals::total;
use crate::analysis::engine::stage_stats::summaries;
use crate::analysis::engine::tiers::by_gpu;
use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View};
use crate::model::{PassId, Session};
use crate::prose;

use link::Link;
use sums::Sums;

/// Copies and memsets.
pub(crate) static ANALYSIS: Analysis = Analysis { id: "copies", title: "Copies", missing, run };

/// Rows of each table on the page.
const SHOWN: usize = 14;

/// Below this share of the time of all GPU operations of the pass, copies need no table.
const NEGLIGIBLE: f64 = 1e-3;

/// Copies in one stage of one process, or in a whole pass.
struct Place {
    scope: Scope,
    pass: PassId,
    /// What tables call it.
    label: String,
    /// By instance that counts.
    instances: Vec<Sums>,
    /// Of all of them together.
    sums: Sums,
}

/// Without copies there is no section.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let session = context.session;
    if session.copies.is_empty() {
        return findings;
    }
    let link = link::pcie(session);
    let primary = context.facts.primary_pass(session);
    let mut passes: Vec<PassId> = session.passes.ids().collect();
    passes.sort_by_key(|pass| (Some(*pass) != primary, *pass));
    let places: Vec<Place> = passes.iter().flat_map(|pass| places(context, *pass)).collect();
    for place in &places {
        findings.metrics.extend(metrics::of_place(context, place, link.as_ref()));
    }
    let Some(first) = places.first() else { return findings };
    let share = share(context, first);
    findings.blocks.push(Block::Prose(introduction(first, link.as_ref(), share)));
    let tables = add_tables(context, &passes, &places, link.as_ref(), &mut findings);
    findings.blocks.extend(tables.into_iter().filter(|_| share >= NEGLIGIBLE));
    findings.methods.push(method());
    findings
}

/// The whole pass, then its stages, as far as they copy.
fn places(context: &Context<'_>, pass: PassId) -> Vec<Place> {
    let (session, facts) = (context.session, context.facts);
    let tiers = by_gpu(session, facts, pass);
    let ops = facts.ops_of(pass);
    let all = sums::by_kind(context, &tiers, ops.map(|op| op as OpIndex));
    if all.kinds.is_empty() {
        return Vec::new();
    }
    let name = session.text(session.passes.name[pass.index()]).to_owned();
    let mut places = vec![Place {
        scope: Scope { pass: Some(name), ..Scope::default() },
        pass,
        label: "whole pass".to_owned(),
        instances: vec![all.clone()],
        sums: all,
    }];
    for line in summaries(facts, pass) {
        let counts = |one: &&StageInstance| one.process == line.process && one.excluded.is_none();
        let own: Vec<&StageInstance> =
            facts.instances_of(line.stage(facts)).iter().filter(counts).collect();
        let of = |one: &&StageInstance| sums::by_kind(context, &tiers, one.ops.iter().copied());
        let together = own.iter().flat_map(|one| one.ops.iter().copied());
        let sums = sums::by_kind(context, &tiers, together);
        places.extend((!sums.kinds.is_empty()).then(|| Place {
            scope: line.scope(session, facts),
            pass,
            label: line.label(session, facts),
            instances: own.iter().map(of).collect(),
            sums,
        }));
    }
    places
}

/// What crosses between host and GPU in the whole pass, and over what.
fn introduction(place: &Place, link: Option<&Link>, share: f64) -> Vec<Inline> {
    let host = || place.sums.kinds.iter().filter(|(kind, _)| sums::crosses_host(kind.0));
    let bytes: u64 = host().map(|(_, sum)| sum.bytes).fold(0, u64::saturating_add);
    let time = total(host().map(|(_, sum)| sum.total));
    let exposed = place.sums.exposed;
    let mut text = prose![
        "Pass ",
        Inline::Code(place.scope.pass.clone().unwrap_or_default()),
        " moves ",
        Quantity::new(bytes as f64, rooflens_schemas::Unit::Bytes),
        " between host and GPU in ",
        Quantity::ns(time),
        " of copies; ",
        Quantity::ns(exposed),
        " of all its copies run while no kernel does (exposed). Copies and memsets are ",
        Quantity::ratio(share),
        " of the time of its GPU operations.",
    ];
    match link.filter(|_| bytes >= sums::LARGE) {
        Some(link) => text.extend(prose![
            format!(" The link is PCIe {}.0 with {} lanes: at most ", link.generation, link.lanes),
            Quantity::new(link.peak, rooflens_schemas::Unit::BytesPerSecond),
            " a direction."
        ]),
        None if bytes < sums::LARGE => {}
        None => text.push(
            " The bundle does not say what the link to the host is: add the output of nvidia-smi -q -x.".into(),
        ),
    }
    text
}

/// The time of the copies of a whole pass ÷ that of all its GPU operations.
fn share(context: &Context<'_>, place: &Place) -> f64 {
    let ops = &context.facts.ops;
    let all = total(context.facts.ops_of(place.pass).map(|op| ops.end[op] - ops.start[op]));
    let copies = total(place.sums.kinds.values().map(|sum| sum.total));
    copies as f64 / all.max(1) as f64
}

/// Adds the data sets and gives their views.
fn add_tables(
    context: &Context<'_>,
    passes: &[PassId],
    places: &[Place],
    link: Option<&Link>,
    findings: &mut Findings,
) -> Vec<Block> {
    let mut views = Vec::new();
    let copies = tables::copies(places, link);
    let several = places.iter().any(|place| place.pass != places[0].pass);
    let mut columns = vec![
        "kind",
        "stage",
        "source",
        "destination",
        "count",
        "bytes",
        "total_ns",
        "rate",
        "exposed_ns",
    ];
    if several {
        columns.insert(1, "pass");
    }
    if link.is_some() {
        columns.push("link_share");
    }
    let caption = "Copies and memsets: sums over the instances that count";
    let shown = copies.rows.len().min(SHOWN);
    views.push(Block::Table(View::new("copies", caption, &columns, shown)));
    findings.datasets.push(copies);
    let groups = tables::groups(context, passes);
    let columns =
        ["kind", "pass", "source", "destination", "size", "range", "count", "total_ns", "rate"];
    if !groups.rows.is_empty() {
        let shown = groups.rows.len().min(SHOWN);
        let view = View::new(
            "copy_groups",
            "Copies by size and range, those with the most time",
            &columns,
            shown,
        );
        views.push(Block::Table(view));
    }
    findings.datasets.push(groups);
    views
}

fn method() -> Method {
    Method {
        title: "Copies".to_owned(),
        text: prose![
            "Copies and memsets by direction and kind of memory. The rate is bytes ÷ sum of durations; large \
             copies are those of ",
            Quantity::new(sums::LARGE as f64, rooflens_schemas::Unit::Bytes),
            " and more, whose rate latency does not decide. The share of the link is the median rate of large \
             copies between host and GPU ÷ the rate of the PCIe link that the nvidia-smi log states as its \
             maximum: lanes × transfers per second × line code, before the headers of packets. Exposed is the \
             part of the union of the copies' intervals in which no kernel of that GPU runs, collectives \
             included. Pageable share is bytes from or to pageable host memory ÷ bytes of the copies between \
             host and GPU whose kind of memory is recorded.",
        ],
    }
}
