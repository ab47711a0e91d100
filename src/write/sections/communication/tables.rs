//! The data sets of ranks, collectives and messages.

use rooflens_units::{Ratio, Time};

use super::SHOWN;
use crate::Context;
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::calls::Group;
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::communication::messages::{Key, Pair};
use rooflens_analysis::communication::operation::{NcclName, nccl_name};
use rooflens_analysis::communication::straggler::Imbalance;
use rooflens_analysis::communication::sums::Kind;
use rooflens_document::{Block, Quantity, SectionContent, Table, View};
use rooflens_session::Session;

/// Adds the data sets and their views.
pub(super) fn add(context: &Context<'_>, runs: &[Ranks], content: &mut SectionContent) {
    let matched = runs.iter().any(|ranks| !ranks.matching.matches.is_empty());
    add_ranks(context, runs, matched, content);
    add_collectives(context, runs, matched, content);
    let messages: Vec<Message<'_>> = runs
        .iter()
        .flat_map(|ranks| ranks.messages.iter().map(move |message| (ranks, message)))
        .collect();
    if !messages.is_empty() {
        let (table, shown) = (messages_table(context), messages.len().min(SHOWN));
        content.blocks.push(Block::Table(
            table.view(words!(context, "communication.messages_caption"), shown),
        ));
        content.datasets.push(table.rows(&messages));
    }
}

fn add_ranks(context: &Context<'_>, runs: &[Ranks], matched: bool, content: &mut SectionContent) {
    let rows: Vec<(&Ranks, &RankTimes)> = runs
        .iter()
        .flat_map(|run| run.lines.iter().map(move |line| (run, line)))
        .collect();
    let mut columns = vec!["stage", "rank", "time_ns", "compute_ns", "communication_ns"];
    columns.extend(["exposed_ns", "exposed_share"]);
    columns.push(if matched { "wait_ns" } else { "idle_ns" });
    let clocks = rows.iter().any(|(_, line)| line.speed.clock.is_some());
    columns.extend(clocks.then_some("sm_clock_hz"));
    let caption = ranks_caption(context, runs);
    // The report has the stages of the first run, or the whole of it if there is none; the whole pass comes first.
    let first = runs.first().map_or(&[][..], |run| &run.lines);
    let whole = first.iter().filter(|line| line.stage.is_none()).count();
    let skip = if whole < first.len() { whole } else { 0 };
    let limit = (first.len() - skip).min(SHOWN);
    let view = View {
        skip,
        ..View::new("ranks", caption.clone(), &columns, limit)
    };
    content.main.push(Block::Table(view));
    columns.insert(1, "pass");
    columns.extend(matched.then_some("last"));
    let view = View::new("ranks", caption, &columns, rows.len().min(2 * SHOWN));
    content.blocks.push(Block::Table(view));
    content.datasets.push(ranks(context).rows(&rows));
}

/// Tells which rank computes longest, in the stage where that makes the greatest difference.
fn ranks_caption(context: &Context<'_>, runs: &[Ranks]) -> String {
    let difference = |imbalance: &Imbalance| imbalance.most - imbalance.least;
    let uneven = runs.first().and_then(|ranks| {
        let stages = ranks
            .imbalances
            .iter()
            .filter(|imbalance| imbalance.is_uneven());
        let stages = stages.filter(|stage| ranks.lines[stage.slowest].stage.is_some());
        let imbalance = stages.max_by(|a, b| difference(a).total_cmp(&difference(b)))?;
        Some((
            &ranks.lines[imbalance.slowest],
            imbalance.most / imbalance.least.max(Time(1.0)) - 1.0,
        ))
    });
    words!(
        context,
        "communication.ranks_caption",
        stage = uneven.and_then(|(line, _)| line.stage_name(context)),
        rank = uneven.map(|(line, _)| line.rank.to_string()),
        more = uneven.map(|(_, more)| Quantity::ratio(more)),
    )
}

fn add_collectives(
    context: &Context<'_>,
    runs: &[Ranks],
    matched: bool,
    content: &mut SectionContent,
) {
    let rows: Vec<(&Ranks, &Kind)> = runs
        .iter()
        .flat_map(|ranks| ranks.kinds.iter().map(move |kind| (ranks, kind)))
        .collect();
    let mut columns = vec![
        "operation",
        "pass",
        "rank",
        "dtype",
        "bytes",
        "count",
        "total_ns",
    ];
    columns.extend(matched.then_some("transfer_ns"));
    let sizes = rows.iter().any(|(_, kind)| kind.key.bytes.is_some());
    columns.extend(sizes.then_some("bus_bandwidth"));
    let links = rows.iter().any(|row| nvlink_share(context, row).is_some());
    columns.extend(links.then_some("nvlink_share"));
    let caption = words!(context, "communication.collectives_caption");
    let view = View::new("collectives", caption, &columns, rows.len().min(SHOWN));
    content.blocks.push(Block::Table(view));
    content.datasets.push(collectives(context).rows(&rows));
}

