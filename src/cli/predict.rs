//! `rooflens predict`: bounds of a model on GPUs, before anything runs.

use std::fs;
use std::path::Path;

use rooflens_llm::{Llm, parse};
use rooflens_predict::document::{Peak, Question, report};
use rooflens_predict::{
    Calibration, Limits, Machine, PRECISIONS, Precision, Setup, Speculation, Sweep,
};
use rooflens_schemas::python;
use rooflens_units::{Bytes, BytesPerSecond, Ratio, Seconds};

use super::args::Predict as Args;
use super::error::CliError;
use super::output::{Writer, file_stem};
use super::term::Term;
use crate::bundle;
use crate::document::Quantity;
use crate::hardware::{Gpu, Hardware};
use crate::pipeline::Input;
use crate::render::{self, RenderOptions};
use crate::report::Kind;

/// No config is larger in good faith.
const MAX_CONFIG: u64 = 64 << 20;

/// Values of one option that are varied, and points of all options, at most.
const MAX_POINTS: usize = 1_000_000;

/// Predicts, and writes the documents, or prints the summary.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let writer = Writer::new(&args.output, args.model.iter().chain(&args.peaks))?;
    let mut question = question(args, term)?;
    question.text = crate::document::Catalogue::of(writer.language());
    let report = report(&question);
    if args.output.outputs.is_empty() && args.output.formats.is_empty() {
        let options = RenderOptions::default();
        let rendered = render::render(&report, Kind::Summary, render::Format::Markdown, &options)?;
        return term.print(
            rendered
                .files
                .get(&rendered.main)
                .map_or(&[], Vec::as_slice),
        );
    }
    let folder = format!("{}-prediction", file_stem(&question.title));
    writer.write(&report, None, &folder, term)
}

fn question(args: &Args, term: &mut Term) -> Result<Question, CliError> {
    let path = args.model.as_deref().unwrap_or(Path::new("config.json"));
    let (mut llm, identity) = llm(path)?;
    if let Some(sides) = args.image {
        llm = llm.viewing(sides);
    }
    for remark in &llm.remarks {
        term.note(remark);
    }
    let hardware = Hardware::builtin();
    let gpus: Vec<&Gpu> = args
        .gpus
        .iter()
        .map(|name| hardware.named(name))
        .collect::<Result<_, _>>()?;
    let setup = setup(args, &llm)?;
    if args.dtypes.is_empty() && llm.quantized.is_none() && llm.dtype.is_none() {
        let format = setup.weights.name;
        term.note(&format!("the config does not say how weights are stored; {format} is assumed, --dtype says otherwise"));
    }
    let mut machines: Vec<Machine> = gpus.iter().map(|gpu| Machine::from(*gpu)).collect();
    let calibration = match &args.peaks {
        Some(path) => Some(calibrate(path, &gpus, &mut machines, term)?),
        None => None,
    };
    let weights = match args.dtypes.is_empty() {
        true => vec![setup.weights],
        false => args
            .dtypes
            .iter()
            .map(|name| precision(name))
            .collect::<Result<_, _>>()?,
    };
    let sweep = Sweep {
        machines,
        weights,
        tensor: args.tensor.clone(),
        prompts: args.prompts.clone(),
        batches: batches(args),
    };
    check(&sweep, args)?;
    let prices = prices(&args.prices, gpus.len())?;
    Ok(Question {
        text: crate::document::Catalogue::english(),
        title: title(path, &llm),
        source: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        identity,
        peaks: gpus.iter().map(|gpu| peaks(gpu)).collect(),
        sweep,
        setup,
        output: args.output_tokens,
        limits: Limits {
            ttft: args.ttft_limit.map(|limit| Seconds(limit / 1e3)),
            tpot: args.tpot_limit.map(|limit| Seconds(limit / 1e3)),
        },
        prices,
        calibration,
        llm,
    })
}

