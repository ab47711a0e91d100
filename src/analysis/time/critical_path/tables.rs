//! The path and the slack, added up.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::Unit;

use super::graph::Graph;
use super::rank;
use super::walk::{Piece, Segment};
use crate::analysis::Context;
use crate::analysis::engine::facts::{OpIndex, OpSource};
use crate::analysis::engine::stats::median;
use crate::analysis::engine::tiers::{Tier, tier};
use crate::findings::chart::Color;
use crate::findings::{Cell, Column, Dataset};
use crate::model::{ApiCallId, Ns, ProcessId};

/// What a piece of the path is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Category {
    Compute,
    Communication,
    Copy,
    Gap,
    Launch,
    Synchronize,
    Host,
    Unknown,
}

impl Category {
    const ALL: [Self; 8] = [
        Self::Compute,
        Self::Communication,
        Self::Copy,
        Self::Gap,
        Self::Launch,
        Self::Synchronize,
        Self::Host,
        Self::Unknown,
    ];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Compute => "computing kernels",
            Self::Communication => "communication",
            Self::Copy => "copies",
            Self::Gap => "gaps between operations",
            Self::Launch => "launching",
            Self::Synchronize => "other CUDA calls",
            Self::Host => "between CUDA calls",
            Self::Unknown => "unknown",
        }
    }

    pub(super) const fn metric(self) -> &'static str {
        match self {
            Self::Compute => "critical_path_share_compute",
            Self::Communication => "critical_path_share_communication",
            Self::Copy => "critical_path_share_copy",
            Self::Gap => "critical_path_share_gap",
            Self::Launch => "critical_path_share_launch",
            Self::Synchronize => "critical_path_share_calls",
            Self::Host => "critical_path_share_host",
            Self::Unknown => "critical_path_share_unknown",
        }
    }

    pub(super) const fn color(self) -> Color {
        match self {
            Self::Compute => Color::Gemm,
            Self::Communication => Color::Communication,
            Self::Copy => Color::Copy,
            Self::Gap => Color::Elementwise,
            Self::Launch => Color::Attention,
            Self::Synchronize => Color::Normalization,
            Self::Host => Color::Other,
            Self::Unknown => Color::Idle,
        }
    }
}

fn category(context: &Context<'_>, piece: Piece, issuing: &BTreeSet<ApiCallId>) -> Category {
    match piece {
        Piece::Op(op) => of_op(context, op),
        Piece::Gap(_) => Category::Gap,
        Piece::Launch(_) => Category::Launch,
        Piece::Call(call) if issuing.contains(&call) => Category::Launch,
        Piece::Call(_) | Piece::Return(_) => Category::Synchronize,
        Piece::Host(_) => Category::Host,
        Piece::Unknown => Category::Unknown,
    }
}

fn of_op(context: &Context<'_>, op: OpIndex) -> Category {
    match tier(context.session, context.facts, op as usize) {
        Tier::Compute => Category::Compute,
        Tier::Communication => Category::Communication,
        Tier::Copy => Category::Copy,
    }
}

/// Calls of the path that issue operations.
fn issuing(context: &Context<'_>, segments: &[Segment]) -> BTreeSet<ApiCallId> {
    let calls: BTreeSet<ApiCallId> = segments
        .iter()
        .filter_map(|segment| match segment.piece {
            Piece::Call(call) => Some(call),
            _ => None,
        })
        .collect();
    let issued = context.facts.ops.api_call.iter().flatten();
    issued.copied().filter(|call| calls.contains(call)).collect()
}

/// The time of each category; they add up to the path.
pub(super) fn by_category(context: &Context<'_>, segments: &[Segment]) -> Vec<(Category, Ns)> {
    let issuing = issuing(context, segments);
    let mut times: BTreeMap<Category, Ns> = Category::ALL.into_iter().map(|one| (one, 0)).collect();
    for segment in segments {
        *times.entry(category(context, segment.piece, &issuing)).or_default() += segment.length();
    }
    times.into_iter().collect()
}

