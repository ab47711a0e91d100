//! Advice that fits what ran: none for PyTorch where PyTorch did not run, none for NVIDIA's tools on AMD's GPUs, and not to do
//! what is done already.

use crate::Evidence;
use rooflens_analysis::engine::platform::Vendor;
use rooflens_document::{Finding, Inline, say};

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

/// The observation without advice for another framework or vendor; where there is a form of the advice without
/// PyTorch, with that.
pub(crate) fn fitting(evidence: &Evidence<'_>, mut one: Finding) -> Finding {
    let platform = &evidence.platform;
    if !platform.pytorch {
        let own = evidence.text.without_pytorch(one.id);
        one.advice = one.advice.and_then(|text| {
            if says(&text, &PYTORCH) {
                own
            } else {
                Some(text)
            }
        });
        one.next = one.next.filter(|text| !says(text, &PYTORCH));
    }
    if let Some(advice) = one
        .advice
        .as_mut()
        .filter(|text| platform.compiled && compiles(text))
    {
        advice.extend(say!(evidence, "findings.is_compiled"));
    }
    if platform.vendor == Vendor::Amd {
        one.advice = one.advice.filter(|text| !says(text, &NVIDIA));
        one.next = one.next.filter(|text| !says(text, &NVIDIA));
    }
    one
}

/// Whether it advises to compile, whatever the mode.
fn compiles(text: &[Inline]) -> bool {
    text.iter().any(|one| *one == Inline::code("torch.compile"))
}

fn says(text: &[Inline], words: &[&str]) -> bool {
    let text: String = text.iter().map(Inline::plain).collect();
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::PYTORCH;
    use rooflens_document::Catalogue;

    /// Rules about PyTorch's own allocator and attention.
    const OF_PYTORCH: [&str; 2] = ["host-pauses", "memory-pressure"];

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
            if is_of_pytorch && !OF_PYTORCH.contains(&section.as_str()) {
                let own = Catalogue::english().without_pytorch(&section);
                assert!(own.is_some(), "{section}: {line}");
            }
        }
    }
}
