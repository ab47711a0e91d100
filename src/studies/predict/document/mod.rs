//! Predictions as a document: bounds, batch sizes, parts, memory, architecture, assumptions.

mod assumptions;
mod charts;
mod tables;

use rooflens_document::report::{Meta, Report, Section};
use rooflens_document::{Block, Catalogue, Inline, Quantity, method, prose, say, words};
use rooflens_llm::Llm;
use rooflens_schemas::{Metric, Scope, Tool, Unit};

use rooflens_document::catalogue::{PREDICTED_OUTPUT_THROUGHPUT, PREDICTED_TPOT, PREDICTED_TTFT};

pub use tables::layers as layer_table;

use crate::{
    Advice, Calibration, Limits, Machine, Pass, Plan, Point, Prediction, Setup, Sweep, advise,
    sweep,
};

/// Rows of a table on a page.
const ROWS: usize = 24;

/// Rows of the bounds on the first page: no more are said again.
const FIRST_ROWS: usize = 12;

/// What is to be predicted, and what of.
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
    /// Where each machine's figures are from, in the order of the sweep: what, value per second, source.
    pub sources: Vec<Vec<(String, f64, String)>>,
    /// How the model is served, where the sweep does not say.
    pub setup: Setup,
    /// Generated tokens.
    pub output: u64,
    /// Limits of latency.
    pub limits: Limits,
    /// What measured rates say, if any were given.
    pub calibration: Option<Calibration>,
}

/// Everything that was computed.
struct Answer<'q> {
    text: &'static Catalogue,
    of: &'q Question,
    points: Vec<Point>,
    /// Of each machine, format and split: the advice for the first prompt.
    advice: Vec<(&'q Machine, Setup, Advice)>,
}

impl<'q> Answer<'q> {
    fn new(of: &'q Question) -> Self {
        let points = sweep(&of.llm, &of.sweep, &of.setup, of.output);
        let load = crate::Load {
            batch: 1,
            prompt: of.sweep.prompts.first().copied().unwrap_or(1),
            output: of.output,
        };
        let mut advice: Vec<(&Machine, Setup, Advice)> = Vec::new();
        for point in &points {
            let Some(machine) = of.sweep.machines.get(point.machine) else {
                continue;
            };
            let known = |(other, setup, _): &(&Machine, Setup, Advice)| {
                std::ptr::eq(*other, machine) && *setup == point.setup
            };
            if advice.iter().any(known) {
                continue;
            }
            if let Some(plan) = Plan::new(&of.llm, machine, &point.setup) {
                let asked = (load.bounded(), of.limits);
                let found = advise(&plan, &of.llm, machine, &point.setup, asked);
                advice.push((machine, point.setup, found));
            }
        }
        Self {
            text: of.text,
            of,
            points,
            advice,
        }
    }

    fn machine(&self, point: &Point) -> &'q str {
        self.of
            .sweep
            .machines
            .get(point.machine)
            .map_or("", |machine| machine.name.as_str())
    }

    /// The GPU of a point, with what else tells it from others of its batch.
    fn label(&self, point: &Point) -> String {
        let machine = self.of.sweep.machines.get(point.machine);
        machine.map_or_else(String::new, |machine| self.name(machine, &point.setup))
    }

    fn name(&self, machine: &Machine, setup: &Setup) -> String {
        let sweep = &self.of.sweep;
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
        self.points
            .iter()
            .find_map(|point| Some((point, point.prediction.as_ref()?)))
    }

    /// The points of the first prompt and batch: one a GPU, format and split.
    fn of_first_load(&self) -> Vec<(&Point, &Prediction)> {
        let Some((first, _)) = self.headline() else {
            return Vec::new();
        };
        let alike = |point: &&Point| point.load == first.load;
        let points = self.points.iter().filter(alike);
        points
            .filter_map(|point| Some((point, point.prediction.as_ref()?)))
            .collect()
    }
}

