//! SectionContent about kernels of a small session.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::StageKind;

use super::*;
use crate::testing::{self, column, dataset, english, show_keys};
use rooflens_analysis::engine::facts::{Exclusion, Facts, Stage, StageInstance};
use rooflens_analysis::engine::stage_stats::summarize;
use rooflens_analysis::testing::represent::{self, launch};
use rooflens_analysis::testing::trace;
use rooflens_analysis::{Options, Results};
use rooflens_document::Cell;
use rooflens_hardware::Hardware;
use rooflens_session::{GpuId, ProcessId, Session};

const GEMM: &str = "nvjet_tst_128x64_64x11_1x2_h_bz_TNT";
const FFT: &str = "void regular_fft_factor<64u>(T)";
const SILU: &str =
    "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(T)>(int)";

/// A stage of these instances.
fn decode(instances: std::ops::Range<usize>) -> Stage {
    let (pass, name) = (PassId(0), "decode".to_owned());
    Stage {
        pass,
        name,
        kind: StageKind::Decode,
        parent: None,
        instances,
    }
}

fn content_of(session: &Session, facts: &Facts) -> SectionContent {
    let (hardware, options) = (Hardware::default(), Options::default());
    let context = rooflens_analysis::Context::new(session, facts, &hardware, &options);
    show(&english(&context.with(&Results::compute(&context)))).unwrap()
}

fn metric(content: &SectionContent, id: &str, class: Option<&str>) -> Option<f64> {
    testing::metric(content, id, |scope| scope.class.as_deref() == class)
}

#[test]
fn kernels_are_sorted_by_total_and_shares_are_of_the_pass() {
    // gemm 30 + 30, silu 20, an unknown kernel 20: 100 ns in all.
    let session = trace(&format!(
        "stream 7: {GEMM} 0..30, {SILU} 30..50, {GEMM} 50..80, solver(int) 80..100"
    ));
    let facts = Facts::new(&session);
    let content = content_of(&session, &facts);
    let kernels = dataset(&content, "kernels");
    assert_eq!(
        column(kernels, "total_ns"),
        [Cell::Int(60), Cell::Int(20), Cell::Int(20)]
    );
    assert_eq!(
        column(kernels, "share"),
        [Cell::Float(0.6), Cell::Float(0.2), Cell::Float(0.2)]
    );
    assert_eq!(column(kernels, "count")[0], Cell::Int(2));
    assert_eq!(
        column(kernels, "name")[1],
        Cell::Name("solver(int)".into()),
        "ties by name"
    );
    assert_eq!(metric(&content, "kernel_time", None), Some(100.0));
    assert_eq!(metric(&content, "other_share", None), Some(0.2));
    assert_eq!(content.diagnostics[0].code, "kernels/unclassified");
    let libraries = dataset(&content, "kernel_libraries");
    assert_eq!(
        column(libraries, "library")[0],
        Cell::Text("cuBLASLt".into())
    );
    assert_eq!(
        column(libraries, "total_ns"),
        [Cell::Int(60), Cell::Int(20), Cell::Int(20)]
    );
}

#[test]
fn the_programs_own_kernels_are_named() {
    // 80 of 100 ns in functions of no library, the rest in cuFFT's.
    let session = trace(&format!(
        "stream 7: solver(int) 0..60, probe(int) 60..80, {FFT} 80..100"
    ));
    let facts = Facts::new(&session);
    let content = content_of(&session, &facts);
    assert_eq!(metric(&content, "application_share", None), Some(0.8));
    assert_eq!(metric(&content, "other_share", None), Some(0.0));
    assert!(content.diagnostics.is_empty());
    let prose = show_keys(&SECTION, &session);
    let prose = prose.main.iter().find_map(|block| match block {
        Block::Prose(inlines) => Some(inlines.iter().map(Inline::plain).collect::<String>()),
        _ => None,
    });
    let prose = prose.unwrap();
    assert!(
        prose.starts_with("kernels.application{share=80.0 %, ")
            && prose.ends_with("kernels=solver (60.0 %), probe (20.0 %)}"),
        "{prose}"
    );
}

