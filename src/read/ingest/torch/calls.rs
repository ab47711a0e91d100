//! Joins among the rows of a file: driver calls within runtime calls, and arrows where ids are missing.

use rustc_hash::FxHashMap;

use super::rows::{CallRow, FileRows, FlowRow, GpuSpan};
use rooflens_session::{ApiLevel, Ns};

/// A flag per call: true for driver calls within a runtime call of their thread.
pub(super) fn nested(calls: &[CallRow]) -> Vec<bool> {
    let mut nested = vec![false; calls.len()];
    if calls.iter().all(|call| call.level == ApiLevel::Runtime) {
        return nested;
    }
    let mut order: Vec<usize> = (0..calls.len()).collect();
    // Of calls with one start, runtime calls come first, as they enclose.
    order.sort_unstable_by_key(|index| {
        let CallRow { span, level, .. } = &calls[*index];
        (span.lane, span.start, *level, *index)
    });
    // A runtime call that began before encloses what ends before the last of their ends.
    let mut enclosing: Option<(u32, Ns)> = None;
    for index in order {
        let CallRow { span, level, .. } = &calls[index];
        let open = enclosing
            .filter(|(lane, _)| *lane == span.lane)
            .map(|(_, end)| end);
        match level {
            ApiLevel::Driver => nested[index] = open.is_some_and(|end| span.end <= end),
            ApiLevel::Runtime => {
                enclosing = Some((span.lane, open.map_or(span.end, |end| end.max(span.end))));
            }
        }
    }
    nested
}

/// Gives operations without a correlation id that of the arrow that ends at them, and the calls
/// that of the arrow that starts at them. Returns how many operations got one.
pub(super) fn correlate_by_flows(file: &mut FileRows) -> u64 {
    let rows = &mut file.rows;
    let starts = std::mem::take(&mut rows.flow_starts);
    let ends = std::mem::take(&mut rows.flow_ends);
    let kernels = rows.kernels.iter_mut().map(|row| &mut row.gpu);
    let mut missing: Vec<&mut GpuSpan> = kernels
        .chain(rows.copies.iter_mut().map(|row| &mut row.gpu))
        .filter(|gpu| gpu.correlation.is_none())
        .collect();
    if missing.is_empty() {
        return 0;
    }
    let ends = by_place(&ends);
    for gpu in &mut missing {
        gpu.correlation = ends.get(&(gpu.span.lane, gpu.span.start)).copied();
    }
    let correlated = missing
        .iter()
        .filter(|gpu| gpu.correlation.is_some())
        .count() as u64;
    let starts = by_place(&starts);
    for call in rows
        .calls
        .iter_mut()
        .filter(|call| call.correlation.is_none())
    {
        call.correlation = starts.get(&(call.span.lane, call.span.start)).copied();
    }
    correlated
}

/// The ids of arrows by where they touch; of several, the first.
fn by_place(flows: &[FlowRow]) -> FxHashMap<(u32, Ns), i64> {
    let mut ids = FxHashMap::default();
    for flow in flows {
        ids.entry((flow.lane, flow.time)).or_insert(flow.id);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::{CallRow, nested};
    use crate::torch::rows::Span;
    use rooflens_session::ApiLevel::{self, Driver, Runtime};
    use rooflens_session::Ns;

    fn call(level: ApiLevel, lane: u32, start: i64, end: i64) -> CallRow {
        CallRow {
            span: Span {
                start: Ns(start),
                end: Ns(end),
                name: 0,
                lane,
            },
            level,
            correlation: None,
        }
    }

    #[test]
    fn driver_calls_within_runtime_calls_of_their_thread_are_nested() {
        let calls = [
            call(Driver, 0, 12, 18), // in the runtime call 10..20 that the file lists later
            call(Runtime, 0, 10, 20), //
            call(Runtime, 0, 13, 14), // a short one does not end the long one
            call(Driver, 0, 19, 21), // sticks out
            call(Driver, 1, 12, 18), // another thread
            call(Driver, 0, 10, 20), // of the same extent
            call(Runtime, 0, 20, 20), // runtime calls never are
            call(Driver, 0, 5, 6),   // before
        ];
        assert_eq!(
            nested(&calls),
            [true, false, false, false, false, true, false, false]
        );
    }
}
