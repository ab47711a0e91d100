//! A connection and the request that is on its way: bytes become times of tokens.

use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rooflens_schemas::{RequestStatus, ServingRequest};

use super::http::Response;
use super::record::{Record, RequestError};
use super::socket::Socket;
use super::sse::{Event, Events, Usage};
use super::transport::{Connector, Transport};

/// Most events with text of one answer.
const MOST_TOKENS: usize = 1 << 20;

/// Most bytes of an error's text that are shown.
const MOST_SAID: usize = 300;

/// A connection.
pub(super) struct Connection {
    transport: Transport<Socket>,
    /// What is to be sent, and how much of it is.
    out: Vec<u8>,
    sent: usize,
    /// An answer came through it before.
    is_reused: bool,
    pub(super) exchange: Option<Exchange>,
}

/// A request and its answer.
pub(super) struct Exchange {
    pub(super) id: u64,
    scheduled: Instant,
    start: Instant,
    words: u64,
    response: Response,
    events: Events,
    answer: Answer,
    /// When something of it arrived the last time, or its end was read.
    read_at: Instant,
    /// What the server says of an error.
    said: Vec<u8>,
    pub(super) is_recorded: bool,
}

/// What was measured.
#[derive(Default)]
struct Answer {
    first: Option<Instant>,
    last: Option<Instant>,
    itl_s: Vec<f64>,
    usage: Option<Usage>,
    is_finished: bool,
    is_done: bool,
}

/// What has happened on a connection.
pub(super) enum Step {
    /// Nothing is left to be read for now.
    Wait,
    /// The answer has ended.
    Answered(Instant, Result<(), RequestError>),
    /// Another request may follow.
    Free,
    /// The connection is of no use any more.
    Lost(RequestError),
}

impl Connection {
    /// Begins to connect; the socket is made known by `register`.
    pub(super) fn open(
        connector: &Connector,
        register: impl FnOnce(&mut TcpStream) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut socket = TcpStream::connect(connector.address)?;
        register(&mut socket)?;
        // Without it the rest of a request waits for an acknowledgement.
        let _ = socket.set_nodelay(true);
        let transport = connector.wrap(Socket::new(socket))?;
        Ok(Self {
            transport,
            out: Vec::new(),
            sent: 0,
            is_reused: false,
            exchange: None,
        })
    }

    /// Sends a request.
    pub(super) fn begin(&mut self, exchange: Exchange, out: Vec<u8>) -> Result<(), RequestError> {
        (self.out, self.sent, self.exchange) = (out, 0, Some(exchange));
        self.flush()
    }

    /// The request with its bytes, if it may be sent again: the server closed a connection that it had kept, and has
    /// seen nothing of it.
    pub(super) fn take_unanswered(&mut self, error: &RequestError) -> Option<(Exchange, Vec<u8>)> {
        let is_closed = matches!(error, RequestError::Closed | RequestError::Connection(_));
        let is_untouched = |exchange: &mut Exchange| exchange.response.is_untouched();
        let exchange = self.exchange.take_if(|exchange| {
            is_closed && self.is_reused && !exchange.is_recorded && is_untouched(exchange)
        })?;
        Some((exchange, std::mem::take(&mut self.out)))
    }

