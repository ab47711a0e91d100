//! Communication: collectives, how much of them shows, and which rank the others wait for.

mod calls;
mod cause;
mod lines;
mod matching;
mod messages;
mod metrics;
mod operation;
mod speed;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod waits;

use rustc_hash::FxHashMap;

use crate::analysis::engine::facts::OpIndex;
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{Block, Cell, Chart, Findings, Quantity, View};
use crate::model::{PassId, Session};

use calls::{Call, Run};
use lines::Line;
use matching::Matching;
use rooflens_schemas::Unit;
use waits::Wait;

/// Collectives and ranks.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "communication", title: "Communication", missing, run };

/// Rows of each table on the page.
const SHOWN: usize = 16;

/// All that is known of one run.
struct Ranks {
    run: Run,
    matching: Matching,
    waits: FxHashMap<OpIndex, Wait>,
    lines: Vec<Line>,
    /// By member: collectives in which it came last.
    last: Vec<u64>,
}

/// Without collectives there is no section.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let mut all: Vec<Ranks> =
        calls::runs(context).into_iter().map(|run| ranks(context, run)).collect();
    let primary = context.facts.primary_pass(context.session);
    all.sort_by_key(|one| !one.run.members.iter().any(|member| Some(member.pass) == primary));
    let Some(first) = all.first() else { return findings };
    findings.blocks.push(Block::Prose(text::introduction(context, first)));
    findings.blocks.push(Block::Chart(chart(context, first)));
    findings.blocks.extend(text::straggler(context, first).map(Block::Prose));
    findings.blocks.extend(text::messages(first).map(Block::Prose));
    add_tables(context, &all, &mut findings);
    for one in &all {
        findings.metrics.extend(one.lines.iter().flat_map(|line| metrics::of_line(context, line)));
        findings.metrics.extend(metrics::imbalances(context, &one.run, &one.lines));
        findings.metrics.extend(metrics::clock(&one.run, &one.matching));
        findings.metrics.extend(metrics::bus(context, &one.run, &one.waits));
        findings.diagnostics.extend(text::mismatched(one));
    }
    findings.methods.push(text::method());
    findings
}

fn ranks(context: &Context<'_>, run: Run) -> Ranks {
    let matching = matching::find(&run);
    let waits = waits::by_op(&run, &matching);
    let lines = lines::lines(context, &run, &waits);
    let counted = counted(context);
    let last = waits::last_arrivals(&run, &matching, &|call| counted[call.op as usize]);
    Ranks { run, matching, waits, lines, last }
}

/// Whether an operation counts: it is in a stage instance that is not left out, or in no stage.
fn counted(context: &Context<'_>) -> Vec<bool> {
    let facts = context.facts;
    let mut counted = vec![true; facts.ops.len()];
    for instance in facts.instances.iter().filter(|instance| instance.excluded.is_some()) {
        for op in &instance.ops {
            counted[*op as usize] = false;
        }
    }
    counted
}

fn add_tables(context: &Context<'_>, all: &[Ranks], findings: &mut Findings) {
    let by_rank: Vec<_> =
        all.iter().map(|one| (&one.run, &one.lines[..], one.last.clone())).collect();
    let ranks = tables::ranks(context, &by_rank);
    let waits = all.iter().any(|one| !one.matching.matches.is_empty());
    let mut columns = vec![
        "stage",
        "pass",
        "rank",
        "time_ns",
        "compute_ns",
        "communication_ns",
        "exposed_ns",
        "exposed_share",
    ];
    columns.extend(if waits { &["wait_ns", "last"][..] } else { &["idle_ns"] });
    if all.iter().flat_map(|one| &one.lines).any(|line| line.speed.clock.is_some()) {
        columns.push("sm_clock_hz");
    }
    let caption = "Ranks: medians over the instances that count";
    findings.blocks.push(Block::Table(View::new(
        "ranks",
        caption,
        &columns,
        ranks.rows.len().min(SHOWN),
    )));
    findings.datasets.push(ranks);
    let kinds: Vec<_> = all.iter().map(|one| (&one.run, &one.waits)).collect();
    let collectives = tables::collectives(context, &kinds);
    let mut columns = vec!["operation", "pass", "rank", "dtype", "bytes", "count", "total_ns"];
    if waits {
        columns.push("transfer_ns");
    }
    let calls = || all.iter().flat_map(|one| &one.run.members).flat_map(|member| &member.calls);
    if calls().any(|call| call.bytes.is_some()) {
        columns.push("bus_bandwidth");
    }
    if collectives.rows.iter().any(|row| !matches!(row.last(), Some(Cell::Missing))) {
        columns.push("nvlink_share");
    }
    let shown = collectives.rows.len().min(SHOWN);
    findings.blocks.push(Block::Table(View::new(
        "collectives",
        "Collectives by rank",
        &columns,
        shown,
    )));
    findings.datasets.push(collectives);
    add_messages(all, findings);
}

