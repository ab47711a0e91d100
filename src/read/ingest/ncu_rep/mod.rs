//! Nsight Compute reports (`.ncu-rep`), read themselves: launches with their metrics, rules, sections and
//! NVTX ranges. Machine code, sources, call stacks, sampled series and per-instruction values are left alone.
//!
//! Rows equal those of an exported raw page, with all digits and full kernel names, so that pages of
//! the same report add nothing; `ncu` leaves them out.
//!
//! A report is a sequence of protobuf blocks without a public schema. Exporting with `ncu` was rejected: a report must
//! compile on machines without NVIDIA tools. The reader walks the wire format and decodes known field numbers only. Unknown
//! fields are skipped, stated lengths are never reserved, and a damaged block ends the file with a diagnostic.

mod blocks;
mod messages;
mod nvtx;
mod rows;
mod rules;
mod unit;
mod wire;

use rooflens_schemas::ArtifactKind;

use self::blocks::{Blocks, MAGIC, Stop};
use self::messages::Launch;
use self::rows::Rows;
use super::profiles::Origin;
use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens_session::Session;

/// The version of the file format that all reports seen have, from ncu 2020.3 to 2025.3.
const KNOWN_VERSION: u32 = 7;

/// Reports of Nsight Compute. Fills `kernel_profiles`, `profile_metrics`, `profile_rules`, what belongs to
/// these, and what the report tells of the GPU.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::NcuReport,
    sniff,
    import,
};

fn sniff(prefix: &Prefix<'_>) -> bool {
    prefix.bytes.starts_with(MAGIC)
}

/// Counts of unread parts.
#[derive(Default)]
struct Lost {
    /// Launches whose message makes no sense.
    launches: u64,
    /// Results that are not of launches.
    others: u64,
    /// Why reading ended early.
    stop: Option<Stop>,
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let content = file.content().map_err(IngestErrorKind::from)?;
    let reader = content.reader().map_err(IngestErrorKind::from)?;
    let (mut blocks, version) = Blocks::open(reader).map_err(refused)?;
    let (mut rows, mut lost) = (Rows::open(file, session), Lost::default());
    if let Err(stop) = read(&mut blocks, &mut rows, &mut lost) {
        lost.stop = Some(stop);
    }
    rows.close();
    if let Some(stop) = lost.stop.take_if(|_| rows.added == 0 && rows.repeated == 0) {
        return Err(refused(stop).hint(newer(version)));
    }
    tell(&rows, &lost, version, &mut |diagnostic| {
        diagnostics.push(diagnostic.artifact(&file.path));
    });
    Ok(())
}

/// The process of a report, and its launch if there is one alone; none for a report that cannot be read.
pub(super) fn origin(file: &ArtifactFile) -> Option<Origin> {
    let reader = file.content().ok()?.reader().ok()?;
    let (mut blocks, _) = Blocks::open(reader).ok()?;
    let first = blocks.block().ok()??;
    let alone = first.launches == 1 && matches!(blocks.block(), Ok(None));
    Some(Origin {
        process: first.process,
        only_launch: alone.then_some(0),
    })
}

fn read<R: std::io::Read>(
    blocks: &mut Blocks<R>,
    rows: &mut Rows<'_>,
    lost: &mut Lost,
) -> Result<(), Stop> {
    while let Some(header) = blocks.block()? {
        rows.session(header.session);
        if !header.strings.is_empty() && !rows.set_names(header.strings) {
            // Names of metrics would be guesses from here on.
            return Err(Stop::Malformed(blocks.offset()));
        }
        lost.others = lost.others.saturating_add(header.others);
        let mut left = header.launches;
        while left > 0
            && let Some(message) = blocks.result()?
        {
            left -= 1;
            if let Ok(launch) = Launch::read(message) {
                rows.launch(header.process, &launch);
                if rows.is_full() {
                    return Err(Stop::Budget);
                }
            } else {
                rows.skip_launch();
                lost.launches += 1;
            }
        }
        lost.launches = lost.launches.saturating_add(left);
    }
    Ok(())
}

/// The error for a report of which nothing could be read.
fn refused(stop: Stop) -> IngestError {
    match stop {
        Stop::Cut => IngestErrorKind::Truncated.into(),
        Stop::Budget => IngestErrorKind::Budget.into(),
        Stop::Malformed(byte) => {
            let kind = IngestErrorKind::Unsupported(
                "the blocks of this report are not those of a known version".to_owned(),
            );
            IngestError::from(kind).at(Location::Byte(byte))
        }
        Stop::Io(error) => IngestErrorKind::from(error).into(),
    }
}

fn newer(version: u32) -> String {
    let export = "export it where ncu is installed: ncu --import FILE.ncu-rep --page raw --csv";
    match version {
        KNOWN_VERSION => export.to_owned(),
        _ => format!("its format is version {version}, known is {KNOWN_VERSION}; {export}"),
    }
}

fn tell(rows: &Rows<'_>, lost: &Lost, version: u32, push: &mut dyn FnMut(Diagnostic)) {
    let counted = [
        (
            lost.launches,
            Severity::DataLoss,
            "ncu-rep/launches",
            "launches cannot be read",
        ),
        (
            lost.others,
            Severity::DataLoss,
            "ncu-rep/results",
            "results are of ranges, command lists or CUDA graphs and not of kernels: skipped",
        ),
        (
            rows.nameless,
            Severity::DataLoss,
            "ncu-rep/names",
            "metrics have no name in the report: skipped",
        ),
        (
            rows.repeated,
            Severity::Info,
            "ncu-rep/repeated",
            "launches are in another report of this pass: skipped",
        ),
    ];
    for (count, severity, code, text) in counted.into_iter().filter(|(count, ..)| *count > 0) {
        push(Diagnostic::new(severity, code, text).times(count));
    }
    if let Some(stop) = &lost.stop {
        let (message, at) = match stop {
            Stop::Cut => (
                "the report is cut off: launches after this are missing",
                Location::Whole,
            ),
            Stop::Malformed(byte) => (
                "the report is damaged: launches after this are missing",
                Location::Byte(*byte),
            ),
            Stop::Budget => (
                "the report takes more memory than its size allows: launches after this are missing",
                Location::Whole,
            ),
            Stop::Io(_) => ("the report cannot be read to its end", Location::Whole),
        };
        let diagnostic = Diagnostic::new(Severity::DataLoss, "ncu-rep/cut", message).at(at);
        push(diagnostic.hint(newer(version)));
    } else if rows.added == 0 && rows.repeated == 0 {
        let message = "the report holds no kernel launch";
        push(Diagnostic::new(
            Severity::Notice,
            "ncu/no-launches",
            message,
        ));
    }
    if version != KNOWN_VERSION {
        let message =
            format!("file format {version}, known is {KNOWN_VERSION}: figures may be missing");
        push(Diagnostic::new(
            Severity::Notice,
            "ncu-rep/version",
            message,
        ));
    }
}

#[cfg(test)]
mod tests;
