//! The pages and data sets of a prediction.

use rooflens_analysis::Context;
use rooflens_document::chart::{Bar, Color, Part as Legend, Plot, StackedBars};
use rooflens_document::report::{Document, Provenance, Report};
use rooflens_document::{
    Block, Catalogue, Chart, Inline, Quantity, SectionContent, Table, Tile, method, say, words,
};
use rooflens_schemas::Unit;

use rooflens_units::{Count, Ratio, Time};

use super::stage::{CAST_LAUNCHES, GAP, OTHER_HOST, OTHER_HOST_RUN, OTHER_RUN};
use super::{Bound, Change, Interval, Kernel, Part, Stage, StageProjection, project};
use crate::document::price_per_million;

/// Rows of the table of parts that a page shows.
const PARTS: usize = 40;

/// What is shown, and in which words.
pub struct Shown<'a> {
    /// The words.
    pub text: &'static Catalogue,
    /// Where names of kernels are.
    pub context: Context<'a>,
    /// What was asked.
    pub change: &'a Change,
    /// The new batch, if it was asked for.
    pub batch: Option<u64>,
    /// What tokens cost, if that was asked for.
    pub prices: Option<Prices>,
    /// Stages with their predictions.
    pub stages: &'a [(Stage, StageProjection)],
}

/// Prices of an hour of all GPUs, measured and asked about, and the tokens of a unit of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// Of the measured GPUs.
    pub from: f64,
    /// Of the GPUs that are asked about.
    pub to: f64,
    /// Sequences of the measured batch.
    pub batch: u64,
    /// Tokens of a prompt.
    pub prompt: Option<u64>,
}

impl Prices {
    /// Tokens of a unit of a stage, as measured: a decode step makes one a sequence, and prefill reads the prompts.
    fn tokens(self, stage: &Stage) -> Option<f64> {
        Some((tokens_of_sequence(stage, self.prompt)? * self.batch) as f64)
    }

    fn now(self, stage: &Stage) -> Option<f64> {
        let rate = self.tokens(stage)? / stage.time.mid.seconds().0;
        Some(price_per_million(self.from, rate))
    }

    fn then(self, change: &Change, stage: &Stage, new: &StageProjection) -> Option<f64> {
        let rate = self.tokens(stage)? * change.batch.0 / new.time.mid.seconds().0;
        Some(price_per_million(self.to, rate))
    }
}

fn tokens_of_sequence(stage: &Stage, prompt: Option<u64>) -> Option<u64> {
    match (stage.per_step, stage.static_shapes) {
        (true, _) => Some(1),
        (false, false) => prompt,
        (false, true) => None,
    }
}

type OfStage<'a> = &'a (Stage, StageProjection);
type OfPart<'a> = (&'a Stage, &'a (Part, Time, Interval));
type OfKernel<'a> = (&'a Stage, &'a Kernel, Interval);
/// A change by its name, and what a stage takes after it.
type OfChange<'a> = (String, Change, &'a Stage, StageProjection);

/// The report of a prediction.
pub fn report(shown: &Shown<'_>, provenance: &Provenance<'_>) -> Report {
    let (stages, parts, kernels) = (stage_table(shown), part_table(shown), kernel_table(shown));
    let (changes, change_rows) = (change_table(shown), changes_alone(shown));
    let rows: Vec<OfStage<'_>> = shown.stages.iter().collect();
    let of_parts = |stage: &'_ (Stage, StageProjection)| stage.1.parts.len();
    let part_rows: Vec<OfPart<'_>> = shown
        .stages
        .iter()
        .flat_map(|(stage, new)| new.parts.iter().map(move |part| (stage, part)))
        .collect();
    let kernel_rows: Vec<OfKernel<'_>> = shown
        .stages
        .iter()
        .flat_map(|(stage, new)| {
            stage
                .kernels
                .iter()
                .zip(&new.kernels)
                .map(move |(kernel, time)| (stage, kernel, *time))
        })
        .collect();
    let shown_parts = shown.stages.iter().map(of_parts).sum::<usize>().min(PARTS);
    let sentences = rows.iter().map(|stage| sentence(shown, stage)).collect();
    let mut summary = vec![
        Block::Tiles(tiles(shown)),
        Block::Prose(asked(shown)),
        Block::Bullets(sentences),
        Block::Chart(chart(shown)),
        Block::Table(stages.view(words!(shown, "predict_from.stages"), rows.len())),
    ];
    if !change_rows.is_empty() {
        let caption = words!(shown, "predict_from.alone");
        summary.push(Block::Table(changes.view(caption, change_rows.len())));
    }
    summary.push(Block::Heading(words!(shown, "predict_from.unknown_title")));
    summary.push(Block::Bullets(unknown(shown)));
    let mut document = Document::new(shown.text, provenance);
    document.summary(SectionContent {
        conclusion: conclusion(shown, provenance),
        blocks: summary,
        datasets: vec![
            stages.rows(&rows),
            parts.rows(&part_rows),
            kernels.rows(&kernel_rows),
            changes.rows(&change_rows),
        ],
        methods: vec![method!(shown, "predict_from")],
        ..SectionContent::default()
    });
    let batch = shown.batch.map(Quantity::count);
    let caption = words!(shown, "predict_from.parts", batch = batch);
    let parts_blocks = vec![Block::Table(parts.view(caption, shown_parts))];
    let title = words!(shown, "predict_from.parts_title");
    document.section("parts", &title, parts_blocks);
    let title = words!(shown, "predict_from.assumptions_title");
    let assumptions = vec![Block::Bullets(assumptions(shown))];
    document.section("assumptions", &title, assumptions);
    document.build()
}

