//! Profiled kernels in depth: occupancy and what limits it, warp states, schedulers, tensor pipe, waves, and
//! what ncu's own rules estimate; launches of one kernel with one grid and block together.

mod figures;
mod groups;
mod histograms;
mod pages;
mod remarks;
mod stalls;
mod tables;
mod timeline;

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use self::figures::Figure;
use self::groups::{Group, Launch};
use self::histograms::Weight;
use self::remarks::RuleSum;
use self::stalls::{STATES, Shares};
use self::timeline::Timeline;
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{
    Block, Chart, Dataset, Findings, Inline, Method, Quantity, View, derived, unavailable,
};
use crate::model::{PassId, ProfileId, ProfileRule, Session};
use crate::prose;

/// Profiled kernels in depth.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "deep_dive", title: "Profiled kernels in depth", missing, run };

/// Groups of a pass in the section's table; the data set holds all.
const SHOWN_GROUPS: usize = 10;

/// Bars of the chart of warp states.
const SHOWN_BARS: usize = 8;

/// Rules of a pass in the section's table.
const SHOWN_RULES: usize = 6;

/// Groups with a block of their own in the appendix, over all passes.
const PAGES: usize = 12;

/// Warp states that charts tell apart, beside issuing.
const TOLD_STATES: usize = 6;

/// The section of profiled launches says what is missing.
fn missing(_: &Session) -> Option<&'static str> {
    None
}

/// The data sets while they grow.
struct Datasets {
    launches: Dataset,
    groups: Dataset,
    rules: Dataset,
    histograms: Dataset,
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let mut findings = Findings::default();
    if session.kernel_profiles.is_empty() {
        return findings;
    }
    let mut data = Datasets {
        launches: tables::launches(),
        groups: tables::groups(),
        rules: remarks::dataset(),
        histograms: histograms::dataset(),
    };
    let advice = remarks::advice(session);
    let timeline = Timeline::new(context);
    let mut paged: Vec<(PassId, Group)> = Vec::new();
    for (number, (pass, launches)) in groups::launches(session).into_iter().enumerate() {
        let groups = groups::groups(session, &launches);
        let rules = remarks::sums(session, &launches, &advice);
        one_pass(session, (number, pass), &launches, &groups, &rules, &mut data, &mut findings);
        let name = pass_name(session, pass);
        let cells = |group: &Group| tables::group_cells(session, name, group, timeline.of(group));
        data.groups.rows.extend(groups.iter().map(cells));
        paged.extend(groups.into_iter().map(|group| (pass, group)));
    }
    findings.appendix.extend(appendix(session, &timeline, &advice, paged));
    findings.datasets = vec![data.groups, data.launches, data.rules, data.histograms];
    findings.methods = methods();
    findings
}

/// A block for each of the groups that stand for most of the timeline; without a timeline, of those with most time.
fn appendix(
    session: &Session,
    timeline: &Timeline,
    advice: &BTreeMap<ProfileId, Vec<ProfileRule>>,
    mut paged: Vec<(PassId, Group)>,
) -> Vec<Block> {
    let opcodes = pages::opcodes(session);
    let all = paged.len();
    paged.sort_by(|(_, a), (_, b)| {
        let (left, right) = (timeline.of(a), timeline.of(b));
        right.cmp(&left).then(b.seconds.total_cmp(&a.seconds)).then(a.longest.cmp(&b.longest))
    });
    let shown: Vec<(PassId, &Group)> =
        paged.iter().take(PAGES).map(|(pass, group)| (*pass, group)).collect();
    let mut blocks = Vec::new();
    let headings = timeline::headings(session, &shown);
    for (number, ((pass, group), heading)) in shown.into_iter().zip(headings).enumerate() {
        let about = pages::About {
            pass: pass_name(session, pass),
            heading,
            stands_for: timeline.of(group),
            id: format!("deep-dive-k{:02}", number + 1),
            remarks: advice.get(&group.longest).map_or(&[][..], Vec::as_slice),
            opcodes: opcodes.get(&group.longest).map_or(&[][..], Vec::as_slice),
        };
        blocks.extend(pages::page(session, group, &about));
    }
    if all > PAGES {
        let left = (all - PAGES) as u64;
        blocks.push(Block::Prose(prose![
            Quantity::count(left),
            " groups that stand for less time have no block here: their figures are in the data set ",
            Inline::Code(tables::GROUPS.to_owned()),
            "."
        ]));
    }
    blocks
}

