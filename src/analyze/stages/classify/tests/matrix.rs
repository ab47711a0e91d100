//! Products, attention and convolutions.

use super::*;

const PRODUCTS: &[Case] = &[
    (
        "nvjet_tst_128x64_64x11_1x2_h_bz_coopA_TNT",
        Gemm,
        "cuBLASLt",
        "bf16",
    ),
    (
        "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_splitK_TNT",
        Gemm,
        "cuBLASLt",
        "fp16",
    ),
    (
        "nvjet_qqtst_128x256_128x6_2x1_v_bz_coopA_TNT",
        Gemm,
        "cuBLASLt",
        "fp8",
    ),
    (
        "nvjet_sm90_sss_128x128_32x5_2x1_v_bz_TNN",
        Gemm,
        "cuBLASLt",
        "tf32",
    ),
    (
        "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, __nv_bfloat16, float>(T6 *)",
        Gemm,
        "cuBLASLt",
        "bf16",
    ),
    (
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        Gemm,
        "cuBLAS",
        "bf16",
    ),
    (
        "ampere_fp16_s16816gemm_fp16_256x128_ldg8_relu_f2f_stages_32x3_tn",
        Gemm,
        "cuBLAS",
        "fp16",
    ),
    (
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        Gemm,
        "cuBLAS",
        "fp16",
    ),
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
    (
        "cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4",
        Gemm,
        "CUTLASS",
        "tf32",
    ),
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
        "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, float, cublasGemvParamsEx<int>>(T1)",
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
    (
        "void marlin::Marlin<__half, 256, 1, 8, 8, 4>(int4 const*)",
        Gemm,
        "Marlin",
        "fp16",
    ),
    ("fused_moe_kernel", Gemm, "Triton", ""),
    ("triton_tem_fused_addmm_3", Gemm, "Triton", ""),
    ("_w8a8_block_fp8_matmul", Gemm, "Triton", "fp8"),
    (
        "Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1",
        Gemm,
        "hipBLASLt / Tensile",
        "bf16",
    ),
    (
        "Cijk_Alik_Bljk_HHS_BH_MT64x16x32_MI16x16x1",
        Gemm,
        "hipBLASLt / Tensile",
        "fp16",
    ),
    (
        "Cijk_Ailk_Bjlk_SB_Bias_AS_SAV_UserArgs_MT64x16x16",
        Gemm,
        "hipBLASLt / Tensile",
        "fp32",
    ),
    (
        "Cijk_Ailk_Bjlk_DB_MT64x16x16_MI16x16x1",
        Gemm,
        "hipBLASLt / Tensile",
        "fp64",
    ),
    (
        "void Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x3_tn_align8>(Params)",
        Gemm,
        "CUTLASS",
        "bf16",
    ),
    (
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8>(T1::Params)",
        Gemm,
        "CUTLASS",
        "bf16",
    ),
    (
        "ampere_bf16_s161616gemm_bf16_32x32_128x2_tn",
        Gemm,
        "cuBLAS",
        "bf16",
    ),
    (
        "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::half_t>>(T)",
        Gemm,
        "Composable Kernel",
        "fp16",
    ),
    (
        "void ck_tile::kentry<256, 1, ck_tile::GemmKernel<ck_tile::bf16_t>>(T)",
        Gemm,
        "Composable Kernel",
        "bf16",
    ),
    (
        "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::MmaPipelined<cutlass::gemm::GemmShape<128, 128, 32>, cutlass::half_t>>>(T1::Params)",
        Gemm,
        "CUTLASS",
        "fp16",
    ),
    (
        "void kgemm_4bit_inference_naive<__half, 128, 16>(int, int, int, __half*)",
        Gemm,
        "bitsandbytes",
        "fp16",
    ),
    (
        "void mul_mat_vec_q<(ggml_type)8, 1, false>(void const*)",
        Gemm,
        "llama.cpp",
        "",
    ),
    ("gemm_fusion_dot_12_0", Gemm, "XLA", ""),
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
];

#[test]
fn matrix_products() {
    check(PRODUCTS);
}

const ATTENTION: &[Case] = &[
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
    (
        "fmha_cutlassB_f16_aligned_64x64_k64_sm80(Params)",
        Attention,
        "PyTorch",
        "fp16",
    ),
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
    (
        "void cudnn::fusion::convert_dq_to_16bits<true>(void const*, float)",
        Attention,
        "cuDNN",
        "",
    ),
    ("triton_tem_fused_flex_attention_0", Attention, "Triton", ""),
    (
        "void qk_int_sv_f16_attn_kernel<128, 64, 32, 64, 128, __half, float, false>(signed char*)",
        Attention,
        "SageAttention",
        "int8",
    ),
    (
        "void qk_int8_sv_f8_accum_f32_attn_inst_buf_kernel<128, 64, 32, 64, 128>(T)",
        Attention,
        "SageAttention",
        "int8",
    ),
    (
        "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::bf16_t>>(T)",
        Attention,
        "Composable Kernel",
        "bf16",
    ),
    (
        "void flash_attn_tile_ext_f16<64, 16, 8, false>(char const*)",
        Attention,
        "llama.cpp",
        "fp16",
    ),
    (
        "void attention_forward_kernel1(float*, float const*, int)",
        Attention,
        "",
        "fp32",
    ),
];

#[test]
fn attention_is_not_a_matrix_product() {
    check(ATTENTION);
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
        (
            "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x128x32_wt32x32x8",
            Convolution,
            "MIOpen",
            "bf16",
        ),
        (
            "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x32x32_stage4_warpsize4x1x1_g1_tensor16x8x16_execute_kernel__5x_cudnn",
            Convolution,
            "cuDNN",
            "bf16",
        ),
        (
            "void ck::kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<ck::half_t>(T)",
            Convolution,
            "Composable Kernel",
            "fp16",
        ),
        (
            "void wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)",
            Convolution,
            "cuDNN",
            "fp32",
        ),
        ("triton_tem_fused_convolution_4", Convolution, "Triton", ""),
    ]);
}
