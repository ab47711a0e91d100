//! Operators that cost host time and give the GPU nothing to do: views, allocations, casts to the same type.

use std::cmp::Reverse;

use rooflens_schemas::Unit;

use super::sums::OperatorSum;
use super::{DeviceWork, rows};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Inline, Quantity, View};
use crate::model::{Ns, PassId, Session};
use crate::prose;

/// Operators that the table shows.
const SHOWN: usize = 10;

/// Host time outside of operators and CUDA calls, of calls of all operators and of those without GPU work.
fn own_times(sums: &[&OperatorSum]) -> (Ns, Ns, u64) {
    sums.iter().fold((0, 0, 0), |(all, quiet, calls), sum| {
        let (all, quiet): (Ns, Ns) = (all, quiet);
        (
            all.saturating_add(sum.host_self),
            quiet.saturating_add(sum.quiet_self),
            calls + sum.quiet_calls,
        )
    })
}

/// Adds the data set of all passes and, of the first with operators, a sentence and a table.
/// Passes that do not say which call issued what are left out: their operators may all have GPU work.
pub(super) fn add(
    session: &Session,
    sums: &[OperatorSum],
    work: &[DeviceWork],
    primary: PassId,
    findings: &mut Findings,
) {
    if !work[primary.index()].linked {
        return;
    }
    let is_quiet = |sum: &&OperatorSum| sum.quiet_calls > 0 && work[sum.pass.index()].linked;
    let mut quiet: Vec<&OperatorSum> = sums.iter().filter(is_quiet).collect();
    quiet.sort_by_key(|sum| (sum.pass, Reverse(sum.quiet_self), session.text(sum.name)));
    let of_primary: Vec<&OperatorSum> = sums.iter().filter(|sum| sum.pass == primary).collect();
    let (all, time, calls) = own_times(&of_primary);
    if calls > 0 && all > 0 {
        let all_calls = of_primary.iter().map(|sum| sum.calls).sum();
        findings.blocks.push(Block::Prose(prose![
            Quantity::count(calls),
            " of ",
            Quantity::count(all_calls),
            " operator calls of the pass ",
            Inline::Code(session.pass_name(primary).to_owned()),
            " issue no GPU work, neither themselves nor within: their own host time is ",
            Quantity::ns(time),
            ", ",
            Quantity::ratio(time as f64 / all as f64),
            " of that of all operators.",
        ]));
        let shown = quiet.iter().filter(|sum| sum.pass == primary).count().min(SHOWN);
        let caption = "Operator calls without GPU work, by own host time";
        let columns =
            ["name", "quiet_calls", "calls", "quiet_self_ns", "quiet_mean_ns", "quiet_share"];
        let view = View::new("operators_without_gpu_work", caption, &columns, shown);
        findings.blocks.push(Block::Table(view));
    }
    findings.datasets.push(dataset(session, sums, &quiet));
}

fn dataset(session: &Session, sums: &[OperatorSum], quiet: &[&OperatorSum]) -> Dataset {
    let columns = vec![
        Column::text("name", "Operator"),
        Column::text("pass", "Pass"),
        Column::new("quiet_calls", "Calls without GPU work", Unit::Count),
        Column::new("calls", "Calls", Unit::Count),
        Column::new("quiet_self_ns", "Own host time of these", Unit::Nanoseconds),
        Column::new("quiet_mean_ns", "Per call", Unit::Nanoseconds),
        Column::new("quiet_share", "Share of own host time", Unit::Ratio),
    ];
    let mut rows = Vec::with_capacity(quiet.len());
    for of_pass in quiet.chunk_by(|a, b| a.pass == b.pass) {
        let same = |sum: &&OperatorSum| sum.pass == of_pass[0].pass;
        let (all, _, _) = own_times(&sums.iter().filter(same).collect::<Vec<_>>());
        rows.extend(of_pass.iter().map(|sum| {
            vec![
                rows::name(session, sum),
                rows::pass(session, sum),
                rows::count(sum.quiet_calls),
                rows::count(sum.calls),
                Cell::Int(sum.quiet_self),
                Cell::Float(sum.quiet_self as f64 / sum.quiet_calls as f64),
                Cell::maybe((all > 0).then(|| sum.quiet_self as f64 / all as f64)),
            ]
        }));
    }
    let title = "Operator calls without GPU work".to_owned();
    Dataset { id: "operators_without_gpu_work", title, columns, rows }
}
