//! The data sets of a prediction.

use rooflens_document::{Catalogue, Cell, Dataset, Table, View, columns};
use rooflens_llm::{Layer, Part};
use rooflens_units::{Bytes, Ratio, Seconds};

use super::{MachineAdvice, Peak, Study, modules};
use crate::{Cost, Figure, Machine, Memory, Point, Prediction, Setup};

/// All data sets.
pub(super) fn all(study: &Study<'_>) -> Vec<Dataset> {
    let mut datasets = vec![
        points(study).rows(&study.points),
        parts_table(study).rows(&parts(study)),
        memory_table(study).rows(&memories(study)),
        layers(study.text).rows(&study.question.llm.layers),
        modules::table(study.text, &study.question.llm).rows(&study.modules()),
        peaks(study).rows(&peak_rows(study)),
    ];
    if study.question.llm.generates() {
        datasets.push(batches(study).rows(&study.advice));
    }
    if let Some(calibration) = &study.question.calibration {
        datasets.push(calibration_table(study).rows(&calibration.figures));
    }
    datasets
}

/// How pages show one of them.
pub(super) fn view(study: &Study<'_>, id: &str, caption: String, rows: usize) -> View {
    match id {
        "prediction" => points(study).view(caption, rows),
        "prediction_parts" => parts_table(study).view(caption, rows),
        "prediction_memory" => memory_table(study).view(caption, rows),
        "prediction_layers" => layers(study.text).view(caption, rows),
        "model_modules" => modules::table(study.text, &study.question.llm).view(caption, rows),
        "prediction_batches" => batches(study).view(caption, rows),
        "prediction_calibration" => calibration_table(study).view(caption, rows),
        _ => peaks(study).view(caption, rows),
    }
}

fn varies<T: PartialEq>(values: &[T]) -> bool {
    values.len() > 1
}

fn points<'t>(study: &'t Study<'_>) -> Table<'t, Point> {
    let sweep = &study.question.sweep;
    let generates = study.question.llm.generates();
    let has_prices = !study.question.prices.is_empty();
    let (mut prefill, mut decode) = (None, None);
    if let Some(calibration) = &study.question.calibration {
        (prefill, decode) = (calibration.prefill, calibration.decode);
    }
    columns! { study, "prediction", point: &Point => {
        let prediction = point.prediction.as_ref();
        text "gpu" = study.gpu(point), page;
        text "weights" = point.setup.weights.name, page if varies(&sweep.weights);
        text "kv_cache" = point.setup.kv.name;
        count "tensor_parallel" = point.setup.tensor, page if varies(&sweep.tensor);
        count "pipeline_parallel" = point.setup.pipeline;
        count "expert_parallel" = point.setup.expert;
        count "data_parallel" = point.setup.data;
        count "prompt_tokens" = point.load.prompt, page if varies(&sweep.prompts);
        count "output_tokens" = point.load.output;
        count "batch" = point.load.batch, page;
        time "ttft_ns" = Some(prediction?.ttft), page if generates;
        time "latency_ns" = Some(prediction?.latency), page if !generates;
        time "ttft_estimate_ns" = Some(prediction?.ttft * prefill?), page if prefill.is_some();
        time "ttft_alone_ns" = Some(prediction?.first);
        text "prefill_bound" = Some(study.text.word(prediction?.prefill.bound())), page;
        time "tpot_ns" = prediction?.tpot, page if generates;
        time "tpot_estimate_ns" = Some(prediction?.tpot? * decode?), page if generates && decode.is_some();
        text "decode_bound" = {
            let bound = study.text.word(prediction?.decode.bound());
            generates.then_some(bound)
        }, page if generates;
        TokensPerSecond "decode_tokens_per_second" = prediction?.decode_rate, page if generates;
        One "requests_per_second" = Some(prediction?.requests), page;
        One "price_per_million_tokens" = Some(Ratio(study.price(point)?)), page if generates && has_prices;
        One "requests_in_turns_per_second" = Some(prediction?.in_turns);
        count "chunks" = Some(prediction?.chunks);
        Flop "prefill_flops" = Some(prediction?.prefill.total().flops);
        bytes "prefill_bytes" = Some(prediction?.prefill.total().bytes);
        FlopPerByte "prefill_intensity" = Some(prediction?.prefill.total().intensity());
        time "prefill_communication_ns" = Some(prediction?.prefill.communication);
        Flop "decode_flops" = Some(prediction?.decode.total().flops);
        bytes "decode_bytes" = Some(prediction?.decode.total().bytes);
        FlopPerByte "decode_intensity" = Some(prediction?.decode.total().intensity());
        time "decode_communication_ns" = Some(prediction?.decode.communication);
        bytes "weights_bytes" = Some(prediction?.memory.weights);
        bytes "sequence_bytes" = Some(prediction?.memory.sequence);
        text "fits" = Some(point.load.batch <= prediction?.memory.fits), page;
    } }
}

