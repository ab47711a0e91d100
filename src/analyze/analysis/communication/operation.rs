//! What a collective does: from the name that the framework or NCCL calls it by, or its kernel's name.

use rooflens_units::Ratio;

rooflens_stages::labels! {
    /// A collective operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Operation {
        /// Reduction of which all ranks get the result.
        AllReduce = "all-reduce",
        /// Parts of all ranks, put together on all.
        AllGather = "all-gather",
        /// Reduction of which each rank gets a part.
        ReduceScatter = "reduce-scatter",
        /// A part from each rank to each.
        AllToAll = "all-to-all",
        /// From one rank to all.
        Broadcast = "broadcast",
        /// Reduction of which one rank gets the result.
        Reduce = "reduce",
        /// Parts of all ranks, put together on one.
        Gather = "gather",
        /// A part from one rank to each.
        Scatter = "scatter",
        /// Nothing but waiting.
        Barrier = "barrier",
        /// A message to another rank.
        Send = "send",
        /// A message from another rank.
        Receive = "receive",
        /// Both in one kernel, or which of them is unknown.
        SendReceive = "send/receive",
        /// A collective of unknown operation.
        Other = "other",
    }
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
    ("send", Operation::Send),
    ("recv", Operation::Receive),
    ("reduce", Operation::Reduce),
    ("gather", Operation::Gather),
    ("scatter", Operation::Scatter),
];

impl Operation {
    /// The operation that a name tells.
    pub(super) fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase().replace('_', "");
        WORDS
            .iter()
            .find(|(word, _)| name.contains(word))
            .map(|(_, operation)| *operation)
    }

    /// Bus bandwidth ÷ algorithm bandwidth among `ranks` ranks, as the NCCL tests define it.
    pub fn bus_factor(self, ranks: Option<u32>) -> Option<Ratio> {
        if self.is_message() {
            return Some(Ratio::ONE);
        }
        let n = f64::from(ranks.filter(|ranks| *ranks > 1)?);
        match self {
            Self::AllReduce => Some(Ratio(2.0 * (n - 1.0) / n)),
            Self::AllGather
            | Self::ReduceScatter
            | Self::AllToAll
            | Self::Gather
            | Self::Scatter => Some(Ratio((n - 1.0) / n)),
            Self::Broadcast | Self::Reduce => Some(Ratio::ONE),
            _ => None,
        }
    }

    /// Whether it goes from one rank to another, and joins no group.
    pub const fn is_message(self) -> bool {
        matches!(self, Self::Send | Self::Receive | Self::SendReceive)
    }

    /// Whether another rank's operation can be the other side of this one.
    pub(super) fn answers(self, other: Self) -> bool {
        match self {
            Self::Send => other == Self::Receive,
            Self::Receive => other == Self::Send,
            _ => other == self,
        }
    }

    /// Bytes of the message, the larger of input and output. Where they differ by the number of ranks, one of
    /// them alone does not tell the larger.
    pub(super) fn message(self, input: Option<u64>, output: Option<u64>) -> Option<u64> {
        match self {
            Self::AllGather
            | Self::ReduceScatter
            | Self::AllToAll
            | Self::Gather
            | Self::Scatter => input.zip(output).map(|(input, output)| input.max(output)),
            _ => input.max(output),
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
pub struct NcclName {
    /// Type of the elements, such as `bf16`.
    pub dtype: String,
    /// `ring`, `tree`, `nvls` and so on.
    pub algorithm: String,
    /// `LL`, `LL128`, `simple`.
    pub protocol: String,
}

/// Reads `ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)` and the older `ncclKernel_AllReduce_RING_LL_Sum_float(…)`.
pub fn nccl_name(kernel: &str) -> NcclName {
    let mut name = NcclName::default();
    let Some((_, words)) = kernel.split_once("Kernel_") else {
        return name;
    };
    for word in words
        .split(['(', '<'])
        .next()
        .unwrap_or_default()
        .split('_')
    {
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
    let rest = ["bf", "f", "u", "i", "int", "uint"]
        .iter()
        .find_map(|lead| {
            let rest = word.strip_prefix(lead)?;
            rest.starts_with(|sign: char| sign.is_ascii_digit())
                .then_some(rest)
        });
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_writers_tell_the_operation() {
        for (name, operation) in [
            (
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)",
                Some(Operation::AllReduce),
            ),
            ("allreduce_coalesced", Some(Operation::AllReduce)),
            ("_allgather_base", Some(Operation::AllGather)),
            ("_reduce_scatter_base", Some(Operation::ReduceScatter)),
            ("all_to_allv", Some(Operation::AllToAll)),
            ("ncclDevKernel_SendRecv(T)", Some(Operation::SendReceive)),
            ("ncclSend", Some(Operation::Send)),
            ("recv", Some(Operation::Receive)),
            ("ncclAlltoAll", Some(Operation::AllToAll)),
            (
                "vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(T)",
                Some(Operation::AllReduce),
            ),
            ("_broadcast_oop", Some(Operation::Broadcast)),
            ("ncclDevKernel_Generic(T)", None),
        ] {
            assert_eq!(Operation::of(name), operation, "{name}");
        }
    }

    #[test]
    fn kernel_names_tell_type_algorithm_and_protocol() {
        let read = |name| {
            let NcclName {
                dtype,
                algorithm,
                protocol,
            } = nccl_name(name);
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
        assert_eq!(
            read("ncclDevKernel_AllReduce_Sum_f32_NVLS_SIMPLE(T)"),
            "f32 nvls simple"
        );
        assert_eq!(read("ncclDevKernel_AllGather_RING_LL(T)"), " ring LL");
        assert_eq!(read("cross_device_reduce(T)"), "  ");
    }

    #[test]
    fn bus_factors_of_two_and_eight_ranks() {
        // 2 (n − 1) / n: 1 and 1.75; (n − 1) / n: 0.5 and 0.875.
        let of = |operation: Operation| [2, 8].map(|ranks| operation.bus_factor(Some(ranks)));
        assert_eq!(
            of(Operation::AllReduce),
            [1.0, 1.75].map(|n| Some(Ratio(n)))
        );
        assert_eq!(
            of(Operation::AllGather),
            [0.5, 0.875].map(|n| Some(Ratio(n)))
        );
        assert_eq!(
            [Some(1), None].map(|n| Operation::AllReduce.bus_factor(n)),
            [None, None]
        );
        // A message has two ends, whatever the group.
        assert_eq!(Operation::Send.bus_factor(None), Some(Ratio::ONE));
    }

    #[test]
    fn half_of_an_all_gather_does_not_tell_its_size() {
        let of = |operation: Operation, both| [operation.message(Some(3), None), both];
        let gather = Operation::AllGather.message(Some(3), Some(24));
        assert_eq!(of(Operation::AllGather, gather), [None, Some(24)]);
        let send = Operation::Send.message(Some(3), Some(0));
        assert_eq!(of(Operation::Send, send), [Some(3), Some(3)]);
    }
}
