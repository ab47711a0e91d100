//! Time that kernels would save at the rate of another type.

use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_document::Finding;
use rooflens_units::{FlopsPerSecond, Ratio};

use crate::evidence::Evidence;

/// A finding about kernels that run at the rate of one type and could run at that of another, with kernels that are then
/// gone, and the part of the time of the former that is saved. Without both rates there is no gain.
pub(super) fn at_rate_of(
    evidence: &Evidence<'_>,
    kernels: &[&KernelSum],
    gone: &[&KernelSum],
    slow: &str,
    fast: &str,
) -> (Finding, Option<Ratio>) {
    let (Some(slow), Some(fast)) = (rate(evidence, slow), rate(evidence, fast)) else {
        let finding = Finding {
            scope: evidence.pass_scope(),
            ..Finding::default()
        };
        return (finding, None);
    };
    let saved = Ratio::of(slow, fast).rest();
    let mut parts: Vec<_> = kernels.iter().map(|sum| (*sum, saved)).collect();
    parts.extend(gone.iter().map(|sum| (*sum, Ratio::ONE)));
    (evidence.saving(&parts), Some(saved))
}

/// The specified dense rate of a type.
fn rate(evidence: &Evidence<'_>, dtype: &str) -> Option<FlopsPerSecond> {
    let gpu = evidence
        .context
        .gpu_spec(&gpu_name(evidence.session, evidence.primary))?;
    Some(gpu.peak(dtype)?.dense).filter(|rate| *rate > FlopsPerSecond::ZERO)
}
