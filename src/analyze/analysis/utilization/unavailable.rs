//! Why a figure of utilization is not known.

use rooflens_units::Ratio;

/// What is missing for it, or what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub enum Unavailable {
    /// `workload.toml` lacks a statement: which one.
    NotStated(&'static str),
    /// The bundle holds no dimensions of the model.
    NoModel,
    /// No FLOPs formula for this kind of stage.
    NoFormula,
    /// The stage has no decode step.
    NoSteps,
    /// More decode steps than are believed.
    TooManySteps(u64),
    /// Bytes are counted for decode stages only.
    NotDecode,
    /// Unprofiled repeats have no busy time.
    Unprofiled,
    /// The bundle names no GPU.
    UnnamedGpu,
    /// A GPU of this name is not specified.
    UnknownGpu(String),
    /// The GPU of the pass is not specified.
    NoGpu,
    /// The GPU is specified without a rate of this dtype.
    NoPeak {
        /// Dtype; empty if the type of some products is not known.
        dtype: String,
        /// GPU.
        gpu: String,
    },
    /// It comes to this share of the peak, more than 1: the peak, the sizes or the ranges are wrong.
    AbovePeak(Ratio),
    /// The sizes of no matrix kernel are known.
    NoSizes,
    /// Its instances are steps of a serving engine, whose names do not say the context of each request.
    EngineSteps,
    /// The stage takes no time.
    NoTime,
    /// No clock samples within the stage.
    NoClock,
}

impl Unavailable {
    /// A share of the peak, if that allows it.
    pub(super) fn unless_possible(share: Ratio) -> Result<Ratio, Self> {
        if share <= Ratio::ONE {
            Ok(share)
        } else {
            Err(Self::AbovePeak(share))
        }
    }
}
