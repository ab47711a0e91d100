//! Rules: what is slow, why, and what to try first, told from the typed results of the analyses.
//!
//! `docs/findings.md` describes each one.

#![forbid(unsafe_code)]

// Every file says words: `say!`, `words!`, `method!`.
#[macro_use]
extern crate rooflens_document;

mod advice;
mod evidence;
mod idle_sql;
mod limits;
mod of_stage;
mod products;
mod profiled;
mod sql;
mod stage;
mod summary;
mod tables;

mod communication;
mod counters;
mod gemm;
mod measurement;
mod system;
mod time;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use rooflens_schemas::{Scope, Unit};

use rooflens_analysis::Context;
use rooflens_document::{Catalogue, Finding, GainKind, Quantity, SectionContent, Severity};

pub use evidence::Evidence;

/// A rule.
pub struct Rule {
    /// Stable name, such as `launch-bound`.
    pub id: &'static str,
    /// The numbers that decide.
    pub thresholds: &'static [Threshold],
    /// Whether it is about how far figures carry.
    pub on_measurement: bool,
    /// What it says of a bundle.
    pub run: fn(&Evidence<'_>) -> Outcome,
}

/// A number that decides, and what is compared with it.
pub struct Threshold {
    /// Key of the words for what is compared.
    pub key: &'static str,
    /// The number.
    pub value: Quantity,
}

/// What came of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It holds.
    Found(Vec<Finding>),
    /// It looked, and it does not hold; names the stages that it could not look at, if there are any.
    Passed(String),
    /// There is nothing that it could be about, or another finding says it better; says why.
    NotApplicable(String),
    /// The bundle lacks what it needs; says what to capture.
    InsufficientData(String),
}

/// What a rule makes of one stage.
enum Look {
    /// It holds.
    Found(Box<Finding>),
    /// It does not hold.
    Passed,
    /// It is pointless, because of something else; says what.
    Suppressed(String),
    /// The stage has nothing that it could be about; says what.
    NotApplicable(String),
    /// The bundle does not tell.
    InsufficientData,
}

/// The groups of rules, in the order of the table of rules.
static GROUPS: [&[&Rule]; 6] = [
    time::RULES,
    communication::RULES,
    gemm::RULES,
    counters::RULES,
    system::RULES,
    measurement::RULES,
];

/// All rules, in the order of the table of rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    GROUPS.into_iter().flatten().copied()
}

/// Runs all rules on the evidence. First the summary: blocks and tables of the first pages; then the findings:
/// observations, the weightiest first, and the tables of findings and of rules.
pub fn run(context: &Context<'_>, text: &'static Catalogue) -> (SectionContent, SectionContent) {
    let evidence = Evidence::new(context, text);
    let mut findings = judge(&evidence);
    let summary = summary::summary(&evidence, &findings.observations);
    findings.observations = by_stage(&evidence, findings.observations);
    (summary, findings)
}

/// What a rule finds in the same stage of several ranks as one finding: the first, with what the others could save.
fn by_stage(evidence: &Evidence<'_>, all: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for one in all {
        let first = kept.iter_mut().find(|first| is_of_other_rank(first, &one));
        match (first, &one.gain, one.scope.rank) {
            (Some(first), Some(gain), Some(rank)) => first.statement.extend(say!(
                evidence,
                "findings.also_rank",
                rank = rank.to_string(),
                saved = Quantity::new(gain.saved_ns, Unit::Nanoseconds),
                share = Quantity::ratio(gain.share()),
            )),
            _ => kept.push(one),
        }
    }
    kept
}

/// Whether two findings are the same of two ranks.
fn is_of_other_rank(one: &Finding, other: &Finding) -> bool {
    let of_each = |found: &Finding| {
        let kind = found.gain.as_ref().map(|gain| gain.kind);
        kind.filter(|kind| {
            matches!(
                kind,
                GainKind::Idle | GainKind::Work | GainKind::WorkAfterCpu
            )
        })
    };
    (one.id, &one.scope.stage, of_each(one)) == (other.id, &other.scope.stage, of_each(other))
        && of_each(one).is_some()
        && one.scope.rank.is_some()
        && one.scope.rank != other.scope.rank
}

fn judge(evidence: &Evidence<'_>) -> SectionContent {
    let mut observations = Vec::new();
    let mut outcomes = Vec::new();
    for rule in rules() {
        let outcome = (rule.run)(evidence);
        if let Outcome::Found(found) = &outcome {
            observations.extend(found.iter().map(|one| {
                let one = named(evidence.text, evidence.text.rule(rule.id), rule, one);
                advice::fitting(evidence, borne_out(evidence, one))
            }));
        }
        outcomes.push((rule, outcome));
    }
    observations.sort_by(|a, b| {
        let is_other = |one: &Finding| one.id != time::stage_busy::RULE.id;
        is_other(a)
            .cmp(&is_other(b))
            .then(if is_other(a) {
                b.severity.cmp(&a.severity)
            } else {
                std::cmp::Ordering::Equal
            })
            .then(b.weight_ns.total_cmp(&a.weight_ns))
            .then_with(|| (a.id, &a.scope, &a.title).cmp(&(b.id, &b.scope, &b.title)))
    });
    let datasets = vec![
        tables::findings(evidence, &observations),
        tables::outcomes(evidence, &outcomes),
        tables::rules(evidence, &outcomes),
    ];
    let methods = vec![tables::method(evidence)];
    SectionContent {
        observations,
        datasets,
        methods,
        ..SectionContent::default()
    }
}

