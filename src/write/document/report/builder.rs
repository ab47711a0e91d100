//! The one way to make a report: what stands where.
//!
//! Captures, predictions, load tests and microbenchmarks give a [`Document`] their contents in reading order. It puts
//! metrics, data sets, methods and diagnostics together, and decides what is in the report and what in the appendix.
//! Each study had its own assembly before, and each new part of a report had to be added to all of them.

use rooflens_diagnostic::Diagnostics;
use rooflens_schemas::{Manifest, MetricValue, Tool};
use rooflens_units::Ratio;

use super::{Meta, Notes, Report, Section, Subject, notes};
use crate::{
    Block, Catalogue, Cell, Dataset, Finding, Inline, Method, Quantity, SectionContent, Severity,
    Table, say, words,
};

/// Findings that have a card in the report.
const SHOWN_FINDINGS: usize = 5;

/// Share of its whole, a stage or the run, from which on a gain is worth a card.
const MATERIAL: Ratio = Ratio(0.01);

/// The section on where time goes, which has the sentences of the summary on it.
const BREAKDOWN: &str = "breakdown";

/// The section on the quality of the measurement, which has the caveats that the summary has no room for.
const QUALITY: &str = "quality";

/// Sections that open the report, and those that close it.
const FIRST: [&str; 10] = [
    "breakdown",
    "roofline",
    "account",
    "idle",
    "kernels",
    "gemms",
    "attention",
    "findings",
    "communication",
    "timeline",
];
const LAST: [&str; 2] = [QUALITY, "environment"];

/// Id of the findings' section in the appendix.
const EVIDENCE: &str = "evidence";

/// Id of the statements about stages, which the summary has.
const STAGE_STATEMENT: &str = "stage-busy";

/// Artifacts on the page; the data set has all.
const SHOWN_ARTIFACTS: usize = 200;

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
    /// What ran.
    pub subject: Subject,
    /// The analyst's notes.
    pub notes: Option<Notes<'a>>,
    /// The group of the catalogue with the terms of the report; empty: those of captures.
    pub glossary: &'static str,
}

impl Provenance<'_> {
    fn meta(&self) -> Meta {
        let bundle = self.bundle.to_owned();
        Meta {
            title: self.title.clone().unwrap_or_else(|| bundle.clone()),
            bundle,
            bundle_id: self.bundle_id.to_owned(),
            captured_at: self
                .manifest
                .and_then(|manifest| manifest.captured_at.clone()),
            generator: Tool {
                name: "rooflens".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            },
            facts: self.facts.clone(),
            subject: self.subject.clone(),
        }
    }
}

/// A report in the making.
#[derive(Debug)]
pub struct Document<'a> {
    report: Report,
    provenance: &'a Provenance<'a>,
    /// Long lists, which follow all sections of the appendix.
    lists: Vec<Section>,
    /// Titles of the sections that only the appendix has.
    only_in_appendix: Vec<String>,
    /// Ids of the sections about the capture, not about what it measured.
    describing: Vec<String>,
    /// What the summary says of times, until their section comes.
    times: Vec<Block>,
    /// Caveats, until the section comes that has them.
    caveats: Vec<Vec<Inline>>,
    /// Whether a section about what was measured has a part in the report.
    has_main: bool,
    /// Whether there are figures or findings, whose terms the glossary explains.
    has_terms: bool,
}

impl<'a> Document<'a> {
    /// A report in some words with nothing but its cover.
    pub fn new(text: &'static Catalogue, provenance: &'a Provenance<'a>) -> Self {
        Self {
            report: Report {
                text,
                meta: provenance.meta(),
                ..Report::default()
            },
            provenance,
            lists: Vec::new(),
            only_in_appendix: Vec::new(),
            describing: Vec::new(),
            times: Vec::new(),
            caveats: Vec::new(),
            has_main: false,
            has_terms: false,
        }
    }

    /// Adds what the input lacks or got wrong.
    pub fn diagnostics(&mut self, diagnostics: &Diagnostics) {
        self.report.data_quality.extend(diagnostics.iter().cloned());
    }

    /// Sets the first page, which is the `blocks` of the content.
    pub fn summary(&mut self, content: SectionContent) {
        self.has_terms |= !content.datasets.is_empty();
        if let Some(conclusion) = content.conclusion {
            self.report.meta.conclude(self.report.text, conclusion);
        }
        self.times = content.times;
        self.caveats = content.caveats;
        self.report.summary = content.blocks;
        self.report.metrics.extend(content.metrics);
        self.report.methods.extend(content.methods);
        self.report.datasets.extend(content.datasets);
    }

