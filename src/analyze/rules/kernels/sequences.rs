//! Kernels of PyTorch whose order and grids show work that a stage does not need: masks built of constants again, attention
//! on pairs that its mask excludes, and an upsampling before a layer that could come first.

use super::{Kernels, THRESHOLD};
use crate::evidence::Evidence;
use crate::rule::{Look, Rule};
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::engine::facts::OpSource;
use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::Inline;
use rooflens_hardware::element_bytes;
use rooflens_session::{KernelId, Ns};
use rooflens_units::{Bytes, Time};

/// Elements per thread of PyTorch's elementwise kernels at most, of types that are computed with.
const PER_THREAD: u64 = 8;

/// Elements before a layer ÷ elements after it from which on the layer comes first.
const REDUCES: u64 = 4;

/// Kernels from the fill of a one-hot tensor to the sum of its products at most.
const SELECTION: usize = 8;

/// Kernels between the conversion of a mask and its attention at most.
const NEAR: usize = 2;

/// Parts of the names of kernels that compute attention in forward.
const FORWARD: [&str; 3] = ["fprop", "fwd", "fmha_cutlassF"];

/// `torch.full(...).triu()` and its kin: the triangle of a constant is one.
pub(crate) static CONSTANT_MASKS: Rule = Rule::new("constant-masks", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| look_at(evidence, stage, masks))
})
.on_kernels();

/// One long sequence of many, with a mask that compares the ids of all pairs of tokens.
pub(crate) static PACKED_ATTENTION: Rule =
    Rule::new("packed-attention", &[THRESHOLD], |evidence| {
        evidence.each_of_kernels(|stage| look_at(evidence, stage, packed_attention))
    })
    .on_kernels();

/// `one_hot(index) * values` with a sum: of each row, a value is selected.
pub(crate) static ONE_HOT_SELECTION: Rule =
    Rule::new("one-hot-selection", &[THRESHOLD], |evidence| {
        evidence.each_of_kernels(|stage| look_at(evidence, stage, one_hot_selection))
    })
    .on_kernels();

/// A channels-last tensor that is upsampled before a GEMM reduces its channels.
pub(crate) static EARLY_UPSAMPLING: Rule =
    Rule::new("early-upsampling", &[THRESHOLD], |evidence| {
        let name = gpu_name(evidence.session, evidence.primary);
        let Some(gpu) = evidence.context.gpu_spec(&name) else {
            return crate::rule::Outcome::INSUFFICIENT_DATA;
        };
        let moving = |bytes: Bytes| Time(bytes.0 / gpu.memory_bandwidth.0 * 1e9);
        evidence.each_of_kernels(|stage| {
            look_at(evidence, stage, |launches| {
                early_upsampling(launches, moving)
            })
        })
    })
    .on_kernels();

/// A kernel in the order of its stream.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) kernel: KernelId,
    name: &'a str,
    identity: &'a KernelIdentity,
    threads: u64,
    pub(super) time: Ns,
}

/// A finding if the kernels that `marked` finds in iterations take much of a stage.
fn look_at(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    marked: impl Fn(&[Launch<'_>]) -> Vec<usize>,
) -> Look {
    let Some(work) = evidence.work(stage.key()) else {
        return Look::InsufficientData;
    };
    let mut found = Vec::new();
    for launches in iterations(evidence, work) {
        let positions = marked(&launches);
        found.extend(positions.into_iter().map(|position| launches[position]));
    }
    Kernels::of_launches(evidence, stage, work, &found).map_or(Look::Passed, |kernels| {
        kernels.look(stage, |kernels| {
            arguments! {
                stage = Inline::strong(&stage.label),
                kernel = kernels.name(),
                kernels = kernels.per_iteration(),
                time = kernels.time,
                share = kernels.share(),
            }
        })
    })
}

/// The kernels of each measured iteration, by stream.
fn iterations<'a>(evidence: &Evidence<'a>, work: &StageWork) -> Vec<Vec<Launch<'a>>> {
    let (session, facts) = (evidence.session, evidence.facts);
    let launches = &session.launches;
    let launch = |op: &usize| {
        let OpSource::Launch(launch) = facts.ops.source[*op] else {
            return None;
        };
        let row = launch.index();
        let kernel = launches.kernel[row];
        Some(Launch {
            kernel,
            name: session.kernel_name(kernel),
            identity: &facts.identities[kernel.index()],
            threads: launches.grid[row]
                .volume()
                .saturating_mul(launches.block[row].volume()),
            time: facts.ops.end[*op].saturating_sub(facts.ops.start[*op]),
        })
    };
    let instances = work.summary.counted_instances(facts);
    let of_instance = instances.map(|instance| {
        let mut ops: Vec<usize> = instance.ops.iter().map(|op| *op as usize).collect();
        ops.sort_by_key(|op| {
            (
                facts.ops.gpu[*op],
                facts.ops.stream[*op],
                facts.ops.start[*op],
            )
        });
        ops.iter().filter_map(launch).collect()
    });
    of_instance.collect()
}

