//! The pages of a study: what worked, what did not, side effects, errors, the configuration to copy, and trends.

use rooflens_document::chart::{Line, Lines, Plot, Track, Tracks};
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Cell, Chart, Inline, Quantity, SectionContent, Table, columns, method, say,
    words,
};
use rooflens_schemas::Unit;
use rooflens_units::Ratio;

use super::of_table;
use crate::experiments::{Change, ChangePoint, Experiment, RATE, Status, Study, Trend};
use crate::ledger::{Entry, SettingsAs};
use crate::times::{CONFIDENCE, Verdict};

/// Side effects of an experiment that pages show.
const SIDE_EFFECTS: usize = 4;

/// Charts of trends.
const CHARTS: usize = 4;

/// The order of outcomes on pages.
const OUTCOMES: [Status; 8] = [
    Status::Judged(Verdict::Better),
    Status::Judged(Verdict::Worse),
    Status::Few(Verdict::Better),
    Status::Few(Verdict::Worse),
    Status::Judged(Verdict::Same),
    Status::Judged(Verdict::CannotTell),
    Status::Failed,
    Status::Reference,
];

/// A study, and the words for it.
struct Pages<'a> {
    text: &'static Catalogue,
    study: &'a Study<'a>,
}

/// A row of an experiment.
type Row<'a> = &'a Experiment;

/// A side effect of an experiment.
struct SideEffect<'a> {
    label: &'a str,
    change: &'a Change,
}

/// A change point of a trend.
struct Step<'a> {
    trend: &'a Trend,
    change: ChangePoint,
}

/// The report of a study. `provenance` has no title and no facts yet.
pub fn report_of_experiments(
    study: &Study<'_>,
    text: &'static Catalogue,
    mut provenance: Provenance<'_>,
) -> Report {
    let pages = Pages { text, study };
    provenance.title = Some(pages.title());
    provenance.facts = vec![(
        words!(pages, "experiments.study"),
        study.ledger.name.clone(),
    )];
    provenance.glossary = "experiments_glossary";
    let mut document = Document::new(text, &provenance);
    document.summary(pages.summary());
    let sections = [
        ("experiments_configuration", pages.configuration()),
        ("experiments_side_effects", pages.side_effects()),
        ("experiments_trends", pages.trends()),
    ];
    for (id, content) in sections {
        document.section(id, text.heading(id), content);
    }
    document.build_of_artifacts()
}

