//! To whom each busy moment of a GPU belongs, so that parts add up to busy time.

use crate::analysis::Context;
use crate::analysis::engine::classify::{ClassGroup, KernelClass};
use crate::analysis::engine::intervals::{Interval, difference, union};
use crate::model::Ns;

/// A stretch of a GPU's time that belongs to one group of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start, nanoseconds.
    pub start: Ns,
    /// End, nanoseconds.
    pub end: Ns,
    /// Group of the kernel that it belongs to.
    pub group: ClassGroup,
}

/// Busy time of one GPU in disjoint segments: a moment belongs to a computing kernel (of several, to the one
/// that began first); where none runs to a collective; where neither runs to a copy.
///
/// `ops` are the rows of operations of that GPU in order of start. Segments of one tier ascend.
pub fn exclusive(context: &Context<'_>, ops: impl Iterator<Item = usize>) -> Vec<Segment> {
    let table = &context.facts.ops;
    let (mut computing, mut collectives, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    let mut segments = Vec::new();
    let mut covered = Ns::MIN;
    for row in ops {
        let interval: Interval = (table.start[row], table.end[row]);
        match context.facts.class(context.session, row) {
            KernelClass::Communication => collectives.push(interval),
            KernelClass::Copy => copies.push(interval),
            class => {
                let (start, end) = (interval.0.max(covered), interval.1);
                if start < end {
                    segments.push(Segment { start, end, group: class.group() });
                }
                covered = covered.max(end);
                computing.push(interval);
            }
        }
    }
    let mut covered = union(&mut computing);
    for (group, tier) in
        [(ClassGroup::Communication, &mut collectives), (ClassGroup::Copy, &mut copies)]
    {
        let tier = union(tier);
        let own = difference(&tier, &covered);
        segments.extend(own.into_iter().map(|(start, end)| Segment { start, end, group }));
        covered.extend(tier);
        covered = union(&mut covered);
    }
    segments
}
