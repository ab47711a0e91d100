//! How much GPU time is attributed to ranges, how, and how much is not.

use rooflens_schemas::{Scope, Unit};

use crate::analysis::Context;
use crate::analysis::facts::Attribution;
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Quantity, View, derived};
use crate::model::PassId;
use crate::prose;

/// Share of GPU time outside of all stages from which on the report warns.
const UNATTRIBUTED_NOTICE: f64 = 0.10;

const KINDS: [(&str, &str); 5] = [
    ("own thread", "a range is open on the issuing thread"),
    ("inferred", "the issuing thread has no range; one other thread has"),
    ("no range open", "no thread of the process has a range open over the call"),
    ("ambiguous", "several other threads have ranges open"),
    ("no API call", "the issuing call is not in the artifact"),
];

/// Adds the data set `attribution`, its view, and `attributed_share` per pass.
pub(super) fn add(context: &Context<'_>, primary: PassId, findings: &mut Findings) {
    let session = context.session;
    let mut rows = Vec::new();
    for pass in session.passes.ids() {
        let (counts, times) = by_kind(context, pass);
        let total: i64 = times.iter().sum();
        if counts.iter().sum::<i64>() == 0 {
            continue;
        }
        let name = session.text(session.passes.name[pass.index()]).to_owned();
        for (kind, (label, meaning)) in
            KINDS.iter().enumerate().filter(|(kind, _)| counts[*kind] > 0)
        {
            rows.push(vec![
                Cell::Text((*label).to_owned()),
                Cell::Text(name.clone()),
                Cell::Int(counts[kind]),
                Cell::Int(times[kind]),
                Cell::maybe((total > 0).then(|| times[kind] as f64 / total as f64)),
                Cell::Text((*meaning).to_owned()),
            ]);
        }
        let staged = staged_share(context, pass);
        findings.metrics.push(derived(
            "attributed_share",
            Scope { pass: Some(name.clone()), ..Scope::default() },
            Unit::Ratio,
            staged,
            "sum of durations of operations in some stage ÷ sum of durations of all operations of the pass",
        ));
        if pass == primary {
            findings.blocks.push(Block::Prose(prose![
                "Of the GPU time of this pass, ",
                Quantity::ratio(staged),
                " belongs to a stage; the rest was issued outside of all stages."
            ]));
        }
        if 1.0 - staged > UNATTRIBUTED_NOTICE {
            let message = format!(
                "{} of the GPU time of pass {name} belongs to no stage",
                Quantity::ratio(1.0 - staged)
            );
            let hint = "name the remaining phases in workload.toml, or push ranges around them";
            findings
                .diagnostics
                .push(Diagnostic::new(Severity::Notice, "stages/unattributed", message).hint(hint));
        }
    }
    findings.blocks.push(Block::Table(View::new(
        "attribution",
        "How GPU operations were attributed to ranges",
        &["how", "pass", "operations", "time_ns", "share", "meaning"],
        rows.len().min(KINDS.len() * 3),
    )));
    findings.datasets.push(Dataset {
        id: "attribution",
        title: "Attribution of GPU operations".to_owned(),
        columns: vec![
            Column::text("how", "how"),
            Column::text("pass", "pass"),
            Column::new("operations", "operations", Unit::Count),
            Column::new("time_ns", "GPU time", Unit::Nanoseconds),
            Column::new("share", "share", Unit::Ratio),
            Column::text("meaning", "meaning"),
        ],
        rows,
    });
}

fn by_kind(context: &Context<'_>, pass: PassId) -> ([i64; 5], [i64; 5]) {
    let ops = &context.facts.ops;
    let (mut counts, mut times) = ([0; 5], [0; 5]);
    for op in 0..ops.len() {
        if ops.pass[op] != pass {
            continue;
        }
        let kind = match ops.range[op] {
            Attribution::Own(_) => 0,
            Attribution::Inferred(_) => 1,
            Attribution::Outside => 2,
            Attribution::Ambiguous => 3,
            Attribution::NoApiCall => 4,
        };
        counts[kind] += 1;
        times[kind] += ops.end[op] - ops.start[op];
    }
    (counts, times)
}

/// Share of the pass's summed operation time that lies in some stage.
fn staged_share(context: &Context<'_>, pass: PassId) -> f64 {
    let ops = &context.facts.ops;
    let mut staged = vec![false; ops.len()];
    for stage in context.facts.stages.iter().filter(|stage| stage.pass == pass) {
        for op in context.facts.instances_of(stage).iter().flat_map(|instance| &instance.ops) {
            staged[*op as usize] = true;
        }
    }
    let (mut inside, mut total) = (0, 0);
    for op in (0..ops.len()).filter(|op| ops.pass[*op] == pass) {
        let duration = ops.end[op] - ops.start[op];
        total += duration;
        inside += if staged[op] { duration } else { 0 };
    }
    if total > 0 { inside as f64 / total as f64 } else { 0.0 }
}
