//! Calls of the model on a sequence that grows by a token, each of which computes all earlier tokens again.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_document::{Inline, Quantity};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "no-kv-cache",
    &[
        Threshold::count("thresholds.growing_calls", CALLS),
        Threshold::ratio("thresholds.growing_share", SHARE),
    ],
    outcome,
);

/// Calls of one token more than the call before from which on a sequence is generated.
const CALLS: u64 = 8;

/// Share of the calls of a stage from which on such calls are its work.
const SHARE: Ratio = Ratio(0.5);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| {
        if stage.kind.is_training() {
            return Look::NotApplicable(words!(evidence, "no_kv_cache.training"));
        }
        let lengths = lengths(evidence, stage);
        match lengths.is_empty() {
            true => Look::InsufficientData,
            false => draft(stage, &lengths).into(),
        }
    })
}

/// Tokens of a sequence in each call of the model in the measured iterations of a stage, in order. Calls that read keys of
/// earlier tokens have zero.
fn lengths(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<u64> {
    let calls = &evidence.session.model_calls;
    let mut lengths = Vec::new();
    for row in evidence.model_calls(stage).into_iter().flatten() {
        if let Some(tokens) = calls.tokens[row] {
            let has_cache = calls.keys[row].is_some_and(|keys| keys > tokens);
            lengths.push(if has_cache { 0 } else { tokens });
        }
    }
    lengths
}

fn draft(stage: &StageLine, lengths: &[u64]) -> Option<Draft> {
    let runs = lengths.chunk_by(|before, after| *before > 0 && before + 1 == *after);
    let runs: Vec<&[u64]> = runs.filter(|run| run.len() > 1).collect();
    let growing: Vec<u64> = runs.concat();
    let calls = growing.len() as u64;
    let part = Ratio(calls as f64 / lengths.len() as f64);
    if calls <= CALLS || part < SHARE {
        return None;
    }
    // The first call of a generation computes its prompt; that of a decode stage follows it.
    let needed = if stage.is_decode() { 0 } else { 1 };
    let again: u64 = runs
        .iter()
        .flat_map(|run| &run[needed..])
        .map(|tokens| tokens - 1)
        .sum();
    let tokens: u64 = growing.iter().sum();
    let again = part.0 * again as f64 / tokens as f64;
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        calls = Quantity::count(calls),
        first = Quantity::count(*growing.iter().min()?),
        last = Quantity::count(*growing.iter().max()?),
        busy = stage.reference_busy(),
    };
    let finding = stage.saving(stage.busy * again);
    Some(Draft::new(finding, arguments).cause_if(true))
}
