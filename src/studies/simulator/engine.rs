//! The scheduler and the load generator, step by step.

use std::collections::VecDeque;

use crate::{Arrivals, Random, Setup, Step};

/// A request as its load generator sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// When it was due.
    pub due: f64,
    /// When it was sent.
    pub sent: f64,
    /// When the tokens of its answer came.
    pub tokens: Vec<f64>,
    /// Tokens of its prompt.
    pub prompt: usize,
}

impl Record {
    /// Time to first token, from when it was due.
    pub fn ttft(&self) -> f64 {
        self.tokens[0] - self.due
    }

    /// When its last token came.
    pub fn end(&self) -> f64 {
        self.tokens[self.tokens.len() - 1]
    }
}

/// What an engine says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When.
    pub time: f64,
    /// Requests that run.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Share of the blocks in use.
    pub cache: f64,
    /// Preempted requests so far.
    pub preemptions: usize,
    /// Answers so far.
    pub completed: usize,
}

/// A load test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// All requests; each has an answer.
    pub requests: Vec<Record>,
    /// Samples of the engine, 200 or so.
    pub samples: Vec<Sample>,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Time in steps.
    pub busy: f64,
    /// Generated tokens without the first of each answer.
    pub generated: usize,
    /// Mean sequences of a step that generates.
    pub batch: f64,
}

impl Outcome {
    /// Answers per second.
    pub fn rate(&self) -> f64 {
        self.requests.len() as f64 / self.seconds
    }

    /// Answers per second between a third and two thirds of them: without filling and draining.
    pub fn steady_rate(&self) -> f64 {
        let mut ends: Vec<f64> = self.requests.iter().map(Record::end).collect();
        ends.sort_by(f64::total_cmp);
        let (from, to) = (ends.len() / 3, ends.len() * 2 / 3);
        (to - from) as f64 / (ends[to] - ends[from])
    }
}

/// A request in the engine.
#[derive(Clone, Debug)]
struct Sequence {
    request: usize,
    /// Tokens to have in the cache before the next one is generated.
    prompt: usize,
    /// Tokens in the cache.
    computed: usize,
}

struct State<'s> {
    setup: &'s Setup,
    random: Random,
    now: f64,
    outputs: Vec<usize>,
    records: Vec<Record>,
    /// Requests that are not sent yet, by when they are due.
    due: VecDeque<usize>,
    /// Sent requests on their way to the engine.
    sent: VecDeque<(f64, usize)>,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    in_flight: usize,
    completed: usize,
    preemptions: usize,
}

/// Runs a load test to its end.
///
/// # Panics
/// If a request does not fit into the cache alone.
pub fn run(setup: &Setup) -> Outcome {
    let mut state = State::new(setup);
    let mut outcome = Outcome::default();
    let (mut steps, mut batch) = (0_usize, 0_usize);
    let mut next_sample = 0.0;
    let interval = 0.05;
    while state.completed < state.records.len() {
        state.send(false);
        state.deliver();
        if state.running.is_empty() && state.waiting.is_empty() {
            state.now = state.next_event();
            continue;
        }
        let plan = state.plan();
        assert!(
            plan.iter().any(|new| *new > 0),
            "a request larger than the cache"
        );
        let step = state.step(&plan);
        let time = setup.hardware.time(&step);
        state.now += time;
        outcome.busy += time;
        if !step.decode.is_empty() {
            (steps, batch) = (steps + 1, batch + step.decode.len());
        }
        state.send(false);
        outcome.generated += state.apply(&plan);
        state.send(true);
        if state.now >= next_sample {
            outcome.samples.push(state.sample());
            next_sample = state.now + interval;
        }
    }
    outcome.batch = batch as f64 / steps.max(1) as f64;
    outcome.seconds = state.now - state.records[0].due;
    let stride = outcome.samples.len().div_ceil(200);
    outcome.samples = outcome.samples.into_iter().step_by(stride.max(1)).collect();
    outcome.requests = state.records;
    outcome
}

impl<'s> State<'s> {
    fn new(setup: &'s Setup) -> Self {
        let workload = &setup.workload;
        let mut random = Random::new(workload.seed);
        let (mut records, mut outputs) = (Vec::new(), Vec::new());
        let mut due = 0.0;
        for _ in 0..workload.requests {
            records.push(Record {
                due,
                prompt: random.between(workload.prompt),
                ..Record::default()
            });
            outputs.push(random.between(workload.output));
            if let Arrivals::Open(rate) = setup.client.arrivals {
                due -= libm::log(1.0 - random.unit()) / rate;
            }
        }
        Self {
            setup,
            random,
            now: 0.0,
            due: (0..records.len()).collect(),
            outputs,
            records,
            sent: VecDeque::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            in_flight: 0,
            completed: 0,
            preemptions: 0,
        }
    }

