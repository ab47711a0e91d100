//! Events into the rows of a block.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::event::{CollectiveArgs, Event, Memory};
use super::rows::{
    BlockRows, CallRow, CollectiveRow, CopyRow, FlowRow, GpuSpan, KernelRow, Key, Label, LabelRow,
    Lane, MemoryRow, OperatorRow, Rows, SequenceRow, Span, SyncRow,
};
use super::value::{Name, Text};
use rooflens_session::{ApiLevel, Ns};

/// Signs of an unknown phase or category that are kept.
const CLIP: usize = 32;

/// Rows under construction: texts and lanes are numbered as they come.
#[derive(Default)]
pub(super) struct Builder<'a> {
    pub(super) rows: Rows,
    texts: Vec<Box<str>>,
    names: FxHashMap<&'a str, u32>,
    json: FxHashMap<&'a str, u32>,
    /// The number of the empty text, which most operators have for some arguments.
    empty: Option<u32>,
    lanes: Vec<Lane>,
    lane_index: FxHashMap<Lane, u32>,
    last_lane: Option<(Lane, u32)>,
}

impl<'a> Builder<'a> {
    /// All rows.
    pub(super) fn finish(self) -> BlockRows {
        BlockRows {
            rows: self.rows,
            texts: self.texts,
            lanes: self.lanes,
        }
    }

    /// Adds an event.
    pub(super) fn push(&mut self, event: &mut Event<'a>) {
        self.rows.events += 1;
        match &*event.phase {
            "X" => self.push_interval(event),
            "i" | "I" => self.push_instant(event),
            "s" | "f" => self.push_flow(event),
            "M" => self.push_label(event),
            _ => self.push_unknown(event),
        }
    }

    fn push_interval(&mut self, event: &mut Event<'a>) {
        match &*event.category {
            "kernel" | "Kernel" => self.push_kernel(event),
            "gpu_memcpy" | "Memcpy" => self.push_copy(event, false),
            "gpu_memset" | "Memset" => self.push_copy(event, true),
            "cuda_runtime" | "Runtime" => self.push_call(event, ApiLevel::Runtime),
            "cuda_driver" | "Driver" => self.push_call(event, ApiLevel::Driver),
            "cuda_sync" => self.push_sync(event),
            "cpu_op" | "Operator" => self.push_operator(event),
            "user_annotation" => {
                let row = self.span(event);
                self.rows.annotations.extend(row);
            }
            "python_function" => {
                let row = self.span(event);
                self.rows.frames.extend(row);
            }
            // What the profiler says of itself, and the GPU's shadow of annotations.
            "overhead" | "Trace" | "gpu_user_annotation" | "cuda_profiler_range" => {}
            _ => self.push_unknown(event),
        }
    }

    fn push_kernel(&mut self, event: &mut Event<'a>) {
        let (grid, block) = (event.args.grid, event.args.block);
        let registers = narrow(event.args.registers);
        let shared_bytes = narrow(event.args.shared_bytes);
        let Some(gpu) = self.gpu_span(event) else {
            return;
        };
        if let Some(args) = event
            .args
            .collective
            .take()
            .filter(|args| !args.operation.is_empty())
        {
            self.push_collective(&args);
        }
        self.rows.kernels.push(KernelRow {
            gpu,
            grid,
            block,
            registers,
            shared_bytes,
        });
    }

    /// The collective of the kernel that is pushed next.
    fn push_collective(&mut self, args: &CollectiveArgs<'a>) {
        let wide = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let row = CollectiveRow {
            kernel: self.rows.kernels.len(),
            operation: self.name(&args.operation),
            dtype: self.name(&args.dtype),
            group: self.name(&args.group),
            ranks: self.name(&args.ranks),
            elements_in: wide(args.elements_in),
            elements_out: wide(args.elements_out),
            group_size: narrow(args.group_size).filter(|size| *size > 0),
            sequence: wide(args.sequence),
            peer: narrow(args.peer),
        };
        self.rows.collectives.push(row);
    }

