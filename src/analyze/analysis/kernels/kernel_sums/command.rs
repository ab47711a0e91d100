//! The command that lists the kernels of a stage that are worth profiling.

use crate::Context;
use crate::engine::intervals::total;
use crate::engine::stage_stats::Summary;
use crate::kernels::stage_work::StageWork;
use rooflens_session::Ns;
use rooflens_units::Ratio;

/// Share of a stage's GPU time beyond which nothing more need be profiled.
pub const ENOUGH: Ratio = Ratio(0.9);

/// Most kernels that a command asks for: each costs replays.
const MOST: usize = 30;

/// The command that lists the kernels to profile of a stage: those with most of its time.
pub fn command(context: &Context<'_>, stage: &Summary) -> String {
    let is = |work: &&StageWork| {
        (work.summary.stage, work.summary.process) == (stage.stage, stage.process)
    };
    let work = context
        .results
        .stage_work()
        .ok()
        .and_then(|commands| commands.iter().find(is));
    let top = work.map_or(1, |work| needed(work, ENOUGH).clamp(1, MOST));
    let name = stage.stage(context.facts).name.replace('\'', "'\\''");
    format!("rooflens kernels BUNDLE --top {top} --stage '{name}' --yaml")
}

/// How many of a stage's kernels, those with the most time first, have this share of the time of all of them.
fn needed(work: &StageWork, share: Ratio) -> usize {
    let enough = share.0 * total(work.kernels.iter().map(|kernel| kernel.2)).time().0;
    let mut sum = Ns::ZERO;
    let before = work.kernels.iter().take_while(|kernel| {
        let is_short = sum.time().0 < enough;
        sum += kernel.2;
        is_short
    });
    before.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{trace, with_results};

    #[test]
    fn the_kernels_with_most_of_the_time_of_a_stage() {
        let session = trace(
            "range decode 0..106
             launch 0..1 -> a 1..61
             launch 62..63 -> b 63..93
             launch 94..95 -> c 95..105",
        );
        with_results(&session, |context| {
            let work = &context.results.stage_work().expect("never missing")[0];
            // 60 of 100, then 90, then all.
            assert_eq!(
                [0.5, 0.6, 0.7, 0.9, 0.91].map(|share| needed(work, Ratio(share))),
                [1, 1, 2, 2, 3]
            );
        });
    }
}
