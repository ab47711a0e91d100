//! The pages of compared load tests and microbenchmarks.

use rooflens_document::chart::{Color, NO_SHARE, Plot, Point, Scatter};
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Cell, Chart, Inline, Quantity, SectionContent, Table, columns, method, say,
    words,
};
use rooflens_schemas::Unit;
use rooflens_serving::analysis::figures::Measure;
use rooflens_serving::runs::Load;
use rooflens_units::{Count, Ratio};

use crate::times::{CONFIDENCE, Verdict};
use crate::{Pair, load_tests, microbenchmarks};

/// Rows that pages show of operations.
const SHOWN: usize = 40;

/// Words for a comparison.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) text: &'static Catalogue,
    pub(super) least: Ratio,
}

/// A factor with what it is of.
struct Row {
    name: String,
    ratio: Ratio,
    verdict: Verdict,
}

/// The report of compared load tests. `provenance` has no title and no facts yet.
pub fn report_of_load_tests(
    comparison: &load_tests::Comparison,
    text: &'static Catalogue,
    provenance: Provenance<'_>,
) -> Report {
    let words = Words {
        text,
        least: comparison.least,
    };
    let mut rows = Vec::new();
    for change in &comparison.changes {
        for percentile in &change.percentiles {
            rows.push((change, percentile));
        }
    }
    // By latency, so that a table has times of one size; the loads stay in their order.
    rows.sort_by_key(|(_, percentile)| percentile.measure);
    let factors = rows.iter().map(|(change, percentile)| Row {
        name: words!(
            words,
            "compare.at_load",
            latency = words.measure(percentile.measure),
            percent = percentile.percent.to_string(),
            load = words.load(change.load)
        ),
        ratio: percentile.ratio,
        verdict: percentile.verdict,
    });
    let title = words.conclusion(factors);
    let mut content = SectionContent::default();
    let rates = words.rates();
    type Latency<'a> = (&'a load_tests::Change, &'a load_tests::Percentile);
    let latencies = columns! { words, "compare_latency", (change, percentile): &Latency<'_> => {
        let interval = percentile.interval;
        text "load" = words.load(change.load), page;
        text "latency" = words.measure(percentile.measure);
        text "percentile" = format!("P{}", percentile.percent), page;
        count "samples_before" = percentile.samples.before, page;
        count "samples_after" = percentile.samples.after, page;
        time "before_ns" = percentile.time.before, page;
        time "after_ns" = percentile.time.after, page;
        share "change" = percentile.ratio - Ratio::ONE, page;
        share "change_low" = interval.map(|(low, _)| low - Ratio::ONE), page;
        share "change_high" = interval.map(|(_, high)| high - Ratio::ONE), page;
        text "verdict" = words.text.word(percentile.verdict.label()), page;
    } };
    let of_rates = words!(words, "compare.throughput");
    content
        .blocks
        .push(Block::Table(rates.view(of_rates, SHOWN)));
    content
        .blocks
        .extend(words.frontier(comparison).map(Block::Chart));
    let mut details = SectionContent::default();
    for measure in Measure::ALL {
        let is_of_measure = |row: &Latency<'_>| row.1.measure == measure;
        let count = rows.iter().filter(|row| is_of_measure(row)).count();
        if count == 0 {
            continue;
        }
        let caption = words!(
            words,
            "compare.latency",
            latency = words.measure(measure),
            confidence = CONFIDENCE
        );
        let first = rows.iter().position(is_of_measure).unwrap_or_default();
        let view = latencies.view(caption, SHOWN).of_group(first, count);
        match measure {
            Measure::Ttft | Measure::Tpot => content.blocks.push(Block::Table(view)),
            _ => details.main.push(Block::Table(view)),
        }
    }
    content
        .blocks
        .extend(words.alone(comparison).map(Block::Prose));
    content.datasets = vec![latencies.rows(&rows), rates.rows(&comparison.changes)];
    content.methods = vec![method!(
        words,
        "compare_load_tests",
        confidence = CONFIDENCE,
        least = words.least
    )];
    words.report(title, &comparison.name, [content, details], provenance)
}

