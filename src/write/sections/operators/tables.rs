//! The data sets of operators and their views.

use crate::Context;
use std::cmp::Reverse;

use rooflens_schemas::Unit;

use crate::paths;
use rooflens_analysis::operators::calls::{OperatorSum, Operators, PassOperators, ThreadSum};
use rooflens_document::{Block, Dataset, Inline, Quantity, SectionContent, Table, View};
use rooflens_session::Arrange;

/// Operators shown by device time.
const SHOWN_BY_DEVICE: usize = 15;

/// Rows of the other tables on the page.
const SHOWN: usize = 10;

/// Adds the views of the first pass with operators; other ranks and passes are in the data sets.
pub(super) fn views(context: &Context<'_>, operators: &Operators, findings: &mut SectionContent) {
    let PassOperators {
        pass: primary,
        work,
        ..
    } = *operators.primary();
    let pass = context.session.pass_name(primary);
    let rows = operators.by_name.partition_point(|one| one.pass <= primary);
    let shaped = operators
        .by_shapes
        .partition_point(|one| one.pass <= primary);
    if work.linked {
        let columns = [
            "name",
            "calls",
            "device_self_ns",
            "device_share",
            "launches",
            "host_total_ns",
            "flops",
            "flop_rate",
        ];
        let caption = words!(context, "operators.by_device", pass = pass);
        let view = View::new("operators", caption, &columns, rows.min(SHOWN_BY_DEVICE));
        findings.blocks.push(Block::Table(view));
        if shaped > 0 {
            let columns = [
                "name",
                "shapes",
                "calls",
                "device_self_ns",
                "device_share",
                "flops",
                "flop_rate",
            ];
            let caption = words!(context, "operators.by_shapes", pass = pass);
            let view = View::new(
                "operator_shapes",
                caption,
                &columns,
                shaped.min(SHOWN_BY_DEVICE),
            );
            findings.blocks.push(Block::Table(view));
        }
    } else {
        findings
            .blocks
            .push(Block::Missing(words!(context, "operators.no_links")));
    }
    let columns = [
        "name",
        "calls",
        "host_self_ns",
        "host_cuda_ns",
        "host_total_ns",
    ];
    let caption = words!(context, "operators.by_host", pass = pass);
    let view = View::new("operators_by_host", caption, &columns, rows.min(SHOWN));
    findings.blocks.push(Block::Table(view));
}

/// Operators by own device time, by own host time, and with their shapes.
pub(super) fn operators(context: &Context<'_>, operators: &Operators) -> [Dataset; 3] {
    let session = context.session;
    let named = |id| {
        Table::new(context.text, id)
            .name("name", |one: &OperatorSum| session.text(one.name))
            .text("pass", |one| session.pass_name(one.pass))
            .with(host)
    };
    let by_device = named("operators").with(device);
    let shaped = Table::new(context.text, "operator_shapes")
        .name("name", |one: &OperatorSum| session.text(one.name))
        .name("shapes", |one| session.text(one.shapes))
        .text("pass", |one| session.pass_name(one.pass))
        .with(host)
        .with(device);
    let mut by_host: Vec<&OperatorSum> = operators.by_name.iter().collect();
    by_host.arrange_by_key(|one| (one.pass, Reverse(one.sum.host_self), session.text(one.name)));
    [
        by_device.rows(&operators.by_name),
        named("operators_by_host").rows(by_host),
        shaped.rows(&operators.by_shapes),
    ]
}

