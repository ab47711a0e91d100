//! `rooflens predict --from`: stage times of a measured bundle after a change.

use std::path::PathBuf;

use rooflens_units::Ratio;

use super::args::{Input, Output, Predict as Args};
use super::error::CliError;
use super::load::{check, errors, load, strict};
use super::output::{Writer, file_stem};
use super::predict;
use super::term::Term;
use crate::analysis::{Context, Options, Results};
use crate::document::Catalogue;
use crate::hardware::{DTYPES, Hardware};
use crate::pipeline::{Analysis, Capture};
use crate::predict::projection::{Change, Device, measure, project, show};
use crate::sections;

/// A change of one thing each, and of what.
struct Asked<'a> {
    from: &'a [PathBuf],
    gpu: Option<&'a String>,
    batch: Option<u64>,
    dtype: Option<&'a String>,
    graphs: bool,
    prices: &'a [f64],
    model: Option<&'a PathBuf>,
    workload: Option<&'a PathBuf>,
    output: &'a Output,
}

impl<'a> Asked<'a> {
    fn of(args: &'a Args) -> Result<Self, CliError> {
        let several = [
            ("--gpu", args.gpus.len()),
            ("--batch", args.batches.len()),
            ("--dtype", args.dtypes.len()),
        ];
        if let Some((name, _)) = several.iter().find(|(_, values)| *values > 1) {
            return Err(CliError::Usage(format!(
                "--from takes one {name}: a bundle is predicted after one change"
            )));
        }
        Ok(Self {
            from: &args.from,
            gpu: args.gpus.first(),
            batch: args.batches.first().copied(),
            dtype: args.dtypes.first(),
            graphs: args.graphs,
            prices: &args.prices,
            model: args.model.as_ref(),
            workload: args.workload.as_ref(),
            output: &args.output,
        })
    }
}

/// Predicts the stages of a bundle after a change.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let args = &Asked::of(args)?;
    let files = args.from.iter().chain(args.model).chain(args.workload);
    let mut writer = Writer::new(args.output, files)?;
    let hardware = Hardware::builtin();
    check_change(args, &hardware)?;
    let input = Input {
        paths: args.from.to_vec(),
        model: args.model.cloned(),
        workload: args.workload.cloned(),
        ..Input::default()
    };
    let capture = load(&input, term)?;
    writer.protect(&capture.bundle);
    check(&capture, term)?;
    term.step("analyzing");
    let analysis = Analysis::new(&capture, hardware, Options::default());
    let context = analysis.inputs();
    let results = Results::some(&context, &measure::RESULTS);
    let context = context.with(&results);
    let text = Catalogue::of(writer.language());
    let unusable = |message: String| CliError::Unusable {
        message,
        hint: None,
    };
    let stages =
        measure::stages(&context).map_err(|missing| unusable(text.line(missing.0, &[])))?;
    let change = change(args, &context, &capture)?;
    let stages: Vec<_> = stages
        .into_iter()
        .map(|stage| {
            let new = project(&stage, &change);
            (stage, new)
        })
        .collect();
    term.diagnostics(capture.diagnostics.iter());
    strict(&input, capture.diagnostics.iter())?;
    let prices = prices(args.prices, &capture)?;
    let shown = show::Shown {
        text,
        context,
        prices,
        change: &change,
        batch: args.batch,
        stages: &stages,
    };
    let provenance = capture.provenance(&sections::Context::new(context, text));
    let report = show::report(&shown, &provenance);
    let folder = format!("{}-predicted", file_stem(&capture.bundle.name));
    writer.write(&report, None, &folder, term)?;
    errors(capture.diagnostics.iter())
}

/// Prices of all GPUs of the capture, the measured one first, and the sizes that make them prices of tokens.
fn prices(given: &[f64], capture: &Capture) -> Result<Option<show::Prices>, CliError> {
    let prices = predict::prices(given, 2)?;
    let [from, to] = prices[..] else {
        return Ok(None);
    };
    let workload = &capture.session.workload;
    let batch = workload.batch.ok_or_else(|| CliError::Unusable {
        message: "--price needs the batch: state `batch` in workload.toml (--workload)".to_owned(),
        hint: None,
    })?;
    let gpus = capture.session.gpus.len().max(1) as f64;
    Ok(Some(show::Prices {
        from: from * gpus,
        to: to * gpus,
        batch,
        prompt: workload.prompt_tokens,
    }))
}

/// Refuses a change that says nothing, or a GPU or dtype that is not known, before anything is read.
fn check_change(args: &Asked<'_>, hardware: &Hardware) -> Result<(), CliError> {
    if args.gpu.is_none() && args.batch.is_none() && args.dtype.is_none() && !args.graphs {
        let message = "nothing changes: give --gpu, --batch, --dtype or --graphs";
        return Err(CliError::Usage(message.to_owned()));
    }
    if let Some(gpu) = args.gpu {
        hardware.named(gpu)?;
    }
    if let Some(dtype) = args.dtype
        && !DTYPES.contains(&dtype.as_str())
    {
        let message = format!("no dtype named {dtype}; known are {}", DTYPES.join(", "));
        return Err(CliError::Usage(message));
    }
    Ok(())
}

/// What changes, in relation to what was measured.
fn change(args: &Asked<'_>, context: &Context<'_>, capture: &Capture) -> Result<Change, CliError> {
    let unusable = |message: &str| CliError::Unusable {
        message: message.to_owned(),
        hint: None,
    };
    let needs_ceilings = args.gpu.is_some() || args.batch.is_some() || args.dtype.is_some();
    let device = match measure::own_device(context) {
        Some(device) => device,
        None if !needs_ceilings => Device::default(),
        None => {
            return Err(unusable(
                "the GPU of the bundle is not in the table of GPUs",
            ));
        }
    };
    let asked = args.gpu.and_then(|name| context.hardware.named(name).ok());
    let to = match asked.filter(|gpu| gpu.name != device.name) {
        Some(gpu) => measure::device(gpu),
        None => device.clone(),
    };
    // Measured and specified ceilings do not mix.
    let specified = context.hardware.find(&device.name).map(measure::device);
    let from = specified
        .filter(|_| to.name != device.name)
        .unwrap_or(device);
    if let Some(dtype) = args.dtype
        && to.rate(dtype).is_none()
    {
        let message = format!("{} has no specified rate of {dtype}", to.name);
        return Err(CliError::Usage(message));
    }
    let batch = match args.batch {
        None => Ratio::ONE,
        Some(batch) => {
            let measured = capture
                .session
                .workload
                .batch
                .filter(|measured| *measured > 0);
            let measured = measured.ok_or_else(|| {
                unusable(
                    "the measured batch is not known: state `batch` in workload.toml (--workload)",
                )
            })?;
            Ratio(batch as f64 / measured as f64)
        }
    };
    Ok(Change {
        batch,
        dtype: args.dtype.cloned(),
        graphs: args.graphs,
        from,
        to,
    })
}
