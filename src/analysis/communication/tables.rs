//! The data sets of collectives and of ranks.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;
use rustc_hash::FxHashMap;

use super::calls::{Call, Group, Member, Run, name_of};
use super::lines::{Line, label};
use super::operation::Operation;
use super::waits::Wait;
use crate::analysis::Context;
use crate::analysis::engine::facts::OpIndex;
use crate::analysis::engine::stats::median;
use crate::findings::{Cell, Column, Dataset};
use crate::model::{KernelId, Ns, Session};

/// What a rank calls again and again: one operation of one size in one group by one kernel.
type Key = (Operation, Option<u64>, Group, Option<u32>, KernelId);

/// Collectives of one kind on one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Kind {
    pub(super) count: u64,
    pub(super) total: Ns,
    durations: Vec<f64>,
    pub(super) matched: u64,
    transfers: Vec<f64>,
    wait: Ns,
}

impl Kind {
    fn add(&mut self, call: &Call, wait: Option<&Wait>) {
        self.count += 1;
        self.total = self.total.saturating_add(call.duration());
        self.durations.push(call.duration() as f64);
        if let Some(wait) = wait {
            self.matched += 1;
            self.wait = self.wait.saturating_add(wait.wait);
            self.transfers.push(wait.transfer as f64);
        }
    }

    /// The time that a message takes: the median transfer, or duration where no other rank is known.
    fn time(&self) -> Option<f64> {
        median(if self.transfers.is_empty() { &self.durations } else { &self.transfers })
    }
}

/// The kinds of collectives of a rank.
fn kinds(calls: &[Call], waits: &FxHashMap<OpIndex, Wait>) -> BTreeMap<Key, Kind> {
    let mut kinds: BTreeMap<Key, Kind> = BTreeMap::new();
    for call in calls {
        let key = (call.operation, call.bytes, call.group, call.size, call.kernel);
        kinds.entry(key).or_default().add(call, waits.get(&call.op));
    }
    kinds
}

/// One row per (run, rank, kind), by (run, rank, time descending, kind).
pub(super) fn collectives(
    context: &Context<'_>,
    runs: &[(&Run, &FxHashMap<OpIndex, Wait>)],
) -> Dataset {
    let columns = vec![
        Column::text("operation", "Collective"),
        Column::text("pass", "Pass"),
        Column::text("rank", "Rank"),
        Column::text("dtype", "Type"),
        Column::text("algorithm", "Algorithm"),
        Column::text("protocol", "Protocol"),
        Column::text("group", "Group"),
        Column::new("group_size", "Ranks", Unit::Count),
        Column::new("bytes", "Message", Unit::Bytes),
        Column::new("count", "Count", Unit::Count),
        Column::new("total_ns", "Time", Unit::Nanoseconds),
        Column::new("median_ns", "Median", Unit::Nanoseconds),
        Column::new("matched", "Matched", Unit::Count),
        Column::new("transfer_ns", "Transfer", Unit::Nanoseconds),
        Column::new("wait_ns", "Waiting", Unit::Nanoseconds),
        Column::new("algorithm_bandwidth", "Algorithm bandwidth", Unit::BytesPerSecond),
        Column::new("bus_bandwidth", "Bus bandwidth", Unit::BytesPerSecond),
        Column::new("nvlink_share", "Of NVLink", Unit::Ratio),
    ];
    let mut rows = Vec::new();
    for (run, waits) in runs {
        for member in &run.members {
            let link = nvlink(context, member);
            let mut kinds: Vec<(Key, Kind)> = kinds(&member.calls, waits).into_iter().collect();
            kinds.sort_by_key(|(key, kind)| (std::cmp::Reverse(kind.total), *key));
            rows.extend(kinds.iter().map(|(key, kind)| {
                let call = member.calls.iter().find(|call| call.kernel == key.4);
                let name = call.map(|call| name_of(context, call)).unwrap_or_default();
                let (operation, bytes, group, size, _) = *key;
                let rate = bytes.zip(kind.time()).filter(|(_, time)| *time > 0.0);
                let rate = rate.map(|(bytes, time)| bytes as f64 / time * 1e9);
                let bus = rate.zip(operation.bus_factor(size)).map(|(rate, factor)| rate * factor);
                let some = kind.matched > 0;
                vec![
                    Cell::Text(operation.label().to_owned()),
                    Cell::Text(run.name.clone()),
                    Cell::Text(member.rank.to_string()),
                    text(name.dtype),
                    text(name.algorithm),
                    text(name.protocol),
                    group_cell(context.session, group),
                    size.map_or(Cell::Missing, |size| Cell::Int(i64::from(size))),
                    bytes.map_or(Cell::Missing, |bytes| Cell::Float(bytes as f64)),
                    Cell::Int(kind.count as i64),
                    Cell::Int(kind.total),
                    Cell::maybe(median(&kind.durations)),
                    Cell::Int(kind.matched as i64),
                    Cell::maybe(median(&kind.transfers)),
                    if some { Cell::Int(kind.wait) } else { Cell::Missing },
                    Cell::maybe(rate),
                    Cell::maybe(bus),
                    Cell::maybe(bus.zip(link).map(|(bus, link)| bus / link)),
                ]
            }));
        }
    }
    Dataset { id: "collectives", title: "Collectives".to_owned(), columns, rows }
}

