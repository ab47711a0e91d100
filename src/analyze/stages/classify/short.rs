//! Names for people: what distinguishes a kernel, in at most 48 characters.

use std::sync::LazyLock;

use regex::Regex;

use super::names::{Name, pattern};
use super::{KernelClass, Tile};

/// Longest short name, in characters.
pub(super) const LIMIT: usize = 48;

/// A short name; never empty.
pub(super) fn short(name: &Name, class: KernelClass, dtype: &str, tile: Option<Tile>) -> String {
    let words = special(name, tile)
        .or_else(|| aten(name, class, dtype))
        .unwrap_or_else(|| general(name, dtype));
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    clipped(if words.is_empty() {
        "unnamed kernel"
    } else {
        &words
    })
}

/// Libraries with a naming scheme of their own.
fn special(name: &Name, tile: Option<Tile>) -> Option<String> {
    let text = name.text.as_str();
    if text.contains("nccldevkernel") || text.contains("ncclkernel") {
        let words = name
            .base
            .split_once("Kernel_")
            .map_or(name.base.as_str(), |split| split.1);
        return Some(format!("NCCL {}", words.replace('_', " ")));
    }
    if text.contains("cudnn_generated") && text.contains("sdpa") {
        let direction = if text.contains("bprop") { "bwd" } else { "fwd" };
        return Some(format!("cuDNN sdpa {direction} {}", found(&TILE, text)));
    }
    if text.contains("flash_kernel_traits") || text.contains("fwd_kernel_traits") {
        return Some(flash(name));
    }
    if text.contains("flashattnfwdsm90") || text.contains("flashattnbwdsm90") {
        let direction = if text.contains("bwd") { "bwd" } else { "fwd" };
        return Some(format!("flash3 {direction}"));
    }
    if name.base.starts_with("CatArray") {
        return Some(cat(name));
    }
    if text.contains("splitkreduce") {
        return Some("split-K reduce".to_owned());
    }
    if name.own.contains("gemvx") || text.contains("cublasgemv") {
        let base = if name.base == "kernel" {
            "gemvx"
        } else {
            &name.base
        };
        return Some(base.trim_end_matches("_kernel").to_owned());
    }
    tile.and_then(|tile| gemm(&name.whole, tile))
}

static TILE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d+x\d+x\d+"));

fn found<'a>(pattern: &Regex, text: &'a str) -> &'a str {
    pattern.find(text).map_or("", |matched| matched.as_str())
}

/// FlashAttention 2: `Flash_fwd_kernel_traits<head size, block rows, block columns, …>`.
fn flash(name: &Name) -> String {
    static TRAITS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"kernel_traits<(\d+), ?(\d+), ?(\d+)"));
    let base = name
        .base
        .to_lowercase()
        .replace("flash_", "")
        .replace("_kernel", "");
    let base = base.replace('_', " ");
    match TRAITS.captures(&name.text) {
        Some(traits) => format!(
            "flash {base} hdim{} {}x{}",
            &traits[1], &traits[2], &traits[3]
        ),
        None => format!("flash {base}"),
    }
}

/// PyTorch's concatenation: `CatArrayBatchedCopy_vectorized<OpaqueType<2>, …>` moves elements of 2 bytes.
fn cat(name: &Name) -> String {
    static SIZE: LazyLock<Regex> = LazyLock::new(|| pattern(r"opaquetype<(\d+)"));
    let size = SIZE
        .captures(&name.text)
        .map_or(String::new(), |size| format!("{}-byte", &size[1]));
    let variant = name
        .base
        .trim_start_matches("CatArrayBatchedCopy")
        .replace('_', " ");
    format!("cat {size} {variant}")
}

