//! The metrics of copies: per place, over all copies and per direction. Memsets are in neither.

use rooflens_schemas::{Evidence, Metric, Polarity, Scope, Unit};

use super::Place;
use super::link::Link;
use super::sums::{Kind, LARGE, Sum, Sums, crosses_host, host_memory};
use crate::analysis::Context;
use crate::analysis::engine::intervals::total;
use crate::analysis::engine::stats::median;
use crate::findings::{derived, unavailable};
use crate::model::{CopyKind, MemoryKind};

/// The metrics of a place.
pub(super) fn of_place(context: &Context<'_>, place: &Place, link: Option<&Link>) -> Vec<Metric> {
    let mut directions: Vec<CopyKind> = place.sums.kinds.keys().map(|kind| kind.0).collect();
    directions.retain(|kind| *kind != CopyKind::Memset);
    directions.dedup();
    if directions.is_empty() {
        return Vec::new();
    }
    let mut all = amounts(place, None);
    all.push(pageable(place));
    for direction in directions {
        all.extend(amounts(place, Some(direction)));
        all.push(bandwidth(place, direction, link));
    }
    let artifact = context.session.passes.artifact[place.pass.index()];
    let evidence = Evidence {
        artifact: context.session.text(artifact).to_owned(),
        table: Some("copies".to_owned()),
        rows: Some(place.sums.kinds.values().map(|sum| sum.count).sum()),
    };
    all.iter_mut().for_each(|metric| metric.evidence.push(evidence.clone()));
    all
}

fn scope(place: &Place, direction: Option<CopyKind>) -> Scope {
    Scope { class: direction.map(|kind| kind.label().to_owned()), ..place.scope.clone() }
}

fn matching(direction: Option<CopyKind>) -> impl Fn(&Kind) -> bool {
    move |kind| match direction {
        Some(direction) => kind.0 == direction,
        None => kind.0 != CopyKind::Memset,
    }
}

/// `copy_bytes`, `copy_time`, `copy_exposed`: medians over instances.
fn amounts(place: &Place, direction: Option<CopyKind>) -> Vec<Metric> {
    let holds = matching(direction);
    let of = |sums: &Sums, value: &dyn Fn(&Sum) -> f64| -> f64 {
        sums.kinds.iter().filter(|(kind, _)| holds(kind)).map(|(_, sum)| value(sum)).sum()
    };
    let middle = |value: &dyn Fn(&Sum) -> f64| {
        let values: Vec<f64> = place.instances.iter().map(|one| of(one, value)).collect();
        median(&values).unwrap_or(0.0)
    };
    let exposed = match direction {
        Some(_) => middle(&|sum| sum.exposed as f64),
        None => {
            let values: Vec<f64> = place.instances.iter().map(|one| one.exposed as f64).collect();
            median(&values).unwrap_or(0.0)
        }
    };
    let count: u64 =
        place.sums.kinds.iter().filter(|(kind, _)| holds(kind)).map(|(_, sum)| sum.count).sum();
    let over = format!("{count} copies in {} instances, median", place.instances.len());
    let scope = scope(place, direction);
    let metric = |id, unit, value, what: &str| {
        let mut metric = derived(id, scope.clone(), unit, value, format!("{what}; {over}"));
        metric.polarity = Polarity::Lower;
        metric
    };
    vec![
        metric("copy_bytes", Unit::Bytes, middle(&|sum| sum.bytes as f64), "Σ bytes"),
        metric("copy_time", Unit::Nanoseconds, middle(&|sum| sum.total as f64), "Σ durations"),
        metric(
            "copy_exposed",
            Unit::Nanoseconds,
            exposed,
            "union of the copies' intervals without the time in which a kernel of the GPU runs",
        ),
    ]
}

/// `copy_bandwidth`: over all copies of the place.
fn bandwidth(place: &Place, direction: CopyKind, link: Option<&Link>) -> Metric {
    let (id, unit, scope) = ("copy_bandwidth", Unit::BytesPerSecond, scope(place, Some(direction)));
    let own =
        || place.sums.kinds.iter().filter(|(kind, _)| kind.0 == direction).map(|(_, sum)| sum);
    let bytes: f64 = own().map(|sum| sum.bytes as f64).sum();
    let time = total(own().map(|sum| sum.total));
    if bytes <= 0.0 || time <= 0 {
        return unavailable(id, scope, unit, "the copies have no size or no length");
    }
    let rate = bytes / time as f64 * 1e9;
    let mut basis = format!("{bytes} B / {time} ns");
    let large: usize = own().map(|sum| sum.large.len()).sum();
    basis.push_str(&format!("; {large} copies are of {LARGE} B or more"));
    match link.filter(|_| crosses_host(direction)) {
        Some(link) => basis.push_str(&format!("; the link carries {} B/s", link.peak)),
        None if crosses_host(direction) => basis.push_str("; the link is not known"),
        None => {}
    }
    let mut metric = derived(id, scope, unit, rate, basis);
    metric.polarity = Polarity::Higher;
    metric
}

/// `pageable_share`: of the bytes between host and GPU.
fn pageable(place: &Place) -> Metric {
    let (id, scope) = ("pageable_share", scope(place, None));
    let known = || {
        place
            .sums
            .kinds
            .iter()
            .filter_map(|(kind, sum)| Some((host_memory(*kind)?, sum.bytes)))
            .filter(|(memory, _)| *memory != MemoryKind::Unknown)
    };
    let all: u64 = known().map(|(_, bytes)| bytes).fold(0, u64::saturating_add);
    if all == 0 {
        let reason = "no copy between host and GPU whose kind of memory is recorded";
        return unavailable(id, scope, Unit::Ratio, reason);
    }
    let pageable = known().filter(|(memory, _)| *memory == MemoryKind::Pageable);
    let pageable: u64 = pageable.map(|(_, bytes)| bytes).fold(0, u64::saturating_add);
    let basis = format!("{pageable} B from or to pageable memory / {all} B");
    let mut metric = derived(id, scope, Unit::Ratio, pageable as f64 / all as f64, basis);
    metric.polarity = Polarity::Lower;
    metric
}
