//! Power and clocks.

use super::{Analysis, Context};
use crate::findings::Findings;
use crate::model::Session;

/// Power and clocks.
pub static ANALYSIS: Analysis = Analysis { id: "power", title: "Power and clocks", missing, run };

fn missing(_: &Session) -> Option<&'static str> {
    Some("not built yet")
}

fn run(_: &Context<'_>) -> Findings {
    Findings::default()
}
