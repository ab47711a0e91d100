//! Operators of PyTorch traces: host time, device time and FLOPs by name, by shapes, by thread and by path.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::PassWork;
use super::call_tree::{Tree, all_trees};
use super::first_calls::{self, FirstCalls};
use crate::engine::nesting::{Nesting, Span};
use crate::engine::spans::{Groups, NO_GROUP, Sum, Work, roll_up};
use crate::engine::stages::WHOLE_CAPTURE;
use crate::kernels::operator_flops::{OperatorFlops, flops};
use crate::{Context, Known, Missing};
use rooflens_schemas::PassKind;

use rooflens_session::{Arrange, Ns, PassId, Session, StrId, ThreadId};
use rooflens_units::{FlopsPerSecond, Ratio};

/// Operators of all passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Operators {
    /// By (pass, own device time descending, own host time descending, name).
    pub by_name: Vec<OperatorSum>,
    /// The same by name and shapes; calls without recorded shapes are excluded.
    pub by_shapes: Vec<OperatorSum>,
    /// Threads with operators, by (pass, thread).
    pub threads: Vec<ThreadSum>,
    /// Passes with operators; never empty.
    pub passes: Vec<PassOperators>,
    /// Operators by path: of the stages of each of these passes, and of the whole pass where they hold little of it.
    pub trees: Vec<Tree>,
    /// Operators that are slow on first calls with new shapes.
    pub first_calls: Vec<FirstCalls>,
    /// Paths with operators to which work of the backward pass belongs, by (pass, that time descending, path).
    pub gradients: Vec<Gradient>,
}

/// Calls of one operator, of one name or of one name and shapes, in one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorSum {
    /// Pass.
    pub pass: PassId,
    /// GPU work of the pass.
    pub work: PassWork,
    /// Name.
    pub name: StrId,
    /// Shapes of the inputs, where calls are distinguished by them.
    pub shapes: StrId,
    /// Times; of nested calls of the same name, whatever their shapes, the totals count the outer one.
    pub sum: Sum,
    /// FLOPs within; absent if no formula applies.
    pub flops: Option<OperatorFlops>,
    /// Calls without GPU work within.
    pub quiet_calls: u64,
    /// Host time of these calls, outside of operators and CUDA calls within, nanoseconds.
    pub quiet_self: Ns,
}

/// Operators of one thread; of its times only those of the calls themselves are added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadSum {
    /// Pass.
    pub pass: PassId,
    /// GPU work of the pass.
    pub work: PassWork,
    /// Thread.
    pub thread: ThreadId,
    /// Times.
    pub sum: Sum,
}

/// All operators of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassOperators {
    /// Pass.
    pub pass: PassId,
    /// GPU work of the pass.
    pub work: PassWork,
    /// Calls.
    pub calls: u64,
    /// Host time outside of operators and CUDA calls within them, nanoseconds.
    pub host_self: Ns,
    /// Time of the GPU operations that operators issue, nanoseconds.
    pub device: Ns,
    /// Device time of operators whose FLOPs are counted, nanoseconds.
    pub counted: Ns,
    /// Calls without GPU work within.
    pub quiet_calls: u64,
    /// Host time of these calls, outside of operators and CUDA calls within, nanoseconds.
    pub quiet_self: Ns,
}

/// A node of a tree with work of the backward pass that belongs to no node within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gradient {
    /// Index into [`Operators::trees`].
    pub tree: usize,
    /// Index into its nodes.
    pub node: u32,
}

impl Operators {
    /// The pass that is shown: the first with operators.
    pub fn primary(&self) -> &PassOperators {
        // Never empty.
        &self.passes[0]
    }

    /// What all operators of a pass add up to.
    pub fn of_pass(&self, pass: PassId) -> Option<&PassOperators> {
        self.passes.iter().find(|operators| operators.pass == pass)
    }
}

impl PassOperators {
    /// Share of the GPU time that operators issued.
    pub fn coverage(&self) -> Option<Ratio> {
        self.work.share(self.device)
    }

    /// Share of the GPU time within operators whose FLOPs are counted.
    pub fn flop_coverage(&self) -> Option<Ratio> {
        self.work.share(self.counted)
    }

    /// Part of the host time that operators spend themselves.
    pub fn quiet_share(&self, quiet: Ns) -> Option<Ratio> {
        (self.host_self > Ns::ZERO).then(|| Ratio::of(quiet, self.host_self))
    }
}

impl OperatorSum {
    /// FLOPs over total device time, attention under its mask.
    pub fn flop_rate(&self) -> Option<FlopsPerSecond> {
        let device = self.sum.within.device;
        let flops = self
            .flops
            .filter(|_| self.work.linked && device > Ns::ZERO)?;
        Some(flops.masked / device.time())
    }
}

