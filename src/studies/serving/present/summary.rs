//! The first page: conclusion with its number, cause, action; figures against their levels; how far they carry.

use rooflens_document::{
    Block, Cell, Inline, Quantity, SectionContent, Table, columns, say, words,
};
use rooflens_schemas::Unit;
use rooflens_units::{Count, Ratio, Time};

use super::latency::name;
use super::{Page, names, times};
use crate::analysis::advice::Advice;
use crate::analysis::bottleneck::{BEYOND_BOUND, Bottleneck, Limit};
use crate::analysis::changes::{Change, Verdict};
use crate::analysis::figures::{Figures, Measure};
use crate::analysis::sweep::Sweep;
use crate::analysis::thresholds::{Grade, Level};
use crate::runs::Run;

/// Requests below which a 99th percentile is little more than the longest ones.
const FEW: usize = 100;

/// A row of figures.
struct FirstPageFigure {
    label: String,
    value: Quantity,
    /// At the largest load of the sweep.
    at_last: Option<Quantity>,
    /// Where it is good, and where bad.
    levels: Option<(String, String)>,
    /// The limit that the user states, and whether the figure keeps it.
    limit: Option<(Time, bool)>,
    grade: Option<Grade>,
}

/// Title of the report.
pub(super) fn title(page: &Page<'_>) -> String {
    let runs = page.results.runs;
    let Some(model) = &runs[page.results.headline].model else {
        return words!(page, "serving.title");
    };
    let mut models = runs.iter().filter_map(|run| run.model.as_ref());
    if models.all(|name| name == model) {
        words!(page, "serving.title_of", model = model.clone())
    } else {
        words!(page, "serving.title")
    }
}

/// Lines of the cover.
pub(super) fn facts(page: &Page<'_>) -> Vec<(String, String)> {
    let runs = page.results.runs;
    // What an engine counts are the requests of the load tests next to it.
    let has_tests = runs.iter().any(Run::is_test);
    let mut requests = Count::ZERO;
    for (figures, run) in page.results.figures.iter().zip(runs) {
        if run.is_test() || !has_tests {
            requests += figures.completed.unwrap_or_default();
        }
    }
    let models = runs.iter().filter_map(|run| run.model.as_deref());
    let gpus = runs.iter().filter_map(|run| run.gpu.as_deref());
    let tools = runs.iter().map(|run| run.tool.label());
    let lines = [
        (
            words!(page, "serving.fact.model"),
            distinct(page, models.collect()),
        ),
        (
            words!(page, "serving.fact.gpu"),
            distinct(page, gpus.collect()),
        ),
        (
            words!(page, "serving.fact.tool"),
            distinct(page, tools.collect()),
        ),
        (
            words!(page, "serving.fact.runs"),
            Some(runs.len().to_string()),
        ),
        (
            words!(page, "serving.fact.requests"),
            requests
                .is_positive()
                .then(|| Quantity::from(requests).to_string()),
        ),
    ];
    let mut facts = Vec::new();
    for (name, value) in lines {
        facts.extend(value.map(|value| (name, value)));
    }
    facts
}

/// Names without repetition, as a list; none of no name.
fn distinct(page: &Page<'_>, mut names: Vec<&str>) -> Option<String> {
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.join(page.text.comma()))
}

/// The blocks of the first page, with their tables.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    content.blocks.push(Block::Prose(bottom_line(page)));
    content
        .blocks
        .extend(super::sweep::first_page(page).map(Block::Chart));
    let figures = figures(page);
    let table = figure_table(page, &figures);
    let run = page.which().map(str::to_owned).or_else(|| load(page));
    let caption = words!(page, "serving.figures", of = run);
    content
        .blocks
        .push(Block::Table(table.view(caption, figures.len())));
    content.datasets.push(table.rows(&figures));
    let advice: Vec<(usize, &Advice)> = (1..).zip(&page.results.advice).collect();
    let table = advice_table(page);
    if !advice.is_empty() {
        let caption = words!(page, "serving.advice");
        content
            .blocks
            .push(Block::Table(table.view(caption, advice.len())));
    } else {
        content
            .blocks
            .push(Block::Prose(say!(page, "serving.no_advice")));
    }
    content.datasets.push(table.rows(&advice));
    let limits = limits(page);
    if !limits.is_empty() {
        content
            .blocks
            .push(Block::Heading(words!(page, "serving.limits")));
        content.blocks.push(Block::List(limits));
    }
    content
}

