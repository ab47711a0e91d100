//! Waits of a small session, by hand.

#![allow(clippy::unwrap_used)]

use super::charges::charge;
use super::*;
use crate::Facts;
use crate::engine::sweep::gaps;
use crate::testing::{trace, with_results};
use rooflens_session::Session;

/// Kernels at [10, 100), [130, 140), [150, 160), [200, 210); the host waits at [20, 105) and [165, 166).
fn program() -> Session {
    trace(
        "range decode 0..300
         launch 0..5 -> gemm 10..100
         cudaStreamSynchronize 20..105
         launch 110..115 -> gemm 130..140
         launch 116..120 -> gemm 150..160 // issued before the gap [140, 150) begins: the queue's
         cudaMemcpy 165..166
         launch 170..175 -> gemm 200..210",
    )
}

#[test]
fn each_gap_is_charged_to_the_first_wait_in_it() {
    let session = program();
    let facts = Facts::new(&session);
    let gaps = gaps(&session, &facts, facts.ops_of(PassId(0)));
    let found: Vec<(Ns, Ns)> = gaps.map(|gap| (gap.start, gap.end)).collect();
    assert_eq!(
        found,
        [(Ns(100), Ns(130)), (Ns(140), Ns(150)), (Ns(160), Ns(200))]
    );
    let charges = charge(&session, &facts, PassId(0));
    let charged: Vec<(Ns, Ns)> = charges
        .calls
        .iter()
        .map(|call| (call.idle, call.after))
        .collect();
    // [100, 130): 25 after the return at 105. [160, 200): 34 after the return at 166.
    assert_eq!(charged, [(Ns(30), Ns(25)), (Ns(40), Ns(34))]);
}

#[test]
fn a_wait_that_ended_before_the_gap_is_not_charged() {
    let session = trace(
        "launch 0..5 -> gemm 10..100
         cudaEventSynchronize 20..60
         launch 110..115 -> gemm 130..140",
    );
    let facts = Facts::new(&session);
    let charges = charge(&session, &facts, PassId(0));
    assert_eq!(
        charges
            .calls
            .iter()
            .map(|call| call.idle)
            .collect::<Vec<_>>(),
        [Ns::ZERO]
    );
}

#[test]
fn stages_and_places_hold_what_their_calls_cost() {
    with_results(&program(), |context| {
        let own = &context.results.sync().unwrap().passes[0];
        let stage = &own.stages[0];
        assert_eq!(
            (stage.instances, stage.calls, stage.time, stage.idle),
            (1, Count(2.0), Time(86.0), Time(70.0))
        );
        let text = |name: StrId| context.session.text(name);
        let names = own
            .places
            .iter()
            .map(|place| (text(place.call), text(place.ranges[0])));
        let expected = [
            ("cudaMemcpy", "decode"),
            ("cudaStreamSynchronize", "decode"),
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    });
}