const fn label(bound: Bound) -> &'static str {
    match bound {
        Bound::Gpu => "GPU-bound",
        Bound::Host => "launch-bound",
    }
}

/// Throughput of the stages, and latency and rate of requests: measured, and predicted.
fn tiles(shown: &Shown<'_>) -> Vec<Tile> {
    let workload = &shown.context.session.workload;
    let Some(batch) = workload.batch.map(|batch| batch as f64) else {
        return Vec::new();
    };
    let new_batch = batch * shown.change.batch.0;
    let tile = |label: String, now: Quantity, then: Quantity| Tile {
        label,
        now,
        others: vec![(words!(shown, "predict_from.tile_predicted"), then)],
    };
    let mut tiles = Vec::new();
    for (stage, new) in shown.stages {
        let Some(tokens) = tokens_of_sequence(stage, workload.prompt_tokens) else {
            continue;
        };
        let rate = |time: Time, batch: f64| {
            Quantity::new(
                tokens as f64 * batch / time.seconds().0,
                Unit::TokensPerSecond,
            )
        };
        let name = stage.name.as_str();
        tiles.push(tile(
            words!(shown, "predict_from.tile_rate", stage = name),
            rate(stage.time.mid, batch),
            rate(new.time.mid, new_batch),
        ));
    }
    let stages = shown.stages.iter();
    let (decodes, prefills): (Vec<_>, Vec<_>) = stages.partition(|(stage, _)| stage.per_step);
    if let ([(prefill, new_prefill)], [(decode, new_decode)], Some(steps)) =
        (&prefills[..], &decodes[..], workload.output_tokens)
    {
        let count = Count(steps as f64);
        let now = prefill.time.mid + decode.time.mid * count;
        let then = new_prefill.time.mid + new_decode.time.mid * count;
        let rate = |time: Time, batch: f64| {
            Quantity::new(batch / time.seconds().0, Unit::RequestsPerSecond)
        };
        let steps = Quantity::count(steps);
        tiles.push(tile(
            words!(shown, "predict_from.tile_request", steps = steps),
            now.into(),
            then.into(),
        ));
        tiles.push(tile(
            words!(shown, "predict_from.tile_requests"),
            rate(now, batch),
            rate(then, new_batch),
        ));
    }
    tiles
}

/// What the stages take after each change alone, and after all; nothing if only one is asked about.
fn changes_alone<'a>(shown: &Shown<'a>) -> Vec<OfChange<'a>> {
    let change = shown.change;
    let none = Change {
        batch: Ratio::ONE,
        dtype: None,
        graphs: false,
        to: change.from.clone(),
        ..change.clone()
    };
    let mut changes = Vec::new();
    if change.is_other_device() {
        let to = change.to.clone();
        changes.push((to.name.clone(), Change { to, ..none.clone() }));
    }
    if let Some(batch) = shown.batch.filter(|_| change.batch != Ratio::ONE) {
        let name = words!(
            shown,
            "predict_from.alone_batch",
            batch = Quantity::count(batch)
        );
        let batch = change.batch;
        changes.push((
            name,
            Change {
                batch,
                ..none.clone()
            },
        ));
    }
    if let Some(dtype) = &change.dtype {
        let name = words!(shown, "predict_from.alone_dtype", dtype = dtype.as_str());
        let dtype = change.dtype.clone();
        changes.push((
            name,
            Change {
                dtype,
                ..none.clone()
            },
        ));
    }
    if change.graphs {
        let name = words!(shown, "predict_from.alone_graphs");
        changes.push((
            name,
            Change {
                graphs: true,
                ..none
            },
        ));
    }
    if changes.len() < 2 {
        return Vec::new();
    }
    changes.push((words!(shown, "predict_from.alone_all"), change.clone()));
    let mut rows = Vec::new();
    for (stage, _) in shown.stages {
        for (name, change) in &changes {
            let new = project(stage, change);
            rows.push((name.clone(), change.clone(), stage, new));
        }
    }
    rows
}