/// The load of the run of the first page.
fn load(page: &Page<'_>) -> Option<String> {
    page.load_of(&page.results.runs[page.results.headline])
}

/// Conclusion, cause, action.
fn bottom_line(page: &Page<'_>) -> Vec<Inline> {
    let run = page.results.headline;
    let mut sentences = slo(page, run);
    sentences.push(conclusion(page, run));
    sentences.extend(tried(page));
    sentences.extend(bad(page, run));
    let sweep = page.results.sweep_of(run);
    if let Some(sweep) = sweep {
        sentences.extend(beyond(page, sweep));
        sentences.extend(super::sweep::ended_early(page, sweep));
        sentences.extend(super::sweep::best_goodput(page, sweep));
    }
    let bottleneck = &page.results.bottlenecks[page.results.limited()];
    sentences.push(cause(page, bottleneck));
    if let Some(first) = page.results.advice.first() {
        let (action, ..) = advice(page, first);
        sentences.push(say!(page, "serving.action", action = action));
    }
    sentences.join(&Inline::from(page.text.space()))
}

/// Whether the stated limits are kept: by the share of all requests, else as far as percentiles tell.
fn slo(page: &Page<'_>, run: usize) -> Vec<Vec<Inline>> {
    if let Some(goodput) = page.results.goodput[run] {
        let (share, rate) = (
            Inline::strong(Quantity::from(goodput.share()).to_string()),
            goodput.rate,
        );
        return vec![say!(page, "serving.slo_share", share = share, rate = rate)];
    }
    let mut sentences = Vec::new();
    for measure in [Measure::Ttft, Measure::Tpot, Measure::Latency] {
        let percentiles = page.results.figures[run].dist(measure).spread.percentiles;
        let (Some(limit), Some(p50)) = (measure.limit(&page.results.options.slo), percentiles[0])
        else {
            continue;
        };
        let (what, p99) = (name(page, measure), percentiles[3]);
        sentences.push(match p99 {
            _ if p50 > limit => say!(
                page,
                "serving.slo_missed",
                what = what,
                limit = limit,
                p50 = p50
            ),
            Some(p99) if p99 <= limit => say!(
                page,
                "serving.slo_kept",
                what = what,
                limit = limit,
                p99 = p99
            ),
            _ => say!(
                page,
                "serving.slo_partly",
                what = what,
                limit = limit,
                p50 = p50,
                p99 = p99
            ),
        });
    }
    sentences
}

fn conclusion(page: &Page<'_>, run: usize) -> Vec<Inline> {
    let figures = &page.results.figures[run];
    let [ttft, tpot] = [Measure::Ttft, Measure::Tpot].map(|measure| figures.typical(measure));
    let rate = if let Some(rate) = figures.output_rate {
        Quantity::from(rate)
    } else if let Some(rate) = figures.request_rate {
        Quantity::from(rate)
    } else {
        let latency = figures.typical(Measure::Latency);
        return say!(
            page,
            "serving.conclusion.latency",
            ttft = ttft,
            tpot = tpot,
            latency = latency
        );
    };
    let rate = Inline::strong(rate.to_string());
    let sweep = page.results.sweep_of(run);
    let load = load(page);
    match sweep.map(|sweep| sweep.is_saturated) {
        Some(true) if sweep.is_some_and(|sweep| sweep.knee.is_none()) => say!(
            page,
            "serving.conclusion.overload",
            load = load,
            rate = rate,
            ttft = ttft,
            tpot = tpot
        ),
        Some(true) => say!(
            page,
            "serving.conclusion.knee",
            load = load,
            rate = rate,
            ttft = ttft,
            tpot = tpot
        ),
        Some(false) => say!(
            page,
            "serving.conclusion.rising",
            load = load,
            rate = rate,
            ttft = ttft,
            tpot = tpot
        ),
        None => say!(
            page,
            "serving.conclusion.one",
            load = load,
            rate = rate,
            ttft = ttft,
            tpot = tpot
        ),
    }
}