    fn push_copy(&mut self, event: &mut Event<'a>, memset: bool) {
        let bytes = event.args.bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let Some(gpu) = self.gpu_span(event) else {
            return;
        };
        self.rows.copies.push(CopyRow { gpu, memset, bytes });
    }

    fn push_sync(&mut self, event: &mut Event<'a>) {
        if !event.args.sync_kind.is_empty() {
            event.name = std::mem::take(&mut event.args.sync_kind);
        }
        let Some(gpu) = self.gpu_span(event) else {
            return;
        };
        self.rows.syncs.push(SyncRow { gpu });
    }

    fn push_call(&mut self, event: &mut Event<'a>, level: ApiLevel) {
        let correlation = event.args.correlation;
        let Some(span) = self.span(event) else { return };
        self.rows.calls.push(CallRow {
            span,
            level,
            correlation,
        });
    }

    fn push_operator(&mut self, event: &mut Event<'a>) {
        let args = &event.args;
        let (external, [shapes, strides, types, inputs]) = (
            args.external,
            [args.shapes, args.strides, args.types, args.inputs].map(|text| self.json(text)),
        );
        let number = args.sequence.filter(|number| *number >= 0);
        let forward_thread = narrow(args.forward_thread).unwrap_or(0);
        let Some(span) = self.span(event) else { return };
        if let Some(number) = number {
            let operator = self.rows.operators.len();
            self.rows.sequences.push(SequenceRow {
                operator,
                number,
                forward_thread,
            });
        }
        self.rows.operators.push(OperatorRow {
            span,
            external,
            shapes,
            strides,
            types,
            inputs,
        });
    }

    fn push_instant(&mut self, event: &mut Event<'a>) {
        if event.name != "[memory]" {
            return;
        }
        let Memory {
            device,
            device_type,
            address,
            bytes,
            allocated,
            reserved,
        } = event.args.memory;
        let (Some(time), Some(bytes)) = (event.start, bytes) else {
            let losses = &mut self.rows.losses;
            *if event.start.is_none() {
                &mut losses.untimed
            } else {
                &mut losses.unsized_memory
            } += 1;
            return;
        };
        // Device type 0 is the host.
        let device = if device_type == Some(0) {
            None
        } else {
            narrow(device)
        };
        let address = address.unwrap_or(0) as u64;
        let lane = self.lane(&event.pid, &event.tid);
        let row = MemoryRow {
            time,
            lane,
            device,
            address,
            bytes,
            allocated,
            reserved,
        };
        self.rows.memory.push(row);
    }

    fn push_flow(&mut self, event: &mut Event<'a>) {
        let of_gradients = match &*event.category {
            "ac2g" | "async_cpu_to_gpu" | "async" => false,
            "fwdbwd" => true,
            _ => return self.push_unknown(event),
        };
        let (Some(time), Some(id)) = (event.start, event.id) else {
            self.rows.losses.untimed += 1;
            return;
        };
        let row = FlowRow {
            time,
            lane: self.lane(&event.pid, &event.tid),
            id,
        };
        let rows = &mut self.rows;
        match (&*event.phase, of_gradients) {
            ("s", false) => rows.flow_starts.push(row),
            (_, false) => rows.flow_ends.push(row),
            ("s", true) => rows.gradient_starts.push(row),
            (_, true) => rows.gradient_ends.push(row),
        }
    }

    fn push_label(&mut self, event: &mut Event<'a>) {
        let (label, text) = match &*event.name {
            "process_name" => (Label::Process, &event.args.name),
            "process_labels" => (Label::ProcessKind, &event.args.labels),
            "thread_name" => (Label::Thread, &event.args.name),
            _ => return,
        };
        let (lane, text) = (self.lane(&event.pid, &event.tid), self.name(text));
        self.rows.labels.push(LabelRow { label, lane, text });
    }

    fn push_unknown(&mut self, event: &Event<'a>) {
        let (phase, category) = (clip(&event.phase), clip(&event.category));
        *self
            .rows
            .unknown
            .entry((phase.to_owned(), category.to_owned()))
            .or_default() += 1;
    }

