//! Peaks: the specified ones that reports divide by, and those measured on the very GPU.

use crate::Context;
use rooflens_schemas::Unit;

use rooflens_analysis::system::environment::{Bandwidth, Environment, Rate};
use rooflens_document::{Block, SectionContent, Table};

/// Rows of each table on the page.
const SHOWN: usize = 20;

pub(super) fn add(context: &Context<'_>, environment: &Environment, findings: &mut SectionContent) {
    findings
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
        findings
            .blocks
            .push(Block::Table(rates.view(caption, SHOWN)));
        let caption = words!(context, "environment.peaks.bandwidths");
        findings
            .blocks
            .push(Block::Table(bandwidths.view(caption, SHOWN)));
        findings.methods.push(method!(context, "environment.peaks"));
    }
    findings.datasets.push(rates.rows(&environment.rates));
    findings
        .datasets
        .push(bandwidths.rows(&environment.bandwidths));
}

fn rates(context: &Context<'_>) -> Table<'static, Rate> {
    let unit = Unit::FlopPerSecond;
    Table::new(context.text, "peaks")
        .text("gpu", |rate: &Rate| rate.gpu.clone())
        .on_page()
        .text("dtype", |rate| rate.dtype.clone())
        .on_page()
        .column("dense_flop_per_s", unit, |rate| rate.dense)
        .on_page()
        .column("sparse_flop_per_s", unit, |rate| rate.sparse)
        .column("measured_flop_per_s", unit, |rate| rate.measured)
        .on_page()
        .share("ratio", Rate::reached)
        .on_page()
        .text("source", |rate| rate.source.clone())
}

fn bandwidths(context: &Context<'_>) -> Table<'static, Bandwidth> {
    let unit = Unit::BytesPerSecond;
    Table::new(context.text, "bandwidths")
        .text("gpu", |memory: &Bandwidth| memory.gpu.clone())
        .on_page()
        .column("specified_bytes_per_s", unit, |memory| memory.specified)
        .on_page()
        .column("measured_bytes_per_s", unit, |memory| memory.measured)
        .on_page()
        .share("ratio", |memory| {
            memory.measured.map(|rate| rate / memory.specified)
        })
        .on_page()
        .text("source", |memory| memory.source.clone())
}
