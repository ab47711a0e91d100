//! What a collective does: from the framework's name, the range around its launch, or its kernel's name.

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Barrier,
    SendReceive,
    Other,
}

/// Words of names in lower case without `_`, in the order in which they are looked for.
const WORDS: [(&str, Operation); 13] = [
    ("allreduce", Operation::AllReduce),
    ("crossdevicereduce", Operation::AllReduce),
    ("allgather", Operation::AllGather),
    ("reducescatter", Operation::ReduceScatter),
    ("alltoall", Operation::AllToAll),
    ("broadcast", Operation::Broadcast),
    ("barrier", Operation::Barrier),
    ("sendrecv", Operation::SendReceive),
    ("send", Operation::SendReceive),
    ("recv", Operation::SendReceive),
    ("reduce", Operation::Reduce),
    ("gather", Operation::Gather),
    ("scatter", Operation::Scatter),
];

impl Operation {
    /// The operation that a name tells.
    pub(super) fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase().replace('_', "");
        WORDS.iter().find(|(word, _)| name.contains(word)).map(|(_, operation)| *operation)
    }

    /// The words that reports print.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Barrier => "barrier",
            Self::SendReceive => "send/receive",
            Self::Other => "other",
        }
    }

    /// Bus bandwidth ÷ algorithm bandwidth among `ranks` ranks, as the NCCL tests define it.
    pub(super) fn bus_factor(self, ranks: u32) -> Option<f64> {
        let n = f64::from(ranks);
        match self {
            _ if ranks < 2 => None,
            Self::AllReduce => Some(2.0 * (n - 1.0) / n),
            Self::AllGather
            | Self::ReduceScatter
            | Self::AllToAll
            | Self::Gather
            | Self::Scatter => Some((n - 1.0) / n),
            Self::Broadcast | Self::Reduce | Self::SendReceive => Some(1.0),
            Self::Barrier | Self::Other => None,
        }
    }

    /// Whether no rank can leave it before all have entered: its ends mark one moment on all ranks.
    pub(super) const fn joins_all(self) -> bool {
        matches!(
            self,
            Self::AllReduce
                | Self::AllGather
                | Self::ReduceScatter
                | Self::AllToAll
                | Self::Barrier
        )
    }
}

/// What NCCL writes into a kernel's name; empty where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NcclName {
    /// Type of the elements, such as `bf16`.
    pub(super) dtype: String,
    /// `ring`, `tree`, `nvls` and so on.
    pub(super) algorithm: String,
    /// `LL`, `LL128`, `simple`.
    pub(super) protocol: String,
}

/// Reads `ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)` and the older `ncclKernel_AllReduce_RING_LL_Sum_float(…)`.
pub(super) fn nccl_name(kernel: &str) -> NcclName {
    let mut name = NcclName::default();
    let Some((_, words)) = kernel.split_once("Kernel_") else { return name };
    for word in words.split(['(', '<']).next().unwrap_or_default().split('_') {
        match word {
            "RING" | "TREE" | "NVLS" | "PAT" | "COLLNET" => name.algorithm = word.to_lowercase(),
            word if word.starts_with("COLLNET") => name.algorithm = word.to_lowercase(),
            "LL" | "LL128" => name.protocol = word.to_owned(),
            "SIMPLE" => name.protocol = "simple".to_owned(),
            "half" => name.dtype = "f16".to_owned(),
            "float" => name.dtype = "f32".to_owned(),
            "double" => name.dtype = "f64".to_owned(),
            word if is_dtype(word) => name.dtype = word.to_owned(),
            _ => {}
        }
    }
    name
}

/// `f16`, `bf16`, `f8e4m3`, `u32`, `i8`, `int8_t` without its end.
fn is_dtype(word: &str) -> bool {
    let rest = ["bf", "f", "u", "i", "int", "uint"].iter().find_map(|lead| {
        let rest = word.strip_prefix(lead)?;
        rest.starts_with(|sign: char| sign.is_ascii_digit()).then_some(rest)
    });
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_writers_tell_the_operation() {
        for (name, operation) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)", Some(Operation::AllReduce)),
            ("allreduce_coalesced", Some(Operation::AllReduce)),
            ("_allgather_base", Some(Operation::AllGather)),
            ("_reduce_scatter_base", Some(Operation::ReduceScatter)),
            ("all_to_allv", Some(Operation::AllToAll)),
            ("ncclDevKernel_SendRecv(T)", Some(Operation::SendReceive)),
            ("vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(T)", Some(Operation::AllReduce)),
            ("_broadcast_oop", Some(Operation::Broadcast)),
            ("ncclDevKernel_Generic(T)", None),
        ] {
            assert_eq!(Operation::of(name), operation, "{name}");
        }
    }

    #[test]
    fn kernel_names_tell_type_algorithm_and_protocol() {
        let read = |name| {
            let NcclName { dtype, algorithm, protocol } = nccl_name(name);
            [dtype, algorithm, protocol].join(" ")
        };
        assert_eq!(
            read("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)"),
            "bf16 ring LL"
        );
        assert_eq!(
            read("ncclKernel_AllReduce_RING_LL128_Sum_float(ncclDevComm*)"),
            "f32 ring LL128"
        );
        assert_eq!(read("ncclDevKernel_AllReduce_Sum_f32_NVLS_SIMPLE(T)"), "f32 nvls simple");
        assert_eq!(read("ncclDevKernel_AllGather_RING_LL(T)"), " ring LL");
        assert_eq!(read("cross_device_reduce(T)"), "  ");
    }

    #[test]
    fn bus_factors_of_two_and_eight_ranks() {
        // 2 (n − 1) / n: 1 and 1.75; (n − 1) / n: 0.5 and 0.875.
        assert_eq!([2, 8].map(|n| Operation::AllReduce.bus_factor(n)), [Some(1.0), Some(1.75)]);
        assert_eq!([2, 8].map(|n| Operation::AllGather.bus_factor(n)), [Some(0.5), Some(0.875)]);
        assert_eq!(Operation::AllReduce.bus_factor(1), None);
    }
}
