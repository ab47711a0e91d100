//! Figures of a run: from its raw samples where it has them, else as its tool states them.

use crate::runs::{EngineSample, Request, Run};
use crate::stats::{Spread, sorted};
use rooflens_units::{Count, Ratio, RequestsPerSecond, Slo, Time, TokensPerSecond};

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

    /// The limit that an SLO sets for this measure.
    pub const fn limit(self, slo: &Slo) -> Option<Time> {
        match self {
            Self::Ttft => slo.ttft,
            Self::Tpot => slo.tpot,
            Self::Latency => slo.latency,
            Self::Itl | Self::Queued => None,
        }
    }

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
    fn of(self, request: &Request) -> Option<Time> {
        match self {
            Self::Ttft => request.ttft,
            Self::Tpot => request.tpot(),
            Self::Latency => request.latency,
            Self::Queued => request.queued,
            Self::Itl => None,
        }
    }
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dist {
    /// Its figures.
    pub spread: Spread,
    /// Raw samples in ascending order; empty if the tool gave figures only.
    pub samples: Vec<Time>,
}

impl Dist {
    fn of(samples: impl Iterator<Item = Time>, stated: &Spread) -> Self {
        let samples = sorted(samples);
        let spread = if samples.is_empty() {
            *stated
        } else {
            Spread::of(&samples)
        };
        Self { spread, samples }
    }

    /// The median; the mean where there is no median.
    pub fn typical(&self) -> Option<Time> {
        self.spread.p50().or(self.spread.mean)
    }
}