    /// Writes what is left, reads what is there. To be called again after everything but [`Step::Wait`] and
    /// [`Step::Lost`].
    pub(super) fn drive(&mut self, buffer: &mut [u8], is_closed: bool) -> Step {
        if let Err(error) = self.flush() {
            return Step::Lost(error);
        }
        let mut is_drained = false;
        loop {
            if let Some(step) = self.step() {
                return step;
            }
            if is_drained {
                return Step::Wait;
            }
            match self.transport.read(buffer) {
                Ok(0) if self.exchange.as_mut().is_some_and(Exchange::close) => {}
                Ok(0) => return Step::Lost(RequestError::Closed),
                Ok(read) => {
                    let arrived = self.transport.socket().arrived();
                    let is_short = read < buffer.len() && self.transport.short_read_is_last();
                    is_drained = is_short && !is_closed;
                    let Some(exchange) = &mut self.exchange else {
                        return Step::Lost(RequestError::Closed);
                    };
                    if let Err(error) = exchange.take(&buffer[..read], arrived) {
                        return Step::Lost(error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Wait,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Step::Lost(error.into()),
            }
        }
    }

    /// What follows from what has been read.
    fn step(&mut self) -> Option<Step> {
        let exchange = self.exchange.as_ref()?;
        let is_whole = exchange.response.is_done();
        if !exchange.is_recorded {
            let is_ended = is_whole || exchange.answer.is_done;
            return is_ended.then(|| Step::Answered(exchange.read_at, exchange.verdict()));
        }
        let is_kept = exchange.response.keeps_alive() && self.sent == self.out.len();
        match is_whole {
            false => None,
            true if is_kept => {
                (self.exchange, self.is_reused) = (None, true);
                Some(Step::Free)
            }
            true => Some(Step::Lost(RequestError::Closed)),
        }
    }

    fn flush(&mut self) -> Result<(), RequestError> {
        while self.sent < self.out.len() {
            match self.transport.write(&self.out[self.sent..]) {
                Ok(0) => return Err(RequestError::Closed),
                Ok(written) => self.sent += written,
                Err(error) => return waits(error),
            }
        }
        if !self.is_reused {
            // Sent to a connection that is new it will not be sent again.
            (self.out, self.sent) = (Vec::new(), 0);
        }
        self.transport.flush().or_else(waits)
    }
}

/// A socket that is not ready is no error.
fn waits(error: io::Error) -> Result<(), RequestError> {
    use io::ErrorKind::{Interrupted, NotConnected, WouldBlock};
    match error.kind() {
        WouldBlock | NotConnected | Interrupted => Ok(()),
        _ => Err(error.into()),
    }
}

impl Exchange {
    pub(super) fn new(id: u64, words: u64, scheduled: Instant, start: Instant) -> Self {
        Self {
            id,
            scheduled,
            start,
            words,
            response: Response::new(),
            events: Events::default(),
            answer: Answer::default(),
            read_at: start,
            said: Vec::new(),
            is_recorded: false,
        }
    }

    fn take(&mut self, bytes: &[u8], arrived: Instant) -> Result<(), RequestError> {
        // The clock of the kernel's stamps may be set.
        let now = arrived.max(self.read_at);
        self.read_at = now;
        let Self {
            response,
            events,
            answer,
            said,
            ..
        } = self;
        response.feed(bytes, |status, body| {
            if status == 200 {
                return events.feed(body, |event| answer.take(event, now));
            }
            said.extend(body.iter().take(MOST_SAID - said.len().min(MOST_SAID)));
            Ok(())
        })
    }

    /// Whether the end of the connection is that of the answer.
    fn close(&mut self) -> bool {
        self.read_at = Instant::now();
        self.response.close()
    }

    /// Of an answer that has ended.
    fn verdict(&self) -> Result<(), RequestError> {
        let answer = &self.answer;
        match self.response.status {
            200 if !answer.is_done && !answer.is_finished => {
                Err(RequestError::Stream("it has no end"))
            }
            200 if answer.first.is_none() => Err(RequestError::NoToken),
            200 => Ok(()),
            status => Err(RequestError::Status(status)),
        }
    }

    /// What is written of it, with times since `zero`.
    pub(super) fn record(
        &mut self,
        zero: Instant,
        end: Instant,
        verdict: &Result<(), RequestError>,
    ) -> Record {
        self.is_recorded = true;
        let since = |at: Instant| seconds(at.saturating_duration_since(zero));
        let usage = self.answer.usage;
        let end = self.answer.last.filter(|_| verdict.is_ok()).unwrap_or(end);
        let events = self.answer.itl_s.len() + usize::from(self.answer.first.is_some());
        let request = ServingRequest {
            id: self.id,
            scheduled_s: since(self.scheduled),
            start_s: since(self.start),
            first_token_s: self.answer.first.map(since),
            end_s: since(end),
            prompt_tokens: usage.map_or(self.words, |usage| usage.prompt_tokens),
            output_tokens: usage.map_or(events as u64, |usage| usage.completion_tokens),
            itl_s: std::mem::take(&mut self.answer.itl_s),
            status: if verdict.is_ok() {
                RequestStatus::Ok
            } else {
                RequestStatus::Error
            },
            error: verdict.as_ref().err().map(ToString::to_string),
        };
        let said =
            (!self.said.is_empty()).then(|| String::from_utf8_lossy(&self.said).into_owned());
        Record { request, said }
    }
}

impl Answer {
    fn take(&mut self, event: Event, now: Instant) -> Result<(), RequestError> {
        self.is_done |= event.is_done;
        self.is_finished |= event.is_finish;
        self.usage = event.usage.or(self.usage);
        if !event.has_token {
            return Ok(());
        }
        match self.last.replace(now) {
            None => self.first = Some(now),
            Some(_) if self.itl_s.len() >= MOST_TOKENS => {
                return Err(RequestError::Stream("more than a million tokens"));
            }
            Some(last) => self.itl_s.push(seconds(now - last)),
        }
        Ok(())
    }
}

/// Whole nanoseconds, so that the shortest decimal that means this number has nine places.
fn seconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e9
}
