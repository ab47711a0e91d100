//! What a rule found: a statement, what it rests on, how much it could bring, and what to do.

use rooflens_schemas::{Evidence, Scope};
use rooflens_units::{Ratio, Time};
use serde::Serialize;

use super::Inline;

/// Share of a run's stage time from which on a finding is critical.
pub const CRITICAL_SHARE: Ratio = Ratio(0.20);

/// Share of a run's stage time from which on a finding is a warning.
pub const WARNING_SHARE: Ratio = Ratio(0.05);

/// A statement made of metrics, with what it rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that made it, such as `launch-bound`.
    pub id: &'static str,
    /// The rule's title and what it is about.
    pub title: String,
    /// How much it matters.
    pub severity: Severity,
    /// Pass, stage and rank that it is about; empty for the whole bundle.
    pub scope: Scope,
    /// How much of the run's time it could save at most, or is about: orders findings.
    pub weight_ns: Time,
    /// The statement.
    pub statement: Vec<Inline>,
    /// What could be saved at most, if that can be reported.
    pub gain: Option<Gain>,
    /// What to do, if something is to be done.
    pub advice: Option<Vec<Inline>>,
    /// What to capture next to be sure.
    pub next: Option<Vec<Inline>>,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What gives a number of the statement again from the raw artifact.
    pub query: Option<Query>,
    /// The cause in this bundle, if it is known closer than by the rule.
    pub root: Option<Root>,
    /// Whether it is about the measurement and not about the run: how far its figures carry.
    pub on_measurement: bool,
    /// Whether it says where time goes and not why.
    #[serde(skip)]
    pub is_general: bool,
    /// Whether a rule that says no cause has it apart from what a named cause explains.
    #[serde(skip)]
    pub is_apart: bool,
    /// Whether it removes waits alone: the host works as long as before.
    #[serde(skip)]
    pub is_wait: bool,
    /// Other rules whose faults must be repaired, too, for its gain.
    #[serde(skip)]
    pub also: Vec<&'static str>,
    /// What its gain shortens, and by how much in an iteration; empty where that is not known.
    #[serde(skip)]
    pub parts: Vec<(Part, Time)>,
    /// Its number among the first actions of the summary, from 1.
    #[serde(skip)]
    pub action: Option<usize>,
}

/// A part of the busy time of a stage, which two findings can shorten, but only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A kernel by its row.
    Kernel(u32),
    /// Kernels that another form of the same computation replaces, by the number of their kind.
    Group(u8),
    /// Copies while no kernel runs.
    Copies,
    /// Collectives while no kernel computes.
    Communication,
}

/// A cause that the data names, in words of the summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Root {
    /// What happens, as a clause.
    pub cause: String,
    /// What to do about it.
    pub action: String,
    /// What must hold for it, where that is known closer.
    pub condition: Option<String>,
    /// Passes that show it, each by itself.
    pub passes: usize,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing: little to gain, or a limit of the data.
    #[default]
    Note,
    /// From [`WARNING_SHARE`] of the run on, or figures that must be read with care.
    Warning,
    /// From [`CRITICAL_SHARE`] of the run on, or figures that are wrong.
    Critical,
}

impl Severity {
    /// The severity of what could save this share of a run.
    pub fn of_share(share: Ratio) -> Self {
        match share {
            share if share >= CRITICAL_SHARE => Self::Critical,
            share if share >= WARNING_SHARE => Self::Warning,
            _ => Self::Note,
        }
    }

    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The most that a change could save: a bound, not a promise. Bounds of several findings overlap and must not be added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// Time saved at most.
    pub saved_ns: Time,
    /// Time that it is a part of.
    pub of_ns: Time,
    /// Whose time that is: a stage, or the run.
    pub of: String,
    /// Formula and assumption.
    pub basis: String,
    /// What the times are of.
    pub kind: GainKind,
}

/// What a bound of a gain is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GainKind {
    /// Idle time of an iteration, as measured.
    Idle,
    /// Time of an iteration beyond that of the same work as it was measured in another form.
    Measured,
    /// Work of an iteration, by a model of what is left to do.
    Work,
    /// Busy time of an iteration: nothing is saved before the CPU keeps up.
    WorkAfterCpu,
    /// Idle time of all iterations, of which some have it.
    Stalls,
    /// Time of the run as a whole.
    #[default]
    Run,
}

impl Gain {
    /// Saved time as a share of the whole; 0 of nothing.
    pub fn share(&self) -> Ratio {
        if self.of_ns.is_positive() {
            Ratio::of(self.saved_ns, self.of_ns)
        } else {
            Ratio::ZERO
        }
    }
}

/// SQL over the artifact as it was exported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Query {
    /// What it returns, with the number that this report has for it.
    pub gives: Vec<Inline>,
    /// The statement, for `sqlite3`.
    pub sql: String,
}
