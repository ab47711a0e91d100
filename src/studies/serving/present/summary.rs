//! The first page: conclusion with its number, cause, action; figures against their levels; how far they carry.

use rooflens_document::{Block, Cell, Inline, Quantity, SectionContent, Table, say, words};
use rooflens_schemas::Unit;

use super::latency::name;
use super::{Page, time};
use crate::analysis::advice::Advice;
use crate::analysis::bottleneck::{Bottleneck, Limit};
use crate::analysis::changes::Verdict;
use crate::analysis::figures::Measure;
use crate::analysis::sweep::Sweep;
use crate::analysis::thresholds::{Grade, Level};
use crate::model::Tool;

/// Requests below which a 99th percentile is little more than the longest ones.
const FEW: usize = 100;

/// A row of figures.
struct Figure {
    label: String,
    value: Quantity,
    /// At the largest load of the sweep.
    at_last: Option<Quantity>,
    /// Where it is good, and where bad.
    levels: Option<(String, String)>,
    grade: Option<Grade>,
}

/// Title of the report.
pub(super) fn title(page: &Page<'_>) -> String {
    let model = page.results.runs[page.results.headline].model.clone();
    let is_only = |model: &String| {
        page.results
            .runs
            .iter()
            .all(|run| run.model.as_ref().is_none_or(|own| own == model))
    };
    match model.filter(is_only) {
        Some(model) => words!(page, "serving.title_of", model = model),
        None => words!(page, "serving.title"),
    }
}

/// Lines of the cover.
pub(super) fn facts(page: &Page<'_>) -> Vec<(String, String)> {
    let runs = page.results.runs;
    let all = |of: fn(&crate::model::Run) -> Option<String>| {
        let mut values: Vec<String> = runs.iter().filter_map(of).collect();
        values.sort_unstable();
        values.dedup();
        (!values.is_empty()).then(|| values.join(page.text.comma()))
    };
    // What an engine counts are the requests of the load tests beside it.
    let is_test = |run: &crate::model::Run| run.tool != Tool::EngineMetrics;
    let has_tests = runs.iter().any(is_test);
    let counted = page.runs().filter(|(_, run)| is_test(run) || !has_tests);
    let requests: f64 = counted
        .filter_map(|(run, _)| page.results.figures[run].completed)
        .sum();
    let lines = [
        (
            words!(page, "serving.fact.model"),
            all(|run| run.model.clone()),
        ),
        (words!(page, "serving.fact.gpu"), all(|run| run.gpu.clone())),
        (
            words!(page, "serving.fact.tool"),
            all(|run| Some(run.tool.label().to_owned())),
        ),
        (
            words!(page, "serving.fact.runs"),
            Some(runs.len().to_string()),
        ),
        (
            words!(page, "serving.fact.requests"),
            (requests > 0.0).then(|| Quantity::new(requests, Unit::Count).to_string()),
        ),
    ];
    lines
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// The blocks of the first page, with their tables.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    findings.blocks.push(Block::Prose(bottom_line(page)));
    let figures = figures(page);
    let table = figure_table(page, &figures);
    let of = page.which().map(str::to_owned).or_else(|| load(page));
    let caption = words!(page, "serving.figures", of = of);
    findings
        .blocks
        .push(Block::Table(table.view(caption, figures.len())));
    findings.datasets.push(table.rows(&figures));
    let advice: Vec<(usize, &Advice)> = (1..).zip(&page.results.advice).collect();
    let table = advice_table(page);
    if !advice.is_empty() {
        let caption = words!(page, "serving.advice");
        findings
            .blocks
            .push(Block::Table(table.view(caption, advice.len())));
    } else {
        findings
            .blocks
            .push(Block::Prose(say!(page, "serving.no_advice")));
    }
    findings.datasets.push(table.rows(&advice));
    let mut part = |heading: String, items: Vec<Vec<Inline>>| {
        if !items.is_empty() {
            findings.blocks.push(Block::Heading(heading));
            findings.blocks.push(Block::List(items));
        }
    };
    part(words!(page, "serving.limits"), limits(page));
    findings
}

/// The load of the run of the first page.
fn load(page: &Page<'_>) -> Option<String> {
    page.load_of(&page.results.runs[page.results.headline])
}

