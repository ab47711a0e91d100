//! One block a group for the appendix: figures in lines, two small charts, what ncu advises.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::charts;
use crate::{Context, joined};
use rooflens_analysis::counters::details::figures::{Figure, Limit};
use rooflens_analysis::counters::details::groups::Group;
use rooflens_analysis::counters::details::stalls::{State, ranked};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Inline, Quantity};
use rooflens_session::{Arrange, ProfileId, ProfileRule, Session, StrId};

/// Stalls that are explained.
const SHOWN_STALLS: usize = 3;

/// Remarks that are shown.
const SHOWN_REMARKS: usize = 3;

/// Opcodes that are shown.
const SHOWN_OPCODES: usize = 6;

/// The metric whose parts are opcodes.
const OPCODES: &str = "sass__inst_executed_per_opcode";

/// Figures of the bars.
const BARS: [Figure; 6] = [
    Figure::Sm,
    Figure::Tensor,
    Figure::L1,
    Figure::L2,
    Figure::Dram,
    Figure::Achieved,
];

type Fact = (String, Vec<Inline>);

/// What a block takes from elsewhere.
pub(super) struct About<'a> {
    /// Pass of the group.
    pub(super) pass: &'a str,
    /// Its heading, which no other block has.
    pub(super) heading: String,
    /// Beginning of the names of its charts.
    pub(super) id: String,
    /// Remarks on its longest launch.
    pub(super) remarks: &'a [ProfileRule],
    /// Warp instructions of that launch by opcode, most first.
    pub(super) opcodes: &'a [(StrId, f64)],
}

/// Warp instructions by launch and opcode, most first; from reports only.
pub(super) fn opcodes(session: &Session) -> BTreeMap<ProfileId, Vec<(StrId, f64)>> {
    let mut by_launch = BTreeMap::<ProfileId, Vec<(StrId, f64)>>::new();
    let (parts, metrics) = (&session.profile_instances, &session.profile_metrics);
    let Some(wanted) = session.strings.find(OPCODES) else {
        return by_launch;
    };
    for part in parts.ids().map(|id| parts.row(id)) {
        let row = part.metric.index();
        if metrics.metric[row] == wanted {
            by_launch
                .entry(metrics.profile[row])
                .or_default()
                .push((part.instance, part.value));
        }
    }
    for opcodes in by_launch.values_mut() {
        // Opcodes are unique in a launch.
        opcodes.arrange_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    }
    by_launch
}

/// The block of one group.
pub(super) fn page(context: &Context<'_>, group: &Group, about: &About<'_>) -> Vec<Block> {
    let mut facts = vec![launches(context, about, group)];
    facts.extend(occupancy(context, group));
    facts.extend(figures(context, group));
    facts.extend(stalls(context, group));
    facts.extend(instructions(context, about.opcodes));
    facts.extend(
        about
            .remarks
            .iter()
            .take(SHOWN_REMARKS)
            .map(|row| remark(context, row)),
    );
    let mut blocks = vec![Block::Heading(about.heading.clone()), Block::Facts(facts)];
    let charts = [bars(context, about, group), states(context, about, group)];
    blocks.extend(charts.into_iter().flatten().map(Block::Chart));
    blocks
}

/// A figure of a group with its unit.
fn value(group: &Group, figure: Figure) -> Option<Quantity> {
    group
        .figures
        .get(figure)
        .map(|value| Quantity::new(value, figure.column().1))
}

fn launches(context: &Context<'_>, about: &About<'_>, group: &Group) -> Fact {
    let text = say!(
        context,
        "deep_dive.page.launches_text",
        launches = Quantity::count(group.launches),
        pass = about.pass,
        time = group.seconds,
        share = group.share,
        grid = group.grid.to_string(),
        block = group.block.to_string(),
        timeline = group.stands_for.map(Quantity::ns),
        registers = value(group, Figure::Registers),
        shared_memory = value(group, Figure::SharedMemory),
        kernel = Inline::code(context.session.text(group.name)),
    );
    (words!(context, "deep_dive.page.launches"), text)
}

fn occupancy(context: &Context<'_>, group: &Group) -> Option<Fact> {
    let text_of_limit = |(limit, blocks): (Limit, f64)| {
        format!("{} {}", limit.label(), Quantity::new(blocks, Unit::Count))
    };
    let limits: Vec<String> = group
        .figures
        .limits()
        .into_iter()
        .map(text_of_limit)
        .collect();
    let (limits, limiter) = (limits.join(context.text.comma()), group.figures.limiter());
    let text = match (
        value(group, Figure::Achieved),
        value(group, Figure::Theoretical),
    ) {
        (None, None) => return None,
        (None, theoretical) => say!(
            context,
            "deep_dive.page.possible",
            theoretical = theoretical,
            limiter = limiter,
            limits = limits,
        ),
        (achieved, theoretical) => say!(
            context,
            "deep_dive.page.achieved",
            achieved = achieved,
            theoretical = theoretical,
            limiter = limiter,
            limits = limits,
        ),
    };
    Some((words!(context, "deep_dive.page.occupancy"), text))
}

