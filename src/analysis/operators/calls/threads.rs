//! Operators by thread: PyTorch runs the backward pass on a thread of its own.

use rooflens_schemas::Unit;

use super::DeviceWork;
use super::nesting::Nesting;
use super::rows::count;
use crate::findings::{Block, Cell, Column, Dataset, Findings, View};
use crate::model::{Ns, PassId, Session, ThreadId};

/// Threads that the table shows.
const SHOWN: usize = 10;

/// What the operators of a thread do.
#[derive(Clone, Default)]
struct ThreadSum {
    calls: u64,
    host_self: Ns,
    host_cuda: Ns,
    device: Ns,
    launches: u64,
}

/// Adds the data set of all passes and, if the operators of `primary` ran on several threads, its table.
pub(super) fn add(
    session: &Session,
    nesting: &Nesting,
    primary: PassId,
    work: &[DeviceWork],
    findings: &mut Findings,
) {
    let mut sums = vec![ThreadSum::default(); session.threads.len()];
    for (row, thread) in session.operators.thread.iter().enumerate() {
        let sum = &mut sums[thread.index()];
        sum.calls += 1;
        sum.host_self = sum.host_self.saturating_add(nesting.spans.own[row]);
        sum.host_cuda = sum.host_cuda.saturating_add(nesting.spans.calls[row]);
        sum.device = sum.device.saturating_add(nesting.device[row]);
        sum.launches += nesting.launches[row];
    }
    let pass =
        |thread: ThreadId| session.processes.pass[session.threads.process[thread.index()].index()];
    let with_calls = |thread: &ThreadId| sums[thread.index()].calls > 0;
    let mut threads: Vec<ThreadId> = session.threads.ids().filter(with_calls).collect();
    threads.sort_by_key(|thread| (pass(*thread), *thread));
    let skip = threads.iter().filter(|thread| pass(**thread) < primary).count();
    let shown = threads.iter().filter(|thread| pass(**thread) == primary).count();
    if shown > 1 {
        let name = session.pass_name(primary);
        let caption = format!("Operators by thread, pass {name}");
        let columns =
            ["thread", "calls", "host_self_ns", "host_cuda_ns", "device_self_ns", "launches"];
        let view =
            View { skip, ..View::new("operator_threads", caption, &columns, shown.min(SHOWN)) };
        findings.blocks.push(Block::Table(view));
    }
    let row = |thread: &ThreadId| {
        row(session, *thread, pass(*thread), &sums[thread.index()], &work[pass(*thread).index()])
    };
    let rows = threads.iter().map(row).collect();
    findings.datasets.push(Dataset {
        id: "operator_threads",
        title: "Operators by thread".to_owned(),
        columns: vec![
            Column::text("thread", "Thread"),
            Column::text("pass", "Pass"),
            Column::new("calls", "Calls", Unit::Count),
            Column::new("host_self_ns", "Own host time", Unit::Nanoseconds),
            Column::new("host_cuda_ns", "In CUDA calls", Unit::Nanoseconds),
            Column::new("device_self_ns", "Own device time", Unit::Nanoseconds),
            Column::new("launches", "Launches", Unit::Count),
        ],
        rows,
    });
}

fn row(
    session: &Session,
    thread: ThreadId,
    pass: PassId,
    sum: &ThreadSum,
    work: &DeviceWork,
) -> Vec<Cell> {
    let name = session.text(session.threads.name[thread.index()]);
    let tid = session.threads.tid[thread.index()];
    let label = if name.is_empty() { format!("thread {tid}") } else { name.to_owned() };
    let on_device = |cell: Cell| if work.linked { cell } else { Cell::Missing };
    vec![
        Cell::Name(label),
        Cell::Text(session.pass_name(pass).to_owned()),
        count(sum.calls),
        Cell::Int(sum.host_self),
        Cell::Int(sum.host_cuda),
        on_device(Cell::Int(sum.device)),
        on_device(count(sum.launches)),
    ]
}
