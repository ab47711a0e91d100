//! Utilization of GPUs over the run.

use rooflens_document::chart::{Bar, Color, Panel, Part, Plot, Series, StackedBars};
use rooflens_document::{Block, Chart, Quantity, SectionContent, Table, words};
use rooflens_schemas::Unit;

use super::{Page, add};
use crate::analysis::gpus::{BANDS, Gpu};
use crate::model::GpuSample;

/// GPUs with a line.
const LINES: usize = 8;

/// Shares of time by band of utilization, lines over time, and a table.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let gpus = &page.results.gpus;
    if gpus.is_empty() {
        findings
            .blocks
            .push(Block::Missing(words!(page, "serving.no_gpus")));
        return findings;
    }
    findings.main.extend(bands(page).map(Block::Chart));
    findings.main.extend(lines(page).map(Block::Chart));
    let grade = |gpu: &Gpu| {
        gpu.utilization
            .map(|share| page.results.options.thresholds.utilization(share).id())
    };
    let band = |n: usize| move |gpu: &Gpu| Some(gpu.bands[n]).filter(|_| gpu.utilization.is_some());
    let table = Table::new(page.text, "serving_gpus")
        .count("gpu", |gpu: &Gpu| gpu.gpu)
        .on_page()
        .count("samples", |gpu| gpu.samples.len())
        .on_page()
        .share("utilization", |gpu| gpu.utilization)
        .on_page()
        .text("grade", grade)
        .on_page()
        .column("power_watts", Unit::Watts, |gpu| gpu.power)
        .on_page()
        .bytes("memory_bytes", |gpu| gpu.memory)
        .on_page()
        .share("below_20_percent", band(0))
        .share("below_50_percent", band(1))
        .share("below_80_percent", band(2))
        .share("below_95_percent", band(3))
        .share("from_95_percent", band(4));
    add(
        &mut findings,
        &table,
        gpus,
        words!(page, "serving.gpus"),
        16,
    );
    findings
}

/// How long each GPU was how busy.
fn bands(page: &Page<'_>) -> Option<Chart> {
    let measured = page
        .results
        .gpus
        .iter()
        .filter(|gpu| gpu.utilization.is_some());
    let bar = |gpu: &Gpu| Bar {
        label: words!(page, "serving.gpu", gpu = gpu.gpu.to_string()),
        values: gpu.bands.to_vec(),
        note: words!(
            page,
            "serving.mean",
            value = gpu.utilization.map(Quantity::ratio)
        ),
    };
    let bars: Vec<Bar> = measured.map(bar).collect();
    let colors = [
        Color::Idle,
        Color::Other,
        Color::Elementwise,
        Color::Busy,
        Color::Launching,
    ];
    let mut low = 0.0;
    let part = |(end, color): (&f64, Color)| {
        let name = match end.is_finite() {
            true => format!("{:.0}–{:.0} %", low * 100.0, end * 100.0),
            false => format!("≥ {:.0} %", low * 100.0),
        };
        low = *end;
        Part { name, color }
    };
    let parts = BANDS.iter().zip(colors).map(part).collect();
    (!bars.is_empty()).then(|| Chart {
        id: "gpu-utilization-bands".to_owned(),
        title: words!(page, "serving.bands"),
        description: words!(page, "serving.bands_text"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Ratio,
            normalized: true,
            parts,
            bars,
        }),
    })
}

/// Utilization over time.
fn lines(page: &Page<'_>) -> Option<Chart> {
    let timed =
        |gpu: &&Gpu| gpu.samples.len() > 1 && gpu.samples.iter().all(|one| one.utc.is_some());
    let gpus: Vec<&Gpu> = page.results.gpus.iter().filter(timed).take(LINES).collect();
    let times = || {
        gpus.iter()
            .flat_map(|gpu| gpu.samples.iter().filter_map(|one| one.utc))
    };
    let (start, end) = (times().min()?, times().max()?);
    let range = &page.results.options.thresholds.gpu_utilization_percent;
    let point = |one: &GpuSample| Some((one.utc?.saturating_sub(start), one.utilization?));
    let panel = |gpu: &&Gpu| Panel {
        label: words!(page, "serving.gpu_utilization", gpu = gpu.gpu.to_string()),
        unit: Unit::Ratio,
        points: gpu.samples.iter().filter_map(point).collect(),
        limit: Some((
            words!(
                page,
                "serving.good_from",
                value = Quantity::ratio(range.low / 100.0)
            ),
            range.low / 100.0,
        )),
    };
    Some(Chart {
        id: "gpu-utilization".to_owned(),
        title: words!(page, "serving.utilization"),
        description: words!(page, "serving.utilization_text"),
        plot: Plot::Series(Series {
            panels: gpus.iter().map(panel).collect(),
            bands: Vec::new(),
            duration: end.saturating_sub(start),
        }),
    })
}
