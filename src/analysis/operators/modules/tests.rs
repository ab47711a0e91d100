//! What the section of modules shows of which pass.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::analysis::{Facts, Options, Results};
use crate::findings::{Cell, View};
use crate::hardware::Hardware;
use crate::model::{
    ApiCall, ApiLevel, BackwardOperator, Copy, CopyKind, MemoryKind, Ns, Operator, Range,
    RangeKind, StrId,
};

/// Adds a pass with ranges on one thread and one copy of 10 ns, issued at 35.
fn add_pass(session: &mut Session, kind: PassKind, ranges: &[(&str, Ns, Ns)]) -> PassId {
    let pass = session.add_pass(kind.label(), kind, "artifact");
    let process = session.process(pass, 1, 1);
    let (thread, gpu) = (session.thread(process, 1), session.gpu(pass, 0));
    let (domain, kind, unclosed) = (StrId::default(), RangeKind::PushPop, false);
    for (name, start, end) in ranges.iter().copied() {
        let name = session.intern(name);
        session.ranges.push(Range { start, end, name, domain, kind, unclosed, pass, thread });
    }
    let name = session.intern("cudaMemcpyAsync");
    let (start, end, level, nested) = (35, 38, ApiLevel::Runtime, false);
    let correlation = Some(1);
    let call = ApiCall { start, end, name, level, nested, pass, process, thread, correlation };
    session.api_calls.push(call);
    session.copies.push(Copy {
        start: 100,
        end: 110,
        kind: CopyKind::HostToDevice,
        bytes: 1,
        source: MemoryKind::Pinned,
        destination: MemoryKind::Device,
        pass,
        gpu,
        process,
        stream: 7,
        correlation,
        graph_node: None,
        graph: None,
    });
    pass
}

fn run_on(session: &Session) -> Findings {
    let (facts, hardware) = (Facts::new(session), Hardware::default());
    let options = Options::default();
    let context = Context::new(session, &facts, &hardware, &options);
    run(&context.with(&Results::compute(&context)))
}

fn views(findings: &Findings) -> Vec<&View> {
    let mut views = Vec::new();
    for block in &findings.blocks {
        if let Block::Table(view) = block {
            views.push(view);
        }
    }
    views
}

fn charts(findings: &Findings) -> usize {
    findings.blocks.iter().filter(|block| matches!(block, Block::Chart(_))).count()
}

const MODULES: [(&str, Ns, Ns); 4] =
    [("decode", 0, 90), ("layers.0", 10, 50), ("layers.0.mlp", 20, 40), ("head", 60, 80)];

#[test]
fn modules_are_listed_in_the_order_of_their_tree() {
    let mut session = Session::default();
    add_pass(&mut session, PassKind::Timeline, &MODULES);
    let findings = run_on(&session);
    assert_eq!((views(&findings).len(), charts(&findings)), (1, 2));
    let rows = &findings.datasets[0].rows;
    let paths: Vec<String> = rows.iter().map(|row| row[0].plain()).collect();
    // The one copy is of the mlp; the head has no work.
    assert_eq!(paths, ["layers.*", "layers.* / mlp", "head"]);
    let at = |id: &str| findings.datasets[0].columns.iter().position(|c| c.id == id).unwrap();
    assert_eq!(rows[0][at("device_total_ns")], Cell::Int(10));
    assert_eq!(rows[0][at("device_self_ns")], Cell::Int(0));
    // 40 less the 20 of the mlp; 20 less the call's 3.
    assert_eq!(rows[0][at("host_self_ns")], Cell::Int(20));
    assert_eq!(rows[1][at("host_self_ns")], Cell::Int(17));
}

#[test]
fn a_view_begins_at_the_rows_of_its_stage() {
    let mut session = Session::default();
    // Two passes with modules: the section shows the timeline, which comes second.
    add_pass(&mut session, PassKind::Operators, &MODULES);
    add_pass(&mut session, PassKind::Timeline, &MODULES);
    let findings = run_on(&session);
    let [view] = views(&findings)[..] else { panic!("one table") };
    assert_eq!((view.skip, view.limit), (3, 3));
    assert_eq!(findings.datasets[0].rows[3][1], Cell::Text("timeline".to_owned()));
}

#[test]
fn stages_alone_are_no_modules() {
    let mut session = Session::default();
    add_pass(&mut session, PassKind::Timeline, &[("decode", 0, 90)]);
    assert!(run_on(&session).blocks.is_empty());
    // Steps make a flame graph, but no table.
    let mut session = Session::default();
    add_pass(&mut session, PassKind::Timeline, &[("decode", 0, 90), ("decode_step", 10, 50)]);
    let findings = run_on(&session);
    assert_eq!((views(&findings).len(), charts(&findings)), (0, 2));
    assert!(findings.datasets.is_empty());
}

#[test]
fn trees_of_passes_with_operators_are_drawn_by_their_section() {
    let mut session = Session::default();
    let pass = add_pass(&mut session, PassKind::Operators, &MODULES);
    let name = session.intern("aten::copy_");
    let (thread, text) = (session.ranges.thread[0], StrId::default());
    let (shapes, types, inputs, external) = (text, text, text, None);
    let (start, end) = (30, 39);
    session.operators.push(Operator {
        start,
        end,
        name,
        pass,
        thread,
        external,
        shapes,
        types,
        inputs,
    });
    let findings = run_on(&session);
    assert_eq!((views(&findings).len(), charts(&findings)), (1, 0));
}

#[test]
fn backward_work_has_a_column_where_a_pass_tells_it() {
    let mut session = Session::default();
    add_pass(&mut session, PassKind::Timeline, &MODULES);
    let pass = add_pass(&mut session, PassKind::Operators, &MODULES);
    let thread = session.ranges.thread[MODULES.len()];
    let (text, external) = (StrId::default(), None);
    let (shapes, types, inputs) = (text, text, text);
    // Forward within the mlp; its gradient around the copy of 10 ns.
    let [forward, operator] = [(22, 24), (34, 39)].map(|(start, end)| {
        let name = session.intern("op");
        let row = Operator { start, end, name, pass, thread, external, shapes, types, inputs };
        session.operators.push(row)
    });
    session.backward_operators.push(BackwardOperator { operator, forward });
    let findings = run_on(&session);
    let shown = views(&findings);
    let [timeline, torch] = &shown[..] else { panic!("{} tables", shown.len()) };
    assert!(!timeline.columns.contains(&"backward_ns") && torch.columns.contains(&"backward_ns"));
    let data = &findings.datasets[0];
    let at = data.columns.iter().position(|one| one.id == "backward_ns").unwrap();
    let cells: Vec<&Cell> = data.rows.iter().map(|row| &row[at]).collect();
    let (none, some, zero) = (&Cell::Missing, &Cell::Int(10), &Cell::Int(0));
    // `layers.*`, its mlp, and the head, of each pass.
    assert_eq!(cells, [none, none, none, some, some, zero]);
}
