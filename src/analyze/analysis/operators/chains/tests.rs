//! Groups of a few kernels on an H100: 3.35 TB/s, 989.4 TFLOP/s in bf16.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::trace;
use crate::{Facts, Options, Results};
use rooflens_hardware::Hardware;

pub(super) const ADD: &str = "vectorized_elementwise_kernel";
pub(super) const SUM: &str = "reduce_kernel";
pub(super) const COPY: &str = "direct_copy_kernel";
pub(super) const INDEX: &str = "index_elementwise_kernel";
pub(super) const SOFTMAX: &str = "softmax_warp_forward";

/// An operator with its inputs, its kernel, and the kernel's time in microseconds.
pub(super) type Step<'a> = (&'a str, &'a str, i64);

/// The events of one iteration from `start` on, microseconds: operators every 10 µs, kernels without gaps.
pub(super) fn events(range: &str, start: i64, steps: &[Step<'_>]) -> String {
    let mut text = String::new();
    let (mut call, mut gpu) = (start + 1, start + 2);
    for (operator, kernel, time) in steps {
        let (launch, end) = (call + 1, gpu + time);
        text += &format!(
            "operator {operator} {call}us..{}us
             launch {launch}us..{}us -> {kernel} {gpu}us..{end}us\n",
            call + 9,
            launch + 2,
        );
        (call, gpu) = (call + 10, end);
    }
    text + &format!("range {range} {start}us..{call}us\n")
}

/// The groups of one stage, and of what lies outside of stages.
pub(super) fn chains(text: &str) -> Chains {
    let session = trace(&format!("pass torch operators\n{text}"));
    let (facts, hardware) = (Facts::new(&session), Hardware::builtin());
    let options = Options {
        gpu: Some("H100 SXM".to_owned()),
        ..Options::default()
    };
    let context = Context::new(&session, &facts, &hardware, &options);
    let results = Results::some(&context, &["backward", "chains"]);
    results.chains().unwrap().clone()
}

pub(super) fn of_step(steps: &[Step<'_>]) -> Place {
    chains(&events("step", 0, steps)).places[0].clone()
}

/// Kinds of groups, their number, and their kernels.
pub(super) fn kinds(place: &Place) -> Vec<(ChainKind, f64, f64)> {
    let groups = place.groups.iter();
    groups
        .map(|group| (group.kind, group.chains.0, group.kernels.0))
        .collect()
}

pub(super) fn near(time: Time, microseconds: f64) -> bool {
    (time.0 / 1e3 - microseconds).abs() < 0.05
}

#[test]
fn elementwise_kernels_on_the_same_elements_are_a_chain() {
    let place = of_step(&[
        (
            "aten::add [[16384,1024],[16384,1024]] c10::BFloat16",
            ADD,
            100,
        ),
        ("aten::mul [[16384,1024],[1024]] c10::BFloat16", ADD, 100),
        ("aten::tanh [[16384,1024]] c10::BFloat16", ADD, 100),
    ]);
    assert_eq!(kinds(&place), [(ChainKind::Pointwise, 1.0, 3.0)]);
    let group = &place.groups[0];
    assert_eq!(group.example.operators, "add → mul → tanh");
    assert_eq!(group.example.sizes, "16384 × 1024");
    assert_eq!(group.removed, Count(2.0));
    // Read and written once: 2 · 16384 · 1024 · 2 bytes, and a row of 2 kB, at 3.35 TB/s.
    assert!(near(group.bound.unwrap(), 20.03), "{:?}", group.bound);
    assert!(near(group.saved().unwrap(), 279.97));
    assert_eq!(place.share(group.time), Ratio::ONE);
}

#[test]
fn two_kernels_or_other_elements_are_no_chain() {
    let add = ("aten::add [[512,64],[512,64]] float", ADD, 10);
    let other = ("aten::add [[512,32],[512,32]] float", ADD, 10);
    assert_eq!(of_step(&[add, add]).groups, []);
    assert_eq!(of_step(&[add, add, other, add]).groups, []);
    let gemm = ("aten::mm [[512,64],[64,64]] float", "gemm", 10);
    assert_eq!(of_step(&[add, add, gemm, add, add]).groups, []);
    // A kernel that no operator launches, such as of Triton, ends a chain.
    assert_eq!(of_step(&[add, add, ("triton", ADD, 10), add]).groups, []);
    assert_eq!(
        kinds(&of_step(&[add; 3])),
        [(ChainKind::Pointwise, 1.0, 3.0)]
    );
}

#[test]
fn chains_end_with_the_iteration() {
    let add = ("aten::add [[512,64],[512,64]] float", ADD, 10);
    let text = events("step", 0, &[add; 2]) + &events("step", 1000, &[add; 2]);
    assert_eq!(chains(&text).places[0].groups, []);
    let text = events("step", 0, &[add; 3]) + &events("step", 1000, &[add; 3]);
    let place = &chains(&text).places[0];
    assert_eq!(kinds(place), [(ChainKind::Pointwise, 2.0, 6.0)]);
    assert_eq!(place.instances(), 2.0);
}

#[test]
fn a_norm_is_a_chain_with_a_reduction_and_a_root() {
    let place = of_step(&[
        (
            "aten::copy_ [[8192,2048],[8192,2048]] float,c10::BFloat16",
            COPY,
            50,
        ),
        ("aten::pow [[8192,2048]] float", ADD, 50),
        ("aten::mean [[8192,2048]] float", SUM, 30),
        ("aten::add [[8192,1]] float", ADD, 1),
        ("aten::rsqrt [[8192,1]] float", ADD, 1),
        ("aten::mul [[8192,2048],[8192,1]] float", ADD, 60),
        (
            "aten::copy_ [[8192,2048],[8192,2048]] c10::BFloat16,float",
            COPY,
            30,
        ),
        ("aten::mul [[2048],[8192,2048]] c10::BFloat16", ADD, 50),
    ]);
    assert_eq!(kinds(&place), [(ChainKind::Norm, 1.0, 8.0)]);
    // The input in bf16, 8192 sums in fp32 that no operator is seen to write, and the output in bf16. The weight has
    // another size and is read, too: 67 108 864 + 32 768 + 4 096 bytes.
    let bound = place.groups[0].bound.unwrap();
    assert!(near(bound, 20.04), "{bound:?}");
    assert_eq!(place.groups[0].time, Time(272_000.0));
}

#[test]
fn small_tensors_stay_in_the_cache() {
    let place = of_step(&[("aten::add [[512,64],[512,64]] float", ADD, 10); 4]);
    // No kernel is shorter than 1 µs.
    assert_eq!(place.groups[0].saved(), Some(Time(39_000.0)));
}

#[test]
fn attention_is_two_products_around_a_softmax() {
    let place = of_step(&[
        (
            "aten::bmm [[96,2048,64],[96,64,2048]] c10::BFloat16",
            "gemm",
            300,
        ),
        ("aten::mul [[8,12,2048,2048]] c10::BFloat16", ADD, 500),
        (
            "aten::_softmax [[8,12,2048,2048]] c10::BFloat16",
            SOFTMAX,
            900,
        ),
        (
            "aten::copy_ [[8,12,2048,64],[8,12,2048,64]] c10::BFloat16",
            COPY,
            40,
        ),
        (
            "aten::bmm [[96,2048,2048],[96,2048,64]] c10::BFloat16",
            "gemm",
            300,
        ),
        ("aten::mm [[16384,768],[768,768]] c10::BFloat16", "gemm", 30),
    ]);
    assert_eq!(kinds(&place), [(ChainKind::Attention, 1.0, 4.0)]);
    let group = &place.groups[0];
    assert_eq!(group.time, Time(2_000_000.0));
    // 4 · 96 · 2048² · 64 = 103.08 GFLOP at 989.4 TFLOP/s take longer than 4 · 96 · 2048 · 64 · 2 = 100.7 MB.
    assert!(near(group.bound.unwrap(), 104.18), "{:?}", group.bound);
}

#[test]
fn a_softmax_without_products_is_no_attention() {
    let place = of_step(&[
        ("aten::mm [[64,128],[128,1000]] float", "gemm", 10),
        ("aten::_softmax [[64,1000]] float", SOFTMAX, 10),
        ("aten::mm [[64,128],[128,128]] float", "gemm", 10),
    ]);
    assert_eq!(place.groups, []);
}

#[test]
fn copies_repeat_transpose_or_convert() {
    // Four heads of each key: the stride of that axis is 0.
    let expand = "aten::copy_ [[16,8,4,4096,128],[16,8,4,4096,128]] c10::BFloat16 \
                  [[16777216,2097152,524288,128,1],[4194304,524288,0,128,1]]";
    let channels = "aten::copy_ [[8,64,32,32],[8,64,32,32]] c10::Half \
                    [[65536,1024,32,1],[65536,1,2048,64]]";
    let transpose = "aten::copy_ [[64,32],[64,32]] float [[32,1],[1,64]]";
    let cast = "aten::copy_ [[64,32],[64,32]] c10::BFloat16,float [[32,1],[32,1]]";
    let same = "aten::copy_ [[64,32],[64,32]] float [[32,1],[32,1]]";
    let mm = ("aten::mm [[7,5],[5,3]] float", "gemm", 10);
    let copies = [expand, channels, transpose, cast, same];
    let steps: Vec<Step<'_>> = copies
        .iter()
        .flat_map(|copy| [(*copy, COPY, 20), mm])
        .collect();
    let place = of_step(&steps);
    let found = [
        ChainKind::Repeat,
        ChainKind::Channels,
        ChainKind::Transpose,
        ChainKind::Cast,
    ];
    assert_eq!(kinds(&place), found.map(|kind| (kind, 1.0, 1.0)));
    assert_eq!(place.groups[0].example.factor, Some(Count(4.0)));
    for group in &place.groups {
        assert_eq!(group.saved(), Some(Time(20_000.0)), "{:?}", group.kind);
    }
    let cast = &place.groups[3].example;
    assert_eq!((cast.from.name, cast.to.name), ("fp32", "bf16"));
}

/// A converted weight of 67.1 MB, which 3.35 TB/s reads in 20.07 µs with an input of 131 kB.
#[test]
fn a_reader_that_memory_bounds_waits_for_what_a_conversion_writes() {
    let cast = "aten::copy_ [[4096,8192],[4096,8192]] c10::BFloat16,float [[8192,1],[8192,1]]";
    let mm = "aten::mm [[16,4096],[4096,8192]] c10::BFloat16,c10::BFloat16";
    let saved = |time| {
        let place = of_step(&[(cast, COPY, 60), (mm, "gemm", time)]);
        place.group(ChainKind::Cast).unwrap().saved().unwrap()
    };
    assert!(near(saved(28), 60.0 + 28.0 - 20.07));
    // One that computes for twice as long is bound by its rate.
    assert!(near(saved(41), 60.0));
    assert!(near(saved(20), 60.0));
}

#[test]
fn conversions_know_the_operator_that_fixes_a_layout() {
    let convolution = "aten::cudnn_convolution [[8,64,32,32],[64,64,3,3]] float,float";
    let norm = "aten::native_group_norm [[8,64,32,32],[64],[64]] float,float,float";
    let converted = |between: (&'static str, &'static str, i64)| {
        let place = of_step(&[
            (convolution, "sm80_xmma_fprop_nhwckrsc_nhwc", 30),
            (convolution, "nhwcToNchwKernel", 10),
            between,
            (convolution, "nchwToNhwcKernel", 10),
            (convolution, "sm80_xmma_fprop_nhwckrsc_nhwc", 30),
        ]);
        let group = place.group(ChainKind::Channels).unwrap();
        assert_eq!((group.removed, group.within), (Count(2.0), Count(2.0)));
        group.fixed.is_some()
    };
    assert!(converted((norm, "RowwiseMomentsCUDAKernel", 10)));
    let add = "aten::add_ [[8,64,32,32],[8,64,32,32]] float,float";
    assert!(!converted((add, "vectorized_elementwise_kernel", 10)));
}

#[test]
fn attention_that_reads_repeated_keys_saves_their_bytes() {
    let copy = "aten::copy_ [[16,8,4,4096,128],[16,8,4,4096,128]] c10::BFloat16 \
                [[16777216,2097152,524288,128,1],[4194304,524288,0,128,1]]";
    let attention = "aten::_flash_attention_forward \
                     [[16,32,1,128],[16,32,4096,128],[16,32,4096,128]] \
                     c10::BFloat16,c10::BFloat16,c10::BFloat16";
    let place = of_step(&[
        (copy, COPY, 560),
        (copy, COPY, 560),
        (attention, "flash_fwd", 360),
    ]);
    // Keys and values without repeats: 2 · 16 · 8 · 4096 · 128 · 2 bytes = 268 MB, and queries of 131 kB: 80.2 µs.
    let saved = place.group(ChainKind::Repeat).unwrap().saved().unwrap();
    assert!(near(saved, 560.0 + 560.0 + 360.0 - 80.16), "{saved:?}");
}

#[test]
fn compiled_kernels_repeat_keys_for_attention() {
    let expand = "triton_poi_fused_clone_expand_unsqueeze_view_5 \
                  [[8,8,8320,128],[8,16,8320,128]] c10::BFloat16,c10::BFloat16";
    let attention = "aten::_scaled_dot_product_cudnn_attention \
                     [[8,16,1,128],[8,16,8320,128],[8,16,8320,128]] \
                     c10::BFloat16,c10::BFloat16,c10::BFloat16";
    let kernel = "triton_poi_fused_clone_expand_unsqueeze_view_5";
    let steps = [
        (expand, kernel, 112),
        (expand, kernel, 112),
        (attention, "cudnn_sdpa", 200),
    ];
    let place = of_step(&steps);
    let group = place.group(ChainKind::Repeat).unwrap();
    assert_eq!(
        (group.chains, group.example.factor),
        (Count(2.0), Some(Count(2.0)))
    );
    // Keys and values once: 2 · 8 · 8 · 8320 · 128 · 2 bytes = 272.6 MB, and queries of 32.8 kB: 81.39 µs.
    let saved = group.saved().unwrap();
    assert!(near(saved, 112.0 + 112.0 + 200.0 - 81.39), "{saved:?}");
    // Nothing reads the result in place of the repeated tensor.
    let place = of_step(&[
        (expand, kernel, 14),
        ("aten::mm [[7,5],[5,3]] float", "gemm", 10),
    ]);
    assert!(place.group(ChainKind::Repeat).is_none());
}

#[test]
fn independent_products_in_a_row_are_a_loop() {
    let product = ("aten::mm [[64,128],[128,128]] c10::BFloat16", "gemm", 3);
    let cat = ("aten::cat [[],[]] TensorList", "CatArrayBatchedCopy", 2);
    let norm = |rows: &'static str| (rows, "layer_norm_kernel", 8);
    let row = |count: usize, steps: &[Step<'static>]| {
        let mut list = vec![product; count];
        list.extend(steps);
        kinds(&of_step(&list))
    };
    let joined = norm("aten::native_layer_norm [[8,64,128]] c10::BFloat16");
    // A batch needs no copy that joins its results.
    assert_eq!(row(8, &[cat, joined]), [(ChainKind::Gemms, 1.0, 9.0)]);
    assert_eq!(row(7, &[cat, joined]), []);
    // The trace ends before a kernel reads the results of the second row: it is as the first.
    let mut rows = vec![product; 8];
    rows.extend([cat, joined]);
    rows.extend(vec![product; 8]);
    rows.push(cat);
    assert_eq!(kinds(&of_step(&rows)), [(ChainKind::Gemms, 2.0, 18.0)]);
    // Each may read the result of the one before.
    let last = norm("aten::native_layer_norm [[64,128]] c10::BFloat16");
    assert_eq!(row(8, &[last]), []);
    // A product with other columns than rows of its weight cannot be read by the same.
    let narrow = ("aten::mm [[64,128],[128,64]] c10::BFloat16", "gemm", 3);
    assert_eq!(
        kinds(&of_step(&[narrow; 8])),
        [(ChainKind::Gemms, 1.0, 8.0)]
    );
    // 8 products of 2 · 8192³ FLOPs take 8.9 ms at the roofline: a batch saves little.
    let large = (
        "aten::mm [[8192,8192],[8192,4096]] c10::BFloat16",
        "gemm",
        700,
    );
    assert_eq!(of_step(&[large; 8]).groups, []);
}

#[test]
fn a_loop_over_experts_picks_rows_between_products() {
    let pick = ("aten::index [[2048,512]] c10::BFloat16", INDEX, 2);
    let up = ("aten::mm [[32,512],[512,1024]] c10::BFloat16", "gemm", 4);
    let down = ("aten::mm [[32,1024],[1024,512]] c10::BFloat16", "gemm", 4);
    let steps: Vec<Step<'_>> = [pick, up, down].repeat(16);
    let place = of_step(&steps);
    // From the first product to the last: 46 of 48 kernels, and 16/15 of that for the ends.
    let group = place.group(ChainKind::Experts).unwrap();
    assert_eq!(group.chains, Count(1.0));
    assert_eq!(group.example.factor, Some(Count(16.0)));
    assert!((group.kernels.0 - 46.0 * 16.0 / 15.0).abs() < 1e-9);
    // Layers are no experts: nothing is picked between their products.
    let gelu = ("aten::gelu [[32,1024]] c10::BFloat16", ADD, 2);
    assert_eq!(of_step(&[up, gelu, down].repeat(16)).groups, []);
}

#[test]
fn rows_that_meet_at_few_addresses_contend() {
    let add = "aten::index_add_ [[4,64],[],[262144],[262144,64]] float,Scalar,long,float";
    let place = of_step(&[(add, INDEX, 640)]);
    let group = place.group(ChainKind::Atomics).unwrap();
    assert_eq!(group.example.factor, Some(Count(65_536.0)));
    // 262144 · 64 · 4 bytes = 67.1 MB.
    assert!(near(group.bound.unwrap(), 20.03), "{:?}", group.bound);
    // As fast as four times the bytes allow, or many addresses.
    assert_eq!(of_step(&[(add, INDEX, 80)]).groups, []);
    let many = "aten::index_add_ [[8192,64],[],[262144],[262144,64]] float,Scalar,long,float";
    assert_eq!(of_step(&[(many, INDEX, 640)]).groups, []);
}

#[test]
fn fp64_takes_twice_the_bytes() {
    let place = of_step(&[
        ("aten::sub [[32768,1],[1024]] float,double", ADD, 200),
        ("aten::add [[32768,1024],[]] float,double", ADD, 100),
    ]);
    assert_eq!(kinds(&place), [(ChainKind::Fp64, 1.0, 1.0)]);
    let group = &place.groups[0];
    assert_eq!(group.example.from.name, "fp32");
    // The result in fp32: 32768 · 1024 · 4 bytes = 134 MB; the inputs are small.
    assert!(near(group.bound.unwrap(), 40.08), "{:?}", group.bound);
}

#[test]
fn an_optimizer_with_kernels_for_each_parameter_is_a_loop() {
    let update = (
        "aten::addcdiv_ [[256,512],[256,512],[256,512]] float,float,float",
        ADD,
        2,
    );
    let step = |steps: &[Step<'_>]| {
        let place = chains(&events("Optimizer.step#Adam.step", 0, steps));
        place.places.iter().flat_map(kinds).collect::<Vec<_>>()
    };
    assert_eq!(step(&[update; 48]), [(ChainKind::Optimizer, 1.0, 48.0)]);
    let is_optimizer = |kinds: &[(ChainKind, f64, f64)]| {
        kinds.iter().any(|(kind, ..)| *kind == ChainKind::Optimizer)
    };
    assert!(!is_optimizer(&step(&[update; 47])));
    let joint = (
        "aten::_foreach_add_ [[256,512]] float",
        "multi_tensor_apply_kernel",
        2,
    );
    let mut steps = vec![update; 40];
    steps.extend([joint; 20]);
    assert!(!is_optimizer(&step(&steps)));
    // The first step fills the state of each parameter.
    let mut steps = vec![("aten::fill_ [[256,512],[]] float,Scalar", ADD, 2); 108];
    steps.extend([joint; 3]);
    assert!(!is_optimizer(&step(&steps)));
}

#[test]
fn without_sizes_there_is_no_result() {
    let session = trace("pass torch operators\noperator aten::add 0..10\nlaunch 1..2 -> add 3..9");
    let (facts, hardware, options) = (
        Facts::new(&session),
        Hardware::builtin(),
        Options::default(),
    );
    let context = Context::new(&session, &facts, &hardware, &options);
    assert_eq!(compute(&context), Err(Missing("missing.operators")));
}

/// The groups of a stage of a timeline without operators: kernels with grids, 1 µs each unless they have times.
pub(super) fn by_names(kernels: &[(&str, u32, i64)]) -> Vec<(ChainKind, f64, Time)> {
    let mut text = String::from("range step 0..9_000us\n");
    let mut time = 1;
    for (kernel, blocks, duration) in kernels {
        let end = time + duration;
        text += &format!(
            "launch {time}us..{time}us -> {kernel} <<<{blocks},128>>> {time}us..{end}us\n"
        );
        time = end;
    }
    let session = trace(&text);
    let (facts, hardware) = (Facts::new(&session), Hardware::builtin());
    let options = Options {
        gpu: Some("H100 SXM".to_owned()),
        ..Options::default()
    };
    let context = Context::new(&session, &facts, &hardware, &options);
    let Ok(chains) = compute(&context) else {
        return Vec::new();
    };
    assert!(chains.by_names);
    let groups = chains.places.iter().flat_map(|place| &place.groups);
    groups
        .map(|group| (group.kind, group.kernels.0, group.saved().unwrap()))
        .collect()
}

const POW: &str = "at::native::vectorized_elementwise_kernel<4,at::native::pow_kernel>";
const RSQRT: &str = "at::native::vectorized_elementwise_kernel<4,at::native::rsqrt_kernel_cuda>";
pub(super) const MUL: &str = "at::native::elementwise_kernel<128, 2,at::native::MulFunctor>";
const MEAN: &str = "at::native::reduce_kernel<512,at::native::MeanOps>";
const TO_BF16: &str =
    "at::native::vectorized_elementwise_kernel<4,at::native::bfloat16_copy_kernel_cuda>";
const TRANSPOSE: &str =
    "at::native::elementwise_kernel<128, 4,at::native::direct_copy_kernel_cuda>";
const ADDCDIV: &str =
    "at::native::vectorized_elementwise_kernel<4,at::native::addcdiv_cuda_kernel>";

#[test]
fn names_and_grids_show_chains_without_operators() {
    // 16384 · 1024 and 65536 · 256 elements are the same. The shortest of three on all elements takes 40 µs, the fused
    // kernel half of that: 200 − 20 µs.
    let norm = [
        (POW, 16_384, 50),
        (MEAN, 512, 30),
        (RSQRT, 8, 10),
        (MUL, 65_536, 70),
        (TO_BF16, 16_384, 40),
    ];
    assert_eq!(by_names(&norm), [(ChainKind::Norm, 5.0, Time(180_000.0))]);
    // A copy between layouts ends a chain, and so does a kernel of another library.
    for kernel in [TRANSPOSE, "triton_poi_fused_add", "gemm"] {
        let kernels = [(POW, 64, 5), (kernel, 64, 5), (POW, 64, 5)];
        assert_eq!(by_names(&kernels), [], "{kernel}");
    }
    let other = [(POW, 64, 5), (POW, 256, 5)];
    assert_eq!(by_names(&other), []);
}

const SILU: &str = "at::native::vectorized_elementwise_kernel<4,at::native::silu_kernel>";

#[test]
fn a_gate_is_a_chain_of_two_kernels() {
    // 60 + 50 µs, of which one kernel takes half of the shortest: 85 µs.
    let gate = [(SILU, 4_096, 60), (MUL, 16_384, 50)];
    let found = [(ChainKind::Pointwise, 2.0, Time(85_000.0))];
    assert_eq!(by_names(&gate), found);
    // A conversion and one more kernel are a cast.
    let cast = [(TO_BF16, 4_096, 60), (MUL, 16_384, 50)];
    let found = [(ChainKind::Cast, 1.0, Time(60_000.0))];
    assert_eq!(by_names(&cast), found);
    // A compiler writes the halves of a rotation to their places; what takes longer copies a cache.
    let rotated = |time| {
        let cat = ("at::native::CatArrayBatchedCopy", 4_224, time);
        by_names(&[gate[0], gate[1], cat])
    };
    let found = [(ChainKind::Pointwise, 3.0, Time(145_000.0))];
    assert_eq!(rotated(60), found);
    assert_eq!(rotated(61), by_names(&gate));
}

#[test]
fn a_rotation_goes_on_after_its_concatenation() {
    // The concatenation takes twice as long as the longest kernel: 60 + 50 + 120 + 50 − 25 µs.
    let rotated = |time| {
        let cat = ("at::native::CatArrayBatchedCopy", 4_224, time);
        by_names(&[(SILU, 4_096, 60), (MUL, 16_384, 50), cat, (MUL, 16_384, 50)])
    };
    let found = [(ChainKind::Pointwise, 4.0, Time(255_000.0))];
    assert_eq!(rotated(120), found);
    // What takes longer still ends the chain before it.
    let found = [(ChainKind::Pointwise, 2.0, Time(85_000.0))];
    assert_eq!(rotated(121), found);
}

#[test]
fn conversions_of_parameters_do_not_end_a_chain() {
    let weight = (TO_BF16, 128, 7);
    let kernels = [
        (SILU, 4_096, 60),
        (MUL, 16_384, 50),
        weight,
        (TO_BF16, 4_096, 40),
    ];
    // 60 + 50 + 40 − 20 µs, and the weight.
    let found = [
        (ChainKind::Pointwise, 3.0, Time(130_000.0)),
        (ChainKind::Cast, 1.0, Time(7_000.0)),
    ];
    assert_eq!(by_names(&kernels), found);
}

#[test]
fn an_activation_ends_a_norm() {
    let welford = "at::native::reduce_kernel<512,at::native::WelfordOps>";
    let norm = [(welford, 256, 30), (MUL, 65_536, 50), (MUL, 65_536, 40)];
    let norm = [(POW, 16_384, 60), norm[0], norm[1], norm[2]];
    // 60 + 30 + 50 + 40 − 20 µs, and 50 + 40 − 20 µs.
    let activated = [&norm[..], &[(SILU, 16_384, 50), (MUL, 65_536, 40)]].concat();
    let found = [
        (ChainKind::Norm, 4.0, Time(160_000.0)),
        (ChainKind::Pointwise, 2.0, Time(70_000.0)),
    ];
    assert_eq!(by_names(&activated), found);
    // Before a norm it is an activation of the layer before, or of its gradient.
    let before = [&[(SILU, 16_384, 50)], &norm[..]].concat();
    assert_eq!(by_names(&before), [(ChainKind::Norm, 5.0, Time(210_000.0))]);
}

const POWER: &str =
    "at::native::vectorized_elementwise_kernel<4,at::native::pow_tensor_scalar_kernel_impl>";

#[test]
fn the_derivative_of_a_norm_is_a_norm() {
    // 50 + 24 + 1 + 41 + 48 µs, and half of 41 µs stays.
    let backward = |blocks| {
        [
            (RSQRT, 8, 1),
            ("gemm", 1, 5),
            (MUL, 65_536, 50),
            (MEAN, 512, 24),
            (POWER, blocks, 1),
            (MUL, 65_536, 41),
            (MUL, 65_536, 48),
        ]
    };
    let saved = Time(143_500.0);
    assert_eq!(by_names(&backward(8)), [(ChainKind::Norm, 5.0, saved)]);
    // A power of all elements is of an activation; the fused kernel then takes half of 1 µs.
    let saved = Time(163_500.0);
    assert_eq!(
        by_names(&backward(16_384)),
        [(ChainKind::Pointwise, 5.0, saved)]
    );
}

#[test]
fn a_power_of_rows_without_a_root_is_no_norm() {
    // Of a potential: the squared distances of pairs, their sums, and a power of these.
    let pairs = [
        (MUL, 65_536, 50),
        (MEAN, 512, 24),
        (POWER, 8, 1),
        (MUL, 65_536, 41),
        (MUL, 65_536, 48),
    ];
    let groups = by_names(&pairs);
    let kinds: Vec<ChainKind> = groups.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, [ChainKind::Pointwise]);
}

#[test]
fn the_derivative_of_a_norm_has_a_power_of_rows() {
    let backward = |sizes| {
        let power = format!("aten::pow [[{sizes}]] float");
        let place = of_step(&[
            ("aten::rsqrt [[8192,1]] float", ADD, 1),
            ("aten::mm [[7,5],[5,3]] float", "gemm", 10),
            ("aten::mul [[8192,2048],[8192,1]] float", ADD, 50),
            ("aten::sum [[8192,2048]] float", SUM, 30),
            (power.as_str(), ADD, 1),
            ("aten::mul [[8192,2048],[8192,1]] float", ADD, 50),
            ("aten::add [[8192,2048],[8192,2048]] float", ADD, 50),
        ]);
        kinds(&place)
    };
    assert_eq!(backward("8192,1"), [(ChainKind::Norm, 1.0, 5.0)]);
    assert_eq!(backward("8192,2048"), [(ChainKind::Pointwise, 1.0, 5.0)]);
}

#[test]
fn names_show_casts_updates_and_attention() {
    let cast = [(TO_BF16, 64, 5), ("gemm", 1, 5), (TO_BF16, 8, 4)];
    assert_eq!(by_names(&cast), [(ChainKind::Cast, 2.0, Time(9_000.0))]);
    // A copy with a cast converts, an addition with one does more.
    let functors = ["direct_copy_kernel_cuda", "CUDAFunctor_add"];
    let [copy, sum] = functors.map(|functor| {
        format!("at::native::unrolled_elementwise_kernel<at::native::{functor},LoadWithCast<1>>")
    });
    let cast = [(copy.as_str(), 64, 5), ("gemm", 1, 5), (&sum, 64, 4)];
    assert_eq!(by_names(&cast), [(ChainKind::Cast, 1.0, Time(5_000.0))]);
    // 8 parameters of 4 kernels: from the first update to the last 29 kernels, of which one of 2 µs is left.
    let parameter = [(ADDCDIV, 4, 2), (POW, 4, 2), (POW, 4, 2), (POW, 4, 2)];
    let step = parameter.repeat(8);
    assert_eq!(
        by_names(&step)[0],
        (ChainKind::Optimizer, 29.0, Time(56_000.0))
    );
    // One kernel for all moves 7 tensors, the last of these 4: 12 µs go down to 4 · 7 ÷ 4 = 7 µs.
    let joint = "at::native::multi_tensor_apply_kernel<at::native::";
    let [lerp, sqrt, update] = ["TernaryOpScalar", "UnaryOp", "PointwiseOpScalarList"]
        .map(|functor| format!("{joint}{functor}Functor>"));
    let step = [(lerp.as_str(), 4, 5), (&sqrt, 4, 3), (&update, 4, 4)];
    assert_eq!(
        by_names(&step),
        [(ChainKind::Optimizer, 3.0, Time(5_000.0))]
    );
    let few = by_names(&parameter.repeat(7));
    assert!(few.iter().all(|(kind, ..)| *kind != ChainKind::Optimizer));
    // A fused kernel needs a quarter of the products: 8 + 12 + 20 + 8 − 4 µs.
    let attention = [
        ("gemm", 1, 8),
        (MUL, 64, 12),
        (SOFTMAX, 1, 20),
        ("gemm", 1, 8),
        (POW, 1, 1),
    ];
    assert_eq!(
        by_names(&attention),
        [(ChainKind::Attention, 4.0, Time(44_000.0))]
    );
    // Routing: another kernel lies between softmax and product.
    let router = [
        ("gemm", 1, 8),
        (SOFTMAX, 1, 20),
        ("topk", 1, 3),
        ("gemm", 1, 8),
        (POW, 1, 1),
    ];
    assert_eq!(by_names(&router), []);
}

#[test]
fn kernels_between_stages_count_within_the_measured_loop() {
    let add = ("aten::add [[512,64],[512,64]] float", ADD, 10);
    // Operators 1 µs after the start of each range: three of the loop, three between, three before and after.
    let text = [
        events("other", 0, &[add; 3]),
        events("step", 1000, &[add; 3]),
        events("other", 2000, &[add; 3]),
        events("step", 3000, &[add; 3]),
        events("other", 4000, &[add; 3]),
    ];
    let text = text.concat().replace("range other", "// ");
    let chains = chains(&text);
    let [step, between] = chains.places.as_slice() else {
        panic!("{:?}", chains.places);
    };
    assert_eq!(kinds(step), [(ChainKind::Pointwise, 2.0, 6.0)]);
    assert_eq!(kinds(between), [(ChainKind::Pointwise, 1.0, 3.0)]);
    assert_eq!(
        (between.stage.is_none(), between.operations),
        (true, Count(3.0))
    );
}

#[test]
fn an_epilogue_adds_the_bias_of_the_gemm_before() {
    let gemm = ("aten::mm [[8192,1024],[1024,512]] c10::Half", "gemm", 50);
    let add = |bias: &'static str| (bias, ADD, 20);
    let bias = add("aten::add [[8192,512],[512]] c10::Half");
    let place = of_step(&[gemm, bias, gemm]);
    assert_eq!(kinds(&place), [(ChainKind::Epilogue, 1.0, 1.0)]);
    let group = &place.groups[0];
    // The kernel goes, and the GEMM writes what it wrote before.
    assert_eq!(
        (group.removed, group.saved()),
        (Count(1.0), Some(Time(20_000.0)))
    );
    assert_eq!(group.example.operators, "mm → add");
    assert_eq!(group.example.sizes, "8192 × 512");
    // A residual, a row of another length, and an addition that is not right after the GEMM.
    for other in [
        "aten::add [[8192,512],[8192,512]] c10::Half",
        "aten::add [[8192,512],[1]] c10::Half",
        "aten::add [[4096,512],[512]] c10::Half",
        "aten::mul [[8192,512],[512]] c10::Half",
    ] {
        assert_eq!(kinds(&of_step(&[gemm, add(other)])), [], "{other}");
    }
    let softmax = ("aten::_softmax [[8192,512]] c10::Half", SOFTMAX, 20);
    assert_eq!(kinds(&of_step(&[gemm, softmax, bias])), []);
}

#[test]
fn names_show_epilogues_that_always_follow_a_gemm() {
    let layer = [("gemm", 132, 80), ("bias", 16_384, 25)];
    // Each bias kernel takes 25 µs.
    let layers = [layer[0], layer[1], layer[0], layer[1]];
    assert_eq!(
        by_names(&layers),
        [(ChainKind::Epilogue, 2.0, Time(50_000.0))]
    );
    // Of three launches, one follows another kernel: it does not belong to the GEMM.
    let apart = [layer[0], layer[1], layer[0], layer[1], layer[1]];
    assert_eq!(by_names(&apart), []);
    // The gradient of a bias is a sum, and a name without a word for it says nothing.
    for kernel in ["bias_grad", "scale_rows"] {
        assert_eq!(by_names(&[layer[0], (kernel, 16_384, 25)]), [], "{kernel}");
    }
}

#[test]
fn backward_after_the_last_used_gradient_is_for_nobody() {
    // The head has a gradient of 10 × 64 elements, the encoder below it one of 64 × 64.
    let step = |encoder: &str, updated: &str| {
        let text = "range step 0..500us
             operator autograd::engine::evaluate_function:MmBackward0 10us..20us
             launch 11us..12us -> gemm 20us..50us
             operator aten::mm [[10,8],[8,64]] float 10us..15us
             operator torch::autograd::AccumulateGrad [[10,64]] float 21us..22us
             operator autograd::engine::evaluate_function:MmBackward0 30us..50us
             operator aten::mm [[8,10],[10,64]] float 31us..40us
             launch 32us..33us -> gemm 50us..90us
             operator torch::autograd::AccumulateGrad ENCODER float 51us..52us
             operator aten::_foreach_add_ [LIST,[]] TensorList 102us..110us
             launch 103us..104us -> multi_tensor_apply_kernel 150us..160us
             range Optimizer.step#SGD.step 100us..120us";
        let text = text.replace("ENCODER", encoder).replace("LIST", updated);
        let places = chains(&text).places;
        let group = places[0].group(ChainKind::Gradients);
        group.map(|group| {
            (
                group.kernels.0,
                group.saved().unwrap(),
                group.example.sizes.clone(),
            )
        })
    };
    let found = step("[[64,64]]", "[[10,64]]");
    assert_eq!(found, Some((1.0, Time(40_000.0), "64 × 64".to_owned())));
    assert_eq!(step("[[64,64]]", "[[10,64],[64,64]]"), None);
    // By its sizes the parameter may be an updated one.
    assert_eq!(step("[[10,64]]", "[[10,64]]"), None);
    // Shards have other sizes than gradients.
    assert_eq!(step("[[64,64]]", "[[5,64]]"), None);
}

#[test]
fn normalizations_with_few_blocks_count_with_conversions() {
    let convolution = "aten::cudnn_convolution [[2,32,96,96],[32,32,3,3]] float,float";
    let norm = "aten::native_batch_norm [[2,32,96,96],[32]] float,float";
    let lost = |kernel: &'static str, before: &'static str| {
        let place = of_step(&[(convolution, before, 10), (norm, kernel, 1000)]);
        let group = place.group(ChainKind::Channels);
        group.map(|group| (group.norms, group.saved().unwrap()))
    };
    let nchw = "at::native::batch_norm_backward_kernel";
    // One block of one thread: 132 SMs hold 2048 threads each, so that 1 ms could be 4 ns.
    let (norms, saved) = lost(nchw, "nchwToNhwcKernel").unwrap();
    assert!(near(norms, 1000.0) && near(saved, 1010.0));
    let (of_cudnn, _) = lost("cudnn::bn_bw_1C11_kernel_new", "nchwToNhwcKernel").unwrap();
    assert!(near(of_cudnn, 1000.0));
    let channels_last = "at::native::batch_norm_backward_elemt_channels_last_kernel";
    let (norms, _) = lost(channels_last, "nchwToNhwcKernel").unwrap();
    assert_eq!(norms, Time::ZERO);
    // Without conversions, another format has no sure advantage.
    assert!(lost(nchw, "nhwc").is_none());
}
