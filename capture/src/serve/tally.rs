//! What came of a level of load so far: counts, latencies, and whether it keeps limits of latency.

use std::collections::BTreeMap;
use std::time::Duration;

use rooflens_schemas::ServingRequest;
use rooflens_units::{Ratio, Seconds, Slo, Time};

/// A request that was sent later than this was not sent when it was due.
const LATE: Seconds = Seconds(0.01);

/// Share of requests that keep the limits at a load that keeps them. The attainment that DistServe plans for (Zhong et
/// al., OSDI 2024).
pub(crate) const ATTAINMENT: Ratio = Ratio(0.9);

/// Requests before which a level does not end early.
const FEWEST: u64 = 10;

/// Standard errors by which a share must differ to be clearly another: one in 200 if it were looked at once.
const CLEAR: f64 = 2.576;

/// Factor over a limit of answers that never came.
const NEVER: f64 = 1e3;

/// What came of a level.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) ok: u64,
    /// By reason.
    pub(super) failed: BTreeMap<String, u64>,
    /// How long after it was due a request was sent, at most.
    pub(super) delay: Seconds,
    pub(super) late: u64,
    pub(crate) output_tokens: u64,
    pub(crate) ttft: Vec<Time>,
    pub(crate) tpot: Vec<Time>,
    latency: Vec<Time>,
    /// Answers that keep all limits.
    pub(crate) good: u64,
    /// When the last of them ended, since the start of the level.
    pub(crate) ended: Seconds,
    /// It was ended early: it clearly misses its limits.
    pub(crate) is_cut: bool,
}

impl Tally {
    /// Takes a request that has ended. Latencies count from when it was due, as in the report.
    pub(crate) fn add(&mut self, request: &ServingRequest, slo: &Slo) {
        let delay = Seconds(request.start_s - request.scheduled_s);
        self.late += u64::from(delay > LATE);
        self.delay = self.delay.max(delay);
        self.ended = self.ended.max(Seconds(request.end_s));
        if let Some(reason) = &request.error {
            *self.failed.entry(reason.clone()).or_default() += 1;
            return;
        }
        let time = |from: f64, to: f64| Time((to - from).max(0.0) * 1e9);
        let ttft = request
            .first_token_s
            .map(|first| time(request.scheduled_s, first));
        let rest = request.output_tokens.saturating_sub(1);
        let tpot = request
            .first_token_s
            .filter(|_| rest > 0)
            .map(|first| time(first, request.end_s) / rest as f64);
        let latency = Some(time(request.scheduled_s, request.end_s));
        self.ok += 1;
        self.output_tokens += request.output_tokens;
        self.good += u64::from(slo.keeps(ttft, tpot, latency));
        self.ttft.extend(ttft);
        self.tpot.extend(tpot);
        self.latency.extend(latency);
    }

    /// Requests that have ended.
    pub(crate) fn all(&self) -> u64 {
        self.ok + self.failed.values().sum::<u64>()
    }

    /// Whether so many keep the limits as should.
    pub(crate) fn keeps(&self) -> bool {
        self.good > 0 && self.good as f64 >= ATTAINMENT.0 * self.all() as f64
    }

