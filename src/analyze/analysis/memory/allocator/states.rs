//! What the framework's allocator held over time, by pass and GPU.

use rooflens_session::{MemoryEventId, Ns, PassId, Session};
use rooflens_stats::median;
use rooflens_units::{Bytes, Count, Ratio, Time};

/// The allocator of one GPU in one pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    /// Pass.
    pub pass: PassId,
    /// Device ordinal.
    pub device: u32,
    /// Its events by (time, row).
    pub events: Vec<MemoryEventId>,
    /// State after each event that states it.
    pub states: Vec<State>,
}

/// What is allocated and reserved from an event on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Time, nanoseconds.
    pub time: Ns,
    /// Bytes in live allocations.
    pub allocated: i64,
    /// Bytes that the allocator took from the device.
    pub reserved: Option<i64>,
}

/// Figures over some stretches of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The state with the most allocated, the first of several.
    pub peak: State,
    /// Most reserved at a time.
    pub peak_reserved: Option<i64>,
    /// Share of the reserved bytes that is not allocated, averaged over time.
    pub fragmentation: Option<Ratio>,
    /// Median number of allocations of a stretch.
    pub allocations: Count,
    /// Median bytes that a stretch allocates.
    pub bytes: Bytes,
}

impl State {
    /// Share of the reserved bytes that is not allocated.
    pub fn fragmentation(&self) -> Option<Ratio> {
        let reserved = self.reserved.filter(|reserved| *reserved > 0)?;
        Some(Ratio(self.allocated as f64 / reserved as f64).rest())
    }
}

/// Those of all GPUs whose allocator states what it holds, by (pass, device).
pub(super) fn all(session: &Session) -> Vec<States> {
    let events = &session.memory_events;
    let of_gpu = |id: &MemoryEventId| events.device[id.index()].is_some();
    let key = |id: &MemoryEventId| {
        let row = id.index();
        (events.pass[row], events.device[row], events.time[row], *id)
    };
    let mut order: Vec<MemoryEventId> = events.ids().filter(of_gpu).collect();
    order.sort_unstable_by_key(key);
    let same = |a: &MemoryEventId, b: &MemoryEventId| (key(a).0, key(a).1) == (key(b).0, key(b).1);
    let lists = order.chunk_by(same).filter_map(|list| {
        let state = |id: &MemoryEventId| {
            let row = id.index();
            let (time, reserved) = (events.time[row], events.reserved[row]);
            Some(State {
                time,
                allocated: events.allocated[row]?,
                reserved,
            })
        };
        let first = list.first()?.index();
        Some(States {
            pass: events.pass[first],
            device: events.device[first]?,
            events: list.to_vec(),
            states: list.iter().filter_map(state).collect(),
        })
    });
    lists
        .filter(|list_states| !list_states.states.is_empty())
        .collect()
}

impl States {
    /// From the first to the last event.
    pub fn span(&self) -> (Ns, Ns) {
        let first = self.states.first().map_or(Ns::ZERO, |state| state.time);
        (first, self.states.last().map_or(first, |state| state.time))
    }

    /// Figures over stretches of time; none if no state is known in any.
    pub(super) fn figures(&self, session: &Session, stretches: &[(Ns, Ns)]) -> Option<Figures> {
        let mut peak: Option<State> = None;
        let mut peak_reserved = None;
        let (mut unused, mut time) = (Time::ZERO, Time::ZERO);
        for (from, to) in stretches {
            for (state, length) in self.within(*from, *to) {
                if peak.is_none_or(|peak| state.allocated > peak.allocated) {
                    peak = Some(state);
                }
                peak_reserved = peak_reserved.max(state.reserved);
                if let Some(share) = state.fragmentation() {
                    unused += length.time() * share;
                    time += length.time();
                }
            }
        }
        let made: Vec<(f64, f64)> = stretches
            .iter()
            .map(|(from, to)| self.allocations(session, *from, *to))
            .collect();
        let of = |value: &dyn Fn(&(f64, f64)) -> f64| {
            median(&made.iter().map(value).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        Some(Figures {
            peak: peak?,
            peak_reserved,
            fragmentation: time.is_positive().then(|| Ratio(unused / time)),
            allocations: Count(of(&|made| made.0)),
            bytes: Bytes(of(&|made| made.1)),
        })
    }

    /// States in [from, to] with the time that each lasts there; the one before holds from `from` on.
    fn within(&self, from: Ns, to: Ns) -> impl Iterator<Item = (State, Ns)> {
        let before = self
            .states
            .partition_point(|state| state.time <= from)
            .saturating_sub(1);
        let last = self
            .states
            .partition_point(|state| state.time <= to)
            .max(before);
        (before..last).map(move |index| {
            let state = self.states[index];
            let until = self
                .states
                .get(index + 1)
                .map_or(to, |next| next.time.min(to));
            let time = state.time.max(from);
            (
                State { time, ..state },
                until.saturating_sub(time).max(Ns::ZERO),
            )
        })
    }

    /// Number and bytes of the allocations in [from, to).
    fn allocations(&self, session: &Session, from: Ns, to: Ns) -> (f64, f64) {
        let events = &session.memory_events;
        let time = |id: &MemoryEventId| events.time[id.index()];
        let first = self.events.partition_point(|id| time(id) < from);
        let last = self.events.partition_point(|id| time(id) < to).max(first);
        let bytes = self.events[first..last]
            .iter()
            .map(|id| events.bytes[id.index()]);
        bytes
            .filter(|bytes| *bytes > 0)
            .fold((0.0, 0.0), |(count, sum), bytes| {
                (count + 1.0, sum + bytes as f64)
            })
    }
}
