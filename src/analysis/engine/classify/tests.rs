//! Kernel names in the forms that profilers print, and what each tells.
//!
//! Expectations come from the naming schemes of the libraries, not from what the rules answer.

use super::KernelClass::{self, *};
use super::{identify, signature};

/// Name, class, library, dtype.
type Case = (&'static str, KernelClass, &'static str, &'static str);

#[track_caller]
fn check(cases: &[Case]) {
    for (name, class, library, dtype) in cases {
        let found = identify(name);
        assert_eq!((found.class, found.library, found.dtype), (*class, *library, *dtype), "{name}");
    }
}

#[test]
fn matrix_products() {
    check(&[
        ("nvjet_tst_128x64_64x11_1x2_h_bz_coopA_TNT", Gemm, "cuBLASLt", "bf16"),
        ("nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_splitK_TNT", Gemm, "cuBLASLt", "fp16"),
        ("nvjet_qqtst_128x256_128x6_2x1_v_bz_coopA_TNT", Gemm, "cuBLASLt", "fp8"),
        ("nvjet_sm90_sss_128x128_32x5_2x1_v_bz_TNN", Gemm, "cuBLASLt", "tf32"),
        (
            "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, __nv_bfloat16, float>(T6 *)",
            Gemm,
            "cuBLASLt",
            "bf16",
        ),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", Gemm, "cuBLAS", "bf16"),
        (
            "ampere_fp16_s16816gemm_fp16_256x128_ldg8_relu_f2f_stages_32x3_tn",
            Gemm,
            "cuBLAS",
            "fp16",
        ),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", Gemm, "cuBLAS", "fp16"),
        ("volta_sgemm_64x64_nn", Gemm, "cuBLAS", "fp32"),
        ("volta_dgemm_128x64_nt", Gemm, "cuBLAS", "fp64"),
        ("ampere_sgemm_32x32_sliced1x4_tn", Gemm, "cuBLAS", "fp32"),
        (
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
            Gemm,
            "cuBLAS",
            "bf16",
        ),
        (
            "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel",
            Gemm,
            "cuBLAS",
            "fp16",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)",
            Gemm,
            "CUTLASS",
            "bf16",
        ),
        ("cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4", Gemm, "CUTLASS", "tf32"),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(T1::Params)",
            Gemm,
            "CUTLASS",
            "fp32",
        ),
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::float_e4m3_t>>(T1::Params)",
            Gemm,
            "CUTLASS",
            "fp8",
        ),
        (
            "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, float>(T1)",
            Gemm,
            "cuBLAS",
            "bf16",
        ),
        (
            "void gemv2T_kernel_val<int, int, __half, __half, float, 128, 16>(cublasGemvParams<T>)",
            Gemm,
            "cuBLAS",
            "fp16",
        ),
        (
            "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u>(float*)",
            Gemm,
            "DeepGEMM",
            "fp8",
        ),
        ("void marlin::Marlin<__half, 256, 1, 8, 8, 4>(int4 const*)", Gemm, "Marlin", "fp16"),
        ("fused_moe_kernel", Gemm, "Triton", ""),
        ("triton_tem_fused_addmm_3", Gemm, "Triton", ""),
        ("_w8a8_block_fp8_matmul", Gemm, "Triton", "fp8"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1", Gemm, "hipBLASLt / Tensile", ""),
        (
            "void mul_mat_q<(ggml_type)12, 128, 8, false>(char const*, int const*, float*)",
            Gemm,
            "llama.cpp",
            "fp32",
        ),
        (
            "_ZN7cutlass7Kernel2I61cutlass_80_tensorop_f16_s16816gemm_f16_64x64_32x6_tn_align8xxEEvNT_6ParamsE",
            Gemm,
            "CUTLASS",
            "fp16",
        ),
    ]);
}

#[test]
fn attention_is_not_a_matrix_product() {
    check(&[
        (
            "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>>(Params)",
            Attention,
            "FlashAttention",
            "fp16",
        ),
        (
            "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8, cutlass::bfloat16_t>>(T)",
            Attention,
            "FlashAttention",
            "bf16",
        ),
        (
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cutlass::bfloat16_t>>>>(T1::Params)",
            Attention,
            "FlashAttention",
            "bf16",
        ),
        (
            "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)",
            Attention,
            "PyTorch",
            "bf16",
        ),
        ("fmha_cutlassB_f16_aligned_64x64_k64_sm80(Params)", Attention, "PyTorch", "fp16"),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0",
            Attention,
            "cuDNN",
            "",
        ),
        (
            "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(float const*)",
            Attention,
            "cuDNN",
            "",
        ),
        (
            "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, __nv_bfloat16>(T)",
            Attention,
            "FlashInfer",
            "bf16",
        ),
        (
            "void vllm::paged_attention_v2_kernel<__half, __half, 128, 16, 128>(float*)",
            Attention,
            "vLLM",
            "fp16",
        ),
        (
            "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausal",
            Attention,
            "TensorRT-LLM",
            "bf16",
        ),
        ("kernel_unified_attention_2d", Attention, "Triton", ""),
        ("_fwd_grouped_kernel_stage1", Attention, "Triton", ""),
        ("triton_tem_fused_flex_attention_0", Attention, "Triton", ""),
    ]);
}

