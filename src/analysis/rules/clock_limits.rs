//! Power cap, heat or hardware lower the clock.

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Gain, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "clock-limits",
    title: "Clock held down",
    thresholds: &[Threshold::ratio("samples with a reason that lowers the clock, at least", SHARE)],
    run,
};

/// Samples with a reason ÷ samples that state reasons from which on it is worth a finding.
const SHARE: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    if results.rows(ids::POWER).next().is_none() {
        return Outcome::lacks("NVML samples of clocks and their limits, taken during the run");
    }
    let lowers = |row: &Row<'_>| row.text("lowers_clock") == "yes" && row.sum("share") >= SHARE;
    let rows = results.rows(ids::THROTTLE_REASONS).filter(lowers);
    Outcome::of(rows.map(|row| finding(results, row)).collect())
}

fn finding(results: &Results<'_>, row: Row<'_>) -> Observation {
    let (reason, share, device) = (row.text("reason"), row.sum("share"), row.sum("device"));
    let clocks = row.number("sm_clock_with_hz").zip(row.number("sm_clock_without_hz"));
    // At most the clock of the samples without the reason, all the time that it was set.
    let slower = clocks.map_or(0.0, |(with, without)| (1.0 - with / without).max(0.0));
    let mut statement = prose![
        "On GPU ",
        Quantity::new(device, Unit::Count),
        format!(", {reason} was set in "),
        Quantity::ratio(share),
        format!(" of the samples ({})", row.text("meaning"))
    ];
    if let Some((with, without)) = clocks {
        statement.extend(prose![
            ": the SM clock was ",
            Quantity::new(with, Unit::Hertz),
            " on average with it and ",
            Quantity::new(without, Unit::Hertz),
            " without"
        ]);
    }
    statement.push(".".into());
    let found = saving(results, device, share * slower);
    let is_power = reason == "sw_power_cap";
    let advice = match is_power {
        true => prose![
            "Rates that a peak at boost clock promises are out of reach under the cap: compare at the measured clock, \
             or raise the power limit if it is below the board's maximum."
        ],
        false => prose![
            "Have cooling and power of the machine checked; repeat the measurement afterwards."
        ],
    };
    let scope = Scope { gpu: Some(device as u32), ..Scope::default() };
    Observation {
        title: reason.to_owned(),
        // Heat and hardware are faults of the machine: figures of this run are not its figures.
        severity: if is_power { found.severity } else { found.severity.max(Severity::Warning) },
        statement,
        advice: Some(advice),
        evidence: results.evidence(ids::THROTTLED_SHARE, &scope),
        scope,
        ..found
    }
}

/// What could be saved of the sampled period: it may be that of another pass than the one that ranks findings.
fn saving(results: &Results<'_>, device: f64, share: f64) -> Observation {
    let whole = |row: &Row<'_>| row.text("pass").is_empty() && row.number("device") == Some(device);
    let duration = results.rows(ids::POWER).find(whole).map_or(0.0, |row| row.sum("duration_ns"));
    Observation {
        severity: Severity::of_share(share),
        weight_ns: share * results.run_ns(),
        gain: (duration > 0.0 && share > 0.0).then(|| Gain {
            saved_ns: share * duration,
            of_ns: duration,
            of: "the sampled period".to_owned(),
            basis:
                "share of samples × (1 − clock with ÷ clock without): all work follows the SM clock"
                    .to_owned(),
        }),
        ..Observation::default()
    }
}
