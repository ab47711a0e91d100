//! The data sets of copies.

use crate::Context;
use rooflens_analysis::engine::stages::WHOLE_CAPTURE;
use rooflens_analysis::memory::transfers::sums::{Group, Kind, Sum, crosses_host};
use rooflens_analysis::memory::transfers::{Place, Transfers};
use rooflens_document::{Block, SectionContent, Table, View};
use rooflens_session::{Arrange, MemoryKind, PassId};
use rooflens_units::Ratio;

/// Groups of copies that the data set holds per pass.
const GROUPS: usize = 200;

/// Rows of each table on the page.
const SHOWN: usize = 14;

/// Copies of one direction between two kinds of memory in one place.
struct Line<'a> {
    place: &'a Place,
    label: String,
    kind: Kind,
    sum: &'a Sum,
}

/// Adds the data sets and gives their views.
pub(super) fn add(
    context: &Context<'_>,
    transfers: &Transfers,
    content: &mut SectionContent,
) -> Vec<Block> {
    let places = &transfers.places;
    let copies = copies(context, transfers).rows(&lines(context, places));
    let several = places.iter().any(|place| place.pass != places[0].pass);
    let mut columns = vec!["kind"];
    columns.extend(several.then_some("pass"));
    columns.extend([
        "stage",
        "source",
        "destination",
        "count",
        "bytes",
        "total_ns",
        "rate",
        "exposed_ns",
    ]);
    columns.extend(transfers.link.is_some().then_some("link_share"));
    let caption = words!(context, "transfers.copies");
    let shown = copies.rows.len().min(SHOWN);
    let mut views = vec![Block::Table(View::new("copies", caption, &columns, shown))];
    content.datasets.push(copies);

    let groups = groups(context);
    let listed = transfers.groups.iter();
    let rows: Vec<(PassId, &Group)> = listed
        .flat_map(|(pass, all)| all.iter().take(GROUPS).map(|group| (*pass, group)))
        .collect();
    if !rows.is_empty() {
        let caption = words!(context, "transfers.groups");
        views.push(Block::Table(groups.view(caption, rows.len().min(SHOWN))));
    }
    content.datasets.push(groups.rows(&rows));
    views
}

/// One line per (place, direction, memory), by (place, time descending, kind).
fn lines<'a>(context: &Context<'_>, places: &'a [Place]) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for place in places {
        let label = place
            .stage
            .as_ref()
            .map(|line| line.label(context.session, context.facts));
        let label = label.unwrap_or_else(|| "whole pass".to_owned());
        // The whole capture as a stage is the whole pass again.
        if label == WHOLE_CAPTURE {
            continue;
        }
        let mut list: Vec<_> = place.sums.kinds.iter().collect();
        list.arrange_by_key(|(kind, sum)| (std::cmp::Reverse(sum.total), **kind));
        let line = |(kind, sum): (&Kind, &'a Sum)| Line {
            place,
            label: label.clone(),
            kind: *kind,
            sum,
        };
        lines.extend(list.into_iter().map(line));
    }
    lines
}

fn copies<'t>(context: &Context<'t>, transfers: &Transfers) -> Table<'t, Line<'t>> {
    let (session, link) = (context.session, transfers.link);
    columns! { context, "copies", line: &Line<'_> => {
        text "kind" = line.kind.0.label();
        text "pass" = session.pass_name(line.place.pass);
        text "stage" = line.label.clone();
        text "source" = memory(line.kind.1);
        text "destination" = memory(line.kind.2);
        count "count" = line.sum.count;
        bytes "bytes" = line.sum.bytes as f64;
        time "total_ns" = line.sum.total;
        "rate" = line.sum.rate();
        time "exposed_ns" = line.sum.exposed;
        time "overlapped_ns" = line.sum.union - line.sum.exposed;
        count "large" = line.sum.large.len();
        "large_p5" = line.sum.large_rate(Ratio(0.05));
        "large_median" = line.sum.large_rate(Ratio(0.5));
        "large_p95" = line.sum.large_rate(Ratio(0.95));
        share "link_share" = {
            let link = link.filter(|_| crosses_host(line.kind.0))?;
            Some(line.sum.large_rate(Ratio(0.5))? / link.peak)
        };
    } }
}

/// The groups of copies of each pass with the most time.
fn groups<'t>(context: &Context<'t>) -> Table<'t, (PassId, &'t Group)> {
    let session = context.session;
    columns! { context, "copy_groups", (pass, group): &(PassId, &Group) => {
        text "kind" = group.kind.0.label(), page;
        text "pass" = session.pass_name(*pass), page;
        text "source" = memory(group.kind.1), page;
        text "destination" = memory(group.kind.2), page;
        bytes "size" = group.size as f64, page;
        name "range" = group.range.map(|range| session.text(range)), page;
        count "count" = group.count, page;
        time "total_ns" = group.total, page;
        "rate" = group.rate(), page;
    } }
}

fn memory(kind: MemoryKind) -> Option<&'static str> {
    (kind != MemoryKind::Unknown).then(|| kind.label())
}
