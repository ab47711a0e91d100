//! All metrics: id, unit, polarity, formula, and basis or source. `docs/methodology.md` prints them.

use rooflens_schemas::{Metric, MetricValue, Polarity, Scope, Unit};

/// A metric that the analyses give.
#[derive(Debug, PartialEq)]
pub struct MetricDef {
    /// Stable name; once released, never given another meaning.
    pub id: &'static str,
    /// Unit of its value.
    pub unit: Unit,
    /// Which direction is better.
    pub polarity: Polarity,
    /// Formula, as `docs/methodology.md` prints it.
    pub formula: &'static str,
    /// Basis and source, as `docs/methodology.md` prints them.
    pub source: &'static str,
}

impl MetricDef {
    /// The metric with a value that an artifact states.
    pub fn measured(&self, scope: Scope, value: f64, basis: impl Into<String>) -> Metric {
        self.metric(scope, MetricValue::Measured { value }, basis.into())
    }

    /// The metric with a computed value.
    pub fn derived(&self, scope: Scope, value: f64, basis: impl Into<String>) -> Metric {
        self.metric(scope, MetricValue::Derived { value }, basis.into())
    }

    /// The metric without a value, and why there is none.
    pub fn unavailable(&self, scope: Scope, reason: impl Into<String>) -> Metric {
        let reason = reason.into();
        self.metric(scope, MetricValue::Unavailable { reason }, String::new())
    }

    /// Derived with its basis, or unavailable for a reason.
    pub fn known(&self, scope: Scope, value: Result<(f64, String), String>) -> Metric {
        match value {
            Ok((value, basis)) => self.derived(scope, value, basis),
            Err(reason) => self.unavailable(scope, reason),
        }
    }

    fn metric(&self, scope: Scope, value: MetricValue, basis: String) -> Metric {
        let (id, unit, polarity) = (self.id.to_owned(), self.unit, self.polarity);
        Metric {
            id,
            scope,
            value,
            unit,
            polarity,
            basis,
            evidence: Vec::new(),
        }
    }
}

macro_rules! metrics {
    ($($name:ident $id:literal $unit:ident $polarity:ident $formula:literal $source:literal;)*) => {
        $(
            #[doc = $formula]
            pub static $name: MetricDef = MetricDef {
                id: $id,
                unit: Unit::$unit,
                polarity: Polarity::$polarity,
                formula: $formula,
                source: $source,
            };
        )*

        /// All of them, in the order of `docs/methodology.md`.
        pub static ALL: &[&MetricDef] = &[$(&$name),*];
    };
}

