//! The stages of a pass, where their work is on the GPU.

use super::bins::Window;
use super::overview::Band;
use crate::Context;
use crate::engine::facts::{Stage, StageInstance};
use crate::engine::stages::WHOLE_CAPTURE;
use rooflens_session::{Arrange, Ns, PassId, ProcessId};

/// Bands narrower than this many stretches are joined with their like.
const NARROW: i64 = 4;

/// Instances that lie in none of another stage, of the process that worked first. Those that follow each
/// other without a gap that shows are one band if they are narrow; what is narrower than a stretch has none.
pub(super) fn of_pass(context: &Context<'_>, pass: PassId, window: &Window) -> Vec<Band> {
    let facts = context.facts;
    let stretch = (window.duration() / window.count().max(1) as i64).max(Ns(1));
    let stages = facts
        .stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.pass == pass);
    let Some(process) = first_process(context, pass) else {
        return Vec::new();
    };
    let mut bands: Vec<Band> = Vec::new();
    for (at, stage) in stages.filter(|(_, stage)| stage.name != WHOLE_CAPTURE) {
        let outer = spans(
            context,
            stage.parent.map(|parent| &facts.stages[parent]),
            process,
        );
        let instances = facts
            .instances_of(stage)
            .iter()
            .filter(|instance| instance.process == process);
        let free = instances.filter(|instance| !is_within(&outer, instance));
        let work = free.filter_map(|instance| instance.projection);
        let seen = work.map(|(s, e)| (s.max(window.start), e.min(window.end)));
        let mut windows: Vec<(Ns, Ns)> = seen.filter(|(start, end)| start < end).collect();
        windows.sort_unstable();
        let joined = join(&windows, stretch);
        let shown = joined
            .into_iter()
            .filter(|&(start, end)| end - start >= stretch);
        bands.extend(shown.map(|(s, e)| (at, s - window.start, e - window.start)));
    }
    bands.arrange_by_key(|(stage, start, end)| (*start, *end, &facts.stages[*stage].name));
    bands
}

/// The process of the first GPU's first operation.
fn first_process(context: &Context<'_>, pass: PassId) -> Option<ProcessId> {
    let ops = &context.facts.ops;
    let first = context
        .facts
        .ops_of(pass)
        .min_by_key(|row| (ops.gpu[*row], *row))?;
    Some(ops.process[first])
}

/// Host ranges of a stage's instances by start.
fn spans(context: &Context<'_>, stage: Option<&Stage>, process: ProcessId) -> Vec<(Ns, Ns)> {
    let instances = stage.map_or(&[][..], |stage| context.facts.instances_of(stage));
    let of_process = instances
        .iter()
        .filter(|instance| instance.process == process);
    let mut spans: Vec<(Ns, Ns)> = of_process
        .map(|instance| (instance.host_start, instance.host_end))
        .collect();
    spans.sort_unstable();
    spans
}

fn is_within(outer: &[(Ns, Ns)], instance: &StageInstance) -> bool {
    let after = outer.partition_point(|(start, _)| *start <= instance.host_start);
    outer[..after]
        .last()
        .is_some_and(|(_, end)| instance.host_end <= *end)
}

/// Joins ascending windows.
fn join(windows: &[(Ns, Ns)], stretch: Ns) -> Vec<(Ns, Ns)> {
    let narrow = |(start, end): (Ns, Ns)| end - start < stretch * NARROW;
    let mut joined: Vec<(Ns, Ns)> = Vec::new();
    for next in windows.iter().copied() {
        match joined.last_mut() {
            Some(last) if next.0 - last.1 < stretch && (narrow(*last) || narrow(next)) => {
                last.1 = last.1.max(next.1);
            }
            _ => joined.push(next),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::intervals;

    #[test]
    fn narrow_windows_in_a_row_are_one_band() {
        // Stretch 10: below 40 is narrow. 5 follows 0..20 at once; 100 is too far; 160..300 is wide, as is 300..400.
        let windows = intervals([(0, 20), (25, 45), (100, 120), (160, 300), (300, 400)]);
        assert_eq!(
            join(&windows, Ns(10)),
            intervals([(0, 45), (100, 120), (160, 300), (300, 400)])
        );
    }
}
