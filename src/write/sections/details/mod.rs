//! Profiled kernels in depth: occupancy and what limits it, warp states, schedulers, tensor pipe, waves, and
//! what ncu's own rules estimate; launches of one kernel with one grid and block together.

mod charts;
mod pages;
mod tables;

use rooflens_schemas::Metric;

use super::{Section, pass_scope};
use crate::{Context, joined};
use rooflens_analysis::Known;
use rooflens_analysis::counters::details::figures::Figure;
use rooflens_analysis::counters::details::groups::{Group, Launch};
use rooflens_analysis::counters::details::{Details, PassDetails};
use rooflens_document::catalogue::{
    PROFILED_NO_ELIGIBLE, PROFILED_OCCUPANCY, PROFILED_TAIL, PROFILED_TENSOR_PIPE,
};
use rooflens_document::{Block, Inline, MetricDef, Quantity, SectionContent, View};
use rooflens_session::{Arrange, PassId, Session};

use charts::Weight;

/// Profiled kernels in depth.
pub(super) static SECTION: Section = Section {
    id: "deep_dive",
    show,
};

/// Groups of a pass in the section's table; the data set holds all.
const SHOWN_GROUPS: usize = 10;

/// Rules of a pass in the section's table.
const SHOWN_RULES: usize = 6;

/// Groups with a block of their own in the appendix, over all passes.
const PAGES: usize = 12;

/// The section of profiled launches says what is missing.
fn show(context: &Context<'_>) -> Known<SectionContent> {
    let (Ok(counters), Ok(details)) = (context.results.counters(), context.results.details())
    else {
        return Ok(SectionContent::default());
    };
    let mut content = SectionContent::default();
    let mut skip = (0, 0);
    for (number, pass) in details.passes.iter().enumerate() {
        add_pass(context, (number + 1, details), pass, skip, &mut content);
        skip = (skip.0 + pass.groups.len(), skip.1 + pass.rules.len());
    }
    content.appendix.extend(appendix(context, details));
    content.datasets = vec![
        tables::groups(context, &details.passes),
        tables::launches(context, counters, details),
        tables::rules(context, &details.passes),
        tables::histograms(context, &details.passes),
    ];
    content.methods = vec![method!(context, "deep_dive")];
    Ok(content)
}

/// A block for each of the groups that represent most of the timeline; without a timeline, of those with most time.
fn appendix(context: &Context<'_>, details: &Details) -> Vec<Block> {
    let opcodes = pages::opcodes(context.session);
    let mut paged: Vec<(PassId, &Group)> = Vec::new();
    for pass in &details.passes {
        paged.extend(pass.groups.iter().map(|group| (pass.pass, group)));
    }
    let groups_of_all = paged.len();
    paged.arrange_by(|(_, a), (_, b)| {
        let by_time = b
            .stands_for
            .cmp(&a.stands_for)
            .then(b.seconds.total_cmp(&a.seconds));
        by_time.then(a.longest.cmp(&b.longest))
    });
    paged.truncate(PAGES);
    let mut blocks = Vec::new();
    let headings = headings(context, &paged);
    for (number, ((pass, group), heading)) in paged.into_iter().zip(headings).enumerate() {
        let about = pages::About {
            pass: context.session.pass_name(pass),
            heading,
            id: format!("deep-dive-k{:02}", number + 1),
            remarks: details
                .advice
                .get(&group.longest)
                .map_or(&[][..], Vec::as_slice),
            opcodes: opcodes.get(&group.longest).map_or(&[][..], Vec::as_slice),
        };
        blocks.extend(pages::page(context, group, &about));
    }
    if groups_of_all > PAGES {
        let groups = Quantity::count((groups_of_all - PAGES) as u64);
        blocks.push(Block::Prose(say!(
            context,
            "deep_dive.left_out",
            groups = groups
        )));
    }
    blocks
}

