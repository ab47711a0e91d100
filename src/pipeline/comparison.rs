//! Comparison of two captures.

use super::analyze::{Analysis, AnalyzeError};
use super::open::Capture;
use crate::analysis::Options;
use crate::compare::conditions::Subject;
use crate::compare::{self, Pair, Side};
use crate::document::{Catalogue, Finding, Lang};
use crate::report::{Provenance, Report};
use crate::sections;
use rooflens_units::Ratio;

/// Reason why two captures are not compared.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// One of them cannot be analyzed.
    #[error(transparent)]
    Analyze(#[from] AnalyzeError),
    /// They are not of the same work on the same machine.
    #[error("{} differs: {before} before, {after} after", subject.label())]
    Conditions {
        /// What differs.
        subject: Subject,
        /// Value of the first capture.
        before: String,
        /// Value of the second one.
        after: String,
    },
}

/// The report of what differs between two captures. A stage counts as faster or slower from the factor `least` on.
///
/// # Errors
/// A capture has nothing to analyze, or a condition differs that makes times mean different things and is not `allowed`.
pub fn compare(
    before: &Capture,
    after: &Capture,
    (least, allowed): (Ratio, &[Subject]),
    lang: Lang,
) -> Result<Report, ComparisonError> {
    let options = Options::default();
    let analyses = Pair {
        before: before.analyze(&options)?,
        after: after.analyze(&options)?,
    };
    let text = Catalogue::of(lang);
    let findings = Pair::of(&analyses, |analysis| findings(analysis, text));
    let sides = Pair {
        before: side(&analyses.before, &findings.before),
        after: side(&analyses.after, &findings.after),
    };
    let comparison = compare::compare(sides, least);
    let mut conditions = comparison.conditions.iter();
    let is_refused = |subject: Subject| subject.prevents() && !allowed.contains(&subject);
    if let Some(condition) = conditions.find(|condition| is_refused(condition.subject)) {
        let Pair { before, after } = condition.values.clone();
        return Err(ComparisonError::Conditions {
            subject: condition.subject,
            before,
            after,
        });
    }
    let captures = [(before, "before"), (after, "after")];
    let name = format!("{} → {}", before.bundle.name, after.bundle.name);
    let id = format!("{} {}", before.bundle.id, after.bundle.id);
    let mut provenance = Provenance {
        bundle: &name,
        bundle_id: &id,
        ..Provenance::default()
    };
    for (capture, side) in captures {
        for [path, kind, pass, hash] in capture.artifacts() {
            let path = format!("{side}/{path}");
            provenance.artifacts.push([path, kind, pass, hash]);
        }
    }
    Ok(compare::report(&comparison, text, provenance))
}

fn side<'a>(analysis: &'a Analysis<'_>, findings: &'a [Finding]) -> Side<'a> {
    Side {
        name: &analysis.capture().bundle.name,
        context: analysis.context(),
        findings,
    }
}

/// What the rules found, in the words of the report.
fn findings(analysis: &Analysis<'_>, text: &'static Catalogue) -> Vec<Finding> {
    let context = sections::Context::new(analysis.context(), text);
    analysis.judge(&context).findings.findings
}
