//! What a reader sees of two ranks.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{self, column, dataset, show, show_keys};
use rooflens_analysis::testing::communication::{
    US, messages, sample, session as two_ranks, sized,
};
use rooflens_document::{Cell, Inline};

fn metric(content: &SectionContent, id: &str, rank: Option<u32>) -> Option<f64> {
    testing::metric(content, id, |scope| {
        scope.stage.is_none() && scope.rank == rank
    })
}

fn words(content: &SectionContent) -> String {
    let prose = |block: &Block| match block {
        Block::Prose(inlines) => inlines.iter().map(Inline::plain).collect(),
        _ => String::new(),
    };
    content.blocks.iter().map(prose).collect()
}

#[test]
fn ranks_wait_transfer_and_hide() {
    let found = show(&SECTION, &two_ranks(12, 60, ["gemm_a", "gemm_b"]));
    let of = |id: &str| [0, 1].map(|rank| metric(&found, id, Some(rank)));
    // Per step 25 and 5 µs of all-reduce, of which a transfer of 5 µs; rank 1 hides 2 µs.
    assert_eq!(of("comm_time"), [Some(300e3), Some(60e3)]);
    assert_eq!(of("comm_exposed"), [Some(300e3), Some(36e3)]);
    assert_eq!(of("comm_overlap_share"), [Some(0.0), Some(0.4)]);
    assert_eq!(of("comm_wait"), [Some(240e3), Some(0.0)]);
    assert_eq!(of("comm_transfer"), [Some(60e3), Some(60e3)]);
    // Computing 40 and 63 µs: 63 ÷ 51.5.
    assert_eq!(metric(&found, "imbalance", None), Some(63.0 / 51.5));
    assert_eq!(metric(&found, "clock_residual", None), Some(0.0));
    // No sizes in an nsys export: no bandwidth, and not 0.
    assert_eq!(metric(&found, "bus_bandwidth", Some(0)), None);
}

#[test]
fn the_straggler_is_named_with_its_reason() {
    let more = words(&show_keys(
        &SECTION,
        &two_ranks(12, 60, ["gemm_a", "gemm_b"]),
    ));
    assert!(
        more.contains(
            "communication.straggler{name=communication.straggler_name{rank=1}, last=12, of=12,"
        ),
        "{more}"
    );
    assert!(more.contains("why=communication.more_work"), "{more}");
    let slower = words(&show_keys(&SECTION, &two_ranks(12, 60, ["gemm", "gemm"])));
    assert!(
        slower.contains("why=communication.slower_kernels{slowdown=50.0 %}"),
        "{slower}"
    );
    // Equal ranks have none.
    assert!(
        !words(&show_keys(&SECTION, &two_ranks(12, 40, ["gemm", "gemm"])))
            .contains("communication.straggler")
    );
}

#[test]
fn a_lower_clock_is_the_reason_of_slower_kernels_if_it_is_low_enough() {
    // 60 instead of 40 µs: 1.5 times as long; 1980 / 1440 = 1.375, three quarters of it.
    let mut slower = two_ranks(12, 60, ["gemm", "gemm"]);
    sample(&mut slower, 1000 * US);
    let text = words(&show_keys(&SECTION, &slower));
    assert!(
        text.contains(
            "why=communication.lower_clock{slowdown=50.0 %, own=1.44 GHz, others=1.98 GHz,"
        ),
        "{text}"
    );
    assert!(
        text.contains("share=75.0 %, reason=sw_power_cap, samples=100"),
        "{text}"
    );
    // 80 µs: twice as long, of which the clock accounts for 37.5 %.
    let mut slowest = two_ranks(12, 80, ["gemm", "gemm"]);
    sample(&mut slowest, 1000 * US);
    let text = words(&show_keys(&SECTION, &slowest));
    assert!(
        text.contains("why=communication.slower_kernels{slowdown=100 %}") && !text.contains("GHz"),
        "{text}"
    );
    // Other work says nothing of the clock.
    let mut more = two_ranks(12, 60, ["gemm_a", "gemm_b"]);
    sample(&mut more, 1000 * US);
    assert!(words(&show_keys(&SECTION, &more)).contains("why=communication.more_work"));
}

#[test]
fn messages_tell_which_rank_waits_for_which() {
    let found = show(&SECTION, &messages());
    let data = dataset(&found, "messages");
    assert_eq!(data.rows.len(), 1, "one kind of message");
    let of = |id: &str| column(data, id).remove(0);
    assert_eq!([of("from"), of("to")], ["0", "1"].map(Cell::from));
    assert_eq!(
        [of("sender_wait_ns"), of("receiver_wait_ns")],
        [Cell::Int(8 * US), Cell::Int(30 * US)]
    );
    // 10, 17 and 10 µs for 1 MB each.
    assert_eq!(
        [of("transfer_ns"), of("bandwidth")],
        [Cell::Float(10e3), Cell::Float(1e6 / 10e3 * 1e9)]
    );
    // 3 MB in 37 µs, on either side.
    let bus = [0, 1].map(|rank| metric(&found, "bus_bandwidth", Some(rank)).unwrap());
    assert_eq!(bus, [3e6 / 37e3 * 1e9; 2]);
    assert_eq!(
        [0, 1].map(|rank| metric(&found, "comm_wait", Some(rank))),
        [Some(8e3), Some(30e3)]
    );
    let text = words(&show_keys(&SECTION, &messages()));
    let waited =
        "communication.messages{from=0, to=1, count=3, receiver_wait=30.0 µs, sender_wait=8.00 µs}";
    assert!(text.contains(waited), "{text}");
    assert!(
        text.contains("messages=6, on=communication.ranks{ranks=2,")
            && !text.contains("communication.straggler"),
        "{text}"
    );
}

#[test]
fn sizes_of_the_trace_give_bandwidths_and_a_lone_rank_has_no_waits() {
    let found = show(&SECTION, &sized());
    // 10⁶ B × 2 · 7 / 8 in 25 µs, because no other rank has that group.
    let bus = metric(&found, "bus_bandwidth", Some(0)).unwrap();
    assert!((bus / (1.75e6 / 25e3 * 1e9) - 1.0).abs() < 1e-12);
    assert_eq!(metric(&found, "comm_wait", Some(0)), None);
}
