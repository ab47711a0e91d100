//! What the framework's allocator held over time, by pass and GPU.

use crate::analysis::engine::stage_stats::Summary;
use crate::analysis::engine::stats::median;
use crate::analysis::{Context, Facts};
use crate::model::{MemoryEventId, Ns, PassId, Session};

/// The allocator of one GPU in one pass.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// Pass.
    pub(super) pass: PassId,
    /// Device ordinal.
    pub(super) device: u32,
    /// Its events by (time, row).
    pub(super) events: Vec<MemoryEventId>,
    /// State after each event that states it.
    pub(super) states: Vec<State>,
}

/// What is allocated and reserved from an event on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct State {
    /// Time, nanoseconds.
    pub(super) time: Ns,
    /// Bytes in live allocations.
    pub(super) allocated: i64,
    /// Bytes that the allocator took from the device.
    pub(super) reserved: Option<i64>,
}

/// Figures of a line over some stretches of time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    /// The state with the most allocated, the first of several.
    pub(super) peak: State,
    /// Most reserved at a time.
    pub(super) peak_reserved: Option<i64>,
    /// Share of the reserved bytes that is not allocated, averaged over time.
    pub(super) fragmentation: Option<f64>,
    /// Median number of allocations of a stretch.
    pub(super) allocations: f64,
    /// Median bytes that a stretch allocates.
    pub(super) bytes: f64,
}

impl State {
    /// Share of the reserved bytes that is not allocated.
    pub(super) fn fragmentation(&self) -> Option<f64> {
        let reserved = self.reserved.filter(|reserved| *reserved > 0)?;
        Some(1.0 - self.allocated as f64 / reserved as f64)
    }
}

/// The lines of all GPUs whose allocator states what it holds, by (pass, device).
pub(super) fn lines(session: &Session) -> Vec<Line> {
    let events = &session.memory_events;
    let of_gpu = |id: &MemoryEventId| events.device[id.index()].is_some();
    let key = |id: &MemoryEventId| {
        let row = id.index();
        (events.pass[row], events.device[row], events.time[row], *id)
    };
    let mut order: Vec<MemoryEventId> = events.ids().filter(of_gpu).collect();
    order.sort_unstable_by_key(key);
    let same = |a: &MemoryEventId, b: &MemoryEventId| (key(a).0, key(a).1) == (key(b).0, key(b).1);
    let lines = order.chunk_by(same).filter_map(|list| {
        let state = |id: &MemoryEventId| {
            let row = id.index();
            let (time, reserved) = (events.time[row], events.reserved[row]);
            Some(State { time, allocated: events.allocated[row]?, reserved })
        };
        let first = list.first()?.index();
        Some(Line {
            pass: events.pass[first],
            device: events.device[first]?,
            events: list.to_vec(),
            states: list.iter().filter_map(state).collect(),
        })
    });
    lines.filter(|line| !line.states.is_empty()).collect()
}

impl Line {
    /// From the first to the last event.
    pub(super) fn span(&self) -> (Ns, Ns) {
        let first = self.states.first().map_or(0, |state| state.time);
        (first, self.states.last().map_or(first, |state| state.time))
    }

    /// Figures over stretches of time; none if no state is known in any.
    pub(super) fn figures(&self, session: &Session, stretches: &[(Ns, Ns)]) -> Option<Figures> {
        let mut peak: Option<State> = None;
        let mut peak_reserved = None;
        let (mut unused, mut time) = (0.0, 0.0);
        for (from, to) in stretches {
            for (state, length) in self.within(*from, *to) {
                if peak.is_none_or(|peak| state.allocated > peak.allocated) {
                    peak = Some(state);
                }
                peak_reserved = peak_reserved.max(state.reserved);
                if let Some(share) = state.fragmentation() {
                    unused += share * length as f64;
                    time += length as f64;
                }
            }
        }
        let made: Vec<(f64, f64)> =
            stretches.iter().map(|(from, to)| self.allocations(session, *from, *to)).collect();
        let of = |value: &dyn Fn(&(f64, f64)) -> f64| {
            median(&made.iter().map(value).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        Some(Figures {
            peak: peak?,
            peak_reserved,
            fragmentation: (time > 0.0).then(|| unused / time),
            allocations: of(&|made| made.0),
            bytes: of(&|made| made.1),
        })
    }

    /// States in [from, to] with the time that each lasts there; the one before holds from `from` on.
    fn within(&self, from: Ns, to: Ns) -> impl Iterator<Item = (State, Ns)> {
        let before = self.states.partition_point(|state| state.time <= from).saturating_sub(1);
        let last = self.states.partition_point(|state| state.time <= to).max(before);
        (before..last).map(move |at| {
            let state = self.states[at];
            let until = self.states.get(at + 1).map_or(to, |next| next.time.min(to));
            let time = state.time.max(from);
            (State { time, ..state }, until.saturating_sub(time).max(0))
        })
    }

    /// Number and bytes of the allocations in [from, to).
    fn allocations(&self, session: &Session, from: Ns, to: Ns) -> (f64, f64) {
        let events = &session.memory_events;
        let time = |id: &MemoryEventId| events.time[id.index()];
        let first = self.events.partition_point(|id| time(id) < from);
        let last = self.events.partition_point(|id| time(id) < to).max(first);
        let bytes = self.events[first..last].iter().map(|id| events.bytes[id.index()]);
        bytes
            .filter(|bytes| *bytes > 0)
            .fold((0.0, 0.0), |(count, sum), bytes| (count + 1.0, sum + bytes as f64))
    }
}

/// Host times of the counted instances of a stage: allocators work for the host.
pub(super) fn stretches(facts: &Facts, line: &Summary) -> Vec<(Ns, Ns)> {
    let instances = facts.instances_of(line.stage(facts)).iter();
    let counted = instances.filter(|one| one.process == line.process && one.excluded.is_none());
    counted.map(|one| (one.host_start, one.host_end)).collect()
}

/// The name of the outermost stage whose range holds a time of a pass.
pub(super) fn stage_at(context: &Context<'_>, pass: PassId, time: Ns) -> Option<String> {
    let facts = context.facts;
    let stages = facts.stages.iter().filter(|stage| stage.pass == pass && stage.parent.is_none());
    let mut around = stages.filter(|stage| {
        let holds = |one: &crate::analysis::engine::facts::StageInstance| {
            one.range.is_some() && one.host_start <= time && time < one.host_end
        };
        facts.instances_of(stage).iter().any(holds)
    });
    around.next().map(|stage| stage.name.clone())
}
