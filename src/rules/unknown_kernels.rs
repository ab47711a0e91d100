//! Kernels whose class the rules of names do not know.

use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::kernels::kernel_sums::OTHER_LIMIT;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Scope;

pub(super) static RULE: Rule = Rule {
    id: "unknown-kernels",
    thresholds: &[Threshold::ratio("thresholds.kernel_share", OTHER_LIMIT)],
    run,
};

fn run(results: &Results<'_>) -> Outcome {
    let scope = Scope { pass: Some(results.pass.clone()), ..Scope::default() };
    let known =
        results.kernels().and_then(|kernels| Some((kernels, kernels.share(kernels.other)?)));
    let Some((kernels, share)) = known else { return Outcome::lacks("kernels by name") };
    if share < OTHER_LIMIT {
        return Outcome::CLEAR;
    }
    let identities = &results.context.facts.identities;
    let mut statement = prose![
        Quantity::ratio(share),
        " of the kernel time of pass ",
        Inline::Code(results.pass.clone()),
        " is in kernels whose class their name does not tell"
    ];
    if let Some(largest) = kernels.largest_other(identities) {
        let short = identities[largest.kernel.index()].short.clone();
        statement.extend(prose![", most of it in ", Inline::Code(short)]);
    }
    statement.push(".".into());
    Outcome::Found(vec![Observation {
        statement,
        evidence: vec![kernels.evidence(results.context.session)],
        scope,
        ..Observation::default()
    }])
}
