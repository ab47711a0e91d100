//! The pages of a report of a lake.

use std::collections::BTreeSet;

use rooflens_diagnostic::Diagnostics;
use rooflens_document::chart::{Bar, Color, Line, Lines, Part, Plot, StackedBars, Track, Tracks};
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    ActionCard, Block, Catalogue, Chart, Inline, Quantity, SectionContent, Table, Tile, columns,
    method, say, words,
};
use rooflens_schemas::Unit;
use rooflens_units::{Ratio, Time};
use sha2::{Digest, Sha256};

use super::fleet::{Bound, CHANCE, Capture, Fleet, Group, Series, Use};

/// Rows that pages show.
const SHOWN: usize = 20;

/// Models with a bar.
const BARS: usize = 10;

/// Findings with a card on the first page.
const CARDS: usize = 3;

/// Runs that a card names.
const NAMED: usize = 3;

/// Stages whose times are drawn.
const TRACKS: usize = 4;

/// Captures, and the words for them.
struct Page<'a> {
    text: &'static Catalogue,
    fleet: &'a Fleet,
    /// GPU time that counts.
    time: Time,
    all: Group<'a>,
    bounds: Vec<Bound<'a>>,
}

/// The report of all captures of a lake of this name.
pub fn report(
    fleet: &Fleet,
    name: &str,
    text: &'static Catalogue,
    diagnostics: &Diagnostics,
) -> Report {
    let captures = fleet.captures.iter();
    let page = Page {
        text,
        fleet,
        time: fleet.time(),
        all: Group {
            name: words!(Words { text }, "fleet.all"),
            captures: captures
                .map(|(hash, capture)| (hash.as_str(), capture))
                .collect(),
        },
        bounds: fleet.bounds(),
    };
    let mut artifacts = Vec::new();
    let mut hash = Sha256::new();
    for (capture, about) in &fleet.captures {
        artifacts.push([
            about.run.clone(),
            String::new(),
            String::new(),
            capture.clone(),
        ]);
        hash.update(capture);
    }
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let provenance = Provenance {
        bundle: name,
        // Not that of a capture: a lake does not hold lakes.
        bundle_id: &format!("lake-{digits}"),
        artifacts,
        facts: page.facts(),
        glossary: "fleet_glossary",
        ..Provenance::default()
    };
    let mut document = Document::new(text, &provenance);
    document.diagnostics(diagnostics);
    document.summary(page.summary());
    let sections = [
        ("fleet_uses", page.uses()),
        ("fleet_findings", page.findings()),
        ("fleet_groups", page.groups()),
        ("fleet_trends", page.trends()),
        ("fleet_captures", page.captures()),
    ];
    for (id, content) in sections {
        document.section(id, text.heading(id), content);
    }
    document.method(method!(page, "fleet", chance = Ratio(CHANCE)));
    document.build_of_artifacts()
}

/// Words without a page.
struct Words {
    text: &'static Catalogue,
}

impl<'a> Page<'a> {
    fn count(&self) -> Quantity {
        Quantity::count(self.fleet.captures.len() as u64)
    }

    fn share(&self, time: Time) -> Option<Ratio> {
        self.time.is_positive().then(|| Ratio::of(time, self.time))
    }

    /// The name of what a rule looks for; that of the rule where this version does not know it.
    fn rule(&self, rule: &str) -> String {
        let name = self.text.message(rule, "name", &[]);
        let name = name.map(|name| name.iter().map(Inline::plain).collect());
        name.unwrap_or_else(|| rule.to_owned())
    }

    fn facts(&self) -> Vec<(String, String)> {
        let captures = self.fleet.captures.values();
        let days: BTreeSet<&String> = captures
            .filter_map(|capture| capture.day.as_ref())
            .collect();
        let mut facts = Vec::new();
        if let (Some(first), Some(last)) = (days.first(), days.last()) {
            facts.push((words!(self, "fleet.days"), format!("{first} – {last}")));
        }
        facts
    }

