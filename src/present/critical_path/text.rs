//! What the section says.

use super::label;
use crate::Context;
use rooflens_analysis::time::critical_path::CriticalPath;
use rooflens_analysis::time::critical_path::graph::DEPENDENCY_NS;
use rooflens_findings::{Inline, Method, Quantity, prose};
use rooflens_model::PassId;

/// Passes that are named.
const NAMED: usize = 4;

/// What the path is, and what it consists of.
pub(super) fn introduction(stage: &str, found: &CriticalPath) -> Vec<Inline> {
    let mut text = prose![
        "The chain of operations, calls and code between them that decides how long instance ",
        Quantity::count(u64::from(found.ordinal)),
        " of ",
        Inline::Code(stage.to_owned()),
        ", the one of median length, takes: ",
        Quantity::ns(found.length),
    ];
    if found.processes > 1 {
        text.push(format!(" on {} ranks", found.processes).into());
    }
    text.push(". It consists of ".into());
    let mut largest: Vec<_> = found.times.iter().filter(|(_, time)| *time > 0).collect();
    largest.sort_by_key(|(category, time)| (std::cmp::Reverse(*time), *category));
    for (at, (category, time)) in largest.iter().take(4).enumerate() {
        let share = Quantity::ratio(*time as f64 / found.length.max(1) as f64);
        let comma = if at == 0 { "" } else { ", " };
        text.extend(prose![comma, share, format!(" {}", label(*category))]);
    }
    text.push(". Only what lies on it makes the step shorter; the rest has slack.".into());
    text
}

/// Which of several passes with steps is shown, and why; nothing where there is one.
pub(super) fn choice(context: &Context<'_>, passes: &[PassId]) -> Option<Vec<Inline>> {
    let session = context.session;
    let (shown, others) = passes.split_first().filter(|(_, others)| !others.is_empty())?;
    let name = |pass: &PassId| Inline::Code(session.pass_name(*pass).into());
    let kind = |pass: &PassId| session.passes.kind[pass.index()];
    let rank = |pass: &PassId| session.passes.rank[pass.index()];
    let mut text = prose!["It is that of pass ", name(shown), ". "];
    for (at, pass) in others.iter().take(NAMED).enumerate() {
        text.extend(prose![if at == 0 { "" } else { ", " }, name(pass)]);
    }
    if others.len() > NAMED {
        text.extend(prose![" and ", Quantity::count((others.len() - NAMED) as u64), " more"]);
    }
    text.push(if others.len() == 1 { " has steps, too: " } else { " have steps, too: " }.into());
    let ranks = others.iter().any(|other| rank(other).is_some() && rank(other) != rank(shown));
    text.push(match () {
        () if others.iter().any(|other| kind(other) != kind(shown)) => {
            "a timeline comes first, because an operator trace lengthens the host code that it records."
        }
        () if ranks => "each is a run or rank with a clock of its own, and this one has the most GPU operations.",
        () => "each is a run of its own, and this one has the most GPU operations.",
    }.into());
    Some(text)
}

/// How the path was found.
pub(super) fn method() -> Method {
    Method {
        title: "Critical path".to_owned(),
        text: prose![
            "From the last GPU operation of the step back to its first, always to what was waited for last. An \
             operation waits for the operation before it on its stream and for the call that issued it, which \
             takes at least the shortest time from call to operation that the pass shows on a stream with nothing \
             left to do; what was issued before the step could begin with it. One that begins more than ",
            Quantity::ns(DEPENDENCY_NS),
            " later than both allow waited for the operation of another stream of its GPU that ended last before \
             it; where that is as long ago, and it began in the last quarter of a computing kernel of another stream, \
             it waited for the room that this kernel left. A collective that waited is followed on the rank that came last. A synchronizing call waits for \
             the operation of its process that ended last while it ran; any other call follows the call of the \
             process that ended last before it began, among threads that issue work in the step, and the time \
             between is host code. The pieces fill the step to the nanosecond. Slack is by how much an operation \
             could end later without the step ending later, over the same edges, where host code takes as long as \
             it took. Dependencies that order does not show (events that did not delay anything) are unknown, so \
             slack is an upper bound.",
        ],
    }
}
