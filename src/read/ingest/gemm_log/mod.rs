//! Logs of cuBLAS (`CUBLAS_LOGINFO_DBG`) and cuBLASLt (`CUBLASLT_LOG_LEVEL=5`): the sizes of each GEMM.
//!
//! cuBLAS writes a block of lines a call, `I! … function … called:` and one `i!  name: type=…; val=…` an argument;
//! cuBLASLt one line a call, of which the level `Trace` names sizes and algorithm. hipBLASLt writes the same.
//!
//! A log has sizes but neither kernels nor times on the clock of a pass. Its calls therefore stay in a table of their
//! own, and analysis matches them to kernels by their order.

mod cublas;
mod lines;
mod lt;
#[cfg(test)]
mod tests;

use rooflens_schemas::ArtifactKind;

use super::{Importer, IngestError, IngestErrorKind, Prefix};
use lines::{Line, Lines};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens_session::{GemmCall, Session, StrId};

pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::GemmLog,
    sniff,
    import,
};

/// Calls beyond which a log is not read on: a bound on memory.
const MAX_CALLS: u64 = 8 << 20;

/// Largest size that is taken for one.
const MAX_SIZE: u64 = 1 << 48;

/// The library that wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Blas,
    Lt,
}

fn dialect(line: &str) -> Option<Dialect> {
    let is_lt = |line: &str| {
        line.starts_with('[') && (line.contains("][cublasLt][") || line.contains("][HIPBLASLT]["))
    };
    match line {
        line if line.starts_with("I! cuBLAS") || line.starts_with("i!") => Some(Dialect::Blas),
        line if is_lt(line) => Some(Dialect::Lt),
        _ => None,
    }
}

fn sniff(prefix: &Prefix<'_>) -> bool {
    let text = prefix.text();
    text.lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| dialect(line).is_some())
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let mut read = Read::new(file, session);
    let mut lines = Lines::new(file.content()?.reader()?);
    let most = MAX_CALLS.min(session.room() / size_of::<GemmCall>() as u64);
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        if read.calls.len() as u64 >= most {
            read.full = true;
            break;
        }
        match line {
            Line::Whole(line) => read.line(session, line, number),
            Line::TooLong => read.lose(number),
        }
    }
    read.end(session, number, lines.is_cut());
    if read.calls.is_empty() {
        let message = "it names no matrix product with its sizes".to_owned();
        return Err(IngestError::from(IngestErrorKind::Empty(message))
            .hint("record with CUBLAS_LOGINFO_DBG=1 or CUBLASLT_LOG_LEVEL=5"));
    }
    read.say(file, diagnostics);
    for call in read.calls {
        session.gemm_calls.push(call);
    }
    Ok(())
}

/// Calls that were read, and counts of the rest.
struct Read {
    artifact: StrId,
    pass: StrId,
    calls: Vec<GemmCall>,
    /// The call whose block is open, in a cuBLAS log.
    open: Option<cublas::Block>,
    lost: u64,
    first_lost: Option<u64>,
    /// Calls of grouped products, whose sizes lie in arrays.
    grouped: u64,
    full: bool,
}

impl Read {
    fn new(file: &ArtifactFile, session: &mut Session) -> Self {
        Self {
            artifact: session.intern(&file.path),
            pass: session.intern(&file.pass),
            calls: Vec::new(),
            open: None,
            lost: 0,
            first_lost: None,
            grouped: 0,
            full: false,
        }
    }

    fn lose(&mut self, line: u64) {
        self.lost += 1;
        self.first_lost.get_or_insert(line);
    }

    fn line(&mut self, session: &mut Session, line: &str, number: u64) {
        if line.trim().is_empty() {
            return;
        }
        match dialect(line) {
            Some(Dialect::Blas) if line.starts_with("I!") => {
                self.close(session, number);
                self.open = cublas::Block::begin(line);
            }
            Some(Dialect::Blas) => {
                if let Some(block) = &mut self.open
                    && !block.argument(line)
                {
                    self.close(session, number);
                }
            }
            Some(Dialect::Lt) => match lt::call(session, line) {
                lt::Found::Call(call) => self.push(*call),
                lt::Found::Nothing => {}
                lt::Found::Damaged => self.lose(number),
            },
            None => self.lose(number),
        }
    }

    /// Ends the block of a cuBLAS call.
    fn close(&mut self, session: &mut Session, number: u64) {
        let Some(block) = self.open.take() else {
            return;
        };
        if block.is_grouped() {
            self.grouped += 1;
            return;
        }
        match block.call(session) {
            Some(call) => self.push(call),
            None => self.lose(number),
        }
    }

    /// The end of the file; a last line without an end may lack the end of a number.
    fn end(&mut self, session: &mut Session, number: u64, cut: bool) {
        if cut {
            self.open = None;
            self.lose(number);
        }
        self.close(session, number);
    }

    fn push(&mut self, mut call: GemmCall) {
        call.artifact = self.artifact;
        call.pass = self.pass;
        call.sequence = self.calls.len() as u64;
        self.calls.push(call);
    }

    fn say(&self, file: &ArtifactFile, diagnostics: &mut Diagnostics) {
        let mut push = |code, message: String, count: u64, line: Option<u64>| {
            let location = line.map_or(Location::Whole, Location::Line);
            let diagnostic = Diagnostic::new(Severity::DataLoss, code, message);
            diagnostics.push(diagnostic.times(count).at(location).artifact(&file.path));
        };
        if self.lost > 0 {
            let message = "lines of the log are damaged or cut: their calls are skipped";
            push(
                "gemm-log/line",
                message.to_owned(),
                self.lost,
                self.first_lost,
            );
        }
        if self.grouped > 0 {
            let message = "grouped products are skipped: their sizes are in arrays, not in the log";
            push("gemm-log/grouped", message.to_owned(), self.grouped, None);
        }
        if self.full {
            let message = format!(
                "the log is read up to its first {} products",
                self.calls.len()
            );
            push("gemm-log/too-long", message, 1, None);
        }
    }
}

/// A call of which nothing is known but its function.
fn blank(session: &mut Session, function: &str) -> GemmCall {
    let none = StrId::default();
    GemmCall {
        artifact: none,
        pass: none,
        sequence: 0,
        process: 0,
        function: session.intern(function),
        m: 0,
        n: 0,
        k: 0,
        batch: 1,
        a_type: none,
        b_type: none,
        d_type: none,
        compute: none,
        transpose_a: false,
        transpose_b: false,
        order: none,
        algorithm: None,
        tile_m: None,
        tile_n: None,
        stages: none,
        split_k: None,
        cluster: none,
        epilogue: none,
    }
}

/// A size as text: whole, at least 1 and not absurd.
fn size(text: &str) -> Option<u64> {
    text.parse()
        .ok()
        .filter(|size| (1..=MAX_SIZE).contains(size))
}
