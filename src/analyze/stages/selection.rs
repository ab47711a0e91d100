//! Which launches to profile: of the kernels with the most time, those that represent the rest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::classify::{self, KernelClass};
use crate::tables::OpSource;
use crate::tables::StageTables;
use rooflens_schemas::text::quoted;
use rooflens_session::{Dim3, KernelId, LaunchId, Ns, PassId, ProcessId, Session};
use rooflens_units::Ratio;

/// Launches of a kernel that are worth profiling.
const LAUNCHES: usize = 3;

/// A kernel to profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// Its row.
    pub kernel: KernelId,
    /// Demangled name.
    pub name: String,
    /// Function name as Nsight Compute's `--kernel-name regex:` matches it: without arguments.
    pub function: String,
    /// Share of the kernel time that was asked about.
    pub share: Ratio,
    /// Numbers of the launches, from 0, among all launches of that function in the pass: what
    /// `--launch-skip` takes. Their grid is the one with the most time, their duration nearest to its median.
    pub launches: Vec<usize>,
}

/// A launch this near to the median of its grid, as a share of it, represents the kernel.
const NEAR: Ratio = Ratio(0.05);

/// Launches that follow one another, counted over all launches of the selected functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Launches before it, from the beginning of the pass.
    pub skip: usize,
    /// Launches in it.
    pub count: usize,
}

/// The shortest run of launches that holds a typical launch of every selected kernel: so that one run of the
/// workload under ncu, which counts over all kernels that it is asked for, profiles them all.
pub fn window(
    session: &Session,
    tables: &StageTables,
    stage: Option<&str>,
    selected: &[Selected],
) -> Option<Window> {
    let pass = tables.kernel_pass(session)?;
    window_among(
        session,
        pass,
        &launches_of(session, tables, pass, stage),
        selected,
    )
}

/// The shortest run that holds a typical one of these launches for every selected kernel.
pub fn window_among(
    session: &Session,
    pass: PassId,
    launches: &[LaunchId],
    selected: &[Selected],
) -> Option<Window> {
    let mut by_place: Vec<Vec<LaunchId>> = vec![Vec::new(); selected.len()];
    let places = places(session, selected);
    for launch in launches {
        if let Some(place) = places[session.launches.kernel[launch.index()].index()] {
            by_place[place].push(*launch);
        }
    }
    let mut wanted: Vec<Option<usize>> = vec![None; session.launches.len()];
    for (place, launches) in by_place.into_iter().enumerate() {
        for launch in near_median(session, launches) {
            wanted[launch.index()] = Some(place);
        }
    }
    let mut order = Vec::new();
    for launch in counted(session, pass, selected) {
        order.push(wanted[launch.index()]);
    }
    shortest(&order, selected.len())
}

/// The place of each kernel among the selected ones.
pub fn places(session: &Session, selected: &[Selected]) -> Vec<Option<usize>> {
    let mut places = vec![None; session.kernels.len()];
    for (place, selected) in selected.iter().enumerate() {
        places[selected.kernel.index()] = Some(place);
    }
    places
}

/// The launches of the selected functions, in order: those that ncu counts.
pub fn counted(session: &Session, pass: PassId, selected: &[Selected]) -> Vec<LaunchId> {
    let mut is_counted = Vec::with_capacity(session.kernels.len());
    for kernel in session.kernels.ids() {
        let function = function(session, kernel);
        is_counted.push(selected.iter().any(|kernel| kernel.function == function));
    }
    let mut order = in_order(session, pass);
    order.retain(|launch| is_counted[session.launches.kernel[launch.index()].index()]);
    order
}