/// A part of a stage at the load of the first page.
pub(super) struct PartRow<'a> {
    gpu: &'a str,
    setup: Setup,
    stage: &'static str,
    part: Part,
    cost: Cost,
    share: Ratio,
    /// Of the first GPU, format and split.
    pub(super) is_first: bool,
}

/// The parts of prefill and decode on each GPU.
pub(super) fn parts<'a>(study: &Study<'a>) -> Vec<PartRow<'a>> {
    let mut rows = Vec::new();
    for (index, (point, prediction)) in study.of_first_load().into_iter().enumerate() {
        for (stage, pass) in prediction.stages() {
            for part in Part::ALL {
                let cost = *pass.part(part);
                if cost.bound > Seconds::ZERO {
                    rows.push(PartRow {
                        gpu: study.gpu(point),
                        setup: point.setup,
                        stage,
                        part,
                        cost,
                        share: Ratio(cost.bound / pass.time()),
                        is_first: index == 0,
                    });
                }
            }
        }
    }
    rows
}

fn parts_table<'t>(study: &'t Study<'_>) -> Table<'t, PartRow<'t>> {
    columns! { study, "prediction_parts", row: &PartRow<'_> => {
        text "gpu" = row.gpu;
        text "weights" = row.setup.weights.name;
        count "tensor_parallel" = row.setup.tensor;
        text "stage" = study.text.word(row.stage), page;
        text "part" = study.text.word(row.part.name()), page;
        "flops" = row.cost.flops, page;
        "bytes" = row.cost.bytes, page;
        "intensity" = row.cost.intensity(), page;
        "compute_ns" = row.cost.compute, page;
        "memory_ns" = row.cost.memory, page;
        "bound_ns" = row.cost.bound, page;
        "share" = row.share, page;
    } }
}

/// Memory of one GPU.
struct MemoryRow<'m> {
    machine: &'m Machine,
    setup: Setup,
    memory: Memory,
}

fn memories<'q>(study: &Study<'q>) -> Vec<MemoryRow<'q>> {
    let mut rows = Vec::new();
    for (point, prediction) in study.of_first_load() {
        if let Some(machine) = study.machine(point) {
            rows.push(MemoryRow {
                machine,
                setup: point.setup,
                memory: prediction.memory,
            });
        }
    }
    rows
}

fn memory_table<'t>(study: &'t Study<'_>) -> Table<'t, MemoryRow<'t>> {
    let sweep = &study.question.sweep;
    columns! { study, "prediction_memory", row: &MemoryRow<'_> => {
        text "gpu" = row.machine.name.clone(), page;
        text "weights" = row.setup.weights.name, page if varies(&sweep.weights);
        count "tensor_parallel" = row.setup.tensor, page if varies(&sweep.tensor);
        bytes "memory_bytes" = row.machine.memory, page;
        bytes "usable_bytes" = row.memory.usable, page;
        bytes "weights_bytes" = row.memory.weights, page;
        bytes "sequence_bytes" = row.memory.sequence, page;
        count "sequences" = (row.memory.sequence > Bytes::ZERO).then_some(row.memory.fits), page;
    } }
}

