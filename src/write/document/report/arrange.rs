//! SectionContent to a document: what stands where.

use rooflens_schemas::{Manifest, Metric, MetricValue, Tool};

use super::{Meta, Notes, Report, Section, notes};
use crate::{
    Block, Catalogue, Cell, Dataset, Finding, Inline, Quantity, SectionContent, Severity, Table,
    say, words,
};
use rooflens_diagnostic::Diagnostics;

/// SectionContent that have a card in the report.
const SHOWN_FINDINGS: usize = 6;

/// Share of its whole, a stage or the run, from which on a gain is worth a card.
const MATERIAL: f64 = 0.01;

/// The section whose chart belongs to the summary.
const BREAKDOWN: &str = "breakdown";

/// Id of the findings' section in the appendix.
const EVIDENCE: &str = "evidence";

/// Sections about the capture, not about what it measured.
const DESCRIBING: [&str; 3] = ["environment", "model", "quality"];

/// Id of the statements about stages, which the summary has.
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
    /// The analyst's notes.
    pub notes: Option<Notes<'a>>,
    /// The group of the catalogue with the terms of the report; empty: those of captures.
    pub glossary: &'static str,
}

/// Arranges findings: the summary, then what the rules found, then what each analysis has for the report; the rest
/// stands in the appendix.
pub fn build(
    text: &'static Catalogue,
    provenance: &Provenance<'_>,
    (summary, rules): (SectionContent, SectionContent),
    sections: Vec<(&'static str, &'static str, SectionContent)>,
    diagnostics: &Diagnostics,
) -> Report {
    let mut report = Report {
        text,
        meta: meta(provenance),
        ..Report::default()
    };
    report.data_quality = diagnostics.iter().cloned().collect();
    report.summary = summary.blocks;
    let has_figures = !summary.datasets.is_empty();
    report.datasets = summary.datasets;
    // Without rules there is nothing to judge, and the summary says what there is.
    let judged = !rules.datasets.is_empty() || report.summary.is_empty();
    findings(&rules, &mut report);
    report.methods.extend(rules.methods);
    report.datasets.extend(rules.datasets);
    let (mut long, mut aside) = (Vec::new(), Vec::new());
    let is_partial = sections
        .iter()
        .all(|(id, _, own)| DESCRIBING.contains(id) || own.main.is_empty());
    for (id, title, findings) in sections {
        report.metrics.extend(findings.metrics);
        report.methods.extend(findings.methods);
        report.datasets.extend(findings.datasets);
        report.data_quality.extend(findings.diagnostics);
        let section = |id: String, blocks| Section {
            id,
            title: title.to_owned(),
            blocks,
        };
        if findings.main.is_empty() && !findings.blocks.iter().all(is_missing) {
            aside.push(title);
        }
        match id {
            BREAKDOWN => illustrate(&mut report.summary, findings.main),
            _ => add(&mut report.sections, section(id.to_owned(), findings.main)),
        }
        add(
            &mut report.appendix,
            section(id.to_owned(), findings.blocks),
        );
        add(
            &mut long,
            section(format!("{id}-appendix"), findings.appendix),
        );
    }
    if is_partial && is_measured(&report) {
        promote(&mut report);
        aside.clear();
    }
    report.appendix.extend(long);
    if let Some(notes) = &provenance.notes {
        let (blocks, faults) = notes::read(notes, &report);
        report.notes = blocks;
        report.data_quality.extend(faults.iter().cloned());
    }
    if judged && report.summary.is_empty() {
        report.summary = vec![Block::Prose(no_verdict(&report))];
    }
    let reproduction = reproduction(&mut report, provenance);
    report.appendix.push(reproduction);
    if let Some(last) = report.sections.last_mut().filter(|_| !aside.is_empty()) {
        last.blocks.push(Block::Prose(say!(
            report,
            "report.aside",
            sections = aside.join(text.comma())
        )));
    }
    if has_figures || !rules.observations.is_empty() {
        let glossary = glossary(&report, provenance.glossary);
        add(&mut report.sections, glossary);
    }
    report
}

