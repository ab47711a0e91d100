//! Goodput: answers per second that keep all limits (DistServe, Zhong et al., OSDI 2024).

use crate::runs::{Request, Run};

/// Limits of a good request, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// Time to first token.
    pub ttft: Option<f64>,
    /// Time per output token.
    pub tpot: Option<f64>,
    /// End-to-end latency.
    pub latency: Option<f64>,
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

    /// Whether a request keeps all limits; what a request does not have it cannot break, but a first token and an end
    /// it must have.
    fn keeps(&self, request: &Request) -> bool {
        let within = |limit: Option<f64>, value: Option<f64>| {
            limit.is_none_or(|limit| value.is_some_and(|value| value <= limit))
        };
        let tpot = request.tpot().or(Some(0.0));
        !request.failed
            && within(self.ttft, request.ttft)
            && within(self.tpot, tpot)
            && within(self.latency, request.latency)
    }
}

/// `200ms`, `1.5s` in nanoseconds; a number alone is milliseconds, as load generators have it.
fn time(text: &str) -> Option<f64> {
    let end = text
        .find(|letter: char| letter.is_alphabetic() || letter == 'µ')
        .unwrap_or(text.len());
    let factor = match text[end..].trim() {
        "" | "ms" => 1e6,
        "s" => 1e9,
        "us" | "µs" => 1e3,
        _ => return None,
    };
    let value: f64 = text[..end].trim().parse().ok()?;
    (value.is_finite() && value > 0.0).then_some(value * factor)
}

/// Good requests of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodput {
    /// Requests that keep all limits.
    pub good: u64,
    /// All requests, failed ones among them.
    pub requests: u64,
    /// Good requests per second.
    pub rate: Option<f64>,
}

impl Goodput {
    /// Of a run with raw samples, if there is a limit. A limit that the samples cannot show gives none.
    pub fn of(run: &Run, slo: &Slo, duration: Option<f64>) -> Option<Self> {
        let shows = |time: fn(&Request) -> Option<f64>| {
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
            .filter(|time| *time > 0.0)
            .map(|time| good as f64 / (time / 1e9));
        Some(Self {
            good,
            requests: run.requests.len() as u64,
            rate,
        })
    }

    /// Share of the requests that are good.
    pub fn share(&self) -> f64 {
        self.good as f64 / self.requests as f64
    }
}
