//! Bounds of stages that are computed by hand.

#![allow(clippy::unwrap_used)]

use super::Overhead;
use crate::testing::{trace, with_results};
use rooflens_session::Ns;
use rooflens_units::Time;

/// 100: `gemm` [0, 40), launching until 55 and 5 of latency, `axpy` [60, 80), a copy [70, 100) of which 20 stand alone.
#[test]
fn what_is_thought_away_is_gone_from_the_stage_time() {
    let session = trace(
        "range prefill 0..70
         launch 0..1 -> gemm 0..40
         launch 50..55 -> axpy 60..80
         cudaMemcpyAsync 56..57 -> memcpy HtoD pinned 70..100",
    );
    with_results(&session, |context| {
        let bounds = &context.results.upper_bounds().unwrap().stages[0];
        let times = Overhead::ALL.map(|what| bounds.get(what).ok().map(|bound| bound.new_time));
        // Without sizes of products nothing is known of them.
        assert_eq!(
            times,
            [Some(85.0), Some(85.0), Some(80.0), Some(100.0), None].map(|time| time.map(Time))
        );
    });
}

/// Three instances of 10, 20 and 100 with a gap of 0, 5 and 80, all of it launching: they take 10, 15 and 20 without it.
#[test]
fn all_instances_decide() {
    let session = trace(
        "range prefill 0..10
         launch 0..1 -> axpy 0..5
         launch 1..5 -> axpy 5..10
         range prefill 1000..1020
         launch 1000..1001 -> axpy 1000..1005
         launch 1006..1010 -> axpy 1010..1020
         range prefill 2000..2100
         launch 2000..2001 -> axpy 2000..2005
         launch 2081..2085 -> axpy 2085..2100",
    );
    with_results(&session, |context| {
        assert_eq!(context.results.idle().unwrap().lines[0].idle(), Ns(85));
        let bounds = &context.results.upper_bounds().unwrap().stages[0];
        let bound = bounds.get(Overhead::Launching).unwrap();
        assert_eq!((bound.time, bound.new_time), (Time(20.0), Time(15.0)));
    });
}
