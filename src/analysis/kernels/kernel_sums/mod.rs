//! Kernels: which ran, for how long, and what kind of work they were.

mod classes;
mod rows;
mod selection;
mod sums;

use rooflens_schemas::{Evidence, PassKind, Scope, Unit};

use crate::analysis::engine::classify::KernelClass;
use crate::analysis::{Analysis, Context};
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View, derived, measured};
use crate::model::{PassId, Session};
use crate::prose;

use sums::KernelSum;

pub use selection::{Selected, Window, select, window};

/// Kernels.
pub(crate) static ANALYSIS: Analysis = Analysis { id: "kernels", title: "Kernels", missing, run };

/// Kernels that a page shows per pass.
const SHOWN: usize = 20;

/// Passes that the section shows; the data sets hold all.
const SHOWN_PASSES: usize = 3;

/// Share of unclassified kernel time from which on the report says so.
pub(crate) const OTHER_LIMIT: f64 = 0.02;

fn missing(session: &Session) -> Option<&'static str> {
    let none = session.launches.is_empty()
        && session.kernel_sums.is_empty()
        && session.copies.is_empty()
        && session.graph_launches.is_empty();
    none.then_some(
        "no GPU work in this bundle: capture it with `nsys profile --trace=cuda,nvtx` and export \
         to SQLite, or with the PyTorch profiler with CUDA activities",
    )
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let sums = sums::kernel_sums(session);
    let mut findings = Findings { methods: methods(), ..Findings::default() };
    let shown = shown_passes(context);
    classes::add(context, &shown, &mut findings);
    for pass in &shown {
        add_table(context, &sums, *pass, &mut findings);
    }
    for of_pass in sums.chunk_by(|a, b| a.pass == b.pass) {
        add_metrics(context, of_pass, &mut findings);
    }
    add_names(session, &sums, &shown, &mut findings);
    findings.datasets.push(rows::kernels(context, &sums));
    findings.datasets.push(rows::libraries(context, &sums));
    findings
}

/// Passes with GPU work that the section shows: timelines, for profilers of frameworks disturb more; others
/// only where there is no timeline. The first is the primary one.
fn shown_passes(context: &Context<'_>) -> Vec<PassId> {
    let session = context.session;
    let mut with_work = vec![false; session.passes.len()];
    let passes = context.facts.ops.pass.iter().chain(&session.kernel_sums.pass);
    for pass in passes {
        if let Some(seen) = with_work.get_mut(pass.index()) {
            *seen = true;
        }
    }
    let working: Vec<PassId> = session.passes.ids().filter(|id| with_work[id.index()]).collect();
    let is_timeline = |id: &PassId| session.passes.kind[id.index()] == PassKind::Timeline;
    let timelines: Vec<PassId> = working.iter().copied().filter(is_timeline).collect();
    let mut shown = if timelines.is_empty() { working } else { timelines };
    let primary = context.facts.primary_pass(session);
    shown.sort_by_key(|pass| (Some(*pass) != primary, *pass));
    shown.truncate(SHOWN_PASSES);
    shown
}

/// Name of a pass.
fn pass_name(session: &Session, pass: PassId) -> &str {
    session.passes.name.get(pass.index()).map_or("", |name| session.text(*name))
}

/// Where the kernels of a pass were read.
fn evidence(session: &Session, pass: PassId, table: &str, rows: u64) -> Evidence {
    let artifact = session.passes.artifact.get(pass.index()).map_or("", |path| session.text(*path));
    Evidence { artifact: artifact.to_owned(), table: Some(table.to_owned()), rows: Some(rows) }
}

fn add_table(context: &Context<'_>, sums: &[KernelSum], pass: PassId, findings: &mut Findings) {
    let skip = sums.partition_point(|sum| sum.pass < pass);
    let rows = sums.partition_point(|sum| sum.pass <= pass) - skip;
    if rows == 0 {
        return;
    }
    let limit = rows.min(SHOWN);
    let name = pass_name(context.session, pass);
    let caption = match rows > limit {
        true => format!("The {limit} kernels of {rows} with the most time, pass {name}"),
        false => format!("Kernels by time, pass {name}"),
    };
    let columns = ["short", "number", "class", "library", "count", "total_ns", "share", "mean_ns"];
    let view = View { skip, ..View::new("kernels", caption, &columns, limit) };
    findings.blocks.push(Block::Table(view));
}