    /// Adds the section of findings, one card each, without what proves them, and their main part; proofs, the other findings and the outcomes of
    /// all rules open the appendix.
    pub fn findings(&mut self, rules: SectionContent) {
        self.has_terms |= !rules.findings.is_empty();
        let about_run: Vec<&Finding> = rules.findings.iter().filter(is_about_run).collect();
        let material = about_run.iter().filter(|finding| is_material(finding));
        let shown: Vec<&Finding> = material.take(SHOWN_FINDINGS).copied().collect();
        let mut claims = Vec::new();
        if !shown.is_empty() {
            let hidden = about_run.len() - shown.len();
            let left = (hidden > 0).then_some(Quantity::count(hidden as u64));
            let order = say!(self.report, "report.findings_order", left = left);
            claims.push(Block::Prose(order));
        }
        for finding in &shown {
            claims.push(claim(finding));
        }
        claims.extend(rules.main);
        let mut evidence = Vec::new();
        for finding in &rules.findings {
            evidence.push(match shown.contains(&finding) {
                true => proof(finding),
                false => Block::Finding(Box::new(finding.clone())),
            });
        }
        let is_outcomes = |dataset: &&Dataset| dataset.id == "rule_outcomes";
        if let Some(outcomes) = rules.datasets.iter().find(is_outcomes) {
            evidence.push(Block::Heading(words!(self.report, "report.outcomes")));
            evidence.push(Block::Facts(outcome_facts(self.report.text, outcomes)));
        }
        let title = words!(self.report, "report.findings");
        add(&mut self.report.sections, "findings", title, claims);
        let title = words!(self.report, "report.evidence");
        add(&mut self.report.appendix, EVIDENCE, title, evidence);
        self.report.methods.extend(rules.methods);
        self.report.datasets.extend(rules.datasets);
    }

    /// Adds a section: its main part to the report, the rest to the appendix. Parts without blocks are not shown.
    pub fn section(&mut self, id: &str, title: &str, content: impl Into<SectionContent>) {
        let content = content.into();
        let report = &mut self.report;
        report.metrics.extend(content.metrics);
        report.methods.extend(content.methods);
        report.datasets.extend(content.datasets);
        report.data_quality.extend(content.diagnostics);
        if content.describes_capture {
            self.describing.push(id.to_owned());
        } else {
            self.has_main |= !content.main.is_empty();
        }
        if content.main.is_empty() && !content.blocks.iter().all(is_missing) {
            self.only_in_appendix.push(title.to_owned());
        }
        let mut main = content.main;
        match id {
            BREAKDOWN => main.append(&mut self.times),
            QUALITY if !self.caveats.is_empty() => {
                let caveats = std::mem::take(&mut self.caveats);
                main.insert(0, Block::Bullets(caveats));
            }
            _ => {}
        }
        add(&mut report.sections, id, title, main);
        add(&mut report.appendix, id, title, content.blocks);
        let id = format!("{id}-appendix");
        add(&mut self.lists, &id, title, content.appendix);
    }

    /// Adds a paragraph of the method appendix.
    pub fn method(&mut self, method: Method) {
        self.report.methods.push(method);
    }

    /// Puts the sections into the order of the pages: where time goes, rooflines, kernels, findings, all else, and last how
    /// far the figures carry.
    fn arrange(&mut self) {
        let place = |section: &Section| {
            let is_section = |id: &&str| *id == section.id;
            let first = FIRST.iter().position(is_section);
            let last = LAST.iter().position(is_section);
            match (first, last) {
                (Some(place), _) => place,
                (None, Some(place)) => FIRST.len() + 1 + place,
                (None, None) => FIRST.len(),
            }
        };
        self.report.sections.sort_by_key(place);
    }

    /// The report with nothing but what was added: of a prediction, which rests on no artifacts.
    pub fn build(mut self) -> Report {
        self.report.appendix.append(&mut self.lists);
        self.report
    }

    /// The report of artifacts: with the analyst's notes, what it takes to make the report again, and a glossary.
    pub fn build_of_artifacts(mut self) -> Report {
        let is_partial = !self.has_main && is_measured(&self.report);
        if is_partial {
            promote(&mut self.report, &self.describing);
            self.only_in_appendix.clear();
        }
        self.arrange();
        let provenance = self.provenance;
        let only_in_appendix = self.only_in_appendix.join(self.report.text.comma());
        let has_terms = self.has_terms;
        let mut report = self.build();
        if let Some(notes) = &provenance.notes {
            let (blocks, faults) = notes::read(notes, &report);
            report.notes = blocks;
            report.data_quality.extend(faults.iter().cloned());
        }
        if report.summary.is_empty() {
            report.summary.push(Block::Prose(no_verdict(&report)));
        }
        reproduction(&mut report, provenance);
        if let Some(last) = report.sections.last_mut()
            && !only_in_appendix.is_empty()
        {
            let aside = say!(report, "report.aside", sections = only_in_appendix);
            last.blocks.push(Block::Prose(aside));
        }
        if has_terms {
            glossary(&mut report, provenance.glossary);
        }
        report
    }
}

