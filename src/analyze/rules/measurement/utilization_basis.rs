//! MFU, MBU and HFU that cannot be right, or whose basis is doubtful.

use std::collections::BTreeMap;

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::counters::roofline::workload::{Lack, StageWork};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::{Scope, Unit};
use rooflens_sections::why_unknown;

pub(crate) static RULE: Rule = Rule::new(
    "utilization-basis",
    &[Threshold::ratio("thresholds.other_type", SHARE)],
    run,
)
.on_measurement();

/// Time of matrix products in another type ÷ time of all whose type is known, from which on it is doubtful.
const SHARE: f64 = 0.10;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let known = evidence.results;
    let stages = known.utilization().map_or(&[][..], |all| &all.stages);
    let flops = known.flops().map_or(&[][..], |all| all);
    let work = known.workload().map_or(&[][..], |all| all.profiled());
    if stages.is_empty() && flops.is_empty() && work.is_empty() {
        return Outcome::InsufficientData(words!(evidence, "utilization_basis.needs"));
    }
    let mut found = impossible(evidence, stages);
    found.extend(above_one(evidence, work, flops));
    found.extend(without_peak(evidence, stages));
    found.extend(other_types(evidence));
    found.extend(beaten(evidence));
    Outcome::of(found)
}

/// Measured peaks that GEMMs of the bundle exceed.
fn beaten<'a>(evidence: &'a Evidence<'_>) -> impl Iterator<Item = Finding> + 'a {
    let all = evidence.results.beaten().map_or(&[][..], |all| all);
    let rate = |value| Quantity::new(value, Unit::FlopPerSecond);
    let (session, peaks) = (evidence.session, &evidence.session.measured_peaks);
    let artifact = peaks
        .artifact
        .first()
        .map_or("", |artifact| session.text(*artifact))
        .to_owned();
    all.iter().map(move |one| Finding {
        title: words!(
            evidence,
            "utilization_basis.title_beaten",
            dtype = one.dtype
        ),
        severity: Severity::Note,
        statement: say!(
            evidence,
            "utilization_basis.beaten",
            dtype = one.dtype,
            reached = rate(one.reached),
            measured = rate(one.measured),
        ),
        advice: Some(say!(evidence, "utilization_basis.advice_beaten")),
        evidence: vec![rooflens_schemas::Evidence {
            artifact: artifact.clone(),
            ..rooflens_schemas::Evidence::default()
        }],
        ..Finding::default()
    })
}

/// Utilizations above 100 %.
fn impossible(evidence: &Evidence<'_>, stages: &[StageUtilization]) -> Vec<Finding> {
    let of = |name, value: fn(&StageUtilization) -> Result<f64, Unavailable>| {
        let above = move |one: &StageUtilization| match value(one) {
            Err(above @ Unavailable::AbovePeak(_)) => Some(above_peak(
                evidence,
                name,
                one.timed.scope(&evidence.context),
                &above,
            )),
            _ => None,
        };
        stages.iter().filter_map(above)
    };
    of("MFU", StageUtilization::mfu)
        .chain(of("MBU", StageUtilization::mbu))
        .collect()
}

fn above_peak(evidence: &Evidence<'_>, name: &str, scope: Scope, why: &Unavailable) -> Finding {
    let stage = scope.stage.clone().unwrap_or_default();
    let pass = scope.pass.clone().unwrap_or_default();
    let (of, within) = (stage.as_str(), pass.as_str());
    Finding {
        title: words!(
            evidence,
            "utilization_basis.title",
            name = name,
            stage = of,
            pass = within
        ),
        severity: Severity::Critical,
        scope,
        statement: say!(
            evidence,
            "utilization_basis.statement",
            name = name,
            stage = Inline::Strong(stage),
            pass = Inline::Code(pass),
            reason = why_unknown(evidence.text, why),
        ),
        advice: Some(say!(evidence, "utilization_basis.advice")),
        ..Finding::default()
    }
}

/// Utilizations by counters or by recorded sizes above 100 %.
fn above_one(evidence: &Evidence<'_>, work: &[StageWork], flops: &[StageFlops]) -> Vec<Finding> {
    let finding = |name: &str, scope: Scope, value| {
        let stage = scope.stage.as_deref().unwrap_or_default();
        Finding {
            title: words!(
                evidence,
                "utilization_basis.title_above",
                name = name,
                stage = stage
            ),
            severity: Severity::Critical,
            statement: say!(
                evidence,
                "utilization_basis.above",
                name = name,
                stage = Inline::strong(stage),
                share = Quantity::ratio(value),
            ),
            advice: Some(say!(evidence, "utilization_basis.advice_above")),
            scope,
            ..Finding::default()
        }
    };
    let sizes = words!(evidence, "utilization_basis.by_sizes");
    let scope = |summary: &Summary| summary.scope(evidence.session, evidence.facts);
    let by_counters = work.iter().filter_map(|stage| match stage.hfu {
        Err(Lack::AbovePeak(value)) => Some(finding("HFU", scope(&stage.summary), value)),
        _ => None,
    });
    let by_sizes = flops.iter().filter_map(|stage| match stage.utilization {
        Err(Unavailable::AbovePeak(value)) => Some(finding(&sizes, scope(&stage.summary), value)),
        _ => None,
    });
    by_counters.chain(by_sizes).collect()
}

/// No peak to divide by.
fn without_peak(evidence: &Evidence<'_>, stages: &[StageUtilization]) -> Option<Finding> {
    let unknown = |one: &StageUtilization| match one.mfu() {
        Err(why @ (Unavailable::UnknownGpu(_) | Unavailable::NoGpu)) => {
            Some(why_unknown(evidence.text, &why))
        }
        _ => None,
    };
    let reason = stages.iter().find_map(unknown)?;
    Some(Finding {
        statement: say!(evidence, "utilization_basis.no_peak", reason = reason),
        advice: Some(say!(evidence, "utilization_basis.advice_no_peak")),
        ..Finding::default()
    })
}

/// Matrix products of the primary pass in another type than MFU divides by.
fn other_types(evidence: &Evidence<'_>) -> Option<Finding> {
    let stated = evidence.dtype.as_deref()?;
    let mut times = BTreeMap::<&str, f64>::new();
    let kernels = evidence.kernels()?;
    let typed = kernels
        .identified(evidence.facts, KernelClass::Gemm)
        .filter(|(_, own)| !own.dtype.is_empty());
    for (sum, identity) in typed {
        *times.entry(identity.dtype).or_default() += sum.total as f64;
    }
    let all: f64 = times.values().sum();
    let others = times.into_iter().filter(|(dtype, _)| *dtype != stated);
    let (dtype, time) = others.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let share = time / all;
    let scope = Scope {
        pass: Some(evidence.pass.clone()),
        ..Scope::default()
    };
    (share >= SHARE).then(|| Finding {
        title: words!(
            evidence,
            "utilization_basis.title_types",
            dtype = dtype,
            stated = stated
        ),
        severity: Severity::Warning,
        statement: say!(
            evidence,
            "utilization_basis.types",
            share = Quantity::ratio(share),
            dtype = Inline::strong(dtype),
            stated = Inline::strong(stated),
        ),
        advice: Some(say!(evidence, "utilization_basis.advice_types")),
        evidence: vec![kernels.evidence(evidence.session)],
        scope,
        ..Finding::default()
    })
}
