//! Bounds of actions on a part of a step, on sessions whose idle time is added up by hand.

use super::named::{finding, findings};
use super::*;
use rooflens_analysis::testing::with_results;
use rooflens_document::Root;

/// The finding of a rule with its cause and action.
fn root(session: &Session, id: &str) -> (f64, Root) {
    with_results(session, |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let mut findings = judge(&evidence).0.findings.into_iter();
        let of_rule = findings.find(|finding| finding.id == id).expect(id);
        let gain = of_rule.gain.expect("a gain");
        (gain.saved_ns.0, of_rule.root.expect("a cause"))
    })
}

/// Steps of 100 µs with a kernel of 20 µs. The host waits between them for 59 of the 80 idle µs.
#[test]
fn a_wait_between_stages_is_the_cause() {
    let mut text = String::new();
    for start in (0..500).step_by(100) {
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range step {}\n", time(0, 30));
        text += &format!("launch {} -> axpy {}\n", time(0, 5), time(10, 30));
        text += &format!("cudaDeviceSynchronize {}\n", time(31, 90));
    }
    let (_, root) = root(&trace(&text), "between-stages");
    assert_eq!(root.action, "between_stages.root_action_wait");
}

/// A step of 860 µs from its first to its last operation. Its range `forward` is idle for 200 µs and does not wait. After it
/// the host reads four values in turns: 438 µs are idle there, and a turn has 3 µs of operations.
#[test]
fn a_loop_of_reads_has_no_idle_time_of_other_ranges() {
    let mut text = String::new();
    for step in 0..4 {
        let time = |from: i64, to: i64| format!("{}us..{}us", 1000 * step + from, 1000 * step + to);
        text += &format!("range train_step {}\n", time(0, 900));
        text += &format!("range forward {}\n", time(0, 420));
        text += &format!("launch {} -> axpy {}\n", time(0, 5), time(10, 110));
        text += &format!("launch {} -> axpy {}\n", time(300, 305), time(310, 410));
        for (start, line) in [(450, 7), (550, 8), (650, 7), (750, 8)] {
            let time = |from: i64, to: i64| time(start + from, start + to);
            text += &format!(
                "range rooflens:item at a.py:{line} {}
                 launch {} -> axpy {}
                 cudaMemcpyAsync {} -> memcpy DtoH pinned 4B {}
                 cudaStreamSynchronize {}\n",
                time(0, 16),
                time(5, 7),
                time(8, 9),
                time(8, 10),
                time(11, 13),
                time(10, 15),
            );
        }
        text += &format!("launch {} -> axpy {}\n", time(850, 855), time(860, 870));
    }
    let session = trace(&text);
    let (saved, root) = root(&session, "sync-bound");
    // With the operations of at most four turns.
    assert!((438_000.0..=450_000.0).contains(&saved), "{saved}");
    assert!(root.action.contains("root_action_launches"), "{root:?}");
    let found = findings(&session);
    let (.., statement) = finding(&found, "sync-bound").expect("a finding");
    let names = ["item at a.py:7", "item at a.py:8"];
    assert!(
        names.iter().all(|name| statement.contains(name)),
        "{statement}"
    );
}
