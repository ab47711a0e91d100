//! What is open on a thread of the host at each moment: ranges, operators, functions, calls.
//!
//! Each thread has one list of moments at which the innermost span changes. Spans with the same names around them share
//! a path, so that a loop of thousands of iterations has few paths.

use std::cell::Cell;
use std::cmp::Reverse;
use std::ops::Deref;

use rooflens_schemas::marks;
use rooflens_session::{Ns, Session, StrId, ThreadId};
use rustc_hash::FxHashMap;

use crate::engine::intervals::Interval;

/// What the host was in, by the name in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A range of the workload or of a library.
    Range(StrId),
    /// A mark of the modules that the capture injects.
    Mark(StrId),
    /// An operator.
    Operator(StrId),
    /// A function of Python.
    Frame(StrId),
    /// A call of CUDA.
    Call(StrId),
    /// A call of the operating system's libraries.
    OsCall(StrId),
}

impl Source {
    /// The name in its table.
    pub const fn name(self) -> StrId {
        match self {
            Self::Range(name)
            | Self::Mark(name)
            | Self::Operator(name)
            | Self::Frame(name)
            | Self::Call(name)
            | Self::OsCall(name) => name,
        }
    }
}

/// Parts of the names of the calls that begin and end the capture of a stream into a CUDA graph.
const CAPTURE_EDGES: [&str; 2] = ["StreamBeginCapture", "StreamEndCapture"];

/// A path of sources: the number of its innermost one.
pub(super) type PathId = u32;

/// The path on which nothing is open.
pub(super) const NOTHING: PathId = 0;

/// A source, and the path around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathNode {
    pub(super) source: Source,
    pub(super) parent: PathId,
}

/// A span of a thread.
struct Span {
    start: Ns,
    end: Reverse<Ns>,
    source: Source,
}

/// Elements by time. Most searches ascend, so each starts where the one before it ended.
pub(super) struct Ascending<T> {
    times: Vec<Ns>,
    elements: Vec<T>,
    place: Cell<usize>,
}

impl<T> Ascending<T> {
    pub(super) fn new((times, elements): (Vec<Ns>, Vec<T>)) -> Self {
        let place = Cell::new(0);
        Self {
            times,
            elements,
            place,
        }
    }

    /// Number of elements up to a moment.
    pub(super) fn until(&self, moment: Ns) -> usize {
        let passed = |time: &Ns| *time <= moment;
        let (before, after) = self.times.split_at(self.place.get());
        let place = if before.last().is_some_and(|last| *last > moment) {
            before.partition_point(passed)
        } else {
            let mut near = 1;
            while after.get(near).is_some_and(passed) {
                near *= 2;
            }
            let near = after.get(..near).unwrap_or(after);
            before.len() + near.partition_point(passed)
        };
        self.place.set(place);
        place
    }

    /// The last element up to a moment.
    pub(super) fn at(&self, moment: Ns) -> Option<&T> {
        self.elements[..self.until(moment)].last()
    }
}

impl<T> Deref for Ascending<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

/// What is open on the threads that issue GPU work.
pub(super) struct Open {
    /// The path that is open from each moment on, by thread.
    threads: Vec<Ascending<PathId>>,
    /// By number of the path, less one: the path on which nothing is open has no node.
    nodes: Vec<PathNode>,
}

impl Open {
    /// Finds what is open on some threads.
    pub(super) fn new(session: &Session, is_wanted: &[bool]) -> Self {
        let mut spans: Vec<Vec<Span>> = session.threads.ids().map(|_| Vec::new()).collect();
        let mut add = |thread: ThreadId, (start, end): Interval, source: Source| {
            if is_wanted[thread.index()] && start < end {
                let end = Reverse(end);
                spans[thread.index()].push(Span { start, end, source });
            }
        };
        macro_rules! spans_of {
            ($table:ident, $source:expr) => {
                let table = &session.$table;
                for row in 0..table.len() {
                    let time = (table.start[row], table.end[row]);
                    add(table.thread[row], time, $source(row));
                }
            };
        }
        let is_mark = |row: usize| session.text(session.ranges.domain[row]) == marks::DOMAIN;
        spans_of!(ranges, |row: usize| match is_mark(row) {
            true => Source::Mark(session.ranges.name[row]),
            false => Source::Range(session.ranges.name[row]),
        });
        spans_of!(operators, |row: usize| Source::Operator(
            session.operators.name[row]
        ));
        spans_of!(frames, |row: usize| Source::Frame(session.frames.name[row]));
        spans_of!(api_calls, |row: usize| Source::Call(
            session.api_calls.name[row]
        ));
        spans_of!(os_calls, |row: usize| Source::OsCall(
            session.os_calls.name[row]
        ));
        for (thread, time, name) in stream_captures(session) {
            add(thread, time, Source::Call(name));
        }
        let mut paths = Paths::default();
        let changes = spans.into_iter().map(|spans| changes(spans, &mut paths));
        let threads = changes.map(Ascending::new);
        Self {
            threads: threads.collect(),
            nodes: paths.nodes,
        }
    }

