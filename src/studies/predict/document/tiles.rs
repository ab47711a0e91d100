//! The title of a prediction, and the few figures by which a reader decides.

use rooflens_document::{Quantity, Tile, words};
use rooflens_schemas::Unit;

use super::{Study, bound_word};
use crate::{Point, Prediction};

/// Factor from which on one machine is called faster than another.
const FASTER: f64 = 1.05;

/// What bounds the first machine, and which of the others is the fastest at the same load.
pub(super) fn conclusion(study: &Study<'_>) -> Option<String> {
    let (point, prediction) = study.headline()?;
    let label = study.label(point);
    let (pass, rate) = match prediction.decode_rate {
        Some(rate) => (&prediction.decode, rate.0),
        None => (&prediction.prefill, prediction.requests.0),
    };
    let rate_of = |prediction: &Prediction| match prediction.decode_rate {
        Some(rate) => rate.0,
        None => prediction.requests.0,
    };
    let others = study.of_first_load();
    let fastest = others
        .iter()
        .max_by(|a, b| rate_of(a.1).total_cmp(&rate_of(b.1)))
        .filter(|(_, prediction)| rate_of(prediction) >= rate * FASTER);
    Some(words!(
        study,
        "predict.title_conclusion",
        model = study.question.title.as_str(),
        gpu = label,
        decode = prediction.decode_rate.map(|_| ""),
        bound = study.text.word(bound_word(pass.bound())),
        fastest = fastest.map(|(point, _)| study.label(point)),
        factor = fastest.map(|(_, other)| Quantity::new(rate_of(other) / rate, Unit::One)),
    ))
}

/// Latency, throughput and what fits, of the first point.
pub(super) fn tiles(study: &Study<'_>, point: &Point, prediction: &Prediction) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let mut tile = |key: &str, now: Option<Quantity>, others: Vec<(String, Quantity)>| {
        tiles.extend(now.map(|now| Tile {
            label: study.text.line(key, &[]),
            now,
            others,
        }));
    };
    let (ttft, tpot) = (study.question.limits.ttft, study.question.limits.tpot);
    let limit = |limit: Option<rooflens_units::Seconds>| {
        let limit = limit.map(|limit| (words!(study, "predict.tile_limit"), limit.into()));
        limit.into_iter().collect()
    };
    tile(
        "predict.tile_ttft",
        Some(prediction.ttft.into()),
        limit(ttft),
    );
    tile(
        "predict.tile_tpot",
        prediction.tpot.map(Into::into),
        limit(tpot),
    );
    let gpus = point.setup.tensor.max(1);
    let per_gpu = prediction.decode_rate.filter(|_| gpus > 1);
    let per_gpu = per_gpu.map(|rate| {
        let rate = Quantity::new(rate.0 / gpus as f64, Unit::TokensPerSecond);
        (words!(study, "predict.tile_per_gpu"), rate)
    });
    let rate = prediction.decode_rate.map(Into::into);
    tile("predict.tile_rate", rate, per_gpu.into_iter().collect());
    let price = study
        .price(point)
        .map(|price| Quantity::new(price, Unit::One));
    tile("predict.tile_price", price, Vec::new());
    let usable = words!(study, "predict.tile_usable");
    tile(
        "predict.tile_weights",
        Some(prediction.memory.weights.into()),
        vec![(usable, prediction.memory.usable.into())],
    );
    let fits = prediction
        .decode_rate
        .map(|_| Quantity::count(prediction.memory.fits));
    tile("predict.tile_fits", fits, Vec::new());
    tiles
}
