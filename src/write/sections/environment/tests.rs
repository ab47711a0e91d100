//! Sessions with a GPU, known or not.

use super::*;
use crate::testing::{column, dataset, show_keys, show_on};
use rooflens_document::Cell;
use rooflens_hardware::Hardware;
use rooflens_session::{MeasuredPeak, Session};

fn content(session: &Session) -> SectionContent {
    show_on(&SECTION, session, &Hardware::builtin())
}

fn with_gpu(name: &str) -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
    let gpu = session.gpu(pass, 0);
    session.gpus.name[gpu.index()] = session.intern(name);
    session
}

#[test]
fn a_pass_without_gpus_says_that_its_gpu_is_unknown() {
    assert_eq!(
        content(&Session::default()).blocks.len(),
        0,
        "nothing to tell of nothing"
    );
    let mut session = Session::default();
    session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
    let found = show_keys(&SECTION, &session);
    let Some(Block::Facts(facts)) = found.blocks.first() else {
        panic!("no facts")
    };
    assert_eq!(facts[0].1, prose!["environment.no_gpu"]);
}

#[test]
fn measured_peaks_stand_next_to_the_dense_specification() {
    let mut session = with_gpu("NVIDIA H200");
    let (gpu, artifact) = (session.intern("NVIDIA H200"), session.intern("peaks.json"));
    for (what, median) in [("bf16", 791.52e12), ("copy", 4.2e12)] {
        let what = session.intern(what);
        session.measured_peaks.push(MeasuredPeak {
            gpu,
            what,
            median,
            min: None,
            max: None,
            artifact,
        });
    }
    let found = content(&session);
    let peaks = dataset(&found, "peaks");
    let types = column(peaks, "dtype");
    let row = |dtype: &str| types.iter().position(|own| *own == Cell::from(dtype));
    let of = |row: usize, id: &str| column(peaks, id)[row].clone();
    let bf16 = row("bf16").expect("bf16");
    assert_eq!(of(bf16, "dense_flop_per_s"), Cell::Float(989.4e12));
    assert_eq!(of(bf16, "measured_flop_per_s"), Cell::Float(791.52e12));
    // 791.52 / 989.4 = 0.8.
    assert_eq!(of(bf16, "ratio"), Cell::Float(0.8));
    let fp64 = row("fp64").expect("fp64");
    assert_eq!(of(fp64, "measured_flop_per_s"), Cell::Missing);
    assert_eq!(of(fp64, "ratio"), Cell::Missing);
    let bandwidths = dataset(&found, "bandwidths");
    assert_eq!(
        column(bandwidths, "specified_bytes_per_s")[0],
        Cell::Float(4.8e12)
    );
    assert_eq!(
        column(bandwidths, "measured_bytes_per_s")[0],
        Cell::Float(4.2e12)
    );
    // 4.2 / 4.8 = 0.875.
    assert_eq!(column(bandwidths, "ratio")[0], Cell::Float(0.875));
}

#[test]
fn an_unknown_gpu_has_no_peaks_and_says_so() {
    let found = content(&with_gpu("NVIDIA GeForce RTX 4090 Laptop GPU"));
    let missing = found.blocks.iter().any(|block| match block {
        Block::Missing(reason) => reason.contains("RTX 4090 Laptop GPU"),
        _ => false,
    });
    assert!(missing);
    assert!(dataset(&found, "peaks").rows.is_empty());
}

#[test]
fn equal_values_are_said_once_and_others_side_by_side() {
    let mut session = with_gpu("NVIDIA H200");
    session.add_fact("a.xml", "driver", "version", "580.1");
    session.add_fact("b.xml", "driver", "version", "580.1");
    session.add_fact("c.json", "driver", "version", "570.9");
    let found = content(&session);
    let Some(Block::Facts(facts)) = found.blocks.first() else {
        panic!("no facts")
    };
    let driver = facts
        .iter()
        .find(|(title, _)| title == "Driver")
        .expect("driver");
    assert_eq!(driver.1, prose!["580.1, 570.9"]);
}