/// The report of compared microbenchmarks. `provenance` has no title and no facts yet.
pub fn report_of_microbenchmarks(
    comparison: &microbenchmarks::Comparison,
    text: &'static Catalogue,
    provenance: Provenance<'_>,
) -> Report {
    let words = Words {
        text,
        least: comparison.least,
    };
    let factors = comparison.changes.iter().map(|change| Row {
        name: change.name.clone(),
        ratio: change.ratio,
        verdict: change.verdict,
    });
    let title = words.conclusion(factors);
    let mut rows: Vec<&microbenchmarks::Change> = comparison.changes.iter().collect();
    let size = |change: &microbenchmarks::Change| factor(change.ratio);
    let is_open = |change: &microbenchmarks::Change| {
        matches!(change.verdict, Verdict::Same | Verdict::CannotTell)
    };
    rows.sort_by(|a, b| {
        let by_verdict = is_open(a).cmp(&is_open(b));
        by_verdict.then_with(|| size(b).total_cmp(&size(a)))
    });
    type Operation<'a> = &'a microbenchmarks::Change;
    let table = columns! { words, "compare_operations", change: &Operation<'_> => {
        let range = change.range;
        name "gpu" = change.gpu.as_str();
        name "operation" = change.name.as_str(), page;
        name "implementation_before" = change.implementation.before.as_str();
        name "implementation_after" = change.implementation.after.as_str();
        time "before_ns" = change.time.before;
        time "after_ns" = change.time.after;
        text "before" = Cell::Quantity(change.figure.before), page;
        text "after" = Cell::Quantity(change.figure.after), page;
        share "change" = change.ratio - Ratio::ONE, page;
        share "change_low" = range.map(|(low, _)| low - Ratio::ONE), page;
        share "change_high" = range.map(|(_, high)| high - Ratio::ONE), page;
        text "verdict" = words.text.word(change.verdict.label()), page;
    } };
    let mut content = SectionContent::default();
    let caption = words!(words, "compare.operations");
    content
        .blocks
        .push(Block::Table(table.view(caption, SHOWN)));
    let alone = comparison.alone;
    if alone.before + alone.after > 0 {
        content.blocks.push(Block::Prose(say!(
            words,
            "compare.operations_alone",
            before = Quantity::count(alone.before as u64),
            after = Quantity::count(alone.after as u64)
        )));
    }
    content.datasets.push(table.rows(&rows));
    content.methods = vec![method!(
        words,
        "compare_microbenchmarks",
        least = words.least
    )];
    let contents = [content, SectionContent::default()];
    words.report(title, &comparison.name, contents, provenance)
}

impl Words {
    fn rates<'t>(self) -> Table<'t, load_tests::Change> {
        columns! { self, "compare_throughput", change: &load_tests::Change => {
            text "load" = self.load(change.load), page;
            name "before" = change.label.before.as_str();
            name "after" = change.label.after.as_str();
            "request_rate_before" = change.request_rate.before, page;
            "request_rate_after" = change.request_rate.after, page;
            "output_rate_before" = change.output_rate.before, page;
            "output_rate_after" = change.output_rate.after, page;
        } }
    }

    /// Runs that are not compared.
    fn alone(self, comparison: &load_tests::Comparison) -> Option<Vec<Inline>> {
        let shown = |names: &Vec<String>| (!names.is_empty()).then(|| names.join(", "));
        let Pair { before, after } = Pair::of(&comparison.alone, shown);
        (before.is_some() || after.is_some())
            .then(|| say!(self, "compare.loads_alone", before = before, after = after))
    }

