//! Operators within operators, and the CUDA calls and GPU work within them.

use crate::analysis::Context;
use crate::analysis::engine::facts::OpSource;
use crate::analysis::engine::nesting::{Nesting as Spans, Span};
use crate::model::Ns;

/// What each operator call does itself, by `OperatorId`.
#[derive(Clone, Debug, Default)]
pub(super) struct Nesting {
    /// How operators nest.
    pub(super) spans: Spans,
    /// Whether an operator of the same name is around it: totals by name count only the outer one.
    pub(super) recursive: Vec<bool>,
    /// Time of the GPU operations that it issues itself, nanoseconds.
    pub(super) device: Vec<Ns>,
    /// GPU operations that it issues itself.
    pub(super) operations: Vec<u64>,
    /// Kernels that it launches itself.
    pub(super) launches: Vec<u64>,
}

impl Nesting {
    /// Nests the operators of a session by thread, and gives the GPU work to the innermost operator around
    /// the start of the CUDA call that issued it.
    pub(super) fn new(context: &Context<'_>) -> Self {
        let session = context.session;
        let operators = &session.operators;
        let span = |row: usize| Span {
            thread: operators.thread[row],
            start: operators.start[row],
            end: operators.end[row],
        };
        let count = operators.len();
        let spans: Vec<Span> = (0..count).map(span).collect();
        let spans = Spans::new(&spans, &session.api_calls);
        let mut nesting = Self {
            recursive: spans.recursive(&operators.name),
            spans,
            device: vec![0; count],
            operations: vec![0; count],
            launches: vec![0; count],
        };
        nesting.add_device_work(context);
        nesting
    }

    fn add_device_work(&mut self, context: &Context<'_>) {
        let ops = &context.facts.ops;
        for op in 0..ops.len() {
            let call = ops.api_call[op];
            let Some(operator) = call.and_then(|call| self.spans.of_call[call.index()]) else {
                continue;
            };
            let duration = ops.end[op].saturating_sub(ops.start[op]);
            let row = operator as usize;
            self.device[row] = self.device[row].saturating_add(duration);
            self.operations[row] += 1;
            self.launches[row] += u64::from(matches!(ops.source[op], OpSource::Launch(_)));
        }
    }
}
