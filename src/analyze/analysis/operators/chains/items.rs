//! Kernels of a pass by stream, each with the operator that launched it.

use std::collections::BTreeMap;

use super::call::{Call, Calls};
use super::gradients::ENGINE;
use crate::Context;
use crate::engine::classify::{KernelClass, KernelIdentity};
use crate::engine::facts::{OpIndex, OpSource};
use crate::engine::nesting::{Nesting, Span};
use rooflens_session::{GpuId, KernelId, Ns, PassId, Session, ThreadId};
use rooflens_units::Count;

/// A kernel on a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Number of the operation.
    pub(super) op: OpIndex,
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) kernel: KernelId,
    /// Thread blocks of the grid.
    pub(super) blocks: u64,
    /// Threads of the grid.
    pub(super) threads: u64,
    pub(super) class: KernelClass,
    /// Index of its place.
    pub(super) place: u32,
    /// Number of the instance of its stage.
    instance: u32,
    /// Thread and start of the call that issued it.
    pub(super) issued: Option<(ThreadId, Ns)>,
    /// Row of the innermost operator around its launch.
    pub(super) operator: Option<u32>,
    /// Row of the operator of forward that backward launches the kernel for.
    pub(super) forward: Option<u32>,
    /// Number of that operator's call.
    call: Option<u32>,
}

/// Kernels of one stream in their order.
pub(super) struct Items<'a> {
    pub(super) session: &'a Session,
    pub(super) identities: &'a [KernelIdentity],
    pub(super) list: Vec<Item>,
    nesting: &'a Nesting,
    calls: &'a Calls,
}

/// Kernels of a pass.
pub(super) struct PassItems {
    nesting: Nesting,
    calls: Calls,
    streams: BTreeMap<(GpuId, u64), Vec<Item>>,
}

impl PassItems {
    /// The kernels of the counted instances; `places` has the place and the instance of each operation of the pass.
    pub(super) fn new(context: &Context<'_>, pass: PassId, places: &[Option<(u32, u32)>]) -> Self {
        let (session, facts) = (context.session, context.facts);
        let operators = &session.operators;
        let span = |row: usize| Span {
            thread: operators.thread[row],
            start: operators.start[row],
            end: operators.end[row],
        };
        let spans: Vec<Span> = (0..operators.len()).map(span).collect();
        let nesting = Nesting::new(&spans, &session.api_calls);
        let backward = context.results.backward();
        let backward = backward.map_or(&[][..], |backward| &backward.work);
        let mut calls = Calls::default();
        let mut streams: BTreeMap<(GpuId, u64), Vec<Item>> = BTreeMap::new();
        for (op, place) in facts.ops_of(pass).zip(places) {
            let OpSource::Launch(launch) = facts.ops.source[op] else {
                continue;
            };
            let Some((place, instance)) = *place else {
                continue;
            };
            let issued = facts.ops.api_call[op];
            let operator = issued.and_then(|call| nesting.of_call[call.index()]);
            let call = operator.map(|row| calls.of(session, row as usize));
            let of_forward = backward.binary_search_by_key(&(op as OpIndex), |(op, _)| *op);
            let launches = &session.launches;
            let blocks = launches.grid[launch.index()].volume();
            let block = launches.block[launch.index()];
            let item = Item {
                op: op as OpIndex,
                start: facts.ops.start[op],
                end: facts.ops.end[op],
                kernel: session.launches.kernel[launch.index()],
                blocks,
                threads: blocks.saturating_mul(block.volume()),
                class: facts.class(session, op),
                issued: issued.map(|call| {
                    let calls = &session.api_calls;
                    (calls.thread[call.index()], calls.start[call.index()])
                }),
                place,
                instance,
                operator,
                forward: of_forward
                    .ok()
                    .map(|place| backward[place].1.index() as u32),
                call,
            };
            let stream = (facts.ops.gpu[op], facts.ops.stream[op]);
            streams.entry(stream).or_default().push(item);
        }
        Self {
            nesting,
            calls,
            streams,
        }
    }

    /// The streams.
    pub(super) fn streams<'a>(
        &'a self,
        session: &'a Session,
        identities: &'a [KernelIdentity],
    ) -> impl Iterator<Item = Items<'a>> + 'a {
        self.streams.values().map(|list| Items {
            session,
            identities,
            list: list.clone(),
            nesting: &self.nesting,
            calls: &self.calls,
        })
    }
}

impl Item {
    /// Its place and the number of the instance.
    pub(super) fn instance(&self) -> (u32, u32) {
        (self.place, self.instance)
    }
}

impl Items<'_> {
    /// What the operator of a kernel computes with.
    pub(super) fn call(&self, position: usize) -> Option<&Call> {
        let call = self.list.get(position)?.call?;
        self.calls.list.get(call as usize)
    }

    /// The name of the operator of a kernel.
    pub(super) fn name(&self, position: usize) -> Option<&str> {
        Some(self.session.text(self.call(position)?.name))
    }

    /// Short names of kernels, each run of equal names once.
    pub(super) fn short_names(&self, positions: &[usize]) -> String {
        let short = |position: &usize| {
            let kernel = self.list[*position].kernel;
            self.identities[kernel.index()].short.as_str()
        };
        super::in_order(positions.iter().map(short).collect())
    }

    /// The kernel's name.
    pub(super) fn kernel(&self, position: usize) -> &str {
        self.session.kernel_name(self.list[position].kernel)
    }

    /// Elements that the operator of a kernel works on.
    pub(super) fn elements(&self, position: usize) -> Count {
        self.call(position)
            .map_or(Count::ZERO, |call| call.elements)
    }

    /// Rows of the operators around that of a kernel, the innermost first.
    pub(super) fn around(&self, position: usize) -> impl Iterator<Item = u32> + '_ {
        let operator = self.list[position].operator;
        std::iter::successors(operator, |row| self.nesting.parent[*row as usize])
    }

    /// Whether autograd launched a kernel.
    pub(super) fn is_backward(&self, position: usize) -> bool {
        let mut around = self.around(position);
        around.any(|row| self.operator_name(row).starts_with(ENGINE))
    }

    /// Whether another thread launched a kernel than the first one of its instance.
    pub(super) fn is_of_other_thread(&self, position: usize) -> bool {
        let thread = |at: usize| self.list[at].issued.map(|(thread, _)| thread);
        let mut before = (0..position).rev();
        let other = before.find(|before| !self.is_together(*before, position));
        thread(other.map_or(0, |other| other + 1)) != thread(position)
    }

    /// The name of an operator.
    pub(super) fn operator_name(&self, row: u32) -> &str {
        self.session.text(self.session.operators.name[row as usize])
    }

    /// Whether two kernels belong to the same instance.
    pub(super) fn is_together(&self, a: usize, b: usize) -> bool {
        self.list[a].instance() == self.list[b].instance()
    }
}
