//! The longest gaps of a stage, and what the host did in them.

use super::Inputs;
use super::calls::Calls;
use super::cause::Cause;
use super::gaps::Gap;
use super::line::StageIdle;
use crate::Context;
use crate::engine::facts::{OpIndex, OpSource};
use crate::engine::intervals::measure_within;
use crate::engine::moments::Moments;
use crate::operators::call_tree::is_function;
use rooflens_session::{ApiCallId, Ns, StrId};

/// Gaps of a line that are kept.
const KEPT: usize = 20;

/// Gaps that are collected before the longest are kept: instances that cross share theirs.
const COLLECTED: usize = 1 << 10;

/// A gap of a line, and what the issuing thread did in it: at the middle of its part before the issuing call.
#[derive(Clone, Debug, PartialEq)]
pub struct LongGap {
    /// Number of the instance among those of the stage and process.
    pub ordinal: u32,
    /// The gap, cut to the projection of the instance.
    pub gap: Gap,
    /// Time of the gap in which no CPU ran the issuing thread, until it had issued the operation, nanoseconds; absent
    /// if the pass has no such times, or the operation had been issued before.
    pub off_cpu: Option<Ns>,
    /// The call of CUDA or of the operating system that the host was in.
    pub host: Option<StrId>,
    /// The ranges around it, outermost first.
    pub ranges: Vec<StrId>,
    /// The innermost operator.
    pub operator: Option<StrId>,
    /// The innermost function of Python, or else the innermost frame; of a pass without stacks the function that calls
    /// the operator in a pass with stacks.
    pub frame: Option<StrId>,
    /// What the operation waits for, where it was issued in time.
    pub waits_for: Option<StrId>,
}

/// Finds the longest gaps of the lines of outermost stages.
pub(super) fn find(context: &Context<'_>, inputs: &Inputs<'_>, lines: &mut [StageIdle]) {
    let session = context.session;
    let mut gaps: Vec<(usize, u32, Gap)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.summary.is_outermost(context.facts) {
            gaps.extend(longest(context, inputs, line).map(|(ordinal, gap)| (at, ordinal, gap)));
        }
    }
    let issued_by = |gap: &Gap| context.facts.ops.api_call[gap.op as usize];
    let moments = Moments::new(gaps.iter().map(|(.., gap)| {
        let call = issued_by(gap)?;
        let thread = session.api_calls.thread[call.index()];
        Some((thread, moment(&inputs.calls, gap, call)))
    }));
    macro_rules! open {
        ($table:ident) => {{
            let table = &session.$table;
            moments.open(&table.thread, &table.start, &table.end, &table.name)
        }};
    }
    let (calls, os) = (open!(api_calls), open!(os_calls));
    let (mut ranges, operators, frames) = (open!(ranges), open!(operators), open!(frames));
    for (number, (at, ordinal, gap)) in gaps.into_iter().enumerate() {
        let scheduled = session.off_cpu.pass.contains(&lines[at].pass(context));
        let call = issued_by(&gap).filter(|_| scheduled);
        let function = frames[number]
            .iter()
            .rfind(|name| is_function(session.text(**name)));
        let operator = operators[number].last().copied();
        let frame = function.or(frames[number].last()).copied();
        lines[at].longest.push(LongGap {
            ordinal,
            off_cpu: call.and_then(|call| off_cpu(&inputs.calls, &gap, call)),
            host: calls[number].first().or(os[number].first()).copied(),
            ranges: std::mem::take(&mut ranges[number]),
            operator,
            frame: frame.or_else(|| session.caller(operator?)),
            waits_for: waited_for(context, &gap),
            gap,
        });
    }
}

