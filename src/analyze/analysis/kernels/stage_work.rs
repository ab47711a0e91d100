//! GPU operations of each stage, added up by class and by kernel.

use std::ops::Div;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rooflens_schemas::Evidence;

use crate::engine::classify::{ClassGroup, KernelClass};
use crate::engine::facts::{Facts, OpIndex, OpSource};
use crate::engine::intervals::total;
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Known};
use rooflens_session::{GpuId, KernelId, LaunchId, Ns, PassId, Session};
use rooflens_units::Ratio;

const CLASSES: usize = KernelClass::ALL.len();

/// Share of the time of a group from which on a class represents it.
const DOMINANT: Ratio = Ratio(0.95);

/// Parts of the names of kernels of PyTorch that only write, or add rows to others by their index, of copies for
/// collectives on shards, and of those that cuDNN launches within a convolution.
const APART: [&str; 7] = [
    "FillFunctor",
    "ReduceAdd",
    "indexing_backward_kernel",
    "chunk_cat",
    "split_with_sizes",
    "nchwToNhwc",
    "nhwcToNchw",
];

/// Scans of PyTorch. One of a single block takes as long in a fused kernel.
const SCAN: &str = "kernel_scan_";

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
    /// The part of them that no kernel is fused with: fills read nothing that another kernel wrote, what adds rows by
    /// their index moves as many bytes as before, a collective reads and writes whole buffers, and conversions within
    /// convolutions go with another layout alone.
    pub apart: [(u64, Ns); CLASSES],
    /// Time that kernels keep if all consecutive ones that could be fused are, nanoseconds: of each run the shortest on
    /// all of its elements. One kernel for all still reads what the run reads and writes what it leaves.
    pub kept: Ns,
    /// Number of these runs.
    pub runs: u64,
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

    /// Time of the kernels that could be fused, nanoseconds.
    pub fn fusible(&self) -> Ns {
        let classes = KernelClass::ALL.into_iter();
        classes.map(|class| self.fusible_of(class)).sum()
    }

    /// The same of a class.
    pub fn fusible_of(&self, class: KernelClass) -> Ns {
        match class.is_fusible() {
            true => self.time(class) - self.apart[class as usize].1,
            false => Ns::ZERO,
        }
    }

    /// Launches that go if all these runs are fused.
    pub fn removable(&self) -> u64 {
        let classes = KernelClass::ALL.into_iter();
        let fusible = classes.filter(|class| class.is_fusible());
        let launches =
            |class: KernelClass| self.classes[class as usize].0 - self.apart[class as usize].0;
        let launches: u64 = fusible.map(launches).sum();
        launches.saturating_sub(self.runs)
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
    let session = context.session;
    let mut by_kernel = vec![(0, Ns::ZERO); session.kernels.len()];
    let mut blocks = vec![0; session.kernels.len()];
    for (kernel, grid) in session.launches.kernel.iter().zip(&session.launches.grid) {
        blocks[kernel.index()] = grid.volume().max(blocks[kernel.index()]);
    }
    let is_apart = |kernel: KernelId| {
        let name = session.kernel_name(kernel);
        let is_serial = name.contains(SCAN) && blocks[kernel.index()] == 1;
        is_serial || APART.iter().any(|part| name.contains(part))
    };
    let is_apart: Vec<bool> = session.kernels.ids().map(is_apart).collect();
    let passes = session.passes.ids();
    let lines = passes.flat_map(|pass| summaries(context.facts, pass));
    Ok(lines
        .map(|line| stage_work(context, line.clone(), &is_apart, &mut by_kernel))
        .collect())
}

/// Adds up one stage. `by_kernel` is all zero, before and after.
fn stage_work(
    context: &Context<'_>,
    summary: Summary,
    is_apart: &[bool],
    by_kernel: &mut [(u64, Ns)],
) -> StageWork {
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
    let instances = summary.counted_instances(facts);
    let (mut kept, mut runs) = (Ns::ZERO, 0);
    for instance in instances {
        let shortest = shortest(session, facts, is_apart, &instance.ops);
        kept += shortest.iter().copied().sum::<Ns>();
        runs += shortest.len() as u64;
    }
    let mut apart = [(0, Ns::ZERO); CLASSES];
    for (kernel, launches, time) in &kernels {
        if is_apart[kernel.index()] {
            let sum = &mut apart[facts.identities[kernel.index()].class as usize];
            *sum = (sum.0 + launches, sum.1 + *time);
        }
    }
    StageWork {
        pass: summary.stage(facts).pass,
        summary,
        total,
        busy,
        kernels,
        classes,
        apart,
        kept,
        runs,
    }
}

