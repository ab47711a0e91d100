//! Findings to a document: what stands where.

use rooflens_schemas::{Manifest, Metric, MetricValue, Tool};

use super::{FINDINGS, Meta, Report, Section};
use rooflens_findings::{
    Block, Catalogue, Cell, Dataset, Findings, Inline, Observation, Quantity, Severity, Table, say,
    words,
};
use rooflens_model::diagnostic::Diagnostics;

/// Statements that the verdict page shows.
const SHOWN_STATEMENTS: usize = 7;

/// Statements about stages that it shows.
const SHOWN_STAGES: usize = 4;

/// Findings that have a card.
const SHOWN_FINDINGS: usize = 12;

/// Id of the statements about stages, which answer the reader's first question.
const STAGE_STATEMENT: &str = "stage-busy";

/// Where a report's data came from.
#[derive(Clone, Debug, Default)]
pub struct Provenance<'a> {
    /// Name of the bundle.
    pub bundle: &'a str,
    /// SHA-256 that identifies the bundle.
    pub bundle_id: &'a str,
    /// The bundle's manifest, if it has one.
    pub manifest: Option<&'a Manifest>,
    /// Path, kind, pass and hash of each artifact.
    pub artifacts: Vec<[String; 4]>,
    /// Title, if the workload has a name.
    pub title: Option<String>,
    /// Lines of the cover.
    pub facts: Vec<(String, String)>,
}

/// Arranges findings: the verdict first, then what the rules found, then each analysis in its section, then
/// the appendices.
pub fn build(
    text: &'static Catalogue,
    provenance: &Provenance<'_>,
    headline: Findings,
    rules: Findings,
    sections: Vec<(&'static str, &'static str, Findings)>,
    diagnostics: &Diagnostics,
) -> Report {
    let mut report = Report { text, meta: meta(provenance), ..Report::default() };
    report.headline = headline.blocks;
    report.datasets.extend(headline.datasets);
    report.data_quality = diagnostics.iter().cloned().collect();
    let mut appendices = Vec::new();
    for (id, title, findings) in sections {
        report.metrics.extend(findings.metrics);
        report.methods.extend(findings.methods);
        report.datasets.extend(findings.datasets);
        report.data_quality.extend(findings.diagnostics);
        if !findings.blocks.is_empty() {
            let (id, title) = (id.to_owned(), title.to_owned());
            report.sections.push(Section { id, title, blocks: findings.blocks });
        }
        if !findings.appendix.is_empty() {
            let (id, title) = (format!("{id}-appendix"), title.to_owned());
            appendices.push(Section { id, title, blocks: findings.appendix });
        }
    }
    move_first_chart_to_verdict(&mut report);
    report.verdict = verdict(&rules.observations);
    findings(rules, &mut report);
    if report.headline.is_empty() && report.verdict.is_empty() {
        let verdict = no_verdict(&report);
        report.headline.push(Block::Prose(verdict));
    }
    let reproduction = reproduction(&mut report, provenance);
    report.appendices.push(reproduction);
    report.appendices.extend(appendices);
    report
}

fn meta(provenance: &Provenance<'_>) -> Meta {
    let captured_at = provenance.manifest.and_then(|manifest| manifest.captured_at.clone());
    Meta {
        title: provenance.title.clone().unwrap_or_else(|| provenance.bundle.to_owned()),
        bundle: provenance.bundle.to_owned(),
        bundle_id: provenance.bundle_id.to_owned(),
        captured_at,
        generator: Tool {
            name: "rooflens".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        },
        facts: provenance.facts.clone(),
    }
}

/// A first page must not be empty: it says why there is nothing to say, and what mends it.
fn no_verdict(report: &Report) -> Vec<Inline> {
    if is_measured(report) {
        return say!(report, "report.no_stage");
    }
    let gravest = report.data_quality.iter().max_by_key(|one| one.severity);
    let reason = gravest.map(|one| one.message.clone());
    let reason = reason.unwrap_or_else(|| words!(report, "report.no_measurement"));
    let hint = gravest.and_then(|one| one.hint.clone());
    say!(report, "report.no_analysis", reason = reason, hint = hint)
}

/// Whether there is a figure at all.
fn is_measured(report: &Report) -> bool {
    let is_known = |metric: &Metric| !matches!(metric.value, MetricValue::Unavailable { .. });
    report.metrics.iter().any(is_known)
}

/// "Where the stage time goes" belongs on the first page, once.
fn move_first_chart_to_verdict(report: &mut Report) {
    let Some(stages) = report.sections.iter_mut().find(|section| section.id == "stages") else {
        return;
    };
    if let Some(at) = stages.blocks.iter().position(|block| matches!(block, Block::Chart(_))) {
        report.headline.push(stages.blocks.remove(at));
    }
}

