//! Practices that advice recommends, as the trace shows them: in use already, or ruled out.
//!
//! An advice is a list of sentences. One that recommends what all of a stage does already is dropped, and so is a CUDA
//! graph for a stage whose host waits for results. The rest says how far a practice is in use.

use crate::evidence::Evidence;
use crate::launching;
use crate::stage::{ALL, StageLine};
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_document::{Arg, Finding, Inline};
use rooflens_session::Ns;
use rooflens_units::Ratio;

/// Share of the work from which on a practice is in use.
const USED: Ratio = Ratio(0.01);

/// Share of the work from which on a practice is used for most of it.
const MOST: Ratio = Ratio(0.5);

/// The same from which on what is left is not worth the advice.
const NEARLY_ALL: Ratio = Ratio(0.9);

struct Practice {
    /// Key of the sentence that says how far it is in use.
    key: &'static str,
    /// Parts of the sentences that recommend it.
    advised: &'static [&'static str],
    /// Rules whose findings show where it is not in use, or that decide by themselves.
    judges: &'static [&'static str],
    /// Its share of the work of some stages that could have it.
    share: fn(&Evidence<'_>, &[&StageLine]) -> Option<Ratio>,
}

static PRACTICES: [Practice; 8] = [
    Practice {
        key: COMPILE,
        advised: &["torch.compile"],
        judges: &["pointwise-unfused", "norm-unfused", "low-mfu"],
        share: compiled,
    },
    Practice {
        key: "practices.graphs",
        advised: GRAPHS,
        judges: &["queue-gaps", "graph-capture", "first-use", "hidden-graphs"],
        share: |evidence, stages| {
            let shares = stages.iter().map(|stage| evidence.replayed_share(stage));
            shares.reduce(|least, share| if share < least { share } else { least })
        },
    },
    Practice {
        key: "practices.tf32",
        advised: &["TF32"],
        judges: &["no-tensor-cores", "tf32-gemms"],
        share: tf32,
    },
    Practice {
        key: "practices.pinned",
        advised: &["pin_memory", "cudaHostAlloc", "cudaMallocHost"],
        judges: &["pageable-copies", "exposed-copies"],
        share: pinned,
    },
    Practice {
        key: "practices.channels_last",
        advised: &["channels_last"],
        judges: &[],
        share: channels_last,
    },
    Practice {
        key: "practices.fused_optimizer",
        advised: &["fused=True"],
        judges: &["optimizer-loop"],
        share: |evidence, stages| {
            let parts = ["multi_tensor_apply", "fusedadam", "fused_adam"];
            share(evidence, stages, |_, name| contains(name, &parts))
        },
    },
    Practice {
        key: "practices.attention",
        advised: &["functional.scaled_dot_product_attention"],
        judges: &["attention-math"],
        share: |evidence, stages| {
            share(evidence, stages, |identity, _| {
                (identity.class == KernelClass::Attention).then_some(true)
            })
        },
    },
    Practice {
        key: "practices.static_cache",
        advised: &["cache_implementation"],
        judges: &[],
        share: |evidence, stages| {
            let is_decode = stages.iter().all(|stage| stage.is_decode());
            is_decode.then(|| static_cache(evidence, stages)).flatten()
        },
    },
];

/// The practice of which the last part is no advice: what a compiler leaves, it does not take.
const COMPILE: &str = "practices.compile";

/// Parts of sentences that recommend CUDA graphs.
const GRAPHS: &[&str] = &[
    "CUDA graph",
    "torch.cuda.graph",
    "reduce-overhead",
    "cudaStreamBeginCapture",
];

/// Kernels that a compiler fuses.
const FUSIBLE: [KernelClass; 7] = [
    KernelClass::Elementwise,
    KernelClass::Reduction,
    KernelClass::Normalization,
    KernelClass::Softmax,
    KernelClass::Layout,
    KernelClass::Gather,
    KernelClass::Fusion,
];

/// Parts of names of kernels by which cuDNN changes the layout of images.
const CONVERSIONS: [&str; 2] = ["nchwtonhwc", "nhwctonchw"];

/// Parts of names of kernels that write into a KV cache of fixed size.
const WRITES_CACHE: [&str; 5] = [
    "index_copy",
    "reshape_and_cache",
    "concat_and_cache",
    "set_kv_buffer",
    "append_paged_kv",
];

/// Whether the steps of a stage keep the size of the KV cache.
pub(crate) fn has_static_cache(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    static_cache(evidence, &[stage]).is_some_and(|share| share >= USED)
}