/// Adds up all operators.
///
/// # Errors
/// Without a PyTorch trace.
pub fn compute(context: &Context<'_>) -> Known<Operators> {
    let (session, facts) = (context.session, context.facts);
    let operators = &session.operators;
    if operators.is_empty() {
        let traced = session.passes.kind.contains(&PassKind::Operators);
        return Err(Missing(if traced {
            "missing.no_operator"
        } else {
            "missing.operators"
        }));
    }
    let works: Vec<PassWork> = session
        .passes
        .ids()
        .map(|pass| PassWork::of(facts, pass))
        .collect();
    let span = |row: usize| Span {
        thread: operators.thread[row],
        start: operators.start[row],
        end: operators.end[row],
    };
    let spans: Vec<Span> = (0..operators.len()).map(span).collect();
    let nesting = Nesting::new(&spans, &session.api_calls);
    let mut work = Work::issued(&facts.ops, &nesting);

    let rows = || {
        operators
            .pass
            .iter()
            .zip(&operators.name)
            .zip(&operators.shapes)
    };
    let mut by_name =
        Groups::new(rows().map(|((pass, name), _)| Some((*pass, *name, StrId::default()))));
    let shaped = |((pass, name), shapes): ((&PassId, &StrId), &StrId)| {
        (*shapes != StrId::default()).then_some((*pass, *name, *shapes))
    };
    let mut by_shapes = Groups::new(rows().map(shaped));
    let mut threads = Groups::new(operators.thread.iter().copied().map(Some));
    by_name.add_own(&nesting, &work);
    by_shapes.add_own(&nesting, &work);
    threads.add_own(&nesting, &work);

    roll_up(nesting.innermost_first(), &mut work);
    let recursive = nesting.recursive(&operators.name);
    by_name.add_within(&spans, &recursive, &work);
    by_shapes.add_within(&spans, &recursive, &work);
    let first_calls = first_calls::find(session, facts, &nesting);
    let mut calls = Calls {
        nesting,
        recursive,
        work,
        flops: Vec::new(),
    };
    let counted = calls.count_flops(session);

    let by_name = calls.sums(session, by_name, &works);
    let by_shapes = calls.sums(session, by_shapes, &works);
    drop(calls);
    let (trees, gradients) = trees(context);
    Ok(Operators {
        passes: of_passes(&by_name, &counted),
        threads: of_threads(session, threads, &works),
        by_name,
        by_shapes,
        trees,
        first_calls,
        gradients,
    })
}

/// Operator calls, by `OperatorId`.
struct Calls {
    nesting: Nesting,
    /// Whether an operator of the same name is around it.
    recursive: Vec<bool>,
    /// GPU work within.
    work: Vec<Work>,
    /// FLOPs within.
    flops: Vec<Option<OperatorFlops>>,
}

impl Calls {
    /// Counts FLOPs at the innermost operator that has a formula: `aten::linear` has those of the `aten::mm` within
    /// it and none of its own. Gives the device time of the calls that were counted, by pass.
    fn count_flops(&mut self, session: &Session) -> FxHashMap<PassId, Ns> {
        let Self {
            nesting,
            work,
            flops,
            ..
        } = self;
        flops.resize(work.len(), None);
        let mut counted: FxHashMap<PassId, Ns> = FxHashMap::default();
        let mut formulas = Formulas::default();
        for (row, parent) in nesting.innermost_first() {
            if flops[row].is_none() {
                flops[row] = formulas.of(session, row);
                if flops[row].is_some() {
                    let time = counted.entry(session.operators.pass[row]).or_default();
                    *time = time.saturating_add(work[row].device);
                }
            }
            let within = flops[row];
            if let Some(parent) = parent {
                add_flops(&mut flops[parent as usize], within);
            }
        }
        counted
    }

    /// The sums with what operators alone have, in their order.
    fn sums(
        &self,
        session: &Session,
        groups: Groups<(PassId, StrId, StrId)>,
        works: &[PassWork],
    ) -> Vec<OperatorSum> {
        let empty = |((pass, name, shapes), sum)| {
            let work: PassWork = works[PassId::index(pass)];
            let (flops, quiet_calls, quiet_self) = (None, 0, 0);
            OperatorSum {
                pass,
                work,
                name,
                shapes,
                sum,
                flops,
                quiet_calls,
                quiet_self: Ns(quiet_self),
            }
        };
        let mut sums: Vec<OperatorSum> = groups.sums.into_iter().map(empty).collect();
        for (row, group) in groups
            .of
            .iter()
            .enumerate()
            .filter(|(_, group)| **group != NO_GROUP)
        {
            let sum = &mut sums[*group as usize];
            if self.work[row].operations == 0 {
                sum.quiet_calls += 1;
                sum.quiet_self = sum.quiet_self.saturating_add(self.nesting.own[row]);
            }
            if !self.recursive[row] {
                add_flops(&mut sum.flops, self.flops[row]);
            }
        }
        sums.arrange_by(|a, b| {
            let time = |operator: &OperatorSum| (operator.sum.own.device, operator.sum.host_self);
            let texts = |operator: &OperatorSum| {
                (session.text(operator.name), session.text(operator.shapes))
            };
            a.pass
                .cmp(&b.pass)
                .then(time(b).cmp(&time(a)))
                .then_with(|| texts(a).cmp(&texts(b)))
        });
        sums
    }
}

