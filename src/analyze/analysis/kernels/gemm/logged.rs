//! The GEMMs of logs by size, whether or not kernels are known to be theirs.

use std::collections::BTreeMap;

use crate::kernels::matmul::Gemm;
use crate::{Context, Known};
use rooflens_session::{Arrange, StrId};
use rooflens_units::Flops;

/// Calls of one function in one log with the same sizes, type and tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedGemm {
    /// Log.
    pub artifact: StrId,
    /// Function.
    pub function: StrId,
    /// Sizes.
    pub gemm: Gemm,
    /// Type of the first operand, as the log names it.
    pub dtype: StrId,
    /// Rows and columns of the tile.
    pub tile: Option<(u32, u32)>,
    /// Calls.
    pub calls: u64,
}

impl LoggedGemm {
    /// FLOPs of all calls.
    pub fn flops(&self) -> Flops {
        let Gemm { m, n, k, batch } = self.gemm;
        Flops(2.0 * m as f64 * n as f64 * k as f64 * batch as f64 * self.calls as f64)
    }
}

/// The GEMMs of all logs by artifact and FLOPs; never missing, but empty without calls.
pub fn compute(context: &Context<'_>) -> Known<Vec<LoggedGemm>> {
    let (session, calls) = (context.session, &context.session.gemm_calls);
    let mut groups: BTreeMap<LoggedGemm, u64> = BTreeMap::new();
    for row in 0..calls.len() {
        let key = LoggedGemm {
            artifact: calls.artifact[row],
            function: calls.function[row],
            // Column-major m × n is row-major n × m.
            gemm: Gemm {
                m: calls.n[row],
                n: calls.m[row],
                k: calls.k[row],
                batch: calls.batch[row],
            },
            dtype: calls.a_type[row],
            tile: calls.tile_m[row].zip(calls.tile_n[row]),
            calls: 0,
        };
        *groups.entry(key).or_default() += 1;
    }
    let counted = |(key, calls)| LoggedGemm { calls, ..key };
    let mut gemms: Vec<LoggedGemm> = groups.into_iter().map(counted).collect();
    gemms.arrange_by(|a, b| {
        let artifact = |gemm: &LoggedGemm| session.text(gemm.artifact);
        artifact(a)
            .cmp(artifact(b))
            .then(b.flops().total_cmp(&a.flops()))
    });
    Ok(gemms)
}
