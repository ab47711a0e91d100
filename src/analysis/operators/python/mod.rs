//! Functions of Python: which holds the GPU's time, the host's and the idle, from traces recorded with stacks.

mod idle;
mod rows;
mod sums;
#[cfg(test)]
mod tests;
mod tree;

use rooflens_schemas::{Evidence, Scope, Unit};

use crate::analysis::operators::call_tree::Spans;
use crate::analysis::operators::calls::{DeviceWork, device_work};
use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View, derived};
use crate::model::{PassId, Session};
use crate::prose;

use sums::Sums;

/// Functions of Python.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "python", title: "Python functions", missing, run };

/// Functions that a table shows.
const SHOWN: usize = 10;

/// Stacks are a choice of who records, so nothing is missing without them.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let mut findings = Findings::default();
    if session.frames.is_empty() {
        return findings;
    }
    let spans = Spans::of_functions(session);
    let sums = Sums::new(context, &spans);
    let Some(primary) = sums.all.first().map(|sum| sum.pass) else { return findings };
    let work = device_work(context);
    introduce(context, &sums, primary, &work[primary.index()], &mut findings);
    tree::add(context, &spans, primary, &mut findings);
    add_tables(session, &sums, primary, &work[primary.index()], &mut findings);
    for of_pass in sums.all.chunk_by(|a, b| a.pass == b.pass) {
        add_coverage(session, of_pass, &work, &mut findings);
    }
    findings.datasets.push(rows::by_device(session, &sums, &work));
    findings.datasets.push(rows::by_host(session, &sums));
    findings.methods.push(method());
    findings
}

/// What the functions hold of the GPU's time.
fn introduce(
    context: &Context<'_>,
    sums: &Sums,
    primary: PassId,
    work: &DeviceWork,
    findings: &mut Findings,
) {
    let session = context.session;
    let name = session.pass_name(primary).to_owned();
    let of_primary = sums.all.iter().filter(|sum| sum.pass == primary);
    let mut text = prose![
        "The pass ",
        Inline::Code(name),
        " recorded ",
        Quantity::count(of_primary.clone().map(|sum| sum.calls).sum()),
        " calls of ",
        Quantity::count(of_primary.clone().count() as u64),
        " Python functions. "
    ];
    if work.linked && work.total > 0 {
        let held = of_primary.map(|sum| sum.device_self).fold(0, i64::saturating_add);
        text.extend(prose![
            "Within them ",
            Quantity::ratio(held as f64 / work.total as f64),
            " of the GPU time was issued. "
        ]);
        if held < work.total {
            text.push(
                "The rest was issued outside of them, as by the thread of the backward pass. "
                    .into(),
            );
        }
    }
    text.extend(prose![
        "Recording stacks costs host time in every call: times of the host compare functions with one another, \
         not with runs without a profiler."
    ]);
    findings.blocks.push(Block::Prose(text));
}

/// Tables of the first pass with functions; other ranks and passes are in the data sets.
fn add_tables(
    session: &Session,
    sums: &Sums,
    primary: PassId,
    work: &DeviceWork,
    findings: &mut Findings,
) {
    let name = session.pass_name(primary);
    let of_primary = || sums.all.iter().filter(|sum| sum.pass == primary);
    let shown = of_primary().count().min(SHOWN);
    if work.linked {
        let mut columns =
            vec!["function", "calls", "device_self_ns", "device_share", "device_total_ns"];
        if of_primary().any(|sum| sum.backward > 0) {
            columns.push("backward_ns");
        }
        columns.extend(["launches", "host_self_ns"]);
        let caption = format!("Python functions by own device time, pass {name}");
        let view = View::new("python_functions", caption, &columns, shown);
        findings.blocks.push(Block::Table(view));
    }
    let mut columns = vec!["function", "calls", "host_self_ns", "host_cuda_ns", "host_total_ns"];
    if work.linked {
        columns.extend(["idle_self_ns", "idle_ns"]);
    }
    let caption = format!("Python functions by own host time, pass {name}");
    let view = View::new("python_functions_by_host", caption, &columns, shown);
    findings.blocks.push(Block::Table(view));
}

/// What share of the GPU time was issued within functions.
fn add_coverage(
    session: &Session,
    of_pass: &[sums::FunctionSum],
    work: &[DeviceWork],
    findings: &mut Findings,
) {
    let Some(pass) = of_pass.first().map(|sum| sum.pass.index()) else { return };
    let work = &work[pass];
    if !work.linked || work.total <= 0 {
        return;
    }
    let text = |id: crate::model::StrId| session.text(id).to_owned();
    let scope = Scope { pass: Some(text(session.passes.name[pass])), ..Scope::default() };
    let held = of_pass.iter().map(|sum| sum.device_self).fold(0, i64::saturating_add);
    let basis = format!(
        "{held} ns of GPU operations issued within Python functions / {} ns of all",
        work.total
    );
    let share = held as f64 / work.total as f64;
    let mut metric = derived("python_coverage", scope, Unit::Ratio, share, basis);
    metric.evidence.push(Evidence {
        artifact: text(session.passes.artifact[pass]),
        table: Some("frames".to_owned()),
        rows: Some(of_pass.iter().map(|sum| sum.calls).sum()),
    });
    findings.metrics.push(metric);
}

fn method() -> Method {
    Method {
        title: "Python functions".to_owned(),
        text: prose![
            "Frames of PyTorch traces recorded with stacks nest by time on their thread. What functions without \
             Python source do, and what PyTorch does between a module and its ",
            Inline::Code("forward".to_owned()),
            ", counts to the function that calls them. Own host time is without functions and CUDA calls within; \
             totals count a function within itself once. Device time is that of the GPU operations whose CUDA call \
             starts within the function, own device time that of those whose innermost function it is. Idle is the \
             time between the first and the last GPU operation of the pass in which no GPU ran any, while a thread \
             that issues GPU work was in the function, own idle while this was its innermost one. Functions are \
             named by file, line and name, of the path the last two parts."
        ],
    }
}
