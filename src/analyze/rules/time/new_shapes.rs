//! The GPU waits while the host prepares kernels for input shapes.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Look, Outcome, Rule};
use rooflens_units::Time;

pub(crate) static RULE: Rule = Rule::new(known::NEW_SHAPES, &[known::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let outcome = evidence.each_stage(|stage| {
        let Some(idle) = evidence.idle(stage.key()) else {
            return Look::InsufficientData;
        };
        if idle.has_calls().is_err() {
            return Look::InsufficientData;
        }
        let whole = idle.pool.time.time();
        let lost = known::preparation(evidence, stage);
        let lost = lost.filter(|lost| lost.idle > Time::ZERO && lost.idle >= whole * known::SHARE);
        let Some(lost) = lost else {
            return Look::Passed;
        };
        let loss = known::loss_of_stage(evidence, (stage, idle), lost, &known::SHAPES);
        let arguments = arguments! {
            idle = loss.idle(),
            occurs = loss.occurs(evidence),
            names = loss.listed(evidence),
        };
        Draft::new(loss.finding, arguments).into()
    });
    outcome.or_needs(words!(evidence, "findings.needs_idle"))
}
