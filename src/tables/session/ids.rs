//! Typed row numbers.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The row as an index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of row `index`. Tables hold fewer than 2³² rows; a larger index is a bug.
            #[inline]
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("tables hold fewer than 2^32 rows"))
            }
        }
    )*};
}

ids! {
    /// A string of the session's interner.
    StrId;
    /// A pass: one run of the workload.
    PassId;
    /// A GPU as one pass saw it.
    GpuId;
    /// A process of one pass.
    ProcessId;
    /// A host thread of one pass.
    ThreadId;
    /// A distinct GPU function.
    KernelId;
    /// A kernel execution.
    LaunchId;
    /// A memory copy or memset on the GPU.
    CopyId;
    /// An execution of a whole CUDA graph, traced as one operation.
    GraphLaunchId;
    /// A host-side CUDA call.
    ApiCallId;
    /// A user annotation.
    RangeId;
    /// A call of the outermost model.
    ModelCallId;
    /// A framework operator call.
    OperatorId;
    /// A tie of a backward operator to its forward one.
    BackwardOperatorId;
    /// A framework source frame.
    FrameId;
    /// A function that calls an operator.
    CallerId;
    /// A kernel profiled by Nsight Compute.
    ProfileId;
    /// What an artifact says of a collective.
    CollectiveId;
    /// A wait of the host or of a stream.
    SynchronizationId;
    /// A node of a CUDA graph.
    GraphNodeId;
    /// The creation of a CUDA graph.
    GraphCreationId;
    /// A call of the operating system's libraries.
    OsCallId;
    /// A time in which no CPU ran a thread.
    OffCpuId;
    /// A sample of what a CPU ran.
    CpuSampleId;
    /// Time that the profiler took for itself.
    OverheadId;
    /// A sum per kernel of another tool.
    KernelSumId;
    /// Sum of calls or ranges that another tool computed.
    CallSumId;
    /// A metric of a profiled kernel.
    ProfileMetricId;
    /// A remark of Nsight Compute's rules.
    ProfileRuleId;
    /// A report of Nsight Compute.
    ProfileReportId;
    /// A section of a profiled kernel.
    ProfileSectionId;
    /// An instance of a metric of a profiled kernel.
    ProfileInstanceId;
    /// A metric that a rule's remark rests on.
    ProfileFocusId;
    /// A sample of GPU hardware counters over time.
    CounterSampleId;
    /// An NVML sample.
    DeviceSampleId;
    /// An event of the framework's memory allocator.
    MemoryEventId;
    /// An unprofiled repeat of a stage.
    TimingId;
    /// A run of the whole command.
    CommandRunId;
    /// A measured ceiling.
    MeasuredPeakId;
    /// A GEMM of a cuBLAS or cuBLASLt log.
    GemmCallId;
    /// The state of a GPU at one moment.
    GpuSnapshotId;
    /// A MIG device.
    MigDeviceId;
    /// A process at one moment.
    ProcessSampleId;
    /// A fact of the environment.
    FactId;
}
