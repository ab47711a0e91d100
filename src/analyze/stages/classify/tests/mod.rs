//! Kernel names in the forms that profilers print, and what each tells.
//!
//! Expectations come from the naming schemes of the libraries, not from what the rules answer.

mod matrix;

use regex::Regex;

use super::KernelClass::{self, *};
use super::{identify, identities, signature};
use rooflens_analysis::testing::trace;
use rooflens_schemas::PassKind;

/// Name, class, library, dtype.
type Case = (&'static str, KernelClass, &'static str, &'static str);

#[track_caller]
fn check(cases: &[Case]) {
    for (name, class, library, dtype) in cases {
        let found = identify(name);
        assert_eq!(
            (found.class, found.library, found.dtype),
            (*class, *library, *dtype),
            "{name}"
        );
        // Whose it is may be detected by a namespace alone, which Nsight Compute does not print.
        for other in [nsys(name), nsight_compute(name)] {
            let found = identify(&other);
            assert_eq!((found.class, found.dtype), (*class, *dtype), "{other}");
        }
    }
}

/// The name as Nsight Systems prints it.
fn nsys(name: &str) -> String {
    let number = Regex::new(r"([<,] ?)(-?\d+)u?\b").expect("constant");
    let name = name.replace("(anonymous namespace)", "<unnamed>");
    number.replace_all(&name, "$1(int)$2").replace("> >", ">>")
}

/// The name as Nsight Compute prints it: without namespaces.
fn nsight_compute(name: &str) -> String {
    let namespace =
        Regex::new(r"(?:\(anonymous namespace\)|<unnamed>|\b[A-Za-z_]\w*)::").expect("constant");
    namespace.replace_all(name, "").into_owned()
}

#[test]
fn pytorch_kernels_are_told_by_the_function_that_they_apply() {
    let vectorized = "void at::native::vectorized_elementwise_kernel<(int)8, ";
    let case = |inner: &str| identify(&format!("{vectorized}{inner}, std::array<char *, 2>>(int)"));
    let silu = case(
        "at::native::<unnamed>::silu_kernel(at::TensorIteratorBase &)::[lambda(c10::BFloat16)]",
    );
    assert_eq!(
        (silu.class, silu.library, silu.dtype),
        (Elementwise, "ATen", "bf16")
    );
    assert_eq!(silu.short, "elementwise silu bf16");
    assert_eq!(case("at::native::FillFunctor<float>").class, Layout);
    assert_eq!(case("at::native::FillFunctor<float>").short, "fill fp32");
    assert_eq!(
        case("at::native::direct_copy_kernel_cuda(T)::[lambda(float)]").class,
        Layout
    );
    check(&[
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>(T3)",
            Reduction,
            "ATen",
            "fp32",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, float>(int)",
            Normalization,
            "ATen",
            "fp16",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 6>(float*)",
            Softmax,
            "ATen",
            "fp32",
        ),
        (
            "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long>(T)",
            Gather,
            "ATen",
            "bf16",
        ),
        (
            "void at::native::vectorized_gather_kernel<16, long>(char*)",
            Gather,
            "ATen",
            "",
        ),
        (
            "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<T>>(T)",
            Gather,
            "ATen",
            "",
        ),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<T, unsigned int, 4>(T*)",
            Layout,
            "ATen",
            "",
        ),
        (
            "void at::native::sbtopk::gatherTopK<float, unsigned int, 1, false>(T)",
            Sorting,
            "ATen",
            "fp32",
        ),
        (
            "void at::native::bitonicSortKVInPlace<-2, -1, 16, 16, long, long>(T)",
            Sorting,
            "ATen",
            "",
        ),
        (
            "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<T>(int)",
            Sorting,
            "ATen",
            "",
        ),
        (
            "void at_cuda_detail::cub::DeviceScanKernel<T>(int)",
            Reduction,
            "ATen",
            "",
        ),
        (
            "void at::native::multi_tensor_apply_kernel<T, at::native::FusedAdamMathFunctor<float, 4>, double>(T)",
            Optimizer,
            "ATen",
            "fp32",
        ),
        (
            "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_",
            Reduction,
            "ATen",
            "fp32",
        ),
    ]);
}

