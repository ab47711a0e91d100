//! One instance of a stage close up: each group of operations, and the host's CUDA calls.

use super::bins::Window;
use super::overview::Overview;
use crate::Context;
use crate::engine::classify::ClassGroup;
use crate::engine::facts::StageInstance;
use crate::engine::intervals::{Interval, difference, union, union_length};
use crate::engine::stage_stats::{Summary, summaries};
use crate::engine::stages::WHOLE_CAPTURE;
use rooflens_session::{Arrange, GpuId, Ns, PassId};
use rooflens_units::Ratio;

/// Instances that a report shows.
const MAX_ZOOMS: usize = 2;

/// An instance that fills more of the pass than this shows nothing new.
const MOST_OF_PASS: Ratio = Ratio(0.6);

/// The instance of a stage whose shares of idle time are nearest to the medians, on its first GPU.
pub struct Zoom {
    /// The stage.
    pub summary: Summary,
    /// Number of the instance among those of the stage and process, from 0.
    pub ordinal: u32,
    /// The first of its GPUs.
    pub gpu: GpuId,
    /// Whether it uses others too.
    pub several_gpus: bool,
    /// Its projection.
    pub projection: Window,
    /// The same with the beginning of its range on the host, as far as that is near.
    pub window: Window,
    /// When each group of operations runs in the window: disjoint and ascending.
    pub groups: Vec<(ClassGroup, Vec<Interval>)>,
    /// Busy time of the projection.
    pub busy: Ns,
    /// Operations within the projection.
    pub operations: usize,
    /// When the process is in outermost CUDA calls that launch, and when only in others, if it is in any.
    pub calls: Option<(Vec<Interval>, Vec<Interval>)>,
}

impl Zoom {
    /// Share of the projection in which the GPU runs something.
    pub fn busy_share(&self) -> Ratio {
        Ratio::of(self.busy, self.projection.duration().max(Ns(1)))
    }
}

/// The stages with the most time of the pass.
pub(super) fn find(context: &Context<'_>, overview: &Overview) -> Vec<Zoom> {
    let facts = context.facts;
    let most = overview.window.duration().time() * MOST_OF_PASS;
    // A part says more than the whole that it is part of.
    let is_parent = |stage: usize| facts.stages.iter().any(|child| child.parent == Some(stage));
    let mut lines: Vec<Summary> = summaries(facts, overview.pass).to_vec();
    lines.dedup_by_key(|line| line.stage);
    lines.retain(|line| {
        let shows_more = !is_parent(line.stage) && line.stage(facts).name != WHOLE_CAPTURE;
        shows_more && line.time < most
    });
    let total = |line: &Summary| line.time * line.counted as f64;
    lines.arrange_by(|a, b| total(b).total_cmp(&total(a)).then(a.stage.cmp(&b.stage)));
    let zooms = lines.into_iter().take(MAX_ZOOMS);
    zooms
        .filter_map(|line| zoom(context, overview.pass, line))
        .collect()
}

fn zoom(context: &Context<'_>, pass: PassId, summary: Summary) -> Option<Zoom> {
    let idle = context.results.idle().ok()?;
    let instance = idle.nearest(context.facts, summary.stage, summary.process)?;
    let (start, end) = instance.projection?;
    let lead = start
        .saturating_sub(instance.host_start)
        .clamp(Ns::ZERO, (end - start) / 10);
    let (projection, window) = (
        Window { start, end },
        Window {
            start: start - lead,
            end,
        },
    );
    let gpu = *instance.gpus.first()?;
    let within = operations(context, pass, gpu, &projection);
    let shown = operations(context, pass, gpu, &window);
    let of_group = |group| {
        let group_ops = shown.iter().filter(|(op_group, _)| *op_group == group);
        (
            group,
            union(
                &mut group_ops
                    .map(|(_, interval)| *interval)
                    .collect::<Vec<Interval>>(),
            ),
        )
    };
    let groups = ClassGroup::ALL.into_iter().map(of_group);
    Some(Zoom {
        summary,
        ordinal: instance.ordinal,
        gpu,
        several_gpus: instance.gpus.len() > 1,
        projection,
        window,
        groups: groups
            .filter(|(_, intervals)| !intervals.is_empty())
            .collect(),
        busy: union_length(
            &mut within
                .iter()
                .map(|(_, interval)| *interval)
                .collect::<Vec<_>>(),
        ),
        operations: within.len(),
        calls: calls(context, instance, &window),
    })
}

/// The operations that run on a GPU in a window.
fn operations(
    context: &Context<'_>,
    pass: PassId,
    gpu: GpuId,
    window: &Window,
) -> Vec<(ClassGroup, Interval)> {
    let ops = &context.facts.ops;
    let pass_ops = context
        .facts
        .ops_of(pass)
        .filter(|row| ops.gpu[*row] == gpu);
    let clipped = pass_ops.filter_map(|row| {
        let group = context.facts.class(context.session, row).group();
        Some((group, window.clip(ops.start[row], ops.end[row])?))
    });
    clipped.collect()
}

/// When the instance's process is in outermost CUDA calls: in those that launch, and only in others.
fn calls(
    context: &Context<'_>,
    instance: &StageInstance,
    window: &Window,
) -> Option<(Vec<Interval>, Vec<Interval>)> {
    let (session, calls) = (context.session, &context.session.api_calls);
    let (mut launches, mut other_calls) = (Vec::new(), Vec::new());
    let of_process = (0..calls.len()).filter(|row| calls.process[*row] == instance.process);
    for row in of_process.filter(|row| !calls.nested[*row]) {
        let Some(clipped) = window.clip(calls.start[row], calls.end[row]) else {
            continue;
        };
        let is_launch = session.text(calls.name[row]).contains("Launch");
        if is_launch {
            launches.push(clipped)
        } else {
            other_calls.push(clipped)
        }
    }
    // Calls of several threads may overlap; their shares must not exceed the whole.
    let launches = union(&mut launches);
    let other_calls = difference(&union(&mut other_calls), &launches);
    (!launches.is_empty() || !other_calls.is_empty()).then_some((launches, other_calls))
}