/// Conclusion, cause, action.
fn bottom_line(page: &Page<'_>) -> Vec<Inline> {
    let run = page.results.headline;
    let found = &page.results.bottlenecks[run];
    let mut said = vec![conclusion(page, run)];
    said.extend(tried(page));
    said.extend(bad(page, run));
    let sweep = page.results.sweep_of(run);
    said.extend(sweep.and_then(|sweep| beyond(page, sweep)));
    said.extend(sweep.and_then(|sweep| super::sweep::best_goodput(page, sweep)));
    said.push(cause(page, cause_of(page, sweep, found)));
    said.extend(page.results.advice.first().map(|first| {
        let (action, ..) = advice(page, first);
        say!(page, "serving.action", action = action)
    }));
    said.join(&Inline::from(page.text.space()))
}

/// What limits beyond the knee is what the largest load shows.
fn cause_of<'a>(
    page: &'a Page<'_>,
    sweep: Option<&Sweep>,
    found: &'a Bottleneck,
) -> &'a Bottleneck {
    let last = sweep
        .filter(|sweep| sweep.knee.is_some())
        .and_then(|sweep| sweep.points.last());
    last.map_or(found, |last| &page.results.bottlenecks[last.run])
}

fn conclusion(page: &Page<'_>, run: usize) -> Vec<Inline> {
    let figures = &page.results.figures[run];
    let median = |measure| figures.typical(measure).map(time);
    let (ttft, tpot) = (median(Measure::Ttft), median(Measure::Tpot));
    let tokens = figures
        .output_rate
        .map(|rate| Quantity::new(rate, Unit::TokensPerSecond));
    let requests = figures
        .request_rate
        .map(|rate| Quantity::new(rate, Unit::RequestsPerSecond));
    let strong = |rate: Quantity| Inline::strong(rate.to_string());
    let Some(rate) = tokens.or(requests).map(strong) else {
        let latency = median(Measure::Latency);
        return say!(
            page,
            "serving.conclusion.latency",
            ttft = ttft,
            tpot = tpot,
            latency = latency
        );
    };
    let sweep = page.results.sweep_of(run);
    let (load, ttft_tpot) = (load(page), (ttft, tpot));
    match sweep.map(|sweep| sweep.knee.is_some()) {
        Some(true) => say!(
            page,
            "serving.conclusion.knee",
            load = load,
            rate = rate,
            ttft = ttft_tpot.0,
            tpot = ttft_tpot.1
        ),
        Some(false) => say!(
            page,
            "serving.conclusion.rising",
            load = load,
            rate = rate,
            ttft = ttft_tpot.0,
            tpot = ttft_tpot.1
        ),
        None => say!(
            page,
            "serving.conclusion.one",
            load = load,
            rate = rate,
            ttft = ttft_tpot.0,
            tpot = ttft_tpot.1
        ),
    }
}

/// How other setups fared.
fn tried(page: &Page<'_>) -> Option<Vec<Inline>> {
    let changes = &page.results.changes;
    let best = crate::analysis::changes::best(changes)?;
    let worked = changes
        .iter()
        .filter(|change| change.verdict == Verdict::Better)
        .count();
    let label = |run: usize| page.results.runs[run].label.as_str();
    let settings = super::setups::settings(page, best);
    let has_worked = (worked > 0).then_some(());
    Some(say!(
        page,
        "serving.tried",
        worked = Quantity::count(worked as u64),
        tried = Quantity::count(changes.len() as u64),
        baseline = label(best.baseline),
        best = has_worked.map(|()| label(best.run)),
        settings = has_worked.and(settings),
        change = has_worked.and(best.changes[0]).map(Quantity::ratio),
    ))
}

/// Figures at a bad level.
fn bad(page: &Page<'_>, run: usize) -> Vec<Vec<Inline>> {
    let figures = &page.results.figures[run];
    let levels = &page.results.options.thresholds;
    let tokens = |rate: f64| Quantity::new(rate, Unit::TokensPerSecond);
    let is_bad = |measure: &Measure| levels.of(figures, *measure) == Some(Grade::Bad);
    let measures = [Measure::Ttft, Measure::Tpot].into_iter().filter(is_bad);
    let times = measures.filter_map(|measure| {
        let limit = levels.level(measure)?.bad * 1e6;
        Some((
            format!("{} P50", name(page, measure)),
            time(figures.typical(measure)?),
            time(limit),
        ))
    });
    let level = &levels.output_tokens_per_second;
    let rate = figures
        .output_rate
        .filter(|rate| level.grade(*rate) == Grade::Bad);
    let rate = rate.map(|rate| {
        (
            words!(page, "serving.figure.output"),
            tokens(rate),
            tokens(level.bad),
        )
    });
    let said = times.chain(rate);
    said.map(|(what, value, limit)| {
        say!(
            page,
            "serving.bad",
            what = what,
            value = value,
            limit = limit
        )
    })
    .collect()
}

