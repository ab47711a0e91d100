//! Passes that are ranks of one run: each rank of a distributed run leaves an artifact of its own.

use rooflens_session::{Arrange, Ns, PassId, Session};

use super::facts::Facts;

/// The passes that are ranks of one run with a pass, that one too, by rank: of its kind, of other stated ranks, and with
/// GPU operations at the same time of day.
pub(super) fn of_run(session: &Session, facts: &Facts, pass: PassId) -> Vec<PassId> {
    let (rank, kind) = (&session.passes.rank, &session.passes.kind);
    let mut found = vec![pass];
    let own = window(session, facts, pass).filter(|_| rank[pass.index()].is_some());
    let Some(own) = own else { return found };
    for other in session.passes.ids() {
        let is_rank = rank[other.index()].is_some()
            && kind[other.index()] == kind[pass.index()]
            && found
                .iter()
                .all(|known| rank[known.index()] != rank[other.index()]);
        let meets = |other: (Ns, Ns)| own.0 < other.1 && other.0 < own.1;
        if is_rank && window(session, facts, other).is_some_and(meets) {
            found.push(other);
        }
    }
    found.arrange_by_key(|pass| rank[pass.index()]);
    found
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
