//! Predictions at the rates that were measured on a GPU, and how far measured times are from them.

use rooflens_predict::{Calibration, Figure, Machine, Rate};
use rooflens_schemas::StageKind;
use rooflens_units::Ratio;

use super::analyze::Analysis;
use super::microbenchmarks::devices;
use super::open::Capture;
use crate::analysis::Options;
use crate::bundle::Bundle;
use crate::diagnostic::Diagnostics;
use crate::hardware::{Gpu, Hardware};
use crate::microbench::analysis::Results;
use crate::sections::{Bound, bounds};
use crate::session::Session;

/// Measured rates and times of some GPUs.
pub struct Calibrated {
    /// Rates and times; no figures if nothing was measured on these GPUs.
    pub calibration: Calibration,
    /// Names of the GPUs without a measured rate.
    pub unmeasured: Vec<String>,
}

impl Capture {
    /// Puts measured rates in the place of the specified rates of machines, which are `gpus` in their order. If the
    /// capture has stages of a known model, the factors of their times over the predictions go with the rates.
    pub fn calibrate(&self, gpus: &[&Gpu], machines: &mut [Machine]) -> Calibrated {
        let hardware = Hardware::builtin();
        let mut calibration = Calibration::default();
        let mut unmeasured = Vec::new();
        let mut measured_rates = Vec::new();
        for (machine, gpu) in machines.iter_mut().zip(gpus) {
            let rates = rates(&self.session, &hardware, gpu);
            if rates.is_empty() {
                unmeasured.push(gpu.name.clone());
            }
            let (measured, figures) = machine.clone().measured(&rates);
            *machine = measured;
            calibration.figures.extend(figures);
            measured_rates.extend(rates);
        }
        stages(self, &measured_rates, &mut calibration);
        operations(&self.bundle, gpus, &mut calibration);
        Calibrated {
            calibration,
            unmeasured,
        }
    }
}

/// The measured rates of a GPU of this product: the best of each kind.
fn rates(session: &Session, hardware: &Hardware, gpu: &Gpu) -> Vec<Rate> {
    let peaks = &session.measured_peaks;
    let mut best: Vec<Rate> = Vec::new();
    for row in 0..peaks.len() {
        let specified = hardware.find(session.text(peaks.gpu[row]));
        let is_of_gpu = specified.is_some_and(|specified| specified.name == gpu.name);
        let median = peaks.median[row];
        if !is_of_gpu || median <= 0.0 {
            continue;
        }
        let bounds = peaks.min[row].zip(peaks.max[row]);
        let rate = Rate {
            name: session.text(peaks.what[row]).to_owned(),
            median,
            spread: bounds.map(|(least, most)| Ratio((most - least) / median)),
        };
        match best.iter_mut().find(|best| best.name == rate.name) {
            Some(best) if best.median < rate.median => *best = rate,
            Some(_) => (),
            None => best.push(rate),
        }
    }
    best
}

/// Adds the stages of a measured bundle with their predictions at measured rates, and the factors that follow.
fn stages(capture: &Capture, rates: &[Rate], calibration: &mut Calibration) {
    let analysis = Analysis::new(capture, Hardware::builtin(), Options::default());
    let bounds = bounds(&analysis.context(), &|machine| machine.measured(rates).0);
    calibration.prefill = factor(&bounds, &[StageKind::Prefill, StageKind::Forward]);
    calibration.decode = factor(&bounds, &[StageKind::Decode, StageKind::DecodeStep]);
    for bound in &bounds {
        let applied = match bound.kind {
            StageKind::Decode | StageKind::DecodeStep => calibration.decode,
            _ => calibration.prefill,
        };
        let factor = bound.factor();
        calibration.figures.push(Figure {
            name: format!("{} ({})", bound.stage, bound.pass),
            specified: Some(bound.bound.into()),
            measured: bound.measured.into(),
            ratio: Some(factor),
            error: applied.map(|applied| Ratio((applied / factor - 1.0).abs())),
        });
    }
}

/// The factor of the first stage of these kinds: of an unprofiled repeat, if there is one.
fn factor(bounds: &[Bound], kinds: &[StageKind]) -> Option<Ratio> {
    let is_of_kind = |bound: &&Bound| kinds.contains(&bound.kind);
    let mut unprofiled = bounds.iter().filter(|bound| bound.busy.is_none());
    let bound = unprofiled
        .find(is_of_kind)
        .or_else(|| bounds.iter().find(is_of_kind))?;
    Some(bound.factor())
}

/// Adds the operations of `bench.json` with their roofline times at the measured rates.
fn operations(bundle: &Bundle, gpus: &[&Gpu], calibration: &mut Calibration) {
    let mut diagnostics = Diagnostics::default();
    let devices = devices(bundle, &[], &mut diagnostics);
    let hardware = Hardware::builtin();
    for device in &devices {
        let results = Results::of(device, &hardware);
        let Some(specified) = &results.specified else {
            continue;
        };
        if !gpus.iter().any(|gpu| gpu.name == specified.name) {
            continue;
        }
        for group in results.groups() {
            let Some(apart) = group.apart() else { continue };
            let dtype = group.dtype.unwrap_or_default();
            let (predicted, measured) = group.sums();
            calibration.cases += group.cases.len();
            calibration.figures.push(Figure {
                name: format!("{} {dtype}", group.operation).trim_end().to_owned(),
                specified: Some(predicted.into()),
                measured: measured.into(),
                ratio: Some(Ratio(measured / predicted)),
                error: Some(apart),
            });
        }
    }
}
