//! What the work in graphs is: by the range that was open at capture, or by an eager twin.

use std::cmp::Reverse;

use rooflens_schemas::{Evidence, Scope, Unit};
use rustc_hash::FxHashMap;

use super::replays::Replays;
use super::twins::{self, Match, Matches, Twin};
use crate::analysis::Context;
use crate::analysis::engine::facts::{Captured, OpIndex};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Inline, Quantity, View, derived};
use crate::model::{KernelId, Ns, PassId, StrId};
use crate::prose;

/// Rows that a page shows.
const SHOWN: usize = 15;

/// How an operation in a graph got its name, or why it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Origin {
    /// The range that was open at capture.
    Capture(StrId),
    /// The twin's names, and why there is no range.
    Twin(Twin, Captured),
    /// The graph was aligned, but the kernel has no partner.
    Unmatched(Captured),
    /// Neither.
    Unknown(Captured),
}

impl Origin {
    /// Why there is no range of capture.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Capture(_) => None,
            Self::Twin(_, captured) | Self::Unmatched(captured) | Self::Unknown(captured) => {
                Some(captured.reason())
            }
        }
    }
}

/// Operations and their time.
type Sum = (u64, Ns);

/// Origins in one pass.
struct OfPass {
    pass: PassId,
    /// By time descending.
    rows: Vec<(Origin, Sum)>,
    /// Kernels of aligned graphs without a twin, by time descending.
    unmatched: Vec<(KernelId, Sum)>,
}

impl OfPass {
    fn sum(&self, counts: impl Fn(&Origin) -> bool) -> Sum {
        let own = self.rows.iter().filter(|(origin, _)| counts(origin));
        own.fold((0, 0), |sum, (_, (ops, time))| (sum.0 + ops, sum.1.saturating_add(*time)))
    }
}

/// Adds tables and metrics of all passes with graphs.
pub(super) fn add(context: &Context<'_>, replays: &Replays, findings: &mut Findings) {
    let matches = twins::find(context, replays);
    let passes = by_pass(context, &matches);
    for pass in &passes {
        add_metrics(context, replays, pass, findings);
    }
    let Some(shown) = passes.first() else { return };
    let rows: Vec<Vec<Cell>> = passes.iter().flat_map(|pass| rows(context, pass)).collect();
    findings.blocks.push(Block::Prose(introduction(context, shown)));
    if shown.rows.len() > 1 {
        findings.blocks.push(Block::Table(view(context, shown, &rows)));
    }
    findings.datasets.push(Dataset {
        id: "graph_nodes_by_range",
        title: "Device time of CUDA graphs by range at capture".to_owned(),
        columns: COLUMNS.to_vec(),
        rows,
    });
    add_unmatched(context, &passes, findings);
}

fn view(context: &Context<'_>, shown: &OfPass, rows: &[Vec<Cell>]) -> View {
    let name = context.session.pass_name(shown.pass);
    let has = |at: usize| rows.iter().any(|row| row[at] != Cell::Missing);
    let columns = COLUMNS.iter().enumerate().filter(|(at, one)| one.id != "pass" && has(*at));
    let columns: Vec<&'static str> = columns.map(|(_, column)| column.id).collect();
    let caption = format!("What the graphs of the pass {name} run");
    View::new("graph_nodes_by_range", caption, &columns, shown.rows.len().min(SHOWN))
}

