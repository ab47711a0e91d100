//! Synchronization: calls in which the host waits for the GPU, and what that costs the GPU.

mod around;
pub mod charges;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rooflens_schemas::{Evidence, Metric, Polarity, Unit};

use crate::analysis::engine::facts::StageInstance;
use crate::analysis::engine::intervals::total;
use crate::analysis::engine::stage_stats::{Summary, summaries};
use crate::analysis::engine::stats::median;
use crate::analysis::{Analysis, Context};
use crate::findings::{
    Block, Cell, Column, Dataset, Findings, Inline, Method, Quantity, View, derived,
};
use crate::model::{Ns, PassId, Session, StrId, ThreadId};
use crate::prose;

use around::Paths;
use charges::{Charges, SyncCall, charge};

/// Waits of the host.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "synchronization", title: "Synchronization", missing, run };

/// Rows that a page shows of calls in stages, and of others.
const SHOWN: usize = 12;
const SHOWN_OUTSIDE: usize = 6;

/// Without synchronizing calls there is no section.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

/// Calls of one function in one place of the program.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    time: Ns,
    idle: Ns,
    after: Ns,
    in_stage: Ns,
}

/// Stage, call, path of ranges, operator.
type Place = (Option<usize>, StrId, u32, Option<StrId>);

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let (session, facts) = (context.session, context.facts);
    let primary = facts.primary_pass(session);
    let mut passes: Vec<PassId> = session.passes.ids().collect();
    passes.sort_by_key(|pass| (Some(*pass) != primary, *pass));
    let mut rows = Vec::new();
    let mut own = None;
    for pass in passes {
        let charges = charge(session, facts, pass);
        if charges.calls.is_empty() {
            continue;
        }
        for line in summaries(facts, pass) {
            findings.metrics.extend(metrics(context, line, &charges));
        }
        rows.extend(places(context, pass, &charges));
        if own.is_none() {
            findings.blocks.push(Block::Prose(introduction(context, pass, &charges)));
            let in_stages = rows.iter().take_while(|row| row[STAGE] != Cell::Missing).count();
            own = Some((in_stages, rows.len() - in_stages));
        }
    }
    let Some((in_stages, outside)) = own else { return findings };
    let caption =
        "Synchronizing calls in stages by the idle time of the GPU that follows from them";
    let shown = 0..in_stages.min(SHOWN);
    findings.blocks.extend(view(&rows, shown, &["stage"], &["in_stage_ns"], caption));
    let caption = "Synchronizing calls outside of the instances that count: at start-up, in the warm-up, between stages";
    let shown = in_stages..in_stages + outside.min(SHOWN_OUTSIDE);
    findings.blocks.extend(view(&rows, shown, &[], &[], caption));
    findings.datasets.push(dataset(rows));
    findings.methods.push(method());
    findings
}

