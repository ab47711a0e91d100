//! Goodput: answers per second that keep all limits (DistServe, Zhong et al., OSDI 2024).

use crate::runs::{Request, Run};
pub use rooflens_units::Slo;
use rooflens_units::{Ratio, RequestsPerSecond, Time};

/// Share of good requests at a load that keeps the limits, the attainment that DistServe plans for.
pub const ATTAINMENT: Ratio = Ratio(0.9);

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
    /// Of a whole run with raw samples, if there is a limit. A limit that the samples cannot show gives none.
    pub fn of(run: &Run, slo: &Slo, duration: Option<Time>) -> Option<Self> {
        let shows = |time: fn(&Request) -> Option<Time>| {
            run.requests.iter().any(|request| time(request).is_some())
        };
        let is_blind = slo.ttft.is_some() && !shows(|request| request.ttft)
            || slo.tpot.is_some() && !shows(Request::tpot)
            || slo.latency.is_some() && !shows(|request| request.latency);
        if slo.is_empty() || run.requests.is_empty() || is_blind || run.cut.is_some() {
            return None;
        }
        let good = run
            .requests
            .iter()
            .filter(|request| is_good(request, slo))
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

    /// Whether so many requests are good as should be.
    pub fn keeps(&self) -> bool {
        self.share() >= ATTAINMENT
    }

    /// Share of the requests that are good.
    pub fn share(&self) -> Ratio {
        Ratio(self.good as f64 / self.requests as f64)
    }
}

/// Whether a request has an answer that keeps all limits.
fn is_good(request: &Request, slo: &Slo) -> bool {
    !request.failed && slo.keeps(request.ttft, request.tpot(), request.latency)
}
