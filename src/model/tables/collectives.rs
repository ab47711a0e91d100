//! What artifacts say of collectives beyond the names of their kernels.

use crate::model::table::table;
use crate::model::{CollectiveId, LaunchId, StrId};

table! {
    /// Collectives as the framework called them, one row a launch (arguments of NCCL kernels in PyTorch traces).
    Collectives "collectives" { row: Collective, id: CollectiveId,
        /// Launch that executes it.
        launch: LaunchId,
        /// Operation as the artifact names it, such as `allreduce`.
        operation: StrId,
        /// Type of the elements as the artifact names it; empty if not recorded.
        dtype: StrId,
        /// Bytes of this rank's input: elements × size of the type.
        bytes_in: Option<u64>,
        /// Bytes of this rank's output: elements × size of the type.
        bytes_out: Option<u64>,
        /// Ranks in the process group.
        group_size: Option<u32>,
        /// Name of the process group; empty if not recorded.
        group: StrId,
        /// Ranks of the process group as text, such as `[0, 1]`; empty if not recorded.
        ranks: StrId,
        /// Number of the collective in its process group.
        sequence: Option<u64>,
    }
}