/// The statements of the first page: those about stages first, then the weightiest findings. Notes that bound no
/// gain stay in their section, unless there is nothing else to say.
fn verdict(observations: &[Observation]) -> Vec<Observation> {
    let is_stage = |one: &&Observation| one.id == STAGE_STATEMENT;
    let stages = observations.iter().filter(is_stage).take(SHOWN_STAGES);
    let is_loud = |one: &&Observation| {
        one.severity > Severity::Note || one.gain.as_ref().is_some_and(|gain| gain.saved_ns > 0.0)
    };
    let loud = observations.iter().filter(|one| !is_stage(one) && is_loud(one));
    let said: Vec<Observation> = stages.chain(loud).take(SHOWN_STATEMENTS).cloned().collect();
    if said.is_empty() {
        observations.iter().take(SHOWN_STATEMENTS).cloned().collect()
    } else {
        said
    }
}

/// The section of findings, one card each, and what came of all rules.
fn findings(rules: Findings, report: &mut Report) {
    let others = rules.observations.into_iter().filter(|one| one.id != STAGE_STATEMENT);
    let mut cards: Vec<Block> = others.map(|one| Block::Finding(Box::new(one))).collect();
    let count = cards.len();
    if count == 0 && rules.datasets.is_empty() {
        return;
    }
    cards.truncate(SHOWN_FINDINGS);
    let outcome = Cell::Text("clear".to_owned());
    let of_outcome = |dataset: &&Dataset| dataset.id == "rule_outcomes";
    let outcomes_of = rules.datasets.iter().find(of_outcome);
    let looked = outcomes_of.is_some_and(|all| all.rows.iter().any(|row| row[0] == outcome));
    let introduction = match count {
        0 if !looked && is_measured(report) => say!(report, "report.no_rule"),
        0 if !looked => say!(report, "report.no_findings_possible"),
        0 => say!(report, "report.no_findings"),
        _ => say!(report, "report.findings_order"),
    };
    let mut blocks = vec![Block::Prose(introduction)];
    if count > SHOWN_FINDINGS {
        let [shown, count] = [SHOWN_FINDINGS, count].map(|n| Quantity::count(n as u64));
        blocks.push(Block::Prose(say!(
            report,
            "report.some_findings",
            shown = shown,
            count = count
        )));
    }
    blocks.extend(cards);
    if let Some(table) = rules.datasets.iter().find(|dataset| dataset.id == "rule_outcomes") {
        blocks.push(Block::Prose(vec![Inline::Strong(words!(report, "report.outcomes"))]));
        blocks.push(Block::Facts(outcomes(report.text, table)));
    }
    report.methods.extend(rules.methods);
    report.datasets.extend(rules.datasets);
    let (id, title) = (FINDINGS.to_owned(), words!(report, "report.findings"));
    report.sections.insert(0, Section { id, title, blocks });
}

/// The rules by outcome: those that found or cleared something in one line, the others each with what is missing.
fn outcomes(text: &Catalogue, table: &Dataset) -> Vec<(String, Vec<Inline>)> {
    let mut facts: Vec<(String, Vec<Inline>)> = Vec::new();
    for row in &table.rows {
        let [outcome, rules, why] = row.as_slice() else { continue };
        let mut said = rules.plain();
        if *why != Cell::Missing {
            said.push_str(&format!(" ({})", why.plain()));
        }
        let outcome = text.word(&outcome.plain()).to_owned();
        match facts.last_mut().filter(|last| last.0 == outcome) {
            Some((_, texts)) => texts.push(format!("; {said}").into()),
            None => facts.push((outcome, vec![said.into()])),
        }
    }
    facts
}

/// Commands, versions and hashes: what it takes to make this report again.
fn reproduction(report: &mut Report, provenance: &Provenance<'_>) -> Section {
    let text = vec![Inline::Text(provenance.bundle.to_owned())];
    let mut facts = vec![
        (words!(report, "report.bundle"), text),
        (words!(report, "report.identity"), vec![Inline::code(provenance.bundle_id)]),
    ];
    if let Some(manifest) = provenance.manifest {
        let version = manifest.tool.version.as_deref().unwrap_or_default();
        let tool = format!("{} {version}", manifest.tool.name);
        let tool = vec![Inline::Text(tool.trim().to_owned())];
        facts.push((words!(report, "report.manifest_by"), tool));
        for pass in manifest.passes.iter().filter(|pass| !pass.command.is_empty()) {
            let name = words!(report, "report.pass", pass = pass.id.as_str());
            facts.push((name, vec![Inline::code(pass.command.join(" "))]));
        }
    }
    let table = Table::new(report.text, "artifacts")
        .name("path", |[path, ..]: &[String; 4]| path.clone())
        .text("kind", |[_, kind, ..]| kind.clone())
        .text("pass", |[_, _, pass, _]| pass.clone())
        .name("sha256", |[.., hash]| hash.clone())
        .all_on_page();
    let view = table.view(words!(report, "report.artifacts"), provenance.artifacts.len());
    let blocks = vec![
        Block::Prose(say!(report, "report.reproduce")),
        Block::Facts(facts),
        Block::Table(view),
    ];
    let dataset = table.rows(&provenance.artifacts);
    let title = words!(report, "report.reproduction");
    report.datasets.push(dataset);
    Section { id: "reproduction".to_owned(), title, blocks }
}
