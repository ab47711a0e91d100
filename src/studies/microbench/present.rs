//! The pages of a report of microbenchmarks.

use rooflens_diagnostic::Diagnostics;
use rooflens_document::chart::{
    Ceiling as Roof, Color, LogLog, LogSeries, NO_SHARE, Plot, Point as Mark, Roofline,
};
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Cell, Chart, Inline, Quantity, SectionContent, Table, Tile, columns, method,
    say, words,
};
use rooflens_schemas::Unit;
use rooflens_units::Seconds;

use crate::analysis::{Ceiling, Group, Judged, Results, Series};

/// Rows that pages show, and charts of fits.
const SHOWN: usize = 40;
const CHARTS: usize = 12;

/// Points by which a fitted line is drawn, for it is a curve on logarithmic axes.
const STEPS: usize = 40;

/// Results, and the words for them.
struct Pages<'a> {
    text: &'static Catalogue,
    devices: &'a [Results<'a>],
}

/// A device's results with one row of them.
type OfDevice<'a, T> = (&'a Results<'a>, &'a T);

/// The report of what was measured on some GPUs. `provenance` has no facts and no title yet.
pub fn report(
    devices: &[Results<'_>],
    text: &'static Catalogue,
    mut provenance: Provenance<'_>,
    diagnostics: &Diagnostics,
) -> Report {
    let pages = Pages { text, devices };
    provenance.title = Some(words!(pages, "microbench.title", gpu = pages.names()));
    provenance.facts = pages.facts();
    provenance.glossary = "microbench_glossary";
    let mut document = Document::new(text, &provenance);
    document.diagnostics(diagnostics);
    document.summary(summary(&pages));
    let sections = [
        ("microbench_roofline", roofline(&pages)),
        ("microbench_operations", operations(&pages)),
        ("microbench_fits", fits(&pages)),
        ("microbench_failed", failed(&pages)),
    ];
    for (id, content) in sections {
        document.section(id, text.heading(id), content);
    }
    document.method(method!(pages, "microbench"));
    document.method(method!(pages, "microbench.fit"));
    document.build_of_artifacts()
}

impl<'a> Pages<'a> {
    /// All rows of one kind, with their devices.
    fn rows<T>(&self, rows_of: fn(&'a Results<'a>) -> &'a [T]) -> Vec<OfDevice<'a, T>> {
        let mut rows = Vec::new();
        for results in self.devices {
            for row in rows_of(results) {
                rows.push((results, row));
            }
        }
        rows
    }

    fn several(&self) -> bool {
        self.devices.len() > 1
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self
            .devices
            .iter()
            .map(|device| self.name(device))
            .collect();
        names.join(self.text.comma())
    }

    fn name<'n>(&self, results: &'n Results<'_>) -> &'n str {
        match results.device.gpu.is_empty() {
            true => self.text.word("unknown GPU"),
            false => &results.device.gpu,
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![(words!(self, "microbench.gpu"), self.names())];
        let software = self
            .devices
            .iter()
            .flat_map(|results| &results.device.software);
        for (name, version) in software {
            let fact = software_fact(name, version);
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
        facts
    }
}

/// A library by its name, and its version. Some libraries give theirs as one number, two digits a part.
fn software_fact(name: &str, version: &str) -> (String, String) {
    let number = version.parse::<u32>().ok();
    let (label, version) = match (name, number) {
        ("cudnn", Some(number)) => ("cuDNN", three_parts(number, 10_000, 100)),
        ("cublaslt", Some(number)) => ("cuBLASLt", three_parts(number, 10_000, 100)),
        ("driver_cuda", Some(number)) => {
            let (major, minor) = (number / 1000, number % 1000 / 10);
            ("CUDA (driver)", format!("{major}.{minor}"))
        }
        ("nvrtc", _) => ("NVRTC", version.to_owned()),
        _ => (name, version.to_owned()),
    };
    (label.to_owned(), version)
}

/// `91400` as `9.14.0`.
fn three_parts(number: u32, major: u32, minor: u32) -> String {
    let (patch, rest) = (number % minor, number % major);
    format!("{}.{}.{patch}", number / major, rest / minor)
}

impl Ceiling {
    const fn basis(&self) -> &'static str {
        if self.from_cases {
            "best case"
        } else {
            "sustained"
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

fn summary(pages: &Pages<'_>) -> SectionContent {
    let mut content = SectionContent {
        conclusion: title(pages),
        ..SectionContent::default()
    };
    for results in pages.devices {
        let tiles = tiles(pages, results);
        if !tiles.is_empty() {
            content.blocks.push(Block::Tiles(tiles));
        }
        let conclusion = conclusion(pages, results);
        content.blocks.extend(conclusion.map(Block::Prose));
        let worst = worst(pages, results);
        content.blocks.extend(worst.map(Block::Prose));
    }
    let rows = pages.rows(|results| &results.ceilings);
    let table = ceilings(pages);
    if !rows.is_empty() {
        let caption = words!(pages, "microbench.ceilings");
        content
            .blocks
            .push(Block::Table(table.view(caption, SHOWN)));
    }
    content.datasets.push(table.rows(&rows));
    content
}

/// What the GPU reaches of what is specified, where there is one GPU.
fn title(pages: &Pages<'_>) -> Option<String> {
    let [results] = pages.devices else {
        return None;
    };
    let share = |ceiling: Option<&Ceiling>| Some(Quantity::from(ceiling?.efficiency()?));
    let rate = results.headline();
    let (rate_share, copy_share) = (share(rate), share(results.ceiling("copy")));
    rate_share.or(copy_share)?;
    Some(words!(
        pages,
        "microbench.title_conclusion",
        gpu = pages.name(results),
        dtype = rate.map(|rate| rate.what.clone()),
        rate = rate_share,
        both = rate_share.and(copy_share).map(|_| ""),
        bandwidth = copy_share,
    ))
}

/// Measured rate, bandwidth and launch floor.
fn tiles(pages: &Pages<'_>, results: &Results<'_>) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for ceiling in [results.headline(), results.ceiling("copy")]
        .into_iter()
        .flatten()
    {
        let specified = ceiling.specified;
        let specified = specified.map(|rate| (words!(pages, "microbench.tile_specified"), rate));
        let what = pages.text.word(&ceiling.what).to_owned();
        tiles.push(Tile {
            label: words!(
                pages,
                "microbench.tile_measured",
                gpu = pages.name(results),
                what = what
            ),
            now: ceiling.measured,
            others: specified.into_iter().collect(),
        });
    }
    if let Some(floor) = floor(results) {
        tiles.push(Tile {
            label: words!(pages, "microbench.tile_floor"),
            now: floor,
            others: Vec::new(),
        });
    }
    tiles
}

/// What the GPU reaches, of what is specified, and where its ridge lies.
fn conclusion(pages: &Pages<'_>, results: &Results<'_>) -> Option<Vec<Inline>> {
    let rate = results.headline();
    let copy = results.ceiling("copy");
    let share = |ceiling: Option<&Ceiling>| Some(Quantity::from(ceiling?.efficiency()?));
    rate.or(copy)?;
    Some(say!(
        pages,
        "microbench.conclusion",
        gpu = Inline::strong(pages.name(results)),
        dtype = rate.map(|rate| rate.what.clone()),
        rate = rate.map(|rate| rate.measured),
        rate_share = share(rate),
        bandwidth = copy.map(|copy| copy.measured),
        bandwidth_share = share(copy),
        ridge = rate.and_then(|rate| rate.ridge).map(Quantity::from),
        floor = floor(results),
    ))
}

/// The shortest launch floor of the fits over bytes.
fn floor(results: &Results<'_>) -> Option<Quantity> {
    let floors = results
        .fits
        .iter()
        .filter(|series| series.on_device && !series.in_flops)
        .filter_map(Series::floor);
    floors
        .min_by(Seconds::total_cmp)
        .map(|floor| Quantity::from(floor.time()))
}

/// The operation that stays farthest below the measured roofline.
fn worst(pages: &Pages<'_>, results: &Results<'_>) -> Option<Vec<Inline>> {
    let worst = results
        .groups()
        .into_iter()
        .filter_map(|group| Some((group.median()?, group)));
    let (share, group) = worst.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(say!(
        pages,
        "microbench.worst",
        operation = Inline::code(group.operation),
        dtype = group.dtype.map(str::to_owned),
        share = share,
        cases = Quantity::count(group.cases.len() as u64),
    ))
}

fn ceilings<'t>(pages: &'t Pages<'_>) -> Table<'t, OfDevice<'t, Ceiling>> {
    columns! { pages, "microbench_ceilings", row: &OfDevice<'t, Ceiling> => {
        let (results, ceiling) = *row;
        let rate = ceiling.rate.as_ref();
        name "gpu" = pages.name(results), page if pages.several();
        text "ceiling" = ceiling.what.as_str(), page;
        text "measured" = Cell::Quantity(ceiling.measured), page;
        share "spread" = rate.and_then(|rate| rate.spread), page;
        text "specified" = ceiling.specified.map(Cell::Quantity), page;
        share "of_specified" = ceiling.efficiency(), page;
        FlopPerByte "ridge" = ceiling.ridge, page;
        Hertz "sm_clock_hz" = rate.and_then(|rate| rate.sm_clock), page;
        Watts "power_w" = rate.and_then(|rate| rate.power), page;
        text "basis" = pages.text.word(ceiling.basis()), page;
    } }
}

fn roofline(pages: &Pages<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    for (number, results) in pages.devices.iter().enumerate() {
        let chart = roofline_chart(pages, number, results);
        content.main.extend(chart.map(Block::Chart));
    }
    content
}

fn roofline_chart(pages: &Pages<'_>, number: usize, results: &Results<'_>) -> Option<Chart> {
    let (rate, copy) = (results.headline()?, results.ceiling("copy")?);
    let roofs = |ceiling: &Ceiling| {
        let roof = |rate: Quantity, key: &str, measured: bool| Roof {
            label: format!("{} {rate} {}", ceiling.what, pages.text.word(key)),
            value: rate.value,
            measured,
        };
        let mut roofs = vec![roof(ceiling.measured, "measured", true)];
        let specified = ceiling.specified;
        roofs.extend(specified.map(|rate| roof(rate, "specified", false)));
        roofs
    };
    let mut points = Vec::new();
    for judged in &results.cases {
        let (case, time) = (judged.case, judged.times[0]);
        let (x, y) = (case.flops.0 / case.bytes.0, case.flops.0 / time.0);
        let is_of_dtype = case.dtype.as_ref() == Some(&rate.what);
        if is_of_dtype && judged.roof.is_some() && x > 0.0 && y > 0.0 {
            points.push(Mark {
                label: case.name.clone(),
                x,
                y,
                weight: NO_SHARE,
                hollow: false,
                color: color(&case.operation),
            });
        }
    }
    let (gpu, dtype) = (pages.name(results).to_owned(), rate.what.clone());
    Some(Chart {
        id: format!("microbench-roofline-{}", number + 1),
        title: words!(pages, "microbench.roofline", gpu = gpu, dtype = dtype),
        description: words!(pages, "microbench.roofline_description"),
        plot: Plot::Roofline(Roofline {
            bandwidths: roofs(copy),
            rates: roofs(rate),
            points,
            levels: Vec::new(),
        }),
    })
}

fn color(operation: &str) -> Color {
    match operation {
        "attention_prefill" | "attention_decode" => Color::Attention,
        "softmax" | "layer_norm" | "rms_norm" => Color::Normalization,
        "gelu" | "silu" | "silu_mul" | "rotary" => Color::Elementwise,
        "embedding" | "copy_d2d" => Color::Copy,
        "linear" | "batched_gemm" | "conv2d" | "lstm" => Color::Gemm,
        _ => Color::Other,
    }
}

fn operations(pages: &Pages<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let rows: Vec<Group<'_>> = pages.devices.iter().flat_map(Results::groups).collect();
    let table = columns! { pages, "microbench_operations", group: &Group<'_> => {
        let efficiencies = group.shares(|judged| judged.efficiency());
        name "gpu" = pages.name(group.device), page if pages.several();
        name "operation" = group.operation, page;
        text "dtype" = group.dtype.map(str::to_owned), page;
        count "cases" = group.cases.len(), page;
        share "efficiency_median" = group.median(), page;
        share "efficiency_min" = efficiencies.first().copied(), page;
        share "efficiency_max" = efficiencies.last().copied(), page;
        share "of_specified" = group.median_of_specified(), page;
    } };
    add(
        &mut content,
        &table,
        &rows,
        words!(pages, "microbench.operations"),
    );
    let rows = pages.rows(|results| &results.cases);
    let table = cases(pages);
    if !rows.is_empty() {
        let caption = words!(pages, "microbench.cases");
        content
            .blocks
            .push(Block::Table(table.view(caption, usize::MAX)));
        content.datasets.push(table.rows(&rows));
    }
    content
}

fn cases<'t>(pages: &'t Pages<'_>) -> Table<'t, OfDevice<'t, Judged<'t>>> {
    columns! { pages, "microbench_cases", row: &OfDevice<'t, Judged<'t>> => {
        let (results, judged) = *row;
        let case = judged.case;
        let [median, least, most, p95] = judged.times;
        name "gpu" = pages.name(results), page if pages.several();
        name "case" = case.name.as_str(), page;
        name "operation" = case.operation.as_str();
        text "dtype" = case.dtype.clone();
        name "implementation" = case.implementation.as_str(), page;
        time "median_ns" = median, page;
        time "min_ns" = least;
        time "p95_ns" = p95;
        time "max_ns" = most;
        Flop "flops" = case.flops;
        bytes "bytes" = case.bytes;
        FlopPerSecond "flop_per_second" = case.flops.is_positive().then(|| case.flops / median), page;
        BytesPerSecond "bytes_per_second" = case.bytes / median, page;
        text "bound" = judged.bound().map(|bound| pages.text.word(bound).to_owned()), page;
        time "roofline_ns" = judged.roof.map(|(time, _)| time);
        share "efficiency" = judged.efficiency(), page;
        share "of_specified" = judged.of_specified();
    } }
}

impl Judged<'_> {
    fn bound(&self) -> Option<&'static str> {
        let (_, is_by_rate) = self.roof?;
        Some(if is_by_rate {
            "compute-bound"
        } else {
            "memory-bound"
        })
    }
}

