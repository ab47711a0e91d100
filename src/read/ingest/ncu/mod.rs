//! Nsight Compute CSV: the raw page (one row a launch, one column a metric) and the details page
//! (one row a metric), with or without NVTX, rule and body-label columns; and what ncu prints without `--csv`.
//!
//! Two pages of one report in the same pass describe the same launches: the second file adds to them.
//!
//! Pages differ by version, by locale and by the options of the export, so the reader finds columns by name and never by
//! position. Reading each page into tables of its own was rejected: a kernel would then count once for each page.
//! Rows of one launch join by pass, process, ordinal and name. The raw page wins, because it has more digits.

mod console;
mod details;
mod header;
mod identity;
mod merge;
mod number;
mod nvtx;
mod raw;
mod refusal;
mod unit;

use std::borrow::Cow;

use rooflens_schemas::ArtifactKind;

use self::header::{Header, Layout};
use self::merge::Merge;
use self::number::Decimal;
use super::profiles::Origin;
use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::Session;

/// Largest page that is read: 1 GiB. A thousand launches of the full set take about 20 MiB.
const MAX_BYTES: u64 = 1 << 30;

/// Raw and details pages of Nsight Compute. Fills `kernel_profiles`, `profile_metrics`,
/// `profile_rules` and what the page tells of the GPU.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::NcuCsv,
    sniff,
    import,
};

fn sniff(prefix: &Prefix<'_>) -> bool {
    let text = prefix.text();
    text.lines().any(header::looks_like_header) || refusal::recognizes(&text)
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.bytes(MAX_BYTES)?;
    let (text, is_cut) = as_page(String::from_utf8_lossy(&bytes));
    let Some(start) = header::find(&text) else {
        return Err(refusal::reason(&text));
    };
    let page = whole_rows(&text[start..]);
    let mut merge = Merge::open(file, session);
    if is_cut || start + page.len() < text.len() {
        merge.short_row();
    }
    let read = read_rows(page, Decimal::of(page), &mut merge);
    let outcome = merge.close();
    let is_empty = outcome.rows == 0 && read.is_ok();
    for diagnostic in outcome.diagnostics {
        // A page without a metric may be one that was cut before its first metric.
        if !is_empty || diagnostic.severity >= Severity::DataLoss {
            diagnostics.push(diagnostic.artifact(&file.path));
        }
    }
    match is_empty {
        true => nothing_read(file, &text, diagnostics),
        false => read,
    }
}

/// A console report as the page of the same values, and whether it is cut; other texts as they are.
fn as_page(text: Cow<'_, str>) -> (Cow<'_, str>, bool) {
    if header::find(&text).is_some() {
        return (text, false);
    }
    match console::page(&text) {
        Some((page, is_cut)) => (Cow::Owned(page), is_cut),
        None => (text, false),
    }
}

/// Bytes that tell where a page comes from: the first rows, and all of a page of one launch.
const ORIGIN_BYTES: usize = 1 << 20;

/// The process of a page, and its launch if there is one alone; none for a page without launches.
pub(super) fn origin(file: &ArtifactFile) -> Option<Origin> {
    let bytes = file.content().ok()?.prefix(ORIGIN_BYTES).ok()?;
    let (text, _) = as_page(String::from_utf8_lossy(&bytes));
    let page = &text[header::find(&text)?..];
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(page.as_bytes());
    let mut rows = rows.records().map_while(Result::ok);
    let header = Header::read(&rows.next()?).ok()?;
    let mut launches = rows.filter(|row| header.is_data_row(row)).map(|row| {
        let number = |name| header.field(&row, name).parse::<i64>().unwrap_or_default();
        (number("Process ID"), number("ID"))
    });
    let first = launches.next()?;
    let alone = bytes.len() < ORIGIN_BYTES && launches.all(|launch| launch == first);
    Some(Origin {
        process: first.0,
        only_launch: u32::try_from(first.1).ok().filter(|_| alone),
    })
}

/// A page without a last row that ends within a field: a number cut in two is another number.
fn whole_rows(page: &str) -> &str {
    let quotes = memchr::memchr_iter(b'"', page.as_bytes()).count();
    let is_open = quotes % 2 == 1;
    if !is_open && (page.ends_with(['\n', '"']) || page.ends_with("\",")) {
        return page;
    }
    page.rfind('\n').map_or("", |end| &page[..=end])
}

/// Reads a page; a further header (files joined end to end) begins another.
fn read_rows(page: &str, decimal: Decimal, merge: &mut Merge<'_>) -> Result<(), IngestError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(page.as_bytes());
    let mut record = csv::StringRecord::new();
    let mut header: Option<Header> = None;
    let mut units: Option<csv::StringRecord> = None;
    let (mut cells, mut is_counted) = (0, false);
    while reader.read_record(&mut record)? {
        (cells, is_counted) = (record.len(), false);
        if Header::begins(&record) {
            header = Some(Header::read(&record)?);
            units = None;
            continue;
        }
        let Some(header) = &header else { continue };
        if merge.is_full() {
            return Err(IngestErrorKind::Budget.into());
        }
        match header.layout {
            Layout::Raw if units.is_none() && header.is_units_row(&record) => {
                header::short_cells(&record)?;
                units = Some(record.clone());
            }
            _ if !header.is_data_row(&record) => merge.skip(&record),
            _ if merge.is_reported(header, &record) => merge.skip_reported(),
            Layout::Raw => {
                raw::read(header, units.as_ref(), &record, decimal, merge);
                is_counted = true;
            }
            Layout::Details => details::read(header, &record, decimal, merge),
        }
    }
    // A short row of a raw page was counted as it was read; others end early with the end of their line.
    let is_short = |header: &Header| !is_counted && cells < header.names.len();
    if !page.ends_with('\n') && header.as_ref().is_some_and(is_short) {
        merge.short_row();
    }
    Ok(())
}

/// A page without rows: the profiler had no permission, or profiled nothing.
fn nothing_read(
    file: &ArtifactFile,
    text: &str,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    if refusal::lacks_permission(text) {
        return Err(refusal::reason(text));
    }
    let message = "the page holds no metric of any launch";
    let hint =
        "check that ncu profiled a kernel and that the report holds the sections of this page";
    diagnostics.push(
        Diagnostic::new(Severity::Notice, "ncu/no-launches", message)
            .artifact(&file.path)
            .hint(hint),
    );
    Ok(())
}

#[cfg(test)]
mod tests;
