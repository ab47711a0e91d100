//! What-if: how short a stage could be if one thing were away. Upper bounds of gains, never added up.

mod kernel;
#[cfg(test)]
mod tests;

use rooflens_schemas::{Evidence, Metric, Unit};

use crate::analysis::Context;
use crate::analysis::kernels::gemm;
use crate::analysis::time::idle::{Cause, Line};
use crate::findings::{
    Block, Cell, Column, Dataset, Findings, Inline, Method, View, derived, unavailable,
};
use crate::model::{Ns, ProcessId};
use crate::prose;

/// Rows that a page shows.
const SHOWN: usize = 15;

/// Share of the stage time below which a gain is in no table.
const NEGLIGIBLE: f64 = 0.001;

/// What is thought away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Launching,
    Host,
    Copies,
    Communication,
    TopKernel,
    MatrixProducts,
}

/// A what-if of one stage.
struct Bound {
    what: What,
    /// The kernel that is thought away.
    kernel: Option<String>,
    /// Time that would vanish and the time that it is a part of, nanoseconds: of the GPU that gains least.
    gone: Ns,
    of: Ns,
    /// Stage time now, nanoseconds.
    time: f64,
}

impl What {
    const ALL: [Self; 6] = [
        Self::Launching,
        Self::Host,
        Self::Copies,
        Self::Communication,
        Self::TopKernel,
        Self::MatrixProducts,
    ];

    const fn metric(self) -> &'static str {
        match self {
            Self::Launching => "bound_launching",
            Self::Host => "bound_host",
            Self::Copies => "bound_copies",
            Self::Communication => "bound_communication",
            Self::TopKernel => "bound_top_kernel",
            Self::MatrixProducts => "bound_matrix_products",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Launching => "no launching gaps",
            Self::Host => "no gaps because of the host",
            Self::Copies => "copies overlapped",
            Self::Communication => "collectives overlapped",
            Self::TopKernel => "top kernel free",
            Self::MatrixProducts => "matrix products at their roofline",
        }
    }

    const fn formula(self) -> &'static str {
        match self {
            Self::Launching => "idle time of cause launching",
            Self::Host => {
                "idle time of causes launching, host code, synchronizing call, allocation, blocking copy, \
                 operating system, off CPU"
            }
            Self::Copies => {
                "time in which only copies run, but for half of it, in which both directions of the link carry them"
            }
            Self::Communication => "time in which a collective runs and no other kernel",
            Self::TopKernel => "time in which only this kernel runs",
            Self::MatrixProducts => {
                "time of matrix products of known sizes above max(FLOPs ÷ rate, bytes ÷ bandwidth), as measured on this GPU, \
                 else as specified"
            }
        }
    }

    const fn assumption(self) -> &'static str {
        match self {
            Self::Launching => "launches cost nothing, as with CUDA graphs; kernels take as long",
            Self::Host => "the host is always ahead; kernels take as long",
            Self::Copies => "all copies find kernels to run beside, which they do not slow",
            Self::Communication => {
                "all collectives find kernels to run beside, which they do not slow"
            }
            Self::TopKernel | Self::MatrixProducts => "the host keeps up: no gap takes its place",
        }
    }

    /// What would vanish of a line's time, nanoseconds, the kernel aside.
    fn of(self, line: &Line) -> Ns {
        match self {
            Self::Launching => line.of(Cause::Launching),
            Self::Host => {
                Cause::HOST.iter().fold(0, |sum: Ns, cause| sum.saturating_add(line.of(*cause)))
            }
            // The link still carries them, both directions at once at best.
            Self::Copies => {
                line.middle.busy.copies.min(line.middle.time - line.middle.busy.copies / 2)
            }
            Self::Communication => line.middle.busy.communication,
            Self::TopKernel | Self::MatrixProducts => 0,
        }
    }
}

impl Bound {
    /// Stage time without it, nanoseconds.
    fn new_time(&self) -> f64 {
        self.time - self.gain()
    }

    fn gain(&self) -> f64 {
        if self.of > 0 { self.time * (self.gone as f64 / self.of as f64) } else { 0.0 }
    }
}

/// Adds metrics and the table of all lines; pages show the stages of the first `outermost` ones.
pub(crate) fn add(
    context: &Context<'_>,
    lines: &[&Line],
    outermost: usize,
    findings: &mut Findings,
) {
    let products = gemm::above_roofline(context);
    let mut rows = Vec::new();
    let mut shown = 0;
    let mut at = 0;
    // One group a stage and process: a stage is as slow as its slowest GPU.
    for group in lines.chunk_by(|a, b| {
        a.summary.stage == b.summary.stage && a.summary.process == b.summary.process
    }) {
        let mut bounds = bounds(context, group);
        bounds.extend(of_products(&products, group));
        findings.metrics.extend(metrics(context, group, &bounds));
        bounds.retain(|bound| bound.gain() >= bound.time * NEGLIGIBLE && bound.gone > 0);
        bounds.sort_by(|a, b| b.gain().total_cmp(&a.gain()).then(a.what.cmp(&b.what)));
        rows.extend(bounds.iter().map(|bound| row(context, group[0], bound)));
        at += group.len();
        if at <= outermost {
            shown = rows.len();
        }
    }
    if rows.is_empty() {
        return;
    }
    findings.blocks.push(Block::Heading("What could be gained".to_owned()));
    findings.blocks.push(Block::Prose(prose![
        "How short a stage could be if one thing were away, and nothing else changed. Each line is an upper \
         bound of what can be gained; the lines of a stage do not add up."
    ]));
    let columns = ["stage", "what", "new_time_ns", "gain_ns", "gain_share", "assumption"];
    let caption = "Upper bounds of gains, by stage";
    findings.blocks.push(Block::Table(View::new("bounds", caption, &columns, shown.min(SHOWN))));
    findings.datasets.push(dataset(rows));
    findings.methods.push(method());
}

