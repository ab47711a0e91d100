//! Peaks: the specified ones that reports divide by, and those measured on the very GPU.

use crate::Context;
use rooflens_schemas::Unit;

use rooflens_analysis::system::environment::{Bandwidth, Environment, Rate};
use rooflens_document::{Block, SectionContent, Table};

/// Rows of each table on the page.
const SHOWN: usize = 20;

pub(super) fn add(context: &Context<'_>, environment: &Environment, content: &mut SectionContent) {
    content
        .blocks
        .extend(environment.unspecified.iter().map(|name| {
            Block::Missing(words!(
                context,
                "environment.peaks.unspecified",
                gpu = name.as_str()
            ))
        }));
    let (rates, bandwidths) = (rates(context), bandwidths(context));
    if !environment.rates.is_empty() {
        let caption = words!(context, "environment.peaks.rates");
        content
            .blocks
            .push(Block::Table(rates.view(caption, SHOWN)));
        let caption = words!(context, "environment.peaks.bandwidths");
        content
            .blocks
            .push(Block::Table(bandwidths.view(caption, SHOWN)));
        content.methods.push(method!(context, "environment.peaks"));
    }
    content.datasets.push(rates.rows(&environment.rates));
    content
        .datasets
        .push(bandwidths.rows(&environment.bandwidths));
}

fn rates(context: &Context<'_>) -> Table<'static, Rate> {
    let _unit = Unit::FlopPerSecond;
    columns! { context, "peaks", rate: &Rate => {
        text "gpu" = rate.gpu.clone(), page;
        text "dtype" = rate.dtype.clone(), page;
        FlopPerSecond "dense_flop_per_s" = rate.dense, page;
        FlopPerSecond "sparse_flop_per_s" = rate.sparse;
        FlopPerSecond "measured_flop_per_s" = rate.measured, page;
        share "ratio" = Rate::reached(rate), page;
        text "source" = rate.source.clone();
    } }
}

fn bandwidths(context: &Context<'_>) -> Table<'static, Bandwidth> {
    let _unit = Unit::BytesPerSecond;
    columns! { context, "bandwidths", memory: &Bandwidth => {
        text "gpu" = memory.gpu.clone(), page;
        BytesPerSecond "specified_bytes_per_s" = memory.specified, page;
        BytesPerSecond "measured_bytes_per_s" = memory.measured, page;
        share "ratio" = memory.measured.map(|rate| rate / memory.specified), page;
        text "source" = memory.source.clone();
    } }
}
