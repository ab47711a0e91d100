//! Requests in flight and tokens over the run of the first page, and what its engine said meanwhile.

use rooflens_document::chart::{Panel, Plot, Series};
use rooflens_document::{Block, Chart, SectionContent, columns, words};
use rooflens_schemas::Unit;
use rooflens_units::{Count, Time};

use super::Page;
use crate::runs::{EngineSample, Request};

/// Stretches of the run over which tokens are counted.
const STRETCHES: usize = 120;

/// Both charts.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let run = page.results.headline;
    content
        .main
        .extend(requests(page, &page.results.runs[run].requests).map(Block::Chart));
    let samples = page.results.engine_of(run);
    content.main.extend(engine(page, samples).map(Block::Chart));
    if !samples.is_empty() {
        let table = columns! { page, "serving_engine", sample: &EngineSample => {
            time "time_ns" = sample.time, page;
            count "running" = sample.running, page;
            count "waiting" = sample.waiting, page;
            share "kv_cache_share" = sample.kv_cache, page;
            count "preemptions" = sample.preemptions, page;
            count "completed" = sample.completed, page;
            count "prompt_tokens" = sample.prompt_tokens, page;
            count "output_tokens" = sample.output_tokens, page;
        } };
        content.blocks.push(Block::Table(
            table.view(words!(page, "serving.engine_table"), 20),
        ));
        content.datasets.push(table.rows(samples));
    }
    content
}

/// Requests in flight, those without a first token yet, and output tokens per second.
fn requests(page: &Page<'_>, requests: &[Request]) -> Option<Chart> {
    let answers: Vec<Answer> = requests.iter().filter_map(Answer::of).collect();
    let duration = answers.iter().map(Answer::end).max_by(Time::total_cmp)?;
    if answers.len() < 5 || !duration.is_positive() {
        return None;
    }
    let mut in_flight = Vec::new();
    let mut without_token = Vec::new();
    for answer in &answers {
        in_flight.push((answer.due, answer.end()));
        if let Some(ttft) = answer.ttft {
            without_token.push((answer.due, answer.due + ttft));
        }
    }
    let mut panels = vec![
        panel(
            words!(page, "serving.panel.in_flight"),
            Unit::Count,
            steps(&in_flight),
        ),
        panel(
            words!(page, "serving.panel.no_token"),
            Unit::Count,
            steps(&without_token),
        ),
        panel(
            words!(page, "serving.panel.tokens"),
            Unit::TokensPerSecond,
            tokens(&answers, duration),
        ),
    ];
    panels.retain(|panel| panel.points.iter().any(|point| point.1 > 0.0));
    Some(Chart {
        id: "requests-over-time".to_owned(),
        title: words!(page, "serving.over_time", run = page.which()),
        description: words!(page, "serving.over_time_text"),
        plot: Plot::Series(Series {
            panels,
            bands: Vec::new(),
            duration: duration.0 as i64,
        }),
    })
}

/// A request whose times are known, with its tokens.
struct Answer {
    due: Time,
    ttft: Option<Time>,
    latency: Time,
    output_tokens: Option<Count>,
}

impl Answer {
    fn of(request: &Request) -> Option<Self> {
        Some(Self {
            due: request.due?,
            ttft: request.ttft,
            latency: request.latency?,
            output_tokens: request.output_tokens,
        })
    }

    fn end(&self) -> Time {
        self.due + self.latency
    }
}

fn panel(label: String, unit: Unit, points: Vec<(i64, f64)>) -> Panel {
    Panel {
        label,
        unit,
        points,
        limit: None,
    }
}

/// How many of some intervals hold each moment, as points of a line.
fn steps(intervals: &[(Time, Time)]) -> Vec<(i64, f64)> {
    let mut changes: Vec<(i64, i64)> = Vec::new();
    for (from, to) in intervals {
        changes.push((from.0 as i64, 1));
        changes.push((to.0 as i64, -1));
    }
    changes.sort_unstable();
    let mut open = 0;
    let mut points = vec![(0, 0.0)];
    for (moment, change) in changes {
        points.push((moment, open as f64));
        open += change;
        points.push((moment, open as f64));
    }
    points
}

/// Output tokens per second: each request's evenly from its first token to its end.
fn tokens(answers: &[Answer], duration: Time) -> Vec<(i64, f64)> {
    let width = duration / STRETCHES as f64;
    let mut sums = [Count::ZERO; STRETCHES];
    for answer in answers {
        let (from, to) = (answer.due + answer.ttft.unwrap_or_default(), answer.end());
        let (Some(tokens), true) = (answer.output_tokens, to > from) else {
            continue;
        };
        let (first, last) = ((from / width) as usize, (to / width) as usize);
        for (stretch, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = from.max(width * stretch as f64);
            let end = to.min(width * (stretch + 1) as f64);
            *sum += Count(tokens.0 * (end - begin).max(Time::ZERO).0 / (to - from).0);
        }
    }
    let mut rates = Vec::with_capacity(STRETCHES);
    for (stretch, sum) in sums.iter().enumerate() {
        let middle = width * (stretch as f64 + 0.5);
        rates.push((middle.0 as i64, sum.0 / width.seconds().0));
    }
    rates
}

/// Running and waiting requests and the KV cache.
fn engine(page: &Page<'_>, samples: &[EngineSample]) -> Option<Chart> {
    let start = samples.first()?.time?;
    let duration = samples.last()?.time? - start;
    let (mut running, mut waiting, mut kv_cache) = (Vec::new(), Vec::new(), Vec::new());
    for sample in samples {
        let Some(time) = sample.time else { continue };
        let moment = (time - start).0 as i64;
        running.extend(sample.running.map(|count| (moment, count.0)));
        waiting.extend(sample.waiting.map(|count| (moment, count.0)));
        kv_cache.extend(sample.kv_cache.map(|share| (moment, share.0)));
    }
    let mut panels = vec![
        panel(words!(page, "serving.panel.running"), Unit::Count, running),
        panel(words!(page, "serving.panel.waiting"), Unit::Count, waiting),
        panel(words!(page, "serving.panel.kv"), Unit::Ratio, kv_cache),
    ];
    panels.retain(|panel| panel.points.len() > 2);
    (!panels.is_empty() && duration.is_positive()).then(|| Chart {
        id: "engine-over-time".to_owned(),
        title: words!(page, "serving.engine"),
        description: words!(page, "serving.engine_text"),
        plot: Plot::Series(Series {
            panels,
            bands: Vec::new(),
            duration: duration.0 as i64,
        }),
    })
}
