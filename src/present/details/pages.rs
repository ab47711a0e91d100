//! One block a group for the appendix: figures in lines, two small charts, what ncu advises.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::charts;
use rooflens_analysis::counters::details::figures::Figure;
use rooflens_analysis::counters::details::groups::Group;
use rooflens_analysis::counters::details::stalls::{State, ranked};
use rooflens_findings::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_findings::{Block, Chart, Inline, Quantity, prose};
use rooflens_model::{ProfileId, ProfileRule, Session, StrId};

/// Stalls that are explained.
const SHOWN_STALLS: usize = 3;

/// Remarks that are shown.
const SHOWN_REMARKS: usize = 3;

/// Opcodes that are shown.
const SHOWN_OPCODES: usize = 6;

/// The metric whose parts are opcodes.
const OPCODES: &str = "sass__inst_executed_per_opcode";

/// Figures of the bars.
const BARS: [(Figure, &str); 6] = [
    (Figure::Sm, "SM"),
    (Figure::Tensor, "tensor pipe"),
    (Figure::L1, "L1"),
    (Figure::L2, "L2"),
    (Figure::Dram, "DRAM"),
    (Figure::Achieved, "occupancy"),
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
    let Some(wanted) = session.strings.find(OPCODES) else { return by_launch };
    for part in parts.ids().map(|id| parts.row(id)) {
        let at = part.metric.index();
        if metrics.metric[at] == wanted {
            by_launch.entry(metrics.profile[at]).or_default().push((part.instance, part.value));
        }
    }
    for opcodes in by_launch.values_mut() {
        // Opcodes are unique in a launch.
        opcodes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    }
    by_launch
}

/// The block of one group.
pub(super) fn page(session: &Session, group: &Group, about: &About<'_>) -> Vec<Block> {
    let id = &about.id;
    let mut facts = vec![launches(session, about, group)];
    facts.extend(
        [
            occupancy(group),
            schedulers(group),
            line(
                group,
                "waves an SM",
                &[(Figure::Waves, ""), (Figure::Tail, "slots of all waves left empty")],
            ),
            line(group, "cache hits", &[(Figure::L1Hits, "L1"), (Figure::L2Hits, "L2")]),
            line(
                group,
                "bytes a launch",
                &[
                    (Figure::L1Bytes, "L1"),
                    (Figure::L2Bytes, "L2"),
                    (Figure::DramBytes, "DRAM"),
                    (Figure::DramRate, "at DRAM"),
                ],
            ),
        ]
        .into_iter()
        .flatten(),
    );
    facts.extend(stalls(group));
    facts.extend(instructions(session, about.opcodes));
    facts.extend(about.remarks.iter().take(SHOWN_REMARKS).map(|row| remark(session, row)));
    let charts = [
        bars(&format!("{id}-sol"), &about.heading, group),
        states(&format!("{id}-stalls"), &about.heading, group),
    ];
    let mut blocks = vec![Block::Heading(about.heading.clone()), Block::Facts(facts)];
    blocks.extend(charts.into_iter().flatten().map(Block::Chart));
    blocks
}

fn launches(session: &Session, about: &About<'_>, group: &Group) -> Fact {
    let mut text = prose![
        Quantity::count(group.launches),
        format!(" in pass {}, ", about.pass),
        Quantity::new(group.seconds * 1e9, Unit::Nanoseconds),
        ", ",
        Quantity::ratio(group.share),
        " of the profiled time; grid ",
        group.grid.to_string(),
        ", block ",
        group.block.to_string(),
    ];
    if let Some(time) = group.stands_for {
        text.extend(prose!["; they stand for ", Quantity::ns(time), " of the timeline"]);
    }
    if let Some(registers) = group.figures.get(Figure::Registers) {
        text.extend(prose![", ", Quantity::new(registers, Unit::Count), " registers a thread"]);
    }
    if let Some(bytes) = group.figures.get(Figure::SharedMemory) {
        text.extend(prose![", ", Quantity::new(bytes, Unit::Bytes), " of shared memory a block"]);
    }
    text.extend(prose![": ", Inline::Code(session.text(group.name).to_owned())]);
    ("launches".to_owned(), text)
}