    /// Start, end, name and lane; an event without a time cannot be kept.
    fn span(&mut self, event: &mut Event<'a>) -> Option<Span> {
        let end = match (event.start, event.duration) {
            (Some(start), Some(length)) if length >= Ns::ZERO => start.checked_add(length),
            _ => None,
        };
        let (Some(start), Some(end)) = (event.start, end) else {
            self.rows.losses.untimed += 1;
            return None;
        };
        let name = self.name(&event.name);
        Some(Span {
            start,
            end,
            name,
            lane: self.lane(&event.pid, &event.tid),
        })
    }

    fn gpu_span(&mut self, event: &mut Event<'a>) -> Option<GpuSpan> {
        let args = &event.args;
        let device = narrow(args.device).or(match event.pid {
            Name::Number(pid) => narrow(Some(pid)),
            Name::Text(_) => None,
        });
        // 2³² - 1 and -1 mean that no stream is meant.
        let stream = args.stream.or_else(|| stream_of(&event.tid));
        let stream = stream.filter(|stream| *stream != i64::from(u32::MAX));
        let stream = stream.and_then(|stream| u64::try_from(stream).ok());
        let correlation = args.correlation;
        // CUPTI numbers work outside of graphs 0.
        let number = |id: Option<i64>| {
            id.and_then(|id| u64::try_from(id).ok())
                .filter(|id| *id != 0)
        };
        let (graph_node, graph) = (number(args.graph_node), number(args.graph));
        let span = self.span(event)?;
        Some(GpuSpan {
            span,
            device,
            stream,
            correlation,
            graph_node,
            graph,
        })
    }

    fn name(&mut self, text: &Text<'a>) -> u32 {
        match text {
            Cow::Borrowed(text) => {
                let texts = &mut self.texts;
                *self
                    .names
                    .entry(text)
                    .or_insert_with(|| add(texts, (*text).into()))
            }
            Cow::Owned(text) => add(&mut self.texts, text.as_str().into()),
        }
    }

    /// The text of a JSON value without its spaces.
    fn json(&mut self, text: &'a str) -> u32 {
        let texts = &mut self.texts;
        if text.is_empty() {
            return *self.empty.get_or_insert_with(|| add(texts, text.into()));
        }
        *self
            .json
            .entry(text)
            .or_insert_with(|| add(texts, compact(text).into()))
    }

    fn lane(&mut self, pid: &Name<'a>, tid: &Name<'a>) -> u32 {
        let lane = (self.key(pid), self.key(tid));
        if let Some((last, number)) = self.last_lane
            && last == lane
        {
            return number;
        }
        let lanes = &mut self.lanes;
        let number = *self.lane_index.entry(lane).or_insert_with(|| {
            lanes.push(lane);
            lanes.len() as u32 - 1
        });
        self.last_lane = Some((lane, number));
        number
    }

    fn key(&mut self, name: &Name<'a>) -> Key {
        match name {
            Name::Number(number) => Key::Number(*number),
            Name::Text(text) => Key::Text(self.name(text)),
        }
    }
}

fn add(texts: &mut Vec<Box<str>>, text: Box<str>) -> u32 {
    texts.push(text);
    texts.len() as u32 - 1
}

/// The first signs of a text, enough to tell it by.
fn clip(text: &str) -> &str {
    text.char_indices()
        .nth(CLIP)
        .map_or(text, |(end, _)| &text[..end])
}

fn narrow(number: Option<i64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok())
}

/// The stream that a lane of GPU work is: `7`, or `stream 7` in old traces.
fn stream_of(tid: &Name<'_>) -> Option<i64> {
    match tid {
        Name::Number(number) => Some(*number),
        Name::Text(text) => text.strip_prefix("stream ")?.trim().parse().ok(),
    }
}

/// A JSON text without the spaces between its values.
fn compact(text: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let keep = |sign: &char| {
        let space = !quoted && sign.is_ascii_whitespace();
        quoted ^= *sign == '"' && !escaped;
        escaped = *sign == '\\' && !escaped;
        !space
    };
    text.chars().filter(keep).collect()
}
