//! What stands on the first page: whose run it was, and three headline figures per stage.

use rooflens_schemas::{StageKind, Unit};

use crate::analysis::Context;
use crate::analysis::engine::stage_stats::{Summary, summaries};
use crate::analysis::utilization::mfu::StageUtilization;
use crate::findings::{Block, Cell, Column, Dataset, Findings, View};
use crate::model::Session;

/// Stages that the first page shows.
const SHOWN: usize = 10;

/// Title and lines of the cover.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cover {
    /// The workload's name, if it has one.
    pub title: Option<String>,
    /// GPU, model, sizes, passes.
    pub facts: Vec<(String, String)>,
}

/// The cover of a session's report.
pub fn cover(session: &Session) -> Cover {
    let workload = &session.workload;
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push((name.to_owned(), value));
        }
    };
    add("GPU", gpus(session));
    add("Model", model(session));
    let sizes = [
        ("batch", workload.batch),
        ("prompt", workload.prompt_tokens),
        ("output", workload.output_tokens),
    ];
    let sizes: Vec<String> =
        sizes.iter().filter_map(|(name, size)| Some(format!("{name} {}", (*size)?))).collect();
    add("Sizes", sizes.join(", "));
    add("Data type", workload.dtype.clone().unwrap_or_default());
    add("Passes", passes(session));
    Cover { title: workload.name.clone(), facts }
}

fn gpus(session: &Session) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for pass in session.passes.ids() {
        let own = (0..session.gpus.len()).filter(|row| session.gpus.pass[*row] == pass);
        let mut here: Vec<(&str, usize)> = Vec::new();
        for name in
            own.map(|row| session.text(session.gpus.name[row])).filter(|name| !name.is_empty())
        {
            match here.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => here.push((name, 1)),
            }
        }
        // Passes of one bundle ran on one machine: the one that saw the most GPUs tells.
        for (name, count) in here {
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, most)) => *most = count.max(*most),
                None => names.push((name, count)),
            }
        }
    }
    let shown: Vec<String> = names
        .iter()
        .map(
            |(name, count)| {
                if *count > 1 { format!("{count} × {name}") } else { (*name).to_owned() }
            },
        )
        .collect();
    shown.join(", ")
}

fn model(session: &Session) -> String {
    session.model.as_ref().map_or_else(String::new, |model| {
        format!("{}, {} layers, hidden {}", model.family, model.layers, model.hidden)
    })
}

fn passes(session: &Session) -> String {
    let mut shown: Vec<String> = session
        .passes
        .ids()
        .map(|pass| {
            let row = pass.index();
            let producer = session.text(session.passes.producer[row]);
            let kind = session.passes.kind[row].label();
            if producer.is_empty() { kind.to_owned() } else { format!("{kind} ({producer})") }
        })
        .collect();
    if !session.timings.is_empty() {
        shown.insert(0, "baseline".to_owned());
    }
    shown.dedup();
    shown.join(", ")
}

/// The table of headline figures; no findings for a session without stages.
pub fn headline(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let utilization = context.results.utilization().map_or(&[][..], |all| &all.stages);
    let mut rows = timeline_rows(context, utilization);
    if rows.is_empty() {
        rows = baseline_rows(utilization);
    }
    if rows.is_empty() {
        return findings;
    }
    let mut columns = vec!["stage"];
    for (index, column) in COLUMNS.iter().enumerate().skip(1) {
        if rows.iter().any(|row| row[index] != Cell::Missing) {
            columns.push(column.id);
        }
    }
    let caption =
        "Medians over the instances that count; MFU and MBU un-profiled where that was measured";
    let shown = rows.len().min(SHOWN);
    findings.blocks.push(Block::Table(View::new("headline", caption, &columns, shown)));
    findings.datasets.push(Dataset {
        id: "headline",
        title: "Headline figures".to_owned(),
        columns: COLUMNS.to_vec(),
        rows,
    });
    findings
}

static COLUMNS: [Column; 7] = [
    Column::text("stage", "stage"),
    Column::new("profiled_ns", "profiled", Unit::Nanoseconds),
    Column::new("unprofiled_ns", "un-profiled", Unit::Nanoseconds),
    Column::new("busy_share", "GPU busy", Unit::Ratio),
    Column::new("mfu", "MFU", Unit::Ratio),
    Column::new("mbu", "MBU", Unit::Ratio),
    Column::new("tokens_per_second", "throughput", Unit::TokensPerSecond),
];

fn timeline_rows(context: &Context<'_>, utilization: &[StageUtilization]) -> Vec<Vec<Cell>> {
    let (session, facts) = (context.session, context.facts);
    let Some(primary) = facts.primary_pass(session) else { return Vec::new() };
    let outermost = summaries(facts, primary).iter().filter(|line| line.is_outermost(facts));
    outermost.map(|line| timeline_row(context, line, utilization)).collect()
}

fn timeline_row(
    context: &Context<'_>,
    line: &Summary,
    utilization: &[StageUtilization],
) -> Vec<Cell> {
    let stage = &line.stage(context.facts).name;
    let unprofiled =
        utilization.iter().find(|one| one.timed.stage == *stage && one.timed.profiled.is_none());
    let profiled = utilization.iter().find(|one| one.timed.is_of(line));
    let best = unprofiled.or(profiled);
    // Loops of different lengths compare by the step.
    let steps = line.steps.filter(|steps| *steps > 0.0);
    let steps = steps.filter(|_| line.kind(context.facts) == StageKind::Decode);
    let unprofiled_time = unprofiled.and_then(|one| match (steps, one.timed.steps) {
        (None, _) => Some(one.timed.time),
        (Some(_), Some(own)) if own > 0 => Some(one.timed.time / own as f64),
        (Some(_), _) => None,
    });
    let label = line.label(context.session, context.facts);
    vec![
        Cell::Text(if steps.is_some() { format!("{label}, per step") } else { label }),
        Cell::Float(line.time / steps.unwrap_or(1.0)),
        Cell::maybe(unprofiled_time),
        Cell::Float(line.busy_share),
        Cell::maybe(best.and_then(|one| one.mfu().ok())),
        Cell::maybe(best.and_then(|one| one.mbu().ok())),
        Cell::maybe(best.and_then(|one| one.tokens_per_second().ok())),
    ]
}

fn baseline_rows(utilization: &[StageUtilization]) -> Vec<Vec<Cell>> {
    let row = |line: &StageUtilization| {
        vec![
            Cell::Text(line.timed.stage.clone()),
            Cell::Missing,
            Cell::Float(line.timed.time),
            Cell::Missing,
            Cell::maybe(line.mfu().ok()),
            Cell::maybe(line.mbu().ok()),
            Cell::maybe(line.tokens_per_second().ok()),
        ]
    };
    utilization.iter().map(row).collect()
}
