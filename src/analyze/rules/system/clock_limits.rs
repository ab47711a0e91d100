//! Power cap, heat or hardware lower the clock while the GPU works.

use std::collections::BTreeSet;

use crate::communication::straggler;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::system::power::reasons::{POWER_CAP, describe, lowers_clock};
use rooflens_analysis::system::power::samples::{ClockLimit, Device, folder, power_limit};
use rooflens_document::{Finding, Gain, GainKind, Inline, Quantity, Severity};
use rooflens_schemas::{Scope, Unit};

pub(crate) static RULE: Rule = Rule::new(
    "clock-limits",
    &[
        Threshold::ratio("thresholds.clock_reason", SHARE),
        Threshold::ratio("thresholds.power_cap", SAVED),
    ],
    run,
)
.on_measurement();

/// Busy time with a reason ÷ busy time from which on it is worth a finding.
const SHARE: f64 = 0.01;

/// Share of busy time that a power cap costs from which on it is worth a finding.
const SAVED: f64 = 0.01;

/// Share of the power limit from which on sampled power is at it.
const NEAR_LIMIT: f64 = 0.95;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let Ok(power) = evidence.results.power() else {
        return Outcome::lacks(&words!(evidence, "clock_limits.needs"));
    };
    if !power.devices.iter().any(|device| device.busy > Some(0.0)) {
        return Outcome::lacks(&words!(evidence, "clock_limits.needs_work"));
    }
    // Of several sampled passes the first by name: `baseline`, un-profiled, where it is there.
    let mut told = BTreeSet::new();
    let limits = power.devices.iter().flat_map(|device| {
        device
            .limits
            .iter()
            .filter_map(move |limit| Some((device, limit, limit.busy_share?)))
    });
    let lowers = limits.filter(|(device, limit, share)| {
        lowers_clock(limit.reason) && *share >= SHARE && told.insert((limit.reason, device.index))
    });
    let said = |one: &(&Device, &ClockLimit, f64)| {
        straggler::explains(evidence, one.0.index, &describe(one.1.reason).0)
    };
    let (said, own): (Vec<_>, Vec<_>) = lowers.partition(said);
    let found: Vec<_> = own
        .into_iter()
        .filter_map(|one| finding(evidence, one))
        .collect();
    match (found.is_empty(), said.first()) {
        (true, Some((device, ..))) => {
            let rule = evidence.text.rule(straggler::RULE.id);
            let rule = words!(evidence, "findings.said_by", rule = rule);
            let gpu = device.index.to_string();
            Outcome::NotApplicable(words!(
                evidence,
                "clock_limits.said",
                gpu = gpu,
                rule = rule
            ))
        }
        _ => Outcome::of(found),
    }
}

/// `share` is that of the device's busy time in which the limit was set.
fn finding(
    evidence: &Evidence<'_>,
    (device, limit, share): (&Device, &ClockLimit, f64),
) -> Option<Finding> {
    let session = evidence.session;
    let (reason, meaning) = describe(limit.reason);
    let clocks = limit.busy_clock.0.zip(limit.busy_clock.1);
    // At most the clock of the time without the reason, all the time that it was set.
    let slower = clocks.map_or(0.0, |(with, without)| (1.0 - with / without).max(0.0));
    let is_power = limit.reason == POWER_CAP;
    if is_power && clocks.is_some() && share * slower < SAVED {
        return None;
    }
    let most = device.whole.power_max;
    let watts = power_limit(session, device.index);
    // NVML names the power limit as the reason, which sampled power has to bear out.
    let below = most
        .zip(watts)
        .filter(|(most, limit)| is_power && *most < NEAR_LIMIT * limit);
    let (most, watts) = below.unzip();
    let hertz = |clock| Quantity::new(clock, Unit::Hertz);
    let statement = say!(
        evidence,
        "clock_limits.statement",
        gpu = Quantity::count(u64::from(device.index)),
        reason = reason.as_str(),
        share = Quantity::ratio(share),
        meaning = below.is_none().then_some(meaning),
        most = most.map(|watts| Quantity::new(watts, Unit::Watts)),
        limit = watts.map(|watts| Quantity::new(watts, Unit::Watts)),
        with = clocks.map(|(with, _)| hertz(with)),
        without = clocks.map(|(_, without)| hertz(without)),
        pass = folder(session, device.artifact).map(Inline::code),
    );
    let gpu = device.index.to_string();
    let title = words!(evidence, "clock_limits.title", reason = reason, gpu = gpu);
    let found = saving(evidence, device.busy.unwrap_or(0.0), share * slower);
    let advice = match is_power {
        true if below.is_some() => say!(evidence, "clock_limits.advice_below"),
        true => say!(evidence, "clock_limits.advice_power"),
        false => say!(evidence, "clock_limits.advice"),
    };
    Some(Finding {
        title,
        // Heat and hardware are faults of the machine: figures of this run are not its figures.
        severity: if is_power {
            found.severity
        } else {
            found.severity.max(Severity::Warning)
        },
        statement,
        advice: Some(advice),
        evidence: vec![device.evidence(session)],
        scope: Scope {
            gpu: Some(device.index),
            ..Scope::default()
        },
        ..found
    })
}

/// What could be saved of the sampled busy time: it may be that of another pass than the one that ranks findings.
fn saving(evidence: &Evidence<'_>, busy: f64, share: f64) -> Finding {
    let weight_ns = share * evidence.busy_ns();
    Finding {
        severity: Severity::of_share(weight_ns / evidence.run_ns().max(1.0)),
        weight_ns,
        gain: (busy > 0.0 && share > 0.0).then(|| Gain {
            saved_ns: share * busy,
            of_ns: busy,
            of: words!(evidence, "clock_limits.of"),
            basis: words!(evidence, "clock_limits.basis"),
            kind: GainKind::Run,
        }),
        ..Finding::default()
    }
}