/// A GEMM with its tile: family, instruction, tile, cluster, split-K, epilogue, layout.
fn gemm(whole: &str, tile: Tile) -> Option<String> {
    static IDENTIFIER: LazyLock<Regex> = LazyLock::new(|| {
        let families = "cutlass_|cutlass3x_|nvjet_|ampere_|volta_|turing_|hopper_|maxwell_|sm";
        pattern(&format!(r"(?:{families})\w*\d+x\d+\w*"))
    });
    static PRODUCT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"_((?:[a-z0-9]*gemm|[a-z0-9]*cudnn|fprop|dgrad|wgrad|[a-z0-9]+fprop))_")
    });
    static CLUSTER: LazyLock<Regex> = LazyLock::new(|| pattern(r"_(\d+x\d+)_[vh]_bz"));
    let identifier = IDENTIFIER.find(whole)?.as_str();
    let mut parts: Vec<&str> = Vec::new();
    parts.extend(identifier.split('_').next());
    parts.extend(
        PRODUCT
            .captures(identifier)
            .and_then(|captures| captures.get(1))
            .map(|p| p.as_str()),
    );
    let depth = if tile.k > 0 {
        format!("x{}", tile.k)
    } else {
        String::new()
    };
    let size = format!("{}x{}{depth}", tile.m, tile.n);
    parts.push(&size);
    parts.extend(
        CLUSTER
            .captures(identifier)
            .and_then(|captures| captures.get(1))
            .map(|p| p.as_str()),
    );
    let has = |word: &&str| identifier.split('_').any(|part| part == *word);
    parts.extend(
        ["simt", "wmma", "splitK", "coopA", "coopB", "bias", "relu"]
            .iter()
            .filter(|w| has(w)),
    );
    parts.extend(identifier.split('_').find(|part| is_layout(part)));
    Some(parts.join(" "))
}

/// `tn`, `NTN` and so on: which operands are transposed.
fn is_layout(part: &str) -> bool {
    (2..=3).contains(&part.len()) && part.bytes().all(|b| matches!(b, b'n' | b't' | b'N' | b'T'))
}

/// PyTorch's kernels that are templates over the function that they apply.
fn aten(name: &Name, class: KernelClass, dtype: &str) -> Option<String> {
    let (kind, variant) = match name.base.as_str() {
        "reduce_kernel" => ("reduce", ""),
        "multi_tensor_apply_kernel" => ("multi_tensor_apply", ""),
        "vectorized_elementwise_kernel" | "elementwise_kernel_with_index" => (class.label(), ""),
        "unrolled_elementwise_kernel" => (class.label(), "unrolled"),
        "elementwise_kernel" | "index_elementwise_kernel" => (class.label(), "strided"),
        "_scatter_gather_elementwise_kernel" => (class.label(), ""),
        "distribution_elementwise_grid_stride_kernel" => ("random", ""),
        _ => return None,
    };
    // `copy`, `fill`, `index_put` say what kind of work they are.
    let named = matches!(class, KernelClass::Layout | KernelClass::Gather);
    let applied = applied_function(&name.whole)?;
    let scalar = if name.text.contains("unaryfunctor<") {
        "scalar"
    } else {
        ""
    };
    Some(format!(
        "{} {applied} {scalar} {dtype} {variant}",
        if named { "" } else { kind }
    ))
}

/// The innermost function of a PyTorch template that says what is computed: `silu` of `silu_kernel(…)`.
fn applied_function(whole: &str) -> Option<String> {
    static WORD: LazyLock<Regex> = LazyLock::new(|| {
        let named = r"([A-Za-z]\w*?)(?:_kernel_cuda|_kernel_impl|CUDAKernelImpl|_cuda_out|_internal_kernel|_kernel|MathFunctor|ScalarFunctor|Functor|Ops)\b";
        let plain = r"(?:CUDAFunctor|CUDAFunctorOnSelf|CUDAFunctorOnOther)_(\w+)\b|launch_(\w+?)(?:_scalar|_kernel)?\b|(\w+)_and_transform\b|(\w+)_functor\b|std::(plus|minus|multiplies|divides)\b";
        pattern(&format!("{named}|{plain}"))
    });
    let arguments = whole.split_once('<')?.1;
    let words = WORD.captures_iter(arguments).filter_map(|captures| {
        let word = (1..captures.len())
            .find_map(|group| captures.get(group))?
            .as_str();
        (!GENERIC.contains(&word)).then(|| snake(word))
    });
    let mut words = words;
    words
        .next()
        .map(|word| word.replace("direct_copy", "copy").replace("arg_m", "argm"))
}

