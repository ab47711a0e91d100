//! How much of each stage the profiled launches stand for, and what to profile next.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::matching::{Line, Matching, Tier};
use crate::analysis::Context;
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{Cell, Chart, Column, Dataset, Inline, Quantity};
use crate::model::{KernelId, Ns};
use crate::prose;

/// Names of the data sets.
pub(super) const COVERAGE: &str = "profile_coverage";
pub(super) const UNPROFILED: &str = "unprofiled_kernels";

/// Share of a stage's GPU time beyond which nothing more need be profiled.
const ENOUGH: f64 = 0.9;

/// Most kernels that a command asks for: each costs replays.
const MOST: usize = 30;

/// Lines of phases: parts of other stages say the same again.
pub(super) fn outermost<'a>(
    context: &'a Context<'_>,
    matching: &'a Matching,
) -> impl Iterator<Item = &'a Line> {
    matching.lines.iter().filter(|line| line.summary.is_outermost(context.facts) && line.time > 0)
}

/// One row a stage.
pub(super) fn coverage(context: &Context<'_>, matching: &Matching) -> Dataset {
    let row = |line: &Line| {
        let launches: u64 = line.groups.iter().map(|group| group.launches).sum();
        let matched: u64 =
            line.groups.iter().filter(|one| one.tier.is_some()).map(|one| one.launches).sum();
        let mut cells = vec![
            Cell::Text(line.summary.label(context.session, context.facts)),
            Cell::Int(line.time),
            Cell::Float(line.share(|group| group.tier.is_some())),
        ];
        let shares = Tier::ALL.map(|tier| line.share(|group| group.tier == Some(tier)));
        cells.extend(shares.map(Cell::Float));
        cells.extend([launches, matched].map(|n| Cell::Int(i64::try_from(n).unwrap_or(i64::MAX))));
        cells
    };
    Dataset {
        id: COVERAGE,
        title: "GPU time that profiled launches stand for".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::new("time_ns", "GPU time", Unit::Nanoseconds),
            Column::new("profiled_share", "Profiled", Unit::Ratio),
            Column::new("stage_share", "By kernel, grid, stage", Unit::Ratio),
            Column::new("grid_share", "By kernel, grid", Unit::Ratio),
            Column::new("kernel_share", "By kernel, blocks", Unit::Ratio),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("matched_launches", "Matched launches", Unit::Count),
        ],
        rows: matching.lines.iter().filter(|line| line.time > 0).map(row).collect(),
    }
}

/// One bar a phase: matched how, and not at all.
pub(super) fn chart(context: &Context<'_>, matching: &Matching) -> Option<Chart> {
    let bar = |line: &Line| {
        let matched = line.share(|group| group.tier.is_some());
        let mut values: Vec<f64> =
            Tier::ALL.iter().map(|tier| line.share(|group| group.tier == Some(*tier))).collect();
        values.push((1.0 - matched).max(0.0));
        Bar {
            label: line.summary.label(context.session, context.facts),
            values,
            note: Quantity::ratio(matched).to_string(),
        }
    };
    let bars: Vec<Bar> = outermost(context, matching).map(bar).collect();
    let part = |name: &str, color| Part { name: name.to_owned(), color };
    let said: Vec<String> = bars.iter().map(|bar| format!("{}: {}", bar.label, bar.note)).collect();
    (!bars.is_empty()).then(|| Chart {
        id: "profile-coverage".to_owned(),
        title: "GPU time that profiled launches stand for".to_owned(),
        description: format!(
            "Share of each stage's GPU time with counters of a profiled launch. {}.",
            said.join("; ")
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Ratio,
            normalized: true,
            parts: vec![
                part("same kernel, grid, stage", Color::ComputeBound),
                part("same kernel, grid", Color::Elementwise),
                part("same kernel, scaled by blocks", Color::Copy),
                part("not profiled", Color::Idle),
            ],
            bars,
        }),
    })
}

