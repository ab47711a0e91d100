//! Actions as the summary shows them: what to do, code to copy, and what it saves, costs and takes to verify.

use super::actions::Action;
use super::figures::{self, Figure};
use super::has_unprofiled;
use crate::evidence::Evidence;
use rooflens_document::{ActionCard, Inline, Quantity};

/// Code by rule and a word of what the action says; empty: whatever it says. The first that fits counts.
const SNIPPETS: [(&str, &str, &str); 26] = [
    ("host-pauses", "enable_cudnn_sdp", WITHOUT_CUDNN_ATTENTION),
    ("host-pauses", "gc.freeze", COLLECTION),
    ("host-pauses", "num_workers", LOADER),
    ("launch-bound", "", GRAPHS),
    ("short-kernels", "", GRAPHS),
    ("low-mfu", "compile", COMPILE),
    ("pointwise-unfused", "", COMPILE),
    (
        "norm-unfused",
        "",
        "y = torch.nn.functional.rms_norm(x, weight.shape, weight, eps)  # or layer_norm",
    ),
    (
        "attention-math",
        "",
        "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
    ),
    (
        "repeated-tensors",
        "",
        "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
    ),
    (
        "optimizer-loop",
        "",
        "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)",
    ),
    ("layout-conversions", "compile", COMPILE),
    ("layout-conversions", "", LAYOUT),
    ("data-loader", "", LOADER),
    ("garbage-collection", "", COLLECTION),
    ("pageable-copies", "", PINNED),
    ("exposed-copies", "", PINNED),
    (
        "compilation",
        "",
        "model = torch.compile(model, dynamic=True)",
    ),
    ("new-shapes", "enable_cudnn_sdp", WITHOUT_CUDNN_ATTENTION),
    ("new-shapes", "", "torch.backends.cudnn.benchmark = False"),
    (
        "checkpoint",
        "",
        "future = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
    ),
    ("first-use", "EAGER", "export CUDA_MODULE_LOADING=EAGER"),
    ("tf32-gemms", "", AUTOCAST),
    ("no-tensor-cores", "", AUTOCAST),
    (
        "gemm-loop",
        "",
        "c = torch.bmm(a, b)  # a: [n, M, K], b: [n, K, N]",
    ),
    (
        "repeated-gemms",
        "",
        "c = torch.bmm(a, b)  # a: [n, M, K], b: [n, K, N]",
    ),
];

const WITHOUT_CUDNN_ATTENTION: &str = "torch.backends.cuda.enable_cudnn_sdp(False)";
const GRAPHS: &str =
    "model = torch.compile(model, mode=\"reduce-overhead\")  # replays CUDA graphs";
const COMPILE: &str = "model = torch.compile(model)";
const COLLECTION: &str =
    "import gc\ngc.collect()\ngc.freeze()\ngc.disable()  # collect between epochs";
const LOADER: &str = "loader = torch.utils.data.DataLoader(\n    dataset, batch_size, num_workers=8, prefetch_factor=4,\n    pin_memory=True, persistent_workers=True,\n)";
const LAYOUT: &str = "model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)";
const PINNED: &str = "batch = batch.pin_memory().to(\"cuda\", non_blocking=True)";
const AUTOCAST: &str =
    "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n    loss = model(batch)";

/// How much work a change is, by what has to be changed: a judgement, not a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// A setting, a flag, an argument.
    Setting,
    /// The source of the program.
    Program,
    /// The source of kernels, or other kernels.
    Kernels,
}

impl Effort {
    fn of(rule: &str) -> Self {
        match rule {
            "optimizer-loop" | "data-loader" | "empty-cache" | "first-use" | "tf32-gemms"
            | "no-tensor-cores" | "new-shapes" | "clock-limits" | "garbage-collection"
            | "compilation" => Self::Setting,
            "bank-conflicts" | "uncoalesced-access" | "local-memory" | "contended-atomics"
            | "divergent-branches" | "cache-traffic" | "double-precision" | "low-occupancy"
            | "wave-tail" | "small-grids" | "gemm-roofline" | "gemm-bandwidth"
            | "profiled-bound" | "decode-bandwidth" => Self::Kernels,
            _ => Self::Program,
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Setting => "summary.effort_setting",
            Self::Program => "summary.effort_program",
            Self::Kernels => "summary.effort_kernels",
        }
    }
}

