//! The metrics of collectives, ranks and clocks.

use rooflens_schemas::{Metric, PassKind, Scope};
use rooflens_units::Time;

use crate::Context;
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::calls::{Member, Run};
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::communication::straggler::Imbalance;
use rooflens_analysis::communication::sums::Traffic;
use rooflens_document::MetricDef;
use rooflens_document::catalogue::{
    BUS_BANDWIDTH, CLOCK_RESIDUAL, COMM_EXPOSED, COMM_EXPOSED_SHARE, COMM_OVERLAP_SHARE, COMM_TIME,
    COMM_TRANSFER, COMM_WAIT, IMBALANCE,
};

/// The metrics of one line.
pub(super) fn of_line(context: &Context<'_>, line: &RankTimes) -> Vec<Metric> {
    let scope = line.scope(context);
    let over = match line.stage {
        Some(_) => format!("median of {} instances", line.instances),
        None => "first to last GPU operation of the pass".to_owned(),
    };
    let time = |def: &MetricDef, value: Time, what: &str| {
        def.derived(scope.clone(), value.0, format!("{what}; {over}"))
    };
    let share = |def: &MetricDef, part: Time, whole: Time, of: &str| {
        let basis = || format!("{} ns / {} ns {of}", part.0, whole.0);
        let ratio = (whole > Time::ZERO).then(|| (part / whole, basis()));
        def.known(scope.clone(), ratio.ok_or_else(|| format!("no {of}")))
    };
    let matched = |def: &MetricDef, value: Option<Time>, what: &str| {
        let (matched, calls) = (line.sum.matched, line.sum.calls);
        let basis = format!("sum over {matched} of {calls} collectives: {what}; {over}");
        let reason = || "no collective was found on another rank of this run".to_owned();
        def.known(
            scope.clone(),
            value.map(|value| (value.0, basis)).ok_or_else(reason),
        )
    };
    let (communication, exposed) = (line.communication, line.exposed);
    let mut metrics = vec![
        time(
            &COMM_TIME,
            communication,
            "union of the collectives' intervals",
        ),
        time(
            &COMM_EXPOSED,
            exposed,
            "collectives while no kernel of the GPU computes",
        ),
        share(&COMM_EXPOSED_SHARE, exposed, line.time, "stage time"),
        share(
            &COMM_OVERLAP_SHARE,
            communication - exposed,
            communication,
            "communication",
        ),
        matched(
            &COMM_WAIT,
            line.wait,
            "collectives beyond the duration on the last rank to come",
        ),
        matched(
            &COMM_TRANSFER,
            line.transfer,
            "duration of the collectives on the last rank to come",
        ),
    ];
    let evidence = line.evidence(context.session);
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}

/// `imbalance`: by how much the rank that computes longest exceeds the mean.
pub(super) fn imbalances(context: &Context<'_>, ranks: &Ranks) -> Vec<Metric> {
    let metric = |imbalance: &Imbalance| {
        let stage = ranks.lines[imbalance.slowest].stage_name(context);
        let scope = Scope {
            stage: stage.map(str::to_owned),
            ..of_run(&ranks.run)
        };
        let basis = format!(
            "computing {} ns on the slowest rank / {} ns on average over {} ranks",
            imbalance.most.0, imbalance.mean.0, imbalance.ranks
        );
        let more = imbalance.ratio().map(|ratio| (ratio.0, basis));
        IMBALANCE.known(
            scope,
            more.ok_or_else(|| "no rank computes in it".to_owned()),
        )
    };
    ranks.imbalances.iter().map(metric).collect()
}

fn of_run(run: &Run) -> Scope {
    Scope {
        pass: Some(run.name.clone()),
        ..Scope::default()
    }
}

/// `clock_residual` of a run with several ranks.
pub(super) fn clock(ranks: &Ranks) -> Option<Metric> {
    let (middle, largest) = ranks.matching.residual?;
    let offsets = ranks.run.members.iter().zip(&ranks.matching.offsets);
    let offsets = offsets.map(|(member, offset)| format!("rank {}: {} ns", member.rank, offset.0));
    let basis = format!(
        "median |end − mean end − offset of the rank| over the ends of {} collectives that join all ranks, at most {} ns; offsets {}",
        ranks.matching.matches.len(),
        largest.0,
        offsets.collect::<Vec<_>>().join(", ")
    );
    Some(CLOCK_RESIDUAL.measured(of_run(&ranks.run), middle.0, basis))
}

/// Why the sizes of a rank's collectives are unknown, and what brings them.
pub(super) fn no_sizes(context: &Context<'_>, member: &Member) -> String {
    match context.session.passes.kind[member.pass.index()] {
        PassKind::Timeline => words!(context, "communication.no_sizes_in_export"),
        _ => words!(context, "communication.no_sizes"),
    }
}

/// `bus_bandwidth` of each rank and operation: over the collectives whose size and group are recorded.
pub(super) fn bus(context: &Context<'_>, ranks: &Ranks) -> Vec<Metric> {
    let metric = |sum: &Traffic| {
        let member = &ranks.run.members[sum.member];
        let class = Some(sum.operation.label().to_owned());
        let scope = Scope {
            rank: Some(member.rank),
            class,
            ..of_run(&ranks.run)
        };
        let Some(rate) = sum.rate() else {
            return BUS_BANDWIDTH.unavailable(scope, no_sizes(&context.in_english(), member));
        };
        let mut basis = format!(
            "Σ message × bus factor = {} B / {} ns of {} collectives, of {} of them the time on the last rank to come",
            sum.bus_bytes.0, sum.time.0, sum.calls, sum.matched
        );
        if let Some(link) = member.nvlink(context) {
            basis.push_str(&format!(
                "; the NVLinks carry {} B/s in one direction",
                link.0
            ));
        }
        BUS_BANDWIDTH.derived(scope, rate.0, basis)
    };
    ranks.traffic.iter().map(metric).collect()
}
