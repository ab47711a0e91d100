//! The GPU waits for host code between CUDA calls: framework, Python, input and output.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, host_pauses};
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule =
    Rule { id: "host-bound", thresholds: &[Threshold::ratio("thresholds.host_code", SHARE)], run };

/// Idle time in host code, in the operating system and without a CPU ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.05;

fn run(results: &Results<'_>) -> Outcome {
    results.per_cause(Cause::HostCode, |stage, line, code| match finding(results, stage, line) {
        Some(found) => Look::found(found),
        None if stage.share(code) >= SHARE => Look::said_by(results, &host_pauses::RULE),
        None => Look::Clear,
    })
}

fn finding(results: &Results<'_>, stage: &StageLine, line: &Line) -> Option<Observation> {
    // Pauses that typical instances do not have are another rule's.
    let code = host_pauses::host_code(results, stage)?;
    let [system, off_cpu] =
        [Cause::Os, Cause::OffCpu].map(|cause| line.typical(cause).unwrap_or(0.0));
    let saved = code + system + off_cpu;
    if stage.share(saved) < SHARE {
        return None;
    }
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " keeps the GPU waiting for ",
        Quantity::ratio(stage.share(saved)),
        " of its time while the host runs code outside of CUDA"
    ];
    if system > 0.0 {
        let share = Quantity::ratio(system / saved);
        statement.extend(prose![
            ", ",
            share,
            " of that in the operating system: files, locks, sleeping"
        ]);
    }
    if off_cpu > 0.0 {
        let share = Quantity::ratio(off_cpu / saved);
        statement.extend(prose![", ", share, " of that without a CPU: preempted or blocked"]);
    }
    statement.push(".".into());
    let advice = if system > code.max(off_cpu) {
        prose![
            "Look at the data loader first: more workers, prefetching, pinned buffers, no file access in the loop."
        ]
    } else if off_cpu > code {
        prose![
            "If the thread is blocked (files, locks, other threads), take the wait out of the loop. If it is preempted, \
             give it a CPU of its own: fewer worker and library threads than CPUs, no limit of CPU time. A trace with \
             the calls of the operating system tells which it is."
        ]
    } else {
        prose![
            "Take Python, logging, tokenizing and sampling on the host out of the loop, or do them while the GPU works."
        ]
    };
    Some(Observation {
        statement,
        advice: Some(advice),
        next: Some(prose![
            "nsys with ",
            Inline::Code(
                "--sample=process-tree --python-sampling=true --trace=cuda,nvtx,osrt".to_owned()
            ),
            ": it names the code that runs in the gaps."
        ]),
        evidence: vec![line.evidence(&results.context)],
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..stage.saving_idle(saved, "stage time without the gaps in which the host ran other code")
    })
}