fn add_flops(sum: &mut Option<OperatorFlops>, more: Option<OperatorFlops>) {
    if let Some(more) = more {
        let sum = sum.get_or_insert_default();
        sum.full += more.full;
        sum.masked += more.masked;
    }
}

/// FLOPs of calls that were seen before: a model calls few operators with few shapes.
#[derive(Default)]
struct Formulas {
    known: FxHashMap<(StrId, StrId, StrId), Option<OperatorFlops>>,
}

impl Formulas {
    fn of(&mut self, session: &Session, row: usize) -> Option<OperatorFlops> {
        let operators = &session.operators;
        let key = (
            operators.name[row],
            operators.shapes[row],
            operators.inputs[row],
        );
        let [name, shapes, inputs] = [key.0, key.1, key.2].map(|id| session.text(id));
        *self
            .known
            .entry(key)
            .or_insert_with(|| flops(name, shapes, inputs))
    }
}

fn of_passes(by_name: &[OperatorSum], counted: &FxHashMap<PassId, Ns>) -> Vec<PassOperators> {
    let mut passes: Vec<PassOperators> = Vec::new();
    for of_pass in by_name.chunk_by(|a, b| a.pass == b.pass) {
        let (pass, work) = (of_pass[0].pass, of_pass[0].work);
        let counted = counted.get(&pass).copied().unwrap_or(Ns::ZERO);
        let mut operators = PassOperators {
            pass,
            work,
            counted,
            ..PassOperators::default()
        };
        for OperatorSum {
            sum,
            quiet_calls,
            quiet_self,
            ..
        } in of_pass
        {
            operators.calls += sum.calls;
            operators.host_self = operators.host_self.saturating_add(sum.host_self);
            operators.device = operators.device.saturating_add(sum.own.device);
            operators.quiet_calls += quiet_calls;
            operators.quiet_self = operators.quiet_self.saturating_add(*quiet_self);
        }
        passes.push(operators);
    }
    passes
}

fn of_threads(session: &Session, groups: Groups<ThreadId>, works: &[PassWork]) -> Vec<ThreadSum> {
    let thread_sum = |(thread, sum): (ThreadId, Sum)| {
        let pass = session.processes.pass[session.threads.process[thread.index()].index()];
        ThreadSum {
            pass,
            work: works[pass.index()],
            thread,
            sum,
        }
    };
    let mut threads: Vec<ThreadSum> = groups.sums.into_iter().map(thread_sum).collect();
    threads.arrange_by_key(|thread| (thread.pass, thread.thread));
    threads
}

/// The trees of all passes with operators, and where in them work of the backward pass belongs.
fn trees(context: &Context<'_>) -> (Vec<Tree>, Vec<Gradient>) {
    let session = context.session;
    let Ok(spans) = context.results.spans() else {
        return (Vec::new(), Vec::new());
    };
    let passes = session
        .passes
        .ids()
        .filter(|pass| session.operators.pass.contains(pass));
    let trees: Vec<Tree> = passes
        .flat_map(|pass| all_trees(context, spans, pass))
        .collect();
    let mut gradients = Vec::new();
    for (index, tree) in trees
        .iter()
        .enumerate()
        .filter(|(_, tree)| tree.has_backward())
    {
        // The tree of the whole pass holds what those of the stages do.
        let is_stage = |other_tree: &&Tree| other_tree.label != WHOLE_CAPTURE;
        let mut of_pass = trees
            .iter()
            .filter(|other_tree| other_tree.pass == tree.pass && other_tree.has_backward());
        if is_stage(&tree) || !of_pass.any(|other_tree| is_stage(&other_tree)) {
            let nodes = (0u32..).zip(&tree.nodes).skip(1);
            let with_backward = nodes.filter(|(_, node)| node.sum.own.backward > Ns::ZERO);
            gradients.extend(with_backward.map(|(node, _)| Gradient { tree: index, node }));
        }
    }
    gradients.sort_by_cached_key(|gradient| {
        let tree = &trees[gradient.tree];
        let time = tree.nodes[gradient.node as usize].sum.own.backward;
        (tree.pass, Reverse(time), tree.path(gradient.node))
    });
    (trees, gradients)
}
