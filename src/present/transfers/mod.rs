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
use rooflens_findings::{Block, Findings, Inline, Method, Quantity, prose};

/// Copies and memsets.
pub(super) static SECTION: Section = Section { id: "copies", show };

/// Below this share of the time of all GPU operations of the pass, copies need no table.
const NEGLIGIBLE: f64 = 1e-3;

fn show(context: &Context<'_>) -> Known<Findings> {
    let mut findings = Findings::default();
    let transfers = context.results.transfers()?;
    let Some(first) = transfers.places.first() else { return Ok(findings) };
    for place in &transfers.places {
        findings.metrics.extend(metrics::of_place(context, place, transfers.link.as_ref()));
    }
    findings.blocks.push(Block::Prose(introduction(context, first, transfers)));
    let tables = tables::add(context, transfers, &mut findings);
    findings.blocks.extend(tables.into_iter().filter(|_| transfers.share >= NEGLIGIBLE));
    findings.methods.push(method());
    Ok(findings)
}

/// What crosses between host and GPU in the whole pass, and over what.
fn introduction(context: &Context<'_>, place: &Place, transfers: &Transfers) -> Vec<Inline> {
    let host = || place.sums.kinds.iter().filter(|(kind, _)| sums::crosses_host(kind.0));
    let bytes: u64 = host().map(|(_, sum)| sum.bytes).fold(0, u64::saturating_add);
    let time = total(host().map(|(_, sum)| sum.total));
    let mut text = prose![
        "Pass ",
        Inline::Code(context.session.pass_name(place.pass).to_owned()),
        " moves ",
        Quantity::new(bytes as f64, Unit::Bytes),
        " between host and GPU in ",
        Quantity::ns(time),
        " of copies; ",
        Quantity::ns(place.sums.exposed),
        " of all its copies run while no kernel does (exposed). Copies and memsets are ",
        Quantity::ratio(transfers.share),
        " of the time of its GPU operations.",
    ];
    match transfers.link.filter(|_| bytes >= sums::LARGE) {
        Some(link) => text.extend(prose![
            format!(" The link is PCIe {}.0 with {} lanes: at most ", link.generation, link.lanes),
            Quantity::new(link.peak, Unit::BytesPerSecond),
            " a direction."
        ]),
        None if bytes < sums::LARGE => {}
        None => text.push(
            " The bundle does not say what the link to the host is: add the output of nvidia-smi -q -x.".into(),
        ),
    }
    text
}

fn method() -> Method {
    Method {
        title: "Copies".to_owned(),
        text: prose![
            "Copies and memsets by direction and kind of memory. The rate is bytes ÷ sum of durations; large \
             copies are those of ",
            Quantity::new(sums::LARGE as f64, Unit::Bytes),
            " and more, whose rate latency does not decide. The share of the link is the median rate of large \
             copies between host and GPU ÷ the rate of the PCIe link that the nvidia-smi log states as its \
             maximum: lanes × transfers per second × line code, before the headers of packets. Exposed is the \
             part of the union of the copies' intervals in which no kernel of that GPU runs, collectives \
             included. Pageable share is bytes from or to pageable host memory ÷ bytes of the copies between \
             host and GPU whose kind of memory is recorded.",
        ],
    }
}
