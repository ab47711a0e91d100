//! Time that kernels would save at the rate of another type.

use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_document::Finding;
use rooflens_units::{FlopsPerSecond, Ratio};

use crate::evidence::Evidence;

/// A finding about kernels that run at the rate of one type and could run at that of another, and the part of their time
/// that is saved then. Without both rates there is no gain.
pub(super) fn at_rate_of(
    evidence: &Evidence<'_>,
    kernels: &[&KernelSum],
    slow: &str,
    fast: &str,
) -> (Finding, Option<Ratio>) {
    match (rate(evidence, slow), rate(evidence, fast)) {
        (Some(slow), Some(fast)) => {
            let saved = Ratio::of(slow, fast).rest();
            (evidence.saving(kernels, saved), Some(saved))
        }
        _ => {
            let scope = evidence.pass_scope();
            (
                Finding {
                    scope,
                    ..Finding::default()
                },
                None,
            )
        }
    }
}

/// The specified dense rate of a type.
fn rate(evidence: &Evidence<'_>, dtype: &str) -> Option<FlopsPerSecond> {
    let gpu = evidence
        .context
        .gpu_spec(&gpu_name(evidence.session, evidence.primary))?;
    Some(gpu.peak(dtype)?.dense).filter(|rate| *rate > FlopsPerSecond::ZERO)
}
