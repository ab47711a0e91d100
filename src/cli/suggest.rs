//! `rooflens inspect --suggest-workload`: a workload description of what the artifacts tell, as TOML.

use std::collections::BTreeMap;
use std::fmt::Write;

use rooflens_schemas::workload::Mode;
use rooflens_schemas::{ArtifactKind, StageKind};

use super::load::Loaded;
use super::term::quoted;
use crate::analysis::Facts;
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::stages::WHOLE_CAPTURE;
use crate::analysis::kernels::kernel_sums::by_pass;
use crate::analysis::kernels::matmul::Shape;
use crate::analysis::kernels::operator_flops;
use crate::session::{PassId, Session};

/// The description; what is not known is a comment to complete.
pub(super) fn workload(loaded: &Loaded) -> String {
    let (session, facts) = (&loaded.session, Facts::new(&loaded.session));
    let stated = &session.workload;
    let (batch, prompt) = tokens(session).unzip();
    let steps = steps(session, &facts);
    let output = session.timings.steps.iter().flatten().copied().max();
    let output = stated
        .output_tokens
        .or(output)
        .or(steps.values().copied().max());
    let config = loaded.bundle.files.iter();
    let mut config = config.filter(|file| file.kind == Some(ArtifactKind::ModelConfig));
    let config = config.next().map(|file| file.path.to_string());
    let mut out =
        "# Suggested from the artifacts: check it, and complete the commented lines.\n".to_owned();
    let mut line = |key: &str, value: Option<String>, means: &str| {
        let _ = match value {
            Some(value) => writeln!(out, "{key} = {value}"),
            None => writeln!(out, "# {key} = … # {means}"),
        };
    };
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    line(
        "name",
        stated.name.as_deref().map(quoted),
        "a name for people",
    );
    let mode = stated
        .mode
        .or_else(|| mode(session, &facts))
        .and_then(|mode| serde_json::to_string(&mode).ok());
    line("mode", mode, "\"inference\" or \"training\"");
    let dtype = stated.dtype.clone().or_else(|| dtype(session, &facts));
    line(
        "dtype",
        dtype.as_deref().map(quoted),
        "data type of the GEMMs, such as \"bf16\"",
    );
    line(
        "config",
        config.as_deref().map(quoted),
        "path of the model's config.json in the bundle",
    );
    line(
        "batch",
        number(stated.batch.or(batch)),
        "sequences in a batch, per GPU",
    );
    let prompt = stated.prompt_tokens.or(prompt.flatten());
    line(
        "prompt_tokens",
        number(prompt),
        "prompt or sequence length, tokens",
    );
    line(
        "output_tokens",
        number(output),
        "tokens decoded in a decode stage",
    );
    line(
        "warmup",
        number(stated.warmup),
        "leading instances of each stage that are warm-up",
    );
    line(
        "model_parallel",
        number(stated.model_parallel),
        "GPUs that share one model, if not 1",
    );
    stages(&mut out, session, &facts);
    for (pass, own) in steps.iter().filter(|(_, own)| Some(**own) != output) {
        let _ = writeln!(
            out,
            "\n[passes.{}]\noutput_tokens = {own}",
            quoted(session.pass_name(*pass))
        );
    }
    out
}

/// Sequences and, of more than one, tokens of the largest forward pass: of the indices of embeddings, else of attention.
fn tokens(session: &Session) -> Option<(u64, Option<u64>)> {
    let operators = &session.operators;
    let of_call = |row: usize| {
        let text = |id| session.text(id);
        let (name, shapes) = (text(operators.name[row]), text(operators.shapes[row]));
        if name == "aten::embedding" {
            let shapes: Vec<serde_json::Value> = serde_json::from_str(shapes).ok()?;
            let indices: Vec<u64> = serde_json::from_value(shapes.get(1)?.clone()).ok()?;
            return <[u64; 2]>::try_from(indices).ok().map(|size| (true, size));
        }
        match operator_flops::shape(name, shapes, text(operators.inputs[row]))? {
            Shape::Attention(one) if !one.backward => Some((false, [one.batch, one.queries])),
            _ => None,
        }
    };
    let calls = (0..operators.len()).filter_map(of_call);
    let most = calls
        .max_by_key(|(embeds, [batch, tokens])| (*embeds, batch.saturating_mul(*tokens), *batch));
    most.map(|(_, [batch, tokens])| (batch, Some(tokens).filter(|tokens| *tokens > 1)))
}

/// Decode steps of an instance, by pass.
fn steps(session: &Session, facts: &Facts) -> BTreeMap<PassId, u64> {
    let decode = facts
        .summaries
        .iter()
        .filter(|one| one.kind(facts) == StageKind::Decode);
    let steps = decode.filter_map(|one| Some((one.stage(facts).pass, one.steps? as u64)));
    steps
        .filter(|(pass, steps)| *steps > 0 && !session.pass_name(*pass).is_empty())
        .collect()
}

/// Training, if something belongs to a backward pass; inference, if something decodes or fills a cache.
fn mode(session: &Session, facts: &Facts) -> Option<Mode> {
    use StageKind::{Backward, Decode, DecodeStep, Optimizer, Prefill, TrainStep};
    let has = |kinds: &[StageKind]| facts.stages.iter().any(|stage| kinds.contains(&stage.kind));
    let is_backward =
        |name: &str| name.starts_with("autograd::engine") || name.ends_with("Backward0");
    let names = session.operators.name.iter();
    if has(&[Backward, Optimizer, TrainStep])
        || names.clone().any(|name| is_backward(session.text(*name)))
    {
        return Some(Mode::Training);
    }
    has(&[Prefill, Decode, DecodeStep]).then_some(Mode::Inference)
}

/// The type of the weights, or that of the GEMMs with most time.
fn dtype(session: &Session, facts: &Facts) -> Option<String> {
    let stated = session.model.as_ref().and_then(|model| model.dtype.clone());
    stated.or_else(|| {
        let mut times = BTreeMap::<&str, i64>::new();
        let passes = by_pass(session, &facts.identities);
        for (sum, identity) in passes
            .iter()
            .flat_map(|pass| pass.identified(facts, KernelClass::Gemm))
        {
            *times.entry(identity.dtype).or_default() += sum.total;
        }
        let known = times.into_iter().filter(|(dtype, _)| !dtype.is_empty());
        known
            .max_by_key(|(_, time)| *time)
            .map(|(dtype, _)| dtype.to_owned())
    })
}

/// The stages, by ranges of their names; built-in names stay in force where some range is called otherwise.
fn stages(out: &mut String, session: &Session, facts: &Facts) {
    let mut known: Vec<(&str, StageKind)> = Vec::new();
    for stage in facts
        .stages
        .iter()
        .filter(|stage| stage.name != WHOLE_CAPTURE)
    {
        if known.iter().all(|(name, _)| *name != stage.name) {
            known.push((&stage.name, stage.kind));
        }
    }
    let is_range = |name: &str| {
        session
            .ranges
            .name
            .iter()
            .any(|id| session.text(*id) == name)
    };
    let mark = if known.iter().all(|(name, _)| is_range(name)) {
        ""
    } else {
        "# "
    };
    if known.is_empty() {
        out.push_str("\n# [[stages]] # ranges that are stages: name, match, kind\n");
    }
    for (name, kind) in known {
        let _ = write!(out, "\n{mark}[[stages]]\n{mark}name = {}\n", quoted(name));
        if kind != StageKind::Other {
            let _ = writeln!(
                out,
                "{mark}kind = {}",
                serde_json::to_string(&kind).unwrap_or_default()
            );
        }
    }
}
