//! Sessions made by hand: passes with ranges, kernels, operators and calls of logs.

use rooflens_schemas::PassKind;

use crate::model::{
    ApiCall, ApiLevel, Dim3, GemmCall, GpuId, Launch, Ns, Operator, PassId, ProcessId, Range,
    RangeKind, Session, StrId, ThreadId,
};

/// A session in which each pass has one process, one thread and one GPU.
#[derive(Default)]
pub(in crate::analysis) struct Made {
    pub(in crate::analysis) session: Session,
    pub(in crate::analysis) pass: PassId,
    pub(in crate::analysis) time: Ns,
}

impl Made {
    pub(in crate::analysis) fn pass(&mut self, name: &str, kind: PassKind) {
        self.pass = self.session.add_pass(name, kind, "artifact");
        let process = self.session.process(self.pass, 1, 1);
        self.session.thread(process, 1);
        self.session.gpu(self.pass, 0);
        self.time = 0;
    }

    /// A range around what `body` adds.
    pub(in crate::analysis) fn range(&mut self, name: &str, body: &dyn Fn(&mut Self)) {
        let start = self.time;
        body(self);
        let (name, domain) = (self.session.intern(name), self.session.intern(""));
        self.session.ranges.push(Range {
            start,
            end: self.time,
            name,
            domain,
            kind: RangeKind::PushPop,
            unclosed: false,
            pass: self.pass,
            thread: ThreadId(self.pass.0),
        });
        self.time += 10;
    }

    /// A kernel of 3 ns.
    pub(in crate::analysis) fn kernel(&mut self, name: &str) {
        self.kernel_of(name, 3);
    }

    /// A kernel of so many nanoseconds, launched 1 ns before it begins.
    pub(in crate::analysis) fn kernel_of(&mut self, name: &str, duration: Ns) {
        let start = self.time;
        let call = self.session.intern("cudaLaunchKernel");
        self.session.api_calls.push(ApiCall {
            start,
            end: start + 1,
            name: call,
            level: ApiLevel::Runtime,
            nested: false,
            pass: self.pass,
            process: ProcessId(self.pass.0),
            thread: ThreadId(self.pass.0),
            correlation: Some(start),
        });
        let kernel = self.session.kernel(name, "");
        self.session.launches.push(Launch {
            start: start + 1,
            end: start + 1 + duration,
            kernel,
            pass: self.pass,
            gpu: GpuId(self.pass.0),
            process: ProcessId(self.pass.0),
            stream: 7,
            correlation: Some(start),
            grid: Dim3 { x: 1, y: 1, z: 1 },
            block: Dim3 { x: 1, y: 1, z: 1 },
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        });
        self.time += duration + 2;
    }

    /// A product of m×4 by 4×8 by kernels within `aten::linear` and `aten::mm`.
    pub(in crate::analysis) fn product(&mut self, m: u64, kernels: &[&str]) {
        let start = self.time;
        kernels.iter().for_each(|kernel| self.kernel(kernel));
        self.operator(start, "aten::linear", &format!("[[{m},4],[8,4],[]]"), "c10::BFloat16");
        self.operator(start, "aten::mm", &format!("[[{m},4],[4,8]]"), "c10::BFloat16");
    }

    /// An operator from `start` until now.
    pub(in crate::analysis) fn operator(
        &mut self,
        start: Ns,
        name: &str,
        shapes: &str,
        dtype: &str,
    ) {
        let types = format!(r#"["{dtype}","{dtype}"]"#);
        let [name, shapes, types] =
            [name, shapes, types.as_str()].map(|text| self.session.intern(text));
        self.session.operators.push(Operator {
            start,
            end: self.time,
            name,
            pass: self.pass,
            thread: ThreadId(self.pass.0),
            external: None,
            shapes,
            types,
            inputs: StrId::default(),
        });
    }

    pub(in crate::analysis) fn log(
        &mut self,
        (m, n, k): (u64, u64, u64),
        tile: (u32, u32),
        parts: u32,
    ) {
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
