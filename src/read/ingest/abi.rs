//! Names of CUDA calls, which all tools record with the suffixes of the ABI.

/// The name of a CUDA call without the suffix of its ABI version: `cudaLaunchKernel_v7000` and
/// `cudaMemcpyAsync_ptsz_v7000` are `cudaLaunchKernel` and `cudaMemcpyAsync`.
pub(super) fn without_abi_suffix(name: &str) -> &str {
    let stem = match name.rsplit_once("_v") {
        Some((stem, digits))
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            stem
        }
        _ => name,
    };
    stem.strip_suffix("_ptsz")
        .or_else(|| stem.strip_suffix("_ptds"))
        .unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::without_abi_suffix;

    #[test]
    fn abi_suffixes_are_cut_and_nothing_else() {
        assert_eq!(
            without_abi_suffix("cudaLaunchKernel_v7000"),
            "cudaLaunchKernel"
        );
        assert_eq!(
            without_abi_suffix("cudaMemcpyAsync_ptsz_v7000"),
            "cudaMemcpyAsync"
        );
        assert_eq!(
            without_abi_suffix("cuGetProcAddress_v2"),
            "cuGetProcAddress"
        );
        assert_eq!(without_abi_suffix("cudaMalloc"), "cudaMalloc");
        assert_eq!(without_abi_suffix("my_value"), "my_value");
    }
}
