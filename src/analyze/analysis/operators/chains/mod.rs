//! Kernels that waste time together: each of them may be as fast as it can be.
//!
//! Counters judge kernels one by one, so a chain of fast elementwise kernels looks sound although a single kernel could
//! do its work. This analysis reads what operators computed with, in the order of their kernels on the GPU, and finds
//! groups that another form of the same computation would replace.
//!
//! A kernel belongs to one group at most: groups are looked for in the order of [`ChainKind`], the most specific first.
//! The lower bound of a group assumes the best: each input is read once, each output is written once, and what fits the
//! L2 cache never leaves it. It needs the sizes of tensors. Without a trace of operators, names and order of PyTorch's
//! kernels show a part of the groups, with a bound from the kernels' own times.

mod call;
mod contractions;
mod copies;
mod elementwise;
mod embeddings;
mod epilogues;
mod gradients;
mod items;
mod matrix;
mod models;
mod names;
mod recomputed;
mod roof;
mod rows;
mod updates;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::engine::facts::Facts;
use crate::engine::nesting::innermost;
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Known, Missing};
use rooflens_session::{Arrange, KernelId, Ns, OperatorId, PassId, StrId, ThreadId};
use rooflens_units::{Count, Ratio, Time};

pub use call::Dtype;
use items::{Item, Items, PassItems};
pub use names::JOINT;
use roof::Roof;
use rows::MaskedModel;

/// What a group of kernels does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainKind {
    /// Calls of one model that a training step repeats, with their part of backward.
    Calls,
    /// Calls of a model with the same sizes in each iteration, next to another network.
    Constant,
    /// Kernels of forward that backward launches again.
    Recomputed,
    /// Kernels of backward for parameters that no optimizer updates.
    Gradients,
    /// Fills and updates of whole tables of embeddings, of which a batch uses few rows.
    Embeddings,
    /// Layers on gathered rows, of which the source has fewer.
    Gathered,
    /// Logits that nothing reads.
    Logits,
    /// An optimizer that launches kernels for each parameter.
    Optimizer,
    /// Attention as separate GEMMs and a softmax.
    Attention,
    /// Experts of a mixture, each with GEMMs and index operations of its own.
    Experts,
    /// Independent small GEMMs, one after the other.
    Gemms,
    /// GEMMs as a broadcast multiplication and a sum.
    Contraction,
    /// Sums of many rows into few rows by atomic additions.
    Atomics,
    /// Copies that repeat a tensor.
    Repeat,
    /// Operators in FP64.
    Fp64,
    /// Copies between NCHW and channels-last.
    Channels,
    /// Copies that change the order of axes.
    Transpose,
    /// A normalization of several kernels.
    Norm,
    /// Elementwise kernels on the same elements.
    Pointwise,
    /// Additions of a bias to the output of a GEMM.
    Epilogue,
    /// Copies that only change the type.
    Cast,
}

/// Groups of kernels of one pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chains {
    /// The pass with operators.
    pub pass: PassId,
    /// Whether groups are those that names and order of kernels show, without operators.
    pub by_names: bool,
    /// Whether the rates of its GPU are known.
    pub has_rates: bool,
    /// Whether strides were recorded.
    pub has_strides: bool,
    /// Outermost stages with GPU work, and what lies between them in the measured loop; by stage, the latter last.
    pub places: Vec<Place>,
}

/// A stage, or what lies between stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The stage; none between stages.
    pub stage: Option<Summary>,
    /// GPU operations of the counted instances.
    pub operations: Count,
    /// Sum of their durations.
    pub time: Time,
    /// Groups by kind.
    pub groups: Vec<Group>,
}