/// Ordinal of the instance and gap, by (length descending, start).
fn longest(
    context: &Context<'_>,
    inputs: &Inputs<'_>,
    line: &StageIdle,
) -> impl Iterator<Item = (u32, Gap)> {
    let mut gaps: Vec<(u32, Gap)> = Vec::new();
    for instance in line.summary.counted_instances(context.facts) {
        let Some(window) = line.window(instance) else {
            continue;
        };
        gaps.extend(
            inputs
                .gaps
                .within(line.gpu, window)
                .map(|gap| (instance.ordinal, gap)),
        );
        if gaps.len() > COLLECTED {
            keep(&mut gaps);
        }
    }
    keep(&mut gaps);
    gaps.sort_unstable_by_key(order);
    gaps.into_iter()
}

/// The longest first.
fn order((_, gap): &(u32, Gap)) -> (Ns, Ns) {
    (gap.start - gap.end, gap.start)
}

fn keep(found: &mut Vec<(u32, Gap)>) {
    if found.len() > KEPT {
        found.select_nth_unstable_by_key(KEPT, order);
        found.truncate(KEPT);
    }
}

/// Time in which no CPU ran the thread of a call, from the start of a gap until the call returned.
fn off_cpu(calls: &Calls<'_>, gap: &Gap, call: ApiCallId) -> Option<Ns> {
    let thread = calls.session.api_calls.thread[call.index()];
    let until = calls.span(call).1.min(gap.end);
    (until > gap.start).then(|| measure_within(&calls.off_cpu[thread.index()], (gap.start, until)))
}

/// The middle of the longest time without a CUDA call where that is most of it, or else of what the host did before
/// the issuing call returned.
fn moment(calls: &Calls<'_>, gap: &Gap, call: ApiCallId) -> Ns {
    let (start, end) = calls.span(call);
    if gap.times.main() != Cause::HostCode {
        return gap.start + (end.min(gap.end) - gap.start).max(Ns::ZERO) / 2;
    }
    let api = &calls.session.api_calls;
    let (inside, _) = calls.since(gap.start, call);
    let (mut free_since, mut best) = (gap.start, (gap.start, start));
    let mut length = Ns(-1);
    for row in inside.iter().map(|row| *row as usize) {
        if api.start[row] - free_since > length {
            (length, best) = (api.start[row] - free_since, (free_since, api.start[row]));
        }
        free_since = api.end[row].max(free_since);
    }
    best.0 + (best.1 - best.0) / 2
}

/// What kernel, copy or graph ends a gap, in its short name.
pub fn ended_by(context: &Context<'_>, op: OpIndex) -> String {
    let session = context.session;
    match context.facts.ops.source[op as usize] {
        OpSource::Launch(launch) => {
            let kernel = session.launches.kernel[launch.index()];
            context.facts.identities[kernel.index()].short.clone()
        }
        OpSource::Copy(copy) => session.copies.kind[copy.index()].label().to_owned(),
        OpSource::Graph(_) => "CUDA graph".to_owned(),
    }
}

/// The event wait of the operation's stream that came last before its call, after that of the operation before
/// it in the stream: only for work that was issued and waits.
fn waited_for(context: &Context<'_>, gap: &Gap) -> Option<StrId> {
    if !matches!(gap.times.main(), Cause::Queue | Cause::Communication) {
        return None;
    }
    let (session, ops) = (context.session, &context.facts.ops);
    let row = gap.op as usize;
    let issued = |op: usize| ops.api_call[op].map(|call| session.api_calls.start[call.index()]);
    let until = issued(row)?;
    let same = |neighbor: &usize| {
        ops.stream[*neighbor] == ops.stream[row] && ops.gpu[*neighbor] == ops.gpu[row]
    };
    let since = (0..row)
        .rev()
        .find(same)
        .and_then(issued)
        .unwrap_or(Ns::MIN);
    let syncs = &session.synchronizations;
    let wait = (0..syncs.len()).rev().find(|wait| {
        syncs.process[*wait] == ops.process[row]
            && syncs.stream[*wait] == Some(ops.stream[row])
            && (since..until).contains(&syncs.start[*wait])
    })?;
    Some(syncs.kind[wait])
}
