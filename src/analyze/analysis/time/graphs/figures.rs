//! Figures of some replays.

use super::replays::Replay;
use crate::Context;
use crate::engine::intervals::total;
use crate::engine::stage_stats::median_time;
use rooflens_session::Ns;
use rooflens_stats::median;
use rooflens_units::{Count, Ratio, Time};

/// Figures of some replays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of replays.
    pub replays: usize,
    /// Operations of all of them.
    pub operations: u64,
    /// Median number of operations of a replay.
    pub median_operations: Option<Count>,
    /// Median time of a replay, from the first start to the last end.
    pub time: Option<Time>,
    /// Sum of their times.
    pub total: Ns,
    /// Sum over replays of the time in which an operation of theirs runs, over GPUs.
    pub busy: Ns,
    /// Sum over replays of time × GPUs.
    pub gpu_time: Ns,
    /// Number of replays with one before them in the same stage instance on the same GPU.
    pub gaps: usize,
    /// Median time since the replay before.
    pub gap: Option<Time>,
    /// Median of the part of it in which the GPU is idle.
    pub gap_idle: Option<Time>,
    /// Sum of the times between replays.
    pub gap_total: Ns,
    /// Sum of the parts of them in which the GPU is idle.
    pub gap_idle_total: Ns,
    /// Median duration of the call that launches a replay.
    pub launch: Option<Time>,
}

impl Figures {
    /// Busy time ÷ time × GPUs; none if the replays take no time.
    pub fn busy_share(&self) -> Option<Ratio> {
        (self.gpu_time > Ns::ZERO).then(|| Ratio::of(self.busy, self.gpu_time))
    }

    pub(super) fn of(context: &Context<'_>, own: &[&Replay]) -> Self {
        let calls = &context.session.api_calls;
        let column = |value: &dyn Fn(&Replay) -> Option<Ns>| -> Vec<Ns> {
            own.iter().filter_map(|replay| value(replay)).collect()
        };
        let middle = |values: &[Ns]| median_time(values.iter().copied());
        let sum = |values: &[Ns]| total(values.iter().copied());
        let operations: Vec<f64> = own
            .iter()
            .map(|replay| replay.members.len() as f64)
            .collect();
        let times = column(&|replay| Some(replay.end - replay.start));
        let gpu_times = own.iter().zip(&times);
        let gaps = column(&|replay| Some(replay.gap?.length));
        let idle = column(&|replay| Some(replay.gap?.idle));
        let launches = column(&|replay| {
            let call = replay.call?.index();
            Some(calls.end[call] - calls.start[call])
        });
        Self {
            replays: own.len(),
            operations: own.iter().map(|replay| replay.members.len() as u64).sum(),
            median_operations: median(&operations).map(Count),
            time: middle(&times),
            total: sum(&times),
            busy: total(own.iter().map(|replay| replay.busy)),
            gpu_time: total(
                gpu_times.map(|(replay, time)| time.saturating_mul(replay.gpus.max(1) as i64)),
            ),
            gaps: gaps.len(),
            gap: middle(&gaps),
            gap_idle: middle(&idle),
            gap_total: sum(&gaps),
            gap_idle_total: sum(&idle),
            launch: middle(&launches),
        }
    }
}
