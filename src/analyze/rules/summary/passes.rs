//! Passes that did not run to their end: a profiler failed, or its time was up.

use rooflens_document::Inline;
use rooflens_schemas::manifest::{ENDED, ENDED_BY_TIME};

use crate::evidence::Evidence;

/// The passes that did not run to their end, in words; none if all did.
pub(super) fn caveat(evidence: &Evidence<'_>) -> Option<Vec<Inline>> {
    let (session, facts) = (evidence.session, &evidence.session.environment);
    let mut passes = Vec::new();
    for row in 0..facts.len() {
        let pass = session.text(facts.subject[row]);
        if session.text(facts.key[row]) != ENDED {
            continue;
        }
        passes.push(match session.text(facts.value[row]) {
            ENDED_BY_TIME => words!(evidence, "summary.ended_by_time", pass = pass),
            code => words!(
                evidence,
                "summary.ended_with_code",
                pass = pass,
                code = code
            ),
        });
    }
    let list = passes.join(evidence.text.comma());
    (!passes.is_empty()).then(|| say!(evidence, "summary.not_to_the_end", passes = list))
}