/// One row per (name, category, rank), by time descending.
pub(super) fn path(context: &Context<'_>, segments: &[Segment]) -> Dataset {
    let issuing = issuing(context, segments);
    let whole: Ns = segments.iter().map(Segment::length).sum();
    let mut sums: BTreeMap<(Category, String, Option<u32>), (u64, Ns)> = BTreeMap::new();
    let mut ranks: BTreeMap<ProcessId, u32> = BTreeMap::new();
    for segment in segments {
        let process = process_of(context, segment.piece);
        let rank = process.map(|one| *ranks.entry(one).or_insert_with(|| rank(context, one)));
        let key =
            (category(context, segment.piece, &issuing), name_of(context, segment.piece), rank);
        let sum = sums.entry(key).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(segment.length());
    }
    let mut list: Vec<_> = sums.into_iter().collect();
    list.sort_by(|a, b| (b.1.1, &a.0).cmp(&(a.1.1, &b.0)));
    let row =
        |((category, name, rank), (count, time)): ((Category, String, Option<u32>), (u64, Ns))| {
            vec![
                match category {
                    Category::Gap | Category::Host | Category::Unknown => Cell::Text(name),
                    _ => Cell::Name(name),
                },
                Cell::Text(category.label().to_owned()),
                rank.map_or(Cell::Missing, |rank| Cell::Text(rank.to_string())),
                Cell::Int(count as i64),
                Cell::Int(time),
                Cell::maybe((whole > 0).then(|| time as f64 / whole as f64)),
            ]
        };
    let columns = vec![
        Column::text("name", "Name"),
        Column::text("category", "Category"),
        Column::text("rank", "Rank"),
        Column::new("count", "Count", Unit::Count),
        Column::new("time_ns", "Time on the path", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
    ];
    let rows = list.into_iter().map(row).collect();
    Dataset {
        id: "critical_path",
        title: "The critical path of one step".to_owned(),
        columns,
        rows,
    }
}

fn process_of(context: &Context<'_>, piece: Piece) -> Option<ProcessId> {
    match piece {
        Piece::Op(op) | Piece::Gap(op) | Piece::Launch(op) => {
            Some(context.facts.ops.process[op as usize])
        }
        Piece::Call(call) | Piece::Return(call) | Piece::Host(call) => {
            Some(context.session.api_calls.process[call.index()])
        }
        Piece::Unknown => None,
    }
}

fn name_of(context: &Context<'_>, piece: Piece) -> String {
    let session = context.session;
    let call_name = |call: ApiCallId| session.text(session.api_calls.name[call.index()]).to_owned();
    match piece {
        Piece::Op(op) => op_name(context, op),
        Piece::Gap(_) => "between operations".to_owned(),
        Piece::Launch(_) => "call to operation".to_owned(),
        Piece::Call(call) => call_name(call),
        Piece::Return(call) => format!("return of {}", call_name(call)),
        Piece::Host(_) => "between CUDA calls".to_owned(),
        Piece::Unknown => "before the first known call".to_owned(),
    }
}

fn op_name(context: &Context<'_>, op: OpIndex) -> String {
    let session = context.session;
    match context.facts.ops.source[op as usize] {
        OpSource::Launch(launch) => {
            let kernel = session.launches.kernel[launch.index()];
            context.facts.identities[kernel.index()].short.clone()
        }
        OpSource::Copy(copy) => session.copies.kind[copy.index()].label().to_owned(),
        OpSource::Graph(_) => "CUDA graph".to_owned(),
    }
}

/// One row per (tier, rank) of the step's operations.
pub(super) fn slack(
    context: &Context<'_>,
    graph: &Graph,
    segments: &[Segment],
    slack: &[Ns],
) -> Dataset {
    let mut on_path: BTreeMap<OpIndex, Ns> = BTreeMap::new();
    for segment in segments {
        if let Piece::Op(op) = segment.piece {
            *on_path.entry(op).or_default() += segment.length();
        }
    }
    let mut sums: BTreeMap<(Category, ProcessId), (Ns, Ns, Vec<f64>)> = BTreeMap::new();
    for (op, slack) in graph.ops.iter().zip(slack) {
        let key = (of_op(context, op.index), context.facts.ops.process[op.index as usize]);
        let sum = sums.entry(key).or_default();
        sum.0 = sum.0.saturating_add(op.end - op.start);
        sum.1 = sum.1.saturating_add(on_path.get(&op.index).copied().unwrap_or(0));
        sum.2.push(*slack as f64);
    }
    let row = |((category, process), (time, on_path, slack)): (
        (Category, ProcessId),
        (Ns, Ns, Vec<f64>),
    )| {
        let smallest = slack.iter().copied().fold(f64::INFINITY, f64::min);
        vec![
            Cell::Text(category.label().to_owned()),
            Cell::Text(rank(context, process).to_string()),
            Cell::Int(slack.len() as i64),
            Cell::Int(time),
            Cell::Int(on_path),
            Cell::Float(smallest),
            Cell::maybe(median(&slack)),
        ]
    };
    let columns = vec![
        Column::text("class", "Operations"),
        Column::text("rank", "Rank"),
        Column::new("count", "Count", Unit::Count),
        Column::new("time_ns", "Time", Unit::Nanoseconds),
        Column::new("on_path_ns", "on the path", Unit::Nanoseconds),
        Column::new("slack_min_ns", "Smallest slack", Unit::Nanoseconds),
        Column::new("slack_median_ns", "Median slack", Unit::Nanoseconds),
    ];
    let rows = sums.into_iter().map(row).collect();
    Dataset { id: "slack", title: "Slack of the operations of one step".to_owned(), columns, rows }
}
