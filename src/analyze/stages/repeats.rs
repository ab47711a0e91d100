//! Steps where no range marks them: the work that repeats, by the calls that issue it.
//!
//! A plain CUDA program and a PyTorch loop without ranges were one stage from the first to the last operation: its start-up
//! then hides what each step does. What must hold: a unit is the shortest sequence that repeats exactly, at least three
//! times, and its repeats are at least half of all calls and of the time of all kernels. Copies count: a step of equal
//! layers ends with the copy of its result. Where copies differ from step to step, kernels alone are compared. They may find a layer within a step.

use std::collections::{BTreeMap, HashMap};

use rooflens_schemas::StageKind;
use rooflens_session::{ApiCallId, CopyKind, KernelId, Ns, PassId, ProcessId, Session, ThreadId};

use crate::stages::{Draft, Window};
use crate::tables::{OpSource, Ops, Stage};

/// Name of the stage.
pub const REPEATING: &str = "kernel sequence";

/// Calls that are compared, from the first one on: a longer run repeats itself before.
const MOST: usize = 100_000;

/// How often a unit occurs at least, and the divisor of all calls that its repeats are at least.
const REPEATS: usize = 3;
const SHARE: usize = 2;

/// The time of graphs from which on they alone tell the steps is one of so many parts of all time.
const GRAPHS: i64 = 2;

/// Time up to which a gap before a unit is that between any two operations.
const SHORT: Ns = Ns(10_000);

/// A call of the host that issues work: one kernel, a copy, or the nodes of a CUDA graph.
#[derive(Debug, Default)]
struct Call {
    start: Ns,
    end: Ns,
    thread: ThreadId,
    /// What runs, in any order, because branches of a graph do.
    work: Vec<Work>,
    /// GPU time.
    time: Ns,
    /// First start and last end of it.
    on_gpu: (Ns, Ns),
}

/// What a call issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    Kernel(KernelId),
    /// A graph that is traced as a whole, by its number.
    Graph(Option<u64>),
    /// A copy or memset, and its bytes.
    Copy(CopyKind, u64),
}

impl Work {
    const fn is_copy(&self) -> bool {
        matches!(self, Self::Copy(..))
    }
}

/// Where a sequence repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repeats {
    /// Index of the first unit's begin.
    first: usize,
    /// Length of a unit.
    length: usize,
    /// Units.
    count: usize,
}

impl Call {
    /// Whether it launches a CUDA graph: one call issues several kernels of a graph alone.
    fn is_graph(&self) -> bool {
        let kernels = self.work.iter().filter(|work| !work.is_copy()).count();
        kernels > 1 || matches!(self.work[..], [Work::Graph(_)])
    }

    fn is_copy(&self) -> bool {
        self.work.iter().all(Work::is_copy)
    }
}

/// The units of each process of a pass as one stage.
pub(super) fn draft(session: &Session, ops: &Ops, pass: PassId) -> Option<Draft> {
    let mut windows = Vec::new();
    for calls in calls(session, ops, pass, false).values() {
        windows.extend(units(calls));
    }
    (!windows.is_empty()).then(|| Draft {
        name: REPEATING.to_owned(),
        kind: StageKind::Other,
        windows,
        needs_work: false,
        is_warmup: false,
    })
}

/// The second unit of a process: from its first call to that of the third one. An operation that no recorded call issued
/// is as good as a call of its own, at its start.
pub fn second_unit(
    session: &Session,
    ops: &Ops,
    pass: PassId,
    process: ProcessId,
) -> Option<(Ns, Ns)> {
    let calls = calls(session, ops, pass, true);
    let second = units(calls.get(&process)?).into_iter().nth(1)?;
    Some((second.start, second.end))
}

/// Whether no range marks a stage: it is work that repeats.
pub fn is_repeating(stage: &Stage) -> bool {
    stage.name == REPEATING
}

