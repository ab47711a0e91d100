//! Operators of PyTorch that launch a kernel, so that a reader finds its line where nothing else says what the kernel is for.

/// A part of the names of kernels, as files of PyTorch's `aten/src/ATen/native/cuda` and its libraries name them, and the
/// operators that launch such kernels. The first that fits counts.
const OPERATORS: [(&str, &str); 54] = [
    ("randperm", "randperm"),
    ("SegmentedRadixSort", "sort, argsort"),
    ("SortKVInPlace", "sort, argsort"),
    (
        "RadixSort",
        "sort, argsort, unique, randperm, index_put_, backward of embedding",
    ),
    ("gatherTopK", "topk"),
    ("radixFindKthValues", "topk"),
    ("computeBlockwiseWithinKCounts", "topk"),
    ("gatherKthValue", "kthvalue"),
    ("gatherMedian", "median"),
    ("tensor_kernel_scan", "cumsum, cumprod, cummax, cummin"),
    ("DeviceScan", "cumsum, cumprod, unique"),
    ("DeviceSelect", "nonzero, masked_select, x[mask]"),
    ("kernelHistogram", "histc, bincount"),
    ("searchsorted", "searchsorted, bucketize"),
    ("renormRows", "multinomial"),
    ("sampleMultinomial", "multinomial"),
    ("_fft", "fft, rfft, stft, istft"),
    (
        "vectorized_gather_kernel",
        "index_select, gather, x[index], embedding",
    ),
    ("indexSelect", "index_select, embedding"),
    ("indexFunc", "index_add_, index_reduce_"),
    (
        "indexing_backward_kernel",
        "index_put_(accumulate=True), backward of x[index]",
    ),
    ("index_put_kernel", "index_put_, x[index] = y"),
    ("index_copy_kernel", "index_copy_"),
    ("index_kernel_impl", "x[index]"),
    ("scatter_gather", "gather, scatter_, scatter_add_"),
    ("flip_kernel", "flip"),
    ("roll_cuda", "roll"),
    ("CatArrayBatchedCopy", "cat, stack"),
    ("EmbeddingBag", "embedding_bag"),
    ("embedding_backward", "backward of embedding"),
    ("compute_grad_weight", "backward of embedding"),
    ("sum_and_scatter", "backward of embedding"),
    ("upsample", "interpolate"),
    ("grid_sampler", "grid_sample"),
    ("im2col", "unfold, convolutions without cuDNN"),
    (
        "col2im",
        "fold, backward of unfold, transposed convolutions without cuDNN",
    ),
    ("reflection_pad", "pad(mode=\"reflect\")"),
    ("replication_pad", "pad(mode=\"replicate\")"),
    ("max_pool", "max_pool1d, max_pool2d, adaptive_max_pool2d"),
    ("avg_pool", "avg_pool2d"),
    ("adaptive_average", "adaptive_avg_pool2d"),
    ("conv_depthwise", "convolutions with a group per channel"),
    ("triu_tril", "triu, tril"),
    ("cdist", "cdist"),
    ("ctc_loss", "ctc_loss"),
    ("lstm_cell", "LSTM, LSTMCell"),
    ("gru_cell", "GRU, GRUCell"),
    (
        "distribution_",
        "rand, randn, randint, bernoulli_, multinomial",
    ),
    ("dropout_kernel", "dropout"),
    (
        "fmha_cutlass",
        "scaled_dot_product_attention, memory-efficient backend",
    ),
    ("native_sdpa", "scaled_dot_product_attention, cuDNN backend"),
    ("masked_fill", "masked_fill_"),
    (
        "where_kernel",
        "where, scaled_dot_product_attention with a mask",
    ),
    (
        "direct_copy_kernel",
        "copy_, to, clone, contiguous, reshape",
    ),
];

/// Operators that launch kernels of a name, if it is known.
pub(super) fn of_kernel(name: &str) -> Option<&'static str> {
    let known = OPERATORS.iter().find(|(part, _)| name.contains(part));
    known.map(|(_, operators)| *operators)
}

#[cfg(test)]
mod tests {
    use super::of_kernel;

    /// Names as nsys writes them.
    #[test]
    fn the_most_specific_part_of_a_name_counts() {
        let cub = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<Policy800, (bool)0>";
        let rows = "void at_cuda_detail::cub::DeviceSegmentedRadixSortKernel<Policy800, (bool)0>";
        assert!(of_kernel(cub).is_some_and(|operators| operators.contains("randperm")));
        assert_eq!(of_kernel(rows), Some("sort, argsort"));
        let bilinear = "void at::native::upsample_bilinear2d_nhwc_out_frame<c10::BFloat16, float>";
        assert_eq!(of_kernel(bilinear), Some("interpolate"));
        assert_eq!(
            of_kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"),
            None
        );
    }
}
