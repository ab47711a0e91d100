//! Waterfalls of the time, and their data set.

use rooflens_document::chart::{Fall, Plot, Waterfall as Drawn};
use rooflens_document::{Chart, Dataset, Quantity, columns, words};
use rooflens_schemas::Unit;
use rooflens_session::Ns;

use super::Pages;
use crate::account::Part;
use crate::waterfall::{Step, Waterfall, What};

/// Changes that a chart shows one by one.
const STEPS: usize = 10;

/// Part of the sum of all changes below which a change is drawn with others.
const SMALL: f64 = 0.01;

/// A row of the data set.
struct Row {
    of: String,
    stage: String,
    label: &'static str,
    start: Ns,
    change: Ns,
}

impl Pages<'_> {
    /// A mean iteration of a stage, or the captured time.
    pub(super) fn waterfall(&self, waterfall: &Waterfall) -> Option<Chart> {
        if waterfall.steps.is_empty() {
            return None;
        }
        let all: u64 = waterfall
            .steps
            .iter()
            .map(|step| step.time.0.unsigned_abs())
            .sum();
        let is_shown = |(index, step): &(usize, &Step)| {
            *index < STEPS && step.time.0.unsigned_abs() as f64 >= SMALL * all as f64
        };
        let steps = || waterfall.steps.iter().enumerate();
        let mut changes: Vec<(String, f64)> = steps()
            .filter(is_shown)
            .map(|(_, step)| (self.step(waterfall, step), step.time.0 as f64))
            .collect();
        let others: Vec<Ns> = steps()
            .filter(|step| !is_shown(step))
            .map(|(_, step)| step.time)
            .collect();
        if !others.is_empty() {
            let label = words!(
                self,
                "compare.other_changes",
                count = Quantity::count(others.len() as u64)
            );
            changes.push((label, others.into_iter().sum::<Ns>().0 as f64));
        }
        let (id, title) = match &waterfall.stage {
            Some(stage) => (
                "compare-waterfall".to_owned(),
                words!(self, "compare.waterfall", stage = stage.as_str()),
            ),
            None => (
                "compare-waterfall-capture".to_owned(),
                words!(self, "compare.waterfall_capture"),
            ),
        };
        let plot = Drawn {
            unit: Unit::Nanoseconds,
            falls: vec![Fall {
                before: (
                    words!(self, "compare.before"),
                    waterfall.time.before.0 as f64,
                ),
                changes,
                after: (words!(self, "compare.after"), waterfall.time.after.0 as f64),
            }],
        };
        Some(Chart {
            id,
            title,
            description: words!(self, "compare.waterfall_description"),
            plot: Plot::Waterfall(plot),
        })
    }

    /// The label of a change: with its stage where the chart is of several.
    fn step(&self, waterfall: &Waterfall, step: &Step) -> String {
        let part = self.text.word(step.what.label());
        let part = match step.what {
            What::Part(Part::Idle(_)) => words!(self, "compare.idle_step", cause = part),
            _ => part.to_owned(),
        };
        match waterfall.stage.is_some() || step.stage.is_empty() {
            true => part,
            false => format!("{}: {part}", step.stage),
        }
    }

    /// The levels and changes of all waterfalls.
    pub(super) fn waterfall_rows(&self) -> Dataset {
        let mut rows = Vec::new();
        let iterations = self.stages.iter().copied();
        let iterations = iterations.filter_map(|stage| self.comparison.waterfall(stage));
        for waterfall in iterations.chain([self.comparison.waterfall_of_capture()]) {
            let of = waterfall.stage.clone().unwrap_or_default();
            let mut level = waterfall.time.before;
            let row = |stage: &str, label, start, change| Row {
                of: of.clone(),
                stage: stage.to_owned(),
                label,
                start,
                change,
            };
            rows.push(row("", "before", Ns::ZERO, level));
            for step in &waterfall.steps {
                rows.push(row(&step.stage, step.what.label(), level, step.time));
                level += step.time;
            }
            rows.push(row("", "after", Ns::ZERO, level));
        }
        let table = columns! { self, "compare_waterfall", row: &Row => {
            name "iteration_of" = row.of.as_str();
            name "stage" = row.stage.as_str();
            text "part" = row.label;
            "start_ns" = row.start;
            "change_ns" = row.change;
            "end_ns" = row.start + row.change;
        } };
        table.rows(&rows)
    }
}
