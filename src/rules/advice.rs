//! Advice that fits what ran: none for PyTorch where PyTorch did not run, none for NVIDIA's tools on AMD's GPUs, and not to do
//! what is done already.

use super::Results;
use rooflens_analysis::engine::platform::Vendor;
use rooflens_findings::{Inline, Observation, say};

/// What only programs with PyTorch have.
const PYTORCH: [&str; 8] = [
    "torch",
    "PYTORCH",
    "PyTorch",
    "sdpa_kernel",
    "num_workers",
    ".item()",
    "Transformers",
    "vLLM",
];

/// What only NVIDIA's GPUs have.
const NVIDIA: [&str; 8] =
    ["cuBLAS", "CUBLAS", "Nsight", "nsys", "ncu ", "TF32", "cuDNN", "CUDA graph"];

/// The observation without advice for another framework or vendor; where there is a form of the advice without
/// PyTorch, with that.
pub(super) fn fitting(results: &Results<'_>, mut one: Observation) -> Observation {
    let platform = &results.platform;
    if !platform.pytorch {
        let own = results.text.without_pytorch(one.id);
        one.advice =
            one.advice.and_then(|text| if says(&text, &PYTORCH) { own } else { Some(text) });
        one.next = one.next.filter(|text| !says(text, &PYTORCH));
    }
    if let Some(advice) = one.advice.as_mut().filter(|text| platform.compiled && compiles(text)) {
        advice.extend(say!(results, "findings.is_compiled"));
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
