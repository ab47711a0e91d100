//! Data sets about what runs at once.

use rooflens_schemas::Unit;

use super::overlap::{Overlap, Stream};
use super::{Line, share};
use crate::analysis::Context;
use crate::findings::{Cell, Column, Dataset};
use crate::model::Ns;

/// Pairs of kinds: column ids of time and share, headings, places in the matrix.
const PAIRS: [(&str, &str, &str, &str, usize, usize); 5] = [
    ("compute_compute_ns", "compute_compute_share", "Kernels twice", "Share", 0, 0),
    (
        "compute_communication_ns",
        "compute_communication_share",
        "Kernel + collective",
        "Share",
        0,
        1,
    ),
    ("compute_copy_ns", "compute_copy_share", "Kernel + copy", "Share", 0, 2),
    ("communication_copy_ns", "communication_copy_share", "Collective + copy", "Share", 1, 2),
    ("copy_copy_ns", "copy_copy_share", "Copies twice", "Share", 2, 2),
];

fn start(context: &Context<'_>, line: &Line) -> Vec<Cell> {
    let session = context.session;
    vec![
        match line.stage {
            Some(_) => Cell::Name(line.stage_name(context).to_owned()),
            None => Cell::Text(line.stage_name(context).to_owned()),
        },
        Cell::Name(session.pass_name(line.pass).to_owned()),
        Cell::Int(i64::from(line.ordinal(context))),
    ]
}

fn start_columns() -> Vec<Column> {
    vec![
        Column::text("stage", "Stage"),
        Column::text("pass", "Pass"),
        Column::new("gpu", "GPU", Unit::Count),
    ]
}

/// The first columns that pages show: the pass where there are several.
pub(super) fn shown_start(lines: &[Line]) -> Vec<&'static str> {
    let several = lines.iter().any(|line| line.pass != lines[0].pass);
    let columns = [Some("stage"), several.then_some("pass"), Some("gpu")];
    columns.into_iter().flatten().collect()
}

/// Columns that pages show: of the pairs those that occur.
pub(super) fn shown_columns(lines: &[Line]) -> Vec<&'static str> {
    let mut columns = shown_start(lines);
    columns.extend(["streams", "busy_ns", "concurrent_ns", "concurrent_share"]);
    let occurs = |a: usize, b: usize| lines.iter().any(|line| line.overlap.kinds[a][b] > 0);
    let pairs = PAIRS.iter().filter(|(.., a, b)| occurs(*a, *b));
    columns.extend(pairs.map(|(id, ..)| *id));
    columns
}

/// Times by number of streams and by pairs of kinds.
pub(super) fn concurrency(context: &Context<'_>, lines: &[Line]) -> Dataset {
    let time = |id, title| Column::new(id, title, Unit::Nanoseconds);
    let ratio = |id, title| Column::new(id, title, Unit::Ratio);
    let mut columns = start_columns();
    columns.extend([
        Column::new("streams", "Streams", Unit::Count),
        time("busy_ns", "Busy"),
        time("one_stream_ns", "One stream"),
        time("two_streams_ns", "Two streams"),
        time("more_streams_ns", "Three or more"),
        time("concurrent_ns", "At once"),
        ratio("concurrent_share", "Share"),
    ]);
    for (id, share_id, title, share_title, _, _) in PAIRS {
        columns.extend([time(id, title), ratio(share_id, share_title)]);
    }
    Dataset {
        id: "concurrency",
        title: "Operations that run at once".to_owned(),
        columns,
        rows: lines.iter().map(|line| row(context, line)).collect(),
    }
}

fn row(context: &Context<'_>, line: &Line) -> Vec<Cell> {
    let found = &line.overlap;
    let mut row = start(context, line);
    row.extend([Cell::Int(found.streams.len() as i64), Cell::Int(found.busy)]);
    row.extend(found.by_streams.iter().map(|time| Cell::Int(*time)));
    row.extend([Cell::Int(found.concurrent), Cell::maybe(found.concurrent_share())]);
    for (.., a, b) in PAIRS {
        let time = found.kinds[a][b];
        row.extend([Cell::Int(time), Cell::maybe(share(time, found.busy))]);
    }
    row
}

/// Pairs of streams that work at once, the greatest overlap of each line first.
pub(super) fn stream_overlap(context: &Context<'_>, lines: &[Line]) -> Dataset {
    let mut columns = start_columns();
    columns.extend([
        Column::text("stream", "Stream"),
        Column::text("other", "Other stream"),
        Column::new("overlap_ns", "At once", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
    ]);
    let mut rows = Vec::new();
    for line in lines {
        let mut pairs: Vec<(&(usize, usize), &Ns)> = line.overlap.pairs.iter().collect();
        pairs.sort_by_key(|(pair, time)| (std::cmp::Reverse(**time), **pair));
        rows.extend(pairs.into_iter().map(|(pair, time)| pair_row(context, line, *pair, *time)));
    }
    let title = "Streams that work at once".to_owned();
    Dataset { id: "stream_overlap", title, columns, rows }
}

fn pair_row(context: &Context<'_>, line: &Line, (a, b): (usize, usize), time: Ns) -> Vec<Cell> {
    let streams = &line.overlap.streams;
    let mut row = start(context, line);
    row.extend([
        Cell::Text(name(context, &line.overlap, streams[a].0)),
        Cell::Text(name(context, &line.overlap, streams[b].0)),
        Cell::Int(time),
        // Of two streams the one with the higher place is less busy.
        Cell::maybe(share(time, streams[b].1)),
    ]);
    row
}

/// The stream's number, with the process where there are several.
fn name(context: &Context<'_>, overlap: &Overlap, (process, stream): Stream) -> String {
    let several = overlap.streams.iter().any(|((other, _), _)| *other != process);
    let pid = context.session.processes.pid[process.index()];
    if several { format!("{stream} of process {pid}") } else { stream.to_string() }
}
