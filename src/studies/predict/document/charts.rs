//! The charts of a prediction.

use rooflens_document::chart::{
    Bar, Ceiling, Chart, Color, Line, Lines, NO_SHARE, Plot, Point as Mark, Roofline, Scatter,
    StackedBars, Track, Tracks,
};
use rooflens_document::{Quantity, chart, words};
use rooflens_llm::Part;
use rooflens_schemas::Unit;
use rooflens_units::Measure;

use super::{MachineAdvice, Study, shown};
use crate::{Cost, Load, Plan, Point, Prediction, predict};

/// Points of a line over the batch.
const POINTS: u64 = 160;
/// Where nothing else limits the batch, charts end here.
const MOST: u64 = 512;
/// GPUs that have a line of their own.
const GPUS: usize = 6;
/// GPUs, formats and splits that have bars.
const BARS: usize = 8;

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

/// The bounds of prefill, and of decode, of each GPU by part: a chart per stage, because stages differ by orders of magnitude.
pub(super) fn by_machine(study: &Study<'_>) -> Vec<Chart> {
    let mut by_stage: Vec<(&str, Vec<Bar>)> = Vec::new();
    for (point, prediction) in study.of_first_load().into_iter().take(BARS) {
        for (stage, pass) in prediction.stages() {
            let times = pass.parts.iter().map(|part| part.bound.time().0);
            let bar = Bar {
                label: study.label(point),
                values: times.chain([pass.communication.time().0]).collect(),
                note: shown(pass.time()),
            };
            match by_stage.iter_mut().find(|(name, _)| *name == stage) {
                Some((_, bars)) => bars.push(bar),
                None => by_stage.push((stage, vec![bar])),
            }
        }
    }
    let mut parts = Vec::new();
    for part in Part::ALL {
        parts.push(chart::Part::new(study.text.word(part.name()), color(part)));
    }
    parts.push(chart::Part::new(
        study.text.word("communication"),
        Color::Communication,
    ));
    let chart = |(stage, bars): (&str, Vec<Bar>)| Chart {
        id: format!("prediction-parts-{stage}"),
        title: words!(study, "predict.chart_parts", stage = study.text.word(stage)),
        description: words!(study, "predict.chart_parts_description"),
        plot: Plot::StackedBars(
            StackedBars {
                unit: Unit::Nanoseconds,
                normalized: false,
                parts: parts.clone(),
                bars,
            }
            .without_empty_parts(),
        ),
    };
    by_stage.into_iter().map(chart).collect()
}

/// Batches of several GPUs that have a mark.
const BATCHES: usize = 3;

/// A line of predictions over the batch.
struct Curve {
    name: String,
    points: Vec<(u64, Prediction)>,
}

fn curves(study: &Study<'_>) -> Vec<Curve> {
    let Some((first, _)) = study.headline() else {
        return Vec::new();
    };
    let fits = study.advice.iter().map(|machine| machine.advice.fits);
    let end = fits.max().unwrap_or(0).clamp(8, MOST);
    let advice = study.advice.iter();
    advice
        .filter_map(|machine| curve(study, first.load, machine, end))
        .take(GPUS)
        .collect()
}

/// The curve of a machine up to the batch that fits, or to `end`; none of a single point.
fn curve(study: &Study<'_>, load: Load, advised: &MachineAdvice<'_>, end: u64) -> Option<Curve> {
    let (llm, machine, setup) = (&study.question.llm, advised.machine, &advised.setup);
    let plan = Plan::new(llm, machine, setup)?;
    let most = advised.advice.fits.min(end);
    let step = (end / POINTS).max(1);
    let mut batches: Vec<u64> = (1..=most).step_by(step as usize).collect();
    for power in 0..20 {
        batches.push(1 << power);
    }
    batches.extend(&study.question.sweep.batches);
    batches.retain(|batch| *batch <= most);
    batches.sort_unstable();
    batches.dedup();
    let mut points = Vec::new();
    for batch in batches {
        let load = Load { batch, ..load };
        points.push((batch, predict(&plan, llm, machine, setup, load)));
    }
    (points.len() > 1).then(|| Curve {
        name: study.name(machine, setup),
        points,
    })
}

/// Time per token and tokens per second against the batch.
pub(super) fn by_batch(study: &Study<'_>) -> Option<Chart> {
    let curves = curves(study);
    let ends = curves.iter().filter_map(|curve| curve.points.last());
    let (extent, _) = ends.max_by_key(|(batch, _)| *batch)?;
    let tracks = Chart {
        id: "prediction-batch".to_owned(),
        title: words!(study, "predict.chart_batch"),
        description: words!(study, "predict.chart_batch_description"),
        plot: Plot::Tracks(Tracks {
            x_label: words!(study, "predict.batch"),
            x_unit: Unit::Count,
            extent: *extent as i64,
            bands: Vec::new(),
            tracks: vec![
                track(&curves, words!(study, "predict.tpot"), |prediction| {
                    prediction.tpot
                }),
                track(&curves, words!(study, "predict.rate"), |prediction| {
                    prediction.decode_rate
                }),
            ],
        }),
    };
    Some(tracks)
}