fn occupancy(group: &Group) -> Option<Fact> {
    let figures = &group.figures;
    let percent = |figure| figures.get(figure).map(|value| Quantity::new(value, Unit::Percent));
    let mut text = match (percent(Figure::Achieved), percent(Figure::Theoretical)) {
        (Some(achieved), Some(theoretical)) => {
            prose![achieved, " achieved of ", theoretical, " possible"]
        }
        (Some(achieved), None) => prose![achieved, " achieved"],
        (None, Some(theoretical)) => prose![theoretical, " possible"],
        (None, None) => return None,
    };
    if let Some(limiter) = figures.limiter() {
        let limits: Vec<String> = figures
            .limits()
            .into_iter()
            .map(|(limit, blocks)| {
                format!("{} {}", limit.label(), Quantity::new(blocks, Unit::Count))
            })
            .collect();
        text.push(
            format!("; limited by: {limiter} (blocks an SM by {})", limits.join(", ")).into(),
        );
    }
    Some(("occupancy".to_owned(), text))
}

fn schedulers(group: &Group) -> Option<Fact> {
    line(
        group,
        "schedulers",
        &[
            (Figure::ActiveWarps, "warps active"),
            (Figure::EligibleWarps, "eligible"),
            (Figure::Issued, "instructions issued a cycle"),
            (Figure::NoEligible, "of cycles without an eligible warp"),
        ],
    )
}

/// The figures that are there, each with a word; none if none is.
fn line(group: &Group, name: &str, figures: &[(Figure, &str)]) -> Option<Fact> {
    let mut text = Vec::new();
    for (figure, word) in figures {
        let Some(value) = group.figures.get(*figure) else { continue };
        if !text.is_empty() {
            text.push(", ".into());
        }
        text.push(Quantity::new(value, figure.column().2).into());
        if !word.is_empty() {
            text.push(format!(" {word}").into());
        }
    }
    (!text.is_empty()).then(|| (name.to_owned(), text))
}

/// The opcodes with most instructions.
fn instructions(session: &Session, opcodes: &[(StrId, f64)]) -> Option<Fact> {
    let all: f64 = opcodes.iter().map(|(_, count)| count).sum();
    if all <= 0.0 {
        return None;
    }
    let mut text = Vec::new();
    for (opcode, count) in opcodes.iter().take(SHOWN_OPCODES) {
        if !text.is_empty() {
            text.push(", ".into());
        }
        let opcode = Inline::Code(session.text(*opcode).to_owned());
        text.extend(prose![opcode, " ", Quantity::ratio(count / all)]);
    }
    Some(("warp instructions".to_owned(), text))
}

fn stalls(group: &Group) -> Vec<Fact> {
    let ranked = group.stalls.as_ref().map(ranked).unwrap_or_default();
    let one = |(state, share): (&State, f64)| {
        let text =
            prose![Quantity::ratio(share), format!(" of warp cycles: the warp {}", state.meaning)];
        (format!("stall “{}”", state.reason), text)
    };
    ranked.into_iter().take(SHOWN_STALLS).map(one).collect()
}

fn remark(session: &Session, row: &ProfileRule) -> Fact {
    let mut text = Vec::new();
    if let Some(percent) = row.speedup {
        let of = match session.text(row.speedup_kind) {
            "global" => " of the launch's time; ",
            "local" => " more efficient use of the unit; ",
            _ => "; ",
        };
        text.extend(prose!["ncu estimates ", Quantity::new(percent, Unit::Percent), of]);
    }
    text.push(first_sentence(session.text(row.description)).to_owned().into());
    (format!("rule {}", session.text(row.rule)), text)
}

/// What each unit reaches of its peak.
fn bars(id: &str, heading: &str, group: &Group) -> Option<Chart> {
    let known: Vec<(&str, f64)> = BARS
        .iter()
        .filter_map(|(figure, name)| Some((*name, group.figures.get(*figure)?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let told =
        |(name, value): &(&str, f64)| format!("{name} {}", Quantity::new(*value, Unit::Percent));
    let bar = |(name, value): &(&str, f64)| Bar {
        label: (*name).to_owned(),
        values: vec![*value, (100.0 - value).max(0.0)],
        note: Quantity::new(*value, Unit::Percent).to_string(),
    };
    let part = |name: &str, color| Part { name: name.to_owned(), color };
    Some(Chart {
        id: id.to_owned(),
        title: format!("{heading}: share of peak"),
        description: format!(
            "Share of peak of {heading}: {}.",
            known.iter().map(told).collect::<Vec<_>>().join(", ")
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Percent,
            normalized: true,
            parts: vec![part("reached", Color::Gemm), part("not reached", Color::Idle)],
            bars: known.iter().map(bar).collect(),
        }),
    })
}

fn states(id: &str, heading: &str, group: &Group) -> Option<Chart> {
    let shares = group.stalls.as_ref()?;
    let title = format!("{heading}: what warps wait for");
    charts::states(id, title, &[(String::new(), String::new(), shares)])
}

/// The first sentence of a remark.
pub(super) fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}
