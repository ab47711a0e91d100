//! Predictions as a document: bounds, batch sizes, parts, memory, architecture, assumptions.

mod assumptions;
mod charts;
pub mod modules;
mod tables;
mod tiles;

use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Inline, Quantity, SectionContent, method, prose, say, words,
};
use rooflens_llm::{Llm, Module};
use rooflens_schemas::{Metric, Scope, Unit};
use rooflens_units::Seconds;

use rooflens_document::catalogue::{PREDICTED_OUTPUT_THROUGHPUT, PREDICTED_TPOT, PREDICTED_TTFT};

pub use tables::layers as layer_table;

use crate::setup::inputs;
use crate::{
    Advice, Calibration, Limits, Load, Machine, Pass, Plan, Point, Prediction, Setup, Sweep,
    advise, sweep,
};

/// Price of a million tokens at a price of an hour and a rate per second.
pub(crate) fn price_per_million(hour: f64, tokens_per_second: f64) -> f64 {
    hour / 3600.0 * 1e6 / tokens_per_second
}

/// Rows of a table on a page.
const ROWS: usize = 24;

/// Rows of the bounds on the first page: no more are said again.
const FIRST_ROWS: usize = 12;

/// A model, settings, and the words for their predictions.
#[derive(Clone, Debug)]
pub struct Question {
    /// The words.
    pub text: &'static Catalogue,
    /// What people call the model.
    pub title: String,
    /// The config's file.
    pub source: String,
    /// SHA-256 of the config.
    pub identity: String,
    /// The model.
    pub llm: Llm,
    /// GPUs, formats, splits, prompts and batches.
    pub sweep: Sweep,
    /// The peaks of each machine with their sources, in the order of the sweep.
    pub peaks: Vec<Vec<Peak>>,
    /// How the model is served, where the sweep does not say.
    pub setup: Setup,
    /// Generated tokens.
    pub output: u64,
    /// Limits of latency.
    pub limits: Limits,
    /// Price of a GPU-hour of each machine, if prices were given.
    pub prices: Vec<f64>,
    /// What measured rates say, if any were given.
    pub calibration: Option<Calibration>,
}

/// A peak of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// A dtype, `memory` or `interconnect`.
    pub name: String,
    /// Rate or bandwidth.
    pub rate: Quantity,
    /// Datasheet or file.
    pub source: String,
}

/// A question with all of its predictions.
struct Study<'q> {
    text: &'static Catalogue,
    question: &'q Question,
    points: Vec<Point>,
    /// Of each machine, format and split: the advice for the first prompt.
    advice: Vec<MachineAdvice<'q>>,
}

/// Batch sizes of one machine, format and split.
struct MachineAdvice<'q> {
    machine: &'q Machine,
    setup: Setup,
    advice: Advice,
}

impl<'q> Study<'q> {
    fn new(question: &'q Question) -> Self {
        let points = sweep(
            &question.llm,
            &question.sweep,
            &question.setup,
            question.output,
        );
        let advice = advice(question, &points);
        Self {
            text: question.text,
            question,
            points,
            advice,
        }
    }

    fn machine(&self, point: &Point) -> Option<&'q Machine> {
        self.question.sweep.machines.get(point.machine)
    }

    fn gpu(&self, point: &Point) -> &'q str {
        self.machine(point)
            .map_or("", |machine| machine.name.as_str())
    }

    /// Price of a million output tokens of a point, at least: at the bounds.
    fn price(&self, point: &Point) -> Option<f64> {
        let hour = self.question.prices.get(point.machine)?;
        let setup = &point.setup;
        let gpus = setup.tensor * setup.pipeline * setup.data;
        let requests = point.prediction.as_ref()?.requests.0;
        let tokens = requests * point.load.output as f64;
        (tokens > 0.0).then(|| price_per_million(*hour * gpus as f64, tokens))
    }

    /// The GPU of a point, with the format and split that tell it from others of its batch.
    fn label(&self, point: &Point) -> String {
        let machine = self.machine(point);
        machine.map_or_else(String::new, |machine| self.name(machine, &point.setup))
    }

    fn name(&self, machine: &Machine, setup: &Setup) -> String {
        let sweep = &self.question.sweep;
        let mut name = machine.name.clone();
        if sweep.weights.len() > 1 {
            name = format!("{name} {}", setup.weights.name);
        }
        if sweep.tensor.len() > 1 {
            name = format!("{name} TP{}", setup.tensor);
        }
        name
    }

    /// The first point that can be computed at all: the subject of the first page.
    fn headline(&self) -> Option<(&Point, &Prediction)> {
        self.points.iter().find_map(Point::predicted)
    }

    /// The points of the first prompt and batch: one for each GPU, format and split.
    fn of_first_load(&self) -> Vec<(&Point, &Prediction)> {
        let Some((first, _)) = self.headline() else {
            return Vec::new();
        };
        let points = self.points.iter().filter(|point| point.load == first.load);
        points.filter_map(Point::predicted).collect()
    }
}