/// Figures of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Distributions, in the order of [`Measure::ALL`].
    pub dists: [Dist; 5],
    /// From the first request to the end of the last.
    pub duration: Option<Time>,
    /// Requests with an answer.
    pub completed: Option<Count>,
    /// Requests without one.
    pub failed: Option<Count>,
    /// Answers per second.
    pub request_rate: Option<RequestsPerSecond>,
    /// Tokens of answers per second.
    pub output_rate: Option<TokensPerSecond>,
    /// Tokens of prompts and answers per second.
    pub total_rate: Option<TokensPerSecond>,
    /// Mean tokens of a prompt.
    pub prompt_tokens: Option<Count>,
    /// Mean tokens of an answer.
    pub output_tokens: Option<Count>,
    /// Standard errors of both means, where requests are known.
    pub token_errors: [Option<Count>; 2],
    /// Mean requests in flight, by Little's law: answers per second × mean latency.
    pub in_flight: Option<Count>,
    /// Share of the prompts' tokens that came from the prefix cache.
    pub cached: Option<Ratio>,
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
            let requests = run.requests.iter();
            Count(requests.filter(|request| request.failed == failed).count() as f64)
        };
        let has_requests = !run.requests.is_empty();
        let sum = |tokens: fn(&Request) -> Option<Count>| {
            let answers = run.requests.iter().filter(|request| !request.failed);
            let sum: Option<Count> = answers.map(tokens).sum();
            sum.filter(|_| has_requests)
        };
        let duration = run.duration().or_else(|| sampled(engine));
        let grown = |counter: fn(&EngineSample) -> Option<Count>| {
            growth(engine, counter).filter(|_| engine.len() > 1)
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
        let length = duration.filter(Time::is_positive).map(Time::seconds);
        let rate = |count: Option<Count>| Some(count?.0 / length?.0);
        let request_rate = stated
            .request_rate
            .or(rate(completed).map(RequestsPerSecond));
        let answers = completed.filter(Count::is_positive);
        let per_request = |tokens: Option<Count>| Some(Count(tokens? / answers?));
        let in_flight = match (request_rate, dists[3].spread.mean) {
            (Some(rate), Some(latency)) => Some(Count(rate.0 * latency.0 / 1e9)),
            _ => None,
        };
        let tokens = prompt.zip(output).map(|(prompt, output)| prompt + output);
        Self {
            duration,
            completed,
            failed: has_requests.then(|| counted(true)).or(stated.failed),
            request_rate,
            output_rate: stated.output_rate.or(rate(output).map(TokensPerSecond)),
            total_rate: stated.total_rate.or(rate(tokens).map(TokensPerSecond)),
            prompt_tokens: per_request(prompt),
            output_tokens: per_request(output),
            token_errors: [
                token_error(run, |request| request.prompt_tokens),
                token_error(run, |request| request.output_tokens),
            ],
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
    pub fn typical(&self, measure: Measure) -> Option<Time> {
        self.dist(measure).typical()
    }
}

/// Standard error of the mean tokens of answered requests.
fn token_error(run: &Run, tokens: fn(&Request) -> Option<Count>) -> Option<Count> {
    let answers = run.requests.iter().filter(|request| !request.failed);
    let counts: Vec<Count> = answers.filter_map(tokens).collect();
    let deviation = rooflens_stats::population_deviation(&counts)?;
    Some(deviation / libm::sqrt(counts.len() as f64))
}

/// Length of an engine's samples.
fn sampled(engine: &[EngineSample]) -> Option<Time> {
    Some(engine.last()?.time? - engine.first()?.time?).filter(Time::is_positive)
}

/// Growth of a counter over the samples.
pub fn growth(
    engine: &[EngineSample],
    counter: fn(&EngineSample) -> Option<Count>,
) -> Option<Count> {
    let growth = counter(engine.last()?)? - counter(engine.first()?)?;
    (growth >= Count::ZERO).then_some(growth)
}

/// Share of prompt tokens from the prefix cache: of the requests, weighted by tokens, else by the engine's counters.
fn cached(run: &Run) -> Option<Ratio> {
    let (mut hits, mut prompt) = (Count::ZERO, Count::ZERO);
    for request in &run.requests {
        if let (Some(cached), Some(tokens)) = (request.cached, request.prompt_tokens) {
            hits += tokens * cached;
            prompt += tokens;
        }
    }
    if prompt.is_positive() {
        return Some(Ratio(hits / prompt));
    }
    let queries = growth(&run.engine, |sample| sample.cache_queries).filter(Count::is_positive)?;
    let hits = growth(&run.engine, |sample| sample.cache_hits)?;
    Some(Ratio(hits / queries))
}

/// Relative difference of two figures that should agree; the greatest of them, with the name of the figure. What a tool
/// states is checked against the raw samples of the same file, and its rates against its counts: a wrong unit shows.
pub fn disagreement(run: &Run, figures: &Figures) -> Option<(&'static str, Ratio)> {
    let stated = &run.stated;
    let mut differences: Vec<(&'static str, Option<Ratio>)> = Vec::new();
    let spreads = [&stated.ttft, &stated.tpot, &stated.itl, &stated.latency];
    for (measure, spread) in Measure::ALL.into_iter().zip(spreads) {
        let dist = figures.dist(measure);
        if !dist.samples.is_empty() {
            differences.push((measure.id(), apart(dist.spread.p50(), spread.p50())));
        }
    }
    if let Some(length) = stated.duration.map(Time::seconds) {
        let requests = stated.request_rate.map(|rate| Count(rate.0 * length.0));
        let tokens = stated.output_rate.map(|rate| Count(rate.0 * length.0));
        differences.push(("request_throughput", apart(requests, stated.completed)));
        differences.push(("output_throughput", apart(tokens, stated.output_tokens)));
    }
    let mut greatest: Option<(&'static str, Ratio)> = None;
    for (figure, difference) in differences {
        if let Some(difference) = difference
            && greatest.is_none_or(|(_, most)| most.total_cmp(&difference).is_le())
        {
            greatest = Some((figure, difference));
        }
    }
    greatest
}

/// Difference of two figures over the second one.
fn apart<M: rooflens_units::Measure>(figure: Option<M>, reference: Option<M>) -> Option<Ratio> {
    let (figure, reference) = (figure?.number(), reference?.number());
    (reference != 0.0).then(|| Ratio(((figure - reference) / reference).abs()))
}
