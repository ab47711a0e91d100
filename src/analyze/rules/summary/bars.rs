//! One bar for what is waited for now, one after the actions, one for the hardware limit: in milliseconds, to scale.

use super::tiles::name_with_rank;
use super::whole::{IDLE, Whole};
use crate::evidence::Evidence;
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Chart, Quantity, Table};
use rooflens_schemas::Unit;
use rooflens_sections::{class_name, group_color};
use rooflens_units::Time;

/// A bar and one of its parts: labels, and time.
pub(super) struct BarPart {
    bar: String,
    part: String,
    time: Time,
}

/// The chart, and the data that it shows.
pub(super) fn bars(evidence: &Evidence<'_>, whole: &Whole<'_>) -> (Chart, Vec<BarPart>) {
    let mut parts = Vec::new();
    for group in ClassGroup::ALL {
        let stages = whole.stages.iter();
        let works: Vec<&StageWork> = stages
            .filter_map(|(stage, _)| evidence.work(stage.kernels))
            .collect();
        let name = evidence.text.word(class_name(works.into_iter(), group));
        parts.push(Part::new(name, group_color(group)));
    }
    parts.push(Part::new(
        evidence.text.word(Color::Idle.label()),
        Color::Idle,
    ));
    let limit = words!(evidence, "summary.tile_limit");
    parts.push(Part::new(limit.clone(), Color::Stage));
    let mut bars: Vec<Bar> = Vec::new();
    for (taken, classes) in whole.bars.iter().enumerate() {
        let mut values: Vec<f64> = classes.iter().map(|time| time.0).collect();
        values.push(0.0);
        // An action that shortens another time, such as the first request, has no bar.
        let is_same = bars.last().is_some_and(|last| last.values == values);
        if is_same {
            continue;
        }
        bars.push(Bar {
            label: words!(
                evidence,
                "summary.bar",
                now = (taken == 0).then_some(""),
                one = (taken == 1).then_some(""),
                last = (taken > 1).then(|| Quantity::count(taken as u64)),
            ),
            values,
            note: Quantity::from(classes.iter().copied().sum::<Time>()).to_string(),
        });
    }
    if let Some(time) = whole.limit {
        let mut values = vec![0.0; IDLE + 2];
        values[IDLE + 1] = time.0;
        bars.push(Bar {
            label: limit,
            values,
            note: Quantity::from(time).to_string(),
        });
    }
    let mut rows = Vec::new();
    for bar in &bars {
        for (part, time) in parts.iter().zip(&bar.values) {
            if *time > 0.0 {
                rows.push(BarPart {
                    bar: bar.label.clone(),
                    part: part.name.clone(),
                    time: Time(*time),
                });
            }
        }
    }
    let name = name_with_rank(evidence, whole);
    let idle = whole.bars.first().map(|classes| classes[IDLE]);
    let idle = idle.filter(|idle| *idle >= whole.now * IDLE_SHARE);
    let chart = Chart {
        id: "summary-bars".to_owned(),
        title: words!(
            evidence,
            "summary.bars",
            name = name,
            now = whole.now,
            best = (whole.best() < whole.now).then(|| whole.best()),
            idle = idle,
        ),
        description: words!(
            evidence,
            "summary.bars_text",
            limit = whole.limit.map(|_| "")
        ),
        plot: Plot::StackedBars(
            StackedBars {
                unit: Unit::Nanoseconds,
                normalized: false,
                parts,
                bars,
            }
            .without_empty_parts(),
        ),
    };
    (chart, rows)
}

/// Idle time that the caption names, as a share of the whole.
const IDLE_SHARE: rooflens_units::Ratio = rooflens_units::Ratio(0.15);

/// One row a part of a bar.
pub(super) fn table<'t>(evidence: &Evidence<'t>) -> Table<'t, BarPart> {
    Table::new(evidence.text, "summary_bars")
        .text("bar", |part: &BarPart| part.bar.clone())
        .text("part", |part| part.part.clone())
        .time("time_ns", |part| part.time)
}
