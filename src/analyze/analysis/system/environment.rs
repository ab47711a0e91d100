//! Environment: the GPUs, and the peaks that utilization divides by.

use crate::engine::measured_peaks::Measured;
use crate::{Context, Known};
use rooflens_hardware::Gpu;
use rooflens_session::{GpuId, Session};
use rooflens_units::{BytesPerSecond, FlopsPerSecond, Ratio};

/// GPUs and their peaks.
pub struct Environment {
    /// GPUs that the session names, without repeats: names with the first row that describes each.
    pub gpus: Vec<(String, Option<GpuId>)>,
    /// Rates of each specified GPU by data type.
    pub rates: Vec<Rate>,
    /// Memory bandwidth of each specified GPU.
    pub bandwidths: Vec<Bandwidth>,
    /// GPUs that are not in the table of specifications.
    pub unspecified: Vec<String>,
}

/// Specified and measured rate of products of a data type.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Name of the GPU in the table of specifications.
    pub gpu: String,
    /// Data type.
    pub dtype: String,
    /// Specified, dense.
    pub dense: FlopsPerSecond,
    /// Specified, 2:4 sparse.
    pub sparse: Option<FlopsPerSecond>,
    /// Measured on this GPU.
    pub measured: Option<FlopsPerSecond>,
    /// Document of the specification.
    pub source: String,
}

/// Specified and measured bandwidth of device memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidth {
    /// Name of the GPU in the table of specifications.
    pub gpu: String,
    /// Specified.
    pub specified: BytesPerSecond,
    /// Measured on this GPU.
    pub measured: Option<BytesPerSecond>,
    /// Document of the specification.
    pub source: String,
}

impl Rate {
    /// Measured ÷ specified dense rate.
    pub fn reached(&self) -> Option<Ratio> {
        self.measured.map(|rate| Ratio(rate / self.dense))
    }
}

impl Environment {
    /// The rate of a data type, of the first GPU that has one.
    pub fn rate(&self, dtype: &str) -> Option<&Rate> {
        self.rates.iter().find(|rate| rate.dtype == dtype)
    }
}

/// Finds the GPUs and their peaks; never missing.
pub fn compute(context: &Context<'_>) -> Known<Environment> {
    let gpus = gpus(context.session);
    // The user's choice replaces every recorded name.
    let names: Vec<&str> = match &context.options.gpu {
        Some(chosen) => vec![chosen],
        None => gpus.iter().map(|(name, _)| name.as_str()).collect(),
    };
    let mut specified: Vec<(&str, &Gpu)> = Vec::new();
    let mut unspecified = Vec::new();
    for name in names {
        match context.hardware.find(name) {
            Some(gpu) if specified.iter().any(|(_, known)| known.name == gpu.name) => {}
            Some(gpu) => specified.push((name, gpu)),
            None => unspecified.push(name.to_owned()),
        }
    }
    let rates = specified
        .iter()
        .flat_map(|(name, gpu)| rates(context, name, gpu))
        .collect();
    let bandwidth = |(name, gpu): &(&str, &Gpu)| Bandwidth {
        gpu: gpu.name.clone(),
        specified: gpu.memory_bandwidth,
        measured: Measured::of(context, name).bandwidth(),
        source: gpu.memory_source.clone(),
    };
    let bandwidths = specified.iter().map(bandwidth).collect();
    Ok(Environment {
        rates,
        bandwidths,
        unspecified,
        gpus,
    })
}

fn rates(context: &Context<'_>, name: &str, gpu: &Gpu) -> Vec<Rate> {
    let measured = Measured::recorded(context, name);
    let rate = |peak: &rooflens_hardware::Peak| Rate {
        gpu: gpu.name.clone(),
        dtype: peak.dtype.clone(),
        dense: peak.dense,
        sparse: peak.sparse,
        measured: measured.rate(Some(gpu), &peak.dtype),
        source: peak.source.clone(),
    };
    gpu.peaks.iter().map(rate).collect()
}

fn gpus(session: &Session) -> Vec<(String, Option<GpuId>)> {
    let recorded = session.gpus.ids();
    let recorded = recorded.map(|gpu| (session.text(session.gpus.name[gpu.index()]), Some(gpu)));
    // A bundle of timings alone still names its GPU.
    let measured = session
        .measured_peaks
        .gpu
        .iter()
        .map(|gpu| session.text(*gpu));
    let stated = stated(session, |subject| subject.starts_with("gpu "), "name");
    let names = measured.chain(stated).map(|name| (name, None));
    let mut devices: Vec<(String, Option<GpuId>)> = Vec::new();
    for (name, gpu) in recorded.chain(names) {
        let is_new = !name.is_empty() && !devices.iter().any(|(device, _)| device == name);
        if is_new && (gpu.is_some() || devices.iter().all(|(_, device)| device.is_none())) {
            devices.push((name.to_owned(), gpu));
        }
    }
    devices
}

/// The values that artifacts state of a key, in the order of the table.
pub fn stated<'a>(
    session: &'a Session,
    subject: impl Fn(&str) -> bool + 'a,
    key: &'a str,
) -> impl Iterator<Item = &'a str> {
    let facts = &session.environment;
    let is_own = move |row: &usize| {
        subject(session.text(facts.subject[*row])) && session.text(facts.key[*row]) == key
    };
    (0..facts.len())
        .filter(is_own)
        .map(|row| session.text(facts.value[row]))
}
