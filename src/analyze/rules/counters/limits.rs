//! Kernels far from their limit, one rule a fault: a kernel counts for the fault with the least limit only, so that gains
//! of these rules do not overlap.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled::{self, ENOUGH, Faults, LOST};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::counters::limits::{
    KernelLimit, LimitSource, NOTABLE, Reason, SOUND, is_own,
};
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_units::{Ratio, Time};

/// A rule about one fault.
macro_rules! rule {
    ($id:expr, $reason:ident) => {
        Rule::new($id, THRESHOLDS, |evidence| {
            outcome(evidence, Reason::$reason)
        })
    };
}

const THRESHOLDS: &[Threshold] = &[
    Threshold::ratio("thresholds.gpu_share", NOTABLE),
    Threshold::ratio("thresholds.limit", SOUND),
    Threshold::ratio("thresholds.lost_share", LOST),
];

pub(super) static UNCOALESCED: Rule = rule!("uncoalesced-access", Uncoalesced);
pub(super) static BANK_CONFLICTS: Rule = rule!("bank-conflicts", BankConflicts);
pub(super) static LOCAL_MEMORY: Rule = rule!("local-memory", LocalMemory);
pub(super) static ATOMICS: Rule = rule!("contended-atomics", Atomics);
pub(super) static DIVERGENCE: Rule = rule!("divergent-branches", Divergence);
pub(super) static CACHE_TRAFFIC: Rule = rule!("cache-traffic", CacheTraffic);
pub(super) static FP64: Rule = rule!("double-precision", Fp64);
pub(super) static SMALL_GRIDS: Rule = rule!("small-grids", SmallGrid);
pub(super) static OCCUPANCY: Rule = rule!("low-occupancy", Occupancy);
pub(super) static TAIL: Rule = rule!("wave-tail", Tail);

/// Sum of durations ÷ busy time from which on kernels share the GPU, and small grids do so on purpose.
const SHARED: Ratio = Ratio(1.05);

fn outcome(evidence: &Evidence<'_>, reason: Reason) -> Outcome {
    let limits = evidence.results.limits().ok();
    let passes = limits.map_or(&[][..], |limits| &limits.passes);
    if passes.is_empty() {
        let outcome = evidence.each_of_kernels(|stage| look(evidence, stage, reason));
        return outcome.or_needs(profiled::needs(evidence));
    }
    // Durations of replays bound no gain of the run.
    let mut drafts = Vec::new();
    for (pass, limits) in passes {
        if let Some(faults) = Faults::new(limits, reason).filter(|faults| faults.lost >= LOST) {
            let name = Inline::code(evidence.session.pass_name(*pass));
            let finding = evidence.note_on_pass(*pass);
            drafts.push(draft(evidence, finding, name, &faults, reason));
        }
    }
    Outcome::joined(drafts)
}

fn look(evidence: &Evidence<'_>, stage: &StageLine, reason: Reason) -> Look {
    let Some(limits) = evidence.limits(stage) else {
        return Look::InsufficientData;
    };
    let is_shared = stage.busy > Time::ZERO && stage.operation_time > stage.busy * SHARED;
    if reason == Reason::SmallGrid && is_shared {
        return Look::NotApplicable(words!(evidence, "small_grids.shared"));
    }
    let Some(faults) = Faults::new(limits, reason).filter(|faults| faults.lost >= LOST) else {
        // Without counters a grid is known, but no other fault.
        return match limits.covered < ENOUGH {
            true => Look::InsufficientData,
            false => Look::Passed,
        };
    };
    let (largest, cause) = faults.largest();
    let mut sources = vec![stage.evidence()];
    if let LimitSource::Counters(profile) = largest.source {
        let pass = evidence.session.kernel_profiles.pass[profile.index()];
        sources.extend(evidence.profile_evidence(pass));
    }
    let finding = Finding {
        evidence: sources,
        parts: faults.lost_by_kernel(stage.operation_time),
        also: cause
            .coalesced
            .map(|_| UNCOALESCED.id)
            .into_iter()
            .collect(),
        query: profiled::query(evidence, stage, largest),
        ..stage.saving_kernels(stage.operation_time * faults.lost)
    };
    let label = Inline::strong(&stage.label);
    draft(evidence, finding, label, &faults, reason).into()
}

/// PyTorch's scan along a dimension that is not the last: a thread walks along it alone.
const SCAN: &str = "scan_outer_dim";

fn draft(
    evidence: &Evidence<'_>,
    finding: Finding,
    label: Inline,
    faults: &Faults<'_>,
    reason: Reason,
) -> Draft {
    let (largest, cause) = faults.largest();
    let identity = identity(evidence, largest);
    let library = identity.filter(|identity| !is_own(identity));
    let now = largest.now.time() / largest.launches.max(1) as f64;
    let others = faults.kernels.len() as u64 - 1;
    let limiter = match largest.source {
        LimitSource::Counters(profile) if reason == Reason::Occupancy => {
            let details = evidence.results.details().ok();
            details.and_then(|details| details.launch(profile).figures.limiter())
        }
        _ => None,
    };
    let kernel = identity.map(|identity| Inline::code(&identity.short));
    let others = (others > 0).then(|| Quantity::count(others));
    let kernels = say!(
        evidence,
        "findings.kernels",
        kernel = kernel.clone(),
        others = others,
    );
    let norm = library.filter(|identity| {
        reason == Reason::SmallGrid && identity.class == KernelClass::Normalization
    });
    let is_scan = reason == Reason::SmallGrid
        && library.is_some_and(|identity| identity.short.contains(SCAN));
    let arguments = arguments! {
        stage = label,
        share = faults.share,
        kernel = kernel,
        kernels = kernels,
        others = others,
        figure = cause.figure,
        blocks = Quantity::count(largest.grid.volume()),
        threads = Quantity::count(largest.block.volume()),
        now = now,
        least = now * cause.rest,
        limit = limiter,
        library = library.filter(|_| norm.is_none() && !is_scan).map(|identity| identity.library),
        scan = is_scan.then_some(""),
        own = library.is_none().then_some(""),
        norm = norm.map(|identity| identity.library),
        spills = cause.spills.then(String::new),
        coalesced = cause.coalesced,
        also = cause.coalesced.map(|_| String::new()),
    };
    let draft = Draft::new(finding, arguments).cause_if(true);
    match reason {
        Reason::Uncoalesced | Reason::Atomics | Reason::Occupancy if library.is_some() => {
            draft.advice("advice_library")
        }
        Reason::SmallGrid if norm.is_some() => draft.advice("advice_norm"),
        Reason::SmallGrid if is_scan => draft.advice("advice_scan"),
        _ => draft,
    }
}

/// What the name of a kernel tells.
fn identity<'a>(evidence: &Evidence<'a>, limit: &KernelLimit) -> Option<&'a KernelIdentity> {
    match (limit.kernel, limit.source) {
        (Some(kernel), _) => Some(&evidence.facts.identities[kernel.index()]),
        (None, LimitSource::Counters(profile)) => {
            let counters = evidence.results.counters().ok()?;
            Some(&counters.launch(profile).identity)
        }
        (None, LimitSource::Grid) => None,
    }
}
