//! Power cap, heat or hardware lower the clock while the GPU works.

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Gain, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "clock-limits",
    title: "Clock held down",
    thresholds: &[Threshold::ratio(
        "busy time with a reason that lowers the clock, at least",
        SHARE,
    )],
    run,
};

/// Busy time with a reason ÷ busy time from which on it is worth a finding.
const SHARE: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    if results.rows(ids::POWER).next().is_none() {
        return Outcome::lacks("NVML samples of clocks and their limits, taken during the run");
    }
    if !results.rows(ids::POWER).any(|row| row.sum("busy_ns") > 0.0) {
        return Outcome::lacks(
            "NVML samples of a GPU that works: none states a utilization or lies within a stage",
        );
    }
    let lowers =
        |row: &Row<'_>| row.text("lowers_clock") == "yes" && row.sum("busy_share") >= SHARE;
    let rows = results.rows(ids::THROTTLE_REASONS).filter(lowers);
    Outcome::of(rows.map(|row| finding(results, row)).collect())
}

fn finding(results: &Results<'_>, row: Row<'_>) -> Observation {
    let (reason, share, device) = (row.text("reason"), row.sum("busy_share"), row.sum("device"));
    let clocks = row.number("busy_clock_with_hz").zip(row.number("busy_clock_without_hz"));
    // At most the clock of the time without the reason, all the time that it was set.
    let slower = clocks.map_or(0.0, |(with, without)| (1.0 - with / without).max(0.0));
    let mut statement = prose![
        "On GPU ",
        Quantity::new(device, Unit::Count),
        format!(", {reason} was set for "),
        Quantity::ratio(share),
        format!(" of the time in which it was busy ({})", row.text("meaning"))
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
    let found = saving(results, row, share * slower);
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

/// What could be saved of the sampled busy time: it may be that of another pass than the one that ranks findings.
fn saving(results: &Results<'_>, reason: Row<'_>, share: f64) -> Observation {
    let same = |row: &Row<'_>| {
        row.text("what") == reason.text("what") && row.number("device") == reason.number("device")
    };
    let busy = results.rows(ids::POWER).find(same).map_or(0.0, |row| row.sum("busy_ns"));
    let weight_ns = share * results.busy_ns();
    Observation {
        severity: Severity::of_share(weight_ns / results.run_ns().max(1.0)),
        weight_ns,
        gain: (busy > 0.0 && share > 0.0).then(|| Gain {
            saved_ns: share * busy,
            of_ns: busy,
            of: "the sampled busy time".to_owned(),
            basis: "share of busy time × (1 − clock with ÷ clock without): all work follows the SM clock"
                .to_owned(),
        }),
        ..Observation::default()
    }
}
