//! Every assumption of a prediction, in words.

use rooflens_document::{Inline, Quantity, say};
use rooflens_schemas::Unit;
use rooflens_units::{Bytes, Ratio};

use super::Study;
use crate::{Machine, Precision};

/// All assumptions, those of this setup with their numbers.
pub(super) fn all(study: &Study<'_>) -> Vec<Vec<Inline>> {
    let (setup, llm) = (&study.question.setup, &study.question.llm);
    let mut assumptions = vec![
        say!(study, "predict.assume_peaks"),
        say!(study, "predict.assume_sum"),
        say!(study, "predict.assume_once"),
        say!(study, "predict.assume_memory", share = setup.memory_share),
    ];
    if llm.generates() {
        assumptions.push(say!(
            study,
            "predict.assume_context",
            output = Quantity::count(study.question.output)
        ));
    }
    assumptions.extend(formats(study));
    if llm.outline.experts > 0 {
        assumptions.push(say!(study, "predict.assume_experts"));
    }
    if llm.outline.latent {
        assumptions.push(say!(study, "predict.assume_latent"));
    }
    if llm.layers.iter().any(|(_, layer)| layer.state.is_some()) {
        assumptions.push(say!(study, "predict.assume_state"));
    }
    assumptions.extend(parallel(study));
    if setup.cached > Ratio::ZERO {
        assumptions.push(say!(study, "predict.assume_prefix", share = setup.cached));
    }
    if let Some(chunk) = setup.chunk {
        assumptions.push(say!(
            study,
            "predict.assume_chunk",
            tokens = Quantity::count(chunk)
        ));
    }
    if let Some(speculation) = setup.speculation {
        assumptions.push(say!(
            study,
            "predict.assume_speculation",
            tokens = Quantity::count(speculation.tokens),
            acceptance = speculation.acceptance,
            expected = Quantity::new(speculation.expected().0, Unit::One),
        ));
    }
    for remark in &llm.remarks {
        assumptions.push(say!(
            study,
            "predict.assume_model",
            remark = remark.as_str()
        ));
    }
    assumptions
}

/// How weights, cache and activations are stored and multiplied.
fn formats(study: &Study<'_>) -> Vec<Vec<Inline>> {
    let setup = &study.question.setup;
    let mut assumptions = Vec::new();
    for weights in &study.question.sweep.weights {
        assumptions.push(say!(
            study,
            "predict.assume_weights",
            weights = Inline::code(weights.name),
            bytes = Quantity::new(weights.element.0, Unit::One),
            scales = Some(weights.scales).filter(|scales| !scales.is_empty()),
            rates = dtypes(study, weights),
            other = Inline::code(setup.activations.name),
        ));
    }
    assumptions.push(say!(
        study,
        "predict.assume_kv",
        kv = Inline::code(setup.kv.name),
        bytes = Quantity::new(setup.kv.element.0, Unit::One)
    ));
    assumptions
}

/// The dtypes in which the machines multiply a format: one for all, or each with its machine.
fn dtypes(study: &Study<'_>, weights: &Precision) -> String {
    let (mut dtypes, mut named) = (Vec::new(), Vec::new());
    for machine in &study.question.sweep.machines {
        let dtype = machine.rate_of(weights).map(|(dtype, _)| dtype);
        dtypes.push(dtype);
        if let Some(dtype) = dtype {
            named.push(format!("{dtype} ({})", machine.name));
        }
    }
    dtypes.dedup();
    match dtypes[..] {
        [Some(dtype)] => dtype.to_owned(),
        _ => named.join(study.text.comma()),
    }
}

/// Formats that a GPU has no unit for, and splits that engines refuse: what makes the bounds of no use there.
pub(super) fn impossible(study: &Study<'_>) -> Vec<Vec<Inline>> {
    let (question, mut assumptions) = (study.question, Vec::new());
    let mut formats = question.sweep.weights.clone();
    formats.push(question.setup.kv);
    formats.dedup();
    for machine in &question.sweep.machines {
        for format in &formats {
            let native = format.rates.first();
            if let Some((dtype, _)) = machine.rate_of(format)
                && format.element < Bytes(2.0)
                && native.is_some_and(|native| *native != dtype && !native.contains("16"))
            {
                assumptions.push(say!(
                    study,
                    "predict.assume_no_unit",
                    gpu = machine.name.as_str(),
                    format = Inline::code(format.name),
                    dtype = dtype,
                ));
            }
        }
    }
    let has_awq = formats.iter().any(|format| format.name == "awq");
    for machine in question.sweep.machines.iter().filter(|_| has_awq) {
        if is_volta(machine) {
            let gpu = machine.name.as_str();
            assumptions.push(say!(study, "predict.assume_no_awq", gpu = gpu));
        }
    }
    for tensor in &question.sweep.tensor {
        let cores = question
            .llm
            .layers
            .iter()
            .flat_map(|(_, layer)| &layer.cores);
        let mut heads = cores.map(|core| core.heads);
        if let Some(heads) = heads.find(|heads| heads % tensor != 0) {
            assumptions.push(say!(
                study,
                "predict.assume_uneven",
                gpus = Quantity::count(*tensor),
                heads = Quantity::count(heads),
            ));
        }
    }
    assumptions
}

/// Whether a GPU is of compute capability 7.0. vLLM's AWQ kernels
/// need 7.5 (docs.vllm.ai, Quantization, Supported Hardware).
fn is_volta(machine: &Machine) -> bool {
    machine.name.contains("V100")
}

/// How GPUs share the model.
fn parallel(study: &Study<'_>) -> Vec<Vec<Inline>> {
    let setup = &study.question.setup;
    let tensor = study
        .question
        .sweep
        .tensor
        .iter()
        .copied()
        .max()
        .unwrap_or(1);
    if tensor.max(setup.pipeline).max(setup.expert).max(setup.data) == 1 {
        return vec![say!(study, "predict.assume_one_gpu")];
    }
    let count = |value: u64| Some(value).filter(|value| *value > 1).map(Quantity::count);
    let mut assumptions = Vec::new();
    if tensor > 1 {
        assumptions.push(say!(study, "predict.assume_tensor"));
    }
    if let Some(stages) = count(setup.pipeline) {
        assumptions.push(say!(study, "predict.assume_pipeline", stages = stages));
    }
    if let Some(gpus) = count(setup.expert) {
        assumptions.push(say!(study, "predict.assume_expert", gpus = gpus));
    }
    if let Some(replicas) = count(setup.data) {
        assumptions.push(say!(study, "predict.assume_data", replicas = replicas));
    }
    for machine in &study.question.sweep.machines {
        assumptions.push(match setup.link.or(machine.link) {
            Some(link) => say!(
                study,
                "predict.assume_link",
                gpu = machine.name.as_str(),
                link = link
            ),
            None => say!(study, "predict.assume_no_link", gpu = machine.name.as_str()),
        });
    }
    assumptions
}
