//! GPU operations of each stage, added up by class and by kernel.

use std::ops::Div;

use std::cmp::Reverse;

use rooflens_schemas::Evidence;

use crate::engine::classify::{ClassGroup, KernelClass};
use crate::engine::intervals::total;
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Known};
use rooflens_session::{KernelId, Ns, PassId, Session};
use rooflens_units::Ratio;

const CLASSES: usize = KernelClass::ALL.len();

/// Share of the time of a group from which on a class represents it.
const DOMINANT: Ratio = Ratio(0.95);

/// GPU operations of the counted instances of a stage, of one process.
#[derive(Clone, Debug, Default)]
pub struct StageWork {
    /// Pass.
    pub pass: PassId,
    /// The stage.
    pub summary: Summary,
    /// Sum of the durations of all operations, nanoseconds.
    pub total: Ns,
    /// Their busy time, nanoseconds: less than `total` where operations overlap.
    pub busy: Ns,
    /// Kernels with their launches and time in nanoseconds, those with the most time first.
    pub kernels: Vec<(KernelId, u64, Ns)>,
    /// Operations and their time, by class.
    pub classes: [(u64, Ns); CLASSES],
}

impl StageWork {
    /// Number of operations.
    pub fn operations(&self) -> u64 {
        self.classes.iter().map(|class| class.0).sum()
    }

    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        session.evidence(self.pass, "launches", self.operations())
    }

    /// Time of the operations of a class, nanoseconds.
    pub const fn time(&self, class: KernelClass) -> Ns {
        self.classes[class as usize].1
    }

    /// The class that represents a group, because hardly anything else of it occurs.
    pub fn dominant(&self, group: ClassGroup) -> Option<KernelClass> {
        let classes = || {
            KernelClass::ALL
                .into_iter()
                .filter(|class| class.group() == group)
        };
        let whole: Ns = classes().map(|class| self.time(class)).sum();
        classes()
            .find(|class| whole > Ns::ZERO && self.time(*class).time() >= whole.time() * DOMINANT)
    }

    /// Classes that occur, with operations and time, in report order.
    pub fn occurring(&self) -> impl Iterator<Item = (KernelClass, u64, Ns)> {
        let classes = KernelClass::ALL.into_iter().zip(self.classes);
        classes
            .filter(|(_, sum)| sum.0 > 0)
            .map(|(class, sum)| (class, sum.0, sum.1))
    }

    /// A time as a share of that of all operations, where there are any.
    pub fn share(&self, part: Ns) -> Option<Ratio> {
        (self.total > Ns::ZERO).then(|| Ratio::of(part, self.total))
    }

    /// A sum over all counted instances, per instance.
    pub fn per_instance<A: Div<f64, Output = A>>(&self, sum: A) -> A {
        sum / self.summary.counted.max(1) as f64
    }
}

/// Adds up all stages of all passes, in report order; never missing.
pub fn compute(context: &Context<'_>) -> Known<Vec<StageWork>> {
    let mut by_kernel = vec![(0, Ns::ZERO); context.session.kernels.len()];
    let passes = context.session.passes.ids();
    let lines = passes.flat_map(|pass| summaries(context.facts, pass));
    Ok(lines
        .map(|line| stage_work(context, line.clone(), &mut by_kernel))
        .collect())
}

/// Adds up one stage. `by_kernel` is all zero, before and after.
fn stage_work(context: &Context<'_>, summary: Summary, by_kernel: &mut [(u64, Ns)]) -> StageWork {
    let (session, facts) = (context.session, context.facts);
    let mut classes = [(0, Ns::ZERO); CLASSES];
    let mut seen: Vec<KernelId> = Vec::new();
    for op in summary
        .counted_instances(facts)
        .flat_map(|instance| &instance.ops)
    {
        let row = *op as usize;
        let duration = facts.ops.end[row].saturating_sub(facts.ops.start[row]);
        add(&mut classes[facts.class(session, row) as usize], duration);
        if let Some(kernel) = facts.kernel(session, *op) {
            let sum = &mut by_kernel[kernel.index()];
            if sum.0 == 0 {
                seen.push(kernel);
            }
            add(sum, duration);
        }
    }
    let take = |kernel: KernelId| {
        let (launches, total) = std::mem::take(&mut by_kernel[kernel.index()]);
        (kernel, launches, total)
    };
    let mut kernels: Vec<(KernelId, u64, Ns)> = seen.into_iter().map(take).collect();
    kernels.sort_unstable_by_key(|(kernel, _, total)| (Reverse(*total), *kernel));
    let busy = total(
        summary
            .counted_instances(facts)
            .map(|instance| instance.busy),
    );
    let total = total(classes.iter().map(|class| class.1));
    StageWork {
        pass: summary.stage(facts).pass,
        summary,
        total,
        busy,
        kernels,
        classes,
    }
}

fn add(sum: &mut (u64, Ns), duration: Ns) {
    sum.0 += 1;
    sum.1 = sum.1.saturating_add(duration);
}
