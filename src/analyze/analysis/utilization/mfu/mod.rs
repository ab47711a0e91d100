//! MFU, kernel-time MFU and MBU per stage.

pub mod timed;
pub mod work;

use rooflens_schemas::{StageKind, Unit};

use super::Unavailable;
use crate::counters::roofline::workload::{Hfu, Lack, StageWork};
use crate::engine::baseline::Series;
use crate::engine::measured_peaks::Measured;
use crate::engine::measured_peaks::gpu_name;
use crate::engine::stage_names;
use crate::{Context, Known, Missing};
use rooflens_session::Session;
use rooflens_units::{
    BytesPerSecond, Flops, FlopsPerSecond, ImagesPerSecond, Ratio, Seconds, TokensPerSecond,
};
use timed::{StageTime, timed};
use work::{Work, work};

/// Utilization of all stages.
#[derive(Clone, Debug)]
pub struct Utilization {
    /// The dtype of the matrix work: stated, or that of the weights.
    pub dtype: Option<String>,
    /// One a stage and source of its time: unprofiled repeats first, then the passes, the primary one first.
    pub stages: Vec<StageUtilization>,
}

/// Utilization of a stage by one source of its time.
#[derive(Clone, Debug)]
pub struct StageUtilization {
    /// The stage and its time.
    pub timed: StageTime,
    /// Its work, as far as it is known.
    pub work: Result<Work, Unavailable>,
    /// What bounds it, as specified.
    pub ceiling: Result<Ceiling, Unavailable>,
    /// Measured rate of the dtype on this GPU.
    pub measured_rate: Option<FlopsPerSecond>,
    /// Measured bandwidth of this GPU.
    pub measured_bandwidth: Option<BytesPerSecond>,
}

/// Specified dense rate and bandwidth of a GPU.
#[derive(Clone, Debug)]
pub struct Ceiling {
    /// GPU.
    pub gpu: String,
    /// Dtype of the rate.
    pub dtype: String,
    /// Dense rate.
    pub rate: FlopsPerSecond,
    /// Source of the rate.
    pub source: String,
    /// Bandwidth of the memory.
    pub bandwidth: BytesPerSecond,
    /// Source of the bandwidth.
    pub bandwidth_source: String,
}

/// The utilization of all stages with a FLOPs formula.
pub fn compute(context: &Context<'_>) -> Known<Utilization> {
    let session = context.session;
    if session.ranges.is_empty() && session.timings.is_empty() {
        return Err(Missing("missing.stages"));
    }
    let of_weights = || session.model.as_ref().and_then(|model| model.dtype.clone());
    let dtype = session.workload.dtype.clone().or_else(of_weights);
    let has_formula =
        |timed: &StageTime| !matches!(timed.kind, StageKind::Other | StageKind::Optimizer);
    let with_formula = timed(context).into_iter().filter(has_formula);
    let stages: Vec<StageUtilization> = with_formula
        .map(|timed| of_stage(context, timed, dtype.as_deref()))
        .collect();
    if stages.is_empty() {
        return Err(Missing("missing.formula"));
    }
    Ok(Utilization { dtype, stages })
}

fn of_stage(context: &Context<'_>, timed: StageTime, dtype: Option<&str>) -> StageUtilization {
    let session = context.session;
    let mut workload = session.workload.for_pass(&timed.pass);
    workload.batch = timed.batch(workload.batch);
    workload.prompt_tokens = timed.prompt(workload.prompt_tokens);
    let stated_dtype = dtype.ok_or(Unavailable::NotStated("the dtype"));
    let (kind, steps) = (timed.kind, timed.steps);
    let model = session.model.as_ref();
    let work_of = |kind| work(kind, steps, &workload, model, dtype);
    let products = context.results.matmul();
    let is_in_part = products.is_ok_and(|products| products.has_logits_in_part(&timed.stage));
    // Logits of some positions are counted as those of a prefill, which are of the last one: the least that it computes.
    let work_kind = match kind {
        StageKind::Forward if is_in_part => StageKind::Prefill,
        _ => kind,
    };
    let work = match is_of_engine(context, &timed) {
        true => Err(Unavailable::EngineSteps),
        false if kind == StageKind::Prefill && reads_images(context, &timed) => {
            work_of(kind).and_then(|prefill| Ok(prefill.with_images(&work_of(StageKind::Vision)?)))
        }
        false => work_of(work_kind),
    };
    let pass = timed
        .profiled
        .as_ref()
        .map(|summary| summary.stage(context.facts).pass);
    let name = gpu_name(session, pass);
    let ceiling = stated_dtype.and_then(|dtype| ceiling(context, &name, dtype));
    let gpu = context.gpu_spec(&name);
    let measured = Measured::of(context, &name);
    let measured_rate = dtype.and_then(|dtype| measured.rate(gpu, dtype));
    let measured_bandwidth = measured.bandwidth();
    let mut stage = StageUtilization {
        timed,
        work,
        ceiling,
        measured_rate,
        measured_bandwidth,
    };
    // What the capture program took for the model is another module, such as a head that is trained alone.
    let is_guess = kind == StageKind::Forward && workload.infers("stages");
    if is_guess && matches!(stage.mfu(), Err(Unavailable::AbovePeak(_))) {
        stage.work = Err(Unavailable::NoFormula);
    }
    stage
}