    fn summary(&self) -> SectionContent {
        let mut blocks = Vec::new();
        let [_, _, idle] = self.all.parts();
        let largest = self.bounds.first();
        let cause = largest.and_then(|bound| self.text.message(bound.rule, "cause", &[]));
        let bound = largest.and_then(|bound| self.share(bound.time()));
        let conclusion = match self.share(idle) {
            Some(idle) => {
                blocks.push(Block::Tiles(self.tiles()));
                blocks.push(Block::Chart(self.chart()));
                blocks.push(Block::Heading(words!(self, "summary.actions")));
                blocks.push(Block::Actions(self.cards()));
                blocks.push(Block::Prose(self.basis()));
                words!(
                    self,
                    "fleet.conclusion",
                    idle = idle,
                    bound = cause.as_ref().and(bound),
                    cause = cause,
                )
            }
            None => {
                blocks.push(Block::Missing(words!(self, "fleet.no_time")));
                words!(self, "fleet.title", captures = self.count())
            }
        };
        SectionContent {
            blocks,
            conclusion: Some(conclusion),
            ..SectionContent::default()
        }
    }

    fn tiles(&self) -> Vec<Tile> {
        let [busy, communication, idle] = self.all.parts();
        let captured = self
            .fleet
            .captures
            .values()
            .map(|capture| capture.captured)
            .sum::<Time>();
        let mut tiles = vec![
            Tile {
                label: words!(self, "fleet.tile_time"),
                now: self.time.into(),
                others: vec![(words!(self, "fleet.tile_captured"), captured.into())],
            },
            Tile {
                label: words!(self, "fleet.captures"),
                now: self.count(),
                others: Vec::new(),
            },
        ];
        for (label, time) in [
            (words!(self, "fleet.busy"), busy),
            (words!(self, "fleet.communication"), communication),
            (words!(self, "fleet.idle"), idle),
        ] {
            let share = self.share(time).filter(Ratio::is_positive);
            tiles.extend(share.map(|share| Tile {
                label,
                now: share.into(),
                others: vec![(words!(self, "fleet.tile_time"), time.into())],
            }));
        }
        tiles
    }

