//! Profiled kernels in depth: occupancy and what limits it, warp states, schedulers, tensor pipe, waves, and
//! what ncu's own rules estimate; launches of one kernel with one grid and block together.

mod charts;
mod pages;
mod tables;

use rooflens_schemas::Metric;

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::counters::details::figures::Figure;
use rooflens_analysis::counters::details::groups::{Group, Launch};
use rooflens_analysis::counters::details::{Details, PassDetails};
use rooflens_findings::catalogue::{
    PROFILED_NO_ELIGIBLE, PROFILED_OCCUPANCY, PROFILED_TAIL, PROFILED_TENSOR_PIPE,
};
use rooflens_findings::{Block, Findings, Inline, Method, MetricDef, Quantity, View, prose};
use rooflens_model::{PassId, Session};

use charts::Weight;

/// Profiled kernels in depth.
pub(super) static SECTION: Section = Section { id: "deep_dive", show };

/// Groups of a pass in the section's table; the data set holds all.
const SHOWN_GROUPS: usize = 10;

/// Rules of a pass in the section's table.
const SHOWN_RULES: usize = 6;

/// Groups with a block of their own in the appendix, over all passes.
const PAGES: usize = 12;

/// The section of profiled launches says what is missing.
fn show(context: &Context<'_>) -> Known<Findings> {
    let (Ok(counters), Ok(details)) = (context.results.counters(), context.results.details())
    else {
        return Ok(Findings::default());
    };
    let session = context.session;
    let mut findings = Findings::default();
    let mut skip = (0, 0);
    for (number, pass) in details.passes.iter().enumerate() {
        add_pass(session, (number + 1, details), pass, skip, &mut findings);
        skip = (skip.0 + pass.groups.len(), skip.1 + pass.rules.len());
    }
    findings.appendix.extend(appendix(session, details));
    findings.datasets = vec![
        tables::groups(context, &details.passes),
        tables::launches(context, counters, details),
        tables::rules(context, &details.passes),
        tables::histograms(context, &details.passes),
    ];
    findings.methods = methods();
    Ok(findings)
}

/// A block for each of the groups that stand for most of the timeline; without a timeline, of those with most time.
fn appendix(session: &Session, details: &Details) -> Vec<Block> {
    let opcodes = pages::opcodes(session);
    let mut paged: Vec<(PassId, &Group)> = Vec::new();
    for pass in &details.passes {
        paged.extend(pass.groups.iter().map(|group| (pass.pass, group)));
    }
    let all = paged.len();
    paged.sort_by(|(_, a), (_, b)| {
        let by_time = b.stands_for.cmp(&a.stands_for).then(b.seconds.total_cmp(&a.seconds));
        by_time.then(a.longest.cmp(&b.longest))
    });
    paged.truncate(PAGES);
    let mut blocks = Vec::new();
    let headings = headings(session, &paged);
    for (number, ((pass, group), heading)) in paged.into_iter().zip(headings).enumerate() {
        let about = pages::About {
            pass: session.pass_name(pass),
            heading,
            id: format!("deep-dive-k{:02}", number + 1),
            remarks: details.advice.get(&group.longest).map_or(&[][..], Vec::as_slice),
            opcodes: opcodes.get(&group.longest).map_or(&[][..], Vec::as_slice),
        };
        blocks.extend(pages::page(session, group, &about));
    }
    if all > PAGES {
        blocks.push(Block::Prose(prose![
            Quantity::count((all - PAGES) as u64),
            " groups that stand for less time have no block here: their figures are in the data set ",
            Inline::Code(tables::GROUPS.to_owned()),
            "."
        ]));
    }
    blocks
}

