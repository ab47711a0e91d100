//! Which launches to profile: of the kernels with the most time, those that stand for the rest.

use std::cmp::Reverse;

use crate::classify::KernelClass;
use crate::tables::OpSource;
use crate::tables::StageTables;
use rooflens_session::{KernelId, LaunchId, PassId, ProcessId, Session};

/// Launches of a kernel that are worth profiling.
const LAUNCHES: usize = 3;

/// A kernel to profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// Demangled name.
    pub name: String,
    /// Function name as Nsight Compute's `--kernel-name regex:` matches it: without arguments.
    pub function: String,
    /// Share of the kernel time that was asked about.
    pub share: f64,
    /// Numbers of the launches, from 0, among all launches of that function in the pass: what
    /// `--launch-skip` takes. Their grid is the one with the most time, their duration nearest to its median.
    pub launches: Vec<usize>,
}

/// A launch this near to the median of its grid, as a share of it, stands for the kernel.
const NEAR: f64 = 0.05;

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
    facts: &StageTables,
    stage: Option<&str>,
    selected: &[Selected],
) -> Option<Window> {
    let pass = facts.primary_pass(session)?;
    let launches = &session.launches;
    let mut by_kernel: Vec<Vec<LaunchId>> = vec![Vec::new(); selected.len()];
    let place = |kernel: KernelId| {
        selected
            .iter()
            .position(|one| one.name == session.kernel_name(kernel))
    };
    let places: Vec<Option<usize>> = session.kernels.ids().map(place).collect();
    for id in launches_of(session, facts, pass, stage) {
        if let Some(place) = places[launches.kernel[id.index()].index()] {
            by_kernel[place].push(id);
        }
    }
    let mut wanted: Vec<Option<usize>> = vec![None; launches.len()];
    for (place, own) in by_kernel.into_iter().enumerate() {
        for id in near_median(session, own) {
            wanted[id.index()] = Some(place);
        }
    }
    let counted = session.kernels.ids().map(|kernel| {
        let function = function(session, kernel);
        selected.iter().any(|one| one.function == function)
    });
    let counted: Vec<bool> = counted.collect();
    let mut order = in_order(session, pass);
    order.retain(|id| counted[launches.kernel[id.index()].index()]);
    let order: Vec<Option<usize>> = order.into_iter().map(|id| wanted[id.index()]).collect();
    shortest(&order, selected.len())
}

