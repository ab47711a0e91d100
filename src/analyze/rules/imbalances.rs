//! Stages that ranks of a run compute for unequally long.

use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::straggler::Imbalance;

use crate::evidence::Evidence;

/// The rule that says them.
pub(crate) const RULE: &str = "straggler";

/// The ranks of a run, and their computing times in one stage.
pub(crate) type UnevenStage<'a> = (&'a Ranks, &'a Imbalance);

/// The computing times of all stages of all runs.
pub(crate) fn uneven_stages<'a>(evidence: &Evidence<'a>) -> Vec<UnevenStage<'a>> {
    let mut stages = Vec::new();
    for ranks in evidence
        .results
        .communication()
        .into_iter()
        .flat_map(|all| &all.runs)
    {
        for imbalance in &ranks.imbalances {
            stages.push((ranks, imbalance));
        }
    }
    stages
}

/// Whether a lower clock of this GPU by this reason is what makes a straggler.
pub(crate) fn are_by_clock(evidence: &Evidence<'_>, gpu: u32, reason: &str) -> bool {
    for (ranks, imbalance) in uneven_stages(evidence) {
        let speed = &ranks.lines[imbalance.slowest].speed;
        if let Some(clock) = speed.lower_clock()
            && let Some((name, _)) = clock.limit
            && imbalance.is_uneven()
            && (speed.gpu, name) == (Some(gpu), reason)
        {
            return true;
        }
    }
    false
}
