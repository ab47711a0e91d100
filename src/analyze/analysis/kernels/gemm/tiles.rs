//! How a product falls into tiles, and the tiles into waves.
//!
//! tiles = ⌈M/tm⌉ · ⌈N/tn⌉ · batch; units = tiles · parts of a split k; waves = units ÷ (SMs · blocks that fit on an SM).
//! Kernels that launch fewer blocks than units are persistent: their blocks take one unit after the other, so waves
//! are counted in the same way. Stream-K kernels cut tiles to fill all SMs and have no waves.

use std::sync::LazyLock;

use regex::Regex;

use crate::engine::classify::Tile;
use crate::kernels::matmul::Gemm;
use rooflens_session::Dim3;
use rooflens_units::Ratio;

/// What a launch says of how it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch<'a> {
    pub(super) name: &'a str,
    pub(super) library: &'static str,
    pub(super) tile: Option<Tile>,
    pub(super) grid: Dim3,
    /// SMs times blocks that fit on one at a time.
    pub(super) slots: Option<u64>,
}

/// Tiles and waves of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tiling {
    /// Useful part of the tiles: M·N ÷ (padded M · padded N).
    pub tile_efficiency: Option<Ratio>,
    /// Parts of a split k.
    pub splits: Option<u64>,
    /// Units of work over what runs at once.
    pub waves: Option<Ratio>,
}

impl Tiling {
    /// How full the waves are on average: waves ÷ ⌈waves⌉.
    pub fn wave_efficiency(&self) -> Option<Ratio> {
        self.waves
            .filter(Ratio::is_positive)
            .map(|waves| waves / waves.0.ceil())
    }

    /// The tiling of a product; nothing if the tile does not fit product and grid.
    pub(super) fn of(launch: Launch<'_>, gemm: Gemm) -> Self {
        let Some(tile) = launch.tile else {
            return Self::default();
        };
        let (rows, columns) = ((gemm.m, gemm.n), (gemm.n, gemm.m));
        // These are column-major: what frameworks call columns are the rows of their tile.
        let column_major = ["cuBLAS", "CUTLASS", "hipBLASLt"]
            .iter()
            .any(|library| launch.library.starts_with(library));
        let orders = if column_major {
            [columns, rows]
        } else {
            [rows, columns]
        };
        let fitting = orders
            .into_iter()
            .find_map(|size| Some((size, parts(&launch, tile, size, gemm)?)));
        let Some(((m, n), splits)) = fitting else {
            return Self::default();
        };
        let (down, across) = (m.div_ceil(tile.m.into()), n.div_ceil(tile.n.into()));
        let padded = down as f64 * f64::from(tile.m) * across as f64 * f64::from(tile.n);
        let units = down as f64 * across as f64 * gemm.batch as f64 * splits as f64;
        let slots = launch
            .slots
            .filter(|slots| *slots > 0 && !is_stream_k(launch.name));
        Self {
            tile_efficiency: (padded > 0.0).then(|| Ratio(m as f64 * n as f64 / padded)),
            splits: Some(splits),
            waves: slots.map(|slots| Ratio(units / slots as f64)),
        }
    }
}

/// Parts of a split k that this orientation of the tile implies; none if it contradicts the grid.
fn parts(launch: &Launch<'_>, tile: Tile, (m, n): (u64, u64), gemm: Gemm) -> Option<u64> {
    let (across, down) = cluster(launch.name);
    let tiles = |size: u64, tile: u32, cluster: u64| {
        size.div_ceil(u64::from(tile))
            .checked_next_multiple_of(cluster)
    };
    let tiles = tiles(m, tile.m, across)?.checked_mul(tiles(n, tile.n, down)?)?;
    let tiles = tiles.checked_mul(gemm.batch)?.max(1);
    let blocks = launch.grid.volume();
    if blocks < tiles {
        // Persistent, so its blocks fill the GPU; how such a kernel splits k is not in its grid.
        let fills = launch
            .slots
            .is_none_or(|slots| blocks >= slots - slots / 5 && blocks <= slots);
        return (fills && !splits_k(launch.name)).then_some(1);
    }
    let parts = blocks / tiles;
    (blocks.is_multiple_of(tiles) && (parts == 1 || splits_k(launch.name))).then_some(parts)
}