/// Headings of pages: the kernel, and what tells it from the others that are called the same.
fn headings(context: &Context<'_>, pages: &[(PassId, &Group)]) -> Vec<String> {
    let names = |(pass, group): &(PassId, &Group)| {
        let (kernel, pass) = (group.short.as_str(), context.session.pass_name(*pass));
        let (grid, block) = (group.grid.to_string(), group.block.to_string());
        let grid = words!(
            context,
            "deep_dive.page.grid",
            heading = kernel,
            grid = grid
        );
        let pass = words!(
            context,
            "deep_dive.page.pass",
            heading = grid.as_str(),
            pass = pass
        );
        let block = words!(
            context,
            "deep_dive.page.block",
            heading = pass.as_str(),
            block = block
        );
        [kernel.to_owned(), grid, pass, block]
    };
    let candidates: Vec<[String; 4]> = pages.iter().map(names).collect();
    let mut headings = Vec::new();
    for lengths in &candidates {
        let is_unique = |length: &usize| {
            let heading = &lengths[*length];
            let mut same = candidates
                .iter()
                .filter(|lengths| lengths[*length] == *heading);
            same.nth(1).is_none()
        };
        let length = (0..lengths.len())
            .find(is_unique)
            .unwrap_or(lengths.len() - 1);
        headings.push(lengths[length].clone());
    }
    headings
}

/// Adds what a pass shows; `skip` groups and rules of other passes are before its own.
fn add_pass(
    context: &Context<'_>,
    (number, details): (usize, &Details),
    pass: &PassDetails,
    skip: (usize, usize),
    content: &mut SectionContent,
) {
    let name = context.session.pass_name(pass.pass);
    let (groups, rules) = (&pass.groups, &pass.rules);
    let launches: Vec<&Launch> = pass.launches.iter().map(|id| details.launch(*id)).collect();
    let metrics = metrics(context, pass, &launches);
    content
        .blocks
        .push(Block::Prose(summary(context, name, pass, &metrics)));
    content
        .blocks
        .extend(not_collected(context, name, &launches).map(Block::Missing));
    content.metrics.extend(metrics);
    let shown = groups.len().min(SHOWN_GROUPS);
    let (some, all) = (shown.to_string(), groups.len().to_string());
    let caption = words!(
        context,
        "deep_dive.groups",
        pass = name,
        shown = some,
        all = all
    );
    let view = View::new(tables::GROUPS, caption, tables::ESSENTIALS, shown);
    content.blocks.push(Block::Table(View {
        skip: skip.0,
        ..view
    }));
    content
        .blocks
        .extend(charts::stalls(context, number, name, groups).map(Block::Chart));
    let spread = |name_of_weight: &str, weight| {
        let id = format!("deep-dive-{name_of_weight}-p{number}");
        charts::histograms(context, id, name, &pass.histograms, weight).map(Block::Chart)
    };
    content.blocks.extend(spread("time", Weight::Time));
    content
        .appendix
        .extend(spread("launches", Weight::Launches));
    if !rules.is_empty() {
        let shown = rules.len().min(SHOWN_RULES);
        let (some, all) = (shown.to_string(), rules.len().to_string());
        let caption = words!(
            context,
            "deep_dive.rules",
            pass = name,
            shown = some,
            all = all
        );
        let view = View::new(tables::RULES, caption, tables::RULE_ESSENTIALS, shown);
        content.blocks.push(Block::Table(View {
            skip: skip.1,
            ..view
        }));
    }
}

/// Headline metrics: id, figure, what the basis calls it.
const METRICS: [(&MetricDef, Figure, &str); 4] = [
    (&PROFILED_OCCUPANCY, Figure::Achieved, "achieved occupancy"),
    (
        &PROFILED_NO_ELIGIBLE,
        Figure::NoEligible,
        "cycles of a scheduler without an eligible warp",
    ),
    (
        &PROFILED_TENSOR_PIPE,
        Figure::Tensor,
        "activity of the tensor pipe",
    ),
    (
        &PROFILED_TAIL,
        Figure::Tail,
        "block slots of all waves left empty (1 − waves ÷ ⌈waves⌉)",
    ),
];