/// Fills, each with the triangle that is taken of it.
fn masks(launches: &[Launch<'_>]) -> Vec<usize> {
    let mut found = Vec::new();
    for (position, pair) in launches.windows(2).enumerate() {
        let [fill, triangle] = pair else { continue };
        // A thread of the latter writes two elements.
        let is_of_fill = (triangle.threads / PER_THREAD..=triangle.threads).contains(&fill.threads);
        if fill.name.contains("FillFunctor")
            && triangle.name.contains("triu_tril_kernel")
            && is_of_fill
        {
            found.extend([position, position + 1]);
        }
    }
    found
}

/// Attention whose mask is a comparison of the ids of all pairs, with the kernels of the mask.
fn packed_attention(launches: &[Launch<'_>]) -> Vec<usize> {
    let is_comparison = |launch: &Launch<'_>| {
        let name = launch.name;
        // On two tensors of other shapes than the result.
        let is_of_pairs =
            name.contains("elementwise_kernel<") && !name.contains("ized_elementwise");
        let is_of_ids = name.contains("BinaryFunctor<long, long, bool")
            || name.contains("BinaryFunctor<int, int, bool");
        is_of_pairs && is_of_ids && name.contains("CompareEqFunctor")
    };
    let comparisons: Vec<&Launch<'_>> = launches
        .iter()
        .filter(|launch| is_comparison(launch))
        .collect();
    let is_conversion = |launch: &Launch<'_>| {
        let mut of_size = comparisons.iter();
        launch.name.contains("where_kernel_impl")
            && of_size.any(|comparison| comparison.threads == launch.threads)
    };
    let is_attention = |launch: &Launch<'_>| launch.identity.class == KernelClass::Attention;
    let is_forward = |launch: &Launch<'_>| {
        is_attention(launch) && FORWARD.iter().any(|part| launch.name.contains(part))
    };
    let has_mask = |position: usize| {
        let before = &launches[position.saturating_sub(NEAR)..position];
        before.iter().any(is_conversion)
    };
    let mut forward = (0..launches.len()).filter(|position| is_forward(&launches[*position]));
    if comparisons.is_empty() || !forward.all(has_mask) {
        return Vec::new();
    }
    let is_part = |position: &usize| {
        let launch = &launches[*position];
        is_attention(launch) || is_conversion(launch) || is_comparison(launch)
    };
    (0..launches.len()).filter(is_part).collect()
}

