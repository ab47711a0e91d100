//! What lies within what on the host: spans within spans, and CUDA calls within spans, by thread.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use rooflens_session::{ApiCalls, Ns, ThreadId};

/// A stretch of time on a thread of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Thread.
    pub thread: ThreadId,
    /// Start, nanoseconds.
    pub start: Ns,
    /// End, nanoseconds.
    pub end: Ns,
}

impl Span {
    /// How long it lasts, nanoseconds.
    pub fn duration(&self) -> Ns {
        self.end.saturating_sub(self.start).max(Ns::ZERO)
    }
}

/// How spans nest; all but `order` and `of_call` by the spans' numbers.
#[derive(Clone, Debug, Default)]
pub struct Nesting {
    /// Spans by (thread, start, end descending, number): each before those within it.
    pub order: Vec<u32>,
    /// The innermost span around each.
    pub parent: Vec<Option<u32>>,
    /// Time outside of spans and CUDA calls within, nanoseconds.
    pub own: Vec<Ns>,
    /// Time of the CUDA calls that it makes itself, nanoseconds.
    pub calls: Vec<Ns>,
    /// The innermost span around the start of each CUDA call, by `ApiCallId`.
    pub of_call: Vec<Option<u32>>,
}

impl Nesting {
    /// Nests spans by thread with one sweep over spans and calls.
    pub fn new(spans: &[Span], calls: &ApiCalls) -> Self {
        let mut nesting = Self {
            order: Vec::with_capacity(spans.len()),
            parent: vec![None; spans.len()],
            own: spans.iter().map(Span::duration).collect(),
            calls: vec![Ns::ZERO; spans.len()],
            of_call: vec![None; calls.len()],
        };
        let key = |span: u32| {
            let Span { start, end, .. } = spans[span as usize];
            (start, std::cmp::Reverse(end), span)
        };
        let threads = spans.iter().map(|span| span.thread);
        let thread_count = threads.clone().max().map_or(0, |last| last.index() + 1);
        let mut spans_of = vec![Vec::new(); thread_count];
        for (row, thread) in threads.enumerate() {
            // Fewer than 2^32: each is a row of a table.
            spans_of[thread.index()].push(row as u32);
        }
        let mut calls_of = vec![Vec::new(); thread_count];
        for (row, thread) in calls.thread.iter().enumerate() {
            // Nothing is around calls of threads without spans.
            if spans_of
                .get(thread.index())
                .is_some_and(|spans| !spans.is_empty())
            {
                calls_of[thread.index()].push(row as u32);
            }
        }
        for (mut spans_of, mut calls_of) in spans_of.into_iter().zip(calls_of) {
            // Rows are nearly in order, which stable sorting makes use of.
            spans_of.sort_by_key(|row| key(*row));
            calls_of.sort_by_key(|row| calls.start[*row as usize]);
            nesting.sweep(spans, &spans_of, calls, &calls_of);
            nesting.order.extend(spans_of);
        }
        nesting
    }