impl Point {
    /// The point with its bounds, if it has any.
    fn predicted(&self) -> Option<(&Self, &Prediction)> {
        Some((self, self.prediction.as_ref()?))
    }
}

impl Study<'_> {
    /// The modules in the pass that reads the first prompt.
    fn modules(&self) -> Vec<Module> {
        let question = self.question;
        modules::of_prompt(&question.llm, question.prompt(), question.images())
    }
}

impl Question {
    /// Tokens of the first prompt.
    fn prompt(&self) -> u64 {
        self.sweep.prompts.first().copied().unwrap_or(1)
    }

    /// Images, sounds or texts that a prompt has.
    fn images(&self) -> u64 {
        inputs(&self.llm, self.setup.images)
    }
}

/// The advice for each machine, format and split among the points.
fn advice<'q>(question: &'q Question, points: &[Point]) -> Vec<MachineAdvice<'q>> {
    let load = Load {
        batch: 1,
        prompt: question.prompt(),
        output: question.output,
    };
    let request = (load.bounded(), question.limits);
    let mut advised: Vec<(usize, Setup)> = Vec::new();
    let mut advice = Vec::new();
    for point in points {
        let Some(machine) = question.sweep.machines.get(point.machine) else {
            continue;
        };
        let (llm, setup) = (question.llm.reading(load.prompt), point.setup);
        if advised.contains(&(point.machine, setup)) {
            continue;
        }
        advised.push((point.machine, setup));
        if let Some(plan) = Plan::new(&llm, machine, &setup) {
            advice.push(MachineAdvice {
                machine,
                setup,
                advice: advise(&plan, &llm, machine, &setup, request),
            });
        }
    }
    advice
}

/// The bounds of a point, as `rooflens serve-report --predicted` reads them.
fn metrics(study: &Study<'_>, point: &Point) -> Vec<Metric> {
    let Some(prediction) = &point.prediction else {
        return Vec::new();
    };
    let load = &point.load;
    let basis = format!(
        "{}, {}, tensor parallel {}, batch {}, prompt {}, output {}",
        study.gpu(point),
        point.setup.weights.name,
        point.setup.tensor,
        load.batch,
        load.prompt,
        load.output
    );
    let (prefill, decode) = (scope(&prediction.prefill), scope(&prediction.decode));
    let ttft = prediction.first.time().0;
    let mut metrics = vec![PREDICTED_TTFT.derived(prefill, ttft, &*basis)];
    if let Some(tpot) = prediction.tpot {
        let rate = prediction.requests.0 * load.output as f64;
        metrics.push(PREDICTED_TPOT.derived(decode.clone(), tpot.time().0, &*basis));
        metrics.push(PREDICTED_OUTPUT_THROUGHPUT.derived(decode, rate, &*basis));
    }
    metrics
}

/// A scope that names what bounds a pass.
fn scope(pass: &Pass) -> Scope {
    Scope {
        class: Some(pass.bound().to_owned()),
        ..Scope::default()
    }
}

