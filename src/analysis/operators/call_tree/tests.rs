//! Trees of small stages, with times that can be added up in the head.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::analysis::test_session::call_and_launch;
use crate::analysis::{Facts, Options, Results};
use crate::findings::chart::{Flame, Plot};
use crate::hardware::Hardware;
use crate::model::{
    BackwardOperator, Frame, Operator, OperatorId, Range, RangeKind, Session, ThreadId,
};

const PASS: PassId = PassId(0);

struct Capture {
    session: Session,
    threads: [ThreadId; 2],
}

impl Capture {
    fn new() -> Self {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
        let process = session.process(pass, 1, 1);
        let threads = [session.thread(process, 1), session.thread(process, 2)];
        session.gpu(pass, 0);
        Self { session, threads }
    }

    fn range(&mut self, name: &str, start: Ns, end: Ns) {
        self.range_in("", name, start, end);
    }

    fn range_in(&mut self, domain: &str, name: &str, start: Ns, end: Ns) {
        let (name, domain) = (self.session.intern(name), self.session.intern(domain));
        let (kind, thread) = (RangeKind::PushPop, self.threads[0]);
        let range = Range { start, end, name, domain, kind, unclosed: false, pass: PASS, thread };
        self.session.ranges.push(range);
    }

    fn operator(&mut self, thread: usize, name: &str, start: Ns, end: Ns) -> OperatorId {
        self.operator_of(thread, name, (start, end), "")
    }

    fn operator_of(
        &mut self,
        thread: usize,
        name: &str,
        (start, end): (Ns, Ns),
        shapes: &str,
    ) -> OperatorId {
        let (name, shapes) = (self.session.intern(name), self.session.intern(shapes));
        self.session.operators.push(Operator {
            start,
            end,
            name,
            pass: PASS,
            thread: self.threads[thread],
            external: None,
            shapes,
            types: StrId::default(),
            inputs: StrId::default(),
        })
    }

    /// A call of 5 ns at `at`, and its kernel.
    fn launch(&mut self, thread: usize, at: Ns, kernel: (Ns, Ns)) {
        let of = (PASS, self.threads[thread]);
        call_and_launch(
            &mut self.session,
            of,
            at..at + 5,
            "ampere_sgemm_128x64_tn",
            kernel.0..kernel.1,
        );
    }

    fn with<T>(&self, with_operators: bool, look: impl Fn(&Context<'_>, &[Tree]) -> T) -> T {
        let facts = Facts::new(&self.session);
        let (hardware, options) = (Hardware::default(), Options::default());
        let (session, facts) = (&self.session, &facts);
        let context = Context::new(session, facts, &hardware, &options);
        let results = Results::compute(&context);
        let context = context.with(&results);
        let spans = match with_operators {
            true => Spans::of_operators(&self.session),
            false => Spans::of_modules(&self.session),
        };
        look(&context, &trees(&context, &spans, PASS))
    }

    fn trees(&self, with_operators: bool) -> Vec<Tree> {
        self.with(with_operators, |_, trees| trees.to_vec())
    }
}

/// `decode` [0, 200) holds layers 0 [10, 100) and 1 [100, 180); layer 0 holds its `mlp` [20, 60). Calls: at 30
/// in the mlp, at 70 in layer 0, at 110 in layer 1, at 190 in none of them.
fn decode() -> Capture {
    let mut capture = Capture::new();
    capture.range("decode", 0, 200);
    capture.range("model.layers.0", 10, 100);
    capture.range("model.layers.0.mlp", 20, 60);
    capture.range("model.layers.1", 100, 180);
    capture.launch(0, 30, (1_000, 1_100));
    capture.launch(0, 70, (1_050, 1_200));
    capture.launch(0, 110, (1_300, 1_400));
    capture.launch(0, 190, (1_500, 1_507));
    capture
}

fn node<'a>(tree: &'a Tree, path: &str) -> &'a Node {
    let at = (0..tree.nodes.len()).find(|node| tree.path(*node as u32) == path).unwrap();
    &tree.nodes[at]
}