    /// Median time to first token over throughput, a mark per load and side.
    fn frontier(&self, comparison: &load_tests::Comparison) -> Option<Chart> {
        let mut points = Vec::new();
        for change in &comparison.changes {
            let mut percentiles = change.percentiles.iter();
            let ttft = percentiles.find(|percentile| percentile.measure == Measure::Ttft)?;
            let sides = [
                (
                    words!(self, "compare.before"),
                    change.output_rate.before?,
                    ttft.time.before,
                    Color::Before,
                ),
                (
                    words!(self, "compare.after"),
                    change.output_rate.after?,
                    ttft.time.after,
                    Color::After,
                ),
            ];
            for (side, rate, time, color) in sides {
                points.push(Point {
                    label: format!("{side}, {}", self.load(change.load)),
                    x: rate.0,
                    y: time.0 / 1e6,
                    weight: NO_SHARE,
                    color,
                    hollow: false,
                });
            }
        }
        let most = |value: fn(&Point) -> f64| points.iter().map(value).fold(0.0, f64::max) * 1.1;
        let (x_max, y_max) = (most(|point| point.x), most(|point| point.y));
        (comparison.changes.len() > 1).then(|| Chart {
            id: "compare-throughput".to_owned(),
            title: words!(self, "compare.frontier"),
            description: words!(self, "compare.frontier_description"),
            plot: Plot::Scatter(Scatter {
                x_label: words!(self, "serving.axis.output"),
                y_label: words!(self, "serving.axis.ttft"),
                x_max,
                y_max,
                diagonal: false,
                points,
            }),
        })
    }

    /// The row that changed most of those that are known to have changed, as a title.
    fn conclusion(&self, rows: impl Iterator<Item = Row>) -> String {
        let rows: Vec<Row> = rows.collect();
        let decided = rows
            .iter()
            .filter(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse));
        let largest = decided.max_by(|a, b| factor(a.ratio).total_cmp(&factor(b.ratio)));
        let Some(row) = largest else {
            return match rows.iter().all(|row| row.verdict == Verdict::Same) {
                true => words!(self, "compare.same_measurements", least = self.least),
                false => words!(self, "compare.cannot_tell_measurements"),
            };
        };
        let stage = row.name.as_str();
        let factor = Quantity::new(factor(row.ratio).0, Unit::One);
        match row.verdict {
            Verdict::Better => words!(self, "compare.better", stage = stage, factor = factor),
            _ => words!(self, "compare.worse", stage = stage, factor = factor),
        }
    }

    fn measure(&self, measure: Measure) -> String {
        match measure {
            Measure::Ttft => words!(self, "serving.measure.ttft"),
            Measure::Tpot => words!(self, "serving.measure.tpot"),
            Measure::Itl => words!(self, "serving.measure.itl"),
            Measure::Latency => words!(self, "serving.measure.e2e"),
            Measure::Queued => words!(self, "serving.measure.queue"),
        }
    }

    fn load(&self, load: Load) -> String {
        let count = |count: Count| words!(self, "serving.concurrent", count = count);
        match (load.rate, load.concurrency) {
            (Some(rate), _) => Quantity::from(rate).to_string(),
            (None, Some(concurrency)) => count(concurrency),
            (None, None) if load.burst => words!(self, "serving.burst"),
            (None, None) => words!(self, "compare.any_load"),
        }
    }

    fn report(
        &self,
        title: String,
        name: &Pair<String>,
        [content, details]: [SectionContent; 2],
        mut provenance: Provenance<'_>,
    ) -> Report {
        provenance.title = Some(title);
        provenance.facts = vec![
            (words!(self, "compare.before"), name.before.clone()),
            (words!(self, "compare.after"), name.after.clone()),
        ];
        provenance.glossary = "compare_glossary";
        let mut document = Document::new(self.text, &provenance);
        document.summary(content);
        document.section(
            "compare_latency",
            self.text.heading("compare_latency"),
            details,
        );
        document.build_of_artifacts()
    }
}

/// How many times as long the longer of both times is.
fn factor(ratio: Ratio) -> Ratio {
    ratio.max(Ratio(1.0 / ratio.0))
}
