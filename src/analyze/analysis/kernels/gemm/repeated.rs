//! GEMMs that a loop launches one after the other, and that one batched GEMM could compute.

use std::collections::BTreeMap;

use crate::engine::classify::KernelClass;
use crate::engine::facts::{OpSource, StageInstance};
use crate::engine::stage_stats::{Summary, summaries};
use crate::results::no_gpu_work;
use crate::{Context, Known};
use rooflens_session::{Dim3, KernelId, Ns};

/// Launches in a row from which on they are a loop: the projections of a layer are fewer.
pub const MANY: u64 = 8;

/// Rows of at least [`MANY`] GEMMs of one kernel, grid and block in a stage.
#[derive(Clone, Debug)]
pub struct RepeatedGemms {
    /// The stage.
    pub summary: Summary,
    /// Kernel.
    pub kernel: KernelId,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Rows in all counted instances.
    pub rows: u64,
    /// Launches of the longest row.
    pub longest: u64,
    /// Launches of all rows.
    pub launches: u64,
    /// Σ from the first start to the last end of each row.
    pub time: Ns,
    /// Σ durations of the launches.
    pub busy: Ns,
}

/// A kernel with its grid and block.
type Key = (KernelId, Dim3, Dim3);

/// Launches in a row.
#[derive(Clone, Copy)]
struct Row {
    key: Key,
    launches: u64,
    start: Ns,
    end: Ns,
    busy: Ns,
}

/// Of each stage of the pass that shows kernels that has such rows, the kernel whose rows take longest.
pub fn compute(context: &Context<'_>) -> Known<Vec<RepeatedGemms>> {
    let pass = context.facts.kernel_pass(context.session);
    let pass = pass.ok_or_else(|| no_gpu_work(context.session))?;
    let mut stages = Vec::new();
    for summary in summaries(context.facts, pass) {
        stages.extend(of_stage(context, summary));
    }
    Ok(stages)
}

fn of_stage(context: &Context<'_>, summary: &Summary) -> Option<RepeatedGemms> {
    let mut kernels = BTreeMap::<Key, RepeatedGemms>::new();
    for instance in summary.counted_instances(context.facts) {
        for row in rows(context, instance) {
            let (kernel, grid, _) = row.key;
            let sum = kernels.entry(row.key).or_insert_with(|| RepeatedGemms {
                summary: summary.clone(),
                kernel,
                grid,
                rows: 0,
                longest: 0,
                launches: 0,
                time: Ns::ZERO,
                busy: Ns::ZERO,
            });
            sum.rows += 1;
            sum.longest = sum.longest.max(row.launches);
            sum.launches += row.launches;
            sum.time += row.end.saturating_sub(row.start);
            sum.busy += row.busy;
        }
    }
    // Of equal times the first kernel.
    let mut longest: Option<RepeatedGemms> = None;
    for sum in kernels.into_values() {
        if longest.as_ref().is_none_or(|most| sum.time > most.time) {
            longest = Some(sum);
        }
    }
    longest
}

/// The rows of an instance that are long enough.
fn rows(context: &Context<'_>, instance: &StageInstance) -> Vec<Row> {
    let (facts, launches) = (context.facts, &context.session.launches);
    let mut rows: Vec<Row> = Vec::new();
    let mut is_open = false;
    for op in &instance.ops {
        let op = *op as usize;
        let gemm = match facts.ops.source[op] {
            OpSource::Launch(launch) => Some(launch.index()),
            _ => None,
        };
        let gemm = gemm.filter(|row| {
            let kernel = launches.kernel[*row].index();
            facts.identities[kernel].class == KernelClass::Gemm
        });
        let Some(launch) = gemm else {
            is_open = false;
            continue;
        };
        let (start, end) = (facts.ops.start[op], facts.ops.end[op]);
        let key = (
            launches.kernel[launch],
            launches.grid[launch],
            launches.block[launch],
        );
        match rows.last_mut().filter(|row| is_open && row.key == key) {
            Some(row) => {
                row.launches += 1;
                row.end = row.end.max(end);
                row.busy += end - start;
            }
            None => rows.push(Row {
                key,
                launches: 1,
                start,
                end,
                busy: end - start,
            }),
        }
        is_open = true;
    }
    rows.retain(|row| row.launches >= MANY);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{trace, with_results};
    use std::fmt::Write;

    /// A row of so many GEMMs of 10 ns, one each 100 ns, with another kernel after `split`.
    fn gemms(count: u64, split: Option<u64>) -> String {
        let mut text = "stream 7: ".to_owned();
        for launch in 0..count {
            let start = launch * 100;
            let end = start + 10;
            let comma = if launch > 0 { ", " } else { "" };
            let _ = write!(text, "{comma}sm80_xmma_gemm_f32 <<<4,128>>> {start}..{end}");
            if split == Some(launch) {
                let _ = write!(text, ", axpy {}..{}", end + 10, end + 20);
            }
        }
        text
    }

    fn found(text: &str) -> Option<(u64, u64, Ns, Ns)> {
        with_results(&trace(text), |context| {
            let gemms = context.results.repeated_gemms().expect("a timeline");
            gemms
                .first()
                .map(|gemms| (gemms.rows, gemms.longest, gemms.time, gemms.busy))
        })
    }

    #[test]
    fn a_row_is_eight_launches_of_one_kernel_without_another_between() {
        // 7 gaps of 90 ns and 8 launches of 10 ns.
        assert_eq!(found(&gemms(8, None)), Some((1, 8, Ns(710), Ns(80))));
        assert_eq!(found(&gemms(7, None)), None);
        assert_eq!(found(&gemms(15, Some(7))), Some((1, 8, Ns(710), Ns(80))));
        assert_eq!(found(&gemms(14, Some(6))), None);
        let other_grid = gemms(8, None).replacen("<<<4,128>>>", "<<<5,128>>>", 4);
        assert_eq!(found(&other_grid), None);
    }
}
