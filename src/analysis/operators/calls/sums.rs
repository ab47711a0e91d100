//! Operators added up by name and by shapes.

use rustc_hash::FxHashMap;

use super::nesting::Nesting;
use crate::analysis::kernels::operator_flops::{OperatorFlops, flops};
use crate::model::{Ns, PassId, Session, StrId};

/// Calls of one operator, of one name or of one name and shapes, in one pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OperatorSum {
    /// Pass.
    pub(super) pass: PassId,
    /// Name.
    pub(super) name: StrId,
    /// Shapes of the inputs, where calls are told apart by them.
    pub(super) shapes: StrId,
    /// Number of calls.
    pub(super) calls: u64,
    /// Host time, nested calls of the same name counted once, nanoseconds.
    pub(super) host_total: Ns,
    /// Host time outside of operators and CUDA calls within, nanoseconds.
    pub(super) host_self: Ns,
    /// Host time in CUDA calls that the operator makes itself, nanoseconds.
    pub(super) host_cuda: Ns,
    /// Time of GPU operations issued within, nanoseconds.
    pub(super) device_total: Ns,
    /// Time of GPU operations that the operator issues itself, nanoseconds.
    pub(super) device_self: Ns,
    /// Kernels launched within.
    pub(super) launches: u64,
    /// FLOPs within; absent if no formula applies.
    pub(super) flops: Option<OperatorFlops>,
    /// Calls without GPU work within.
    pub(super) quiet_calls: u64,
    /// Host time of these calls, outside of operators and CUDA calls within, nanoseconds.
    pub(super) quiet_self: Ns,
}

/// All sums.
pub(super) struct Sums {
    /// By (pass, device time descending, host time descending, name).
    pub(super) by_name: Vec<OperatorSum>,
    /// The same by name and shapes; calls without recorded shapes are left out.
    pub(super) by_shapes: Vec<OperatorSum>,
    /// Device time of calls whose FLOPs were counted, by pass.
    pub(super) counted_device: FxHashMap<PassId, Ns>,
}

/// What an operator call and all within it do.
struct Totals {
    device: Vec<Ns>,
    operations: Vec<u64>,
    launches: Vec<u64>,
    flops: Vec<Option<OperatorFlops>>,
    counted: Vec<bool>,
}

/// Adds up all operators.
pub(super) fn sums(session: &Session, nesting: &Nesting) -> Sums {
    let totals = Totals::new(session, nesting);
    let operators = &session.operators;
    let named = |_: usize| Some(StrId::default());
    let shaped = |row: usize| Some(operators.shapes[row]).filter(|id| *id != StrId::default());
    let mut counted_device: FxHashMap<PassId, Ns> = FxHashMap::default();
    for row in (0..operators.len()).filter(|row| totals.counted[*row]) {
        let time = counted_device.entry(operators.pass[row]).or_default();
        *time = time.saturating_add(totals.device[row]);
    }
    Sums {
        by_name: grouped(session, nesting, &totals, &named),
        by_shapes: grouped(session, nesting, &totals, &shaped),
        counted_device,
    }
}

impl Totals {
    /// Adds children to parents, innermost first. FLOPs are counted at the innermost operator that has a
    /// formula: `aten::linear` has those of the `aten::mm` within it and none of its own.
    fn new(session: &Session, nesting: &Nesting) -> Self {
        let count = session.operators.len();
        let mut totals = Self {
            device: nesting.device.clone(),
            operations: nesting.operations.clone(),
            launches: nesting.launches.clone(),
            flops: vec![None; count],
            counted: vec![false; count],
        };
        let mut formulas = Formulas::default();
        for operator in nesting.spans.order.iter().rev() {
            let row = *operator as usize;
            if totals.flops[row].is_none() {
                totals.flops[row] = formulas.of(session, row);
                totals.counted[row] = totals.flops[row].is_some();
            }
            if let Some(parent) = nesting.spans.parent[row] {
                let parent = parent as usize;
                totals.device[parent] = totals.device[parent].saturating_add(totals.device[row]);
                totals.launches[parent] =
                    totals.launches[parent].saturating_add(totals.launches[row]);
                totals.operations[parent] += totals.operations[row];
                let flops = totals.flops[row];
                add_flops(&mut totals.flops[parent], flops);
            }
        }
        totals
    }
}

fn add_flops(sum: &mut Option<OperatorFlops>, more: Option<OperatorFlops>) {
    if let Some(more) = more {
        let sum = sum.get_or_insert(OperatorFlops { full: 0.0, masked: 0.0 });
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
        let key = (operators.name[row], operators.shapes[row], operators.inputs[row]);
        let [name, shapes, inputs] = [key.0, key.1, key.2].map(|id| session.text(id));
        *self.known.entry(key).or_insert_with(|| flops(name, shapes, inputs))
    }
}

/// Adds up the calls for which `shapes` is something, by (pass, name, shapes).
fn grouped(
    session: &Session,
    nesting: &Nesting,
    totals: &Totals,
    shapes: &dyn Fn(usize) -> Option<StrId>,
) -> Vec<OperatorSum> {
    let operators = &session.operators;
    let mut index: FxHashMap<(PassId, StrId, StrId), usize> = FxHashMap::default();
    let mut sums: Vec<OperatorSum> = Vec::new();
    for row in 0..operators.len() {
        let Some(shapes) = shapes(row) else { continue };
        let (pass, name) = (operators.pass[row], operators.name[row]);
        let place = *index.entry((pass, name, shapes)).or_insert_with(|| {
            sums.push(OperatorSum { pass, name, shapes, ..OperatorSum::default() });
            sums.len() - 1
        });
        let sum = &mut sums[place];
        sum.calls += 1;
        sum.host_self = sum.host_self.saturating_add(nesting.spans.own[row]);
        sum.host_cuda = sum.host_cuda.saturating_add(nesting.spans.calls[row]);
        sum.device_self = sum.device_self.saturating_add(nesting.device[row]);
        if totals.operations[row] == 0 {
            sum.quiet_calls += 1;
            sum.quiet_self = sum.quiet_self.saturating_add(nesting.spans.own[row]);
        }
        if !nesting.recursive[row] {
            let duration = operators.end[row].saturating_sub(operators.start[row]);
            sum.host_total = sum.host_total.saturating_add(duration);
            sum.device_total = sum.device_total.saturating_add(totals.device[row]);
            sum.launches = sum.launches.saturating_add(totals.launches[row]);
            add_flops(&mut sum.flops, totals.flops[row]);
        }
    }
    sums.sort_by(|a, b| {
        let time = |sum: &OperatorSum| (sum.device_self, sum.host_self);
        let texts = |sum: &OperatorSum| (session.text(sum.name), session.text(sum.shapes));
        a.pass.cmp(&b.pass).then(time(b).cmp(&time(a))).then_with(|| texts(a).cmp(&texts(b)))
    });
    sums
}