/// How other setups fared.
fn tried(page: &Page<'_>) -> Option<Vec<Inline>> {
    let changes = &page.results.changes;
    let best = crate::analysis::changes::best(page.results)?;
    let worked = changes
        .iter()
        .filter(|change| change.verdict == Verdict::Better);
    let worked = worked.count();
    let label = |run: usize| page.results.runs[run].label.as_str();
    let (mut best_label, mut settings, mut change) = (None, None, None);
    let mixed = changes
        .iter()
        .find(|change| change.verdict == Verdict::Mixed);
    if let Some(change) = mixed.filter(|_| worked == 0) {
        let [rate, ttft, tpot] = change.changes;
        return Some(say!(
            page,
            "serving.mixed",
            run = label(change.run),
            baseline = label(change.baseline),
            settings = super::setups::settings(page, change),
            rate = rate,
            ttft = ttft,
            tpot = tpot,
        ));
    }
    if worked > 0 {
        best_label = Some(label(best.run));
        settings = super::setups::settings(page, best);
        change = best.changes[0];
    }
    Some(say!(
        page,
        "serving.tried",
        worked = Quantity::count(worked as u64),
        tried = Quantity::count(changes.len() as u64),
        baseline = label(best.baseline),
        best = best_label,
        settings = settings,
        change = change,
    ))
}

/// Figures at a bad level.
fn bad(page: &Page<'_>, run: usize) -> Vec<Vec<Inline>> {
    let figures = &page.results.figures[run];
    let levels = &page.results.options.thresholds;
    let mut sentences = Vec::new();
    for measure in [Measure::Ttft, Measure::Tpot] {
        if let (Some(level), Some(median)) = (levels.level(measure), figures.typical(measure))
            && level.grade(median.into()) == Grade::Bad
        {
            sentences.push(say!(
                page,
                "serving.bad",
                what = format!("{} P50", name(page, measure)),
                value = median,
                limit = level.bad.time()
            ));
        }
    }
    if let (Some(level), Some(rate)) = (&levels.output_tokens_per_second, figures.output_rate)
        && level.grade(rate) == Grade::Bad
    {
        sentences.push(say!(
            page,
            "serving.bad",
            what = words!(page, "serving.figure.output"),
            value = rate,
            limit = level.bad
        ));
    }
    sentences
}

/// What more load brings.
fn beyond(page: &Page<'_>, sweep: &Sweep) -> Option<Vec<Inline>> {
    let knee = &sweep.points[sweep.knee?];
    let last = sweep.points.last()?;
    let ttft = |run: usize| page.results.figures[run].typical(Measure::Ttft);
    Some(say!(
        page,
        "serving.beyond",
        load = page.load(last.load),
        times = Quantity::new(last.load.value / knee.load.value, Unit::One),
        ratio = Quantity::new(last.throughput.value / knee.throughput.value, Unit::One),
        before = ttft(knee.run),
        after = ttft(last.run),
    ))
}

/// Answered requests as a share of those offered: what a short load answers after its last arrival can be more than all.
fn answered(bottleneck: &Bottleneck) -> Option<Ratio> {
    Some(bottleneck.sustained?.min(Ratio::ONE))
}

/// What limits a run, with the number that says so.
fn cause(page: &Page<'_>, bottleneck: &Bottleneck) -> Vec<Inline> {
    let factor = bottleneck.tpot_factor.map(times);
    let engine = bottleneck.engine.unwrap_or_default();
    let steps = bottleneck.steps;
    let growing = steps.map(|steps| steps.per_request);
    match bottleneck.limit {
        Limit::Load => say!(page, "serving.cause.load", share = answered(bottleneck)),
        Limit::Client => say!(
            page,
            "serving.cause.client",
            late = bottleneck.waiting.map(|waiting| waiting.queue),
        ),
        Limit::Slots => say!(
            page,
            "serving.cause.slots",
            running = bottleneck.slots.or(engine.most_running),
            waiting = engine.waiting.map(mean),
            gain = steps.map(|steps| times(steps.gain())),
        ),
        Limit::Queue => say!(
            page,
            "serving.cause.queue",
            share = bottleneck.waiting.map(|waiting| waiting.share()),
            queue = bottleneck.waiting.map(|waiting| waiting.queue),
        ),
        Limit::KvCache => say!(
            page,
            "serving.cause.kv",
            share = engine.kv_p95,
            preemptions = engine.preemptions.filter(Count::is_positive),
            waiting = engine.waiting.map(mean),
        ),
        Limit::Prefill => say!(
            page,
            "serving.cause.prefill",
            share = steps.map(|steps| steps.prefill)
        ),
        Limit::Decode => say!(page, "serving.cause.decode", share = growing),
        Limit::Compute if growing.is_some() => {
            say!(page, "serving.cause.batch_compute", share = growing)
        }
        Limit::Bandwidth if growing.is_some() => {
            say!(page, "serving.cause.batch_bandwidth", share = growing)
        }
        Limit::Compute => say!(page, "serving.cause.compute", factor = factor),
        Limit::Bandwidth => say!(page, "serving.cause.bandwidth", factor = factor),
        Limit::Bound => say!(page, "serving.cause.bound", factor = factor),
        Limit::Scheduling => say!(page, "serving.cause.scheduling", factor = factor),
        Limit::Stalls => {
            let ratio = bottleneck.stalls.map(times);
            say!(page, "serving.cause.stalls", ratio = ratio)
        }
        Limit::Unknown if bottleneck.tpot_factor < Some(BEYOND_BOUND) && factor.is_some() => {
            say!(page, "serving.cause.contradicted", factor = factor)
        }
        Limit::Unknown => say!(page, "serving.cause.unknown"),
    }
}

