//! MFU, MBU and HFU that cannot be right, or whose basis is doubtful.

use std::collections::BTreeMap;

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::present::utilization::words::{ABOVE_PEAK, NO_PEAK};
use crate::prose;
use rooflens_schemas::{Metric, MetricValue, Scope};

pub(super) static RULE: Rule = Rule {
    id: "utilization-basis",
    title: "Doubtful utilization",
    thresholds: &[Threshold::ratio(
        "matrix products in another type than the stated one, at least",
        SHARE,
    )],
    run,
};

/// Time of matrix products in another type ÷ time of all whose type is known, from which on it is doubtful.
const SHARE: f64 = 0.10;

fn run(results: &Results<'_>) -> Outcome {
    let utilizations = [ids::MFU, ids::HFU, ids::MIXED_DTYPE_UTILIZATION];
    if utilizations.iter().all(|id| results.all(id).next().is_none()) {
        return Outcome::lacks(
            "stages with a known amount of work (config.json and workload.toml)",
        );
    }
    let mut found = impossible(results);
    found.extend(above_one(results));
    found.extend(without_peak(results));
    found.extend(other_types(results));
    Outcome::of(found)
}

/// Utilizations above 100 %.
fn impossible(results: &Results<'_>) -> Vec<Observation> {
    let mut found = Vec::new();
    for (id, name) in [(ids::MFU, "MFU"), (ids::MBU, "MBU")] {
        for metric in results.all(id) {
            let MetricValue::Unavailable { reason } = &metric.value else { continue };
            if !reason.ends_with(ABOVE_PEAK) {
                continue;
            }
            let stage = metric.scope.stage.clone().unwrap_or_default();
            let pass = metric.scope.pass.clone().unwrap_or_default();
            found.push(Observation {
                title: format!("{name} of {stage}, pass {pass}"),
                severity: Severity::Critical,
                scope: metric.scope.clone(),
                statement: prose![
                    format!("{name} of "),
                    Inline::Strong(stage),
                    " in pass ",
                    Inline::Code(pass),
                    format!(
                        " comes to {reason}: the peak, the sizes or the stage's ranges are wrong."
                    )
                ],
                advice: Some(prose![
                    "Check GPU, dtype, batch and lengths in ",
                    Inline::Code("workload.toml".to_owned()),
                    ", and that the ranges enclose the whole stage."
                ]),
                ..Observation::default()
            });
        }
    }
    found
}

/// Utilizations by counters or by recorded sizes above 100 %.
fn above_one(results: &Results<'_>) -> Vec<Observation> {
    let names =
        [(ids::HFU, "HFU"), (ids::MIXED_DTYPE_UTILIZATION, "Utilization by recorded sizes")];
    let all =
        names.iter().flat_map(|(id, name)| results.all(id).map(move |metric| (*name, metric)));
    let above = all.filter_map(|(name, metric)| {
        let value = metric.value.number().filter(|value| *value > 1.0)?;
        Some((name, metric, value))
    });
    let finding = |(name, metric, value): (&str, &Metric, f64)| Observation {
        title: format!("{name} of {}", metric.scope.stage.clone().unwrap_or_default()),
        severity: Severity::Critical,
        scope: metric.scope.clone(),
        statement: prose![
            format!("{name} of "),
            Inline::Strong(metric.scope.stage.clone().unwrap_or_default()),
            " comes to ",
            Quantity::ratio(value),
            ": the peak, the sizes or the stage's ranges are wrong."
        ],
        advice: Some(prose![
            "Check the GPU, that both passes ran the same sizes, and that the ranges enclose the whole stage."
        ]),
        evidence: metric.evidence.clone(),
        ..Observation::default()
    };
    above.map(finding).collect()
}

/// No peak to divide by.
fn without_peak(results: &Results<'_>) -> Option<Observation> {
    let reason = results.all(ids::MFU).find_map(|metric| match &metric.value {
        MetricValue::Unavailable { reason } if reason.starts_with(NO_PEAK) => Some(reason),
        _ => None,
    })?;
    Some(Observation {
        statement: prose![format!("There is no utilization: {reason}.")],
        advice: Some(prose![
            "Name an equal GPU with ",
            Inline::Code("--gpu".to_owned()),
            "; ",
            Inline::Code("rooflens gpus".to_owned()),
            " lists the known ones."
        ]),
        ..Observation::default()
    })
}

/// Matrix products of the primary pass in another type than MFU divides by.
fn other_types(results: &Results<'_>) -> Option<Observation> {
    let stated = results.dtype.as_deref()?;
    let mut times = BTreeMap::<&str, f64>::new();
    let products = |row: &Row<'_>| row.text("pass") == results.pass && row.text("class") == "gemm";
    for row in results.rows(ids::KERNELS).filter(products) {
        if !row.text("dtype").is_empty() {
            *times.entry(row.text("dtype")).or_default() += row.sum("total_ns");
        }
    }
    let all: f64 = times.values().sum();
    let others = times.into_iter().filter(|(dtype, _)| *dtype != stated);
    let (dtype, time) = others.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let share = time / all;
    let scope = Scope { pass: Some(results.pass.clone()), ..Scope::default() };
    (share >= SHARE).then(|| Observation {
        title: format!("{dtype} beside {stated}"),
        severity: Severity::Warning,
        statement: prose![
            Quantity::ratio(share),
            " of the time of matrix products is in kernels of type ",
            Inline::Strong(dtype.to_owned()),
            ", while MFU divides by the peak of ",
            Inline::Strong(stated.to_owned()),
            "."
        ],
        advice: Some(prose![
            "State the dtype of the matrix work in ",
            Inline::Code("workload.toml".to_owned()),
            ", or find out why another one runs."
        ]),
        evidence: results.evidence(ids::KERNEL_TIME, &scope),
        scope,
        ..Observation::default()
    })
}
