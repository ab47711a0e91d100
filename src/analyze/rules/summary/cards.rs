//! Actions as the summary shows them: what to do, code to copy, and what it saves and costs, and how to verify it.

use super::actions::{Action, Effect};
use super::figures::{self, Figure};
use super::has_unprofiled;
use super::remedies::{self, Effort};
use super::whole::Whole;
use crate::evidence::Evidence;
use rooflens_document::{ActionCard, Inline, Quantity};
use rooflens_schemas::PassKind;

/// One card an action.
pub(super) fn cards(
    evidence: &Evidence<'_>,
    actions: &[Action<'_>],
    figures: &[Figure],
    whole: Option<&Whole<'_>>,
) -> Vec<ActionCard> {
    let mut cards = Vec::new();
    for number in 0..actions.len() {
        let card = card(evidence, (&actions[..=number], &cards), figures, whole);
        cards.push(card);
    }
    cards
}

/// The card of the last of these actions, after those of the earlier ones.
fn card(
    evidence: &Evidence<'_>,
    (actions, earlier): (&[Action<'_>], &[ActionCard]),
    figures: &[Figure],
    whole: Option<&Whole<'_>>,
) -> ActionCard {
    let text = evidence.text;
    let number = actions.len() - 1;
    let action = &actions[number];
    let remedy = remedies::of_action(evidence, action);
    let mut snippet = remedy.snippet(evidence, action);
    let mut effort = remedy.effort;
    let shared = snippet.as_deref().and_then(|code| shared(code, earlier));
    if let (Some(code), Some(number)) = (&snippet, shared) {
        effort = Effort::Option;
        snippet = Some(remedies::replacing(code, number));
    }
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
    let itself = action.alone();
    let is_named = |change: &&Action<'_>| {
        std::ptr::eq(*change, action) || change.adds_to(evidence, std::slice::from_ref(&itself))
    };
    let why: Vec<Vec<Inline>> = action
        .changes()
        .filter(is_named)
        .map(|change| super::action_line(evidence, change))
        .collect();
    fact("summary.card_why", why.join(&Inline::from(text.space())));
    let risks: Vec<String> = remedy
        .risks
        .iter()
        .map(|risk| text.line(risk.key(), &[]))
        .collect();
    let cost = words!(
        evidence,
        "summary.card_confidence",
        effort = text.line(effort.key(), &[]),
        risks = (!risks.is_empty()).then(|| risks.join(text.comma())),
        confidence = super::confidence(evidence, action),
    );
    fact("summary.card_effort", vec![cost.into()]);
    fact(
        "summary.card_verify",
        verify(evidence, (number, action), figures),
    );
    ActionCard {
        what: vec![action.what_to_do(text).into()],
        snippet,
        facts,
        finding: action.finding.id,
    }
}

/// The number of the last earlier action whose code compiles the same with torch.compile.
fn shared(code: &str, earlier: &[ActionCard]) -> Option<usize> {
    let (model, _) = remedies::compiled(code)?;
    let is_same = |card: &ActionCard| {
        let compiled = card.snippet.as_deref().and_then(remedies::compiled);
        compiled.is_some_and(|(compiled, _)| compiled == model)
    };
    earlier.iter().rposition(is_same).map(|place| place + 1)
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
            Some(last) => figure
                .after
                .get(last)
                .copied()
                .flatten()
                .or(Some(figure.now)),
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
    let pass = match has_unprofiled(evidence) {
        true => "baseline",
        false => profiler(evidence, action),
    };
    let capture = format!("rooflens-capture {pass} -o after -- COMMAND");
    let mut line = say!(
        evidence,
        "summary.card_expect",
        capture = Inline::code(&capture),
        report = Inline::code("rooflens report after"),
        figures = (!changed.is_empty()).then(|| changed.join(evidence.text.semicolon())),
        one = (number == 0).then_some(""),
        actions = (number > 0).then(|| Quantity::count(number as u64 + 1)),
    );
    // The finding of a third action has its next step: the page has no room for it.
    if let Some(next) = &action.finding.next
        && number < WITH_NEXT
    {
        line.push(evidence.text.space().into());
        line.extend(next.clone());
    }
    line
}

/// The command of the capture program for the pass that an action is of.
fn profiler(evidence: &Evidence<'_>, action: &Action<'_>) -> &'static str {
    let session = evidence.session;
    let pass = action.finding.scope.pass.as_deref();
    let mut passes = session.passes.ids().map(|pass| pass.index());
    let row = passes.find(|row| Some(session.text(session.passes.name[*row])) == pass);
    match row.map(|row| session.passes.kind[row]) {
        Some(PassKind::Operators) => "torch",
        _ => "nsys",
    }
}

/// Cards that name what to capture next.
const WITH_NEXT: usize = 2;

/// Figures that a card names.
const SHOWN_FIGURES: usize = 1;