/// Whether the vision stage lies in a stage of this name.
fn reads_images(context: &Context<'_>, timed: &StageTime) -> bool {
    let stages = &context.facts.stages;
    let mut read = stages
        .iter()
        .filter(|stage| stage.kind == StageKind::Vision);
    read.any(|stage| {
        let parent = stage.parent.and_then(|parent| stages.get(parent));
        parent.is_some_and(|parent| parent.name == timed.stage)
    })
}

/// Whether a stage of this name is steps of a serving engine.
fn is_of_engine(context: &Context<'_>, timed: &StageTime) -> bool {
    let (session, facts) = (context.session, context.facts);
    let mut same = facts
        .stages
        .iter()
        .filter(|stage| stage.name == timed.stage);
    same.any(|stage| stage_names::is_of_engine(session, facts, stage))
}

fn ceiling(context: &Context<'_>, name: &str, dtype: &str) -> Result<Ceiling, Unavailable> {
    let shown = context.options.gpu.as_deref().unwrap_or(name);
    if shown.is_empty() {
        return Err(Unavailable::UnnamedGpu);
    }
    let gpu = context
        .gpu_spec(name)
        .ok_or_else(|| Unavailable::UnknownGpu(shown.to_owned()))?;
    let (name, dtype) = (gpu.name.clone(), dtype.to_owned());
    let Some(peak) = gpu.peak(&dtype) else {
        return Err(Unavailable::NoPeak { dtype, gpu: name });
    };
    Ok(Ceiling {
        gpu: name,
        dtype,
        rate: peak.dense,
        source: peak.source.clone(),
        bandwidth: gpu.memory_bandwidth,
        bandwidth_source: gpu.memory_source.clone(),
    })
}

impl Utilization {
    /// That of the unprofiled repeats of a stage.
    pub fn unprofiled(&self, session: &Session, series: &Series) -> Option<&StageUtilization> {
        let (pass, stage) = (session.text(series.pass), session.text(series.stage));
        let is_same = |timed: &StageTime| timed.pass == pass && timed.stage == stage;
        self.stages.iter().find(|stage_utilization| {
            stage_utilization.timed.profiled.is_none() && is_same(&stage_utilization.timed)
        })
    }
}

/// The HFU of a stage by counters, unless they hold fewer operations than its model needs: executed work cannot be
/// less than that, so launches with the rest were not counted, or the description of the model is of another one.
///
/// # Errors
/// What is missing for it.
pub fn hfu<'a>(context: &Context<'_>, stage: &'a StageWork) -> Result<&'a Hfu, Lack> {
    let hfu = stage.hfu.as_ref().map_err(|lack| *lack)?;
    let utilization = context
        .results
        .utilization()
        .map_or(&[][..], |utilization| &utilization.stages);
    let stage_utilization = utilization
        .iter()
        .find(|other_stage| other_stage.timed.is_of(&stage.summary));
    let model = stage_utilization
        .and_then(StageUtilization::flops)
        .map(|flops| flops * stage.gpus as f64);
    match stage.executed_flops().zip(model) {
        Some((executed, model)) if executed < model => Err(Lack::BelowModel(executed, model)),
        _ => Ok(hfu),
    }
}

impl StageUtilization {
    /// Measured rate ÷ specified rate, if it was measured.
    pub fn measured_share(&self) -> Option<Ratio> {
        let share = Ratio(self.measured_rate? / self.ceiling.as_ref().ok()?.rate);
        Some(share).filter(|share| share.is_positive() && share.is_finite())
    }

    /// Model FLOPs, causal.
    pub fn flops(&self) -> Option<Flops> {
        self.work.as_ref().ok().map(|work| work.flops)
    }

