//! What an nsys export says of kernels and ranges: enough to choose what ncu is to profile.
//!
//! `rooflens kernels --yaml` chooses the same, with the analyzer's own code; a test of the analyzer compares the two.

mod clocks;
mod list;
mod read;
mod select;
mod stages;
mod stop;
mod unit;
mod workload;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

pub(crate) use clocks::{Offset, offset};
pub(crate) use list::{Listed, exactly, list};
pub(crate) use stages::Stages;
pub(crate) use stop::stops;
pub(crate) use workload::Rules;

/// The low bits of a global id: the thread.
const THREAD: i64 = 0xff_ffff;

/// A kernel.
#[derive(Debug, PartialEq, Eq)]
struct Kernel {
    /// Demangled.
    name: String,
    /// What ncu calls the function name.
    function: String,
    /// As the linker knows it, if the export says.
    mangled: Option<String>,
}

/// An execution of a kernel.
#[derive(Clone, Copy, Debug)]
struct Launch {
    start: i64,
    end: i64,
    kernel: usize,
    /// As nsys numbers processes.
    process: i64,
    grid: [i64; 3],
    /// Block and shared memory: with the grid what ncu tells launches of a kernel apart by.
    block: [i64; 4],
    /// The call that issued it.
    call: Option<Call>,
}

/// Any work of the GPU, as far as its time matters.
#[derive(Clone, Copy, Debug)]
struct Work {
    start: i64,
    end: i64,
    call: Option<Call>,
    /// Its index among the launches, if it is a kernel.
    launch: Option<usize>,
}

/// A CUDA call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    start: i64,
    end: i64,
    thread: i64,
}

/// An NVTX range.
#[derive(Clone, Debug)]
struct Range {
    name: String,
    /// Name of its domain; empty for the default one.
    domain: String,
    start: i64,
    end: i64,
    thread: i64,
    /// Pushed and popped, not started and ended.
    is_pushed: bool,
}

/// An export.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    kernels: Vec<Kernel>,
    launches: Vec<Launch>,
    work: Vec<Work>,
    ranges: Vec<Range>,
    /// When it begins, nanoseconds since 1970.
    origin: Option<i64>,
}

impl Timeline {
    /// Reads an export.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        read::read(path)
    }

    /// The first process that launches kernels: of several ranks it stands for all.
    fn first_process(&self) -> Option<i64> {
        self.launches.first().map(|launch| launch.process)
    }

    /// How many processes launch kernels.
    pub(crate) fn processes(&self) -> usize {
        self.launches
            .iter()
            .map(|launch| launch.process)
            .collect::<HashSet<i64>>()
            .len()
    }

    /// The launches of the first process by their start.
    fn in_order(&self) -> Vec<usize> {
        let process = self.first_process();
        let own = |index: &usize| Some(self.launches[*index].process) == process;
        let mut order: Vec<usize> = (0..self.launches.len()).filter(own).collect();
        order.sort_by_key(|index| (self.launches[*index].start, *index));
        order
    }

    /// The launches of the first process that can be profiled: a collective that is replayed waits for the other ranks
    /// for ever.
    fn profiled(&self) -> Vec<usize> {
        let process = self.first_process();
        let is_collective: Vec<bool> = self
            .kernels
            .iter()
            .map(|kernel| is_collective(&kernel.name))
            .collect();
        let own = |index: &usize| {
            let launch = &self.launches[*index];
            Some(launch.process) == process && !is_collective[launch.kernel]
        };
        (0..self.launches.len()).filter(own).collect()
    }

    /// The number of a range among those of its name, process and domain, from 0: by their starts.
    fn ordinals(&self) -> HashMap<usize, usize> {
        let mut order: Vec<usize> = (0..self.ranges.len()).collect();
        order.sort_by_key(|index| (self.ranges[*index].start, *index));
        let mut counts: HashMap<(&str, &str, i64), usize> = HashMap::new();
        let mut ordinals = HashMap::new();
        for index in order {
            let range = &self.ranges[index];
            let key = (
                range.name.as_str(),
                range.domain.as_str(),
                range.thread & !THREAD,
            );
            let count = counts.entry(key).or_insert(0);
            ordinals.insert(index, *count);
            *count += 1;
        }
        ordinals
    }
}

impl Launch {
    fn duration(&self) -> i64 {
        self.end - self.start
    }
}

/// Whether a kernel is a collective or other communication between GPUs, by what libraries name theirs.
fn is_collective(name: &str) -> bool {
    const WORDS: [&str; 17] = [
        "nccl",
        "rccl",
        "msccl",
        "nvshmem",
        "cross_device_reduce",
        "allreduce",
        "all_reduce",
        "allgather",
        "all_gather_",
        "reducescatter",
        "reduce_scatter_",
        "alltoall",
        "all_to_all",
        "deep_ep::",
        "userbuffers",
        "multimem_",
        "quickreduce",
    ];
    // What compilers generate is named after the operators that it does, and communicates nothing.
    let name = name.to_lowercase();
    !name.starts_with("triton_") && WORDS.iter().any(|word| name.contains(word))
}