const SERVING_AND_TRAINING: &[Case] = &[
    (
        "void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
        Normalization,
        "vLLM",
        "bf16",
    ),
    (
        "void vllm::fused_add_rms_norm_kernel<c10::Half, 8>(c10::Half*)",
        Normalization,
        "vLLM",
        "fp16",
    ),
    (
        "void vllm::act_and_mul_kernel<c10::BFloat16, vllm::silu_kernel>(T)",
        Elementwise,
        "vLLM",
        "bf16",
    ),
    (
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        Elementwise,
        "vLLM",
        "bf16",
    ),
    (
        "void nhwcAddPaddingKernel<__nv_bfloat16, float, float, true, (cudnnKernelDataType_t)2>(int)",
        Layout,
        "cuDNN",
        "bf16",
    ),
    (
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(T)",
        Layout,
        "vLLM",
        "bf16",
    ),
    (
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(T)",
        Communication,
        "vLLM",
        "bf16",
    ),
    (
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>(float const*)",
        MoeRouting,
        "vLLM",
        "fp32",
    ),
    (
        "void vllm::moe::moe_align_block_size_kernel<int>(int*)",
        MoeRouting,
        "vLLM",
        "",
    ),
    (
        "void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>(T)",
        Quantization,
        "vLLM",
        "fp8",
    ),
    (
        "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(T)",
        Normalization,
        "FlashInfer",
        "bf16",
    ),
    (
        "void flashinfer::sampling::TopPSamplingFromProbKernel<1024u, float>(T)",
        Sampling,
        "FlashInfer",
        "fp32",
    ),
    (
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>(T)",
        Elementwise,
        "FlashInfer",
        "bf16",
    ),
    (
        "void tensorrt_llm::kernels::quantizeWithBlockSize<__half>(T)",
        Quantization,
        "TensorRT-LLM",
        "fp16",
    ),
    (
        "void transformer_engine::normalization::rmsnorm_fwd_general_kernel<T>(T)",
        Normalization,
        "Transformer Engine",
        "",
    ),
    (
        "void transformer_engine::cast_transpose_fused_kernel<float, __nv_bfloat16, __nv_fp8_e4m3>(T)",
        Quantization,
        "Transformer Engine",
        "fp8",
    ),
    ("_per_token_group_quant_fp8", Quantization, "Triton", "fp8"),
    (
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_2",
        Normalization,
        "Triton",
        "",
    ),
    ("triton_poi_fused_mul_silu_1", Elementwise, "Triton", ""),
    ("triton_per_fused_sum_4", Reduction, "Triton", ""),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        Communication,
        "NCCL",
        "bf16",
    ),
    (
        "ncclKernel_ReduceScatter_RING_LL128_Sum_half(ncclWorkElem)",
        Communication,
        "NCCL",
        "fp16",
    ),
    (
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)",
        Communication,
        "DeepEP",
        "",
    ),
    ("__amd_rocclr_copyBuffer", Layout, "", ""),
];

#[test]
fn kernels_of_serving_and_training_libraries() {
    check(SERVING_AND_TRAINING);
}

#[test]
fn kernels_of_the_compiler_are_what_their_prefix_says_and_not_what_they_fuse() {
    check(&[
        (
            "triton_poi_fused_add_scaled_dot_product_attention_7",
            Elementwise,
            "Triton",
            "",
        ),
        (
            "triton_poi_fused__scaled_dot_product_cudnn_attention_view_where_8",
            Elementwise,
            "Triton",
            "",
        ),
        (
            "triton_poi_fused_convolution_relu_3",
            Elementwise,
            "Triton",
            "",
        ),
        ("triton_poi_fused_embedding_0", Gather, "Triton", ""),
        ("triton_red_fused_attention_sum_1", Reduction, "Triton", ""),
        (
            "triton_per_fused_native_layer_norm_addmm_2",
            Normalization,
            "Triton",
            "",
        ),
        ("triton_per_fused__softmax_bmm_5", Softmax, "Triton", ""),
        ("triton_for_fused_adam_0", Optimizer, "Triton", ""),
        ("triton_for_fused_1", Elementwise, "Triton", ""),
        ("triton_tem_fused_mm_0", Gemm, "Triton", ""),
        ("loop_add_fusion_3", Elementwise, "XLA", ""),
        ("input_reduce_fusion", Reduction, "XLA", ""),
        ("fusion_21", Fusion, "XLA", ""),
        // Without unique names, and as they were before PyTorch 2.1.
        ("triton_", Fusion, "Triton", ""),
        ("triton__0d1d2d3de", Fusion, "Triton", ""),
        (
            "CudaCodeGen::kernel1(CudaCodeGen::Tensor<float, 2, 2>, CudaCodeGen::Tensor<float, 2, 2>)",
            Fusion,
            "nvFuser",
            "fp32",
        ),
        ("nvfuser_pointwise_f0_c1_r0_g0", Elementwise, "nvFuser", ""),
        (
            "nvfuser_inner_persistent_f0_c1_r0_g0",
            Fusion,
            "nvFuser",
            "",
        ),
    ]);
}

