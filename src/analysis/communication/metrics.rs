//! The metrics of collectives, ranks and clocks.

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Metric, PassKind, Polarity, Scope, Unit};
use rustc_hash::FxHashMap;

use super::calls::{Member, Run};
use super::lines::{Line, label, scope};
use super::matching::Matching;
use super::operation::Operation;
use super::tables::nvlink;
use super::waits::Wait;
use crate::analysis::Context;
use crate::analysis::engine::facts::OpIndex;
use crate::findings::{derived, measured, unavailable};

/// Ranks of which a balance is told at least.
const MIN_RANKS: usize = 2;

/// The metrics of one line.
pub(super) fn of_line(context: &Context<'_>, line: &Line) -> Vec<Metric> {
    let scope = scope(context, line);
    let over = match line.stage {
        Some(_) => format!("median of {} instances", line.instances),
        None => "first to last GPU operation of the pass".to_owned(),
    };
    let time = |id, value: f64, what: &str| {
        let basis = format!("{what}; {over}");
        derived(id, scope.clone(), Unit::Nanoseconds, value, basis)
    };
    let share = |id, part: f64, whole: f64, of: &str| match whole > 0.0 {
        true => derived(
            id,
            scope.clone(),
            Unit::Ratio,
            part / whole,
            format!("{part} ns / {whole} ns {of}"),
        ),
        false => unavailable(id, scope.clone(), Unit::Ratio, format!("no {of}")),
    };
    let mut all = vec![
        time("comm_time", line.communication, "union of the collectives' intervals"),
        time("comm_exposed", line.exposed, "collectives while no kernel of the GPU computes"),
        share("comm_exposed_share", line.exposed, line.time, "stage time"),
        share(
            "comm_overlap_share",
            line.communication - line.exposed,
            line.communication,
            "communication",
        ),
    ];
    for (id, value, what) in [
        ("comm_wait", line.wait, "collectives beyond the duration on the last rank to come"),
        ("comm_transfer", line.transfer, "duration of the collectives on the last rank to come"),
    ] {
        all.push(match value {
            Some(value) => time(
                id,
                value,
                &format!("sum over {} of {} collectives: {what}", line.sum.matched, line.sum.calls),
            ),
            None => {
                let reason = "no collective was found on another rank of this run";
                unavailable(id, scope.clone(), Unit::Nanoseconds, reason)
            }
        });
    }
    for metric in &mut all {
        metric.polarity = match metric.id.as_str() {
            "comm_overlap_share" => Polarity::Higher,
            "comm_transfer" => Polarity::Neutral,
            _ => Polarity::Lower,
        };
        metric.evidence.push(evidence(context, line));
    }
    all
}

fn evidence(context: &Context<'_>, line: &Line) -> Evidence {
    let artifact = context.session.passes.artifact[line.pass.index()];
    Evidence {
        artifact: context.session.text(artifact).to_owned(),
        table: Some("launches".to_owned()),
        rows: Some(line.sum.calls),
    }
}

/// `imbalance`: by how much the rank that computes longest exceeds the mean.
pub(super) fn imbalances(context: &Context<'_>, run: &Run, lines: &[Line]) -> Vec<Metric> {
    let mut by_stage: Vec<(&str, Vec<f64>)> = Vec::new();
    for line in lines {
        let name = label(context, line);
        match by_stage.iter_mut().find(|(its, _)| *its == name) {
            Some((_, times)) => times.push(line.compute),
            None => by_stage.push((name, vec![line.compute])),
        }
    }
    let several = by_stage.into_iter().filter(|(_, times)| times.len() >= MIN_RANKS);
    let one = |(stage, times): (&str, Vec<f64>)| {
        let scope = Scope {
            pass: Some(run.name.clone()),
            stage: Some(stage.to_owned()).filter(|stage| !stage.is_empty()),
            ..Scope::default()
        };
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let most = times.iter().copied().fold(0.0, f64::max);
        if mean <= 0.0 {
            return unavailable("imbalance", scope, Unit::One, "no rank computes in it");
        }
        let basis = format!(
            "computing {most} ns on the slowest rank / {mean} ns on average over {} ranks",
            times.len()
        );
        let mut metric = derived("imbalance", scope, Unit::One, most / mean, basis);
        metric.polarity = Polarity::Lower;
        metric
    };
    several.map(one).collect()
}

/// `clock_residual` of a run with several ranks.
pub(super) fn clock(run: &Run, matching: &Matching) -> Option<Metric> {
    let (middle, largest) = matching.residual?;
    let offsets: Vec<String> = run
        .members
        .iter()
        .zip(&matching.offsets)
        .map(|(member, offset)| format!("rank {}: {offset} ns", member.rank))
        .collect();
    let basis = format!(
        "median |end − mean end − offset of the rank| over the ends of {} collectives that join all ranks, at most {largest} ns; offsets {}",
        matching.matches.len(),
        offsets.join(", ")
    );
    let scope = Scope { pass: Some(run.name.clone()), ..Scope::default() };
    Some(measured("clock_residual", scope, Unit::Nanoseconds, middle, basis))
}

/// Why the sizes of a rank's collectives are unknown, and what brings them.
pub(super) fn no_sizes(context: &Context<'_>, member: &Member) -> &'static str {
    match context.session.passes.kind[member.pass.index()] {
        PassKind::Timeline => {
            "the export does not hold the sizes of these collectives: trace NVTX, and export with nsys export \
             --include-blobs=true"
        }
        _ => "the artifact does not record the sizes of these collectives",
    }
}

/// Bytes on the bus and their time, of collectives of one operation.
#[derive(Default)]
struct Traffic {
    bus_bytes: f64,
    time: f64,
    calls: u64,
    matched: u64,
}

/// `bus_bandwidth` of each run, rank and operation: over the collectives whose size and group are recorded.
pub(super) fn bus(
    context: &Context<'_>,
    run: &Run,
    waits: &FxHashMap<OpIndex, Wait>,
) -> Vec<Metric> {
    let mut all = Vec::new();
    for member in &run.members {
        let mut sums: BTreeMap<Operation, Traffic> = BTreeMap::new();
        for call in &member.calls {
            let sum = sums.entry(call.operation).or_default();
            let factor = call.operation.bus_factor(call.size);
            let Some((bytes, factor)) = call.bytes.zip(factor) else { continue };
            let wait = waits.get(&call.op);
            sum.bus_bytes += bytes as f64 * factor;
            sum.time += wait.map_or(call.duration(), |wait| wait.transfer) as f64;
            sum.calls += 1;
            sum.matched += u64::from(wait.is_some());
        }
        for (operation, sum) in sums {
            let scope = Scope {
                pass: Some(run.name.clone()),
                rank: Some(member.rank),
                class: Some(operation.label().to_owned()),
                ..Scope::default()
            };
            let (id, unit) = ("bus_bandwidth", Unit::BytesPerSecond);
            all.push(if sum.time > 0.0 {
                let basis = format!(
                    "Σ message × bus factor = {} B / {} ns of {} collectives, of {} of them the time on the last rank to come",
                    sum.bus_bytes, sum.time, sum.calls, sum.matched
                );
                let basis = match nvlink(context, member) {
                    Some(link) => format!("{basis}; the NVLinks carry {link} B/s in one direction"),
                    None => basis,
                };
                let mut metric = derived(id, scope, unit, sum.bus_bytes / sum.time * 1e9, basis);
                metric.polarity = Polarity::Higher;
                metric
            } else {
                unavailable(id, scope, unit, no_sizes(context, member))
            });
        }
    }
    all
}