/// The calls that issue work, in the order of the host; with operations of no call where these count.
fn calls(
    session: &Session,
    ops: &Ops,
    pass: PassId,
    with_others: bool,
) -> BTreeMap<ProcessId, Vec<Call>> {
    let table = &session.api_calls;
    let mut by_call: BTreeMap<_, Call> = BTreeMap::new();
    for op in (0..ops.len()).filter(|op| ops.pass[*op] == pass) {
        let work = match ops.source[op] {
            OpSource::Launch(launch) => Work::Kernel(session.launches.kernel[launch.index()]),
            OpSource::Graph(graph) => Work::Graph(session.graph_launches.graph[graph.index()]),
            OpSource::Copy(copy) => {
                let (copies, row) = (&session.copies, copy.index());
                let kind = copies.kind[row];
                // Pages of managed memory move on their own.
                if matches!(kind, CopyKind::MigrateToDevice | CopyKind::MigrateToHost) {
                    continue;
                }
                Work::Copy(kind, copies.bytes[row])
            }
        };
        let other = ops.api_call[op].is_none().then_some(op);
        if other.is_some() && !with_others {
            continue;
        }
        let call = by_call
            .entry((ops.process[op], ops.api_call[op], other))
            .or_default();
        (call.start, call.end) = (ops.start[op], ops.start[op]);
        if let Some(row) = ops.api_call[op].map(ApiCallId::index) {
            (call.start, call.end) = (table.start[row], table.end[row]);
            call.thread = table.thread[row];
        }
        let (begin, end) = (ops.start[op], ops.end[op]);
        call.on_gpu = match call.work.is_empty() {
            true => (begin, end),
            false => (call.on_gpu.0.min(begin), call.on_gpu.1.max(end)),
        };
        call.work.push(work);
        call.time += end - begin;
    }
    let mut calls: BTreeMap<ProcessId, Vec<Call>> = BTreeMap::new();
    for ((process, ..), mut call) in by_call {
        call.work.sort_unstable();
        calls.entry(process).or_default().push(call);
    }
    for list in calls.values_mut() {
        list.sort_by_key(|call| call.start);
        list.truncate(MOST);
    }
    calls
}

/// The time of each unit: from its first call to that of the next unit.
fn units(calls: &[Call]) -> Vec<Window> {
    let all: Vec<&Call> = calls.iter().collect();
    let kernels: Vec<&Call> = calls.iter().filter(|call| !call.is_copy()).collect();
    let graphs: Vec<&Call> = calls.iter().filter(|call| call.is_graph()).collect();
    let time = |calls: &[&Call]| -> Ns { calls.iter().map(|call| call.time).sum() };
    // What is launched between graphs may differ from step to step.
    let compared = match time(&graphs) * GRAPHS >= time(&kernels) && !graphs.is_empty() {
        true => vec![graphs],
        false => vec![all, kernels],
    };
    let mut windows = compared.iter().map(|compared| windows(calls, compared));
    windows
        .find(|windows| !windows.is_empty())
        .unwrap_or_default()
}

/// The units of some of all calls.
fn windows(calls: &[Call], compared: &[&Call]) -> Vec<Window> {
    let mut numbers = HashMap::new();
    let mut symbols: Vec<usize> = Vec::new();
    for call in compared {
        let next = numbers.len();
        symbols.push(*numbers.entry(&call.work).or_insert(next));
    }
    let Some(Repeats {
        first,
        length,
        count,
    }) = repeats(&symbols).map(|found| found.begin(compared, &symbols))
    else {
        return Vec::new();
    };
    let kernel_time = |calls: &mut dyn Iterator<Item = &Call>| -> Ns {
        let kernels = calls.filter(|call| !call.is_copy());
        kernels.map(|call| call.time).sum()
    };
    let units = &compared[first..first + count * length];
    let of_units = kernel_time(&mut units.iter().copied());
    // A set-up repeats, too, such as a load of columns, and a short first phase: neither is what the program does.
    if of_units == Ns::ZERO || of_units * (SHARE as i64) < kernel_time(&mut calls.iter()) {
        return Vec::new();
    }
    let last = calls
        .iter()
        .filter(|call| !call.is_copy())
        .map(|call| call.end);
    let last = last.chain([compared[first + count * length - 1].end]).max();
    let start = |unit: usize| compared.get(first + unit * length).map(|call| call.start);
    let mut windows = Vec::new();
    for unit in 0..count {
        let call = compared[first + unit * length];
        windows.push(Window {
            range: None,
            thread: call.thread,
            start: call.start,
            end: start(unit + 1).or(last).unwrap_or(call.end),
        });
    }
    windows
}

