//! The pages of a comparison.

mod experiments;
mod explanations;
mod figures;
mod measurements;
mod timelines;
mod waterfalls;

use std::collections::BTreeMap;

use rooflens_analysis::engine::classify::{ClassGroup, identify};
use rooflens_document::chart::{Bar, Color, Part as Legend, Plot, StackedBars};
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Chart, Inline, Quantity, SectionContent, Table, Tile, columns, method, say,
    words,
};
use rooflens_schemas::Unit;
use rooflens_sections::group_color;
use rooflens_units::{Ratio, Time};

use crate::account::{self, Change as AccountChange, Part};
use crate::conditions::{Condition, Setting};
use crate::findings::Change as FindingChange;
use crate::kernels::{Change as KernelChange, OriginChange};
pub use experiments::report_of_experiments;
pub use figures::report_of_figures;
use measurements::Words;
pub use measurements::{report_of_load_tests, report_of_microbenchmarks};
pub(crate) use timelines::{Timeline, add_timelines};

use crate::times::{CONFIDENCE, StageChange, Verdict};
use crate::{Comparison, Pair};

/// Rows that pages show of parts, kernels and settings.
const SHOWN: usize = 12;

/// Stages of the chart.
const STAGES: usize = 4;

/// A row of the account.
type Row<'a> = &'a AccountChange;

/// A comparison, and the words for it.
struct Pages<'a> {
    text: &'static Catalogue,
    comparison: &'a Comparison,
    /// The measured stages of both captures, the largest change of an iteration first.
    stages: Vec<&'a str>,
}

/// The report of a comparison. `provenance` has no title and no facts yet.
pub fn report(
    comparison: &Comparison,
    text: &'static Catalogue,
    mut provenance: Provenance<'_>,
) -> Report {
    let pages = Pages {
        text,
        comparison,
        stages: account::stages(&comparison.account),
    };
    provenance.title = Some(pages.conclusion());
    provenance.facts = vec![
        (
            words!(pages, "compare.before"),
            comparison.names.before.clone(),
        ),
        (
            words!(pages, "compare.after"),
            comparison.names.after.clone(),
        ),
    ];
    provenance.glossary = "compare_glossary";
    let mut document = Document::new(text, &provenance);
    document.summary(pages.summary());
    let sections = [
        ("compare_explanations", pages.explanations()),
        ("compare_account", pages.account()),
        ("compare_timelines", pages.timelines()),
        ("compare_kernels", pages.kernels()),
        ("compare_findings", pages.findings()),
        ("compare_settings", pages.settings()),
    ];
    for (id, content) in sections {
        document.section(id, text.heading(id), content);
    }
    document.build_of_artifacts()
}

