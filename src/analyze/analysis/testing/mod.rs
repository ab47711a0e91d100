//! Rows and sessions for tests. A row has what nearly all tests want; a test that wants more says just that:
//! `Launch { grid, ..launch(pass, kernel, 0..10) }`.

pub mod communication;
pub mod counters;
pub mod drift;
pub mod overlap;
pub mod represent;
mod trace;

use std::ops::Range as Span;

use rooflens_schemas::PassKind;

use crate::engine::intervals::Interval;
use crate::{Context, Facts, Options, Results};
use rooflens_hardware::Hardware;
use rooflens_session::{
    ApiCall, ApiLevel, BackwardOperator, Copy, CopyKind, CpuSample, Dim3, Frame, GemmCall, GpuId,
    KernelId, Launch, MemoryKind, Ns, OffCpuTime, Operator, OperatorId, OsCall, Overhead, PassId,
    ProcessId, Range, RangeKind, Session, StrId, ThreadId, Timing,
};

pub use trace::trace;

/// Intervals by start and end.
pub fn intervals<const N: usize>(times: [(i64, i64); N]) -> [Interval; N] {
    times.map(|(start, end)| (Ns(start), Ns(end)))
}

/// A launch of one block of one thread, of the process and GPU with the number of the pass.
pub fn launch(pass: PassId, kernel: KernelId, time: Span<i64>) -> Launch {
    let one = Dim3 { x: 1, y: 1, z: 1 };
    Launch {
        start: Ns(time.start),
        end: Ns(time.end),
        kernel,
        pass,
        gpu: GpuId(pass.0),
        process: ProcessId(pass.0),
        stream: 7,
        correlation: None,
        grid: one,
        block: one,
        registers: None,
        shared_bytes: None,
        graph_node: None,
        graph: None,
    }
}

/// One timeline pass with these launches: name, start, end.
pub fn session_of(launches: &[(&str, i64, i64)]) -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    for (name, start, end) in launches {
        push(&mut session, pass, name, *start, *end);
    }
    session
}

/// A launch of a kernel by name on the first GPU of a pass.
pub fn push(session: &mut Session, pass: PassId, name: &str, start: i64, end: i64) {
    let kernel = session.kernel(name, "");
    let (gpu, process) = (session.gpu(pass, 0), session.process(pass, 1, 1));
    session.launches.push(Launch {
        gpu,
        process,
        ..launch(pass, kernel, start..end)
    });
}

/// A copy from pageable memory to the device, of the process and GPU with the number of the pass.
pub fn copy(pass: PassId, bytes: u64, time: Span<i64>) -> Copy {
    Copy {
        start: Ns(time.start),
        end: Ns(time.end),
        kind: CopyKind::HostToDevice,
        bytes,
        source: MemoryKind::Pageable,
        destination: MemoryKind::Device,
        pass,
        gpu: GpuId(pass.0),
        process: ProcessId(pass.0),
        stream: 7,
        correlation: None,
        graph_node: None,
        graph: None,
    }
}

/// A call of the runtime, of the process and thread with the number of the pass.
pub fn api_call(pass: PassId, name: StrId, time: Span<i64>) -> ApiCall {
    ApiCall {
        start: Ns(time.start),
        end: Ns(time.end),
        name,
        level: ApiLevel::Runtime,
        nested: false,
        pass,
        process: ProcessId(pass.0),
        thread: ThreadId(pass.0),
        correlation: None,
    }
}

/// A range of the thread with the number of the pass.
pub fn range(pass: PassId, name: StrId, time: Span<i64>) -> Range {
    Range {
        start: Ns(time.start),
        end: Ns(time.end),
        name,
        domain: StrId::default(),
        kind: RangeKind::PushPop,
        unclosed: false,
        pass,
        thread: ThreadId(pass.0),
    }
}

