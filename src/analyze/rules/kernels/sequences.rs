//! Kernels of PyTorch whose order and grids show work that a stage does not need: masks built of constants again, a KV cache
//! that each token copies, attention
//! on pairs that its mask excludes, an upsampling before a layer that could come first, and windows that are read in whole.

use super::{Kernels, THRESHOLD};
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::engine::facts::OpSource;
use rooflens_analysis::engine::measured_peaks::gpu_name;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::operators::chains::ChainKind;
use rooflens_document::Inline;
use rooflens_hardware::element_bytes;
use rooflens_session::{KernelId, Ns, ThreadId};
use rooflens_units::{Bytes, Ratio, Time};

/// Elements per thread of PyTorch's elementwise kernels at most, of types that are computed with.
const PER_THREAD: u64 = 8;

/// Elements before a layer ÷ elements after it from which on the layer comes first.
const REDUCES: u64 = 4;

/// Bytes that max pooling moves per result at least: an FP32 value in, and one out with its index.
const PER_RESULT: Bytes = Bytes(16.0);

/// Time of max pooling ÷ time of these bytes from which on it reads large windows, 32 values or more per result.
const LARGE: f64 = 32.0;

/// Kernels from the fill of a one-hot tensor to the sum of its products at most.
const SELECTION: usize = 8;

/// Kernels between the conversion of a mask and its attention at most.
const NEAR: usize = 2;

/// Sizes of a copy that show that it grows, and the part of the changes of its size that are growth: a request starts anew.
const STEPS: usize = 8;
const GROWS: Ratio = Ratio(0.9);

/// Kernels from a copy of the cache to the attention that reads it at most.
const READERS: usize = 4;

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
        look_at_bytes(evidence, early_upsampling)
    })
    .on_kernels();

/// Max pooling that reads the whole window for each of its results.
pub(crate) static POOL_WINDOWS: Rule = Rule::new(
    "pool-windows",
    &[THRESHOLD, Threshold::number("thresholds.pooling", LARGE)],
    |evidence| look_at_bytes(evidence, pool_windows),
)
.on_kernels();

