//! Tiles in the names of matrix-product kernels.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::Tile;
use super::names::pattern;

/// Naming schemes, the most specific first. Groups are m, n and, where the name has it, k.
static SCHEMES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // cuBLASLt's nvjet: 128x64_64x11 is the tile m x n, then depth x stages.
        r"nvjet_(?:sm\d+_)?[a-z0-9]+_(\d+)x(\d+)_(\d+)x\d+",
        // xmma: tilesize128x128x64.
        r"tilesize(\d+)x(\d+)x(\d+)",
        // CUTLASS 3: ..gemm_bf16_bf16_f32_128x128x64_2x1x1.
        r"gemm(?:_[a-z][a-z0-9]*)*_(\d+)x(\d+)x(\d+)_",
        // CUTLASS 2: ..gemm_relu_bf16_256x128_32x3_tn: m x n, then depth x stages.
        r"(?:gemm|fprop|dgrad|wgrad)(?:_[a-z][a-z0-9]*)*_(\d+)x(\d+)_(\d+)x\d+",
        // cuBLAS: ..gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn.
        r"(?:gemm|cudnn)(?:_[a-z][a-z0-9]*)*_(\d+)x(\d+)_(?:[a-z][a-z0-9]*_)*stages_(\d+)x\d+",
        // cuBLAS and cuDNN without the depth: volta_sgemm_64x64_nn.
        r"(?:gemm|cudnn)(?:_[a-z][a-z0-9]*)*_(\d+)x(\d+)(?:_|$)",
        // CUTLASS 2 as a C++ type.
        r"gemmshape<(\d+), ?(\d+), ?(\d+)>",
        // Tensile: MT128x128x32.
        r"_mt(\d+)x(\d+)x(\d+)",
    ]
    .into_iter()
    .map(pattern)
    .collect()
});

/// The same in CUTLASS 3 types; a cluster shape has this form too, but is smaller.
static CUTE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"tuple<cute::c<(\d+)>, ?cute::c<(\d+)>, ?cute::c<(\d+)> ?>"));

/// Edges of a cluster are at most 16 blocks, and so are smaller than the rows of a tile.
const LARGEST_CLUSTER: u32 = 16;

/// The tile that a name in lower case encodes.
pub(super) fn tile(name: &str) -> Option<Tile> {
    let named = SCHEMES
        .iter()
        .find_map(|scheme| scheme.captures(name))
        .as_ref()
        .and_then(read);
    let typed = || {
        let tuples = CUTE.captures_iter(name);
        tuples
            .filter_map(|captures| read(&captures))
            .find(|tile| tile.m > LARGEST_CLUSTER)
    };
    named.or_else(typed)
}

fn read(found: &Captures<'_>) -> Option<Tile> {
    let number = |group: usize| {
        found
            .get(group)
            .map_or(Some(0), |text| text.as_str().parse().ok())
    };
    Some(Tile {
        m: number(1)?,
        n: number(2)?,
        k: number(3)?,
    })
    .filter(|tile| tile.m > 0 && tile.n > 0)
}

#[cfg(test)]
mod tests {
    use super::super::{Tile, identify};

    #[test]
    fn tiles() {
        let tile = |name| identify(name).tile.map(|Tile { m, n, k }| (m, n, k));
        assert_eq!(
            tile("nvjet_tst_128x64_64x11_1x2_h_bz_coopA_TNT"),
            Some((128, 64, 64))
        );
        assert_eq!(
            tile("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_tn_align8"),
            Some((128, 256, 32))
        );
        assert_eq!(
            tile("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"),
            Some((128, 64, 64))
        );
        assert_eq!(tile("ampere_sgemm_32x32_sliced1x4_tn"), Some((32, 32, 0)));
        assert_eq!(tile("volta_sgemm_128x64_nn"), Some((128, 64, 0)));
        assert_eq!(
            tile("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x192x64_kernel"),
            Some((128, 192, 64))
        );
        assert_eq!(
            tile(
                "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16_128x128x64_2x1x1_0_tnn_align8"
            ),
            Some((128, 128, 64))
        );
        assert_eq!(
            tile(
                "cutlass::device_kernel<GemmUniversal<tuple<cute::C<2>, cute::C<1>, cute::C<1>>, S>, tuple<cute::C<(int)128>, cute::C<256>, cute::C<64>>>"
            ),
            Some((128, 256, 64))
        );
        assert_eq!(
            tile("void cutlass::Kernel<cutlass::gemm::GemmShape<(int)128, (int)64, (int)32>>"),
            Some((128, 64, 32))
        );
        assert_eq!(tile("nvjet_tst_99999999999x64_64x11_1x2_h_bz_TNT"), None);
        assert_eq!(tile("fmha_cutlassF_bf16_aligned_64x128_rf_sm80"), None);
    }
}