/// One row per line: (run, whole pass before stages, rank).
fn ranks<'t>(context: &'t Context<'t>) -> Table<'t, (&'t Ranks, &'t RankTimes)> {
    columns! { context, "ranks", (ranks, line): &(&Ranks, &RankTimes) => {
        text "stage" = line.stage_name(context).unwrap_or("whole pass");
        text "pass" = ranks.run.name.clone();
        text "rank" = line.rank.to_string();
        count "instances" = line.instances;
        "time_ns" = line.time;
        "compute_ns" = line.compute;
        "communication_ns" = line.communication;
        "exposed_ns" = line.exposed;
        share "exposed_share" = (line.time > Time::ZERO).then(|| line.exposed / line.time);
        "idle_ns" = line.idle;
        "wait_ns" = line.wait;
        "transfer_ns" = line.transfer;
        count "last" = {
            let whole = line.stage.is_none() && ranks.run.members.len() > 1;
            whole.then(|| ranks.last[line.member])
        };
        text "slowdown" = line.speed.slowdown;
        Hertz "sm_clock_hz" = line.speed.clock;
        share "by_clock" = line.speed.by_clock();
        name "clock_limit" = line.speed.limit.map(|(reason, _)| reason);
        share "clock_limit_share" = line.speed.limit.map(|(_, share)| share);
    } }
}

/// One row per (run, rank, kind), by (run, rank, time descending, kind).
fn collectives<'t>(context: &'t Context<'t>) -> Table<'t, (&'t Ranks, &'t Kind)> {
    let name = |kind: &Kind, word: fn(NcclName) -> String| {
        let word = word(nccl_name(context.session.kernel_name(kind.key.kernel)));
        Some(word).filter(|word| !word.is_empty())
    };
    columns! { context, "collectives", row: &(&Ranks, &Kind) => {
        let (ranks, kind) = row;
        text "operation" = kind.key.operation.label();
        text "pass" = ranks.run.name.clone();
        text "rank" = ranks.run.members[kind.member].rank.to_string();
        text "dtype" = name(kind, |name| name.dtype);
        text "algorithm" = name(kind, |name| name.algorithm);
        text "protocol" = name(kind, |name| name.protocol);
        name "group" = group_name(context.session, kind.key.group);
        count "group_size" = kind.key.size;
        bytes "bytes" = kind.key.bytes.map(|bytes| bytes as f64);
        count "count" = kind.count;
        time "total_ns" = kind.total;
        time "median_ns" = kind.median();
        count "matched" = kind.matched;
        time "transfer_ns" = kind.transfer();
        time "wait_ns" = (kind.matched > 0).then_some(kind.wait);
        "algorithm_bandwidth" = kind.rate();
        "bus_bandwidth" = kind.bus_rate();
        "nvlink_share" = nvlink_share(context, row);
    } }
}

/// Bus bandwidth as a share of what the NVLinks carry.
fn nvlink_share(context: &Context<'_>, (ranks, kind): &(&Ranks, &Kind)) -> Option<Ratio> {
    let link = ranks.run.members[kind.member].nvlink(context)?;
    Some(Ratio(kind.bus_rate()? / link))
}

fn group_name(session: &Session, group: Group) -> Option<String> {
    match group {
        Group::Named(name, ranks) => {
            let words = [name, ranks].map(|id| session.text(id));
            Some(
                words
                    .into_iter()
                    .filter(|word| !word.is_empty())
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        }
        Group::Stream(_) => None,
    }
}

/// A run, and messages of one size from one of its ranks to another.
type Message<'a> = (&'a Ranks, &'a (Key, Pair));

fn messages_table<'t>(context: &Context<'t>) -> Table<'t, Message<'t>> {
    columns! { context, "messages", (ranks, (key, pair)): &Message<'_> => {
        text "pass" = ranks.run.name.clone(), page;
        text "from" = key.from.to_string(), page;
        text "to" = key.to.to_string(), page;
        bytes "bytes" = key.bytes.map(|bytes| bytes as f64), page;
        count "count" = pair.count, page;
        time "sender_wait_ns" = pair.sender_wait, page;
        time "receiver_wait_ns" = pair.receiver_wait, page;
        time "transfer_ns" = pair.transfer(), page;
        "bandwidth" = key.rate(pair.transfer()), page;
    } }
}