/// A capture without figures for the report, such as counters alone, has its sections there instead of in the appendix.
fn promote(report: &mut Report) {
    let is_figure = |section: &Section| {
        let is_about = DESCRIBING.contains(&section.id.as_str()) || section.id == EVIDENCE;
        !is_about && !section.blocks.iter().all(is_missing)
    };
    let (figures, rest) = std::mem::take(&mut report.appendix)
        .into_iter()
        .partition(is_figure);
    report.appendix = rest;
    report.sections.splice(0..0, figures);
}

const fn is_missing(block: &Block) -> bool {
    matches!(block, Block::Missing(_))
}

/// The terms that the report uses, each in a line.
fn glossary(report: &Report, group: &str) -> Section {
    let text = report.text;
    let group = if group.is_empty() { "glossary" } else { group };
    let blocks = report
        .summary
        .iter()
        .chain(report.sections.iter().flat_map(|one| &one.blocks));
    let said: String = blocks
        .map(|block| said(report, block).to_lowercase())
        .collect();
    let terms = text
        .group(group)
        .into_values()
        .filter_map(|line| line.split_once(text.colon()));
    let used = terms.filter(|(term, _)| said.contains(&term.to_lowercase()));
    let terms: Vec<(String, Vec<Inline>)> = used
        .map(|(term, meaning)| (term.to_owned(), vec![meaning.into()]))
        .collect();
    let title = text.line("report.glossary", &[]);
    let blocks = if terms.is_empty() {
        Vec::new()
    } else {
        vec![Block::Facts(terms)]
    };
    Section {
        id: "glossary".to_owned(),
        title,
        blocks,
    }
}

/// The words of a block, without the cells of tables.
fn said(report: &Report, block: &Block) -> String {
    let plain = |line: &[Inline]| line.iter().map(Inline::plain).collect::<String>() + "\n";
    match block {
        Block::Prose(line) => plain(line),
        Block::List(lines) | Block::Bullets(lines) => {
            lines.iter().map(|line| plain(line)).collect()
        }
        Block::Facts(facts) => facts
            .iter()
            .map(|(name, value)| format!("{name} {}", plain(value)))
            .collect(),
        Block::Chart(chart) => format!("{}\n{}\n", chart.title, chart.description),
        Block::Finding(found) => {
            let parts = [&found.advice, &found.next].into_iter().flatten();
            parts.map(|line| plain(line)).collect::<String>() + &plain(&found.statement)
        }
        Block::Table(view) => {
            let dataset = report.datasets.iter().find(|one| one.id == view.dataset);
            let columns = dataset.map_or(&[][..], |one| &one.columns);
            let shown = columns.iter().filter(|one| view.columns.contains(&one.id));
            let titles: Vec<&str> = shown.map(|one| one.title).collect();
            format!("{}\n{}\n", view.caption, titles.join("\n"))
        }
        Block::Heading(text) | Block::Missing(text) => format!("{text}\n"),
        Block::Code(_) | Block::Iterations(_) => String::new(),
    }
}

/// Puts the picture of the times between the figures and the reasons.
fn illustrate(summary: &mut Vec<Block>, picture: Vec<Block>) {
    let is_heading = |block: &Block| matches!(block, Block::Heading(_));
    let at = summary.iter().position(is_heading).unwrap_or(summary.len());
    summary.splice(at..at, picture);
}

