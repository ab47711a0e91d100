//! How a model is served, and what that takes at least.

use rooflens_llm::{Core, Layer, Llm, Matrix, Shape};
use rooflens_units::{
    Bytes, BytesPerSecond, Count, Ratio, RequestsPerSecond, Seconds, TokensPerSecond,
};

use crate::cost::{Round, is_quantized, shards};
use crate::{Machine, Pass, Plan, Precision};

/// Longest prompt, largest batch and the like; keeps products of them within 64 bits.
const MAX: u64 = 1 << 24;

/// Passes of a chunked prefill that are computed one by one; more are said to be as many.
const MAX_CHUNKS: u64 = 4096;

/// How a model is stored, split and scheduled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Weights of the layers' matrices.
    pub weights: Precision,
    /// Key-value cache.
    pub kv: Precision,
    /// Activations, embeddings, head, routers.
    pub activations: Precision,
    /// GPUs that share each layer.
    pub tensor: u64,
    /// Groups of GPUs that hold some layers each.
    pub pipeline: u64,
    /// GPUs that share the routed experts; 1: as the other matrices.
    pub expert: u64,
    /// Replicas of what is not shared.
    pub data: u64,
    /// Bandwidth between GPUs in one direction, instead of the GPU's own.
    pub link: Option<BytesPerSecond>,
    /// Share of each prompt that is cached already.
    pub cached: Ratio,
    /// Prompt tokens of a pass at most, over all sequences.
    pub chunk: Option<u64>,
    /// Speculative decoding.
    pub speculation: Option<Speculation>,
    /// Share of device memory for weights and cache.
    pub memory_share: Ratio,
    /// Images, or sounds, of a prompt.
    pub images: u64,
}

impl Setup {
    /// One GPU, everything in one format of 16 bits or more, nothing cached or guessed.
    pub const fn plain(format: Precision) -> Self {
        Self {
            weights: format,
            kv: format,
            activations: format,
            tensor: 1,
            pipeline: 1,
            expert: 1,
            data: 1,
            link: None,
            cached: Ratio::ZERO,
            chunk: None,
            speculation: None,
            memory_share: Ratio(0.9),
            images: 0,
        }
    }
}

/// Tokens that are guessed and verified in one pass. Guessing itself costs nothing here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// Guessed tokens of a pass.
    pub tokens: u64,
    /// Probability that a guess is right, given that those before it are.
    pub acceptance: Ratio,
}

impl Speculation {
    /// Expected tokens of a pass: (1 − a^(k+1)) ÷ (1 − a) (Leviathan, Kalman and Matias, ICML 2023, equation 1).
    pub fn expected(&self) -> Count {
        let (count, accepted) = (self.tokens as f64 + 1.0, self.acceptance.0);
        if accepted < 1.0 {
            Count((1.0 - libm::pow(accepted, count)) / (1.0 - accepted))
        } else {
            Count(count)
        }
    }
}

/// Sequences and their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Sequences at a time, over all replicas.
    pub batch: u64,
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Generated tokens of a sequence.
    pub output: u64,
}

impl Load {
    /// The load with sizes that can be computed with.
    #[must_use]
    pub fn bounded(self) -> Self {
        Self {
            batch: self.batch.clamp(1, MAX),
            prompt: self.prompt.clamp(1, MAX),
            output: self.output.clamp(1, MAX),
        }
    }

    /// Positions of a whole sequence.
    pub const fn context(&self) -> u64 {
        self.prompt + self.output
    }
}

/// Memory of one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Share of the device memory for weights and cache.
    pub usable: Bytes,
    /// Weights.
    pub weights: Bytes,
    /// Cache and states of one sequence at its longest.
    pub sequence: Bytes,
    /// Sequences that fit at a time, over all GPUs; 0 if the weights alone do not.
    pub fits: u64,
}

/// Lower bounds of times, upper bounds of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Reading of the images, sounds or texts of the batch, before the prompts.
    pub read: Vec<(&'static str, Pass)>,
    /// Prefill of all prompts of the batch.
    pub prefill: Pass,
    /// Passes of the prefill.
    pub chunks: u64,
    /// One decode pass at the mean context of the output.
    pub decode: Pass,
    /// Time to first token, where the prompts of the batch come at once.
    pub ttft: Seconds,
    /// Time to first token of a prompt alone: no request has less.
    pub first: Seconds,
    /// Time per output token after the first; none for models that generate nothing.
    pub tpot: Option<Seconds>,
    /// From the request to its last token.
    pub latency: Seconds,
    /// Output tokens while decoding.
    pub decode_rate: Option<TokensPerSecond>,
    /// Most requests of any schedule, with prompts and generating sequences in the same passes.
    pub requests: RequestsPerSecond,
    /// Requests, where prefill and decode take turns.
    pub in_turns: RequestsPerSecond,
    /// What fits.
    pub memory: Memory,
}