    /// The node of a path; none where nothing is open.
    pub(super) fn node(&self, path: PathId) -> Option<&PathNode> {
        self.nodes.get((path as usize).checked_sub(1)?)
    }

    /// All nodes, each after the one around it, with the numbers of their paths.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (PathId, &PathNode)> {
        (1..).zip(&self.nodes)
    }

    /// The sources of a path, the innermost first.
    pub(super) fn sources(&self, path: PathId) -> impl Iterator<Item = Source> {
        let around = |node: &&PathNode| self.node(node.parent);
        std::iter::successors(self.node(path), around).map(|node| node.source)
    }

    /// The path that is open at a moment.
    pub(super) fn at(&self, thread: ThreadId, time: Ns) -> PathId {
        let path = self.threads[thread.index()].at(time);
        path.copied().unwrap_or(NOTHING)
    }

    /// The parts of a time by the path that is open in them.
    pub(super) fn within(
        &self,
        thread: ThreadId,
        time: Interval,
    ) -> impl Iterator<Item = (Interval, PathId)> {
        let changes = &self.threads[thread.index()];
        let (mut start, mut next) = (time.0, changes.until(time.0));
        std::iter::from_fn(move || {
            if start >= time.1 {
                return None;
            }
            let path = next.checked_sub(1).map_or(NOTHING, |last| changes[last]);
            let end = changes
                .times
                .get(next)
                .map_or(time.1, |end| time.1.min(*end));
            let part = (std::mem::replace(&mut start, end), end);
            next += 1;
            Some((part, path))
        })
    }
}

/// Paths by their innermost source and the path around it.
#[derive(Default)]
struct Paths {
    nodes: Vec<PathNode>,
    numbers: FxHashMap<(PathId, Source), PathId>,
}

impl Paths {
    fn number(&mut self, parent: PathId, source: Source) -> PathId {
        let nodes = &mut self.nodes;
        *self.numbers.entry((parent, source)).or_insert_with(|| {
            nodes.push(PathNode { source, parent });
            nodes.len() as PathId
        })
    }
}

/// The moments at which the innermost span of a thread changes.
fn changes(mut spans: Vec<Span>, paths: &mut Paths) -> (Vec<Ns>, Vec<PathId>) {
    // A stable sort: of equal spans the one of the outer kind comes first.
    spans.sort_by_key(|span| (span.start, span.end));
    // Each span changes what is open when it starts, and nearly always when it ends.
    let count = 2 * spans.len();
    let (mut times, mut open) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut push = |time: Ns, path: PathId| match open.last_mut() {
        Some(last) if *last == path => {}
        Some(last) if times.last() == Some(&time) => *last = path,
        _ => {
            times.push(time);
            open.push(path);
        }
    };
    // End and path of the spans that are open, the outermost first.
    let mut stack: Vec<(Ns, PathId)> = Vec::new();
    let close = |stack: &mut Vec<(Ns, PathId)>, until: Ns, push: &mut dyn FnMut(Ns, PathId)| {
        while let Some((end, _)) = stack.pop_if(|open| open.0 <= until) {
            push(end, stack.last().map_or(NOTHING, |open| open.1));
        }
    };
    for span in spans {
        close(&mut stack, span.start, &mut push);
        let parent = stack.last().map_or(NOTHING, |open| open.1);
        let path = paths.number(parent, span.source);
        push(span.start, path);
        // A span that outlives the one around it ends with that one.
        let end = stack
            .last()
            .map_or(span.end.0, |open| span.end.0.min(open.0));
        stack.push((end, path));
    }
    close(&mut stack, Ns::MAX, &mut push);
    (times, open)
}

/// The times in which threads capture a stream into a CUDA graph: from the call that begins it to the one that ends it.
fn stream_captures(session: &Session) -> Vec<(ThreadId, Interval, StrId)> {
    let calls = &session.api_calls;
    let mut edges: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut rows: Vec<usize> = Vec::new();
    for row in 0..calls.len() {
        let name = calls.name[row];
        let is_edge = || {
            CAPTURE_EDGES
                .iter()
                .any(|edge| session.text(name).contains(edge))
        };
        if !calls.nested[row] && *edges.entry(name).or_insert_with(is_edge) {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| (calls.thread[*row], calls.start[*row]));
    let mut captures = Vec::new();
    let is_begin = |row: usize| session.text(calls.name[row]).contains(CAPTURE_EDGES[0]);
    for pair in rows.windows(2) {
        let (begin, end) = (pair[0], pair[1]);
        if calls.thread[begin] == calls.thread[end] && is_begin(begin) && !is_begin(end) {
            let time = (calls.start[begin], calls.end[end]);
            captures.push((calls.thread[begin], time, calls.name[begin]));
        }
    }
    captures
}
