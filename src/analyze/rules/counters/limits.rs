//! Kernels far from their limit, one rule a fault: a kernel counts for the fault with the least limit only, so that gains
//! of these rules do not overlap.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled::{self, ENOUGH, Faults, LOST};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::counters::limits::{LimitSource, NOTABLE, Reason, SOUND, is_own};
use rooflens_document::{Finding, Inline, Quantity};

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
pub(super) static FP64: Rule = rule!("double-precision", Fp64);
pub(super) static SMALL_GRIDS: Rule = rule!("small-grids", SmallGrid);
pub(super) static OCCUPANCY: Rule = rule!("low-occupancy", Occupancy);
pub(super) static TAIL: Rule = rule!("wave-tail", Tail);

fn outcome(evidence: &Evidence<'_>, reason: Reason) -> Outcome {
    let outcome = evidence.each_of_kernels(|stage| look(evidence, stage, reason));
    outcome.or_needs(profiled::needs(evidence))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine, reason: Reason) -> Look {
    let Some(limits) = evidence.limits(stage) else {
        return Look::InsufficientData;
    };
    match Faults::new(limits, reason).filter(|faults| faults.lost >= LOST) {
        Some(faults) => draft(evidence, stage, &faults, reason).into(),
        // Without counters a grid is known, but no other fault.
        None if limits.covered < ENOUGH => Look::InsufficientData,
        None => Look::Passed,
    }
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, faults: &Faults<'_>, reason: Reason) -> Draft {
    let (largest, cause) = faults.largest();
    let identity = &evidence.facts.identities[largest.kernel.index()];
    let library = (!is_own(identity)).then_some(identity.library);
    let launches = largest.launches.max(1) as f64;
    let now = largest.now.time() / launches;
    let others = faults.kernels.len() as u64 - 1;
    let mut sources = vec![stage.evidence()];
    if let LimitSource::Counters(profile) = largest.source {
        let pass = evidence.session.kernel_profiles.pass[profile.index()];
        sources.extend(evidence.profile_evidence(pass));
    }
    let finding = Finding {
        evidence: sources,
        query: profiled::query(evidence, stage, largest),
        ..stage.saving_kernels(stage.operation_time * faults.lost)
    };
    let limiter = match largest.source {
        LimitSource::Counters(profile) if reason == Reason::Occupancy => {
            let details = evidence.results.details().ok();
            details.and_then(|details| details.launch(profile).figures.limiter())
        }
        _ => None,
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        share = faults.share,
        kernel = Inline::code(&identity.short),
        others = (others > 0).then(|| Quantity::count(others)),
        figure = cause.figure,
        blocks = Quantity::count(largest.grid.volume()),
        threads = Quantity::count(largest.block.volume()),
        now = now,
        least = now * cause.rest,
        limit = limiter,
        library = library,
        spills = cause.spills.then(String::new),
    };
    let draft = Draft::new(finding, arguments).cause_if(true);
    match reason {
        Reason::Uncoalesced | Reason::Atomics | Reason::Occupancy if library.is_some() => {
            draft.advice("advice_library")
        }
        _ => draft,
    }
}
