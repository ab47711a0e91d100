//! A thread that sends requests when they are due and reads answers as they come: one epoll, many connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use super::connection::{Connection, Exchange, Step};
use super::load::{Arrivals, Load, Random};
use super::prompts::{Body, Prompts};
use super::record::{Record, RequestError};
use super::timer::{Timer, raise_priority};
use super::transport::Connector;

/// How often it looks for interrupts and timeouts.
const TICK: Duration = Duration::from_millis(100);

/// How long a client of a closed loop waits after a failure, so that a server that is down is not stormed.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Events that are taken from epoll at once.
const EVENTS: usize = 256;

/// The token of the timer; connections count from 0.
const TIMER: Token = Token(usize::MAX);

/// The server and what it is asked.
pub(super) struct Target {
    pub(super) connector: Connector,
    /// The head of each request up to the length of its body.
    pub(super) head: String,
    pub(super) prompts: Prompts,
    pub(super) timeout: Duration,
}

/// A level of load that runs.
pub(super) struct Level<'a> {
    pub(super) target: &'a Target,
    pub(super) load: Load,
    pub(super) duration: Option<Duration>,
    pub(super) requests: u64,
    pub(super) seed: u64,
    /// Place of its first request among those of all levels.
    pub(super) offset: u64,
    pub(super) workers: u32,
    /// Zero of its times.
    pub(super) start: Instant,
    /// The same, as people tell time.
    pub(super) started_at: String,
    /// Requests that were sent.
    pub(super) sent: AtomicU64,
    /// The next id of a closed loop.
    pub(super) next: AtomicU64,
    pub(super) is_interrupted: AtomicBool,
}

/// When requests are due.
enum Schedule {
    Open(std::iter::StepBy<std::iter::Skip<std::iter::Enumerate<Arrivals>>>),
    /// Since when each client that has no request in flight waits.
    Closed(BinaryHeap<Reverse<Instant>>),
}

/// The request that is sent next.
struct Planned {
    id: u64,
    /// When, of an open loop.
    due: Option<Instant>,
    body: Body,
}