#[test]
fn class_shares_are_of_the_operations_of_a_stages_instances_without_warm_up() {
    // Instance 0 is warm-up. Instance 1: gemm 60, silu 20, copy 20.
    let session = trace(&format!(
        "stream 7: {GEMM} 0..500, {GEMM} 600..660, {SILU} 660..680, memcpy HtoD 680..700"
    ));
    let mut facts = Facts::new(&session);
    let stage = |ops: &[u32], excluded: Option<Exclusion>| StageInstance {
        ops: ops.to_vec(),
        projection: Some((Ns::ZERO, Ns(700))),
        excluded,
        ..StageInstance::default()
    };
    facts.instances = vec![
        stage(&[0], Some(Exclusion::DeclaredWarmup)),
        stage(&[1, 2, 3], None),
    ];
    facts.stages = vec![decode(0..2)];
    facts.summaries = summarize(&facts);
    let content = content_of(&session, &facts);
    let share = |class| metric(&content, "class_share", Some(class));
    assert_eq!(
        (share("gemm"), share("elementwise"), share("copy")),
        (Some(0.6), Some(0.2), Some(0.2))
    );
    assert_eq!(share("attention"), None, "what does not occur has no share");
    let classes = dataset(&content, "kernel_classes");
    let total = column(classes, "share")
        .into_iter()
        .fold(0.0, |sum, cell| match cell {
            Cell::Float(share) => sum + share,
            _ => sum,
        });
    assert!((total - 1.0).abs() < 1e-12);
}

#[test]
fn ranks_have_classes_of_their_own() {
    // Rank 0: gemm 10 of 40 ns, then communication; rank 1: gemm 10 of 20 ns.
    let session = trace(&format!(
        "stream 7: {GEMM} 0..10, ncclDevKernel_AllReduce_Sum_f32_RING_LL 10..40
         rank 1
         stream 7: {GEMM} 50..60, {SILU} 60..70"
    ));
    let mut facts = Facts::new(&session);
    let instance = |ops: [u32; 2], process, gpu| StageInstance {
        process,
        ops: ops.to_vec(),
        gpus: vec![gpu],
        projection: Some((Ns::ZERO, Ns(70))),
        ..StageInstance::default()
    };
    facts.instances = vec![
        instance([0, 1], ProcessId(0), GpuId(0)),
        instance([2, 3], ProcessId(1), GpuId(1)),
    ];
    facts.stages = vec![decode(0..2)];
    facts.summaries = summarize(&facts);
    let content = content_of(&session, &facts);
    let shares: Vec<(Option<u32>, f64)> = content
        .metrics
        .iter()
        .filter(|one| one.id == "class_share" && one.scope.class.as_deref() == Some("gemm"))
        .map(|one| (one.scope.rank, one.value.number().unwrap()))
        .collect();
    assert_eq!(shares, [(Some(0), 0.25), (Some(1), 0.5)]);
    // As the other data sets of stages, so that rules find a stage's rows in all.
    let stages = column(dataset(&content, "stage_kernels"), "stage");
    assert_eq!(stages[0], Cell::Text("decode · rank 0".into()));
}

#[test]
fn timelines_are_shown_and_other_passes_stay_in_the_data_sets() {
    let session = trace(&format!(
        "pass torch operators
         stream 7: {GEMM} 0..10
         pass nsys timeline
         stream 7: {GEMM} 0..12, {SILU} 12..15"
    ));
    let facts = Facts::new(&session);
    let content = content_of(&session, &facts);
    let tables: Vec<(usize, usize)> = content
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Table(view) if view.dataset == "kernels" => Some((view.skip, view.limit)),
            _ => None,
        })
        .collect();
    assert_eq!(tables, [(1, 2)], "one table, of the timeline's two rows");
    assert_eq!(dataset(&content, "kernels").rows.len(), 3);
}

#[test]
fn nothing_to_show_is_said() {
    let kernels = |session: &Session| {
        let (facts, hardware, options) =
            (Facts::new(session), Hardware::default(), Options::default());
        Results::compute(&rooflens_analysis::Context::new(
            session, &facts, &hardware, &options,
        ))
        .kernels()
        .map(Vec::len)
    };
    let missing = kernels(&Session::default()).unwrap_err();
    assert_eq!(missing.0, "missing.gpu_work");
    assert_eq!(kernels(&trace("stream 7: gemm 0..1")), Ok(1));
}

/// 250 ns of `add` have the counters of a launch on their grid or a near one. A launch on another grid has none: of 450 ns they
/// are most, of 550 they are not.
#[test]
fn a_kernel_has_the_class_of_most_of_its_time() {
    let bound = |more: std::ops::Range<i64>| {
        let mut session = represent::session();
        let add = "void ns::add<(bool)1>(T1)";
        launch(&mut session, PassId(1), add, [2000, 640, 1], more);
        let facts = Facts::new(&session);
        let content = content_of(&session, &facts);
        let kernels = dataset(&content, "stage_kernels");
        let mut names = column(kernels, "short").into_iter();
        let add = names.position(|name| name.plain() == "add").unwrap();
        column(kernels, "bound")[add].plain()
    };
    assert_eq!(bound(1300..1500), "unknown");
    assert_eq!(bound(1300..1600), "");
}
