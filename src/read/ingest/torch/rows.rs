//! Rows of the events: plain rows whose texts and lanes are numbers, first within a block of
//! the file, then within the whole file.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use rooflens_session::{ApiLevel, Dim3, Ns, Strings};

/// A process or thread as the trace names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// By its number.
    Number(i64),
    /// By a text.
    Text(u32),
}

/// `pid` and `tid`: a host thread, or a device and its stream.
pub(super) type Lane = (Key, Key);

/// When, what, where; `name` is a text and `lane` a lane of the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) name: u32,
    pub(super) lane: u32,
}

/// The fields that all GPU work shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuSpan {
    pub(super) span: Span,
    pub(super) device: Option<u32>,
    pub(super) stream: Option<u64>,
    pub(super) correlation: Option<i64>,
    pub(super) graph_node: Option<u64>,
    pub(super) graph: Option<u64>,
}

#[derive(Debug)]
pub(super) struct KernelRow {
    pub(super) gpu: GpuSpan,
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    pub(super) registers: Option<u32>,
    pub(super) shared_bytes: Option<u32>,
}

/// The collective that a kernel executes.
#[derive(Debug)]
pub(super) struct CollectiveRow {
    /// Index of the kernel's row.
    pub(super) kernel: usize,
    pub(super) operation: u32,
    pub(super) dtype: u32,
    pub(super) group: u32,
    pub(super) ranks: u32,
    pub(super) elements_in: Option<u64>,
    pub(super) elements_out: Option<u64>,
    pub(super) group_size: Option<u32>,
    pub(super) sequence: Option<u64>,
    pub(super) peer: Option<u32>,
}

#[derive(Debug)]
pub(super) struct CopyRow {
    pub(super) gpu: GpuSpan,
    pub(super) memset: bool,
    pub(super) bytes: Option<u64>,
}

/// A wait; its name is what waits for what.
#[derive(Debug)]
pub(super) struct SyncRow {
    pub(super) gpu: GpuSpan,
}

#[derive(Debug)]
pub(super) struct CallRow {
    pub(super) span: Span,
    pub(super) level: ApiLevel,
    pub(super) correlation: Option<i64>,
}

#[derive(Debug)]
pub(super) struct OperatorRow {
    pub(super) span: Span,
    pub(super) external: Option<i64>,
    pub(super) shapes: u32,
    pub(super) strides: u32,
    pub(super) types: u32,
    pub(super) inputs: u32,
}

/// Where autograd stood when an operator began.
#[derive(Debug)]
pub(super) struct SequenceRow {
    /// Index of the operator's row.
    pub(super) operator: usize,
    /// Of a backward operator the number of its node; of a forward one that of the node that comes next.
    pub(super) number: i64,
    /// The framework's number of the thread of the forward pass; 0 for operators that are no backward ones.
    pub(super) forward_thread: u32,
}

#[derive(Debug)]
pub(super) struct MemoryRow {
    pub(super) time: Ns,
    pub(super) lane: u32,
    pub(super) device: Option<u32>,
    pub(super) address: u64,
    pub(super) bytes: i64,
    pub(super) allocated: Option<i64>,
    pub(super) reserved: Option<i64>,
}

/// One end of an arrow: between a call and GPU work, or a forward and a backward operator.
#[derive(Debug)]
pub(super) struct FlowRow {
    pub(super) time: Ns,
    pub(super) lane: u32,
    pub(super) id: i64,
}

/// The subject of a metadata event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The process of the lane.
    Process,
    /// The label of the process: `CPU`, or a GPU.
    ProcessKind,
    /// The thread of the lane.
    Thread,
}

#[derive(Debug)]
pub(super) struct LabelRow {
    pub(super) label: Label,
    pub(super) lane: u32,
    pub(super) text: u32,
}

/// Events that could not be kept, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Events of a known kind without a start or length that can be read.
    pub(super) untimed: u64,
    /// Allocator events without a size.
    pub(super) unsized_memory: u64,
    /// Events that are not valid JSON.
    pub(super) invalid: u64,
    /// Where in the file the first of them begins.
    pub(super) first_invalid: Option<u64>,
}

impl Losses {
    fn add(&mut self, later: &Self) {
        self.untimed += later.untimed;
        self.unsized_memory += later.unsized_memory;
        self.invalid += later.invalid;
        self.first_invalid = self.first_invalid.or(later.first_invalid);
    }
}

/// All rows of a block, or of the file.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) kernels: Vec<KernelRow>,
    pub(super) collectives: Vec<CollectiveRow>,
    pub(super) copies: Vec<CopyRow>,
    pub(super) syncs: Vec<SyncRow>,
    pub(super) calls: Vec<CallRow>,
    pub(super) operators: Vec<OperatorRow>,
    pub(super) sequences: Vec<SequenceRow>,
    pub(super) annotations: Vec<Span>,
    pub(super) frames: Vec<Span>,
    pub(super) memory: Vec<MemoryRow>,
    pub(super) flow_starts: Vec<FlowRow>,
    pub(super) flow_ends: Vec<FlowRow>,
    pub(super) gradient_starts: Vec<FlowRow>,
    pub(super) gradient_ends: Vec<FlowRow>,
    pub(super) labels: Vec<LabelRow>,
    /// Events of unknown phase or category, by both.
    pub(super) unknown: BTreeMap<(String, String), u64>,
    pub(super) losses: Losses,
    /// Events in all.
    pub(super) events: u64,
}