    /// What the GPUs of each model do.
    fn chart(&self) -> Chart {
        let part = |label, color| Part::new(label, color);
        let bar = |group: &Group<'_>| Bar {
            label: group.name.clone(),
            values: group.parts().map(|time| time.0).to_vec(),
            note: self
                .share(group.time())
                .map(Quantity::from)
                .map_or_else(String::new, |share| share.to_string()),
        };
        let models = self.models();
        let models = models.iter().filter(|group| group.time().is_positive());
        let mut bars = vec![bar(&self.all)];
        bars.extend(models.take(BARS).map(bar));
        let chart = StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts: vec![
                part(words!(self, "fleet.busy"), Color::Busy),
                part(words!(self, "fleet.communication"), Color::Communication),
                part(words!(self, "fleet.idle"), Color::Idle),
            ],
            bars,
        };
        Chart {
            id: "fleet-models".to_owned(),
            title: words!(self, "fleet.chart"),
            description: words!(self, "fleet.chart_text"),
            plot: Plot::StackedBars(chart.without_empty_parts()),
        }
    }

    /// The findings with the largest bounds.
    fn cards(&self) -> Vec<ActionCard> {
        let mut cards = Vec::new();
        for bound in self.bounds.iter().take(CARDS) {
            let what = self.text.message(bound.rule, "do", &[]);
            let found = Quantity::count(bound.captures.len() as u64);
            let mut facts = vec![
                (
                    words!(self, "fleet.finding"),
                    vec![self.rule(bound.rule).into()],
                ),
                (
                    words!(self, "fleet.bound"),
                    say!(
                        self,
                        "fleet.bound_text",
                        time = bound.time(),
                        share = self.share(bound.time())
                    ),
                ),
                (
                    words!(self, "fleet.captures"),
                    say!(
                        self,
                        "fleet.found",
                        found = found,
                        all = self.count(),
                        runs = self.runs(bound)
                    ),
                ),
            ];
            if let Some(condition) = self.text.message(bound.rule, "if", &[]) {
                facts.push((words!(self, "fleet.condition"), condition));
            }
            cards.push(ActionCard {
                what: what.unwrap_or_else(|| vec![self.rule(bound.rule).into()]),
                facts,
                ..ActionCard::default()
            });
        }
        cards
    }

    /// The runs with the largest bounds.
    fn runs(&self, bound: &Bound<'_>) -> Vec<Inline> {
        let mut names: Vec<&str> = Vec::new();
        for (hash, _) in &bound.captures {
            let name = self.fleet.captures[*hash].run.as_str();
            if names.len() < NAMED && !names.contains(&name) {
                names.push(name);
            }
        }
        let mut runs: Vec<Inline> = Vec::new();
        for name in names {
            if !runs.is_empty() {
                runs.push(self.text.comma().into());
            }
            runs.push(Inline::code(name));
        }
        runs
    }

    /// What the times are of.
    fn basis(&self) -> Vec<Inline> {
        let captures = self.fleet.captures.values();
        let stated = captures.filter(|capture| capture.hours.is_some()).count();
        let stated = (stated > 0).then(|| Quantity::count(stated as u64));
        say!(self, "fleet.basis", stated = stated, all = self.count())
    }

    fn uses(&self) -> SectionContent {
        let table = columns! { self, "fleet_uses", used: &(&Use, Time) => {
            let (kind, label) = match used.0 {
                Use::Busy(class) => ("busy", class),
                Use::Idle(cause) => ("idle", cause),
            };
            text "use" = self.text.word(kind).to_owned(), page;
            text "of" = self.text.word(label).to_owned(), page;
            "gpu_time_ns" = used.1, page;
            share "share" = self.share(used.1), page;
        } };
        let mut content = SectionContent::default();
        add(
            &mut content,
            &table,
            &self.fleet.uses(),
            words!(self, "fleet.uses"),
        );
        content
    }

    fn findings(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let table = columns! { self, "fleet_findings", bound: &Bound<'a> => {
            let (hash, time) = bound.captures[0];
            text "finding" = self.rule(bound.rule), page;
            text "rule" = bound.rule;
            count "captures" = bound.captures.len(), page;
            "gpu_time_ns" = bound.time(), page;
            share "share" = self.share(bound.time()), page;
            name "run" = self.fleet.captures[hash].run.as_str(), page;
            "largest_ns" = time, page;
        } };
        add(
            &mut content,
            &table,
            &self.bounds,
            words!(self, "fleet.findings"),
        );
        let mut behind = Vec::new();
        for bound in &self.bounds {
            for (hash, time) in &bound.captures {
                behind.push((bound.rule, *hash, &self.fleet.captures[*hash], *time));
            }
        }
        let table = columns! { self, "fleet_bounds", row: &(&'a str, &'a str, &'a Capture, Time) => {
            let (rule, hash, capture, time) = *row;
            text "finding" = self.rule(rule), page;
            text "rule" = rule;
            name "run" = capture.run.as_str(), page;
            name "capture" = hash, page;
            name "model" = capture.model.as_str(), page;
            name "gpu" = capture.gpu.as_str(), page;
            "gpu_time_ns" = time, page;
        } };
        if !behind.is_empty() {
            let caption = words!(self, "fleet.bounds");
            content
                .blocks
                .push(Block::Table(table.view(caption, 10 * SHOWN)));
            content.datasets.push(table.rows(&behind));
        }
        content
    }

    fn models(&self) -> Vec<Group<'a>> {
        self.fleet
            .groups(|capture| std::slice::from_ref(&capture.model))
    }

    fn groups(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let gpus = self
            .fleet
            .groups(|capture| std::slice::from_ref(&capture.gpu));
        let labels = self.fleet.groups(|capture| &capture.labels);
        for (id, groups, caption) in [
            ("fleet_models", self.models(), words!(self, "fleet.models")),
            ("fleet_gpus", gpus, words!(self, "fleet.gpus")),
            ("fleet_labels", labels, words!(self, "fleet.labels")),
        ] {
            let table = columns! { self, id, group: &Group<'a> => {
                let largest = group.largest();
                let [busy, communication, idle] = group.parts();
                let time = group.time();
                let of_group = |part: Time| time.is_positive().then(|| Ratio::of(part, time));
                name "group" = group.name.as_str(), page;
                count "captures" = group.captures.len(), page;
                "gpu_time_ns" = time, page;
                share "share" = self.share(time), page;
                share "busy_share" = of_group(busy + communication), page;
                share "communication_share" = of_group(communication);
                share "idle_share" = of_group(idle);
                text "finding" = largest.map(|(rule, _)| self.rule(rule)), page;
                share "finding_share" = largest.and_then(|(_, bound)| of_group(bound)), page;
            } };
            add(&mut content, &table, &groups, caption);
        }
        content
    }

    fn trends(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let mut parts = Vec::new();
        for series in &self.fleet.changed {
            for number in 0..series.changes.len() {
                parts.push((series, number));
            }
        }
        if parts.is_empty() {
            content
                .main
                .push(Block::Prose(say!(self, "fleet.no_change")));
            return content;
        }
        let table = columns! { self, "fleet_trends", part: &(&'a Series, usize) => {
            let (series, number) = *part;
            let change = series.changes[number];
            let (model, gpu, gpus, workload, stage) = &series.key;
            name "model" = model.as_str(), page;
            name "gpu" = gpu.as_str(), page;
            count "gpus" = *gpus;
            name "workload" = workload.as_str();
            name "stage" = stage.as_str(), page;
            text "from" = series.points[change.at].day.as_str(), page;
            count "captures" = series.points.iter().map(|point| point.captures).sum::<usize>(), page;
            One "times" = change.ratio.0, page;
            One "times_low" = change.interval.0.0, page;
            One "times_high" = change.interval.1.0, page;
            One "p" = change.p;
        } };
        add(&mut content, &table, &parts, words!(self, "fleet.trends"));
        content.main.push(Block::Chart(self.changes()));
        content
    }

    /// The times of the stages that changed.
    fn changes(&self) -> Chart {
        let mut drawn: Vec<&Series> = self.fleet.changed.iter().collect();
        drawn.truncate(TRACKS);
        let days = || {
            drawn
                .iter()
                .flat_map(|series| &series.points)
                .map(|point| day_number(&point.day))
        };
        let (first, last) = (days().min().unwrap_or(0), days().max().unwrap_or(0));
        let track = |series: &&Series| {
            let point =
                |point: &super::fleet::Point| (day_number(&point.day) - first, point.time.0);
            let (model, gpu, _, _, stage) = &series.key;
            let line = Line {
                name: String::new(),
                filled: false,
                points: series.points.iter().map(point).collect(),
            };
            Track::Lines(Lines {
                label: [model, gpu, stage].map(String::as_str).join(" · "),
                unit: Unit::Nanoseconds,
                lines: vec![line],
                shades: None,
                outliers: Vec::new(),
            })
        };
        let earliest = drawn
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.day.as_str())
            .min();
        Chart {
            id: "fleet-trends".to_owned(),
            title: words!(self, "fleet.trend_chart", day = earliest),
            description: words!(self, "fleet.trend_text"),
            plot: Plot::Tracks(Tracks {
                x_label: words!(self, "fleet.axis"),
                x_unit: Unit::Count,
                extent: (last - first).max(1),
                bands: Vec::new(),
                tracks: drawn.iter().map(track).collect(),
            }),
        }
    }

    fn captures(&self) -> SectionContent {
        let table = columns! { self, "fleet_captures", row: &(&'a str, &'a Capture) => {
            let (hash, capture) = *row;
            name "run" = capture.run.as_str(), page;
            name "capture" = hash;
            text "day" = capture.day.clone(), page;
            name "model" = capture.model.as_str(), page;
            name "gpu" = capture.gpu.as_str(), page;
            name "labels" = capture.labels.join(",");
            "captured_ns" = capture.captured, page;
            "gpu_time_ns" = capture.time(), page;
        } };
        let mut rows = self.all.captures.clone();
        rows.sort_by(|one, other| other.1.time().total_cmp(&one.1.time()));
        SectionContent {
            blocks: vec![Block::Table(
                table.view(words!(self, "fleet.all_captures"), 10 * SHOWN),
            )],
            datasets: vec![table.rows(&rows)],
            ..SectionContent::default()
        }
    }
}

/// Adds a table and its data set, if it has rows.
fn add<R>(content: &mut SectionContent, table: &Table<'_, R>, rows: &[R], caption: String) {
    if !rows.is_empty() {
        content.main.push(Block::Table(table.view(caption, SHOWN)));
        content.datasets.push(table.rows(rows));
    }
}

/// Days since 1970-01-01 of a day, or of the first of a month (Hinnant, `days_from_civil`).
pub(crate) fn day_number(day: &str) -> i64 {
    let mut parts = day.split('-').map(|part| part.parse::<i64>().unwrap_or(1));
    let [year, month, day] = [(); 3].map(|()| parts.next().unwrap_or(1));
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
