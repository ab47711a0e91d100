//! Goodput: answers per second that keep all limits (DistServe, Zhong et al., OSDI 2024).

use super::figures::Measure;
use crate::runs::{Request, Run};
use rooflens_units::{Ratio, RequestsPerSecond, Time};

/// Limits of a good request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// Time to first token.
    pub ttft: Option<Time>,
    /// Time per output token.
    pub tpot: Option<Time>,
    /// End-to-end latency.
    pub latency: Option<Time>,
}

impl Slo {
    /// Reads `ttft=200ms,tpot=50ms,e2e=3s`.
    ///
    /// # Errors
    /// What is wrong, as a sentence without a stop.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut slo = Self::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let wrong = || format!("{part}: expected ttft=200ms, tpot=50ms or e2e=3s");
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let time = Some(time(value.trim()).ok_or_else(wrong)?);
            match name.trim() {
                "ttft" => slo.ttft = time,
                "tpot" => slo.tpot = time,
                "e2e" | "e2el" | "latency" => slo.latency = time,
                _ => return Err(wrong()),
            }
        }
        Ok(slo)
    }

    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limit of a measure.
    pub const fn limit(&self, measure: Measure) -> Option<Time> {
        match measure {
            Measure::Ttft => self.ttft,
            Measure::Tpot => self.tpot,
            Measure::Latency => self.latency,
            Measure::Itl | Measure::Queued => None,
        }
    }

    /// Whether a request keeps all limits; what a request does not have it cannot break, but a first token and an end
    /// it must have.
    fn keeps(&self, request: &Request) -> bool {
        let within = |limit: Option<Time>, value: Option<Time>| {
            limit.is_none_or(|limit| value.is_some_and(|value| value <= limit))
        };
        let tpot = request.tpot().or(Some(Time::ZERO));
        !request.failed
            && within(self.ttft, request.ttft)
            && within(self.tpot, tpot)
            && within(self.latency, request.latency)
    }
}

/// `200ms`, `1.5s`; a number alone is milliseconds, as load generators have it.
fn time(text: &str) -> Option<Time> {
    let end = text
        .find(|letter: char| letter.is_alphabetic() || letter == 'µ')
        .unwrap_or(text.len());
    let unit = match text[end..].trim() {
        "" | "ms" => Time(1e6),
        "s" => Time(1e9),
        "us" | "µs" => Time(1e3),
        _ => return None,
    };
    let value = text[..end].trim().parse::<f64>().ok()?;
    (value.is_finite() && value > 0.0).then_some(value * unit)
}

/// Good requests of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodput {
    /// Requests that keep all limits.
    pub good: u64,
    /// All requests, failed ones among them.
    pub requests: u64,
    /// Good requests per second.
    pub rate: Option<RequestsPerSecond>,
}

impl Goodput {
    /// Of a run with raw samples, if there is a limit. A limit that the samples cannot show gives none.
    pub fn of(run: &Run, slo: &Slo, duration: Option<Time>) -> Option<Self> {
        let shows = |time: fn(&Request) -> Option<Time>| {
            run.requests.iter().any(|request| time(request).is_some())
        };
        let is_blind = slo.ttft.is_some() && !shows(|request| request.ttft)
            || slo.tpot.is_some() && !shows(Request::tpot)
            || slo.latency.is_some() && !shows(|request| request.latency);
        if slo.is_empty() || run.requests.is_empty() || is_blind {
            return None;
        }
        let good = run
            .requests
            .iter()
            .filter(|request| slo.keeps(request))
            .count() as u64;
        let rate = duration
            .filter(Time::is_positive)
            .map(|time| RequestsPerSecond(good as f64 / time.seconds().0));
        Some(Self {
            good,
            requests: run.requests.len() as u64,
            rate,
        })
    }

    /// Share of the requests that are good.
    pub fn share(&self) -> Ratio {
        Ratio(self.good as f64 / self.requests as f64)
    }
}