fn bounds(context: &Context<'_>, group: &[&Line]) -> Vec<Bound> {
    let top = kernel::top(context, group[0]);
    let bound = |what: What| {
        let kernel = top.filter(|_| what == What::TopKernel);
        if what == What::TopKernel && kernel.is_none() {
            return None;
        }
        let gone = |line: &Line| match kernel {
            Some(kernel) => kernel::alone(context, line, kernel),
            None => what.of(line),
        };
        let parts =
            group.iter().map(|line| (gone(line), line.middle.time)).filter(|(_, time)| *time > 0);
        // Of the GPUs the one that gains least, as a share of its time.
        let least = parts.min_by(|a, b| {
            let (left, right) =
                (i128::from(a.0) * i128::from(b.1), i128::from(b.0) * i128::from(a.1));
            left.cmp(&right)
        });
        let (gone, of) = least?;
        let kernel = kernel.map(|kernel| context.facts.identities[kernel.index()].short.clone());
        Some(Bound { what, kernel, gone, of, time: group[0].summary.time })
    };
    let all = What::ALL.into_iter().filter(|what| *what != What::MatrixProducts);
    all.filter_map(bound).collect()
}

/// The bound by matrix products, of a stage on one GPU: of several, products would have to be told apart by GPU.
fn of_products(products: &[(usize, ProcessId, f64)], group: &[&Line]) -> Option<Bound> {
    let [line] = group else { return None };
    let (stage, process) = (line.summary.stage, line.summary.process);
    let (_, _, above) = products.iter().find(|one| (one.0, one.1) == (stage, process))?;
    let (gone, time) = (above.round() as Ns, line.summary.time);
    Some(Bound { what: What::MatrixProducts, kernel: None, gone, of: line.middle.time, time })
}

fn metrics(context: &Context<'_>, group: &[&Line], bounds: &[Bound]) -> Vec<Metric> {
    let line = group[0];
    let (session, facts) = (context.session, context.facts);
    let scope = line.summary.scope(session, facts);
    let pass = line.summary.stage(facts).pass;
    let no_calls = !session.api_calls.pass.contains(&pass);
    let evidence = Evidence {
        artifact: session.artifact_of(pass).to_owned(),
        table: Some("launches, copies, api_calls".to_owned()),
        rows: Some(line.summary.operations as u64),
    };
    let metric = |what: What| {
        let (id, unit) = (what.metric(), Unit::Nanoseconds);
        let bound = bounds.iter().find(|bound| bound.what == what);
        let mut metric = match bound {
            None if what == What::MatrixProducts => unavailable(
                id,
                scope.clone(),
                unit,
                "no sizes of matrix products of this stage on one GPU: record shapes, or a cuBLASLt log",
            ),
            None => unavailable(
                id,
                scope.clone(),
                unit,
                "the stage runs no kernel that the artifact shows",
            ),
            Some(_) if no_calls && matches!(what, What::Launching | What::Host) => {
                unavailable(id, scope.clone(), unit, "the artifact holds no CUDA call")
            }
            Some(bound) => {
                let of =
                    bound.kernel.as_ref().map_or(String::new(), |kernel| format!(" ({kernel})"));
                let basis = format!(
                    "stage time × (1 − {} ns ÷ {} ns): {}{of}; {}",
                    bound.gone,
                    bound.of,
                    what.formula(),
                    what.assumption()
                );
                derived(id, scope.clone(), unit, bound.new_time(), basis)
            }
        };
        metric.evidence = vec![evidence.clone()];
        metric
    };
    What::ALL.into_iter().map(metric).collect()
}

fn row(context: &Context<'_>, line: &Line, bound: &Bound) -> Vec<Cell> {
    let what = match &bound.kernel {
        Some(kernel) => format!("{}: {kernel}", bound.what.label()),
        None => bound.what.label().to_owned(),
    };
    vec![
        Cell::Text(line.summary.label(context.session, context.facts)),
        Cell::Text(line.pass_name(context)),
        Cell::Name(what),
        Cell::Float(bound.time),
        Cell::Float(bound.new_time()),
        Cell::Float(bound.gain()),
        Cell::maybe((bound.time > 0.0).then(|| bound.gain() / bound.time)),
        Cell::Text(bound.what.formula().to_owned()),
        Cell::Text(bound.what.assumption().to_owned()),
    ]
}

fn dataset(rows: Vec<Vec<Cell>>) -> Dataset {
    Dataset {
        id: "bounds",
        title: "Upper bounds of gains".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::text("what", "If"),
            Column::new("time_ns", "Stage time", Unit::Nanoseconds),
            Column::new("new_time_ns", "New time", Unit::Nanoseconds),
            Column::new("gain_ns", "Gain", Unit::Nanoseconds),
            Column::new("gain_share", "Gain", Unit::Ratio),
            Column::text("formula", "What vanishes"),
            Column::text("assumption", "Assumption"),
        ],
        rows,
    }
}

fn method() -> Method {
    let mut text = prose![
        "New stage time = stage time × (1 − what vanishes ÷ stage time, both of the instance of median time); \
         where a process uses several GPUs, that of the GPU that gains least. The lines of a stage overlap and are \
         never added up. "
    ];
    for what in What::ALL {
        text.extend(prose![
            Inline::Strong(what.label().to_owned()),
            format!(": {} vanishes; assumed: {}. ", what.formula(), what.assumption())
        ]);
    }
    Method { title: "Upper bounds of gains".to_owned(), text }
}
