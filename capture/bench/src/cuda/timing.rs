//! Timing by events on the device.

use cudarc::driver::{CudaEvent, CudaGraph, result, sys};
use rooflens_stats::Statistics;
use rooflens_units::Seconds;
use serde_json::{Value, json};

use super::statistics::to_json;
use super::{CudaError, Device, statistics};

/// How an operation is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// Number of samples.
    pub(crate) samples: usize,
    /// Shortest time of a sample: shorter operations are launched several times in one.
    pub(crate) sample_time: Seconds,
    /// Shortest time of warm-up before the first sample.
    pub(crate) warmup_time: Seconds,
}

/// An operation that is measured.
pub(crate) struct Operation<'a> {
    /// Enqueues it once; the argument counts the launches.
    pub(crate) launch: &'a mut dyn FnMut(usize) -> Result<(), CudaError>,
    /// So many launches in a row have operands of their own.
    pub(crate) copies: usize,
    /// To be replayed from a CUDA graph, so that no launch waits for the host.
    pub(crate) in_graph: bool,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measurement {
    /// Times of a launch.
    pub(crate) times: Statistics<Seconds>,
    /// Launches in each sample.
    pub(crate) launches: usize,
    /// They were replayed from a CUDA graph; else the host enqueued each, and is what a short one waits for.
    pub(crate) in_graph: bool,
}

impl Measurement {
    /// Adds `launches_per_sample`, `cuda_graph` and the members of the statistics to a JSON object.
    pub(crate) fn add_to(&self, entry: &mut Value) {
        entry["launches_per_sample"] = json!(self.launches);
        entry["cuda_graph"] = json!(self.in_graph);
        if let (Value::Object(entry), Value::Object(times)) = (entry, to_json(&self.times)) {
            entry.extend(times);
        }
    }
}

/// Times an operation.
///
/// Each sample lies between two events and is waited for; where the operation is to be and can be captured, it is a
/// CUDA graph of launches. `observe` is called while the middle sample runs.
///
/// # Errors
/// Those of `launch`, and of the device.
pub(crate) fn measure(
    device: &Device,
    plan: Plan,
    Operation {
        launch,
        copies,
        in_graph,
    }: Operation<'_>,
    observe: &mut dyn FnMut(),
) -> Result<Measurement, CudaError> {
    let timer = Timer::new(device)?;
    let launches = launches_of_a_sample(&timer, plan, launch)?;
    device.free_memory()?;
    let captured = in_graph
        .then(|| capture(device, launches, copies, launch))
        .flatten();
    let graphs = captured.unwrap_or_default();
    let mut enqueue = |sample: usize| match graphs.get(sample % graphs.len().max(1)) {
        Some(graph) => graph.launch().map_err(CudaError::driver("launch a graph")),
        None => (sample * launches..(sample + 1) * launches).try_for_each(&mut *launch),
    };
    let (mut first, mut spent) = (0, Seconds::ZERO);
    while first < graphs.len() || spent < plan.warmup_time {
        spent += timer.time(|| enqueue(first), || ())?;
        first += 1;
    }
    let mut times = Vec::with_capacity(plan.samples);
    for number in 0..plan.samples.max(1) {
        let observed = || {
            if number == plan.samples / 2 {
                observe()
            }
        };
        times.push(timer.time(|| enqueue(first + number), observed)? / launches as f64);
    }
    let times = statistics(times)
        .ok_or_else(|| CudaError::Unsupported("a measurement without samples".to_owned()))?;
    Ok(Measurement {
        times,
        launches,
        in_graph: !graphs.is_empty(),
    })
}

