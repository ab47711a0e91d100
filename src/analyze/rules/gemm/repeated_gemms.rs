//! GEMMs of one kernel and grid in a row, which one batched GEMM could compute.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::kernels::gemm::repeated::{MANY, RepeatedGemms};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "repeated-gemms",
    &[
        Threshold::count("thresholds.row_of_gemms", MANY),
        Threshold::ratio("thresholds.row_share", SHARE),
    ],
    outcome,
)
.on_kernels();

/// Share of the stage time from which on rows are worth a finding.
const SHARE: Ratio = Ratio(0.05);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_of_kernels(|stage| {
        let Ok(repeated) = evidence.results.repeated_gemms() else {
            return Look::InsufficientData;
        };
        // A trace with operators says which GEMMs depend on one another.
        let groups = evidence.results.chains();
        if groups.is_ok_and(|chains| !chains.by_names) {
            return Look::suppressed_by(evidence, "gemm-loop");
        }
        let work = evidence.work(stage.key());
        let has_kernels = work.is_some_and(|work| !work.kernels.is_empty());
        if !has_kernels || !evidence.shows_operations(stage) {
            return Look::InsufficientData;
        }
        let mut repeated = repeated.iter();
        let gemms = repeated.find(|gemms| stage.is(&gemms.summary));
        gemms.and_then(|gemms| draft(evidence, stage, gemms)).into()
    })
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, gemms: &RepeatedGemms) -> Option<Draft> {
    let launch = gemms.busy.time() / gemms.launches as f64;
    let time = gemms.time.time() / stage.counted;
    let least = launch * gemms.rows as f64 / stage.counted;
    let saved = stage.share(time - least);
    if saved < SHARE {
        return None;
    }
    let identity = &evidence.facts.identities[gemms.kernel.index()];
    // Names and grids do not say whether a GEMM reads the result of the one before it.
    let finding = Finding {
        evidence: vec![stage.evidence()],
        gain: None,
        ..stage.saving(stage.reference() * saved)
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        kernel = Inline::code(&identity.short),
        longest = Quantity::count(gemms.longest),
        blocks = Quantity::count(gemms.grid.volume()),
        time = time,
        share = stage.share(time),
        launch = launch,
        pytorch = evidence.platform.pytorch.then_some(""),
    };
    Some(Draft::new(finding, arguments).cause_if(true))
}