/// Fills of integers in which a scatter sets few, the multiplications on as many elements after them, and the sums of these.
fn one_hot_selection(launches: &[Launch<'_>]) -> Vec<usize> {
    let mut found = Vec::new();
    for (position, fill) in launches.iter().enumerate() {
        let end = launches.len().min(position + 1 + SELECTION);
        let mut after = (position + 1..end).map(|place| (place, &launches[place]));
        // A thread of a fill writes up to twice as many elements.
        let sizes = fill.threads / 2..=fill.threads * PER_THREAD;
        let is_product = |launch: &Launch<'_>| {
            launch.name.contains("MulFunctor") && sizes.contains(&launch.threads)
        };
        if !fill.name.contains("FillFunctor<long>")
            || !after.any(|(_, launch)| launch.name.contains("scatter_fill"))
        {
            continue;
        }
        let Some((_, product)) = after.find(|(_, launch)| is_product(launch)) else {
            continue;
        };
        let Some((sum, _)) = after.find(|(_, launch)| launch.name.contains("sum_functor")) else {
            continue;
        };
        found.extend([position, sum]);
        // The gradient multiplies by it, too.
        let is_same = |launch: &Launch<'_>| {
            launch.kernel == product.kernel && launch.threads == product.threads
        };
        found.extend((position..launches.len()).filter(|place| is_same(&launches[*place])));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Upsamplings with the GEMM and the elementwise kernel right after them, where the latter works on few of the elements.
fn early_upsampling(launches: &[Launch<'_>], moving: impl Fn(Bytes) -> Time) -> Vec<usize> {
    let mut found = Vec::new();
    for (position, sequence) in launches.windows(4).enumerate() {
        let [before, upsampling, gemm, after] = sequence else {
            continue;
        };
        // A thread writes an element.
        let elements = upsampling.threads;
        let is_elementwise =
            |launch: &Launch<'_>| launch.identity.class == KernelClass::Elementwise;
        let size = element_bytes(upsampling.identity.dtype).unwrap_or(Bytes::ZERO);
        // What takes less time reads another tensor.
        let reads_all = gemm.time.time() >= moving(size * elements as f64);
        if upsampling.name.contains("nhwc_out_frame")
            && upsampling.name.contains("upsample_")
            && gemm.identity.class == KernelClass::Gemm
            && reads_all
            && is_elementwise(before)
            && before.threads * PER_THREAD <= elements
            && is_elementwise(after)
            && after.threads * PER_THREAD * REDUCES <= elements
        {
            found.extend([position + 1, position + 2, position + 3]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILL: &str = "vectorized_elementwise_kernel<4, FillFunctor<float>>";
    const TRIANGLE: &str = "triu_tril_kernel<float, int, true>";
    const PAIRS: &str =
        "elementwise_kernel<(int)128, BinaryFunctor<long, long, bool, CompareEqFunctor<long>>>";
    const FLAT: &str =
        "vectorized_elementwise_kernel<4, BinaryFunctor<long, long, bool, CompareEqFunctor<long>>>";
    const MASK: &str = "elementwise_kernel<(int)128, where_kernel_impl>";
    const ATTENTION: &str = "cudnn_sdpa_flash_fprop";
    const UPSAMPLING: &str = "upsample_bilinear2d_nhwc_out_frame<c10::BFloat16, float>";

    /// Positions that a judgement marks among kernels with these names, threads, and nanoseconds.
    fn marked(
        kernels: &[(&str, u64, i64)],
        mark: impl Fn(&[Launch<'_>]) -> Vec<usize>,
    ) -> Vec<usize> {
        let class = |name: &str| match name {
            _ if name.contains("sdpa") => KernelClass::Attention,
            "gemm" => KernelClass::Gemm,
            _ => KernelClass::Elementwise,
        };
        let identity = |(name, ..): &(&str, u64, i64)| KernelIdentity {
            class: class(name),
            dtype: "bf16",
            ..KernelIdentity::default()
        };
        let identities: Vec<KernelIdentity> = kernels.iter().map(identity).collect();
        let rows = kernels.iter().zip(&identities);
        let launches = rows.map(|((name, threads, time), identity)| Launch {
            kernel: KernelId(0),
            name,
            identity,
            threads: *threads,
            time: Ns(*time),
        });
        mark(&launches.collect::<Vec<_>>())
    }

    /// 1024 elements, eight per thread of the fill and two per thread of the triangle.
    #[test]
    fn the_triangle_of_a_fill_is_built_of_constants() {
        let of_fill = [("gemm", 1, 1), (FILL, 128, 1), (TRIANGLE, 512, 1)];
        assert_eq!(marked(&of_fill, masks), [1, 2]);
        let of_result = [(FILL, 128, 1), ("gemm", 1, 1), (TRIANGLE, 512, 1)];
        assert!(marked(&of_result, masks).is_empty());
        // A flag that happens to be filled before.
        assert!(marked(&[(FILL, 32, 1), (TRIANGLE, 512, 1)], masks).is_empty());
    }

    #[test]
    fn attention_of_packed_sequences_masks_pairs_of_ids() {
        let step = |comparison| {
            [
                (comparison, 4096, 1),
                (MASK, 4096, 1),
                (ATTENTION, 8, 1),
                ("gemm", 8, 1),
                ("cudnn_sdpa_flash_bprop", 8, 1),
            ]
        };
        assert_eq!(marked(&step(PAIRS), packed_attention), [0, 1, 2, 4]);
        // A comparison with the id of padding has as many elements as ids.
        assert!(marked(&step(FLAT), packed_attention).is_empty());
        let mut causal = step(PAIRS).to_vec();
        causal.push((ATTENTION, 8, 1));
        assert!(marked(&causal, packed_attention).is_empty());
        let mut other = step(PAIRS);
        other[1].1 = 1024;
        assert!(marked(&other, packed_attention).is_empty());
    }

    #[test]
    fn a_value_per_row_is_selected_without_a_one_hot_tensor() {
        let step = |sum| {
            [
                ("vectorized_elementwise_kernel<2, FillFunctor<long>>", 64, 1),
                ("_cuda_scatter_fill_internal_kernel", 8, 1),
                ("unrolled_elementwise_kernel<MulFunctor<float>>", 128, 1),
                (sum, 8, 1),
                ("gemm", 8, 1),
                ("unrolled_elementwise_kernel<MulFunctor<float>>", 128, 1),
            ]
        };
        let sum = "reduce_kernel<sum_functor<float>>";
        // The last multiplication is the gradient's.
        assert_eq!(marked(&step(sum), one_hot_selection), [0, 2, 3, 5]);
        assert!(marked(&step("softmax"), one_hot_selection).is_empty());
        let mut labels = step(sum);
        labels[2].1 = 8;
        labels[5].1 = 8;
        assert!(marked(&labels, one_hot_selection).is_empty());
    }

    /// An upsampling by two to 6400 elements of 2 bytes, which 1 byte per nanosecond reads in 12,800 ns.
    #[test]
    fn channels_that_go_are_not_upsampled() {
        let of_time = |time, after| {
            let kernels = [
                ("relu", 200, 1),
                (UPSAMPLING, 6400, 1),
                ("gemm", 1, time),
                ("add", after, 1),
            ];
            marked(&kernels, |launches| {
                early_upsampling(launches, |bytes| Time(bytes.0))
            })
        };
        assert_eq!(of_time(12_800, 200), [1, 2, 3]);
        // The GEMM reads another tensor, or it leaves most elements.
        assert!(of_time(12_799, 200).is_empty());
        assert!(of_time(12_800, 201).is_empty());
    }
}
