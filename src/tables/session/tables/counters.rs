//! Hardware counters sampled over time (nsys `--gpu-metrics-devices`).

use crate::table::table;
use crate::{CounterSampleId, GpuId, Ns, PassId, StrId};

table! {
    /// Samples of GPU hardware counters.
    CounterSamples "counter_samples" { row: CounterSample, id: CounterSampleId,
        /// Time on the pass's clock, nanoseconds; may lie before 0.
        time: Ns,
        /// Counter name as the tool prints it.
        metric: StrId,
        /// Value in the counter's own unit.
        value: f64,
        /// Pass.
        pass: PassId,
        /// GPU, if the artifact tells.
        gpu: Option<GpuId>,
    }
}
