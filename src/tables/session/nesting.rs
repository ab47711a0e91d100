//! Which CUDA calls run inside others: runtime calls call the driver, and some exports hold both.

use crate::ApiCalls;

/// Sets `nested` for the rows from `first` on, by a sweep over each thread's calls.
///
/// Of two calls with the same interval the earlier row is the outer one.
pub fn mark_nested(calls: &mut ApiCalls, first: usize) {
    let mut order: Vec<usize> = (first..calls.len()).collect();
    let key = |row: usize| (calls.thread[row], calls.start[row], -calls.end[row], row);
    if !order.is_sorted_by_key(|row| key(*row)) {
        order.sort_unstable_by_key(|row| key(*row));
    }
    let mut outer = None;
    for row in order {
        let (thread, end) = (calls.thread[row], calls.end[row]);
        match outer {
            Some((same, outer_end)) if same == thread && end <= outer_end => {
                calls.nested[row] = true;
            }
            _ => outer = Some((thread, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mark_nested;
    use crate::{ApiCall, ApiCalls, ApiLevel, Ns, PassId, ProcessId, StrId, ThreadId};

    #[test]
    fn a_call_within_another_of_its_thread_is_nested() {
        let mut calls = ApiCalls::default();
        for (start, end, thread) in [(0, 10, 0), (2, 8, 0), (2, 8, 1), (10, 12, 0), (10, 12, 0)] {
            calls.push(ApiCall {
                start: Ns(start),
                end: Ns(end),
                name: StrId(0),
                level: ApiLevel::Runtime,
                nested: false,
                pass: PassId(0),
                process: ProcessId(0),
                thread: ThreadId(thread),
                correlation: None,
            });
        }
        mark_nested(&mut calls, 0);
        assert_eq!(calls.nested, [false, true, false, false, true]);
    }
}
