//! Utilization.

use super::{Analysis, Context};
use crate::findings::Findings;
use crate::model::Session;

/// Utilization.
pub static ANALYSIS: Analysis = Analysis { id: "utilization", title: "Utilization", missing, run };

fn missing(_: &Session) -> Option<&'static str> {
    Some("not built yet")
}

fn run(_: &Context<'_>) -> Findings {
    Findings::default()
}