impl Prediction {
    /// The stages and their passes.
    pub fn stages(&self) -> Vec<(&'static str, &Pass)> {
        let read = self.read.iter();
        let mut stages: Vec<(&'static str, &Pass)> =
            read.map(|(name, pass)| (*name, pass)).collect();
        stages.push(("prefill", &self.prefill));
        if self.tpot.is_some() {
            stages.push(("decode", &self.decode));
        }
        stages
    }
}

/// Bounds of one load on one machine.
pub fn predict(plan: &Plan, llm: &Llm, machine: &Machine, setup: &Setup, load: Load) -> Prediction {
    let asked = load.bounded();
    let inputs = inputs(llm, setup.images);
    let load = Load {
        prompt: decoded_prompt(llm, asked.prompt, inputs),
        ..asked
    };
    let (prefill, chunks) = prefill(plan, setup, load, llm.sequence);
    let decode = decode(plan, setup, load);
    let read = plan.read(load.batch * inputs);
    let ttft = prefill.time() + reading(&read);
    let first = match load.batch {
        1 => ttft,
        _ => {
            let alone = Load { batch: 1, ..load };
            let prefill = self::prefill(plan, setup, alone, llm.sequence).0;
            prefill.time() + reading(&plan.read(inputs))
        }
    };
    let speculation = setup.speculation.as_ref();
    let tokens = speculation.map_or(Count(1.0), Speculation::expected);
    let tpot = llm.generates().then(|| decode.time() / tokens.0);
    let mut latency = ttft;
    if let Some(tpot) = tpot {
        latency += tpot * (load.output - 1) as f64;
    }
    // While one batch is in one group of a pipeline, others are in the other groups.
    let in_flight = load.batch as f64 * setup.pipeline as f64;
    let in_turns = RequestsPerSecond(in_flight / latency.0);
    Prediction {
        read,
        prefill,
        chunks,
        decode,
        ttft,
        tpot,
        latency,
        decode_rate: tpot.map(|tpot| TokensPerSecond(in_flight / tpot.0)),
        first,
        // Its mean position is rounded down, so the schedule may seem to be faster than its bound.
        requests: most_requests(plan, llm, setup, load).max(in_turns),
        in_turns,
        memory: memory(llm, machine, setup, load),
    }
}

/// Images, sounds or texts of a prompt: one at least where the model cannot do without.
pub(crate) fn inputs(llm: &Llm, images: u64) -> u64 {
    images.max(u64::from(llm.attends_to_encoder()))
}

/// Positions that the decoder starts with: one where an encoder reads the prompt, else the prompt with its images.
pub(crate) fn decoded_prompt(llm: &Llm, prompt: u64, inputs: u64) -> u64 {
    let is_read = llm.encoders.iter().any(|encoder| encoder.name != "vision");
    if is_read && llm.attends_to_encoder() {
        1
    } else {
        let outputs: u64 = llm.encoders.iter().map(|encoder| encoder.outputs).sum();
        prompt.max(outputs.saturating_mul(inputs)).min(MAX)
    }
}

/// Time of reading inputs.
fn reading(read: &[(&'static str, Pass)]) -> Seconds {
    read.iter().map(|(_, pass)| pass.time()).sum()
}

/// Answers per second that no schedule exceeds: the sequences of a batch take part in one pass with their prompt, and in
/// one for each of the tokens after the first; prompts ride along.
fn most_requests(plan: &Plan, llm: &Llm, setup: &Setup, load: Load) -> RequestsPerSecond {
    let prompt = llm.sequence.unwrap_or(load.prompt).max(1);
    let cached = cached(setup, prompt);
    let generated = if llm.generates() { load.output - 1 } else { 0 };
    let (guesses, tokens_of_pass) = match &setup.speculation {
        Some(speculation) => (speculation.tokens, speculation.expected().0),
        None => (0, 1.0),
    };
    let replicas = setup.data.max(1);
    let sequences = load.batch.div_ceil(replicas) as f64;
    let work = (guesses + 1) as f64 / tokens_of_pass;
    let chunks = setup.chunk.map_or(0.0, |chunk| {
        sequences * (prompt - cached) as f64 / chunk as f64
    });
    let output_passes = 1.0 + generated as f64 / tokens_of_pass;
    let round = Round {
        sequences,
        passes: output_passes.max(chunks),
        output_passes,
        prefill: Shape {
            batch: 1,
            new: prompt - cached,
            past: cached,
            logits: 1,
        },
        decode: Shape {
            batch: 1,
            new: generated,
            past: prompt,
            logits: generated,
        },
        work,
        tokens_of_pass,
        outputs: 1.0 + generated as f64 * work,
    };
    let answers = sequences * replicas as f64 * setup.pipeline as f64;
    let read = reading(&plan.read(load.batch * inputs(llm, setup.images)));
    RequestsPerSecond(answers / (plan.round(&round).time() + read).0)
}

/// Tokens of a prompt that are cached; the last one is computed.
fn cached(setup: &Setup, prompt: u64) -> u64 {
    ((prompt as f64 * setup.cached.0) as u64).min(prompt - 1)
}

/// All prompts of a batch, in as many passes as chunks allow.
fn prefill(plan: &Plan, setup: &Setup, load: Load, sequence: Option<u64>) -> (Pass, u64) {
    let prompt = sequence.unwrap_or(load.prompt).max(1);
    let cached = cached(setup, prompt);
    let new = prompt - cached;
    let per_pass = match setup.chunk {
        Some(chunk) => (chunk / load.batch).clamp(1, new),
        None => new,
    };
    let passes = new.div_ceil(per_pass);
    if passes > MAX_CHUNKS {
        let shape = Shape {
            batch: load.batch,
            new,
            past: cached,
            logits: 1,
        };
        return (plan.pass(shape), 1);
    }
    let mut sum = Pass::default();
    for index in 0..passes {
        let before = index * per_pass;
        let tokens = per_pass.min(new - before);
        let logits = u64::from(index + 1 == passes);
        sum.add(&plan.pass(Shape {
            batch: load.batch,
            new: tokens,
            past: cached + before,
            logits,
        }));
    }
    (sum, passes)
}

/// A decode pass at the mean context of the output's tokens.
fn decode(plan: &Plan, setup: &Setup, load: Load) -> Pass {
    let guessed = setup
        .speculation
        .map_or(0, |speculation| speculation.tokens);
    let new = guessed + 1;
    // The mean of the positions that passes begin at, rounded down.
    let given = setup
        .speculation
        .map_or(1.0, |speculation| speculation.expected().0);
    let past = load.prompt + ((load.output as f64 - 1.0 - given) / 2.0).max(0.0) as u64;
    plan.pass(Shape {
        batch: load.batch,
        new,
        past,
        logits: new,
    })
}

/// Size of the weights that one GPU holds.
pub fn weight_bytes(llm: &Llm, setup: &Setup) -> Bytes {
    let has_experts = llm.outline.experts > 0;
    let of_matrix = |matrix: &Matrix| {
        let precision = if is_quantized(&setup.weights, matrix, has_experts) {
            setup.weights
        } else {
            setup.activations
        };
        matrix.parameters() as f64 * precision.element / shards(setup, matrix) as f64
    };
    let sum = |matrices: &[Matrix]| matrices.iter().map(of_matrix).sum::<Bytes>();
    let element = setup.activations.element;
    let layers = llm.over_layers(|layer| sum(&layer.matrices) + layer.vectors as f64 * element);
    let tables = (llm.tables + llm.vectors) as f64 * element / setup.tensor as f64;
    let head = match &llm.head {
        Some(head) if !llm.tied => of_matrix(head),
        _ => Bytes::ZERO,
    };
    let outside = sum(&llm.matrices) + tables + head;
    // Encoders are not quantized; they run with the first layers.
    let encoders = llm.encoders.iter().map(|encoder| encoder.llm.parameters());
    let encoders = encoders.sum::<u64>() as f64 * element / setup.tensor as f64;
    let outside = outside + encoders;
    layers / setup.pipeline as f64 + outside / setup.pipeline.min(2) as f64
}

/// Share of one GPU in the cache and state of a sequence in one layer.
fn cache_bytes(layer: &Layer, setup: &Setup, context: u64) -> Bytes {
    let entries = |core: &Core| {
        let shards = setup.tensor.min(core.kv_heads.max(1)) as f64;
        core.stored as f64 * core.reach.stored(context) / shards
    };
    let state = layer.state_elements() / setup.tensor as f64;
    layer.cores.iter().map(entries).sum::<f64>() * setup.kv.element
        + state * setup.activations.element
}

/// Weights on one GPU, and the number of sequences that fit next to them.
fn memory(llm: &Llm, machine: &Machine, setup: &Setup, load: Load) -> Memory {
    let usable = machine.memory * setup.memory_share;
    let weights = weight_bytes(llm, setup);
    let sequence = llm.over_layers(|layer| cache_bytes(layer, setup, load.context()));
    let free = usable - weights;
    let fits = match (free > Bytes::ZERO, sequence > Bytes::ZERO) {
        (true, true) => (free * setup.pipeline as f64 / sequence) as u64,
        (true, false) => MAX,
        (false, _) => 0,
    };
    Memory {
        usable,
        weights,
        sequence: sequence / setup.pipeline as f64,
        fits: fits.min(MAX) * setup.data,
    }
}
