//! How a model is served, and what that takes at least.

use rooflens_llm::{Layer, Llm, Matrix, Shape};

use crate::cost::quantizes;
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
    /// Bandwidth between GPUs in one direction, bytes per second, instead of the GPU's own.
    pub link: Option<f64>,
    /// Share of each prompt whose cache is there already, 0 to 1.
    pub cached: f64,
    /// Prompt tokens of a pass at most, over all sequences.
    pub chunk: Option<u64>,
    /// Speculative decoding.
    pub speculation: Option<Speculation>,
    /// Share of device memory for weights and cache.
    pub memory_share: f64,
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
            cached: 0.0,
            chunk: None,
            speculation: None,
            memory_share: 0.9,
        }
    }
}

/// Tokens that are guessed and verified in one pass. Guessing itself costs nothing here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// Guessed tokens of a pass.
    pub tokens: u64,
    /// Probability that a guess is right, given that those before it are.
    pub acceptance: f64,
}

impl Speculation {
    /// Expected tokens of a pass: (1 − a^(k+1)) ÷ (1 − a) (Leviathan, Kalman and Matias, ICML 2023, equation 1).
    pub fn expected(&self) -> f64 {
        let (count, accepted) = (self.tokens as f64 + 1.0, self.acceptance);
        match accepted < 1.0 {
            true => (1.0 - libm::pow(accepted, count)) / (1.0 - accepted),
            false => count,
        }
    }
}

/// What is asked of it.
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
        let bounded = |size: u64| size.clamp(1, MAX);
        Self {
            batch: bounded(self.batch),
            prompt: bounded(self.prompt),
            output: bounded(self.output),
        }
    }

    /// Positions of a whole sequence.
    pub const fn context(&self) -> u64 {
        self.prompt + self.output
    }
}

/// Memory of one GPU, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// What weights and cache may take.
    pub usable: f64,
    /// Weights.
    pub weights: f64,
    /// Cache and states of one sequence at its longest.
    pub sequence: f64,
    /// Sequences that fit at a time, over all GPUs; 0 if the weights alone do not.
    pub fits: u64,
}

/// Lower bounds of times in seconds, upper bounds of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Prefill of all prompts of the batch.
    pub prefill: Pass,
    /// Passes of the prefill.
    pub chunks: u64,
    /// One decode pass at the mean context of the output.
    pub decode: Pass,
    /// Time to first token.
    pub ttft: f64,
    /// Time per output token after the first; none for models that generate nothing.
    pub tpot: Option<f64>,
    /// From the request to its last token.
    pub latency: f64,
    /// Output tokens per second while decoding.
    pub decode_rate: Option<f64>,
    /// Requests per second, where prefill and decode take turns.
    pub requests: f64,
    /// What fits.
    pub memory: Memory,
}

/// Bounds of one load on one machine.
pub fn predict(plan: &Plan, llm: &Llm, machine: &Machine, setup: &Setup, load: Load) -> Prediction {
    let load = load.bounded();
    let (prefill, chunks) = prefill(plan, setup, load, llm.sequence);
    let decode = decode(plan, setup, load);
    let ttft = prefill.seconds();
    let tokens = setup
        .speculation
        .as_ref()
        .map_or(1.0, Speculation::expected);
    let tpot = llm.generates().then(|| decode.seconds() / tokens);
    let latency = ttft + tpot.map_or(0.0, |tpot| tpot * (load.output - 1) as f64);
    // While one batch is in one group of a pipeline, others are in the other groups.
    let at_once = load.batch as f64 * setup.pipeline as f64;
    Prediction {
        prefill,
        chunks,
        decode,
        ttft,
        tpot,
        latency,
        decode_rate: tpot.map(|tpot| at_once / tpot),
        requests: at_once / latency,
        memory: memory(llm, machine, setup, load),
    }
}

/// All prompts of a batch, in as many passes as chunks allow.
fn prefill(plan: &Plan, setup: &Setup, load: Load, sequence: Option<u64>) -> (Pass, u64) {
    let prompt = sequence.unwrap_or(load.prompt).max(1);
    let cached = ((prompt as f64 * setup.cached) as u64).min(prompt - 1);
    let new = prompt - cached;
    let each = setup
        .chunk
        .map_or(new, |chunk| (chunk / load.batch).clamp(1, new));
    let passes = new.div_ceil(each);
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
        let before = index * each;
        let tokens = each.min(new - before);
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
    let new = setup.speculation.map_or(1, |guess| guess.tokens + 1);
    let past = load.prompt + (load.output - 1) / 2;
    plan.pass(Shape {
        batch: load.batch,
        new,
        past,
        logits: new,
    })
}

/// Bytes of the weights that one GPU holds.
pub fn weight_bytes(llm: &Llm, setup: &Setup) -> f64 {
    let has_experts = llm.outline.experts > 0;
    let of_matrix = |matrix: &Matrix| {
        let quantized = quantizes(&setup.weights, matrix, has_experts);
        let bytes = if quantized {
            setup.weights.bytes
        } else {
            setup.activations.bytes
        };
        let routed = matrix.used < matrix.copies && setup.expert > 1;
        let ways = if routed {
            setup.expert
        } else {
            setup.tensor.min(matrix.ways)
        };
        matrix.parameters() as f64 * bytes / ways.max(1) as f64
    };
    let of_layer = |layer: &Layer| {
        let vectors = layer.vectors as f64 * setup.activations.bytes;
        layer.matrices.iter().map(of_matrix).sum::<f64>() + vectors
    };
    let layers: f64 = llm
        .layers
        .iter()
        .map(|(count, layer)| *count as f64 * of_layer(layer))
        .sum();
    let tables = (llm.tables + llm.vectors) as f64 * setup.activations.bytes / setup.tensor as f64;
    let head = llm
        .head
        .as_ref()
        .filter(|_| !llm.tied)
        .map_or(0.0, of_matrix);
    let outside = llm.matrices.iter().map(of_matrix).sum::<f64>() + tables + head;
    layers / setup.pipeline as f64 + outside / setup.pipeline.min(2) as f64
}

/// What one GPU holds of the weights, and how many sequences fit beside them.
fn memory(llm: &Llm, machine: &Machine, setup: &Setup, load: Load) -> Memory {
    let usable = machine.memory * setup.memory_share;
    let weights = weight_bytes(llm, setup);
    let cache = |layer: &Layer| -> f64 {
        let entry = |core: &rooflens_llm::Core| {
            let split = setup.tensor.min(core.kv_heads.max(1)) as f64;
            core.stored as f64 * core.reach.stored(load.context()) / split
        };
        let state = layer
            .state
            .as_ref()
            .map_or(0.0, |state| state.elements as f64 / setup.tensor as f64);
        layer.cores.iter().map(entry).sum::<f64>() * setup.kv.bytes
            + state * setup.activations.bytes
    };
    let sequence: f64 = llm
        .layers
        .iter()
        .map(|(count, layer)| *count as f64 * cache(layer))
        .sum();
    let free = usable - weights;
    let fits = match sequence > 0.0 {
        true if free > 0.0 => (free * setup.pipeline as f64 / sequence) as u64,
        true => 0,
        false => {
            if free > 0.0 {
                MAX
            } else {
                0
            }
        }
    };
    Memory {
        usable,
        weights,
        sequence: sequence / setup.pipeline as f64,
        fits: fits.min(MAX) * setup.data,
    }
}
