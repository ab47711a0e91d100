//! Time that kernels would save at the rate of another type.

use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_document::Finding;
use rooflens_units::{FlopsPerSecond, Ratio};

use crate::evidence::Evidence;

/// A finding about kernels that run at the rate of one type and could run at that of another, with others of which these
/// parts then go, and the part of the time of the former that is saved. Without both rates there is no gain.
pub(crate) fn at_rate_of(
    evidence: &Evidence<'_>,
    kernels: &[&KernelSum],
    others: &[(&KernelSum, Ratio)],
    slow: &str,
    fast: &str,
) -> (Finding, Option<Ratio>) {
    let Some(saved) = saved(evidence, slow, fast) else {
        let finding = Finding {
            scope: evidence.pass_scope(),
            ..Finding::default()
        };
        return (finding, None);
    };
    let mut parts: Vec<_> = kernels.iter().map(|sum| (*sum, saved)).collect();
    parts.extend(others);
    (evidence.saving(&parts), Some(saved))
}

/// The part of the time of compute-bound kernels of one type that the rate of another saves.
pub(crate) fn saved(evidence: &Evidence<'_>, slow: &str, fast: &str) -> Option<Ratio> {
    Some(Ratio::of(rate(evidence, slow)?, rate(evidence, fast)?).rest())
}

/// The specified dense rate of a type.
fn rate(evidence: &Evidence<'_>, dtype: &str) -> Option<FlopsPerSecond> {
    let gpu = evidence
        .context
        .gpu_spec(&gpu_name(evidence.session, evidence.primary))?;
    Some(gpu.peak(dtype)?.dense).filter(|rate| *rate > FlopsPerSecond::ZERO)
}