/// Groups of one kind in the counted instances of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Kind.
    pub kind: ChainKind,
    /// Number of groups.
    pub chains: Count,
    /// Their kernels.
    pub kernels: Count,
    /// Kernels that the other form does not launch.
    pub removed: Count,
    /// Those of them that the operator of another kernel launches, such as a convolution: no operator goes with them.
    pub within: Count,
    /// Operator among them that takes one layout alone.
    pub fixed: Option<StrId>,
    /// The part of their time that normalizations lose, whose grids have few blocks in this layout.
    pub norms: Time,
    /// Sum of their durations.
    pub time: Time,
    /// The part of it that a thread launches which calls the model, in the calls and outside of them.
    pub of_model: [Time; 2],
    /// The least time of the other form; absent if the GPU's rates are not known.
    pub bound: Option<Time>,
    /// Those with the most time of the same signature.
    pub example: Example,
}

/// Groups with the same signature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// Operators in the order of their kernels, such as `pow → mean → add`.
    pub operators: String,
    /// Sizes of the main tensor, such as `8192 × 2048`.
    pub sizes: String,
    /// Type before, or of the main tensor.
    pub from: Dtype,
    /// Type after.
    pub to: Dtype,
    /// How often data repeats, or how many meet.
    pub factor: Option<Count>,
    /// The operator around them that causes them, such as `aten::linear`.
    pub around: Option<StrId>,
    /// The innermost function of Python or module around them.
    pub frame: Option<StrId>,
    /// Time of all with this signature.
    pub time: Time,
    /// Number of them.
    pub chains: Count,
    /// Whether they are of autograd, which multiplies the gradient of a product.
    pub is_backward: bool,
    /// The kernel whose work an epilogue can do.
    pub kernel: Option<KernelId>,
    /// The operator of its first kernel.
    pub operator: Option<OperatorId>,
}

/// A group that was found.
#[derive(Clone, Debug)]
struct Chain {
    kind: ChainKind,
    /// Positions in the list of items.
    items: Vec<usize>,
    /// Factor of the time and kernels: of a loop whose ends are not seen.
    scale: f64,
    kernels_left: f64,
    /// Operations between the kernels that go, too, such as copies to the host.
    others: f64,
    /// Whether the operator of another kernel launches them.
    is_within: bool,
    /// Operator next to it that takes one layout alone.
    fixed: Option<StrId>,
    /// Time that other kernels save because of it, and the part of normalizations with few blocks.
    also: Time,
    norms: Time,
    bound: Option<Time>,
    example: Example,
}

impl Group {
    /// Time that the other form saves at most; absent if the GPU's rates are not known.
    pub fn saved(&self) -> Option<Time> {
        Some((self.time - self.bound?).max(Time::ZERO))
    }
}

impl Place {
    /// A group of a kind.
    pub fn group(&self, kind: ChainKind) -> Option<&Group> {
        self.groups.iter().find(|group| group.kind == kind)
    }

    /// A time as a share of that of all operations.
    pub fn share(&self, time: Time) -> Ratio {
        match self.time.is_positive() {
            true => Ratio::of(time, self.time),
            false => Ratio::ZERO,
        }
    }

    /// Number of instances.
    pub fn instances(&self) -> f64 {
        self.stage.as_ref().map_or(1, |stage| stage.counted.max(1)) as f64
    }
}

/// Finds groups of kernels in the pass with operators, the primary one if it has any.
///
/// # Errors
/// Without operators whose sizes were recorded.
pub fn compute(context: &Context<'_>) -> Known<Chains> {
    let (session, facts) = (context.session, context.facts);
    let with_operators = pass_with_operators(context);
    let pass = with_operators.or_else(|| facts.primary_pass(session));
    let pass = pass.ok_or(Missing("missing.operators"))?;
    let basis = match with_operators {
        Some(_) => Basis::Operators,
        None if is_of_pytorch(context, pass) => Basis::NamesOfPytorch,
        None if epilogues::occur(context, pass) => Basis::Names,
        None => return Err(Missing("missing.operators")),
    };
    let roof = Roof::of(context, pass);
    let mut places = places(context, pass);
    let pass_items = PassItems::new(context, pass, &places.of_ops);
    let masked_model = MaskedModel::of(context, pass);
    for items in pass_items.streams(session, &facts.identities) {
        for chain in find(&items, &roof, masked_model.as_ref(), basis) {
            places.add(&items, chain);
        }
    }
    let strides = &session.operators.strides;
    let has_stride = |strides: &StrId| {
        session
            .text(*strides)
            .contains(|c: char| c.is_ascii_digit())
    };
    Ok(Chains {
        pass,
        by_names: with_operators.is_none(),
        has_rates: roof.is_known(),
        has_strides: strides.iter().any(has_stride),
        places: places.with_examples(context),
    })
}

