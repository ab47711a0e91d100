//! What can end a command, and with which exit code.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use crate::bundle::BundleError;
use crate::hardware::UnknownGpu;
use crate::pipeline::{LoadTestError, NotesError, NothingToReport, OpenError, UnknownStage};
use crate::render::RenderError;

/// Exit code of an input of no use.
pub(super) const UNUSABLE: u8 = 3;

/// Why a command ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// Arguments that clap cannot judge.
    #[error("{0}")]
    Usage(String),
    /// The project file is wrong.
    #[error(transparent)]
    Config(#[from] rooflens_config::ConfigError),
    /// The input could not be opened.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The input holds nothing to report.
    #[error("{message}")]
    Unusable {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// `--strict`, and something was lost.
    #[error("{0} of the input was lost or could not be read, and --strict is on")]
    Strict(String),
    /// The command did its work, but of what it printed some is an error.
    #[error("{0} error(s) above; what they are about is missing or not to be trusted")]
    Errors(usize),
    /// A check found faults.
    #[error("{0}")]
    Gate(String),
    /// Figures changed beyond their limits, or `--strict` and values do not tell: one line each.
    #[error("{}", .0.join("\n"))]
    Regression(Vec<String>),
    /// The report could not be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A query is wrong.
    #[error("{0}")]
    Query(String),
}

impl CliError {
    /// An output that is one of the inputs.
    pub(super) fn overwrites(output: &Path) -> Self {
        let output = output.display();
        Self::Usage(format!(
            "{output} is an input, which the output would overwrite; give another name"
        ))
    }

    /// An input of no use, without advice.
    pub(super) fn unusable(message: impl Into<String>) -> Self {
        Self::Unusable {
            message: message.into(),
            hint: None,
        }
    }

    /// Exit code: 1 done with errors or a fault, 2 usage, 3 input, 4 output, 5 regression.
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Gate(_) | Self::Errors(_) => 1,
            Self::Usage(_)
            | Self::Config(_)
            | Self::Query(_)
            | Self::Render(RenderError::Template(_)) => 2,
            Self::Bundle(_) | Self::Unusable { .. } | Self::Strict(_) => UNUSABLE,
            Self::Render(_) | Self::Write { .. } => 4,
            Self::Regression(_) => 5,
        }
    }

    /// Whether the reader of our output went away, which is not an error.
    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write { error, .. } if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Advice that goes with the message.
    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            Self::Unusable { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        let message = error.to_string();
        match error {
            OpenError::Bundle(error) => Self::Bundle(error),
            OpenError::NotAFile(_) => Self::Usage(message),
            OpenError::SeveralRuns(_) => Self::Usage(format!(
                "{message}; report one at a time, or --merge parts of one run"
            )),
            OpenError::Unreadable { .. }
            | OpenError::TooLarge(_)
            | OpenError::UnmatchedStages(_) => Self::Unusable {
                hint: error.hint().map(str::to_owned),
                message,
            },
            OpenError::Temporary(error) => Self::Write {
                path: env::temp_dir(),
                error,
            },
        }
    }
}

impl From<LoadTestError> for CliError {
    fn from(error: LoadTestError) -> Self {
        match error {
            LoadTestError::Bundle(error) => Self::Bundle(error),
            LoadTestError::Labels { labels, results } => Self::Usage(format!(
                "--label is given {labels} times for {results} result files"
            )),
            LoadTestError::NoGpuSample(_) => Self::Unusable {
                message: error.to_string(),
                hint: Some("--gpu-metrics takes NVML CSV, or text of DCGM's exporter".to_owned()),
            },
        }
    }
}

impl From<NothingToReport> for CliError {
    fn from(nothing: NothingToReport) -> Self {
        Self::Unusable {
            message: nothing.to_string(),
            hint: nothing.hint().map(str::to_owned),
        }
    }
}

impl From<NotesError> for CliError {
    fn from(error: NotesError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<UnknownGpu> for CliError {
    fn from(error: UnknownGpu) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<UnknownStage> for CliError {
    fn from(error: UnknownStage) -> Self {
        Self::unusable(error.to_string())
    }
}
