//! Collectives added up: by kind of call, and what they move over the bus.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::calls::{Call, Group, Run};
use super::operation::Operation;
use super::waits::Wait;
use crate::engine::facts::OpIndex;
use crate::engine::stage_stats::median_time;
use rooflens_session::{Arrange, KernelId, Ns};
use rooflens_units::{Bytes, BytesPerSecond, Time};

/// What a rank calls again and again: one operation of one size in one group by one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Operation.
    pub operation: Operation,
    /// Bytes of the message.
    pub bytes: Option<u64>,
    /// Who takes part.
    pub group: Group,
    /// Ranks of the group.
    pub size: Option<u32>,
    /// Kernel.
    pub kernel: KernelId,
}

/// Collectives of one kind on one rank.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Member of the run.
    pub member: usize,
    /// Kind.
    pub key: Key,
    /// Calls.
    pub count: u64,
    /// Sum of durations.
    pub total: Ns,
    /// Calls that were matched with other ranks.
    pub matched: u64,
    /// Waits of those.
    pub wait: Ns,
    durations: Vec<Ns>,
    transfers: Vec<Ns>,
}

/// Bytes on the bus and their time, of collectives of one operation on one rank.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Member of the run.
    pub member: usize,
    /// Operation.
    pub operation: Operation,
    /// Σ message × bus factor.
    pub bus_bytes: Bytes,
    /// Σ transfer, or duration where no other rank is known.
    pub time: Time,
    /// Calls of recorded size.
    pub calls: u64,
    /// Those of them that were matched.
    pub matched: u64,
}

impl Kind {
    fn add(&mut self, call: &Call, wait: Option<&Wait>) {
        self.count += 1;
        self.total = self.total.saturating_add(call.duration());
        self.durations.push(call.duration());
        if let Some(wait) = wait {
            self.matched += 1;
            self.wait = self.wait.saturating_add(wait.wait);
            self.transfers.push(wait.transfer);
        }
    }

    /// Median duration.
    pub fn median(&self) -> Option<Time> {
        median_time(self.durations.iter().copied())
    }

    /// Median transfer.
    pub fn transfer(&self) -> Option<Time> {
        median_time(self.transfers.iter().copied())
    }

    /// Algorithm bandwidth: message ÷ transfer, or duration where no other rank is known.
    pub fn rate(&self) -> Option<BytesPerSecond> {
        let time = self
            .transfer()
            .or_else(|| self.median())
            .filter(Time::is_positive)?;
        Some(Bytes(self.key.bytes? as f64) / time)
    }

    /// Bus bandwidth.
    pub fn bus_rate(&self) -> Option<BytesPerSecond> {
        Some(self.rate()? * self.key.operation.bus_factor(self.key.size)?)
    }
}

impl Traffic {
    /// Bus bandwidth; absent where no size is recorded.
    pub fn rate(&self) -> Option<BytesPerSecond> {
        self.time.is_positive().then(|| self.bus_bytes / self.time)
    }
}

/// The kinds of collectives of each member, by (member, time descending, kind).
pub(super) fn by_kind(run: &Run, waits: &FxHashMap<OpIndex, Wait>) -> Vec<Kind> {
    let mut kinds: BTreeMap<(usize, Key), Kind> = BTreeMap::new();
    for (member, calls) in run.members.iter().map(|member| &member.calls).enumerate() {
        for call in calls {
            let Call {
                operation,
                bytes,
                group,
                size,
                kernel,
                ..
            } = *call;
            let key = Key {
                operation,
                bytes,
                group,
                size,
                kernel,
            };
            let kind = kinds.entry((member, key)).or_insert_with(|| Kind {
                member,
                key,
                count: 0,
                total: Ns::ZERO,
                matched: 0,
                wait: Ns::ZERO,
                durations: Vec::new(),
                transfers: Vec::new(),
            });
            kind.add(call, waits.get(&call.op));
        }
    }
    let mut kinds: Vec<Kind> = kinds.into_values().collect();
    kinds.arrange_by_key(|kind| (kind.member, std::cmp::Reverse(kind.total), kind.key));
    kinds
}

/// The bus traffic of each member and operation.
pub(super) fn traffic(run: &Run, waits: &FxHashMap<OpIndex, Wait>) -> Vec<Traffic> {
    let mut sums: BTreeMap<(usize, Operation), Traffic> = BTreeMap::new();
    for (member, calls) in run.members.iter().map(|member| &member.calls).enumerate() {
        for call in calls {
            let operation = call.operation;
            let none = Traffic {
                member,
                operation,
                bus_bytes: Bytes::ZERO,
                time: Time::ZERO,
                calls: 0,
                matched: 0,
            };
            let sum = sums.entry((member, operation)).or_insert(none);
            let factor = operation.bus_factor(call.size);
            let Some((bytes, factor)) = call.bytes.zip(factor) else {
                continue;
            };
            let wait = waits.get(&call.op);
            sum.bus_bytes += Bytes(bytes as f64) * factor;
            sum.time += wait.map_or(call.duration(), |wait| wait.transfer).time();
            sum.calls += 1;
            sum.matched += u64::from(wait.is_some());
        }
    }
    sums.into_values().collect()
}
