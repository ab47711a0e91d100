//! Timing by events on the device.

use cudarc::driver::{CudaEvent, result, sys};
use serde_json::{Value, json};

use super::{CudaError, Device, Statistics};

/// How an operation is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// Number of samples.
    pub(crate) samples: usize,
    /// Shortest time of a sample, in seconds: shorter operations are launched several times in one.
    pub(crate) sample_s: f64,
    /// Shortest time of warm-up before the first sample, in seconds.
    pub(crate) warmup_s: f64,
}

/// What was measured: seconds per launch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) seconds: Statistics,
    /// Launches in each sample.
    pub(crate) launches: usize,
}

impl Measurement {
    /// Adds `launches_per_sample` and the members of the statistics to a JSON object.
    pub(crate) fn add_to(&self, entry: &mut Value) {
        entry["launches_per_sample"] = json!(self.launches);
        if let (Value::Object(entry), Value::Object(seconds)) = (entry, self.seconds.to_json()) {
            entry.extend(seconds);
        }
    }
}

/// Times `launch`, which enqueues the operation once; its argument counts the launches.
///
/// Each sample lies between two events and is waited for. `observe` is called while the middle sample runs.
///
/// # Errors
/// Those of `launch`, and of the device.
pub(crate) fn measure(
    device: &Device,
    plan: Plan,
    launch: &mut dyn FnMut(usize) -> Result<(), CudaError>,
    observe: &mut dyn FnMut(),
) -> Result<Measurement, CudaError> {
    let (start, end) = (event(device)?, event(device)?);
    let mut count = 0;
    let mut sample = |launches: usize, observe: &mut dyn FnMut()| {
        start.record(device.stream()).map_err(CudaError::driver("record"))?;
        for _ in 0..launches {
            launch(count)?;
            count += 1;
        }
        end.record(device.stream()).map_err(CudaError::driver("record"))?;
        observe();
        elapsed(&start, &end)
    };
    sample(1, &mut || ())?;
    let mut launches = 1;
    let mut spent = sample(1, &mut || ())?;
    let mut last = spent;
    while last < plan.sample_s && launches < 1 << 16 {
        let factor = (plan.sample_s / last.max(1e-7) * 1.1).clamp(2.0, 16.0);
        launches = (launches as f64 * factor).ceil() as usize;
        last = sample(launches, &mut || ())?;
        spent += last;
    }
    while spent < plan.warmup_s {
        spent += sample(launches, &mut || ())?;
    }
    device.free_memory()?;
    let mut seconds = Vec::with_capacity(plan.samples);
    for number in 0..plan.samples.max(1) {
        let nothing: &mut dyn FnMut() = &mut || ();
        let now = if number == plan.samples / 2 { &mut *observe } else { nothing };
        seconds.push(sample(launches, now)? / launches as f64);
    }
    let seconds = Statistics::of(&seconds)
        .ok_or_else(|| CudaError::Unsupported("a measurement without samples".to_owned()))?;
    Ok(Measurement { seconds, launches })
}

/// The candidate of the shortest time among those that work; the first failure if none does.
pub(crate) fn fastest<T>(
    candidates: impl IntoIterator<Item = Result<(f64, T), CudaError>>,
) -> Result<(f64, T), CudaError> {
    let mut best: Result<(f64, T), Option<CudaError>> = Err(None);
    for candidate in candidates {
        match (&best, candidate) {
            (Ok((seconds, _)), Ok(faster)) if faster.0 < *seconds => best = Ok(faster),
            (Err(_), Ok(first)) => best = Ok(first),
            (Err(None), Err(error)) => best = Err(Some(error)),
            _ => {}
        }
    }
    best.map_err(|failure| {
        failure.unwrap_or_else(|| CudaError::Unsupported("no algorithm".to_owned()))
    })
}

fn event(device: &Device) -> Result<CudaEvent, CudaError> {
    let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
    device.stream().context().new_event(Some(flags)).map_err(CudaError::driver("event"))
}

/// Seconds between two recorded events, after waiting for the later one.
///
/// cudarc asks drivers for `cuEventElapsedTime_v2`, which those before CUDA 12.8 do not have.
fn elapsed(start: &CudaEvent, end: &CudaEvent) -> Result<f64, CudaError> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    end.synchronize().map_err(CudaError::driver("wait"))?;
    let mut milliseconds = 0f32;
    // SAFETY: the driver is loaded, exports this function with this signature since CUDA 3, and both events live.
    let status = unsafe {
        let function = sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0");
        let function = function.map_err(|error| CudaError::NoDriver(error.to_string()))?;
        function(&raw mut milliseconds, start.cu_event(), end.cu_event())
    };
    let status: Result<(), result::DriverError> = status.result();
    status.map_err(CudaError::driver("elapsed time"))?;
    Ok(f64::from(milliseconds) * 1e-3)
}