    /// Whether chance does not explain that so few keep the limits (Wilson's interval of the share).
    pub(super) fn misses_clearly(&self) -> bool {
        let n = self.all() as f64;
        let share = self.good as f64 / n.max(1.0);
        let square = CLEAR * CLEAR;
        let spread = (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
        let most = (share + square / (2.0 * n) + CLEAR * spread) / (1.0 + square / n);
        self.all() >= FEWEST && most < ATTAINMENT.0
    }

    /// Good answers per second.
    pub(crate) fn goodput(&self) -> f64 {
        self.good as f64 / self.ended.0.max(1e-9)
    }

    /// How many times the limits the latencies are that the share of requests reaches; the worst of them.
    pub(crate) fn factor(&self, slo: &Slo) -> f64 {
        let rank = (ATTAINMENT.0 * self.all() as f64).ceil() as usize;
        let of = |limit: Option<Time>, values: &[Time], missing: usize| {
            let limit = limit?;
            // A request without an answer is slower than all others; an answer of one token has no time per token.
            let place = rank.saturating_sub(missing).max(1);
            let value = ranked(values, place);
            Some(value.map_or(NEVER, |value| value / limit))
        };
        let single = self.latency.len() - self.tpot.len();
        let factors = [
            of(slo.ttft, &self.ttft, 0),
            of(slo.tpot, &self.tpot, single),
            of(slo.latency, &self.latency, 0),
        ];
        let worst = factors.into_iter().flatten().fold(0.0, f64::max);
        worst.min(NEVER)
    }

    /// Sums, for the terminal.
    pub(super) fn describe(&self, time: Duration) -> String {
        let seconds = time.as_secs_f64();
        let failed: u64 = self.failed.values().sum();
        let reasons: Vec<String> = self
            .failed
            .iter()
            .map(|(reason, count)| format!("{count} × {reason}"))
            .collect();
        let reasons = if failed == 0 {
            String::new()
        } else {
            format!(" ({})", reasons.join(", "))
        };
        let (sent, ok) = (self.sent, self.ok);
        let rate = ok as f64 / seconds.max(1e-3);
        format!(
            "{sent} sent, {ok} answered, {failed} failed{reasons} in {seconds:.1} s: {rate:.1} a second"
        )
    }

    /// Rates and percentiles so far, for one line.
    pub(super) fn progress(&self, time: Duration) -> String {
        let seconds = time.as_secs_f64().max(1e-3);
        let failed: u64 = self.failed.values().sum();
        let mut line = format!(
            "{seconds:.0} s, {} of {} answered, {:.1} requests/s, {:.0} tokens/s",
            self.ok,
            self.sent,
            self.ok as f64 / seconds,
            self.output_tokens as f64 / seconds,
        );
        if failed > 0 {
            line += &format!(", {failed} failed");
        }
        for (name, values) in [("TTFT", &self.ttft), ("TPOT", &self.tpot)] {
            let [half, most] = [0.5, 0.99].map(|share| percentile(values, Ratio(share)));
            if let (Some(half), Some(most)) = (half, most) {
                let [half, most] = [half, most].map(|time| time.0 / 1e6);
                line += &format!(", {name} P50 {half:.1} P99 {most:.1} ms");
            }
        }
        line
    }
}

/// The percentile by nearest rank.
pub(crate) fn percentile(values: &[Time], share: Ratio) -> Option<Time> {
    ranked(
        values,
        (share.0 * values.len() as f64).ceil().max(1.0) as usize,
    )
}

/// The value at a rank, counted from 1.
fn ranked(values: &[Time], rank: usize) -> Option<Time> {
    let mut values = values.to_vec();
    let place = rank.checked_sub(1).filter(|place| *place < values.len())?;
    Some(*values.select_nth_unstable_by(place, Time::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: &str = "ttft=100ms,tpot=10ms";

    /// Of answers of 11 tokens: times to the first token, and between tokens, in milliseconds.
    fn tally(answers: &[(f64, f64)], failed: usize) -> Tally {
        let slo = Slo::parse(SLO).expect("limits");
        let mut tally = Tally::default();
        for (ttft, tpot) in answers {
            let request = ServingRequest {
                first_token_s: Some(ttft / 1e3),
                end_s: (ttft + tpot * 10.0) / 1e3,
                output_tokens: 11,
                ..ServingRequest::default()
            };
            tally.add(&request, &slo);
        }
        for _ in 0..failed {
            let request = ServingRequest {
                error: Some("timeout".to_owned()),
                ..ServingRequest::default()
            };
            tally.add(&request, &slo);
        }
        tally
    }

    #[test]
    fn nine_of_ten_requests_must_keep_the_limits() {
        let slo = Slo::parse(SLO).expect("limits");
        let nine = [(50.0, 5.0); 9];
        // 9 good answers end at 0.1 s; the tenth breaks one limit, or has no answer.
        let slow = tally(&[&nine[..], &[(50.0, 30.0)]].concat(), 0);
        assert!(slow.keeps() && !slow.misses_clearly());
        assert!((slow.goodput() - 9.0 / 0.35).abs() < 1e-9);
        assert!(tally(&nine, 1).keeps() && !tally(&nine, 2).keeps());
        // The tenth of eleven decides: ⌈0.9 × 11⌉ = 10.
        let late = [&nine[..], &[(50.0, 30.0), (250.0, 5.0)]].concat();
        assert!(!tally(&late, 0).keeps());
        assert!((tally(&late, 0).factor(&slo) - 0.5).abs() < 1e-9);
        assert!((tally(&[(250.0, 30.0)], 0).factor(&slo) - 3.0).abs() < 1e-9);
        assert!((tally(&nine, 3).factor(&slo) - NEVER).abs() < 1e-9);
        assert!(!tally(&[], 0).keeps());
    }

    #[test]
    fn a_level_ends_early_only_when_chance_does_not_explain_it() {
        // The upper end of Wilson's interval with z = 2.576: 0 of 9 is 0.42 but too few, 0 of 10 is 0.40,
        // 7 of 10 is 0.92 and 14 of 20 is 0.88.
        assert!(!tally(&[], 9).misses_clearly());
        assert!(tally(&[], 10).misses_clearly());
        assert!(!tally(&[(50.0, 5.0); 7], 3).misses_clearly());
        assert!(tally(&[(50.0, 5.0); 14], 6).misses_clearly());
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<Time> = (1..=100).rev().map(|n| Time(f64::from(n))).collect();
        assert_eq!(percentile(&values, Ratio(0.5)), Some(Time(50.0)));
        assert_eq!(percentile(&values, Ratio(0.99)), Some(Time(99.0)));
        assert_eq!(percentile(&values[..1], Ratio(0.99)), Some(Time(100.0)));
        assert_eq!(percentile(&[], Ratio(0.5)), None);
    }
}