/// The first pass with operators whose sizes were recorded, the primary one if it has any.
fn pass_with_operators(context: &Context<'_>) -> Option<PassId> {
    let (session, facts) = (context.session, context.facts);
    if !context.records_shapes() {
        return None;
    }
    let mut passes = facts.passes_by_preference(session).into_iter();
    passes.find(|pass| session.operators.pass.contains(pass))
}

/// Whether a pass has kernels of PyTorch.
fn is_of_pytorch(context: &Context<'_>, pass: PassId) -> bool {
    let (session, launches) = (context.session, &context.session.launches);
    let is_native = |kernel| session.kernel_name(kernel).contains(names::PYTORCH);
    let native: Vec<bool> = session.kernels.ids().map(is_native).collect();
    let mut kernels = launches.pass.iter().zip(&launches.kernel);
    kernels.any(|(of_pass, kernel)| *of_pass == pass && native[kernel.index()])
}

/// What shows groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// Operators with sizes.
    Operators,
    /// Names of PyTorch's kernels.
    NamesOfPytorch,
    /// Names of the program's own kernels.
    Names,
}

/// All groups of one stream.
fn find(
    items: &Items<'_>,
    roof: &Roof<'_>,
    masked_model: Option<&MaskedModel>,
    basis: Basis,
) -> Vec<Chain> {
    let mut finder = Finder {
        items,
        roof,
        masked_model,
        is_taken: vec![false; items.list.len()],
        chains: Vec::new(),
    };
    if basis != Basis::Operators {
        if basis == Basis::NamesOfPytorch {
            finder.named_logits();
            finder.named();
            finder.recomputed();
        }
        finder.named_epilogues();
        finder.repeated_calls();
        finder.constant_calls();
        return finder.chains;
    }
    finder.gradients();
    finder.embeddings();
    finder.gathered_rows();
    finder.unread_logits();
    finder.optimizers();
    finder.attention();
    finder.gemm_loops();
    finder.atomics();
    finder.repeats();
    finder.fp64();
    finder.layouts();
    finder.elementwise();
    finder.contractions(None);
    finder.epilogues();
    finder.casts();
    finder.recomputed();
    finder.repeated_calls();
    finder.constant_calls();
    finder.chains
}

/// Looks for groups in the operations of one stream.
struct Finder<'a> {
    items: &'a Items<'a>,
    roof: &'a Roof<'a>,
    masked_model: Option<&'a MaskedModel>,
    is_taken: Vec<bool>,
    chains: Vec<Chain>,
}

impl Finder<'_> {
    fn add(&mut self, chain: Chain) {
        for position in &chain.items {
            self.is_taken[*position] = true;
        }
        self.chains.push(chain);
    }
}

