//! Functions of Python: which holds the GPU's time, the host's and the idle, from traces recorded with stacks.

mod idle;

use super::PassWork;
use super::call_tree::{Folded, Source, Spans, Tree, all_trees};
use crate::engine::spans::{Groups, Sum, Work, roll_up};
use crate::{Context, Known};
use rooflens_session::{Arrange, Ns, PassId};
use rooflens_units::Ratio;

use idle::Idle;

/// Functions of Python of all passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Python {
    /// By (pass, own device time descending, own host time descending, name).
    pub functions: Vec<FunctionSum>,
    /// Passes with functions.
    pub passes: Vec<PassFunctions>,
    /// Functions of the first of them by path.
    pub trees: Vec<Tree>,
}

/// Calls of one function in one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSum {
    /// Pass.
    pub pass: PassId,
    /// GPU work of the pass.
    pub work: PassWork,
    /// File, line and name.
    pub name: String,
    /// Times; totals count a call within one of the same function once.
    pub sum: Sum,
    /// Time in the function in which no GPU ran anything.
    pub idle: IdleSum,
}

/// Time in calls of a function in which no GPU ran anything, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleSum {
    /// In the function, a call within one of the same function counted once.
    pub total: Ns,
    /// Of that, in no function within.
    pub own: Ns,
}

/// All functions of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassFunctions {
    /// Pass.
    pub pass: PassId,
    /// GPU work of the pass.
    pub work: PassWork,
    /// Functions.
    pub functions: u64,
    /// Calls of them.
    pub calls: u64,
    /// Time of the GPU operations issued within functions, nanoseconds.
    pub device: Ns,
}

impl PassFunctions {
    /// Share of the GPU time that was issued within functions.
    pub fn coverage(&self) -> Option<Ratio> {
        self.work.share(self.device)
    }
}

/// Adds up all functions; stacks are a choice of who records, so nothing is missing without them.
pub fn compute(context: &Context<'_>) -> Known<Python> {
    let session = context.session;
    if session.frames.is_empty() {
        return Ok(Python::default());
    }
    let spans = Spans::of_functions(session);
    let functions = sums(context, &spans);
    let of_pass = |of: &[FunctionSum]| PassFunctions {
        pass: of[0].pass,
        work: of[0].work,
        functions: of.len() as u64,
        calls: of.iter().map(|function| function.sum.calls).sum(),
        device: of
            .iter()
            .map(|function| function.sum.own.device)
            .fold(Ns::ZERO, Ns::saturating_add),
    };
    let passes: Vec<PassFunctions> = functions
        .chunk_by(|a, b| a.pass == b.pass)
        .map(of_pass)
        .collect();
    let trees = passes
        .first()
        .map(|first| all_trees(context, &spans, first.pass));
    Ok(Python {
        functions,
        passes,
        trees: trees.unwrap_or_default(),
    })
}

fn sums(context: &Context<'_>, spans: &Spans) -> Vec<FunctionSum> {
    let (session, facts) = (context.session, context.facts);
    let mut folded = Folded::default();
    let calls = spans.source.iter().zip(&spans.name);
    let key = |(source, name): (&Source, &_)| {
        let Source::Function(frame) = source else {
            return None;
        };
        Some((
            session.frames.pass[frame.index()],
            folded.of(session, *name),
        ))
    };
    let mut groups = Groups::new(calls.map(key));
    let mut work = Work::issued(&facts.ops, &spans.nesting);
    let backward = context
        .results
        .backward()
        .map_or(&[][..], |backward| &backward.work);
    for (op, forward) in backward {
        if let Some(span) = spans.of_operator(session, *forward) {
            let backward = Work::of(&facts.ops, *op as usize).device;
            work[span as usize] += Work {
                backward,
                ..Work::default()
            };
        }
    }
    groups.add_own(&spans.nesting, &work);
    roll_up(spans.nesting.innermost_first(), &mut work);
    let recursive = spans.nesting.recursive(&groups.of);
    groups.add_within(&spans.span, &recursive, &work);
    drop(work);
    let idle = idle(context, spans, &groups, &recursive);
    let works: Vec<PassWork> = session
        .passes
        .ids()
        .map(|pass| PassWork::of(facts, pass))
        .collect();
    let function = |(((pass, name), sum), idle): (((PassId, _), Sum), IdleSum)| {
        let name = folded.text(name).to_owned();
        FunctionSum {
            pass,
            work: works[pass.index()],
            name,
            sum,
            idle,
        }
    };
    let mut functions: Vec<FunctionSum> = groups.sums.into_iter().zip(idle).map(function).collect();
    functions.arrange_by(|a, b| {
        let time = |function: &FunctionSum| (function.sum.own.device, function.sum.host_self);
        a.pass
            .cmp(&b.pass)
            .then(time(b).cmp(&time(a)))
            .then_with(|| a.name.cmp(&b.name))
    });
    functions
}

/// Threads that issue GPU work, by `ThreadId`.
fn issuing(context: &Context<'_>) -> Vec<bool> {
    let session = context.session;
    let mut issues = vec![false; session.threads.len()];
    for call in context.facts.ops.api_call.iter().flatten() {
        issues[session.api_calls.thread[call.index()].index()] = true;
    }
    issues
}

/// The idle time in calls of the threads that issue GPU work, by function.
fn idle<K: Copy>(
    context: &Context<'_>,
    spans: &Spans,
    groups: &Groups<(PassId, K)>,
    recursive: &[bool],
) -> Vec<IdleSum> {
    let mut sums = vec![IdleSum::default(); groups.sums.len()];
    let issues = issuing(context);
    let mut gaps: Option<(PassId, Idle)> = None;
    for span in spans.nesting.order.iter().map(|span| *span as usize) {
        let frame = &spans.span[span];
        if !issues[frame.thread.index()] {
            continue;
        }
        let group = groups.of[span] as usize;
        let pass = groups.sums[group].0.0;
        if gaps.as_ref().is_none_or(|(of, _)| *of != pass) {
            gaps = Some((pass, Idle::new(context.facts, pass)));
        }
        let time = gaps
            .as_ref()
            .map_or(Ns::ZERO, |(_, gaps)| gaps.within(frame.start, frame.end));
        let sum = &mut sums[group];
        sum.own = sum.own.saturating_add(time);
        if !recursive[span] {
            sum.total = sum.total.saturating_add(time);
        }
        if let Some(parent) = spans.nesting.parent[span] {
            let around = &mut sums[groups.of[parent as usize] as usize].own;
            *around = around.saturating_sub(time);
        }
    }
    // Calls that overlap without nesting would take their common part twice.
    sums.iter_mut()
        .for_each(|sum| sum.own = sum.own.max(Ns::ZERO));
    sums
}
