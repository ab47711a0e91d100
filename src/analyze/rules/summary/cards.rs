//! Actions as the summary shows them: what to do, code to copy, and what it saves and costs, and how to verify it.

use super::actions::{Action, Effect};
use super::figures::{self, Figure};
use super::whole::Whole;
use super::{has_unprofiled, remedies};
use crate::evidence::Evidence;
use rooflens_document::{ActionCard, Inline, Quantity};

/// One card an action.
pub(super) fn cards(
    evidence: &Evidence<'_>,
    actions: &[Action<'_>],
    figures: &[Figure],
    whole: Option<&Whole<'_>>,
) -> Vec<ActionCard> {
    let mut cards = Vec::new();
    for number in 0..actions.len() {
        cards.push(card(evidence, &actions[..=number], figures, whole));
    }
    cards
}

/// The card of the last of these actions.
fn card(
    evidence: &Evidence<'_>,
    actions: &[Action<'_>],
    figures: &[Figure],
    whole: Option<&Whole<'_>>,
) -> ActionCard {
    let text = evidence.text;
    let number = actions.len() - 1;
    let action = &actions[number];
    let remedy = remedies::of_action(evidence, action);
    let mut facts = Vec::new();
    let mut fact = |key: &str, value: Vec<Inline>| {
        if !value.is_empty() {
            facts.push((text.line(key, &[]), value));
        }
    };
    let saves = words!(
        evidence,
        "summary.at_most",
        effect = figures::effect(evidence, whole, action),
        beyond = figures::beyond(evidence, whole, actions),
        more = figures::more_of_request(evidence, actions),
        condition = action.condition(text),
    );
    fact("summary.card_saves", vec![saves.into()]);
    fact("summary.card_why", super::action_line(evidence, action));
    let risks: Vec<String> = remedy
        .risks
        .iter()
        .map(|risk| text.line(risk.key(), &[]))
        .collect();
    let effort = words!(
        evidence,
        "summary.card_confidence",
        effort = text.line(remedy.effort.key(), &[]),
        risks = (!risks.is_empty()).then(|| risks.join(text.comma())),
        confidence = super::confidence(evidence, action),
    );
    fact("summary.card_effort", vec![effort.into()]);
    fact(
        "summary.card_verify",
        verify(evidence, (number, action), figures),
    );
    ActionCard {
        what: vec![action.what_to_do(text).into()],
        snippet: remedy.snippet(evidence, action),
        facts,
        finding: action.finding.id,
    }
}

/// What to measure again, and what should come out.
fn verify(
    evidence: &Evidence<'_>,
    (number, action): (usize, &Action<'_>),
    figures: &[Figure],
) -> Vec<Inline> {
    let mut changed = Vec::new();
    let is_own = |figure: &&Figure| match action.effect {
        Effect::Stage(stage) => figure.label.starts_with(stage.label()),
        _ => false,
    };
    let (own, others): (Vec<_>, Vec<_>) = figures.iter().partition(is_own);
    for figure in own.into_iter().chain(others) {
        let before = match number.checked_sub(1) {
            Some(last) => figure.after.get(last).copied().flatten(),
            None => Some(figure.now),
        };
        if let (Some(before), Some(Some(after))) = (before, figure.after.get(number))
            && before != *after
            && figure.is_time
        {
            changed.push(words!(
                evidence,
                "summary.verify_figure",
                figure = figure.label.as_str(),
                now = figure.now,
                after = *after
            ));
        }
    }
    changed.truncate(SHOWN_FIGURES);
    let unprofiled = has_unprofiled(evidence);
    let mut line = Vec::new();
    if !changed.is_empty() {
        line = say!(
            evidence,
            "summary.card_expect",
            figures = changed.join(evidence.text.semicolon()),
            unprofiled = unprofiled.then_some(""),
            actions = (number > 0).then(|| Quantity::count(number as u64 + 1)),
        );
    }
    // The finding of a third action has its next step: the page has no room for it.
    if let Some(next) = &action.finding.next
        && number < WITH_NEXT
    {
        if !line.is_empty() {
            line.push(evidence.text.space().into());
        }
        line.extend(next.clone());
    }
    line
}

/// Cards that name what to capture next.
const WITH_NEXT: usize = 2;

/// Figures that a card names.
const SHOWN_FIGURES: usize = 1;
