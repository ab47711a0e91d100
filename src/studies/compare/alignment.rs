//! Kernels at the same place of an iteration: which of them stand where others stood before.
//!
//! A typical iteration of each side is a list of kernels in their order. Kernels of equal names in the same order are the
//! places that both have in common. What lies between two of them was exchanged: n kernels became m at that place. An
//! eager step and the same step in a CUDA graph have the same kernels in the same order, so that they align as they are.
//!
//! Where both sides have modules (ranges within the iteration, or frames of PyTorch modules), kernels of one module are never
//! aligned with those of another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rooflens_analysis::Facts;
use rooflens_analysis::engine::align;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::facts::{OpSource, StageInstance};
use rooflens_analysis::engine::nesting::Span;
use rooflens_analysis::operators::call_tree::{self, Spans};
use rooflens_session::{Dim3, Ns, OperatorId, Session};

use crate::Pair;

/// Insertions and deletions between two lists up to which they are aligned as a whole: its memory grows with their square.
const EDITS: usize = 2048;

/// Times that lists with more edits are cut in half before they are aligned by name only.
const CUTS: u32 = 4;

/// A kernel in an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Launch<T> {
    /// Name.
    pub name: T,
    /// Class.
    pub class: KernelClass,
    /// Grid.
    pub grid: Dim3,
    /// Duration.
    pub time: Ns,
    /// Name and shapes of the operator that launched it, where a PyTorch trace has it.
    pub operator: Option<[T; 2]>,
    /// The ranges and modules around the call that launched it, within the iteration.
    pub module: Option<T>,
}

/// Where a kernel is launched: the modules around it, and its operator with shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin<'a> {
    pub module: Option<&'a str>,
    pub operator: Option<[&'a str; 2]>,
}

/// Name and grid.
pub(crate) type Sized<'a> = (&'a str, Dim3);

/// Names of the kernels that were exchanged at a place: before, and after.
pub(crate) type Exchanged<'a> = (Vec<&'a str>, Vec<&'a str>);

/// Launches and time of one iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub launches: u64,
    pub time: Ns,
}

/// What the exchanged kernels of each place and all kernels of each origin add up to, and all of the aligned lists.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Alignment<'a> {
    /// Exchanges, each with the sums of its kernels.
    pub exchanges: BTreeMap<Exchanged<'a>, Pair<BTreeMap<Sized<'a>, Sum>>>,
    /// All kernels by origin: one that stays has that of either side, as replayed kernels have none.
    pub origins: BTreeMap<Origin<'a>, Pair<BTreeMap<Sized<'a>, Sum>>>,
    /// The sums of all kernels.
    pub all: Pair<BTreeMap<Sized<'a>, Sum>>,
}

impl<'a> Alignment<'a> {
    /// Aligns two lists.
    pub(crate) fn new(mut lists: Pair<Vec<Launch<&'a str>>>) -> Self {
        let origins = Pair::of(&lists, |list| {
            list.iter().map(Launch::origin).collect::<Vec<_>>()
        });
        keep_common_modules(&mut lists);
        let Some(mut common) = common(&mut lists) else {
            return Self::default();
        };
        slide(&mut common, &lists);
        let mut alignment = Self {
            all: Pair::of(&lists, |list| sums(list)),
            ..Self::default()
        };
        alignment.add_origins(origins, &lists, &common);
        let end = (lists.before.len(), lists.after.len());
        let (mut before, mut after) = (0, 0);
        for (next_before, next_after) in common.into_iter().chain([end]) {
            let between = Pair {
                before: &lists.before[before..next_before],
                after: &lists.after[after..next_after],
            };
            alignment.add_between(between);
            (before, after) = (next_before + 1, next_after + 1);
        }
        alignment.drop_swaps();
        alignment
    }

    /// Adds all kernels by origin.
    fn add_origins(
        &mut self,
        mut origins: Pair<Vec<Origin<'a>>>,
        lists: &Pair<Vec<Launch<&'a str>>>,
        common: &[(usize, usize)],
    ) {
        for (x, y) in common {
            let (before, after) = (origins.before[*x], origins.after[*y]);
            let origin = Origin {
                module: before.module.or(after.module),
                operator: before.operator.or(after.operator),
            };
            (origins.before[*x], origins.after[*y]) = (origin, origin);
        }
        for (launch, origin) in lists.before.iter().zip(origins.before) {
            launch.add_to(&mut self.origins.entry(origin).or_default().before);
        }
        for (launch, origin) in lists.after.iter().zip(origins.after) {
            launch.add_to(&mut self.origins.entry(origin).or_default().after);
        }
    }

