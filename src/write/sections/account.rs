//! Where the captured time goes: all of it, by phase of the run, and as a tree down to kernels and causes of idle time.

use std::cmp::Reverse;

use rooflens_schemas::{Metric, Scope, Unit};

use super::{Section, pass_scope};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::account::{Account, NodeKind, Phase};
use rooflens_analysis::time::idle::cause::Times;
use rooflens_document::catalogue::{CAPTURED_TIME, MEASURED_SHARE};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Quantity, SectionContent, Table};
use rooflens_session::{Arrange, Ns};
use rooflens_units::Ratio;

/// Captured time; without GPU work there is no section.
pub(super) static SECTION: Section = Section {
    id: "account",
    show,
};

/// Phases that a page shows.
const SHOWN: usize = 12;

/// A phase of the run, summed over GPUs and ranks of a stage of one name.
struct PhaseSum {
    phase: Phase,
    name: String,
    parts: u64,
    time: Ns,
    busy: Ns,
    /// Idle time by cause, without that before the first operation of the GPU.
    idle: Times,
}

impl PhaseSum {
    fn new(phase: Phase, name: String) -> Self {
        Self {
            phase,
            name,
            parts: 0,
            time: Ns::ZERO,
            busy: Ns::ZERO,
            idle: Times::default(),
        }
    }
}

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let account = &context.results.idle()?.account;
    let total = account.total();
    if total == Ns::ZERO {
        return Ok(SectionContent::default());
    }
    let sums = phase_sums(context, account);
    let phases = phases(context, total);
    let caption = words!(context, "account.caption");
    let measured = Quantity::from(Ratio::of(account.measured(), total));
    let introduction = say!(
        context,
        "account.introduction",
        total = Quantity::ns(total),
        measured = measured
    );
    let nodes: Vec<usize> = (0..account.nodes.len()).collect();
    Ok(SectionContent {
        metrics: metrics(context, account),
        main: vec![Block::Table(phases.view(caption, sums.len().min(SHOWN)))],
        blocks: vec![
            Block::Prose(introduction),
            Block::Chart(chart(context, &sums, total)),
        ],
        datasets: vec![phases.rows(&sums), tree(context, account).rows(&nodes)],
        methods: vec![method!(context, "account")],
        ..SectionContent::default()
    })
}

/// The phases by time, the longest first.
fn phase_sums(context: &Context<'_>, account: &Account) -> Vec<PhaseSum> {
    let mut sums: Vec<PhaseSum> = Vec::new();
    // The phase that the nodes below belong to.
    let mut current = 0;
    for node in &account.nodes {
        match node.kind {
            NodeKind::Phase(phase) => {
                let name = phase.name(context.session, context.facts);
                let same = |sum: &PhaseSum| sum.phase.label() == phase.label() && sum.name == name;
                current = sums.iter().position(same).unwrap_or(sums.len());
                if current == sums.len() {
                    sums.push(PhaseSum::new(phase, name));
                }
                sums[current].time += node.time;
                sums[current].parts += node.parts.unwrap_or(0);
            }
            NodeKind::Busy => sums[current].busy += node.time,
            NodeKind::Cause(cause) => sums[current].idle.add(cause, node.time),
            _ => {}
        }
    }
    sums.arrange_by_key(|sum| (Reverse(sum.time), sum.phase));
    sums
}

fn phases<'t>(context: &'t Context<'_>, total: Ns) -> Table<'t, PhaseSum> {
    columns! { context, "account_phases", sum: &PhaseSum => {
        let cause = sum.idle.causes().max_by_key(|(_, time)| *time);
        text "phase" = sum.phase.label(), page;
        name "name" = sum.name.as_str(), page;
        count "parts" = sum.parts, page;
        "time_ns" = sum.time, page;
        share "captured_share" = Ratio::of(sum.time, total), page;
        share "busy_share" = Ratio::of(sum.busy, sum.time), page;
        text "cause" = cause.map(|(cause, _)| cause.label()).unwrap_or_default(), page;
        "cause_ns" = cause.map(|(_, time)| time);
    } }
}

/// The tree: a row per node, each after its parent.
fn tree<'t>(context: &'t Context<'_>, account: &'t Account) -> Table<'t, usize> {
    let total = account.total();
    columns! { context, "account", node: &usize => {
        let part = &account.nodes[*node];
        count "id" = *node;
        count "parent" = part.parent;
        text "kind" = part.kind.label();
        name "label" = part.kind.name(context.session, context.facts);
        "ns" = part.time;
        share "captured_share" = Ratio::of(part.time, total);
        count "parts" = part.parts;
        text "basis" = part.kind.basis();
    } }
}

fn metrics(context: &Context<'_>, account: &Account) -> Vec<Metric> {
    let roots = account.nodes.iter().filter_map(|node| match node.kind {
        NodeKind::Pass(pass) => Some((pass, node.time)),
        _ => None,
    });
    let mut metrics = Vec::new();
    for (pass, time) in roots {
        let scope = pass_scope(context.session, pass);
        let basis = basis!("basis.captured_time");
        metrics.push(CAPTURED_TIME.derived(scope, time.time().0, basis));
    }
    let (measured, total) = (account.measured(), account.total());
    let basis = basis!("basis.measured_share", measured = measured, total = total);
    let share = Ratio::of(measured, total);
    metrics.push(MEASURED_SHARE.derived(Scope::default(), share.0, basis));
    metrics
}

/// One bar per phase: busy and idle time.
fn chart(context: &Context<'_>, sums: &[PhaseSum], total: Ns) -> Chart {
    let part = |key, color| Part::new(context.text.line(key, &[]), color);
    let bar = |sum: &PhaseSum| Bar {
        label: match sum.name.as_str() {
            "" => context.text.word(sum.phase.label()).to_owned(),
            name => format!("{name}: {}", context.text.word(sum.phase.label())),
        },
        values: vec![sum.busy.time().0, (sum.time - sum.busy).time().0],
        note: Quantity::from(Ratio::of(sum.time, total)).to_string(),
    };
    Chart {
        id: "account".to_owned(),
        title: words!(context, "account.chart"),
        description: words!(context, "account.chart_text"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts: vec![
                part("account.busy", Color::Busy),
                part("account.idle", Color::Idle),
            ],
            bars: sums.iter().take(SHOWN).map(bar).collect(),
        }),
    }
}
