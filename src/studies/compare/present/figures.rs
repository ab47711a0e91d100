//! The pages of compared records.

use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Cell, Quantity, SectionContent, Table, columns, method, say, words,
};
use rooflens_units::Ratio;

use super::measurements::Words;
use super::{conclusion, few_values, of_table, stage_times};
use crate::Pair;
use crate::figures::{Change, Comparison};
use crate::times::CONFIDENCE;

/// Rows that pages show of metrics.
const SHOWN: usize = 40;

/// The report of compared records. `provenance` has no title and no facts yet.
pub fn report_of_figures(
    comparison: &Comparison<'_>,
    text: &'static Catalogue,
    mut provenance: Provenance<'_>,
) -> Report {
    let Comparison { least, times, .. } = comparison;
    let words = Words {
        text,
        least: *least,
    };
    let Pair { before, after } = comparison.records;
    provenance.title = Some(conclusion(text, times, *least));
    provenance.facts = vec![
        (words!(words, "compare.before"), before.name.clone()),
        (words!(words, "compare.after"), after.name.clone()),
    ];
    provenance.glossary = "compare_glossary";
    let mut summary = SectionContent::default();
    let table = stage_times(text);
    if !times.is_empty() {
        let caption = words!(words, "compare.times", confidence = CONFIDENCE);
        let view = table.view(caption, usize::MAX);
        summary.blocks.push(Block::Table(view));
    }
    summary.datasets.push(table.rows(times));
    summary
        .blocks
        .extend(few_values(text, times).map(Block::Prose));
    let unknown = Pair::of(&comparison.records, |record| {
        record.conditions.is_empty().then(|| record.name.clone())
    });
    let alone = comparison.alone;
    summary.blocks.push(Block::Prose(say!(
        words,
        "compare.figures_only",
        before = unknown.before,
        after = unknown.after,
    )));
    if alone.before + alone.after > 0 {
        summary.blocks.push(Block::Prose(say!(
            words,
            "compare.figures_alone",
            before = Quantity::count(alone.before as u64),
            after = Quantity::count(alone.after as u64)
        )));
    }
    summary.methods = vec![method!(
        words,
        "compare_figures",
        confidence = CONFIDENCE,
        least = *least
    )];
    let rows = &comparison.metrics;
    let changed = rows.iter().filter(|change| change.is_changed());
    let shown = SHOWN.min(changed.count());
    let caption = words!(words, "compare.metrics");
    let metrics = of_table(&metrics(text), rows, caption, shown);
    let mut document = Document::new(text, &provenance);
    document.summary(summary);
    document.section("compare_metrics", text.heading("compare_metrics"), metrics);
    document.build_of_artifacts()
}

fn metrics(text: &'static Catalogue) -> Table<'static, Change> {
    let quantity = |change: &Change, value| Cell::Quantity(Quantity::new(value, change.unit));
    columns! { Table::new(text, "compare_metrics"), change: &Change => {
        name "stage" = change.stage.clone(), page;
        name "metric" = change.id.as_str(), page;
        count "samples_before" = change.samples.before;
        count "samples_after" = change.samples.after;
        text "before" = quantity(change, change.median.before), page;
        text "after" = quantity(change, change.median.after), page;
        share "change" = change.ratio().map(|ratio| ratio - Ratio::ONE), page;
    } }
}