/// Means over the launches of a pass, weighted by duration.
fn metrics(context: &Context<'_>, pass: &PassDetails, launches: &[&Launch]) -> Vec<Metric> {
    let context = &context.in_english();
    let scope = pass_scope(context.session, pass.pass);
    let metric = |(metric, figure, what): (&MetricDef, Figure, &str)| {
        let counted = launches
            .iter()
            .filter(|launch| launch.figures.get(figure).is_some())
            .count();
        let Some(percent) = pass.means.get(figure) else {
            let reason = words!(context, "deep_dive.no_mean", figure = what);
            return metric.unavailable(scope.clone(), reason);
        };
        let basis = format!(
            "mean of {what} over {counted} of {} launches, by duration",
            launches.len()
        );
        let evidence = vec![
            context
                .session
                .evidence(pass.pass, "ncu_metrics", counted as u64),
        ];
        Metric {
            evidence,
            ..metric.derived(scope.clone(), percent / 100.0, basis)
        }
    };
    METRICS.into_iter().map(metric).collect()
}

fn summary(
    context: &Context<'_>,
    name: &str,
    pass: &PassDetails,
    metrics: &[Metric],
) -> Vec<Inline> {
    let mean = |index: usize| metrics[index].value.number().map(Quantity::ratio);
    let means = [
        say!(context, "deep_dive.mean_occupancy", share = mean(0)),
        say!(context, "deep_dive.mean_no_eligible", share = mean(1)),
        say!(context, "deep_dive.mean_tensor", share = mean(2)),
        say!(context, "deep_dive.mean_tail", share = mean(3)),
    ];
    let control = conditions(context.session, pass.pass);
    say!(
        context,
        "deep_dive.summary",
        pass = Inline::code(name),
        launches = Quantity::count(pass.launches.len() as u64),
        groups = Quantity::count(pass.groups.len() as u64),
        means = joined(means, ", "),
        clock = control.map(|control| control[0]),
        cache = control.map(|control| control[1]),
        replay = control.map(|control| control[2]),
    )
}

/// Clock control, cache control and replay mode, if the pass was read from a report that holds its command line.
fn conditions(session: &Session, pass: PassId) -> Option<[&str; 3]> {
    let reports = &session.profile_reports;
    let report = reports
        .ids()
        .map(|id| reports.row(id))
        .find(|report| report.pass == pass)?;
    let options = [
        report.clock_control,
        report.cache_control,
        report.replay_mode,
    ];
    let options = options.map(|id| session.text(id));
    options
        .iter()
        .all(|option| !option.is_empty())
        .then_some(options)
}

/// What no launch of a pass has, in one line.
fn not_collected(context: &Context<'_>, name: &str, launches: &[&Launch]) -> Option<String> {
    let lacks = |figure: Figure| {
        launches
            .iter()
            .all(|launch| launch.figures.get(figure).is_none())
    };
    let no_states = launches.iter().all(|launch| launch.stalls.is_none());
    let checks = [
        (
            lacks(Figure::Sm),
            words!(context, "deep_dive.section.speed_of_light"),
        ),
        (
            lacks(Figure::Achieved),
            words!(context, "deep_dive.section.occupancy"),
        ),
        (
            lacks(Figure::NoEligible),
            words!(context, "deep_dive.section.schedulers"),
        ),
        (no_states, words!(context, "deep_dive.section.warp_states")),
        (
            lacks(Figure::Tensor),
            words!(context, "deep_dive.section.tensor_pipe"),
        ),
        (
            lacks(Figure::L2Hits),
            words!(context, "deep_dive.section.cache_hits"),
        ),
        (
            lacks(Figure::Waves),
            words!(context, "deep_dive.section.waves"),
        ),
    ];
    let missing = checks
        .into_iter()
        .filter_map(|(lacks, what)| lacks.then_some(what));
    let missing = missing.collect::<Vec<_>>().join(context.text.comma());
    (!missing.is_empty()).then(|| {
        words!(
            context,
            "deep_dive.not_collected",
            sections = missing,
            pass = name
        )
    })
}

#[cfg(test)]
mod tests;
