//! A workload description of what the artifacts of a capture show, as TOML.

use std::collections::BTreeMap;
use std::fmt::Write;

use rooflens_schemas::workload::Mode;
use rooflens_schemas::{ArtifactKind, StageKind};
use rooflens_session::Ns;

use super::open::Capture;
use crate::analysis::Facts;
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::stages::WHOLE_CAPTURE;
use crate::analysis::kernels::kernel_sums::by_pass;
use crate::analysis::kernels::matmul::Shape;
use crate::analysis::kernels::operator_flops;
use crate::render::text::quoted;
use crate::session::{PassId, Session};

impl Capture {
    /// A workload description as TOML; keys whose value the artifacts do not show are comments.
    pub fn suggested_workload(&self) -> String {
        let session = &self.session;
        let facts = Facts::new(session);
        let stated = &session.workload;
        let pass = largest_forward_pass(session);
        let steps = decode_steps(session, &facts);
        let timed_steps = session.timings.steps.iter().flatten().copied().max();
        let counted_steps = steps.values().copied().max();
        let output_tokens = stated.output_tokens.or(timed_steps).or(counted_steps);
        let mode = stated.mode.or_else(|| mode(session, &facts));
        let dtype = stated.dtype.clone().or_else(|| dtype(session, &facts));
        let prompt_tokens = pass.map(|pass| pass.tokens).filter(|tokens| *tokens > 1);
        let mut toml = Toml::new();
        toml.text("name", stated.name.as_deref(), "a name for people");
        let mode = mode.and_then(|mode| serde_json::to_string(&mode).ok());
        toml.line("mode", mode, "\"inference\" or \"training\"");
        let meaning = "data type of the GEMMs, such as \"bf16\"";
        toml.text("dtype", dtype.as_deref(), meaning);
        let meaning = "path of the model's config.json in the bundle";
        toml.text("config", self.model_config(), meaning);
        let batch = stated.batch.or(pass.map(|pass| pass.batch));
        toml.line("batch", batch, "sequences in a batch, per GPU");
        let prompt_tokens = stated.prompt_tokens.or(prompt_tokens);
        let meaning = "prompt or sequence length, tokens";
        toml.line("prompt_tokens", prompt_tokens, meaning);
        let meaning = "tokens decoded in a decode stage";
        toml.line("output_tokens", output_tokens, meaning);
        let meaning = "leading instances of each stage that are warm-up";
        toml.line("warmup", stated.warmup, meaning);
        let meaning = "GPUs that share one model, if not 1";
        toml.line("model_parallel", stated.model_parallel, meaning);
        toml.stages(session, &facts);
        for (pass, steps) in steps {
            if Some(steps) != output_tokens {
                let name = quoted(session.pass_name(pass));
                let _ = write!(toml.0, "\n[passes.{name}]\noutput_tokens = {steps}\n");
            }
        }
        toml.0
    }

    /// Path of the model's `config.json` in the bundle.
    fn model_config(&self) -> Option<&str> {
        let is_config = |kind| kind == Some(ArtifactKind::ModelConfig);
        let file = self.bundle.files.iter().find(|file| is_config(file.kind))?;
        Some(&file.path)
    }
}

/// The description as far as it is written. Writing to a `String` cannot fail.
struct Toml(String);

impl Toml {
    fn new() -> Self {
        Self(
            "# Suggested from the artifacts: check it, and complete the commented lines.\n"
                .to_owned(),
        )
    }

    fn text(&mut self, key: &str, value: Option<&str>, meaning: &str) {
        self.line(key, value.map(quoted), meaning);
    }

    fn line(&mut self, key: &str, value: Option<impl std::fmt::Display>, meaning: &str) {
        let _ = match value {
            Some(value) => writeln!(self.0, "{key} = {value}"),
            None => writeln!(self.0, "# {key} = … # {meaning}"),
        };
    }