/// From the start of the first counted instance of the outermost stages of a pass to the end of the last one; none where
/// no stage repeats.
pub fn measured_loop(facts: &Facts, pass: PassId) -> Option<(Ns, Ns)> {
    let summaries = summaries(facts, pass).iter();
    let outermost = summaries.filter(|summary| summary.is_outermost(facts));
    let repeated = outermost.filter(|summary| summary.counted > 1);
    let instances = repeated.flat_map(|summary| summary.counted_instances(facts));
    let projections = instances.filter_map(|instance| instance.projection);
    projections.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// What examples have in common that add up: kind, operators, sizes, types.
type Signature = (ChainKind, String, String, [Dtype; 2]);

/// Where operations belong, while groups are added up.
struct Places {
    /// Index of the place and number of the instance of each operation of the pass; none if it does not count.
    of_ops: Vec<Option<(u32, u32)>>,
    list: Vec<Place>,
    /// Calls of models: thread, start and end, by thread and start.
    calls: Vec<(ThreadId, Ns, Ns)>,
    /// Examples by place and signature.
    examples: BTreeMap<(u32, Signature), Example>,
}

fn places(context: &Context<'_>, pass: PassId) -> Places {
    let facts = context.facts;
    let ops = facts.ops_of(pass);
    let outermost: Vec<&Summary> = summaries(facts, pass)
        .iter()
        .filter(|summary| summary.is_outermost(facts))
        .collect();
    let outside = outermost.len() as u32;
    let window = measured_loop(facts, pass);
    let is_in_loop = |op: usize| {
        let (start, end) = window?;
        (start <= facts.ops.start[op] && facts.ops.end[op] <= end).then_some((outside, 0))
    };
    let mut of_ops: Vec<Option<(u32, u32)>> = ops.clone().map(is_in_loop).collect();
    for (place, summary) in (0..).zip(&outermost) {
        let instances = facts.instances_by(summary.stage(facts), summary.process);
        for (number, instance) in (0..).zip(instances) {
            let is_counted = instance.excluded.is_none();
            for op in &instance.ops {
                of_ops[*op as usize - ops.start] = is_counted.then_some((place, number));
            }
        }
    }
    let mut list: Vec<Place> = outermost
        .into_iter()
        .map(|summary| Place {
            stage: Some(summary.clone()),
            ..Place::default()
        })
        .collect();
    list.push(Place::default());
    for (place, op) in of_ops.iter().zip(ops) {
        if let Some((place, _)) = place {
            let place = &mut list[*place as usize];
            place.operations += Count(1.0);
            place.time += facts.ops.end[op].saturating_sub(facts.ops.start[op]).time();
        }
    }
    let calls = &context.session.model_calls;
    let rows = (0..calls.len()).map(|row| (calls.thread[row], calls.start[row], calls.end[row]));
    let mut calls: Vec<_> = rows.collect();
    calls.sort_unstable();
    Places {
        of_ops,
        examples: BTreeMap::new(),
        list,
        calls,
    }
}

impl Places {
    fn add(&mut self, items: &Items<'_>, chain: Chain) {
        let Some(first) = chain.items.first() else {
            return;
        };
        let place = items.list[*first].place as usize;
        let duration = |position: &usize| items.list[*position].duration().time().0;
        let time = Time(chain.items.iter().map(duration).sum::<f64>()) * chain.scale + chain.also;
        let kernels = Count(chain.items.len() as f64 * chain.scale);
        let of_model = self.of_model(items, &chain.items);
        let groups = &mut self.list[place].groups;
        let group = match groups.iter().position(|group| group.kind == chain.kind) {
            Some(known) => &mut groups[known],
            None => {
                groups.push(Group::new(chain.kind));
                let last = groups.len() - 1;
                &mut groups[last]
            }
        };
        group.chains += Count(1.0);
        group.kernels += kernels;
        let removed = kernels.0 + chain.others * chain.scale - chain.kernels_left;
        group.removed += Count(removed).max(Count::ZERO);
        if chain.is_within {
            group.within += Count(removed).max(Count::ZERO);
        }
        group.fixed = group.fixed.or(chain.fixed);
        group.norms += chain.norms;
        group.time += time;
        for (sum, of_chain) in group.of_model.iter_mut().zip(of_model) {
            *sum += of_chain;
        }
        group.bound = match (group.bound, chain.bound) {
            (Some(sum), Some(bound)) => Some(sum + bound.min(time)),
            _ => None,
        };
        let signature = (
            chain.kind,
            chain.example.operators.clone(),
            chain.example.sizes.clone(),
            [chain.example.from, chain.example.to],
        );
        let example = self.examples.entry((place as u32, signature));
        let example = example.or_insert(chain.example);
        example.time += time;
        example.chains += Count(1.0);
    }

    /// Time of kernels that a thread launches which calls a model: in the calls, and outside of them.
    fn of_model(&self, items: &Items<'_>, positions: &[usize]) -> [Time; 2] {
        let mut times = [Time::ZERO; 2];
        for position in positions {
            let item = &items.list[*position];
            let Some((thread, issued)) = item.issued else {
                continue;
            };
            let of_thread = |call: &&(ThreadId, Ns, Ns)| call.0 == thread;
            let place = self
                .calls
                .partition_point(|call| (call.0, call.1) <= (thread, issued));
            let before = self.calls[..place].last().filter(of_thread);
            let after = self.calls.get(place).filter(of_thread);
            if before.or(after).is_some() {
                let is_outside = before.is_none_or(|call| issued >= call.2);
                times[usize::from(is_outside)] += item.duration().time();
            }
        }
        times
    }

    fn with_examples(mut self, context: &Context<'_>) -> Vec<Place> {
        for ((place, (kind, ..)), example) in self.examples {
            let mut groups = self.list[place as usize].groups.iter_mut();
            if let Some(group) = groups.find(|group| group.kind == kind)
                && group.example.time < example.time
            {
                group.example = example;
            }
        }
        for place in &mut self.list {
            for group in &mut place.groups {
                group.example.frame = frame(context, group.example.operator);
            }
            place.groups.arrange_by_key(|group| group.kind);
        }
        self.list
    }
}

impl Group {
    fn new(kind: ChainKind) -> Self {
        Self {
            kind,
            chains: Count::ZERO,
            kernels: Count::ZERO,
            removed: Count::ZERO,
            within: Count::ZERO,
            fixed: None,
            norms: Time::ZERO,
            time: Time::ZERO,
            of_model: [Time::ZERO; 2],
            bound: Some(Time::ZERO),
            example: Example::default(),
        }
    }
}

/// The innermost function of Python or module around an operator; functions of the interpreter's own are skipped.
fn frame(context: &Context<'_>, operator: Option<OperatorId>) -> Option<StrId> {
    let (session, row) = (context.session, operator?.index());
    let (frames, operators) = (&session.frames, &session.operators);
    let (thread, start) = (operators.thread[row], operators.start[row]);
    let is_around = |frame: &usize| {
        frames.thread[*frame] == thread
            && frames.start[*frame] <= start
            && frames.end[*frame] > start
            && !session.text(frames.name[*frame]).starts_with('<')
    };
    let around: Vec<usize> = (0..frames.len()).filter(is_around).collect();
    let column = |column: &[Ns]| -> Vec<Ns> { around.iter().map(|row| column[*row]).collect() };
    let threads = vec![thread; around.len()];
    let frame = innermost(
        &[(thread, start)],
        &threads,
        &column(&frames.start),
        &column(&frames.end),
    );
    Some(frames.name[around[frame[0]?]])
}

/// Names of the operators of items, each run of equal names once.
fn operators(items: &Items<'_>, positions: &[usize]) -> String {
    let names = positions
        .iter()
        .filter_map(|position| items.name(*position))
        .map(|name| name.strip_prefix("aten::").unwrap_or(name));
    in_order(names.collect())
}

/// Names with arrows between, each run of equal names once.
fn in_order(mut names: Vec<&str>) -> String {
    /// Names that a list shows.
    const SHOWN: usize = 10;
    names.dedup();
    let more = names.len() > SHOWN;
    names.truncate(SHOWN);
    let mut text = names.join(" → ");
    if more {
        text.push_str(" → …");
    }
    text
}

/// Sizes of a tensor, such as `8192 × 2048`.
fn sizes(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    dims.join(" × ")
}

impl Item {
    fn duration(&self) -> Ns {
        self.end.saturating_sub(self.start)
    }
}
