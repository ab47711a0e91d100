//! Sums of calls and ranges of `nsys stats`: `cuda_api_sum`, `osrt_sum`, `nvtx_sum`, `nvtx_pushpop_sum`, `nvtx_startend_sum`, and
//! their names before 2022 (`cudaapisum`, `osrtsum`, `nvtxppsum`), as CSV and as the console shows them.

use std::borrow::Cow;

use rooflens_schemas::{ArtifactKind, PassKind};

use super::{Columns, Figures, rows};
use crate::stats_tables::{Table, tables};
use crate::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::Diagnostics;
use rooflens_session::{CallKind, CallSum, Session};

/// Reads `nsys stats` sums of calls and ranges.
pub(crate) static IMPORTER: Importer = Importer {
    kind: ArtifactKind::NsysCallSum,
    sniff,
    import,
};

const MAX_BYTES: u64 = 256 << 20;

/// Where names and figures are.
struct Head {
    ranges: bool,
    name: usize,
    columns: Columns,
}

fn sniff(prefix: &Prefix<'_>) -> bool {
    tables(&prefix.text()).any(|table| head(&table).is_some())
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.bytes(MAX_BYTES)?;
    let before = session.call_sums.len();
    add(&String::from_utf8_lossy(&bytes), file, session, diagnostics)?;
    match session.call_sums.len() > before {
        true => Ok(()),
        false => Err(IngestErrorKind::Empty("it lists no call".to_owned()).into()),
    }
}

/// Adds the sums of all tables of calls and ranges of a text.
///
/// # Errors
/// A table is damaged as CSV, or holds more rows than the input may give.
pub(super) fn add(
    text: &str,
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    for table in tables(text) {
        let Some(head) = head(&table) else { continue };
        let rows = rows(&table, file, session, diagnostics, |cells| {
            row(cells, &head)
        })?;
        push(rows, head.ranges, file, session);
    }
    Ok(())
}

fn push(rows: Vec<(String, Figures)>, ranges: bool, file: &ArtifactFile, session: &mut Session) {
    if rows.is_empty() {
        return;
    }
    // API and operating system share a head: names tell them.
    let is_cuda = |name: &str| {
        name.starts_with("cuda")
            || name
                .strip_prefix("cu")
                .is_some_and(|rest| rest.starts_with(char::is_uppercase))
    };
    let kind = match ranges {
        true => CallKind::Range,
        false if rows.iter().any(|(name, _)| is_cuda(name)) => CallKind::Cuda,
        false => CallKind::System,
    };
    let pass_kind = file.pass_kind.unwrap_or(PassKind::Timeline);
    let pass = session.add_pass(&file.pass, pass_kind, &file.path);
    for (name, figures) in rows {
        let name = session.intern(&name);
        session.call_sums.push(CallSum {
            pass,
            kind,
            name,
            count: figures.count,
            total: figures.total,
            min: figures.min,
            max: figures.max,
            median: figures.median,
            std: figures.std,
        });
    }
}

fn head(table: &Table<'_>) -> Option<Head> {
    let range = table.position(&["Range", "NVTX Range"]);
    let (name, counts) = match range {
        Some(range) => (range, &["Instances"][..]),
        None => (table.position(&["Name"])?, &["Num Calls", "Calls"][..]),
    };
    Some(Head {
        ranges: range.is_some(),
        name,
        columns: Columns::find(table, counts)?,
    })
}

fn row(cells: &[Cow<'_, str>], head: &Head) -> Option<(String, Figures)> {
    // A colon ends the name of the domain; the default one has none.
    let name = cells.get(head.name)?.trim_start_matches(':');
    let figures = head.columns.figures(cells)?;
    (!name.is_empty()).then(|| (name.to_owned(), figures))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{import_bytes, sniffs};
    use rooflens_diagnostic::Location;
    use rooflens_session::Ns;
    use rooflens_units::Time;

    fn read(text: &str) -> (Session, Diagnostics, Result<(), IngestError>) {
        let (result, session, diagnostics) = import_bytes(&IMPORTER, "sum.csv", text);
        (session, diagnostics, result)
    }

    #[test]
    fn calls_of_the_api_and_of_the_system_are_told_by_their_names() {
        let head = "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n";
        for (name, kind) in [
            ("cudaLaunchKernel_v7000", CallKind::Cuda),
            ("cuMemAlloc_v2", CallKind::Cuda),
            ("poll", CallKind::System),
        ] {
            let text =
                format!("{head}75.0,300,3,100.0,99.5,90,110,10.0,{name}\n1,x,1,1,1,1,1,0,bad\n");
            assert!(sniffs(&IMPORTER, "a", &text));
            let (session, diagnostics, result) = read(&text);
            assert!(result.is_ok());
            let sums = &session.call_sums;
            assert_eq!((session.text(sums.name[0]), sums.kind[0]), (name, kind));
            assert_eq!(
                (sums.count[0], sums.total[0], sums.max[0]),
                (3, Ns(300), Ns(110))
            );
            assert_eq!((sums.min[0], sums.median[0]), (Ns(90), Some(Time(99.5))));
            assert_eq!(
                diagnostics.iter().next().map(|loss| &loss.at),
                Some(&Location::Line(3))
            );
        }
    }

    #[test]
    fn ranges_of_the_default_domain_lose_its_colon_and_units_are_scaled() {
        let (session, ..) = read(
            "Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Style,Range\n\
             60.0,1.5,2,0.75,0.75,0.5,1.0,0.1,PushPop,:decode\n40.0,1.0,1,1.0,1.0,1.0,1.0,0.0,PushPop,NCCL:ncclAllReduce\n",
        );
        let sums = &session.call_sums;
        let names: Vec<_> = sums.name.iter().map(|name| session.text(*name)).collect();
        assert_eq!(names, ["decode", "NCCL:ncclAllReduce"]);
        assert_eq!(
            (sums.total[0], sums.max[0], sums.kind[0]),
            (Ns(1500), Ns(1000), CallKind::Range)
        );
    }

    #[test]
    fn sums_of_kernels_and_of_memory_are_no_calls() {
        for head in [
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n1,1,1,1,1,1,1,0,k\n",
            "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n1,1,1,1,1,1,1,0,[CUDA memset]\n",
        ] {
            assert!(!sniffs(&IMPORTER, "a", head));
            assert!(read(head).2.is_err());
        }
    }
}
