//! Rows and sessions for tests. A row has what nearly all tests want; a test that wants more says just that:
//! `Launch { grid, ..launch(pass, kernel, 0..10) }`.

pub mod communication;
pub mod counters;
pub mod drift;
pub mod represent;
mod trace;

use std::ops::Range as Span;

use rooflens_schemas::PassKind;

use crate::engine::intervals::Interval;
use crate::{Context, Facts, Options, Results};
use rooflens_hardware::Hardware;
use rooflens_session::{
    ApiCall, ApiLevel, CommandRun, Dim3, GemmCall, GpuId, KernelId, Launch, Ns, Operator, PassId,
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
        strides: text,
        types: text,
        inputs: text,
    }
}

/// A program that runs one operation after the other on one thread and one GPU of each pass. Times follow from
/// the order.
#[derive(Default)]
pub struct Program {
    pub session: Session,
    pub pass: PassId,
    pub time: i64,
}

impl Program {
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
                batch: None,
                tokens: None,
                keys: None,
                artifact,
                pass,
                profiled,
            };
            session.timings.push(row);
        }
    }
    session
}

/// Times of runs of the command in a pass `baseline`, and passes with a profiler, nanoseconds.
pub fn command_runs(baseline: &[i64], profiled: &[(&str, PassKind, i64)]) -> Session {
    let mut session = Session::default();
    let unprofiled = baseline
        .iter()
        .map(|time| ("baseline", PassKind::Baseline, *time));
    for (run, (pass, kind, time)) in (0..).zip(unprofiled.chain(profiled.iter().copied())) {
        let pass = session.intern(pass);
        session.command_runs.push(CommandRun {
            pass,
            kind,
            run,
            warmup: false,
            duration: Ns(time),
            exit_code: Some(0),
            artifact: pass,
        });
    }
    session
}
