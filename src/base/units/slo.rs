//! Limits of latency that a request is to keep (service level objective).

use crate::Time;

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

    /// Whether an answer keeps all limits. It must have a first token and an end; an answer of one token has no time per
    /// token, and keeps that limit.
    pub fn keeps(&self, ttft: Option<Time>, tpot: Option<Time>, latency: Option<Time>) -> bool {
        let within = |limit: Option<Time>, value: Option<Time>| {
            limit.is_none_or(|limit| value.is_some_and(|value| value <= limit))
        };
        within(self.ttft, ttft)
            && within(self.tpot, tpot.or(Some(Time::ZERO)))
            && within(self.latency, latency)
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
