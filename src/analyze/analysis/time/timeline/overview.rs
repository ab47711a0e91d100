//! A pass in equal stretches of time, with what each GPU runs in each.

use std::collections::BTreeMap;

use super::bands;
use super::bins::{Window, mix};
use crate::Context;
use crate::engine::classify::GroupTimes;
use crate::engine::segments::exclusive;
use rooflens_session::{GpuId, Ns, PassId};

/// A stage (an index into `Facts::stages`), start and end from the window's start, nanoseconds.
pub type Band = (usize, Ns, Ns);

/// A pass in equal stretches of time.
pub struct Overview {
    /// Pass.
    pub pass: PassId,
    /// From the start of the first measured iteration's work to the end of the last one's, of outermost stages.
    pub window: Window,
    /// Busy time of each stretch by group of classes, by GPU.
    pub gpus: Vec<(GpuId, Vec<GroupTimes>)>,
    /// Its stages, where their work is on the GPU.
    pub bands: Vec<Band>,
}

/// The overview of a pass; none without operations that last.
pub(super) fn of_pass(context: &Context<'_>, pass: PassId) -> Option<Overview> {
    let window = window(context, pass)?;
    let ops = &context.facts.ops;
    let mut rows: BTreeMap<GpuId, Vec<usize>> = BTreeMap::new();
    for row in context.facts.ops_of(pass) {
        rows.entry(ops.gpu[row]).or_default().push(row);
    }
    let mix = |rows: Vec<usize>| mix(&window, &exclusive(context, rows.into_iter()));
    let gpus = rows
        .into_iter()
        .map(|(gpu, rows)| (gpu, mix(rows)))
        .collect();
    Some(Overview {
        pass,
        window,
        gpus,
        bands: bands::of_pass(context, pass, &window),
    })
}

fn window(context: &Context<'_>, pass: PassId) -> Option<Window> {
    let facts = context.facts;
    let span = |measured: bool| {
        let stages = facts.stages.iter().filter(|stage| stage.pass == pass);
        let stages = stages.filter(|stage| !measured || stage.parent.is_none());
        let instances = stages.flat_map(|stage| facts.instances_of(stage));
        let instances = instances.filter(|instance| !measured || instance.excluded.is_none());
        let spans = instances.filter_map(|instance| instance.projection);
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    let (start, end) = span(true).or_else(|| span(false))?;
    (end > start).then_some(Window { start, end })
}
