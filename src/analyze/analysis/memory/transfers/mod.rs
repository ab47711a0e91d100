//! Memory transfers: what moves where, how fast, and whether kernels hide it.

pub mod link;
pub mod sums;

use std::collections::BTreeMap;

use rooflens_schemas::Evidence;

use crate::engine::facts::{OpIndex, OpSource, StageInstance};
use crate::engine::intervals::total;
use crate::engine::stage_stats::{Summary, median_time, summaries};
use crate::engine::tiers::by_gpu;
use crate::{Context, Known};
use rooflens_session::{CopyKind, KernelId, MemoryKind, Ns, PassId, Session};
use rooflens_stats::median;
use rooflens_units::{Bytes, BytesPerSecond, Count, Ratio, Time};

use link::Link;
use sums::{Group, Kind, Sum, Sums, host_memory};

/// Memory transfers of all passes.
#[derive(Default)]
pub struct Transfers {
    /// Each pass as a whole, then its stages, as far as they copy; the primary pass first.
    pub places: Vec<Place>,
    /// Copies of each pass by size and range, those with the most time first.
    pub groups: Vec<(PassId, Vec<Group>)>,
    /// The link between host and GPU, where the bundle says what it is.
    pub link: Option<Link>,
    /// Bandwidth in one direction that no link of these GPUs exceeds, where that is known.
    pub most: Option<BytesPerSecond>,
    /// The time of the copies of the first place as a share of that of all its GPU operations.
    pub share: Ratio,
}

/// Copies in one stage of one process, or in a whole pass.
#[derive(Default)]
pub struct Place {
    /// Pass.
    pub pass: PassId,
    /// Stage; none: the whole pass.
    pub stage: Option<Summary>,
    /// By measured iteration.
    pub instances: Vec<Sums>,
    /// Of all of them together.
    pub sums: Sums,
    /// Busy time of an iteration without copies, median over iterations.
    pub others: Time,
    /// Kernels that wait for pages of managed memory: over all iterations the time from the first such page to the last.
    pub faulting: BTreeMap<KernelId, Vec<Ns>>,
}

/// Adds up the copies; never missing, but empty without copies.
pub fn compute(context: &Context<'_>) -> Known<Transfers> {
    let session = context.session;
    let passes = context.facts.primary_first(session);
    let places: Vec<Place> = passes
        .iter()
        .flat_map(|pass| places(context, *pass))
        .collect();
    let first = places.first();
    let share = first.map_or(Ratio::ZERO, |place| place.share(context));
    let groups = |pass: PassId| {
        let ops = context.facts.ops_of(pass).map(|op| op as OpIndex);
        (pass, sums::groups(context, ops))
    };
    let groups = passes.into_iter().map(groups).collect();
    Ok(Transfers {
        places,
        groups,
        link: link::pcie(session),
        most: link::most(session),
        share,
    })
}

/// The whole pass, then its stages, as far as they copy.
fn places(context: &Context<'_>, pass: PassId) -> Vec<Place> {
    let facts = context.facts;
    let tiers = by_gpu(context.session, facts, pass);
    let pass_sums = sums::by_kind(context, &tiers, facts.ops_of(pass).map(|op| op as OpIndex));
    if pass_sums.kinds.is_empty() {
        return Vec::new();
    }
    let mut places = vec![Place {
        pass,
        stage: None,
        instances: vec![pass_sums.clone()],
        sums: pass_sums,
        others: Time::ZERO,
        faulting: BTreeMap::new(),
    }];
    for line in summaries(facts, pass) {
        let counts = |instance: &&StageInstance| {
            instance.process == line.process && instance.excluded.is_none()
        };
        let counted: Vec<&StageInstance> = facts
            .instances_of(line.stage(facts))
            .iter()
            .filter(counts)
            .collect();
        let of = |instance: &&StageInstance| {
            sums::by_kind(context, &tiers, instance.ops.iter().copied())
        };
        let together = counted
            .iter()
            .flat_map(|instance| instance.ops.iter().copied());
        let sums = sums::by_kind(context, &tiers, together);
        let instances: Vec<Sums> = counted.iter().map(of).collect();
        let of_instances = counted.iter().zip(&instances);
        let others = of_instances
            .map(|(instance, sums)| {
                let mut memsets = sums.kinds.iter();
                let memsets = memsets.find(|(kind, _)| kind.0 == CopyKind::Memset);
                let exposed = memsets.map_or(Ns::ZERO, |(_, sum)| sum.exposed);
                let others = instance.busy.saturating_sub(sums.union + exposed);
                (others.time() / instance.gpus.len().max(1) as f64).0
            })
            .collect::<Vec<f64>>();
        places.extend((!sums.kinds.is_empty()).then_some(Place {
            pass,
            stage: Some(line.clone()),
            instances,
            sums,
            others: Time(median(&others).unwrap_or(0.0)),
            faulting: faulting(context, &counted),
        }));
    }
    places
}

/// Time between pages up to which a kernel waits for the next one: the driver handles page faults in batches,
/// up to 440 µs apart where a kernel waited for pages for all of its time.
const FAULTS: Ns = Ns(500_000);

