//! Stretches of small sessions.

#![allow(clippy::unwrap_used)]

use super::bins::{Window, means, mix};
use super::*;
use crate::engine::classify::ClassGroup;
use crate::engine::intervals::union_length;
use crate::engine::segments::{Segment, exclusive};
use crate::testing::{trace, with_results};
use rooflens_session::Ns;

const GEMM: &str = "nvjet_tst_128x64_64x11_1x2_h_bz_TNT";
const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

#[test]
fn a_stretch_holds_what_ran_in_it() {
    // 600 ns in 300 stretches of 2. Product in [1, 4): 1 + 2; collective in [3, 8): its part from 4 on, 2 + 2.
    let window = Window {
        start: Ns::ZERO,
        end: Ns(600),
    };
    let session = trace(&format!(
        "stream 7: {GEMM} 1..4, {REDUCE} 3..8, {GEMM} 599..600"
    ));
    let bins = with_results(&session, |context| mix(&window, &exclusive(context, 0..3)));
    let of = |group: ClassGroup| -> Vec<Ns> {
        bins.iter().take(5).map(|bin| bin[group as usize]).collect()
    };
    assert_eq!(
        of(ClassGroup::Gemm),
        [Ns(1), Ns(2), Ns::ZERO, Ns::ZERO, Ns::ZERO]
    );
    assert_eq!(
        of(ClassGroup::Communication),
        [Ns::ZERO, Ns::ZERO, Ns(2), Ns(2), Ns::ZERO]
    );
    assert_eq!(bins[299][ClassGroup::Gemm as usize], Ns(1));
    assert_eq!(bins.iter().flatten().sum::<Ns>(), Ns(8));
}

proptest::proptest! {
    /// Whatever overlaps, all stretches together are the union of the operations to the nanosecond, none is
    /// longer than it is, and every time lies in the stretch around it.
    #[test]
    fn stretches_add_up_to_busy_time(
        ops in proptest::collection::vec((0i64..5_000, 1i64..400, 0usize..2), 1..60),
    ) {
        let mut sorted: Vec<(&str, i64, i64)> = ops
            .iter()
            .map(|(start, length, kind)| ([GEMM, REDUCE][*kind], *start, start + length))
            .collect();
        sorted.sort_by_key(|(_, start, end)| (*start, *end));
        let line = |(kernel, start, end): &_| format!("stream 7: {kernel} {start}..{end}\n");
        let session = trace(&sorted.iter().map(line).collect::<String>());
        let (overview, bins) = with_results(&session, |context| {
            let overview = overview::of_pass(context, PassId(0)).unwrap();
            (overview.window, overview.gpus[0].1.clone())
        });
        let mut intervals: Vec<(Ns, Ns)> = sorted.iter().map(|(_, s, e)| (Ns(*s), Ns(*e))).collect();
        proptest::prop_assert_eq!(bins.iter().flatten().sum::<Ns>(), union_length(&mut intervals));
        for (bin, length) in bins.iter().zip(overview.lengths()) {
            proptest::prop_assert!(bin.iter().sum::<Ns>() <= length);
        }
        for time in (overview.start.0..overview.end.0).step_by(7).map(Ns) {
            let bin = overview.bin(time);
            proptest::prop_assert!(overview.edge(bin) <= time && time < overview.edge(bin + 1));
        }
    }
}

#[test]
fn a_window_without_a_whole_nanosecond_a_stretch_has_fewer() {
    let window = Window {
        start: Ns(-3),
        end: Ns(4),
    };
    assert_eq!(
        (window.count(), window.edge(0), window.edge(7)),
        (7, Ns(-3), Ns(4))
    );
    let segment = Segment {
        start: Ns(-10),
        end: Ns(10),
        group: ClassGroup::Gemm,
    };
    assert_eq!(mix(&window, &[segment]).iter().flatten().sum::<Ns>(), Ns(7));
}

#[test]
fn samples_are_averaged_where_there_are_some() {
    // 3000 ns: stretches of 10. 1 and 3 in the first, 8 in the third; what lies outside does not count.
    let window = Window {
        start: Ns(1_000),
        end: Ns(4_000),
    };
    let values = [
        (999, 99.0),
        (1_000, 1.0),
        (1_009, 3.0),
        (1_025, 8.0),
        (4_000, 99.0),
    ]
    .map(|(time, value)| (Ns(time), value));
    assert_eq!(
        means(&window, values.into_iter()),
        [(Ns(5), 2.0), (Ns(25), 8.0)]
    );
}
