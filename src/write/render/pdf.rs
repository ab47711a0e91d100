//! PDF through typst: the template reads the report as data, so nothing in a report is ever markup.

use typst::foundations::{Datetime, Smart};
use typst_layout::PagedDocument;
use typst_pdf::{PdfOptions, PdfStandard, PdfStandards, Timestamp};

use super::appendix;
use super::page::{CHARTS, Page, generator};
use super::paper;
use super::text::join;
use super::world::{MemoryWorld, displayable, displayable_drawing};
use super::{RenderError, RenderOptions, Rendered};
use rooflens_document::report::{Kind, Report};

/// Typesets a document of `report` as PDF/UA-1: tagged, fonts embedded, with alternative texts. If it is known when the
/// capture was made, the file is PDF/A-2a as well.
///
/// # Errors
/// A template that does not compile.
pub(super) fn render(
    report: &Report,
    kind: Kind,
    options: &RenderOptions,
) -> Result<Rendered, RenderError> {
    let mut page = Page::new(report, kind, CHARTS);
    paper::fit(&mut page);
    appendix::shorten(&mut page);
    let brand = options.brand.as_ref();
    let mut code_points = false;
    let mut files = std::mem::take(&mut page.charts);
    for drawing in files.values_mut() {
        let text = String::from_utf8_lossy(drawing);
        let shown = displayable_drawing(&text);
        code_points |= shown != text;
        *drawing = shown.into_bytes();
    }
    if let Some(logo) = brand.and_then(|brand| brand.logo.as_ref()) {
        // PNG is never UTF-8.
        let shown =
            std::str::from_utf8(&logo.bytes).map(|text| displayable_drawing(text).into_bytes());
        files.insert(
            logo.path.to_owned(),
            shown.unwrap_or_else(|_| logo.bytes.clone()),
        );
    }
    let mut data = page.data(brand);
    join(&mut data);
    data["code_points"] = code_points.into();
    let written = data.to_string();
    let mut text = displayable(&written);
    if !code_points && text != written {
        data["code_points"] = true.into();
        text = displayable(&data.to_string());
    }
    files.insert("data.json".to_owned(), text.into_bytes());
    let world = MemoryWorld::new(&options.templates, files)?;
    let bytes = typeset(&world, report);
    // Documents share too little for the memory that remembering it takes.
    typst::comemo::evict(0);
    Ok(Rendered::one(&format!("{}.pdf", kind.name()), bytes?))
}

fn typeset(world: &MemoryWorld, report: &Report) -> Result<Vec<u8>, RenderError> {
    let failed = |errors: typst::ecow::EcoVec<_>| RenderError::Template(world.messages(&errors));
    let document = typst::compile::<PagedDocument>(world)
        .output
        .map_err(failed)?;
    typst_pdf::pdf(&document, &pdf_options(report)?).map_err(failed)
}

fn pdf_options(report: &Report) -> Result<PdfOptions, RenderError> {
    let meta = &report.meta;
    let timestamp = meta.captured_at.as_deref().and_then(timestamp);
    // An archival PDF must bear a date. The capture's is the only one that is the same on every run.
    let standards: &[_] = match timestamp {
        Some(_) => &[PdfStandard::A_2a, PdfStandard::Ua_1],
        None => &[PdfStandard::Ua_1],
    };
    let standards = PdfStandards::new(standards)
        .map_err(|error| RenderError::Template(error.message().to_string()))?;
    Ok(PdfOptions {
        ident: Smart::Custom(format!("{}/{}", meta.bundle_id, meta.bundle)),
        creator: Smart::Custom(Some(generator(&meta.generator))),
        timestamp,
        standards,
        ..PdfOptions::default()
    })
}

/// The time of an RFC 3339 text in UTC; none for anything else.
fn timestamp(text: &str) -> Option<Timestamp> {
    if !text.ends_with('Z') {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u8>().ok();
    let year = text.get(..4)?.parse::<i32>().ok()?;
    let (month, day) = (number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    Datetime::from_ymd_hms(year, month, day, hour, minute, second).map(Timestamp::new_utc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_utc_times_are_stamped() {
        let expected = Datetime::from_ymd_hms(2026, 3, 1, 12, 34, 56).map(Timestamp::new_utc);
        let shown = |t: Option<Timestamp>| format!("{t:?}");
        assert_eq!(shown(timestamp("2026-03-01T12:34:56.7Z")), shown(expected));
        assert!(timestamp("2026-03-01T12:34:56+08:00").is_none());
        assert!(timestamp("2026-13-01T12:34:56Z").is_none());
        assert!(timestamp("Z").is_none());
    }
}
