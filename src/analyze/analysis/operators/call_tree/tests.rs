//! Trees of small stages, with times that can be added up in the head.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{trace, with_results};
use rooflens_session::Session;

const PASS: PassId = PassId(0);

fn trees(session: &Session, with_operators: bool) -> Vec<Tree> {
    let spans = match with_operators {
        true => Spans::of_operators(session),
        false => Spans::of_modules(session),
    };
    with_results(session, |context| super::trees(context, &spans, PASS))
}

/// `decode` [0, 200) holds layers 0 [10, 100) and 1 [100, 180); layer 0 holds its `mlp` [20, 60). Calls: at 30
/// in the mlp, at 70 in layer 0, at 110 in layer 1, at 190 in none of them.
const DECODE: &str = "
    range decode 0..200
    range model.layers.0 10..100
    range model.layers.0.mlp 20..60
    range model.layers.1 100..180
    launch 30..35 -> gemm 1_000..1_100
    launch 70..75 -> gemm 1_050..1_200
    launch 110..115 -> gemm 1_300..1_400
    launch 190..195 -> gemm 1_500..1_507
";

fn node<'a>(tree: &'a Tree, path: &str) -> &'a Node {
    let at = (0..tree.nodes.len())
        .find(|node| tree.path(*node as u32) == path)
        .unwrap();
    &tree.nodes[at]
}

#[test]
fn spans_of_equal_path_add_up() {
    let all = trees(&trace(DECODE), false);
    let [tree] = &all[..] else { panic!("{all:?}") };
    assert!(tree.has_modules());
    let layers = node(tree, "model.layers.*");
    assert_eq!((layers.sum.calls, layers.names), (2, 2));
    // 90 + 80 on the host, 40 of that in the mlp, two calls of 5.
    assert_eq!(
        (
            layers.sum.host_total,
            layers.sum.host_self,
            layers.sum.host_cuda
        ),
        (Ns(170), Ns(120), Ns(10))
    );
    // 100 + 150 + 100 on the GPU, the mlp's 100 included, of which the first two overlap by 50.
    assert_eq!(
        (layers.sum.within.device, layers.sum.own.device, layers.busy),
        (Ns(350), Ns(250), Ns(300))
    );
    assert_eq!(layers.sum.within.launches, 3);
    let mlp = node(tree, "model.layers.* / mlp");
    assert_eq!(
        (mlp.sum.host_total, mlp.sum.host_self, mlp.sum.host_cuda),
        (Ns(40), Ns(35), Ns(5))
    );
    assert_eq!((mlp.sum.within.device, mlp.busy), (Ns(100), Ns(100)));
    let stage = &tree.nodes[0];
    assert_eq!(
        (
            stage.sum.within.device,
            stage.sum.own.device,
            stage.sum.within.launches
        ),
        (Ns(357), Ns(7), 4)
    );
    // 200 − 170 − the call of 5.
    assert_eq!(
        (stage.sum.host_total, stage.sum.host_self),
        (Ns(200), Ns(25))
    );
}

#[test]
fn a_library_s_ranges_are_no_modules_and_parts_of_stages_neither() {
    let mut session = trace(
        "range decode 0..200
         range decode_step 10..100
         range ncclAllReduce 20..60
         launch 30..35 -> gemm 1_000..1_100",
    );
    session.ranges.domain[2] = session.strings.intern("NCCL");
    let tree = &trees(&session, false)[0];
    assert!(tree.has_inner() && !tree.has_modules());
    assert_eq!(tree.nodes.len(), 2);
    assert_eq!(node(tree, "decode_step").sum.within.device, Ns(100));
}

