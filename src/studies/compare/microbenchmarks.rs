//! Microbenchmarks before and after a change: the same operation of the same sizes on the same GPU.
//!
//! Results hold the least and the greatest time of a case and not all of them. The interval of a factor reaches from the
//! least ÷ the greatest to the greatest ÷ the least time, so that it holds every quotient of two launches.

use rooflens_document::Quantity;
use rooflens_microbench::import::{Case, Device, Rate};
use rooflens_units::{Ratio, Time};

use crate::Pair;
use crate::times::{Verdict, of_interval};

/// An operation in both results.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// GPU.
    pub gpu: String,
    /// Operation, data type and sizes.
    pub name: String,
    /// What computed it.
    pub implementation: Pair<String>,
    /// Median time of a launch, or a sustained rate.
    pub figure: Pair<Quantity>,
    /// Median time of a launch; of a sustained rate, the time of one unit of work.
    pub time: Pair<Time>,
    /// After ÷ before.
    pub ratio: Ratio,
    /// From the least to the greatest quotient of two launches.
    pub range: Option<(Ratio, Ratio)>,
    /// What this means.
    pub verdict: Verdict,
}

/// Microbenchmarks of both sides.
pub struct Comparison {
    /// Names of the sides.
    pub name: Pair<String>,
    /// Operations of both, in the order of the first.
    pub changes: Vec<Change>,
    /// Operations that only one has.
    pub alone: Pair<usize>,
    /// The least change that counts.
    pub least: Ratio,
}

/// A reason why microbenchmarks are not compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// They are of other GPUs.
    #[error("gpu differs: {before} before, {after} after")]
    Gpu {
        /// GPUs before.
        before: String,
        /// GPUs after.
        after: String,
    },
    /// No operation is in both.
    #[error("no operation is measured before and after")]
    NoOperation,
}

/// Compares devices of the same name, or one device with another if other GPUs are allowed.
///
/// # Errors
/// The devices are other ones, or no operation is in both.
pub fn compare(
    name: Pair<String>,
    devices: &Pair<Vec<Device>>,
    is_gpu_allowed: bool,
    least: Ratio,
) -> Result<Comparison, Incomparable> {
    let is_single = devices.before.len() == 1 && devices.after.len() == 1;
    let (mut changes, mut alone) = (Vec::new(), Pair::default());
    let mut has_pair = false;
    for before in &devices.before {
        let is_like = |after: &&Device| after.gpu == before.gpu || (is_gpu_allowed && is_single);
        let Some(after) = devices.after.iter().find(is_like) else {
            continue;
        };
        has_pair = true;
        let operations = Pair {
            before: operations(before),
            after: operations(after),
        };
        let of_before = operations.before.len();
        let mut rest = operations.after;
        let mut common = 0;
        for operation in operations.before {
            let Some(place) = rest.iter().position(|other| other.name == operation.name) else {
                continue;
            };
            common += 1;
            changes.extend(change(&before.gpu, operation, rest.remove(place), least));
        }
        alone.before += of_before - common;
        alone.after += rest.len();
    }
    if !has_pair {
        let gpus = Pair::of(devices, |devices| {
            let gpus: Vec<&str> = devices.iter().map(|device| device.gpu.as_str()).collect();
            gpus.join(", ")
        });
        return Err(Incomparable::Gpu {
            before: gpus.before,
            after: gpus.after,
        });
    }
    match changes.is_empty() {
        true => Err(Incomparable::NoOperation),
        false => Ok(Comparison {
            name,
            changes,
            alone,
            least,
        }),
    }
}

/// A time of one operation.
struct Operation {
    name: String,
    implementation: String,
    figure: Quantity,
    time: Time,
    /// Least and greatest.
    range: Option<(Time, Time)>,
}

fn operations(device: &Device) -> Vec<Operation> {
    let rates = device.rates.iter().filter_map(of_rate);
    let cases = device.cases.iter().filter_map(of_case);
    rates.chain(cases).collect()
}

/// A rate as the time of one unit of work.
fn of_rate(rate: &Rate) -> Option<Operation> {
    let figure = *rate.rate.as_ref().ok()?;
    let time = Time(1e9 / figure.value);
    let half = |spread: Ratio| spread.0 / 2.0;
    Some(Operation {
        name: rate.what.clone(),
        implementation: String::new(),
        figure,
        time,
        range: rate.spread.map(|spread| {
            let half = half(spread);
            (time * (1.0 - half), time * (1.0 + half))
        }),
    })
    .filter(|operation| operation.time.0.is_finite() && operation.time.is_positive())
}

fn of_case(case: &Case) -> Option<Operation> {
    let [median, least, greatest, _] = *case.times.as_ref().ok()?;
    let graph = if case.in_graph { ", CUDA graph" } else { "" };
    Some(Operation {
        name: format!("{}{graph}", case.name),
        implementation: case.implementation.clone(),
        figure: Quantity::from(median.time()),
        time: median.time(),
        range: Some((least.time(), greatest.time())),
    })
    .filter(|operation| operation.time.is_positive())
}

fn change(gpu: &str, before: Operation, after: Operation, least: Ratio) -> Option<Change> {
    let ratio = Ratio(after.time / before.time);
    let ranges = before.range.zip(after.range);
    let range = ranges
        .filter(|(before, _)| before.0.is_positive())
        .map(|(before, after)| (Ratio(after.0 / before.1), Ratio(after.1 / before.0)));
    Some(Change {
        gpu: gpu.to_owned(),
        name: before.name,
        implementation: Pair {
            before: before.implementation,
            after: after.implementation,
        },
        figure: Pair {
            before: before.figure,
            after: after.figure,
        },
        time: Pair {
            before: before.time,
            after: after.time,
        },
        ratio,
        range,
        verdict: of_interval(ratio, range, least),
    })
    .filter(|change| change.ratio.0.is_finite())
}