/// So many that a sample takes its shortest time.
fn launches_of_a_sample(
    timer: &Timer<'_>,
    plan: Plan,
    launch: &mut dyn FnMut(usize) -> Result<(), CudaError>,
) -> Result<usize, CudaError> {
    timer.time(|| launch(0), || ())?;
    let mut launches = 1;
    let mut last = timer.time(|| launch(1), || ())?;
    while last < plan.sample_time && launches < 1 << 16 {
        let factor = (plan.sample_time / last.max(Seconds(1e-7)) * 1.1).clamp(2.0, 16.0);
        launches = (launches as f64 * factor).ceil() as usize;
        last = timer.time(|| (0..launches).try_for_each(&mut *launch), || ())?;
    }
    Ok(launches)
}

/// Graphs of so many launches each, which together use every copy of the operands; none if it cannot be captured.
fn capture(
    device: &Device,
    launches: usize,
    copies: usize,
    launch: &mut dyn FnMut(usize) -> Result<(), CudaError>,
) -> Option<Vec<CudaGraph>> {
    let stream = device.stream();
    let graphs = (0..copies.div_ceil(launches).max(1)).map(|graph| {
        stream
            .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .ok()?;
        let launched = (graph * launches..(graph + 1) * launches).try_for_each(&mut *launch);
        // The capture is ended in any case: the stream is of no use before.
        let captured = stream.end_capture(sys::CUgraphInstantiate_flags(0));
        launched.ok().and(captured.ok().flatten())
    });
    graphs.collect()
}

/// The candidate of the shortest time among those that work; the first failure if none does.
pub(crate) fn fastest<T>(
    candidates: impl IntoIterator<Item = Result<(Seconds, T), CudaError>>,
) -> Result<(Seconds, T), CudaError> {
    let mut best: Result<(Seconds, T), Option<CudaError>> = Err(None);
    for candidate in candidates {
        match (&best, candidate) {
            (Ok((time, _)), Ok(faster)) if faster.0 < *time => best = Ok(faster),
            (Err(_), Ok(first)) => best = Ok(first),
            (Err(None), Err(error)) => best = Err(Some(error)),
            _ => {}
        }
    }
    best.map_err(|failure| {
        failure.unwrap_or_else(|| CudaError::Unsupported("no algorithm".to_owned()))
    })
}

/// The time between two events.
struct Timer<'d> {
    device: &'d Device,
    start: CudaEvent,
    end: CudaEvent,
}

impl<'d> Timer<'d> {
    fn new(device: &'d Device) -> Result<Self, CudaError> {
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let event = || device.stream().context().new_event(Some(flags));
        let events = event().and_then(|start| Ok((start, event()?)));
        let (start, end) = events.map_err(CudaError::driver("event"))?;
        Ok(Self { device, start, end })
    }

    /// Time that the GPU takes for what is enqueued; `meanwhile` is called before they are waited for.
    fn time(
        &self,
        enqueue: impl FnOnce() -> Result<(), CudaError>,
        meanwhile: impl FnOnce(),
    ) -> Result<Seconds, CudaError> {
        let stream = self.device.stream();
        self.start
            .record(stream)
            .map_err(CudaError::driver("record"))?;
        enqueue()?;
        self.end
            .record(stream)
            .map_err(CudaError::driver("record"))?;
        meanwhile();
        self.end.synchronize().map_err(CudaError::driver("wait"))?;
        elapsed(&self.start, &self.end)
    }
}

/// Time between two recorded events that have been waited for.
///
/// cudarc asks drivers for `cuEventElapsedTime_v2`, which those before CUDA 12.8 do not have.
fn elapsed(start: &CudaEvent, end: &CudaEvent) -> Result<Seconds, CudaError> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let mut milliseconds = 0f32;
    // SAFETY: the driver is loaded, exports this function with this signature since CUDA 3, and both events live.
    let status = unsafe {
        let function = sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0");
        let function = function.map_err(|error| CudaError::NoDriver(error.to_string()))?;
        function(&raw mut milliseconds, start.cu_event(), end.cu_event())
    };
    let status: Result<(), result::DriverError> = status.result();
    status.map_err(CudaError::driver("elapsed time"))?;
    Ok(Seconds(f64::from(milliseconds) * 1e-3))
}