/// The LLM of a config, and the SHA-256 of the file.
fn llm(path: &Path) -> Result<(Llm, String), CliError> {
    let unusable = |message: String| CliError::Unusable {
        message,
        hint: None,
    };
    let folder = path.is_dir().then(|| path.join("config.json"));
    let path = folder.as_deref().unwrap_or(path);
    let shown = path.display();
    let size = fs::metadata(path)
        .map_err(|error| CliError::Unusable {
            message: format!("{shown}: {error}"),
            hint: fetched(path),
        })?
        .len();
    if size > MAX_CONFIG {
        return Err(unusable(format!(
            "{shown} is no config.json: it has {size} bytes"
        )));
    }
    let bytes = bundle::argument(path).map_err(|error| unusable(format!("{shown}: {error}")))?;
    let value = python::json(&String::from_utf8_lossy(&bytes))
        .map_err(|error| unusable(format!("{shown} is not JSON: {error}")))?;
    let llm = parse(&value).map_err(|error| CliError::Unusable {
        message: format!("{shown}: {error}"),
        hint: Some("docs/prediction.md lists the model types that are known".to_owned()),
    })?;
    Ok((llm, bundle::sha256(&bytes)))
}

/// How to fetch the config of a model that is named as on Hugging Face, `organization/name`, or by its name alone.
fn fetched(path: &Path) -> Option<String> {
    let id = path.to_str()?;
    let (organization, name) = id.split_once('/').unwrap_or(("ORGANIZATION", id));
    let is_word = |word: &str| {
        let mut letters = word.chars();
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        !word.is_empty() && !word.starts_with('.') && letters.all(is_of_name)
    };
    let is_id = is_word(organization) && is_word(name) && !id.ends_with(".json");
    is_id.then(|| {
        format!(
            "rooflens reads files only; fetch the config of a model with \
             `hf download {organization}/{name} config.json --local-dir {name}`, then name that folder"
        )
    })
}

/// What the folder or file is called; the family for a file that is called `config.json` and nothing else.
fn title(path: &Path, llm: &Llm) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let folder = || {
        let parent = if path.is_dir() { path } else { path.parent()? };
        parent
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let named = if stem == "config" || path.is_dir() {
        folder()
    } else {
        Some(stem)
    };
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| llm.family.clone())
}

fn precision(name: &str) -> Result<Precision, CliError> {
    Precision::find(name).ok_or_else(|| {
        let known: Vec<&str> = PRECISIONS.iter().map(|format| format.name).collect();
        CliError::Usage(format!(
            "no number format {name}; known are {}",
            known.join(", ")
        ))
    })
}

fn setup(args: &Args, llm: &Llm) -> Result<Setup, CliError> {
    let stored = llm
        .quantized
        .as_deref()
        .or(llm.dtype.as_deref())
        .unwrap_or("bf16");
    let weights = precision(args.dtypes.first().map_or(stored, String::as_str))?;
    // What is quantized is computed in 16 bits, and so is what is not.
    let name = if weights.element >= Bytes(2.0) {
        weights.name
    } else {
        "bf16"
    };
    let activations = precision(name)?;
    let share = |name: &str, share: Ratio| match (Ratio::ZERO..=Ratio::ONE).contains(&share) {
        true => Ok(share),
        false => Err(CliError::Usage(format!(
            "--{name} {}: expected a share of 0 to 1",
            share.0
        ))),
    };
    let speculation = args.speculate.as_deref().map(speculation).transpose()?;
    Ok(Setup {
        weights,
        kv: args
            .kv_dtype
            .as_deref()
            .map_or(Ok(activations), precision)?,
        activations,
        tensor: args.tensor.first().copied().unwrap_or(1),
        pipeline: args.pipeline,
        expert: args.expert,
        data: args.data,
        link: args.link.map(|link| BytesPerSecond(link * 1e9)),
        cached: share("cached-prefix", args.cached_prefix)?,
        chunk: args.chunk,
        speculation,
        memory_share: share("memory-utilization", args.memory_utilization)?,
        images: args.images,
    })
}

/// `1280x720`: width and height of an image in pixels.
pub(super) fn image(text: &str) -> Result<[u64; 2], String> {
    let side = |side: &str| {
        side.parse()
            .ok()
            .filter(|side| (1..=1 << 14).contains(side))
    };
    let sides = text.split_once('x');
    let sides = sides.and_then(|(width, height)| Some([side(width)?, side(height)?]));
    sides.ok_or_else(|| "expected WIDTHxHEIGHT in pixels, such as 1280x720".to_owned())
}

/// `4:0.7`: four guessed tokens, each right with a probability of 0.7.
fn speculation(text: &str) -> Result<Speculation, CliError> {
    let wrong = || {
        CliError::Usage(format!(
            "--speculate {text}: expected TOKENS:ACCEPTANCE, such as 4:0.7"
        ))
    };
    let (tokens, acceptance) = text.split_once(':').ok_or_else(wrong)?;
    let tokens = tokens
        .parse::<u64>()
        .ok()
        .filter(|tokens| (1..=64).contains(tokens));
    let acceptance = acceptance
        .parse::<f64>()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    let (tokens, acceptance) = tokens.zip(acceptance).ok_or_else(wrong)?;
    Ok(Speculation {
        tokens,
        acceptance: Ratio(acceptance),
    })
}

