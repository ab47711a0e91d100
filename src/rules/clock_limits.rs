//! Power cap, heat or hardware lower the clock while the GPU works.

use std::collections::BTreeSet;

use super::results::Row;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Gain, Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "clock-limits",
    title: "Clock held down",
    thresholds: &[
        Threshold::ratio("busy time with a reason that lowers the clock, at least", SHARE),
        Threshold::ratio(
            "busy time that a higher clock would save, for a power cap, at least",
            SAVED,
        ),
    ],
    run,
};

/// Busy time with a reason ÷ busy time from which on it is worth a finding.
const SHARE: f64 = 0.01;

/// Share of busy time that a power cap costs from which on it is worth a finding.
const SAVED: f64 = 0.01;

/// The reason that is a setting and no fault.
const POWER_CAP: &str = "sw_power_cap";

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
    // Of several sampled passes the first by name: `baseline`, un-profiled, where it is there.
    let mut told = BTreeSet::new();
    let rows = results.rows(ids::THROTTLE_REASONS).filter(lowers);
    let rows = rows.filter(|row| told.insert((row.text("reason"), row.sum("device") as u32)));
    Outcome::of(rows.filter_map(|row| finding(results, row)).collect())
}

fn finding(results: &Results<'_>, row: Row<'_>) -> Option<Observation> {
    let (reason, share, device) = (row.text("reason"), row.sum("busy_share"), row.sum("device"));
    let clocks = row.number("busy_clock_with_hz").zip(row.number("busy_clock_without_hz"));
    // At most the clock of the time without the reason, all the time that it was set.
    let slower = clocks.map_or(0.0, |(with, without)| (1.0 - with / without).max(0.0));
    let is_power = reason == POWER_CAP;
    if is_power && clocks.is_some() && share * slower < SAVED {
        return None;
    }
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
    match row.text("samples_of") {
        "" => statement.push(".".into()),
        pass => {
            statement.extend(prose![", in the samples of ", Inline::Code(pass.to_owned()), "."])
        }
    }
    let found = saving(results, row, share * slower);
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
    Some(Observation {
        title: format!("{reason}, GPU {device}"),
        // Heat and hardware are faults of the machine: figures of this run are not its figures.
        severity: if is_power { found.severity } else { found.severity.max(Severity::Warning) },
        statement,
        advice: Some(advice),
        evidence: results.evidence(ids::THROTTLED_SHARE, &scope),
        scope,
        ..found
    })
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
