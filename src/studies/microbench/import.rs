//! Reads `bench.json` and `peaks.json`.

use std::collections::BTreeSet;

use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_document::Quantity;
use rooflens_units::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Hertz, Ratio, Seconds, Watts};
use serde_json::{Map, Value};

/// A file to read.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its path in messages.
    pub path: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// All that was measured on one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Name as the driver says it.
    pub gpu: String,
    /// Sustained rates, of `peaks.json`.
    pub rates: Vec<Rate>,
    /// Single operations, of `bench.json`.
    pub cases: Vec<Case>,
    /// Versions of driver and libraries.
    pub software: Vec<(String, String)>,
}

/// A sustained rate, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// A dtype, `copy`, `read` or `write`.
    pub what: String,
    /// FLOP, or bytes, per second at the median time.
    pub rate: Result<Quantity, String>,
    /// (Greatest − least) ÷ median of the times.
    pub spread: Option<Ratio>,
    /// Clock of the SMs meanwhile.
    pub sm_clock: Option<Hertz>,
    /// Power meanwhile.
    pub power: Option<Watts>,
}

/// One operation of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Operation, dtype and sizes.
    pub name: String,
    /// Such as `linear` or `attention_prefill`.
    pub operation: String,
    /// Number format; copies have none.
    pub dtype: Option<String>,
    /// What computed it.
    pub implementation: String,
    /// Operations of one launch.
    pub flops: Flops,
    /// Bytes that one launch moves at least.
    pub bytes: Bytes,
    /// Median, least, greatest and 95th percentile of the times of a launch, or why there are none.
    pub times: Result<[Seconds; 4], String>,
    /// The launches were replayed from a CUDA graph; else the host enqueued each.
    pub in_graph: bool,
}

/// Whether a document is one of these.
pub fn is_result(document: &Map<String, Value>) -> bool {
    is_bench(document) || is_peaks(document)
}

fn is_bench(document: &Map<String, Value>) -> bool {
    let is_case =
        |case: &Value| case.get("operation").is_some() && case.get("bytes_formula").is_some();
    let cases = document.get("cases").and_then(Value::as_array);
    cases.is_some_and(|cases| cases.iter().all(is_case)) && document.contains_key("plan")
}

fn is_peaks(document: &Map<String, Value>) -> bool {
    let rates = document.get("matmul").and_then(Value::as_object);
    rates.is_some_and(|rates| {
        rates
            .values()
            .all(|rate| rate.is_string() || !rate["tflops"].is_null())
    })
}

/// Reads a file; those of one GPU make one device. One that is none of these is a diagnostic and is skipped.
pub fn read(file: &File<'_>, devices: &mut Vec<Device>, diagnostics: &mut Diagnostics) {
    let document = match document(file.bytes) {
        Ok(document) => document,
        Err(message) => {
            let refused = Diagnostic::new(Severity::Error, "microbench/refused", message);
            let hint = "expected bench.json or peaks.json of rooflens-capture";
            return diagnostics.push(refused.artifact(file.path).hint(hint));
        }
    };
    let gpu = text(&document, "gpu");
    let index = devices.iter().position(|device| device.gpu == gpu);
    let index = index.unwrap_or(devices.len());
    if index == devices.len() {
        devices.push(Device {
            gpu,
            ..Device::default()
        });
    }
    add(&mut devices[index], &document, file.path, diagnostics);
}

/// The document of a file, if it is one of these.
fn document(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let document: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))?;
    if let Some(version) = document
        .get("version")
        .filter(|version| version.as_u64() != Some(1))
    {
        return Err(format!("version {version} is not known: expected 1"));
    }
    if !is_result(&document) {
        return Err("neither cases nor rates".to_owned());
    }
    Ok(document)
}

fn add(
    device: &mut Device,
    document: &Map<String, Value>,
    path: &str,
    diagnostics: &mut Diagnostics,
) {
    let rates = document.get("matmul").and_then(Value::as_object);
    for (what, entry) in rates.into_iter().flatten() {
        let unit = FlopsPerSecond(1e12);
        device.rates.push(rate(what, entry, "tflops", unit.into()));
    }
    let memory = [
        ("copy", "gb_per_s_read_plus_write"),
        ("read", "gb_per_s"),
        ("write", "gb_per_s"),
    ];
    for (what, key) in memory {
        let unit = BytesPerSecond(1e9);
        let entry = document.get(what);
        let rate = entry.map(|entry| rate(what, entry, key, unit.into()));
        device.rates.extend(rate);
    }
    let cases = document
        .get("cases")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let (mut lost, before) = (0_usize, device.cases.len());
    for entry in cases {
        match case(entry) {
            Some(case) => device.cases.push(case),
            None => lost += 1,
        }
    }
    if lost > 0 {
        let total = device.cases.len() - before + lost;
        let message = format!("{lost} of {total} cases have no name, work or time and are skipped");
        let lost = Diagnostic::new(Severity::DataLoss, "microbench/case", message);
        diagnostics.push(lost.artifact(path));
    }
    let known: BTreeSet<String> = device
        .software
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    let libraries = document.get("libraries").and_then(Value::as_object);
    for (name, version) in libraries.into_iter().flatten() {
        let version = match version {
            Value::String(version) => version.clone(),
            Value::Number(version) => version.to_string(),
            _ => continue,
        };
        if !known.contains(name) {
            device.software.push((name.clone(), version));
        }
    }
}

fn rate(what: &str, entry: &Value, key: &str, unit: Quantity) -> Rate {
    let rate = match entry {
        Value::String(reason) => Err(reason.clone()),
        entry => positive(entry, key)
            .map(|number| Quantity::new(number * unit.value, unit.unit))
            .ok_or_else(|| format!("no {key}")),
    };
    let clocks = &entry["clocks"];
    Rate {
        what: what.to_owned(),
        rate,
        spread: entry["spread"]
            .as_f64()
            .or_else(|| {
                let [median, least, most] =
                    ["median_s", "min_s", "max_s"].map(|key| positive(entry, key));
                Some((most? - least?) / median?)
            })
            .filter(|spread| *spread >= 0.0)
            .map(Ratio),
        sm_clock: positive(clocks, "sm_mhz").map(|mhz| Hertz(mhz * 1e6)),
        power: positive(clocks, "power_w").map(Watts),
    }
}

fn case(entry: &Value) -> Option<Case> {
    let object = entry.as_object()?;
    let times = match entry["error"].as_str() {
        Some(reason) => Err(reason.to_owned()),
        None => {
            let [median, least, most, p95] =
                ["median_s", "min_s", "max_s", "p95_s"].map(|key| positive(entry, key));
            Ok([median?, least?, most?, p95?].map(Seconds))
        }
    };
    let work = |key: &str| {
        entry[key]
            .as_f64()
            .filter(|work| (0.0..1e30).contains(work))
    };
    let (name, operation) = (text(object, "name"), text(object, "operation"));
    (!name.is_empty() && !operation.is_empty()).then_some(Case {
        name,
        operation,
        dtype: entry["dtype"].as_str().map(str::to_owned),
        implementation: text(object, "implementation"),
        flops: Flops(work("flops")?),
        bytes: Bytes(work("bytes")?),
        times,
        in_graph: entry["cuda_graph"] == true,
    })
}

fn positive(entry: &Value, key: &str) -> Option<f64> {
    entry[key]
        .as_f64()
        .filter(|value| *value > 0.0 && value.is_finite())
}

fn text(object: &Map<String, Value>, key: &str) -> String {
    object
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
