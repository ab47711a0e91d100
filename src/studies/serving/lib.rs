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

/// Tells runs of the same name apart, and remarks figures of a file that contradict one another: a wrong unit shows there.
pub fn check(input: &mut import::Input, diagnostics: &mut Diagnostics) {
    let labels: Vec<String> = input.runs.iter().map(|run| run.label.clone()).collect();
    for (number, run) in input.runs.iter_mut().enumerate() {
        if labels.iter().filter(|label| **label == run.label).count() > 1 {
            let before = labels[..number]
                .iter()
                .filter(|label| **label == run.label)
                .count();
            run.label = format!("{} #{}", run.label, before + 1);
        }
        let figures = analysis::figures::Figures::of(run);
        if let Some((figure, apart)) = analysis::figures::disagreement(run, &figures)
            && apart > APART
        {
            diagnostics.push(contradiction(run, figure, apart));
        }
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
