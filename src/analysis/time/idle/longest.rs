//! The longest gaps of a stage, and what the host did in them.

use rooflens_schemas::Unit;

use super::Sweeps;
use super::calls::Calls;
use super::cause::Cause;
use super::gaps::Gap;
use super::line::Line;
use crate::analysis::Context;
use crate::analysis::engine::facts::{OpIndex, OpSource};
use crate::analysis::engine::intervals::measure_within;
use crate::analysis::engine::stage_stats::counted;
use crate::analysis::operators::call_tree::{fold, is_function};
use crate::findings::{Cell, Column, Dataset};
use crate::model::{ApiCallId, Ns, Session, StrId, ThreadId};

/// Gaps of a stage that the data set holds.
const HELD: usize = 20;

/// A gap of a line.
struct Long {
    line: usize,
    ordinal: u32,
    gap: Gap,
    /// The issuing thread, and a moment of the gap that tells what it did: the middle of its part before the
    /// issuing call.
    moment: Option<(ThreadId, Ns)>,
    /// Time of the gap in which no CPU ran the issuing thread, until it had issued the operation; absent if the
    /// pass has no such times, or the operation had been issued before.
    off_cpu: Option<Ns>,
}

/// One row a gap: for each line its longest, by (line, length descending, start).
pub(super) fn dataset(context: &Context<'_>, sweeps: &Sweeps<'_>, lines: &[&Line]) -> Dataset {
    let mut all = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        all.extend(longest(context, sweeps, line, number));
    }
    let moments: Vec<(ThreadId, Ns, usize)> = all
        .iter()
        .enumerate()
        .filter_map(|(row, long)| long.moment.map(|(thread, time)| (thread, time, row)))
        .collect();
    let open = Open::new(context.session, moments, all.len());
    let rows = all.iter().zip(0..).map(|(long, number)| {
        let line = lines[long.line];
        let ended = ended_by(context, long.gap.op);
        vec![
            Cell::Text(line.label(context)),
            Cell::Text(line.pass_name(context)),
            Cell::Int(i64::from(long.ordinal)),
            Cell::Int(long.gap.start),
            Cell::Int(long.gap.end - long.gap.start),
            long.off_cpu.map_or(Cell::Missing, Cell::Int),
            Cell::Text(long.gap.cause.label().to_owned()),
            Cell::Text(open.host(context.session, number)),
            maybe_name(open.last(context.session, &open.ranges, number)),
            maybe_name(open.path(context.session, number)),
            maybe_name(open.last(context.session, &open.operators, number)),
            maybe_name(open.function(context.session, number)),
            maybe_name(waited_for(context, &long.gap)),
            maybe_name(issued_by(context, long.gap.op)),
            Cell::Name(ended),
        ]
    });
    Dataset {
        id: "gaps",
        title: "The longest gaps of each stage".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::new("ordinal", "No.", Unit::Count),
            Column::new("start_ns", "Start", Unit::Nanoseconds),
            Column::new("length_ns", "Length", Unit::Nanoseconds),
            Column::new("off_cpu_ns", "Thread off CPU", Unit::Nanoseconds),
            Column::text("cause", "Cause"),
            Column::text("host", "The host was in"),
            Column::text("range", "Range"),
            Column::text("path", "Path of ranges"),
            Column::text("operator", "Operator"),
            Column::text("frame", "Function"),
            Column::text("waits", "Waits for"),
            Column::text("issued_by", "Issued by"),
            Column::text("ended_by", "Ended by"),
        ],
        rows: rows.collect(),
    }
}

fn maybe_name(text: Option<String>) -> Cell {
    text.filter(|text| !text.is_empty()).map_or(Cell::Missing, Cell::Name)
}

fn longest(
    context: &Context<'_>,
    Sweeps { calls, gaps, .. }: &Sweeps<'_>,
    line: &Line,
    number: usize,
) -> Vec<Long> {
    let mut found: Vec<(u32, Gap)> = Vec::new();
    for instance in counted(context.facts, &line.summary) {
        let Some(window) = instance.projection.filter(|_| instance.gpus.contains(&line.gpu)) else {
            continue;
        };
        for (gap, time) in gaps.within(line.gpu, window) {
            // A window of several GPUs may cut a gap.
            let start = gap.start.max(window.0);
            found.push((instance.ordinal, Gap { start, end: start + time, ..*gap }));
        }
    }
    let key = |(_, gap): &(u32, Gap)| (gap.start - gap.end, gap.start);
    if found.len() > HELD {
        found.select_nth_unstable_by_key(HELD, key);
        found.truncate(HELD);
    }
    found.sort_unstable_by_key(key);
    let pass = line.summary.stage(context.facts).pass;
    let scheduled = context.session.off_cpu.pass.contains(&pass);
    let long = |(ordinal, gap): (u32, Gap)| {
        let call = context.facts.ops.api_call[gap.op as usize];
        let moment = call.map(|call| {
            let thread = context.session.api_calls.thread[call.index()];
            (thread, moment(calls, &gap, call))
        });
        let call = call.filter(|_| scheduled);
        let off_cpu = call.and_then(|call| off_cpu(calls, &gap, call));
        Long { line: number, ordinal, gap, moment, off_cpu }
    };
    found.into_iter().map(long).collect()
}