    /// Sends what is due, as far as there are connections; with `late`, connections that became free just now.
    fn send(&mut self, late: bool) {
        let most = match self.setup.client.arrivals {
            Arrivals::Closed(concurrency) => concurrency,
            Arrivals::Open(_) => self.setup.client.connections.unwrap_or(usize::MAX),
        };
        let is_closed = matches!(self.setup.client.arrivals, Arrivals::Closed(_));
        while self.in_flight < most
            && let Some(request) = self.due.front().copied()
            && (is_closed || self.records[request].due <= self.now)
        {
            let record = &mut self.records[request];
            if is_closed {
                record.due = self.now;
            }
            record.sent = if late { self.now } else { record.due };
            self.sent
                .push_back((record.sent + self.setup.client.delay, request));
            self.due.pop_front();
            self.in_flight += 1;
        }
    }

    fn deliver(&mut self) {
        while let Some((time, request)) = self.sent.front().copied()
            && time <= self.now
        {
            self.sent.pop_front();
            self.waiting.push_back(Sequence {
                request,
                prompt: self.records[request].prompt,
                computed: self.prefix(request),
            });
        }
    }

    /// Tokens of a request that are cached from the start; the last one is always computed.
    fn prefix(&self, request: usize) -> usize {
        self.setup
            .engine
            .prefix
            .min(self.records[request].prompt - 1)
    }

    /// When the next request reaches the engine or is due.
    fn next_event(&self) -> f64 {
        let sent = self.sent.front().map(|(time, _)| *time);
        let due = self.due.front().map(|request| self.records[*request].due);
        // What was due before now waits for a connection.
        let due = due.filter(|due| *due > self.now);
        let next = sent.into_iter().chain(due).fold(f64::INFINITY, f64::min);
        next.max(self.now)
    }

    /// Blocks of a sequence with so many tokens, without those of the shared prefix.
    fn blocks(&self, sequence: &Sequence, tokens: usize) -> usize {
        let own = tokens.saturating_sub(self.prefix(sequence.request));
        own.div_ceil(self.setup.engine.block)
    }

    fn free(&self) -> usize {
        let used: usize = self
            .running
            .iter()
            .map(|sequence| self.blocks(sequence, sequence.computed))
            .sum();
        self.setup.engine.blocks - used.min(self.setup.engine.blocks)
    }

    /// Tokens that a generating sequence computes in a step.
    fn guessed(&self) -> usize {
        1 + self
            .setup
            .engine
            .speculation
            .map_or(0, |(tokens, _)| tokens)
    }

    /// New tokens of each running sequence in the next step: generating sequences first, then prompts as far as budget,
    /// slots and blocks allow. Admits waiting sequences.
    fn plan(&mut self) -> Vec<usize> {
        let engine = self.setup.engine;
        if !engine.chunked {
            let before = self.running.len();
            self.admit_prompts();
            if self.running.len() > before {
                let tokens = |(index, sequence): (usize, &Sequence)| {
                    if index < before { 0 } else { sequence.left() }
                };
                return self.running.iter().enumerate().map(tokens).collect();
            }
        }
        let preempted = self.make_room();
        let (mut budget, mut free) = (engine.budget, self.free());
        let mut plan = vec![0; self.running.len()];
        for (sequence, new) in self.running.iter().zip(&mut plan) {
            if sequence.left() == 0 {
                *new = self.guessed();
                free -= self.growth(sequence, *new);
                budget = budget.saturating_sub(*new);
            }
        }
        for (sequence, new) in self.running.iter().zip(&mut plan) {
            let chunk = sequence.left().min(budget).min(self.room(sequence, free));
            if chunk > 0 {
                (budget, free) = (budget - chunk, free - self.growth(sequence, chunk));
                *new = chunk;
            }
        }
        while !preempted && engine.chunked && budget > 0 && self.running.len() < engine.slots {
            let Some(sequence) = self.waiting.front() else {
                break;
            };
            let chunk = sequence.left().min(budget);
            let blocks = self.growth(sequence, chunk);
            if !self.admits(blocks, free) {
                break;
            }
            (budget, free) = (budget - chunk, free - blocks);
            plan.push(chunk);
            self.running.extend(self.waiting.pop_front());
        }
        plan
    }

    /// The tokens of a plan with what is before them.
    fn step(&self, plan: &[usize]) -> Step {
        let mut step = Step::default();
        for (sequence, new) in self.running.iter().zip(plan) {
            let left = sequence.left();
            match (*new, left) {
                (0, _) => {}
                (new, 0) => step.decode.push((new, sequence.computed)),
                (new, left) => step.prefill.push((new, sequence.computed, new == left)),
            }
        }
        step
    }

