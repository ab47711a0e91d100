//! Profiled kernels.

use super::{Analysis, Context};
use crate::findings::Findings;
use crate::model::Session;

/// Profiled kernels.
pub static ANALYSIS: Analysis =
    Analysis { id: "profiled", title: "Profiled kernels", missing, run };

fn missing(_: &Session) -> Option<&'static str> {
    Some("not built yet")
}

fn run(_: &Context<'_>) -> Findings {
    Findings::default()
}
