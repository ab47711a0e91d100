//! Measured rates instead of specified ones.

use rooflens_document::Quantity;
use rooflens_schemas::Unit;

use crate::Machine;

/// What was measured on the GPU, and how it compares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// The file.
    pub source: String,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// Measured prefill ÷ its prediction at measured rates, where a bundle has one.
    pub prefill: Option<f64>,
    /// The same of decode.
    pub decode: Option<f64>,
    /// Cases of `bench.json` that operations were summed from.
    pub cases: usize,
}

/// A measured rate or time beside the specified or predicted one.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A dtype, `copy`, or a stage.
    pub what: String,
    /// As specified, or as predicted.
    pub specified: Option<Quantity>,
    /// As measured: the median.
    pub measured: Quantity,
    /// Measured ÷ specified.
    pub ratio: Option<f64>,
    /// Of a rate how far its repeats lie apart, (greatest − least) ÷ median; of a stage how far the calibrated prediction
    /// is from it; of an operation how far the prediction of a single case is from it, the median.
    pub error: Option<f64>,
}

/// A measured rate: a dtype in operations per second, or `copy` in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// What was measured.
    pub what: String,
    /// Median per second.
    pub median: f64,
    /// (Greatest − least) ÷ median, where both are known.
    pub spread: Option<f64>,
}

impl Machine {
    /// The machine with what was measured in place of what is specified; what was not measured stays.
    #[must_use]
    pub fn measured(mut self, rates: &[Rate]) -> (Self, Vec<Figure>) {
        let mut figures = Vec::new();
        for rate in rates {
            let is_copy = rate.what == "copy";
            let dtype = rate.what.split('_').next().unwrap_or_default();
            let known = match is_copy {
                true => Some(&mut self.bandwidth),
                false => self
                    .rates
                    .iter_mut()
                    .find(|(name, _)| name == dtype)
                    .map(|(_, rate)| rate),
            };
            let Some(known) = known else { continue };
            let unit = if is_copy {
                Unit::BytesPerSecond
            } else {
                Unit::FlopPerSecond
            };
            figures.push(Figure {
                what: rate.what.clone(),
                specified: Some(Quantity::new(*known, unit)),
                measured: Quantity::new(rate.median, unit),
                ratio: Some(rate.median / *known),
                error: rate.spread,
            });
            *known = rate.median;
        }
        (self, figures)
    }
}