/// Copies in decode that are larger for each token, with the attention that reads them.
pub(crate) static COPIED_CACHE: Rule = Rule::new("copied-cache", &[THRESHOLD], |evidence| {
    let chains = evidence.results.chains().ok();
    evidence.each_of_kernels(|stage| {
        if !stage.is_decode() {
            return Look::NotApplicable(words!(evidence, "growing_cache.no_decode"));
        }
        let place = chains.and_then(|chains| evidence.place(chains, stage));
        if place.is_some_and(|place| place.group(ChainKind::Repeat).is_some()) {
            return Look::suppressed_by(evidence, "repeated-tensors");
        }
        let Some(work) = evidence.work(stage.key()) else {
            return Look::InsufficientData;
        };
        let launches = iterations(evidence, work).concat();
        let copies = copied_cache(&launches);
        let copies: Vec<_> = copies.into_iter().map(|copy| launches[copy]).collect();
        look_of(evidence, stage, work, &copies)
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
    /// The thread that launches it, where its call is recorded.
    pub(super) thread: Option<ThreadId>,
}

/// The same as [`look_at`] with the time in which memory moves bytes.
fn look_at_bytes(
    evidence: &Evidence<'_>,
    marked: impl Fn(&[Launch<'_>], &dyn Fn(Bytes) -> Time) -> Vec<usize>,
) -> Outcome {
    let name = gpu_name(evidence.session, evidence.primary);
    let Some(gpu) = evidence.context.gpu_spec(&name) else {
        return Outcome::INSUFFICIENT_DATA;
    };
    let moving = |bytes: Bytes| Time(bytes.0 / gpu.memory_bandwidth.0 * 1e9);
    evidence.each_of_kernels(|stage| look_at(evidence, stage, |launches| marked(launches, &moving)))
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
    look_of(evidence, stage, work, &found)
}

/// A finding if these launches take much of a stage.
fn look_of(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    work: &StageWork,
    found: &[Launch<'_>],
) -> Look {
    Kernels::of_launches(evidence, stage, work, found).map_or(Look::Passed, |kernels| {
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
pub(super) fn iterations<'a>(evidence: &Evidence<'a>, work: &StageWork) -> Vec<Vec<Launch<'a>>> {
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
            thread: facts.ops.api_call[*op].map(|call| session.api_calls.thread[call.index()]),
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
fn early_upsampling(launches: &[Launch<'_>], moving: &dyn Fn(Bytes) -> Time) -> Vec<usize> {
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

/// Copies whose size grows nearly each time that it changes, and attention right after them. Copies of less than half of the
/// largest one are of other tensors.
fn copied_cache(launches: &[Launch<'_>]) -> Vec<usize> {
    let is_copy = |launch: &Launch<'_>| launch.name.contains("direct_copy_kernel");
    let copies = launches.iter().filter(|launch| is_copy(launch));
    let largest = copies.map(|launch| launch.threads).max().unwrap_or(0);
    let is_large = |launch: &Launch<'_>| is_copy(launch) && 2 * launch.threads >= largest;
    let large = launches.iter().filter(|launch| is_large(launch));
    let mut sizes: Vec<u64> = large.map(|launch| launch.threads).collect();
    sizes.dedup();
    let growing = sizes.windows(2).filter(|pair| pair[0] < pair[1]).count();
    if sizes.len() < STEPS || (growing as f64) < GROWS.0 * (sizes.len() - 1) as f64 {
        return Vec::new();
    }
    let is_part = |position: &usize| {
        let before = &launches[position.saturating_sub(READERS)..*position];
        let launch = &launches[*position];
        let is_attention = launch.identity.class == KernelClass::Attention;
        is_large(launch) || is_attention && before.iter().any(is_large)
    };
    (0..launches.len()).filter(is_part).collect()
}

/// Poolings that take [`LARGE`] times as long as memory needs. A thread writes a result.
fn pool_windows(launches: &[Launch<'_>], moving: &dyn Fn(Bytes) -> Time) -> Vec<usize> {
    let is_large = |launch: &Launch<'_>| {
        let least = moving(PER_RESULT * launch.threads as f64);
        launch.name.contains("max_pool_forward_nchw") && launch.time.time() >= least * LARGE
    };
    let positions = 0..launches.len();
    positions
        .filter(|position| is_large(&launches[*position]))
        .collect()
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
            thread: None,
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
                early_upsampling(launches, &|bytes| Time(bytes.0))
            })
        };
        assert_eq!(of_time(12_800, 200), [1, 2, 3]);
        // The GEMM reads another tensor, or it leaves most elements.
        assert!(of_time(12_799, 200).is_empty());
        assert!(of_time(12_800, 201).is_empty());
    }

    /// Keys and values of eight tokens, each with a copy of the query and attention.
    #[test]
    fn a_cache_that_each_step_copies_grows() {
        let steps = |size: fn(u64) -> u64| {
            let mut kernels = Vec::new();
            for step in 0..8 {
                let cache = ("direct_copy_kernel_cuda", size(step), 1);
                let query = ("direct_copy_kernel_cuda", 10, 1);
                kernels.extend([cache, cache, query, (ATTENTION, 8, 1), ("gemm", 8, 1)]);
            }
            marked(&kernels, copied_cache)
        };
        let growing = steps(|step| 1000 + step);
        assert_eq!((growing.len(), &growing[..4]), (24, &[0, 1, 3, 5][..]));
        assert!(steps(|_| 1000).is_empty());
        assert!(steps(|step| 1000 + step % 2).is_empty());
    }

    /// 100 results of 16 bytes, for which memory needs 1600 ns.
    #[test]
    fn windows_are_large_by_their_time() {
        let of_time = |time| {
            let kernels = [
                ("max_pool_forward_nchw<float, int>", 100, time),
                ("gemm", 1, time),
            ];
            marked(&kernels, |launches| {
                pool_windows(launches, &|bytes| Time(bytes.0))
            })
        };
        assert_eq!(of_time(32 * 1600), [0]);
        assert!(of_time(32 * 1600 - 1).is_empty());
    }
}