/// Time of each kernel from the first page of managed memory that moves to the GPU while it runs to the last one, by
/// instance.
fn faulting(context: &Context<'_>, instances: &[&StageInstance]) -> BTreeMap<KernelId, Vec<Ns>> {
    let (session, ops) = (context.session, &context.facts.ops);
    let mut faulting: BTreeMap<KernelId, Vec<Ns>> = BTreeMap::new();
    for (number, instance) in instances.iter().enumerate() {
        let mut running: Option<(KernelId, Ns)> = None;
        let mut since = None;
        for op in instance.ops.iter().map(|op| *op as usize) {
            match (ops.source[op], running) {
                (OpSource::Launch(launch), _) => {
                    running = Some((session.launches.kernel[launch.index()], ops.end[op]));
                    since = None;
                }
                (OpSource::Copy(copy), Some((kernel, end)))
                    if session.copies.kind[copy.index()] == CopyKind::MigrateToDevice
                        && ops.start[op] < end =>
                {
                    let until = ops.end[op].min(end);
                    let start = ops.start[op];
                    let last = since.replace(until).filter(|last| start - *last <= FAULTS);
                    let from = last.unwrap_or(start);
                    let times = faulting.entry(kernel).or_default();
                    times.resize(instances.len(), Ns::ZERO);
                    times[number] += (until - from).max(Ns::ZERO);
                }
                _ => {}
            }
        }
    }
    faulting
}

/// The sum over the copies of a direction or of all.
fn sum(direction: Option<CopyKind>, sums: &Sums, value: fn(&Sum) -> f64) -> f64 {
    let in_direction = sums.kinds.iter().filter(|(kind, _)| is_of(direction, kind));
    in_direction.map(|(_, sum)| value(sum)).sum()
}

/// Whether copies of a kind are of a direction; of none: whether they are no memsets.
fn is_of(direction: Option<CopyKind>, kind: &Kind) -> bool {
    direction.map_or(kind.0 != CopyKind::Memset, |direction| kind.0 == direction)
}

impl Place {
    /// Directions of its copies; memsets have none.
    pub fn directions(&self) -> Vec<CopyKind> {
        let kinds = self.sums.kinds.keys().map(|kind| kind.0);
        let mut directions: Vec<CopyKind> =
            kinds.filter(|kind| *kind != CopyKind::Memset).collect();
        directions.dedup();
        directions
    }

    /// Copies of a direction or of all, over all instances.
    pub fn count(&self, direction: Option<CopyKind>) -> Count {
        Count(sum(direction, &self.sums, |sum| sum.count as f64))
    }

    /// Bytes of the copies of a direction or of all, median over instances.
    pub fn bytes(&self, direction: Option<CopyKind>) -> Bytes {
        Bytes(self.median(&|sums| sum(direction, sums, |sum| sum.bytes as f64)))
    }

    /// Their durations.
    pub fn time(&self, direction: Option<CopyKind>) -> Time {
        Time(self.median(&|sums| sum(direction, sums, |sum| sum.total.time().0)))
    }

    /// The part of their union in which no kernel of the GPU runs.
    pub fn exposed(&self, direction: Option<CopyKind>) -> Time {
        Time(self.median(&|sums| match direction {
            Some(_) => sum(direction, sums, |sum| sum.exposed.time().0),
            None => sums.exposed.time().0,
        }))
    }

    fn median(&self, value: &dyn Fn(&Sums) -> f64) -> f64 {
        let values: Vec<f64> = self.instances.iter().map(value).collect();
        median(&values).unwrap_or(0.0)
    }

    /// The same time of an iteration by kernel, the mean.
    pub fn faulting_of_each(&self) -> impl Iterator<Item = (KernelId, Time)> {
        let kernels = self.faulting.iter();
        kernels.filter_map(|(kernel, times)| Some((*kernel, median_time(times.iter().copied())?)))
    }

    /// Bytes from or to pageable memory, and all bytes of copies between host and GPU whose kind of memory is
    /// recorded; none without such copies.
    pub fn pageable_bytes(&self) -> Option<(u64, u64)> {
        let bytes = |holds: fn(MemoryKind) -> bool| {
            let kinds = self.sums.kinds.iter();
            let held = kinds.filter(|(kind, _)| host_memory(**kind).is_some_and(holds));
            held.map(|(_, sum)| sum.bytes).fold(0, u64::saturating_add)
        };
        let known_bytes = bytes(|memory| memory != MemoryKind::Unknown);
        (known_bytes > 0).then(|| (bytes(|memory| memory == MemoryKind::Pageable), known_bytes))
    }

    /// Pageable bytes as a share of them.
    pub fn pageable_share(&self) -> Option<Ratio> {
        self.pageable_bytes()
            .map(|(pageable, all)| Ratio(pageable as f64 / all as f64))
    }

    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        let rows = self.sums.kinds.values().map(|sum| sum.count).sum();
        session.evidence(self.pass, "copies", rows)
    }

    /// The time of its copies ÷ that of all GPU operations of its pass.
    fn share(&self, context: &Context<'_>) -> Ratio {
        let ops = &context.facts.ops;
        let whole = total(
            context
                .facts
                .ops_of(self.pass)
                .map(|op| ops.end[op] - ops.start[op]),
        );
        let copies = total(self.sums.kinds.values().map(|sum| sum.total));
        Ratio::of(copies, whole.max(Ns(1)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{trace, with_results};

    /// Steps of 100, 200 and 300 with copies for 90, 100 and 230, and a memset of 20: kernels take 10, 100 and 50, of which
    /// the median is 50.
    #[test]
    fn time_without_copies_is_of_each_iteration() {
        let session = trace(
            "range step 0..100
             launch 0..1 -> axpy 0..10
             cudaMemcpyAsync 2..3 -> memcpy HtoD pinned 10..100
             range step 200..400
             launch 200..201 -> axpy 200..300
             cudaMemcpyAsync 202..203 -> memcpy HtoD pinned 300..400
             range step 500..800
             launch 500..501 -> axpy 500..550
             cudaMemcpyAsync 502..503 -> memcpy HtoD pinned 550..780
             cudaMemsetAsync 504..505 -> memset 780..800",
        );
        with_results(&session, |context| {
            let places = &context.results.transfers().unwrap().places;
            assert_eq!(places[1].others, Time(50.0));
        });
    }
}
