//! What the host did: API calls, ranges, operators, source frames.

use crate::table::{label_element, table};
use crate::{
    ApiCallId, BackwardOperatorId, CallSumId, CallerId, FrameId, GraphCreationId, GraphNodeId,
    KernelId, KernelSumId, ModelCallId, Ns, OperatorId, PassId, ProcessId, RangeId, StrId,
    SynchronizationId, ThreadId,
};
use rooflens_units::Time;

/// Which interface an API call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiLevel {
    /// CUDA runtime.
    Runtime,
    /// CUDA driver.
    Driver,
}

impl ApiLevel {
    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Driver => "driver",
        }
    }
}

label_element!(ApiLevel);

/// What a sum of calls is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// CUDA API.
    Cuda,
    /// Libraries of the operating system.
    System,
    /// NVTX ranges.
    Range,
}

impl CallKind {
    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::System => "os",
            Self::Range => "nvtx",
        }
    }
}

label_element!(CallKind);

/// What kind of annotation a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RangeKind {
    /// NVTX push/pop: nested on one thread.
    PushPop,
    /// NVTX start/end: may overlap and end on another thread.
    StartEnd,
    /// `user_annotation` of a PyTorch trace: nested on one thread.
    Annotation,
}

impl RangeKind {
    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::PushPop => "push/pop",
            Self::StartEnd => "start/end",
            Self::Annotation => "annotation",
        }
    }
}

label_element!(RangeKind);

table! {
    /// Host-side CUDA calls.
    ApiCalls "api_calls" { row: ApiCall, id: ApiCallId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// Name without ABI suffix, such as `cudaLaunchKernel`.
        name: StrId,
        /// Runtime or driver.
        level: ApiLevel,
        /// The call runs inside another CUDA call of its thread: not counted again in sums.
        nested: bool,
        /// Pass.
        pass: PassId,
        /// Process.
        process: ProcessId,
        /// Thread that called.
        thread: ThreadId,
        /// Joins with GPU operations of the same process.
        correlation: Option<i64>,
    }
}

impl ApiCalls {
    /// Whether a call of a pass lies within another one of its thread.
    pub fn nests(&self, pass: PassId) -> bool {
        self.pass
            .iter()
            .zip(&self.nested)
            .any(|(own, nested)| *nested && *own == pass)
    }
}

table! {
    /// User annotations: NVTX ranges and PyTorch `user_annotation`s.
    Ranges "ranges" { row: Range, id: RangeId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds; of a range that was never closed, the end of the capture.
        end: Ns,
        /// Name.
        name: StrId,
        /// NVTX domain; empty for the default one.
        domain: StrId,
        /// Kind.
        kind: RangeKind,
        /// The range was never closed: its end is the end of the capture.
        unclosed: bool,
        /// Pass.
        pass: PassId,
        /// Thread that opened it.
        thread: ThreadId,
    }
}

table! {
    /// Calls of the outermost model with the sizes of their inputs, as `rooflens-capture` saw them.
    ModelCalls "model_calls" { row: ModelCall, id: ModelCallId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// `train`, `prefill`, `decode` or `forward`.
        phase: StrId,
        /// Sequences.
        batch: Option<u64>,
        /// Tokens of a sequence; in a batch of a serving engine of the longest one.
        tokens: Option<u64>,
        /// Keys that the attention of a sequence reads.
        keys: Option<u64>,
        /// Pass.
        pass: PassId,
        /// Thread that called.
        thread: ThreadId,
    }
}

table! {
    /// Calls of framework operators (`cpu_op` of a PyTorch trace).
    Operators "operators" { row: Operator, id: OperatorId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// Name, such as `aten::mm`.
        name: StrId,
        /// Pass.
        pass: PassId,
        /// Thread.
        thread: ThreadId,
        /// `External id`: links launches to the operator where the launch's call is not nested in it.
        external: Option<i64>,
        /// Shapes of the inputs as JSON text, such as `[[8,1024],[1024,64]]`; empty if not recorded.
        shapes: StrId,
        /// Strides of the inputs in elements as JSON text; empty if not recorded.
        strides: StrId,
        /// Types of the inputs as JSON text; empty if not recorded.
        types: StrId,
        /// Recorded concrete inputs as JSON text; empty if not recorded.
        inputs: StrId,
    }
}

