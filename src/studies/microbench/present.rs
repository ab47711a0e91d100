//! The pages of a report of microbenchmarks.

use rooflens_diagnostic::Diagnostics;
use rooflens_document::chart::{
    Ceiling as Roof, Color, LogLog, LogSeries, Plot, Point as Mark, Roofline,
};
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Cell, Chart, Inline, Quantity, SectionContent, Table, method, say, words,
};
use rooflens_schemas::Unit;

use crate::analysis::{Ceiling, Group, Judged, Results, Series};

/// Rows that pages show, and charts of fits.
const SHOWN: usize = 40;
const CHARTS: usize = 12;

/// Weight of marks that are no shares of anything.
const NO_SHARE: f64 = -1.0;

/// Points by which a fitted line is drawn, for it is a curve on logarithmic axes.
const STEPS: usize = 40;

/// Results, and the words for them.
struct Page<'a> {
    text: &'static Catalogue,
    devices: &'a [Results<'a>],
}

/// A device's results with one row of them.
type Of<'a, T> = (&'a Results<'a>, &'a T);

/// The report of what was measured on some GPUs. `provenance` has no facts and no title yet.
pub fn report(
    devices: &[Results<'_>],
    text: &'static Catalogue,
    mut provenance: Provenance<'_>,
    diagnostics: &Diagnostics,
) -> Report {
    let page = Page { text, devices };
    provenance.title = Some(words!(page, "microbench.title", gpu = page.names()));
    provenance.facts = page.facts();
    provenance.glossary = "microbench_glossary";
    let mut document = Document::new(text, &provenance);
    document.diagnostics(diagnostics);
    document.summary(summary(&page));
    let sections = [
        ("microbench_roofline", roofline(&page)),
        ("microbench_operations", operations(&page)),
        ("microbench_fits", fits(&page)),
        ("microbench_failed", failed(&page)),
    ];
    for (id, content) in sections {
        document.section(id, text.heading(id), content);
    }
    document.method(method!(page, "microbench"));
    document.method(method!(page, "microbench.fit"));
    document.build_of_artifacts()
}

impl<'a> Page<'a> {
    /// All rows of one kind, with their devices.
    fn all<T>(&self, of: impl Fn(&'a Results<'a>) -> &'a [T]) -> Vec<Of<'a, T>> {
        let rows = |one: &'a Results<'a>| of(one).iter().map(move |row| (one, row));
        self.devices.iter().flat_map(rows).collect()
    }

    fn several(&self) -> bool {
        self.devices.len() > 1
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(|one| self.name(one)).collect();
        names.join(self.text.comma())
    }

    fn name<'n>(&self, one: &'n Results<'_>) -> &'n str {
        match one.device.gpu.is_empty() {
            true => self.text.word("unknown GPU"),
            false => &one.device.gpu,
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![(words!(self, "microbench.gpu"), self.names())];
        let software = self.devices.iter().flat_map(|one| &one.device.software);
        for (name, version) in software {
            let fact = (name.clone(), version.clone());
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
        facts
    }
}

const fn per_second(one: &Ceiling, value: f64) -> Quantity {
    let unit = if one.is_bandwidth {
        Unit::BytesPerSecond
    } else {
        Unit::FlopPerSecond
    };
    Quantity::new(value, unit)
}

/// Adds a table and its data set, if it has rows.
fn add<R>(findings: &mut SectionContent, table: &Table<'_, R>, rows: &[R], caption: String) {
    if !rows.is_empty() {
        findings.main.push(Block::Table(table.view(caption, SHOWN)));
        findings.datasets.push(table.rows(rows));
    }
}

fn summary(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    for one in page.devices {
        findings
            .blocks
            .extend(conclusion(page, one).map(Block::Prose));
        findings.blocks.extend(worst(page, one).map(Block::Prose));
    }
    let rows = page.all(|one| &one.ceilings);
    let table = ceilings(page);
    if !rows.is_empty() {
        let caption = words!(page, "microbench.ceilings");
        findings
            .blocks
            .push(Block::Table(table.view(caption, SHOWN)));
    }
    findings.datasets.push(table.rows(&rows));
    findings
}

/// What the GPU reaches, of what is specified, and where its ridge lies.
fn conclusion(page: &Page<'_>, one: &Results<'_>) -> Option<Vec<Inline>> {
    let rate = one.headline();
    let copy = one.ceiling("copy");
    let share = |one: Option<&Ceiling>| Some(Quantity::ratio(one?.efficiency()?));
    rate.or(copy)?;
    Some(say!(
        page,
        "microbench.conclusion",
        gpu = Inline::strong(page.name(one)),
        dtype = rate.map(|one| one.what.clone()),
        rate = rate.map(|one| per_second(one, one.measured)),
        rate_share = share(rate),
        bandwidth = copy.map(|one| per_second(one, one.measured)),
        bandwidth_share = share(copy),
        ridge = rate
            .and_then(|one| one.ridge)
            .map(|ridge| Quantity::new(ridge, Unit::FlopPerByte)),
        floor = floor(one),
    ))
}

/// The shortest launch floor of the fits over bytes.
fn floor(one: &Results<'_>) -> Option<Quantity> {
    let floors = one
        .fits
        .iter()
        .filter(|series| series.on_device && !series.in_flops)
        .filter_map(Series::floor);
    floors
        .min_by(f64::total_cmp)
        .map(|seconds| Quantity::new(seconds * 1e9, Unit::Nanoseconds))
}

/// The operation that stays farthest below the measured roofline.
fn worst(page: &Page<'_>, one: &Results<'_>) -> Option<Vec<Inline>> {
    let worst = one
        .groups()
        .into_iter()
        .filter_map(|group| Some((group.median()?, group)));
    let (share, group) = worst.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(say!(
        page,
        "microbench.worst",
        operation = Inline::code(group.operation),
        dtype = group.dtype.map(str::to_owned),
        share = Quantity::ratio(share),
        cases = Quantity::count(group.cases.len() as u64),
    ))
}

fn ceilings<'t>(page: &'t Page<'_>) -> Table<'t, Of<'t, Ceiling>> {
    Table::new(page.text, "microbench_ceilings")
        .name("gpu", |(one, _): &Of<'_, Ceiling>| {
            page.name(one).to_owned()
        })
        .on_page_if(page.several())
        .text("ceiling", |(_, row)| row.what.clone())
        .on_page()
        .text("measured", |(_, row)| {
            Cell::Quantity(per_second(row, row.measured))
        })
        .on_page()
        .share("spread", |(_, row)| {
            row.rate.as_ref().and_then(|rate| rate.spread)
        })
        .on_page()
        .text("specified", |(_, row)| {
            let specified = row.specified.map(|value| per_second(row, value));
            specified.map_or(Cell::Missing, Cell::Quantity)
        })
        .on_page()
        .share("of_specified", |(_, row)| row.efficiency())
        .on_page()
        .column("ridge", Unit::FlopPerByte, |(_, row)| row.ridge)
        .on_page()
        .column("sm_clock_hz", Unit::Hertz, |(_, row)| {
            row.rate.as_ref().and_then(|one| one.sm_clock)
        })
        .on_page()
        .column("power_w", Unit::Watts, |(_, row)| {
            row.rate.as_ref().and_then(|one| one.power)
        })
        .on_page()
        .text("basis", |(_, row)| {
            page.text
                .word(if row.from_cases {
                    "best case"
                } else {
                    "sustained"
                })
                .to_owned()
        })
        .on_page()
}

fn roofline(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    for (number, one) in page.devices.iter().enumerate() {
        findings
            .main
            .extend(roofline_chart(page, number, one).map(Block::Chart));
    }
    findings
}

fn roofline_chart(page: &Page<'_>, number: usize, one: &Results<'_>) -> Option<Chart> {
    let (rate, copy) = (one.headline()?, one.ceiling("copy")?);
    let roofs = |ceiling: &Ceiling| {
        let label = |value, key: &str| {
            format!(
                "{} {} {}",
                ceiling.what,
                per_second(ceiling, value),
                page.text.word(key)
            )
        };
        let measured = Roof {
            label: label(ceiling.measured, "measured"),
            value: ceiling.measured,
            measured: true,
        };
        let specified = ceiling.specified.map(|value| Roof {
            label: label(value, "specified"),
            value,
            measured: false,
        });
        std::iter::once(measured)
            .chain(specified)
            .collect::<Vec<_>>()
    };
    let own = |judged: &&Judged<'_>| judged.case.dtype.as_ref() == Some(&rate.what);
    let marks = one
        .cases
        .iter()
        .filter(own)
        .filter(|judged| judged.roof.is_some());
    let points = marks.map(|judged| Mark {
        label: judged.case.name.clone(),
        x: judged.case.flops / judged.case.bytes,
        y: judged.case.flops / judged.times[0],
        weight: NO_SHARE,
        color: color(&judged.case.operation),
    });
    let (gpu, dtype) = (page.name(one).to_owned(), rate.what.clone());
    Some(Chart {
        id: format!("microbench-roofline-{}", number + 1),
        title: words!(page, "microbench.roofline", gpu = gpu, dtype = dtype),
        description: words!(page, "microbench.roofline_description"),
        plot: Plot::Roofline(Roofline {
            bandwidths: roofs(copy),
            rates: roofs(rate),
            points: points
                .filter(|point| point.x > 0.0 && point.y > 0.0)
                .collect(),
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

fn operations(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let rows: Vec<Group<'_>> = page.devices.iter().flat_map(Results::groups).collect();
    let end = |last: bool| {
        move |row: &Group<'_>| {
            let shares = row.shares(|one| one.efficiency());
            if last {
                shares.last().copied()
            } else {
                shares.first().copied()
            }
        }
    };
    let table = Table::new(page.text, "microbench_operations")
        .name("gpu", |row: &Group<'_>| page.name(row.device).to_owned())
        .on_page_if(page.several())
        .name("operation", |row| row.operation.to_owned())
        .on_page()
        .text("dtype", |row| row.dtype.map(str::to_owned))
        .on_page()
        .count("cases", |row| row.cases.len())
        .on_page()
        .share("efficiency_median", Group::median)
        .on_page()
        .share("efficiency_min", end(false))
        .on_page()
        .share("efficiency_max", end(true))
        .on_page()
        .share("of_specified", |row| {
            rooflens_stats::quantile_from_nearer_end(&row.shares(|one| one.of_specified()), 0.5)
        })
        .on_page();
    add(
        &mut findings,
        &table,
        &rows,
        words!(page, "microbench.operations"),
    );
    let rows = page.all(|one| &one.cases);
    let table = cases(page);
    if !rows.is_empty() {
        let caption = words!(page, "microbench.cases");
        findings
            .blocks
            .push(Block::Table(table.view(caption, usize::MAX)));
        findings.datasets.push(table.rows(&rows));
    }
    findings
}

fn cases<'t>(page: &'t Page<'_>) -> Table<'t, Of<'t, Judged<'t>>> {
    let rate = |row: &Of<'_, Judged<'_>>| {
        let flops = row.1.case.flops;
        (flops > 0.0).then(|| flops / row.1.times[0])
    };
    let bound = |row: &Of<'_, Judged<'_>>| {
        let word = if row.1.roof?.1 {
            "compute-bound"
        } else {
            "memory-bound"
        };
        Some(page.text.word(word).to_owned())
    };
    Table::new(page.text, "microbench_cases")
        .name("gpu", |(one, _): &Of<'_, Judged<'_>>| {
            page.name(one).to_owned()
        })
        .on_page_if(page.several())
        .name("case", |(_, row)| row.case.name.clone())
        .on_page()
        .name("operation", |(_, row)| row.case.operation.clone())
        .text("dtype", |(_, row)| row.case.dtype.clone())
        .name("implementation", |(_, row)| row.case.implementation.clone())
        .on_page()
        .time("median_ns", |(_, row)| row.times[0] * 1e9)
        .on_page()
        .time("min_ns", |(_, row)| row.times[1] * 1e9)
        .time("p95_ns", |(_, row)| row.times[3] * 1e9)
        .time("max_ns", |(_, row)| row.times[2] * 1e9)
        .column("flops", Unit::Flop, |(_, row)| row.case.flops)
        .bytes("bytes", |(_, row)| row.case.bytes)
        .column("flop_per_second", Unit::FlopPerSecond, rate)
        .on_page()
        .column("bytes_per_second", Unit::BytesPerSecond, |(_, row)| {
            row.case.bytes / row.times[0]
        })
        .on_page()
        .text("bound", bound)
        .on_page()
        .time("roofline_ns", |(_, row)| {
            row.roof.map(|(time, _)| time * 1e9)
        })
        .share("efficiency", |(_, row)| row.efficiency())
        .on_page()
        .share("of_specified", |(_, row)| row.of_specified())
}

fn fits(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let rows = page.all(|one| &one.fits);
    if rows.is_empty() {
        return findings;
    }
    let cases = page.all(|one| &one.cases);
    let by_host = cases.iter().filter(|(_, row)| !row.case.in_graph).count();
    findings.main.push(Block::Prose(say!(
        page,
        "microbench.fits_text",
        by_host = (by_host > 0).then(|| Quantity::count(by_host as u64)),
        cases = Quantity::count(cases.len() as u64),
    )));
    let rate = |(_, row): &Of<'_, Series<'_>>| {
        let unit = if row.in_flops {
            Unit::FlopPerSecond
        } else {
            Unit::BytesPerSecond
        };
        Cell::Quantity(Quantity::new(row.fit.rate, unit))
    };
    let table = Table::new(page.text, "microbench_fits")
        .name("gpu", |(one, _): &Of<'_, Series<'_>>| {
            page.name(one).to_owned()
        })
        .on_page_if(page.several())
        .name("operation", |(_, row)| row.operation.to_owned())
        .on_page()
        .text("dtype", |(_, row)| row.dtype.map(str::to_owned))
        .on_page()
        .count("points", |(_, row)| row.fit.points)
        .on_page()
        .time("floor_ns", |(_, row)| row.floor().map(|floor| floor * 1e9))
        .on_page()
        .text("rate", rate)
        .on_page()
        .column("r2", Unit::One, |(_, row)| row.fit.r2)
        .on_page()
        .share("residual", |(_, row)| row.fit.residual)
        .on_page();
    add(
        &mut findings,
        &table,
        &rows,
        words!(page, "microbench.fits"),
    );
    let mut number = 0;
    for one in page.devices {
        for own in one
            .fits
            .chunk_by(|a, b| (a.operation, a.in_flops) == (b.operation, b.in_flops))
        {
            number += 1;
            if number <= CHARTS {
                findings
                    .main
                    .push(Block::Chart(fit_chart(page, number, own)));
            }
        }
    }
    findings
}

/// Time against work: the series of one operation.
fn fit_chart(page: &Page<'_>, number: usize, all: &[Series<'_>]) -> Chart {
    let in_flops = all.iter().any(|one| one.in_flops);
    let series = all.iter().map(|one| {
        let micro = |(work, seconds): (f64, f64)| (work, seconds * 1e6);
        let ends = one.points.first().zip(one.points.last());
        let line = ends.map(|((from, _), (to, _))| {
            let at = |step: usize| from * libm::pow(to / from, step as f64 / STEPS as f64);
            (0..=STEPS)
                .map(|step| micro((at(step), one.fit.at(at(step)))))
                .collect()
        });
        LogSeries {
            name: one.dtype.unwrap_or(one.operation).to_owned(),
            points: one.points.iter().copied().map(micro).collect(),
            line: line.unwrap_or_default(),
        }
    });
    let operation = all.first().map_or("", |one| one.operation);
    Chart {
        id: format!("microbench-fit-{number}"),
        title: words!(
            page,
            "microbench.fit_chart",
            operation = Inline::code(operation)
        ),
        description: words!(page, "microbench.fit_description"),
        plot: Plot::LogLog(LogLog {
            x_label: match in_flops {
                true => words!(page, "microbench.axis_flops"),
                false => words!(page, "microbench.axis_bytes"),
            },
            y_label: words!(page, "microbench.axis_time"),
            series: series.collect(),
        }),
    }
}

/// What could not be measured, and why.
fn failed(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let mut rows: Vec<(&Results<'_>, &str, &str)> = Vec::new();
    for one in page.devices {
        let rates = one.device.rates.iter();
        rows.extend(rates.filter_map(|rate| {
            Some((one, rate.what.as_str(), rate.rate.as_ref().err()?.as_str()))
        }));
        let cases = one.device.cases.iter();
        rows.extend(cases.filter_map(|case| {
            Some((one, case.name.as_str(), case.times.as_ref().err()?.as_str()))
        }));
    }
    let table = Table::new(page.text, "microbench_failed")
        .name("gpu", |row: &(&Results<'_>, &str, &str)| {
            page.name(row.0).to_owned()
        })
        .on_page_if(page.several())
        .name("case", |row| row.1.to_owned())
        .on_page()
        .name("reason", |row| row.2.to_owned())
        .on_page();
    add(
        &mut findings,
        &table,
        &rows,
        words!(page, "microbench.failed"),
    );
    findings
}
