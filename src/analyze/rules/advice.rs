//! Advice that fits what ran: none for PyTorch where PyTorch did not run, none for NVIDIA's tools on AMD's GPUs, and none
//! that `practices` finds in use or ruled out.

use crate::evidence::Evidence;
use crate::practices;
use rooflens_analysis::engine::platform::Vendor;
use rooflens_document::{Finding, Inline};

/// What only programs with PyTorch have.
const PYTORCH: [&str; 11] = [
    "torch",
    "PYTORCH",
    "PyTorch",
    "sdpa_kernel",
    "num_workers",
    ".item()",
    "Transformers",
    "vLLM",
    "pin_memory",
    "non_blocking",
    "DataLoader",
];

/// What only NVIDIA's GPUs have.
const NVIDIA: [&str; 10] = [
    "cuBLAS",
    "CUBLAS",
    "Nsight",
    "nsys",
    "ncu ",
    "TF32",
    "cuDNN",
    "CUDA graph",
    "cudaM",
    "cudaHost",
];

/// The finding without advice for another framework or vendor; where there is a form of the advice without PyTorch, with
/// that.
pub(crate) fn fitting(evidence: &Evidence<'_>, mut finding: Finding) -> Finding {
    let platform = &evidence.platform;
    if !platform.pytorch {
        if names(finding.advice.as_deref(), &PYTORCH) {
            finding.advice = evidence.text.without_pytorch(finding.id);
        }
        if names(finding.next.as_deref(), &PYTORCH) {
            finding.next = None;
        }
    }
    practices::adapt(evidence, &mut finding);
    if platform.vendor == Vendor::Amd {
        if names(finding.advice.as_deref(), &NVIDIA) {
            finding.advice = None;
        }
        if names(finding.next.as_deref(), &NVIDIA) {
            finding.next = None;
        }
    }
    finding
}

fn names(text: Option<&[Inline]>, words: &[&str]) -> bool {
    let text: String = text.unwrap_or_default().iter().map(Inline::plain).collect();
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::PYTORCH;
    use rooflens_document::Catalogue;

    /// Rules about PyTorch's own allocator and attention, and about calls of its modules; those about operators are of
    /// PyTorch, too.
    const OF_PYTORCH: [&str; 18] = [
        "constant-masks",
        "copied-cache",
        "depthwise-filters",
        "early-upsampling",
        "gathered-cache",
        "growing-cache",
        "host-pauses",
        "memory-pressure",
        "nan-checks",
        "no-kv-cache",
        "one-hot-selection",
        "packed-attention",
        "permutations",
        "pool-windows",
        "repeated-backward",
        "row-sampling",
        "sorted-sums",
        "value-sorts",
    ];

    #[test]
    fn advice_for_pytorch_has_a_form_for_other_programs() {
        let mut section = String::new();
        for line in include_str!("../../write/document/text/en/rules.toml").lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']').replace('_', "-");
            }
            let is_of_pytorch = line.starts_with("advice")
                && !line.starts_with("advice_without")
                && PYTORCH.iter().any(|word| line.contains(word));
            let mut of_operators = crate::operators::RULES.iter();
            let is_of_operators = of_operators.any(|rule| rule.id == section);
            if is_of_pytorch && !is_of_operators && !OF_PYTORCH.contains(&section.as_str()) {
                let advice = Catalogue::english().without_pytorch(&section);
                assert!(advice.is_some(), "{section}: {line}");
            }
        }
    }
}
