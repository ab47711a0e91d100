//! The charts of a prediction.

use rooflens_document::chart::{
    Bar, Ceiling, Chart, Color, Line, Lines, Plot, Point as Mark, Roofline, Scatter, StackedBars,
    Track, Tracks,
};
use rooflens_document::{Quantity, chart, words};
use rooflens_llm::Part;
use rooflens_schemas::Unit;

use super::{Answer, seconds};
use crate::{Load, Plan, Prediction, Setup, predict};

/// Points of a line over the batch.
const POINTS: u64 = 160;
/// Where nothing else limits the batch, charts end here.
const MOST: u64 = 512;
/// GPUs that have a line of their own.
const GPUS: usize = 6;
/// GPUs, formats and splits that have bars.
const BARS: usize = 8;
/// Marks have no weight of their own.
const WEIGHT: f64 = -1.0;

const fn color(part: Part) -> Color {
    match part {
        Part::Projections => Color::Gemm,
        Part::Attention => Color::Attention,
        Part::Mlp => Color::Normalization,
        Part::Experts => Color::Elementwise,
        Part::Head => Color::Copy,
        Part::Other => Color::Other,
    }
}

/// The bound of prefill and decode of each GPU, by part.
pub(super) fn by_machine(answer: &Answer<'_>) -> Option<Chart> {
    let mut bars = Vec::new();
    for (point, found) in answer.of_first_load().into_iter().take(BARS) {
        let decode = found.tpot.map(|_| ("decode", &found.decode));
        for (stage, pass) in std::iter::once(("prefill", &found.prefill)).chain(decode) {
            let mut values: Vec<f64> = Part::ALL
                .into_iter()
                .map(|part| pass.part(part).seconds * 1e9)
                .collect();
            values.push(pass.communication * 1e9);
            let stage = answer.text.word(stage);
            let total = pass.seconds();
            bars.push((
                stage,
                Bar {
                    label: format!("{} ({stage})", answer.label(point)),
                    values,
                    note: seconds(total).to_string(),
                },
            ));
        }
    }
    // Stages of one GPU differ by orders of magnitude: each bar fills the width.
    bars.sort_by_key(|(stage, _)| *stage != answer.text.word("prefill"));
    let part = |part: Part| chart::Part {
        name: answer.text.word(part.name()).to_owned(),
        color: color(part),
    };
    let mut parts: Vec<chart::Part> = Part::ALL.into_iter().map(part).collect();
    parts.push(chart::Part {
        name: answer.text.word("communication").to_owned(),
        color: Color::Communication,
    });
    let bars: Vec<Bar> = bars.into_iter().map(|(_, bar)| bar).collect();
    (!bars.is_empty()).then(|| Chart {
        id: "prediction-parts".to_owned(),
        title: words!(answer, "predict.chart_parts"),
        description: words!(answer, "predict.chart_parts_description"),
        plot: Plot::StackedBars(
            StackedBars {
                unit: Unit::Nanoseconds,
                normalized: true,
                parts,
                bars,
            }
            .without_empty_parts(),
        ),
    })
}

/// A line of predictions over the batch.
struct Curve {
    name: String,
    points: Vec<(u64, Prediction)>,
}

fn curves(answer: &Answer<'_>) -> Vec<Curve> {
    let Some((first, _)) = answer.headline() else {
        return Vec::new();
    };
    let fits = answer.advice.iter().map(|(_, _, advice)| advice.fits);
    let end = fits.max().unwrap_or(0).clamp(8, MOST);
    let step = (end / POINTS).max(1);
    let curve = |(machine, setup, advice): &(&crate::Machine, Setup, crate::Advice)| {
        let plan = Plan::new(&answer.of.llm, machine, setup)?;
        let most = advice.fits.min(end);
        let at = |batch: u64| {
            let load = Load {
                batch,
                ..first.load
            };
            (batch, predict(&plan, &answer.of.llm, machine, setup, load))
        };
        let mut batches: Vec<u64> = (1..=most).step_by(step as usize).collect();
        batches.extend(
            (0..20)
                .map(|power| 1 << power)
                .filter(|batch| *batch <= most),
        );
        batches.sort_unstable();
        batches.dedup();
        let points: Vec<_> = batches.into_iter().map(at).collect();
        (points.len() > 1).then(|| Curve {
            name: answer.name(machine, setup),
            points,
        })
    };
    answer.advice.iter().filter_map(curve).take(GPUS).collect()
}