/// Figures in lines: those that are there.
fn figures(context: &Context<'_>, group: &Group) -> impl Iterator<Item = Fact> {
    let value = |figure| value(group, figure);
    let level = |figure: Figure, name: &str| {
        value(figure).map_or_else(Vec::new, |value| prose![value, format!(" {name}")])
    };
    let schedulers = [
        say!(
            context,
            "deep_dive.page.active_warps",
            value = value(Figure::ActiveWarps)
        ),
        say!(
            context,
            "deep_dive.page.eligible_warps",
            value = value(Figure::EligibleWarps)
        ),
        say!(
            context,
            "deep_dive.page.issued",
            value = value(Figure::Issued)
        ),
        say!(
            context,
            "deep_dive.page.no_eligible",
            value = value(Figure::NoEligible)
        ),
    ];
    let waves = [
        value(Figure::Waves).map_or_else(Vec::new, |waves| prose![waves]),
        say!(context, "deep_dive.page.tail", value = value(Figure::Tail)),
    ];
    let hits = [level(Figure::L1Hits, "L1"), level(Figure::L2Hits, "L2")];
    let bytes = [
        level(Figure::L1Bytes, "L1"),
        level(Figure::L2Bytes, "L2"),
        level(Figure::DramBytes, "DRAM"),
        say!(
            context,
            "deep_dive.page.dram_rate",
            value = value(Figure::DramRate)
        ),
    ];
    let lines = [
        (
            words!(context, "deep_dive.page.schedulers"),
            joined(schedulers, ", "),
        ),
        (words!(context, "deep_dive.page.waves"), joined(waves, ", ")),
        (
            words!(context, "deep_dive.page.cache_hits"),
            joined(hits, ", "),
        ),
        (words!(context, "deep_dive.page.bytes"), joined(bytes, ", ")),
    ];
    lines
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
}

/// The opcodes with most instructions.
fn instructions(context: &Context<'_>, opcodes: &[(StrId, f64)]) -> Option<Fact> {
    let instructions = opcodes.iter().map(|(_, count)| count).sum::<f64>();
    let share = |(opcode, count): &(StrId, f64)| {
        prose![
            Inline::code(context.session.text(*opcode)),
            " ",
            Quantity::ratio(count / instructions)
        ]
    };
    let text = joined(opcodes.iter().take(SHOWN_OPCODES).map(share), ", ")
        .filter(|_| instructions > 0.0)?;
    Some((words!(context, "deep_dive.page.instructions"), text))
}

fn stalls(context: &Context<'_>, group: &Group) -> Vec<Fact> {
    let ranked = group.stalls.as_ref().map(ranked).unwrap_or_default();
    let stall = |(state, share): (&State, f64)| {
        let (share, meaning) = (
            Quantity::ratio(share),
            context.text.line(state.meaning, &[]),
        );
        let text = say!(
            context,
            "deep_dive.page.stall_text",
            share = share,
            meaning = meaning
        );
        (
            words!(context, "deep_dive.page.stall", state = state.reason),
            text,
        )
    };
    ranked.into_iter().take(SHOWN_STALLS).map(stall).collect()
}

fn remark(context: &Context<'_>, row: &ProfileRule) -> Fact {
    let text = |id| context.session.text(id);
    let remark = first_sentence(text(row.description));
    let speedup = row.speedup.map(Quantity::from);
    let sentence = match text(row.speedup_kind) {
        _ if speedup.is_none() => prose![remark],
        "global" => {
            say!(
                context,
                "deep_dive.page.saves_of_launch",
                speedup = speedup,
                remark = remark
            )
        }
        "local" => {
            say!(
                context,
                "deep_dive.page.saves_of_unit",
                speedup = speedup,
                remark = remark
            )
        }
        _ => say!(
            context,
            "deep_dive.page.saves",
            speedup = speedup,
            remark = remark
        ),
    };
    (
        words!(context, "deep_dive.page.rule", rule = text(row.rule)),
        sentence,
    )
}

/// What each unit reaches of its peak.
fn bars(context: &Context<'_>, about: &About<'_>, group: &Group) -> Option<Chart> {
    let bar = |figure: &Figure| {
        let value = group.figures.get(*figure)?;
        let label = match figure {
            Figure::Tensor => words!(context, "deep_dive.page.tensor_pipe"),
            Figure::Achieved => words!(context, "deep_dive.page.occupancy"),
            figure => charts::heading(context, *figure).to_owned(),
        };
        let note = Quantity::new(value, Unit::Percent).to_string();
        Some(Bar {
            label,
            values: vec![value, (100.0 - value).max(0.0)],
            note,
        })
    };
    let bars: Vec<Bar> = BARS.iter().filter_map(bar).collect();
    let told: Vec<String> = bars
        .iter()
        .map(|bar| format!("{} {}", bar.label, bar.note))
        .collect();
    let (heading, told) = (about.heading.as_str(), told.join(context.text.comma()));
    (!bars.is_empty()).then(|| Chart {
        id: format!("{}-sol", about.id),
        title: words!(context, "deep_dive.page.peak", heading = heading),
        description: words!(
            context,
            "deep_dive.page.peak_description",
            heading = heading,
            figures = told,
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Percent,
            normalized: true,
            parts: vec![
                Part::new(words!(context, "deep_dive.page.reached"), Color::Gemm),
                Part::new(words!(context, "deep_dive.page.not_reached"), Color::Idle),
            ],
            bars,
        }),
    })
}

fn states(context: &Context<'_>, about: &About<'_>, group: &Group) -> Option<Chart> {
    let shares = group.stalls.as_ref()?;
    let title = words!(
        context,
        "deep_dive.page.states",
        heading = about.heading.as_str()
    );
    let id = format!("{}-stalls", about.id);
    charts::states(
        context,
        id,
        title,
        &[(String::new(), String::new(), shares)],
    )
}

/// The first sentence of a remark.
pub(super) fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(first, _)| first)
        .trim_end_matches('.')
}