/// The shortest run that holds every place; of several the first.
pub fn shortest(order: &[Option<usize>], places: usize) -> Option<Window> {
    let mut held = vec![0_usize; places];
    let (mut missing, mut begin, mut best) = (places, 0, None::<Window>);
    for (end, place) in order.iter().enumerate() {
        let Some(place) = *place else { continue };
        missing -= usize::from(held[place] == 0);
        held[place] += 1;
        while missing == 0 {
            let count = end - begin + 1;
            if best.is_none_or(|best| count < best.count) {
                best = Some(Window { skip: begin, count });
            }
            if let Some(place) = order[begin] {
                held[place] -= 1;
                missing += usize::from(held[place] == 0);
            }
            begin += 1;
        }
    }
    best
}

/// The `top` kernels by time of the pass that shows kernels, or of one of its stages.
///
/// Nsight Compute counts the launches of each process by itself, so of several ranks the first one represents all.
/// Collectives are excluded: one that is replayed alone waits for the other ranks for ever.
///
/// `None` if there is no such stage or no kernel at all.
pub fn select(
    session: &Session,
    tables: &StageTables,
    stage: Option<&str>,
    top: usize,
) -> Option<Vec<Selected>> {
    let pass = tables.kernel_pass(session)?;
    let selected = select_among(
        session,
        pass,
        launches_of(session, tables, pass, stage),
        top,
    );
    (!selected.is_empty()).then_some(selected)
}

/// The `top` kernels by time of the first pass with kernel sums of `nsys stats`, which hold no single launches.
pub fn select_of_sums(session: &Session, top: usize) -> Vec<Selected> {
    let (sums, identities) = (&session.kernel_sums, classify::identities(session));
    let mut rows: Vec<usize> = (0..sums.len()).collect();
    rows.retain(|row| {
        let class = identities[sums.kernel[*row].index()].class;
        Some(&sums.pass[*row]) == sums.pass.first() && class != KernelClass::Communication
    });
    let total: Ns = rows.iter().map(|row| sums.total[*row]).sum();
    rows.sort_by_key(|row| (Reverse(sums.total[*row]), sums.kernel[*row]));
    rows.truncate(top);
    let mut selected = Vec::new();
    for row in rows {
        let kernel = sums.kernel[row];
        selected.push(Selected {
            kernel,
            name: session.kernel_name(kernel).to_owned(),
            function: function(session, kernel),
            share: Ratio::of(sums.total[row], total.max(Ns(1))),
            launches: Vec::new(),
        });
    }
    selected
}

/// The `top` kernels by time of these launches.
pub fn select_among(
    session: &Session,
    pass: PassId,
    launches: Vec<LaunchId>,
    top: usize,
) -> Vec<Selected> {
    let mut times = vec![Ns::ZERO; session.kernels.len()];
    let mut by_kernel: Vec<Vec<LaunchId>> = vec![Vec::new(); session.kernels.len()];
    for launch in launches {
        let kernel = session.launches.kernel[launch.index()].index();
        times[kernel] += duration(session, launch);
        by_kernel[kernel].push(launch);
    }
    let total: Ns = times.iter().sum();
    let mut kernels: Vec<KernelId> = session.kernels.ids().collect();
    kernels.retain(|kernel| !by_kernel[kernel.index()].is_empty());
    kernels.sort_by_key(|kernel| (Reverse(times[kernel.index()]), *kernel));
    kernels.truncate(top);
    let numbers = numbers(session, pass);
    let mut selected = Vec::new();
    for kernel in kernels {
        let launches = typical(session, std::mem::take(&mut by_kernel[kernel.index()]));
        let share = match total {
            Ns(1..) => Ratio::of(times[kernel.index()], total),
            _ => Ratio::ZERO,
        };
        selected.push(Selected {
            kernel,
            name: session.kernel_name(kernel).to_owned(),
            function: function(session, kernel),
            share,
            launches: launches
                .iter()
                .map(|launch| numbers[launch.index()])
                .collect(),
        });
    }
    selected
}