/// Kinds of layers, each with how many there are of it.
pub fn layers(text: &'static Catalogue) -> Table<'static, (u64, Layer)> {
    Table::new(text, "prediction_layers")
        .text("attention", |(_, layer): &(u64, Layer)| {
            name(text, layer.mixer)
        })
        .text("feed_forward", |(_, layer)| name(text, layer.feed))
        .count("count", |(count, _)| *count)
        .count("parameters", |(_, layer)| layer.parameters())
        .count("active_parameters", |(_, layer)| layer.active())
        .count("cached_elements", |(_, layer)| {
            layer.cores.iter().map(|core| core.stored).sum::<u64>()
        })
        .count("state_elements", |(_, layer)| {
            layer.state.as_ref().map(|state| state.elements)
        })
        .all_on_page()
}

fn name(text: &Catalogue, name: &'static str) -> Option<String> {
    (!name.is_empty()).then(|| text.word(name).to_owned())
}

fn batches<'t>(study: &'t Study<'_>) -> Table<'t, MachineAdvice<'t>> {
    let (sweep, limits) = (&study.question.sweep, study.question.limits);
    columns! { study, "prediction_batches", row: &MachineAdvice<'_> => {
        text "gpu" = row.machine.name.clone(), page;
        text "weights" = row.setup.weights.name, page if varies(&sweep.weights);
        count "tensor_parallel" = row.setup.tensor, page if varies(&sweep.tensor);
        count "ridge_batch" = row.advice.ridge, page;
        count "sequences" = row.advice.fits, page;
        count "within_ttft" = row.advice.within_ttft, page if limits.ttft.is_some();
        count "within_tpot" = row.advice.within_tpot, page if limits.tpot.is_some();
        count "recommended" = Some(row.recommended()?.0), page;
        time "ttft_ns" = Some(row.recommended()?.1.ttft), page;
        time "tpot_ns" = row.recommended()?.1.tpot, page;
        TokensPerSecond "decode_tokens_per_second" = row.recommended()?.1.decode_rate, page;
    } }
}

impl MachineAdvice<'_> {
    const fn recommended(&self) -> Option<&(u64, Prediction)> {
        self.advice.recommended.as_ref()
    }
}

type PeakRow<'a> = (&'a Machine, &'a Peak);

fn peak_rows<'a>(study: &Study<'a>) -> Vec<PeakRow<'a>> {
    let mut rows = Vec::new();
    let question = study.question;
    for (machine, peaks) in question.sweep.machines.iter().zip(&question.peaks) {
        for peak in peaks {
            rows.push((machine, peak));
        }
    }
    rows
}

fn peaks<'t>(study: &'t Study<'_>) -> Table<'t, PeakRow<'t>> {
    Table::new(study.text, "prediction_peaks")
        .text("gpu", |(machine, _): &PeakRow<'_>| machine.name.clone())
        .text("what", |(_, peak)| peak.name.clone())
        .text("peak", |(_, peak)| Cell::Quantity(peak.rate))
        .text("source", |(_, peak)| peak.source.clone())
        .all_on_page()
}

fn calibration_table<'t>(study: &'t Study<'_>) -> Table<'t, Figure> {
    Table::new(study.text, "prediction_calibration")
        .text("what", |figure: &Figure| figure.name.clone())
        .text("specified", |figure| {
            figure.specified.map_or(Cell::Missing, Cell::Quantity)
        })
        .text("measured", |figure| Cell::Quantity(figure.measured))
        .share("ratio", |figure| figure.ratio)
        .share("error", |figure| figure.error)
        .all_on_page()
}
