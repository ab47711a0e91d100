//! Utilization of GPUs over the run.

use rooflens_document::chart::{Bar, Color, Panel, Part, Plot, Series, StackedBars};
use rooflens_document::{Block, Chart, Quantity, SectionContent, columns, words};
use rooflens_schemas::Unit;

use super::{Page, add};
use crate::analysis::gpus::{BANDS, Gpu};
use crate::analysis::thresholds::Grade;

/// GPUs with a line.
const LINES: usize = 8;

/// Shares of time by band of utilization, lines over time, and a table.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let gpus = &page.results.gpus;
    if gpus.is_empty() {
        content
            .blocks
            .push(Block::Missing(words!(page, "serving.no_gpus")));
        return content;
    }
    content.main.extend(bands(page).map(Block::Chart));
    content.main.extend(lines(page).map(Block::Chart));
    let thresholds = &page.results.options.thresholds;
    let has_levels = thresholds.gpu_utilization_percent.is_some();
    let table = columns! { page, "serving_gpus", gpu: &Gpu => {
        let bands = gpu.bands();
        count "gpu" = gpu.gpu, page;
        count "samples" = gpu.samples.len(), page;
        share "utilization" = gpu.utilization, page;
        text "grade" = gpu.utilization.and_then(|share| thresholds.utilization(share)).map(Grade::id), page if has_levels;
        Watts "power_watts" = gpu.power, page;
        bytes "memory_bytes" = gpu.memory, page;
        share "below_20_percent" = bands[0];
        share "below_50_percent" = bands[1];
        share "below_80_percent" = bands[2];
        share "below_95_percent" = bands[3];
        share "from_95_percent" = bands[4];
    } };
    add(&mut content, &table, gpus, words!(page, "serving.gpus"), 16);
    content
}

/// How long each GPU was how busy.
fn bands(page: &Page<'_>) -> Option<Chart> {
    let mut bars = Vec::new();
    for gpu in &page.results.gpus {
        if let Some(utilization) = gpu.utilization {
            bars.push(Bar {
                label: words!(page, "serving.gpu", gpu = gpu.gpu.to_string()),
                values: gpu.bands.to_vec(),
                note: words!(page, "serving.mean", value = utilization),
            });
        }
    }
    let colors = [
        Color::Idle,
        Color::Other,
        Color::Elementwise,
        Color::Busy,
        Color::Launching,
    ];
    let mut parts = Vec::new();
    let mut low = 0.0;
    for (end, color) in BANDS.into_iter().zip(colors) {
        let name = if end.is_finite() {
            format!("{:.0}–{:.0} %", low * 100.0, end * 100.0)
        } else {
            format!("≥ {:.0} %", low * 100.0)
        };
        low = end;
        parts.push(Part { name, color });
    }
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
    let gpus = page.results.gpus.iter();
    let timed: Vec<&Gpu> = gpus.filter(|gpu| gpu.is_timed()).take(LINES).collect();
    let start = timed.iter().filter_map(|gpu| gpu.samples[0].utc).min()?;
    let last = timed.iter().filter_map(|gpu| gpu.samples.last()?.utc);
    let end = last.max()?;
    let range = &page.results.options.thresholds.gpu_utilization_percent;
    let limit = range.as_ref().map(|range| {
        let low = range.low.0 / 100.0;
        let label = words!(page, "serving.good_from", value = Quantity::ratio(low));
        (label, low)
    });
    let mut panels = Vec::new();
    for gpu in timed {
        let mut points = Vec::new();
        for sample in &gpu.samples {
            if let (Some(utc), Some(utilization)) = (sample.utc, sample.utilization) {
                points.push((utc.saturating_sub(start), utilization.0));
            }
        }
        panels.push(Panel {
            label: words!(page, "serving.gpu_utilization", gpu = gpu.gpu.to_string()),
            unit: Unit::Ratio,
            points,
            limit: limit.clone(),
        });
    }
    Some(Chart {
        id: "gpu-utilization".to_owned(),
        title: words!(page, "serving.utilization"),
        description: words!(page, "serving.utilization_text"),
        plot: Plot::Series(Series {
            panels,
            bands: Vec::new(),
            duration: end.saturating_sub(start),
        }),
    })
}
