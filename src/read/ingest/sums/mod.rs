//! Kernel sums of `nsys stats`: `cuda_gpu_kern_sum`, and `gpukernsum` before 2022, as CSV and as the console shows them.
//!
//! A console text has its sister reports too: `calls.rs` reads those of calls and ranges.
//!
//! A sum has no timeline, so its rows go into tables of their own and never into launches. Launches made up from a count
//! and a mean were rejected: every share of time between kernels would be invented. CSV and console text differ in layout
//! only, so both go through one reader of tables.

mod calls;

use std::borrow::Cow;

use rooflens_schemas::{ArtifactKind, PassKind};

use super::stats_tables::{self, Table, number, tables};
use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens_session::budget::SUM_BYTES;
use rooflens_session::{KernelSum, Ns, Session};
use rooflens_units::Time;

pub(super) use calls::IMPORTER as CALLS;

/// Reads `nsys stats` kernel sums.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::NsysKernelSum,
    sniff,
    import,
};

const MAX_BYTES: u64 = 256 << 20;

/// Where the figures of a sum are, and nanoseconds per unit of each time.
struct Columns {
    count: usize,
    total: (usize, u32),
    min: (usize, u32),
    max: (usize, u32),
    median: Option<(usize, u32)>,
    std: Option<(usize, u32)>,
}

/// The figures of a row.
struct Figures {
    count: u64,
    total: Ns,
    min: Ns,
    max: Ns,
    median: Option<Time>,
    std: Option<Time>,
}

impl Columns {
    /// The columns of a table whose executions stand under one of these headings.
    fn find(table: &Table<'_>, counts: &[&str]) -> Option<Self> {
        Some(Self {
            count: table.position(counts)?,
            total: table.time(&["Total Time"])?,
            min: table.time(&["Min", "Minimum"])?,
            max: table.time(&["Max", "Maximum"])?,
            median: table.time(&["Med", "Median"]),
            std: table.time(&["StdDev"]),
        })
    }