/// `kernel_time` and `other_share` of one pass.
fn add_metrics(context: &Context<'_>, sums: &[KernelSum], findings: &mut Findings) {
    let Some(first) = sums.first() else { return };
    let session = context.session;
    let name = pass_name(session, first.pass);
    let scope = Scope { pass: Some(name.to_owned()), ..Scope::default() };
    let total = rows::total(sums);
    let launches: u64 = sums.iter().map(|sum| sum.count).fold(0, u64::saturating_add);
    let seen = evidence(session, first.pass, "launches", launches);
    let basis = format!("sum of the durations of {launches} launches");
    let mut time = measured("kernel_time", scope.clone(), Unit::Nanoseconds, total as f64, basis);
    time.evidence.push(seen.clone());
    findings.metrics.push(time);
    if total <= 0 {
        return;
    }
    let is_other = |sum: &&KernelSum| {
        context.facts.identities.get(sum.kernel.index()).map(|found| found.class)
            == Some(KernelClass::Other)
    };
    let others: Vec<&KernelSum> = sums.iter().filter(is_other).collect();
    let other = others.iter().fold(0_i64, |time, sum| time.saturating_add(sum.total));
    let share = other as f64 / total as f64;
    let basis = format!("{other} ns of kernels of no known class / {total} ns of kernel time");
    let mut metric = derived("other_share", scope, Unit::Ratio, share, basis);
    metric.evidence.push(seen);
    findings.metrics.push(metric);
    if let Some(worst) = others.first().filter(|_| share >= OTHER_LIMIT) {
        let message = format!(
            "{} of the kernel time of pass {name} is in kernels of no known class, most of it in {}",
            Quantity::ratio(share),
            context.facts.identities[worst.kernel.index()].short,
        );
        let diagnostic = Diagnostic::new(Severity::Notice, "kernels/unclassified", message);
        findings.diagnostics.push(
            diagnostic
                .hint("their time counts as “other”; class shares of the rest are unaffected"),
        );
    }
}

/// Whole names of the kernels that tables show, for the appendix.
fn add_names(session: &Session, sums: &[KernelSum], shown: &[PassId], findings: &mut Findings) {
    let mut kernels: Vec<_> = shown
        .iter()
        .flat_map(|pass| sums.iter().filter(|sum| sum.pass == *pass).take(SHOWN))
        .map(|sum| sum.kernel)
        .collect();
    kernels.sort_unstable();
    kernels.dedup();
    if kernels.is_empty() {
        return;
    }
    let name = |kernel: &crate::model::KernelId| {
        let whole = Inline::Code(session.kernel_name(*kernel).to_owned());
        (rows::number(*kernel).to_string(), vec![whole])
    };
    findings.appendix.push(Block::Heading("Whole names of the kernels in tables".to_owned()));
    findings.appendix.push(Block::Facts(kernels.iter().map(name).collect()));
}

fn methods() -> Vec<Method> {
    let method = |title: &str, text: Vec<Inline>| Method { title: title.to_owned(), text };
    vec![
        method(
            "Kernel time",
            prose![
                "Per pass and kernel (distinct demangled name): number of launches; total, mean, median, \
                 minimum, maximum and sample standard deviation (n − 1) of end − start in integer \
                 nanoseconds. One launch has no deviation. Shares are of the kernel time of the pass: the \
                 sum of all durations, which exceeds busy time where kernels overlap. Where a pass holds \
                 no single launches but sums of “nsys stats”, those are shown.",
            ],
        ),
        method(
            "Kernel classes",
            prose![
                "Class, library, data type, tile and tensor-core use are told from the kernel's name by an \
                 ordered list of rules, the first that holds deciding; data types are the narrowest \
                 floating type that the name mentions. Class shares per stage are of the summed durations \
                 of all GPU operations of the stage's instances that are not excluded as warm-up: kernels, \
                 copies, memsets and whole CUDA graphs. ",
                Inline::Code("other_share".to_owned()),
                " is the share of kernel time whose class is unknown; from ",
                Quantity::ratio(OTHER_LIMIT),
                " on it is reported as a limit of the data.",
            ],
        ),
    ]
}

#[cfg(test)]
mod tests;
