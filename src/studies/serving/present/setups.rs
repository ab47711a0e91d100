//! What worked and what did not: runs at the same load with other settings.

use rooflens_document::{Block, SectionContent, columns, say, words};

use super::{Page, add};
use crate::analysis::changes::Change;

/// Arguments of `vllm serve` that are settings of a deployment.
const ARGUMENTS: [&str; 14] = [
    "dtype",
    "quantization",
    "max-model-len",
    "max-num-seqs",
    "max-num-batched-tokens",
    "gpu-memory-utilization",
    "kv-cache-dtype",
    "block-size",
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "enable-chunked-prefill",
    "enable-prefix-caching",
    "enforce-eager",
];

/// Runs against the first one with their load.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let changes = &page.results.changes;
    if changes.is_empty() {
        return content;
    }
    content
        .main
        .push(Block::Prose(say!(page, "serving.changes")));
    let runs = page.results.runs;
    let table = columns! { page, "serving_changes", change: &Change => {
        let [throughput, ttft, tpot] = change.changes;
        name "run" = runs[change.run].label.clone(), page;
        name "against" = runs[change.baseline].label.clone(), page;
        name "settings" = settings(page, change), page;
        share "throughput_change" = throughput, page;
        share "ttft_change" = ttft, page;
        share "tpot_change" = tpot, page;
        text "verdict" = change.verdict.id(), page;
    } };
    add(
        &mut content,
        &table,
        changes,
        words!(page, "serving.changes_table"),
        40,
    );
    content
}

/// What differs from the first run: `max_num_seqs: 64 → 128`.
pub(super) fn settings(page: &Page<'_>, change: &Change) -> Option<String> {
    let mut settings = Vec::new();
    for (setting, before, after) in &change.settings {
        settings.push(format!("{setting}: {before} → {after}"));
    }
    (!settings.is_empty()).then(|| settings.join(page.text.semicolon()))
}

/// The command that starts the engine of a run with its settings, if they are arguments of an engine that is known.
pub(super) fn command_line(run: &crate::runs::Run) -> Option<String> {
    let model = run.model.as_deref()?;
    let mut command = format!("vllm serve {model}");
    for argument in ARGUMENTS {
        let name = argument.replace('-', "_");
        let value = run.settings.get(argument).or(run.settings.get(&name));
        match value.map(String::as_str) {
            None | Some("false" | "False" | "None") => {}
            Some("true" | "True") => command.push_str(&format!(" --{argument}")),
            Some(value) => command.push_str(&format!(" --{argument} {value}")),
        }
    }
    Some(command)
}
