//! How much GPU time is attributed to ranges, how, and how much is not.

use rooflens_schemas::{Scope, Unit};

use crate::analysis::Context;
use crate::analysis::engine::facts::Attribution;
use crate::analysis::engine::intervals::total;
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Quantity, View, derived};
use crate::model::PassId;
use crate::prose;

/// Share of GPU time from the first stage on, outside of all stages, from which on the report warns.
const UNATTRIBUTED_NOTICE: f64 = 0.10;

const KINDS: [(&str, &str); 5] = [
    ("own thread", "a range is open on the issuing thread"),
    ("inferred", "the issuing thread has no range; one other thread has"),
    ("no range open", "no thread of the process has a range open over the call"),
    ("ambiguous", "several other threads have ranges open"),
    ("no API call", "the issuing call is not in the artifact"),
];

/// Adds the data set `attribution`, its view, and the attributed shares per pass.
pub(super) fn add(context: &Context<'_>, primary: PassId, findings: &mut Findings) {
    let session = context.session;
    let mut rows = Vec::new();
    for pass in session.passes.ids() {
        let (counts, times) = by_kind(context, pass);
        let sum = total(times.into_iter());
        if counts.iter().sum::<i64>() == 0 {
            continue;
        }
        let name = session.pass_name(pass).to_owned();
        for (kind, (label, meaning)) in
            KINDS.iter().enumerate().filter(|(kind, _)| counts[*kind] > 0)
        {
            rows.push(vec![
                Cell::Text((*label).to_owned()),
                Cell::Text(name.clone()),
                Cell::Int(counts[kind]),
                Cell::Int(times[kind]),
                Cell::maybe((sum > 0).then(|| times[kind] as f64 / sum as f64)),
                Cell::Text((*meaning).to_owned()),
            ]);
        }
        let (staged, from_first) = staged_shares(context, pass);
        findings.metrics.push(derived(
            "attributed_share",
            Scope { pass: Some(name.clone()), ..Scope::default() },
            Unit::Ratio,
            staged,
            "sum of durations of operations in some stage ÷ sum of durations of all operations of the pass",
        ));
        findings.metrics.push(derived(
            "attributed_share_from_first_stage",
            Scope { pass: Some(name.clone()), ..Scope::default() },
            Unit::Ratio,
            from_first,
            "sum of durations of operations in some stage ÷ sum of durations of all operations of the pass that start with the \
             first one of a stage or later",
        ));
        if pass == primary {
            findings.blocks.push(Block::Prose(prose![
                "Of the GPU time of this pass, ",
                Quantity::ratio(staged),
                " belongs to a stage; the rest was issued outside of all stages."
            ]));
        }
        if 1.0 - from_first > UNATTRIBUTED_NOTICE {
            let message = format!(
                "{} of the GPU time of pass {name} from its first stage on belongs to no stage",
                Quantity::ratio(1.0 - from_first)
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
        times[kind] = total([times[kind], ops.end[op] - ops.start[op]].into_iter());
    }
    (counts, times)
}

/// Share of the pass's summed operation time that lies in some stage: of all of it, and of what is left without the
/// start-up before the first operation of a stage.
fn staged_shares(context: &Context<'_>, pass: PassId) -> (f64, f64) {
    let (facts, ops) = (context.facts, &context.facts.ops);
    let mut staged = vec![false; ops.len()];
    for stage in facts.stages.iter().filter(|stage| stage.pass == pass) {
        for op in facts.instances_of(stage).iter().flat_map(|instance| &instance.ops) {
            staged[*op as usize] = true;
        }
    }
    let own = facts.ops_of(pass);
    let first = own.clone().find(|op| staged[*op]).unwrap_or(own.end);
    let sum = |from: usize, counts: &dyn Fn(usize) -> bool| -> f64 {
        (from..own.end)
            .filter(|op| counts(*op))
            .map(|op| (ops.end[op] - ops.start[op]) as f64)
            .sum()
    };
    let inside = sum(first, &|op| staged[op]);
    let share = |all: f64| if all > 0.0 { inside / all } else { 0.0 };
    (share(sum(own.start, &|_| true)), share(sum(first, &|_| true)))
}