impl<'a> Pages<'a> {
    /// The stage that changed most, of those that are known to have changed.
    fn decided(&self) -> Option<&'a StageChange> {
        decided(&self.comparison.times)
    }

    /// What the comparison says, as a title.
    fn conclusion(&self) -> String {
        conclusion(self.text, &self.comparison.times, self.comparison.least)
    }

    fn summary(&self) -> SectionContent {
        let comparison = self.comparison;
        let mut content = SectionContent::default();
        let tile = |change: &StageChange| Tile {
            label: words!(
                self,
                "compare.tile",
                stage = change.stage.as_str(),
                step = change.per_step.then_some(""),
                profiled = change.profiled.then_some(""),
            ),
            now: change.median.after.into(),
            others: vec![(words!(self, "compare.before"), change.median.before.into())],
        };
        let tiles: Vec<Tile> = comparison.times.iter().take(STAGES).map(tile).collect();
        if !tiles.is_empty() {
            content.blocks.push(Block::Tiles(tiles));
        }
        let conditions = &comparison.conditions;
        if !conditions.is_empty() {
            content
                .blocks
                .push(Block::Prose(say!(self, "compare.conditions_text")));
            let caption = words!(self, "compare.conditions");
            let view = self.conditions().view(caption, usize::MAX);
            content.blocks.push(Block::Table(view));
        }
        content.datasets.push(self.conditions().rows(conditions));
        if !comparison.times.is_empty() {
            let caption = words!(self, "compare.times", confidence = CONFIDENCE);
            let view = stage_times(self.text).view(caption, usize::MAX);
            content.blocks.push(Block::Table(view));
        }
        let times = stage_times(self.text).rows(&comparison.times);
        content.datasets.push(times);
        content
            .blocks
            .extend(few_values(self.text, &comparison.times).map(Block::Prose));
        content.blocks.extend(self.explanation().map(Block::Prose));
        let waterfall = self
            .largest_stage()
            .and_then(|stage| comparison.waterfall(stage));
        let waterfall = waterfall.and_then(|waterfall| self.waterfall(&waterfall));
        content.blocks.extend(waterfall.map(Block::Chart));
        let is_profiled = comparison.times.iter().any(|change| change.profiled);
        content.blocks.push(Block::Prose(say!(
            self,
            "compare.caveat",
            profiled = is_profiled.then_some(""),
        )));
        content.methods = vec![method!(
            self,
            "compare",
            confidence = CONFIDENCE,
            least = self.comparison.least
        )];
        content
    }

    /// The parts of the account that explain most of the change of the stage.
    fn explanation(&self) -> Option<Vec<Inline>> {
        let stage = self.largest_stage()?;
        let parts: Vec<&AccountChange> = measured(self.comparison, stage).collect();
        let total = self.change_of(stage);
        let same_way = |change: &&&AccountChange| {
            let difference = change.of_iteration().unwrap_or_default();
            difference.0 * total.0 > 0.0
        };
        let largest = parts.iter().filter(same_way);
        let largest = largest.max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let time = largest.per_iteration()?;
        Some(say!(
            self,
            "compare.explanation",
            stage = Inline::strong(stage),
            total = signed(total),
            part = Inline::strong(self.text.word(largest.place.part.label())),
            idle = matches!(largest.place.part, Part::Idle(_)).then_some(""),
            difference = signed(largest.of_iteration()?),
            before = time.before,
            after = time.after,
        ))
    }

    /// Change of the captured time of a mean iteration.
    fn change_of(&self, stage: &str) -> Time {
        let parts = measured(self.comparison, stage);
        parts.filter_map(AccountChange::of_iteration).sum()
    }

    /// The measured stage whose captured time changed most, by the iteration.
    fn largest_stage(&self) -> Option<&'a str> {
        let decided = self.decided().map(|change| change.stage.as_str());
        let mut stages = self.stages.iter();
        let stage = stages.find(|stage| Some(**stage) == decided);
        stage.or(self.stages.first()).copied()
    }

    /// An iteration of each stage before and after, by groups of kernels and idle time.
    fn chart(&self) -> Option<Chart> {
        let mut legend = Vec::new();
        for group in ClassGroup::ALL {
            let color = group_color(group);
            legend.push(Legend {
                name: self.text.word(color.label()).to_owned(),
                color,
            });
        }
        legend.push(Legend {
            name: words!(self, "compare.idle"),
            color: Color::Idle,
        });
        let mut bars = Vec::new();
        for stage in self.stages.iter().copied().take(STAGES) {
            let mut values = Pair::of(&self.comparison.names, |_| vec![0.0; legend.len()]);
            for change in measured(self.comparison, stage) {
                let place = place_in_legend(change.place.part);
                if let Some(time) = change.per_iteration() {
                    values.before[place] += time.before.0;
                    values.after[place] += time.after.0;
                }
            }
            let sides = [
                (words!(self, "compare.before"), values.before),
                (words!(self, "compare.after"), values.after),
            ];
            for (side, values) in sides {
                let total = Time(values.iter().sum());
                bars.push(Bar {
                    label: format!("{stage}, {side}"),
                    note: Quantity::from(total).to_string(),
                    values,
                });
            }
        }
        if bars.is_empty() {
            return None;
        }
        let plot = StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts: legend,
            bars,
        };
        Some(Chart {
            id: "compare-account".to_owned(),
            title: words!(self, "compare.chart"),
            description: words!(self, "compare.chart_description"),
            plot: Plot::StackedBars(plot.without_empty_parts()),
        })
    }

    /// The parts of measured iterations stage by stage, then all others; each with the largest change first.
    fn ordered(&self) -> Vec<&'a AccountChange> {
        let mut ordered: Vec<&AccountChange> = Vec::new();
        for stage in self.stages.iter().copied() {
            let mut parts: Vec<&AccountChange> = measured(self.comparison, stage).collect();
            parts.sort_by(|a, b| {
                size(b)
                    .total_cmp(&size(a))
                    .then_with(|| a.place.cmp(&b.place))
            });
            ordered.extend(parts);
        }
        let changes = self.comparison.account.iter();
        ordered.extend(changes.filter(|change| {
            !change.place.is_measured || !self.stages.contains(&change.place.stage.as_str())
        }));
        ordered
    }

    fn account(&self) -> SectionContent {
        let rows = self.ordered();
        let mut content = SectionContent::default();
        content.main.extend(self.chart().map(Block::Chart));
        let table = self.places();
        for stage in self.stages.iter().copied().take(STAGES) {
            let is_of_stage = |change: &&AccountChange| {
                let is_changed = change.of_iteration().is_some_and(|time| time != Time::ZERO);
                change.place.is_measured && change.place.stage == stage && is_changed
            };
            let parts = rows.iter().filter(|change| is_of_stage(change)).count();
            if parts == 0 {
                continue;
            }
            let caption = words!(self, "compare.account", stage = stage);
            let first = rows.iter().position(is_of_stage).unwrap_or_default();
            let view = table.view(caption, SHOWN).of_group(first, parts);
            content.main.push(Block::Table(view));
        }
        let waterfall = self.comparison.waterfall_of_capture();
        content
            .main
            .extend(self.waterfall(&waterfall).map(Block::Chart));
        content.datasets.push(table.rows(&rows));
        content.datasets.push(self.waterfall_rows());
        content
    }

    fn places(&self) -> Table<'_, Row<'a>> {
        columns! { self, "compare_account", change: &Row<'a> => {
            let time = change.per_iteration();
            text "phase" = change.place.phase;
            name "stage" = change.place.stage.as_str();
            text "kind" = if matches!(change.place.part, Part::Class(_)) { "busy" } else { "idle" }, page;
            text "part" = change.place.part.label(), page;
            time "before_ns" = time.map(|time| time.before), page;
            time "after_ns" = time.map(|time| time.after), page;
            time "difference_ns" = change.of_iteration(), page;
            "captured_before_ns" = change.time.before;
            "captured_after_ns" = change.time.after;
            "captured_difference_ns" = change.difference();
            count "parts_before" = change.parts.before;
            count "parts_after" = change.parts.after;
        } }
    }

    fn kernels(&self) -> SectionContent {
        let rows = &self.comparison.kernels;
        let names = &short_names(rows);
        let table = columns! { self, "compare_kernels", change: &KernelChange => {
            name "stage" = change.stage.as_str(), page;
            text "class" = change.class.label();
            text "fate" = change.fate().label(), page;
            name "kernel_before" = in_order(&change.names.before);
            name "kernel_after" = in_order(&change.names.after);
            name "short_before" = in_order(&short(&change.names.before, names)), page;
            name "short_after" = in_order(&short(&change.names.after, names)), page;
            Count "launches_before" = change.used.before.launches, page;
            Count "launches_after" = change.used.after.launches, page;
            time "before_ns" = change.used.before.time, page;
            time "after_ns" = change.used.after.time, page;
            time "difference_ns" = change.difference(), page;
            time "by_launches_ns" = change.by_launches();
            time "by_mix_ns" = change.by_mix();
            time "by_duration_ns" = change.by_duration();
        } };
        let is_changed = |change: &&KernelChange| change.difference() != Time::ZERO;
        let changed = rows.iter().filter(is_changed).count();
        let caption = words!(self, "compare.kernels");
        let mut content = of_table(&table, rows, caption, SHOWN.min(changed));
        let SectionContent { main, datasets, .. } = self.origins();
        content.main.extend(main);
        content.datasets.extend(datasets);
        content
    }

    /// The kernels by module and operator.
    fn origins(&self) -> SectionContent {
        let rows = &self.comparison.origins;
        let has_operators = rows.iter().any(|change| change.operator.is_some());
        let table = columns! { self, "compare_origins", change: &OriginChange => {
            let operator = change.operator.as_ref();
            name "stage" = change.stage.as_str(), page;
            name "module" = change.module.clone(), page;
            name "operator" = operator.map(|[name, _]| name.clone()), page if has_operators;
            name "shapes" = operator.map(|[_, shapes]| shapes.clone()), page if has_operators;
            Count "launches_before" = change.used.before.launches, page;
            Count "launches_after" = change.used.after.launches, page;
            time "before_ns" = change.used.before.time, page;
            time "after_ns" = change.used.after.time, page;
            time "difference_ns" = change.difference(), page;
        } };
        let is_changed = |change: &&OriginChange| change.difference() != Time::ZERO;
        let changed = rows.iter().filter(is_changed).count();
        let caption = words!(self, "compare.origins");
        of_table(&table, rows, caption, SHOWN.min(changed))
    }

    fn findings(&self) -> SectionContent {
        let rows = &self.comparison.findings;
        let has_outcomes = rows.iter().any(|change| change.outcome.is_some());
        let table = columns! { self, "compare_findings", change: &FindingChange => {
            text "status" = change.label(), page;
            text "finding" = change.title.as_str(), page;
            text "rule" = change.rule;
            name "stage" = change.stage.clone();
            count "action_before" = change.action.before.map(|number| number as u64);
            count "action_after" = change.action.after.map(|number| number as u64);
            time "bound_before_ns" = change.bound.before, page;
            time "bound_after_ns" = change.bound.after, page;
            time "time_before_ns" = change.outcome.map(|outcome| outcome.before), page if has_outcomes;
            time "expected_ns" = change.outcome.map(|outcome| outcome.expected), page if has_outcomes;
            time "got_ns" = change.outcome.map(|outcome| outcome.got), page if has_outcomes;
        } };
        of_table(&table, rows, words!(self, "compare.findings"), rows.len())
    }

    fn settings(&self) -> SectionContent {
        let rows = &self.comparison.settings;
        let table = columns! { self, "compare_settings", setting: &Setting => {
            text "subject" = setting.subject.as_str(), page;
            name "setting" = setting.name.as_str(), page;
            name "before" = setting.values.before.clone(), page;
            name "after" = setting.values.after.clone(), page;
        } };
        // A setting that one capture does not record says nothing of a difference.
        let known = rows.iter().filter(|setting| setting.is_known()).count();
        let caption = words!(self, "compare.settings");
        of_table(&table, rows, caption, SHOWN.min(known))
    }

    fn conditions(&self) -> Table<'_, Condition> {
        columns! { self, "compare_conditions", condition: &Condition => {
            text "condition" = self.text.word(condition.subject.label()), page;
            name "before" = condition.values.before.as_str(), page;
            name "after" = condition.values.after.as_str(), page;
        } }
    }
}

