//! What an appendix has on paper: at most 20 pages. What a browser shows better, or only few readers look for, is in the HTML
//! report.

use rooflens_document::report::Kind;
use rooflens_document::{Block, Quantity, words};
use rooflens_units::Ratio;

use super::length::Pt;
use super::page::{Page, PageBlock, PageSection};
use super::pagination::{HEIGHT, section_height};

/// Pages of an appendix after its contents.
const APPENDIX: f64 = 19.0;

/// Share of these pages that heights may fill: what does not break leaves room at their ends.
const PACKED: Ratio = Ratio(0.95);

/// Lists of whole names.
const NAMES: &str = "kernels-appendix";

/// Kernels, those with the most time, and their heading and figures.
const CARDS: &str = "deep_dive-appendix";
const SHOWN_CARDS: usize = 4;

/// Rows of a table that stay when an appendix is too long.
const LEAST_ROWS: usize = 8;

/// Takes from an appendix what paper has no room for, and says so.
pub(super) fn shorten(page: &mut Page) {
    if page.kind != Kind::Appendix {
        return;
    }
    page.methods.clear();
    page.sections.retain(|section| section.id != NAMES);
    let mut removed = 0;
    for section in &mut page.sections {
        for block in &mut section.blocks {
            if let Block::Finding(finding) = block {
                finding.query = None;
            }
        }
        if section.id.ends_with("-appendix") {
            let count = section.blocks.len();
            section.blocks.retain(|block| !is_chart(block));
            removed += count - section.blocks.len();
        }
    }
    keep_cards(page);
    join_lists(page);
    while is_too_long(page) && remove_chart(page, 1) {
        removed += 1;
    }
    while is_too_long(page) && halve_longest_table(page) {}
    while is_too_long(page) && remove_chart(page, 0) {
        removed += 1;
    }
    page.sections.retain(|section| !section.blocks.is_empty());
    let count = (removed > 0).then(|| Quantity::count(removed as u64));
    let note = words!(page, "page.not_on_paper", count = count);
    if let Some(first) = page.sections.first_mut() {
        first.blocks.insert(0, Block::Prose(vec![note.into()]));
    }
    page.number();
}

/// Keeps the first cards of kernels.
fn keep_cards(page: &mut Page) {
    let Some(section) = page.sections.iter_mut().find(|section| section.id == CARDS) else {
        return;
    };
    let mut cards = 0;
    section.blocks.retain(|block| {
        cards += usize::from(matches!(block, Block::Heading(_)));
        cards <= SHOWN_CARDS
    });
}

/// Removes the last chart of the section with the most, if it has more than `kept`; false if none has.
fn remove_chart(page: &mut Page, kept: usize) -> bool {
    let charts = |section: &PageSection| {
        let blocks = section.blocks.iter();
        blocks.filter(|block| is_chart(block)).count()
    };
    // Of several the last one.
    let most = page
        .sections
        .iter_mut()
        .max_by_key(|section| charts(section));
    let Some(section) = most.filter(|section| charts(section) > kept) else {
        return false;
    };
    let last = section.blocks.iter().rposition(is_chart);
    section.blocks.remove(last.unwrap_or_default());
    true
}

fn is_too_long(page: &Page) -> bool {
    height(page) > HEIGHT * (APPENDIX * PACKED.0)
}

/// Puts the long lists of a section at its end, so that it stands once.
fn join_lists(page: &mut Page) {
    let is_list = |section: &PageSection| section.id.ends_with("-appendix");
    let (lists, mut sections): (Vec<_>, Vec<_>) = std::mem::take(&mut page.sections)
        .into_iter()
        .partition(is_list);
    for list in lists {
        let of_list =
            |section: &&mut PageSection| list.id.strip_suffix("-appendix") == Some(&section.id);
        match sections.iter_mut().find(of_list) {
            Some(section) => section.blocks.extend(list.blocks),
            None => sections.push(list),
        }
    }
    page.sections = sections;
}

const fn is_chart(block: &PageBlock) -> bool {
    matches!(block, Block::Chart(_))
}

/// Halves the rows of the longest table; false if none has more than [`LEAST_ROWS`].
fn halve_longest_table(page: &mut Page) -> bool {
    let blocks = page
        .sections
        .iter_mut()
        .flat_map(|section| &mut section.blocks);
    let tables = blocks.filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    let longest = tables.max_by_key(|table| table.rows.len());
    let Some(table) = longest.filter(|table| table.rows.len() > LEAST_ROWS) else {
        return false;
    };
    let left = table.rows.len() / 2;
    table.height = table.height * (left as f64 / table.rows.len() as f64);
    let rows = left.to_string();
    let note = words!(page, "page.first_rows", rows = rows, file = table.dataset);
    table.keep(left, note);
    true
}

fn height(page: &Page) -> Pt {
    page.sections
        .iter()
        .map(|section| section_height(page, section))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::CHARTS;
    use rooflens_document::Method;
    use rooflens_document::report::{Report, Section};

    #[test]
    fn a_section_stands_once_with_its_lists_and_without_whole_names() {
        let section = |id: &str| Section {
            id: id.to_owned(),
            title: id.to_owned(),
            blocks: vec![Block::Code("line\n".to_owned())],
        };
        let ids = ["kernels", "idle", "kernels-appendix", "idle-appendix"];
        let report = Report {
            appendix: ids.map(section).into(),
            methods: vec![Method {
                title: "Idle".to_owned(),
                text: Vec::new(),
            }],
            ..Report::default()
        };
        let mut page = Page::new(&report, Kind::Appendix, CHARTS);
        shorten(&mut page);
        let blocks = |section: &PageSection| section.blocks.len();
        let found: Vec<_> = page
            .sections
            .iter()
            .map(|section| (section.id.as_str(), blocks(section)))
            .collect();
        // The first section has the note on what else there is.
        assert_eq!(found, [("kernels", 2), ("idle", 2)]);
        assert!(page.methods.is_empty());
    }
}