impl Repeats {
    /// The same units from another call on, if the GPU waits before their first one: a unit then begins with the last
    /// operation before the wait, such as the copy that the host waits for. What the wait costs is within a unit.
    fn begin(self, calls: &[&Call], symbols: &[usize]) -> Self {
        let Self {
            first,
            length,
            count,
        } = self;
        let is_same = |index: &usize| symbols[*index] == symbols[*index - length];
        let repeated = length + (first + length..symbols.len()).take_while(is_same).count();
        let mut waits: Vec<Ns> = vec![Ns::ZERO; length];
        let mut idle_from = calls[first].on_gpu.1;
        for index in first + 1..first + count * length {
            let (begin, end) = calls[index].on_gpu;
            let gap = begin.saturating_sub(idle_from);
            // The longest alone may be that of a stall.
            waits[(index - first) % length] += (gap - SHORT).max(Ns::ZERO);
            idle_from = idle_from.max(end);
        }
        let rotations = (1..length).filter(|offset| repeated - offset >= REPEATS * length);
        let mut best = 0;
        for offset in rotations {
            let is_less = waits[offset] < waits[best];
            let is_later = best > 0 && waits[offset] == waits[best];
            if is_less || is_later {
                best = offset;
            }
        }
        Self {
            first: first + best,
            length,
            count: (repeated - best) / length,
        }
    }
}

