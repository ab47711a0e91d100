//! The data sets of a prediction.

use rooflens_document::{Catalogue, Cell, Dataset, Table, View};
use rooflens_llm::{Layer, Part};
use rooflens_schemas::Unit;

use super::Answer;
use crate::{Advice, Cost, Machine, Memory, Point, Prediction, Setup};

/// All data sets.
pub(super) fn all(answer: &Answer<'_>) -> Vec<Dataset> {
    let mut all = vec![
        points(answer).rows(&answer.points),
        parts_table(answer).rows(&parts(answer)),
        memory_table(answer).rows(&memories(answer)),
        layers(answer.text).rows(&answer.of.llm.layers),
        peaks(answer).rows(&peak_rows(answer)),
    ];
    if answer.of.llm.generates() {
        all.push(batches(answer).rows(&answer.advice));
    }
    if let Some(calibration) = &answer.of.calibration {
        all.push(calibration_table(answer).rows(&calibration.figures));
    }
    all
}

/// How pages show one of them.
pub(super) fn view(answer: &Answer<'_>, id: &str, caption: String, rows: usize) -> View {
    match id {
        "prediction" => points(answer).view(caption, rows),
        "prediction_parts" => parts_table(answer).view(caption, rows),
        "prediction_memory" => memory_table(answer).view(caption, rows),
        "prediction_layers" => layers(answer.text).view(caption, rows),
        "prediction_batches" => batches(answer).view(caption, rows),
        "prediction_calibration" => calibration_table(answer).view(caption, rows),
        _ => peaks(answer).view(caption, rows),
    }
}

fn ns(seconds: f64) -> f64 {
    seconds * 1e9
}

fn varies<T: PartialEq>(values: &[T]) -> bool {
    values.len() > 1
}

fn of<'p, T>(value: impl Fn(&Prediction) -> T + 'p) -> impl Fn(&Point) -> Option<T> + 'p {
    move |point| point.prediction.as_ref().map(&value)
}

fn points<'t>(answer: &'t Answer<'_>) -> Table<'t, Point> {
    let sweep = &answer.of.sweep;
    let generates = answer.of.llm.generates();
    let factors = answer
        .of
        .calibration
        .as_ref()
        .map(|one| (one.prefill, one.decode));
    let (prefill, decode) = factors.unwrap_or_default();
    Table::new(answer.text, "prediction")
        .text("gpu", |point: &Point| answer.machine(point).to_owned())
        .on_page()
        .text("weights", |point| point.setup.weights.name)
        .on_page_if(varies(&sweep.weights))
        .text("kv_cache", |point| point.setup.kv.name)
        .count("tensor_parallel", |point| point.setup.tensor)
        .on_page_if(varies(&sweep.tensor))
        .count("pipeline_parallel", |point| point.setup.pipeline)
        .count("expert_parallel", |point| point.setup.expert)
        .count("data_parallel", |point| point.setup.data)
        .count("prompt_tokens", |point| point.load.prompt)
        .on_page_if(varies(&sweep.prompts))
        .count("output_tokens", |point| point.load.output)
        .count("batch", |point| point.load.batch)
        .on_page()
        .time("ttft_ns", of(|found| ns(found.ttft)))
        .on_page_if(generates)
        .time("latency_ns", of(|found| ns(found.latency)))
        .on_page_if(!generates)
        .time(
            "ttft_estimate_ns",
            of(move |found| prefill.map(|factor| ns(found.ttft * factor))).flat(),
        )
        .on_page_if(prefill.is_some())
        .text("prefill_bound", |point| {
            word(answer, point, |found| found.prefill.bound())
        })
        .on_page()
        .time("tpot_ns", of(|found| found.tpot.map(ns)).flat())
        .on_page_if(generates)
        .time(
            "tpot_estimate_ns",
            of(move |found| Some(ns(found.tpot? * decode?))).flat(),
        )
        .on_page_if(generates && decode.is_some())
        .text("decode_bound", move |point| {
            word(answer, point, |found| found.decode.bound()).filter(|_| generates)
        })
        .on_page_if(generates)
        .column(
            "decode_tokens_per_second",
            Unit::TokensPerSecond,
            of(|found| found.decode_rate).flat(),
        )
        .on_page_if(generates)
        .column("requests_per_second", Unit::One, of(|found| found.requests))
        .on_page()
        .count("chunks", of(|found| found.chunks))
        .column(
            "prefill_flops",
            Unit::Flop,
            of(|found| found.prefill.total().flops),
        )
        .bytes("prefill_bytes", of(|found| found.prefill.total().bytes))
        .column(
            "prefill_intensity",
            Unit::FlopPerByte,
            of(|found| found.prefill.total().intensity()),
        )
        .time(
            "prefill_communication_ns",
            of(|found| ns(found.prefill.communication)),
        )
        .column(
            "decode_flops",
            Unit::Flop,
            of(|found| found.decode.total().flops),
        )
        .bytes("decode_bytes", of(|found| found.decode.total().bytes))
        .column(
            "decode_intensity",
            Unit::FlopPerByte,
            of(|found| found.decode.total().intensity()),
        )
        .time(
            "decode_communication_ns",
            of(|found| ns(found.decode.communication)),
        )
        .bytes("weights_bytes", of(|found| found.memory.weights))
        .bytes("sequence_bytes", of(|found| found.memory.sequence))
        .text("fits", |point| {
            point
                .prediction
                .as_ref()
                .map(|found| point.load.batch <= found.memory.fits)
        })
        .on_page()
}