fn change_table<'t>(shown: &'t Shown<'_>) -> Table<'t, OfChange<'t>> {
    Table::new(shown.text, "predicted_changes")
        .text("stage", |(_, _, stage, _): &OfChange<'t>| {
            stage.name.clone()
        })
        .on_page()
        .text("change", |(name, ..)| name.clone())
        .on_page()
        .time("predicted_ns", |(.., new)| new.time.mid)
        .on_page()
        .time("low_ns", |(.., new)| new.time.low)
        .on_page()
        .time("high_ns", |(.., new)| new.time.high)
        .on_page()
        .column("throughput_factor", Unit::One, |(_, change, stage, new)| {
            throughput_factor(change, stage, new)
        })
        .on_page()
        .text("bound", |(.., new)| label(new.bound))
        .on_page()
}

/// What was asked, in a sentence.
fn asked(shown: &Shown<'_>) -> Vec<Inline> {
    let change = shown.change;
    let maybe = |asked: bool, value: &str| asked.then(|| Inline::code(value));
    say!(
        shown,
        "predict_from.changes",
        from = maybe(!change.from.name.is_empty(), &change.from.name),
        gpu = maybe(change.is_other_device(), &change.to.name),
        batch = shown
            .batch
            .map(|batch| Inline::from(Quantity::count(batch))),
        dtype = change.dtype.as_deref().map(Inline::code),
        graphs = maybe(change.graphs, "CUDA graphs"),
    )
}

fn sentence(shown: &Shown<'_>, (stage, new): &(Stage, StageProjection)) -> Vec<Inline> {
    let unit = if stage.per_step {
        words!(shown, "predict_from.per_step")
    } else {
        String::new()
    };
    say!(
        shown,
        "predict_from.stage",
        stage = Inline::code(&stage.name),
        unit = Some(unit).filter(|unit| !unit.is_empty()),
        now = stage.time.mid,
        predicted = Inline::strong(Quantity::from(new.time.mid).to_string()),
        low = new.time.low,
        high = new.time.high,
        factor = (shown.change.batch != Ratio::ONE)
            .then(|| Quantity::new(throughput_factor(shown.change, stage, new), Unit::One)),
        was = shown.text.word(label(new.bound_now)),
        bound = shown.text.word(label(new.bound)),
    )
}

/// How many times as many sequences a stage processes in a time: a batch of another size takes another time for that alone.
fn throughput_factor(change: &Change, stage: &Stage, new: &StageProjection) -> f64 {
    stage.time.mid / new.time.mid * change.batch.0
}

/// The title: the throughput of each stage against the measured one.
fn conclusion(shown: &Shown<'_>, provenance: &Provenance<'_>) -> Option<String> {
    let stages = shown.stages.iter().map(|(stage, new)| {
        let factor = throughput_factor(shown.change, stage, new);
        words!(
            shown,
            "predict_from.title_stage",
            stage = stage.name.as_str(),
            factor = Quantity::new(factor, Unit::One),
        )
    });
    let stages: Vec<String> = stages.collect();
    let change = shown.change;
    let subject = provenance.title.as_deref().unwrap_or(provenance.bundle);
    (!stages.is_empty()).then(|| {
        words!(
            shown,
            "predict_from.title_conclusion",
            subject = subject,
            gpu = change.is_other_device().then_some(change.to.name.as_str()),
            batch = shown.batch.map(Quantity::count),
            dtype = change.dtype.as_deref(),
            graphs = change.graphs.then_some(""),
            stages = stages.join(shown.text.comma()),
        )
    })
}