/// The page's view of some rows; none of none.
fn view(
    rows: &[Vec<Cell>],
    shown: Range<usize>,
    first: &[&'static str],
    last: &[&'static str],
    caption: &str,
) -> Option<Block> {
    let operators = rows[shown.clone()].iter().any(|row| row[OPERATOR] != Cell::Missing);
    let mut columns = first.to_vec();
    columns.extend(["call", "range"]);
    columns.extend(operators.then_some("operator"));
    columns.extend(["count", "time_ns", "idle_ns", "after_ns"]);
    columns.extend(last);
    let view = View::new("synchronization", caption, &columns, shown.len());
    (!shown.is_empty()).then_some(Block::Table(View { skip: shown.start, ..view }))
}

/// Places of columns.
const STAGE: usize = 0;
const OPERATOR: usize = 4;

fn dataset(rows: Vec<Vec<Cell>>) -> Dataset {
    let columns = vec![
        Column::text("stage", "Stage"),
        Column::text("call", "Call"),
        Column::text("pass", "Pass"),
        Column::text("range", "Range"),
        Column::text("operator", "Operator"),
        Column::new("count", "Count", Unit::Count),
        Column::new("time_ns", "Host time", Unit::Nanoseconds),
        Column::new("idle_ns", "GPU idle", Unit::Nanoseconds),
        Column::new("after_ns", "of it after return", Unit::Nanoseconds),
        Column::new("in_stage_ns", "in stages", Unit::Nanoseconds),
    ];
    let title = "Synchronizing calls by place".to_owned();
    Dataset { id: "synchronization", title, columns, rows }
}

/// One row per (stage, call, path of ranges, operator) of a pass: first those in stages; each by idle time in stages
/// descending, then in all.
fn places(context: &Context<'_>, pass: PassId, charges: &Charges) -> Vec<Vec<Cell>> {
    let session = context.session;
    let moments: Vec<(ThreadId, Ns)> =
        charges.calls.iter().map(|call| (call.thread, call.start)).collect();
    let threads: BTreeSet<ThreadId> = moments.iter().map(|moment| moment.0).collect();
    let (ranges, operators) = (&session.ranges, &session.operators);
    let range = |row: &usize| {
        (ranges.thread[*row], ranges.start[*row], ranges.end[*row], ranges.name[*row])
    };
    let own_ranges = (0..ranges.len())
        .filter(|row| ranges.pass[*row] == pass && threads.contains(&ranges.thread[*row]));
    let ranges = Paths::new(own_ranges.map(|row| range(&row)).collect(), &moments);
    let operator = |row: usize| {
        (operators.thread[row], operators.start[row], operators.end[row], operators.name[row])
    };
    let own_operators = (0..operators.len())
        .filter(|row| operators.pass[*row] == pass && threads.contains(&operators.thread[*row]));
    let operators = Paths::new(own_operators.map(operator).collect(), &moments);
    let mut sums: BTreeMap<Place, Sum> = BTreeMap::new();
    for (at, call) in charges.calls.iter().enumerate() {
        let name = session.api_calls.name[call.call.index()];
        let place = (call.stage, name, ranges.of[at], operators.innermost(operators.of[at]));
        let sum = sums.entry(place).or_default();
        sum.count += 1;
        sum.time = sum.time.saturating_add(call.end - call.start);
        sum.idle = sum.idle.saturating_add(call.idle);
        sum.after = sum.after.saturating_add(call.after);
        sum.in_stage = sum.in_stage.saturating_add(call.in_stage);
    }
    let mut list: Vec<_> = sums.into_iter().collect();
    list.sort_by_key(|(place, sum)| {
        (place.0.is_none(), std::cmp::Reverse((sum.in_stage, sum.idle, sum.time)), *place)
    });
    let pass = session.pass_name(pass);
    let row = |((stage, name, path, operator), sum): (Place, Sum)| {
        let names: Vec<&str> =
            ranges.names(path).into_iter().map(|name| session.text(name)).collect();
        let named = |text: String| if text.is_empty() { Cell::Missing } else { Cell::Name(text) };
        vec![
            stage.map_or(Cell::Missing, |at| Cell::Name(context.facts.stages[at].name.clone())),
            Cell::Name(session.text(name).to_owned()),
            Cell::Text(pass.to_owned()),
            named(names.join(" › ")),
            named(operator.map_or(String::new(), |operator| session.text(operator).to_owned())),
            Cell::Int(sum.count as i64),
            Cell::Int(sum.time),
            Cell::Int(sum.idle),
            Cell::Int(sum.after),
            Cell::Int(sum.in_stage),
        ]
    };
    list.into_iter().map(row).collect()
}

/// `sync_calls`, `sync_time` and `sync_idle` of a stage.
fn metrics(context: &Context<'_>, line: &Summary, charges: &Charges) -> Vec<Metric> {
    let (session, facts) = (context.session, context.facts);
    let calls = &session.api_calls;
    let counts = |one: &&StageInstance| one.process == line.process && one.excluded.is_none();
    let (mut count, mut time, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    // By start, to find those of an instance at once.
    let mut starts: Vec<(Ns, Ns)> = charges
        .calls
        .iter()
        .filter(|call| calls.process[call.call.index()] == line.process)
        .map(|call| (call.start, call.end - call.start))
        .collect();
    starts.sort_unstable();
    for one in facts.instances_of(line.stage(facts)).iter().filter(counts) {
        let first = starts.partition_point(|call| call.0 < one.host_start);
        let last = first.max(starts.partition_point(|call| call.0 < one.host_end));
        count.push((last - first) as f64);
        time.push(starts[first..last].iter().map(|call| call.1 as f64).sum());
        let begin = one.projection.map_or(Ns::MAX, |projection| projection.0);
        let gap = |op: &u32| {
            let (start, _) = charges.by_op.get(op)?;
            (*start >= begin).then(|| (facts.ops.start[*op as usize] - start) as f64)
        };
        idle.push(one.ops.iter().filter_map(gap).sum());
    }
    let over = format!("median of {} instances", count.len());
    let scope = line.scope(session, facts);
    let metric = |id, unit, values: &[f64], what: &str| {
        let value = median(values).unwrap_or(0.0);
        let mut metric = derived(id, scope.clone(), unit, value, format!("{what}; {over}"));
        metric.polarity = Polarity::Lower;
        let artifact = session.passes.artifact[line.stage(facts).pass.index()];
        metric.evidence.push(Evidence {
            artifact: session.text(artifact).to_owned(),
            table: Some("api_calls".to_owned()),
            rows: Some(charges.calls.len() as u64),
        });
        metric
    };
    vec![
        metric(
            "sync_calls",
            Unit::Count,
            &count,
            "synchronizing calls of the process that start within the range on the host",
        ),
        metric("sync_time", Unit::Nanoseconds, &time, "Σ durations of those calls"),
        metric(
            "sync_idle",
            Unit::Nanoseconds,
            &idle,
            "Σ gaps within the projection, between operations of the GPU, charged to a synchronizing call",
        ),
    ]
}

fn introduction(context: &Context<'_>, pass: PassId, charges: &Charges) -> Vec<Inline> {
    let session = context.session;
    let (inside, outside): (Vec<&SyncCall>, Vec<&SyncCall>) =
        charges.calls.iter().partition(|call| call.stage.is_some());
    let pass = Inline::Code(session.pass_name(pass).to_owned());
    let count = |calls: &[&SyncCall]| Quantity::count(calls.len() as u64);
    let sum = |calls: &[&SyncCall], value: &dyn Fn(&SyncCall) -> Ns| {
        Quantity::ns(total(calls.iter().map(|call| value(call))))
    };
    let mut text = match inside.is_empty() {
        true => prose!["No stage of pass ", pass, " waits for the GPU in a synchronizing call."],
        false => prose![
            "In stages of pass ",
            pass,
            " the host waits for the GPU in ",
            count(&inside),
            " calls, ",
            sum(&inside, &|call| call.end - call.start),
            " in all."
        ],
    };
    if inside.iter().any(|call| call.idle > 0) {
        text.extend(prose![
            " The GPU then idles for ",
            sum(&inside, &|call| call.idle),
            ", ",
            sum(&inside, &|call| call.after),
            " of it after the call has returned and until the thread's next operation begins: a host that need not \
             wait could have issued that operation before. ",
            sum(&inside, &|call| call.in_stage),
            " of it lies between operations of one instance."
        ]);
    }
    if !outside.is_empty() {
        text.extend(prose![
            " Outside of stages, at start-up, in the warm-up and in between, it waits in ",
            count(&outside),
            " calls, ",
            sum(&outside, &|call| call.end - call.start),
            " in all, and the GPU then idles for ",
            sum(&outside, &|call| call.idle),
            "."
        ]);
    }
    text
}

fn method() -> Method {
    Method {
        title: "Synchronization".to_owned(),
        text: prose![
            "Synchronizing calls are those that wait for a stream, an event, a device or a context, copies \
             without “Async” in their name, and asynchronous copies from the GPU into pageable memory; calls \
             within other CUDA calls are not counted again, and allocator calls that wait are not counted. A gap \
             is a time between operations of a GPU in which none runs. It is charged to a synchronizing call if \
             the call that issued the operation that ends the gap started after the gap had begun, and its \
             thread was in the synchronizing call during the gap and before; of several to the first. So each \
             nanosecond of idle time is charged to one call at most. A call is in a stage if it starts within the \
             range of an instance that counts, on the host and in its process; idle time “in stages” lies in gaps \
             between operations of such instances.",
        ],
    }
}
