//! Operators.

use super::{Analysis, Context};
use crate::findings::Findings;
use crate::model::Session;

/// Operators.
pub(super) static ANALYSIS: Analysis =
    Analysis { id: "operators", title: "Operators", missing, run };

fn missing(_: &Session) -> Option<&'static str> {
    Some("not built yet")
}

fn run(_: &Context<'_>) -> Findings {
    Findings::default()
}