/// The shortest run that holds every place; of several the first.
fn shortest(order: &[Option<usize>], places: usize) -> Option<Window> {
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

/// The `top` kernels by time of the primary pass, or of one of its stages.
///
/// Nsight Compute counts the launches of each process by itself, so of several ranks the first one stands for all.
/// Collectives are left out: one that is replayed alone waits for the other ranks for ever.
///
/// `None` if there is no such stage or no kernel at all.
pub fn select(
    session: &Session,
    facts: &StageTables,
    stage: Option<&str>,
    top: usize,
) -> Option<Vec<Selected>> {
    let pass = facts.primary_pass(session)?;
    let launches = launches_of(session, facts, pass, stage);
    let duration =
        |id: &LaunchId| session.launches.end[id.index()] - session.launches.start[id.index()];
    let total: i64 = launches.iter().map(duration).sum();
    let mut by_kernel: Vec<Vec<LaunchId>> = vec![Vec::new(); session.kernels.len()];
    for id in launches {
        by_kernel[session.launches.kernel[id.index()].index()].push(id);
    }
    let time = |kernel: &KernelId| by_kernel[kernel.index()].iter().map(duration).sum::<i64>();
    let mut kernels: Vec<KernelId> = session
        .kernels
        .ids()
        .filter(|kernel| !by_kernel[kernel.index()].is_empty())
        .collect();
    kernels.sort_by_key(|kernel| (Reverse(time(kernel)), *kernel));
    kernels.truncate(top);
    let numbers = numbers(session, pass);
    let selected = kernels.into_iter().map(|kernel| {
        let own = typical(session, by_kernel[kernel.index()].clone());
        Selected {
            name: session.kernel_name(kernel).to_owned(),
            function: function(session, kernel),
            share: if total > 0 {
                time(&kernel) as f64 / total as f64
            } else {
                0.0
            },
            launches: own.into_iter().map(|id| numbers[id.index()]).collect(),
        }
    });
    let selected: Vec<Selected> = selected.collect();
    (!selected.is_empty()).then_some(selected)
}

/// The launches of a pass, or of the instances of a stage that count: those of one process that can be profiled.
fn launches_of(
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
        .filter(|one| one.pass == pass && one.name == stage);
    let instances = stages
        .flat_map(|one| facts.instances_of(one))
        .filter(|one| one.excluded.is_none());
    let ops = instances.flat_map(|one| &one.ops);
    ops.filter_map(|op| launch(*op as usize))
        .filter(is_profiled)
        .collect()
}

/// The first process of a pass that launches kernels.
fn first_process(session: &Session, pass: PassId) -> Option<ProcessId> {
    let launches = &session.launches;
    let of_pass = launches
        .ids()
        .filter(|id| launches.pass[id.index()] == pass);
    of_pass.map(|id| launches.process[id.index()]).min()
}

/// The launches of the first process of a pass by their start.
fn in_order(session: &Session, pass: PassId) -> Vec<LaunchId> {
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
        .map(|one| distinct.partition_point(|other| *other < one))
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
    let most = (median as f64 * NEAR) as i64;
    own.retain(|id| (duration(session, *id) - median).abs() <= most);
    own
}

/// The launches of the grid with the most time, by duration, and their median duration.
fn of_longest_grid(session: &Session, mut own: Vec<LaunchId>) -> (i64, Vec<LaunchId>) {
    let launches = &session.launches;
    let mut grids = std::collections::BTreeMap::new();
    for id in &own {
        *grids.entry(launches.grid[id.index()]).or_insert(0) += duration(session, *id);
    }
    let longest = grids
        .into_iter()
        .max_by_key(|(grid, time)| (*time, Reverse(*grid)));
    let Some((grid, _)) = longest else {
        return (0, Vec::new());
    };
    own.retain(|id| launches.grid[id.index()] == grid);
    own.sort_by_key(|id| (duration(session, *id), *id));
    (duration(session, own[own.len() / 2]), own)
}

fn duration(session: &Session, id: LaunchId) -> i64 {
    session.launches.end[id.index()] - session.launches.start[id.index()]
}

/// The function name: nsys' short name, or what stands before the arguments.
fn function(session: &Session, kernel: KernelId) -> String {
    let short = session.text(session.kernels.short_name[kernel.index()]);
    if !short.is_empty() {
        return short.to_owned();
    }
    let name = session.kernel_name(kernel);
    let head = name.split(['<', '(']).next().unwrap_or(name).trim();
    head.rsplit([' ', ':']).next().unwrap_or(head).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_analysis::testing::launch;
    use rooflens_schemas::PassKind;
    use rooflens_session::{Dim3, GpuId, Launch, ProcessId};

    /// Two kernels of one function, launched in turn; the second has the most time.
    fn session() -> Session {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
        let a = session.kernel("void f<int>(int*)", "f");
        let b = session.kernel("void f<float>(float*)", "f");
        // (kernel, duration, grid): b's grid 8 has the most time, 160, and its median is 40.
        let rows = [
            (a, 10, 8),
            (b, 40, 8),
            (b, 90, 8),
            (a, 10, 8),
            (b, 30, 8),
            (b, 140, 64),
        ];
        for (index, (kernel, duration, grid)) in rows.into_iter().enumerate() {
            let start = 1000 * index as i64;
            let grid = Dim3 {
                x: grid,
                y: 1,
                z: 1,
            };
            let row = launch(pass, kernel, start..start + duration);
            session.launches.push(Launch { grid, ..row });
        }
        session.process(pass, 0, 1);
        session.gpu(pass, 0);
        session
    }

    #[test]
    fn launches_are_numbered_by_function_and_the_typical_ones_are_chosen() {
        let session = session();
        let facts = StageTables::new(&session);
        let selected = select(&session, &facts, None, 1).expect("there are kernels");
        assert_eq!(selected.len(), 1);
        assert_eq!(selected[0].name, "void f<float>(float*)");
        // 40 + 90 + 30 + 140 of 320.
        assert!((selected[0].share - 300.0 / 320.0).abs() < 1e-12);
        // Of the function f the launches 1, 2 and 4 are b with grid 8.
        assert_eq!(selected[0].launches, [1, 2, 4]);
    }

    #[test]
    fn one_long_launch_outweighs_several_short_ones_of_another_grid() {
        let mut session = session();
        session.launches.end[5] += 100;
        let facts = StageTables::new(&session);
        let selected = select(&session, &facts, None, 1).expect("there are kernels");
        // 240 in grid 64 against 160 in grid 8.
        assert_eq!(selected[0].launches, [5]);
    }

    #[test]
    fn the_window_is_the_shortest_run_with_a_typical_launch_of_each() {
        let session = session();
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
        let mut session = session();
        let nccl = session.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)", "nccl");
        let a = session.launches.kernel[0];
        let row = |start, kernel, process| Launch {
            gpu: GpuId(process),
            process: ProcessId(process),
            grid: Dim3 { x: 8, y: 1, z: 1 },
            ..launch(PassId(0), kernel, start..start + 500)
        };
        session.process(PassId(0), 1, 2);
        session.gpu(PassId(0), 1);
        // A long collective of the first rank, and long launches of f by the second.
        session.launches.push(row(500, nccl, 0));
        session.launches.push(row(600, a, 1));
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
        let session = session();
        let facts = StageTables::new(&session);
        assert_eq!(select(&session, &facts, Some("prefill"), 5), None);
    }
}
