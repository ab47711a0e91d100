//! Copies between GPU and pageable host memory: slow, and they hold up the host.

use crate::communication::PAGEABLE;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::sql::Window;
use crate::stage::StageLine;
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::memory::transfers::sums::{LARGE, Sum, crosses_host, host_memory};
use rooflens_analysis::time::idle::Cause;
use rooflens_document::{Finding, Inline, Part};
use rooflens_session::CopyKind::{self, HostToDevice};
use rooflens_session::MemoryKind;
use rooflens_units::{Bytes, BytesPerSecond, Ns, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "pageable-copies",
    &[
        Threshold::ratio("thresholds.pageable_bytes", PAGEABLE),
        Threshold::ratio("thresholds.copy_time", TIME),
    ],
    outcome,
);

/// Time of copies ÷ stage time below which it does not matter.
const TIME: Ratio = Ratio(0.01);

/// The most that a copy of few bytes takes for its latency.
const LATENCY: Ns = Ns(2_000);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| look(evidence, stage))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let copies = evidence.copies(stage);
    if let Some(copies) = copies
        && let Some(share) = copies.pageable_share()
    {
        return draft(evidence, stage, copies, share).into();
    }
    let crosses = copies.is_some_and(|copies| copies.directions().into_iter().any(crosses_host));
    match evidence.shows_operations(stage) && !crosses {
        // What traces operations traces copies: none crosses between host and GPU.
        true => Look::Passed,
        false => Look::InsufficientData,
    }
}

fn draft(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    copies: &Place,
    pageable: Ratio,
) -> Option<Draft> {
    let time = copies.time(None);
    if pageable < PAGEABLE || stage.share(time) < TIME {
        return None;
    }
    let idle = evidence.idle(stage.key());
    let waits = idle.and_then(|idle| idle.of_stage(Cause::Copy).ok());
    // The host waits for what it reads from pinned memory, too.
    let is_upload = pageable_kinds(copies).all(|(direction, _)| direction == HostToDevice);
    let waits = waits.filter(|waits| is_upload && *waits > Time::ZERO);
    let slowest = pinned_rates(evidence, copies).min_by(BytesPerSecond::total_cmp);
    let is_round = is_round_trip(copies);
    let (beyond, pinned) = match is_round {
        true => (copies.exposed(None), Time::ZERO),
        false => beyond_pinned(evidence, copies),
    };
    let saved = (beyond + waits.unwrap_or_default()).min(stage.reference() - pinned);
    let finding = Finding {
        evidence: vec![copies.evidence(evidence.session)],
        query: stage.window.as_ref().and_then(Window::copies),
        parts: vec![(Part::Copies, beyond)],
        ..stage.saving(saved)
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        pageable = pageable,
        share = stage.share(time),
        rate = slowest,
        unknown = slowest.is_none().then_some(""),
        waits = waits,
    };
    let draft = Draft::new(finding, arguments);
    let is_back = evidence.platform.pytorch && is_back(copies);
    Some(match is_back {
        _ if is_round => draft
            .root("root_cause_round", "root_action_round")
            .only_if("root_if_round")
            .advice("advice_round")
            .basis("basis_round"),
        true => draft.root("root_cause_back", "root_action_back"),
        false => draft,
    })
}

/// Whether as many large copies go to the GPU as back, of as many bytes: of data that both sides hold.
fn is_round_trip(copies: &Place) -> bool {
    let of = |wanted: CopyKind| {
        let (mut count, mut bytes) = (0, 0);
        for (direction, sum) in pageable_kinds(copies) {
            if direction == wanted {
                count += sum.count;
                bytes += sum.bytes;
            }
        }
        (count, bytes)
    };
    let (count, bytes) = of(HostToDevice);
    bytes >= count * LARGE && count > 0 && of(CopyKind::DeviceToHost) == (count, bytes)
}

/// Whether most of the pageable bytes go from the GPU to the host.
fn is_back(copies: &Place) -> bool {
    let (mut back, mut whole) = (0, 0);
    for (direction, sum) in pageable_kinds(copies) {
        whole += sum.bytes;
        if direction == CopyKind::DeviceToHost {
            back += sum.bytes;
        }
    }
    back * 2 > whole
}

/// The kinds of copies from and to pageable memory.
fn pageable_kinds(copies: &Place) -> impl Iterator<Item = (CopyKind, &Sum)> {
    let kinds = copies.sums.kinds.iter();
    let pageable = kinds.filter(|(kind, _)| host_memory(**kind) == Some(MemoryKind::Pageable));
    pageable.map(|(kind, sum)| (kind.0, sum))
}

/// Rates that the pageable copies could have.
fn pinned_rates(evidence: &Evidence<'_>, copies: &Place) -> impl Iterator<Item = BytesPerSecond> {
    pageable_kinds(copies).filter_map(|(direction, _)| pinned_rate(evidence, direction))
}

/// The rate of the fastest large pinned copy of a direction in the bundle; else that of the link.
fn pinned_rate(evidence: &Evidence<'_>, direction: CopyKind) -> Option<BytesPerSecond> {
    let transfers = evidence.results.transfers().ok()?;
    let kinds = transfers.places.iter().flat_map(|place| &place.sums.kinds);
    let pinned = kinds
        .filter(|(kind, _)| kind.0 == direction && host_memory(**kind) == Some(MemoryKind::Pinned));
    let measured = pinned.filter_map(|(_, sum)| sum.large_rate(Ratio::ONE));
    let fastest = measured.max_by(BytesPerSecond::total_cmp);
    let link = || transfers.link.map(|link| link.peak);
    fastest.or_else(link).or(transfers.most)
}

/// Exposed time of the pageable copies of an iteration beyond that of their bytes from pinned memory, and the latter: a copy
/// of few bytes takes its latency from any memory.
fn beyond_pinned(evidence: &Evidence<'_>, copies: &Place) -> (Time, Time) {
    let (mut beyond, mut least) = (Time::ZERO, Time::ZERO);
    for (direction, sum) in pageable_kinds(copies) {
        let pinned = pinned_rate(evidence, direction);
        let at_rate = pinned.map_or(Time::ZERO, |rate| (Bytes(sum.bytes as f64) / rate).time());
        let of_pinned = at_rate.max(sum.shortest.min(LATENCY).time() * sum.count as f64);
        beyond += (sum.exposed.time() - of_pinned).max(Time::ZERO);
        least += of_pinned.min(sum.exposed.time());
    }
    let iterations = copies.instances.len().max(1) as f64;
    (beyond / iterations, least / iterations)
}
