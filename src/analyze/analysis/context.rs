//! What analyses read: tables, peaks, options, and the results before them.

use rooflens_hardware::{Gpu, Hardware};
use rooflens_session::Session;

use crate::{Facts, Results};

/// What analyses read.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The tables.
    pub session: &'a Session,
    /// Derived tables that several analyses need.
    pub facts: &'a Facts,
    /// Specified peaks.
    pub hardware: &'a Hardware,
    /// What the user chose.
    pub options: &'a Options,
    /// What the analyses before this one came to.
    pub results: &'a Results,
}

/// What the user may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// GPU name to use instead of the recorded one.
    pub gpu: Option<String>,
    /// Rule for bound classes.
    pub classifier: Classifier,
}

/// Rule for bound classes of profiled kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Classifier {
    /// Latency, compute, dram, l2, l1, balanced by speed-of-light figures.
    #[default]
    Rooflens,
    /// SM % minus DRAM % against ±5 points.
    Seed,
}

impl<'a> Context<'a> {
    /// Whether a trace of the session has recorded the input shapes of operators.
    pub fn records_shapes(&self) -> bool {
        let (session, operators) = (self.session, &self.session.operators);
        operators
            .shapes
            .iter()
            .any(|shapes| session.text(*shapes).contains(|c: char| c.is_ascii_digit()))
    }

    /// A context without results yet.
    pub fn new(
        session: &'a Session,
        facts: &'a Facts,
        hardware: &'a Hardware,
        options: &'a Options,
    ) -> Self {
        Self {
            session,
            facts,
            hardware,
            options,
            results: &crate::NONE,
        }
    }

    /// The same with results.
    pub fn with(self, results: &'a Results) -> Self {
        Self { results, ..self }
    }

    /// The specification of the GPU that a pass ran on, or that the user named.
    pub fn gpu_spec(&self, recorded: &str) -> Option<&'a Gpu> {
        self.hardware
            .find(self.options.gpu.as_deref().unwrap_or(recorded))
    }
}
