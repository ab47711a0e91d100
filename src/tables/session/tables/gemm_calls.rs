//! GEMMs as cuBLAS and cuBLASLt logged them.

use crate::table::table;
use crate::{GemmCallId, StrId};

table! {
    /// Calls of GEMMs in cuBLAS and cuBLASLt logs. Sizes are those of the call, column-major: m × n is
    /// the output, so a row-major framework sees m and n exchanged. cuBLAS calls cuBLASLt, so both logs of one run
    /// may hold the same product.
    GemmCalls "gemm_calls" { row: GemmCall, id: GemmCallId,
        /// Path of the artifact.
        artifact: StrId,
        /// Name of the pass that was logged.
        pass: StrId,
        /// Number of the call in its log, from 0.
        sequence: u64,
        /// Process id; 0 if the log does not tell.
        process: i64,
        /// Function, such as `cublasGemmEx` or `cublasLtTSTMatmul`.
        function: StrId,
        /// Rows of the output.
        m: u64,
        /// Columns of the output.
        n: u64,
        /// Length of the sums.
        k: u64,
        /// Products in the batch.
        batch: u64,
        /// Type of A, such as `R_16BF`.
        a_type: StrId,
        /// Type of B.
        b_type: StrId,
        /// Type of the output.
        d_type: StrId,
        /// Compute type, such as `COMPUTE_32F`; empty if not logged.
        compute: StrId,
        /// A is transposed.
        transpose_a: bool,
        /// B is transposed.
        transpose_b: bool,
        /// Layout of A where it is not column-major, such as `ORDER_ROW`; empty otherwise.
        order: StrId,
        /// Algorithm number.
        algorithm: Option<u64>,
        /// Rows of the tile; absent where the algorithm is not logged.
        tile_m: Option<u32>,
        /// Columns of the tile.
        tile_n: Option<u32>,
        /// Stages, such as `64xAUTO`; empty if not logged.
        stages: StrId,
        /// Parts into which k is split; 1 if it is not, absent where the algorithm is not logged.
        split_k: Option<u32>,
        /// Cluster shape, such as `2x1x1`; empty if not logged.
        cluster: StrId,
        /// Epilogue, such as `EPILOGUE_BIAS`; empty if none.
        epilogue: StrId,
    }
}