/// The document.
pub fn report(question: &Question) -> Report {
    let study = Study::new(question);
    let provenance = provenance(&study);
    let mut document = Document::new(question.text, &provenance);
    let mut metrics: Vec<Metric> = study
        .points
        .iter()
        .flat_map(|point| metrics(&study, point))
        .collect();
    metrics.extend(modules::metrics(
        &study.modules(),
        question.prompt(),
        question.images(),
    ));
    document.summary(SectionContent {
        conclusion: tiles::conclusion(&study),
        blocks: summary(&study),
        datasets: tables::all(&study),
        metrics,
        methods: vec![
            method!(study, "predict.bound"),
            method!(study, "predict.work"),
            method!(study, "predict.parallel"),
            method!(study, "modules"),
        ],
        ..SectionContent::default()
    });
    let assumptions = vec![Block::Bullets(assumptions::all(&study))];
    let sections = [
        ("bounds", words!(study, "predict.bounds"), bounds(&study)),
        ("batches", words!(study, "predict.batches"), batches(&study)),
        ("parts", words!(study, "predict.parts"), parts(&study)),
        ("memory", words!(study, "predict.memory"), memory(&study)),
        (
            "architecture",
            words!(study, "predict.architecture"),
            llm(&study),
        ),
        (
            "calibration",
            words!(study, "predict.calibration"),
            calibration(&study),
        ),
        (
            "assumptions",
            words!(study, "predict.assumptions"),
            assumptions,
        ),
    ];
    for (id, title, blocks) in sections {
        document.section(id, &title, blocks);
    }
    let title = words!(study, "predict.peaks");
    let peaks = SectionContent {
        blocks: vec![table(&study, "prediction_peaks", title.clone(), 200)],
        ..SectionContent::default()
    };
    document.section("peaks", &title, peaks);
    document.build()
}

/// A view of the first rows of a data set.
fn table(study: &Study<'_>, id: &'static str, caption: String, rows: usize) -> Block {
    Block::Table(tables::view(study, id, caption, rows))
}

/// A time as pages show it.
fn shown(time: Seconds) -> String {
    Quantity::from(time).to_string()
}

fn provenance<'q>(study: &Study<'q>) -> Provenance<'q> {
    let question = study.question;
    let names: Vec<&str> = question
        .sweep
        .machines
        .iter()
        .map(|machine| machine.name.as_str())
        .collect();
    let facts = vec![
        (words!(study, "predict.model"), question.title.clone()),
        (
            words!(study, "predict.gpus"),
            names.join(study.text.comma()),
        ),
        (words!(study, "predict.config"), question.source.clone()),
    ];
    let title = words!(study, "predict.title", model = question.title.as_str());
    Provenance {
        bundle: &question.source,
        bundle_id: &question.identity,
        title: Some(title),
        facts,
        ..Provenance::default()
    }
}

fn summary(study: &Study<'_>) -> Vec<Block> {
    let Some((point, prediction)) = study.headline() else {
        return vec![Block::Prose(say!(study, "predict.no_rate"))];
    };
    let gpu = study.gpu(point);
    let mut blocks = vec![
        Block::Tiles(tiles::tiles(study, point, prediction)),
        Block::Prose(conclusion(study, point, prediction, gpu)),
    ];
    blocks.extend(assumptions::impossible(study).into_iter().map(Block::Prose));
    if let Some(MachineAdvice { advice, .. }) =
        study.advice.first().filter(|_| prediction.tpot.is_some())
    {
        blocks.push(Block::Prose(capacity(study, point, prediction, advice)));
        blocks.extend(recommendation(study, advice).map(Block::Prose));
    }
    blocks.extend(charts::first_page(study).map(Block::Chart));
    blocks.push(table(study, "prediction", caption(study), FIRST_ROWS));
    let basis = match &study.question.calibration {
        Some(_) => say!(study, "predict.basis_measured"),
        None => say!(study, "predict.basis_specified"),
    };
    blocks.push(Block::Prose(basis));
    blocks
}