const OTHER_LIBRARIES: &[Case] = &[
    (
        "sm50_xmma_pooling_fw_4d_FP16FP32NHWC_Average_FastDiv_CAlign8_execute_kernel_trt",
        Pooling,
        "TensorRT",
        "fp16",
    ),
    (
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const*)",
        Pooling,
        "ATen",
        "fp32",
    ),
    (
        "void at::native::(anonymous namespace)::upsample_linear1d_out_frame<float, float>(int)",
        Pooling,
        "ATen",
        "fp32",
    ),
    (
        "void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)",
        Elementwise,
        "cuDNN",
        "fp32",
    ),
    (
        "void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*, cublasLtEpilogue_t, int)",
        Elementwise,
        "cuBLASLt",
        "fp32",
    ),
    (
        "void regular_fft_factor<64u, EPT<8u>, 32u, float>(kernel_arguments_t<T1>)",
        Fft,
        "cuFFT",
        "fp32",
    ),
    (
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::__transform::unary_transform_f<T>, long>>(T)",
        Elementwise,
        "CUB / Thrust",
        "",
    ),
    (
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__reduce::ReduceAgent<T>>(T)",
        Reduction,
        "CUB / Thrust",
        "",
    ),
    (
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, curandStatePhilox4_32_10>(T)",
        Elementwise,
        "ATen",
        "fp32",
    ),
    (
        "void gen_sequenced<curandStateXORWOW, float, 1>(T)",
        Elementwise,
        "cuRAND",
        "fp32",
    ),
    (
        "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<T>, long>(T, long)",
        Elementwise,
        "TensorFlow",
        "",
    ),
    (
        "void cub::DeviceMergeSortBlockSortKernel<T>(bool)",
        Sorting,
        "CUB / Thrust",
        "",
    ),
    (
        "void cub::DeviceCompactInitKernel<cub::ScanTileState<int, true>>(int)",
        Reduction,
        "CUB / Thrust",
        "",
    ),
    (
        "void cuComputeGradInput<float, float, float, false>(float const*)",
        Normalization,
        "Apex",
        "fp32",
    ),
    (
        "void kDequantizeBlockwise<__half, 512, 64, 8, 1>(float*)",
        Quantization,
        "bitsandbytes",
        "fp16",
    ),
    (
        "void kdequant_mm_int32_fp16<4, 128, 512>(int*)",
        Quantization,
        "bitsandbytes",
        "fp16",
    ),
    (
        "void soft_max_f32<true, 0, 0, float>(float const*)",
        Softmax,
        "llama.cpp",
        "fp32",
    ),
    (
        "void k_get_rows_float<__half, float>(__half const*)",
        Gather,
        "llama.cpp",
        "fp16",
    ),
    (
        "void rms_norm_f32<1024>(float const*)",
        Normalization,
        "llama.cpp",
        "fp32",
    ),
    (
        "matmul_backward_bias_kernel9(float*, float const*)",
        Reduction,
        "",
        "fp32",
    ),
    (
        "fused_classifier_kernel5(float*, float*)",
        Softmax,
        "",
        "fp32",
    ),
    (
        "permute_kernel(float*, float*, float const*)",
        Layout,
        "",
        "fp32",
    ),
    (
        "encoder_forward_kernel3(float*, int const*)",
        Gather,
        "",
        "fp32",
    ),
    (
        "layernorm_forward_kernel3(float*, float*)",
        Normalization,
        "",
        "fp32",
    ),
    (
        "crossentropy_forward_kernel1(float*, float const*)",
        Softmax,
        "",
        "fp32",
    ),
    ("_permute_kernel", MoeRouting, "Triton", ""),
    (
        "partial_mapreduce_grid(CuKernelContext, CuDeviceArray<Float32, 1, 1>)",
        Reduction,
        "",
        "",
    ),
    ("void dispatch<8, 768, 8192>(int4*)", Communication, "", ""),
    (
        "void at::native::multi_tensor_apply_kernel<T, at::native::_amp_foreach_non_finite_check_and_unscale_cuda_(T)::{lambda(float)#1}>(T)",
        Optimizer,
        "ATen",
        "fp32",
    ),
    (
        "void at::native::multi_tensor_apply_kernel<T, at::native::BinaryOpScalarFunctor<float, 2, 1, 1>, std::plus<float>, float>(T)",
        Optimizer,
        "ATen",
        "fp32",
    ),
    (
        "void at::native::multi_tensor_apply_kernel<T, at::native::LpNormFunctor<float, (at::native::NormType)1, float, 1, 65536>, float*>(T)",
        Optimizer,
        "ATen",
        "fp32",
    ),
    (
        "void cudnn::fusion::lean_reduction_kernel<false, false, false>(void*)",
        Attention,
        "cuDNN",
        "",
    ),
    (
        "void fft2d_r2c_32x32<float, false, 1u, false>(float2*, float const*)",
        Convolution,
        "cuDNN",
        "fp32",
    ),
    (
        "void spRadix0064B::kernel1Mem<unsigned int, float>(T)",
        Fft,
        "",
        "fp32",
    ),
    (
        "bmm_E4m3_E4m3E4m3_Fp32_t128x8x512u2_s3_et128x8_m128x8x32",
        Gemm,
        "",
        "fp8",
    ),
    (
        "timestep_embedding_f32(float const*, float*)",
        Elementwise,
        "",
        "fp32",
    ),
    (
        "void at::native::(anonymous namespace)::krn_partial_segment_offset<long>(long*)",
        Gather,
        "ATen",
        "",
    ),
    (
        "void cusparse::csrmv_v3_kernel<int, float>(T)",
        Other,
        "cuSPARSE",
        "fp32",
    ),
    (
        "void cudf::detail::compute_column_kernel<256>(T)",
        Other,
        "cuDF",
        "",
    ),
    (
        "void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::mshadow_op::plus, float*>(int)",
        Elementwise,
        "MXNet",
        "fp32",
    ),
    (
        "void phi::funcs::VectorizedElementwiseKernel<float, phi::funcs::AddFunctor<float>>(T)",
        Elementwise,
        "PaddlePaddle",
        "fp32",
    ),
    (
        "void rope_neox<true, false, float>(float const*)",
        Elementwise,
        "llama.cpp",
        "fp32",
    ),
    ("void static_int8_quant<float>(T)", Quantization, "", "fp32"),
    (
        "void flashinfer::QuantKernel<float>(T)",
        Quantization,
        "FlashInfer",
        "fp32",
    ),
    (
        "void vllm::reshape_terms_kernel<float>(T)",
        Other,
        "vLLM",
        "fp32",
    ),
    (
        "broadcast_kernel(CuKernelContext, CuDeviceArray<Float32, 3, 1>, Broadcasted<T>)",
        Elementwise,
        "",
        "",
    ),
];