/// The list as `--kernels` of the capture program reads it.
pub fn yaml(selected: &[Selected], window: Option<Window>) -> String {
    let mut text =
        String::from("# launches: numbers among all launches of the function, from 0\nkernels:\n");
    for kernel in selected {
        let (name, regex) = (quoted(&kernel.name), quoted(&exactly(&kernel.function)));
        text.push_str(&format!("  - name: {name}\n    regex: {regex}\n"));
        text.push_str(&format!("    share: {:.6}\n", kernel.share.0));
        if !kernel.launches.is_empty() {
            text.push_str(&format!("    launches: {:?}\n", kernel.launches));
        }
    }
    if let Some(Window { skip, count }) = window {
        text.push_str(
            "# launches of all these functions together that hold a typical one of each\n",
        );
        text.push_str(&format!("window: {{skip: {skip}, count: {count}}}\n"));
    }
    text.push_str("name_base: function\n");
    text
}

/// An expression that matches this name alone.
pub fn exactly(name: &str) -> String {
    format!("^{}$", regex::escape(name))
}

/// The launches of a pass, or of the instances of a stage that count: those of one process that can be profiled.
pub fn launches_of(
    session: &Session,
    facts: &StageTables,
    pass: PassId,
    stage: Option<&str>,
) -> Vec<LaunchId> {
    let launch = |op: usize| match facts.ops.source[op] {
        OpSource::Launch(id) => Some(id),
        OpSource::Copy(_) | OpSource::Graph(_) => None,
    };
    let process = first_process(session, pass);
    let is_profiled = |id: &LaunchId| {
        let kernel = session.launches.kernel[id.index()];
        Some(session.launches.process[id.index()]) == process
            && facts.identities[kernel.index()].class != KernelClass::Communication
    };
    let Some(stage) = stage else {
        let of_pass = |id: &LaunchId| session.launches.pass[id.index()] == pass;
        return session
            .launches
            .ids()
            .filter(of_pass)
            .filter(is_profiled)
            .collect();
    };
    let stages = facts
        .stages
        .iter()
        .filter(|summary| summary.pass == pass && summary.name == stage);
    let instances = stages
        .flat_map(|summary| facts.instances_of(summary))
        .filter(|summary| summary.excluded.is_none());
    let ops = instances.flat_map(|one| &one.ops);
    ops.filter_map(|op| launch(*op as usize))
        .filter(is_profiled)
        .collect()
}

/// The first process of a pass that launches kernels.
pub fn first_process(session: &Session, pass: PassId) -> Option<ProcessId> {
    let launches = &session.launches;
    let of_pass = launches
        .ids()
        .filter(|id| launches.pass[id.index()] == pass);
    of_pass.map(|id| launches.process[id.index()]).min()
}

/// The launches of the first process of a pass by their start.
pub fn in_order(session: &Session, pass: PassId) -> Vec<LaunchId> {
    let launches = &session.launches;
    let process = first_process(session, pass);
    let counted = |id: &LaunchId| {
        launches.pass[id.index()] == pass && Some(launches.process[id.index()]) == process
    };
    let mut order: Vec<LaunchId> = launches.ids().filter(counted).collect();
    order.sort_by_key(|id| (launches.start[id.index()], *id));
    order
}

/// The number of each launch among those of the same function, in the order of their start.
fn numbers(session: &Session, pass: PassId) -> Vec<usize> {
    let launches = &session.launches;
    let order = in_order(session, pass);
    let functions: Vec<String> = session
        .kernels
        .ids()
        .map(|id| function(session, id))
        .collect();
    let mut distinct: Vec<&String> = functions.iter().collect();
    distinct.sort();
    distinct.dedup();
    let of_kernel: Vec<usize> = functions
        .iter()
        .map(|value| distinct.partition_point(|smaller| *smaller < value))
        .collect();
    let mut next = vec![0; distinct.len()];
    let mut numbers = vec![0; launches.len()];
    for id in order {
        let count = &mut next[of_kernel[launches.kernel[id.index()].index()]];
        numbers[id.index()] = *count;
        *count += 1;
    }
    numbers
}

