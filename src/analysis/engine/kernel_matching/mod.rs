//! Kernel identity: which kernel of one tool is which of another, and how that was found.

mod names;
mod signature;

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use crate::analysis::engine::classify::identify;
use crate::analysis::{Analysis, Context, Facts};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Inline, Method, View};
use crate::model::{KernelId, PassId, Session, StrId};
use crate::prose;

pub use names::How;
pub(crate) use names::Names;

use names::md5_hex;

/// Kernel identity.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "identity", title: "Kernel identity", missing: |_| None, run };

/// Names without a partner that the appendix shows.
const SHOWN: usize = 15;

/// One name in one pass.
struct Seen {
    pass: PassId,
    name: StrId,
    launches: u64,
    how: How,
    kernel: Option<KernelId>,
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let mut findings = Findings::default();
    let Some(reference) = context.facts.primary_pass(session) else { return findings };
    let counts = others(session, reference);
    if counts.is_empty() {
        return findings;
    }
    let names = of_pass(session, context.facts, reference);
    let seen = look_up(session, counts, &names);
    let unmatched = seen.iter().filter(|one| one.kernel.is_none()).count();
    findings.appendix = blocks(session, reference, unmatched);
    findings.datasets = vec![summary(session, &seen), dataset(session, reference, &seen)];
    findings.methods = vec![method()];
    findings
}

/// The kernels that ran in a pass, to be found by name.
pub(crate) fn of_pass(session: &Session, facts: &Facts, pass: PassId) -> Names<KernelId> {
    let mut ran = vec![false; session.kernels.len()];
    let ops = &facts.ops;
    for (_, source) in ops.pass.iter().zip(&ops.source).filter(|(own, _)| **own == pass) {
        if let crate::analysis::engine::facts::OpSource::Launch(launch) = source {
            ran[session.launches.kernel[launch.index()].index()] = true;
        }
    }
    let kernels = session.kernels.ids().filter(|kernel| ran[kernel.index()]);
    Names::new(kernels.map(|kernel| (session.kernel_name(kernel), kernel)))
}

/// The names of all other passes, with their numbers of launches.
fn others(session: &Session, reference: PassId) -> BTreeMap<(PassId, StrId), u64> {
    let mut counts = BTreeMap::<(PassId, StrId), u64>::new();
    let launches = &session.launches;
    for (pass, kernel) in launches.pass.iter().zip(&launches.kernel) {
        if *pass != reference {
            *counts.entry((*pass, session.kernels.name[kernel.index()])).or_default() += 1;
        }
    }
    for (pass, name) in session.kernel_profiles.pass.iter().zip(&session.kernel_profiles.name) {
        *counts.entry((*pass, *name)).or_default() += 1;
    }
    for row in 0..session.kernel_sums.len() {
        let sums = &session.kernel_sums;
        let name = session.kernels.name[sums.kernel[row].index()];
        *counts.entry((sums.pass[row], name)).or_default() += sums.count[row];
    }
    counts
}

/// Finds the partners of names: those without one first, then by pass and name.
fn look_up(
    session: &Session,
    counts: BTreeMap<(PassId, StrId), u64>,
    names: &Names<KernelId>,
) -> Vec<Seen> {
    let found = counts.into_iter().map(|((pass, name), launches)| {
        let path = session.artifact_of(pass);
        let (how, kernel) = names.find(session.text(name), path);
        Seen { pass, name, launches, how, kernel }
    });
    let mut seen: Vec<Seen> = found.collect();
    seen.sort_by(|a, b| {
        let text = |one: &Seen| session.text(one.name).to_owned();
        (a.kernel.is_some(), a.pass)
            .cmp(&(b.kernel.is_some(), b.pass))
            .then_with(|| text(a).cmp(&text(b)))
    });
    seen
}

fn pass_name(session: &Session, pass: PassId) -> &str {
    session.pass_name(pass)
}