/// What the NVLinks of a rank's GPU carry in one direction, where it has them.
pub(super) fn nvlink(context: &Context<'_>, member: &Member) -> Option<f64> {
    let session = context.session;
    let name = session.text(session.gpus.name[member.gpu.index()]);
    context.gpu_spec(name).and_then(|gpu| gpu.nvlink_bandwidth)
}

fn text(text: String) -> Cell {
    if text.is_empty() { Cell::Missing } else { Cell::Text(text) }
}

fn group_cell(session: &Session, group: Group) -> Cell {
    match group {
        Group::Named(name, ranks) if session.text(ranks).is_empty() => {
            Cell::Name(session.text(name).to_owned())
        }
        Group::Named(name, ranks) => {
            Cell::Name(format!("{} {}", session.text(name), session.text(ranks)))
        }
        Group::Stream(_) => Cell::Missing,
    }
}

/// One row per line: (run, whole pass before stages, rank).
pub(super) fn ranks(context: &Context<'_>, runs: &[(&Run, &[Line], Vec<u64>)]) -> Dataset {
    let columns = vec![
        Column::text("stage", "Stage"),
        Column::text("pass", "Pass"),
        Column::text("rank", "Rank"),
        Column::new("instances", "Counted", Unit::Count),
        Column::new("time_ns", "Stage time", Unit::Nanoseconds),
        Column::new("compute_ns", "Computing", Unit::Nanoseconds),
        Column::new("communication_ns", "Communicating", Unit::Nanoseconds),
        Column::new("exposed_ns", "Exposed", Unit::Nanoseconds),
        Column::new("exposed_share", "Exposed share", Unit::Ratio),
        Column::new("idle_ns", "Idle", Unit::Nanoseconds),
        Column::new("wait_ns", "Waiting", Unit::Nanoseconds),
        Column::new("transfer_ns", "Transfer", Unit::Nanoseconds),
        Column::new("last", "Came last", Unit::Count),
        Column::new("slowdown", "Same kernels", Unit::One),
        Column::new("sm_clock_hz", "SM clock", Unit::Hertz),
        Column::new("by_clock", "By the clock", Unit::Ratio),
        Column::text("clock_limit", "Clock lowered by"),
        Column::new("clock_limit_share", "Share of samples", Unit::Ratio),
    ];
    let mut rows = Vec::new();
    for (run, lines, last) in runs {
        rows.extend(lines.iter().map(|line| {
            let whole = line.stage.is_none();
            vec![
                Cell::Text(if whole {
                    "whole pass".to_owned()
                } else {
                    label(context, line).to_owned()
                }),
                Cell::Text(run.name.clone()),
                Cell::Text(line.rank.to_string()),
                Cell::Int(line.instances as i64),
                Cell::Float(line.time),
                Cell::Float(line.compute),
                Cell::Float(line.communication),
                Cell::Float(line.exposed),
                Cell::maybe((line.time > 0.0).then(|| line.exposed / line.time)),
                Cell::Float(line.idle),
                Cell::maybe(line.wait),
                Cell::maybe(line.transfer),
                match last.get(line.member).filter(|_| whole && run.members.len() > 1) {
                    Some(last) => Cell::Int(*last as i64),
                    None => Cell::Missing,
                },
                Cell::maybe(line.speed.slowdown),
                Cell::maybe(line.speed.clock),
                Cell::maybe(line.speed.by_clock()),
                line.speed.limit.map_or(Cell::Missing, |(reason, _)| Cell::Name(reason.to_owned())),
                Cell::maybe(line.speed.limit.map(|(_, share)| share)),
            ]
        }));
    }
    let title = "Ranks by stage: medians over the instances that count".to_owned();
    Dataset { id: "ranks", title, columns, rows }
}
