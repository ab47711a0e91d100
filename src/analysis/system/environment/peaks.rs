//! Peaks: the specified ones that reports divide by, and those measured on the very GPU.

use rooflens_schemas::Unit;

use crate::analysis::Context;
use crate::analysis::engine::measured_peaks::Measured;
use crate::findings::{Block, Cell, Column, Dataset, Findings, Method, View};
use crate::hardware::Gpu;
use crate::prose;

pub(super) fn add(context: &Context<'_>, findings: &mut Findings) {
    let mut names: Vec<String> =
        super::gpus(context.session).into_iter().map(|(name, _)| name).collect();
    if let Some(chosen) = &context.options.gpu {
        // The user's choice replaces every recorded name.
        names = vec![chosen.clone()];
    }
    let mut specs: Vec<(&str, &Gpu)> = Vec::new();
    for name in &names {
        match context.hardware.find(name) {
            Some(gpu) if specs.iter().any(|(_, known)| known.name == gpu.name) => {}
            Some(gpu) => specs.push((name, gpu)),
            None => findings.blocks.push(Block::Missing(format!(
                "no peak for {name}: it is not in the table of GPUs (rooflens gpus lists it); --gpu NAME names an equal one"
            ))),
        }
    }
    let (rates, bandwidths) = (rates(context, &specs), bandwidths(context, &specs));
    if !rates.rows.is_empty() {
        findings.blocks.push(Block::Table(View::new(
            "peaks",
            "Rates: dense specification, and measured on this GPU",
            &["gpu", "dtype", "dense_flop_per_s", "measured_flop_per_s", "ratio"],
            20,
        )));
        findings.blocks.push(Block::Table(View::new(
            "bandwidths",
            "Memory bandwidth: specification, and measured on this GPU (read plus write of a copy)",
            &["gpu", "specified_bytes_per_s", "measured_bytes_per_s", "ratio"],
            20,
        )));
        findings.methods.push(method());
    }
    findings.datasets.push(rates);
    findings.datasets.push(bandwidths);
}

fn rates(context: &Context<'_>, specs: &[(&str, &Gpu)]) -> Dataset {
    let mut rows = Vec::new();
    for (name, gpu) in specs {
        let measured = Measured::of(context, name);
        for peak in &gpu.peaks {
            let measured = measured.rate(Some(gpu), &peak.dtype);
            rows.push(vec![
                Cell::Text(gpu.name.clone()),
                Cell::Text(peak.dtype.clone()),
                Cell::Float(peak.dense),
                Cell::maybe(peak.sparse),
                Cell::maybe(measured),
                Cell::maybe(measured.map(|rate| rate / peak.dense)),
                Cell::Text(peak.source.clone()),
            ]);
        }
    }
    let rate = |id, title| Column::new(id, title, Unit::FlopPerSecond);
    Dataset {
        id: "peaks",
        title: "Peak rates".to_owned(),
        columns: vec![
            Column::text("gpu", "GPU"),
            Column::text("dtype", "Data type"),
            rate("dense_flop_per_s", "Specified, dense"),
            rate("sparse_flop_per_s", "Specified, 2:4 sparse"),
            rate("measured_flop_per_s", "Measured"),
            Column::new("ratio", "Measured / dense", Unit::Ratio),
            Column::text("source", "Source"),
        ],
        rows,
    }
}

fn bandwidths(context: &Context<'_>, specs: &[(&str, &Gpu)]) -> Dataset {
    let row = |(name, gpu): &(&str, &Gpu)| {
        let measured = Measured::of(context, name).bandwidth();
        vec![
            Cell::Text(gpu.name.clone()),
            Cell::Float(gpu.memory_bandwidth),
            Cell::maybe(measured),
            Cell::maybe(measured.map(|rate| rate / gpu.memory_bandwidth)),
            Cell::Text(gpu.memory_source.clone()),
        ]
    };
    let rate = |id, title| Column::new(id, title, Unit::BytesPerSecond);
    Dataset {
        id: "bandwidths",
        title: "Memory bandwidth".to_owned(),
        columns: vec![
            Column::text("gpu", "GPU"),
            rate("specified_bytes_per_s", "Specified"),
            rate("measured_bytes_per_s", "Measured"),
            Column::new("ratio", "Measured / specified", Unit::Ratio),
            Column::text("source", "Source"),
        ],
        rows: specs.iter().map(row).collect(),
    }
}

fn method() -> Method {
    Method {
        title: "Peaks".to_owned(),
        text: prose![
            "Specified rates are dense, with FP32 accumulation, at the boost clock of the vendor's document; the data set \
             names the document of each number. Sparse rates are listed apart and never divided by. Measured rates are \
             medians of large matrix products and of a device-to-device copy on this GPU; clocks and power limits make \
             them lower than the specification."
        ],
    }
}
