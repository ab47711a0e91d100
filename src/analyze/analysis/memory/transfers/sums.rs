//! Copies added up by direction and memory, and by size and range.

use std::collections::BTreeMap;

use crate::Context;
use crate::engine::facts::{OpIndex, OpSource};
use crate::engine::intervals::{Interval, measure, union};
use crate::engine::tiers::{GpuTiers, exposed};
use rooflens_session::{CopyId, CopyKind, GpuId, MemoryKind, Ns, StrId};
use rooflens_stats::quantile;
use rooflens_units::{Bytes, BytesPerSecond, Ratio};

/// From this size on a copy is large: latency no longer decides its rate.
pub const LARGE: u64 = 1 << 20;

/// Direction, memory copied from, memory copied to.
pub type Kind = (CopyKind, MemoryKind, MemoryKind);

/// What copies add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    /// Copies.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of durations, nanoseconds.
    pub total: Ns,
    /// The shortest copy.
    pub shortest: Ns,
    /// Length of their union, nanoseconds.
    pub union: Ns,
    /// The part of it in which no kernel of the GPU runs, nanoseconds.
    pub exposed: Ns,
    /// Rates of large copies, bytes per second, ascending.
    pub large: Vec<f64>,
}

/// Copies by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Sums by kind.
    pub kinds: BTreeMap<Kind, Sum>,
    /// Length of the union of all copies, memsets excluded, nanoseconds.
    pub union: Ns,
    /// The part of it in which no kernel of the GPU runs.
    pub exposed: Ns,
}

/// Copies of one size, direction and memory in one range.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Direction and kinds of memory.
    pub kind: Kind,
    /// Bytes of each.
    pub size: u64,
    /// Name of the innermost range.
    pub range: Option<StrId>,
    /// Copies.
    pub count: u64,
    /// Sum of durations, nanoseconds.
    pub total: Ns,
}

impl Sum {
    /// Rate of the sum.
    pub fn rate(&self) -> Option<BytesPerSecond> {
        (self.total > Ns::ZERO && self.bytes > 0)
            .then(|| Bytes(self.bytes as f64) / self.total.time())
    }

    /// Quantile of the rates of large copies.
    pub fn large_rate(&self, share: Ratio) -> Option<BytesPerSecond> {
        quantile(&self.large, share.0).map(BytesPerSecond)
    }
}

impl Group {
    /// Rate of the sum.
    pub fn rate(&self) -> Option<BytesPerSecond> {
        let bytes = Bytes(self.size as f64 * self.count as f64);
        let is_known = self.total > Ns::ZERO && bytes.is_positive();
        is_known.then(|| bytes / self.total.time())
    }
}

/// Copies that cross between host and GPU.
pub const fn crosses_host(kind: CopyKind) -> bool {
    matches!(kind, CopyKind::HostToDevice | CopyKind::DeviceToHost)
}

/// Memory on the host's side of a copy between host and GPU.
pub const fn host_memory((kind, source, destination): Kind) -> Option<MemoryKind> {
    match kind {
        CopyKind::HostToDevice => Some(source),
        CopyKind::DeviceToHost => Some(destination),
        _ => None,
    }
}

/// The copies among some operations, by kind.
pub fn by_kind(
    context: &Context<'_>,
    tiers: &BTreeMap<GpuId, GpuTiers>,
    ops: impl Iterator<Item = OpIndex>,
) -> Sums {
    let copies = &context.session.copies;
    let mut kinds: BTreeMap<Kind, Sum> = BTreeMap::new();
    let mut times: BTreeMap<(Kind, GpuId), Vec<Interval>> = BTreeMap::new();
    for (op, id) in copies_of(context, ops) {
        let row = id.index();
        let (start, end, bytes) = (copies.start[row], copies.end[row], copies.bytes[row]);
        let kind = (
            copies.kind[row],
            copies.source[row],
            copies.destination[row],
        );
        let sum = kinds.entry(kind).or_default();
        sum.shortest = match sum.count {
            0 => end - start,
            _ => sum.shortest.min(end - start),
        };
        sum.count += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
        sum.total = sum.total.saturating_add(end - start);
        if bytes >= LARGE && end > start {
            let rate = Bytes(bytes as f64) / (end - start).time();
            sum.large.push(rate.0);
        }
        times
            .entry((kind, context.facts.ops.gpu[op as usize]))
            .or_default()
            .push((start, end));
    }
    let mut by_gpu: BTreeMap<GpuId, Vec<Interval>> = BTreeMap::new();
    for ((kind, gpu), mut intervals) in times {
        let intervals = union(&mut intervals);
        let Some(sum) = kinds.get_mut(&kind) else {
            continue;
        };
        sum.union = sum.union.saturating_add(measure(&intervals));
        sum.exposed = sum.exposed.saturating_add(
            tiers
                .get(&gpu)
                .map_or(Ns::ZERO, |tiers| exposed(&intervals, &tiers.kernels)),
        );
        if kind.0 != CopyKind::Memset {
            by_gpu.entry(gpu).or_default().extend(intervals);
        }
    }
    for sum in kinds.values_mut() {
        sum.large.sort_by(f64::total_cmp);
    }
    let mut sums = Sums {
        kinds,
        ..Sums::default()
    };
    for (gpu, mut intervals) in by_gpu {
        let copies = union(&mut intervals);
        let alone = tiers
            .get(&gpu)
            .map_or(Ns::ZERO, |tiers| exposed(&copies, &tiers.kernels));
        sums.union = sums.union.saturating_add(measure(&copies));
        sums.exposed = sums.exposed.saturating_add(alone);
    }
    sums
}

/// The copies among some operations, memsets excluded, by time descending.
pub fn groups(context: &Context<'_>, ops: impl Iterator<Item = OpIndex>) -> Vec<Group> {
    let session = context.session;
    let copies = &session.copies;
    let mut groups: BTreeMap<(Kind, u64, Option<StrId>), (u64, Ns)> = BTreeMap::new();
    for (op, id) in copies_of(context, ops) {
        let row = id.index();
        let kind = (
            copies.kind[row],
            copies.source[row],
            copies.destination[row],
        );
        if kind.0 == CopyKind::Memset {
            continue;
        }
        let range = context.facts.ops.range[op as usize].range();
        let range = range.map(|range| session.ranges.name[range.index()]);
        let sum = groups.entry((kind, copies.bytes[row], range)).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(copies.end[row] - copies.start[row]);
    }
    let group = |((kind, size, range), (count, total))| Group {
        kind,
        size,
        range,
        count,
        total,
    };
    let mut list: Vec<Group> = groups.into_iter().map(group).collect();
    list.sort_by_key(|group| {
        (
            std::cmp::Reverse(group.total),
            group.kind,
            group.size,
            group.range,
        )
    });
    list
}

fn copies_of(
    context: &Context<'_>,
    ops: impl Iterator<Item = OpIndex>,
) -> impl Iterator<Item = (OpIndex, CopyId)> {
    ops.filter_map(|op| match context.facts.ops.source[op as usize] {
        OpSource::Copy(id) => Some((op, id)),
        OpSource::Launch(_) | OpSource::Graph(_) => None,
    })
}