/// The times of stages.
fn stage_times(text: &'static Catalogue) -> Table<'static, StageChange> {
    columns! { Table::new(text, "compare_times"), change: &StageChange => {
        let interval = change.shift.and_then(|shift| shift.interval);
        name "stage" = change.stage.as_str(), page;
        text "unit" = text.word(if change.per_step { "step" } else { "iteration" }), page;
        text "profiled" = change.profiled, page;
        count "samples_before" = change.samples.before, page;
        count "samples_after" = change.samples.after, page;
        time "before_ns" = change.median.before, page;
        time "after_ns" = change.median.after, page;
        share "change" = change.ratio() - Ratio::ONE, page;
        share "change_low" = interval.map(|(low, _)| low - Ratio::ONE), page;
        share "change_high" = interval.map(|(_, high)| high - Ratio::ONE), page;
        One "p" = change.shift.map(|shift| shift.p);
        One "false_discovery_rate" = change.rate;
        text "verdict" = text.word(change.verdict.label()), page;
    } }
}

/// Why some stage times have no interval.
fn few_values(text: &'static Catalogue, times: &[StageChange]) -> Option<Vec<Inline>> {
    let has_interval = |change: &StageChange| {
        let shift = change.shift.as_ref();
        shift.is_some_and(|shift| shift.interval.is_some())
    };
    let is_short = times.iter().any(|change| !has_interval(change));
    is_short.then(|| {
        say!(
            Words {
                text,
                least: Ratio::ONE
            },
            "compare.few_values",
            confidence = CONFIDENCE
        )
    })
}

/// The stage that changed most, of those that are known to have changed: without a profiler where such times are known.
fn decided(times: &[StageChange]) -> Option<&StageChange> {
    let decided = times
        .iter()
        .filter(|change| matches!(change.verdict, Verdict::Better | Verdict::Worse));
    decided.max_by(|a, b| {
        let by_profiler = b.profiled.cmp(&a.profiled);
        by_profiler.then_with(|| factor(a).total_cmp(&factor(b)))
    })
}

/// What stage times say, as a title.
fn conclusion(text: &'static Catalogue, times: &[StageChange], least: Ratio) -> String {
    let words = Words { text, least };
    if let Some(change) = decided(times) {
        let stage = change.stage.clone();
        let factor = Quantity::new(factor(change).0, Unit::One);
        return match change.verdict {
            Verdict::Better => words!(words, "compare.better", stage = stage, factor = factor),
            _ => words!(words, "compare.worse", stage = stage, factor = factor),
        };
    }
    if times.is_empty() {
        return words!(words, "compare.no_stage");
    }
    match times.iter().all(|change| change.verdict == Verdict::Same) {
        true => words!(words, "compare.same", least = least),
        false => words!(words, "compare.cannot_tell"),
    }
}

/// A section of one table, which shows the first rows.
fn of_table<R>(table: &Table<'_, R>, rows: &[R], caption: String, shown: usize) -> SectionContent {
    let view = (shown > 0).then(|| Block::Table(table.view(caption, shown)));
    SectionContent {
        main: view.into_iter().collect(),
        datasets: vec![table.rows(rows)],
        ..SectionContent::default()
    }
}

/// The parts of the measured iterations of a stage.
fn measured<'a>(
    comparison: &'a Comparison,
    stage: &str,
) -> impl Iterator<Item = &'a AccountChange> {
    let changes = comparison.account.iter();
    changes.filter(move |change| change.place.is_measured && change.place.stage == stage)
}