impl Series<'_> {
    const fn rate(&self) -> Quantity {
        let unit = if self.in_flops {
            Unit::FlopPerSecond
        } else {
            Unit::BytesPerSecond
        };
        Quantity::new(self.fit.rate, unit)
    }
}

fn fits(pages: &Pages<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let rows = pages.rows(|results| &results.fits);
    if rows.is_empty() {
        return content;
    }
    let cases = pages.rows(|results| &results.cases);
    let by_host = cases.iter().filter(|(_, row)| !row.case.in_graph).count();
    content.main.push(Block::Prose(say!(
        pages,
        "microbench.fits_text",
        by_host = (by_host > 0).then(|| Quantity::count(by_host as u64)),
        cases = Quantity::count(cases.len() as u64),
    )));
    let table = columns! { pages, "microbench_fits", row: &OfDevice<'_, Series<'_>> => {
        let (results, series) = *row;
        name "gpu" = pages.name(results), page if pages.several();
        name "operation" = series.operation, page;
        text "dtype" = series.dtype.map(str::to_owned), page;
        count "points" = series.fit.points, page;
        time "floor_ns" = series.floor(), page;
        text "rate" = Cell::Quantity(series.rate()), page;
        One "r2" = series.fit.r2, page;
        share "residual" = series.fit.residual, page;
    } };
    add(
        &mut content,
        &table,
        &rows,
        words!(pages, "microbench.fits"),
    );
    let mut number = 0;
    for results in pages.devices {
        for series in results
            .fits
            .chunk_by(|a, b| (a.operation, a.in_flops) == (b.operation, b.in_flops))
        {
            number += 1;
            if number <= CHARTS {
                content
                    .main
                    .push(Block::Chart(fit_chart(pages, number, series)));
            }
        }
    }
    content
}

