//! Data sets about what runs at once.

use super::name_of;
use crate::Context;
use rooflens_analysis::time::overlap::{Line, Overlap, Stream};
use rooflens_document::{Cell, Table};
use rooflens_session::{Arrange, Ns};

/// Pairs of kinds: column ids of time and share, heading, places in the matrix.
const PAIRS: [(&str, &str, usize, usize); 5] = [
    ("compute_compute_ns", "compute_compute_share", 0, 0),
    (
        "compute_communication_ns",
        "compute_communication_share",
        0,
        1,
    ),
    ("compute_copy_ns", "compute_copy_share", 0, 2),
    ("communication_copy_ns", "communication_copy_share", 1, 2),
    ("copy_copy_ns", "copy_copy_share", 2, 2),
];

/// Two streams that work at once, by their places in the line's streams, and for how long.
pub(super) struct Pair<'a> {
    line: &'a Line,
    streams: (usize, usize),
    time: Ns,
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
    let occurs = |a: usize, b: usize| lines.iter().any(|line| line.overlap.kinds[a][b] > Ns::ZERO);
    let pairs = PAIRS.iter().filter(|(.., a, b)| occurs(*a, *b));
    columns.extend(pairs.map(|(id, ..)| *id));
    columns
}

/// The columns that say which line a row is of.
fn start<'t>(context: &'t Context<'t>, table: Table<'t, Line>) -> Table<'t, Line> {
    let session = context.session;
    columns! { table, line: &Line => {
        text "stage" = stage_cell(context, line);
        name "pass" = session.pass_name(line.pass);
        count "gpu" = session.gpus.ordinal[line.gpu.index()];
    } }
}

/// The name of a stage is from the data; that of what is outside of stages is not.
fn stage_cell(context: &Context<'_>, line: &Line) -> Cell {
    let name = Cell::from(name_of(context, line));
    match line.stage {
        Some(_) => name.into_name(),
        None => name,
    }
}

/// Times by number of streams and by pairs of kinds.
pub(super) fn concurrency<'t>(context: &'t Context<'t>) -> Table<'t, Line> {
    let mut table = columns! { context, "concurrency", line: &Line => {
        let overlap = &line.overlap;
        with start(context) of line;
        count "streams" = overlap.streams.len();
        time "busy_ns" = overlap.busy;
        time "one_stream_ns" = overlap.by_streams[0];
        time "two_streams_ns" = overlap.by_streams[1];
        time "more_streams_ns" = overlap.by_streams[2];
        time "concurrent_ns" = overlap.concurrent;
        share "concurrent_share" = overlap.concurrent_share();
    } };
    for (id, share_id, a, b) in PAIRS {
        table = columns! { table, line: &Line => {
            time (id) = line.overlap.kinds[a][b];
            share (share_id) = line.overlap.share(line.overlap.kinds[a][b]);
        } };
    }
    table
}

/// Pairs of streams that work at once, the greatest overlap of each line first.
pub(super) fn pairs(lines: &[Line]) -> Vec<Pair<'_>> {
    let mut pairs_of_lines = Vec::new();
    for line in lines {
        let mut pairs: Vec<_> = line.overlap.pairs.iter().collect();
        pairs.arrange_by_key(|(pair, time)| (std::cmp::Reverse(**time), **pair));
        pairs_of_lines.extend(pairs.into_iter().map(|(streams, time)| Pair {
            line,
            streams: *streams,
            time: *time,
        }));
    }
    pairs_of_lines
}

/// The table of these pairs.
pub(super) fn stream_overlap<'t>(context: &'t Context<'t>) -> Table<'t, Pair<'t>> {
    columns! { context, "stream_overlap", pair: &Pair<'_> => {
        let overlap = &pair.line.overlap;
        let (first, second) = pair.streams;
        // Of two streams the one with the higher place is less busy.
        let (_, busy) = overlap.streams[second];
        with start(context) of pair.line;
        text "stream" = stream_name(context, overlap, overlap.streams[first].0);
        text "other" = stream_name(context, overlap, overlap.streams[second].0);
        time "overlap_ns" = pair.time;
        share "share" = (busy > Ns::ZERO).then(|| pair.time.time().0 / busy.time().0);
    } }
}

/// The stream's number, with the process where there are several.
fn stream_name(context: &Context<'_>, overlap: &Overlap, (process, stream): Stream) -> String {
    let several = overlap
        .streams
        .iter()
        .any(|((other, _), _)| *other != process);
    let pid = context.session.processes.pid[process.index()];
    if several {
        format!("{stream} of process {pid}")
    } else {
        stream.to_string()
    }
}