fn pass_name(session: &Session, pass: PassId) -> &str {
    session.pass_name(pass)
}

fn one_pass(
    session: &Session,
    (number, pass): (usize, PassId),
    launches: &[Launch],
    groups: &[Group],
    rules: &[RuleSum],
    data: &mut Datasets,
    findings: &mut Findings,
) {
    let name = pass_name(session, pass);
    let total: f64 = launches.iter().map(Launch::seconds).sum();
    let first = (data.groups.rows.len(), data.rules.rows.len());
    let histograms = histograms::of(launches);
    data.launches.rows.extend(launches.iter().map(|one| tables::launch_cells(session, name, one)));
    data.rules.rows.extend(rules.iter().map(|one| remarks::cells(session, name, total, one)));
    for histogram in &histograms {
        data.histograms.rows.extend(histograms::rows(name, histogram));
    }
    let metrics = metrics(session, pass, launches);
    let mut text = summary(name, launches.len(), groups.len(), &metrics);
    text.extend(conditions(session, pass));
    findings.blocks.push(Block::Prose(text));
    findings.blocks.extend(not_collected(name, launches).map(Block::Missing));
    findings.metrics.extend(metrics);
    let shown = groups.len().min(SHOWN_GROUPS);
    let caption = format!("Pass {name}: groups by time, {shown} of {}", groups.len());
    let mut view = View::new(tables::GROUPS, caption, tables::ESSENTIALS, shown);
    view.skip = first.0;
    findings.blocks.push(Block::Table(view));
    findings.blocks.extend(stall_chart(number, name, groups).map(Block::Chart));
    let spread = |what: &str, weight| {
        let id = format!("deep-dive-{what}-p{}", number + 1);
        histograms::chart(&id, name, &histograms, weight)
    };
    findings.blocks.extend(spread("time", Weight::Time).map(Block::Chart));
    findings.appendix.extend(spread("launches", Weight::Launches).map(Block::Chart));
    if !rules.is_empty() {
        let shown = rules.len().min(SHOWN_RULES);
        let caption = format!(
            "Pass {name}: what ncu's rules estimate to save, each on its own, {shown} of {}",
            rules.len()
        );
        let mut view = View::new(remarks::ID, caption, remarks::ESSENTIALS, shown);
        view.skip = first.1;
        findings.blocks.push(Block::Table(view));
    }
}

/// Headline metrics: id, figure, what the basis calls it.
const METRICS: [(&str, Figure, &str); 4] = [
    ("profiled_occupancy", Figure::Achieved, "achieved occupancy"),
    ("profiled_no_eligible", Figure::NoEligible, "cycles of a scheduler without an eligible warp"),
    ("profiled_tensor_pipe", Figure::Tensor, "activity of the tensor pipe"),
    ("profiled_tail", Figure::Tail, "block slots of all waves left empty (1 − waves ÷ ⌈waves⌉)"),
];

/// Means over the launches of a pass, weighted by duration.
fn metrics(session: &Session, pass: PassId, launches: &[Launch]) -> Vec<Metric> {
    let scope = Scope { pass: Some(pass_name(session, pass).to_owned()), ..Scope::default() };
    let all: Vec<&Launch> = launches.iter().collect();
    let weights = groups::weights(&all);
    let members: Vec<_> =
        weights.into_iter().zip(launches).map(|(weight, one)| (weight, &one.figures)).collect();
    let means = figures::Figures::mean(&members);
    let one = |(id, figure, what): (&str, Figure, &str)| {
        let counted = launches.iter().filter(|one| one.figures.get(figure).is_some()).count();
        let Some(percent) = means.get(figure) else {
            let reason = format!("{what}: not collected in this pass");
            return unavailable(id, scope.clone(), Unit::Ratio, reason);
        };
        let basis =
            format!("mean of {what} over {counted} of {} launches, by duration", launches.len());
        let mut metric = derived(id, scope.clone(), Unit::Ratio, percent / 100.0, basis);
        metric.evidence.push(evidence(session, pass, "ncu_metrics", counted));
        metric
    };
    METRICS.into_iter().map(one).collect()
}

