//! The frame of all rules: a rule gives numbers by name, its id gives the messages that say them.
//!
//! Each rule once built its sentences itself, under keys that repeat its id, so that most of its lines were words. Now a
//! rule has a [`Draft`]: scope, gain, evidence, and arguments by name. The table of the rule in the catalogue has the
//! messages: `statement`, `advice`, `next`, `basis` of the gain, and `root_cause`, `root_action` and `root_if` of a known
//! cause, all of which take what they need of the same arguments. A rule names a message only where it chooses between
//! several, such as `advice_graphs`. `tests/text.rs` compares the arguments of both.

use rooflens_document::{Arg, Finding, Inline, Root};

use crate::evidence::Evidence;

/// The arguments of a draft by name: `arguments! { stage = &stage.label, share = share }`.
macro_rules! arguments {
    ($($name:ident = $value:expr),* $(,)?) => {
        vec![$((stringify!($name), rooflens_document::Arg::from($value))),*]
    };
}

/// Arguments of messages by name.
pub(crate) type Arguments = Vec<(&'static str, Arg)>;

/// A finding before the frame gives it its words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    /// All but words; `basis` of its gain has what follows the rule's own basis.
    pub(crate) finding: Finding,
    arguments: Arguments,
    statement: &'static str,
    /// Words after the statement.
    also: Vec<Inline>,
    advice: Message,
    next: Message,
    basis: Message,
    root: Cause,
    /// What the same rule says of other passes or stages in the same finding.
    others: Vec<Self>,
}

/// What says a part of a finding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// The message of this key in the rule's table, if it has one.
    Key(&'static str),
    /// These words.
    Words(Vec<Inline>),
    /// Nothing.
    Silent,
}

/// Whether the cause is known closer than by the rule.
#[derive(Clone, Debug, PartialEq)]
enum Cause {
    Unknown,
    /// By the rule's `root_cause`, `root_action` and `root_if`.
    OfRule,
    /// By the messages of these keys.
    OfKeys {
        cause: &'static str,
        action: &'static str,
        condition: Option<&'static str>,
    },
    Words(Box<Root>),
}

impl Draft {
    pub(crate) fn new(finding: Finding, arguments: Arguments) -> Self {
        Self {
            finding,
            arguments,
            statement: "statement",
            advice: Message::Key("advice"),
            next: Message::Key("next"),
            basis: Message::Key("basis"),
            also: Vec::new(),
            root: Cause::Unknown,
            others: Vec::new(),
        }
    }

    /// The cause that these messages say; the condition is the rule's.
    pub(crate) fn root(mut self, cause: &'static str, action: &'static str) -> Self {
        self.root = Cause::OfKeys {
            cause,
            action,
            condition: None,
        };
        self
    }

    /// What must hold for the action of [`Draft::root`], by its key.
    pub(crate) fn only_if(mut self, key: &'static str) -> Self {
        if let Cause::OfKeys { condition, .. } = &mut self.root {
            *condition = Some(key);
        }
        self
    }

    /// Another statement than `statement`; advice and next step then have keys of their own, too.
    pub(crate) fn statement(mut self, key: &'static str) -> Self {
        self.statement = key;
        self
    }

    /// Words after the statement.
    pub(crate) fn also(mut self, words: impl IntoIterator<Item = Inline>) -> Self {
        self.also.extend(words);
        self
    }

    /// Another advice than `advice`, or none.
    pub(crate) fn advice(mut self, advice: impl Into<Message>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Another next step than `next`, or none.
    pub(crate) fn next(mut self, next: impl Into<Message>) -> Self {
        self.next = next.into();
        self
    }

    /// Another basis of the gain than `basis`.
    pub(crate) fn basis(mut self, basis: impl Into<Message>) -> Self {
        self.basis = basis.into();
        self
    }

    /// Whether the cause is the one that `root_cause` and `root_action` say.
    pub(crate) fn cause_if(mut self, is_known: bool) -> Self {
        self.root = if is_known {
            Cause::OfRule
        } else {
            Cause::Unknown
        };
        self
    }

    /// A cause in words of its own, if it is known.
    pub(crate) fn known_cause(mut self, root: Option<Root>) -> Self {
        self.root = root.map_or(Cause::Unknown, |root| Cause::Words(Box::new(root)));
        self
    }

    /// The same as an experiment: what it saves is not known.
    pub(crate) fn without_gain(mut self) -> Self {
        self.finding.gain = None;
        self
    }

    /// One draft that says both.
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.others.push(other);
        self
    }

    /// The finding in words of the rule.
    pub(crate) fn finding(&self, rule: &str, evidence: &Evidence<'_>) -> Finding {
        let mut finding = self.own_finding(rule, evidence);
        for other in &self.others {
            let other = other.own_finding(rule, evidence);
            finding.title = [finding.title, other.title].join(evidence.text.comma());
            finding.severity = finding.severity.max(other.severity);
            finding.scope = rooflens_schemas::Scope::default();
            finding.weight_ns = finding.weight_ns.max(other.weight_ns);
            finding.statement.push(evidence.text.space().into());
            finding.statement.extend(other.statement);
            finding.evidence.extend(other.evidence);
        }
        finding
    }

    fn own_finding(&self, rule: &str, evidence: &Evidence<'_>) -> Finding {
        let say = |key: &str| evidence.text.message(rule, key, &self.arguments);
        let line = |key: &str| say(key).map(|message| plain(&message));
        let part = |message: &Message| match message {
            Message::Key(key) => say(key),
            Message::Words(words) => Some(words.clone()),
            Message::Silent => None,
        };
        let mut finding = self.finding.clone();
        finding.statement = say(self.statement).unwrap_or_default();
        finding.statement.extend_from_slice(&self.also);
        finding.advice = part(&self.advice);
        finding.next = part(&self.next);
        if let Some(gain) = &mut finding.gain {
            let basis = part(&self.basis).unwrap_or_default();
            gain.basis.insert_str(0, &plain(&basis));
        }
        finding.root = match &self.root {
            Cause::Unknown => None,
            Cause::Words(root) => Some((**root).clone()),
            Cause::OfKeys {
                cause,
                action,
                condition,
            } => Some(Root {
                cause: line(cause).unwrap_or_default(),
                action: line(action).unwrap_or_default(),
                condition: condition.and_then(line),
                passes: 1,
            }),
            Cause::OfRule => Some(Root {
                cause: line("root_cause").unwrap_or_default(),
                action: line("root_action").unwrap_or_default(),
                condition: line("root_if"),
                passes: 1,
            }),
        };
        finding
    }
}

fn plain(message: &[Inline]) -> String {
    message.iter().map(Inline::plain).collect()
}

impl From<&'static str> for Message {
    fn from(key: &'static str) -> Self {
        Self::Key(key)
    }
}

impl From<Option<&'static str>> for Message {
    fn from(key: Option<&'static str>) -> Self {
        key.map_or(Self::Silent, Self::Key)
    }
}

impl From<Vec<Inline>> for Message {
    fn from(words: Vec<Inline>) -> Self {
        Self::Words(words)
    }
}

impl From<String> for Message {
    fn from(words: String) -> Self {
        Self::Words(vec![Inline::Text(words)])
    }
}
