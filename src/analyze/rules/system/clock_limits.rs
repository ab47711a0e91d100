//! Power cap, heat or hardware lower the clock while the GPU works.

use std::collections::BTreeSet;

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::imbalances;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::system::power::reasons::{POWER_CAP, describe, lowers_clock};
use rooflens_analysis::system::power::samples::{
    ClockLimit, Device, Sample, folder, maximum_power_limit, power_limit,
};
use rooflens_document::{Finding, Gain, GainKind, Inline, Quantity, Severity};
use rooflens_schemas::Scope;
use rooflens_units::{Hertz, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "clock-limits",
    &[
        Threshold::ratio("thresholds.clock_reason", SHARE),
        Threshold::ratio("thresholds.power_cap", SAVED),
    ],
    outcome,
)
.on_measurement();

/// Busy time with a reason ÷ busy time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.01);

/// Share of busy time that a power cap costs from which on it is worth a finding.
const SAVED: Ratio = Ratio(0.01);

/// Share of the power limit from which on sampled power is at it.
const NEAR_LIMIT: Ratio = Ratio(0.95);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let Ok(power) = evidence.results.power() else {
        return Outcome::INSUFFICIENT_DATA;
    };
    if !power
        .devices
        .iter()
        .any(|device| device.busy > Some(Time::ZERO))
    {
        return Outcome::InsufficientData(words!(evidence, "clock_limits.needs_work"));
    }
    // Of several sampled passes the first by name: `baseline`, unprofiled, where it is there.
    let mut seen = BTreeSet::new();
    let (mut drafts, mut said) = (Vec::new(), None);
    for device in &power.devices {
        for limit in &device.limits {
            let Some(share) = limit.busy_share else {
                continue;
            };
            let is_large = lowers_clock(limit.reason) && share >= SHARE;
            if !is_large || !seen.insert((limit.reason, device.index)) {
                continue;
            }
            if imbalances::are_by_clock(evidence, device.index, &describe(limit.reason).0) {
                said = said.or(Some(device));
            } else {
                drafts.extend(draft(evidence, device, limit, share));
            }
        }
    }
    match (drafts.is_empty(), said) {
        (true, Some(device)) => {
            let rule = evidence.text.rule(imbalances::RULE);
            let rule = words!(evidence, "findings.said_by", rule = rule);
            let gpu = device.index.to_string();
            Outcome::NotApplicable(words!(
                evidence,
                "clock_limits.said",
                gpu = gpu,
                rule = rule
            ))
        }
        _ => Outcome::of_drafts(drafts),
    }
}

/// `share` is that of the device's busy time in which the limit was set.
fn draft(
    evidence: &Evidence<'_>,
    device: &Device,
    limit: &ClockLimit,
    share: Ratio,
) -> Option<Draft> {
    let session = evidence.session;
    let (reason, meaning) = describe(limit.reason);
    let clocks = limit.busy_clock.0.zip(limit.busy_clock.1);
    // At most the clock of the time without the reason, all the time that it was set.
    let slower = clocks.map_or(0.0, |(with, without)| (1.0 - with / without).max(0.0));
    let saved = share * slower;
    let is_power = limit.reason == POWER_CAP;
    if is_power && clocks.is_some() && saved < SAVED {
        return None;
    }
    let most = device.whole.power_max;
    let power_limit = power_limit(session, device.index);
    // NVML names the power limit as the reason, which sampled power has to bear out.
    let below = most
        .zip(power_limit)
        .filter(|(most, limit)| is_power && *most < *limit * NEAR_LIMIT);
    let maximum = power_limit.filter(|limit| {
        maximum_power_limit(session, device.index).is_some_and(|maximum| *limit >= maximum)
    });
    let (most, power_limit) = below.unzip();
    let (with, without) = clocks.unzip();
    let last = last_clock(device, limit.reason).filter(|last| is_lower(*last, with));
    let gpu = device.index.to_string();
    let title = words!(
        evidence,
        "clock_limits.title",
        reason = reason.as_str(),
        gpu = gpu
    );
    // What a reader can do about it, by who set the limit.
    let (lever, advice) = match is_power {
        true if below.is_some() => (say!(evidence, "clock_limits.lever_below"), "advice_below"),
        true if maximum.is_some() => (
            say!(evidence, "clock_limits.lever_maximum", limit = maximum),
            "advice_maximum",
        ),
        true => (say!(evidence, "clock_limits.lever_power"), "advice_power"),
        false => (say!(evidence, "clock_limits.lever"), "advice"),
    };
    let arguments = arguments! {
        gpu = Quantity::count(u64::from(device.index)),
        reason = reason,
        share = share,
        meaning = below.is_none().then(|| evidence.text.word(meaning)),
        most = most,
        limit = power_limit,
        with = with,
        without = without,
        last = last,
        lever = lever,
        pass = folder(session, device.artifact).map(Inline::code),
    };
    let finding = saving(evidence, device.busy.unwrap_or(Time::ZERO), saved);
    // Heat and hardware are faults of the machine: figures of this run are not its figures. Nor are those at a clock that
    // still falls.
    let least_severity = match is_power && last.is_none() {
        true => Severity::Note,
        false => Severity::Warning,
    };
    let finding = Finding {
        title,
        severity: finding.severity.max(least_severity),
        evidence: vec![device.evidence(session)],
        scope: Scope {
            gpu: Some(device.index),
            ..Scope::default()
        },
        ..finding
    };
    Some(Draft::new(finding, arguments).advice(advice))
}

/// Share of a clock from which on another is notably lower.
const LOWER: Ratio = Ratio(0.99);

fn is_lower(last: Hertz, mean: Option<Hertz>) -> bool {
    mean.is_some_and(|mean| last < mean * LOWER)
}

/// Mean SM clock of the last quarter of the samples at work with a reason: a clock that falls has not found its level.
fn last_clock(device: &Device, reason: u64) -> Option<Hertz> {
    // The reason stays set for a moment after the work.
    let is_limited = |sample: &&Sample| {
        let is_set = sample.reasons.is_some_and(|set| set & reason != 0);
        is_set && sample.utilization.is_some_and(|share| share.is_positive())
    };
    let limited = device.samples.iter().filter(is_limited);
    let clocks: Vec<f64> = limited.filter_map(|sample| Some(sample.sm_hz?.0)).collect();
    let last = &clocks[clocks.len() - clocks.len() / 4..];
    (!last.is_empty()).then(|| Hertz(last.iter().sum::<f64>() / last.len() as f64))
}

/// What could be saved of the sampled busy time: it may be that of another pass than the one that ranks findings.
fn saving(evidence: &Evidence<'_>, busy: Time, share: Ratio) -> Finding {
    let weight = evidence.busy_time() * share;
    let is_known = busy > Time::ZERO && share > Ratio::ZERO;
    Finding {
        severity: Severity::of_share(Ratio::of(weight, evidence.loop_time().max(Time(1.0)))),
        weight_ns: weight,
        gain: is_known.then(|| Gain {
            saved_ns: busy * share,
            of_ns: busy,
            of: words!(evidence, "clock_limits.of"),
            basis: String::new(),
            kind: GainKind::Run,
        }),
        ..Finding::default()
    }
}
