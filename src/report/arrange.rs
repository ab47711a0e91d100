//! Findings to a document: what stands where.

use rooflens_schemas::{Manifest, Tool, Unit};

use super::{FINDINGS, Meta, Report, Section};
use rooflens_findings::{
    Block, Cell, Column, Dataset, Findings, Inline, Observation, Quantity, Severity, View,
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
    provenance: &Provenance<'_>,
    headline: Findings,
    rules: Findings,
    sections: Vec<(&'static str, &'static str, Findings)>,
    diagnostics: &Diagnostics,
) -> Report {
    let mut report = Report { meta: meta(provenance), ..Report::default() };
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
        report.headline.push(Block::Missing(no_verdict(&report)));
    }
    report.appendices.push(reproduction(provenance, &mut report.datasets));
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

/// A first page must not be empty: it says why there is nothing to say.
fn no_verdict(report: &Report) -> String {
    let gravest = report.data_quality.iter().max_by_key(|one| one.severity);
    let reason = gravest.map_or("the bundle holds no measurement", |one| one.message.as_str());
    format!("a verdict; {reason}")
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
    let introduction = match count {
        0 => "No rule found anything to change.",
        _ => {
            "What limits the run, the weightiest first. What a finding saves at most is a bound, not a promise; bounds \
              overlap and must not be added."
        }
    };
    let mut blocks = vec![Block::Prose(vec![introduction.into()])];
    if count > SHOWN_FINDINGS {
        let (shown, count) = (SHOWN_FINDINGS as u64, count as u64);
        let (shown, count) = (Quantity::count(shown), Quantity::count(count));
        blocks.push(Block::Prose(vec![
            shown.into(),
            " of ".into(),
            count.into(),
            " are shown; the data set “findings” has all.".into(),
        ]));
    }
    blocks.extend(cards);
    if let Some(table) = rules.datasets.iter().find(|dataset| dataset.id == "rule_outcomes") {
        blocks.push(Block::Prose(vec![Inline::Strong("What came of the rules".to_owned())]));
        blocks.push(Block::Facts(outcomes(table)));
    }
    report.methods.extend(rules.methods);
    report.datasets.extend(rules.datasets);
    let (id, title) = (FINDINGS.to_owned(), "Findings".to_owned());
    report.sections.insert(0, Section { id, title, blocks });
}

/// The rules by outcome: those that found or cleared something in one line, the others each with what is missing.
fn outcomes(table: &Dataset) -> Vec<(String, Vec<Inline>)> {
    let mut facts: Vec<(String, Vec<Inline>)> = Vec::new();
    for row in &table.rows {
        let [outcome, rules, why] = row.as_slice() else { continue };
        let mut text = rules.plain();
        if *why != Cell::Missing {
            text.push_str(&format!(" ({})", why.plain()));
        }
        let outcome = outcome.plain();
        match facts.last_mut().filter(|last| last.0 == outcome) {
            Some((_, texts)) => texts.push(format!("; {text}").into()),
            None => facts.push((outcome, vec![text.into()])),
        }
    }
    facts
}

/// Commands, versions and hashes: what it takes to make this report again.
fn reproduction(provenance: &Provenance<'_>, datasets: &mut Vec<Dataset>) -> Section {
    let mut blocks = vec![Block::Prose(vec![Inline::Text(
        "The same bundle and the same version of rooflens give the same bytes: run “rooflens report” on it. \
         The bundle's identity is the SHA-256 of its manifest, or of the sorted list of its files' hashes."
            .to_owned(),
    )])];
    let mut facts = vec![
        ("bundle".to_owned(), vec![Inline::Text(provenance.bundle.to_owned())]),
        ("identity".to_owned(), vec![Inline::Code(provenance.bundle_id.to_owned())]),
    ];
    if let Some(manifest) = provenance.manifest {
        let version = manifest.tool.version.as_deref().unwrap_or_default();
        let tool = format!("{} {version}", manifest.tool.name);
        facts.push(("manifest by".to_owned(), vec![Inline::Text(tool.trim().to_owned())]));
        for pass in manifest.passes.iter().filter(|pass| !pass.command.is_empty()) {
            let command = vec![Inline::Code(pass.command.join(" "))];
            facts.push((format!("pass {}", pass.id), command));
        }
    }
    blocks.push(Block::Facts(facts));
    let rows: Vec<Vec<Cell>> = provenance
        .artifacts
        .iter()
        .map(|[path, kind, pass, hash]| {
            let text = |text: &String| Cell::Text(text.clone());
            vec![Cell::Name(path.clone()), text(kind), text(pass), Cell::Name(hash.clone())]
        })
        .collect();
    let view = View::new("artifacts", "Artifacts", &["path", "kind", "pass", "sha256"], rows.len());
    blocks.push(Block::Table(view));
    datasets.push(Dataset {
        id: "artifacts",
        title: "Artifacts".to_owned(),
        columns: vec![
            Column::new("path", "path", Unit::One),
            Column::text("kind", "kind"),
            Column::text("pass", "pass"),
            Column::text("sha256", "SHA-256"),
        ],
        rows,
    });
    Section { id: "reproduction".to_owned(), title: "Reproduction".to_owned(), blocks }
}