fn figures(page: &Page<'_>) -> Vec<FirstPageFigure> {
    let results = page.results;
    let run = results.headline;
    let figures = &results.figures[run];
    let sweep = results.sweep_of(run);
    let last = sweep.and_then(|sweep| sweep.points.last());
    let last = last.filter(|last| last.run != run);
    let figures_at_last = last.map(|last| &results.figures[last.run]);
    let levels = &results.options.thresholds;
    let mut rows = Vec::new();
    for measure in [Measure::Ttft, Measure::Tpot, Measure::Itl, Measure::Latency] {
        for (index, label) in [(0, "P50"), (3, "P99")] {
            let percentile = |figures: &Figures| figures.dist(measure).spread.percentiles[index];
            let Some(value) = percentile(figures) else {
                continue;
            };
            let level = levels.level(measure).filter(|_| index == 0);
            rows.push(FirstPageFigure {
                label: format!("{}, {label}", name(page, measure)),
                value: value.into(),
                at_last: figures_at_last.and_then(percentile).map(Quantity::from),
                levels: level.map(|level| bounds(level, |time| time.time().into())),
                limit: measure
                    .limit(&results.options.slo)
                    .map(|limit| (limit, value <= limit)),
                grade: level.map(|level| level.grade(value.into())),
            });
        }
    }
    if let Some(rate) = figures.output_rate {
        let level = levels.output_tokens_per_second.as_ref();
        rows.push(FirstPageFigure {
            label: words!(page, "serving.figure.output"),
            value: rate.into(),
            at_last: figures_at_last.and_then(|figures| figures.output_rate.map(Quantity::from)),
            levels: level.map(|level| bounds(level, Quantity::from)),
            limit: None,
            grade: level.map(|level| level.grade(rate)),
        });
    }
    if let Some(rate) = figures.request_rate {
        rows.push(FirstPageFigure {
            label: words!(page, "serving.figure.requests"),
            value: rate.into(),
            at_last: figures_at_last.and_then(|figures| figures.request_rate.map(Quantity::from)),
            levels: None,
            limit: None,
            grade: None,
        });
    }
    if let Some(rate) = results.goodput_rate(run) {
        rows.push(FirstPageFigure {
            label: words!(page, "serving.figure.goodput"),
            value: rate.into(),
            at_last: last.and_then(|last| results.goodput_rate(last.run).map(Quantity::from)),
            levels: None,
            limit: None,
            grade: None,
        });
    }
    rows.extend(utilization(page));
    rows
}

/// Mean utilization of all GPUs.
fn utilization(page: &Page<'_>) -> Option<FirstPageFigure> {
    let mut shares = Vec::new();
    for gpu in &page.results.gpus {
        shares.extend(gpu.utilization);
    }
    let mean = rooflens_stats::mean(&shares)?;
    let levels = &page.results.options.thresholds;
    let range = levels.gpu_utilization_percent.as_ref().map(|range| {
        let (low, high) = (
            Quantity::ratio(range.low.0 / 100.0),
            Quantity::ratio(range.high.0 / 100.0),
        );
        (format!("{low} – {high}"), format!("< {low}"))
    });
    Some(FirstPageFigure {
        label: words!(page, "serving.figure.gpu"),
        value: mean.into(),
        at_last: None,
        levels: range,
        limit: None,
        grade: levels.utilization(mean),
    })
}

