//! Operators that are slow on the first call with inputs of new shapes: they build a plan, choose or compile a kernel.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::engine::facts::Facts;
use crate::engine::intervals::total;
use crate::engine::nesting::Nesting;
use crate::engine::stage_stats::median_time;
use rooflens_session::{KernelId, Ns, PassId, Session, StrId};
use rooflens_units::{Ratio, Time};

/// Self CPU time ÷ median of the operator from which on a call is slow.
pub const SLOW: Ratio = Ratio(10.0);

/// Self CPU time from which on a slow call matters.
pub const LEAST: Ns = Ns(1_000_000);

/// Slow calls below which there is no pattern.
const FEWEST: usize = 2;

/// Share of the slow calls that are the first with their shapes, from which on that is the pattern.
const FIRST: Ratio = Ratio(0.9);

/// The slow first calls of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstCalls {
    /// Pass.
    pub pass: PassId,
    /// Operator.
    pub operator: StrId,
    /// All its calls.
    pub calls: usize,
    /// Self CPU times of the slow calls, outside of CUDA calls, by time.
    pub slow: Vec<Ns>,
    /// Median Self CPU time of all calls.
    pub typical: Time,
    /// Size of the one dimension in which the shapes of the slow calls differ: least and greatest.
    pub sizes: Option<(i64, i64)>,
    /// Kernels that the slow calls launch.
    pub kernels: BTreeSet<KernelId>,
}

impl FirstCalls {
    /// Self CPU time of the slow calls, nanoseconds.
    pub fn time(&self) -> Ns {
        total(self.slow.iter().copied())
    }
}

/// The operators whose slow calls are the first ones with their shapes, by the time of these calls, the most first.
pub(super) fn find(session: &Session, facts: &Facts, nesting: &Nesting) -> Vec<FirstCalls> {
    let operators = &session.operators;
    let mut calls: BTreeMap<(PassId, StrId), Vec<usize>> = BTreeMap::new();
    for row in (0..operators.len()).filter(|row| operators.shapes[*row] != StrId::default()) {
        calls
            .entry((operators.pass[row], operators.name[row]))
            .or_default()
            .push(row);
    }
    let mut first_calls: Vec<FirstCalls> = Vec::new();
    let mut slow_rows: FxHashMap<usize, usize> = FxHashMap::default();
    for ((pass, operator), mut rows) in calls {
        rows.sort_by_key(|row| (operators.start[*row], *row));
        let Some(typical) = median_time(rows.iter().map(|row| nesting.own[*row])) else {
            continue;
        };
        let is_slow =
            |row: &usize| nesting.own[*row] >= LEAST && nesting.own[*row].time() >= typical * SLOW;
        let slow: Vec<usize> = rows.iter().copied().filter(is_slow).collect();
        let mut seen = BTreeSet::new();
        let firsts: BTreeSet<usize> = rows
            .iter()
            .copied()
            .filter(|row| seen.insert(operators.shapes[*row]))
            .collect();
        let first = slow.iter().filter(|row| firsts.contains(row)).count();
        if slow.len() < FEWEST || (first as f64) < FIRST.0 * slow.len() as f64 {
            continue;
        }
        slow_rows.extend(slow.iter().map(|row| (*row, first_calls.len())));
        first_calls.push(FirstCalls {
            pass,
            operator,
            calls: rows.len(),
            slow: slow.iter().map(|row| nesting.own[*row]).collect(),
            typical,
            sizes: sizes(session, &slow),
            kernels: BTreeSet::new(),
        });
    }
    add_kernels(session, facts, nesting, &slow_rows, &mut first_calls);
    first_calls.sort_by_key(|calls| std::cmp::Reverse(calls.time()));
    first_calls
}

/// The kernels that slow calls launch themselves.
fn add_kernels(
    session: &Session,
    facts: &Facts,
    nesting: &Nesting,
    slow: &FxHashMap<usize, usize>,
    found: &mut [FirstCalls],
) {
    if slow.is_empty() {
        return;
    }
    for (op, call) in (0..).zip(&facts.ops.api_call) {
        let span = call.and_then(|call| nesting.of_call[call.index()]);
        let Some(of) = span.and_then(|span| slow.get(&(span as usize))) else {
            continue;
        };
        found[*of].kernels.extend(facts.kernel(session, op));
    }
}

/// The least and greatest size of the dimension in which the shapes of these calls differ, if all inputs that differ do so
/// by the same numbers.
fn sizes(session: &Session, calls: &[usize]) -> Option<(i64, i64)> {
    let shapes = |row: &usize| -> Option<Vec<Vec<i64>>> {
        let text = session.text(session.operators.shapes[*row]);
        serde_json::from_str(text).ok()
    };
    let counts: Vec<Vec<i64>> = calls
        .iter()
        .map(|row| Some(shapes(row)?.into_iter().flatten().collect()))
        .collect::<Option<_>>()?;
    let first = counts.first()?;
    if counts.iter().any(|row| row.len() != first.len()) {
        return None;
    }
    let column =
        |column_index: usize| -> Vec<i64> { counts.iter().map(|row| row[column_index]).collect() };
    let differing = (0..first.len())
        .map(column)
        .filter(|sizes| sizes.iter().any(|size| *size != sizes[0]));
    let distinct: BTreeSet<Vec<i64>> = differing.collect();
    let [sizes] = distinct.iter().collect::<Vec<_>>().try_into().ok()?;
    Some((*sizes.iter().min()?, *sizes.iter().max()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::nesting::Span;
    use crate::testing::trace;
    use rooflens_session::ThreadId;

    /// Calls of one operator one after the other: shapes and duration, nanoseconds.
    fn calls(list: &[(&str, i64)]) -> Vec<FirstCalls> {
        let (mut events, mut time) = ("pass torch operators\n".to_owned(), 0);
        for (shapes, duration) in list {
            let end = time + duration;
            events += &format!("operator aten::op {shapes} {time}..{end}\n");
            time = end;
        }
        let session = trace(&events);
        let operators = &session.operators;
        let span = |row: usize| Span {
            thread: ThreadId(0),
            start: operators.start[row],
            end: operators.end[row],
        };
        let spans: Vec<Span> = (0..operators.len()).map(span).collect();
        find(
            &session,
            &Facts::new(&session),
            &Nesting::new(&spans, &session.api_calls),
        )
    }

    #[test]
    fn slow_calls_that_are_the_first_with_their_shapes_are_found() {
        let (slow, fast) = (30_000_000, 100_000);
        let found = calls(&[
            ("[[8,1025,128]]", slow),
            ("[[8,1025,128]]", fast),
            ("[[8,1025,128]]", fast),
            ("[[8,1026,128]]", slow + 1),
            ("[[8,1026,128]]", fast),
            ("[[8,1026,128]]", fast),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].calls, found[0].time()), (6, Ns(60_000_001)));
        assert_eq!(
            (found[0].typical.0, found[0].sizes),
            (100_000.0, Some((1025, 1026)))
        );
    }

    #[test]
    fn slow_calls_with_known_shapes_are_something_else() {
        let (slow, fast) = (30_000_000, 100_000);
        let shapes = "[[8,1025,128]]";
        assert!(
            calls(&[
                (shapes, fast),
                (shapes, fast),
                (shapes, slow),
                (shapes, slow),
                (shapes, fast)
            ])
            .is_empty()
        );
        // One slow call is no pattern.
        assert!(calls(&[(shapes, slow), (shapes, fast), (shapes, fast)]).is_empty());
    }
}
