//! Load tests of serving engines: results of load generators and engines into typed runs, and those into a report.
//!
//! ```text
//! files → import → Run (requests, stated figures, engine samples) → analysis → present → rooflens_document::report::Report
//! ```
//!
//! - Figures have the types of `rooflens_units`: times are nanoseconds, rates are per second, shares are 0 to 1. What a file does not have is `None`.
//! - **TTFT** is from when a request was due to its first token, **latency** from there to its end, **TPOT** is
//!   (latency − TTFT) ÷ (output tokens − 1), one value a request, and **ITL** the time between two outputs, one value
//!   an output. A request is due when it is scheduled in an open loop, else when it is sent.
//! - Percentiles are linear between closest ranks, as NumPy's default (type 7 of Hyndman and Fan, 1996).
//! - Goodput is answers per second that keep all limits (DistServe, Zhong et al., OSDI 2024).
//! - Mean requests in flight are answers per second × mean latency (Little, 1961).
//!
//! `docs/serving.md` says what is read and by which rules bottlenecks and advice follow.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod import;
mod present;
pub mod runs;
pub mod stats;
#[cfg(test)]
mod tests;

use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_units::Ratio;
use runs::Run;

pub use present::report;

/// Relative difference of two figures of one file that should agree, beyond which it is remarked.
const APART: Ratio = Ratio(0.02);

/// Gives each run a name of its own, and remarks figures of a file that contradict one another: a wrong unit shows there.
pub fn check(input: &mut import::Input, diagnostics: &mut Diagnostics) {
    rename(&mut input.runs);
    for run in &input.runs {
        let figures = analysis::figures::Figures::of(run);
        if let Some((figure, apart)) = analysis::figures::disagreement(run, &figures)
            && apart > APART
        {
            diagnostics.push(contradiction(run, figure, apart));
        }
    }
}

/// Puts the folder of its bundle before a name that runs of other bundles have, and a number behind other names that occur
/// twice.
fn rename(runs: &mut [Run]) {
    let folder = |run: &Run| {
        run.artifact
            .split_once('/')
            .map(|(folder, _)| folder.to_owned())
    };
    let names: Vec<(String, Option<String>)> = runs
        .iter()
        .map(|run| (run.label.clone(), folder(run)))
        .collect();
    for (number, run) in runs.iter_mut().enumerate() {
        let name = &names[number];
        let (label, folder) = name;
        let before = names[..number]
            .iter()
            .filter(|(other, _)| other == label)
            .count();
        let after = names[number + 1..]
            .iter()
            .filter(|(other, _)| other == label)
            .count();
        if before + after == 0 {
            continue;
        }
        let is_only = names.iter().filter(|other| *other == name).count() == 1;
        run.label = match folder {
            Some(folder) if is_only => format!("{folder}/{label}"),
            _ => format!("{label} #{}", before + 1),
        };
    }
}

fn contradiction(run: &Run, figure: &str, apart: Ratio) -> Diagnostic {
    let percent = apart.0 * 100.0;
    let message = format!(
        "{figure} of {} is {percent:.0} % away from what the other figures of the file give",
        run.label
    );
    Diagnostic::new(Severity::Notice, "serving/contradiction", message)
        .artifact(&run.artifact)
        .hint("check that its units and its requests are those of one run")
}
