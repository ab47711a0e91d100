//! To whom each busy moment of a GPU belongs, so that parts add up to busy time.

use crate::Context;
use crate::engine::classify::ClassGroup;
use crate::engine::sweep::{append, slices};
use crate::engine::tiers::Tier;
use rooflens_session::Ns;

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
    let mut segments = Vec::new();
    let mut tiers = Vec::new();
    let mut covered = Ns::MIN;
    for row in ops {
        let (start, end) = (table.start[row], table.end[row]);
        let class = context.facts.class(context.session, row);
        tiers.push(((start, end), Tier::of(class) as usize));
        if Tier::of(class) == Tier::Compute {
            let start = start.max(covered);
            segments.extend((start < end).then_some(Segment {
                start,
                end,
                group: class.group(),
            }));
            covered = covered.max(end);
        }
    }
    let mut rest = [Vec::new(), Vec::new(), Vec::new()];
    for slice in slices::<3>(tiers) {
        append(&mut rest[slice.first()], (slice.start, slice.end));
    }
    for (tier, group) in [(1, ClassGroup::Communication), (2, ClassGroup::Copy)] {
        segments.extend(rest[tier].iter().map(|(start, end)| Segment {
            start: *start,
            end: *end,
            group,
        }));
    }
    segments
}