/// Time per token and tokens per second against the batch; one against the other.
pub(super) fn by_batch(answer: &Answer<'_>) -> Vec<Chart> {
    let curves = curves(answer);
    let extent = curves
        .iter()
        .filter_map(|curve| curve.points.last())
        .map(|(batch, _)| *batch)
        .max();
    let Some(extent) = extent else {
        return Vec::new();
    };
    let track = |label: String, unit: Unit, value: &dyn Fn(&Prediction) -> Option<f64>| {
        let line = |curve: &Curve| Line {
            name: curve.name.clone(),
            filled: false,
            points: curve
                .points
                .iter()
                .filter_map(|(batch, found)| Some((*batch as i64, value(found)?)))
                .collect(),
        };
        let lines = curves.iter().map(line).collect();
        Track::Lines(Lines {
            label,
            unit,
            lines,
            shades: None,
            outliers: Vec::new(),
        })
    };
    let tracks = Chart {
        id: "prediction-batch".to_owned(),
        title: words!(answer, "predict.chart_batch"),
        description: words!(answer, "predict.chart_batch_description"),
        plot: Plot::Tracks(Tracks {
            x_label: words!(answer, "predict.batch"),
            x_unit: Unit::Count,
            extent: extent as i64,
            bands: Vec::new(),
            tracks: vec![
                track(
                    words!(answer, "predict.tpot"),
                    Unit::Nanoseconds,
                    &|found| Some(found.tpot? * 1e9),
                ),
                track(
                    words!(answer, "predict.rate"),
                    Unit::TokensPerSecond,
                    &|found| found.decode_rate,
                ),
            ],
        }),
    };
    let mut charts = vec![tracks];
    charts.extend(trade_off(answer, &curves));
    charts
}

/// Tokens per second against the time per token, by powers of two of the batch.
fn trade_off(answer: &Answer<'_>, curves: &[Curve]) -> Option<Chart> {
    let [curve] = curves else { return None };
    let mark = |(batch, found): &(u64, Prediction)| {
        let compute = found.decode.total().compute_bound();
        Some(Mark {
            label: words!(answer, "predict.batch_of", batch = Quantity::count(*batch)),
            x: found.tpot? * 1e3,
            y: found.decode_rate?,
            weight: WEIGHT,
            color: if compute {
                Color::ComputeBound
            } else {
                Color::MemoryBound
            },
        })
    };
    let powers = curve
        .points
        .iter()
        .filter(|(batch, _)| batch.is_power_of_two());
    let points: Vec<Mark> = powers.filter_map(mark).collect();
    let most = |value: fn(&Mark) -> f64| points.iter().map(value).fold(0.0, f64::max);
    let (x_max, y_max) = (most(|point| point.x), most(|point| point.y));
    (points.len() > 2).then(|| Chart {
        id: "prediction-trade-off".to_owned(),
        title: words!(answer, "predict.chart_trade"),
        description: words!(answer, "predict.chart_trade_description"),
        plot: Plot::Scatter(Scatter {
            x_label: words!(answer, "predict.tpot_ms"),
            y_label: words!(answer, "predict.rate"),
            x_max: x_max * 1.05,
            y_max: y_max * 1.05,
            diagonal: false,
            points,
        }),
    })
}

/// The batch of a point, and its bounds if it has any.
fn known(point: &crate::Point) -> Option<(u64, &Prediction)> {
    Some((point.load.batch, point.prediction.as_ref()?))
}

/// The stages at each batch under the roofs of the first GPU.
pub(super) fn roofline(answer: &Answer<'_>) -> Option<Chart> {
    let (point, _) = answer.headline()?;
    let machine = answer.of.sweep.machines.get(point.machine)?;
    let (dtype, rate) = machine.rate(&point.setup.weights)?;
    let alike = |one: &&crate::Point| {
        (one.machine, one.setup, one.load.prompt) == (point.machine, point.setup, point.load.prompt)
    };
    let mut points = Vec::new();
    for (batch, found) in answer.points.iter().filter(alike).filter_map(known) {
        let decode = found.tpot.map(|_| ("decode", &found.decode));
        for (stage, pass) in std::iter::once(("prefill", &found.prefill)).chain(decode) {
            let total = pass.total();
            let bound = if total.compute_bound() {
                Color::ComputeBound
            } else {
                Color::MemoryBound
            };
            points.push(Mark {
                label: format!(
                    "{}, {}",
                    answer.text.word(stage),
                    words!(answer, "predict.batch_of", batch = Quantity::count(batch))
                ),
                x: total.intensity(),
                y: total.flops / pass.seconds(),
                weight: WEIGHT,
                color: bound,
            });
        }
    }
    points.retain(|point| point.x > 0.0 && point.y > 0.0);
    let measured = answer.of.calibration.is_some();
    let bandwidth = Quantity::new(machine.bandwidth, Unit::BytesPerSecond);
    let peak = Quantity::new(rate, Unit::FlopPerSecond);
    Some(Chart {
        id: "prediction-roofline".to_owned(),
        title: words!(
            answer,
            "predict.chart_roofline",
            gpu = machine.name.as_str()
        ),
        description: words!(answer, "predict.chart_roofline_description"),
        plot: Plot::Roofline(Roofline {
            bandwidths: vec![Ceiling {
                label: format!("DRAM {bandwidth}"),
                value: machine.bandwidth,
                measured,
            }],
            rates: vec![Ceiling {
                label: format!("{dtype} {peak}"),
                value: rate,
                measured,
            }],
            points,
            levels: Vec::new(),
        }),
    })
}