/// Headings of pages: the kernel, and what tells it from the others that are called the same.
fn headings(session: &Session, pages: &[(PassId, &Group)]) -> Vec<String> {
    let names = |(pass, group): &(PassId, &Group)| {
        let grid = format!("{}, grid {}", group.short, group.grid);
        let with_pass = format!("{grid}, pass {}", session.pass_name(*pass));
        let whole = format!("{with_pass}, block {}", group.block);
        [group.short.clone(), grid, with_pass, whole]
    };
    let all: Vec<[String; 4]> = pages.iter().map(names).collect();
    let heading = |own: &[String; 4]| {
        let is_alone = |at: &usize| all.iter().filter(|other| other[*at] == own[*at]).count() == 1;
        let at = (0..own.len()).find(is_alone).unwrap_or(own.len() - 1);
        own[at].clone()
    };
    all.iter().map(heading).collect()
}

/// Adds what a pass shows; `skip` groups and rules of other passes are before its own.
fn add_pass(
    session: &Session,
    (number, details): (usize, &Details),
    pass: &PassDetails,
    skip: (usize, usize),
    findings: &mut Findings,
) {
    let (name, groups, rules) = (session.pass_name(pass.pass), &pass.groups, &pass.rules);
    let launches: Vec<&Launch> = pass.launches.iter().map(|id| details.launch(*id)).collect();
    let metrics = metrics(session, pass, &launches);
    let mut text = summary(name, pass, &metrics);
    text.extend(conditions(session, pass.pass));
    findings.blocks.push(Block::Prose(text));
    findings.blocks.extend(not_collected(name, &launches).map(Block::Missing));
    findings.metrics.extend(metrics);
    let shown = groups.len().min(SHOWN_GROUPS);
    let caption = format!("Pass {name}: groups by time, {shown} of {}", groups.len());
    let view = View::new(tables::GROUPS, caption, tables::ESSENTIALS, shown);
    findings.blocks.push(Block::Table(View { skip: skip.0, ..view }));
    findings.blocks.extend(charts::stalls(number, name, groups).map(Block::Chart));
    let spread = |what: &str, weight| {
        let id = format!("deep-dive-{what}-p{number}");
        charts::histograms(&id, name, &pass.histograms, weight).map(Block::Chart)
    };
    findings.blocks.extend(spread("time", Weight::Time));
    findings.appendix.extend(spread("launches", Weight::Launches));
    if !rules.is_empty() {
        let shown = rules.len().min(SHOWN_RULES);
        let caption = format!(
            "Pass {name}: what ncu's rules estimate to save, each on its own, {shown} of {}",
            rules.len()
        );
        let view = View::new(tables::RULES, caption, tables::RULE_ESSENTIALS, shown);
        findings.blocks.push(Block::Table(View { skip: skip.1, ..view }));
    }
}

/// Headline metrics: id, figure, what the basis calls it.
const METRICS: [(&MetricDef, Figure, &str); 4] = [
    (&PROFILED_OCCUPANCY, Figure::Achieved, "achieved occupancy"),
    (&PROFILED_NO_ELIGIBLE, Figure::NoEligible, "cycles of a scheduler without an eligible warp"),
    (&PROFILED_TENSOR_PIPE, Figure::Tensor, "activity of the tensor pipe"),
    (&PROFILED_TAIL, Figure::Tail, "block slots of all waves left empty (1 − waves ÷ ⌈waves⌉)"),
];

/// Means over the launches of a pass, weighted by duration.
fn metrics(session: &Session, pass: &PassDetails, launches: &[&Launch]) -> Vec<Metric> {
    let scope = pass_scope(session, pass.pass);
    let one = |(metric, figure, what): (&MetricDef, Figure, &str)| {
        let counted = launches.iter().filter(|one| one.figures.get(figure).is_some()).count();
        let Some(percent) = pass.means.get(figure) else {
            return metric
                .unavailable(scope.clone(), format!("{what}: not collected in this pass"));
        };
        let basis =
            format!("mean of {what} over {counted} of {} launches, by duration", launches.len());
        let evidence = vec![session.evidence(pass.pass, "ncu_metrics", counted as u64)];
        Metric { evidence, ..metric.derived(scope.clone(), percent / 100.0, basis) }
    };
    METRICS.into_iter().map(one).collect()
}