fn conclusion(study: &Study<'_>, point: &Point, prediction: &Prediction, gpu: &str) -> Vec<Inline> {
    let load = point.load.bounded();
    let Some((tpot, rate)) = prediction.tpot.zip(prediction.decode_rate) else {
        return say!(
            study,
            "predict.conclusion_encoder",
            gpu = Inline::strong(gpu),
            batch = Quantity::count(load.batch),
            time = prediction.ttft,
            bound = study.text.word(bound_word(prediction.prefill.bound())),
            rate = Quantity::count(prediction.requests.0 as u64),
        );
    };
    let (batch, prompt) = (Quantity::count(load.batch), Quantity::count(load.prompt));
    let (ttft, tpot) = (shown(prediction.ttft), shown(tpot));
    let gpu = Inline::strong(gpu);
    let prefill = study.text.word(bound_word(prediction.prefill.bound()));
    let decode = study.text.word(bound_word(prediction.decode.bound()));
    let (ttft, tpot) = (Inline::strong(ttft), Inline::strong(tpot));
    match study.question.calibration {
        None => say!(
            study,
            "predict.conclusion",
            gpu = gpu,
            batch = batch,
            prompt = prompt,
            ttft = ttft,
            tpot = tpot,
            rate = rate,
            prefill = prefill,
            decode = decode,
        ),
        Some(_) => say!(
            study,
            "predict.conclusion_measured",
            gpu = gpu,
            batch = batch,
            prompt = prompt,
            ttft = ttft,
            tpot = tpot,
            rate = rate,
            prefill = prefill,
            decode = decode,
        ),
    }
}

/// The caption of the table of points.
fn caption(study: &Study<'_>) -> String {
    match study.question.calibration {
        None => words!(study, "predict.table"),
        Some(_) => words!(study, "predict.table_measured"),
    }
}

/// The catalogue's word for what bounds a pass.
const fn bound_word(bound: &str) -> &'static str {
    match bound.as_bytes() {
        b"compute" => "compute-bound",
        b"memory" => "memory-bound",
        _ => "communication-bound",
    }
}

fn capacity(
    study: &Study<'_>,
    point: &Point,
    prediction: &Prediction,
    advice: &Advice,
) -> Vec<Inline> {
    let memory = &prediction.memory;
    let fits = prediction.memory.fits;
    let weights = memory.weights;
    if fits == 0 && memory.weights >= memory.usable {
        return say!(
            study,
            "predict.too_large",
            weights = weights,
            usable = memory.usable
        );
    }
    let ridge = advice.ridge.map(Quantity::count);
    let mut capacity = say!(
        study,
        "predict.capacity",
        weights = weights,
        usable = memory.usable,
        fits = Quantity::count(fits),
        context = Quantity::count(point.load.bounded().context()),
    );
    if prediction.tpot.is_some() {
        capacity.push(study.text.space().into());
        capacity.extend(match ridge {
            Some(ridge) => say!(study, "predict.ridge", ridge = ridge),
            None => say!(study, "predict.no_ridge"),
        });
    }
    capacity
}

fn recommendation(study: &Study<'_>, advice: &Advice) -> Option<Vec<Inline>> {
    let Limits { ttft, tpot } = study.question.limits;
    if ttft.is_none() && tpot.is_none() {
        return None;
    }
    let mut limits = Vec::new();
    for (name, limit) in [("TTFT", ttft), ("TPOT", tpot)] {
        if let Some(limit) = limit {
            limits.push(format!("{name} ≤ {}", shown(limit)));
        }
    }
    let limits = limits.join(study.text.comma());
    let Some((batch, prediction)) = &advice.recommended else {
        return Some(say!(study, "predict.not_within", limits = limits));
    };
    Some(say!(
        study,
        "predict.recommended",
        batch = Quantity::count(*batch),
        limits = limits,
        rate = prediction.decode_rate,
    ))
}

fn bounds(study: &Study<'_>) -> Vec<Block> {
    let rows = study.points.len();
    let mut blocks = Vec::new();
    if rows > FIRST_ROWS {
        blocks.push(table(study, "prediction", caption(study), ROWS));
    }
    if rows > ROWS {
        blocks.push(Block::Prose(say!(
            study,
            "predict.all_points",
            rows = Quantity::count(rows as u64)
        )));
    }
    blocks.extend(charts::by_machine(study).into_iter().map(Block::Chart));
    blocks
}