/// One card an action.
pub(super) fn cards(
    evidence: &Evidence<'_>,
    actions: &[Action<'_>],
    figures: &[Figure],
) -> Vec<ActionCard> {
    let card = |(number, action)| card(evidence, (number, action), figures);
    actions.iter().enumerate().map(card).collect()
}

fn card(
    evidence: &Evidence<'_>,
    (number, action): (usize, &Action<'_>),
    figures: &[Figure],
) -> ActionCard {
    let text = evidence.text;
    let mut facts = Vec::new();
    let mut fact = |key: &str, value: Vec<Inline>| {
        if !value.is_empty() {
            facts.push((text.line(key, &[]), value));
        }
    };
    let saves = words!(
        evidence,
        "summary.at_most",
        effect = figures::effect(evidence, action),
        condition = action.condition(text),
    );
    fact("summary.card_saves", vec![saves.into()]);
    fact("summary.card_why", super::action_line(evidence, action));
    let effort = words!(
        evidence,
        "summary.card_confidence",
        effort = text.line(Effort::of(action.finding.id).key(), &[]),
        confidence = super::confidence(evidence, action),
    );
    fact("summary.card_effort", vec![effort.into()]);
    fact(
        "summary.card_verify",
        verify(evidence, (number, action), figures),
    );
    ActionCard {
        what: vec![action.what_to_do(text).into()],
        snippet: snippet(evidence, action),
        facts,
        finding: action.finding.id,
    }
}

/// Code for programs that use PyTorch.
fn snippet(evidence: &Evidence<'_>, action: &Action<'_>) -> Option<String> {
    if !evidence.platform.pytorch {
        return None;
    }
    let what = action.what_to_do(evidence.text);
    let has_bf16 = evidence.platform.has_tf32() != Some(false);
    let fits = |(rule, word, _): &&(&str, &str, &str)| {
        *rule == action.finding.id && (word.is_empty() || what.contains(*word))
    };
    let (.., code) = SNIPPETS.iter().find(fits)?;
    // Training in fp16 scales its loss as well, which is more than a line.
    if *code == AUTOCAST && !has_bf16 {
        return None;
    }
    Some((*code).to_owned())
}

/// What to measure again, and what should come out.
fn verify(
    evidence: &Evidence<'_>,
    (number, action): (usize, &Action<'_>),
    figures: &[Figure],
) -> Vec<Inline> {
    let mut changed = Vec::new();
    for figure in figures {
        let before = match number.checked_sub(1) {
            Some(last) => figure.after.get(last).copied().flatten(),
            None => Some(figure.now),
        };
        if let (Some(before), Some(Some(after))) = (before, figure.after.get(number))
            && before != *after
            && figure.is_time
        {
            changed.push(words!(
                evidence,
                "summary.verify_figure",
                figure = figure.label.as_str(),
                now = figure.now,
                after = *after
            ));
        }
    }
    changed.truncate(SHOWN_FIGURES);
    let unprofiled = has_unprofiled(evidence);
    let mut line = Vec::new();
    if !changed.is_empty() {
        line = say!(
            evidence,
            "summary.card_expect",
            figures = changed.join(evidence.text.semicolon()),
            unprofiled = unprofiled.then_some(""),
            actions = (number > 0).then(|| Quantity::count(number as u64 + 1)),
        );
    }
    if let Some(next) = &action.finding.next {
        if !line.is_empty() {
            line.push(evidence.text.space().into());
        }
        line.extend(next.clone());
    }
    line
}

/// Figures that a card names.
const SHOWN_FIGURES: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is copied is run: neither tabs nor lines wider than a page.
    #[test]
    fn code_fits_on_a_page() {
        for (rule, _, code) in SNIPPETS {
            for line in code.lines() {
                assert!(line.is_ascii() && line.len() <= 84, "{rule}: {line}");
            }
        }
    }

    #[test]
    fn rules_of_snippets_exist() {
        for (rule, ..) in SNIPPETS {
            assert!(crate::rules().any(|known| known.id == rule), "{rule}");
        }
    }
}