    /// Adds what lies between two places in common, module by module.
    fn add_between(&mut self, between: Pair<&[Launch<&'a str>]>) {
        let runs = Pair::of(&between, |list| {
            let runs = list.chunk_by(|launch, next| launch.module == next.module);
            runs.collect::<Vec<_>>()
        });
        // A run without a module is like no other one.
        let mut place = 0;
        let mut key = |run: &&[Launch<&'a str>]| {
            place += 1;
            run[0].module.ok_or(place)
        };
        let keys = numbers(Pair {
            before: runs.before.iter().map(&mut key).collect(),
            after: runs.after.iter().map(&mut key).collect(),
        });
        let common = align::common(&keys.before, &keys.after, EDITS).unwrap_or_default();
        let ends = Pair::of(&runs, |runs| {
            let ends = runs.iter().scan(0, |end, run| {
                *end += run.len();
                Some(*end)
            });
            ends.collect::<Vec<_>>()
        });
        let Pair { before, after } = between;
        let (mut x, mut y) = (0, 0);
        for (run_before, run_after) in common {
            let (end_x, end_y) = (ends.before[run_before], ends.after[run_after]);
            let from_x = end_x - runs.before[run_before].len();
            let from_y = end_y - runs.after[run_after].len();
            for (before, after) in [
                (&before[x..from_x], &after[y..from_y]),
                (&before[from_x..end_x], &after[from_y..end_y]),
            ] {
                self.add_of_module(Pair { before, after });
            }
            (x, y) = (end_x, end_y);
        }
        self.add_of_module(Pair {
            before: &before[x..],
            after: &after[y..],
        });
    }

    /// Adds what lies between two places in common, or the part of it in one module.
    fn add_of_module(&mut self, between: Pair<&[Launch<&'a str>]>) {
        let Pair { before, after } = between;
        if before.is_empty() || after.is_empty() {
            return;
        }
        if before.len() == 1 || after.len() == 1 {
            return self.add(between);
        }
        // Work that is the same by its operator, or by its class if it is matrix work, splits several kernels into parts.
        let keys = keys(between);
        let pairs = align::common(&keys.before, &keys.after, EDITS).unwrap_or_default();
        let is_one_to_one = before.len() == after.len()
            && before.iter().zip(after).all(|(b, a)| b.class == a.class);
        let places: Vec<(usize, usize)> = match is_one_to_one {
            true => (0..before.len()).map(|place| (place, place)).collect(),
            false => pairs,
        };
        let (mut from_before, mut from_after) = (0, 0);
        for (place_before, place_after) in places {
            self.add(Pair {
                before: &before[from_before..place_before],
                after: &after[from_after..place_after],
            });
            self.add(Pair {
                before: &before[place_before..=place_before],
                after: &after[place_after..=place_after],
            });
            (from_before, from_after) = (place_before + 1, place_after + 1);
        }
        self.add(Pair {
            before: &before[from_before..],
            after: &after[from_after..],
        });
    }

    fn add(&mut self, between: Pair<&[Launch<&'a str>]>) {
        let Pair { before, after } = between;
        if before.is_empty() || after.is_empty() {
            return;
        }
        let names = |list: &[Launch<&'a str>]| list.iter().map(|launch| launch.name).collect();
        let exchange = self.exchanges.entry((names(before), names(after)));
        let exchange = exchange.or_default();
        for (sums, list) in [(&mut exchange.before, before), (&mut exchange.after, after)] {
            for (kernel, sum) in self::sums(list) {
                let known = sums.entry(kernel).or_default();
                known.launches += sum.launches;
                known.time += sum.time;
            }
        }
    }

    /// Kernels that replace each other at several places only changed their order.
    fn drop_swaps(&mut self) {
        let swapped: Vec<_> = self
            .exchanges
            .keys()
            .filter(|(before, after)| {
                let back = (after.clone(), before.clone());
                self.exchanges.contains_key(&back)
            })
            .cloned()
            .collect();
        for exchange in swapped {
            self.exchanges.remove(&exchange);
        }
    }
}

/// Forgets modules that one side has only: its kernels are launched from elsewhere on the other side.
fn keep_common_modules(lists: &mut Pair<Vec<Launch<&str>>>) {
    let modules = Pair::of(lists, |list| {
        let modules = list.iter().filter_map(|launch| launch.module);
        modules.map(str::to_owned).collect::<BTreeSet<String>>()
    });
    for launch in lists.before.iter_mut().chain(&mut lists.after) {
        let is_common =
            |module: &&str| modules.before.contains(*module) && modules.after.contains(*module);
        launch.module = launch.module.filter(is_common);
    }
}

/// Equal numbers for equal keys of both sides.
fn numbers<K: Ord>(keys: Pair<Vec<K>>) -> Pair<Vec<u32>> {
    let mut numbers = BTreeMap::new();
    let mut number = |key: K| {
        let next = numbers.len() as u32;
        *numbers.entry(key).or_insert(next)
    };
    Pair {
        before: keys.before.into_iter().map(&mut number).collect(),
        after: keys.after.into_iter().map(&mut number).collect(),
    }
}

/// The places in common; both lists are cut to the same part of the iteration if they differ in too much.
fn common(lists: &mut Pair<Vec<Launch<&str>>>) -> Option<Vec<(usize, usize)>> {
    let Pair { before, after } = numbers(Pair::of(lists, |list| {
        let names = list.iter().map(|launch| (launch.module, launch.name));
        names.collect()
    }));
    for cut in 0..=CUTS {
        let (before, after) = (&before[..before.len() >> cut], &after[..after.len() >> cut]);
        if let Some(common) = align::common(before, after, EDITS) {
            lists.before.truncate(before.len());
            lists.after.truncate(after.len());
            return Some(common);
        }
    }
    None
}

/// Of two kernels with one name next to each other, either can be the one that stays: the one with the same grid. If both
/// have it, that stays which leaves as many kernels on both sides of a part, so that a kernel that is launched twice is no
/// part of what replaced its neighbor.
fn slide(common: &mut [(usize, usize)], lists: &Pair<Vec<Launch<&str>>>) {
    let Pair { before, after } = lists;
    match_grids(common, lists);
    let mut from = (0, 0);
    for index in 0..common.len() {
        let (mut x, mut y) = common[index];
        let is_exchange = x > from.0 && y > from.1;
        // Kernels of the part before this place: as many on both sides are an exchange of equals.
        while is_exchange
            && x - from.0 > y - from.1
            && stays_as_well(&before[x - 1], &before[x], &after[y])
        {
            x -= 1;
        }
        while is_exchange
            && y - from.1 > x - from.0
            && stays_as_well(&after[y - 1], &after[y], &before[x])
        {
            y -= 1;
        }
        common[index] = (x, y);
        if let Some(last) = index.checked_sub(1).filter(|_| is_exchange) {
            let (mut u, mut v) = common[last];
            while x - u > y - v && stays_as_well(&before[u + 1], &before[u], &after[v]) {
                u += 1;
            }
            while y - v > x - u && stays_as_well(&after[v + 1], &after[v], &before[u]) {
                v += 1;
            }
            common[last] = (u, v);
        }
        from = (x + 1, y + 1);
    }
}

/// Of kernels with one name next to each other, joins those with the same grid.
fn match_grids(common: &mut [(usize, usize)], lists: &Pair<Vec<Launch<&str>>>) {
    let Pair { before, after } = lists;
    let mut from = (0, 0);
    for index in 0..common.len() {
        let (x, y) = common[index];
        let end = common.get(index + 1).copied();
        let end = end.unwrap_or((before.len(), after.len()));
        let is_like = |x: usize, y: usize| {
            let (x, y) = (&before[x], &after[y]);
            (x.module, x.name, x.grid) == (y.module, y.name, y.grid)
        };
        let moved = |x: usize, y: usize| {
            let is_free = (from.0..end.0).contains(&x) && (from.1..end.1).contains(&y);
            (is_free && is_like(x, y)).then_some((x, y))
        };
        if !is_like(x, y) {
            let later = moved(x + 1, y).or_else(|| moved(x, y + 1));
            let earlier = || moved(x.wrapping_sub(1), y).or_else(|| moved(x, y.wrapping_sub(1)));
            common[index] = later.or_else(earlier).unwrap_or((x, y));
        }
        from = (common[index].0 + 1, common[index].1 + 1);
    }
}

/// Whether a neighbor is as much like the kernel of the other side as the one that stays.
fn stays_as_well(neighbor: &Launch<&str>, kept: &Launch<&str>, other: &Launch<&str>) -> bool {
    let is_alike = neighbor.grid == other.grid || kept.grid != other.grid;
    (neighbor.module, neighbor.name) == (other.module, other.name) && is_alike
}

/// Equal numbers for work that is the same although its kernels are not.
fn keys(lists: Pair<&[Launch<&str>]>) -> Pair<Vec<u32>> {
    /// The work of a kernel; without operator and class, it is like no other one.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Work<'a> {
        Operator([&'a str; 2]),
        Matrix(KernelClass),
        Unknown(usize),
    }
    let (before, after) = (lists.before, lists.after);
    let has_operators = |list: &[Launch<&str>]| list.iter().any(|launch| launch.operator.is_some());
    let by_operator = has_operators(before) && has_operators(after);
    let mut work = Vec::new();
    for launch in before.iter().chain(after) {
        work.push(match launch.operator.filter(|_| by_operator) {
            _ if launch.class.is_matrix_work() => Work::Matrix(launch.class),
            Some(operator) => Work::Operator(operator),
            None => Work::Unknown(work.len()),
        });
    }
    let after = work.split_off(before.len());
    numbers(Pair {
        before: work,
        after,
    })
}

fn sums<'a>(list: &[Launch<&'a str>]) -> BTreeMap<Sized<'a>, Sum> {
    let mut sums: BTreeMap<Sized<'_>, Sum> = BTreeMap::new();
    for launch in list {
        launch.add_to(&mut sums);
    }
    sums
}

/// The kernels of an iteration on its first GPU, with their names.
#[derive(Default)]
pub(crate) struct Iteration {
    /// Each text once.
    texts: BTreeSet<Arc<str>>,
    launches: Vec<Launch<Arc<str>>>,
}

impl Iteration {
    /// That of a session, with the spans of its ranges and modules.
    pub(crate) fn new(
        session: &Session,
        facts: &Facts,
        instance: &StageInstance,
        spans: Option<&Spans>,
    ) -> Self {
        let ops = &facts.ops;
        let first = instance.gpus.first();
        let operators = operators(session, facts, instance);
        let modules = spans.map_or_else(BTreeMap::new, |spans| {
            modules(session, facts, instance, spans)
        });
        let mut iteration = Self::default();
        for op in &instance.ops {
            let index = *op as usize;
            let OpSource::Launch(launch) = ops.source[index] else {
                continue;
            };
            let kernel = session.launches.kernel[launch.index()];
            if Some(&ops.gpu[index]) != first {
                continue;
            }
            let operator = operators.get(&index).map(|row| row.index());
            let launch = Launch {
                name: iteration.text(session.kernel_name(kernel)),
                class: facts.identities[kernel.index()].class,
                grid: session.launches.grid[launch.index()],
                time: ops.end[index].saturating_sub(ops.start[index]),
                operator: operator.map(|row| {
                    let operators = &session.operators;
                    let texts = [operators.name[row], operators.shapes[row]];
                    texts.map(|text| iteration.text(session.text(text)))
                }),
                module: modules.get(&index).map(|path| iteration.text(path)),
            };
            iteration.launches.push(launch);
        }
        iteration
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// The kernels in their order.
    pub(crate) fn launches(&self) -> Vec<Launch<&str>> {
        self.launches.iter().map(Launch::borrowed).collect()
    }
}

impl<'a> Launch<&'a str> {
    fn origin(&self) -> Origin<'a> {
        Origin {
            module: self.module,
            operator: self.operator,
        }
    }

    fn add_to(&self, sums: &mut BTreeMap<Sized<'a>, Sum>) {
        let sum = sums.entry((self.name, self.grid)).or_default();
        sum.launches += 1;
        sum.time += self.time;
    }
}

impl Launch<Arc<str>> {
    fn borrowed(&self) -> Launch<&str> {
        let operator = self.operator.as_ref();
        Launch {
            name: &*self.name,
            class: self.class,
            grid: self.grid,
            time: self.time,
            operator: operator.map(|[name, shapes]| [&**name, &**shapes]),
            module: self.module.as_deref(),
        }
    }
}

/// The ranges and modules within an iteration around the call that issued each of its operations, outermost first.
fn modules(
    session: &Session,
    facts: &Facts,
    instance: &StageInstance,
    spans: &Spans,
) -> BTreeMap<usize, Arc<str>> {
    let calls = &session.api_calls;
    let issued = instance.ops.iter().filter_map(|op| {
        let call = facts.ops.api_call[*op as usize]?.index();
        Some((*op as usize, call))
    });
    let issued: Vec<_> = issued.collect();
    let first = issued.iter().map(|(_, call)| calls.start[*call]).min();
    let last = issued.iter().map(|(_, call)| calls.start[*call]).max();
    let mut paths = BTreeMap::new();
    let mut known: BTreeMap<u32, Arc<str>> = BTreeMap::new();
    for (op, call) in issued {
        let Some(innermost) = spans.nesting.of_call[call] else {
            continue;
        };
        let path = known.entry(innermost).or_insert_with(|| {
            let mut names = Vec::new();
            let mut at = Some(innermost);
            while let Some(span) = at {
                let Span { start, end, .. } = spans.span[span as usize];
                // A range around the whole iteration is no part of it.
                if Some(start) <= first && Some(end) > last {
                    break;
                }
                names.push(call_tree::fold(session.text(spans.name[span as usize])));
                at = spans.nesting.parent[span as usize];
            }
            names.reverse();
            names.join(" / ").into()
        });
        if !path.is_empty() {
            paths.insert(op, Arc::clone(path));
        }
    }
    paths
}

/// The innermost operator around the call that issued each operation of an iteration.
fn operators(
    session: &Session,
    facts: &Facts,
    instance: &StageInstance,
) -> BTreeMap<usize, OperatorId> {
    let (operators, calls) = (&session.operators, &session.api_calls);
    let mut found = BTreeMap::new();
    if operators.is_empty() {
        return found;
    }
    let mut issued = Vec::new();
    for op in &instance.ops {
        if let Some(call) = facts.ops.api_call[*op as usize] {
            let call = call.index();
            issued.push((calls.thread[call], calls.start[call], *op as usize));
        }
    }
    issued.sort_unstable();
    let (Some(first), Some(last)) = (
        issued.iter().map(|(_, start, _)| *start).min(),
        issued.iter().map(|(_, start, _)| *start).max(),
    ) else {
        return found;
    };
    let in_window =
        |id: &OperatorId| operators.start[id.index()] <= last && operators.end[id.index()] >= first;
    let mut spans: Vec<OperatorId> = operators.ids().filter(in_window).collect();
    spans.sort_by_key(|id| {
        let row = id.index();
        (
            operators.thread[row],
            operators.start[row],
            std::cmp::Reverse(operators.end[row]),
        )
    });
    let mut spans = spans.into_iter().peekable();
    let mut open: Vec<OperatorId> = Vec::new();
    for (thread, start, op) in issued {
        let is_before = |id: &OperatorId| {
            (operators.thread[id.index()], operators.start[id.index()]) <= (thread, start)
        };
        while let Some(span) = spans.next_if(is_before) {
            open.push(span);
        }
        // Operators of a thread nest: what ended before this call is over for all later ones.
        while open.last().is_some_and(|id| {
            (operators.thread[id.index()], operators.end[id.index()]) < (thread, start)
        }) {
            open.pop();
        }
        if let Some(id) = open
            .last()
            .filter(|id| operators.thread[id.index()] == thread)
        {
            found.insert(op, *id);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of kernels of 10 ns: `gemm…` are GEMMs, all others are element by element; `NAME:BLOCKS` has another grid.
    fn list(names: &'static str) -> Vec<Launch<&'static str>> {
        let grid = |name: &'static str| name.split_once(':').unwrap_or((name, "1"));
        let launch = |name: &'static str| Launch {
            name: grid(name).0,
            grid: Dim3 {
                x: grid(name).1.parse().unwrap_or_default(),
                y: 1,
                z: 1,
            },
            class: match name.starts_with("gemm") {
                true => KernelClass::Gemm,
                false => KernelClass::Elementwise,
            },
            time: Ns(10),
            operator: None,
            module: None,
        };
        names.split_whitespace().map(launch).collect()
    }

    /// The same; `MODULE/NAME` is in a module.
    fn list_of_modules(names: &'static str) -> Vec<Launch<&'static str>> {
        let mut launches = list(names);
        for launch in &mut launches {
            if let Some((module, name)) = launch.name.split_once('/') {
                (launch.module, launch.name) = (Some(module), name);
            }
        }
        launches
    }

    /// Names before → names after, and how many launches the first name has at all such places.
    fn exchanges(before: &'static str, after: &'static str) -> Vec<(String, u64)> {
        let alignment = Alignment::new(Pair {
            before: list_of_modules(before),
            after: list_of_modules(after),
        });
        let exchanges = alignment.exchanges.iter();
        let of_exchange = |((before, after), sums): (&(Vec<&str>, Vec<&str>), &Pair<_>)| {
            let sums: &BTreeMap<Sized<'_>, Sum> = &sums.before;
            let names = format!("{} -> {}", before.join(" "), after.join(" "));
            let mut first = sums.iter().filter(|((name, _), _)| *name == before[0]);
            (names, first.next().map_or(0, |(_, sum)| sum.launches))
        };
        exchanges.map(of_exchange).collect()
    }

    #[test]
    fn kernels_between_two_places_in_common_are_exchanged() {
        let layers = exchanges(
            "gemm add mul norm gemm add mul norm head",
            "gemm fused norm gemm fused norm head",
        );
        assert_eq!(layers, [("add mul -> fused".to_owned(), 2)]);
        let split = exchanges("a softmax b", "a max sum b");
        assert_eq!(split, [("softmax -> max sum".to_owned(), 1)]);
        let tiles = exchanges("a gemm1 b gemm1 c", "a gemm2 b gemm2 c");
        assert_eq!(tiles, [("gemm1 -> gemm2".to_owned(), 2)]);
    }

    #[test]
    fn matrix_work_splits_what_changed_around_it() {
        let all = exchanges("x add mul gemm1 gelu drop y", "x fused1 gemm2 fused2 y");
        let expected = [
            ("add mul -> fused1".to_owned(), 1),
            ("gelu drop -> fused2".to_owned(), 1),
            ("gemm1 -> gemm2".to_owned(), 1),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn kernels_of_one_module_are_not_aligned_with_those_of_another() {
        // By names alone, `a b` and `c d` would be one fusion of four kernels into two.
        let all = exchanges("x p/a p/b q/c q/d y", "x p/f q/g y");
        let expected = [("a b -> f".to_owned(), 1), ("c d -> g".to_owned(), 1)];
        assert_eq!(all, expected);
        // `n` of the one module is not that of the other.
        let moved = exchanges("p/a p/n q/c", "p/b q/n q/d");
        assert_eq!(
            moved,
            [("a n -> b".to_owned(), 1), ("c -> n d".to_owned(), 1)]
        );
        // Modules of one side say nothing.
        let alone = exchanges("x p/a q/b y", "x f y");
        assert_eq!(alone, [("a b -> f".to_owned(), 1)]);
    }

    #[test]
    fn replayed_kernels_have_the_module_and_operator_of_the_eager_ones() {
        // A graph was launched by one call: its kernels have neither modules nor operators.
        let mut before = list_of_modules("p/gemm p/add q/gemm q/mul");
        for launch in &mut before {
            let operator = match launch.name {
                "gemm" => "mm",
                name => name,
            };
            launch.operator = Some([operator, "[8, 8]"]);
        }
        let after = list("gemm add gemm new");
        let alignment = Alignment::new(Pair { before, after });
        let launches = |sums: &BTreeMap<Sized<'_>, Sum>| -> u64 {
            sums.values().map(|sum| sum.launches).sum()
        };
        let rows: Vec<_> = alignment
            .origins
            .iter()
            .map(|(origin, sums)| {
                let operator = origin.operator.map(|[name, _]| name);
                let launches = (launches(&sums.before), launches(&sums.after));
                (origin.module, operator, launches)
            })
            .collect();
        let expected = [
            (None, None, (0, 1)),
            (Some("p"), Some("add"), (1, 1)),
            (Some("p"), Some("mm"), (1, 1)),
            (Some("q"), Some("mm"), (1, 1)),
            (Some("q"), Some("mul"), (1, 0)),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn another_order_and_missing_kernels_are_no_exchange() {
        assert!(exchanges("a b c a b c", "a b c a b c").is_empty());
        assert!(exchanges("a b c", "a c").is_empty());
        assert!(exchanges("x a y b z", "x b y a z").is_empty());
        let twice = [
            exchanges("x gemm1 a y", "x gemm2 a a y"),
            exchanges("x a gemm1 y", "x a a gemm2 y"),
            exchanges("x a a gemm1 y", "x a gemm2 y"),
        ];
        assert!(
            twice
                .iter()
                .all(|all| all == &[("gemm1 -> gemm2".to_owned(), 1)])
        );
    }
}
