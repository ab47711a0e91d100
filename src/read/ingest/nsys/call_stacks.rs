//! CPU samples: what ran of the threads that call CUDA.

use rustc_hash::FxHashMap;

use super::Import;
use crate::IngestError;
use crate::database::{Row, Want};
use rooflens_session::{CpuSample, Ns};

use Want::{May, Need};

/// A sample by its number: when it was taken, and of which thread.
type Samples = FxHashMap<i64, (Ns, i64)>;

impl Import<'_> {
    /// Reads the innermost function of each sample of threads that call CUDA, or of all if nothing does, by
    /// (thread, time).
    pub(super) fn cpu_samples(&mut self) -> Result<(), IngestError> {
        let samples = self.sampled()?;
        if samples.is_empty() {
            return Ok(());
        }
        let wants = [
            Need("id"),
            Need("symbol"),
            Need("module"),
            May(&["unresolved"]),
            Need("stackDepth"),
        ];
        let read_symbol = |out: &mut Vec<(i64, i64, i64, bool)>, row: &Row<'_>| {
            if row.int(4)? == 0 && samples.contains_key(&row.int(0)?) {
                let unresolved = row.maybe(3)?.is_some_and(|flag| flag != 0);
                out.push((row.int(0)?, row.int(1)?, row.int(2)?, unresolved));
            }
            Ok(())
        };
        let parts = self.scan("SAMPLING_CALLCHAINS", &wants, read_symbol)?;
        let (pass, empty) = (self.pass, self.session.intern(""));
        let mut rows: Vec<CpuSample> = Vec::new();
        for (id, symbol, module, unresolved) in parts.into_iter().flatten() {
            let (time, thread) = samples[&id];
            let symbol = self.names.text(symbol);
            // Without symbols nsys writes the address.
            let function = match unresolved || symbol.starts_with("0x") {
                true => empty,
                false => self.session.intern(symbol.as_ref()),
            };
            let module = self.names.text(module);
            let library = module.rsplit(['/', '\\']).next().unwrap_or(&module);
            let library = self.session.intern(library);
            rows.push(CpuSample {
                time,
                function,
                library,
                pass,
                thread: self.thread(thread),
            });
        }
        rows.sort_by_key(|row| (row.thread, row.time));
        for row in rows {
            self.session.cpu_samples.push(row);
        }
        Ok(())
    }

    /// The samples of threads that call CUDA.
    fn sampled(&mut self) -> Result<Samples, IngestError> {
        let wants = [Need("id"), Need("start"), May(&["globalTid"])];
        let (callers, is_any_thread) = (&self.callers, self.host_only);
        let read_sample = |out: &mut Vec<(i64, (Ns, i64))>, row: &Row<'_>| {
            if let Some(thread) = row
                .maybe(2)?
                .filter(|thread| is_any_thread || callers.contains(thread))
            {
                out.push((row.int(0)?, (super::scheduling::time(row, 1)?, thread)));
            }
            Ok(())
        };
        let table = "COMPOSITE_EVENTS";
        let (parts, bad) = self.database.scan(table, &wants, read_sample)?;
        self.report_bad_rows(table, &bad);
        Ok(parts.into_iter().flatten().collect())
    }
}