/// Where a figure is good and where it is bad.
fn bounds<M: Copy + PartialOrd>(
    level: &Level<M>,
    quantity: impl Fn(M) -> Quantity,
) -> (String, String) {
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

fn figure_table<'t>(page: &Page<'_>, figures: &[FirstPageFigure]) -> Table<'t, FirstPageFigure> {
    let has_last = figures.iter().any(|figure| figure.at_last.is_some());
    let has_levels = figures.iter().any(|figure| figure.levels.is_some());
    let has_limits = figures.iter().any(|figure| figure.limit.is_some());
    let kept = |kept: bool| {
        page.text.line(
            if kept {
                "serving.kept"
            } else {
                "serving.missed"
            },
            &[],
        )
    };
    columns! { page, "serving_figures", figure: &FirstPageFigure => {
        let (good, bad) = figure.levels.clone().unzip();
        let (limit, is_kept) = figure.limit.unzip();
        text "figure" = figure.label.clone(), page;
        text "unit" = figure.value.base();
        text "value" = Cell::Quantity(figure.value), page;
        text "limit" = limit.map(|limit| Cell::Quantity(limit.into())), page if has_limits;
        text "kept" = is_kept.map(kept), page if has_limits;
        text "at_largest_load" = figure.at_last.map(Cell::Quantity), page if has_last;
        text "good" = good, page if has_levels;
        text "bad" = bad, page if has_levels;
        text "grade" = figure.grade.map(Grade::id), page if has_levels;
    } }
}

fn advice_table<'t>(page: &'t Page<'_>) -> Table<'t, (usize, &'t Advice)> {
    columns! { page, "serving_advice", (number, setting): &(usize, &Advice) => {
        let (action, reason, effect) = advice(page, setting);
        count "number" = *number, page;
        name "setting" = setting.setting(), page;
        text "action" = action, page;
        text "reason" = reason, page;
        text "effect" = effect, page;
        text "checked" = checked(page), page;
    } }
}

/// A mean count, with its fraction.
const fn mean(count: Count) -> Quantity {
    Quantity::new(count.0, Unit::One)
}

/// The settings of another run, with the command that starts an engine so.
fn deploy(page: &Page<'_>, change: &Change) -> (String, String, String) {
    let [rate, ttft, tpot] = change.changes;
    let run = &page.results.runs[change.run];
    let command = run
        .command
        .clone()
        .or_else(|| super::setups::command_line(run, None));
    let settings = super::setups::settings(page, change);
    (
        words!(page, "serving.deploy.do", command = command),
        match page.results.goodput_rate(change.run) {
            Some(goodput) => words!(
                page,
                "serving.deploy.why_goodput",
                goodput = goodput,
                before = page.results.goodput_rate(change.baseline),
                settings = settings
            ),
            None => words!(page, "serving.deploy.why", settings = settings),
        },
        words!(
            page,
            "serving.deploy.effect",
            rate = rate,
            ttft = ttft,
            tpot = tpot
        ),
    )
}

/// The command of the run that shows what limits, with so many running requests at most.
fn limited_command(page: &Page<'_>, requests: Count) -> Option<String> {
    let run = &page.results.runs[page.results.limited()];
    super::setups::command_line(run, Some(requests))
}

/// Fewer running requests: the KV cache is full.
fn fewer(
    page: &Page<'_>,
    kv: Ratio,
    lost: Option<Count>,
    running: Count,
) -> (String, String, String) {
    (
        words!(
            page,
            "serving.fewer.do",
            running = running,
            command = limited_command(page, running)
        ),
        words!(page, "serving.fewer.why", kv = kv, preemptions = lost),
        words!(page, "serving.fewer.effect", preemptions = lost),
    )
}