/// The launches whose grid is the one with the most time and whose duration is nearest to that grid's median.
fn typical(session: &Session, own: Vec<LaunchId>) -> Vec<LaunchId> {
    let (median, mut own) = of_longest_grid(session, own);
    own.sort_by_key(|id| ((duration(session, *id) - median).abs(), *id));
    own.truncate(LAUNCHES);
    own.sort_unstable();
    own
}

/// The launches of the grid with the most time that last about as long as its median launch.
fn near_median(session: &Session, own: Vec<LaunchId>) -> Vec<LaunchId> {
    let (median, mut own) = of_longest_grid(session, own);
    let most = Ns((median.time() * NEAR).0 as i64);
    own.retain(|id| (duration(session, *id) - median).abs() <= most);
    own
}

/// The grid with the most time of these launches.
pub fn longest_grid(session: &Session, launches: &[LaunchId]) -> Option<Dim3> {
    let mut grids: BTreeMap<Dim3, Ns> = BTreeMap::new();
    for launch in launches {
        let time = grids
            .entry(session.launches.grid[launch.index()])
            .or_default();
        *time += duration(session, *launch);
    }
    let longest = grids
        .into_iter()
        .max_by_key(|(grid, time)| (*time, Reverse(*grid)));
    longest.map(|(grid, _)| grid)
}

/// The launches of the grid with the most time, by duration, and their median duration.
fn of_longest_grid(session: &Session, mut own: Vec<LaunchId>) -> (Ns, Vec<LaunchId>) {
    let launches = &session.launches;
    let Some(grid) = longest_grid(session, &own) else {
        return (Ns::ZERO, Vec::new());
    };
    own.retain(|id| launches.grid[id.index()] == grid);
    own.sort_by_key(|id| (duration(session, *id), *id));
    (duration(session, own[own.len() / 2]), own)
}

pub fn duration(session: &Session, id: LaunchId) -> Ns {
    session.launches.end[id.index()] - session.launches.start[id.index()]
}

/// The function name: nsys' short name, or what stands before the arguments.
pub fn function(session: &Session, kernel: KernelId) -> String {
    let short = session.text(session.kernels.short_name[kernel.index()]);
    if !short.is_empty() {
        return short.to_owned();
    }
    function_of(session.kernel_name(kernel))
}