/// The bounds of a point, as `rooflens serve-report --predicted` reads them.
fn metrics(answer: &Answer<'_>, point: &Point) -> Vec<Metric> {
    let Some(found) = &point.prediction else {
        return Vec::new();
    };
    let load = &point.load;
    let basis = format!(
        "{}, {}, tensor parallel {}, batch {}, prompt {}, output {}",
        answer.machine(point),
        point.setup.weights.name,
        point.setup.tensor,
        load.batch,
        load.prompt,
        load.output
    );
    let scope = |pass: &Pass| Scope {
        class: Some(pass.bound().to_owned()),
        ..Scope::default()
    };
    let (prefill, decode) = (scope(&found.prefill), scope(&found.decode));
    let rate = found.requests * load.output as f64;
    let tpot = found
        .tpot
        .map(|tpot| PREDICTED_TPOT.derived(decode.clone(), tpot * 1e9, &*basis));
    let rate = tpot
        .is_some()
        .then(|| PREDICTED_OUTPUT_THROUGHPUT.derived(decode, rate, &*basis));
    let ttft = PREDICTED_TTFT.derived(prefill, found.ttft * 1e9, &*basis);
    std::iter::once(ttft).chain(tpot).chain(rate).collect()
}

/// The document.
pub fn report(question: &Question) -> Report {
    let answer = Answer::new(question);
    let mut report = Report {
        text: question.text,
        meta: meta(&answer),
        summary: summary(&answer),
        datasets: tables::all(&answer),
        metrics: answer
            .points
            .iter()
            .flat_map(|point| metrics(&answer, point))
            .collect(),
        methods: vec![
            method!(answer, "predict.bound"),
            method!(answer, "predict.work"),
            method!(answer, "predict.parallel"),
        ],
        ..Report::default()
    };
    let mut add = |id: &str, title: String, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            report.sections.push(Section {
                id: id.to_owned(),
                title,
                blocks,
            });
        }
    };
    add("bounds", words!(answer, "predict.bounds"), bounds(&answer));
    add(
        "batches",
        words!(answer, "predict.batches"),
        batches(&answer),
    );
    add("parts", words!(answer, "predict.parts"), parts(&answer));
    add("memory", words!(answer, "predict.memory"), memory(&answer));
    add(
        "architecture",
        words!(answer, "predict.architecture"),
        architecture(&answer),
    );
    add(
        "calibration",
        words!(answer, "predict.calibration"),
        calibration(&answer),
    );
    let assumptions = vec![Block::Bullets(assumptions::all(&answer))];
    add(
        "assumptions",
        words!(answer, "predict.assumptions"),
        assumptions,
    );
    let peaks = vec![table(
        &answer,
        "prediction_peaks",
        words!(answer, "predict.peaks"),
        200,
    )];
    report.appendix.push(Section {
        id: "peaks".to_owned(),
        title: words!(answer, "predict.peaks"),
        blocks: peaks,
    });
    report
}

/// A view of the first rows of a data set.
fn table(answer: &Answer<'_>, id: &'static str, caption: String, rows: usize) -> Block {
    Block::Table(tables::view(answer, id, caption, rows))
}

fn seconds(value: f64) -> Quantity {
    Quantity::new(value * 1e9, Unit::Nanoseconds)
}

fn tokens_per_second(value: f64) -> Quantity {
    Quantity::new(value, Unit::TokensPerSecond)
}

fn bytes(value: f64) -> Quantity {
    Quantity::new(value, Unit::Bytes)
}

fn meta(answer: &Answer<'_>) -> Meta {
    let of = answer.of;
    let names: Vec<&str> = of
        .sweep
        .machines
        .iter()
        .map(|machine| machine.name.as_str())
        .collect();
    let facts = vec![
        (words!(answer, "predict.model"), of.title.clone()),
        (
            words!(answer, "predict.gpus"),
            names.join(answer.text.comma()),
        ),
        (words!(answer, "predict.config"), of.source.clone()),
    ];
    Meta {
        title: words!(answer, "predict.title", model = of.title.as_str()),
        bundle: of.source.clone(),
        bundle_id: of.identity.clone(),
        captured_at: None,
        generator: Tool {
            name: "rooflens".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        },
        facts,
    }
}