    /// Whether a waiting sequence may start: a hundredth of the blocks is left for those that run.
    fn admits(&self, blocks: usize, free: usize) -> bool {
        let reserve = match self.running.is_empty() {
            true => 0,
            false => self.setup.engine.blocks / 100,
        };
        blocks + reserve <= free
    }

    /// Tokens that a sequence can add in its last block and so many free ones.
    fn room(&self, sequence: &Sequence, free: usize) -> usize {
        let held = self.blocks(sequence, sequence.computed);
        let own = sequence.computed - self.prefix(sequence.request);
        (held + free) * self.setup.engine.block - own
    }

    /// Blocks that further tokens of a sequence need.
    fn growth(&self, sequence: &Sequence, new: usize) -> usize {
        self.blocks(sequence, sequence.computed + new) - self.blocks(sequence, sequence.computed)
    }

    /// Admits whole prompts as far as budget, slots and blocks allow. A prompt beyond the budget runs alone.
    fn admit_prompts(&mut self) {
        let engine = self.setup.engine;
        let (mut tokens, mut free) = (0, self.free());
        while self.running.len() < engine.slots
            && let Some(sequence) = self.waiting.front()
        {
            let new = sequence.left();
            let blocks = self.growth(sequence, new);
            if !self.admits(blocks, free) || (tokens > 0 && tokens + new > engine.budget) {
                break;
            }
            (tokens, free) = (tokens + new, free - blocks);
            self.running.extend(self.waiting.pop_front());
        }
    }

    /// Preempts the last sequences until those before them can go on; whether any was.
    fn make_room(&mut self) -> bool {
        let before = self.preemptions;
        while !self.can_go_on() {
            assert!(self.running.len() > 1, "a request larger than the cache");
            let Some(mut last) = self.running.pop() else {
                break;
            };
            let record = &self.records[last.request];
            last.prompt = record.prompt + record.tokens.len();
            last.computed = self.prefix(last.request);
            self.waiting.push_front(last);
            self.preemptions += 1;
        }
        self.preemptions > before
    }

    /// Whether all generating sequences find room for their next tokens, and the first prompt for one, if all are prompts.
    fn can_go_on(&self) -> bool {
        let free = self.free();
        let generating = self.running.iter().filter(|sequence| sequence.left() == 0);
        let needed: usize = generating
            .map(|sequence| self.growth(sequence, self.guessed()))
            .sum();
        let all_prompts = self.running.iter().all(|sequence| sequence.left() > 0);
        let first = self.running.first();
        let is_stuck = all_prompts && first.is_some_and(|first| self.room(first, free) == 0);
        needed <= free && !is_stuck
    }

    /// Takes over the results of a step; the number of generated tokens, first tokens excluded.
    fn apply(&mut self, plan: &[usize]) -> usize {
        let mut generated = 0;
        for (sequence, new) in self.running.iter_mut().zip(plan) {
            let left = sequence.left();
            if *new == 0 {
                continue;
            }
            let record = &mut self.records[sequence.request];
            if left > *new {
                sequence.computed += *new;
                continue;
            }
            let missing = self.outputs[sequence.request] - record.tokens.len();
            let accepted = if left > 0 {
                sequence.computed += *new;
                1
            } else {
                let accepted = accepted(&mut self.random, self.setup.engine.speculation);
                let accepted = accepted.min(missing);
                sequence.computed += accepted;
                generated += accepted;
                accepted
            };
            sequence.prompt = sequence.computed;
            record
                .tokens
                .resize(record.tokens.len() + accepted, self.now);
        }
        let (records, outputs) = (&self.records, &self.outputs);
        let before = self.running.len();
        let is_open = |request: usize| records[request].tokens.len() < outputs[request];
        self.running.retain(|sequence| is_open(sequence.request));
        let ended = before - self.running.len();
        self.completed += ended;
        self.in_flight -= ended;
        generated
    }

    fn sample(&self) -> Sample {
        let free = self.free() as f64;
        Sample {
            time: self.now,
            running: self.running.len(),
            waiting: self.waiting.len(),
            cache: 1.0 - free / self.setup.engine.blocks as f64,
            preemptions: self.preemptions,
            completed: self.completed,
        }
    }
}

impl Sequence {
    /// Tokens to compute before the next one is generated.
    const fn left(&self) -> usize {
        self.prompt - self.computed
    }
}

/// Tokens that a step gives a sequence: one, and guesses up to the first wrong one.
fn accepted(random: &mut Random, speculation: Option<(usize, f64)>) -> usize {
    let Some((guesses, probability)) = speculation else {
        return 1;
    };
    let right = (0..guesses).take_while(|_| random.unit() < probability);
    1 + right.count()
}
