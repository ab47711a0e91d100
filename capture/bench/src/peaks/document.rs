//! The file `peaks.json`, and the same as text.

use serde_json::{Map, Value, json};

use crate::cuda::{Dtype, Measurement};

/// One measurement; or the reason why there is none.
pub(super) type Outcome = Result<Measured, String>;

/// A measured rate.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) timed: Measurement,
    /// FLOP, or bytes, of one launch.
    pub(super) work: f64,
    /// Clocks and power meanwhile, or null.
    pub(super) clocks: Value,
    /// An object of what else is to be known, such as the algorithm.
    pub(super) note: Value,
}

impl Measured {
    /// Work per second at the median time.
    pub(super) fn rate(&self) -> f64 {
        self.work / self.timed.seconds.median
    }

    fn to_json(&self, key: &str, scale: f64) -> Value {
        let mut entry = self.note.clone();
        self.timed.add_to(&mut entry);
        entry[key] = json!(self.rate() / scale);
        entry["clocks"] = self.clocks.clone();
        entry
    }
}

/// Rates of memory.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) copy: Outcome,
    pub(super) read: Outcome,
    pub(super) write: Outcome,
}

/// All of the file.
pub(super) struct Peaks {
    pub(super) gpu: String,
    pub(super) size: u64,
    pub(super) matmul: Vec<(Dtype, Outcome)>,
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
            .map(|(dtype, outcome)| (dtype.name().to_owned(), entry(outcome, "tflops", 1e12)))
            .collect();
        json!({
            "version": 1,
            "gpu": self.gpu,
            "size": self.size,
            "matmul": matmul,
            "copy": entry(&self.memory.copy, "gb_per_s_read_plus_write", 1e9),
            "read": entry(&self.memory.read, "gb_per_s", 1e9),
            "write": entry(&self.memory.write, "gb_per_s", 1e9),
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
                json!(outcome.as_ref().ok()?.rate() / copy.rate()),
            ))
        });
        rates.collect()
    }

    /// One line a measurement.
    pub(super) fn to_text(&self) -> String {
        let mut lines = vec![self.gpu.clone()];
        let line = |name: &str, outcome: &Outcome, scale: f64, unit: &str| match outcome {
            Ok(measured) => {
                let spread = measured.timed.seconds.spread() * 100.0;
                format!(
                    "{name:10} {:9.1} {unit} (spread {spread:.1} %)",
                    measured.rate() / scale
                )
            }
            Err(reason) => format!("{name:10} {reason}"),
        };
        for (dtype, outcome) in &self.matmul {
            lines.push(line(dtype.name(), outcome, 1e12, "TFLOP/s"));
        }
        let Memory { copy, read, write } = &self.memory;
        lines.push(line("copy", copy, 1e9, "GB/s read plus write"));
        lines.push(line("read", read, 1e9, "GB/s"));
        lines.push(line("write", write, 1e9, "GB/s"));
        lines.join("\n")
    }
}

fn entry(outcome: &Outcome, key: &str, scale: f64) -> Value {
    match outcome {
        Ok(measured) => measured.to_json(key, scale),
        Err(reason) => Value::String(reason.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Statistics;

    fn measured(seconds: f64, work: f64) -> Outcome {
        let seconds = Statistics::of(&[seconds]).expect("not empty");
        let timed = Measurement {
            seconds,
            launches: 1,
            in_graph: true,
        };
        Ok(Measured {
            timed,
            work,
            clocks: Value::Null,
            note: json!({}),
        })
    }

    #[test]
    fn rates_and_ridges_follow_from_work_and_median_time() {
        let memory = Memory {
            copy: measured(0.5, 2e12),
            read: measured(0.25, 1e12),
            write: Err("no room".to_owned()),
        };
        let fp8 = (Dtype::Fp8E4m3, Err("not supported".to_owned()));
        let matmul = vec![(Dtype::Bf16, measured(0.002, 1.6e12)), fp8];
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