/// Whether Python frames show that `generate` of Transformers runs the model.
pub(crate) fn calls_generate(evidence: &Evidence<'_>) -> bool {
    has_frame(evidence, "transformers/generation/")
}

fn has_frame(evidence: &Evidence<'_>, part: &str) -> bool {
    let mut strings = evidence.session.strings.iter();
    strings.any(|text| text.contains(part))
}

/// Whether most of what a compiler fuses in a stage is fused.
pub(crate) fn is_compiled(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    compiled(evidence, &[stage]).is_some_and(|share| share >= MOST)
}

/// Adapts the advice of a finding to what the trace shows.
pub(crate) fn adapt(evidence: &Evidence<'_>, finding: &mut Finding) {
    let Some(mut advice) = finding.advice.take() else {
        return;
    };
    let mut stages: Vec<&StageLine> = evidence.stages.iter().collect();
    if stages.iter().any(|stage| stage.scope == finding.scope) {
        stages.retain(|stage| stage.scope == finding.scope);
    }
    let space = Inline::from(evidence.text.space());
    let mut used = Vec::new();
    for practice in &PRACTICES {
        let recommends = |sentence: &Vec<Inline>| names(sentence, practice.advised);
        let mut sentences = sentences(&advice);
        if !sentences.iter().any(recommends) {
            continue;
        }
        let share = (practice.share)(evidence, &stages).filter(|share| *share >= USED);
        let is_whole = share.is_some_and(|share| share >= ALL);
        let is_ruled_out = share.is_none()
            && practice.advised == GRAPHS
            && finding.id != launching::RULE
            && stages.iter().any(|stage| launching::waits(evidence, stage));
        let is_judged = practice.judges.contains(&finding.id);
        let is_compiled = practice.key == COMPILE && share.is_some_and(|share| share >= NEARLY_ALL);
        if is_ruled_out || (is_whole || is_compiled) && !is_judged {
            sentences.retain(|sentence| !recommends(sentence));
            advice = sentences.join(&space);
        }
        if let Some(share) = share.filter(|_| !is_whole || !is_judged) {
            let part = Some(share).filter(|_| !is_whole);
            let arguments = [("share", Arg::from(part))];
            used.push(evidence.text.say(practice.key, &arguments));
        }
    }
    used.insert(0, advice);
    used.retain(|sentence| !sentence.is_empty());
    finding.advice = (!used.is_empty()).then(|| used.join(&space));
}

/// Whether a sentence names a practice. `torch.compile` with arguments is another one.
fn names(sentence: &[Inline], parts: &[&str]) -> bool {
    let text: String = sentence.iter().map(Inline::plain).collect();
    let mut parts = parts.iter();
    parts.any(|part| match *part {
        "torch.compile" => text.replace("torch.compile(", "").contains(part),
        part => text.contains(part),
    })
}

