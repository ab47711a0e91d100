//! Good and bad levels, from a profile that a user states. Without one nothing is graded: what is good depends on the
//! model, the GPU and the use.

use serde::Deserialize;

use super::figures::Measure;
use rooflens_units::{Percent, Ratio, Time, TokensPerSecond};

/// Levels. Times are milliseconds, utilization percent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Median time to first token.
    pub ttft_p50_ms: Option<Level<Milliseconds>>,
    /// Median time per output token.
    pub tpot_p50_ms: Option<Level<Milliseconds>>,
    /// Throughput of output tokens.
    pub output_tokens_per_second: Option<Level<TokensPerSecond>>,
    /// GPU utilization.
    pub gpu_utilization_percent: Option<Range>,
}

/// A time as a profile states it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(transparent)]
pub struct Milliseconds(pub f64);

impl Milliseconds {
    /// The same time in nanoseconds.
    pub const fn time(self) -> Time {
        Time(self.0 * 1e6)
    }
}

impl From<Time> for Milliseconds {
    fn from(time: Time) -> Self {
        Self(time.0 / 1e6)
    }
}

/// Two levels: good on one side, bad on the other, fair between them.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Level<M> {
    /// Good from here on.
    pub good: M,
    /// Bad from here on.
    pub bad: M,
}

/// A range that is good.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Lower end.
    pub low: Percent,
    /// Upper end.
    pub high: Percent,
}

/// How good a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// On the good side.
    Good,
    /// Between the levels.
    Fair,
    /// On the bad side.
    Bad,
}

impl Grade {
    /// The word in data files.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Bad => "bad",
        }
    }
}

impl<M: PartialOrd> Level<M> {
    /// The grade of a value. Whether more is better follows from the order of the levels.
    pub fn grade(&self, value: M) -> Grade {
        let rising = self.good > self.bad;
        match (rising, value) {
            (true, value) if value > self.good => Grade::Good,
            (true, value) if value < self.bad => Grade::Bad,
            (false, value) if value < self.good => Grade::Good,
            (false, value) if value > self.bad => Grade::Bad,
            _ => Grade::Fair,
        }
    }
}

impl Thresholds {
    /// Reads a profile; what it does not have is not graded.
    ///
    /// # Errors
    /// The parser's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The levels of a measure.
    pub const fn level(&self, measure: Measure) -> Option<&Level<Milliseconds>> {
        match measure {
            Measure::Ttft => self.ttft_p50_ms.as_ref(),
            Measure::Tpot => self.tpot_p50_ms.as_ref(),
            _ => None,
        }
    }

    /// The grade of a utilization between 0 and 1: good within the range, bad below it.
    pub fn utilization(&self, share: Ratio) -> Option<Grade> {
        let range = self.gpu_utilization_percent.as_ref()?;
        Some(match Percent(share.0 * 100.0) {
            percent if percent < range.low => Grade::Bad,
            percent if percent > range.high => Grade::Fair,
            _ => Grade::Good,
        })
    }
}
