//! What stands on the second page. The roofline opens the third, and what says where time goes comes before it as far as the
//! second page has room: a fixed order left half of that page empty, or pushed the roofline to the fourth.
//!
//! Heights are estimated from texts and drawings: measuring in the typesetter would lay the page out twice.

use rooflens_document::report::{Kind, Section};
use rooflens_document::{Block, Inline};
use rooflens_units::Ratio;

use super::length::Pt;
use super::measure::{PAGE, sans};
use super::page::{Figure, Page, PageBlock, PageSection};

/// The section that opens the third page.
const ROOFLINE: &str = "roofline";

/// Sections that can stand before it or after it.
const ON_TIME: [&str; 2] = ["account", "idle"];

/// Height of the text on a page: A4 with margins of 20 and 18 mm.
pub(super) const HEIGHT: Pt = Pt(734.0);

/// Share of it that estimated heights may fill.
const FILLED: Ratio = Ratio(0.94);

/// From one line of text to the next, and around a paragraph; sizes of the template.
const TEXT: Pt = Pt(9.0);
const LINE: Pt = Pt(11.6);
const PARAGRAPH: Pt = Pt(7.2);

/// Those of facts.
const FACT: Pt = Pt(8.0);
const FACT_LINE: Pt = Pt(10.3);
const FACT_ROOM: Pt = Pt(4.0);

/// Room of headings and captions with what is around them.
const SECTION: Pt = Pt(38.0);
const HEADING: Pt = Pt(28.0);
const CAPTION: Pt = Pt(24.0);

/// Moves sections on time before the roofline while the second page has room for them.
pub(super) fn fill_second_page(page: &mut Page) {
    let place = page
        .sections
        .iter()
        .position(|section| section.id == ROOFLINE);
    let Some(mut roofline) = place else { return };
    if page.kind != Kind::Report || !page.notes.is_empty() {
        return;
    }
    let before = &page.sections[..roofline];
    let mut height: Pt = before
        .iter()
        .map(|section| section_height(page, section))
        .sum();
    while let Some(next) = page.sections.get(roofline + 1) {
        height += section_height(page, next);
        if !ON_TIME.contains(&next.id.as_str()) || height > HEIGHT * FILLED {
            return;
        }
        page.sections.swap(roofline, roofline + 1);
        roofline += 1;
    }
}

pub(super) fn section_height(page: &Page, section: &PageSection) -> Pt {
    let Section { blocks, .. } = section;
    SECTION
        + blocks
            .iter()
            .map(|block| block_height(page, block))
            .sum::<Pt>()
}

fn block_height(page: &Page, block: &PageBlock) -> Pt {
    match block {
        Block::Heading(_) => HEADING,
        Block::Prose(text) => paragraph(text),
        Block::Missing(reason) => paragraph(&[reason.as_str().into()]),
        Block::List(texts) | Block::Bullets(texts) => {
            texts.iter().map(|text| paragraph(text)).sum()
        }
        Block::Facts(facts) => facts.iter().map(|(_, value)| fact(value)).sum(),
        Block::Table(table) => table.height + CAPTION + lines(&table.caption),
        Block::Chart(figure) => drawing_height(page, figure) + CAPTION + lines(&figure.title),
        Block::Code(code) => LINE * code.lines().count() as f64 + PARAGRAPH,
        Block::Finding(finding) => {
            let texts = [&finding.advice, &finding.next].into_iter().flatten();
            let texts: Pt = texts
                .chain([&finding.statement])
                .map(|text| paragraph(text))
                .sum();
            HEADING + LINE * finding.evidence.len() as f64 + texts
        }
        // Not in these sections.
        Block::Tiles(_) | Block::Actions(_) | Block::Iterations(_) => HEIGHT,
    }
}

fn paragraph(text: &[Inline]) -> Pt {
    let text: String = text.iter().map(Inline::plain).collect();
    lines(&text) + PARAGRAPH
}

/// The value of a fact, next to a name that takes up to a third of the page.
fn fact(value: &[Inline]) -> Pt {
    let text: String = value.iter().map(Inline::plain).collect();
    let lines = libm::ceil(sans(&text, FACT, false) / (PAGE * (2.0 / 3.0))).max(1.0);
    FACT_LINE * lines + FACT_ROOM
}

/// Height of a text over the width of the page.
fn lines(text: &str) -> Pt {
    LINE * libm::ceil(sans(text, TEXT, false) / PAGE).max(1.0)
}

/// Height of a drawing that is as wide as the page: the last number of its view box.
fn drawing_height(page: &Page, figure: &Figure) -> Pt {
    let drawing = page.charts.get(&figure.path).map(Vec::as_slice);
    let drawing = std::str::from_utf8(drawing.unwrap_or_default()).unwrap_or_default();
    let (_, rest) = drawing.split_once("viewBox=\"").unwrap_or_default();
    let (extent, _) = rest.split_once('"').unwrap_or_default();
    let height = extent
        .rsplit(' ')
        .next()
        .and_then(|height| height.parse().ok());
    Pt(height.unwrap_or(HEIGHT.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::CHARTS;
    use rooflens_document::report::Report;

    fn section(id: &str, lines: usize) -> Section {
        Section {
            id: id.to_owned(),
            title: id.to_owned(),
            blocks: vec![Block::Code("line\n".repeat(lines))],
        }
    }

    /// Ids of the sections, with so many lines of code each.
    fn order(sections: &[(&str, usize)]) -> Vec<String> {
        let report = Report {
            sections: sections
                .iter()
                .map(|(id, lines)| section(id, *lines))
                .collect(),
            ..Report::default()
        };
        let page = Page::new(&report, Kind::Report, CHARTS);
        page.sections
            .into_iter()
            .map(|section| section.id)
            .collect()
    }

    /// A page of 690 points has room for headings of 38 and lines of 11.6: 20 and 20 lines are 554 with their headings.
    #[test]
    fn sections_on_time_stand_before_the_roofline_where_there_is_room() {
        let sections = [
            ("breakdown", 20),
            ("roofline", 9),
            ("account", 20),
            ("idle", 20),
        ];
        assert_eq!(
            order(&sections),
            ["breakdown", "account", "roofline", "idle"]
        );
        let sections = [
            ("breakdown", 50),
            ("roofline", 9),
            ("account", 20),
            ("idle", 1),
        ];
        assert_eq!(
            order(&sections),
            ["breakdown", "roofline", "account", "idle"]
        );
        let sections = [
            ("breakdown", 1),
            ("roofline", 9),
            ("kernels", 1),
            ("account", 1),
        ];
        assert_eq!(
            order(&sections),
            ["breakdown", "roofline", "kernels", "account"]
        );
    }
}
