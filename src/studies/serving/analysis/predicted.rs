//! Lower bounds that `rooflens predict` gave, next to what was measured.

use rooflens_schemas::{Metric, Unit};
use rooflens_units::{Time, TokensPerSecond};
use serde::Deserialize;

/// A lower bound of a time, and what sets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The bound.
    pub time: Time,
    /// What sets it: `compute`, `bandwidth`, `communication`; the class of its metric's scope.
    pub by: Option<String>,
}

impl Bound {
    /// What sets it, if the prediction says so.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }
}

/// Bounds of a prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// Time to first token: metric `predict.ttft_bound`, nanoseconds.
    pub ttft: Option<Bound>,
    /// Time per output token: metric `predict.tpot_bound`, nanoseconds.
    pub tpot: Option<Bound>,
    /// Most output tokens per second: metric `predict.output_throughput_bound`.
    pub output_rate: Option<TokensPerSecond>,
}

/// The part of `metrics.json` and `report.json` that is read.
#[derive(Deserialize)]
struct File {
    metrics: Vec<Metric>,
}

impl Predicted {
    /// Reads `metrics.json` or `report.json` of `rooflens predict`.
    ///
    /// # Errors
    /// What is wrong, as a sentence without a stop.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is no metrics.json: {error}"))?;
        let loads = file
            .metrics
            .iter()
            .filter(|metric| metric.id == "predict.ttft_bound")
            .count();
        if loads > 1 {
            return Err(format!(
                "it predicts {loads} loads: predict one GPU, dtype and batch"
            ));
        }
        let find = |id: &str, unit: Unit| {
            let metric = file
                .metrics
                .iter()
                .find(|metric| metric.id == id && metric.unit == unit)?;
            let value = metric
                .value
                .number()
                .filter(|value| value.is_finite() && *value > 0.0)?;
            Some((value, metric.scope.class.clone()))
        };
        let time = |id: &str| {
            let (time, by) = find(id, Unit::Nanoseconds)?;
            let time = Time(time);
            Some(Bound { time, by })
        };
        let predicted = Self {
            ttft: time("predict.ttft_bound"),
            tpot: time("predict.tpot_bound"),
            output_rate: find("predict.output_throughput_bound", Unit::TokensPerSecond)
                .map(|(rate, _)| TokensPerSecond(rate)),
        };
        match predicted == Self::default() {
            true => Err("it has no metric predict.ttft_bound, predict.tpot_bound or predict.output_throughput_bound".to_owned()),
            false => Ok(predicted),
        }
    }
}
