//! Sizes that operators recorded, given to the kernels that they launched: in PyTorch traces, and in the names of NVTX
//! ranges by `torch.autograd.profiler.emit_nvtx(record_shapes=True)`.

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::{Layer, Matrix, Product, Products, Shape, Source, dtype};
use crate::engine::facts::{Facts, OpIndex};
use crate::engine::nesting::innermost;
use crate::kernels::operator_flops::{first_operand, shape};
use rooflens_session::{Ns, Session, StrId, ThreadId};

/// Calls of operators with sizes and without such calls within, by (thread, start).
#[derive(Default)]
struct Calls {
    thread: Vec<ThreadId>,
    start: Vec<Ns>,
    end: Vec<Ns>,
    found: Vec<(Shape, &'static str)>,
}

pub(super) fn find(session: &Session, facts: &Facts, matrix: &Matrix, products: &mut Products) {
    let calls = Calls::new(session);
    if calls.found.is_empty() {
        return;
    }
    let ops = &facts.ops;
    let issued = |op: OpIndex| Some((op, ops.api_call[op as usize]?));
    let issued: Vec<_> = (0..ops.len() as OpIndex).filter_map(issued).collect();
    let moments: Vec<(ThreadId, Ns)> = issued
        .iter()
        .map(|(_, call)| {
            (
                session.api_calls.thread[call.index()],
                session.api_calls.start[call.index()],
            )
        })
        .collect();
    let around = innermost(&moments, &calls.thread, &calls.start, &calls.end);
    let mut launched: Vec<(usize, OpIndex)> = around
        .iter()
        .zip(&issued)
        .filter_map(|(call, (op, _))| Some(((*call)?, *op)))
        .collect();
    launched.sort_unstable();
    for of_call in launched.chunk_by(|a, b| a.0 == b.0) {
        let Some((call, _)) = of_call.first() else {
            continue;
        };
        let (shape, operand) = calls.found[*call];
        let kernels: Vec<OpIndex> = of_call
            .iter()
            .map(|(_, op)| *op)
            .filter(|op| facts.kernel(session, *op).is_some())
            .collect();
        let is = |op: &&OpIndex, test: &dyn Fn(rooflens_session::KernelId) -> bool| {
            facts.kernel(session, **op).is_some_and(test)
        };
        let main = kernels
            .iter()
            .find(|op| is(op, &|kernel| matrix.is_main(kernel)));
        let main = main.or(kernels.first()).copied();
        let output = if operand == "fp8" { "bf16" } else { operand };
        for op in kernels
            .iter()
            .filter(|op| is(op, &|kernel| matrix.class(kernel).is_some()))
        {
            let source = Source::Operator;
            let product = Product {
                shape,
                operand,
                output,
                source,
                main: Some(*op) == main,
            };
            products.set(Layer::Best, *op, product);
        }
        if let Some(op) = main {
            let product = Product {
                shape,
                operand,
                output,
                source: Source::Operator,
                main: true,
            };
            products.set(Layer::Best, op, product);
        }
    }
}

/// A call with sizes: where it was made, and what it computes.
struct Call {
    thread: ThreadId,
    start: Ns,
    end: Ns,
    found: (Shape, &'static str),
}

impl Calls {
    fn new(session: &Session) -> Self {
        let mut recorded_calls = recorded(session);
        recorded_calls.extend(named(session));
        recorded_calls.sort_by_key(|call| (call.thread, call.start, std::cmp::Reverse(call.end)));
        let mut calls = Self::default();
        for (index, call) in recorded_calls.iter().enumerate() {
            // The FLOPs of a call that has one within are those of the inner one.
            let is_outer = |next: &Call| next.thread == call.thread && next.start < call.end;
            if !recorded_calls.get(index + 1).is_some_and(is_outer) {
                calls.thread.push(call.thread);
                calls.start.push(call.start);
                calls.end.push(call.end);
                calls.found.push(call.found);
            }
        }
        calls
    }
}

/// Operators of PyTorch traces.
fn recorded(session: &Session) -> Vec<Call> {
    let operators = &session.operators;
    let mut by_key: FxHashMap<[StrId; 4], Option<(Shape, &'static str)>> = FxHashMap::default();
    let call = |row: usize| {
        let key = [
            operators.name[row],
            operators.shapes[row],
            operators.inputs[row],
            operators.types[row],
        ];
        let found = *by_key.entry(key).or_insert_with(|| {
            let [name, shapes, inputs, types] = key.map(|id| session.text(id));
            let operand = operand(name, types)?;
            Some((shape(name, shapes, inputs)?, operand))
        });
        let (thread, start, end) = (
            operators.thread[row],
            operators.start[row],
            operators.end[row],
        );
        found.map(|found| Call {
            thread,
            start,
            end,
            found,
        })
    };
    (0..operators.len()).filter_map(call).collect()
}

/// Ranges whose names are those of operators with sizes.
fn named(session: &Session) -> Vec<Call> {
    let ranges = &session.ranges;
    let mut by_name: FxHashMap<StrId, Option<(Shape, &'static str)>> = FxHashMap::default();
    let call = |row: usize| {
        let found = *by_name.entry(ranges.name[row]).or_insert_with(|| {
            let (name, marks) = session.text(ranges.name[row]).split_once(", ")?;
            let (_, sizes) = marks.split_once("sizes = ")?;
            let (sizes, _) = sizes.split_once("]]")?;
            Some((shape(name, &format!("{sizes}]]"), "")?, ""))
        });
        let (thread, start, end) = (ranges.thread[row], ranges.start[row], ranges.end[row]);
        found.map(|found| Call {
            thread,
            start,
            end,
            found,
        })
    };
    (0..ranges.len()).filter_map(call).collect()
}

/// Type of the operands; none where two elements are packed in one, so that recorded sizes are halves.
fn operand(name: &str, types: &str) -> Option<&'static str> {
    if types.contains("Float4") {
        return None;
    }
    let types: Value = serde_json::from_str(types).unwrap_or(Value::Null);
    let name = types
        .get(first_operand(name))
        .and_then(Value::as_str)
        .unwrap_or_default();
    Some(dtype(name))
}
