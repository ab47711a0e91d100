//! What worked and what did not: runs at the same load with other settings.

use rooflens_document::{Block, SectionContent, Table, say, words};

use super::{Page, add};
use crate::analysis::changes::Change;

/// Runs against the first one with their load.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let changes = &page.results.changes;
    if changes.is_empty() {
        return findings;
    }
    findings
        .main
        .push(Block::Prose(say!(page, "serving.changes")));
    let label = |run: usize| page.results.runs[run].label.clone();
    let table = Table::new(page.text, "serving_changes")
        .name("run", |change: &Change| label(change.run))
        .name("against", |change| label(change.baseline))
        .name("settings", |change| settings(page, change))
        .share("throughput_change", |change| change.changes[0])
        .share("ttft_change", |change| change.changes[1])
        .share("tpot_change", |change| change.changes[2])
        .text("verdict", |change| change.verdict.id())
        .all_on_page();
    add(
        &mut findings,
        &table,
        changes,
        words!(page, "serving.changes_table"),
        40,
    );
    findings
}

/// What differs from the first run: `max_num_seqs: 64 → 128`.
pub(super) fn settings(page: &Page<'_>, change: &Change) -> Option<String> {
    let one =
        |(key, before, after): &(String, String, String)| format!("{key}: {before} → {after}");
    let all: Vec<String> = change.settings.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(page.text.semicolon()))
}
