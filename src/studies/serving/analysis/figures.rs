//! Figures of a run: from its raw samples where it has them, else as its tool states them.

use crate::runs::{EngineSample, Request, Run};
use crate::stats::{Spread, sorted};

/// A figure of a load test that has a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Time to first token.
    Ttft,
    /// Time per output token after the first, one value a request.
    Tpot,
    /// Inter-token latency, one value an output.
    Itl,
    /// End-to-end latency.
    Latency,
    /// Time in a queue.
    Queued,
}

impl Measure {
    /// Those that each report shows.
    pub const ALL: [Self; 5] = [
        Self::Ttft,
        Self::Tpot,
        Self::Itl,
        Self::Latency,
        Self::Queued,
    ];

    /// The name in data files.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::Latency => "e2e",
            Self::Queued => "queue",
        }
    }

    /// The value of a request, if it has one.
    fn of(self, request: &Request) -> Option<f64> {
        match self {
            Self::Ttft => request.ttft,
            Self::Tpot => request.tpot(),
            Self::Latency => request.latency,
            Self::Queued => request.queued,
            Self::Itl => None,
        }
    }
}

/// A distribution in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dist {
    /// Its figures.
    pub spread: Spread,
    /// Raw samples in ascending order; empty if the tool gave figures only.
    pub samples: Vec<f64>,
}

impl Dist {
    fn of(samples: impl IntoIterator<Item = f64>, stated: &Spread) -> Self {
        let samples = sorted(samples);
        let spread = if samples.is_empty() {
            *stated
        } else {
            Spread::of(&samples)
        };
        Self { spread, samples }
    }

    /// The median; the mean where there is no median.
    pub fn typical(&self) -> Option<f64> {
        self.spread.p50().or(self.spread.mean)
    }
}

/// Figures of a run. Times are nanoseconds, rates per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Distributions, in the order of [`Measure::ALL`].
    pub dists: [Dist; 5],
    /// From the first request to the end of the last.
    pub duration: Option<f64>,
    /// Requests with an answer.
    pub completed: Option<f64>,
    /// Requests without one.
    pub failed: Option<f64>,
    /// Answers per second.
    pub request_rate: Option<f64>,
    /// Tokens of answers per second.
    pub output_rate: Option<f64>,
    /// Tokens of prompts and answers per second.
    pub total_rate: Option<f64>,
    /// Mean tokens of a prompt.
    pub prompt_tokens: Option<f64>,
    /// Mean tokens of an answer.
    pub output_tokens: Option<f64>,
    /// Mean requests in flight, by Little's law: answers per second × mean latency.
    pub in_flight: Option<f64>,
    /// Share of the prompts' tokens that came from the prefix cache.
    pub cached: Option<f64>,
}

impl Figures {
    /// The figures of a run.
    pub fn of(run: &Run) -> Self {
        let (stated, engine) = (&run.stated, &run.engine);
        let spreads = [
            &stated.ttft,
            &stated.tpot,
            &stated.itl,
            &stated.latency,
            &stated.queued,
        ];
        let dist = |measure: Measure, stated: &Spread| match measure {
            Measure::Itl => Dist::of(
                run.requests
                    .iter()
                    .flat_map(|request| request.itl.iter().copied()),
                stated,
            ),
            _ => Dist::of(
                run.requests
                    .iter()
                    .filter_map(|request| measure.of(request)),
                stated,
            ),
        };
        let mut dists: [Dist; 5] = Default::default();
        for ((slot, measure), stated) in dists.iter_mut().zip(Measure::ALL).zip(spreads) {
            *slot = dist(measure, stated);
        }
        let counted = |failed: bool| {
            run.requests
                .iter()
                .filter(|request| request.failed == failed)
                .count() as f64
        };
        let has_requests = !run.requests.is_empty();
        let sum = |figure: fn(&Request) -> Option<f64>| {
            let answers = run
                .requests
                .iter()
                .filter(|request| !request.failed)
                .map(figure);
            answers.sum::<Option<f64>>().filter(|_| has_requests)
        };
        let duration = run.duration().or_else(|| sampled(engine));
        let grown = |figure: fn(&EngineSample) -> Option<f64>| {
            growth(engine, figure).filter(|_| engine.len() > 1)
        };
        let completed = has_requests
            .then(|| counted(false))
            .or(stated.completed)
            .or(grown(|sample| sample.completed));
        let prompt = sum(|request| request.prompt_tokens)
            .or(stated.prompt_tokens)
            .or(grown(|sample| sample.prompt_tokens));
        let output = sum(|request| request.output_tokens)
            .or(stated.output_tokens)
            .or(grown(|sample| sample.output_tokens));
        let rate = |count: Option<f64>| Some(count? / (duration.filter(|time| *time > 0.0)? / 1e9));
        let request_rate = stated.request_rate.or_else(|| rate(completed));
        let per_request =
            |tokens: Option<f64>| Some(tokens? / completed.filter(|count| *count > 0.0)?);
        let in_flight = request_rate
            .zip(dists[3].spread.mean)
            .map(|(rate, latency)| rate * latency / 1e9);
        Self {
            duration,
            completed,
            failed: has_requests.then(|| counted(true)).or(stated.failed),
            request_rate,
            output_rate: stated.output_rate.or_else(|| rate(output)),
            total_rate: stated
                .total_rate
                .or_else(|| rate(prompt.zip(output).map(|(a, b)| a + b))),
            prompt_tokens: per_request(prompt),
            output_tokens: per_request(output),
            in_flight,
            cached: cached(run),
            dists,
        }
    }

