//! The data sets of operators and their views.

use crate::Context;
use std::cmp::Reverse;

use crate::paths;
use rooflens_analysis::operators::calls::{OperatorSum, Operators, PassOperators, ThreadSum};
use rooflens_document::{Block, Dataset, Inline, Quantity, SectionContent, Table, View};
use rooflens_session::Arrange;

/// Operators shown by device time.
const SHOWN_BY_DEVICE: usize = 15;

/// Rows of the other tables on the page.
const SHOWN: usize = 10;

/// Adds the views of the first pass with operators; other ranks and passes are in the data sets.
pub(super) fn views(context: &Context<'_>, operators: &Operators, content: &mut SectionContent) {
    let PassOperators {
        pass: primary,
        work,
        ..
    } = *operators.primary();
    let pass = context.session.pass_name(primary);
    let rows = operators
        .by_name
        .partition_point(|operator| operator.pass <= primary);
    let shaped = operators
        .by_shapes
        .partition_point(|operator| operator.pass <= primary);
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
        content.blocks.push(Block::Table(view));
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
            content.blocks.push(Block::Table(view));
        }
    } else {
        content
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
    content.blocks.push(Block::Table(view));
}

/// Operators by own device time, by own host time, and with their shapes.
pub(super) fn operators(context: &Context<'_>, operators: &Operators) -> [Dataset; 3] {
    let session = context.session;
    let named = |id| {
        columns! { context, id, row: &OperatorSum => {
            name "name" = session.text(row.name);
            text "pass" = session.pass_name(row.pass);
            with host() of row;
        } }
    };
    let by_device = device(named("operators"));
    let shaped = columns! { context, "operator_shapes", row: &OperatorSum => {
        name "name" = session.text(row.name);
        name "shapes" = session.text(row.shapes);
        text "pass" = session.pass_name(row.pass);
        with host() of row;
        with device() of row;
    } };
    let mut by_host: Vec<&OperatorSum> = operators.by_name.iter().collect();
    by_host.arrange_by_key(|operator| {
        (
            operator.pass,
            Reverse(operator.sum.host_self),
            session.text(operator.name),
        )
    });
    [
        by_device.rows(&operators.by_name),
        named("operators_by_host").rows(by_host),
        shaped.rows(&operators.by_shapes),
    ]
}

fn host(table: Table<'_, OperatorSum>) -> Table<'_, OperatorSum> {
    columns! { table, operator: &OperatorSum => {
        with paths::host() of operator;
        time "host_total_ns" = operator.sum.host_total;
    } }
}

fn device(table: Table<'_, OperatorSum>) -> Table<'_, OperatorSum> {
    columns! { table, operator: &OperatorSum => {
        with paths::device_times() of operator;
        count "launches" = operator.work.known(operator.sum.within.launches);
        Flop "flops" = operator.flops.map(|flops| flops.masked);
        Flop "flops_full" = operator.flops.map(|flops| flops.full);
        FlopPerSecond "flop_rate" = operator.flop_rate();
    } }
}

/// Adds the data set of operators that cost host time and give the GPU nothing to do: views, allocations, casts to the
/// same type; of the first pass with operators, a sentence and a table. Passes that do not say which call issued what
/// are excluded: their operators may all have GPU work.
pub(super) fn add_quiet(
    context: &Context<'_>,
    operators: &Operators,
    content: &mut SectionContent,
) {
    let session = context.session;
    let primary = operators.primary();
    if !primary.work.linked {
        return;
    }
    let is_quiet = |operator: &&OperatorSum| operator.quiet_calls > 0 && operator.work.linked;
    let mut quiet: Vec<&OperatorSum> = operators.by_name.iter().filter(is_quiet).collect();
    quiet.arrange_by_key(|operator| {
        (
            operator.pass,
            Reverse(operator.quiet_self),
            session.text(operator.name),
        )
    });
    if let Some(share) = primary
        .quiet_share(primary.quiet_self)
        .filter(|_| primary.quiet_calls > 0)
    {
        content.blocks.push(Block::Prose(say!(
            context,
            "operators.quiet",
            quiet = Quantity::count(primary.quiet_calls),
            calls = Quantity::count(primary.calls),
            pass = Inline::code(session.pass_name(primary.pass)),
            time = Quantity::ns(primary.quiet_self),
            share = share,
        )));
        let shown = quiet
            .iter()
            .filter(|operator| operator.pass == primary.pass)
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
        content.blocks.push(Block::Table(view));
    }
    let table = columns! { context, "operators_without_gpu_work", row: &OperatorSum => {
        name "name" = session.text(row.name);
        text "pass" = session.pass_name(row.pass);
        count "quiet_calls" = row.quiet_calls;
        count "calls" = row.sum.calls;
        time "quiet_self_ns" = row.quiet_self;
        time "quiet_mean_ns" = row.quiet_self.time().0 / row.quiet_calls as f64;
        share "quiet_share" = operators.of_pass(row.pass)?.quiet_share(row.quiet_self);
    } };
    content.datasets.push(table.rows(quiet));
}

/// Adds the data set of operators by thread (PyTorch runs the backward pass on a thread of its own) and, if those of the
/// first pass ran on several, its table.
pub(super) fn add_threads(
    context: &Context<'_>,
    operators: &Operators,
    content: &mut SectionContent,
) {
    let session = context.session;
    let primary = operators.primary().pass;
    let threads = &operators.threads;
    let skip = threads
        .iter()
        .filter(|thread| thread.pass < primary)
        .count();
    let shown = threads
        .iter()
        .filter(|thread| thread.pass == primary)
        .count();
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
        content.blocks.push(Block::Table(View { skip, ..view }));
    }
    let label = |thread: &ThreadSum| {
        let row = thread.thread.index();
        let name = session.text(session.threads.name[row]);
        let tid = session.threads.tid[row];
        if name.is_empty() {
            format!("thread {tid}")
        } else {
            name.to_owned()
        }
    };
    let table = columns! { context, "operator_threads", row: &ThreadSum => {
        name "thread" = label(row);
        text "pass" = session.pass_name(row.pass);
        with paths::host() of row;
        time "device_self_ns" = row.work.known(row.sum.own.device);
        count "launches" = row.work.known(row.sum.own.launches);
    } };
    content.datasets.push(table.rows(threads));
}
