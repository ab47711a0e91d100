//! Metrics of ncu that tell the usual faults of kernels apart.
//!
//! The sections that show them (`SourceCounters`, `MemoryWorkloadAnalysis_Tables`, `InstructionStats`) raise the passes of
//! a launch on an H100 from 25 to 34. These single metrics fit the passes that the default sections need anyway: 25
//! remain 25, and the 17 without details remain 17. ncu ignores names that the GPU does not have.

/// Do accesses to shared memory collide in its banks? Wavefronts that conflicts add, of all wavefronts.
const BANK_CONFLICTS: &[&str] = &[
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
];

/// Do the threads of a warp use the sectors that they move? Bytes used of each sector of 32, and sectors per request.
const COALESCING: &[&str] = &[
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
];

/// Do registers spill, or do arrays lie in local memory? Sectors of local memory.
const LOCAL_MEMORY: &[&str] = &[
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
];

/// How many atomics reach L2, with a result and without?
const ATOMICS: &[&str] = &[
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "lts__t_sectors_op_atom.sum",
    "lts__t_sectors_op_red.sum",
];

/// Do the threads of a warp take different branches? Threads that execute an instruction, of 32.
const DIVERGENCE: &[&str] = &["smsp__thread_inst_executed_per_inst_executed.ratio"];

const QUESTIONS: [&[&str]; 5] = [
    BANK_CONFLICTS,
    COALESCING,
    LOCAL_MEMORY,
    ATOMICS,
    DIVERGENCE,
];

/// The option of ncu.
pub(super) fn flags() -> [String; 2] {
    ["--metrics".to_owned(), QUESTIONS.concat().join(",")]
}
