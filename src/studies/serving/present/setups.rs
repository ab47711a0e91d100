//! What worked and what did not: runs at the same load with other settings.

use rooflens_document::{Block, SectionContent, columns, say, words};

use super::{Page, add};
use crate::analysis::changes::Change;

/// Runs against the first one with their load.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let changes = &page.results.changes;
    if changes.is_empty() {
        return content;
    }
    content
        .main
        .push(Block::Prose(say!(page, "serving.changes")));
    let runs = page.results.runs;
    let table = columns! { page, "serving_changes", change: &Change => {
        let [throughput, ttft, tpot] = change.changes;
        name "run" = runs[change.run].label.clone(), page;
        name "against" = runs[change.baseline].label.clone(), page;
        name "settings" = settings(page, change), page;
        share "throughput_change" = throughput, page;
        share "ttft_change" = ttft, page;
        share "tpot_change" = tpot, page;
        text "verdict" = change.verdict.id(), page;
    } };
    add(
        &mut content,
        &table,
        changes,
        words!(page, "serving.changes_table"),
        40,
    );
    content
}

/// What differs from the first run: `max_num_seqs: 64 → 128`.
pub(super) fn settings(page: &Page<'_>, change: &Change) -> Option<String> {
    let mut settings = Vec::new();
    for (setting, before, after) in &change.settings {
        settings.push(format!("{setting}: {before} → {after}"));
    }
    (!settings.is_empty()).then(|| settings.join(page.text.semicolon()))
}
