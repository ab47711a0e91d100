//! The metrics of copies: per place, over all copies and per direction. Memsets are in neither.

use rooflens_schemas::{Metric, Scope};

use crate::Context;
use rooflens_analysis::engine::intervals::total;
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::memory::transfers::link::Link;
use rooflens_analysis::memory::transfers::sums::{LARGE, Sum, crosses_host};
use rooflens_document::catalogue::{
    COPY_BANDWIDTH, COPY_BYTES, COPY_EXPOSED, COPY_TIME, PAGEABLE_SHARE,
};
use rooflens_document::{MetricDef, Quantity};
use rooflens_session::{CopyKind, Ns};
use rooflens_units::Bytes;

/// The metrics of a place.
pub(super) fn of_place(context: &Context<'_>, place: &Place, link: Option<&Link>) -> Vec<Metric> {
    let directions = place.directions();
    if directions.is_empty() {
        return Vec::new();
    }
    let scope = |direction| scope(context, place, direction);
    let mut metrics = amounts(place, None, &scope(None));
    metrics.push(pageable(place, scope(None)));
    for direction in directions {
        let scope = scope(Some(direction));
        metrics.extend(amounts(place, Some(direction), &scope));
        metrics.push(bandwidth(place, direction, link, scope));
    }
    let evidence = place.evidence(context.session);
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}

fn scope(context: &Context<'_>, place: &Place, direction: Option<CopyKind>) -> Scope {
    let pass = || Some(context.session.pass_name(place.pass).to_owned());
    let whole = || Scope {
        pass: pass(),
        ..Scope::default()
    };
    let stage = place
        .stage
        .as_ref()
        .map(|line| line.scope(context.session, context.facts));
    Scope {
        class: direction.map(|kind| kind.label().to_owned()),
        ..stage.unwrap_or_else(whole)
    }
}

/// `copy_bytes`, `copy_time`, `copy_exposed`: medians over instances.
fn amounts(place: &Place, direction: Option<CopyKind>, scope: &Scope) -> Vec<Metric> {
    let (count, instances) = (place.count(direction), place.instances.len());
    let over = format!("{} copies in {instances} instances, median", count.0);
    let metric = |def: &MetricDef, median: Quantity, what: &str| {
        def.derived(scope.clone(), median.value, format!("{what}; {over}"))
    };
    vec![
        metric(&COPY_BYTES, place.bytes(direction).into(), "Σ bytes"),
        metric(&COPY_TIME, place.time(direction).into(), "Σ durations"),
        metric(
            &COPY_EXPOSED,
            place.exposed(direction).into(),
            "union of the copies' intervals without the time in which a kernel of the GPU runs",
        ),
    ]
}

/// `copy_bandwidth`: over all copies of the place.
fn bandwidth(place: &Place, direction: CopyKind, link: Option<&Link>, scope: Scope) -> Metric {
    let kinds = place.sums.kinds.iter();
    let sums: Vec<&Sum> = kinds
        .filter(|(kind, _)| kind.0 == direction)
        .map(|(_, sum)| sum)
        .collect();
    let bytes: Bytes = sums.iter().map(|sum| Bytes(sum.bytes as f64)).sum();
    let time = total(sums.iter().map(|sum| sum.total));
    if bytes <= Bytes::ZERO || time <= Ns::ZERO {
        return COPY_BANDWIDTH.unavailable(scope, "the copies have no size or no length");
    }
    let rate = bytes / time.time();
    let mut basis = format!("{} B / {time} ns", bytes.0);
    let large: usize = sums.iter().map(|sum| sum.large.len()).sum();
    basis.push_str(&format!("; {large} copies are of {LARGE} B or more"));
    match link.filter(|_| crosses_host(direction)) {
        Some(link) => basis.push_str(&format!("; the link carries {} B/s", link.peak.0)),
        None if crosses_host(direction) => basis.push_str("; the link is not known"),
        None => {}
    }
    COPY_BANDWIDTH.derived(scope, rate.0, basis)
}

/// `pageable_share`: of the bytes between host and GPU.
fn pageable(place: &Place, scope: Scope) -> Metric {
    let (Some((pageable, all)), Some(share)) = (place.pageable_bytes(), place.pageable_share())
    else {
        let reason = "no copy between host and GPU whose kind of memory is recorded";
        return PAGEABLE_SHARE.unavailable(scope, reason);
    };
    let basis = format!("{pageable} B from or to pageable memory / {all} B");
    PAGEABLE_SHARE.derived(scope, share.0, basis)
}