metrics! {
    // Time.
    CAPTURED_TIME "captured_time" Nanoseconds Neutral
        "last − first event of the pass, once for each of its GPUs" "GPU operations, API calls, ranges, operators";
    MEASURED_SHARE "measured_share" Ratio Higher
        "time of the counted instances ÷ `captured_time`" "outermost stages; where instances overlap on a GPU, the earlier one has the time";
    STAGE_TIME "stage_time" Nanoseconds Lower
        "median projection of the counted instances; for unprofiled repeats the median wall time" "the pass in its scope says which; repeats: `timings.json`";
    TIME_PER_STEP "time_per_step" Nanoseconds Lower
        "stage time of unprofiled repeats ÷ steps of a repeat" "only where all repeats have the same number of steps";
    COMMAND_TIME "command_time" Nanoseconds Lower
        "median wall time of the counted runs of the whole command, without a profiler" "`runs.json`; warm-up and failed runs do not count";
    HOST_TIME "host_time" Nanoseconds Lower
        "median duration of the stage's ranges on the host" "NVTX ranges or PyTorch annotations";
    OPERATION_TIME_SUM "operation_time_sum" Nanoseconds Neutral
        "median over instances of Σ operation durations" "counts overlapping operations twice";
    BUSY_SHARE "busy_share" Ratio Higher
        "median busy ÷ (stage time × GPUs used)" "counted instances";
    OPERATIONS "operations" Count Neutral
        "median number of GPU operations of an instance" "kernels, copies, memsets, whole graphs";
    INFERRED_SHARE "inferred_share" Ratio Neutral
        "operations attributed by inference ÷ operations" "counted instances";
    ATTRIBUTED_SHARE "attributed_share" Ratio Neutral
        "Σ durations of operations in some stage ÷ Σ durations of all operations of the pass" "what is left was issued outside of all stages";
    ATTRIBUTED_SHARE_FROM_FIRST_STAGE "attributed_share_from_first_stage" Ratio Neutral
        "Σ durations of operations in some stage ÷ Σ durations of the operations of the pass from the first one of a stage on" "start-up, such as loading and warm-up before the first stage, is excluded";

    // Idle time.
    IDLE "idle" Nanoseconds Lower
        "`idle_share` × stage time" "per GPU where a process uses several";
    IDLE_SHARE "idle_share" Ratio Neutral
        "Σ idle time ÷ Σ time, over the counted instances" "";
    IDLE_LAUNCHING "idle_launching" Nanoseconds Neutral
        "idle time of cause *launching*" "this and the following: Σ over the counted instances ÷ their time × stage time; the parts add up to `idle`";
    IDLE_HOST_CODE "idle_host_code" Nanoseconds Neutral
        "idle time of cause *host code*" "";
    IDLE_FIRST_USE "idle_first_use" Nanoseconds Neutral
        "idle time of cause *first use*" "";
    IDLE_SYNC "idle_sync" Nanoseconds Neutral
        "idle time of cause *synchronizing call*" "";
    IDLE_ALLOCATOR "idle_allocator" Nanoseconds Neutral
        "idle time of cause *allocation*" "";
    IDLE_COPY "idle_copy" Nanoseconds Neutral
        "idle time of cause *blocking copy*" "";
    IDLE_OS "idle_os" Nanoseconds Neutral
        "idle time of cause *operating system*" "unavailable if no such call was traced";
    IDLE_OFF_CPU "idle_off_cpu" Nanoseconds Neutral
        "idle time of cause *off CPU*" "unavailable without events of the scheduler";
    IDLE_PROFILER "idle_profiler" Nanoseconds Neutral
        "idle time of cause *profiler*" "unavailable if the artifact states no overhead";
    IDLE_COMMUNICATION "idle_communication" Nanoseconds Neutral
        "idle time of cause *collective*" "";
    IDLE_QUEUE "idle_queue" Nanoseconds Neutral
        "idle time of cause *queue, latency*" "";
    IDLE_OTHER_WORK "idle_other_work" Nanoseconds Neutral
        "time in which only operations of others run" "";
    IDLE_UNKNOWN "idle_unknown" Nanoseconds Neutral
        "idle time of cause *unknown*" "";
    BETWEEN_IDLE "between_idle" Nanoseconds Neutral
        "Σ idle time of the times between stages" "by process and GPU; instances that count";
    BETWEEN_IDLE_SHARE "between_idle_share" Ratio Neutral
        "`between_idle` ÷ run" "";
    BETWEEN_HOST "between_host" Nanoseconds Neutral
        "that of `between_idle` for which the host had not issued the next work" "unavailable without CUDA calls";
    LAUNCHES_PER_STEP "launches_per_step" Count Neutral
        "launch calls of an instance ÷ steps" "calls that launched kernels or a graph, mean over the counted instances";
    LAUNCHES_PER_TOKEN "launches_per_token" One Neutral
        "launch calls of an instance ÷ tokens of the batch" "decode: generated tokens; else prompt tokens";
    MEAN_KERNEL_TIME "mean_kernel_time" Nanoseconds Neutral
        "Σ durations of kernels ÷ number of kernels" "kernels of graphs included";
    LAUNCH_API_TIME "launch_api_time" Nanoseconds Neutral
        "median duration of launch calls" "one call for a graph; the basis has the mean";
    QUEUE_TIME "queue_time" Nanoseconds Neutral
        "median of start of a launch's first operation − return of its call" "those that begin before the return are excluded and counted in the basis";
    QUEUE_DEPTH "queue_depth" One Neutral
        "launches issued and not begun, mean over busy time" "a graph is one launch; the basis has the greatest number";
    QUEUE_EMPTY_SHARE "queue_empty_share" Ratio Neutral
        "time in which no launch is issued and not begun ÷ stage time" "counted instances; launches of all stages of the process on the GPU";

    // Upper bounds of gains.
    BOUND_LAUNCHING "bound_launching" Nanoseconds Neutral
        "stage time without `idle_launching`" "launches cost nothing (CUDA graphs), kernels take as long";
    BOUND_HOST "bound_host" Nanoseconds Neutral
        "stage time without the idle time of all causes of rule 3 but *profiler*" "the host is always ahead";
    BOUND_COPIES "bound_copies" Nanoseconds Neutral
        "stage time without the time in which only copies run" "all copies are hidden and slow nothing";
    BOUND_COMMUNICATION "bound_communication" Nanoseconds Neutral
        "stage time without the time in which a collective runs and no other kernel" "all collectives are hidden and slow nothing";
    BOUND_MATRIX_PRODUCTS "bound_matrix_products" Nanoseconds Neutral
        "stage time without the time of GEMMs of known sizes above their roofline time" "each product reaches what was measured on this GPU, else what it is specified for; stages on one GPU";

    // Timeline, concurrency, pace.
    SM_ACTIVE "sm_active" Ratio Neutral
        "mean of the samples in the stage: cycles in which an SM holds a warp ÷ cycles, over all SMs" "GPU metrics; basis names counter, samples and instances";
    TENSOR_ACTIVE "tensor_active" Ratio Neutral
        "mean of the samples in the stage: cycles in which tensor pipes issue ÷ cycles, over all SMs" "as above";
    DRAM_BANDWIDTH_SHARE "dram_bandwidth_share" Ratio Neutral
        "mean of the read samples + mean of the write samples: cycles in which device memory moves data ÷ cycles" "as above";
    CONCURRENT_SHARE "concurrent_share" Ratio Neutral
        "time with two or more operations at once ÷ busy" "operations of the counted instances on one GPU, or of the whole pass (no stage in its scope); only where there is more than one stream";
    PACE_DRIFT "pace_drift" Ratio Neutral
        "median time of the last third of the instances ÷ that of the first third − 1" "counted instances in order of the run, 8 at least; basis names both and the Theil–Sen slope";
    PACE_TREND_Z "pace_trend_z" One Neutral
        "(rising pairs − falling pairs ∓ 1) ÷ √(n · (n − 1) · (2 · n + 5) ÷ 18)" "Mann–Kendall statistic of the same instances, of up to 400 groups of them; beyond ±2.58 the report calls it a trend, if the median of the second third lies between those of the others";

    // Kernels.
    KERNEL_TIME "kernel_time" Nanoseconds Neutral
        "Σ durations of kernel launches of a pass" "overlap counts twice";
    CLASS_SHARE "class_share" Ratio Neutral
        "Σ durations of a class ÷ Σ durations of all GPU operations of the stage" "scope names stage, rank where there are several, and class; the basis of all shares “of the GPU time”: where operations overlap, shares of busy time, as in the verdict, are larger";
    OTHER_SHARE "other_share" Ratio Neutral
        "Σ durations of kernels of class *other* ÷ Σ durations of all kernels" "quality of the classification";
    APPLICATION_SHARE "application_share" Ratio Neutral
        "Σ durations of kernels of class *application* ÷ Σ durations of all kernels" "code of the profiled program; absent where there is none";

    // CUDA graphs.
    GRAPH_REPLAYS "graph_replays" Count Neutral
        "graph launches with work on the GPU in the counted instances of a stage" "process and correlation id";
    GRAPH_REPLAY_TIME "graph_replay_time" Nanoseconds Lower
        "median of (last end − first start) of a replay's operations" "all graphs of the stage";
    GRAPH_BUSY_SHARE "graph_busy_share" Ratio Higher
        "Σ busy of the replays' own operations ÷ Σ (replay time × GPUs)" "unavailable for graphs that were traced as one operation";
    GRAPH_GAP "graph_gap" Nanoseconds Lower
        "median time from the end of the replays before to the start of the next one, 0 where they overlap" "replays of one stage instance on one GPU";
    GRAPH_CAPTURE_ATTRIBUTED_SHARE "graph_capture_attributed_share" Ratio Neutral
        "Σ durations of operations in graphs with a range at capture ÷ Σ durations of all operations in graphs" "nodes, or creations of whole graphs";
    GRAPH_EAGER_MATCHED_SHARE "graph_eager_matched_share" Ratio Neutral
        "Σ durations of operations in graphs without a range at capture that have an eager twin ÷ Σ durations of all operations in graphs" "graphs traced node by node of which ranges at capture are missing";

    // FLOPs and bytes of the model.
    MODEL_FLOPS "model_flops" Flop Higher
        "the sum above for one instance of the stage, causal" "dimensions and sizes, printed with it";

    // Utilization.
    MFU "mfu" Ratio Higher
        "model FLOPs ÷ (stage time × peak)" "causal attention; PaLM, appendix B";
    MFU_FULL_ATTENTION "mfu_full_attention" Ratio Higher
        "as `mfu`, every query attending every key" "the convention of Megatron-LM; for comparison";
    KERNEL_TIME_MFU "kernel_time_mfu" Ratio Higher
        "MFU ÷ busy share" "MFU if the GPU never waited: MFU = kernel-time MFU × busy share";
    MBU "mbu" Ratio Higher
        "bytes of the model ÷ (stage time × specified memory bandwidth)" "lower bound of the bytes moved";
    KERNEL_TIME_MBU "kernel_time_mbu" Ratio Higher
        "MBU ÷ busy share" "MBU if the GPU never waited: MBU = kernel-time MBU × busy share";
    TOKENS_PER_SECOND "tokens_per_second" TokensPerSecond Higher
        "tokens of an instance ÷ stage time" "prefill: prompt tokens; decode: generated tokens";
    IMAGES_PER_SECOND "images_per_second" ImagesPerSecond Higher
        "images of an instance ÷ stage time" "models of images, whose tokens are patches";

    // GEMMs, attention, FLOPs by source.
    GEMM_TIME_SHARE "gemm_time_share" Ratio Neutral
        "Σ durations of GEMMs ÷ Σ durations of all GPU operations" "counted instances of an outermost stage";
    GEMM_SHAPE_COVERAGE "gemm_shape_coverage" Ratio Neutral
        "Σ durations of products of known sizes ÷ Σ durations of all products" "the same";
    GEMM_RECOVERABLE "gemm_recoverable" Nanoseconds Lower
        "mean over instances of Σ max(0, time − roofline time)" "products of known sizes; the basis names the ceilings";
    OPERATOR_FLOPS "operator_flops" Flop Neutral
        "mean over instances of Σ FLOPs of kernels whose sizes an operator recorded, causal" "sources 1, 2 and 4";
    GEMM_LOG_FLOPS "gemm_log_flops" Flop Neutral
        "mean over instances of Σ 2 · M · N · K of kernels found in a cuBLASLt log" "source 3 alone, whatever the others say";
    IDEAL_TIME "ideal_time" Nanoseconds Neutral
        "Σ over dtypes of FLOPs ÷ specified dense rate" "kernels of known sizes, all sources";
    MIXED_DTYPE_UTILIZATION "mixed_dtype_utilization" Ratio Higher
        "ideal time ÷ stage time" "MFU, where there is one dtype and all sizes are known";
    CLOCK_NORMALIZED_MFU "clock_normalized_mfu" Ratio Higher
        "MFU · boost clock of the specified rate ÷ mean SM clock in the stage" "sampled GPU metrics of the pass, else NVML samples during it";

    // Profiled kernels and rooflines.
    PROFILED_TIME "profiled_time" Nanoseconds Neutral
        "Σ `gpu__time_duration` over the profiled launches of a pass" "Nsight Compute";
    BOUND_SHARE "bound_share" Ratio Neutral
        "profiled time of a bound class ÷ profiled time" "scope names the class";
    EXECUTED_FLOPS "executed_flops" Flop Neutral
        "Σ executed FLOPs over the profiled launches" "instruction and tensor counters";
    PROFILED_SHARE "profiled_share" Ratio Neutral
        "Σ durations of the stage's launches that profiled launches represent ÷ Σ durations of its GPU operations" "the timeline, counted instances";
    HFU "hfu" Ratio Neutral
        "Σ over dtypes (executed FLOPs of an instance ÷ peak of the dtype) ÷ stage time" "profiled launches, spread; unavailable below 80 % `profiled_share` and below the model FLOPs";
    DRAM_BYTES "dram_bytes" Bytes Neutral
        "DRAM bytes of an instance" "as `hfu`; too high where caches were flushed before each profiled launch";
    PROFILED_DRAM_SHARE "profiled_dram_share" Ratio Neutral
        "`dram_bytes` ÷ (stage time × specified memory bandwidth)" "as `dram_bytes`";
    REPRESENTATIVE_SHARE "representative_share" Ratio Neutral
        "profiled time of launches that last 0.8 to 1.25 × the median of the same kernel, grid and block in their stage ÷ profiled time" "the timeline; flushed caches and locked clocks lengthen short launches";
    PROFILED_OCCUPANCY "profiled_occupancy" Ratio Neutral
        "resident warps ÷ most possible, while an SM is active" "`sm__warps_active.avg.pct_of_peak_sustained_active`";
    PROFILED_NO_ELIGIBLE "profiled_no_eligible" Ratio Neutral
        "cycles of a scheduler in which none of its warps could issue ÷ its active cycles" "`smsp__issue_inst0.avg.pct_of_peak_sustained_active`";
    PROFILED_TENSOR_PIPE "profiled_tensor_pipe" Ratio Neutral
        "cycles in which the tensor pipe was active ÷ elapsed cycles" "`sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed`; older reports: instructions of the pipe over active cycles";
    PROFILED_TAIL "profiled_tail" Ratio Neutral
        "1 − waves ÷ ⌈waves⌉" "launch statistics";

    // Operators.
    OPERATOR_COVERAGE "operator_coverage" Ratio Neutral
        "Σ durations of GPU operations issued within operators ÷ Σ durations of all" "correlation ids";
    BACKWARD_COVERAGE "backward_coverage" Ratio Neutral
        "Σ durations of GPU operations that belong to an operator of the forward pass ÷ Σ durations of all that autograd issued" "of a pass; see below";
    FLOP_COVERAGE "flop_coverage" Ratio Higher
        "Σ durations of GPU operations whose FLOPs are counted ÷ Σ durations of all" "of a pass: those within operators with recorded shapes; of a stage: kernels of known sizes, whatever their source";

    // Python functions.
    PYTHON_COVERAGE "python_coverage" Ratio Neutral
        "Σ durations of GPU operations issued within Python functions ÷ Σ durations of all" "of a pass; other threads, such as autograd's, run no Python";

    // Device memory.
    MEMORY_PEAK_ALLOCATED "memory_peak_allocated" Bytes Neutral
        "maximum of the allocated bytes" "whole trace, or ranges of a stage's counted instances; allocator events";
    MEMORY_PEAK_RESERVED "memory_peak_reserved" Bytes Neutral
        "maximum of the reserved bytes" "as above";
    MEMORY_FRAGMENTATION "memory_fragmentation" Ratio Neutral
        "mean over time of 1 − allocated ÷ reserved" "as above; what the allocator caches counts as unused";
    MEMORY_PEAK_USED "memory_peak_used" Bytes Neutral
        "maximum of the samples" "NVML's memory in use, contexts and other processes included";
    ALLOCATOR_CALLS "allocator_calls" Count Neutral
        "median over counted instances of the CUDA calls that allocate or free memory within the range" "`cudaMalloc`, `cudaFree`, `cudaHostAlloc`, `cuMemCreate`, `cuMemMap` and their kin, of all threads of the process";

    // Copies and synchronization.
    COPY_BYTES "copy_bytes" Bytes Lower
        "median over instances of Σ bytes" "memsets excluded; a class in the scope names the direction";
    COPY_TIME "copy_time" Nanoseconds Lower
        "median over instances of Σ durations" "as above";
    COPY_EXPOSED "copy_exposed" Nanoseconds Lower
        "median over instances of the union of the copies − the time in which a kernel of the GPU runs" "as above";
    COPY_BANDWIDTH "copy_bandwidth" BytesPerSecond Higher
        "Σ bytes ÷ Σ durations" "by direction";
    PAGEABLE_SHARE "pageable_share" Ratio Lower
        "bytes from or to pageable host memory ÷ bytes between host and GPU" "copies whose kind of memory is recorded";
    SYNC_CALLS "sync_calls" Count Lower
        "median over instances of the synchronizing calls of the process that start within the range on the host" "calls that are not within another";
    SYNC_TIME "sync_time" Nanoseconds Lower
        "median over instances of Σ durations of those calls" "";
    SYNC_IDLE "sync_idle" Nanoseconds Lower
        "median over instances of Σ gaps within the projection that are charged to a synchronizing call" "operations of all stages end a gap";

    // Communication.
    COMM_TIME "comm_time" Nanoseconds Lower
        "union of the intervals of the collectives" "median over instances; without a stage: of the whole pass";
    COMM_EXPOSED "comm_exposed" Nanoseconds Lower
        "the part of it in which no kernel of the GPU computes" "as above";
    COMM_EXPOSED_SHARE "comm_exposed_share" Ratio Lower
        "`comm_exposed` ÷ stage time" "";
    COMM_OVERLAP_SHARE "comm_overlap_share" Ratio Higher
        "(`comm_time` − `comm_exposed`) ÷ `comm_time`" "";
    COMM_WAIT "comm_wait" Nanoseconds Lower
        "Σ (duration − shortest duration among the ranks)" "matched collectives; of messages the waits as above";
    COMM_TRANSFER "comm_transfer" Nanoseconds Neutral
        "Σ shortest duration among the ranks" "matched collectives; of messages the transfers as above";
    BUS_BANDWIDTH "bus_bandwidth" BytesPerSecond Higher
        "Σ message × bus factor ÷ Σ transfer, or duration where no other rank is known" "collectives of recorded size; the class in the scope is the operation";
    IMBALANCE "imbalance" One Lower
        "longest ÷ mean computing time of the ranks" "medians over instances";
    CLOCK_RESIDUAL "clock_residual" Nanoseconds Neutral
        "median of abs(end − mean end − offset of the rank)" "collectives that join all ranks";

    // Critical path.
    CRITICAL_PATH "critical_path" Nanoseconds Neutral
        "last end − first start of the step's GPU operations" "over all ranks";
    CRITICAL_PATH_SHARE_COMPUTE "critical_path_share_compute" Ratio Neutral
        "computing kernels on the path ÷ path" "";
    CRITICAL_PATH_SHARE_COMMUNICATION "critical_path_share_communication" Ratio Neutral
        "collectives on the path ÷ path" "";
    CRITICAL_PATH_SHARE_COPY "critical_path_share_copy" Ratio Neutral
        "copies and memsets on the path ÷ path" "";
    CRITICAL_PATH_SHARE_GAP "critical_path_share_gap" Ratio Neutral
        "time from one GPU operation to the next ÷ path" "";
    CRITICAL_PATH_SHARE_LAUNCH "critical_path_share_launch" Ratio Neutral
        "calls that issue operations, and from there to the operation ÷ path" "";
    CRITICAL_PATH_SHARE_CALLS "critical_path_share_calls" Ratio Neutral
        "other CUDA calls, and the return of synchronizing ones ÷ path" "";
    CRITICAL_PATH_SHARE_HOST "critical_path_share_host" Ratio Neutral
        "host code between calls ÷ path" "";
    CRITICAL_PATH_SHARE_UNKNOWN "critical_path_share_unknown" Ratio Neutral
        "what comes before the first known call ÷ path" "";

    // Power and clocks.
    POWER_MEAN "power_mean" Watts Neutral
        "mean of the samples" "board power as NVML gives it";
    POWER_P95 "power_p95" Watts Neutral
        "95th percentile of the samples" "";
    SM_CLOCK_MEAN "sm_clock_mean" Hertz Neutral
        "mean of the samples" "";
    THROTTLED_SHARE "throttled_share" Ratio Neutral
        "samples with a reason that lowers the clock ÷ samples that state reasons" "NVML clock-event reasons";
    ENERGY "energy" Joules Neutral
        "whole period: trapezoid sum of power over the samples; stage: mean power × time of the instances that hold samples" "printed with it";

    // Sizes of a model, from its config alone.
    MODULE_PARAMETERS "module_parameters" Count Neutral
        "Σ parameters of equal modules over all layers; a tied head has none" "the class of the scope names model type and module; without a class of the stage, without a scope of the model";
    MODULE_FLOPS "module_flops" Flop Neutral
        "operations of the pass that reads one prompt" "formulas as of `model_flops`; the basis names the prompt";
    MODULE_ACTIVATIONS "module_activations" Count Neutral
        "elements that matrices and attention give in that pass" "norms, activation functions and look-ups give none";
    MODULE_CACHE "module_cache" Bytes Neutral
        "keys, values (or latents) and recurrent states of the prompt, 2 bytes an element" "";

    // Load tests of serving engines: a run is the pass of the scope, a percentile the class.
    TTFT "ttft" Nanoseconds Lower
        "time from when a request is due to its first token; mean and percentiles over requests" "due: scheduled in an open loop, else sent; raw samples by linear interpolation, else as the tool states it";
    TPOT "tpot" Nanoseconds Lower
        "(latency − TTFT) ÷ (output tokens − 1) of a request; mean and percentiles over requests" "requests with two or more output tokens";
    ITL "itl" Nanoseconds Lower
        "time between two outputs; mean and percentiles over all outputs of all requests" "an output holds several tokens where the engine sends them at once";
    E2E_LATENCY "e2e_latency" Nanoseconds Lower
        "time from when a request is due to its end; mean and percentiles over requests" "requests with an answer";
    REQUEST_THROUGHPUT "request_throughput" RequestsPerSecond Higher
        "answers ÷ duration" "from the first request to the end of the last";
    OUTPUT_THROUGHPUT "output_throughput" TokensPerSecond Higher
        "tokens of answers ÷ duration" "";
    TOTAL_THROUGHPUT "total_throughput" TokensPerSecond Higher
        "tokens of prompts and answers ÷ duration" "";
    FAILED_REQUESTS "failed_requests" Count Lower
        "requests without an answer" "";
    GOODPUT "goodput" RequestsPerSecond Higher
        "requests that keep all limits of `--slo` ÷ duration" "raw samples";
    GOODPUT_SHARE "goodput_share" Ratio Higher
        "requests that keep all limits of `--slo` ÷ requests" "failed requests keep none";
    QUEUE_SHARE "queue_share" Ratio Lower
        "time in a queue ÷ (time in a queue + time of service)" "means; the basis names the source, `docs/serving.md` what service is";
    SATURATION_LOAD "saturation_load" One Neutral
        "last load of a sweep before all further steps raise throughput by less than half of what they raise the load by, as logarithms" "the basis names the axis";
    PREDICTED_TTFT "predict.ttft_bound" Nanoseconds Lower
        "lower bound of the time to first token of a prompt alone" "`docs/prediction.md`; the basis names GPU, format and load, the class what sets it";
    PREDICTED_TPOT "predict.tpot_bound" Nanoseconds Lower
        "lower bound of the time per output token" "`docs/prediction.md`";
    PREDICTED_OUTPUT_THROUGHPUT "predict.output_throughput_bound" TokensPerSecond Higher
        "most output tokens per second of any schedule" "`docs/prediction.md`";
    TTFT_OVER_BOUND "ttft_over_bound" One Lower
        "median TTFT ÷ predicted lower bound" "`--predicted`";
    TPOT_OVER_BOUND "tpot_over_bound" One Lower
        "median TPOT ÷ predicted lower bound" "`--predicted`";
}