/// The shortest sequence that repeats in the middle of a list, as far as it does.
fn repeats<T: PartialEq>(list: &[T]) -> Option<Repeats> {
    let (count, middle) = (list.len(), list.len() / 2);
    for length in 1..=(count - middle) / 2 {
        let is_same = |index: usize| list[index] == list[index + length];
        if !(middle..middle + length).all(is_same) {
            continue;
        }
        let before = (0..middle).rev().take_while(|index| is_same(*index));
        let first = before.last().unwrap_or(middle);
        let after = (middle..count - length).take_while(|index| is_same(*index));
        let repeated = after.last().unwrap_or(middle) + 1 + length - first;
        if repeated >= REPEATS * length && SHARE * repeated >= count {
            return Some(Repeats {
                first,
                length,
                count: repeated / length,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::StageTables;
    use rooflens_analysis::testing::trace;

    /// Start, end, and operations of each instance of the only stage.
    fn instances(text: &str) -> (String, Vec<(Ns, Ns, usize)>) {
        let facts = StageTables::new(&trace(text));
        assert_eq!(facts.stages.len(), 1);
        let mut instances = Vec::new();
        for instance in facts.instances_of(&facts.stages[0]) {
            instances.push((instance.host_start, instance.host_end, instance.ops.len()));
        }
        (facts.stages[0].name.clone(), instances)
    }

    #[test]
    fn a_loop_of_kernels_is_a_stage_without_its_set_up() {
        let text = "launch 0..5 -> init 5..9
            launch 10..11 -> a 11..12
            launch 12..13 -> b 13..14
            launch 20..21 -> a 21..22
            launch 22..23 -> b 23..24
            launch 30..31 -> a 31..32
            launch 32..33 -> b 33..34";
        let units = vec![
            (Ns(10), Ns(20), 2),
            (Ns(20), Ns(30), 2),
            (Ns(30), Ns(33), 2),
        ];
        assert_eq!(instances(text), (REPEATING.to_owned(), units));
    }

    /// Three steps of two equal layers, a copy that the host waits for, and 50 µs until it launches again: from the second
    /// on, a step begins with the copy. Without the sizes of copies the layer would be the unit.
    #[test]
    fn a_step_of_equal_layers_holds_the_copy_and_the_wait_after_it() {
        let mut text = String::new();
        for start in [0, 100, 200, 300] {
            let us = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
            for layer in [0, 10] {
                text += &format!(
                    "launch {} -> gemm {}\nlaunch {} -> bias {}\n",
                    us(layer, layer + 1),
                    us(layer + 2, layer + 6),
                    us(layer + 2, layer + 3),
                    us(layer + 6, layer + 11),
                );
            }
            text += &format!(
                "cudaMemcpy {} -> memcpy DtoH pinned 4B {}\n",
                us(22, 50),
                us(22, 23)
            );
        }
        let us = |time: i64| Ns(time * 1000);
        let units = vec![
            (us(22), us(122), 5),
            (us(122), us(222), 5),
            (us(222), us(322), 5),
        ];
        assert_eq!(instances(&text), (REPEATING.to_owned(), units));
    }

    #[test]
    fn two_repeats_or_less_than_half_of_the_calls_are_no_stage() {
        let whole = crate::stages::WHOLE_CAPTURE;
        let twice = "launch 0..1 -> a 1..2
            launch 2..3 -> b 3..4
            launch 4..5 -> a 5..6
            launch 6..7 -> b 7..8";
        assert_eq!(instances(twice).0, whole);
        let mut few = String::new();
        for (index, kernel) in ["c", "d", "e", "f", "g", "a", "a", "a", "h", "i", "j"]
            .into_iter()
            .enumerate()
        {
            let start = 10 * index;
            few.push_str(&format!(
                "launch {start}..{} -> {kernel} {}..{}\n",
                start + 1,
                start + 2,
                start + 3
            ));
        }
        assert_eq!(instances(&few).0, whole);
    }

    /// Copies of a set-up have no kernel. Of 8 + 40 ns of kernels, three units have 8 and then 41.
    #[test]
    fn what_has_no_kernels_or_few_of_their_time_is_no_step() {
        let whole = crate::stages::WHOLE_CAPTURE;
        let mut copies = String::new();
        for start in [0, 10, 20, 30] {
            copies += &format!(
                "cudaMemcpy {start}..{} -> memcpy HtoD pageable 4B {}..{}\n",
                start + 5,
                start + 1,
                start + 5
            );
        }
        assert_eq!(instances(&copies).0, whole);
        let with_tail = |time: i64| {
            let mut text = String::new();
            for start in [0, 10, 20, 30] {
                text += &format!(
                    "launch {start}..{} -> a {}..{}\n",
                    start + 1,
                    start + 1,
                    start + 3
                );
            }
            text + &format!("launch 40..41 -> b 41..{}", 41 + time)
        };
        assert_eq!(instances(&with_tail(8)).0, REPEATING);
        assert_eq!(instances(&with_tail(9)).0, whole);
    }

    #[test]
    fn the_unit_is_the_step_and_not_the_layer() {
        // Two of warm-up, then five steps of a head, three layers of two kernels, and an update.
        let step = [9, 1, 2, 1, 2, 1, 2, 7];
        let mut kernels = vec![5, 6];
        (0..5).for_each(|_| kernels.extend(step));
        let expected = Repeats {
            first: 2,
            length: 8,
            count: 5,
        };
        assert_eq!(repeats(&kernels), Some(expected));
        assert_eq!(repeats(&[1, 2, 3, 4, 5, 6]), None);
        assert_eq!(repeats::<u32>(&[]), None);
    }
}
