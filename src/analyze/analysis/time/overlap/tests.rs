//! What runs at once in small sessions.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;
use crate::Options;
use crate::engine::facts::Facts;
use crate::testing::trace;
use rooflens_hardware::Hardware;
use rooflens_session::{Ns, Session};

const GEMM: &str = "nvjet_tst_128x64_64x11_1x2_h_bz_TNT";
const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

fn overlap(session: &Session) -> Overlap {
    let (facts, hardware, options) = (Facts::new(session), Hardware::default(), Options::default());
    let context = Context::new(session, &facts, &hardware, &options);
    Overlap::of_ops(&context, &(0..facts.ops.len()).collect::<Vec<_>>())
}

#[test]
fn times_by_number_of_streams_and_by_pairs_of_kinds() {
    // Stream 7: products [0, 10) and [10, 20). Stream 8: all-reduce [5, 15). Stream 9: copy [12, 25).
    //  0– 5 one stream; 5–12 two (product + all-reduce); 12–15 three; 15–20 two (product + copy); 20–25 one.
    let session = trace(&format!(
        "stream 7: {GEMM} 0..10, {GEMM} 10..20
         stream 8: {REDUCE} 5..15
         stream 9: memcpy HtoD 12..25",
    ));
    let found = overlap(&session);
    assert_eq!((found.busy, found.concurrent), (Ns(25), Ns(15)));
    assert_eq!(found.by_streams, [Ns(10), Ns(12), Ns(3)]);
    // Compute with itself 0: the products touch. Compute + communication 5–15, + copy 12–20; communication + copy 12–15.
    assert_eq!(
        found.kinds,
        [
            [Ns::ZERO, Ns(10), Ns(8)],
            [Ns::ZERO, Ns::ZERO, Ns(3)],
            [Ns::ZERO, Ns::ZERO, Ns::ZERO]
        ]
    );
    let streams: Vec<(u64, Ns)> = found
        .streams
        .iter()
        .map(|((_, s), time)| (*s, *time))
        .collect();
    assert_eq!(streams, [(7, Ns(20)), (9, Ns(13)), (8, Ns(10))]);
    let pairs: Vec<_> = found.pairs.into_iter().collect();
    assert_eq!(pairs, [((0, 1), Ns(8)), ((0, 2), Ns(10)), ((1, 2), Ns(3))]);
}

#[test]
fn kernels_of_one_stream_that_overlap_are_concurrent_on_one_stream() {
    // A launch that begins before its predecessor ends (programmatic dependent launch), and a memset of no length.
    let session = trace(&format!(
        "stream 7: {GEMM} 0..10, {GEMM} 8..20
         stream 9: memset 5..5",
    ));
    let found = overlap(&session);
    assert_eq!(
        (found.busy, found.concurrent, found.by_streams),
        (Ns(20), Ns(2), [Ns(20), Ns::ZERO, Ns::ZERO])
    );
    assert_eq!(found.kinds[0][0], Ns(2));
    assert_eq!(found.streams.len(), 1);
}

proptest::proptest! {
    /// Against counting every nanosecond.
    #[test]
    fn the_sweep_counts_every_nanosecond(
        ops in proptest::collection::vec((0u64..4, 0i64..120, 0i64..30, 0usize..2), 1..25),
    ) {
        let launches: Vec<(u64, &str, i64, i64)> = ops
            .iter()
            .map(|(stream, start, length, kind)| (*stream, [GEMM, REDUCE][*kind], *start, start + length))
            .collect();
        let line = |(stream, kernel, start, end): &_| format!("stream {stream}: {kernel} {start}..{end}\n");
        let found = overlap(&trace(&launches.iter().map(line).collect::<String>()));
        let (mut busy, mut concurrent, mut by_streams, mut mixed) = (0, 0, [0; 3], 0);
        for t in 0..150 {
            let on: Vec<_> = launches.iter().filter(|(_, _, start, end)| (*start..*end).contains(&t)).collect();
            let streams: BTreeSet<u64> = on.iter().map(|(stream, ..)| *stream).collect();
            if streams.is_empty() {
                continue;
            }
            busy += 1;
            by_streams[streams.len().min(3) - 1] += 1;
            concurrent += i64::from(on.len() > 1);
            let has = |name: &str| on.iter().any(|(_, own, ..)| *own == name);
            mixed += i64::from(has(GEMM) && has(REDUCE));
        }
        proptest::prop_assert_eq!((found.busy, found.concurrent), (Ns(busy), Ns(concurrent)));
        proptest::prop_assert_eq!(found.by_streams, by_streams.map(Ns));
        proptest::prop_assert_eq!(found.kinds[0][1], Ns(mixed));
    }
}