/// What more load brings.
fn beyond(page: &Page<'_>, sweep: &Sweep) -> Option<Vec<Inline>> {
    let knee = &sweep.points[sweep.knee?];
    let last = sweep.points.last()?;
    let ttft = |run: usize| page.results.figures[run].typical(Measure::Ttft).map(time);
    Some(say!(
        page,
        "serving.beyond",
        load = page.load(sweep.axis, last.load),
        times = Quantity::new(last.load / knee.load, Unit::One),
        ratio = Quantity::new(last.throughput / knee.throughput, Unit::One),
        before = ttft(knee.run),
        after = ttft(last.run),
    ))
}

/// What limits a run, with the number that says so.
fn cause(page: &Page<'_>, found: &Bottleneck) -> Vec<Inline> {
    let factor = found
        .tpot_factor
        .map(|factor| Quantity::new(factor, Unit::One));
    match found.limit {
        Limit::Queue => say!(
            page,
            "serving.cause.queue",
            share = found
                .waiting
                .map(|waiting| Quantity::ratio(waiting.share())),
            queue = found.waiting.map(|waiting| time(waiting.queue)),
        ),
        Limit::KvCache => say!(
            page,
            "serving.cause.kv",
            share = found.engine.and_then(|one| one.kv_p95).map(Quantity::ratio),
            preemptions = found
                .engine
                .and_then(|one| one.preemptions)
                .filter(|count| *count > 0.0)
                .map(|count| Quantity::new(count, Unit::Count)),
            waiting = found
                .engine
                .and_then(|one| one.waiting)
                .map(|mean| Quantity::new(mean, Unit::One)),
        ),
        Limit::Compute => say!(page, "serving.cause.compute", factor = factor),
        Limit::Bandwidth => say!(page, "serving.cause.bandwidth", factor = factor),
        Limit::Bound => say!(page, "serving.cause.bound", factor = factor),
        Limit::Scheduling => say!(page, "serving.cause.scheduling", factor = factor),
        Limit::Stalls => {
            let ratio = found.stalls.map(|ratio| Quantity::new(ratio, Unit::One));
            say!(page, "serving.cause.stalls", ratio = ratio)
        }
        Limit::Unknown => say!(page, "serving.cause.unknown"),
    }
}

fn figures(page: &Page<'_>) -> Vec<Figure> {
    let results = page.results;
    let run = results.headline;
    let own = &results.figures[run];
    let last = results
        .sweep_of(run)
        .and_then(|sweep| sweep.points.last())
        .filter(|last| last.run != run);
    let other = last.map(|last| &results.figures[last.run]);
    let levels = &results.options.thresholds;
    let ms = |level: &Level| bounds(level, |ms| time(ms * 1e6));
    let mut rows = Vec::new();
    for measure in [Measure::Ttft, Measure::Tpot, Measure::Itl, Measure::Latency] {
        for (index, label) in [(0, "P50"), (3, "P99")] {
            let at = |figures: &crate::analysis::figures::Figures| {
                figures.dist(measure).spread.percentiles[index]
            };
            let Some(value) = at(own) else { continue };
            let level = levels.level(measure).filter(|_| index == 0);
            rows.push(Figure {
                label: format!("{}, {label}", name(page, measure)),
                value: time(value),
                at_last: other.and_then(at).map(time),
                levels: level.map(ms),
                grade: level.map(|level| level.grade(value / 1e6)),
            });
        }
    }
    let tokens = |rate: f64| Quantity::new(rate, Unit::TokensPerSecond);
    let requests = |rate: f64| Quantity::new(rate, Unit::RequestsPerSecond);
    let level = &levels.output_tokens_per_second;
    rows.extend(own.output_rate.map(|rate| Figure {
        label: words!(page, "serving.figure.output"),
        value: tokens(rate),
        at_last: other.and_then(|one| one.output_rate).map(tokens),
        levels: Some(bounds(level, tokens)),
        grade: Some(level.grade(rate)),
    }));
    rows.extend(own.request_rate.map(|rate| Figure {
        label: words!(page, "serving.figure.requests"),
        value: requests(rate),
        at_last: other.and_then(|one| one.request_rate).map(requests),
        levels: None,
        grade: None,
    }));
    let goodput = |run: usize| results.goodput[run].and_then(|one| one.rate).map(requests);
    rows.extend(goodput(run).map(|value| Figure {
        label: words!(page, "serving.figure.goodput"),
        value,
        at_last: last.and_then(|last| goodput(last.run)),
        levels: None,
        grade: None,
    }));
    rows.extend(utilization(page));
    rows
}

