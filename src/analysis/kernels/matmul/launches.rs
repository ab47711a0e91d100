//! Matrix kernels of a stage, each with the kernels that help it.

use std::collections::BTreeMap;

use super::{Matrix, Product, Shape, launch_of};
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::facts::StageInstance;
use crate::analysis::engine::stage_stats::{Summary, summaries};
use crate::analysis::{Context, Facts, Known};
use crate::model::{Dim3, KernelId, Ns, PassId, Session};

/// A matrix kernel with its helpers: the sum after a split, say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixLaunch {
    /// Kernel.
    pub kernel: KernelId,
    /// Row of its launch.
    pub row: usize,
    /// What it computes, if that is known.
    pub product: Option<Product>,
    /// Its time and that of its helpers, nanoseconds.
    pub time: Ns,
    /// That of its helpers alone.
    pub helpers: Ns,
}

/// The matrix kernels of one class in a stage, over the instances that count.
#[derive(Clone, Debug, Default)]
pub struct StageWork {
    /// The launches.
    pub launches: Vec<MatrixLaunch>,
    /// Number of instances.
    pub instances: usize,
    /// Time of all their GPU operations, nanoseconds.
    pub total: Ns,
    /// Their busy time, nanoseconds: less than `total` where operations overlap.
    pub busy: Ns,
}

/// Launches of one kernel with one grid that compute the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Kernel.
    pub kernel: KernelId,
    /// Blocks.
    pub grid: Dim3,
    /// What they compute, if that is known.
    pub product: Option<Product>,
    /// Row of the first launch.
    pub row: usize,
    /// Number of launches.
    pub launches: u64,
    /// Their time and that of their helpers, nanoseconds.
    pub time: Ns,
    /// That of their helpers alone.
    pub helpers: Ns,
}

/// The matrix products of a stage, of one process.
#[derive(Clone, Debug)]
pub struct StageGemms {
    /// The stage.
    pub summary: Summary,
    /// Number of instances that count.
    pub instances: usize,
    /// Time of all their GPU operations, nanoseconds.
    pub total: Ns,
    /// Their busy time, nanoseconds: less than `total` where operations overlap.
    pub busy: Ns,
    /// The products, by kernel, grid and sizes.
    pub groups: Vec<Group>,
}

/// Those of the outermost stages of all passes, in report order within a pass; stages without products have none.
pub fn compute(context: &Context<'_>) -> Known<Vec<StageGemms>> {
    let (session, facts) = (context.session, context.facts);
    let work = Work::new(session, facts);
    let lines = session.passes.ids().flat_map(|pass| summaries(facts, pass));
    let outermost = lines.filter(|summary| summary.is_outermost(facts));
    let stages = outermost.map(|summary| {
        let work = work.of(context, &summary, KernelClass::Gemm);
        let groups = groups(session, &work.launches);
        let StageWork { instances, total, busy, .. } = work;
        StageGemms { summary, instances, total, busy, groups }
    });
    Ok(stages.filter(|stage| stage.groups.iter().any(|group| group.time > 0)).collect())
}

impl StageGemms {
    /// The pass of the stage.
    pub fn pass(&self, facts: &Facts) -> PassId {
        self.summary.stage(facts).pass
    }
}

fn groups(session: &Session, launches: &[MatrixLaunch]) -> Vec<Group> {
    let mut groups: BTreeMap<(KernelId, Dim3, Option<Product>), Group> = BTreeMap::new();
    for launch in launches {
        let MatrixLaunch { kernel, row, product, .. } = *launch;
        let grid = session.launches.grid[row];
        let empty = Group { kernel, grid, product, row, launches: 0, time: 0, helpers: 0 };
        let group = groups.entry((kernel, grid, product)).or_insert(empty);
        group.launches += 1;
        group.time = group.time.saturating_add(launch.time);
        group.helpers = group.helpers.saturating_add(launch.helpers);
    }
    groups.into_values().collect()
}

/// Which kernels are of which class, for many stages.
pub struct Work(Matrix);

impl Work {
    /// Looks at the kernels of a session.
    pub fn new(session: &Session, facts: &Facts) -> Self {
        Self(Matrix::new(session, facts))
    }

    /// The kernels of a class in a stage.
    pub fn of(&self, context: &Context<'_>, line: &Summary, class: KernelClass) -> StageWork {
        let mut work = StageWork::default();
        for instance in line.counted_instances(context.facts) {
            work.instances += 1;
            work.total = work.total.saturating_add(instance.sum);
            work.busy = work.busy.saturating_add(instance.busy);
            self.add(context, instance, class, &mut work.launches);
        }
        work
    }

    fn add(
        &self,
        context: &Context<'_>,
        instance: &StageInstance,
        class: KernelClass,
        launches: &mut Vec<MatrixLaunch>,
    ) {
        let (session, facts) = (context.session, context.facts);
        let products = context.results.matmul().ok();
        let mut last: BTreeMap<Option<Shape>, usize> = BTreeMap::new();
        // Helpers that run before the kernel that they help: the first of them, and their time.
        let mut early: BTreeMap<Option<Shape>, (KernelId, usize, Ns)> = BTreeMap::new();
        let kernels = self.0.of(session, facts, instance);
        for (op, kernel) in kernels.filter(|(_, kernel)| self.0.class(*kernel) == Some(class)) {
            let Some(row) = launch_of(facts, op) else { continue };
            let time = session.launches.end[row].saturating_sub(session.launches.start[row]);
            let product = products.and_then(|products| products.get(op)).copied();
            let shape = product.map(|product| product.shape);
            let is_main = product.map_or_else(|| self.0.is_main(kernel), |product| product.main);
            if is_main {
                let helpers = early.remove(&shape).map_or(0, |(.., time)| time);
                last.insert(shape, launches.len());
                let time = time.saturating_add(helpers);
                launches.push(MatrixLaunch { kernel, row, product, time, helpers });
            } else if let Some(main) = last.get(&shape).and_then(|at| launches.get_mut(*at)) {
                main.time = main.time.saturating_add(time);
                main.helpers = main.helpers.saturating_add(time);
            } else {
                let sum = &mut early.entry(shape).or_insert((kernel, row, 0)).2;
                *sum = sum.saturating_add(time);
            }
        }
        // Those of which the kernel is in another stage stand for themselves.
        launches.extend(early.into_values().map(|(kernel, row, time)| MatrixLaunch {
            kernel,
            row,
            product: None,
            time,
            helpers: time,
        }));
    }
}
