//! A serving engine under load, step by step, as a test bed for verdicts and bounds.
//!
//! Each step takes the time that its tokens need on the hardware: per part the greater of computing and moving, and an
//! overhead. The engine has slots, a paged cache, a token budget per step, chunked prefill, a cached prefix, preemption
//! with recomputation, and speculation. Load generators are open or closed, with a limit of connections.
//!
//! What limits a setup is known without any rule: [`Setup`] can be changed in one resource and run again. Times are
//! seconds. The same setup always gives the same result.

#![forbid(unsafe_code)]

mod engine;
mod hardware;
mod random;

pub use engine::{Outcome, Record, Sample, run};
pub use hardware::{Hardware, Part, Step};
pub use random::Random;

/// A served model under a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What a step takes.
    pub hardware: Hardware,
    /// How requests are scheduled.
    pub engine: Engine,
    /// How requests are offered.
    pub client: Client,
    /// What is asked for.
    pub workload: Workload,
}

/// Limits of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Engine {
    /// Requests that run at most.
    pub slots: usize,
    /// Blocks of the cache.
    pub blocks: usize,
    /// Tokens of a block.
    pub block: usize,
    /// Tokens of a step at most.
    pub budget: usize,
    /// Prompts are cut into chunks that share steps with decoding; else whole prompts come first in steps of their own.
    pub chunked: bool,
    /// First tokens of each prompt that are cached from the start.
    pub prefix: usize,
    /// Guessed tokens of a step, and the probability that one is right, given that those before it are.
    pub speculation: Option<(usize, f64)>,
}

/// How requests are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Client {
    /// When requests are due.
    pub arrivals: Arrivals,
    /// Requests in flight at most; a due request waits for a connection.
    pub connections: Option<usize>,
    /// From sending to the engine.
    pub delay: f64,
}

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// A Poisson process of so many requests per second.
    Open(f64),
    /// The next one when one ends, so many at a time.
    Closed(usize),
}

/// Requests and their lengths, uniform between both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Requests.
    pub requests: usize,
    /// Tokens of a prompt: fewest and most.
    pub prompt: (usize, usize),
    /// Tokens of an answer: fewest and most.
    pub output: (usize, usize),
    /// Of all random numbers.
    pub seed: u64,
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests;
