//! What the section says.

use std::cmp::Reverse;

use super::label;
use crate::Context;
use rooflens_analysis::time::critical_path::CriticalPath;
use rooflens_document::{Inline, Quantity};
use rooflens_session::{Arrange, Ns, PassId};

/// Categories and passes that are named.
const NAMED: usize = 4;

/// What the path is, and what it consists of.
pub(super) fn introduction(
    context: &Context<'_>,
    stage: &str,
    found: &CriticalPath,
) -> Vec<Inline> {
    let mut largest: Vec<_> = found
        .times
        .iter()
        .filter(|(_, time)| *time > Ns::ZERO)
        .collect();
    largest.arrange_by_key(|(category, time)| (Reverse(*time), *category));
    let part = |(category, time): &&(_, Ns)| {
        let share = Quantity::ratio(time.time() / found.length.max(Ns(1)).time());
        vec![share.into(), format!(" {}", label(*category)).into()]
    };
    let parts: Vec<Vec<Inline>> = largest.iter().take(NAMED).map(part).collect();
    say!(
        context,
        "critical_path.introduction",
        instance = Quantity::count(u64::from(found.ordinal)),
        stage = Inline::code(stage),
        time = Quantity::ns(found.length),
        ranks = (found.processes > 1).then(|| found.processes.to_string()),
        parts = parts.join(&Inline::from(context.text.comma())),
    )
}

/// Which of several passes with steps is shown, and why; nothing where there is one.
pub(super) fn choice(context: &Context<'_>, passes: &[PassId]) -> Option<Vec<Inline>> {
    let session = context.session;
    let (shown, others) = passes
        .split_first()
        .filter(|(_, others)| !others.is_empty())?;
    let name = |pass: &PassId| Inline::code(session.pass_name(*pass));
    let kind = |pass: &PassId| session.passes.kind[pass.index()];
    let rank = |pass: &PassId| session.passes.rank[pass.index()];
    let named: Vec<[Inline; 1]> = others.iter().take(NAMED).map(|pass| [name(pass)]).collect();
    let more = others.len().saturating_sub(NAMED) as u64;
    let ranks = others
        .iter()
        .any(|pass| rank(pass).is_some() && rank(pass) != rank(shown));
    Some(say!(
        context,
        "critical_path.choice",
        pass = name(shown),
        others = named.join(&Inline::from(context.text.comma())),
        more = (more > 0).then(|| Quantity::count(more)),
        count = Quantity::count(others.len() as u64),
        why = if others.iter().any(|pass| kind(pass) != kind(shown)) {
            say!(context, "critical_path.timeline_first")
        } else if ranks {
            say!(context, "critical_path.ranks")
        } else {
            say!(context, "critical_path.runs")
        },
    ))
}