/// Time against work: the series of one operation.
fn fit_chart(pages: &Pages<'_>, number: usize, all_series: &[Series<'_>]) -> Chart {
    let in_flops = all_series.iter().any(|series| series.in_flops);
    let log_series = all_series.iter().map(|series| {
        let micro = |(work, seconds): (f64, f64)| (work, seconds * 1e6);
        let ends = series.points.first().zip(series.points.last());
        let line = ends.map(|((from, _), (to, _))| {
            let work = |step: usize| from * libm::pow(to / from, step as f64 / STEPS as f64);
            (0..=STEPS)
                .map(|step| micro((work(step), series.fit.at(work(step)).0)))
                .collect()
        });
        LogSeries {
            name: series.dtype.unwrap_or(series.operation).to_owned(),
            points: series.points.iter().copied().map(micro).collect(),
            line: line.unwrap_or_default(),
        }
    });
    let operation = all_series.first().map_or("", |series| series.operation);
    Chart {
        id: format!("microbench-fit-{number}"),
        title: words!(
            pages,
            "microbench.fit_chart",
            operation = Inline::code(operation),
            flops = in_flops.then_some(""),
            bytes = (!in_flops).then_some(""),
        ),
        description: words!(pages, "microbench.fit_description"),
        plot: Plot::LogLog(LogLog {
            x_label: match in_flops {
                true => words!(pages, "microbench.axis_flops"),
                false => words!(pages, "microbench.axis_bytes"),
            },
            y_label: words!(pages, "microbench.axis_time"),
            series: log_series.collect(),
        }),
    }
}

/// A rate or case without a result.
struct Failure<'a> {
    results: &'a Results<'a>,
    name: &'a String,
    reason: &'a String,
}

/// Rates and cases that could not be measured, and why.
fn failed(pages: &Pages<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let mut rows: Vec<Failure<'_>> = Vec::new();
    for results in pages.devices {
        let mut fail = |name, reason| {
            rows.push(Failure {
                results,
                name,
                reason,
            });
        };
        for rate in &results.device.rates {
            if let Err(reason) = &rate.rate {
                fail(&rate.what, reason);
            }
        }
        for case in &results.device.cases {
            if let Err(reason) = &case.times {
                fail(&case.name, reason);
            }
        }
    }
    let table = columns! { pages, "microbench_failed", failure: &Failure<'_> => {
        name "gpu" = pages.name(failure.results), page if pages.several();
        name "case" = failure.name.as_str(), page;
        name "reason" = failure.reason.as_str(), page;
    } };
    add(
        &mut content,
        &table,
        &rows,
        words!(pages, "microbench.failed"),
    );
    content
}