#[test]
fn kernels_of_other_libraries() {
    check(OTHER_LIBRARIES);
}

#[test]
fn code_of_the_program_is_told_by_the_marks_of_its_programming_model() {
    let application = |name| {
        assert_eq!(identify(name).class, Application, "{name}");
    };
    application("__omp_offloading_31_18a80a1__Z_1...");
    application("__omp_offloading_10302_4a1b_main_l42");
    application("nvkernel__Z6matmulPfS_i_F1L20_2");
    application("main$_omp_fn$0");
    application("stream_copy_25_gpu");
    application("reduce_sum_118_gpu__red");
    application("saxpy_$ck_L12_1");
    application(
        "void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<softmax_functor>>(T1)",
    );
    application(
        "void RAJA::policy::cuda::impl::forall_cuda_kernel<RAJA::cuda_exec<256>, T>(T4, T3, T5)",
    );
    application("add_arrays_(CuDeviceArray<Int64, (int)3, (int)1>)");
    application("julia_saxpy_1234");
    application("__main__::increment[abi:v1](Array<float, 1, C, mutable, aligned>)");
    assert_eq!(
        identify("_Z9solve_gpuPf").class,
        Other,
        "a line number is part of the mark"
    );
}

#[test]
fn a_kernel_of_no_library_is_the_programs_own_unless_a_framework_ran() {
    let classes = |names: &[&str], pass: PassKind| {
        let mut session = trace("");
        session.add_pass("pass", pass, "file");
        let kernels: Vec<_> = names.iter().map(|name| session.kernel(name, "")).collect();
        let identities = identities(&session);
        kernels
            .iter()
            .map(|kernel| identities[kernel.index()].class)
            .collect::<Vec<_>>()
    };
    let fft = "void regular_fft_factor<64u>(T)";
    let aten = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T)";
    let (own, timeline) = ("my_solver(float const*, int)", PassKind::Timeline);
    assert_eq!(classes(&[own], timeline), [Application]);
    assert_eq!(classes(&[own, fft], timeline), [Application, Fft]);
    let takes_types = [
        "seed(curandStateXORWOW *)",
        "sum(thrust::device_ptr<float>)",
        "k<cute::C<1>>(int)",
    ];
    assert_eq!(classes(&takes_types, timeline), [Application; 3]);
    assert_eq!(classes(&[own, aten], timeline), [Other, Reduction]);
    assert_eq!(
        classes(&[own], PassKind::Operators),
        [Other],
        "a framework traced it"
    );
    assert_eq!(
        classes(&["_ZN3cub11EmptyKernelIvEEvv"], timeline),
        [Other],
        "a library's"
    );
}

