//! Matrix products that run without tensor cores although their type has them.

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::{Evidence, Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "no-tensor-cores",
    title: "Matrix products without tensor cores",
    thresholds: &[Threshold::ratio("their share of the kernel time, at least", SHARE)],
    run,
};

/// Time of such kernels ÷ kernel time of the pass from which on they are worth a finding.
const SHARE: f64 = 0.02;

/// Types of kernels and the type whose tensor rate their products could have.
const TENSOR_TYPES: [(&str, &str); 4] =
    [("bf16", "bf16"), ("fp16", "fp16"), ("fp8", "fp8"), ("fp32", "tf32")];

fn run(results: &Results<'_>) -> Outcome {
    let of_pass = |row: &Row<'_>| row.text("pass") == results.pass;
    let products = |row: &Row<'_>| of_pass(row) && row.text("class") == "gemm";
    let tells = |row: &Row<'_>| products(row) && !row.text("tensor_cores").is_empty();
    if !results.rows(ids::KERNELS).any(|row| tells(&row)) {
        return Outcome::lacks(
            "matrix products by name: a timeline with kernels, not whole graphs",
        );
    }
    let all: f64 = results.rows(ids::KERNELS).filter(of_pass).map(|row| row.sum("total_ns")).sum();
    let of_type = |dtype: &str| -> Vec<Row<'_>> {
        let slow = |row: &Row<'_>| products(row) && is_slow(row) && row.text("dtype") == dtype;
        results.rows(ids::KERNELS).filter(slow).collect()
    };
    let found = TENSOR_TYPES.iter().filter_map(|(dtype, tensor)| {
        let rows = of_type(dtype);
        let time: f64 = rows.iter().map(|row| row.sum("total_ns")).sum();
        (time >= SHARE * all && time > 0.0)
            .then(|| finding(results, &rows, time, all, (dtype, tensor)))
    });
    Outcome::of(found.collect())
}

/// Kernels of the class that multiply nothing, or vectors: memory limits them, tensor cores would not help.
const NO_PRODUCTS: [&str; 4] = ["gemv", "splitk", "split_k", "reduce"];

fn is_slow(row: &Row<'_>) -> bool {
    let name = row.text("name").to_ascii_lowercase();
    row.text("tensor_cores") == "no" && !NO_PRODUCTS.iter().any(|part| name.contains(part))
}

fn finding(
    results: &Results<'_>,
    rows: &[Row<'_>],
    time: f64,
    all: f64,
    (dtype, tensor): (&str, &str),
) -> Observation {
    let largest = rows.iter().max_by(|a, b| a.sum("total_ns").total_cmp(&b.sum("total_ns")));
    let mut statement = prose![
        "Matrix products in ",
        Inline::Strong(dtype.to_owned()),
        " run without tensor cores for ",
        Quantity::new(time, Unit::Nanoseconds),
        ", ",
        Quantity::ratio(time / all),
        " of the kernel time"
    ];
    if let Some(row) = largest {
        statement.extend(prose![", most of it in ", Inline::Code(row.text("short").to_owned())]);
    }
    statement.push(".".into());
    let advice = match dtype {
        "fp32" => prose![
            "Allow TF32 (",
            Inline::Code("torch.set_float32_matmul_precision(\"high\")".to_owned()),
            ") or run these layers in bf16."
        ],
        _ => prose![
            "Align sizes to multiples of 8 elements, and check that no layer falls back to another library."
        ],
    };
    let ratio = rate(results, "fp32").zip(rate(results, tensor)).map(|(slow, fast)| slow / fast);
    let scope = Scope { pass: Some(results.pass.clone()), ..Scope::default() };
    let evidence = results.evidence(ids::KERNEL_TIME, &scope).into_iter();
    let launches = rows.iter().map(|row| row.sum("count") as u64).sum();
    let base = match ratio {
        Some(ratio) => results.saving(
            time * (1.0 - ratio),
            &format!(
                "their time × (1 − fp32 rate ÷ {tensor} tensor rate = {})",
                Quantity::ratio(1.0 - ratio)
            ),
        ),
        None => Observation { weight_ns: 0.0, scope, ..Observation::default() },
    };
    Observation {
        title: dtype.to_owned(),
        statement,
        advice: Some(advice),
        next: Some(prose![
            "An Nsight Compute pass over these kernels: it counts their tensor-core instructions."
        ]),
        evidence: evidence.map(|one| Evidence { rows: Some(launches), ..one }).collect(),
        ..base
    }
}

/// The specified dense rate of a type.
fn rate(results: &Results<'_>, dtype: &str) -> Option<f64> {
    let row = results.rows(ids::PEAKS).find(|row| row.text("dtype") == dtype)?;
    row.number("dense_flop_per_s").filter(|rate| *rate > 0.0)
}
