//! GPU hardware counters over time: `GPU_METRICS`, or the JSON of `GENERIC_EVENTS` where it is all there is.

use rustc_hash::FxHashMap;

use super::Import;
use crate::IngestError;
use crate::database::Want;
use rooflens_diagnostic::Severity;
use rooflens_session::{CounterSample, CounterSamples, GpuId, PassId, StrId};

use Want::{May, Need};

/// Seen with clocks: the value column of old exports is 32 bits wide and wraps.
const WRAP: i64 = 1 << 32;

/// A sample of a share of a peak is at most 100 %, apart from rounding.
const MOST_PERCENT: i64 = 200;

/// The range check of a counter's values.
#[derive(Clone, Copy)]
enum Counter {
    Clock,
    Percent,
    Other,
}

impl Counter {
    fn of(name: &str) -> Self {
        match name {
            _ if name.contains("Clock Frequency") => Self::Clock,
            _ if name.contains('%') => Self::Percent,
            _ => Self::Other,
        }
    }
}

/// Name, GPU and kind, by (type, metric).
type CounterNames = FxHashMap<(i64, i64), (StrId, GpuId, Counter)>;

impl Import<'_> {
    /// Reads the samples of all counters.
    pub(super) fn counters(&mut self) -> Result<(), IngestError> {
        let names = self.counter_names()?;
        if names.is_empty() {
            return Ok(());
        }
        let wants = [
            May(&["timestamp", "rawTimestamp"]),
            Need("typeId"),
            Need("metricId"),
            Need("value"),
        ];
        let pass = self.pass;
        let read_sample = |out: &mut CounterSamples, row: &crate::database::Row<'_>| {
            let (kind, metric) = (row.int(1)?, row.int(2)?);
            let Some((name, gpu, kind_of)) = names.get(&(kind, metric)) else {
                return Err(format!("metricId {metric} has no name"));
            };
            let mut value = row.int(3)?;
            match kind_of {
                Counter::Clock if value < 0 => value += WRAP,
                Counter::Percent if !(0..=MOST_PERCENT).contains(&value) => {
                    return Err(format!("metricId {metric} is {value} %"));
                }
                Counter::Clock | Counter::Percent | Counter::Other => {}
            }
            out.push(CounterSample {
                time: row.time(0)?,
                metric: *name,
                value: value as f64,
                pass,
                gpu: Some(*gpu),
            });
            Ok(())
        };
        for part in self.scan("GPU_METRICS", &wants, read_sample)? {
            self.session.counter_samples.append(part);
        }
        if self.database.has("GENERIC_EVENTS") && !self.database.has("GPU_METRICS") {
            let message = "GPU metrics are only there as generic events of an old export";
            let hint = "export the report again with nsys 2023.2 or newer";
            self.say(
                Severity::Notice,
                "nsys/old-gpu-metrics",
                message,
                Some(hint),
                1,
            );
        }
        Ok(())
    }

    /// Name, GPU and kind, by (type, metric). The type's low byte is the GPU.
    fn counter_names(&mut self) -> Result<CounterNames, IngestError> {
        let wants = [Need("typeId"), Need("metricId"), Need("metricName")];
        let (parts, _) = self.database.scan(
            "TARGET_INFO_GPU_METRICS",
            &wants,
            |out: &mut Vec<(i64, i64, String)>, row| {
                if let Some(name) = row.text(2) {
                    out.push((row.int(0)?, row.int(1)?, name.to_owned()));
                }
                Ok(())
            },
        )?;
        let pass: PassId = self.pass;
        let mut names = FxHashMap::default();
        for (kind, metric, name) in parts.into_iter().flatten() {
            let gpu = self.session.gpu(pass, (kind & 0xff) as u32);
            let kind_of = Counter::of(&name);
            names.insert((kind, metric), (self.session.intern(&name), gpu, kind_of));
        }
        Ok(names)
    }
}