    /// Model FLOPs, causal, per second of the stage time.
    pub fn rate(&self) -> Option<FlopsPerSecond> {
        self.flops().map(|flops| flops / self.seconds())
    }

    const fn seconds(&self) -> Seconds {
        self.timed.time.seconds()
    }

    fn known(&self) -> Result<(&Work, &Ceiling), Unavailable> {
        Ok((
            self.work.as_ref().map_err(Clone::clone)?,
            self.ceiling.as_ref().map_err(Clone::clone)?,
        ))
    }

    /// Model FLOPs ÷ (stage time × specified rate).
    ///
    /// # Errors
    /// What is missing for it.
    pub fn mfu(&self) -> Result<Ratio, Unavailable> {
        let (work, ceiling) = self.known()?;
        let attainable = self.seconds() * ceiling.rate;
        Unavailable::unless_possible(Ratio(work.flops / attainable))
    }

    /// MFU by the FLOPs of full attention; it may exceed 1.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn mfu_full_attention(&self) -> Result<Ratio, Unavailable> {
        let (mfu, (work, _)) = (self.mfu()?, self.known()?);
        Ok(Ratio(work.flops_full * mfu / work.flops))
    }

    /// Model FLOPs ÷ (stage time × measured rate).
    pub fn of_measured(&self) -> Option<Ratio> {
        let attainable = self.seconds() * self.measured_rate?;
        Some(Ratio(self.flops()? / attainable))
    }

    /// The share of the stage time that its FLOPs and bytes need, whichever take longer, at measured peaks where they are
    /// known and else at specified ones.
    pub fn least_share(&self) -> Option<Ratio> {
        let (work, ceiling) = self.known().ok()?;
        let at_rate = work.flops / self.measured_rate.unwrap_or(ceiling.rate);
        let bandwidth = self.measured_bandwidth.unwrap_or(ceiling.bandwidth);
        let at_bandwidth = work.bytes.map_or(Seconds::ZERO, |bytes| bytes / bandwidth);
        let share = Ratio(at_rate.max(at_bandwidth) / self.seconds());
        Some(share).filter(|share| share.is_finite())
    }

    /// Bytes that must move ÷ (stage time × specified bandwidth), of decode stages.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn mbu(&self) -> Result<Ratio, Unavailable> {
        let (work, ceiling) = self.known()?;
        let decode = matches!(self.timed.kind, StageKind::Decode | StageKind::DecodeStep);
        let bytes = work
            .bytes
            .filter(|_| decode)
            .ok_or(Unavailable::NotDecode)?;
        let attainable = self.seconds() * ceiling.bandwidth;
        Unavailable::unless_possible(Ratio(bytes / attainable))
    }

    /// MFU ÷ busy share.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn kernel_time_mfu(&self) -> Result<Ratio, Unavailable> {
        self.of_busy(self.mfu())
    }

    /// MBU ÷ busy share.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn kernel_time_mbu(&self) -> Result<Ratio, Unavailable> {
        self.of_busy(self.mbu())
    }

    /// A utilization of the stage time, of its busy time.
    fn of_busy(&self, utilization: Result<Ratio, Unavailable>) -> Result<Ratio, Unavailable> {
        let share = self.timed.busy_share().filter(Ratio::is_positive);
        let share = share.ok_or(Unavailable::Unprofiled)?;
        Unavailable::unless_possible(Ratio(utilization? / share))
    }

    /// Tokens processed or produced per second.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn tokens_per_second(&self) -> Result<TokensPerSecond, Unavailable> {
        let tokens = self.work.as_ref().map_err(Clone::clone)?.tokens;
        Ok(TokensPerSecond(tokens.0 / self.seconds().0))
    }

    /// What a model processes or produces per second: images, if it is one of images, or tokens.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn throughput(&self) -> Result<(f64, Unit), Unavailable> {
        match self.images_per_second() {
            Ok(images) => Ok((images.0, Unit::ImagesPerSecond)),
            Err(_) => Ok((self.tokens_per_second()?.0, Unit::TokensPerSecond)),
        }
    }

    /// Images processed per second, by a model of images.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn images_per_second(&self) -> Result<ImagesPerSecond, Unavailable> {
        let images = self.work.as_ref().map_err(Clone::clone)?.images;
        let images = images.ok_or(Unavailable::NoFormula)?;
        Ok(ImagesPerSecond(images.0 / self.seconds().0))
    }
}