fn batches(study: &Study<'_>) -> Vec<Block> {
    if !study.question.llm.generates() {
        return Vec::new();
    }
    let mut blocks = vec![table(
        study,
        "prediction_batches",
        words!(study, "predict.batch_table"),
        ROWS,
    )];
    blocks.extend(charts::by_batch(study).map(Block::Chart));
    blocks
}

fn parts(study: &Study<'_>) -> Vec<Block> {
    let Some((point, _)) = study.headline() else {
        return Vec::new();
    };
    let caption = words!(
        study,
        "predict.parts_table",
        gpu = study.gpu(point),
        batch = Quantity::count(point.load.batch),
    );
    let shown = tables::parts(study)
        .iter()
        .filter(|row| row.is_first)
        .count();
    let mut blocks = vec![table(study, "prediction_parts", caption, shown)];
    blocks.extend(charts::roofline(study).map(Block::Chart));
    blocks
}

fn memory(study: &Study<'_>) -> Vec<Block> {
    vec![table(
        study,
        "prediction_memory",
        words!(study, "predict.memory_table"),
        ROWS,
    )]
}

fn llm(study: &Study<'_>) -> Vec<Block> {
    let (question, llm) = (study.question, &study.question.llm);
    let count = |value: u64| prose![Quantity::count(value)];
    let mut facts = vec![
        (
            words!(study, "predict.family"),
            prose![Inline::code(llm.family.as_str())],
        ),
        (words!(study, "predict.parameters"), count(llm.parameters())),
    ];
    if llm.outline.experts > 0 {
        facts.push((
            words!(study, "predict.active"),
            count(llm.active_parameters()),
        ));
    }
    facts.push((words!(study, "predict.layers"), count(llm.depth())));
    facts.push((words!(study, "predict.hidden"), count(llm.hidden)));
    if llm.generates() {
        let entry = rooflens_llm::kv_bytes_per_token(llm, question.setup.kv.element);
        let text = say!(
            study,
            "predict.kv_entry",
            bytes = entry,
            kv = question.setup.kv.name
        );
        facts.push((words!(study, "predict.kv_per_token"), text));
    }
    let mut blocks = vec![Block::Facts(facts)];
    blocks.push(table(
        study,
        "prediction_layers",
        words!(study, "predict.layer_table"),
        ROWS,
    ));
    let images = Some(question.images()).filter(|images| *images > 0);
    let caption = words!(
        study,
        "modules.caption",
        prompt = Quantity::count(question.prompt()),
        images = images.map(Quantity::count),
    );
    blocks.push(table(study, "model_modules", caption, modules::ROWS));
    blocks
}

fn calibration(study: &Study<'_>) -> Vec<Block> {
    let Some(calibration) = &study.question.calibration else {
        return Vec::new();
    };
    let mut blocks = vec![Block::Prose(say!(
        study,
        "predict.calibrated",
        source = Inline::code(calibration.source.as_str()),
    ))];
    let mut factors = Vec::new();
    for (stage, factor) in [
        ("prefill", calibration.prefill),
        ("decode", calibration.decode),
    ] {
        if let Some(factor) = factor {
            let factor = Quantity::new(factor.0, Unit::One);
            factors.push(format!("{} × {factor}", study.text.word(stage)));
        }
    }
    if !factors.is_empty() {
        let factors = factors.join(study.text.comma());
        blocks.push(Block::Prose(say!(
            study,
            "predict.calibrated_stages",
            factors = factors
        )));
    }
    if calibration.cases > 0 {
        let cases = Quantity::count(calibration.cases as u64);
        blocks.push(Block::Prose(say!(
            study,
            "predict.calibrated_cases",
            cases = cases
        )));
    }
    blocks.push(table(
        study,
        "prediction_calibration",
        words!(study, "predict.calibration_table"),
        ROWS,
    ));
    blocks
}
