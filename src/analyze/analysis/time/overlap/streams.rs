//! What runs at the same time on one GPU: one sweep over starts and ends.

use std::collections::BTreeMap;

use crate::Context;
use crate::engine::tiers::tier;
use rooflens_session::{Ns, ProcessId};
use rooflens_units::Ratio;

/// Streams whose pairs are distinguished; the busiest ones.
const MAX_STREAMS: usize = 8;

/// A stream of a process.
pub type Stream = (ProcessId, u64);

/// Kinds of operations by number: computing kernels and whole graphs, collectives, copies and memsets.
const KINDS: usize = 3;

/// Times in which operations of one GPU run at once, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlap {
    /// At least one operation runs.
    pub busy: Ns,
    /// Operations of one, of two, and of three or more streams run.
    pub by_streams: [Ns; 3],
    /// Two operations or more run, of whatever streams.
    pub concurrent: Ns,
    /// Operations of two kinds run, by their numbers (0 computing, 1 collectives, 2 copies), the smaller first; for one
    /// kind with itself two or more operations of it.
    pub kinds: [[Ns; KINDS]; KINDS],
    /// Streams with operations that last, by their sum of durations, the greatest first.
    pub streams: Vec<(Stream, Ns)>,
    /// Both of two streams run, by their places in `streams`, the smaller first.
    pub pairs: BTreeMap<(usize, usize), Ns>,
}

/// What runs now.
struct Now {
    kinds: [u32; KINDS],
    operations: u32,
    /// Operations by stream, and how many streams have some.
    streams: Vec<u32>,
    active: usize,
    /// Those of them whose pairs are distinguished.
    pairs: Vec<usize>,
}

/// Start or end of an operation.
#[derive(Clone, Copy)]
struct Event {
    time: Ns,
    /// Ends come before starts, so that what touches does not overlap.
    starts: bool,
    kind: usize,
    stream: usize,
}

impl Overlap {
    /// The overlap of operations of one GPU, given by their rows.
    pub fn of_ops(context: &Context<'_>, rows: &[usize]) -> Self {
        let ops = &context.facts.ops;
        let lasting = || {
            rows.iter()
                .copied()
                .filter(|row| ops.end[*row] > ops.start[*row])
        };
        let mut sums: BTreeMap<Stream, Ns> = BTreeMap::new();
        for row in lasting() {
            let sum = sums.entry((ops.process[row], ops.stream[row])).or_default();
            *sum = sum.saturating_add(ops.end[row] - ops.start[row]);
        }
        let mut streams: Vec<(Stream, Ns)> = sums.into_iter().collect();
        streams.sort_by_key(|(stream, sum)| (std::cmp::Reverse(*sum), *stream));
        let places: BTreeMap<Stream, usize> = streams
            .iter()
            .enumerate()
            .map(|(place, (stream, _))| (*stream, place))
            .collect();
        let event = |row: usize, starts: bool| {
            let stream = places
                .get(&(ops.process[row], ops.stream[row]))
                .copied()
                .unwrap_or(0);
            let time = if starts { ops.start[row] } else { ops.end[row] };
            Event {
                time,
                starts,
                kind: tier(context.session, context.facts, row) as usize,
                stream,
            }
        };
        let mut events: Vec<Event> = lasting().map(|row| event(row, true)).collect();
        events.extend(lasting().map(|row| event(row, false)));
        // Two runs that are sorted, or nearly so: the stable sort merges them.
        events.sort_by_key(|event| (event.time, event.starts));
        let mut overlap = Self {
            streams,
            ..Self::default()
        };
        overlap.sweep(&events);
        overlap
    }

    fn sweep(&mut self, events: &[Event]) {
        let mut now = Now {
            kinds: [0; KINDS],
            operations: 0,
            streams: vec![0; self.streams.len()],
            active: 0,
            pairs: Vec::new(),
        };
        let mut since = Ns::ZERO;
        for event in events {
            if event.time > since && now.operations > 0 {
                self.add(&now, event.time - since);
            }
            since = event.time;
            now.apply(event);
        }
    }

    fn add(&mut self, now: &Now, time: Ns) {
        self.busy += time;
        self.by_streams[now.active.clamp(1, 3) - 1] += time;
        if now.operations == 1 {
            return;
        }
        self.concurrent += time;
        for a in 0..KINDS {
            for b in a..KINDS {
                let overlaps = if a == b {
                    now.kinds[a] > 1
                } else {
                    now.kinds[a] > 0 && now.kinds[b] > 0
                };
                self.kinds[a][b] += if overlaps { time } else { Ns::ZERO };
            }
        }
        for (n, a) in now.pairs.iter().enumerate() {
            for b in &now.pairs[n + 1..] {
                *self.pairs.entry((*a.min(b), *a.max(b))).or_default() += time;
            }
        }
    }

    /// Share of busy time in which two operations or more run.
    pub fn concurrent_share(&self) -> Option<Ratio> {
        self.share(self.concurrent)
    }

    /// A time as a share of busy time.
    pub fn share(&self, time: Ns) -> Option<Ratio> {
        (self.busy > Ns::ZERO).then(|| Ratio::of(time, self.busy))
    }
}

impl Now {
    fn apply(&mut self, event: &Event) {
        let count = &mut self.streams[event.stream];
        if event.starts {
            (*count, self.operations) = (*count + 1, self.operations + 1);
            self.kinds[event.kind] += 1;
            if *count == 1 {
                self.active += 1;
                self.pairs
                    .extend(Some(event.stream).filter(|stream| *stream < MAX_STREAMS));
            }
        } else {
            (*count, self.operations) = (*count - 1, self.operations - 1);
            self.kinds[event.kind] -= 1;
            if *count == 0 {
                self.active -= 1;
                self.pairs.retain(|stream| *stream != event.stream);
            }
        }
    }
}