    /// A distribution.
    pub fn dist(&self, measure: Measure) -> &Dist {
        &self.dists[measure as usize]
    }

    /// The median of a distribution, or its mean.
    pub fn typical(&self, measure: Measure) -> Option<f64> {
        self.dist(measure).typical()
    }
}

/// Length of an engine's samples.
fn sampled(engine: &[EngineSample]) -> Option<f64> {
    Some(engine.last()?.time? - engine.first()?.time?).filter(|time| *time > 0.0)
}

/// Growth of a counter over the samples.
pub fn growth(engine: &[EngineSample], figure: fn(&EngineSample) -> Option<f64>) -> Option<f64> {
    Some(figure(engine.last()?)? - figure(engine.first()?)?).filter(|growth| *growth >= 0.0)
}

/// Share of prompt tokens from the prefix cache: of the requests, weighted by tokens, else by the engine's counters.
fn cached(run: &Run) -> Option<f64> {
    let tokens = |request: &Request| {
        Some((
            request.cached? * request.prompt_tokens?,
            request.prompt_tokens?,
        ))
    };
    let (hit, prompt) = run
        .requests
        .iter()
        .filter_map(tokens)
        .fold((0.0, 0.0), |sum, tokens| {
            (sum.0 + tokens.0, sum.1 + tokens.1)
        });
    let by_engine = || {
        let queries =
            growth(&run.engine, |sample| sample.cache_queries).filter(|queries| *queries > 0.0)?;
        Some(growth(&run.engine, |sample| sample.cache_hits)? / queries)
    };
    if prompt > 0.0 {
        Some(hit / prompt)
    } else {
        by_engine()
    }
}

/// Relative difference of two figures that should agree; the greatest of them, with the name of the figure. What a tool
/// states is checked against the raw samples of the same file, and its rates against its counts: a wrong unit shows.
pub fn disagreement(run: &Run, figures: &Figures) -> Option<(&'static str, f64)> {
    let stated = &run.stated;
    let apart = |stated: Option<f64>, counted: Option<f64>| {
        Some(((stated? - counted?) / counted.filter(|counted| *counted != 0.0)?).abs())
    };
    let spreads = [&stated.ttft, &stated.tpot, &stated.itl, &stated.latency];
    let medians = Measure::ALL
        .into_iter()
        .zip(spreads)
        .filter_map(|(measure, stated)| {
            let dist = figures.dist(measure);
            Some((
                measure.id(),
                apart(
                    dist.spread.p50().filter(|_| !dist.samples.is_empty()),
                    stated.p50(),
                )?,
            ))
        });
    let seconds = stated.duration.map(|time| time / 1e9);
    let rates = [
        ("request_throughput", stated.request_rate, stated.completed),
        (
            "output_throughput",
            stated.output_rate,
            stated.output_tokens,
        ),
    ];
    let rates = rates.into_iter().filter_map(|(name, rate, count)| {
        Some((
            name,
            apart(rate.zip(seconds).map(|(rate, time)| rate * time), count)?,
        ))
    });
    medians.chain(rates).max_by(|a, b| a.1.total_cmp(&b.1))
}