#[test]
fn unknown_names_stay_unknown() {
    check(&[
        ("my_solver(float const*, int)", Other, "", "fp32"),
        ("vector_dot(double const*, double*)", Other, "", "fp64"),
        ("compute_property(float*)", Other, "", "fp32"),
        ("propagate_distribution_f(float*)", Other, "", "fp32"),
        ("sum_quantity(float*)", Other, "", "fp32"),
        (
            "void scatter_rays(at::PackedTensorAccessor32<float, 2>)",
            Gather,
            "",
            "fp32",
        ),
        ("", Other, "", ""),
        ("<<<(((", Other, "", ""),
    ]);
}

#[test]
fn tensor_cores_where_the_name_tells() {
    let tensor = |name| identify(name).tensor_cores;
    // Of an H100 without TF32, by cuBLAS and cuDNN.
    for simt in [
        "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
        "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x32x8_stage3_warpsize2x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn",
    ] {
        assert_eq!((tensor(simt), identify(simt).dtype), (Some(false), "fp32"));
    }
    assert_eq!(
        tensor("nvjet_tst_128x64_64x11_1x2_h_bz_coopA_TNT"),
        Some(true)
    );
    assert_eq!(
        tensor("cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4"),
        Some(true)
    );
    assert_eq!(
        tensor("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"),
        Some(true)
    );
    assert_eq!(
        tensor("cutlass_80_simt_sgemm_128x32_8x5_nn_align1"),
        Some(false)
    );
    assert_eq!(tensor("ampere_sgemm_32x32_sliced1x4_tn"), Some(false));
    assert_eq!(
        tensor("internal::gemvx::kernel<int, __nv_bfloat16>"),
        Some(false)
    );
    assert_eq!(
        tensor("void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>"),
        Some(true)
    );
    assert_eq!(tensor("fused_moe_kernel"), None);
    assert_eq!(
        tensor("my_wmma_copy(float*)"),
        None,
        "only matrix work runs on tensor cores"
    );
}

#[test]
fn profilers_spell_one_kernel_in_one_signature() {
    let nsys = "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, (bool)0, (bool)1>(cublasLt::cublasSplitKParams<T6>, const T4 *)";
    let torch = "void cublasLt::splitKreduce_kernel<32, 16, int, float, false, true>(cublasLt::cublasSplitKParams<float>, float const*)";
    assert_eq!(
        signature(nsys),
        "cublasLt::splitKreduce_kernel<32,16,int,float,0,1>"
    );
    assert_eq!(signature(nsys), signature(torch));
    assert_eq!(signature("nvjet_sm90_tst_64x8"), "nvjet_sm90_tst_64x8");
}

#[test]
fn fbgemm_makes_no_gemm_of_what_it_holds() {
    for name in [
        "void fbgemm_gpu::permute_2D_data_kernel<true, long, float>(int, int)",
        "void fbgemm_gpu::_block_bucketize_sparse_features_cuda_kernel2<true, long>(int)",
        "void fbgemm_gpu::_FP8rowwise_to_float_cuda_kernel<float>(unsigned char const*)",
    ] {
        assert_ne!(identify(name).class, Gemm, "{name}");
    }
    assert_eq!(
        identify("void fbgemm_gpu::fp8_rowwise_gemm<128>(float*)").class,
        Gemm
    );
}