/// What bounds a pass, in words.
fn word(
    answer: &Answer<'_>,
    point: &Point,
    bound: impl Fn(&Prediction) -> &'static str,
) -> Option<String> {
    let bound = bound(point.prediction.as_ref()?);
    Some(answer.text.word(bound).to_owned())
}

/// A value of a value that may be missing.
trait Flat<'p, T> {
    fn flat(self) -> impl Fn(&Point) -> Option<T> + 'p;
}

impl<'p, T, F: Fn(&Point) -> Option<Option<T>> + 'p> Flat<'p, T> for F {
    fn flat(self) -> impl Fn(&Point) -> Option<T> + 'p {
        move |point| self(point).flatten()
    }
}

/// A part of a stage at the load of the first page.
pub(super) struct PartRow<'a> {
    gpu: &'a str,
    setup: Setup,
    stage: &'static str,
    part: Part,
    cost: Cost,
    share: f64,
    /// Of the first GPU, format and split.
    pub(super) first: bool,
}

/// The parts of prefill and decode on each GPU.
pub(super) fn parts<'a>(answer: &Answer<'a>) -> Vec<PartRow<'a>> {
    let mut rows = Vec::new();
    for (index, (point, found)) in answer.of_first_load().into_iter().enumerate() {
        let stages = [("prefill", &found.prefill), ("decode", &found.decode)];
        let stages = stages
            .into_iter()
            .filter(|(stage, _)| *stage == "prefill" || found.tpot.is_some());
        for (stage, pass) in stages {
            let total = pass.seconds();
            for part in Part::ALL {
                let cost = *pass.part(part);
                if cost.seconds > 0.0 {
                    let (gpu, share) = (answer.machine(point), cost.seconds / total);
                    let (setup, first) = (point.setup, index == 0);
                    rows.push(PartRow {
                        gpu,
                        setup,
                        stage,
                        part,
                        cost,
                        share,
                        first,
                    });
                }
            }
        }
    }
    rows
}

fn parts_table<'t>(answer: &'t Answer<'_>) -> Table<'t, PartRow<'t>> {
    Table::new(answer.text, "prediction_parts")
        .text("gpu", |row: &PartRow<'_>| row.gpu.to_owned())
        .text("weights", |row| row.setup.weights.name)
        .count("tensor_parallel", |row| row.setup.tensor)
        .text("stage", |row| answer.text.word(row.stage).to_owned())
        .on_page()
        .text("part", |row| answer.text.word(row.part.name()).to_owned())
        .on_page()
        .column("flops", Unit::Flop, |row| row.cost.flops)
        .on_page()
        .bytes("bytes", |row| row.cost.bytes)
        .on_page()
        .column("intensity", Unit::FlopPerByte, |row| row.cost.intensity())
        .on_page()
        .time("compute_ns", |row| ns(row.cost.compute))
        .on_page()
        .time("memory_ns", |row| ns(row.cost.memory))
        .on_page()
        .time("bound_ns", |row| ns(row.cost.seconds))
        .on_page()
        .share("share", |row| row.share)
        .on_page()
}

/// Memory of one GPU.
struct MemoryRow<'m> {
    machine: &'m Machine,
    setup: Setup,
    memory: Memory,
}

fn memories<'q>(answer: &Answer<'q>) -> Vec<MemoryRow<'q>> {
    let of = |(point, found): (&Point, &Prediction)| {
        let machine = answer.of.sweep.machines.get(point.machine)?;
        Some(MemoryRow {
            machine,
            setup: point.setup,
            memory: found.memory,
        })
    };
    answer.of_first_load().into_iter().filter_map(of).collect()
}