    /// Spans with those around them, each before the one around it.
    pub fn innermost_first(&self) -> impl Iterator<Item = (usize, Option<u32>)> + '_ {
        let order = self.order.iter().rev().map(|span| *span as usize);
        order.map(|span| (span, self.parent[span]))
    }

    /// Which spans have one of the same key around them; keys by the spans' numbers.
    pub fn recursive<K: Copy + Eq + Hash>(&self, keys: &[K]) -> Vec<bool> {
        let mut recursive = vec![false; keys.len()];
        // Spans around the present one, outermost first, and how many of each key.
        let mut stack: Vec<u32> = Vec::new();
        let mut open: FxHashMap<K, u32> = FxHashMap::default();
        for span in self.order.iter().copied() {
            while stack.last().copied() != self.parent[span as usize] {
                let Some(closed) = stack.pop() else { break };
                if let Some(count) = open.get_mut(&keys[closed as usize]) {
                    *count -= 1;
                }
            }
            let of_key = open.entry(keys[span as usize]).or_default();
            recursive[span as usize] = *of_key > 0;
            *of_key += 1;
            stack.push(span);
        }
        recursive
    }

    fn sweep(&mut self, spans: &[Span], spans_of: &[u32], calls: &ApiCalls, calls_of: &[u32]) {
        // Open spans, outermost first.
        let mut stack: Vec<u32> = Vec::new();
        let mut calls_of = calls_of.iter().copied().peekable();
        for span in spans_of.iter().copied() {
            let Span { start, end, .. } = spans[span as usize];
            while let Some(call) = calls_of.next_if(|call| calls.start[*call as usize] < start) {
                self.call(spans, &mut stack, calls, call);
            }
            let parent = top(spans, &mut stack, start);
            if let Some(parent) = parent {
                self.take(spans, parent, start, end);
            }
            self.parent[span as usize] = parent;
            stack.push(span);
        }
        calls_of.for_each(|call| self.call(spans, &mut stack, calls, call));
    }

    fn call(&mut self, spans: &[Span], stack: &mut Vec<u32>, calls: &ApiCalls, call: u32) {
        let row = call as usize;
        let innermost = top(spans, stack, calls.start[row]);
        self.of_call[row] = innermost;
        // A call within a call is part of the outer one.
        if let Some(span) = innermost.filter(|_| !calls.nested[row]) {
            let taken = self.take(spans, span, calls.start[row], calls.end[row]);
            let time = &mut self.calls[span as usize];
            *time = time.saturating_add(taken);
        }
    }

    /// Takes the part of [start, end) that lies in a span from its own time.
    fn take(&mut self, spans: &[Span], span: u32, start: Ns, end: Ns) -> Ns {
        let taken = end
            .min(spans[span as usize].end)
            .saturating_sub(start)
            .max(Ns::ZERO);
        let self_time = &mut self.own[span as usize];
        // Spans within that overlap one another would take their common part twice.
        *self_time = self_time.saturating_sub(taken).max(Ns::ZERO);
        taken
    }
}

/// The innermost span that is open at `time`; those that have ended are closed.
fn top(spans: &[Span], stack: &mut Vec<u32>, time: Ns) -> Option<u32> {
    while stack
        .last()
        .is_some_and(|top| spans[*top as usize].end <= time)
    {
        stack.pop();
    }
    stack.last().copied()
}

/// For each moment of a thread the row of the innermost span that is open then; spans of a thread are nested.
pub fn innermost(
    queries: &[(ThreadId, Ns)],
    thread: &[ThreadId],
    start: &[Ns],
    end: &[Ns],
) -> Vec<Option<usize>> {
    let mut innermost = vec![None; queries.len()];
    let mut order: Vec<usize> = (0..queries.len()).collect();
    order.sort_unstable_by_key(|query| (queries[*query], *query));
    let (Some(first), Some(last)) = (order.first(), order.last()) else {
        return innermost;
    };
    let (first, last) = (queries[*first], queries[*last]);
    let mut spans: Vec<usize> = (0..thread.len())
        .filter(|row| thread[*row] >= first.0 && (thread[*row], start[*row]) <= last)
        .collect();
    spans.sort_unstable_by_key(|row| {
        (
            thread[*row],
            start[*row],
            std::cmp::Reverse(end[*row]),
            *row,
        )
    });
    let mut spans = spans.into_iter().peekable();
    let mut open: Vec<usize> = Vec::new();
    for query in order {
        let (on, time) = queries[query];
        while let Some(row) = spans.next_if(|row| (thread[*row], start[*row]) <= (on, time)) {
            while open
                .pop_if(|last| thread[*last] != thread[row] || end[*last] <= start[row])
                .is_some()
            {}
            open.push(row);
        }
        while open
            .pop_if(|last| thread[*last] != on || end[*last] <= time)
            .is_some()
        {}
        innermost[query] = open.last().copied();
    }
    innermost
}
