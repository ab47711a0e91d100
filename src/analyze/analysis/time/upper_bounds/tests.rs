//! Bounds of stages that are computed by hand.

#![allow(clippy::unwrap_used)]

use super::Overhead;
use crate::testing::Made;
use rooflens_session::{MemoryKind, Ns};

/// 100: `gemm` [0, 40), launching until 55 and 5 of latency, `axpy` [60, 80), a copy [70, 100) of which 20 stand alone.
#[test]
fn what_is_thought_away_is_gone_from_the_stage_time() {
    let mut made = Made::timeline();
    made.range_at("prefill", 0, 70);
    made.call("cudaLaunchKernel", 0, 1, 1);
    made.kernel_at("gemm", 0, 40, 1);
    made.call("cudaLaunchKernel", 50, 55, 2);
    made.kernel_at("axpy", 60, 80, 2);
    made.call("cudaMemcpyAsync", 56, 57, 3);
    made.copy_at(MemoryKind::Pinned, 70, 100, 3);
    made.with(|context| {
        let bounds = &context.results.upper_bounds().unwrap().stages[0];
        let times = Overhead::ALL.map(|what| bounds.get(what).ok().map(|bound| bound.new_time()));
        // Without sizes of products nothing is known of them.
        assert_eq!(
            times,
            [Some(85.0), Some(85.0), Some(80.0), Some(100.0), None]
        );
    });
}

/// Three instances of 10, 20 and 100 with a gap of 0, 5 and 80, all of it launching: 85 of 130. The median time is 20.
#[test]
fn all_instances_decide() {
    let mut made = Made::timeline();
    for (number, (start, length, gap)) in [(0, 10, 0), (1000, 20, 5), (2000, 100, 80)]
        .into_iter()
        .enumerate()
    {
        made.range_at("prefill", start, start + length);
        let (first, second) = (2 * number as i64, 2 * number as i64 + 1);
        made.call("cudaLaunchKernel", start, start + 1, first);
        made.kernel_at("axpy", start, start + 5, first);
        made.call("cudaLaunchKernel", start + 1 + gap, start + 5 + gap, second);
        made.kernel_at("axpy", start + 5 + gap, start + length, second);
    }
    made.with(|context| {
        assert_eq!(context.results.idle().unwrap().lines[0].idle(), Ns(85));
        let bounds = &context.results.upper_bounds().unwrap().stages[0];
        let expected = 20.0 - 20.0 * (85.0 / 130.0);
        assert_eq!(
            bounds.get(Overhead::Launching).unwrap().new_time(),
            expected
        );
    });
}