/// Size of the change of an iteration.
fn size(change: &AccountChange) -> Time {
    change.of_iteration().unwrap_or_default().abs()
}

/// How many times as long the longer of both times is.
fn factor(change: &StageChange) -> Ratio {
    let ratio = change.ratio();
    ratio.max(Ratio(1.0 / ratio.0))
}

/// A difference with its sign.
fn signed(difference: Time) -> String {
    let sign = if difference.0 > 0.0 { "+" } else { "−" };
    format!("{sign}{}", Quantity::from(difference.abs()))
}

/// Names for people by the names of kernels.
fn short_names(kernels: &[KernelChange]) -> BTreeMap<&str, String> {
    let mut names = BTreeMap::new();
    for change in kernels {
        for name in change.names.before.iter().chain(&change.names.after) {
            let short = names.entry(name.as_str());
            short.or_insert_with(|| identify(name).short);
        }
    }
    names
}

fn short(kernels: &[String], names: &BTreeMap<&str, String>) -> Vec<String> {
    kernels
        .iter()
        .map(|name| names[name.as_str()].clone())
        .collect()
}

/// Names of kernels in the order of their launches, each run of equal names once; none if there is no kernel.
fn in_order(names: &[String]) -> Option<String> {
    let runs: Vec<String> = names
        .chunk_by(|name, next| name == next)
        .filter_map(|run| match run {
            [name] => Some(name.clone()),
            [name, ..] => Some(format!("{name} ×{}", run.len())),
            [] => None,
        })
        .collect();
    (!runs.is_empty()).then(|| runs.join(" + "))
}

/// The group of kernels that a part belongs to in the legend; idle time is the last one.
fn place_in_legend(part: Part) -> usize {
    let group = match part {
        Part::Class(class) => class.group(),
        Part::Idle(_) | Part::NoOperation => return ClassGroup::ALL.len(),
    };
    let mut groups = ClassGroup::ALL.iter();
    groups.position(|other| *other == group).unwrap_or_default()
}
