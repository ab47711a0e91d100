//! Every assumption of a prediction, in words.

use rooflens_document::{Inline, Quantity, say};
use rooflens_schemas::Unit;

use super::Answer;

/// All assumptions, those of this setup with their numbers.
pub(super) fn all(answer: &Answer<'_>) -> Vec<Vec<Inline>> {
    let (setup, llm) = (&answer.of.setup, &answer.of.llm);
    let ratio = |value: f64| Quantity::ratio(value);
    let mut all = vec![
        say!(answer, "predict.assume_peaks"),
        say!(answer, "predict.assume_sum"),
        say!(answer, "predict.assume_once"),
        say!(
            answer,
            "predict.assume_memory",
            share = ratio(setup.memory_share)
        ),
    ];
    if llm.generates() {
        all.push(say!(
            answer,
            "predict.assume_context",
            output = Quantity::count(answer.of.output)
        ));
    }
    all.extend(formats(answer));
    if llm.outline.experts > 0 {
        all.push(say!(answer, "predict.assume_experts"));
    }
    if llm.outline.latent {
        all.push(say!(answer, "predict.assume_latent"));
    }
    if llm.layers.iter().any(|(_, layer)| layer.state.is_some()) {
        all.push(say!(answer, "predict.assume_state"));
    }
    all.extend(parallel(answer));
    if setup.cached > 0.0 {
        all.push(say!(
            answer,
            "predict.assume_prefix",
            share = ratio(setup.cached)
        ));
    }
    if let Some(chunk) = setup.chunk {
        all.push(say!(
            answer,
            "predict.assume_chunk",
            tokens = Quantity::count(chunk)
        ));
    }
    if let Some(guess) = setup.speculation {
        all.push(say!(
            answer,
            "predict.assume_speculation",
            tokens = Quantity::count(guess.tokens),
            acceptance = ratio(guess.acceptance),
            expected = Quantity::new(guess.expected(), Unit::One),
        ));
    }
    let remarks = llm
        .remarks
        .iter()
        .map(|remark| say!(answer, "predict.assume_model", remark = remark.as_str()));
    all.extend(remarks);
    all
}

/// How weights, cache and activations are stored and multiplied.
fn formats(answer: &Answer<'_>) -> Vec<Vec<Inline>> {
    let setup = &answer.of.setup;
    let mut all = Vec::new();
    for weights in &answer.of.sweep.weights {
        let machines = &answer.of.sweep.machines;
        let dtype =
            |machine: &'_ crate::Machine| machine.rate(weights).map(|rate| rate.0.to_owned());
        let first = machines.first().and_then(dtype);
        let rates =
            match first.filter(|_| machines.iter().all(|one| dtype(one) == dtype(&machines[0]))) {
                Some(same) => same,
                None => {
                    let named = machines
                        .iter()
                        .filter_map(|one| Some(format!("{} ({})", dtype(one)?, one.name)));
                    named.collect::<Vec<String>>().join(answer.text.comma())
                }
            };
        all.push(say!(
            answer,
            "predict.assume_weights",
            weights = Inline::code(weights.name),
            bytes = Quantity::new(weights.bytes, Unit::One),
            scales = Some(weights.scales).filter(|scales| !scales.is_empty()),
            rates = rates,
            other = Inline::code(setup.activations.name),
        ));
    }
    all.push(say!(
        answer,
        "predict.assume_kv",
        kv = Inline::code(setup.kv.name),
        bytes = Quantity::new(setup.kv.bytes, Unit::One)
    ));
    all
}

/// How GPUs share the model.
fn parallel(answer: &Answer<'_>) -> Vec<Vec<Inline>> {
    let setup = &answer.of.setup;
    let tensor = answer.of.sweep.tensor.iter().copied().max().unwrap_or(1);
    if tensor.max(setup.pipeline).max(setup.expert).max(setup.data) == 1 {
        return vec![say!(answer, "predict.assume_one_gpu")];
    }
    let count = |value: u64| Some(value).filter(|value| *value > 1).map(Quantity::count);
    let mut all = Vec::new();
    if tensor > 1 {
        all.push(say!(answer, "predict.assume_tensor"));
    }
    if let Some(stages) = count(setup.pipeline) {
        all.push(say!(answer, "predict.assume_pipeline", stages = stages));
    }
    if let Some(gpus) = count(setup.expert) {
        all.push(say!(answer, "predict.assume_expert", gpus = gpus));
    }
    if let Some(replicas) = count(setup.data) {
        all.push(say!(answer, "predict.assume_data", replicas = replicas));
    }
    for machine in &answer.of.sweep.machines {
        let per_second = |link: f64| Quantity::new(link, Unit::BytesPerSecond);
        all.push(match setup.link.or(machine.link) {
            Some(link) => say!(
                answer,
                "predict.assume_link",
                gpu = machine.name.as_str(),
                link = per_second(link)
            ),
            None => say!(
                answer,
                "predict.assume_no_link",
                gpu = machine.name.as_str()
            ),
        });
    }
    all
}
