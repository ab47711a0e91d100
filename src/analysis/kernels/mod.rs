//! Kernels.

use super::{Analysis, Context};
use crate::findings::Findings;
use crate::model::Session;

/// Kernels.
pub static ANALYSIS: Analysis = Analysis { id: "kernels", title: "Kernels", missing, run };

fn missing(_: &Session) -> Option<&'static str> {
    Some("not built yet")
}

fn run(_: &Context<'_>) -> Findings {
    Findings::default()
}