/// Time in which no CPU ran the thread of a call, from the start of a gap until the call returned.
fn off_cpu(calls: &Calls<'_>, gap: &Gap, call: ApiCallId) -> Option<Ns> {
    let thread = calls.session.api_calls.thread[call.index()];
    let until = calls.span(call).1.min(gap.end);
    (until > gap.start).then(|| measure_within(calls.off_cpu(thread), (gap.start, until)))
}

/// The middle of the longest time without a CUDA call where that decided, or else of what the host did before
/// the issuing call returned.
fn moment(calls: &Calls<'_>, gap: &Gap, call: ApiCallId) -> Ns {
    let (start, end) = calls.span(call);
    if gap.cause != Cause::HostCode {
        return gap.start + (end.min(gap.end) - gap.start).max(0) / 2;
    }
    let api = &calls.session.api_calls;
    let (inside, _) = calls.since(gap.start, call);
    let (mut free_since, mut best) = (gap.start, (gap.start, start));
    let mut length = -1;
    for row in inside.iter().map(|row| *row as usize) {
        if api.start[row] - free_since > length {
            (length, best) = (api.start[row] - free_since, (free_since, api.start[row]));
        }
        free_since = api.end[row].max(free_since);
    }
    best.0 + (best.1 - best.0) / 2
}

fn ended_by(context: &Context<'_>, op: OpIndex) -> String {
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

fn issued_by(context: &Context<'_>, op: OpIndex) -> Option<String> {
    let call = context.facts.ops.api_call[op as usize]?;
    let calls = &context.session.api_calls;
    Some(context.session.text(calls.name[call.index()]).to_owned())
}

/// The event wait of the operation's stream that came last before its call, after that of the operation before
/// it in the stream: only for work that was issued and waits.
fn waited_for(context: &Context<'_>, gap: &Gap) -> Option<String> {
    if !matches!(gap.cause, Cause::Queue | Cause::Communication) {
        return None;
    }
    let (session, ops) = (context.session, &context.facts.ops);
    let row = gap.op as usize;
    let issued = |op: usize| ops.api_call[op].map(|call| session.api_calls.start[call.index()]);
    let until = issued(row)?;
    let same =
        |other: &usize| ops.stream[*other] == ops.stream[row] && ops.gpu[*other] == ops.gpu[row];
    let since = (0..row).rev().find(same).and_then(issued).unwrap_or(Ns::MIN);
    let syncs = &session.synchronizations;
    let wait = (0..syncs.len()).rev().find(|wait| {
        syncs.process[*wait] == ops.process[row]
            && syncs.stream[*wait] == Some(ops.stream[row])
            && (since..until).contains(&syncs.start[*wait])
    })?;
    Some(session.text(syncs.kind[wait]).to_owned())
}

/// What was open on the threads of some moments: rows of tables, outermost first, by moment.
struct Open {
    calls: Vec<Vec<StrId>>,
    os: Vec<Vec<StrId>>,
    ranges: Vec<Vec<StrId>>,
    operators: Vec<Vec<StrId>>,
    frames: Vec<Vec<StrId>>,
}

impl Open {
    fn new(session: &Session, mut moments: Vec<(ThreadId, Ns, usize)>, count: usize) -> Self {
        moments.sort_unstable();
        macro_rules! open {
            ($table:ident) => {{
                let table = &session.$table;
                let mut rows = vec![Vec::new(); count];
                for (row, thread) in table.thread.iter().enumerate() {
                    let (start, end) = (table.start[row], table.end[row]);
                    let first =
                        moments.partition_point(|moment| (moment.0, moment.1) < (*thread, start));
                    let inside = moments[first..].iter();
                    for moment in inside.take_while(|one| one.0 == *thread && one.1 < end) {
                        rows[moment.2].push((start, std::cmp::Reverse(end), row, table.name[row]));
                    }
                }
                let names = |mut open: Vec<(Ns, std::cmp::Reverse<Ns>, usize, StrId)>| {
                    open.sort_unstable();
                    open.into_iter().map(|row| row.3).collect()
                };
                rows.into_iter().map(names).collect()
            }};
        }
        Self {
            calls: open!(api_calls),
            os: open!(os_calls),
            ranges: open!(ranges),
            operators: open!(operators),
            frames: open!(frames),
        }
    }

    /// The call of CUDA or of the operating system.
    fn host(&self, session: &Session, moment: usize) -> String {
        let outermost =
            |names: &[Vec<StrId>]| names[moment].first().map(|name| session.text(*name));
        let call = outermost(&self.calls).or_else(|| outermost(&self.os));
        call.unwrap_or("no call").to_owned()
    }

    /// The innermost name.
    fn last(&self, session: &Session, names: &[Vec<StrId>], moment: usize) -> Option<String> {
        names[moment].last().map(|name| session.text(*name).to_owned())
    }

    /// The innermost function of Python, or else the innermost frame.
    fn function(&self, session: &Session, moment: usize) -> Option<String> {
        let names = || self.frames[moment].iter().rev().map(|name| session.text(*name));
        names().find(|name| is_function(name)).or_else(|| names().next()).map(fold)
    }

    /// The ranges from the outermost to the innermost.
    fn path(&self, session: &Session, moment: usize) -> Option<String> {
        let names: Vec<&str> = self.ranges[moment].iter().map(|name| session.text(*name)).collect();
        (!names.is_empty()).then(|| names.join(" / "))
    }
}