table! {
    /// Operators of the backward pass, each with the forward operator whose gradient it computes.
    BackwardOperators "backward_operators" { row: BackwardOperator, id: BackwardOperatorId,
        /// The backward operator.
        operator: OperatorId,
        /// The operator of the forward pass.
        forward: OperatorId,
    }
}

table! {
    /// Source frames (`python_function` of a PyTorch trace).
    Frames "frames" { row: Frame, id: FrameId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// Function, or `nn.Module: Name_0`.
        name: StrId,
        /// Pass.
        pass: PassId,
        /// Thread.
        thread: ThreadId,
    }
}

table! {
    /// Functions of Python that call operators, from a pass with stacks, whose times count nowhere.
    Callers "callers" { row: Caller, id: CallerId,
        /// Pass.
        pass: PassId,
        /// Name of the operator.
        operator: StrId,
        /// Innermost function outside of PyTorch around the calls: file, line and name.
        function: StrId,
        /// Number of calls.
        calls: u64,
    }
}

table! {
    /// Waits of the host for the GPU and waits between streams.
    Synchronizations "synchronizations" { row: Synchronization, id: SynchronizationId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// What waits for what, such as `stream synchronize`.
        kind: StrId,
        /// Pass.
        pass: PassId,
        /// Process.
        process: ProcessId,
        /// Stream, where one is named.
        stream: Option<u64>,
        /// Joins with the API call of the same process.
        correlation: Option<i64>,
    }
}

table! {
    /// Nodes of CUDA graphs as they were created or cloned.
    GraphNodes "graph_nodes" { row: GraphNode, id: GraphNodeId,
        /// Host time of creation on the pass's clock, nanoseconds.
        time: Ns,
        /// Pass.
        pass: PassId,
        /// Thread that created it.
        thread: ThreadId,
        /// Node, as launches name it.
        node: u64,
        /// Node that it was cloned from.
        original: Option<u64>,
    }
}

table! {
    /// CUDA graphs as they were created or cloned; creation begins with the capture.
    GraphCreations "graph_creations" { row: GraphCreation, id: GraphCreationId,
        /// Host time of creation on the pass's clock, nanoseconds.
        time: Ns,
        /// Pass.
        pass: PassId,
        /// Thread that created it.
        thread: ThreadId,
        /// Graph, as executions of whole graphs name it.
        graph: u64,
        /// Graph that it was cloned from.
        original: Option<u64>,
    }
}

table! {
    /// Sums per kernel that another tool computed (`nsys stats`): no single launches.
    KernelSums "kernel_sums" { row: KernelSum, id: KernelSumId,
        /// Pass.
        pass: PassId,
        /// Kernel.
        kernel: KernelId,
        /// Number of launches.
        count: u64,
        /// Sum of durations, nanoseconds.
        total: Ns,
        /// Shortest launch, nanoseconds.
        min: Ns,
        /// Longest launch, nanoseconds.
        max: Ns,
        /// Median duration, nanoseconds.
        median: Option<Time>,
        /// Standard deviation of durations, nanoseconds.
        std: Option<Time>,
    }
}

table! {
    /// Sums per call or range that another tool computed (`nsys stats`): no single calls.
    CallSums "call_sums" { row: CallSum, id: CallSumId,
        /// Pass.
        pass: PassId,
        /// What was called: `cuda` (API), `os` (its libraries), `nvtx` (ranges).
        kind: CallKind,
        /// Name of the call or range.
        name: StrId,
        /// Number of calls.
        count: u64,
        /// Sum of durations, nanoseconds; nested ranges count too.
        total: Ns,
        /// Shortest call, nanoseconds.
        min: Ns,
        /// Longest call, nanoseconds.
        max: Ns,
        /// Median duration, nanoseconds.
        median: Option<Time>,
        /// Standard deviation of durations, nanoseconds.
        std: Option<Time>,
    }
}
