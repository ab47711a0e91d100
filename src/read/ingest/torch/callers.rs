//! Functions of Python that call operators, from a trace with stacks. Recording stacks slows down the operators, so no
//! time of the trace goes into the tables.

use std::cmp::Reverse;

use rooflens_session::{Caller, Ns, PassId, Session};
use rustc_hash::FxHashMap;

use super::rows::{FileRows, Span};

/// How the files of PyTorch and of the injected modules begin or lie in a package folder.
const LIBRARIES: [&str; 2] = ["torch/", "rooflens_inject/"];

/// Adds the innermost function outside of PyTorch around each operator, and how often it calls the operator.
pub(super) fn commit(file: &FileRows, pass: PassId, session: &mut Session) {
    let mut calls: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    let operators = file.rows.operators.iter().map(|row| (row.span, true));
    let functions = file
        .rows
        .frames
        .iter()
        .filter(|span| is_caller(file.text(span.name)));
    let mut spans: Vec<(Span, bool)> = operators
        .chain(functions.map(|span| (*span, false)))
        .collect();
    // A function that begins with its operator is around it.
    spans.sort_unstable_by_key(|(span, is_operator)| {
        (span.lane, span.start, *is_operator, Reverse(span.end))
    });
    let mut open: Vec<(u32, Ns, u32)> = Vec::new();
    for (span, is_operator) in spans {
        while open
            .last()
            .is_some_and(|(lane, end, _)| *lane != span.lane || *end <= span.start)
        {
            open.pop();
        }
        match (is_operator, open.last()) {
            (true, Some((.., function))) => *calls.entry((span.name, *function)).or_default() += 1,
            (true, None) => {}
            (false, _) => open.push((span.lane, span.end, span.name)),
        }
    }
    let mut rows: Vec<((u32, u32), u64)> = calls.into_iter().collect();
    rows.sort_unstable();
    for ((operator, function), calls) in rows {
        let [operator, function] = [operator, function].map(|name| session.intern(file.text(name)));
        session.callers.push(Caller {
            pass,
            operator,
            function,
            calls,
        });
    }
}

/// Whether a frame is a function with a source line of the workload: `train.py(12): step`.
fn is_caller(frame: &str) -> bool {
    let is_function = frame.contains("): ") && !frame.starts_with('<');
    let of_library = |library: &str| {
        frame.starts_with(library) || frame.contains(&format!("-packages/{library}"))
    };
    is_function && !LIBRARIES.into_iter().any(of_library)
}