/// What `look` sees of the results of a session, on no known hardware.
pub fn with_results<T>(session: &Session, look: impl FnOnce(&Context<'_>) -> T) -> T {
    let (facts, hardware, options) = (Facts::new(session), Hardware::default(), Options::default());
    let context = Context::new(session, &facts, &hardware, &options);
    let results = Results::compute(&context);
    look(&context.with(&results))
}

/// A launching call on a thread, and the kernel that it launches.
pub fn call_and_launch(
    session: &mut Session,
    (pass, thread): (PassId, ThreadId),
    call: Span<i64>,
    kernel: &str,
    time: Span<i64>,
) {
    let correlation = Some(session.api_calls.len() as i64);
    let name = session.intern("cudaLaunchKernel");
    session.api_calls.push(ApiCall {
        thread,
        correlation,
        ..api_call(pass, name, call)
    });
    let kernel = session.kernel(kernel, "");
    session.launches.push(Launch {
        correlation,
        ..launch(pass, kernel, time)
    });
}

/// A kernel by name with start, end and node of a graph.
pub type Node<'a> = (&'a str, i64, i64, Option<u64>);

/// One pass without ranges: the whole capture is its stage. Kernels by name with start and end.
pub fn one_pass(kernels: &[(&str, i64, i64)]) -> Session {
    let mut made = Made::default();
    made.pass("nsys", PassKind::Timeline);
    for (name, start, end) in kernels {
        let kernel = made.session.kernel(name, "");
        made.session
            .launches
            .push(launch(made.pass, kernel, *start..*end));
    }
    made.session
}

/// An operator of the thread with the number of the pass.
pub fn operator(pass: PassId, name: StrId, time: Span<i64>) -> Operator {
    let text = StrId::default();
    Operator {
        start: Ns(time.start),
        end: Ns(time.end),
        name,
        pass,
        thread: ThreadId(pass.0),
        external: None,
        shapes: text,
        types: text,
        inputs: text,
    }
}

/// A trace of one pass, with one process of two threads and one GPU.
pub struct Trace {
    pub session: Session,
    /// Name of all kernels.
    pub kernel: &'static str,
}

impl Trace {
    pub fn new(kind: PassKind, kernel: &'static str) -> Self {
        let mut session = Session::default();
        let pass = session.add_pass(kind.label(), kind, "artifact");
        let process = session.process(pass, 1, 1);
        session.thread(process, 1);
        session.thread(process, 2);
        session.gpu(pass, 0);
        Self { session, kernel }
    }

    /// A range of a domain on the first thread.
    pub fn range_in(&mut self, domain: &str, name: &str, start: i64, end: i64) {
        let (name, domain) = (self.session.intern(name), self.session.intern(domain));
        self.session.ranges.push(Range {
            domain,
            ..range(PassId(0), name, start..end)
        });
    }

    /// A range on the first thread.
    pub fn range(&mut self, name: &str, start: i64, end: i64) {
        self.range_in("", name, start, end);
    }

    /// A frame of Python on the first thread.
    pub fn frame(&mut self, name: &str, start: i64, end: i64) {
        let (name, pass, thread) = (self.session.intern(name), PassId(0), ThreadId(0));
        self.session.frames.push(Frame {
            start: Ns(start),
            end: Ns(end),
            name,
            pass,
            thread,
        });
    }

    pub fn operator(
        &mut self,
        thread: u32,
        name: &str,
        time: (i64, i64),
        shapes: &str,
    ) -> OperatorId {
        let (name, shapes) = (self.session.intern(name), self.session.intern(shapes));
        let row = operator(PassId(0), name, time.0..time.1);
        self.session.operators.push(Operator {
            thread: ThreadId(thread),
            shapes,
            ..row
        })
    }

    /// Ties an operator of the backward pass to its forward one.
    pub fn tie(&mut self, operator: OperatorId, forward: OperatorId) {
        self.session
            .backward_operators
            .push(BackwardOperator { operator, forward });
    }

    /// A launching call of 5 ns, and its kernel.
    pub fn launch(&mut self, thread: u32, call: i64, kernel: (i64, i64)) {
        self.launch_in(thread, (call, call + 5), kernel);
    }

    /// A launching call, and its kernel.
    pub fn launch_in(&mut self, thread: u32, call: (i64, i64), kernel: (i64, i64)) {
        let of = (PassId(0), ThreadId(thread));
        let (call, time) = (call.0..call.1, kernel.0..kernel.1);
        call_and_launch(&mut self.session, of, call, self.kernel, time);
    }
}

/// A session in which each pass has one process, one thread and one GPU.
#[derive(Default)]
pub struct Made {
    pub session: Session,
    pub pass: PassId,
    pub time: i64,
}

