//! Diagnostics of a trace.

use std::collections::BTreeMap;

use super::header::Header;
use super::rows::Losses;
use super::stream::Ending;
use super::tables::SectionContent;
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};

/// Kinds of unknown events that are listed by name.
const LISTED: usize = 6;

/// Beginnings of the categories that the profiler gives to events of accelerators that are not read.
const OTHER_DEVICES: [&str; 5] = ["mtia_", "hpu_", "xpu_", "glow_", "privateuse1_"];

/// Collects the diagnostics of one file.
pub(super) struct Notes<'a> {
    pub(super) file: &'a ArtifactFile,
    pub(super) diagnostics: &'a mut Diagnostics,
}

/// The category of an unsupported accelerator among the unused events.
pub(super) fn other_device(unknown: &BTreeMap<(String, String), u64>) -> Option<String> {
    let mut categories = unknown.keys().map(|(_, category)| category);
    let is_its = |category: &&String| OTHER_DEVICES.iter().any(|name| category.starts_with(name));
    categories.find(is_its).cloned()
}

impl Notes<'_> {
    fn add(&mut self, severity: Severity, code: &'static str, count: u64, message: &str) {
        if count > 0 {
            let diagnostic = Diagnostic::new(severity, code, message);
            self.diagnostics
                .push(diagnostic.artifact(&self.file.path).times(count));
        }
    }

    /// Reports data that is missing because the file is damaged.
    pub(super) fn ending(&mut self, ending: &Ending, header: &Header) {
        let (at, reason) = match ending {
            Ending::Whole => {
                let message = header.damage.unwrap_or_default();
                let count = u64::from(header.damage.is_some());
                return self.add(Severity::DataLoss, "torch/damaged", count, message);
            }
            Ending::CutOff(at) => (*at, "the file is cut off".to_owned()),
            Ending::Unreadable(at, error) => (*at, format!("the file cannot be unpacked: {error}")),
        };
        let message = format!("{reason}; only the events before are read");
        let diagnostic = Diagnostic::new(Severity::DataLoss, "torch/damaged", message);
        self.diagnostics
            .push(diagnostic.artifact(&self.file.path).at(Location::Byte(at)));
    }

    /// Skipped events.
    pub(super) fn losses(&mut self, losses: &Losses, unknown: &BTreeMap<(String, String), u64>) {
        if let Some(at) = losses.first_invalid {
            let message = "events that are not valid JSON are skipped; the first begins here";
            let diagnostic = Diagnostic::new(Severity::DataLoss, "torch/invalid-events", message);
            let diagnostic = diagnostic.artifact(&self.file.path).at(Location::Byte(at));
            self.diagnostics.push(diagnostic.times(losses.invalid));
        }
        self.add(
            Severity::DataLoss,
            "torch/untimed-events",
            losses.untimed,
            "events without a start or length that can be read are skipped",
        );
        self.add(
            Severity::DataLoss,
            "torch/memory-without-size",
            losses.unsized_memory,
            "allocator events without a size are skipped",
        );
        let mut kinds: Vec<_> = unknown.iter().collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), *kind));
        let names = kinds.iter().take(LISTED).map(|((phase, category), count)| {
            format!("{count} of phase \"{phase}\", category \"{category}\"")
        });
        let mut list = names.collect::<Vec<_>>().join("; ");
        if let Some(more @ 1..) = kinds.len().checked_sub(LISTED) {
            list.push_str(&format!("; and {more} more kinds"));
        }
        let message = format!("events of unknown kinds are not used: {list}");
        self.add(
            Severity::Info,
            "torch/unknown-events",
            unknown.values().sum(),
            &message,
        );
    }

    /// True if there is anything to analyze.
    pub(super) fn content(
        &mut self,
        operations: u64,
        operators: u64,
        events: u64,
        other_device: Option<String>,
    ) {
        if operations > 0 {
            return;
        }
        let (severity, code, message, hint) = if let Some(category) = other_device {
            let message =
                format!("the work of this accelerator is not read: events of category {category}");
            (
                Severity::DataLoss,
                "torch/other-device",
                message,
                "profile on a CUDA or ROCm device",
            )
        } else if operators > 0 {
            let message = "the trace holds operators but no kernel and no copy".to_owned();
            let hint = "profile with ProfilerActivity.CUDA to see the GPU's work";
            (Severity::Notice, "torch/no-gpu-work", message, hint)
        } else {
            let message =
                format!("no kernel, copy or operator is among the {events} events of the trace");
            let hint = "the profiler's active window was empty: let schedule(wait, warmup, active) end within the run, with active of at least 1, and call prof.step() once per iteration";
            (Severity::DataLoss, "torch/empty-window", message, hint)
        };
        let diagnostic = Diagnostic::new(severity, code, message);
        self.diagnostics
            .push(diagnostic.artifact(&self.file.path).hint(hint));
    }

    /// How GPU work and calls belong together.
    pub(super) fn joins(&mut self, findings: &SectionContent, by_flows: u64) {
        let operations = findings.gpu_operations;
        let joins = &findings.joins;
        let message =
            format!("GPU operations (of {operations}) whose launching call is not in the trace");
        self.add(
            Severity::Notice,
            "torch/launch-without-call",
            joins.without_call,
            &message,
        );
        let message = format!(
            "GPU operations (of {operations}) share their launching call with another, as in a graph replay"
        );
        self.add(
            Severity::Info,
            "torch/shared-correlation",
            joins.shared,
            &message,
        );
        self.add(
            Severity::Notice,
            "torch/ambiguous-process",
            joins.ambiguous,
            "GPU operations whose correlation id several processes used; the first is taken",
        );
        self.add(
            Severity::Info,
            "torch/correlated-by-flow",
            by_flows,
            "GPU operations without correlation id were joined by their flow arrows",
        );
        let (missing, ambiguous) = findings.untied;
        self.add(
            Severity::Info,
            "torch/backward-without-forward",
            missing,
            "backward operators whose forward operator is not in the trace; their work belongs to no module",
        );
        self.add(
            Severity::Notice,
            "torch/ambiguous-backward",
            ambiguous,
            "backward operators whose sequence number operators of several threads have; their work belongs to no module",
        );
        self.add(
            Severity::Notice,
            "torch/copy-without-size",
            findings.unsized_copies,
            "copies without a size count as 0 bytes",
        );
    }
}
