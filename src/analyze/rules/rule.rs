//! A rule, and what comes of it.

use rooflens_document::{Inline, Quantity};
use rooflens_schemas::Unit;
use rooflens_session::Ns;
use rooflens_units::{Bytes, Ratio};

use crate::draft::Draft;
use crate::evidence::Evidence;

/// A rule.
pub struct Rule {
    /// Stable name, such as `launch-bound`. It gives the keys of the rule's messages.
    pub id: &'static str,
    /// The numbers that decide.
    pub thresholds: &'static [Threshold],
    /// Whether it is about how far figures carry.
    pub on_measurement: bool,
    /// Whether it says where time goes and not why: a rule that names the cause comes first.
    pub is_general: bool,
    /// Whether it reads single kernels, also those in CUDA graphs.
    pub(crate) is_on_kernels: bool,
    run: fn(&Evidence<'_>) -> Outcome,
}

impl Rule {
    /// A rule about the run.
    pub(crate) const fn new(
        id: &'static str,
        thresholds: &'static [Threshold],
        run: fn(&Evidence<'_>) -> Outcome,
    ) -> Self {
        Self {
            id,
            thresholds,
            on_measurement: false,
            is_general: false,
            is_on_kernels: false,
            run,
        }
    }

    /// The same about the measurement.
    pub(crate) const fn on_measurement(mut self) -> Self {
        self.on_measurement = true;
        self
    }

    /// The same, which reads single kernels: those of the timeline that shows the nodes of CUDA graphs.
    pub(crate) const fn on_kernels(mut self) -> Self {
        self.is_on_kernels = true;
        self
    }

    /// The same, which names no cause.
    pub(crate) const fn general(mut self) -> Self {
        self.is_general = true;
        self
    }

    /// The outcome of the rule; where data is insufficient, with what its `needs` say.
    pub(crate) fn judge(&self, evidence: &Evidence<'_>) -> Outcome {
        match (self.run)(evidence) {
            Outcome::InsufficientData(needs) if needs.is_empty() => {
                let needs = evidence.text.message(self.id, "needs", &[]);
                Outcome::InsufficientData(needs.iter().flatten().map(Inline::plain).collect())
            }
            outcome => outcome,
        }
    }
}

/// A number that decides, and what is compared with it.
pub struct Threshold {
    /// Key of the words for what is compared.
    pub key: &'static str,
    /// The number.
    pub value: Quantity,
}

impl Threshold {
    pub(crate) const fn ratio(key: &'static str, value: Ratio) -> Self {
        Self {
            key,
            value: Quantity::ratio(value.0),
        }
    }

    pub(crate) const fn number(key: &'static str, value: f64) -> Self {
        Self {
            key,
            value: Quantity::new(value, Unit::One),
        }
    }

    pub(crate) const fn count(key: &'static str, value: u64) -> Self {
        Self {
            key,
            value: Quantity::count(value),
        }
    }

    pub(crate) const fn ns(key: &'static str, value: Ns) -> Self {
        Self {
            key,
            value: Quantity::ns(value),
        }
    }

    pub(crate) const fn bytes(key: &'static str, value: Bytes) -> Self {
        Self {
            key,
            value: Quantity::new(value.0, Unit::Bytes),
        }
    }
}

/// The outcome of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It holds.
    Found(Vec<Draft>),
    /// It does not hold; names the stages without data, if there are any.
    Passed(String),
    /// The bundle holds nothing of its subject, or another finding says it better; says why.
    NotApplicable(String),
    /// The bundle lacks data; says what to capture. Empty: what the rule's `needs` say.
    InsufficientData(String),
}

/// The outcome of a rule for one stage.
pub(crate) enum Look {
    /// It holds.
    Found(Box<Draft>),
    /// It does not hold.
    Passed,
    /// Another fact makes it pointless; says which.
    Suppressed(String),
    /// The stage holds nothing of its subject; says what is missing.
    NotApplicable(String),
    /// The bundle lacks data.
    InsufficientData,
}

impl Outcome {
    /// It does not hold anywhere.
    pub(crate) const PASSED: Self = Self::Passed(String::new());

    /// The bundle lacks what the rule's `needs` say.
    pub(crate) const INSUFFICIENT_DATA: Self = Self::InsufficientData(String::new());

    /// Found if there is a draft.
    pub(crate) fn of_drafts(drafts: impl IntoIterator<Item = Draft>) -> Self {
        let drafts: Vec<Draft> = drafts.into_iter().collect();
        if drafts.is_empty() {
            Self::PASSED
        } else {
            Self::Found(drafts)
        }
    }

    /// The outcome over stages, given with their labels. It is passed if it is so for each stage that has data and a
    /// subject.
    pub(crate) fn of_stages<'a>(looks: impl Iterator<Item = (&'a str, Look)>) -> Self {
        let (mut drafts, mut is_passed, mut without_data) = (Vec::new(), false, Vec::new());
        let (mut suppressed, mut not_applicable) = (Reasons::default(), Reasons::default());
        for (label, look) in looks {
            match look {
                Look::Found(draft) => drafts.push(*draft),
                Look::Passed => is_passed = true,
                Look::InsufficientData => without_data.push(label),
                Look::Suppressed(reason) => suppressed.add(reason, label),
                Look::NotApplicable(reason) => not_applicable.add(reason, label),
            }
        }
        if !drafts.is_empty() {
            Self::Found(drafts)
        } else if !suppressed.0.is_empty() {
            Self::NotApplicable(suppressed.words())
        } else if is_passed {
            Self::Passed(without_data.join(", "))
        } else if !not_applicable.0.is_empty() {
            Self::NotApplicable(not_applicable.words())
        } else {
            Self::INSUFFICIENT_DATA
        }
    }

    /// The same, with these words for data that is lacking where the rule has none of its own.
    pub(crate) fn or_needs(self, needs: String) -> Self {
        match self {
            Self::InsufficientData(own) if own.is_empty() => Self::InsufficientData(needs),
            outcome => outcome,
        }
    }

    /// Found as one finding that says all drafts, about passes or stages with the same advice. Advice is that of the first.
    pub(crate) fn joined(drafts: impl IntoIterator<Item = Draft>) -> Self {
        Self::of_drafts(drafts.into_iter().reduce(Draft::join))
    }
}

/// Reasons of a kind, each with the labels of its stages.
#[derive(Default)]
struct Reasons<'a>(Vec<(String, Vec<&'a str>)>);

impl<'a> Reasons<'a> {
    fn add(&mut self, reason: String, label: &'a str) {
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, labels)) => labels.push(label),
            None => self.0.push((reason, vec![label])),
        }
    }

    /// `prefill, decode: why; eager: why not`.
    fn words(&self) -> String {
        let mut parts = Vec::new();
        for (reason, labels) in &self.0 {
            parts.push(format!("{}: {reason}", labels.join(", ")));
        }
        parts.join("; ")
    }
}

impl Look {
    /// Suppressed by another rule, which holds for the same stage.
    pub(crate) fn suppressed_by(evidence: &Evidence<'_>, rule: &str) -> Self {
        let rule = evidence.text.rule(rule);
        Self::Suppressed(words!(evidence, "findings.said_by", rule = rule))
    }
}

impl From<Draft> for Look {
    fn from(draft: Draft) -> Self {
        Self::Found(Box::new(draft))
    }
}

impl From<Option<Draft>> for Look {
    fn from(draft: Option<Draft>) -> Self {
        draft.map_or(Self::Passed, Self::from)
    }
}