/// Sums by origin, the primary pass first.
fn by_pass(context: &Context<'_>, matches: &Matches) -> Vec<OfPass> {
    let (session, ops) = (context.session, &context.facts.ops);
    let mut sums: FxHashMap<(PassId, Origin), Sum> = FxHashMap::default();
    let mut unmatched: FxHashMap<(PassId, KernelId), Sum> = FxHashMap::default();
    for (op, captured) in ops.captured.iter().enumerate() {
        if *captured == Captured::NoGraph {
            continue;
        }
        let origin = match (captured, matches.get(op as OpIndex)) {
            (Captured::Range(range), _) => Origin::Capture(session.ranges.name[range.index()]),
            (other, Some(Match::Twin(twin))) => Origin::Twin(twin, *other),
            (other, Some(Match::Unmatched)) => Origin::Unmatched(*other),
            (other, None) => Origin::Unknown(*other),
        };
        let (pass, time) = (ops.pass[op], ops.end[op] - ops.start[op]);
        add_to(sums.entry((pass, origin)).or_default(), time);
        if let Origin::Unmatched(_) = origin
            && let Some(kernel) = context.facts.kernel(session, op as OpIndex)
        {
            add_to(unmatched.entry((pass, kernel)).or_default(), time);
        }
    }
    let mut passes: Vec<PassId> = sums.keys().map(|(pass, _)| *pass).collect();
    let primary = context.facts.primary_pass(session);
    passes.sort_unstable_by_key(|pass| (Some(*pass) != primary, *pass));
    passes.dedup();
    let of =
        |pass| OfPass { pass, rows: largest(&sums, pass), unmatched: largest(&unmatched, pass) };
    passes.into_iter().map(of).collect()
}

fn add_to(sum: &mut Sum, time: Ns) {
    *sum = (sum.0 + 1, sum.1.saturating_add(time));
}

/// The sums of one pass by time descending.
fn largest<K: Copy + Ord>(sums: &FxHashMap<(PassId, K), Sum>, pass: PassId) -> Vec<(K, Sum)> {
    let own = sums.iter().filter(|((its, _), _)| *its == pass);
    let mut rows: Vec<(K, Sum)> = own.map(|((_, key), sum)| (*key, *sum)).collect();
    rows.sort_unstable_by_key(|(key, sum)| (Reverse(sum.1), *key));
    rows
}

fn add_metrics(context: &Context<'_>, replays: &Replays, of: &OfPass, findings: &mut Findings) {
    let session = context.session;
    let text = |id: StrId| session.text(id).to_owned();
    let scope =
        Scope { pass: Some(text(session.passes.name[of.pass.index()])), ..Scope::default() };
    let (operations, whole) = of.sum(|_| true);
    if whole <= 0 {
        return;
    }
    let mut add = |id: &str, part: Sum, how: &str| {
        let basis = format!("{} ns in {} operations {how} / {whole} ns in graphs", part.1, part.0);
        let share = part.1 as f64 / whole as f64;
        let mut metric = derived(id, scope.clone(), Unit::Ratio, share, basis);
        metric.evidence.push(Evidence {
            artifact: text(session.passes.artifact[of.pass.index()]),
            table: Some(
                "launches, copies, graph_launches, graph_nodes, graph_creations".to_owned(),
            ),
            rows: Some(operations),
        });
        findings.metrics.push(metric);
    };
    let captured = of.sum(|origin| matches!(origin, Origin::Capture(_)));
    add("graph_capture_attributed_share", captured, "with a range open at capture");
    // What runs in a graph that was traced as a whole is not known: there is nothing to match.
    let by_node = replays.graphs.iter().any(|graph| graph.pass == of.pass && !graph.whole);
    if by_node && captured.0 < operations {
        let twins = of.sum(|origin| matches!(origin, Origin::Twin(..)));
        add("graph_eager_matched_share", twins, "with an eager twin");
    }
}

fn introduction(context: &Context<'_>, of: &OfPass) -> Vec<Inline> {
    let whole = of.sum(|_| true).1.max(1) as f64;
    let share = |sum: Sum| Quantity::ratio(sum.1 as f64 / whole);
    let captured = of.sum(|origin| matches!(origin, Origin::Capture(_)));
    let mut text = prose![
        "Which part of the model a kernel of a graph belongs to was known when it was captured. The range that \
         was open then names ",
        share(captured),
        " of the graphs' device time"
    ];
    // The reason that holds for most of the rest.
    let reason = of.rows.iter().find_map(|(origin, _)| origin.reason());
    if let Some(reason) = reason {
        text.extend(prose![format!(" ({reason})")]);
    }
    let twins = of.sum(|origin| matches!(origin, Origin::Twin(..)));
    if twins.0 > 0 {
        text.extend(prose![
            "; the kernel at the same place of a run without graphs names ",
            share(twins)
        ]);
        let names = of.rows.iter().filter_map(|(origin, _)| match origin {
            Origin::Twin(twin, _) => Some(context.facts.stages[twin.stage].name.as_str()),
            _ => None,
        });
        let names: std::collections::BTreeSet<&str> = names.take(SHOWN).collect();
        let names: Vec<&str> = names.into_iter().collect();
        text.extend(prose![" (", Inline::Code(names.join(", ")), ")"]);
    }
    text.extend(prose!["."]);
    text
}