impl Made {
    pub fn pass(&mut self, name: &str, kind: PassKind) {
        self.pass = self.session.add_pass(name, kind, "artifact");
        let process = self.session.process(self.pass, 1, 1);
        self.session.thread(process, 1);
        self.session.gpu(self.pass, 0);
        self.time = 0;
    }

    /// A range around what `body` adds.
    pub fn range(&mut self, name: &str, body: &dyn Fn(&mut Self)) {
        let start = self.time;
        body(self);
        let name = self.session.intern(name);
        self.session
            .ranges
            .push(range(self.pass, name, start..self.time));
        self.time += 10;
    }

    /// A range.
    pub fn span(&mut self, name: &str, time: Span<i64>) {
        let name = self.session.intern(name);
        self.session.ranges.push(range(self.pass, name, time));
    }

    /// A call that issues these kernels.
    pub fn issue(&mut self, name: &str, time: Span<i64>, kernels: &[Node<'_>]) {
        let correlation = Some(self.session.api_calls.len() as i64 + 1);
        let name = self.session.intern(name);
        self.session.api_calls.push(ApiCall {
            correlation,
            ..api_call(self.pass, name, time)
        });
        for (kernel, start, end, graph_node) in kernels {
            let kernel = self.session.kernel(kernel, "");
            let launch = launch(self.pass, kernel, *start..*end);
            let graph_node = *graph_node;
            self.session.launches.push(Launch {
                correlation,
                graph_node,
                ..launch
            });
        }
    }

    /// A kernel of 3 ns.
    pub fn kernel(&mut self, name: &str) {
        self.kernel_of(name, 3);
    }

    /// A kernel of so many nanoseconds, launched 1 ns before it begins.
    pub fn kernel_of(&mut self, name: &str, duration: i64) {
        let start = self.time;
        let correlation = Some(start);
        let call = self.session.intern("cudaLaunchKernel");
        let call = api_call(self.pass, call, start..start + 1);
        self.session.api_calls.push(ApiCall {
            correlation,
            ..call
        });
        let kernel = self.session.kernel(name, "");
        let launch = launch(self.pass, kernel, start + 1..start + 1 + duration);
        self.session.launches.push(Launch {
            correlation,
            ..launch
        });
        self.time += duration + 2;
    }

    /// A product of m×4 by 4×8 by kernels within `aten::linear` and `aten::mm`.
    pub fn product(&mut self, m: u64, kernels: &[&str]) {
        let start = self.time;
        kernels.iter().for_each(|kernel| self.kernel(kernel));
        self.operator(
            start,
            "aten::linear",
            &format!("[[{m},4],[8,4],[]]"),
            "c10::BFloat16",
        );
        self.operator(
            start,
            "aten::mm",
            &format!("[[{m},4],[4,8]]"),
            "c10::BFloat16",
        );
    }

    /// An operator from `start` until now.
    pub fn operator(&mut self, start: i64, name: &str, shapes: &str, dtype: &str) {
        let types = format!(r#"["{dtype}","{dtype}"]"#);
        let [name, shapes, types] =
            [name, shapes, types.as_str()].map(|text| self.session.intern(text));
        let row = operator(self.pass, name, start..self.time);
        self.session.operators.push(Operator {
            shapes,
            types,
            ..row
        });
    }

    pub fn log(&mut self, (m, n, k): (u64, u64, u64), tile: (u32, u32), parts: u32) {
        let text = self.session.intern("R_16BF");
        self.session.gemm_calls.push(GemmCall {
            artifact: StrId::default(),
            pass: StrId::default(),
            sequence: 0,
            process: 1,
            function: StrId::default(),
            m,
            n,
            k,
            batch: 1,
            a_type: text,
            b_type: text,
            d_type: text,
            compute: StrId::default(),
            transpose_a: true,
            transpose_b: false,
            order: StrId::default(),
            algorithm: Some(66),
            tile_m: Some(tile.0),
            tile_n: Some(tile.1),
            stages: StrId::default(),
            split_k: Some(parts),
            cluster: StrId::default(),
            epilogue: StrId::default(),
        });
    }
}

/// Events of the pass's thread and GPU at given times; a correlation joins a call with what it issues.
impl Made {
    /// A timeline as its one pass.
    pub fn timeline() -> Self {
        let mut made = Self::default();
        made.pass("nsys", PassKind::Timeline);
        made
    }

    pub fn call(&mut self, name: &str, start: i64, end: i64, correlation: i64) {
        let correlation = Some(correlation);
        let call = api_call(self.pass, self.session.intern(name), start..end);
        self.session.api_calls.push(ApiCall {
            correlation,
            ..call
        });
    }

    /// A launching call, and the kernel that it launches.
    pub fn launch(&mut self, call: Span<i64>, kernel: Span<i64>) {
        let thread = (self.pass, self.thread());
        call_and_launch(&mut self.session, thread, call, "gemm", kernel);
    }

    pub fn kernel_at(&mut self, name: &str, start: i64, end: i64, correlation: i64) {
        let (kernel, correlation) = (self.session.kernel(name, name), Some(correlation));
        let launch = launch(self.pass, kernel, start..end);
        self.session.launches.push(Launch {
            correlation,
            ..launch
        });
    }

    /// A copy of one byte to the device.
    pub fn copy_at(&mut self, source: MemoryKind, start: i64, end: i64, correlation: i64) {
        let correlation = Some(correlation);
        let copy = copy(self.pass, 1, start..end);
        self.session.copies.push(Copy {
            source,
            correlation,
            ..copy
        });
    }

    pub fn range_at(&mut self, name: &str, start: i64, end: i64) {
        let name = self.session.intern(name);
        self.session.ranges.push(range(self.pass, name, start..end));
    }

    pub fn os_call(&mut self, start: i64, end: i64) {
        let (pass, thread, name) = (self.pass, self.thread(), self.session.intern("read"));
        self.session.os_calls.push(OsCall {
            start: Ns(start),
            end: Ns(end),
            name,
            pass,
            thread,
        });
    }

    pub fn off_cpu(&mut self, start: i64, end: i64) {
        let (pass, thread) = (self.pass, self.thread());
        self.session.off_cpu.push(OffCpuTime {
            start: Ns(start),
            end: Ns(end),
            pass,
            thread,
        });
    }

    /// A CPU sample of the thread.
    pub fn sample(&mut self, time: i64, library: &str, function: &str) {
        let (pass, thread) = (self.pass, self.thread());
        let [library, function] = [library, function].map(|name| self.session.intern(name));
        self.session.cpu_samples.push(CpuSample {
            time: Ns(time),
            function,
            library,
            pass,
            thread,
        });
    }

    pub fn overhead(&mut self, start: i64, end: i64) {
        let (pass, thread, process) = (self.pass, self.thread(), ProcessId(self.pass.0));
        let name = self.session.intern("CUPTI Buffer flush");
        self.session.overheads.push(Overhead {
            start: Ns(start),
            end: Ns(end),
            name,
            pass,
            process,
            thread,
        });
    }

    pub fn frame(&mut self, name: &str, start: i64, end: i64) {
        let (pass, thread, name) = (self.pass, self.thread(), self.session.intern(name));
        self.session.frames.push(Frame {
            start: Ns(start),
            end: Ns(end),
            name,
            pass,
            thread,
        });
    }

    fn thread(&self) -> ThreadId {
        ThreadId(self.pass.0)
    }

    /// What `test` gives of the session with its results, without known hardware.
    pub fn with<T>(&self, test: impl FnOnce(&Context<'_>) -> T) -> T {
        let (facts, options) = (Facts::new(&self.session), Options::default());
        let hardware = Hardware::default();
        let context = Context::new(&self.session, &facts, &hardware, &options);
        let results = Results::compute(&context);
        test(&context.with(&results))
    }
}

/// Stage, pass, steps of each repeat, and times of the repeats.
pub fn repeats(series: &[(&str, &str, Option<u64>, &[i64])]) -> Session {
    let mut session = Session::default();
    for (stage, pass, steps, times) in series {
        let (stage, pass) = (session.intern(stage), session.intern(pass));
        for (repeat, duration) in (0..).zip(*times) {
            let (duration, steps, artifact) = (Ns(*duration), *steps, pass);
            let profiled = Some(false);
            let row = Timing {
                stage,
                repeat,
                duration,
                steps,
                artifact,
                pass,
                profiled,
            };
            session.timings.push(row);
        }
    }
    session
}