    fn figures(&self, cells: &[Cow<'_, str>]) -> Option<Figures> {
        let time = |(index, scale): (usize, u32)| stats_tables::time(cells.get(index)?, scale);
        let whole = |column| time(column).map(Time::round);
        Some(Figures {
            count: number(cells.get(self.count)?)?,
            total: whole(self.total)?,
            min: whole(self.min)?,
            max: whole(self.max)?,
            median: self.median.and_then(time),
            std: self.std.and_then(time),
        })
    }
}

fn sniff(prefix: &Prefix<'_>) -> bool {
    find_table(&prefix.text()).is_some()
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.bytes(MAX_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let Some((name, columns, table)) = find_table(&text) else {
        let message = "it is not the kernel summary of nsys stats".to_owned();
        return Err(IngestError::from(IngestErrorKind::Unsupported(message))
            .hint("nsys stats --report cuda_gpu_kern_sum --format csv gives it"));
    };
    let rows = rows(&table, file, session, diagnostics, |cells| {
        let name = cells.get(name).filter(|name| !name.is_empty())?;
        Some((name.to_string(), columns.figures(cells)?))
    })?;
    if rows.is_empty() {
        return Err(IngestErrorKind::Empty("it lists no kernel".to_owned()).into());
    }
    let kind = file.pass_kind.unwrap_or(PassKind::Timeline);
    let pass = session.add_pass(&file.pass, kind, &file.path);
    for (name, figures) in rows {
        let kernel = session.kernel(&name, "");
        session.kernel_sums.push(KernelSum {
            pass,
            kernel,
            count: figures.count,
            total: figures.total,
            min: figures.min,
            max: figures.max,
            median: figures.median,
            std: figures.std,
        });
    }
    calls::add(&text, file, session, diagnostics)?;
    Ok(())
}

/// The results of a function for all rows of a table. Rows without a result are reported as lost.
///
/// # Errors
/// The table is damaged as CSV, or holds more rows than the input may give.
fn rows<R>(
    table: &Table<'_>,
    file: &ArtifactFile,
    session: &Session,
    diagnostics: &mut Diagnostics,
    row: impl Fn(&[Cow<'_, str>]) -> Option<R>,
) -> Result<Vec<R>, IngestError> {
    let room = session.room() / SUM_BYTES;
    let (mut rows, mut bad, mut shares) = (Vec::new(), Vec::new(), Shares::of(table));
    if let Some(loss) = table.loss(file) {
        diagnostics.push(loss);
    }
    table.rows(|line, cells| {
        shares.add(cells);
        match row(cells) {
            Some(_) if rows.len() as u64 >= room => return Err(IngestErrorKind::Budget.into()),
            Some(row) => rows.push(row),
            None => bad.push(line),
        }
        Ok::<(), IngestError>(())
    })?;
    if let Some(first) = bad.first() {
        let message = "rows without a name, a count or times are skipped";
        let loss = Diagnostic::new(Severity::DataLoss, "sums/row", message);
        let loss = loss.times(bad.len() as u64).artifact(&file.path);
        diagnostics.push(loss.at(Location::Line(*first)));
    } else if shares.lack_rows() {
        let message = "the shares of time are those of more rows than there are: rows are missing";
        let loss = Diagnostic::new(Severity::DataLoss, "sums/missing-rows", message);
        diagnostics.push(loss.artifact(&file.path).at(Location::Line(table.line)));
    }
    Ok(rows)
}

/// Shares of time against the times that they are shares of.
#[derive(Default)]
struct Shares {
    /// Columns of shares and of times, and nanoseconds per unit of these.
    columns: Option<(usize, (usize, u32))>,
    sum: Time,
    /// Least sum of all rows, by the share of one of them.
    least: Time,
}

impl Shares {
    fn of(table: &Table<'_>) -> Self {
        let is_share =
            |column: &stats_tables::Column<'_>| column.name == "Time" && column.unit == "%";
        let share = table.columns.iter().position(is_share);
        Self {
            columns: share.zip(table.time(&["Total Time"])),
            ..Self::default()
        }
    }

    fn add(&mut self, cells: &[Cow<'_, str>]) {
        let Some((share, (total, scale))) = self.columns else {
            return;
        };
        let total = cells
            .get(total)
            .and_then(|cell| stats_tables::time(cell, scale));
        let (Some(share), Some(total)) = (cells.get(share), total) else {
            return;
        };
        self.sum += total;
        let digits = share.split_once('.').map_or(0, |(_, digits)| digits.len());
        // A share of 40.0 is one of less than 40.05.
        let half = 0.5 / 10_f64.powi(digits.min(9) as i32);
        if let Some(percent) = number::<f64>(share).filter(|percent| *percent > 0.0) {
            self.least = self.least.max(100.0 / (percent + half) * total);
        }
    }

    /// Whether the rows are fewer than those whose shares they state. A unit that is not nanoseconds has rounded times.
    fn lack_rows(&self) -> bool {
        self.sum < (1.0 - 1e-6) * self.least
    }
}

/// The first table of kernels: where their names are, and the figures.
fn find_table(text: &str) -> Option<(usize, Columns, Table<'_>)> {
    tables(text).find_map(|table| {
        // NVTX summaries count instances too, of ranges; memory summaries name operations.
        if table
            .position(&["Range", "Operation", "Category", "NVTX Range"])
            .is_some()
        {
            return None;
        }
        let name = table.position(&["Name"])?;
        Some((name, Columns::find(&table, &["Instances"])?, table))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{import_bytes, sniffs};

    const NEW: &str = include_str!("../../../../tests/data/seeds/kernel_sums.csv");

    fn import_text(text: &str) -> (Result<(), IngestError>, Session, Diagnostics) {
        import_bytes(&IMPORTER, "sum.csv", text)
    }

    #[test]
    fn kernels_with_commas_in_their_names_are_read() {
        let (result, session, _) = import_text(NEW);
        assert!(result.is_ok());
        let sums = &session.kernel_sums;
        assert_eq!(
            (sums.count.as_slice(), sums.total.as_slice()),
            (&[3, 1][..], &[Ns(300), Ns(100)][..])
        );
        assert_eq!(
            (sums.min[0], sums.max[0], sums.median[0]),
            (Ns(90), Ns(110), Some(Time(99.5)))
        );
        assert_eq!(session.kernel_name(sums.kernel[0]), "void gemm<int, 4>(T1)");
        assert_eq!(session.passes.kind, [PassKind::Timeline]);
    }

    #[test]
    fn the_old_layout_has_no_median_and_other_units_are_scaled() {
        let old = "Processing [x.sqlite]\nTime(%),Total Time (us),Instances,Average,Minimum (us),Maximum (us),Name\n\
            100.0,1.5,2,0.75,0.5,1.0,k\n\nTime(%),Total Time (ns)\n";
        let (result, session, _) = import_text(old);
        assert!(result.is_ok());
        let sums = &session.kernel_sums;
        assert_eq!(
            (sums.total[0], sums.min[0], sums.max[0], sums.median[0]),
            (Ns(1500), Ns(500), Ns(1000), None)
        );
        assert_eq!(sums.len(), 1);
    }

    #[test]
    fn the_console_report_is_read_after_other_tables() {
        let console = " ** OS Runtime Summary (osrt_sum):\n\n Time (%)  Total Time (ns)  Num Calls  Name\n --------  ---------------  ---------  ----\n    100.0               50          1  poll\n\n ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Total Time (ns)  Instances     Avg (ns)  Med (ns)  Min (ns)   Max (ns)  StdDev (ns)  Name        \n --------  ---------------  ---------  -----------  --------  --------  ---------  -----------  ------------\n    100.0        3,481,709          2  1,740,854.5   1,740.5       709  3,481,000          0.0  f<int, 2>(T)\n\n";
        let (result, session, _) = import_text(console);
        assert!(result.is_ok());
        let sums = &session.kernel_sums;
        assert_eq!(
            (sums.count[0], sums.total[0], sums.max[0]),
            (2, Ns(3_481_709), Ns(3_481_000))
        );
        assert_eq!(
            (sums.median[0], session.kernel_name(sums.kernel[0])),
            (Some(Time(1740.5)), "f<int, 2>(T)")
        );
    }

    #[test]
    fn other_summaries_are_not_taken_for_kernels() {
        let is_sums = |text: &str| sniffs(&IMPORTER, "a.csv", text);
        assert!(is_sums(NEW));
        for header in [
            "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n",
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n",
            "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n",
            "\"ID\",\"Process ID\",\"Kernel Name\"\n",
        ] {
            assert!(!is_sums(header), "{header}");
            assert!(import_text(header).0.is_err());
        }
    }

    #[test]
    fn what_is_cut_within_a_row_or_lacks_rows_is_data_loss() {
        let codes = |text: &str| {
            let (_, session, diagnostics) = import_text(text);
            let codes: Vec<&str> = diagnostics.iter().map(|one| one.code).collect();
            (session.kernel_sums.len(), codes)
        };
        let whole = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n\
            60.0,600,1,600,600,600,600,0,\"f<1, 2>()\"\n30.0,300,1,300,300,300,300,0,g\n10.0,100,1,100,100,100,100,0,h\n";
        assert_eq!(codes(whole), (3, vec![]));
        let end_of_second = whole.find("10.0,100").unwrap();
        assert_eq!(
            codes(&whole[..end_of_second]),
            (2, vec!["sums/missing-rows"])
        );
        // The name of the last row may be longer: it is dropped.
        let (rows, lost) = codes(&whole[..whole.len() - 1]);
        assert!(rows == 2 && lost.contains(&"stats/cut"), "{lost:?}");
        // An open quote holds all that follows.
        let (rows, lost) = codes(&whole.replace("2>()\"", "2>()"));
        assert!(rows < 3 && lost.contains(&"stats/cut"), "{lost:?}");
    }

    #[test]
    fn shares_are_rounded() {
        // 1 ÷ 3 is 33.333 %, and 2 ÷ 3 66.667 %.
        let text = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n\
            66.7,2,1,2,2,2,2,0,f\n33.3,1,1,1,1,1,1,0,g\n";
        let (_, _, diagnostics) = import_text(text);
        assert_eq!(diagnostics.iter().count(), 0);
    }

    #[test]
    fn broken_rows_are_counted_with_their_line() {
        let (result, session, diagnostics) =
            import_text(&format!("{NEW}1.0,x,1,1,1,1,1,1,bad\n0.1,5\n"));
        assert!(result.is_ok());
        assert_eq!(session.kernel_sums.len(), 2);
        let loss = diagnostics.iter().next().unwrap();
        assert_eq!((loss.count, &loss.at), (2, &Location::Line(4)));
    }
}
