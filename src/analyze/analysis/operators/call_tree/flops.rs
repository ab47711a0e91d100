//! FLOPs of the work below a node.

use std::ops::AddAssign;

use crate::Context;
use crate::engine::facts::OpIndex;
use rooflens_session::Ns;
use rooflens_units::Flops;

/// FLOPs of GEMMs, convolutions and attention of known sizes, and the time that they represent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeFlops {
    /// FLOPs, attention over all pairs of query and key.
    pub full: Flops,
    /// FLOPs, attention over the pairs that a causal mask leaves.
    pub masked: Flops,
    /// Sum of the durations of kernels whose sizes are known, nanoseconds.
    pub counted: Ns,
    /// That of matrix work of unknown sizes, nanoseconds.
    pub uncounted: Ns,
}

impl NodeFlops {
    /// Those of an operation; a kernel that helps another has none of its own.
    pub(super) fn of(context: &Context<'_>, row: usize) -> Self {
        let facts = context.facts;
        let time = facts.ops.end[row]
            .saturating_sub(facts.ops.start[row])
            .max(Ns::ZERO);
        // The rows of operations are numbered so.
        match context
            .results
            .matmul()
            .ok()
            .and_then(|products| products.get(row as OpIndex))
        {
            Some(product) if product.main => {
                let (full, masked) = (product.shape.flops_full(), product.shape.flops());
                Self {
                    full,
                    masked,
                    counted: time,
                    uncounted: Ns::ZERO,
                }
            }
            Some(_) => Self {
                counted: time,
                ..Self::default()
            },
            None if facts.class(context.session, row).is_matrix_work() => Self {
                uncounted: time,
                ..Self::default()
            },
            None => Self::default(),
        }
    }

    /// Whether any kernel has known sizes.
    pub const fn is_any_counted(&self) -> bool {
        self.counted.0 > 0
    }
}

impl AddAssign for NodeFlops {
    fn add_assign(&mut self, other: Self) {
        self.full += other.full;
        self.masked += other.masked;
        self.counted = self.counted.saturating_add(other.counted);
        self.uncounted = self.uncounted.saturating_add(other.uncounted);
    }
}
