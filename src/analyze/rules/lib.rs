//! Rules: what is slow, why, and what to try first, by the typed results of the analyses.
//!
//! A rule is a condition, its numbers and its gain; `draft` gives it its words by its id. Rules lie in groups and never
//! call each other: a judgement that several rules need has a module of its own above the groups, such as `pauses` or
//! `launching`. Once rules asked each other, and the order in which they could be read was a circle.
//! `docs/findings.md` describes each one.

#![forbid(unsafe_code)]

// Every file says words: `say!`, `words!`, `method!`.
#[macro_use]
extern crate rooflens_document;

#[macro_use]
mod draft;

mod advice;
mod classes;
mod evidence;
mod idle_sql;
mod imbalances;
mod known;
mod launching;
mod pauses;
mod practices;
mod products;
mod profiled;
mod rates;
mod rule;
mod sql;
mod stage;
mod stage_results;
mod summary;
mod tables;
mod trends;

mod communication;
mod counters;
mod gemm;
mod kernels;
mod measurement;
mod operators;
mod system;
mod time;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::cmp::Ordering;

use rooflens_analysis::Context;
use rooflens_document::{Catalogue, Finding, GainKind, SectionContent, Severity};
use rooflens_units::Count;

use evidence::Evidence;
use rule::Outcome;
pub use rule::{Rule, Threshold};
use time::stage_busy;

/// The groups of rules, in the order of the table of rules.
static GROUPS: [&[&Rule]; 8] = [
    time::RULES,
    communication::RULES,
    gemm::RULES,
    operators::RULES,
    kernels::RULES,
    counters::RULES,
    system::RULES,
    measurement::RULES,
];

/// All rules, in the order of the table of rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    GROUPS.into_iter().flatten().copied()
}

/// Runs all rules. First the summary: blocks and tables of the first pages; then the findings by weight, and the tables of
/// findings and of rules.
pub fn run(context: &Context<'_>, text: &'static Catalogue) -> (SectionContent, SectionContent) {
    let evidence = Evidence::new(context, text);
    let (mut content, outcomes) = judge(&evidence);
    let (mut summary, numbers) = summary::summary(&evidence, &content.findings, &outcomes);
    for (finding, number) in content.findings.iter_mut().zip(numbers) {
        finding.action = number;
    }
    content.main = std::mem::take(&mut summary.main);
    content.findings = by_stage(&evidence, content.findings);
    (summary, content)
}

/// What a rule finds in the same stage of several ranks as one finding: the first, with what the others could save.
fn by_stage(evidence: &Evidence<'_>, findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in findings {
        let first = kept
            .iter_mut()
            .find(|first| is_of_other_rank(first, &finding));
        match (first, &finding.gain, finding.scope.rank) {
            (Some(first), Some(gain), Some(rank)) => first.statement.extend(say!(
                evidence,
                "findings.also_rank",
                rank = rank.to_string(),
                saved = gain.saved_ns,
                share = gain.share(),
            )),
            _ => kept.push(finding),
        }
    }
    kept
}

/// Whether two findings are the same of two ranks.
fn is_of_other_rank(a: &Finding, b: &Finding) -> bool {
    kind_by_rank(a).is_some()
        && (a.id, &a.scope.stage, kind_by_rank(a)) == (b.id, &b.scope.stage, kind_by_rank(b))
        && a.scope.rank.is_some()
        && a.scope.rank != b.scope.rank
}

/// The kind of the gain, if each rank can have one of its own.
fn kind_by_rank(finding: &Finding) -> Option<GainKind> {
    match finding.gain.as_ref()?.kind {
        kind @ (GainKind::Idle | GainKind::Work | GainKind::WorkAfterCpu) => Some(kind),
        _ => None,
    }
}

/// The findings, and the outcome of each rule.
fn judge(evidence: &Evidence<'_>) -> (SectionContent, Vec<(&'static Rule, Outcome)>) {
    let (mut findings, mut outcomes) = (Vec::new(), Vec::new());
    let of_kernels = evidence.of_kernels();
    for rule in rules() {
        let evidence = match &of_kernels {
            Some(of_kernels) if rule.is_on_kernels => of_kernels,
            _ => evidence,
        };
        let outcome = rule.judge(evidence);
        if let Outcome::Found(drafts) = &outcome {
            for draft in drafts {
                let finding = named(evidence.text, rule, draft.finding(rule.id, evidence));
                findings.push(advice::fitting(evidence, borne_out(evidence, finding)));
            }
        }
        outcomes.push((rule, outcome));
    }
    findings.sort_by(by_weight);
    let datasets = vec![
        tables::findings(evidence, &findings),
        tables::outcomes(evidence, &outcomes),
        tables::rules(evidence, &outcomes),
    ];
    let content = SectionContent {
        findings,
        datasets,
        methods: vec![tables::method(evidence)],
        ..SectionContent::default()
    };
    (content, outcomes)
}

/// The sentences about stages first, then by severity and weight.
fn by_weight(a: &Finding, b: &Finding) -> Ordering {
    let rank = |finding: &Finding| match finding.id {
        stage_busy::ID => (0, None),
        _ => (1, Some(std::cmp::Reverse(finding.severity))),
    };
    rank(a)
        .cmp(&rank(b))
        .then(b.weight_ns.total_cmp(&a.weight_ns))
        .then_with(|| (a.id, &a.scope, &a.title).cmp(&(b.id, &b.scope, &b.title)))
}

/// The finding, critical only if more than one measured iteration of its stage bears it out. What is wrong with the
/// measurement itself needs no second one.
fn borne_out(evidence: &Evidence<'_>, mut finding: Finding) -> Finding {
    let stage = evidence
        .stages
        .iter()
        .find(|stage| stage.scope == finding.scope);
    if !finding.on_measurement && stage.is_some_and(|stage| stage.counted <= Count(1.0)) {
        finding.severity = finding.severity.min(Severity::Warning);
    }
    finding
}

/// The finding with the name of its rule.
fn named(text: &'static Catalogue, rule: &Rule, mut finding: Finding) -> Finding {
    let name = text.rule(rule.id);
    finding.title = match finding.title.as_str() {
        "" => name.to_owned(),
        subject => format!("{name}{}{subject}", text.colon()),
    };
    finding.id = rule.id;
    finding.on_measurement = rule.on_measurement;
    finding.is_general = rule.is_general && !finding.is_apart;
    finding
}
