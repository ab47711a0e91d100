//! `bench.json` and `bench.csv`.

use serde_json::{Map, Value, json};

use super::operation::Case;
use crate::cuda::{Measurement, Plan};

/// What one case gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) case: Case,
    pub(super) result: Result<Measured, String>,
}

/// A measured case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) timed: Measurement,
    /// What computed it, where that is not what the operation's description says.
    pub(super) implementation: Option<String>,
    /// Copies of the operands used in turn.
    pub(super) copies: u64,
    /// The most GPU memory taken by the case, with operands, copies and workspaces.
    pub(super) peak_memory_bytes: u64,
}

/// The GPU and its libraries, and how all was measured.
pub(super) struct Header {
    pub(super) gpu: String,
    pub(super) capability: (i32, i32),
    pub(super) l2_bytes: u64,
    pub(super) libraries: Value,
    pub(super) plan: Plan,
}

/// The JSON document; a case without a result has `error` instead.
pub(super) fn to_json(header: &Header, outcomes: &[Outcome]) -> Value {
    let Plan {
        samples,
        sample_time,
        warmup_time,
    } = header.plan;
    json!({
        "version": 1,
        "gpu": header.gpu,
        "compute_capability": format!("{}.{}", header.capability.0, header.capability.1),
        "l2_bytes": header.l2_bytes,
        "libraries": header.libraries,
        "plan": {"samples": samples, "sample_ms": sample_time.0 * 1e3, "warmup_ms": warmup_time.0 * 1e3},
        "cases": outcomes.iter().map(case_json).collect::<Vec<_>>(),
    })
}

fn case_json(outcome: &Outcome) -> Value {
    let case = &outcome.case;
    let description = case.kind.description();
    let sizes: Map<String, Value> = case
        .sizes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let mut entry = json!({
        "name": case.name(),
        "operation": description.name,
        "dtype": if case.kind.is_copy() { Value::Null } else { json!(case.dtype.name()) },
        "sizes": sizes,
        "implementation": description.implementation,
        "flops": case.flops(),
        "flops_formula": description.flops_formula,
        "bytes": case.bytes(),
        "bytes_formula": description.bytes_formula,
    });
    match &outcome.result {
        Err(reason) => entry["error"] = json!(reason),
        Ok(Measured {
            timed,
            implementation,
            copies,
            peak_memory_bytes,
        }) => {
            timed.add_to(&mut entry);
            entry["flop_per_s"] = json!(case.flops() / timed.times.median);
            entry["bytes_per_s"] = json!(case.bytes() / timed.times.median);
            entry["input_copies"] = json!(copies);
            if let Some(implementation) = implementation {
                entry["implementation"] = json!(implementation);
            }
            entry["peak_memory_bytes"] = json!(peak_memory_bytes);
        }
    }
    entry
}

/// The columns of the CSV file.
const COLUMNS: &str = "name,operation,dtype,n,mean_s,std_s,median_s,min_s,max_s,p95_s,flops,bytes,flop_per_s,\
bytes_per_s,launches_per_sample,cuda_graph,input_copies,peak_memory_bytes,error";

/// One row a case. No field but the error can hold a comma or a quote.
pub(super) fn to_csv(outcomes: &[Outcome]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for outcome in outcomes {
        let entry = case_json(outcome);
        let fields = COLUMNS.split(',').map(|key| match &entry[key] {
            Value::Null => String::new(),
            Value::String(text) => quoted(text),
            other => other.to_string(),
        });
        text.push_str(&fields.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A line for people.
pub(super) fn line(outcome: &Outcome) -> String {
    let case = &outcome.case;
    match &outcome.result {
        Ok(measured) => {
            let median = measured.timed.times.median;
            format!(
                "{} {:.3} us, {:.1} TFLOP/s, {:.0} GB/s",
                case.name(),
                median.0 * 1e6,
                (case.flops() / median).0 / 1e12,
                (case.bytes() / median).0 / 1e9,
            )
        }
        Err(reason) => format!("{} failed: {reason}", case.name()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rooflens_units::Seconds;

    use super::*;
    use crate::bench::operation::Kind;
    use crate::cuda::{Dtype, statistics};

    fn outcomes() -> [Outcome; 2] {
        let sizes = BTreeMap::from([("batch", 1), ("m", 10), ("n", 10), ("k", 50)]);
        let case = Case {
            kind: Kind::BatchedGemm,
            dtype: Dtype::Bf16,
            sizes,
        };
        let times = statistics([0.5, 1.5, 1.0].map(Seconds).into()).expect("not empty");
        let implementation = Some("a library".to_owned());
        let timed = Measurement {
            times,
            launches: 4,
            in_graph: true,
        };
        let measured = Measured {
            timed,
            implementation,
            copies: 2,
            peak_memory_bytes: 7,
        };
        let failed = Err("no \"algorithm\", sorry".to_owned());
        [
            Outcome {
                case: case.clone(),
                result: Ok(measured),
            },
            Outcome {
                case,
                result: failed,
            },
        ]
    }

    fn header() -> Header {
        let plan = Plan {
            samples: 3,
            sample_time: Seconds(0.002),
            warmup_time: Seconds(0.05),
        };
        let (gpu, libraries) = ("GPU".to_owned(), Value::Null);
        Header {
            gpu,
            capability: (9, 0),
            l2_bytes: 50,
            libraries,
            plan,
        }
    }

    #[test]
    fn rates_follow_from_the_median() {
        let json = to_json(&header(), &outcomes());
        let first = &json["cases"][0];
        // 2·10·10·50 = 10 000 FLOP and 2·(500 + 500 + 100) = 2200 bytes in 1 s.
        assert_eq!(
            (&first["flop_per_s"], &first["bytes_per_s"]),
            (&json!(10_000.0), &json!(2200.0))
        );
        assert_eq!(
            (&first["n"], &first["median_s"], &first["std_s"]),
            (&json!(3), &json!(1.0), &json!(0.5))
        );
        assert_eq!(
            (&first["sizes"]["k"], &first["cuda_graph"]),
            (&json!(50), &json!(true))
        );
        assert_eq!(json["cases"][1]["error"], "no \"algorithm\", sorry");
        assert_eq!(
            (&json["plan"]["sample_ms"], &json["compute_capability"]),
            (&json!(2.0), &json!("9.0"))
        );
    }

    #[test]
    fn the_table_has_a_row_a_case_and_quotes_what_needs_it() {
        let csv = to_csv(&outcomes());
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].starts_with(
                "batched_gemm bf16 batch=1 m=10 n=10 k=50,batched_gemm,bf16,3,1.0,0.5,"
            )
        );
        assert_eq!(lines[1].matches(',').count(), lines[0].matches(',').count());
        assert!(
            lines[2].ends_with(",\"no \"\"algorithm\"\", sorry\""),
            "{}",
            lines[2]
        );
    }
}