static COLUMNS: [Column; 8] = [
    Column::text("range", "Range"),
    Column::text("operator", "Operator"),
    Column::text("module", "Module"),
    Column::text("found", "Found by"),
    Column::text("pass", "Pass"),
    Column::new("operations", "Operations", Unit::Count),
    Column::new("total_ns", "Total", Unit::Nanoseconds),
    Column::new("share", "Share", Unit::Ratio),
];

fn rows(context: &Context<'_>, of: &OfPass) -> Vec<Vec<Cell>> {
    let session = context.session;
    let whole = of.sum(|_| true).1;
    let name =
        |id: Option<StrId>| id.map_or(Cell::Missing, |id| Cell::Name(session.text(id).to_owned()));
    let row = |(origin, (operations, time)): &(Origin, Sum)| {
        let [range, operator, module] = match origin {
            Origin::Capture(range) => [Some(*range), None, None],
            Origin::Twin(twin, _) => [twin.range, twin.operator, twin.module],
            Origin::Unmatched(_) | Origin::Unknown(_) => [None; 3],
        };
        vec![
            name(range),
            name(operator),
            name(module),
            Cell::Text(found(context, of.pass, origin)),
            Cell::Text(session.pass_name(of.pass).to_owned()),
            Cell::Int(i64::try_from(*operations).unwrap_or(i64::MAX)),
            Cell::Int(*time),
            Cell::maybe((whole > 0).then(|| *time as f64 / whole as f64)),
        ]
    };
    of.rows.iter().map(row).collect()
}

/// How an origin was found, or why there is none.
fn found(context: &Context<'_>, pass: PassId, origin: &Origin) -> String {
    match origin {
        Origin::Capture(_) => "open at capture".to_owned(),
        Origin::Twin(twin, _) => {
            let stage = &context.facts.stages[twin.stage];
            let name = context.session.pass_name(stage.pass);
            match stage.pass == pass {
                true => format!("same place in {}", stage.name),
                false => format!("same place in {} of {name}", stage.name),
            }
        }
        Origin::Unmatched(captured) => {
            format!("{}; not in the run without graphs", captured.reason())
        }
        Origin::Unknown(captured) => captured.reason().to_owned(),
    }
}

/// Kernels of graphs that the run without graphs does not have.
fn add_unmatched(context: &Context<'_>, passes: &[OfPass], findings: &mut Findings) {
    let session = context.session;
    let mut rows = Vec::new();
    for of in passes {
        rows.extend(of.unmatched.iter().map(|(kernel, (launches, time))| {
            vec![
                Cell::Name(context.facts.identities[kernel.index()].short.clone()),
                Cell::Text(session.pass_name(of.pass).to_owned()),
                Cell::Int(i64::try_from(*launches).unwrap_or(i64::MAX)),
                Cell::Int(*time),
                Cell::Name(session.kernel_name(*kernel).to_owned()),
            ]
        }));
    }
    if rows.is_empty() {
        return;
    }
    let shown = passes.first().map_or(0, |of| of.unmatched.len()).min(SHOWN);
    if shown > 0 {
        let caption = "Kernels of graphs that the run without graphs does not have";
        let columns = ["kernel", "launches", "total_ns"];
        let view = View::new("graph_unmatched_kernels", caption, &columns, shown);
        findings.blocks.push(Block::Table(view));
    }
    findings.datasets.push(Dataset {
        id: "graph_unmatched_kernels",
        title: "Kernels of CUDA graphs without a twin in a run without graphs".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("pass", "Pass"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("total_ns", "Total", Unit::Nanoseconds),
            Column::text("name", "Whole name"),
        ],
        rows,
    });
}