/// The rows of a block with the texts and lanes that their numbers mean.
#[derive(Debug, Default)]
pub(super) struct BlockRows {
    pub(super) rows: Rows,
    pub(super) texts: Vec<Box<str>>,
    pub(super) lanes: Vec<Lane>,
}

/// The rows of a file with its texts and lanes.
#[derive(Debug, Default)]
pub(super) struct FileRows {
    pub(super) rows: Rows,
    pub(super) texts: Strings,
    pub(super) lanes: Vec<Lane>,
    lane_index: FxHashMap<Lane, u32>,
}

/// From the numbers of a block to those of the file.
struct Map {
    texts: Vec<u32>,
    lanes: Vec<u32>,
}

impl Map {
    fn span(&self, span: &mut Span) {
        span.name = self.texts[span.name as usize];
        span.lane = self.lanes[span.lane as usize];
    }
}

/// Moves rows of a block to those of the file.
fn take<T>(into: &mut Vec<T>, mut from: Vec<T>, renumber: impl Fn(&mut T)) {
    from.iter_mut().for_each(renumber);
    into.append(&mut from);
}

impl FileRows {
    /// Bytes that rows and texts take, about.
    pub(super) fn bytes(&self) -> u64 {
        let rows = &self.rows;
        let rows = size_of_val(&*rows.kernels)
            + size_of_val(&*rows.collectives)
            + size_of_val(&*rows.copies)
            + size_of_val(&*rows.syncs)
            + size_of_val(&*rows.calls)
            + size_of_val(&*rows.operators)
            + size_of_val(&*rows.sequences)
            + size_of_val(&*rows.annotations)
            + size_of_val(&*rows.frames)
            + size_of_val(&*rows.memory)
            + size_of_val(&*rows.flow_starts)
            + size_of_val(&*rows.flow_ends)
            + size_of_val(&*rows.gradient_starts)
            + size_of_val(&*rows.gradient_ends)
            + size_of_val(&*rows.labels);
        rows as u64 + self.texts.bytes()
    }

    /// Adds the rows of the next block.
    pub(super) fn absorb(&mut self, block: BlockRows) {
        let map = self.map(&block);
        let (all, rows) = (&mut self.rows, block.rows);
        let (kernels, operators) = (all.kernels.len(), all.operators.len());
        take(&mut all.collectives, rows.collectives, |row| {
            row.kernel += kernels;
            for text in [
                &mut row.operation,
                &mut row.dtype,
                &mut row.group,
                &mut row.ranks,
            ] {
                *text = map.texts[*text as usize];
            }
        });
        take(&mut all.kernels, rows.kernels, |row| {
            map.span(&mut row.gpu.span)
        });
        take(&mut all.copies, rows.copies, |row| {
            map.span(&mut row.gpu.span)
        });
        take(&mut all.syncs, rows.syncs, |row| {
            map.span(&mut row.gpu.span)
        });
        take(&mut all.calls, rows.calls, |row| map.span(&mut row.span));
        take(&mut all.operators, rows.operators, |row| {
            map.span(&mut row.span);
            let texts = [
                &mut row.shapes,
                &mut row.strides,
                &mut row.types,
                &mut row.inputs,
            ];
            for text in texts {
                *text = map.texts[*text as usize];
            }
        });
        take(&mut all.sequences, rows.sequences, |row| {
            row.operator += operators
        });
        take(&mut all.annotations, rows.annotations, |row| map.span(row));
        take(&mut all.frames, rows.frames, |row| map.span(row));
        take(&mut all.memory, rows.memory, |row| {
            row.lane = map.lanes[row.lane as usize]
        });
        let flow = |row: &mut FlowRow| row.lane = map.lanes[row.lane as usize];
        take(&mut all.flow_starts, rows.flow_starts, flow);
        take(&mut all.flow_ends, rows.flow_ends, flow);
        take(&mut all.gradient_starts, rows.gradient_starts, flow);
        take(&mut all.gradient_ends, rows.gradient_ends, flow);
        take(&mut all.labels, rows.labels, |row| {
            row.lane = map.lanes[row.lane as usize];
            row.text = map.texts[row.text as usize];
        });
        for (kind, count) in rows.unknown {
            *all.unknown.entry(kind).or_default() += count;
        }
        all.losses.add(&rows.losses);
        all.events += rows.events;
    }

    fn map(&mut self, block: &BlockRows) -> Map {
        let texts: Vec<u32> = block
            .texts
            .iter()
            .map(|text| self.texts.intern(text).0)
            .collect();
        let number = |key: Key| match key {
            Key::Number(_) => key,
            Key::Text(text) => Key::Text(texts[text as usize]),
        };
        let lanes = block.lanes.iter().map(|lane| {
            let lane = (number(lane.0), number(lane.1));
            let next = self.lanes.len() as u32;
            *self.lane_index.entry(lane).or_insert_with(|| {
                self.lanes.push(lane);
                next
            })
        });
        Map {
            lanes: lanes.collect(),
            texts,
        }
    }

    /// The text of a number.
    pub(super) fn text(&self, text: u32) -> &str {
        self.texts.get(rooflens_session::StrId(text))
    }
}
