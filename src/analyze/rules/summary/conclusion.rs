//! The title of a report: what ran, what limits it, and how much faster it can be on the same GPU.

use super::actions::{self, Action, Effect};
use super::confidence;
use super::leaves::{self, Leaf};
use super::whole::{Kind, Whole};
use crate::evidence::Evidence;
use crate::stage::HALF_BUSY;
use crate::time::host_bound;
use rooflens_analysis::time::idle::{StageIdle, Verdict};
use rooflens_document::Quantity;
use rooflens_sections::{Context, headline};
use rooflens_units::{Ratio, Time};

/// Share of the whole from which on what is saved limits it.
const NOTABLE: Ratio = Ratio(0.05);

/// Rules of which the title says what bounds the stage; of the others it says the cause.
const BOUNDS: [(&str, Verdict); 2] = [
    ("launch-bound", Verdict::Launch),
    ("host-bound", Verdict::Host),
];

/// The conclusion, where there are stages. Else what ran, if nothing names it: never the name of a file.
pub(super) fn conclusion(
    evidence: &Evidence<'_>,
    whole: Option<&Whole<'_>>,
    actions: &[Action<'_>],
    leaves: &[Leaf],
    unmeasured: Option<&str>,
) -> Option<String> {
    let context = Context::new(evidence.context, evidence.text);
    let subject = headline::subject(&context);
    let limited = whole.and_then(|whole| {
        let saved = Ratio::of(whole.now - whole.best(), whole.now);
        let most = leaves::most(evidence, leaves, saved);
        match (largest_action(evidence, whole, actions), most) {
            // Actions are about the smaller part of the time.
            (Some(_), Some(most)) => Some(most),
            (Some(action), None) if saved >= NOTABLE => Some(limited(evidence, whole, action)),
            // What saves little of the whole does not limit it.
            _ => longest(evidence, whole),
        }
    });
    let (Some(whole), Some(limited)) = (whole, limited) else {
        return headline::title(&context);
    };
    let factor = whole.speedup().map(factor);
    let count = whole.effective();
    Some(words!(
        evidence,
        "summary.conclusion",
        subject = subject,
        limited = limited,
        whole = factor.is_some().then(|| name_of(evidence, whole)),
        once = whole.recurring().map(|_| ""),
        factor = factor,
        last = Quantity::count(count as u64),
        many = (count > 1).then_some(""),
        one = (count == 1).then_some(""),
        none = (actions.is_empty() && unmeasured.is_none()).then_some(""),
        unmeasured = unmeasured.filter(|_| actions.is_empty()),
    ))
}

/// The action with the largest part of the factor, weighted by confidence as their order is: the first one, which the page
/// names first, unless a later one saves more by both.
fn largest_action<'a, 'b>(
    evidence: &Evidence<'_>,
    whole: &Whole<'_>,
    actions: &'a [Action<'b>],
) -> Option<&'a Action<'b>> {
    let mut saved_by_each = whole.saved_by_each(actions);
    let (mut largest, of_first) = saved_by_each.next()?;
    let expected = |action: &Action<'_>, saved: Time| {
        let (confidence, _) = confidence::of_action(evidence, action);
        saved * confidence.weight()
    };
    let mut most = expected(largest, of_first);
    for (action, saved) in saved_by_each {
        let expected = expected(action, saved);
        if expected > most && saved > of_first {
            (most, largest) = (expected, action);
        }
    }
    Some(largest)
}

/// What an action removes.
fn limited(evidence: &Evidence<'_>, whole: &Whole<'_>, action: &Action<'_>) -> String {
    let bound = BOUNDS.iter().find(|(rule, _)| *rule == action.finding.id);
    if let Some((_, verdict)) = bound.copied()
        && let Effect::Stage(stage) = action.effect
    {
        // The loop has more than its iterations.
        let is_only =
            whole.stages.len() == 1 && whole.kind != Kind::Loop || whole.kind == Kind::Step;
        let name = stage.scope.stage.as_deref().unwrap_or(stage.label());
        let is_whole = is_only || action.others(actions::SIMILAR).next().is_some();
        let idle = evidence.idle(stage.key());
        if verdict == Verdict::Host && idle.is_some_and(host_bound::is_blocked) {
            return actions::cause(evidence.text, action.finding);
        }
        // One word for a stage on all pages, where its data says which of both it is.
        let verdict = match idle.map(StageIdle::verdict) {
            Some((known @ (Verdict::Launch | Verdict::Host), _)) if !is_whole => known,
            _ => verdict,
        };
        let busy = whole.busy_share(evidence).filter(|_| is_whole);
        // What is busy for most of its time is not bound by the host, even if its longest wait is for launches.
        if busy.unwrap_or(stage.reference_busy()) < HALF_BUSY {
            return words!(
                evidence,
                "summary.bound",
                whole = is_whole.then(|| name_of(evidence, whole)),
                stage = (!is_whole).then_some(name),
                bound = evidence.text.word(verdict.label()),
            );
        }
    }
    actions::short_cause(evidence, action)
}

/// What bounds the longest stage.
fn longest(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<String> {
    let stage = whole.longest()?;
    let (verdict, _) = evidence.idle(stage.key())?.verdict();
    if verdict == Verdict::Unknown {
        return None;
    }
    let name = stage.scope.stage.as_deref().unwrap_or(stage.label());
    let is_step = whole.kind == Kind::Step;
    Some(words!(
        evidence,
        "summary.bound",
        whole = is_step.then(|| name_of(evidence, whole)),
        stage = (!is_step).then_some(name),
        bound = evidence.text.word(verdict.label()),
    ))
}

/// What is waited for, in a word.
pub(super) fn name_of(evidence: &Evidence<'_>, whole: &Whole<'_>) -> String {
    match (whole.kind, whole.stages.as_slice()) {
        (Kind::Request, _) => words!(evidence, "summary.a_request"),
        (Kind::Step, _) => words!(evidence, "summary.a_step"),
        (Kind::Loop, _) => words!(evidence, "summary.a_loop"),
        (Kind::Iteration, [(stage, _)]) => {
            let is_decode = stage.steps.is_some() && stage.is_decode();
            match is_decode {
                true => words!(evidence, "summary.a_stage_step", stage = stage.label()),
                false => stage.label().to_owned(),
            }
        }
        (Kind::Iteration, _) => words!(evidence, "summary.an_iteration"),
    }
}

/// A factor as titles show it: `2.3`, `1.08`, `12`.
fn factor(factor: f64) -> String {
    let text = match factor {
        ..1.295 => format!("{factor:.2}"),
        ..9.95 => format!("{factor:.1}"),
        _ => return format!("{factor:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn factors_have_no_empty_digits() {
        let shown = [1.0776, 1.1, 2.299, 3.02, 12.3].map(super::factor);
        assert_eq!(shown, ["1.08", "1.1", "2.3", "3", "12"]);
    }
}