fn summary(name: &str, pass: &PassDetails, metrics: &[Metric]) -> Vec<Inline> {
    let mut text = prose![
        "Pass ",
        Inline::Code(name.to_owned()),
        ": ",
        Quantity::count(pass.launches.len() as u64),
        " launches; groups of one kernel, grid and block: ",
        Quantity::count(pass.groups.len() as u64),
        ".",
    ];
    let said = [
        "achieved occupancy",
        "no warp eligible",
        "tensor pipe active",
        "empty slots in the last wave",
    ];
    let known =
        said.iter().zip(metrics).filter_map(|(word, one)| Some((word, one.value.number()?)));
    for (index, (word, value)) in known.enumerate() {
        text.push(if index == 0 { " Means by time: ".into() } else { ", ".into() });
        text.extend(prose![format!("{word} "), Quantity::ratio(value)]);
    }
    text.push(".".into());
    text
}

/// How ncu ran, if the pass was read from a report that holds its command line.
fn conditions(session: &Session, pass: PassId) -> Option<Inline> {
    let reports = &session.profile_reports;
    let report = reports.ids().map(|id| reports.row(id)).find(|report| report.pass == pass)?;
    let options = [report.clock_control, report.cache_control, report.replay_mode];
    let [clock, cache, replay] = options.map(|id| session.text(id));
    let known = !(clock.is_empty() || cache.is_empty() || replay.is_empty());
    known.then(|| {
        format!(" ncu ran with clock control {clock}, cache control {cache}, replay mode {replay}.")
            .into()
    })
}

/// What no launch of a pass has, in one line.
fn not_collected(name: &str, launches: &[&Launch]) -> Option<String> {
    let lacks = |figure: Figure| launches.iter().all(|one| one.figures.get(figure).is_none());
    let checks = [
        ("speed of light (SpeedOfLight)", lacks(Figure::Sm)),
        ("occupancy (Occupancy)", lacks(Figure::Achieved)),
        ("schedulers (SchedulerStats)", lacks(Figure::NoEligible)),
        ("warp states (WarpStateStats)", launches.iter().all(|one| one.stalls.is_none())),
        ("tensor pipe (ComputeWorkloadAnalysis)", lacks(Figure::Tensor)),
        ("cache hits (MemoryWorkloadAnalysis)", lacks(Figure::L2Hits)),
        ("waves (LaunchStats)", lacks(Figure::Waves)),
    ];
    let missing: Vec<&str> =
        checks.into_iter().filter(|(_, lacks)| *lacks).map(|(what, _)| what).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "{} in pass {name}: not collected; ncu --set full collects them",
            missing.join(", ")
        )
    })
}

fn methods() -> Vec<Method> {
    let text = "Launches of one kernel with one grid and block in one pass are a group; its figures are means over \
         the launches, weighted by duration. Limiter of occupancy: the resource that allows the fewest blocks an SM, \
         none at full theoretical occupancy. No eligible: cycles of a scheduler in which none of its warps could issue. \
         Waves: as ncu gives them, or, where blocks ÷ (SMs × limit) agrees with the printed digits, that. Tail: 1 − waves ÷ ⌈waves⌉, the block slots of all waves that stay empty if all blocks take the same time. \
         Tensor pipe: sm__pipe_tensor_cycles_active over elapsed cycles, else instructions of the pipe over active cycles. \
         Warp states: shares of the cycles of resident warps, from smsp__average_warps_issue_stalled_* or else from \
         sampled states; issuing counts as one. Estimates are ncu's: a global one is a share of the launch's duration, \
         of which the time saved is made, the largest of a rule for a launch; a local one is about the unit alone. \
         Estimates of several rules overlap and do not add up. Remarks on a group are those on its longest launch. \
         Blocks of the appendix are in the order of the GPU time of the timeline that their launches stand for.";
    vec![Method { title: "Profiled kernels in depth".to_owned(), text: vec![text.into()] }]
}

#[cfg(test)]
mod tests;