fn summary(answer: &Answer<'_>) -> Vec<Block> {
    let Some((point, found)) = answer.headline() else {
        return vec![Block::Prose(say!(answer, "predict.no_rate"))];
    };
    let gpu = answer.machine(point);
    let mut blocks = vec![Block::Prose(conclusion(answer, point, found, gpu))];
    if let Some((_, _, advice)) = answer.advice.first().filter(|_| found.tpot.is_some()) {
        blocks.push(Block::Prose(capacity(answer, point, found, advice)));
        blocks.extend(recommendation(answer, advice).map(Block::Prose));
    }
    blocks.push(table(answer, "prediction", caption(answer), FIRST_ROWS));
    let basis = match &answer.of.calibration {
        Some(_) => say!(answer, "predict.basis_measured"),
        None => say!(answer, "predict.basis_specified"),
    };
    blocks.push(Block::Prose(basis));
    blocks
}

fn conclusion(answer: &Answer<'_>, point: &Point, found: &Prediction, gpu: &str) -> Vec<Inline> {
    let load = point.load.bounded();
    let Some((tpot, rate)) = found.tpot.zip(found.decode_rate) else {
        return say!(
            answer,
            "predict.conclusion_encoder",
            gpu = Inline::strong(gpu),
            batch = Quantity::count(load.batch),
            time = seconds(found.ttft),
            bound = answer.text.word(bound_word(found.prefill.bound())),
            rate = Quantity::count(found.requests as u64),
        );
    };
    let (batch, prompt) = (Quantity::count(load.batch), Quantity::count(load.prompt));
    let (ttft, tpot) = (seconds(found.ttft).to_string(), seconds(tpot).to_string());
    let (gpu, rate) = (Inline::strong(gpu), tokens_per_second(rate));
    let prefill = answer.text.word(bound_word(found.prefill.bound()));
    let decode = answer.text.word(bound_word(found.decode.bound()));
    let (ttft, tpot) = (Inline::strong(ttft), Inline::strong(tpot));
    match answer.of.calibration {
        None => say!(
            answer,
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
            answer,
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
fn caption(answer: &Answer<'_>) -> String {
    match answer.of.calibration {
        None => words!(answer, "predict.table"),
        Some(_) => words!(answer, "predict.table_measured"),
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
    answer: &Answer<'_>,
    point: &Point,
    found: &Prediction,
    advice: &Advice,
) -> Vec<Inline> {
    let memory = &found.memory;
    let fits = found.memory.fits;
    let weights = bytes(memory.weights);
    if fits == 0 && memory.weights >= memory.usable {
        return say!(
            answer,
            "predict.too_large",
            weights = weights,
            usable = bytes(memory.usable)
        );
    }
    let ridge = advice.ridge.map(Quantity::count);
    let mut said = say!(
        answer,
        "predict.capacity",
        weights = weights,
        usable = bytes(memory.usable),
        fits = Quantity::count(fits),
        context = Quantity::count(point.load.bounded().context()),
    );
    if found.tpot.is_some() {
        said.push(answer.text.space().into());
        said.extend(match ridge {
            Some(ridge) => say!(answer, "predict.ridge", ridge = ridge),
            None => say!(answer, "predict.no_ridge"),
        });
    }
    said
}

fn recommendation(answer: &Answer<'_>, advice: &Advice) -> Option<Vec<Inline>> {
    let Limits { ttft, tpot } = answer.of.limits;
    if ttft.is_none() && tpot.is_none() {
        return None;
    }
    let (ttft, tpot) = (
        ttft.map(|limit| ("TTFT", limit)),
        tpot.map(|limit| ("TPOT", limit)),
    );
    let limits = ttft
        .into_iter()
        .chain(tpot)
        .map(|(what, limit)| format!("{what} ≤ {}", seconds(limit)));
    let limits = limits.collect::<Vec<String>>().join(answer.text.comma());
    let Some((batch, at)) = &advice.recommended else {
        return Some(say!(answer, "predict.not_within", limits = limits));
    };
    Some(say!(
        answer,
        "predict.recommended",
        batch = Quantity::count(*batch),
        limits = limits,
        rate = at.decode_rate.map(tokens_per_second),
    ))
}

fn bounds(answer: &Answer<'_>) -> Vec<Block> {
    let rows = answer.points.len();
    let mut blocks = Vec::new();
    if rows > FIRST_ROWS {
        blocks.push(table(answer, "prediction", caption(answer), ROWS));
    }
    if rows > ROWS {
        blocks.push(Block::Prose(say!(
            answer,
            "predict.all_points",
            rows = Quantity::count(rows as u64)
        )));
    }
    blocks.extend(charts::by_machine(answer).map(Block::Chart));
    blocks
}

fn batches(answer: &Answer<'_>) -> Vec<Block> {
    if !answer.of.llm.generates() {
        return Vec::new();
    }
    let mut blocks = vec![table(
        answer,
        "prediction_batches",
        words!(answer, "predict.batch_table"),
        ROWS,
    )];
    blocks.extend(charts::by_batch(answer).into_iter().map(Block::Chart));
    blocks
}

fn parts(answer: &Answer<'_>) -> Vec<Block> {
    let Some((point, _)) = answer.headline() else {
        return Vec::new();
    };
    let caption = words!(
        answer,
        "predict.parts_table",
        gpu = answer.machine(point),
        batch = Quantity::count(point.load.batch),
    );
    let shown = tables::parts(answer).iter().filter(|row| row.first).count();
    let mut blocks = vec![table(answer, "prediction_parts", caption, shown)];
    blocks.extend(charts::roofline(answer).map(Block::Chart));
    blocks
}

fn memory(answer: &Answer<'_>) -> Vec<Block> {
    vec![table(
        answer,
        "prediction_memory",
        words!(answer, "predict.memory_table"),
        ROWS,
    )]
}

fn architecture(answer: &Answer<'_>) -> Vec<Block> {
    let (of, llm) = (answer.of, &answer.of.llm);
    let count = |value: u64| prose![Quantity::count(value)];
    let mut facts = vec![
        (
            words!(answer, "predict.family"),
            prose![Inline::code(llm.family.as_str())],
        ),
        (
            words!(answer, "predict.parameters"),
            count(llm.parameters()),
        ),
    ];
    if llm.outline.experts > 0 {
        facts.push((
            words!(answer, "predict.active"),
            count(llm.active_parameters()),
        ));
    }
    facts.push((words!(answer, "predict.layers"), count(llm.depth())));
    facts.push((words!(answer, "predict.hidden"), count(llm.hidden)));
    if llm.generates() {
        let entry = rooflens_llm::kv_bytes_per_token(llm, of.setup.kv.bytes);
        let text = say!(
            answer,
            "predict.kv_entry",
            bytes = bytes(entry),
            kv = of.setup.kv.name
        );
        facts.push((words!(answer, "predict.kv_per_token"), text));
    }
    let mut blocks = vec![Block::Facts(facts)];
    blocks.push(table(
        answer,
        "prediction_layers",
        words!(answer, "predict.layer_table"),
        ROWS,
    ));
    blocks
}

fn calibration(answer: &Answer<'_>) -> Vec<Block> {
    let Some(calibration) = &answer.of.calibration else {
        return Vec::new();
    };
    let mut blocks = vec![Block::Prose(say!(
        answer,
        "predict.calibrated",
        source = Inline::code(calibration.source.as_str()),
    ))];
    let factors = [
        ("prefill", calibration.prefill),
        ("decode", calibration.decode),
    ];
    let factors = factors.into_iter().filter_map(|(stage, factor)| {
        let factor = Quantity::new(factor?, Unit::One);
        Some(format!("{} × {factor}", answer.text.word(stage)))
    });
    let factors: Vec<String> = factors.collect();
    if !factors.is_empty() {
        let factors = factors.join(answer.text.comma());
        blocks.push(Block::Prose(say!(
            answer,
            "predict.calibrated_stages",
            factors = factors
        )));
    }
    if calibration.cases > 0 {
        let cases = Quantity::count(calibration.cases as u64);
        blocks.push(Block::Prose(say!(
            answer,
            "predict.calibrated_cases",
            cases = cases
        )));
    }
    blocks.push(table(
        answer,
        "prediction_calibration",
        words!(answer, "predict.calibration_table"),
        ROWS,
    ));
    blocks
}