fn splits_k(name: &str) -> bool {
    let name = name.to_lowercase();
    ["splitk", "split_k", "sliced"]
        .iter()
        .any(|part| name.contains(part))
}

fn is_stream_k(name: &str) -> bool {
    let name = name.to_lowercase();
    ["streamk", "stream_k"]
        .iter()
        .any(|part| name.contains(part))
}

/// Blocks of a cluster along rows and columns of the tile, from an nvjet name: grids are multiples of it.
fn cluster(name: &str) -> (u64, u64) {
    static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"nvjet_\w*?_\d+x\d+_\d+x\d+_(\d+)x(\d+)_").expect("the pattern is constant")
    });
    let shape = SHAPE.captures(name).and_then(|captures| {
        let edge = |group: usize| captures.get(group)?.as_str().parse().ok();
        Some((edge(1)?, edge(2)?))
    });
    shape.filter(|(m, n)| *m > 0 && *n > 0).unwrap_or((1, 1))
}

/// Blocks of a kernel that fit on an SM at a time, by threads, registers and shared memory; CUDA C++ Programming
/// Guide, table of technical specifications per compute capability.
pub(super) fn blocks_per_sm(
    capability: u32,
    threads: u64,
    registers: Option<u32>,
    shared_bytes: Option<u32>,
) -> Option<u64> {
    let (max_threads, max_blocks, shared) = match capability {
        70 => (2048, 32, 96 << 10),
        75 => (1024, 16, 64 << 10),
        80 => (2048, 32, 164 << 10),
        86 => (1536, 16, 100 << 10),
        87 => (1536, 16, 164 << 10),
        89 => (1536, 24, 100 << 10),
        90 | 100 | 103 => (2048, 32, 228 << 10),
        120 | 121 => (1536, 24, 100 << 10),
        _ => return None,
    };
    let warps = threads.div_ceil(32).max(1);
    // Registers are given out in units of 256 a warp; 1 KiB of shared memory a block is the system's from 8.0 on.
    let warp_registers = u64::from(registers?)
        .saturating_mul(32)
        .next_multiple_of(256)
        .max(256);
    let by_registers = (64 << 10) / warp_registers / warps;
    let reserved = if capability >= 80 { 1024 } else { 0 };
    let by_shared = match u64::from(shared_bytes?) + reserved {
        0 => max_blocks,
        bytes => shared / bytes,
    };
    let by_threads = max_threads / (warps * 32);
    Some(by_registers.min(by_shared).min(by_threads).min(max_blocks)).filter(|blocks| *blocks > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiling(name: &str, tile: (u32, u32), grid: u32, (m, n, k): (u64, u64, u64)) -> Tiling {
        let tile = Some(Tile {
            m: tile.0,
            n: tile.1,
            k: 64,
        });
        let grid = Dim3 {
            x: grid,
            y: 1,
            z: 1,
        };
        let launch = Launch {
            name,
            library: "cuBLASLt",
            tile,
            grid,
            slots: Some(132),
        };
        Tiling::of(launch, Gemm { m, n, k, batch: 1 })
    }

    fn near(found: Option<Ratio>, expected: f64) -> bool {
        found.is_some_and(|found| (found.0 - expected).abs() < 5e-5)
    }

    #[test]
    fn tiles_of_tensile_are_column_major() {
        // 5 by 128, tile 64 by 16: 128 ÷ 64 = 2 tiles down, ⌈5 ÷ 16⌉ = 1 across: 640 ÷ (128 · 16).
        let launch = Launch {
            name: "Cijk_Alik_Bljk_HHS_BH_MT64x16x32",
            library: "hipBLASLt / Tensile",
            tile: Some(Tile {
                m: 64,
                n: 16,
                k: 32,
            }),
            grid: Dim3 { x: 2, y: 1, z: 1 },
            slots: None,
        };
        let tiling = Tiling::of(
            launch,
            Gemm {
                m: 5,
                n: 128,
                k: 128,
                batch: 1,
            },
        );
        assert!(near(tiling.tile_efficiency, 0.3125), "{tiling:?}");
    }

    #[test]
    fn waves_of_132_sms() {
        // 32·16 = 512 tiles of 132: 3.88 waves, 97 %; 33 rows of tiles: 528, 4 waves; 34: 544, 4.12 of 5, 82.4 %.
        let waves = |m| tiling("gemm", (128, 256), 132, (4096, m, 4096));
        let even = waves(4096);
        assert!(near(even.waves, 3.8788) && near(even.wave_efficiency(), 0.9697));
        assert_eq!(even.tile_efficiency, Some(Ratio::ONE));
        assert_eq!(waves(4224).wave_efficiency(), Some(Ratio::ONE));
        assert!(near(waves(4352).wave_efficiency(), 0.8242));
    }

    #[test]
    fn a_split_k_kernel_of_a_decode_step() {
        // Tile 64 × 8 on 2048 outputs and 4 tokens: 32 tiles, 96 blocks, so k is in 3 parts; half of the tile is used.
        let name = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT";
        let found = tiling(name, (64, 8), 96, (4, 2048, 8192));
        let half = Some(Ratio(0.5));
        assert_eq!((found.splits, found.tile_efficiency), (Some(3), half));
        assert!(near(found.waves, 96.0 / 132.0));
    }

    #[test]
    fn clusters_round_the_grid_up() {
        // 896 outputs in tiles of 24: 37.3, so 38, with clusters of 4 40; 128 tokens in 2 tiles: 80 blocks.
        let name = "nvjet_sm90_tst_24x64_64x16_4x2_h_bz_TNN";
        let found = tiling(name, (24, 64), 80, (128, 896, 896));
        assert_eq!(found.splits, Some(1));
        assert!(near(found.tile_efficiency, 896.0 / (38.0 * 24.0)));
        assert!(near(found.waves, 76.0 / 132.0));
        // The other way round the product has 6 · 14 tiles, with clusters 112; 90 blocks fit neither way.
        assert_eq!(tiling(name, (24, 64), 112, (128, 896, 896)).splits, Some(1));
        assert_eq!(
            tiling(name, (24, 64), 90, (128, 896, 896)),
            Tiling::default()
        );
    }

    #[test]
    fn stream_k_has_no_waves_and_no_tile_nothing() {
        let found = tiling("cutlass_gemm_stream_k", (128, 128), 132, (4096, 4096, 64));
        let full = Some(Ratio::ONE);
        assert_eq!((found.waves, found.tile_efficiency), (None, full));
        let launch = Launch {
            name: "gemv",
            library: "cuBLAS",
            tile: None,
            grid: Dim3 { x: 1, y: 1, z: 1 },
            slots: None,
        };
        let gemm = Gemm {
            m: 1,
            n: 1,
            k: 1,
            batch: 1,
        };
        assert_eq!(Tiling::of(launch, gemm), Tiling::default());
    }

    #[test]
    fn blocks_that_fit() {
        // 12 warps of 168 · 32 = 5376 registers are 64 512 of 65 536: one block.
        assert_eq!(blocks_per_sm(90, 384, Some(168), Some(0)), Some(1));
        // 128 threads, 64 registers: 65 536 ÷ 8192 = 8; 49 KiB of shared memory each: 228 ÷ 50 = 4.
        assert_eq!(blocks_per_sm(90, 128, Some(64), Some(0)), Some(8));
        assert_eq!(blocks_per_sm(90, 128, Some(64), Some(49 << 10)), Some(4));
        assert_eq!(blocks_per_sm(90, 128, None, Some(0)), None);
        assert_eq!(blocks_per_sm(61, 128, Some(64), Some(0)), None);
    }
}
