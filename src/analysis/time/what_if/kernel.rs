//! The kernel with the most time in a stage, and the time in which nothing else runs.

use rustc_hash::FxHashMap;

use crate::Context;
use crate::engine::facts::StageInstance;
use crate::engine::intervals::{add, total};
use crate::engine::sweep::{length, slices};
use crate::time::idle::Line;
use rooflens_model::{KernelId, Ns};

/// The kernel with the greatest sum of durations; of equal ones the first.
pub(super) fn top(context: &Context<'_>, line: &Line) -> Option<KernelId> {
    let ops = &context.facts.ops;
    let mut sums: FxHashMap<KernelId, Ns> = FxHashMap::default();
    for op in line.summary.counted_instances(context.facts).flat_map(|one| &one.ops) {
        if let Some(kernel) = context.facts.kernel(context.session, *op) {
            let row = *op as usize;
            let time = ops.end[row].saturating_sub(ops.start[row]);
            add(sums.entry(kernel).or_default(), time);
        }
    }
    // The order of the map does not matter: the key is unique.
    sums.into_iter().max_by_key(|(kernel, sum)| (*sum, std::cmp::Reverse(*kernel))).map(|one| one.0)
}

/// Time of all instances in which this kernel runs and no other operation of the stage, nanoseconds.
pub(super) fn alone(context: &Context<'_>, line: &Line, kernel: KernelId) -> Ns {
    let ops = &context.facts.ops;
    let of_instance = |instance: &StageInstance| {
        let own = instance.ops.iter().filter(|op| ops.gpu[**op as usize] == line.gpu);
        let other = |op: &u32| {
            let row = *op as usize;
            let other = context.facts.kernel(context.session, *op) != Some(kernel);
            ((ops.start[row], ops.end[row]), usize::from(other))
        };
        length(slices::<2>(own.map(other)), |slice| slice.running[1] == 0)
    };
    let uses = |one: &&StageInstance| one.gpus.contains(&line.gpu);
    total(line.summary.counted_instances(context.facts).filter(uses).map(of_instance))
}
