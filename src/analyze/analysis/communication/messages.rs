//! Messages from one rank to another: which end waits for which.
//!
//! A receiver waits until the sender has begun. A sender does not wait for the receiver as long as NCCL's buffers
//! hold the message: it is done, and the receiver then only empties them. So the sender's time is the transfer, less
//! what it takes beyond the shortest send of its kind before the receiver has come.

use std::collections::BTreeMap;

use super::calls::{Call, Run};
use super::matching::{Match, Matching};
use super::operation::Operation;
use super::waits::Wait;
use crate::engine::stage_stats::median_time;
use rooflens_session::Ns;
use rooflens_units::{Bytes, BytesPerSecond, Time};

/// Sends of one kind differ by so much without waiting.
const NOISE_NS: Ns = Ns(5_000);

/// Messages of one size from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Rank that sends.
    pub from: u32,
    /// Rank that receives.
    pub to: u32,
    /// Bytes.
    pub bytes: Option<u64>,
}

/// A message whose both ends are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    key: Key,
    pub(super) sent: &'a Call,
    pub(super) received: &'a Call,
    /// By how much the receiver begins later than the sender, on one clock.
    later: Ns,
    pub(super) sender: Wait,
    pub(super) receiver: Wait,
}

/// What the messages of a kind take.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// Messages.
    pub count: u64,
    /// Time in which the sender waits for the receiver.
    pub sender_wait: Ns,
    /// Time in which the receiver waits for the sender.
    pub receiver_wait: Ns,
    transfers: Vec<Ns>,
}

impl Pair {
    /// Time in which either waits.
    pub const fn waits(&self) -> Ns {
        self.sender_wait.saturating_add(self.receiver_wait)
    }

    /// Median transfer.
    pub fn transfer(&self) -> Option<Time> {
        median_time(self.transfers.iter().copied())
    }
}

/// The messages of a run, as they were matched.
pub(super) fn all<'a>(run: &'a Run, matching: &Matching) -> Vec<Message<'a>> {
    let between_ranks = matching
        .matches
        .iter()
        .filter_map(|matched| Message::of(run, matching, matched));
    let mut messages: Vec<Message<'_>> = between_ranks.collect();
    let mut shortest: BTreeMap<Key, Ns> = BTreeMap::new();
    for message in &messages {
        let time = message.sent.duration();
        let least = shortest.entry(message.key).or_insert(time);
        *least = time.min(*least);
    }
    for message in &mut messages {
        let least = shortest.get(&message.key).copied().unwrap_or(Ns::ZERO);
        let time = message.sent.duration();
        let wait = message.later.min(time - least);
        let wait = if wait > NOISE_NS { wait } else { Ns::ZERO };
        message.sender = Wait {
            wait,
            transfer: time - wait,
        };
        let wait = message
            .later
            .saturating_neg()
            .clamp(Ns::ZERO, message.received.duration());
        message.receiver = Wait {
            wait,
            transfer: message.sender.transfer,
        };
    }
    messages
}

impl<'a> Message<'a> {
    /// The message that a match is, if it is one; who waits is not known yet.
    fn of(run: &'a Run, matching: &Matching, one: &Match) -> Option<Self> {
        let [first, second] = one[..] else {
            return None;
        };
        let call = |(member, call): (usize, usize)| &run.members[member].calls[call];
        let (sender, receiver) = match (call(first).operation, call(second).operation) {
            (Operation::Send, Operation::Receive) => (first, second),
            (Operation::Receive, Operation::Send) => (second, first),
            _ => return None,
        };
        let (sent, received) = (call(sender), call(receiver));
        let rank = |(member, _): (usize, usize)| run.members[member].rank;
        let offset = |(member, _): (usize, usize)| matching.offsets[member];
        let apart = (offset(receiver) - offset(sender)).round();
        Some(Self {
            key: Key {
                from: rank(sender),
                to: rank(receiver),
                bytes: sent.bytes,
            },
            sent,
            received,
            later: received
                .start
                .saturating_sub(sent.start)
                .saturating_sub(apart),
            sender: Wait::default(),
            receiver: Wait::default(),
        })
    }
}

impl Key {
    /// The bandwidth of a message with this transfer.
    pub fn rate(&self, transfer: Option<Time>) -> Option<BytesPerSecond> {
        let (bytes, time) = self.bytes.zip(transfer.filter(Time::is_positive))?;
        Some(Bytes(bytes as f64) / time)
    }
}

/// The messages of a run by kind.
pub(super) fn by_pair(run: &Run, matching: &Matching) -> Vec<(Key, Pair)> {
    let mut pairs: BTreeMap<Key, Pair> = BTreeMap::new();
    for message in all(run, matching) {
        let pair = pairs.entry(message.key).or_default();
        pair.count += 1;
        pair.sender_wait = pair.sender_wait.saturating_add(message.sender.wait);
        pair.receiver_wait = pair.receiver_wait.saturating_add(message.receiver.wait);
        pair.transfers.push(message.sender.transfer);
    }
    pairs.into_iter().collect()
}
