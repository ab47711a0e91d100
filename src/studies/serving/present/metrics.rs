//! The metrics of runs. A run is the `pass` of their scope, a percentile the `class`.

use rooflens_document::MetricDef;
use rooflens_document::catalogue::{
    E2E_LATENCY, FAILED_REQUESTS, GOODPUT, GOODPUT_SHARE, ITL, OUTPUT_THROUGHPUT, QUEUE_SHARE,
    REQUEST_THROUGHPUT, SATURATION_LOAD, TOTAL_THROUGHPUT, TPOT, TPOT_OVER_BOUND, TTFT,
    TTFT_OVER_BOUND,
};
use rooflens_schemas::{Evidence, Metric, Scope};

use crate::analysis::Results;
use crate::analysis::figures::{Dist, Measure};
use crate::analysis::sweep::Axis;

/// All metrics, run by run.
pub(super) fn of(results: &Results<'_>) -> Vec<Metric> {
    let mut all: Vec<Metric> = (0..results.runs.len())
        .flat_map(|run| of_run(results, run))
        .collect();
    for sweep in &results.sweeps {
        let scope = Scope {
            pass: Some(results.runs[sweep.points[0].run].label.clone()),
            ..Scope::default()
        };
        let axis = if sweep.axis == Axis::Rate {
            "requests per second offered"
        } else {
            "concurrent requests"
        };
        all.push(match sweep.knee.map(|knee| sweep.points[knee].load) {
            Some(load) => SATURATION_LOAD.derived(
                scope,
                load,
                format!("{axis}; {} loads", sweep.points.len()),
            ),
            None => SATURATION_LOAD.unavailable(
                scope,
                "throughput still rises at the largest load of the sweep",
            ),
        });
    }
    all
}

fn of_run(results: &Results<'_>, index: usize) -> Vec<Metric> {
    let (run, figures, found) = (
        &results.runs[index],
        &results.figures[index],
        &results.bottlenecks[index],
    );
    let scope = || Scope {
        pass: Some(run.label.clone()),
        ..Scope::default()
    };
    let rows = (!run.requests.is_empty()).then_some(run.requests.len() as u64);
    let evidence = || {
        vec![Evidence {
            artifact: run.artifact.clone(),
            table: None,
            rows,
        }]
    };
    let mut all = Vec::new();
    let mut push = |def: &MetricDef, value: Option<f64>, basis: &str| {
        if let Some(value) = value {
            all.push(Metric {
                evidence: evidence(),
                ..def.measured(scope(), value, basis)
            });
        }
    };
    let stated = |stated: Option<f64>| {
        if stated.is_some() {
            "as the tool states it"
        } else {
            "count ÷ duration"
        }
    };
    push(
        &REQUEST_THROUGHPUT,
        figures.request_rate,
        stated(run.stated.request_rate),
    );
    push(
        &OUTPUT_THROUGHPUT,
        figures.output_rate,
        stated(run.stated.output_rate),
    );
    push(
        &TOTAL_THROUGHPUT,
        figures.total_rate,
        stated(run.stated.total_rate),
    );
    push(
        &FAILED_REQUESTS,
        figures.failed,
        "requests without an answer",
    );
    let slo = results.goodput[index];
    push(
        &GOODPUT,
        slo.and_then(|one| one.rate),
        "requests that keep all limits ÷ duration",
    );
    push(
        &GOODPUT_SHARE,
        slo.map(|one| one.share()),
        "requests that keep all limits ÷ requests",
    );
    let source = found.waiting.map_or("", |waiting| waiting.source.id());
    push(
        &QUEUE_SHARE,
        found.waiting.map(|waiting| waiting.share()),
        source,
    );
    push(
        &TTFT_OVER_BOUND,
        found.ttft_factor,
        "median TTFT ÷ predicted bound",
    );
    push(
        &TPOT_OVER_BOUND,
        found.tpot_factor,
        "median TPOT ÷ predicted bound",
    );
    let measures = [
        (Measure::Ttft, &TTFT),
        (Measure::Tpot, &TPOT),
        (Measure::Itl, &ITL),
        (Measure::Latency, &E2E_LATENCY),
    ];
    for (measure, def) in measures {
        let dist = figures.dist(measure);
        all.extend(percentiles(dist).into_iter().filter_map(|(class, value)| {
            let scope = Scope {
                class: Some(class.to_owned()),
                ..scope()
            };
            Some(Metric {
                evidence: evidence(),
                ..def.measured(scope, value?, basis(dist))
            })
        }));
    }
    all
}

fn percentiles(dist: &Dist) -> [(&'static str, Option<f64>); 5] {
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