/// The observation, critical only if more than one measured iteration of its stage bears it out. What is wrong with the
/// measurement itself needs no second one.
fn borne_out(evidence: &Evidence<'_>, mut one: Finding) -> Finding {
    let stage = evidence
        .stages
        .iter()
        .find(|stage| stage.scope == one.scope);
    if !one.on_measurement && stage.is_some_and(|stage| stage.counted <= 1.0) {
        one.severity = one.severity.min(Severity::Warning);
    }
    one
}

/// The observation with the name of its rule.
fn named(text: &'static Catalogue, name: &str, rule: &Rule, observation: &Finding) -> Finding {
    let about = &observation.title;
    let title = if about.is_empty() {
        name.to_owned()
    } else {
        format!("{name}{}{about}", text.colon())
    };
    Finding {
        id: rule.id,
        title,
        on_measurement: rule.on_measurement,
        ..observation.clone()
    }
}

impl Rule {
    /// A rule about the run.
    const fn new(
        id: &'static str,
        thresholds: &'static [Threshold],
        run: fn(&Evidence<'_>) -> Outcome,
    ) -> Self {
        Self {
            id,
            thresholds,
            on_measurement: false,
            run,
        }
    }

    /// The same about the measurement.
    const fn on_measurement(mut self) -> Self {
        self.on_measurement = true;
        self
    }
}

impl Outcome {
    /// It looked at everything, and it does not hold.
    const PASSED: Self = Self::Passed(String::new());

    /// Found if there is something in the list.
    fn of(found: Vec<Finding>) -> Self {
        if found.is_empty() {
            Self::PASSED
        } else {
            Self::Found(found)
        }
    }

    /// What came of looking at stages, given with their labels. It is clear if it is so for each stage at which it could
    /// look and which has something to look at.
    fn of_stages<'a>(looks: impl Iterator<Item = (&'a str, Look)>, needs: &str) -> Self {
        let (mut found, mut is_clear) = (Vec::new(), false);
        let (mut moot, mut nothing, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
        for (label, look) in looks {
            match look {
                Look::Found(one) => found.push(*one),
                Look::Passed => is_clear = true,
                Look::InsufficientData => unseen.push(label),
                Look::Suppressed(reason) => add_reason(&mut moot, reason, label),
                Look::NotApplicable(reason) => add_reason(&mut nothing, reason, label),
            }
        }
        if !found.is_empty() {
            Self::Found(found)
        } else if !moot.is_empty() {
            Self::NotApplicable(reasons(&moot))
        } else if is_clear {
            Self::Passed(unseen.join(", "))
        } else if !nothing.is_empty() {
            Self::NotApplicable(reasons(&nothing))
        } else {
            Self::lacks(needs)
        }
    }

    /// Found as one finding that says what each of the list does: of passes or stages about which the same is to be
    /// done. Advice is that of the first.
    fn joined(text: &'static Catalogue, found: Vec<Finding>) -> Self {
        let join = |one: Finding, next: Finding| Finding {
            title: [one.title, next.title].join(text.comma()),
            severity: one.severity.max(next.severity),
            scope: Scope::default(),
            weight_ns: one.weight_ns.max(next.weight_ns),
            statement: [one.statement, vec![text.space().into()], next.statement].concat(),
            evidence: [one.evidence, next.evidence].concat(),
            ..one
        };
        Self::of(found.into_iter().reduce(join).into_iter().collect())
    }

    /// Abstained for want of something.
    fn lacks(what: &str) -> Self {
        Self::InsufficientData(what.to_owned())
    }
}

/// Adds a stage to those of its reason.
fn add_reason<'a>(list: &mut Vec<(String, Vec<&'a str>)>, reason: String, label: &'a str) {
    match list.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, labels)) => labels.push(label),
        None => list.push((reason, vec![label])),
    }
}

/// `prefill, decode: why; eager: why not`.
fn reasons(list: &[(String, Vec<&str>)]) -> String {
    let said = list
        .iter()
        .map(|(reason, labels)| format!("{}: {reason}", labels.join(", ")));
    said.collect::<Vec<_>>().join("; ")
}

impl Look {
    fn found(one: Finding) -> Self {
        Self::Found(Box::new(one))
    }

    /// Made moot by another rule, which holds for the same stage.
    fn said_by(evidence: &Evidence<'_>, rule: &Rule) -> Self {
        Self::Suppressed(words!(
            evidence,
            "findings.said_by",
            rule = evidence.text.rule(rule.id)
        ))
    }
}

impl From<Option<Finding>> for Look {
    fn from(found: Option<Finding>) -> Self {
        found.map_or(Self::Passed, Self::found)
    }
}

impl Threshold {
    const fn ratio(key: &'static str, value: f64) -> Self {
        Self {
            key,
            value: Quantity::ratio(value),
        }
    }

    const fn one(key: &'static str, value: f64) -> Self {
        Self {
            key,
            value: Quantity::new(value, Unit::One),
        }
    }

    const fn ns(key: &'static str, value: i64) -> Self {
        Self {
            key,
            value: Quantity::ns(value),
        }
    }
}
