//! Measured rates instead of specified ones.

use rooflens_document::Quantity;
use rooflens_units::{BytesPerSecond, FlopsPerSecond, Ratio};

use crate::Machine;

/// Measurements on the GPU, and how they compare with its specification and predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// The file.
    pub source: String,
    /// Measured rates and times.
    pub figures: Vec<Figure>,
    /// Measured prefill ÷ its prediction at measured rates, where a bundle has one.
    pub prefill: Option<Ratio>,
    /// The same of decode.
    pub decode: Option<Ratio>,
    /// Cases of `bench.json` that operations were summed from.
    pub cases: usize,
}

/// A measured rate or time, and the specified or predicted one.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A dtype, `copy`, or a stage.
    pub name: String,
    /// As specified, or as predicted.
    pub specified: Option<Quantity>,
    /// As measured: the median.
    pub measured: Quantity,
    /// Measured ÷ specified.
    pub ratio: Option<Ratio>,
    /// Of a rate how far its repeats lie apart, (greatest − least) ÷ median; of a stage how far the calibrated prediction
    /// is from it; of an operation how far the prediction of a single case is from it, the median.
    pub error: Option<Ratio>,
}

/// A measured rate: a dtype in operations per second, or `copy` in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// `copy`, or a dtype and what tells its measurement from others: `bf16_nt`.
    pub name: String,
    /// Median, per second.
    pub median: f64,
    /// (Greatest − least) ÷ median, where both are known.
    pub spread: Option<Ratio>,
}

impl Rate {
    fn figure(&self, specified: impl Into<Quantity>) -> Figure {
        let specified = specified.into();
        Figure {
            name: self.name.clone(),
            specified: Some(specified),
            measured: Quantity::new(self.median, specified.unit),
            ratio: Some(Ratio(self.median / specified.value)),
            error: self.spread,
        }
    }
}

impl Machine {
    /// The machine with measured rates in place of specified ones; rates that were not measured stay.
    #[must_use]
    pub fn measured(mut self, rates: &[Rate]) -> (Self, Vec<Figure>) {
        let mut figures = Vec::new();
        for measured in rates {
            if measured.name == "copy" {
                figures.push(measured.figure(self.bandwidth));
                self.bandwidth = BytesPerSecond(measured.median);
                continue;
            }
            let dtype = measured.name.split('_').next().unwrap_or_default();
            if let Some((_, rate)) = self.rates.iter_mut().find(|(name, _)| name == dtype) {
                figures.push(measured.figure(*rate));
                *rate = FlopsPerSecond(measured.median);
            }
        }
        (self, figures)
    }
}
