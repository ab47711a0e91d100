//! Matrix kernels of each stage, each with the kernels that help it.

use std::collections::BTreeMap;
use std::ops::Div;

use rooflens_schemas::Evidence;

use super::roof::{Ceilings, Roof, Sum};
use super::{Attention, Gemm, Matrix, Product, Shape, launch_of};
use crate::engine::classify::KernelClass;
use crate::engine::facts::StageInstance;
use crate::engine::intervals::total;
use crate::engine::stage_stats::Summary;
use crate::kernels::gemm::tiles::Tiling;
use crate::{Context, Known};
use rooflens_session::{Dim3, KernelId, Ns, PassId, Session};
use rooflens_units::{Flops, Ratio, Time};

/// The GEMMs, or the attention kernels, of an outermost stage of one process, over its counted instances.
#[derive(Clone, Debug, Default)]
pub struct StageProducts {
    /// Pass.
    pub pass: PassId,
    /// The stage.
    pub summary: Summary,
    /// Time of all its GPU operations, nanoseconds.
    pub total: Ns,
    /// Its busy time, nanoseconds: less than `total` where operations overlap.
    pub busy: Ns,
    /// Time of these kernels, nanoseconds.
    pub time: Ns,
    /// That of those whose sizes are known.
    pub known: Ns,
    /// The kernels by name and sizes: GEMMs by time above the roofline, attention by time, descending.
    pub groups: Vec<Group>,
}

/// Launches of one kernel that compute the same: of GEMMs with the same grid; of attention up to the number of keys,
/// which grows from step to step.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Kernel.
    pub kernel: KernelId,
    /// Blocks of the first launch.
    pub grid: Dim3,
    /// What the first of them computes, if that is known; of several sources the least sure.
    pub product: Option<Product>,
    /// Time, FLOPs and bytes.
    pub sum: Sum,
    /// Tiles and waves of a GEMM.
    pub tiling: Tiling,
    /// Fewest and most keys of attention.
    pub keys: (u64, u64),
    /// FLOPs of attention, of all pairs of query and key.
    pub flops_full: Flops,
}

impl StageProducts {
    /// A sum over all counted instances, per instance.
    pub fn per_instance<A: Div<f64, Output = A>>(&self, sum: A) -> A {
        sum / self.summary.counted.max(1) as f64
    }

    /// Time of these kernels ÷ that of all GPU operations.
    pub fn time_share(&self) -> Ratio {
        share(self.time, self.total)
    }

    /// Share of their time in kernels of known sizes.
    pub fn shape_coverage(&self) -> Ratio {
        share(self.known, self.time)
    }

    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        let launches = self.groups.iter().map(|group| group.sum.launches).sum();
        session.evidence(self.pass, "launches", launches)
    }

    /// Time above the roofline over all counted instances; none if it is known of no kernel.
    pub fn recoverable(&self) -> Option<Time> {
        let lost: Vec<Time> = self
            .groups
            .iter()
            .filter_map(|group| group.sum.recoverable())
            .collect();
        (!lost.is_empty()).then(|| lost.iter().sum())
    }

    /// What bounds its kernels.
    pub fn roofs(&self) -> impl Iterator<Item = &Roof> {
        self.groups
            .iter()
            .filter_map(|group| group.sum.roof.as_ref())
    }

    /// Kernels above the specified peak, with their share of it: their sizes or the peak are wrong.
    pub fn above_peak(&self) -> impl Iterator<Item = (&Group, Ratio)> {
        let parts = self
            .groups
            .iter()
            .filter_map(|group| Some((group, group.sum.of_peak()?)));
        parts.filter(|(_, part)| *part > Ratio::ONE)
    }
}

fn share(part: Ns, whole: Ns) -> Ratio {
    if whole > Ns::ZERO {
        Ratio::of(part, whole)
    } else {
        Ratio::ZERO
    }
}

impl Group {
    /// Nothing yet, of launches like this one.
    pub(in crate::kernels) fn like(launch: &MatrixLaunch) -> Self {
        Self {
            kernel: launch.kernel,
            grid: launch.grid,
            product: launch.product,
            sum: Sum::default(),
            tiling: Tiling::default(),
            keys: (u64::MAX, 0),
            flops_full: Flops::ZERO,
        }
    }

    /// Sizes of a GEMM, if they are known.
    pub fn gemm(&self) -> Option<Gemm> {
        match self.product?.shape {
            Shape::Gemm(gemm) => Some(gemm),
            _ => None,
        }
    }