fn blocks(session: &Session, reference: PassId, unmatched: usize) -> Vec<Block> {
    let columns = [
        "pass",
        "tool",
        "kernels",
        "exact",
        "md5",
        "signature",
        "without_parameters",
        "ambiguous",
        "none",
    ];
    let mut blocks = vec![
        Block::Prose(prose![
            "How the kernel names of other passes were found among those of pass ",
            Inline::Code(pass_name(session, reference).to_owned()),
            "; the data set ",
            Inline::Code("identity".to_owned()),
            " has all names with their md5.",
        ]),
        Block::Table(View::new(
            "identity_passes",
            "Kernel names by how they matched",
            &columns,
            30,
        )),
    ];
    if unmatched > 0 {
        let shown = unmatched.min(SHOWN);
        let caption = format!("Kernels without a partner, {shown} of {unmatched}");
        let columns = ["kernel", "pass", "launches", "how", "reason"];
        blocks.push(Block::Table(View::new("identity", caption, &columns, shown)));
    }
    blocks
}

/// One row a pass: how many of its names matched how.
fn summary(session: &Session, seen: &[Seen]) -> Dataset {
    let mut passes = BTreeMap::<PassId, BTreeMap<How, i64>>::new();
    for one in seen {
        *passes.entry(one.pass).or_default().entry(one.how).or_default() += 1;
    }
    let row = |(pass, counts): (PassId, BTreeMap<How, i64>)| {
        let producer = session.text(session.passes.producer[pass.index()]);
        let tool =
            if producer.is_empty() { Cell::Missing } else { Cell::Text(producer.to_owned()) };
        let mut cells = vec![
            Cell::Text(pass_name(session, pass).to_owned()),
            tool,
            Cell::Int(counts.values().sum()),
        ];
        let count = |how: &How| Cell::Int(counts.get(how).copied().unwrap_or_default());
        cells.extend(How::ALL.iter().map(count));
        cells
    };
    Dataset {
        id: "identity_passes",
        title: "Kernel names by how they matched".to_owned(),
        columns: vec![
            Column::text("pass", "Pass"),
            Column::text("tool", "Tool"),
            Column::new("kernels", "Kernels", Unit::Count),
            Column::new("exact", "Exact", Unit::Count),
            Column::new("md5", "md5", Unit::Count),
            Column::new("signature", "Signature", Unit::Count),
            Column::new("without_parameters", "Without parameters", Unit::Count),
            Column::new("ambiguous", "Ambiguous", Unit::Count),
            Column::new("none", "None", Unit::Count),
        ],
        rows: passes.into_iter().map(row).collect(),
    }
}

fn dataset(session: &Session, reference: PassId, seen: &[Seen]) -> Dataset {
    let row = |one: &Seen| {
        let name = session.text(one.name);
        let reason = match one.how {
            How::Ambiguous => "several kernels of the timeline have this signature".to_owned(),
            How::None => format!("did not run in pass {}", pass_name(session, reference)),
            _ => String::new(),
        };
        let partner = one.kernel.map(|kernel| session.kernel_name(kernel));
        vec![
            Cell::Name(identify(name).short),
            Cell::Text(pass_name(session, one.pass).to_owned()),
            Cell::Int(i64::try_from(one.launches).unwrap_or(i64::MAX)),
            Cell::Text(one.how.label().to_owned()),
            Cell::Text(reason),
            Cell::Text(md5_hex(name)),
            partner.map_or(Cell::Missing, |name| Cell::Text(md5_hex(name))),
            Cell::Name(name.to_owned()),
            partner.map_or(Cell::Missing, |name| Cell::Name(name.to_owned())),
        ]
    };
    Dataset {
        id: "identity",
        title: "Kernel names of all passes and the kernels that they are".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("pass", "Pass"),
            Column::new("launches", "Launches", Unit::Count),
            Column::text("how", "Match"),
            Column::text("reason", "Reason"),
            Column::text("md5", "md5"),
            Column::text("timeline_md5", "md5 in the timeline"),
            Column::text("name", "Whole name"),
            Column::text("timeline_name", "Whole name in the timeline"),
        ],
        rows: seen.iter().map(row).collect(),
    }
}

fn method() -> Method {
    let text = prose![
        "A kernel name of another pass is the kernel of the timeline with: the same name letter by letter; else the \
         name whose md5 is part of the file's path, if the functions agree; else the same signature (namespaces, casts \
         of template arguments, suffixes of numbers, void, const and whitespace left out, true and false as 1 and 0, \
         lambdas numbered); else the same signature without parameter lists. The first spelling that some kernel \
         has decides; if several kernels have it, the name is ambiguous and stays without a partner.",
    ];
    Method { title: "Kernel identity".to_owned(), text }
}

#[cfg(test)]
mod tests;