    /// The stages by ranges of their names. They are comments where a stage has another name than its ranges: built-in
    /// patterns find these, and `[[stages]]` would replace the patterns.
    fn stages(&mut self, session: &Session, facts: &Facts) {
        let mut stages: Vec<(&str, StageKind)> = Vec::new();
        for stage in &facts.stages {
            let is_listed = stages.iter().any(|(name, _)| *name == stage.name);
            if stage.name != WHOLE_CAPTURE && !is_listed {
                stages.push((&stage.name, stage.kind));
            }
        }
        if stages.is_empty() {
            self.0
                .push_str("\n# [[stages]] # ranges that are stages: name, match, kind\n");
        }
        let has_ranges = stages.iter().all(|(name, _)| is_range(session, name));
        let mark = if has_ranges { "" } else { "# " };
        for (name, kind) in stages {
            let name = quoted(name);
            let _ = write!(self.0, "\n{mark}[[stages]]\n{mark}name = {name}\n");
            if kind != StageKind::Other {
                let kind = serde_json::to_string(&kind).unwrap_or_default();
                let _ = writeln!(self.0, "{mark}kind = {kind}");
            }
        }
    }
}

fn is_range(session: &Session, name: &str) -> bool {
    let mut ranges = session.ranges.name.iter();
    ranges.any(|range| session.text(*range) == name)
}

/// Shape of a forward pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ForwardPass {
    /// From the indices of an embedding, which are exact, and not from attention.
    of_embedding: bool,
    volume: u64,
    /// Sequences.
    batch: u64,
    /// Tokens of a sequence.
    tokens: u64,
}

/// The largest forward pass: by the indices of embeddings, else by attention.
fn largest_forward_pass(session: &Session) -> Option<ForwardPass> {
    let rows = 0..session.operators.len();
    rows.filter_map(|row| forward_pass(session, row)).max()
}

fn forward_pass(session: &Session, row: usize) -> Option<ForwardPass> {
    let operators = &session.operators;
    let name = session.text(operators.name[row]);
    let shapes = session.text(operators.shapes[row]);
    let of_embedding = name == "aten::embedding";
    let [batch, tokens] = if of_embedding {
        let shapes: Vec<serde_json::Value> = serde_json::from_str(shapes).ok()?;
        let indices: Vec<u64> = serde_json::from_value(shapes.get(1)?.clone()).ok()?;
        indices.try_into().ok()?
    } else {
        let inputs = session.text(operators.inputs[row]);
        match operator_flops::shape(name, shapes, inputs)? {
            Shape::Attention(attention) if !attention.backward => {
                [attention.batch, attention.queries]
            }
            _ => return None,
        }
    };
    Some(ForwardPass {
        of_embedding,
        volume: batch.saturating_mul(tokens),
        batch,
        tokens,
    })
}

/// Decode steps of an instance, by pass.
fn decode_steps(session: &Session, facts: &Facts) -> BTreeMap<PassId, u64> {
    let mut steps_of_pass = BTreeMap::new();
    for summary in &facts.summaries {
        let pass = summary.stage(facts).pass;
        let steps = summary.steps.unwrap_or_default().0 as u64;
        let is_decode = summary.kind(facts) == StageKind::Decode;
        if is_decode && steps > 0 && !session.pass_name(pass).is_empty() {
            steps_of_pass.insert(pass, steps);
        }
    }
    steps_of_pass
}

/// Training if something belongs to a backward pass; inference if something decodes or fills a cache.
fn mode(session: &Session, facts: &Facts) -> Option<Mode> {
    use StageKind::{Backward, Decode, DecodeStep, Optimizer, Prefill, TrainStep};
    let has = |kinds: &[StageKind]| facts.stages.iter().any(|stage| kinds.contains(&stage.kind));
    if has(&[Backward, Optimizer, TrainStep]) || has_backward_operator(session) {
        return Some(Mode::Training);
    }
    has(&[Prefill, Decode, DecodeStep]).then_some(Mode::Inference)
}

fn has_backward_operator(session: &Session) -> bool {
    for name in &session.operators.name {
        let name = session.text(*name);
        if name.starts_with("autograd::engine") || name.ends_with("Backward0") {
            return true;
        }
    }
    false
}

/// The type of the weights, or that of the GEMMs with the most time.
fn dtype(session: &Session, facts: &Facts) -> Option<String> {
    let model = session.model.as_ref();
    if let Some(dtype) = model.and_then(|model| model.dtype.clone()) {
        return Some(dtype);
    }
    let mut times = BTreeMap::<&str, Ns>::new();
    let passes = by_pass(session, &facts.identities);
    for pass in &passes {
        for (sum, identity) in pass.identified(facts, KernelClass::Gemm) {
            if !identity.dtype.is_empty() {
                *times.entry(identity.dtype).or_default() += sum.total;
            }
        }
    }
    let (dtype, _) = times.into_iter().max_by_key(|(_, time)| *time)?;
    Some(dtype.to_owned())
}