/// Adds a section that has something to show.
fn add(sections: &mut Vec<Section>, id: &str, title: impl Into<String>, blocks: Vec<Block>) {
    if !blocks.is_empty() {
        sections.push(Section {
            id: id.to_owned(),
            title: title.into(),
            blocks,
        });
    }
}

const fn is_missing(block: &Block) -> bool {
    matches!(block, Block::Missing(_))
}

fn is_about_run(finding: &&Finding) -> bool {
    finding.id != STAGE_STATEMENT && !finding.on_measurement
}

fn is_material(finding: &Finding) -> bool {
    let share = finding
        .gain
        .as_ref()
        .map_or(Ratio::ZERO, |gain| gain.share());
    finding.severity > Severity::Note || share >= MATERIAL
}

/// The card of a finding in the report.
fn claim(finding: &Finding) -> Block {
    Block::Finding(Box::new(Finding {
        evidence: Vec::new(),
        query: None,
        ..finding.clone()
    }))
}

/// What proves a finding of which the report has the claim.
fn proof(finding: &Finding) -> Block {
    Block::Finding(Box::new(Finding {
        statement: Vec::new(),
        gain: None,
        advice: None,
        next: None,
        ..finding.clone()
    }))
}

/// The rules by outcome: those that found or cleared something in one line, the others each with what is missing.
fn outcome_facts(text: &'static Catalogue, outcomes: &Dataset) -> Vec<(String, Vec<Inline>)> {
    let mut facts: Vec<(String, Vec<Inline>)> = Vec::new();
    for row in &outcomes.rows {
        let [outcome, rules, reason] = row.as_slice() else {
            continue;
        };
        let mut listed = rules.plain();
        if *reason != Cell::Missing {
            listed.push_str(&format!(" ({})", reason.plain()));
        }
        let outcome = text.word(&outcome.plain()).to_owned();
        match facts.last_mut() {
            Some((last, texts)) if *last == outcome => {
                texts.push(format!("{}{listed}", text.semicolon()).into());
            }
            _ => facts.push((outcome, vec![listed.into()])),
        }
    }
    facts
}

/// A capture without figures for the report, such as counters alone, has its sections there instead of in the appendix.
fn promote(report: &mut Report, describing: &[String]) {
    let is_figure = |section: &Section| {
        let is_about = describing.contains(&section.id) || section.id == EVIDENCE;
        !is_about && !section.blocks.iter().all(is_missing)
    };
    let appendix = std::mem::take(&mut report.appendix);
    let (figures, rest) = appendix.into_iter().partition(is_figure);
    report.appendix = rest;
    report.sections.splice(0..0, figures);
}

/// A first page must not be empty: it says why there is nothing to say, and what fixes it.
fn no_verdict(report: &Report) -> Vec<Inline> {
    if is_measured(report) {
        return say!(report, "report.no_stage");
    }
    let worst = report
        .data_quality
        .iter()
        .max_by_key(|fault| fault.severity);
    let (reason, hint) = match worst {
        Some(fault) => (fault.message.clone(), fault.hint.clone()),
        None => (words!(report, "report.no_measurement"), None),
    };
    say!(report, "report.no_analysis", reason = reason, hint = hint)
}

/// Whether there is a figure at all.
fn is_measured(report: &Report) -> bool {
    let mut values = report.metrics.iter().map(|metric| &metric.value);
    values.any(|value| !matches!(value, MetricValue::Unavailable { .. }))
}

/// Asterisks in a row that a page shows of a covered argument.
const COVERED: usize = 3;

/// A command with few asterisks where the capture program covered many.
fn shortened(command: &str) -> String {
    let (mut shown, mut covered) = (String::new(), 0);
    for letter in command.chars() {
        covered = if letter == '*' { covered + 1 } else { 0 };
        if covered <= COVERED {
            shown.push(letter);
        }
    }
    shown
}