    /// Sizes of attention, if they are known.
    pub fn attention(&self) -> Option<Attention> {
        match self.product?.shape {
            Shape::Attention(attention) => Some(attention),
            _ => None,
        }
    }
}

/// A matrix kernel with its helpers: the sum after a split, say.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct MatrixLaunch {
    pub(in crate::kernels) kernel: KernelId,
    /// Row of its launch.
    pub(in crate::kernels) row: usize,
    pub(in crate::kernels) grid: Dim3,
    /// What it computes, if that is known.
    pub(in crate::kernels) product: Option<Product>,
    /// Its time and that of its helpers, nanoseconds.
    pub(in crate::kernels) time: Ns,
    /// That of its helpers alone.
    pub(in crate::kernels) helpers: Ns,
}

/// The kernels of a class in the outermost stages of all passes, the one that shows kernels first; stages without such kernels
/// have none. `groups` puts the launches of a stage together.
pub(in crate::kernels) fn of_class(
    context: &Context<'_>,
    class: KernelClass,
    groups: impl Fn(&Ceilings<'_>, &[MatrixLaunch]) -> Vec<Group>,
) -> Known<Vec<StageProducts>> {
    let (session, facts) = (context.session, context.facts);
    let matrix = Matrix::new(session, facts);
    let mut stages = Vec::new();
    for pass in facts.kernels_first(session) {
        let ceilings = Ceilings::of(context, pass);
        let of_pass = context
            .results
            .stage_work()?
            .iter()
            .filter(|work| work.pass == pass);
        for work in of_pass.filter(|work| work.summary.is_outermost(facts)) {
            let mut launches = Vec::new();
            for instance in work.summary.counted_instances(facts) {
                add(context, &matrix, instance, class, &mut launches);
            }
            let groups = groups(&ceilings, &launches);
            let with_shape = groups.iter().filter(|group| group.product.is_some());
            let stage = StageProducts {
                pass,
                summary: work.summary.clone(),
                total: work.total,
                busy: work.busy,
                time: total(groups.iter().map(|group| group.sum.time)),
                known: total(with_shape.map(|group| group.sum.time)),
                groups,
            };
            stages.extend((stage.time > Ns::ZERO).then_some(stage));
        }
    }
    Ok(stages)
}

/// Adds the kernels of a class in a stage instance.
fn add(
    context: &Context<'_>,
    matrix: &Matrix,
    instance: &StageInstance,
    class: KernelClass,
    launches: &mut Vec<MatrixLaunch>,
) {
    let (session, facts) = (context.session, context.facts);
    let products = context.results.matmul().ok();
    let mut last: BTreeMap<Option<Shape>, usize> = BTreeMap::new();
    // Helpers that run before the kernel that they help: the first of them, and their time.
    let mut early: BTreeMap<Option<Shape>, MatrixLaunch> = BTreeMap::new();
    let kernels = matrix.of(session, facts, instance);
    for (op, kernel) in kernels.filter(|(_, kernel)| matrix.class(*kernel) == Some(class)) {
        let Some(row) = launch_of(facts, op) else {
            continue;
        };
        let time = session.launches.end[row].saturating_sub(session.launches.start[row]);
        let product = products.and_then(|products| products.get(op)).copied();
        let shape = product.map(|product| product.shape);
        let is_main = product.map_or_else(|| matrix.is_main(kernel), |product| product.main);
        let grid = session.launches.grid[row];
        if is_main {
            let helpers = early.remove(&shape).map_or(Ns::ZERO, |early| early.time);
            last.insert(shape, launches.len());
            let time = time.saturating_add(helpers);
            launches.push(MatrixLaunch {
                kernel,
                row,
                grid,
                product,
                time,
                helpers,
            });
        } else if let Some(main) = last.get(&shape).and_then(|index| launches.get_mut(*index)) {
            main.time = main.time.saturating_add(time);
            main.helpers = main.helpers.saturating_add(time);
        } else {
            let none = MatrixLaunch {
                kernel,
                row,
                grid,
                product: None,
                time: Ns::ZERO,
                helpers: Ns::ZERO,
            };
            let early = early.entry(shape).or_insert(none);
            early.time = early.time.saturating_add(time);
            early.helpers = early.time;
        }
    }
    // Those of which the kernel is in another stage represent themselves.
    launches.extend(early.into_values());
}
