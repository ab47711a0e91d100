//! GPU work of the backward pass by the operators of the forward pass.
//!
//! Work belongs to the innermost backward operator with a forward one around the start of its CUDA call. An operator
//! that the backward pass computes again, as with checkpoints, represents the operator that was checkpointed.

use crate::engine::facts::{OpIndex, Ops};
use crate::engine::intervals::total;
use crate::engine::nesting::innermost;
use crate::{Context, Known};
use rooflens_session::{ApiCallId, Ns, OperatorId, PassId, Session, ThreadId};
use rooflens_units::Ratio;

/// Times that an operator of the forward pass may itself be one of the backward pass.
const MAX_DEPTH: usize = 16;

/// How autograd names what it does for a node.
const ENGINE: &str = "autograd::engine::evaluate_function: ";

/// GPU work of the backward pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backward {
    /// GPU operations with the forward operators that they belong to, by operation.
    pub work: Vec<(OpIndex, OperatorId)>,
    /// By pass, as far as autograd issued any; none if no backward operator has a forward one.
    pub passes: Vec<PassBackward>,
}

/// GPU work of the backward pass of one pass of the profiler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassBackward {
    /// Pass.
    pub pass: PassId,
    /// Time of the GPU operations that autograd issued, nanoseconds, above 0.
    pub issued: Ns,
    /// Of that, of backward operators with a forward operator.
    pub tied: Ns,
    /// Backward operators with a forward operator.
    pub operators: u64,
}

impl PassBackward {
    /// The share of the GPU time that autograd issued that belongs to operators of the forward pass.
    pub fn coverage(&self) -> Ratio {
        Ratio::of(self.tied, self.issued)
    }
}

/// Finds the forward operators of all GPU work; never missing, but empty without backward operators.
pub fn compute(context: &Context<'_>) -> Known<Backward> {
    let (session, ops) = (context.session, &context.facts.ops);
    let work = work(session, ops);
    if work.is_empty() {
        return Ok(Backward::default());
    }
    let engine = by_engine(session, ops);
    let of_pass = |pass: PassId| {
        let time = |list: &mut dyn Iterator<Item = OpIndex>| {
            let rows = list
                .map(|op| op as usize)
                .filter(|op| ops.pass[*op] == pass);
            total(rows.map(|op| ops.end[op].saturating_sub(ops.start[op])))
        };
        let issued = time(&mut engine.iter().copied());
        let tied = time(&mut work.iter().map(|(op, _)| *op));
        let operators = session.backward_operators.operator.iter();
        let operators = operators
            .filter(|id| session.operators.pass[id.index()] == pass)
            .count();
        (issued > Ns::ZERO).then_some(PassBackward {
            pass,
            issued,
            tied,
            operators: operators as u64,
        })
    };
    let passes = session.passes.ids().filter_map(of_pass).collect();
    Ok(Backward { work, passes })
}

/// GPU operations with the forward operators that they belong to, by operation.
fn work(session: &Session, ops: &Ops) -> Vec<(OpIndex, OperatorId)> {
    let ties = &session.backward_operators;
    if ties.is_empty() {
        return Vec::new();
    }
    let operators = &session.operators;
    let (calls, moments) = issued(session, ops);
    let started: Vec<(ThreadId, Ns)> = ties
        .forward
        .iter()
        .map(|forward| {
            (
                operators.thread[forward.index()],
                operators.start[forward.index()],
            )
        })
        .collect();
    let around = |moments: &[(ThreadId, Ns)]| within(session, &ties.operator, moments);
    let outer = around(&started);
    let forward = |tie: usize| {
        let first = ties.forward[tie];
        let mut current = outer[tie];
        std::iter::from_fn(|| current.inspect(|tie| current = outer[*tie]))
            .take(MAX_DEPTH)
            .last()
            .map_or(first, |tie| ties.forward[tie])
    };
    let of_calls = around(&moments);
    calls
        .iter()
        .zip(of_calls)
        .filter_map(|(op, tie)| Some((*op, forward(tie?))))
        .collect()
}

/// GPU operations that autograd issued, whether they have a forward operator or not.
fn by_engine(session: &Session, ops: &Ops) -> Vec<OpIndex> {
    let operators = &session.operators;
    let of_engine = |id: &OperatorId| session.text(operators.name[id.index()]).starts_with(ENGINE);
    let mut of_engine_ids: Vec<OperatorId> = operators.ids().filter(of_engine).collect();
    of_engine_ids.extend(&session.backward_operators.operator);
    let (calls, moments) = issued(session, ops);
    let inside = within(session, &of_engine_ids, &moments);
    calls
        .into_iter()
        .zip(inside)
        .filter_map(|(op, inside)| inside.map(|_| op))
        .collect()
}

/// GPU operations with the threads and starts of their calls.
fn issued(session: &Session, ops: &Ops) -> (Vec<OpIndex>, Vec<(ThreadId, Ns)>) {
    let calls = &session.api_calls;
    let moment = |(op, call): (OpIndex, &Option<ApiCallId>)| {
        let call = (*call)?.index();
        Some((op, (calls.thread[call], calls.start[call])))
    };
    (0..).zip(&ops.api_call).filter_map(moment).unzip()
}

/// For each moment the innermost of some operators, by its place in their list.
fn within(
    session: &Session,
    list: &[OperatorId],
    moments: &[(ThreadId, Ns)],
) -> Vec<Option<usize>> {
    let operators = &session.operators;
    let column = |column: &[Ns]| -> Vec<Ns> { list.iter().map(|id| column[id.index()]).collect() };
    let threads: Vec<ThreadId> = list.iter().map(|id| operators.thread[id.index()]).collect();
    innermost(
        moments,
        &threads,
        &column(&operators.start),
        &column(&operators.end),
    )
}