/// Another thread issues work while the stage's thread waits in `backward`.
#[test]
fn operators_of_another_thread_stand_below_the_range_that_was_lent() {
    let session = trace(
        "range backward 0..200
         thread 2
         operator MmBackward0 20..60
         operator aten::mm 25..55
         launch 30..35 -> gemm 1_000..1_100",
    );
    let tree = &trees(&session, true)[0];
    let product = node(tree, "MmBackward0 / aten::mm");
    assert_eq!(
        (product.sum.own.device, product.sum.within.launches),
        (Ns(100), 1)
    );
    assert_eq!(
        (product.sum.calls, product.sum.host_total),
        (0, Ns::ZERO),
        "its time is not the stage's thread's"
    );
    assert_eq!(
        (tree.nodes[0].sum.within.device, tree.nodes[0].sum.host_self),
        (Ns(100), Ns(200))
    );
}

#[test]
fn module_frames_are_modules_and_other_frames_are_not() {
    let session = trace(
        "range forward 0..200
         frame nn.Module: Block_0 10..90
         frame nn.Module: Block_1 100..190
         frame <built-in> 20..30
         launch 30..35 -> gemm 1_000..1_100",
    );
    let tree = &trees(&session, false)[0];
    assert_eq!(tree.nodes.len(), 2);
    let block = node(tree, "Block");
    assert_eq!(
        (block.names, block.sum.host_total, block.sum.within.device),
        (2, Ns(170), Ns(100))
    );
}

/// Two layers with a product of 2·8·16·32 = 8192 FLOPs each, on kernels of 100 ns and 60 ns, the second with 40 ns of
/// matrix work of unknown sizes next to it.
#[test]
fn flops_belong_to_the_nodes_around_the_kernels_and_say_what_is_not_counted() {
    let session = trace(
        "range forward 0..200
         range layers.0 10..90
         range layers.1 100..190
         operator aten::mm [[8,32],[32,16]] 20..40
         operator aten::mm [[8,32],[32,16]] 110..130
         launch 30..35 -> ampere_sgemm_128x64_tn 1_000..1_100
         launch 120..125 -> ampere_sgemm_128x64_tn 1_100..1_160
         launch 150..155 -> ampere_sgemm_128x64_tn 1_160..1_200",
    );
    for with_operators in [false, true] {
        let tree = &trees(&session, with_operators)[0];
        let layers = node(tree, "layers.*");
        let expected = NodeFlops {
            full: Flops(16_384.0),
            masked: Flops(16_384.0),
            counted: Ns(160),
            uncounted: Ns(40),
        };
        assert_eq!((layers.flops, tree.nodes[0].flops), (expected, expected));
        let own = if with_operators { 0.0 } else { 16_384.0 };
        assert_eq!(layers.flops_self, Flops(own));
    }
    let tree = &trees(&session, true)[0];
    let product = node(tree, "layers.* / aten::mm");
    assert_eq!(
        (product.flops_self, product.flops.counted),
        (Flops(16_384.0), Ns(160))
    );
    assert_eq!(
        (product.sum.within.device, product.flops.uncounted),
        (Ns(160), Ns::ZERO)
    );
    assert!(tree.has_flops());
}

/// A backward pass on another thread and in another stage: its work belongs to the layer of its forward operator too.
#[test]
fn work_of_the_backward_pass_belongs_to_the_nodes_of_its_forward_operators() {
    let session = trace(
        "range forward 0..100
         range layers.0 10..90
         operator aten::mm 20..60
         launch 30..35 -> gemm 1_000..1_100
         range backward 200..300
         thread 2
         operator MmBackward0 210..260
         backward MmBackward0 of aten::mm
         operator aten::mm 215..255
         launch 220..225 -> gemm 1_200..1_270
         launch 270..275 -> gemm 1_300..1_330 // without a forward operator",
    );
    let all = trees(&session, false);
    let [forward, backward] = &all[..] else {
        panic!("{all:?}")
    };
    let layer = node(forward, "layers.*");
    assert_eq!(
        (
            layer.sum.within.device,
            layer.sum.within.backward,
            layer.sum.own.backward
        ),
        (Ns(100), Ns(70), Ns(70))
    );
    assert_eq!(
        (
            forward.nodes[0].sum.within.backward,
            forward.nodes[0].sum.own.backward
        ),
        (Ns(70), Ns::ZERO)
    );
    assert_eq!(
        (
            backward.nodes[0].sum.within.device,
            backward.nodes[0].sum.within.backward
        ),
        (Ns(100), Ns::ZERO)
    );
    assert!(forward.has_backward() && !backward.has_backward());
    let product = node(&trees(&session, true)[0], "layers.* / aten::mm").clone();
    assert_eq!(
        (product.sum.within.backward, product.sum.own.backward),
        (Ns(70), Ns(70))
    );
}