fn stage_table<'t>(shown: &'t Shown<'_>) -> Table<'t, OfStage<'t>> {
    let change = shown.change;
    let has_batch = change.batch != Ratio::ONE;
    let prices = shown.prices;
    Table::new(shown.text, "predicted_stages")
        .text("stage", |(stage, _): &OfStage<'t>| stage.name.clone())
        .on_page()
        .text(
            "unit",
            |(stage, _)| if stage.per_step { "step" } else { "stage" },
        )
        .on_page()
        .time("measured_ns", |(stage, _)| stage.time.mid)
        .on_page()
        .time("predicted_ns", |(_, new)| new.time.mid)
        .on_page()
        .time("low_ns", |(_, new)| new.time.low)
        .on_page()
        .time("high_ns", |(_, new)| new.time.high)
        .on_page()
        .column("speedup", Unit::One, |(stage, new)| {
            stage.time.mid / new.time.mid
        })
        .on_page_if(!has_batch)
        .column("throughput_factor", Unit::One, move |(stage, new)| {
            throughput_factor(change, stage, new)
        })
        .on_page_if(has_batch)
        .column("price_now", Unit::One, move |(stage, _)| prices?.now(stage))
        .on_page_if(prices.is_some())
        .column("price_then", Unit::One, move |(stage, new)| {
            prices?.then(change, stage, new)
        })
        .on_page_if(prices.is_some())
        .text("bound_now", |(_, new)| label(new.bound_now))
        .on_page()
        .text("bound", |(_, new)| label(new.bound))
        .on_page()
        .time("gpu_low_ns", |(_, new)| new.gpu.low)
        .time("gpu_high_ns", |(_, new)| new.gpu.high)
        .time("host_low_ns", |(_, new)| new.host.low)
        .time("host_high_ns", |(_, new)| new.host.high)
        .share("sized_share", |(_, new)| new.sized)
        .text("profiled", |(stage, _)| stage.profiled)
}

const fn part_label(part: &Part) -> &'static str {
    match part {
        Part::Class(class) => class.label(),
        Part::Casts => "casts to the new dtype",
        Part::Gaps => "gaps between kernels",
        Part::Launches => "waiting for launches",
        Part::Idle(cause) => cause,
    }
}

fn part_table<'t>(shown: &'t Shown<'_>) -> Table<'t, OfPart<'t>> {
    Table::new(shown.text, "predicted_parts")
        .text("stage", |(stage, _): &OfPart<'t>| stage.name.clone())
        .on_page()
        .text("part", |(_, (part, _, _))| part_label(part))
        .on_page()
        .time("measured_ns", |(_, (_, old, _))| *old)
        .on_page()
        .time("predicted_ns", |(_, (_, _, new))| new.mid)
        .on_page()
        .time("low_ns", |(_, (_, _, new))| new.low)
        .on_page()
        .time("high_ns", |(_, (_, _, new))| new.high)
        .on_page()
}

fn kernel_table<'t>(shown: &'t Shown<'_>) -> Table<'t, OfKernel<'t>> {
    let (session, change) = (shown.context.session, shown.change);
    let name = |kernel: &Kernel| match kernel.kernel {
        Some(id) => session.kernel_name(id).to_owned(),
        None => kernel.class.label().to_owned(),
    };
    Table::new(shown.text, "predicted_kernels")
        .text("stage", |(stage, _, _): &OfKernel<'t>| stage.name.clone())
        .name("kernel", move |(_, kernel, _)| name(kernel))
        .text("class", |(_, kernel, _)| kernel.class.label())
        .column("launches", Unit::One, |(_, kernel, _)| kernel.launches)
        .time("measured_ns", |(_, kernel, _)| kernel.time)
        .time("predicted_ns", |(_, _, new)| new.mid)
        .time("low_ns", |(_, _, new)| new.low)
        .time("high_ns", |(_, _, new)| new.high)
        .column("waves", Unit::One, |(_, kernel, _)| kernel.waves)
        .time("roofline_ns", |(_, kernel, _)| {
            kernel.work.map(|work| work.roofline(&change.from))
        })
        .time("new_roofline_ns", |(_, kernel, _)| {
            kernel
                .work
                .map(|work| work.after(change).roofline(&change.to))
        })
}