/// The sentences of a text.
fn sentences(text: &[Inline]) -> Vec<Vec<Inline>> {
    let mut sentences = vec![Vec::new()];
    let mut sentence = Vec::new();
    for part in text {
        let Inline::Text(words) = part else {
            sentence.push(part.clone());
            continue;
        };
        let mut rest = match sentence.is_empty() {
            true => words.trim_start(),
            false => words.as_str(),
        };
        while let Some(end) = end(rest) {
            sentence.push(Inline::from(&rest[..end]));
            sentences.push(std::mem::take(&mut sentence));
            rest = rest[end..].trim_start();
        }
        if !rest.is_empty() {
            sentence.push(Inline::from(rest));
        }
    }
    sentences.push(sentence);
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// Where the first sentence of a text ends.
fn end(text: &str) -> Option<usize> {
    let latin = text.find(". ").map(|at| at + 1);
    let latin = latin.or_else(|| text.ends_with('.').then_some(text.len()));
    let chinese = text.find('。').map(|at| at + '。'.len_utf8());
    latin.into_iter().chain(chinese).min()
}

/// The time of kernels that have a practice ÷ that of all that could; names are in lower case.
fn share(
    evidence: &Evidence<'_>,
    stages: &[&StageLine],
    has: impl Fn(&KernelIdentity, &str) -> Option<bool>,
) -> Option<Ratio> {
    let (mut used, mut whole) = (Ns::ZERO, Ns::ZERO);
    let works = stages.iter().filter_map(|stage| evidence.work(stage.key()));
    for (kernel, _, time) in works.flat_map(|work| &work.kernels) {
        let identity = &evidence.facts.identities[kernel.index()];
        let name = evidence.session.kernel_name(*kernel).to_ascii_lowercase();
        if let Some(is_used) = has(identity, &name) {
            whole += *time;
            used += if is_used { *time } else { Ns::ZERO };
        }
    }
    (whole > Ns::ZERO).then(|| Ratio::of(used, whole))
}

/// `true` for names with one of these parts; others say nothing.
fn contains(name: &str, parts: &[&str]) -> Option<bool> {
    let mut parts = parts.iter();
    parts.any(|part| name.contains(part)).then_some(true)
}

fn compiled(evidence: &Evidence<'_>, stages: &[&StageLine]) -> Option<Ratio> {
    share(evidence, stages, |identity, name| {
        let is_compiled = name.starts_with("triton_") && name.contains("_fused_");
        (is_compiled || FUSIBLE.contains(&identity.class)).then_some(is_compiled)
    })
}

/// Convolutions in NHWC, where no kernel converts: cuDNN computes in NHWC with tensors in NCHW, too.
fn channels_last(evidence: &Evidence<'_>, stages: &[&StageLine]) -> Option<Ratio> {
    let converts = share(evidence, stages, |_, name| contains(name, &CONVERSIONS));
    let in_nhwc = share(evidence, stages, |identity, name| {
        (identity.class == KernelClass::Convolution).then(|| name.contains("nhwc"))
    });
    in_nhwc.filter(|_| converts.is_none())
}

/// TF32 of products that it could have.
pub(crate) fn tf32(evidence: &Evidence<'_>, stages: &[&StageLine]) -> Option<Ratio> {
    share(evidence, stages, |identity, _| {
        let is_product = [KernelClass::Gemm, KernelClass::Convolution].contains(&identity.class);
        match identity.dtype {
            "tf32" if is_product => Some(true),
            "fp32" if is_product && identity.tensor_cores == Some(false) => Some(false),
            _ => None,
        }
    })
}

/// Bytes between host and GPU that are not pageable.
fn pinned(evidence: &Evidence<'_>, stages: &[&StageLine]) -> Option<Ratio> {
    let copies = stages.iter().filter_map(|stage| evidence.copies(stage));
    let (mut pageable, mut whole) = (0, 0);
    for (of_stage, all) in copies.filter_map(|copies| copies.pageable_bytes()) {
        pageable += of_stage;
        whole += all;
    }
    (whole > 0).then(|| Ratio(pageable as f64 / whole as f64).rest())
}

/// A KV cache whose size no step changes: kernels write into it, or a graph replays the step.
fn static_cache(evidence: &Evidence<'_>, stages: &[&StageLine]) -> Option<Ratio> {
    let is_compiled = |name: &str| name.starts_with("triton_") && name.contains("index_put");
    let written = share(evidence, stages, |_, name| {
        contains(name, &WRITES_CACHE).or_else(|| is_compiled(name).then_some(true))
    });
    let replays = stages
        .iter()
        .any(|stage| evidence.replayed_share(stage) >= USED);
    written.or_else(|| replays.then_some(Ratio::ONE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_document::Catalogue;

    fn texts(sentences: &[Vec<Inline>]) -> Vec<String> {
        let text = |sentence: &Vec<Inline>| sentence.iter().map(Inline::plain).collect();
        sentences.iter().map(text).collect()
    }

    #[test]
    fn sentences_end_with_stops_and_keep_their_code() {
        let text = [
            Inline::from("Fuse ("),
            Inline::code("a.b"),
            Inline::from(" or so). Capture it."),
            Inline::from(" Raise work. 先融合。再捕获。"),
        ];
        let expected = [
            "Fuse (a.b or so).",
            "Capture it.",
            "Raise work.",
            "先融合。",
            "再捕获。",
        ];
        assert_eq!(texts(&sentences(&text)), expected);
    }

    #[test]
    fn a_sentence_recommends_one_practice_in_both_languages() {
        for text in [Catalogue::english(), Catalogue::chinese()] {
            let advice = sentences(&text.say("launch_bound.advice", &[]));
            assert_eq!(advice.len(), 3);
            let named = |parts: &[&str]| -> Vec<bool> {
                advice
                    .iter()
                    .map(|sentence| names(sentence, parts))
                    .collect()
            };
            assert_eq!(named(PRACTICES[0].advised), [true, false, false]);
            assert_eq!(named(PRACTICES[1].advised), [false, true, false]);
        }
        let reduces_overhead = [Inline::code("torch.compile(mode=\"reduce-overhead\")")];
        assert!(!names(&reduces_overhead, PRACTICES[0].advised));
    }
}