/// The function of a demangled name, without return type, namespaces, template arguments, and arguments.
fn function_of(name: &str) -> String {
    let (mut depth, mut head) = (0_u32, String::new());
    for character in name.replace("(anonymous namespace)", "").chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => head.push(character),
            _ => {}
        }
    }
    let head = head.trim();
    head.rsplit([' ', ':']).next().unwrap_or(head).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_analysis::testing::trace;

    /// Two kernels of one function, launched in turn; the second has the most time: 160 with grid 8, where its median is 40.
    const LAUNCHES: &str = "
        stream 7: void f<int>(int*) <<<8>>> 0..10, void f<float>(float*) <<<8>>> 1000..1040
        stream 7: void f<float>(float*) <<<8>>> 2000..2090, void f<int>(int*) <<<8>>> 3000..3010
        stream 7: void f<float>(float*) <<<8>>> 4000..4030, void f<float>(float*) <<<64>>> 5000..5140
    ";

    #[test]
    fn launches_are_numbered_by_function_and_the_typical_ones_are_chosen() {
        let session = trace(LAUNCHES);
        let facts = StageTables::new(&session);
        let selected = select(&session, &facts, None, 1).expect("there are kernels");
        assert_eq!(selected.len(), 1);
        assert_eq!(selected[0].name, "void f<float>(float*)");
        // 40 + 90 + 30 + 140 of 320.
        assert!((selected[0].share.0 - 300.0 / 320.0).abs() < 1e-12);
        // Of the function f the launches 1, 2 and 4 are b with grid 8.
        assert_eq!(selected[0].launches, [1, 2, 4]);
    }

    #[test]
    fn a_function_is_found_behind_templates_and_namespaces() {
        for (name, function) in [
            ("gemm", "gemm"),
            ("void f<int>(int*)", "f"),
            ("void (anonymous namespace)::f<int>(int*)", "f"),
            (
                "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, (bool)0>(T13)",
                "kernel",
            ),
            (
                "void at::native::<unnamed>::CatArray<at::Opaque<(unsigned int)2>, int>(char *)",
                "CatArray",
            ),
        ] {
            assert_eq!(function_of(name), function);
        }
    }

    #[test]
    fn sums_give_kernels_without_launches() {
        let mut session =
            trace("stream 7: gemm 0..10, add 10..20, ncclDevKernel_AllReduce(x) 20..30");
        session.launches = rooflens_session::Launches::default();
        for (kernel, total) in [(0, 30), (1, 50), (2, 900)] {
            session.kernel_sums.push(rooflens_session::KernelSum {
                pass: PassId(0),
                kernel: KernelId(kernel),
                count: 2,
                total: Ns(total),
                min: Ns(1),
                max: Ns(total),
                median: None,
                std: None,
            });
        }
        let selected = select_of_sums(&session, 1);
        // The collective is excluded: 50 of 80.
        assert_eq!((selected.len(), &*selected[0].function), (1, "add"));
        assert!((selected[0].share.0 - 0.625).abs() < 1e-12);
        assert!(!yaml(&selected, None).contains("    launches:"));
    }

    #[test]
    fn one_long_launch_outweighs_several_short_ones_of_another_grid() {
        let mut session = trace(LAUNCHES);
        session.launches.end[5] += Ns(100);
        let facts = StageTables::new(&session);
        let selected = select(&session, &facts, None, 1).expect("there are kernels");
        // 240 in grid 64 against 160 in grid 8.
        assert_eq!(selected[0].launches, [5]);
    }

    #[test]
    fn the_window_is_the_shortest_run_with_a_typical_launch_of_each() {
        let session = trace(LAUNCHES);
        let facts = StageTables::new(&session);
        let selected = select(&session, &facts, None, 2).expect("there are kernels");
        // a lasts 10 in launches 0 and 3; b's median of grid 8 is 40, in launch 1 alone: 0 and 1 are neighbours.
        let window = window(&session, &facts, None, &selected);
        assert_eq!(window, Some(Window { skip: 0, count: 2 }));
    }

    #[test]
    fn runs_are_shortened_from_both_ends() {
        let order = [
            Some(0),
            None,
            Some(0),
            Some(1),
            None,
            Some(2),
            Some(0),
            Some(1),
            None,
        ];
        // 3 to 6 hold 1, 2 and 0, and so do 5 to 7, which are fewer.
        assert_eq!(shortest(&order, 3), Some(Window { skip: 5, count: 3 }));
        assert_eq!(shortest(&order, 4), None);
    }

    #[test]
    fn collectives_and_other_ranks_are_left_out() {
        // A long collective of the first rank, and long launches of f by the second.
        let others = "
            stream 7: ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T) <<<8>>> 500..1000
            rank 1
            stream 7: void f<int>(int*) <<<8>>> 600..1100
        ";
        let session = trace(&[LAUNCHES, others].concat());
        let facts = StageTables::new(&session);
        let selected = select(&session, &facts, None, 3).expect("there are kernels");
        let names: Vec<&str> = selected.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["void f<float>(float*)", "void f<int>(int*)"]);
        assert_eq!(selected[1].launches, [0, 3]);
        let window = window(&session, &facts, None, &selected);
        assert_eq!(window, Some(Window { skip: 0, count: 2 }));
    }

    #[test]
    fn an_unknown_stage_selects_nothing() {
        let session = trace(LAUNCHES);
        let facts = StageTables::new(&session);
        assert_eq!(select(&session, &facts, Some("prefill"), 5), None);
    }
}