fn memory_table<'t>(answer: &'t Answer<'_>) -> Table<'t, MemoryRow<'t>> {
    Table::new(answer.text, "prediction_memory")
        .text("gpu", |row: &MemoryRow<'_>| row.machine.name.clone())
        .on_page()
        .text("weights", |row| row.setup.weights.name)
        .on_page_if(varies(&answer.of.sweep.weights))
        .count("tensor_parallel", |row| row.setup.tensor)
        .on_page_if(varies(&answer.of.sweep.tensor))
        .bytes("memory_bytes", |row| row.machine.memory)
        .on_page()
        .bytes("usable_bytes", |row| row.memory.usable)
        .on_page()
        .bytes("weights_bytes", |row| row.memory.weights)
        .on_page()
        .bytes("sequence_bytes", |row| row.memory.sequence)
        .on_page()
        .count("sequences", |row| {
            (row.memory.sequence > 0.0).then_some(row.memory.fits)
        })
        .on_page()
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

type BatchRow<'a> = (&'a Machine, Setup, Advice);

fn batches<'t>(answer: &'t Answer<'_>) -> Table<'t, BatchRow<'t>> {
    let limits = answer.of.limits;
    let best = |row: &BatchRow<'_>| row.2.recommended.as_ref().map(|(batch, _)| *batch);
    let at = |row: &BatchRow<'_>| row.2.recommended.as_ref().map(|(_, found)| found.clone());
    Table::new(answer.text, "prediction_batches")
        .text("gpu", |row: &BatchRow<'_>| row.0.name.clone())
        .on_page()
        .text("weights", |row| row.1.weights.name)
        .on_page_if(varies(&answer.of.sweep.weights))
        .count("tensor_parallel", |row| row.1.tensor)
        .on_page_if(varies(&answer.of.sweep.tensor))
        .count("ridge_batch", |row| row.2.ridge)
        .on_page()
        .count("sequences", |row| row.2.fits)
        .on_page()
        .count("within_ttft", |row| row.2.within_ttft)
        .on_page_if(limits.ttft.is_some())
        .count("within_tpot", |row| row.2.within_tpot)
        .on_page_if(limits.tpot.is_some())
        .count("recommended", best)
        .on_page()
        .time("ttft_ns", move |row| at(row).map(|found| ns(found.ttft)))
        .on_page()
        .time("tpot_ns", move |row| {
            at(row).and_then(|found| found.tpot).map(ns)
        })
        .on_page()
        .column(
            "decode_tokens_per_second",
            Unit::TokensPerSecond,
            move |row| at(row).and_then(|found| found.decode_rate),
        )
        .on_page()
}

type PeakRow = (String, String, f64, String);

fn peak_rows(answer: &Answer<'_>) -> Vec<PeakRow> {
    let machines = answer.of.sweep.machines.iter().zip(&answer.of.sources);
    let rows = machines.flat_map(|(machine, sources)| {
        let row = |(what, value, source): &(String, f64, String)| {
            (machine.name.clone(), what.clone(), *value, source.clone())
        };
        sources.iter().map(row).collect::<Vec<PeakRow>>()
    });
    rows.collect()
}

fn peaks<'t>(answer: &'t Answer<'_>) -> Table<'t, PeakRow> {
    let value = |(_, what, value, _): &PeakRow| {
        let unit = match what.as_str() {
            "memory" | "interconnect" => Unit::BytesPerSecond,
            _ => Unit::FlopPerSecond,
        };
        Cell::Quantity(rooflens_document::Quantity::new(*value, unit))
    };
    Table::new(answer.text, "prediction_peaks")
        .text("gpu", |row: &PeakRow| row.0.clone())
        .text("what", |row| row.1.clone())
        .text("peak", value)
        .text("source", |row| row.3.clone())
        .all_on_page()
}

fn calibration_table<'t>(answer: &'t Answer<'_>) -> Table<'t, crate::Figure> {
    Table::new(answer.text, "prediction_calibration")
        .text("what", |row: &crate::Figure| row.what.clone())
        .text("specified", |row| {
            row.specified.map_or(Cell::Missing, Cell::Quantity)
        })
        .text("measured", |row| Cell::Quantity(row.measured))
        .share("ratio", |row| row.ratio)
        .share("error", |row| row.error)
        .all_on_page()
}