/// Mean utilization of all GPUs.
fn utilization(page: &Page<'_>) -> Option<Figure> {
    let shares: Vec<f64> = page
        .results
        .gpus
        .iter()
        .filter_map(|gpu| gpu.utilization)
        .collect();
    let mean = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)?;
    let levels = &page.results.options.thresholds;
    let range = &levels.gpu_utilization_percent;
    let (low, high) = (
        Quantity::ratio(range.low / 100.0),
        Quantity::ratio(range.high / 100.0),
    );
    Some(Figure {
        label: words!(page, "serving.figure.gpu"),
        value: Quantity::ratio(mean),
        at_last: None,
        levels: Some((format!("{low} – {high}"), format!("< {low}"))),
        grade: Some(levels.utilization(mean)),
    })
}

/// Where a figure is good and where it is bad.
fn bounds(level: &Level, quantity: impl Fn(f64) -> Quantity) -> (String, String) {
    let (good, bad) = if level.good > level.bad {
        (">", "<")
    } else {
        ("<", ">")
    };
    (
        format!("{good} {}", quantity(level.good)),
        format!("{bad} {}", quantity(level.bad)),
    )
}

fn figure_table<'t>(page: &Page<'_>, figures: &[Figure]) -> Table<'t, Figure> {
    Table::new(page.text, "serving_figures")
        .text("figure", |one: &Figure| one.label.clone())
        .on_page()
        .text("unit", |one| one.value.base())
        .text("value", |one| Cell::Quantity(one.value))
        .on_page()
        .text("at_largest_load", |one| one.at_last.map(Cell::Quantity))
        .on_page_if(figures.iter().any(|one| one.at_last.is_some()))
        .text("good", |one| {
            one.levels.as_ref().map(|levels| levels.0.clone())
        })
        .on_page()
        .text("bad", |one| {
            one.levels.as_ref().map(|levels| levels.1.clone())
        })
        .on_page()
        .text("grade", |one| one.grade.map(Grade::id))
        .on_page()
}

fn advice_table<'t>(page: &'t Page<'_>) -> Table<'t, (usize, &'t Advice)> {
    Table::new(page.text, "serving_advice")
        .count("number", |(number, _): &(usize, &Advice)| *number)
        .name("setting", |(_, one)| one.setting())
        .text("action", |(_, one)| advice(page, one).0)
        .text("reason", |(_, one)| advice(page, one).1)
        .text("effect", |(_, one)| advice(page, one).2)
        .all_on_page()
}

