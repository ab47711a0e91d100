//! How long the host itself works on an instance: no instance without waits is shorter.

use super::calls::{Calls, LOADS};
use super::cause::Cause;
use super::gaps::{by_calls, cut_host, outside};
use crate::engine::facts::{OpIndex, Ops};
use rooflens_session::{ApiCallId, Ns, ThreadId};

/// What the host does by itself. Other calls may wait for the GPU, for another thread, or for a device.
const WORK: [Cause; 3] = [Cause::Launching, Cause::HostCode, Cause::FirstUse];

/// A call that issues work: when it returns, and its row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Issue {
    start: Ns,
    end: Ns,
    call: ApiCallId,
}

/// How long the host works from the first call to the last one that issues some operations.
pub(super) struct Work {
    /// In the order of the calls: before each call the thread that makes it counts.
    pub(super) in_order: Ns,
    /// The least: threads may work at the same time, then it is at most the work of one thread, whatever that waits for
    /// between its calls.
    pub(super) least: Ns,
}

/// The work of the host on these operations.
pub(super) fn work(calls: &Calls<'_>, ops: &Ops, rows: &[OpIndex]) -> Work {
    let thread = |issue: &Issue| calls.session.api_calls.thread[issue.call.index()];
    let mut issues = Vec::new();
    for call in rows.iter().filter_map(|op| ops.api_call[*op as usize]) {
        let (start, end) = calls.span(call);
        issues.push(Issue { start, end, call });
    }
    issues.sort_unstable();
    issues.dedup();
    let mut threads: Vec<ThreadId> = issues.iter().map(thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let in_order = between(calls, issues.iter());
    let of_thread = |own: &ThreadId| {
        let issues = issues.iter().filter(|issue| thread(issue) == *own);
        between(calls, issues)
    };
    let least = match threads[..] {
        [_] => in_order,
        _ => {
            let longest = threads.iter().map(of_thread).max();
            in_order.min(longest.unwrap_or_default())
        }
    };
    Work { in_order, least }
}

/// Work from the first to the last of these calls.
fn between<'i>(calls: &Calls<'_>, issues: impl Iterator<Item = &'i Issue>) -> Ns {
    let (mut pieces, mut sum, mut at) = (Vec::new(), Ns::ZERO, None);
    for issue in issues {
        let from = at.unwrap_or(issue.start);
        if issue.end <= from {
            continue;
        }
        let time = (from, issue.end);
        at = Some(issue.end);
        if outside(calls, time, issue.call).is_empty() {
            by_calls(calls, time, issue.call, |(start, end), (cause, in_call)| {
                sum += worked(end - start, cause, in_call);
            });
            continue;
        }
        pieces.clear();
        cut_host(calls, time, issue.call, &mut pieces);
        let mut start = from;
        for piece in &pieces {
            sum += worked(piece.end - start, piece.cause, piece.in_call);
            start = piece.end;
        }
    }
    sum
}

/// The part of a time in which the host works. A call that issues work takes microseconds, unless the queue is full.
fn worked(time: Ns, cause: Cause, in_call: bool) -> Ns {
    let is_full = in_call && cause == Cause::Launching && time > LOADS;
    match WORK.contains(&cause) && !is_full {
        true => time,
        false => Ns::ZERO,
    }
}