fn host(table: Table<'_, OperatorSum>) -> Table<'_, OperatorSum> {
    paths::host(table, |one| &one.sum).time("host_total_ns", |one| one.sum.host_total)
}

fn device(table: Table<'_, OperatorSum>) -> Table<'_, OperatorSum> {
    paths::device_times(table, |one| (&one.sum, one.work))
        .count("launches", |one| one.work.known(one.sum.within.launches))
        .column("flops", Unit::Flop, |one| {
            one.flops.map(|flops| flops.masked)
        })
        .column("flops_full", Unit::Flop, |one| {
            one.flops.map(|flops| flops.full)
        })
        .column("flop_rate", Unit::FlopPerSecond, OperatorSum::flop_rate)
}

/// Adds the data set of operators that cost host time and give the GPU nothing to do: views, allocations, casts to the
/// same type; of the first pass with operators, a sentence and a table. Passes that do not say which call issued what
/// are left out: their operators may all have GPU work.
pub(super) fn add_quiet(
    context: &Context<'_>,
    operators: &Operators,
    findings: &mut SectionContent,
) {
    let session = context.session;
    let primary = operators.primary();
    if !primary.work.linked {
        return;
    }
    let is_quiet = |one: &&OperatorSum| one.quiet_calls > 0 && one.work.linked;
    let mut quiet: Vec<&OperatorSum> = operators.by_name.iter().filter(is_quiet).collect();
    quiet.arrange_by_key(|one| (one.pass, Reverse(one.quiet_self), session.text(one.name)));
    if let Some(share) = primary
        .quiet_share(primary.quiet_self)
        .filter(|_| primary.quiet_calls > 0)
    {
        findings.blocks.push(Block::Prose(say!(
            context,
            "operators.quiet",
            quiet = Quantity::count(primary.quiet_calls),
            calls = Quantity::count(primary.calls),
            pass = Inline::code(session.pass_name(primary.pass)),
            time = Quantity::ns(primary.quiet_self),
            share = Quantity::ratio(share),
        )));
        let shown = quiet
            .iter()
            .filter(|one| one.pass == primary.pass)
            .count()
            .min(SHOWN);
        let caption = words!(context, "operators.quiet_caption");
        let columns = [
            "name",
            "quiet_calls",
            "calls",
            "quiet_self_ns",
            "quiet_mean_ns",
            "quiet_share",
        ];
        let view = View::new("operators_without_gpu_work", caption, &columns, shown);
        findings.blocks.push(Block::Table(view));
    }
    let table = Table::new(context.text, "operators_without_gpu_work")
        .name("name", |one: &OperatorSum| session.text(one.name))
        .text("pass", |one| session.pass_name(one.pass))
        .count("quiet_calls", |one| one.quiet_calls)
        .count("calls", |one| one.sum.calls)
        .time("quiet_self_ns", |one| one.quiet_self)
        .time("quiet_mean_ns", |one| {
            one.quiet_self as f64 / one.quiet_calls as f64
        })
        .share("quiet_share", |one| {
            operators.of_pass(one.pass)?.quiet_share(one.quiet_self)
        });
    findings.datasets.push(table.rows(quiet));
}

/// Adds the data set of operators by thread (PyTorch runs the backward pass on a thread of its own) and, if those of the
/// first pass ran on several, its table.
pub(super) fn add_threads(
    context: &Context<'_>,
    operators: &Operators,
    findings: &mut SectionContent,
) {
    let session = context.session;
    let primary = operators.primary().pass;
    let threads = &operators.threads;
    let skip = threads.iter().filter(|one| one.pass < primary).count();
    let shown = threads.iter().filter(|one| one.pass == primary).count();
    if shown > 1 {
        let caption = words!(
            context,
            "operators.by_thread",
            pass = session.pass_name(primary)
        );
        let columns = [
            "thread",
            "calls",
            "host_self_ns",
            "host_cuda_ns",
            "device_self_ns",
            "launches",
        ];
        let view = View::new("operator_threads", caption, &columns, shown.min(SHOWN));
        findings.blocks.push(Block::Table(View { skip, ..view }));
    }
    let label = |one: &ThreadSum| {
        let row = one.thread.index();
        let name = session.text(session.threads.name[row]);
        let tid = session.threads.tid[row];
        if name.is_empty() {
            format!("thread {tid}")
        } else {
            name.to_owned()
        }
    };
    let table = Table::new(context.text, "operator_threads")
        .name("thread", label)
        .text("pass", |one| session.pass_name(one.pass))
        .with(|table| paths::host(table, |one: &ThreadSum| &one.sum))
        .time("device_self_ns", |one| one.work.known(one.sum.own.device))
        .count("launches", |one| one.work.known(one.sum.own.launches));
    findings.datasets.push(table.rows(threads));
}