/// Wrappers that say how a function is applied, not which.
const GENERIC: [&str; 16] = [
    "AUnary",
    "BUnary",
    "Unary",
    "Binary",
    "gpu",
    "gpu_kernel",
    "Compare",
    "BinaryOp",
    "UnaryOp",
    "elementwise",
    "vectorized_elementwise",
    "gpu_index",
    "Reduce",
    "PointwiseOp",
    "TernaryOp",
    "Scalar",
];

/// `FusedAdam` as `fused_adam`.
fn snake(word: &str) -> String {
    let mut out = String::new();
    let mut lower_before = false;
    for c in word.chars() {
        if c.is_ascii_uppercase() && lower_before {
            out.push('_');
        }
        lower_before = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(c.to_ascii_lowercase());
    }
    out.trim_matches('_').to_owned()
}

/// Last part of the path, or the first name within a template where that is empty of meaning.
fn general(name: &Name, dtype: &str) -> String {
    const EMPTY: [&str; 7] = [
        "kernel",
        "Kernel",
        "Kernel2",
        "device_kernel",
        "static_kernel",
        "_kernel_agent",
        "run",
    ];
    let base = if EMPTY.contains(&name.base.as_str()) {
        let inner = name.whole.split_once('<').map_or("", |split| split.1);
        let inner = inner.split(['<', '>', ',', '(']).next().unwrap_or_default();
        inner.rsplit("::").next().unwrap_or_default()
    } else {
        name.base.as_str()
    };
    let base = if base.is_empty() {
        name.whole.as_str()
    } else {
        base
    };
    // Triton's names tell their types, if at all, in words of their own.
    let shown = if name.whole.contains('<') { dtype } else { "" };
    format!("{base} {shown}")
}

/// At most [`LIMIT`] characters, cut with an ellipsis in the middle: both ends tell something.
fn clipped(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= LIMIT {
        return text.to_owned();
    }
    let tail = LIMIT / 3;
    let head = LIMIT - tail - 1;
    let kept = chars[..head]
        .iter()
        .chain(['…'].iter())
        .chain(&chars[chars.len() - tail..]);
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::super::identify;

    #[test]
    fn short_names_keep_what_distinguishes() {
        let short = |name| identify(name).short;
        assert_eq!(
            short("nvjet_sm90_tst_128x64_64x8_1x2_h_bz_splitK_TNT"),
            "nvjet 128x64x64 1x2 splitK TNT"
        );
        assert_eq!(
            short(
                "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)"
            ),
            "cutlass s16816gemm 256x128x32 relu tn"
        );
        assert_eq!(
            short(
                "void flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4>>(T)"
            ),
            "flash fwd hdim128 128x64"
        );
        assert_eq!(
            short(
                "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_kernel0_0"
            ),
            "cuDNN sdpa bwd 64x64x128"
        );
        assert_eq!(
            short("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)"),
            "NCCL AllReduce Sum bf16 RING LL"
        );
        assert_eq!(
            short(
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, at::native::ArgMaxOps<float>>>(T)"
            ),
            "reduce argmax bf16"
        );
        assert_eq!(
            short(
                "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int>(T)"
            ),
            "cat 2-byte vectorized"
        );
        assert_eq!(
            short(
                "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >>(int)"
            ),
            "elementwise mul scalar fp32"
        );
        assert_eq!(
            short("triton_poi_fused_mul_silu_1"),
            "triton_poi_fused_mul_silu_1"
        );
        assert_eq!(short(""), "unnamed kernel");
        let long = short(&"ä".repeat(300));
        assert_eq!(long.chars().count(), 48);
        assert!(long.contains('…'));
    }
}