/// What to do, why, and what it brings.
fn advice(page: &Page<'_>, advice: &Advice) -> (String, String, String) {
    match advice {
        Advice::Deploy { change } => deploy(page, change),
        Advice::Cap {
            requests,
            tpot,
            limit,
            kept,
        } => {
            let (at_last, there) = *tpot;
            (
                words!(
                    page,
                    "serving.cap.do",
                    requests = *requests,
                    command = limited_command(page, *requests)
                ),
                words!(page, "serving.cap.why", tpot = at_last, limit = *limit),
                words!(page, "serving.cap.effect", tpot = there, kept = *kept),
            )
        }
        Advice::FewerSequences {
            kv,
            preemptions,
            running,
        } => fewer(page, *kv, *preemptions, Count(libm::floor(running.0))),
        Advice::MoreKvCache { kv, now } => (
            words!(page, "serving.more_kv.do", now = now.map(times)),
            words!(page, "serving.more_kv.why", kv = *kv),
            words!(page, "serving.more_kv.effect"),
        ),
        Advice::SmallerKvCache { kv } => (
            words!(page, "serving.fp8_kv.do"),
            match kv {
                Some(kv) => words!(page, "serving.more_kv.why", kv = *kv),
                None => words!(page, "serving.fp8_kv.why"),
            },
            words!(page, "serving.fp8_kv.effect"),
        ),
        Advice::MoreSequences {
            waiting,
            running,
            gain,
        } => (
            words!(page, "serving.more.do", running = *running),
            words!(page, "serving.more.why", waiting = waiting.map(mean)),
            words!(page, "serving.more.effect", gain = gain.map(times)),
        ),
        Advice::SmallerPrefills { itl } => {
            let (p50, p99) = *itl;
            (
                words!(page, "serving.prefill.do"),
                words!(page, "serving.prefill.why", p50 = p50, p99 = p99),
                words!(page, "serving.prefill.effect", p50 = p50),
            )
        }
        Advice::Quantize { tpot, bound } => (
            words!(page, "serving.quantize.do"),
            words!(page, "serving.quantize.why", tpot = *tpot, bound = *bound),
            words!(page, "serving.quantize.effect", half = *tpot / 2.0),
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
                bound = *bound,
                limit = *limit
            ),
            words!(page, "serving.gpus_more.effect", half = *bound / 2.0),
        ),
        Advice::MoreConnections { late } => (
            words!(page, "serving.connections.do"),
            words!(page, "serving.connections.why", late = *late),
            words!(page, "serving.connections.effect"),
        ),
        Advice::MoreLoad { last } => (
            words!(page, "serving.load_more.do", load = page.load(*last)),
            words!(page, "serving.load_more.why"),
            words!(page, "serving.load_more.effect"),
        ),
    }
}

/// The evidence for and against that was looked at.
fn checked(page: &Page<'_>) -> String {
    let bottleneck = &page.results.bottlenecks[page.results.limited()];
    let engine = bottleneck.engine.unwrap_or_default();
    let (mut fixed, mut growing, mut prefill) = (None, None, None);
    if let Some(steps) = bottleneck.steps {
        (fixed, growing) = (Some(steps.fixed), Some(steps.per_request));
        prefill = Some(steps.prefill);
    }
    words!(
        page,
        "serving.checked",
        waiting = engine.waiting.map(mean),
        running = engine.median_running,
        kv = engine.kv_p95,
        preemptions = engine.preemptions,
        fixed = fixed,
        growing = growing,
        prefill = prefill,
        sustained = answered(bottleneck),
        factor = bottleneck.tpot_factor.map(times),
    )
}

/// How far the figures carry.
fn limits(page: &Page<'_>) -> Vec<Vec<Inline>> {
    let results = page.results;
    let (mut few, mut stated, mut bucketed, mut closed) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in results.runs {
        let label = run.label.as_str();
        if (1..FEW).contains(&run.requests.len()) {
            few.push(label);
        }
        if run.is_test() && run.requests.is_empty() {
            stated.push(label);
        }
        if !run.is_test() && !run.stated.ttft.is_empty() {
            bucketed.push(label);
        }
        if run.load.rate.is_none() && run.load.concurrency.is_some() {
            closed.push(label);
        }
    }
    let mut sentences = Vec::new();
    if let Some(runs) = names(page, &few) {
        let few = Quantity::count(FEW as u64);
        sentences.push(say!(page, "serving.few", runs = runs, few = few));
    }
    if let Some(runs) = names(page, &stated) {
        sentences.push(say!(page, "serving.stated", runs = runs));
    }
    if let Some(runs) = names(page, &bucketed) {
        sentences.push(say!(page, "serving.bucketed", runs = runs));
    }
    if let Some(runs) = names(page, &closed) {
        sentences.push(say!(page, "serving.closed", runs = runs));
    }
    if results.gpus_elsewhere {
        sentences.push(say!(page, "serving.elsewhere"));
    }
    if results.options.predicted.is_none() {
        sentences.push(say!(page, "serving.unpredicted"));
    }
    sentences
}
