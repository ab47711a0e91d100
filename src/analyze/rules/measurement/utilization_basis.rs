//! MFU, MBU and HFU that cannot be right, or whose basis is doubtful.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::counters::roofline::workload::{Lack, StageWork};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Scope;
use rooflens_sections::why_unknown;
use rooflens_units::{BytesPerSecond, FlopsPerSecond, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "utilization-basis",
    &[Threshold::ratio("thresholds.other_type", SHARE)],
    outcome,
)
.on_measurement();

/// Time of GEMMs in another type ÷ time of all whose type is known, from which on it is doubtful.
const SHARE: Ratio = Ratio(0.10);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let results = evidence.results;
    let stages = results.utilization().map_or(&[][..], |all| &all.stages);
    let flops = results.flops().map_or(&[][..], |flops| flops);
    let work = results
        .workload()
        .map_or(&[][..], |workload| workload.profiled());
    if stages.is_empty() && flops.is_empty() && work.is_empty() {
        return Outcome::INSUFFICIENT_DATA;
    }
    let mut drafts = above_peak(evidence, stages, "MFU", StageUtilization::mfu);
    drafts.extend(above_peak(evidence, stages, "MBU", StageUtilization::mbu));
    drafts.extend(above_one(evidence, work, flops));
    drafts.extend(without_peak(evidence, stages));
    // Without an MFU nothing divides by the peak.
    if !flops.is_empty() || stages.iter().any(|stage| stage.mfu().is_ok()) {
        drafts.extend(other_types(evidence));
    }
    drafts.extend(beaten(evidence));
    Outcome::of_drafts(drafts)
}

/// Measured peaks that GEMMs of the bundle exceed.
fn beaten(evidence: &Evidence<'_>) -> Vec<Draft> {
    let session = evidence.session;
    let artifact = session.measured_peaks.artifact.first();
    let source = rooflens_schemas::Evidence {
        artifact: artifact
            .map_or("", |artifact| session.text(*artifact))
            .to_owned(),
        ..rooflens_schemas::Evidence::default()
    };
    let mut drafts = Vec::new();
    for peak in evidence.results.beaten().into_iter().flatten() {
        if !peak.is_invalid() {
            continue;
        }
        let quantity = |value: f64| match peak.what {
            "copy" => Quantity::from(BytesPerSecond(value)),
            _ => Quantity::from(FlopsPerSecond(value)),
        };
        let finding = Finding {
            title: words!(
                evidence,
                "utilization_basis.title_beaten",
                dtype = peak.what
            ),
            evidence: vec![source.clone()],
            ..Finding::default()
        };
        let arguments = arguments! {
            dtype = Some(peak.what).filter(|what| *what != "copy"),
            reached = quantity(peak.reached),
            measured = quantity(peak.measured),
        };
        let draft = Draft::new(finding, arguments);
        drafts.push(draft.statement("beaten").advice("advice_beaten"));
    }
    drafts
}

/// Utilizations above 100 %.
fn above_peak(
    evidence: &Evidence<'_>,
    stages: &[StageUtilization],
    name: &str,
    value: fn(&StageUtilization) -> Result<Ratio, Unavailable>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for utilization in stages {
        if let Err(reason @ Unavailable::AbovePeak(_)) = value(utilization) {
            let scope = utilization.timed.scope(&evidence.context);
            drafts.push(implausible(evidence, name, scope, &reason));
        }
    }
    drafts
}

fn implausible(evidence: &Evidence<'_>, name: &str, scope: Scope, reason: &Unavailable) -> Draft {
    let stage = scope.stage.clone().unwrap_or_default();
    let pass = scope.pass.clone().unwrap_or_default();
    let title = words!(
        evidence,
        "utilization_basis.title",
        name = name,
        stage = stage.as_str(),
        pass = pass.as_str(),
    );
    let arguments = arguments! {
        name = name,
        stage = Inline::Strong(stage),
        pass = Inline::Code(pass),
        reason = why_unknown(evidence.text, reason),
    };
    let severity = Severity::Critical;
    Draft::new(
        Finding {
            title,
            severity,
            scope,
            ..Finding::default()
        },
        arguments,
    )
}

/// Utilizations by counters or by recorded sizes above 100 %.
fn above_one(evidence: &Evidence<'_>, work: &[StageWork], flops: &[StageFlops]) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for stage in work {
        if let Err(Lack::AbovePeak(value)) = stage.hfu {
            drafts.push(above_one_of(evidence, "HFU", &stage.summary, value));
        }
    }
    let sizes = words!(evidence, "utilization_basis.by_sizes");
    for stage in flops {
        if let Err(Unavailable::AbovePeak(value)) = stage.utilization {
            drafts.push(above_one_of(evidence, &sizes, &stage.summary, value));
        }
    }
    drafts
}

fn above_one_of(evidence: &Evidence<'_>, name: &str, summary: &Summary, share: Ratio) -> Draft {
    let scope = summary.scope(evidence.session, evidence.facts);
    let stage = scope.stage.as_deref().unwrap_or_default();
    let title = words!(
        evidence,
        "utilization_basis.title_above",
        name = name,
        stage = stage
    );
    let arguments = arguments! { name = name, stage = Inline::strong(stage), share = share };
    let finding = Finding {
        title,
        severity: Severity::Critical,
        scope,
        ..Finding::default()
    };
    Draft::new(finding, arguments)
        .statement("above")
        .advice("advice_above")
}

/// No peak to divide by.
fn without_peak(evidence: &Evidence<'_>, stages: &[StageUtilization]) -> Option<Draft> {
    for utilization in stages {
        if let Err(reason @ (Unavailable::UnknownGpu(_) | Unavailable::NoGpu)) = utilization.mfu() {
            let reason = why_unknown(evidence.text, &reason);
            let draft = Draft::new(Finding::default(), arguments! { reason = reason });
            return Some(draft.statement("no_peak").advice("advice_no_peak"));
        }
    }
    None
}

/// GEMMs of the primary pass in another type than MFU divides by.
fn other_types(evidence: &Evidence<'_>) -> Option<Draft> {
    let stated = evidence.dtype.as_deref()?;
    let mut times = BTreeMap::<&str, Time>::new();
    let kernels = evidence.kernels()?;
    for (sum, identity) in kernels.identified(evidence.facts, KernelClass::Gemm) {
        if !identity.dtype.is_empty() {
            *times.entry(identity.dtype).or_default() += sum.total.time();
        }
    }
    let whole: Time = times.values().sum();
    times.remove(stated);
    let mut largest: Option<(&str, Time)> = None;
    for (dtype, time) in times {
        if largest.is_none_or(|(_, most)| time > most) {
            largest = Some((dtype, time));
        }
    }
    let (dtype, time) = largest?;
    let share = Ratio::of(time, whole);
    if share < SHARE {
        return None;
    }
    let finding = Finding {
        title: words!(
            evidence,
            "utilization_basis.title_types",
            dtype = dtype,
            stated = stated
        ),
        severity: Severity::Warning,
        evidence: vec![kernels.evidence(evidence.session)],
        scope: evidence.pass_scope(),
        ..Finding::default()
    };
    let arguments = arguments! {
        share = share,
        dtype = Inline::strong(dtype),
        stated = Inline::strong(stated),
    };
    Some(
        Draft::new(finding, arguments)
            .statement("types")
            .advice("advice_types"),
    )
}