#[test]
fn spans_of_equal_path_add_up() {
    let trees = decode().trees(false);
    let [tree] = &trees[..] else { panic!("{trees:?}") };
    assert!(tree.has_modules());
    let layers = node(tree, "model.layers.*");
    assert_eq!((layers.entries, layers.names), (2, 2));
    // 90 + 80 on the host, 40 of that in the mlp, two calls of 5.
    assert_eq!((layers.host_total, layers.host_self, layers.host_calls), (170, 120, 10));
    // 100 + 150 + 100 on the GPU, the mlp's 100 included, of which the first two overlap by 50.
    assert_eq!((layers.device_total, layers.device_self, layers.busy), (350, 250, 300));
    assert_eq!(layers.launches, 3);
    let mlp = node(tree, "model.layers.* / mlp");
    assert_eq!((mlp.host_total, mlp.host_self, mlp.host_calls), (40, 35, 5));
    assert_eq!((mlp.device_total, mlp.busy), (100, 100));
    let stage = &tree.nodes[0];
    assert_eq!((stage.device_total, stage.device_self, stage.launches), (357, 7, 4));
    // 200 − 170 − the call of 5.
    assert_eq!((stage.host_total, stage.host_self), (200, 25));
}

#[test]
fn a_library_s_ranges_are_no_modules_and_parts_of_stages_neither() {
    let mut capture = Capture::new();
    capture.range("decode", 0, 200);
    capture.range("decode_step", 10, 100);
    capture.range_in("NCCL", "ncclAllReduce", 20, 60);
    capture.launch(0, 30, (1_000, 1_100));
    let tree = &capture.trees(false)[0];
    assert!(tree.has_inner() && !tree.has_modules());
    assert_eq!(tree.nodes.len(), 2);
    assert_eq!(node(tree, "decode_step").device_total, 100);
}

/// Another thread issues work while the stage's thread waits in `backward`.
#[test]
fn operators_of_another_thread_stand_below_the_range_that_was_lent() {
    let mut capture = Capture::new();
    capture.range("backward", 0, 200);
    capture.operator(1, "MmBackward0", 20, 60);
    capture.operator(1, "aten::mm", 25, 55);
    capture.launch(1, 30, (1_000, 1_100));
    let tree = &capture.trees(true)[0];
    let product = node(tree, "MmBackward0 / aten::mm");
    assert_eq!((product.device_self, product.launches), (100, 1));
    assert_eq!(
        (product.entries, product.host_total),
        (0, 0),
        "its time is not the stage's thread's"
    );
    assert_eq!((tree.nodes[0].device_total, tree.nodes[0].host_self), (100, 200));
}

#[test]
fn module_frames_are_modules_and_other_frames_are_not() {
    let mut capture = Capture::new();
    capture.range("forward", 0, 200);
    for (name, start, end) in
        [("nn.Module: Block_0", 10, 90), ("nn.Module: Block_1", 100, 190), ("<built-in>", 20, 30)]
    {
        let (name, thread) = (capture.session.intern(name), capture.threads[0]);
        capture.session.frames.push(Frame { start, end, name, pass: PASS, thread });
    }
    capture.launch(0, 30, (1_000, 1_100));
    let tree = &capture.trees(false)[0];
    assert_eq!(tree.nodes.len(), 2);
    let block = node(tree, "Block");
    assert_eq!((block.names, block.host_total, block.device_total), (2, 170, 100));
}

/// Two layers with a product of 2·8·16·32 = 8192 FLOPs each, on kernels of 100 ns and 60 ns, the second with 40 ns of
/// matrix work of unknown sizes beside it.
#[test]
fn flops_belong_to_the_nodes_around_the_kernels_and_say_what_is_not_counted() {
    let mut capture = Capture::new();
    capture.range("forward", 0, 200);
    capture.range("layers.0", 10, 90);
    capture.range("layers.1", 100, 190);
    for at in [20, 110] {
        let shapes = "[[8,32],[32,16]]";
        capture.operator_of(0, "aten::mm", (at, at + 20), shapes);
    }
    capture.launch(0, 30, (1_000, 1_100));
    capture.launch(0, 120, (1_100, 1_160));
    capture.launch(0, 150, (1_160, 1_200));
    for with_operators in [false, true] {
        let tree = &capture.trees(with_operators)[0];
        let layers = node(tree, "layers.*");
        let expected = Flops { full: 16_384.0, masked: 16_384.0, counted: 160, uncounted: 40 };
        assert_eq!((layers.flops, tree.nodes[0].flops), (expected, expected));
        let own = if with_operators { 0.0 } else { 16_384.0 };
        assert_eq!(layers.flops_self, own);
    }
    let tree = &capture.trees(true)[0];
    let product = node(tree, "layers.* / aten::mm");
    assert_eq!((product.flops_self, product.flops.counted), (16_384.0, 160));
    assert_eq!((product.device_total, product.flops.uncounted), (160, 0));
    assert!(tree.has_flops());
}