fn evidence(session: &Session, pass: PassId, table: &str, rows: usize) -> Evidence {
    Evidence {
        artifact: session.artifact_of(pass).to_owned(),
        table: Some(table.to_owned()),
        rows: Some(rows as u64),
    }
}

fn summary(pass: &str, launches: usize, groups: usize, metrics: &[Metric]) -> Vec<Inline> {
    let mut text = prose![
        "Pass ",
        Inline::Code(pass.to_owned()),
        ": ",
        Quantity::count(launches as u64),
        " launches; groups of one kernel, grid and block: ",
        Quantity::count(groups as u64),
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
fn not_collected(pass: &str, launches: &[Launch]) -> Option<String> {
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
            "{} in pass {pass}: not collected; ncu --set full collects them",
            missing.join(", ")
        )
    })
}

fn stall_chart(number: usize, pass: &str, groups: &[Group]) -> Option<Chart> {
    let with = groups.iter().filter_map(|group| Some((group, group.stalls.as_ref()?)));
    let bars: Vec<(String, String, &Shares)> = with
        .take(SHOWN_BARS)
        .map(|(group, shares)| {
            (group.short.clone(), Quantity::ratio(group.share).to_string(), shares)
        })
        .collect();
    let title = format!("What warps wait for, pass {pass}");
    states_chart(&format!("deep-dive-stalls-p{}", number + 1), title, &bars)
}

/// Warp states, one bar a group: issuing, the states with most of all bars, the rest.
fn states_chart(id: &str, title: String, bars: &[(String, String, &Shares)]) -> Option<Chart> {
    const COLORS: [Color; TOLD_STATES] = [
        Color::Attention,
        Color::Copy,
        Color::Gemm,
        Color::Communication,
        Color::Elementwise,
        Color::Other,
    ];
    if bars.is_empty() {
        return None;
    }
    let sum = |at: usize| bars.iter().map(|(.., shares)| shares[at]).sum::<f64>();
    let mut order: Vec<usize> = (1..STATES.len()).filter(|at| sum(*at) > 0.0).collect();
    // Equal sums keep the order of the table.
    order.sort_by(|a, b| sum(*b).total_cmp(&sum(*a)));
    order.truncate(TOLD_STATES);
    let part = |name: &str, color| Part { name: name.to_owned(), color };
    let mut parts = vec![part("issuing", Color::Normalization)];
    parts.extend(order.iter().zip(COLORS).map(|(at, color)| part(STATES[*at].reason, color)));
    parts.push(part("other", Color::Idle));
    let bar = |(label, note, shares): &(String, String, &Shares)| {
        let told = std::iter::once(shares[0]).chain(order.iter().map(|at| shares[*at]));
        let mut values: Vec<f64> = told.collect();
        values.push((1.0 - values.iter().sum::<f64>()).max(0.0));
        Bar { label: label.clone(), values, note: note.clone() }
    };
    let largest = |(label, _, shares): &(String, String, &Shares)| {
        let (state, share) = stalls::ranked(shares).first().copied()?;
        Some(format!("{label} {} {}", state.reason, Quantity::ratio(share)).trim().to_owned())
    };
    let described: Vec<String> = bars.iter().filter_map(largest).collect();
    Some(Chart {
        id: id.to_owned(),
        title,
        description: format!(
            "Share of the cycles of resident warps by warp state. Largest stall: {}.",
            described.join("; ")
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::One,
            normalized: true,
            parts,
            bars: bars.iter().map(bar).collect(),
        }),
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