/// Rate against time per token, for the first page.
pub(super) fn first_page(study: &Study<'_>) -> Option<Chart> {
    trade_off(study, &curves(study))
}

/// A figure of all curves over the batch.
fn track<M: Measure>(
    curves: &[Curve],
    label: String,
    figure: fn(&Prediction) -> Option<M>,
) -> Track {
    let mut lines = Vec::new();
    for curve in curves {
        let mut points = Vec::new();
        for (batch, prediction) in &curve.points {
            if let Some(figure) = figure(prediction) {
                points.push((*batch as i64, figure.number()));
            }
        }
        lines.push(Line {
            name: curve.name.clone(),
            filled: false,
            points,
        });
    }
    Track::Lines(Lines {
        label,
        unit: M::UNIT,
        lines,
        shades: None,
        outliers: Vec::new(),
    })
}

/// Tokens per second against the time per token, by powers of two of the batch; of several GPUs the first batches of the
/// question, because a chart has room for few names.
fn trade_off(study: &Study<'_>, curves: &[Curve]) -> Option<Chart> {
    let is_alone = curves.len() == 1;
    let asked = &study.question.sweep.batches;
    let asked = &asked[..asked.len().min(BATCHES)];
    let mut points = Vec::new();
    let (mut x_max, mut y_max) = (0.0_f64, 0.0_f64);
    let of_curves = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    for (curve, (batch, prediction)) in of_curves {
        let Some((tpot, rate)) = prediction.tpot.zip(prediction.decode_rate) else {
            continue;
        };
        let is_shown = match is_alone {
            true => batch.is_power_of_two(),
            false => asked.contains(batch),
        };
        if !is_shown {
            continue;
        }
        let point = Mark {
            label: match Quantity::count(*batch) {
                batch if is_alone => words!(study, "predict.batch_of", batch = batch),
                batch => {
                    let gpu = curve.name.as_str();
                    words!(study, "predict.batch_on", gpu = gpu, batch = batch)
                }
            },
            x: tpot.0 * 1e3,
            y: rate.0,
            weight: NO_SHARE,
            hollow: false,
            color: bound_color(&prediction.decode.total()),
        };
        x_max = x_max.max(point.x);
        y_max = y_max.max(point.y);
        points.push(point);
    }
    (points.len() > 2).then(|| Chart {
        id: "prediction-trade-off".to_owned(),
        title: words!(study, "predict.chart_trade"),
        description: words!(study, "predict.chart_trade_description"),
        plot: Plot::Scatter(Scatter {
            x_label: words!(study, "predict.tpot_ms"),
            y_label: words!(study, "predict.rate"),
            x_max: x_max * 1.05,
            y_max: y_max * 1.05,
            diagonal: false,
            points,
        }),
    })
}

fn bound_color(cost: &Cost) -> Color {
    if cost.is_compute_bound() {
        Color::ComputeBound
    } else {
        Color::MemoryBound
    }
}

/// The stages at each batch under the roofs of the first GPU.
pub(super) fn roofline(study: &Study<'_>) -> Option<Chart> {
    let (point, _) = study.headline()?;
    let machine = study.machine(point)?;
    let (dtype, rate) = machine.rate_of(&point.setup.weights)?;
    let key = |point: &Point| (point.machine, point.setup, point.load.prompt);
    let mut points = Vec::new();
    for (neighbor, prediction) in study.points.iter().filter_map(Point::predicted) {
        if key(neighbor) != key(point) {
            continue;
        }
        let batch = Quantity::count(neighbor.load.batch);
        for (stage, pass) in prediction.stages() {
            let total = pass.total();
            points.push(Mark {
                label: format!(
                    "{}, {}",
                    study.text.word(stage),
                    words!(study, "predict.batch_of", batch = batch)
                ),
                x: total.intensity().0,
                y: (total.flops / pass.time()).0,
                weight: NO_SHARE,
                hollow: false,
                color: bound_color(&total),
            });
        }
    }
    points.retain(|point| point.x > 0.0 && point.y > 0.0);
    let measured = study.question.calibration.is_some();
    let bandwidth = Quantity::from(machine.bandwidth);
    let peak = Quantity::from(rate);
    Some(Chart {
        id: "prediction-roofline".to_owned(),
        title: words!(study, "predict.chart_roofline", gpu = machine.name.as_str()),
        description: words!(study, "predict.chart_roofline_description"),
        plot: Plot::Roofline(Roofline {
            bandwidths: vec![Ceiling {
                label: format!("DRAM {bandwidth}"),
                value: machine.bandwidth.0,
                measured,
            }],
            rates: vec![Ceiling {
                label: format!("{dtype} {peak}"),
                value: rate.0,
                measured,
            }],
            points,
            levels: Vec::new(),
        }),
    })
}
