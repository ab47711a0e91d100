//! Environment.

use super::{Analysis, Context};
use crate::findings::Findings;
use crate::model::Session;

/// Environment.
pub static ANALYSIS: Analysis = Analysis { id: "environment", title: "Environment", missing, run };

fn missing(_: &Session) -> Option<&'static str> {
    Some("not built yet")
}

fn run(_: &Context<'_>) -> Findings {
    Findings::default()
}
