//! `{{mfu@decode}}`: metrics by name.
//!
//! A name is `id@stage/pass#rank:gpu0:class`. Parts that no other metric needs to be distinguished may be excluded.

use rooflens_schemas::{Metric, MetricValue, Scope};

use crate::report::Report;
use crate::{Catalogue, Inline, Quantity, words};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};

/// Faults that are listed one by one.
const LISTED_FAULTS: usize = 50;

/// Names that a hint lists.
const LISTED_NAMES: usize = 8;

/// The metrics that notes can refer to.
pub(super) struct References<'a> {
    text: &'static Catalogue,
    metrics: &'a [Metric],
    artifact: &'a str,
    /// The line of the text, counted from 1.
    pub(super) line: u64,
    /// References that name no metric, or no single one.
    pub(super) faults: Diagnostics,
}

impl<'a> References<'a> {
    pub(super) fn new(artifact: &'a str, report: &'a Report) -> Self {
        let faults = Diagnostics::default();
        Self {
            text: report.text,
            metrics: &report.metrics,
            artifact,
            line: 1,
            faults,
        }
    }

    /// Adds the pieces of `text`, with numbers in place of references; those that name none stay as they are written.
    pub(super) fn fill(&mut self, text: &str, piece: fn(String) -> Inline, out: &mut Vec<Inline>) {
        let (mut words, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("}}") {
            rest = after;
            let quantity = match before.rsplit_once("{{") {
                Some((before, name)) => self.quantity(name.trim()).map(|found| (before, found)),
                None => None,
            };
            let Some((before, quantity)) = quantity else {
                words.extend([before, "}}"]);
                continue;
            };
            words.push_str(before);
            // Spaces at the edge of words with weight would be lost next to a number.
            let inner = words.trim_end();
            out.push(piece(inner.to_owned()));
            out.push(Inline::Text(words[inner.len()..].to_owned()));
            out.push(quantity.into());
            words.clear();
            let next = rest.trim_start();
            out.push(Inline::Text(rest[..rest.len() - next.len()].to_owned()));
            rest = next;
        }
        words.push_str(rest);
        out.push(piece(words));
        out.retain(
            |piece| !matches!(piece, Inline::Text(text) | Inline::Strong(text) if text.is_empty()),
        );
    }

    /// The number of the metric of that name; none, and a fault, if there is none or more than one.
    fn quantity(&mut self, name: &str) -> Option<Quantity> {
        let mut matches: Vec<(usize, &'a Metric)> = Vec::new();
        for metric in self.metrics {
            if let Some(omitted) = omitted_parts(metric, name) {
                matches.push((omitted, metric));
            }
        }
        if let Some(exact) = matches.iter().position(|(omitted, _)| *omitted == 0) {
            matches = vec![matches[exact]];
        }
        let mut numbers = Vec::new();
        for (_, metric) in &matches {
            if let Some(value) = metric.value.number() {
                numbers.push(Quantity::new(value, metric.unit));
            }
        }
        if let [number] = numbers[..] {
            return Some(number);
        }
        let message = match (
            matches.first().map(|(_, metric)| &metric.value),
            numbers.len(),
        ) {
            (None, _) => words!(self, "notes.unknown", reference = name),
            (Some(MetricValue::Unavailable { reason }), 0) => {
                words!(
                    self,
                    "notes.unavailable",
                    reference = name,
                    reason = reason.as_str()
                )
            }
            (Some(_), count) => words!(
                self,
                "notes.ambiguous",
                reference = name,
                count = Quantity::count(count as u64)
            ),
        };
        let hint = match (numbers.len(), matches.is_empty()) {
            (0, false) => None,
            (_, true) => Some(self.hint(self.of_id(name))),
            (_, false) => Some(self.hint(matches.iter().map(|(_, metric)| *metric))),
        };
        self.fault(message, hint);
        None
    }

    /// The metrics of the id that a name begins with.
    fn of_id(&self, name: &str) -> impl Iterator<Item = &'a Metric> {
        let id = name
            .split(['@', '/', '#', ':'])
            .next()
            .unwrap_or_default()
            .to_owned();
        self.metrics.iter().filter(move |metric| metric.id == id)
    }

    /// What to write instead: the names of those metrics that are available.
    fn hint(&self, metrics: impl Iterator<Item = &'a Metric>) -> String {
        let available = metrics.filter(|metric| metric.value.number().is_some());
        let names: Vec<String> = available.map(full_name).collect();
        if names.is_empty() {
            return words!(self, "notes.all");
        }
        let more = names
            .len()
            .checked_sub(LISTED_NAMES)
            .filter(|more| *more > 0);
        let more = more.map(|more| Quantity::count(more as u64));
        let listed = names[..names.len().min(LISTED_NAMES)].join(", ");
        words!(self, "notes.one_of", names = listed, more = more)
    }

    fn fault(&mut self, message: String, hint: Option<String>) {
        let is_listed = self.faults.iter().count() < LISTED_FAULTS;
        let message = if is_listed {
            message
        } else {
            words!(self, "notes.more")
        };
        let fault = Diagnostic::new(Severity::Notice, "notes/reference", message);
        let mut fault = fault.artifact(self.artifact).at(Location::Line(self.line));
        fault.hint = hint.filter(|_| is_listed);
        self.faults.push(fault);
    }
}

/// What tells a metric from others of its id, in the order of a name.
fn parts(scope: &Scope) -> impl Iterator<Item = String> {
    let parts = [
        scope.stage.as_ref().map(|stage| format!("@{stage}")),
        scope.pass.as_ref().map(|pass| format!("/{pass}")),
        scope.rank.map(|rank| format!("#{rank}")),
        scope.gpu.map(|gpu| format!(":gpu{gpu}")),
        scope.class.as_ref().map(|class| format!(":{class}")),
    ];
    parts.into_iter().flatten()
}

fn full_name(metric: &Metric) -> String {
    parts(&metric.scope).fold(metric.id.clone(), |name, part| name + &part)
}

/// The parts of a metric's name that `name` omits; none if it names another.
fn omitted_parts(metric: &Metric, name: &str) -> Option<usize> {
    let (mut rest, mut omitted) = (name.strip_prefix(metric.id.as_str())?, 0);
    for part in parts(&metric.scope) {
        match rest.strip_prefix(part.as_str()) {
            Some(after) => rest = after,
            None => omitted += 1,
        }
    }
    rest.is_empty().then_some(omitted)
}
