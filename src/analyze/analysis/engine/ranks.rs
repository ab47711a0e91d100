//! Passes that are ranks of one run: each rank of a distributed run leaves an artifact of its own.

use rooflens_session::{Arrange, Ns, PassId, Session};

use super::facts::Facts;

/// The passes that are ranks of one run with a pass, that one too, by rank: of its kind, of other stated ranks, and with
/// GPU operations at the same time of day.
pub(super) fn of_run(session: &Session, facts: &Facts, pass: PassId) -> Vec<PassId> {
    let (rank, kind) = (&session.passes.rank, &session.passes.kind);
    let mut passes = vec![pass];
    let pass_window = window(session, facts, pass).filter(|_| rank[pass.index()].is_some());
    let Some(pass_window) = pass_window else {
        return passes;
    };
    for candidate in session.passes.ids() {
        let is_rank = rank[candidate.index()].is_some()
            && kind[candidate.index()] == kind[pass.index()]
            && passes
                .iter()
                .all(|rank_pass| rank[rank_pass.index()] != rank[candidate.index()]);
        let meets =
            |candidate: (Ns, Ns)| pass_window.0 < candidate.1 && candidate.0 < pass_window.1;
        if is_rank && window(session, facts, candidate).is_some_and(meets) {
            passes.push(candidate);
        }
    }
    passes.arrange_by_key(|pass| rank[pass.index()]);
    passes
}

/// Time of day from the first GPU operation of a pass to the last, if it is known.
fn window(session: &Session, facts: &Facts, pass: PassId) -> Option<(Ns, Ns)> {
    let origin = session.passes.utc_origin[pass.index()]?;
    let ops = facts.ops_of(pass);
    let last = facts.ops.end[ops.clone()].iter().max()?;
    Some((
        facts.ops.start[ops.start].saturating_add(origin),
        last.saturating_add(origin),
    ))
}