/// A checkpoint: the backward pass computes `aten::mm` again, on its own thread, and then its gradient.
#[test]
fn what_the_backward_pass_computes_again_belongs_to_what_was_checkpointed() {
    let checkpoint = "
        range forward 0..100
        range layers.0 10..90
        operator CheckpointFunction 20..60
        launch 30..35 -> gemm 1_000..1_100
        thread 2
        operator CheckpointFunctionBackward 200..290
        backward CheckpointFunctionBackward of CheckpointFunction
        operator aten::mm 210..220
        launch 212..217 -> gemm 1_200..1_220
        operator MmBackward0 240..260
        backward MmBackward0 of aten::mm
        launch 245..250 -> gemm 1_250..1_257
    ";
    let tree = &trees(&trace(checkpoint), false)[0];
    assert_eq!(node(tree, "layers.*").sum.within.backward, Ns(27));
    // Ties in a circle end.
    let circle = trace(&[checkpoint, "backward MmBackward0 of MmBackward0"].concat());
    assert_eq!(trees(&circle, false).len(), 1);
}

#[test]
fn the_whole_capture_has_the_operators_of_all_threads() {
    let session = trace(
        "operator aten::mm 20..60
         launch 30..35 -> gemm 1_000..1_100
         thread 2
         operator aten::mm 25..55
         launch 35..40 -> gemm 1_100..1_150",
    );
    let tree = &trees(&session, true)[0];
    let product = node(tree, "aten::mm");
    assert_eq!(
        (
            product.sum.calls,
            product.sum.host_total,
            product.sum.within.device
        ),
        (2, Ns(70), Ns(150))
    );
}

#[test]
fn a_pass_whose_stages_hold_little_of_its_time_has_a_tree_of_its_own() {
    let whole_of = |events: &str| {
        let session = trace(&[DECODE, events].concat());
        let spans = Spans::of_operators(&session);
        with_results(&session, |context| {
            whole(context, &spans, PASS, &super::trees(context, &spans, PASS))
        })
    };
    assert_eq!(whole_of(""), None);
    // 1000 ns of work outside of the stage, of an operator in [400, 450), against 357 in it.
    let outside = "operator aten::mm 400..450\nlaunch 410..415 -> gemm 2_000..3_000";
    let tree = whole_of(outside).unwrap();
    assert_eq!(
        (
            tree.nodes[0].sum.within.device,
            node(&tree, "decode").sum.within.device
        ),
        (Ns(1357), Ns(357))
    );
    assert_eq!(node(&tree, "aten::mm").sum.within.device, Ns(1000));
    // The thread's spans go from 0 to 450, with 200 between them.
    assert_eq!(
        (tree.nodes[0].sum.host_total, tree.nodes[0].sum.host_self),
        (Ns(450), Ns(200))
    );
}

#[test]
fn spans_without_end_do_not_grow_a_tree_without_end() {
    let again = |at| format!("range again {at}..{}\n", 2_000 - at);
    let spans: String = (1..900).map(again).collect();
    let launch = "launch 950..955 -> gemm 3_000..3_100";
    let session = trace(&format!("range decode 0..2_000\n{spans}{launch}"));
    let tree = &trees(&session, false)[0];
    assert_eq!(tree.nodes.len() as u32, MAX_DEPTH);
    let deepest = tree.nodes.last().unwrap();
    // The spans below it are its own time: from 47 to 1953, less the call.
    assert_eq!(
        (
            deepest.sum.host_total,
            deepest.sum.host_self,
            deepest.sum.own.device
        ),
        (Ns(1906), Ns(1901), Ns(100))
    );
}
