//! Kernels whose class the rules of names do not know.

use super::{Outcome, Results, Rule, Threshold, ids};
use crate::analysis::kernels::kernel_sums::OTHER_LIMIT;
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Scope;

pub(super) static RULE: Rule = Rule {
    id: "unknown-kernels",
    title: "Kernels of unknown class",
    thresholds: &[Threshold::ratio("their share of the kernel time, at least", OTHER_LIMIT)],
    run,
};

fn run(results: &Results<'_>) -> Outcome {
    let scope = Scope { pass: Some(results.pass.clone()), ..Scope::default() };
    let Some(share) = results.number(ids::OTHER_SHARE, &scope) else {
        return Outcome::lacks("kernels by name");
    };
    if share < OTHER_LIMIT {
        return Outcome::CLEAR;
    }
    let own = results.rows(ids::KERNELS);
    let own = own.filter(|row| row.text("pass") == results.pass && row.text("class") == "other");
    let largest = own.max_by(|a, b| a.sum("total_ns").total_cmp(&b.sum("total_ns")));
    let mut statement = prose![
        Quantity::ratio(share),
        " of the kernel time of pass ",
        Inline::Code(results.pass.clone()),
        " is in kernels whose class their name does not tell"
    ];
    if let Some(row) = largest {
        statement.extend(prose![", most of it in ", Inline::Code(row.text("short").to_owned())]);
    }
    statement.push(".".into());
    Outcome::Found(vec![Observation {
        statement,
        evidence: results.evidence(ids::OTHER_SHARE, &scope),
        scope,
        ..Observation::default()
    }])
}
