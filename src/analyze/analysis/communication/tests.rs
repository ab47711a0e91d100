//! Two ranks of a small session, by hand.

#![allow(clippy::unwrap_used)]

use super::operation::Operation;
use super::straggler::Reason;
use super::*;
use crate::testing::communication::session;
use crate::testing::trace;
use crate::{Facts, Options};
use rooflens_hardware::Hardware;
use rooflens_session::Session;
use rooflens_units::Time;

fn ranks(session: &Session) -> Ranks {
    let (facts, hardware, options) = (Facts::new(session), Hardware::default(), Options::default());
    let context = Context::new(session, &facts, &hardware, &options);
    compute(&context).unwrap().runs.remove(0)
}

#[test]
fn the_rank_that_computes_longest_is_the_straggler() {
    let found = ranks(&session(12, 60, ["gemm_a", "gemm_b"]));
    // Computing 40 and 63 µs in each of 12 steps.
    let imbalance = &found.imbalances[0];
    assert_eq!(
        (imbalance.slowest, imbalance.fastest, imbalance.is_uneven()),
        (1, 0, true)
    );
    assert_eq!(
        (imbalance.most, imbalance.least),
        (Time(12.0 * 63e3), Time(12.0 * 40e3))
    );
    // Rank 0 waits 20 µs in each of them.
    let straggler = found.straggler.unwrap();
    assert_eq!((straggler.member, straggler.waited), (1, Ns(240_000)));
    let cause = straggler.cause.unwrap();
    assert_eq!((cause.stage, cause.reason), (None, Reason::MoreWork));
}

#[test]
fn the_range_around_the_call_tells_what_a_kernel_of_messages_does() {
    // In the range, in one that names no operation, on another thread, and behind all.
    let kernel = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)";
    let found = ranks(&trace(&format!(
        "pass torch operators
         range step 0..400
         range nccl:_reduce_scatter_base 90..120
         range nccl:coalesced 190..220
         launch 100..105 -> {kernel} 110..150
         launch 200..205 -> {kernel} 210..250
         launch 300..305 -> {kernel} 310..350
         thread 2
         launch 100..105 -> {kernel} 260..270"
    )));
    let operations: Vec<Operation> = found.run.calls().map(|call| call.operation).collect();
    let message = Operation::SendReceive;
    assert_eq!(
        operations,
        [Operation::ReduceScatter, message, message, message]
    );
}