/// The table of messages between ranks, if there are any.
fn add_messages(all: &[Ranks], findings: &mut Findings) {
    let runs: Vec<_> = all.iter().map(|one| (&one.run, &one.matching)).collect();
    let messages = messages::dataset(&runs);
    if messages.rows.is_empty() {
        return;
    }
    let shown = messages.rows.len().min(SHOWN);
    let columns = [
        "pass",
        "from",
        "to",
        "bytes",
        "count",
        "sender_wait_ns",
        "receiver_wait_ns",
        "transfer_ns",
        "bandwidth",
    ];
    let caption = "Messages from rank to rank";
    findings.blocks.push(Block::Table(View::new("messages", caption, &columns, shown)));
    findings.datasets.push(messages);
}

/// What each rank's time goes to: bars of one stage, or of each.
fn chart(context: &Context<'_>, ranks: &Ranks) -> Chart {
    let named = |name: &str, color| Part { name: name.to_owned(), color };
    let stages = ranks.lines.iter().any(|line| line.stage.is_some());
    let shown: Vec<&Line> =
        ranks.lines.iter().filter(|line| line.stage.is_some() == stages).take(SHOWN).collect();
    let bar = |line: &&Line| {
        let parts = line.sum.parts;
        let idle = line.sum.time - parts.busy;
        let rest = parts.busy - parts.compute - parts.communication_exposed;
        let values = [parts.compute, parts.communication_exposed, rest, idle];
        Bar {
            label: format!("{} rank {}", lines::label(context, line), line.rank)
                .trim_start()
                .to_owned(),
            values: values.map(|value| value as f64).to_vec(),
            note: format!(
                "{} communicating",
                Quantity::ratio(parts.communication as f64 / line.sum.time.max(1) as f64)
            ),
        }
    };
    Chart {
        id: "ranks".to_owned(),
        title: "What the ranks do".to_owned(),
        description: format!(
            "One bar per stage and rank of the pass {}: the shares of the stage time in which the GPU computes, \
             communicates without computing, copies alone, and is idle. The table below holds the numbers.",
            ranks.run.name
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: vec![
                named("computing", Color::Gemm),
                named("exposed communication", Color::Communication),
                named("copies alone", Color::Copy),
                named("idle", Color::Idle),
            ],
            bars: shown.iter().map(bar).collect(),
        }),
    }
}

/// For each collective of a pass that waited: the operation of the rank that came last in it.
pub(crate) fn last_ranks(context: &Context<'_>, pass: PassId) -> FxHashMap<OpIndex, OpIndex> {
    let mut last = FxHashMap::default();
    for run in calls::runs(context) {
        if !run.members.iter().all(|member| member.pass == pass) {
            continue;
        }
        let matching = matching::find(&run);
        let waits = waits::by_op(&run, &matching);
        for one in &matching.matches {
            let calls = || one.iter().map(|(member, call)| &run.members[*member].calls[*call]);
            let wait = |call: &Call| waits.get(&call.op).map_or(0, |wait| wait.wait);
            let Some(latest) = calls().min_by_key(|call| (wait(call), call.op)) else {
                continue;
            };
            // Ends of a message that need not wait for each other go their own ways.
            let together = |call: &&Call| !call.operation.is_message() || wait(call) > 0;
            for call in calls().filter(|call| call.op != latest.op).filter(together) {
                last.insert(call.op, latest.op);
            }
        }
    }
    last
}