impl<'a> Pages<'a> {
    fn entry(&self, experiment: &Experiment) -> &'a Entry {
        &self.study.ledger.experiments[experiment.place]
    }

    fn count(&self, status: Status) -> usize {
        let experiments = self.study.experiments.iter();
        experiments
            .filter(|experiment| experiment.status == status)
            .count()
    }

    fn title(&self) -> String {
        let count = |status| Quantity::count(self.count(status) as u64);
        let few = [Verdict::Better, Verdict::Worse].map(|verdict| self.count(Status::Few(verdict)));
        let few: usize = few.iter().sum();
        words!(
            self,
            "experiments.title",
            better = count(Status::Judged(Verdict::Better)),
            worse = count(Status::Judged(Verdict::Worse)),
            few = Quantity::count(few as u64),
            failed = count(Status::Failed)
        )
    }

    fn summary(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let goal = self.study.goal.as_deref();
        content.blocks.push(Block::Prose(match goal {
            Some(goal) => say!(self, "experiments.goal", goal = Inline::code(goal)),
            None => say!(self, "experiments.no_goal"),
        }));
        let mut rows: Vec<Row<'a>> = Vec::new();
        for outcome in OUTCOMES {
            let experiments = self.study.experiments.iter();
            rows.extend(experiments.filter(|experiment| experiment.status == outcome));
        }
        let table = self.experiments();
        let mut skip = 0;
        for group in rows.chunk_by(|row, next| row.status == next.status) {
            let status = group[0].status;
            let caption = self.caption(status);
            let view = match status {
                // Of what has no figures, the reason says all.
                Status::Failed | Status::Judged(Verdict::CannotTell) | Status::Reference => {
                    self.reasons().view(caption, group.len())
                }
                Status::Judged(_) | Status::Few(_) => table.view(caption, group.len()),
            };
            let view = view.of_group(skip, group.len());
            content.blocks.push(Block::Table(view));
            skip += group.len();
        }
        content.datasets.push(table.rows(&rows));
        content.datasets.push(self.reasons().rows(&rows));
        content.methods = vec![method!(
            self,
            "experiments",
            confidence = CONFIDENCE,
            least = self.study.least,
            rate = Ratio(RATE)
        )];
        content
    }

    fn caption(&self, status: Status) -> String {
        match status {
            Status::Judged(Verdict::Better) => words!(self, "experiments.worked"),
            Status::Judged(Verdict::Worse) => words!(self, "experiments.did_not_work"),
            Status::Judged(Verdict::Same) => words!(self, "experiments.no_difference"),
            Status::Judged(Verdict::CannotTell) => words!(self, "experiments.open"),
            Status::Few(Verdict::Better) => words!(self, "experiments.few_better"),
            Status::Few(_) => words!(self, "experiments.few_worse"),
            Status::Failed => words!(self, "experiments.failed"),
            Status::Reference => words!(self, "experiments.reference"),
        }
    }

    /// Experiments with the figure that decides.
    fn experiments(&self) -> Table<'_, Row<'a>> {
        let quantity = |change: &Change, value| Cell::Quantity(Quantity::new(value, change.unit));
        let mut goals = self
            .study
            .experiments
            .iter()
            .filter_map(|row| row.goal.as_ref());
        let has_intervals = goals.any(|goal| goal.interval.is_some());
        columns! { self, "experiments", experiment: &Row<'a> => {
            let goal = experiment.goal.as_ref();
            let interval = goal.and_then(|goal| goal.interval);
            name "experiment" = self.entry(experiment).label.as_str(), page;
            name "against" = self.against(experiment);
            name "settings" = self.settings(experiment), page;
            text "outcome" = self.text.word(experiment.status.label());
            count "samples_before" = goal.map(|goal| goal.samples.before as u64), page;
            count "samples_after" = goal.map(|goal| goal.samples.after as u64), page;
            text "before" = goal.map(|goal| quantity(goal, goal.median.before)), page;
            text "after" = goal.map(|goal| quantity(goal, goal.median.after)), page;
            share "change" = goal.and_then(|goal| goal.ratio).map(|ratio| ratio - Ratio::ONE), page;
            share "change_low" = interval.map(|(low, _)| low - Ratio::ONE), page if has_intervals;
            share "change_high" = interval.map(|(_, high)| high - Ratio::ONE), page if has_intervals;
            text "side_effects" = self.effects(experiment), page;
            text "reason" = self.reason(experiment);
            name "commit" = self.entry(experiment).commit.clone();
            name "source" = self.entry(experiment).source.clone();
        } }
    }

    /// Experiments with the reason of their outcome.
    fn reasons(&self) -> Table<'_, Row<'a>> {
        columns! { self, "experiments_reasons", experiment: &Row<'a> => {
            name "experiment" = self.entry(experiment).label.as_str(), page;
            text "outcome" = self.text.word(experiment.status.label());
            name "settings" = self.settings(experiment), page;
            text "reason" = self.reason(experiment), page;
        } }
    }

    fn against(&self, experiment: &Experiment) -> Option<String> {
        let before = experiment.against?;
        Some(self.study.ledger.experiments[before].label.clone())
    }

    /// What was set unlike before, and what the runs record unlike before.
    fn settings(&self, experiment: &Experiment) -> Option<String> {
        let before = experiment
            .against
            .map(|place| self.study.ledger.settings(place));
        let all = self.study.ledger.settings(experiment.place);
        let mut texts = Vec::new();
        for name in self.entry(experiment).settings.keys() {
            let after = &all[name];
            texts.push(match before.as_ref().and_then(|before| before.get(name)) {
                Some(before) => format!("{name}: {before} → {after}"),
                None => format!("{name}: {after}"),
            });
        }
        for [name, before, after] in &experiment.other_work {
            texts.push(format!("{name}: {before} → {after}"));
        }
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Other figures that changed, the largest change first.
    fn effects(&self, experiment: &Experiment) -> Option<String> {
        let shown = experiment.side_effects.iter().take(SIDE_EFFECTS);
        let texts: Vec<String> = shown
            .map(|change| {
                let [before, after] = [change.median.before, change.median.after]
                    .map(|value| Quantity::new(value, change.unit));
                let verdict = self.text.word(change.status().label());
                format!("{}: {before} → {after} ({verdict})", change.figure)
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Why there is no verdict, or how far it carries.
    fn reason(&self, experiment: &Experiment) -> Option<String> {
        let entry = self.entry(experiment);
        if let Some(error) = &entry.error {
            return Some(error.clone());
        }
        if experiment.status == Status::Reference {
            return None;
        }
        let goal = self.study.goal.as_deref().unwrap_or_default();
        Some(match &experiment.goal {
            None if !experiment.other_work.is_empty() => {
                words!(self, "experiments.reason.other_work", goal = goal)
            }
            None => words!(self, "experiments.reason.no_number", goal = goal),
            Some(change) if change.interval.is_none() => {
                words!(self, "experiments.reason.few_values")
            }
            Some(_) if experiment.status == Status::Judged(Verdict::CannotTell) => {
                words!(self, "experiments.reason.interval")
            }
            Some(_) => return None,
        })
    }

    fn configuration(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let ledger = self.study.ledger;
        let Some(place) = self.study.recommended else {
            content
                .main
                .push(Block::Prose(say!(self, "experiments.no_recommendation")));
            return content;
        };
        let entry = &ledger.experiments[place];
        let label = Inline::strong(entry.label.as_str());
        content.main.push(Block::Prose(match entry.deployed {
            true => say!(self, "experiments.deployed", label = label),
            false => say!(self, "experiments.recommended", label = label),
        }));
        let lines = ledger.lines(&ledger.settings(place));
        if !lines.is_empty() {
            let lines = match ledger.settings_as {
                SettingsAs::Flags => lines.trim_end().replace('\n', " \\\n"),
                SettingsAs::Toml | SettingsAs::Environment => lines,
            };
            content.main.push(Block::Code(lines));
        }
        let worse = self.study.experiments[place].side_effects.iter();
        let mut worse = worse.filter(|change| change.verdict == Verdict::Worse);
        if let Some(change) = worse.next() {
            let [before, after] = [change.median.before, change.median.after]
                .map(|value| Quantity::new(value, change.unit));
            content.main.push(Block::Prose(say!(
                self,
                "experiments.price",
                figure = Inline::code(change.figure.as_str()),
                before = before,
                after = after
            )));
        }
        content
    }

    fn side_effects(&self) -> SectionContent {
        let mut rows = Vec::new();
        for experiment in &self.study.experiments {
            let label = self.entry(experiment).label.as_str();
            let of_experiment = experiment.side_effects.iter();
            rows.extend(of_experiment.map(|change| SideEffect { label, change }));
        }
        let quantity = |change: &Change, value| Cell::Quantity(Quantity::new(value, change.unit));
        let table = columns! { self, "experiments_side_effects", row: &SideEffect<'_> => {
            let change = row.change;
            let interval = change.interval;
            name "experiment" = row.label, page;
            name "figure" = change.figure.as_str(), page;
            count "samples_before" = change.samples.before as u64;
            count "samples_after" = change.samples.after as u64;
            text "before" = quantity(change, change.median.before), page;
            text "after" = quantity(change, change.median.after), page;
            share "change" = change.ratio.map(|ratio| ratio - Ratio::ONE), page;
            share "change_low" = interval.map(|(low, _)| low - Ratio::ONE);
            share "change_high" = interval.map(|(_, high)| high - Ratio::ONE);
            text "verdict" = self.text.word(change.status().label()), page;
        } };
        let caption = words!(self, "experiments.side_effects");
        of_table(&table, &rows, caption, rows.len())
    }

    fn trends(&self) -> SectionContent {
        let trends = &self.study.trends;
        let mut content = SectionContent::default();
        let charts = trends.iter().take(CHARTS).enumerate();
        content
            .main
            .extend(charts.map(|(number, trend)| Block::Chart(self.chart(number, trend))));
        let mut steps = Vec::new();
        for trend in trends {
            let changes = trend.changes.iter();
            steps.extend(changes.map(|change| Step {
                trend,
                change: *change,
            }));
        }
        let table = columns! { self, "experiments_changes", step: &Step<'_> => {
            let change = step.change;
            name "figure" = step.trend.figure.as_str(), page;
            name "commit" = self.commit(step.trend, change.at), page;
            share "change" = change.ratio - Ratio::ONE, page;
            share "change_low" = change.interval.0 - Ratio::ONE, page;
            share "change_high" = change.interval.1 - Ratio::ONE, page;
            One "p" = change.p, page;
        } };
        if !trends.is_empty() {
            content.main.push(match steps.is_empty() {
                true => Block::Prose(say!(self, "experiments.no_change")),
                false => Block::Table(table.view(words!(self, "experiments.changes"), steps.len())),
            });
        }
        content.datasets.push(table.rows(&steps));
        type Point<'p> = (&'p Trend, usize);
        let mut points: Vec<Point<'_>> = Vec::new();
        for trend in trends {
            points.extend((0..trend.points.len()).map(|point| (trend, point)));
        }
        let values = columns! { self, "experiments_trends", point: &Point<'_> => {
            let (trend, number) = *point;
            let (place, samples, median) = trend.points[number];
            name "figure" = trend.figure.as_str();
            name "commit" = self.commit(trend, number);
            name "experiment" = self.study.ledger.experiments[place].label.as_str();
            count "samples" = samples as u64;
            text "median" = Cell::Quantity(Quantity::new(median, trend.unit));
        } };
        content.datasets.push(values.rows(&points));
        content
    }

    fn commit(&self, trend: &Trend, point: usize) -> String {
        let (place, ..) = trend.points[point];
        let commit = self.study.ledger.experiments[place].commit.clone();
        commit.unwrap_or_default()
    }

    /// The medians over commits, with a band from one change point to the next.
    fn chart(&self, number: usize, trend: &Trend) -> Chart {
        let last = trend.points.len() - 1;
        let points = trend.points.iter().enumerate();
        let points = points.map(|(number, (.., median))| (number as i64, *median));
        let starts: Vec<usize> = [0]
            .into_iter()
            .chain(trend.changes.iter().map(|change| change.at))
            .collect();
        let mut bands = Vec::new();
        if !trend.changes.is_empty() {
            for (number, start) in starts.iter().enumerate() {
                let end = starts.get(number + 1).copied().unwrap_or(last);
                bands.push((self.commit(trend, *start), *start as i64, end as i64));
            }
        }
        let track = Lines {
            label: trend.figure.clone(),
            unit: trend.unit,
            lines: vec![Line {
                name: String::new(),
                filled: false,
                points: points.collect(),
            }],
            shades: None,
            outliers: Vec::new(),
        };
        Chart {
            id: format!("experiments-trend-{number}"),
            title: words!(self, "experiments.trend", figure = trend.figure.as_str()),
            description: words!(
                self,
                "experiments.trend_description",
                count = Quantity::count(trend.points.len() as u64),
                first = self.commit(trend, 0),
                last = self.commit(trend, last)
            ),
            plot: Plot::Tracks(Tracks {
                x_label: words!(self, "experiments.commits"),
                x_unit: Unit::Count,
                extent: last as i64,
                bands,
                tracks: vec![Track::Lines(track)],
            }),
        }
    }
}
