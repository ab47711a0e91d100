//! What a step takes.

/// A model on a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// FLOPs per second.
    pub rate: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Matrices that all tokens pass through, one after another.
    pub parts: Vec<Part>,
    /// The head: only tokens that give an output pass through it.
    pub head: Part,
    /// FLOPs of attention for a pair of a query and a key.
    pub pair: f64,
    /// Bytes of a token's keys and values.
    pub cached: f64,
    /// Bytes that each token moves in a part of its own: its row of the embedding.
    pub row: f64,
    /// What each step takes next to computing and moving.
    pub overhead: f64,
    /// FLOPs of tokens of prompts over what they are.
    pub prefill_work: f64,
    /// FLOPs of generated tokens over what they are.
    pub decode_work: f64,
}

/// Matrices of one part of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// FLOPs of a token.
    pub flops: f64,
    /// Bytes that a step reads.
    pub bytes: f64,
}

/// Tokens of a step: of each sequence new ones and those before them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Chunks of prompts, and whether they are the last of their prompt.
    pub prefill: Vec<(usize, usize, bool)>,
    /// Sequences that generate.
    pub decode: Vec<(usize, usize)>,
}

impl Hardware {
    /// The time of a step: per part the greater of computing and moving, and the overhead.
    pub fn time(&self, step: &Step) -> f64 {
        let prefill = step.prefill.iter();
        let prefill =
            prefill.map(|(new, past, last)| (*new, *past, usize::from(*last), self.prefill_work));
        let decode = step.decode.iter();
        let decode = decode.map(|(new, past)| (*new, *past, *new, self.decode_work));
        let (mut tokens, mut outputs, mut pairs, mut moved) = (0.0, 0.0, 0.0, 0.0);
        for (new, past, given, work) in prefill.chain(decode) {
            let (new, past, given) = (new as f64, past as f64, given as f64);
            tokens += new * work;
            outputs += given * work;
            pairs += (new * past + new * (new + 1.0) / 2.0) * work;
            // What is attended to is read, what is new is written.
            moved += past + 2.0 * new;
        }
        let mut time = self.overhead;
        for part in &self.parts {
            time += self.part(tokens * part.flops, part.bytes);
        }
        time += self.part(pairs * self.pair, moved * self.cached);
        let rows = step.prefill.iter().map(|(new, ..)| *new);
        let rows = rows.chain(step.decode.iter().map(|(new, _)| *new));
        time += rows.sum::<usize>() as f64 * self.row / self.bandwidth;
        if outputs > 0.0 {
            time += self.part(outputs * self.head.flops, self.head.bytes);
        }
        time
    }

    fn part(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.rate).max(bytes / self.bandwidth)
    }

    /// Whether computing takes longer than moving, over the whole step.
    pub fn is_compute_bound(&self, step: &Step) -> bool {
        let infinite = |rate: f64, bandwidth: f64| Self {
            rate,
            bandwidth,
            overhead: 0.0,
            ..self.clone()
        };
        let compute = infinite(self.rate, f64::INFINITY).time(step);
        let memory = infinite(f64::INFINITY, self.bandwidth).time(step);
        compute > memory
    }
}
