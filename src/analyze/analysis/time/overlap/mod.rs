//! Overlap: how much of the busy time several streams and kinds of operations share.

mod streams;
#[cfg(test)]
mod tests;

use crate::engine::stages::WHOLE_CAPTURE;
use crate::{Context, Known};
use rooflens_session::{GpuId, PassId};

pub use streams::{Overlap, Stream};

/// What runs at once in each stage.
pub struct Overlaps {
    /// By pass, the primary one first: stages, then the whole pass; GPUs with one stream are excluded.
    pub lines: Vec<Line>,
}

/// A stage on one GPU, or all work of a pass on it.
pub struct Line {
    /// Pass.
    pub pass: PassId,
    /// Stage, an index into the facts' stages; none for the whole pass.
    pub stage: Option<usize>,
    /// GPU.
    pub gpu: GpuId,
    /// GPU operations.
    pub operations: usize,
    /// What runs at once.
    pub overlap: Overlap,
}

/// Sweeps all stages; never missing, but empty where no GPU has several streams.
pub fn compute(context: &Context<'_>) -> Known<Overlaps> {
    let passes = context.facts.primary_first(context.session).into_iter();
    Ok(Overlaps {
        lines: passes.flat_map(|pass| lines(context, pass)).collect(),
    })
}

/// The whole pass and its stages on each GPU, where operations of more than one stream are there.
fn lines(context: &Context<'_>, pass: PassId) -> Vec<Line> {
    let facts = context.facts;
    let whole = by_gpu(context, facts.ops_of(pass));
    let mut lines: Vec<Line> = Vec::new();
    for (index, stage) in facts
        .stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.pass == pass)
    {
        let counted = facts
            .instances_of(stage)
            .iter()
            .filter(|instance| instance.excluded.is_none());
        let ops = counted.flat_map(|instance| instance.ops.iter().map(|op| *op as usize));
        for (gpu, rows) in by_gpu(context, ops) {
            lines.extend(line(context, pass, Some(index), gpu, &rows));
        }
    }
    // A pass without ranges is one stage already.
    let one_stage = lines
        .iter()
        .any(|line| line.stage_name(context) == Some(WHOLE_CAPTURE));
    for (gpu, rows) in whole.into_iter().filter(|_| !one_stage) {
        lines.extend(line(context, pass, None, gpu, &rows));
    }
    lines
}

/// Operations by GPU, of GPUs with more than one stream.
fn by_gpu(context: &Context<'_>, rows: impl Iterator<Item = usize>) -> Vec<(GpuId, Vec<usize>)> {
    let ops = &context.facts.ops;
    let mut rows: Vec<usize> = rows.collect();
    rows.sort_unstable_by_key(|row| (ops.gpu[*row], *row));
    // Instances that cross share operations, each of which runs once.
    rows.dedup();
    let stream = |row: &usize| (ops.process[*row], ops.stream[*row]);
    let gpus = rows.chunk_by(|a, b| ops.gpu[*a] == ops.gpu[*b]);
    let several = gpus.filter(|rows| rows.iter().any(|row| stream(row) != stream(&rows[0])));
    several
        .map(|rows| (ops.gpu[rows[0]], rows.to_vec()))
        .collect()
}

fn line(
    context: &Context<'_>,
    pass: PassId,
    stage: Option<usize>,
    gpu: GpuId,
    rows: &[usize],
) -> Option<Line> {
    let overlap = Overlap::of_ops(context, rows);
    let several = overlap.streams.len() > 1;
    several.then_some(Line {
        pass,
        stage,
        gpu,
        operations: rows.len(),
        overlap,
    })
}

impl Line {
    /// Name of the stage; none for the whole pass.
    pub fn stage_name<'a>(&self, context: &Context<'a>) -> Option<&'a str> {
        self.stage.map(|stage| &*context.facts.stages[stage].name)
    }
}
