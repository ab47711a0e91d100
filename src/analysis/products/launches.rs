//! Matrix kernels of a stage, each with the kernels that help it.

use std::collections::BTreeMap;

use super::{Matrix, Product, Shape, launch_of};
use crate::analysis::Context;
use crate::analysis::classify::KernelClass;
use crate::analysis::facts::StageInstance;
use crate::analysis::summary::Summary;
use crate::model::{KernelId, Ns};

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
}

/// The instances of a line that count.
pub fn counted<'a>(
    context: &Context<'a>,
    line: &Summary,
) -> impl Iterator<Item = &'a StageInstance> + use<'a> {
    let process = line.process;
    let facts = context.facts;
    let all = facts.instances_of(&facts.stages[line.stage]).iter();
    all.filter(move |one| {
        one.process == process && one.excluded.is_none() && one.projection.is_some()
    })
}

/// Which kernels are of which class, for many stages.
pub struct Work(Matrix);

impl Work {
    /// Looks at the kernels of a session.
    pub fn new(context: &Context<'_>) -> Self {
        Self(Matrix::new(context.session, context.facts))
    }

    /// The kernels of a class in a stage.
    pub fn of(&self, context: &Context<'_>, line: &Summary, class: KernelClass) -> StageWork {
        let mut work = StageWork::default();
        for instance in counted(context, line) {
            work.instances += 1;
            work.total = work.total.saturating_add(instance.sum);
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
        let mut last: BTreeMap<Option<Shape>, usize> = BTreeMap::new();
        // Helpers that run before the kernel that they help: the first of them, and their time.
        let mut early: BTreeMap<Option<Shape>, (KernelId, usize, Ns)> = BTreeMap::new();
        let kernels = self.0.of(session, facts, instance);
        for (op, kernel) in kernels.filter(|(_, kernel)| self.0.class(*kernel) == Some(class)) {
            let Some(row) = launch_of(facts, op) else { continue };
            let time = session.launches.end[row].saturating_sub(session.launches.start[row]);
            let product = facts.products.get(op).copied();
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