fn check(sweep: &Sweep, args: &Args) -> Result<(), CliError> {
    let lengths = [
        sweep.machines.len(),
        sweep.weights.len(),
        sweep.tensor.len(),
        sweep.prompts.len(),
        sweep.batches.len(),
    ];
    let points = lengths
        .iter()
        .fold(1_usize, |product, length| product.saturating_mul(*length));
    if points > MAX_POINTS {
        let message = format!("{points} points: at most {MAX_POINTS} can be asked for at once");
        return Err(CliError::Usage(message));
    }
    positive("link", args.link)?;
    positive("ttft-limit", args.ttft_limit)?;
    positive("tpot-limit", args.tpot_limit)?;
    if args.chunk == Some(0) {
        return Err(CliError::Usage("--chunk 0: expected tokens".to_owned()));
    }
    let sizes = args
        .tensor
        .iter()
        .chain([&args.pipeline, &args.expert, &args.data]);
    let mut all = sizes
        .chain(&args.prompts)
        .chain(&args.batches)
        .chain([&args.output_tokens]);
    match all.find(|size| **size == 0 || **size > 1 << 24) {
        Some(size) => Err(CliError::Usage(format!(
            "{size} is not a size: expected 1 to {}",
            1 << 24
        ))),
        None => Ok(()),
    }
}

/// One price for each of several GPUs, or one for all; none without prices.
pub(super) fn prices(given: &[f64], gpus: usize) -> Result<Vec<f64>, CliError> {
    for price in given {
        positive("price", Some(*price))?;
    }
    match given {
        [] => Ok(Vec::new()),
        [price] => Ok(vec![*price; gpus]),
        _ if given.len() == gpus => Ok(given.to_vec()),
        _ => Err(CliError::Usage(format!(
            "--price has {} values: expected one, or one for each of {gpus} GPUs",
            given.len()
        ))),
    }
}

fn positive(name: &str, value: Option<f64>) -> Result<(), CliError> {
    match value.filter(|value| !(value.is_finite() && *value > 0.0)) {
        Some(value) => Err(CliError::Usage(format!(
            "--{name} {value}: expected a number above 0"
        ))),
        None => Ok(()),
    }
}

fn peaks(gpu: &Gpu) -> Vec<Peak> {
    let peak = |name: &str, rate: Quantity, source: &str| Peak {
        name: name.to_owned(),
        rate,
        source: source.to_owned(),
    };
    let mut peaks = vec![peak(
        "memory",
        gpu.memory_bandwidth.into(),
        &gpu.memory_source,
    )];
    for specified in &gpu.peaks {
        let rate = specified.dense.into();
        peaks.push(peak(&specified.dtype, rate, &specified.source));
    }
    if let Some(link) = gpu.nvlink_bandwidth {
        let source = gpu.peaks.first().map_or("", |peak| peak.source.as_str());
        peaks.push(peak("interconnect", link.into(), source));
    }
    peaks
}

/// Puts measured rates in the place of specified ones.
fn calibrate(
    path: &Path,
    gpus: &[&Gpu],
    machines: &mut [Machine],
    term: &mut Term,
) -> Result<Calibration, CliError> {
    let input = Input {
        paths: vec![path.to_owned()],
        merge: true,
        ..Input::default()
    };
    let capture = input.open(&mut |_| ())?;
    term.diagnostics(capture.diagnostics.iter());
    let calibrated = capture.calibrate(gpus, machines);
    for name in &calibrated.unmeasured {
        term.note(&format!(
            "{name}: nothing was measured on it; its peaks stay"
        ));
    }
    let source = path.display().to_string();
    if calibrated.calibration.figures.is_empty() {
        let message = format!("{source} holds no measured rate of these GPUs");
        return Err(CliError::unusable(message));
    }
    Ok(Calibration {
        source,
        ..calibrated.calibration
    })
}

/// The batch sizes that were asked for, or those of most interest.
fn batches(args: &Args) -> Vec<u64> {
    if args.batches.is_empty() {
        vec![1, 8, 32]
    } else {
        args.batches.clone()
    }
}