/// Threads of the largest kernel of a run ÷ those of a kernel on as many elements, at most: a thread works on 1 to 16.
const THREADS: u64 = 16;

/// The shortest kernel of each run of kernels that could be fused, of those on all elements of the run.
fn shortest(session: &Session, facts: &Facts, is_apart: &[bool], ops: &[OpIndex]) -> Vec<Ns> {
    let mut kept = Vec::new();
    // The threads and durations of the run that is open on each stream.
    let mut open: BTreeMap<(GpuId, u64), Vec<(u64, Ns)>> = BTreeMap::new();
    let shortest = |run: &mut Vec<(u64, Ns)>| {
        let most = run.iter().map(|(threads, _)| *threads).max()?;
        let whole = run
            .drain(..)
            .filter(|(threads, _)| *threads >= most / THREADS);
        whole.map(|(_, duration)| duration).min()
    };
    for op in ops {
        let row = *op as usize;
        let stream = (facts.ops.gpu[row], facts.ops.stream[row]);
        let duration = facts.ops.end[row].saturating_sub(facts.ops.start[row]);
        let kernel = facts.kernel(session, *op);
        let stays_apart = kernel.is_some_and(|kernel| is_apart[kernel.index()]);
        match facts.class(session, row) {
            // Between two kernels it keeps neither from being fused.
            KernelClass::Copy => {}
            _ if stays_apart => {}
            class if class.is_fusible() => {
                let threads = match facts.ops.source[row] {
                    OpSource::Launch(launch) => threads(session, launch),
                    _ => 0,
                };
                open.entry(stream).or_default().push((threads, duration));
            }
            _ => kept.extend(open.get_mut(&stream).and_then(shortest)),
        }
    }
    kept.extend(open.values_mut().filter_map(shortest));
    kept
}

fn threads(session: &Session, launch: LaunchId) -> u64 {
    let launches = &session.launches;
    let blocks = launches.grid[launch.index()].volume();
    blocks.saturating_mul(launches.block[launch.index()].volume())
}

fn add(sum: &mut (u64, Ns), duration: Ns) {
    sum.0 += 1;
    sum.1 = sum.1.saturating_add(duration);
}

#[cfg(test)]
mod tests {
    use crate::testing::{trace, with_results};
    use rooflens_session::Ns;

    #[test]
    fn a_fused_kernel_keeps_the_shortest_of_its_run() {
        let session = trace(
            "range prefill 0..300
             launch 0..1 -> gemm 1..61
             launch 62..63 -> elementwise_kernel 63..93
             cudaMemcpyAsync 94..95 -> memcpy DtoD 95..99
             launch 100..101 -> layer_norm 101..111
             launch 112..113 -> gemm 113..173
             launch 174..175 -> elementwise_kernel 175..195
             launch 196..197 -> multi_tensor_apply_kernel 197..297
             launch 296..297 -> vectorized_elementwise_kernel<FillFunctor> 297..299
             launch 297..298 -> nchwToNhwcKernel 299..300
             launch 297..298 -> chunk_cat_cuda_kernel 299..300
             launch 297..298 -> tensor_kernel_scan_outer_dim <<<1,16>>> 300..350",
        );
        with_results(&session, |context| {
            let work = &context.results.stage_work().expect("never missing")[0];
            // 30, 10 and 20 ns; the runs keep 10 and 20 ns, lists of tensors belong to the optimizer, and
            // a fill, a conversion within a convolution, a copy for a collective, and a scan of one block have nothing to
            // fuse with.
            assert_eq!((work.fusible(), work.kept), (Ns(60), Ns(30)));
            // Of three kernels, one of each run stays.
            assert_eq!((work.runs, work.removable()), (2, 1));
        });
    }
}
