//! The metrics of runs. A run is the `pass` of their scope, a percentile the `class`.

use rooflens_document::MetricDef;
use rooflens_document::catalogue::{
    E2E_LATENCY, FAILED_REQUESTS, GOODPUT, GOODPUT_SHARE, ITL, OUTPUT_THROUGHPUT, QUEUE_SHARE,
    REQUEST_THROUGHPUT, SATURATION_LOAD, TOTAL_THROUGHPUT, TPOT, TPOT_OVER_BOUND, TTFT,
    TTFT_OVER_BOUND,
};
use rooflens_schemas::{Evidence, Metric, Scope};
use rooflens_units::{Measure as Unit, Time};

use crate::analysis::Results;
use crate::analysis::bottleneck::Waiting;
use crate::analysis::figures::{Dist, Measure};
use crate::analysis::sweep::{Axis, Sweep};
use crate::runs::Run;

/// All metrics, run by run, and those of sweeps.
pub(super) fn metrics(results: &Results<'_>) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for run in 0..results.runs.len() {
        metrics.extend(metrics_of_run(results, run));
    }
    for sweep in &results.sweeps {
        metrics.push(saturation(results, sweep));
    }
    metrics
}

fn saturation(results: &Results<'_>, sweep: &Sweep) -> Metric {
    let scope = scope(&results.runs[sweep.points[0].run]);
    let axis = match sweep.axis {
        Axis::Rate => "requests per second offered",
        Axis::Concurrency => "concurrent requests",
    };
    match sweep.knee {
        Some(knee) => SATURATION_LOAD.derived(
            scope,
            sweep.points[knee].load.value,
            format!("{axis}; {} loads", sweep.points.len()),
        ),
        None if sweep.is_saturated => {
            SATURATION_LOAD.unavailable(scope, "not even the least load of the sweep is sustained")
        }
        None => SATURATION_LOAD.unavailable(
            scope,
            "throughput still rises at the largest load of the sweep",
        ),
    }
}

fn scope(run: &Run) -> Scope {
    Scope {
        pass: Some(run.label.clone()),
        ..Scope::default()
    }
}

fn evidence(run: &Run) -> Vec<Evidence> {
    let rows = run.requests.len() as u64;
    vec![Evidence {
        artifact: run.artifact.clone(),
        table: None,
        rows: (rows > 0).then_some(rows),
    }]
}

fn metrics_of_run(results: &Results<'_>, index: usize) -> Vec<Metric> {
    let (run, figures) = (&results.runs[index], &results.figures[index]);
    let bottleneck = &results.bottlenecks[index];
    let stated = &run.stated;
    let goodput = results.goodput[index].as_ref();
    let waiting = bottleneck.waiting.as_ref();
    let (mut goodput_rate, mut good_share) = (None, None);
    if let Some(goodput) = goodput {
        (goodput_rate, good_share) = (goodput.rate, Some(goodput.share()));
    }
    let rows: [(&MetricDef, Option<f64>, &str); 9] = [
        (
            &REQUEST_THROUGHPUT,
            figures.request_rate.map(number),
            basis_of_rate(stated.request_rate.is_some()),
        ),
        (
            &OUTPUT_THROUGHPUT,
            figures.output_rate.map(number),
            basis_of_rate(stated.output_rate.is_some()),
        ),
        (
            &TOTAL_THROUGHPUT,
            figures.total_rate.map(number),
            basis_of_rate(stated.total_rate.is_some()),
        ),
        (
            &FAILED_REQUESTS,
            figures.failed.map(number),
            "requests without an answer",
        ),
        (
            &GOODPUT,
            goodput_rate.map(number),
            "requests that keep all limits ÷ duration",
        ),
        (
            &GOODPUT_SHARE,
            good_share.map(number),
            "requests that keep all limits ÷ requests",
        ),
        (
            &QUEUE_SHARE,
            waiting.map(Waiting::share).map(number),
            waiting.map_or("", |waiting| waiting.source.id()),
        ),
        (
            &TTFT_OVER_BOUND,
            bottleneck.ttft_factor.map(number),
            "median TTFT ÷ predicted bound",
        ),
        (
            &TPOT_OVER_BOUND,
            bottleneck.tpot_factor.map(number),
            "median TPOT ÷ predicted bound",
        ),
    ];
    let mut metrics = Vec::new();
    for (definition, value, basis) in rows {
        if let Some(value) = value {
            metrics.push(Metric {
                evidence: evidence(run),
                ..definition.measured(scope(run), value, basis)
            });
        }
    }
    let measures = [
        (Measure::Ttft, &TTFT),
        (Measure::Tpot, &TPOT),
        (Measure::Itl, &ITL),
        (Measure::Latency, &E2E_LATENCY),
    ];
    for (measure, definition) in measures {
        let dist = figures.dist(measure);
        for (class, value) in classes(dist) {
            let Some(value) = value else { continue };
            let scope = Scope {
                class: Some(class.to_owned()),
                ..scope(run)
            };
            metrics.push(Metric {
                evidence: evidence(run),
                ..definition.measured(scope, value.0, basis(dist))
            });
        }
    }
    metrics
}

fn number<M: Unit>(measure: M) -> f64 {
    measure.number()
}

const fn basis_of_rate(is_stated: bool) -> &'static str {
    if is_stated {
        "as the tool states it"
    } else {
        "count ÷ duration"
    }
}

/// The mean and the percentiles, with their class in the scope of metrics.
fn classes(dist: &Dist) -> [(&'static str, Option<Time>); 5] {
    let [p50, p90, p95, p99] = dist.spread.percentiles;
    [
        ("mean", dist.spread.mean),
        ("p50", p50),
        ("p90", p90),
        ("p95", p95),
        ("p99", p99),
    ]
}

fn basis(dist: &Dist) -> String {
    match dist.samples.len() {
        0 => "as the tool states it".to_owned(),
        count => format!("{count} raw samples, linear interpolation"),
    }
}