/// Two bars a stage: now, and as predicted, for as many sequences, because a larger batch takes longer for its size alone.
fn chart(shown: &Shown<'_>) -> Chart {
    use rooflens_analysis::engine::classify::KernelClass;
    let group = |part: &Part| match part {
        Part::Class(KernelClass::Gemm) => 0,
        Part::Class(KernelClass::Attention) => 1,
        Part::Class(_) | Part::Casts => 2,
        Part::Gaps | Part::Launches | Part::Idle(_) => 3,
    };
    let bar = |(stage, new): &(Stage, StageProjection), predicted: bool| {
        let mut values = vec![0.0; 4];
        for (part, old, then) in &new.parts {
            let then = then.mid.0 / shown.change.batch.0;
            values[group(part)] += if predicted { then } else { old.0 };
        }
        let label = match predicted {
            true => words!(
                shown,
                "predict_from.bar_predicted",
                stage = Inline::code(&stage.name)
            ),
            false => words!(
                shown,
                "predict_from.bar_measured",
                stage = Inline::code(&stage.name)
            ),
        };
        Bar {
            note: Quantity::from(Time(values.iter().sum())).to_string(),
            label,
            values,
        }
    };
    let bars = shown
        .stages
        .iter()
        .flat_map(|stage| [bar(stage, false), bar(stage, true)])
        .collect();
    let part = |key: &str, color| Legend {
        name: shown.text.line(key, &[]),
        color,
    };
    let parts = vec![
        part("predict_from.legend_gemm", Color::Gemm),
        part("predict_from.legend_attention", Color::Attention),
        part("predict_from.legend_other", Color::Elementwise),
        part("predict_from.legend_idle", Color::Idle),
    ];
    Chart {
        id: "predicted".to_owned(),
        title: words!(
            shown,
            "predict_from.chart",
            batch = (shown.change.batch != Ratio::ONE).then_some("")
        ),
        description: words!(shown, "predict_from.chart_description"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts,
            bars,
        }),
    }
}

/// What the prediction rests on, as far as it matters to what was asked.
fn assumptions(shown: &Shown<'_>) -> Vec<Vec<Inline>> {
    let change = shown.change;
    let mut sentences = vec![
        say!(shown, "predict_from.assume_hypotheses"),
        say!(
            shown,
            "predict_from.assume_run",
            gpu = OTHER_RUN.high - Ratio::ONE,
            host = Quantity::new(OTHER_HOST_RUN.0, Unit::One),
        ),
    ];
    if shown.stages.iter().any(|(stage, _)| stage.profiled) {
        sentences.push(say!(shown, "predict_from.assume_profiled"));
    }
    if change.batch != Ratio::ONE {
        sentences.push(say!(shown, "predict_from.assume_batch"));
    }
    if change.graphs {
        sentences.push(say!(
            shown,
            "predict_from.assume_graphs",
            low = GAP.low,
            high = GAP.high,
        ));
    }
    if let Some(dtype) = &change.dtype {
        sentences.push(say!(
            shown,
            "predict_from.assume_dtype",
            dtype = Inline::code(dtype),
            low = Quantity::new(CAST_LAUNCHES.low.0, Unit::One),
            high = Quantity::new(CAST_LAUNCHES.high.0, Unit::One),
        ));
    }
    if change.is_other_device() {
        sentences.push(say!(
            shown,
            "predict_from.assume_device",
            host = Quantity::new(OTHER_HOST.0, Unit::One),
        ));
    }
    let ceilings = match change.from.measured && !change.is_other_device() {
        true => say!(shown, "predict_from.assume_measured"),
        false => say!(shown, "predict_from.assume_specified"),
    };
    sentences.push(ceilings);
    sentences
}

/// What no capture of the old configuration tells.
fn unknown(shown: &Shown<'_>) -> Vec<Vec<Inline>> {
    let change = shown.change;
    let mut sentences = vec![say!(shown, "predict_from.unknown_host")];
    if change.is_other_work() {
        sentences.push(say!(shown, "predict_from.unknown_kernels"));
    }
    if change.batch != Ratio::ONE {
        sentences.push(say!(shown, "predict_from.unknown_memory"));
    }
    if change.dtype.is_some() {
        sentences.push(say!(shown, "predict_from.unknown_accuracy"));
    }
    if change.is_other_device() {
        sentences.push(say!(shown, "predict_from.unknown_clocks"));
    }
    let unsized_ = shown
        .stages
        .iter()
        .filter(|(_, new)| new.sized < Ratio(0.5));
    sentences.extend(unsized_.map(|(stage, new)| {
        say!(
            shown,
            "predict_from.unknown_sizes",
            stage = Inline::code(&stage.name),
            share = new.sized,
        )
    }));
    sentences
}