#[test]
fn convolutions() {
    check(&[
        (
            "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x64x64_stage3_execute_kernel_trt",
            Convolution,
            "TensorRT",
            "fp16",
        ),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x128_32x3_nhwc_align8>(T1::Params)",
            Convolution,
            "cuDNN",
            "bf16",
        ),
        (
            "volta_fp16_s884cudnn_fp16_128x128_ldg8_splitK_relu_small_nhwc_tn_v1",
            Convolution,
            "cuDNN",
            "fp16",
        ),
        (
            "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>(int, float const*)",
            Convolution,
            "cuDNN",
            "fp32",
        ),
        (
            "void at::native::conv_depthwise2d_forward_kernel<3, c10::Half, int>(T)",
            Convolution,
            "ATen",
            "fp16",
        ),
    ]);
}

#[test]
fn pytorch_kernels_are_told_by_the_function_that_they_apply() {
    let vectorized = "void at::native::vectorized_elementwise_kernel<(int)8, ";
    let case = |inner: &str| identify(&format!("{vectorized}{inner}, std::array<char *, 2>>(int)"));
    let silu = case(
        "at::native::<unnamed>::silu_kernel(at::TensorIteratorBase &)::[lambda(c10::BFloat16)]",
    );
    assert_eq!((silu.class, silu.library, silu.dtype), (Elementwise, "ATen", "bf16"));
    assert_eq!(silu.short, "elementwise silu bf16");
    assert_eq!(case("at::native::FillFunctor<float>").class, Layout);
    assert_eq!(case("at::native::FillFunctor<float>").short, "fill fp32");
    assert_eq!(case("at::native::direct_copy_kernel_cuda(T)::[lambda(float)]").class, Layout);
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
        ("void at::native::vectorized_gather_kernel<16, long>(char*)", Gather, "ATen", ""),
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
            Sampling,
            "ATen",
            "fp32",
        ),
        (
            "void at::native::bitonicSortKVInPlace<-2, -1, 16, 16, long, long>(T)",
            Sampling,
            "ATen",
            "",
        ),
        ("void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<T>(int)", Sampling, "ATen", ""),
        ("void at_cuda_detail::cub::DeviceScanKernel<T>(int)", Reduction, "ATen", ""),
        (
            "void at::native::multi_tensor_apply_kernel<T, at::native::FusedAdamMathFunctor<float, 4>, double>(T)",
            Optimizer,
            "ATen",
            "fp32",
        ),
        ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_", Reduction, "ATen", ""),
    ]);
}

#[test]
fn kernels_of_serving_and_training_libraries() {
    check(&[
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
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(T)", Layout, "vLLM", "bf16"),
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
        ("void vllm::moe::moe_align_block_size_kernel<int>(int*)", MoeRouting, "vLLM", ""),
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
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_2", Normalization, "Triton", ""),
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
        ("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", Communication, "DeepEP", ""),
        ("__amd_rocclr_copyBuffer", Layout, "", ""),
    ]);
}

#[test]
fn unknown_names_stay_unknown() {
    check(&[
        ("my_solver(float const*, int)", Other, "", "fp32"),
        ("vector_dot(double const*, double*)", Other, "", "fp64"),
        ("", Other, "", ""),
        ("<<<(((", Other, "", ""),
    ]);
}

#[test]
fn tensor_cores_where_the_name_tells() {
    let tensor = |name| identify(name).tensor_cores;
    assert_eq!(tensor("nvjet_tst_128x64_64x11_1x2_h_bz_coopA_TNT"), Some(true));
    assert_eq!(tensor("cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4"), Some(true));
    assert_eq!(tensor("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"), Some(true));
    assert_eq!(tensor("cutlass_80_simt_sgemm_128x32_8x5_nn_align1"), Some(false));
    assert_eq!(tensor("ampere_sgemm_32x32_sliced1x4_tn"), Some(false));
    assert_eq!(tensor("internal::gemvx::kernel<int, __nv_bfloat16>"), Some(false));
    assert_eq!(tensor("void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>"), Some(true));
    assert_eq!(tensor("fused_moe_kernel"), None);
    assert_eq!(tensor("my_wmma_copy(float*)"), None, "only matrix work runs on tensor cores");
}

#[test]
fn profilers_spell_one_kernel_in_one_signature() {
    let nsys = "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, (bool)0, (bool)1>(cublasLt::cublasSplitKParams<T6>, const T4 *)";
    let torch = "void cublasLt::splitKreduce_kernel<32, 16, int, float, false, true>(cublasLt::cublasSplitKParams<float>, float const*)";
    assert_eq!(signature(nsys), "cublasLt::splitKreduce_kernel<32,16,int,float,0,1>");
    assert_eq!(signature(nsys), signature(torch));
    assert_eq!(signature("nvjet_sm90_tst_64x8"), "nvjet_sm90_tst_64x8");
}
