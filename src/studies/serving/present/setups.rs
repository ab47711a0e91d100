//! What worked and what did not: runs at the same load with other settings.

use rooflens_document::{Block, SectionContent, columns, say, words};
use rooflens_units::Count;

use super::{Page, add};
use crate::analysis::changes::Change;
use crate::runs::Run;

/// An engine whose arguments are known.
struct Engine {
    /// How it names itself.
    name: &'static str,
    /// What starts it, before the model.
    command: &'static str,
    /// Arguments that are settings of a deployment.
    arguments: &'static [&'static str],
    /// The one that limits running requests.
    slots: &'static str,
}

const ENGINES: [Engine; 2] = [
    Engine {
        name: "vllm",
        command: "vllm serve",
        arguments: &[
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
        ],
        slots: "max-num-seqs",
    },
    Engine {
        name: "sglang",
        command: "python3 -m sglang.launch_server --model-path",
        arguments: &[
            "attention-backend",
            "chunked-prefill-size",
            "context-length",
            "disable-radix-cache",
            "dp-size",
            "dtype",
            "kv-cache-dtype",
            "max-prefill-tokens",
            "max-running-requests",
            "mem-fraction-static",
            "quantization",
            "schedule-policy",
            "speculative-algorithm",
            "tp-size",
        ],
        slots: "max-running-requests",
    },
];

/// The engine of a run, by what it says of itself.
fn engine(run: &Run) -> Option<&'static Engine> {
    let named = run.settings.get("engine").or(run.settings.get("backend"))?;
    let named = named.to_lowercase();
    ENGINES.iter().find(|engine| named.starts_with(engine.name))
}

/// Runs against the first one with their load.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    content
        .main
        .extend(super::pareto::chart(page).map(Block::Chart));
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

/// The command that starts the engine of a run with its settings, and with another number of running requests if there
/// is one; none if the engine is not known.
pub(super) fn command_line(run: &Run, slots: Option<Count>) -> Option<String> {
    let (engine, model) = (engine(run)?, run.model.as_deref()?);
    let mut command = format!("{} {model}", engine.command);
    for argument in engine.arguments {
        let name = argument.replace('-', "_");
        let value = run.settings.get(*argument).or(run.settings.get(&name));
        let slots = slots.filter(|_| *argument == engine.slots);
        let slots = slots.map(|slots| slots.0.to_string());
        match slots.as_ref().or(value).map(String::as_str) {
            None | Some("false" | "False" | "None") => {}
            Some("true" | "True") => command.push_str(&format!(" --{argument}")),
            Some(value) => command.push_str(&format!(" --{argument} {value}")),
        }
    }
    Some(command)
}
