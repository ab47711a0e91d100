//! What artifacts say of collectives beyond the names of their kernels.

use crate::table::table;
use crate::{CollectiveId, LaunchId, StrId};

table! {
    /// Collectives and messages from rank to rank as they were called, one row a launch: arguments of NCCL kernels
    /// in PyTorch traces, NCCL's NVTX ranges in nsys exports.
    Collectives "collectives" { row: Collective, id: CollectiveId,
        /// Launch that executes it.
        launch: LaunchId,
        /// Operation as the artifact names it, such as `allreduce`; `sendrecv` for a group of NCCL calls that sends
        /// and receives, `alltoall` for one that does so with every rank.
        operation: StrId,
        /// Type of the elements as the artifact names it; empty if not recorded.
        dtype: StrId,
        /// Bytes of this rank's input: elements × size of the type. PyTorch gives messages from rank to rank an input
        /// and an output, NCCL the one that they have.
        bytes_in: Option<u64>,
        /// Bytes of this rank's output: elements × size of the type.
        bytes_out: Option<u64>,
        /// Ranks in the process group.
        group_size: Option<u32>,
        /// Name of the process group, or number of NCCL's communicator; empty if not recorded.
        group: StrId,
        /// Ranks of the process group as text, such as `[0, 1]`; empty if not recorded.
        ranks: StrId,
        /// Number of the collective in its process group.
        sequence: Option<u64>,
        /// Number of this rank in the process group, where `peer` counts so; absent where it counts all ranks.
        rank: Option<u32>,
        /// The one rank that a message goes to or comes from.
        peer: Option<u32>,
    }
}