/// A backward pass on another thread and in another stage: its work belongs to the layer of its forward operator too.
#[test]
fn work_of_the_backward_pass_belongs_to_the_nodes_of_its_forward_operators() {
    let mut capture = Capture::new();
    capture.range("forward", 0, 100);
    capture.range("layers.0", 10, 90);
    let forward = capture.operator(0, "aten::mm", 20, 60);
    capture.launch(0, 30, (1_000, 1_100));
    capture.range("backward", 200, 300);
    let operator = capture.operator(1, "MmBackward0", 210, 260);
    capture.session.backward_operators.push(BackwardOperator { operator, forward });
    capture.operator(1, "aten::mm", 215, 255);
    capture.launch(1, 220, (1_200, 1_270));
    // Work without a forward operator.
    capture.launch(1, 270, (1_300, 1_330));
    let trees = capture.trees(false);
    let [forward, backward] = &trees[..] else { panic!("{trees:?}") };
    let layer = node(forward, "layers.*");
    assert_eq!((layer.device_total, layer.backward, layer.backward_self), (100, 70, 70));
    assert_eq!((forward.nodes[0].backward, forward.nodes[0].backward_self), (70, 0));
    assert_eq!((backward.nodes[0].device_total, backward.nodes[0].backward), (100, 0));
    assert!(forward.has_backward() && !backward.has_backward());
    let product = node(&capture.trees(true)[0], "layers.* / aten::mm").clone();
    assert_eq!((product.backward, product.backward_self), (70, 70));
}

/// A checkpoint: the backward pass computes `aten::mm` again, on its own thread, and then its gradient.
#[test]
fn what_the_backward_pass_computes_again_belongs_to_what_was_checkpointed() {
    let mut capture = Capture::new();
    capture.range("forward", 0, 100);
    capture.range("layers.0", 10, 90);
    let checkpoint = capture.operator(0, "CheckpointFunction", 20, 60);
    capture.launch(0, 30, (1_000, 1_100));
    let outer = capture.operator(1, "CheckpointFunctionBackward", 200, 290);
    let again = capture.operator(1, "aten::mm", 210, 220);
    capture.launch(1, 212, (1_200, 1_220));
    let inner = capture.operator(1, "MmBackward0", 240, 260);
    capture.launch(1, 245, (1_250, 1_257));
    let ties = &mut capture.session.backward_operators;
    ties.push(BackwardOperator { operator: outer, forward: checkpoint });
    ties.push(BackwardOperator { operator: inner, forward: again });
    let tree = &capture.trees(false)[0];
    assert_eq!(node(tree, "layers.*").backward, 27);
    // Ties in a circle end.
    capture.session.backward_operators.push(BackwardOperator { operator: inner, forward: inner });
    assert_eq!(capture.trees(false).len(), 1);
}

#[test]
fn the_whole_capture_has_the_operators_of_all_threads() {
    let mut capture = Capture::new();
    capture.operator(0, "aten::mm", 20, 60);
    capture.operator(1, "aten::mm", 25, 55);
    capture.launch(0, 30, (1_000, 1_100));
    capture.launch(1, 35, (1_100, 1_150));
    let tree = &capture.trees(true)[0];
    let product = node(tree, "aten::mm");
    assert_eq!((product.entries, product.host_total, product.device_total), (2, 70, 150));
}

