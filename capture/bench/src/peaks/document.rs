//! The file `peaks.json`, and the same as text.

use std::ops::Div;

use rooflens_units::{BytesPerSecond, FlopsPerSecond};
use serde_json::{Map, Value, json};

use crate::cuda::{Dtype, Measurement, spread};

/// One measurement; or the reason why there is none.
pub(super) type Outcome<R> = Result<Measured<R>, String>;

/// A measured rate.
#[derive(Debug, Clone)]
pub(super) struct Measured<R> {
    pub(super) timed: Measurement,
    /// FLOPs, or bytes, of a launch per its median time.
    pub(super) rate: R,
    /// Clocks and power meanwhile, or null.
    pub(super) clocks: Value,
    /// An object of what else is to be known, such as the algorithm.
    pub(super) note: Value,
}

impl<R: Copy + Div<Output = f64>> Measured<R> {
    /// The entry of the file, with the rate in a unit.
    fn to_json(&self, key: &str, unit: R) -> Value {
        let mut entry = self.note.clone();
        self.timed.add_to(&mut entry);
        entry[key] = json!(self.rate / unit);
        entry["clocks"] = self.clocks.clone();
        entry
    }
}

/// The units of rates in the file.
const TERA: FlopsPerSecond = FlopsPerSecond(1e12);
const GIGA: BytesPerSecond = BytesPerSecond(1e9);

/// Rates of memory.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) copy: Outcome<BytesPerSecond>,
    pub(super) read: Outcome<BytesPerSecond>,
    pub(super) write: Outcome<BytesPerSecond>,
}

/// All of the file.
pub(super) struct Peaks {
    pub(super) gpu: String,
    pub(super) size: u64,
    pub(super) matmul: Vec<(Dtype, Outcome<FlopsPerSecond>)>,
    pub(super) memory: Memory,
    pub(super) clocks: Value,
    pub(super) libraries: Value,
}

impl Peaks {
    /// The document: an entry is an object with a rate, or a string that says why there is none.
    pub(super) fn to_json(&self) -> Value {
        let matmul: Map<String, Value> = self
            .matmul
            .iter()
            .map(|(dtype, outcome)| (dtype.name().to_owned(), entry(outcome, "tflops", TERA)))
            .collect();
        json!({
            "version": 1,
            "gpu": self.gpu,
            "size": self.size,
            "matmul": matmul,
            "copy": entry(&self.memory.copy, "gb_per_s_read_plus_write", GIGA),
            "read": entry(&self.memory.read, "gb_per_s", GIGA),
            "write": entry(&self.memory.write, "gb_per_s", GIGA),
            "ridge": self.ridges(),
            "clocks": self.clocks,
            "libraries": self.libraries,
        })
    }

    /// FLOP per byte at which a format's rate and the copy bandwidth meet.
    fn ridges(&self) -> Map<String, Value> {
        let Ok(copy) = &self.memory.copy else {
            return Map::new();
        };
        let rates = self.matmul.iter().filter_map(|(dtype, outcome)| {
            Some((
                dtype.name().to_owned(),
                json!(outcome.as_ref().ok()?.rate / copy.rate),
            ))
        });
        rates.collect()
    }

    /// One line a measurement.
    pub(super) fn to_text(&self) -> String {
        let mut lines = vec![self.gpu.clone()];
        for (dtype, outcome) in &self.matmul {
            lines.push(line(dtype.name(), outcome, TERA, "TFLOP/s"));
        }
        let Memory { copy, read, write } = &self.memory;
        lines.push(line("copy", copy, GIGA, "GB/s read plus write"));
        lines.push(line("read", read, GIGA, "GB/s"));
        lines.push(line("write", write, GIGA, "GB/s"));
        lines.join("\n")
    }
}

fn entry<R: Copy + Div<Output = f64>>(outcome: &Outcome<R>, key: &str, unit: R) -> Value {
    match outcome {
        Ok(measured) => measured.to_json(key, unit),
        Err(reason) => Value::String(reason.clone()),
    }
}

fn line<R: Copy + Div<Output = f64>>(
    name: &str,
    outcome: &Outcome<R>,
    unit: R,
    symbol: &str,
) -> String {
    match outcome {
        Ok(measured) => {
            let rate = measured.rate / unit;
            let spread = spread(&measured.timed.times).0 * 100.0;
            format!("{name:10} {rate:9.1} {symbol} (spread {spread:.1} %)")
        }
        Err(reason) => format!("{name:10} {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use rooflens_units::{Bytes, Flops, Seconds};

    use super::*;
    use crate::cuda::statistics;

    fn measured<W: Div<Seconds>>(seconds: f64, work: W) -> Outcome<W::Output> {
        let times = statistics(vec![Seconds(seconds)]).expect("not empty");
        let timed = Measurement {
            times,
            launches: 1,
            in_graph: true,
        };
        Ok(Measured {
            rate: work / timed.times.median,
            timed,
            clocks: Value::Null,
            note: json!({}),
        })
    }

    #[test]
    fn rates_and_ridges_follow_from_work_and_median_time() {
        let memory = Memory {
            copy: measured(0.5, Bytes(2e12)),
            read: measured(0.25, Bytes(1e12)),
            write: Err("no room".to_owned()),
        };
        let fp8 = (Dtype::Fp8E4m3, Err("not supported".to_owned()));
        let matmul = vec![(Dtype::Bf16, measured(0.002, Flops(1.6e12))), fp8];
        let peaks = Peaks {
            gpu: "GPU".to_owned(),
            size: 8192,
            matmul,
            memory,
            clocks: Value::Null,
            libraries: Value::Null,
        };
        let json = peaks.to_json();
        // 1.6e12 FLOP / 2 ms = 800 TFLOP/s; 2e12 B / 0.5 s = 4000 GB/s; 8e14 / 4e12 = 200 FLOP/B.
        assert_eq!(json["matmul"]["bf16"]["tflops"], 800.0);
        assert_eq!(json["matmul"]["bf16"]["median_s"], 0.002);
        assert_eq!(json["matmul"]["fp8_e4m3"], "not supported");
        assert_eq!(json["copy"]["gb_per_s_read_plus_write"], 4000.0);
        assert_eq!(json["read"]["gb_per_s"], 4000.0);
        assert_eq!(json["write"], "no room");
        assert_eq!(json["ridge"]["bf16"], 200.0);
        assert_eq!(json["ridge"]["fp8_e4m3"], Value::Null);
        assert!(
            peaks.to_text().contains("bf16           800.0 TFLOP/s"),
            "{}",
            peaks.to_text()
        );
    }
}
