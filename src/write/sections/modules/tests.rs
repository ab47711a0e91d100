//! What the section of modules shows of which pass.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{column, dataset, show};
use rooflens_analysis::testing::trace;
use rooflens_document::{Cell, View};

const TIMELINE: &str = "pass timeline timeline\n";
const TORCH: &str = "pass torch operators\n";

/// One copy of 10 ns, issued at 35.
const COPY: &str = "cudaMemcpyAsync 35..38 -> memcpy HtoD 100..110\n";

/// Ranges on one thread, and the copy.
const MODULES: &str = "
    range decode 0..90
    range layers.0 10..50
    range layers.0.mlp 20..40
    range head 60..80
    cudaMemcpyAsync 35..38 -> memcpy HtoD 100..110
";

/// What the section shows of events.
fn run_on(events: &[&str]) -> SectionContent {
    show(&SECTION, &trace(&events.concat()))
}

fn views(content: &SectionContent) -> Vec<&View> {
    let mut views = Vec::new();
    for block in &content.blocks {
        if let Block::Table(view) = block {
            views.push(view);
        }
    }
    views
}

fn charts(content: &SectionContent) -> usize {
    content
        .blocks
        .iter()
        .filter(|block| matches!(block, Block::Chart(_)))
        .count()
}

#[test]
fn modules_are_listed_in_the_order_of_their_tree() {
    let content = run_on(&[TIMELINE, MODULES]);
    assert_eq!((views(&content).len(), charts(&content)), (1, 2));
    let data = dataset(&content, "modules");
    // The one copy is of the mlp; the head has no work.
    let paths = ["layers.*", "layers.* / mlp", "head"].map(|path| Cell::Name(path.into()));
    assert_eq!(column(data, "path"), paths);
    assert_eq!(column(data, "device_total_ns")[0], Cell::Int(10));
    assert_eq!(column(data, "device_self_ns")[0], Cell::Int(0));
    // 40 less the 20 of the mlp; 20 less the call's 3.
    assert_eq!(column(data, "host_self_ns")[..2], [20, 17].map(Cell::Int));
}

#[test]
fn a_view_begins_at_the_rows_of_its_stage() {
    // Two passes with modules: the section shows the timeline, which comes second.
    let content = run_on(&[TORCH, MODULES, TIMELINE, MODULES]);
    let [view] = views(&content)[..] else {
        panic!("one table")
    };
    assert_eq!((view.skip, view.limit), (3, 3));
    assert_eq!(
        column(dataset(&content, "modules"), "pass")[3],
        "timeline".into()
    );
}

#[test]
fn stages_alone_are_no_modules() {
    let stage = "range decode 0..90\n";
    assert!(run_on(&[stage, COPY]).blocks.is_empty());
    // Steps make a flame graph, but no table.
    let content = run_on(&[stage, "range decode_step 10..50\n", COPY]);
    assert_eq!((views(&content).len(), charts(&content)), (0, 2));
    assert!(content.datasets.is_empty());
}

#[test]
fn trees_of_passes_with_operators_are_drawn_by_their_section() {
    let content = run_on(&[TORCH, MODULES, "operator aten::copy_ 30..39"]);
    assert_eq!((views(&content).len(), charts(&content)), (1, 0));
}

#[test]
fn backward_work_has_a_column_where_a_pass_tells_it() {
    // Forward within the mlp; its gradient around the copy of 10 ns.
    let backward = "
        operator forward 22..24
        operator gradient 34..39
        backward gradient of forward
    ";
    let content = run_on(&[TIMELINE, MODULES, TORCH, MODULES, backward]);
    let shown = views(&content);
    let [timeline, torch] = &shown[..] else {
        panic!("{} tables", shown.len())
    };
    assert!(!timeline.columns.contains(&"backward_ns") && torch.columns.contains(&"backward_ns"));
    let (none, some, zero) = (Cell::Missing, Cell::Int(10), Cell::Int(0));
    // `layers.*`, its mlp, and the head, of each pass.
    let cells = column(dataset(&content, "modules"), "backward_ns");
    assert_eq!(
        cells,
        [none.clone(), none.clone(), none, some.clone(), some, zero]
    );
}