#[test]
fn a_pass_whose_stages_hold_little_of_its_time_has_a_tree_of_its_own() {
    let mut capture = decode();
    let whole_of = |capture: &Capture| {
        capture.with(true, |context, trees| {
            whole(context, &Spans::of_operators(&capture.session), PASS, trees)
        })
    };
    assert_eq!(whole_of(&capture), None);
    // 1000 ns of work outside of the stage, of an operator in [400, 450), against 357 in it.
    capture.operator(0, "aten::mm", 400, 450);
    capture.launch(0, 410, (2_000, 3_000));
    let tree = whole_of(&capture).unwrap();
    assert_eq!((tree.nodes[0].device_total, node(&tree, "decode").device_total), (1357, 357));
    assert_eq!(node(&tree, "aten::mm").device_total, 1000);
    // The thread's spans go from 0 to 450, with 200 between them.
    assert_eq!((tree.nodes[0].host_total, tree.nodes[0].host_self), (450, 200));
}

#[test]
fn spans_without_end_do_not_grow_a_tree_without_end() {
    let mut capture = Capture::new();
    capture.range("decode", 0, 2_000);
    (1..900).for_each(|at| capture.range("again", at, 2_000 - at));
    capture.launch(0, 950, (3_000, 3_100));
    let tree = &capture.trees(false)[0];
    assert_eq!(tree.nodes.len() as u32, MAX_DEPTH);
    let deepest = tree.nodes.last().unwrap();
    // The spans below it are its own time: from 47 to 1953, less the call.
    assert_eq!((deepest.host_total, deepest.host_self, deepest.device_self), (1906, 1901, 100));
}

fn flame(chart: Option<crate::findings::Chart>) -> Flame {
    match chart.unwrap().plot {
        Plot::Flame(flame) => flame,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_lie_within_the_frames_that_call_them() {
    let capture = decode();
    let [device, host] = capture.with(false, |context, trees| {
        let id = || "flame".to_owned();
        [flame::of_device(context, &trees[0], id()), flame::of_host(context, &trees[0], id())]
            .map(flame)
    });
    let frames = |flame: &Flame| -> Vec<(String, u32, f64, f64)> {
        let one = |frame: &crate::findings::chart::FlameFrame| {
            (frame.label.clone(), frame.depth, frame.start, frame.time)
        };
        flame.frames.iter().map(one).collect()
    };
    let kernel = device.frames.iter().find(|frame| frame.part.is_some()).unwrap().label.clone();
    let expected = [
        ("decode", 0, 0.0, 357.0),
        ("model.layers.*", 1, 0.0, 350.0),
        (&*kernel, 2, 0.0, 250.0),
        ("mlp", 2, 250.0, 100.0),
        (&*kernel, 3, 250.0, 100.0),
        (&*kernel, 1, 350.0, 7.0),
    ];
    assert_eq!(
        frames(&device),
        expected.map(|(name, row, at, time)| (name.to_owned(), row, at, time))
    );
    assert_eq!(host.total, 200.0);
    // Calls of layers, of the mlp, of the stage.
    let calls = host.frames.iter().filter(|frame| frame.part.is_some()).map(|frame| frame.time);
    assert_eq!(calls.sum::<f64>(), 20.0);
}

#[test]
fn narrow_frames_are_merged_and_keep_their_time() {
    let mut capture = Capture::new();
    capture.range("decode", 0, 2_000);
    for at in 0..100 {
        // Names that do not fold.
        capture.range(&format!("part{at}x"), 10 * at, 10 * at + 10);
        let time = if at == 0 { 90_000 } else { 100 };
        let start = 100_000 * (at + 1);
        capture.launch(0, 10 * at + 1, (start, start + time));
    }
    let device = capture.with(false, |context, trees| {
        flame(flame::of_device(context, &trees[0], "flame".to_owned()))
    });
    // 99 ranges of 100 ns each are 0.1 % of 99 900 ns, and 9.9 % together.
    let merged = device.frames.iter().find(|frame| frame.label == "99 more").unwrap();
    assert_eq!((merged.depth, merged.start, merged.time), (1, 90_000.0, 9_900.0));
    assert_eq!(device.frames.len(), 4);
}