/// Adds a section that has something to show.
fn add(sections: &mut Vec<Section>, section: Section) {
    if !section.blocks.is_empty() {
        sections.push(section);
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

/// The cover block of a document.
pub fn meta(provenance: &Provenance<'_>) -> Meta {
    let captured_at = provenance
        .manifest
        .and_then(|manifest| manifest.captured_at.clone());
    Meta {
        title: provenance
            .title
            .clone()
            .unwrap_or_else(|| provenance.bundle.to_owned()),
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

/// The section of findings, one card each, without what proves them; that, the other findings and what came of all
/// rules open the appendix.
fn findings(rules: &SectionContent, report: &mut Report) {
    let about_run = |one: &&Finding| one.id != STAGE_STATEMENT && !one.on_measurement;
    let all: Vec<&Finding> = rules.observations.iter().filter(about_run).collect();
    let is_material = |one: &&&Finding| {
        one.severity > Severity::Note
            || one
                .gain
                .as_ref()
                .is_some_and(|gain| gain.share() >= MATERIAL)
    };
    let shown: Vec<&Finding> = all
        .iter()
        .filter(is_material)
        .take(SHOWN_FINDINGS)
        .copied()
        .collect();
    let card = |one: &Finding| Block::Finding(Box::new(one.clone()));
    let claims = shown.iter().map(|one| {
        card(&Finding {
            evidence: Vec::new(),
            query: None,
            ..(*one).clone()
        })
    });
    let title = words!(report, "report.findings");
    let mut blocks = Vec::new();
    if !shown.is_empty() {
        let left =
            (all.len() > shown.len()).then(|| Quantity::count((all.len() - shown.len()) as u64));
        blocks.push(Block::Prose(say!(
            report,
            "report.findings_order",
            left = left
        )));
        blocks.extend(claims);
    }
    add(
        &mut report.sections,
        Section {
            id: "findings".to_owned(),
            title,
            blocks,
        },
    );
    let proofs = rules
        .observations
        .iter()
        .map(|one| match shown.contains(&one) {
            true => card(&Finding {
                statement: Vec::new(),
                gain: None,
                advice: None,
                next: None,
                ..one.clone()
            }),
            false => card(one),
        });
    let mut blocks: Vec<Block> = proofs.collect();
    if let Some(table) = rules
        .datasets
        .iter()
        .find(|dataset| dataset.id == "rule_outcomes")
    {
        blocks.push(Block::Heading(words!(report, "report.outcomes")));
        blocks.push(Block::Facts(outcomes(report.text, table)));
    }
    let title = words!(report, "report.evidence");
    add(
        &mut report.appendix,
        Section {
            id: EVIDENCE.to_owned(),
            title,
            blocks,
        },
    );
}

/// The rules by outcome: those that found or cleared something in one line, the others each with what is missing.
fn outcomes(text: &'static Catalogue, table: &Dataset) -> Vec<(String, Vec<Inline>)> {
    let mut facts: Vec<(String, Vec<Inline>)> = Vec::new();
    for row in &table.rows {
        let [outcome, rules, why] = row.as_slice() else {
            continue;
        };
        let mut said = rules.plain();
        if *why != Cell::Missing {
            said.push_str(&format!(" ({})", why.plain()));
        }
        let outcome = text.word(&outcome.plain()).to_owned();
        match facts.last_mut().filter(|last| last.0 == outcome) {
            Some((_, texts)) => texts.push(format!("{}{said}", text.semicolon()).into()),
            None => facts.push((outcome, vec![said.into()])),
        }
    }
    facts
}

/// Artifacts on the page; the data set has all.
const SHOWN_ARTIFACTS: usize = 200;

/// Commands, versions and hashes: what it takes to make this report again.
fn reproduction(report: &mut Report, provenance: &Provenance<'_>) -> Section {
    let text = vec![Inline::Text(provenance.bundle.to_owned())];
    let mut facts = vec![
        (words!(report, "report.bundle"), text),
        (
            words!(report, "report.identity"),
            vec![Inline::code(provenance.bundle_id)],
        ),
    ];
    if let Some(manifest) = provenance.manifest {
        let version = manifest.tool.version.as_deref().unwrap_or_default();
        let tool = format!("{} {version}", manifest.tool.name);
        let tool = vec![Inline::Text(tool.trim().to_owned())];
        facts.push((words!(report, "report.manifest_by"), tool));
        for pass in manifest
            .passes
            .iter()
            .filter(|pass| !pass.command.is_empty())
        {
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
    let shown = provenance.artifacts.len().min(SHOWN_ARTIFACTS);
    let view = table.view(words!(report, "report.artifacts"), shown);
    let blocks = vec![
        Block::Prose(say!(report, "report.reproduce")),
        Block::Facts(facts),
        Block::Table(view),
    ];
    let dataset = table.rows(&provenance.artifacts);
    let title = words!(report, "report.reproduction");
    report.datasets.push(dataset);
    Section {
        id: "reproduction".to_owned(),
        title,
        blocks,
    }
}
