#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::Options;
use crate::analysis::counters::ncu::tests::session as profiled;
use crate::analysis::counters::represent::tests::launch;
use crate::hardware::Hardware;
use rooflens_schemas::PassKind;

#[test]
fn names_of_other_passes_are_listed_with_their_partner() {
    // As Nsight Compute spells them, and one that the timeline does not hold.
    let mut session = profiled(&[("void f<1>(T1)", &[]), ("void f<1>(T1)", &[]), ("g", &[])]);
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys.sqlite");
    launch(&mut session, pass, "void ns::f<(bool)1>(T1)", [1, 1, 1], 0..10);
    let (facts, hardware, options) =
        (Facts::new(&session), Hardware::default(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let findings = run(&context);
    let rows = &findings.datasets[1].rows;
    let plain = |row: usize| rows[row].iter().map(Cell::plain).collect::<Vec<_>>();
    assert_eq!(plain(0)[2..5], ["1", "not matched", "did not run in pass nsys"]);
    assert_eq!(plain(1)[2..5], ["2", "signature", ""]);
    assert_eq!(plain(1)[8], "void ns::f<(bool)1>(T1)");
    let summary: Vec<String> = findings.datasets[0].rows[0].iter().map(Cell::plain).collect();
    // Two names: no exact one, no md5, one signature, none without parameters, none ambiguous, one missing.
    assert_eq!(summary[2..], ["2", "0", "0", "1", "0", "0", "1"]);
}

#[test]
fn one_pass_alone_has_nothing_to_say() {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys.sqlite");
    launch(&mut session, pass, "f", [1, 1, 1], 0..10);
    let (facts, hardware, options) =
        (Facts::new(&session), Hardware::default(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    assert!(run(&context).appendix.is_empty());
}