/// Kernels of a line without counters: time and launches, the most time first.
fn unprofiled(line: &Line) -> Vec<(KernelId, Ns, u64)> {
    let mut kernels = BTreeMap::<KernelId, (Ns, u64)>::new();
    for group in line.groups.iter().filter(|group| group.tier.is_none()) {
        let sum = kernels.entry(group.kernel).or_default();
        *sum = (sum.0 + group.time, sum.1 + group.launches);
    }
    let mut kernels: Vec<_> = kernels.into_iter().map(|(k, (time, n))| (k, time, n)).collect();
    kernels.sort_by_key(|(kernel, time, _)| (Reverse(*time), *kernel));
    kernels
}

/// One row a kernel and phase, those with the largest share of their phase first.
pub(super) fn gaps(context: &Context<'_>, matching: &Matching) -> Dataset {
    let mut rows: Vec<(f64, Vec<Cell>)> = Vec::new();
    for line in outermost(context, matching) {
        for (kernel, time, launches) in unprofiled(line) {
            let identity = &context.facts.identities[kernel.index()];
            let share = time as f64 / line.time as f64;
            let cells = vec![
                Cell::Name(identity.short.clone()),
                Cell::Text(line.summary.label(context.session, context.facts)),
                Cell::Text(identity.class.label().to_owned()),
                Cell::Int(i64::try_from(launches).unwrap_or(i64::MAX)),
                Cell::Int(time),
                Cell::Float(share),
                Cell::Name(context.session.kernel_name(kernel).to_owned()),
            ];
            rows.push((share, cells));
        }
    }
    // Equal shares keep the order of stages and kernels.
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    Dataset {
        id: UNPROFILED,
        title: "Kernels without a profiled launch".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("stage", "Stage"),
            Column::text("class", "Class"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("time_ns", "Time", Unit::Nanoseconds),
            Column::new("share", "Share of the stage", Unit::Ratio),
            Column::text("name", "Whole name"),
        ],
        rows: rows.into_iter().map(|(_, cells)| cells).collect(),
    }
}

/// The commands that list what to profile, one a phase that is not covered.
pub(super) fn commands(context: &Context<'_>, matching: &Matching) -> Option<Vec<Inline>> {
    let mut lines: Vec<(String, usize)> = Vec::new();
    for line in outermost(context, matching) {
        if line.share(|group| group.tier.is_some()) >= ENOUGH {
            continue;
        }
        let stage = &line.summary.stage(context.facts).name;
        if lines.iter().all(|(name, _)| name != stage) {
            lines.push((stage.clone(), kernels_for(line)));
        }
    }
    let mut text = prose![
        "To profile what is missing, list the kernels with the most time and give the list to \
         rooflens-capture ncu --kernels: ",
    ];
    for (at, (stage, top)) in lines.iter().enumerate() {
        if at > 0 {
            text.push("; ".into());
        }
        let command = format!("rooflens kernels BUNDLE --top {top} --stage '{stage}' --yaml");
        text.push(Inline::Code(command));
    }
    text.push(
        ". It names launches of the grid with the most time whose duration is nearest to the median."
            .into(),
    );
    (!lines.is_empty()).then_some(text)
}

/// How many kernels hold enough of a line's time.
fn kernels_for(line: &Line) -> usize {
    let mut kernels = BTreeMap::<KernelId, Ns>::new();
    for group in &line.groups {
        *kernels.entry(group.kernel).or_default() += group.time;
    }
    let mut times: Vec<Ns> = kernels.into_values().collect();
    times.sort_unstable_by_key(|time| Reverse(*time));
    let enough = ENOUGH * times.iter().sum::<Ns>() as f64;
    let mut sum = 0;
    let needed = times.iter().take_while(|time| {
        let before = sum;
        sum += **time;
        (before as f64) < enough
    });
    needed.count().clamp(1, MOST)
}
