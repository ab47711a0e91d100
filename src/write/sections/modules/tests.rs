//! What the section of modules shows of which pass.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{column, dataset, show};
use rooflens_analysis::testing::{api_call, copy, operator, range};
use rooflens_document::{Cell, View};
use rooflens_session::{ApiCall, BackwardOperator, Copy, PassId, Session};

/// Adds a pass with ranges on one thread and one copy of 10 ns, issued at 35.
fn add_pass(session: &mut Session, kind: PassKind, ranges: &[(&str, i64, i64)]) -> PassId {
    let pass = session.add_pass(kind.label(), kind, "artifact");
    let process = session.process(pass, 1, 1);
    session.thread(process, 1);
    session.gpu(pass, 0);
    for (name, start, end) in ranges.iter().copied() {
        let name = session.intern(name);
        session.ranges.push(range(pass, name, start..end));
    }
    let name = session.intern("cudaMemcpyAsync");
    let correlation = Some(1);
    session.api_calls.push(ApiCall {
        correlation,
        ..api_call(pass, name, 35..38)
    });
    session.copies.push(Copy {
        correlation,
        ..copy(pass, 1, 100..110)
    });
    pass
}

fn run_on(session: &Session) -> SectionContent {
    show(&SECTION, session)
}

fn views(findings: &SectionContent) -> Vec<&View> {
    let mut views = Vec::new();
    for block in &findings.blocks {
        if let Block::Table(view) = block {
            views.push(view);
        }
    }
    views
}

fn charts(findings: &SectionContent) -> usize {
    findings
        .blocks
        .iter()
        .filter(|block| matches!(block, Block::Chart(_)))
        .count()
}

const MODULES: [(&str, i64, i64); 4] = [
    ("decode", 0, 90),
    ("layers.0", 10, 50),
    ("layers.0.mlp", 20, 40),
    ("head", 60, 80),
];

#[test]
fn modules_are_listed_in_the_order_of_their_tree() {
    let mut session = Session::default();
    add_pass(&mut session, PassKind::Timeline, &MODULES);
    let findings = run_on(&session);
    assert_eq!((views(&findings).len(), charts(&findings)), (1, 2));
    let data = dataset(&findings, "modules");
    // The one copy is of the mlp; the head has no work.
    let paths = ["layers.*", "layers.* / mlp", "head"].map(|path| Cell::Name(path.to_owned()));
    assert_eq!(column(data, "path"), paths);
    assert_eq!(column(data, "device_total_ns")[0], Cell::Int(10));
    assert_eq!(column(data, "device_self_ns")[0], Cell::Int(0));
    // 40 less the 20 of the mlp; 20 less the call's 3.
    assert_eq!(column(data, "host_self_ns")[..2], [20, 17].map(Cell::Int));
}

#[test]
fn a_view_begins_at_the_rows_of_its_stage() {
    let mut session = Session::default();
    // Two passes with modules: the section shows the timeline, which comes second.
    add_pass(&mut session, PassKind::Operators, &MODULES);
    add_pass(&mut session, PassKind::Timeline, &MODULES);
    let findings = run_on(&session);
    let [view] = views(&findings)[..] else {
        panic!("one table")
    };
    assert_eq!((view.skip, view.limit), (3, 3));
    assert_eq!(
        column(dataset(&findings, "modules"), "pass")[3],
        "timeline".into()
    );
}

#[test]
fn stages_alone_are_no_modules() {
    let mut session = Session::default();
    add_pass(&mut session, PassKind::Timeline, &[("decode", 0, 90)]);
    assert!(run_on(&session).blocks.is_empty());
    // Steps make a flame graph, but no table.
    let mut session = Session::default();
    add_pass(
        &mut session,
        PassKind::Timeline,
        &[("decode", 0, 90), ("decode_step", 10, 50)],
    );
    let findings = run_on(&session);
    assert_eq!((views(&findings).len(), charts(&findings)), (0, 2));
    assert!(findings.datasets.is_empty());
}

#[test]
fn trees_of_passes_with_operators_are_drawn_by_their_section() {
    let mut session = Session::default();
    let pass = add_pass(&mut session, PassKind::Operators, &MODULES);
    let name = session.intern("aten::copy_");
    session.operators.push(operator(pass, name, 30..39));
    let findings = run_on(&session);
    assert_eq!((views(&findings).len(), charts(&findings)), (1, 0));
}

#[test]
fn backward_work_has_a_column_where_a_pass_tells_it() {
    let mut session = Session::default();
    add_pass(&mut session, PassKind::Timeline, &MODULES);
    let pass = add_pass(&mut session, PassKind::Operators, &MODULES);
    let name = session.intern("op");
    // Forward within the mlp; its gradient around the copy of 10 ns.
    let [forward, operator] =
        [22..24, 34..39].map(|time| session.operators.push(operator(pass, name, time)));
    session
        .backward_operators
        .push(BackwardOperator { operator, forward });
    let findings = run_on(&session);
    let shown = views(&findings);
    let [timeline, torch] = &shown[..] else {
        panic!("{} tables", shown.len())
    };
    assert!(!timeline.columns.contains(&"backward_ns") && torch.columns.contains(&"backward_ns"));
    let (none, some, zero) = (Cell::Missing, Cell::Int(10), Cell::Int(0));
    // `layers.*`, its mlp, and the head, of each pass.
    let cells = column(dataset(&findings, "modules"), "backward_ns");
    assert_eq!(
        cells,
        [none.clone(), none.clone(), none, some.clone(), some, zero]
    );
}
