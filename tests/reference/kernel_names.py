"""What a kernel does, from its name alone: a short list of its own, which shares nothing with the program's.

Kernels that fill memory count with copies, as memsets do.
It tells the names that findings need: products (`gemm`), convolutions, collectives, and coarse groups of the rest.
"""

import functools
import re

CLASSES = [
    ("communication", r"^(nccl|rccl)"),
    # Its name lists all operators around the fused ones, such as attention that another kernel computes.
    ("fusion", r"^(CudaCodeGen|fused_|nvfuser|kernel\d+$|__nv_static.*CudaCodeGen)"),
    # The root mean square of a fused RMS norm has `pow`, `mean` and `rsqrt`.
    ("norm", r"^triton_(red|per)_.*mean.*rsqrt"),
    ("elementwise", r"^triton_(poi|red|per)_(?!.*(soft_?max|norm))"),
    ("sorting", r"(?<!ten)(?<!search)sort(?!ed_cuda)|fill_reverse_indices|topk|scan_by_key"),
    ("attention", r"flash|fmha|sdpa|attention|attn|dot_do_o|convert_dq_to_16bits|lean_reduction"),
    ("convolution", r"fprop|dgrad|wgrad|implicit_gemm|winograd|scudnn|computeOffsets|precompute_indices|conv(olve|olution|_depthwise|[123]d)|im2col"),
    ("norm", r"soft_?max|layer_?norm|LayerNorm|batch_norm|rms_?norm|bn_(fw|bw)|norm_(kernel|fwd|bwd)|ComputePartGrad"
             r"|ComputeGradInput|ComputeGradGamma|GammaBeta|ln_(fwd|bwd)|nll_loss|RowwiseMoments|GroupNorm|ComputeFusedParams"),
    ("pooling", r"upsample"),
    ("gemm", r"gemm|gemv|cutlass::(Kernel|device)|splitK|nvjet|wgmma|dot_kernel|epilogue::impl"),
    ("fft", r"fft|real_complex_args"),
    ("sampling", r"sampleMultinomial"),
    ("optimizer", r"multi_tensor_apply|adam"),
    ("gather", r"index|embedding|gather|scatter|Cat|transpose|copy|nchwTo|nhwcTo|foldedNhwc|AddPadding|convertTensor|roll_|flip"
               r"|FillFunctor|scatter_fill|reflection_pad"
               r"|compute_grad_weight|krn_partial|triu_tril"),
    ("pooling", r"pool"),
    ("elementwise", r"elementwise|reduce|Reduce|broadcast|dropout|triton_(poi|red|per)|scalePacked|arange|swiglu"
                    r"|sum_rows|lpnorm|tensor_kernel_scan|Device(Select|Scan|Compact)"),
]
GROUPS = {"gemm": "GEMM", "convolution": "convolution", "attention": "attention", "norm": "norm, softmax",
          "elementwise": "elementwise, reduction", "optimizer": "elementwise, reduction", "gather": "copy, layout, gather",
          "copy": "copy, layout, gather", "communication": "communication", "pooling": "pooling, resampling", "fusion": "compiler fusion",
          "sorting": "sorting, top-k", "fft": "FFT"}
FP32_GEMM = re.compile(r"(ampere|volta|turing|maxwell|sm\d\d)_(s|cg|gc|c)gemm|\w*xmma_gemm_f32f32_f32f32\w*_ffma_"
                       r"|void cutlass::Kernel2<cutlass_\d+_simt_[sc]gemm_")


def class_of(details):
    """The class of an operation; copies and memsets are copies."""
    return class_of_name(details["name"] or "", details["kind"])


@functools.cache
def class_of_name(name, kind):
    if "MEM" in kind.upper():
        return "copy"
    for one, pattern in CLASSES:
        if re.search(pattern, name, re.I if one != "communication" else 0):
            return one
    return "other"


def is_cudnn_attention(details):
    return class_of(details) == "attention" and is_of_cudnn(details)


def is_of_cudnn(details):
    name = (details["name"] or "").lower()
    return "at::native" not in name and "unpack_cudnn" not in name and re.search("cudnn|nchwtonhwckernel|nhwctonchwkernel|convolve_sgemm|im2col4d|winograd|flip_filter|bn_fw_tr"
                                                  "|bn_bw_1c|wgrad_alg|dgrad_engine|scalepackedtensor|op_generic_tensor", name) is not None


def group_of(details):
    return GROUPS.get(class_of(details), "other")


def is_fp32_without_tensor_cores(details):
    """cuBLAS's SIMT products of single precision, complex ones too."""
    return FP32_GEMM.match(details["name"] or "") is not None


def simt_convolution(wanted_dtype):
    """cuDNN's SIMT convolutions; their tables of indices multiply nothing."""
    def wanted(details):
        name = details["name"] or ""
        own = next((dtype for dtype in ("__half", "bfloat16") if dtype in name), None)
        is_simt = re.search(r"convolve_sgemm|(^|_)scudnn|xmma_(fprop|dgrad|wgrad)\w*_ffma_", name) is not None
        return is_simt and "indices" not in name and own == wanted_dtype
    return wanted


CONVOLUTIONS = {"fp32": simt_convolution(None), "fp16": simt_convolution("__half"), "bf16": simt_convolution("bfloat16")}


def is_fp32_engine(details):
    """Backward engines of cuDNN from before tensor cores."""
    name = details["name"] or ""
    return re.search(r"dgrad_engine|wgrad_alg[01]_engine|dgrad2d_alg1", name) is not None and "__half" not in name


def is_fp32_transform(details):
    """Transforms of operands and outputs of convolutions by Winograd, which multiply nothing."""
    name = details["name"] or ""
    return "winograd" in name and "scudnn" not in name and "__half" not in name


def is_tf32_product(details):
    """Products and convolutions in TF32: `tf32` in the name, `s1688gemm`, or nvjet's single-letter type."""
    name = (details["name"] or "").lower()
    return class_of(details) in ("gemm", "convolution") and re.search(r"tf32|s1688gemm|nvjet_(sm\d+_)?s", name) is not None


def is_fp32_between(details):
    """Kernels that read and write activations, with fp32 and no narrower type in their names."""
    name = details["name"] or ""
    return (class_of(details) in ("elementwise", "norm", "pooling") and re.search(r"\bfloat\b|float2", name) is not None
            and re.search(r"half|bfloat16|Half|BFloat16|double|Cat|upsample_n|FoldedNhwc", name) is None)
