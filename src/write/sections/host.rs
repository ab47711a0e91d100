//! Host activity: what a capture without GPU work holds, and why there may be none.

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::system::host::{Calls, HostPass, Sampled, Thread};
use rooflens_document::{Block, Catalogue, Inline, Quantity, SectionContent, Table};
use rooflens_session::{PassId, Session};

/// Sessions with GPU work have sections that say more.
pub(super) static SECTION: Section = Section { id: "host", show };

/// Rows of a table on the page.
const ROWS: usize = 16;

/// Names of a pass's rows.
type Row<'r, R> = (PassId, &'r R);

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut content = SectionContent::default();
    let Ok(host) = context.results.host() else {
        return Ok(content);
    };
    let (text, session) = (context.text, context.session);
    let rows = |calls_of: fn(&HostPass) -> &[Calls]| -> Vec<Row<'_, Calls>> {
        let passes = host.passes.iter();
        passes
            .flat_map(|pass| calls_of(pass).iter().map(|row| (pass.pass, row)))
            .collect()
    };
    let kinds: [(&'static str, String, Vec<Row<'_, Calls>>); 3] = [
        (
            "host_cuda_calls",
            words!(context, "host.cuda_calls"),
            rows(|pass| &pass.cuda),
        ),
        (
            "host_os_calls",
            words!(context, "host.os_calls"),
            rows(|pass| &pass.system),
        ),
        (
            "host_ranges",
            words!(context, "host.ranges"),
            rows(|pass| &pass.ranges),
        ),
    ];
    for (id, caption, rows) in kinds.into_iter().filter(|(.., rows)| !rows.is_empty()) {
        let table = calls(text, session, id);
        content.main.push(Block::Table(table.view(caption, ROWS)));
        content.datasets.push(table.rows(&rows));
    }
    let samples: Vec<Row<'_, Sampled>> = host
        .passes
        .iter()
        .flat_map(|pass| pass.samples.iter().map(|row| (pass.pass, row)))
        .collect();
    if !samples.is_empty() {
        let table = sampled(text, session);
        content.main.push(Block::Table(
            table.view(words!(context, "host.samples"), ROWS),
        ));
        content.datasets.push(table.rows(&samples));
    }
    let host_threads: Vec<Row<'_, Thread>> = host
        .passes
        .iter()
        .flat_map(|pass| pass.threads.iter().map(|row| (pass.pass, row)))
        .collect();
    if !host_threads.is_empty() {
        let table = threads(text, session);
        content.main.push(Block::Table(
            table.view(words!(context, "host.threads"), ROWS),
        ));
        content.datasets.push(table.rows(&host_threads));
    }
    Ok(content)
}

/// The first page: that no GPU operation was recorded, why that may be, and what was recorded instead.
pub(super) fn first_page(context: &Context<'_>) -> Vec<Block> {
    let Ok(host) = context.results.host() else {
        return Vec::new();
    };
    host.passes
        .iter()
        .map(|pass| Block::Prose(of_pass(context, pass)))
        .collect()
}

fn of_pass(context: &Context<'_>, pass: &HostPass) -> Vec<Inline> {
    let name = Inline::strong(context.session.pass_name(pass.pass));
    let pass_name = name.clone();
    let traced = (!pass.traced.is_empty()).then(|| pass.traced.join(context.text.comma()));
    let launches = pass.cuda.iter().any(|call| {
        let name = context.session.text(call.name);
        let mut work = ["Launch", "Memcpy", "Memset"].iter();
        work.any(|work| name.contains(work))
    });
    let was_traced = pass
        .traced
        .iter()
        .any(|kind| kind.eq_ignore_ascii_case("cuda"));
    let mut sentence = match traced {
        _ if pass.span.is_none() => Vec::new(),
        _ if launches => say!(context, "host.lost", pass = name),
        Some(traced) if was_traced => say!(context, "host.none", pass = name, traced = traced),
        Some(traced) => say!(context, "host.not_traced", pass = name, traced = traced),
        None => say!(context, "host.unknown", pass = name),
    };
    let count = |calls: &[Calls]| {
        let sum: u64 = calls.iter().map(|call| call.count).sum();
        (sum > 0).then(|| Quantity::count(sum))
    };
    let samples: u64 = pass.samples.iter().map(|sample| sample.count).sum();
    let parts = [
        count(&pass.cuda).map(|count| say!(context, "host.count_cuda", count = count)),
        count(&pass.system).map(|count| say!(context, "host.count_os", count = count)),
        count(&pass.ranges).map(|count| say!(context, "host.count_ranges", count = count)),
        (samples > 0).then(|| {
            say!(
                context,
                "host.count_samples",
                count = Quantity::count(samples)
            )
        }),
        Some(say!(
            context,
            "host.count_threads",
            count = Quantity::count(pass.threads.len() as u64)
        ))
        .filter(|_| !pass.threads.is_empty()),
    ];
    let parts =
        super::joined(parts.into_iter().flatten(), context.text.comma()).unwrap_or_default();
    let Some(span) = pass.span else {
        return say!(context, "host.summed", pass = pass_name, parts = parts);
    };
    sentence.push(context.text.space().into());
    sentence.extend(say!(
        context,
        "host.holds",
        span = Quantity::ns(span),
        parts = parts
    ));
    sentence
}

fn calls<'t>(
    text: &'static Catalogue,
    session: &'t Session,
    id: &'static str,
) -> Table<'t, Row<'t, Calls>> {
    columns! { Table::new(text, id), (pass, row): &Row<'_, Calls> => {
        name "pass" = session.pass_name(*pass), page if session.passes.len() > 1;
        name "name" = session.text(row.name), page;
        count "calls" = row.count, page;
        time "total_ns" = row.total, page;
        time "mean_ns" = row.total.time().0 / row.count.max(1) as f64, page;
        time "longest_ns" = row.longest, page;
    } }
}

fn sampled<'t>(text: &'static Catalogue, session: &'t Session) -> Table<'t, Row<'t, Sampled>> {
    let stated = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    columns! { Table::new(text, "host_samples"), (pass, row): &Row<'_, Sampled> => {
        name "pass" = session.pass_name(*pass), page if session.passes.len() > 1;
        name "function" = stated(session.text(row.function)), page;
        name "library" = stated(session.text(row.library)), page;
        count "samples" = row.count, page;
        share "share" = row.share, page;
    } }
}

fn threads<'t>(text: &'static Catalogue, session: &'t Session) -> Table<'t, Row<'t, Thread>> {
    let nonzero = |count: u64| Some(count).filter(|count| *count > 0);
    let name = |thread: &Thread| session.text(session.threads.name[thread.thread.index()]);
    columns! { Table::new(text, "host_threads"), (pass, row): &Row<'_, Thread> => {
        name "pass" = session.pass_name(*pass), page if session.passes.len() > 1;
        name "thread" = Some(name(row).to_owned()).filter(|name| !name.is_empty()), page;
        text "thread_id" = session.threads.tid[row.thread.index()].to_string(), page;
        count "os_calls" = nonzero(row.system.0), page;
        time "os_calls_ns" = nonzero(row.system.0).map(|_| row.system.1), page;
        count "samples" = nonzero(row.samples), page;
        count "off_cpu" = nonzero(row.off_cpu.0), page;
        time "off_cpu_ns" = nonzero(row.off_cpu.0).map(|_| row.off_cpu.1), page;
    } }
}
