//! Which calls of the operating system's libraries the issuing threads were in while the GPU waited for them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Inputs;
use super::cause::Cause;
use super::line::StageIdle;
use crate::Context;
use rooflens_session::{Ns, Session, StrId, ThreadId};

/// A call that lies in no other of its thread.
struct OsCall {
    thread: ThreadId,
    start: Ns,
    end: Ns,
    name: StrId,
}

/// Names the calls of all lines with idle time in some, the most time first; of equal times by name.
pub(super) fn find(context: &Context<'_>, inputs: &Inputs<'_>, lines: &mut [StageIdle]) {
    if lines.iter().all(|line| line.of(Cause::Os) == Ns::ZERO) {
        return;
    }
    let session = context.session;
    let calls = outermost(session);
    for line in lines
        .iter_mut()
        .filter(|line| line.of(Cause::Os) > Ns::ZERO)
    {
        let mut times: BTreeMap<StrId, Ns> = BTreeMap::new();
        let windows = line.summary.counted_instances(context.facts);
        let windows = windows.filter_map(|instance| line.window(instance));
        for (time, op) in windows.flat_map(|window| inputs.gaps.of(&[Cause::Os], line.gpu, window))
        {
            let Some(call) = context.facts.ops.api_call[op as usize] else {
                continue;
            };
            let thread = session.api_calls.thread[call.index()];
            let first = calls.partition_point(|call| (call.thread, call.end) <= (thread, time.0));
            let inside = calls[first..].iter();
            for call in inside.take_while(|call| call.thread == thread && call.start < time.1) {
                *times.entry(call.name).or_default() +=
                    call.end.min(time.1) - call.start.max(time.0);
            }
        }
        line.os_calls = times.into_iter().collect();
        line.os_calls
            .sort_by_key(|(name, time)| (Reverse(*time), session.text(*name)));
    }
}

/// By (thread, start): they are disjoint.
fn outermost(session: &Session) -> Vec<OsCall> {
    let table = &session.os_calls;
    let call = |row: usize| OsCall {
        thread: table.thread[row],
        start: table.start[row],
        end: table.end[row],
        name: table.name[row],
    };
    let mut calls: Vec<OsCall> = (0..table.len()).map(call).collect();
    calls.sort_by_key(|call| (call.thread, call.start, Reverse(call.end)));
    calls.dedup_by(|next, kept| next.thread == kept.thread && next.start < kept.end);
    calls
}