/// The thread.
pub(super) struct Worker<'a> {
    level: &'a Level<'a>,
    records: Sender<Record>,
    schedule: Schedule,
    planned: Option<Planned>,
    poll: Poll,
    timer: Timer,
    /// What the timer is set to.
    wakes: Option<Instant>,
    connections: BTreeMap<usize, Connection>,
    /// Connections that are kept for another request.
    idle: Vec<usize>,
    next_token: usize,
    /// Time, connection and request, in the order of times.
    deadlines: VecDeque<(Instant, usize, u64)>,
    /// Requests without a record.
    in_flight: usize,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    /// One of the level's workers.
    pub(super) fn new(
        level: &'a Level<'a>,
        index: u32,
        records: Sender<Record>,
    ) -> io::Result<Self> {
        let (poll, timer) = (Poll::new()?, Timer::new()?);
        let descriptor = timer.descriptor();
        poll.registry()
            .register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE)?;
        let schedule = match level.load {
            Load::Open(rate) => {
                let arrivals = Arrivals::new(rate, Random::new(level.seed, u64::MAX)).enumerate();
                Schedule::Open(
                    arrivals
                        .skip(index as usize)
                        .step_by(level.workers as usize),
                )
            }
            Load::Closed(clients) => {
                let own = (index..clients).step_by(level.workers as usize);
                Schedule::Closed(own.map(|_| Reverse(level.start)).collect())
            }
        };
        Ok(Self {
            level,
            records,
            schedule,
            planned: None,
            poll,
            timer,
            wakes: None,
            connections: BTreeMap::new(),
            idle: Vec::new(),
            next_token: 0,
            deadlines: VecDeque::new(),
            in_flight: 0,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Works until all answers are there.
    pub(super) fn run(mut self) -> io::Result<()> {
        raise_priority();
        let mut events = mio::Events::with_capacity(EVENTS);
        self.planned = self.plan();
        loop {
            self.send_due();
            self.expire();
            if self.level.is_interrupted.load(Ordering::Relaxed) {
                self.abandon();
            }
            if self.planned.is_none() && self.in_flight == 0 {
                return Ok(());
            }
            self.set_timer()?;
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                if event.token() != TIMER {
                    self.ready(event.token().0, event.is_read_closed() || event.is_error());
                }
                // Answers that came together must not hold up what is due.
                self.send_due();
            }
        }
    }

    /// The next request of this worker, made before it is due. None once the level ends.
    fn plan(&mut self) -> Option<Planned> {
        let level = self.level;
        let (id, due) = match &mut self.schedule {
            Schedule::Open(arrivals) => {
                let (id, at) = arrivals.next()?;
                if level.duration.is_some_and(|duration| at >= duration) {
                    return None;
                }
                (id as u64, Some(level.start + at))
            }
            Schedule::Closed(_) => (level.next.fetch_add(1, Ordering::Relaxed), None),
        };
        let random = Random::new(level.seed, id);
        let body = || {
            level
                .target
                .prompts
                .body(level.offset.wrapping_add(id), random)
        };
        (id < level.requests).then(|| Planned {
            id,
            due,
            body: body(),
        })
    }

    /// When the planned request is due; of a closed loop once a client waits.
    fn due(&self) -> Option<Instant> {
        let planned = self.planned.as_ref()?;
        match &self.schedule {
            Schedule::Open(_) => planned.due,
            Schedule::Closed(waiting) => waiting.peek().map(|Reverse(since)| *since),
        }
    }

    fn send_due(&mut self) {
        while let Some(due) = self.due() {
            let now = Instant::now();
            if due > now {
                return;
            }
            if let Schedule::Closed(waiting) = &mut self.schedule {
                waiting.pop();
                if self
                    .level
                    .duration
                    .is_some_and(|duration| now - self.level.start >= duration)
                {
                    self.planned = None;
                    return;
                }
            }
            let Some(planned) = self.planned.take() else {
                return;
            };
            self.send(planned, due, now);
            self.planned = self.plan();
        }
    }

    fn send(&mut self, planned: Planned, due: Instant, now: Instant) {
        self.level.sent.fetch_add(1, Ordering::Relaxed);
        self.in_flight += 1;
        let Planned {
            id,
            body: Body { json, words },
            ..
        } = planned;
        let out = format!("{}{}\r\n\r\n{json}", self.level.target.head, json.len()).into_bytes();
        let exchange = Exchange::new(id, words, due, now);
        let token = match self.idle.pop() {
            Some(token) => token,
            None => match self.open() {
                Ok(token) => token,
                Err(error) => return self.record(exchange, now, &Err(error.into())),
            },
        };
        self.begin(token, exchange, out, now + self.level.target.timeout);
    }

    fn begin(&mut self, token: usize, exchange: Exchange, out: Vec<u8>, deadline: Instant) {
        self.deadlines.push_back((deadline, token, exchange.id));
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        if let Err(error) = connection.begin(exchange, out) {
            self.lose(token, error);
        }
    }

    fn open(&mut self) -> io::Result<usize> {
        let token = self.next_token;
        let registry = self.poll.registry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let connection = Connection::open(&self.level.target.connector, |socket| {
            registry.register(socket, Token(token), interest)
        })?;
        self.next_token += 1;
        self.connections.insert(token, connection);
        Ok(token)
    }

    fn ready(&mut self, token: usize, is_closed: bool) {
        while let Some(connection) = self.connections.get_mut(&token) {
            match connection.drive(&mut self.buffer, is_closed) {
                Step::Wait => return,
                Step::Answered(at, verdict) => {
                    if let Some(mut exchange) = connection.exchange.take() {
                        let record = exchange.record(self.level.start, at, &verdict);
                        connection.exchange = Some(exchange);
                        self.ended(record);
                    }
                }
                Step::Free => {
                    self.idle.push(token);
                    return;
                }
                Step::Lost(error) => self.lose(token, error),
            }
        }
    }

    /// A connection has ended. What it had not answered is sent again if the server had not seen it.
    fn lose(&mut self, token: usize, error: RequestError) {
        self.idle.retain(|idle| *idle != token);
        let Some(mut connection) = self.connections.remove(&token) else {
            return;
        };
        let now = Instant::now();
        if let Some((exchange, out)) = connection.take_unanswered(&error) {
            match self.open() {
                Ok(token) => self.begin(token, exchange, out, now + self.level.target.timeout),
                Err(error) => self.record(exchange, now, &Err(error.into())),
            }
        } else if let Some(exchange) = connection.exchange.filter(|it| !it.is_recorded) {
            self.record(exchange, now, &Err(error));
        }
    }

    fn record(&mut self, mut exchange: Exchange, at: Instant, verdict: &Result<(), RequestError>) {
        let record = exchange.record(self.level.start, at, verdict);
        self.ended(record);
    }

    fn ended(&mut self, record: Record) {
        self.in_flight -= 1;
        if let Schedule::Closed(waiting) = &mut self.schedule {
            let pause = if record.is_ok() {
                Duration::ZERO
            } else {
                AFTER_FAILURE
            };
            waiting.push(Reverse(Instant::now() + pause));
        }
        // Nobody listens any more if the file cannot be written.
        let _ = self.records.send(record);
    }

    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((_, token, id)) = self
            .deadlines
            .front()
            .filter(|(at, ..)| *at <= now)
            .copied()
        {
            self.deadlines.pop_front();
            let is_its = |exchange: &Exchange| exchange.id == id && !exchange.is_recorded;
            let exchange = self
                .connections
                .get(&token)
                .and_then(|it| it.exchange.as_ref());
            if exchange.is_some_and(is_its) {
                self.lose(token, RequestError::Timeout);
            }
        }
    }

    /// What is in flight is recorded as interrupted, and nothing more is sent.
    fn abandon(&mut self) {
        let tokens: Vec<usize> = self.connections.keys().copied().collect();
        tokens
            .into_iter()
            .for_each(|token| self.lose(token, RequestError::Interrupted));
        self.planned = None;
    }

    fn set_timer(&mut self) -> io::Result<()> {
        let wakes = self.due();
        if let Some(at) = wakes.filter(|_| wakes != self.wakes) {
            self.timer
                .set(at.saturating_duration_since(Instant::now()))?;
        }
        self.wakes = wakes;
        Ok(())
    }
}