/// Adds commands, versions and hashes to the appendix: what it takes to make this report again.
fn reproduction(report: &mut Report, provenance: &Provenance<'_>) {
    let bundle = Inline::Text(provenance.bundle.to_owned());
    let identity = Inline::code(provenance.bundle_id);
    let mut facts = vec![
        (words!(report, "report.bundle"), vec![bundle]),
        (words!(report, "report.identity"), vec![identity]),
    ];
    if let Some(manifest) = provenance.manifest {
        let version = manifest.tool.version.as_deref().unwrap_or_default();
        let tool = format!("{} {version}", manifest.tool.name);
        let tool = Inline::Text(tool.trim().to_owned());
        facts.push((words!(report, "report.manifest_by"), vec![tool]));
        for pass in &manifest.passes {
            if !pass.command.is_empty() {
                let name = words!(report, "report.pass", pass = pass.id.as_str());
                let command = pass.command.join(" ");
                let shown = shortened(&command);
                let note = (shown != command).then(|| words!(report, "report.redacted").into());
                let value = std::iter::once(Inline::code(&shown)).chain(note);
                facts.push((name, value.collect()));
            }
        }
    }
    let table = Table::new(report.text, "artifacts")
        .name("path", |[path, ..]: &[String; 4]| path.clone())
        .text("kind", |[_, kind, ..]| kind.clone())
        .text("pass", |[_, _, pass, _]| pass.clone())
        .name("sha256", |[.., hash]| {
            Some(hash.clone()).filter(|hash| !hash.is_empty())
        })
        .all_on_page();
    let shown = provenance.artifacts.len().min(SHOWN_ARTIFACTS);
    let view = table.view(words!(report, "report.artifacts"), shown);
    let blocks = vec![
        Block::Prose(say!(report, "report.reproduce")),
        Block::Facts(facts),
        Block::Table(view),
    ];
    report.datasets.push(table.rows(&provenance.artifacts));
    let title = words!(report, "report.reproduction");
    add(&mut report.appendix, "reproduction", title, blocks);
}

/// Adds the terms that the report uses, each in a line.
fn glossary(report: &mut Report, group: &str) {
    let text = report.text;
    let group = if group.is_empty() { "glossary" } else { group };
    let sections = report.sections.iter().flat_map(|section| &section.blocks);
    let mut used = String::new();
    for block in report.summary.iter().chain(sections) {
        used.push_str(&plain_text(report, block).to_lowercase());
    }
    let mut terms = Vec::new();
    for line in text.group(group).into_values() {
        if let Some((term, meaning)) = line.split_once(text.colon())
            && uses(&used, &term.to_lowercase())
        {
            terms.push((term.to_owned(), vec![meaning.into()]));
        }
    }
    if !terms.is_empty() {
        let title = words!(report, "report.glossary");
        let blocks = vec![Block::Facts(terms)];
        add(&mut report.sections, "glossary", title, blocks);
    }
}

/// Whether a text has a term that is no end of a longer word: "unbalanced" is not "balanced".
fn uses(text: &str, term: &str) -> bool {
    let is_in_word =
        |start: usize| text[..start].ends_with(|before: char| before.is_ascii_alphabetic());
    text.match_indices(term)
        .any(|(start, _)| !is_in_word(start))
}

/// The words of a block, without the cells of tables.
fn plain_text(report: &Report, block: &Block) -> String {
    match block {
        Block::Prose(line) => plain_line(line),
        Block::List(lines) | Block::Bullets(lines) => plain_lines(lines),
        Block::Facts(facts) => {
            let mut text = String::new();
            for (name, value) in facts {
                text.push_str(&format!("{name} {}", plain_line(value)));
            }
            text
        }
        Block::Chart(chart) => format!("{}\n{}\n", chart.title, chart.description),
        Block::Finding(finding) => {
            let parts = [&finding.advice, &finding.next].into_iter().flatten();
            plain_lines(parts.chain([&finding.statement]))
        }
        Block::Table(view) => {
            let columns = report.dataset(view.dataset).map(|dataset| &dataset.columns);
            let mut text = format!("{}\n", view.caption);
            for column in columns.into_iter().flatten() {
                if view.columns.contains(&column.id) {
                    text.push_str(&format!("{}\n", column.title));
                }
            }
            text
        }
        Block::Heading(text) | Block::Missing(text) => format!("{text}\n"),
        Block::Tiles(tiles) => tiles.iter().map(|tile| tile.label.clone() + "\n").collect(),
        Block::Actions(cards) => {
            let facts = cards.iter().flat_map(|card| &card.facts);
            let lines = cards.iter().map(|card| &card.what);
            plain_lines(lines.chain(facts.map(|(_, value)| value)))
        }
        Block::Code(_) | Block::Iterations(_) => String::new(),
    }
}

fn plain_lines<'l>(lines: impl IntoIterator<Item = &'l Vec<Inline>>) -> String {
    lines.into_iter().map(|line| plain_line(line)).collect()
}

fn plain_line(line: &[Inline]) -> String {
    line.iter().map(Inline::plain).collect::<String>() + "\n"
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn covered_arguments_are_short_and_others_stay() {
        let command = "ncu --kernel-name regex:^a$|************* --set *** -o out";
        let shown = "ncu --kernel-name regex:^a$|*** --set *** -o out";
        assert_eq!(shortened(command), shown);
    }
}
