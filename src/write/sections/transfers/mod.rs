//! Copies: what moves where, how fast, and whether kernels hide it.

mod metrics;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::Unit;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::intervals::total;
use rooflens_analysis::memory::transfers::{Place, Transfers, sums};
use rooflens_document::{Block, Inline, Quantity, SectionContent};
use rooflens_units::Ratio;

/// Copies and memsets.
pub(super) static SECTION: Section = Section { id: "copies", show };

/// Below this share of the time of all GPU operations of the pass, copies need no table.
const NEGLIGIBLE: Ratio = Ratio(1e-3);

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut content = SectionContent::default();
    let transfers = context.results.transfers()?;
    let Some(first) = transfers.places.first() else {
        return Ok(content);
    };
    for place in &transfers.places {
        content
            .metrics
            .extend(metrics::of_place(context, place, transfers.link.as_ref()));
    }
    content
        .blocks
        .push(Block::Prose(introduction(context, first, transfers)));
    let tables = tables::add(context, transfers, &mut content);
    content
        .blocks
        .extend(tables.into_iter().filter(|_| transfers.share >= NEGLIGIBLE));
    content.methods.push(method!(
        context,
        "transfers",
        large = Quantity::new(sums::LARGE as f64, Unit::Bytes)
    ));
    Ok(content)
}

/// What crosses between host and GPU in the whole pass, and over what.
fn introduction(context: &Context<'_>, place: &Place, transfers: &Transfers) -> Vec<Inline> {
    let host = || {
        place
            .sums
            .kinds
            .iter()
            .filter(|(kind, _)| sums::crosses_host(kind.0))
    };
    let bytes: u64 = host()
        .map(|(_, sum)| sum.bytes)
        .fold(0, u64::saturating_add);
    let time = total(host().map(|(_, sum)| sum.total));
    let is_large = bytes >= sums::LARGE;
    let link = transfers.link.filter(|_| is_large);
    let unknown = is_large && link.is_none();
    say!(
        context,
        "transfers.introduction",
        pass = Inline::code(context.session.pass_name(place.pass)),
        bytes = Quantity::new(bytes as f64, Unit::Bytes),
        time = Quantity::ns(time),
        exposed = Quantity::ns(place.sums.exposed),
        share = transfers.share,
        generation = link.map(|link| link.generation.to_string()),
        lanes = link.map(|link| link.lanes.to_string()),
        peak = link.map(|link| link.peak),
        unknown = unknown.then(|| say!(context, "transfers.unknown_link")),
    )
}