/// What to do, why, and what it brings.
fn advice(page: &Page<'_>, advice: &Advice) -> (String, String, String) {
    let count = |value: f64| Quantity::new(value, Unit::Count);
    let one = |value: f64| Quantity::new(value, Unit::One);
    match advice {
        Advice::CapAtKnee {
            requests,
            last,
            axis,
            ttft,
            kept,
        } => (
            words!(page, "serving.cap.do", requests = count(*requests)),
            words!(
                page,
                "serving.cap.why",
                load = page.load(*axis, *last),
                ttft = time(ttft.0)
            ),
            words!(
                page,
                "serving.cap.effect",
                ttft = time(ttft.1),
                kept = Quantity::ratio(*kept)
            ),
        ),
        Advice::FewerSequences {
            kv,
            preemptions,
            running,
        } => (
            words!(
                page,
                "serving.fewer.do",
                running = count(libm::floor(*running))
            ),
            words!(
                page,
                "serving.fewer.why",
                kv = Quantity::ratio(*kv),
                preemptions = preemptions.map(count)
            ),
            words!(
                page,
                "serving.fewer.effect",
                preemptions = preemptions.map(count)
            ),
        ),
        Advice::MoreKvCache { kv, now } => (
            words!(page, "serving.more_kv.do", now = now.map(one)),
            words!(page, "serving.more_kv.why", kv = Quantity::ratio(*kv)),
            words!(page, "serving.more_kv.effect"),
        ),
        Advice::SmallerKvCache { kv } => (
            words!(page, "serving.fp8_kv.do"),
            words!(page, "serving.more_kv.why", kv = Quantity::ratio(*kv)),
            words!(page, "serving.fp8_kv.effect"),
        ),
        Advice::MoreSequences {
            waiting,
            running,
            kv,
        } => (
            words!(page, "serving.more.do", running = count(*running)),
            words!(
                page,
                "serving.more.why",
                waiting = one(*waiting),
                kv = Quantity::ratio(*kv)
            ),
            words!(page, "serving.more.effect", waiting = one(*waiting)),
        ),
        Advice::SmallerPrefills { itl } => (
            words!(page, "serving.prefill.do"),
            words!(
                page,
                "serving.prefill.why",
                p50 = time(itl.0),
                p99 = time(itl.1)
            ),
            words!(page, "serving.prefill.effect", p50 = time(itl.0)),
        ),
        Advice::Quantize { tpot, bound } => (
            words!(page, "serving.quantize.do"),
            words!(
                page,
                "serving.quantize.why",
                tpot = time(*tpot),
                bound = time(*bound)
            ),
            words!(page, "serving.quantize.effect", half = time(*tpot / 2.0)),
        ),
        Advice::MoreGpus {
            measure,
            bound,
            limit,
        } => (
            words!(page, "serving.gpus_more.do"),
            words!(
                page,
                "serving.gpus_more.why",
                what = name(page, *measure),
                bound = time(*bound),
                limit = time(*limit)
            ),
            words!(page, "serving.gpus_more.effect", half = time(*bound / 2.0)),
        ),
        Advice::MoreLoad { last, axis } => (
            words!(page, "serving.load_more.do", load = page.load(*axis, *last)),
            words!(page, "serving.load_more.why"),
            words!(page, "serving.load_more.effect"),
        ),
    }
}

/// How far the figures carry.
fn limits(page: &Page<'_>) -> Vec<Vec<Inline>> {
    let results = page.results;
    let mut said = Vec::new();
    let names = |holds: &dyn Fn(usize) -> bool| {
        let runs = page.runs().filter(|(index, _)| holds(*index));
        let all: Vec<&str> = runs.map(|(_, run)| run.label.as_str()).collect();
        let shown = all
            .iter()
            .take(4)
            .copied()
            .collect::<Vec<_>>()
            .join(page.text.comma());
        match all.len() {
            0 => None,
            count if count > 4 => Some(words!(
                page,
                "serving.and_more",
                names = shown,
                count = Quantity::count(count as u64 - 4)
            )),
            _ => Some(shown),
        }
    };
    let few = |run: usize| (1..FEW).contains(&results.runs[run].requests.len());
    said.extend(names(&few).map(|runs| {
        say!(
            page,
            "serving.few",
            runs = runs,
            few = Quantity::count(FEW as u64)
        )
    }));
    let is_engine = |run: usize| results.runs[run].tool == Tool::EngineMetrics;
    let stated = |run: usize| results.runs[run].requests.is_empty() && !is_engine(run);
    said.extend(names(&stated).map(|runs| say!(page, "serving.stated", runs = runs)));
    let bucketed = |run: usize| is_engine(run) && !results.runs[run].stated.ttft.is_empty();
    said.extend(names(&bucketed).map(|runs| say!(page, "serving.bucketed", runs = runs)));
    let closed = |run: usize| {
        let load = &results.runs[run].load;
        load.rate.is_none() && load.concurrency.is_some()
    };
    said.extend(names(&closed).map(|runs| say!(page, "serving.closed", runs = runs)));
    if results.gpus_elsewhere {
        said.push(say!(page, "serving.elsewhere"));
    }
    if results.options.predicted.is_none() {
        said.push(say!(page, "serving.unpredicted"));
    }
    said
}
