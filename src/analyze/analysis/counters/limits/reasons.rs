//! Faults of a kernel, each by counters that show it, and the time that remains without it.

use crate::Context;
use crate::counters::details::figures::{Figure, Figures, Limit};
use crate::counters::ncu::bound::THRESHOLDS;
use crate::counters::ncu::lookup::Launch;
use crate::counters::ncu::{KernelCounters, stall};
use crate::counters::represent::matching::Group;
use crate::engine::classify::{KernelClass, KernelIdentity};
use rooflens_session::{Dim3, ProfileId};
use rooflens_units::{Bytes, Percent, Ratio};

use super::{Cause, Device, is_own};

/// What keeps a kernel from its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Arrays or spilled registers in local memory. Figure: sectors of local memory ÷ all sectors.
    LocalMemory,
    /// Bank conflicts. Figure: wavefronts that conflicts add ÷ wavefronts of shared memory.
    BankConflicts,
    /// Uncoalesced accesses. Figure: sectors that the used bytes need ÷ sectors moved.
    Uncoalesced,
    /// Atomics on few addresses. Figure: atomic requests ÷ requests to global memory.
    Atomics,
    /// Branches that differ within a warp. Figure: active threads of an instruction ÷ 32.
    Divergence,
    /// Data that L2 delivers again and again. Figure: hit rate of L2.
    CacheTraffic,
    /// Double precision. Figure: 1.
    Fp64,
    /// Fewer blocks than the GPU holds. Figure: waves.
    SmallGrid,
    /// Few resident warps. Figure: theoretical occupancy.
    Occupancy,
    /// A last wave that is not full. Figure: waves.
    Tail,
}

/// Threads of a warp.
const WARP: f64 = 32.0;
/// Bytes of a sector.
const SECTOR: Bytes = Bytes(32.0);
/// Threads and blocks that an SM holds at most, of all GPUs since 2018: CUDA C++ Programming Guide, *Technical
/// Specifications per Compute Capability*. A larger number is the optimistic one.
const THREADS_PER_SM: u64 = 2048;
const BLOCKS_PER_SM: u64 = 32;

/// Use of a unit from which on it limits, as in [`THRESHOLDS`].
const BUSY: Ratio = Ratio(0.60);
/// Use of memory from which on it can explain waiting warps.
const USED: Ratio = Ratio(0.30);
/// Share of warp states that wait for a unit from which on the unit explains the time.
const WAITS: Ratio = Ratio(0.50);
/// Useful ÷ moved sectors up to which accesses are uncoalesced; where no memory level is busy, of a quarter.
const USEFUL: Ratio = Ratio(0.50);
const HARDLY_USEFUL: Ratio = Ratio(0.25);
/// Shares of local sectors, conflicts and atomics from which on they explain the time.
const LOCAL: Ratio = Ratio(0.20);
const CONFLICTS: Ratio = Ratio(0.30);
const ATOMICS: Ratio = Ratio(0.10);
/// Use of the busiest slice of L2 ÷ mean use from which on few slices take most requests.
const FEW_SLICES: f64 = 4.0;
/// Active threads ÷ 32 up to which branches explain the time.
const ACTIVE: Ratio = Ratio(0.50);
/// Theoretical occupancy up to which few warps explain latency.
const OCCUPANCY: Ratio = Ratio(0.50);
/// Hit rate of L2 from which on a kernel reads its data again and again: four times.
const REREAD: Ratio = Ratio(0.75);
/// Bytes of a number in fp32 ÷ in fp64.
const HALF: Ratio = Ratio(0.5);
/// Waves below which most block slots are empty.
const FEW_WAVES: Ratio = Ratio(0.50);

/// Use of units as shares of their peaks over the duration.
#[derive(Clone, Copy)]
struct Units {
    compute: Ratio,
    dram: Ratio,
    l2: Ratio,
    l1: Ratio,
}

/// Requests and sectors of an access to global memory, and the sectors that the used bytes need.
#[derive(Clone, Copy, Default)]
struct Access {
    requests: f64,
    sectors: f64,
    needed: f64,
}

/// A profiled launch.
pub(super) struct Profile<'a> {
    launch: Launch<'a>,
    counters: &'a KernelCounters,
    figures: &'a Figures,
    units: Units,
    group: &'a Group,
    device: Device,
}

impl Units {
    /// Of a launch with figures of computation and of memory.
    fn new(counters: &KernelCounters) -> Option<Self> {
        let share = |percent: Option<Percent>| {
            let share = percent.map_or(Ratio::ZERO, |percent| Ratio(percent.0 / 100.0));
            share.clamp(Ratio::ZERO, Ratio::ONE)
        };
        let (compute, memory) = (counters.sol.compute?, counters.sol.memory);
        memory.highest()?;
        Some(Self {
            compute: share(Some(compute)),
            dram: share(memory.dram),
            l2: share(memory.l2),
            l1: share(memory.l1),
        })
    }

    const fn memory(self) -> Ratio {
        self.dram.max(self.l2).max(self.l1)
    }

    const fn busiest(self) -> Ratio {
        self.memory().max(self.compute)
    }
}

impl<'a> Profile<'a> {
    pub(super) fn new(
        context: &Context<'a>,
        profile: ProfileId,
        group: &'a Group,
        device: Device,
    ) -> Option<Self> {
        let counters = context.results.counters().ok()?;
        let launch = counters.launch(profile);
        Some(Self {
            launch: counters.lookup.launch(context.session, profile),
            counters: launch,
            figures: &context.results.details().ok()?.launch(profile).figures,
            units: Units::new(launch)?,
            group,
            device,
        })
    }

    fn count(&self, metric: &str) -> f64 {
        let number = |unit| self.launch.id(unit, metric);
        number("").or_else(|| number("sector")).unwrap_or_default()
    }

    fn sum(&self, metrics: [&str; 2]) -> f64 {
        metrics.iter().map(|metric| self.count(metric)).sum()
    }

    /// Accesses of one kind, `ld` or `st`. A request moves at least one sector.
    fn access(&self, kind: &str) -> Access {
        let metric = |before: &str, after: &str| format!("{before}_mem_global_op_{kind}{after}");
        let requests = self.count(&metric("l1tex__t_requests_pipe_lsu", ".sum"));
        let sectors = self.count(&metric("l1tex__t_sectors_pipe_lsu", ".sum"));
        let used = metric("smsp__sass_average_data_bytes_per_sector", ".ratio");
        let used = self.launch.id("byte/sector", &used).unwrap_or(SECTOR.0);
        // Copies into shared memory are sectors without counted bytes.
        let used = if used > 0.0 { used } else { SECTOR.0 };
        Access {
            requests,
            sectors,
            needed: (sectors * used / SECTOR.0).max(requests).min(sectors),
        }
    }

    fn accesses(&self) -> Access {
        let (loads, stores) = (self.access("ld"), self.access("st"));
        Access {
            requests: loads.requests + stores.requests,
            sectors: loads.sectors + stores.sectors,
            needed: loads.needed + stores.needed,
        }
    }

    /// Share of warp states that wait for one of these.
    fn waits(&self, reasons: &[&str]) -> Ratio {
        let states = stall::states(&self.launch).unwrap_or_default();
        let waits = states
            .iter()
            .filter(|state| reasons.contains(&state.reason.as_str()));
        waits.map(|state| state.share).sum()
    }

    /// Whether memory explains the time: a level is busy, or most warps wait for it.
    fn waits_for_memory(&self) -> bool {
        let waits = self.waits(&["long scoreboard", "lg throttle"]) >= WAITS;
        self.units.memory() >= BUSY || (waits && self.units.memory() >= USED)
    }

    /// Use of L2 if no more than these sectors passed it: the share of sectors, because others of its parts are busy with
    /// what a repair saves.
    fn l2(&self, sectors: f64) -> Ratio {
        let percent = |metric| self.launch.id("%", metric).map(|percent| percent / 100.0);
        let used = percent("lts__t_sectors.avg.pct_of_peak_sustained_elapsed");
        let hits = percent("l1tex__t_sector_hit_rate.pct").unwrap_or_default();
        let passed = self.accesses().sectors * (1.0 - hits);
        Ratio(used.unwrap_or_default() * (sectors / passed.max(1.0)).min(1.0))
    }

    /// Use of DRAM if no more than these sectors moved. Data that fits L2 need not move.
    fn dram(&self, sectors: f64) -> Ratio {
        let Some(moved) = self.counters.bytes.dram.filter(|bytes| bytes.0 > 0.0) else {
            return Ratio::ZERO;
        };
        let needed = Bytes(sectors * SECTOR.0).min(moved);
        let cache = self.launch.id("", "device__attribute_l2_cache_size");
        if cache.is_some_and(|cache| needed.0 <= cache) {
            return Ratio::ZERO;
        }
        self.units.dram * Ratio::of(needed, moved)
    }

    /// Use of the pipe that computes in fp64.
    fn fp64_pipe(&self) -> Ratio {
        let used = "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed";
        Ratio(self.launch.id("%", used).unwrap_or_default() / 100.0)
    }

    fn is_latency_bound(&self) -> bool {
        self.units.busiest().0 * 100.0 < THRESHOLDS.busy.0
    }

    /// Waves of the launches in the timeline, whose grid may be another one than the profiled.
    fn waves(&self) -> Option<Ratio> {
        let blocks = |grid: Dim3| grid.volume() as f64;
        let scale = Ratio(blocks(self.group.grid) / blocks(self.counters.grid));
        let waves = Ratio(self.figures.get(Figure::Waves)?) * scale;
        waves.is_positive().then_some(waves)
    }
}

/// The faults that counters show. Of library code only those that its caller can change; GEMMs, convolutions and
/// attention trade registers, shared memory and occupancy on purpose.
pub(super) fn by_counters(profile: &Profile<'_>, identity: &KernelIdentity) -> Vec<Cause> {
    let is_tuned = identity.class.is_matrix_work();
    let mut causes = Vec::new();
    if !is_tuned && is_own(identity) {
        causes.extend(local_memory(profile));
        causes.extend(bank_conflicts(profile));
        causes.extend(divergence(profile));
    }
    // A library converts a layout that its caller need not convert at all.
    if !is_tuned && (is_own(identity) || identity.class != KernelClass::Layout) {
        causes.extend(uncoalesced(profile));
    }
    if !is_tuned {
        causes.extend(atomics(profile));
        causes.extend(occupancy(profile));
    }
    if is_own(identity) {
        causes.extend(cache_traffic(profile));
    }
    causes.extend(small_grid(profile));
    causes.extend(fp64(profile, identity));
    causes.extend(tail(profile));
    causes
}

const fn cause(reason: Reason, figure: Ratio, rest: Ratio) -> Cause {
    Cause {
        reason,
        figure,
        rest,
        spills: false,
        coalesced: None,
    }
}

/// Without local memory DRAM moves no more than the sectors of global memory.
fn local_memory(profile: &Profile<'_>) -> Option<Cause> {
    let local = profile.sum([
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    ]);
    let global = profile.accesses().sectors;
    let figure = Ratio(local / (local + global));
    let holds = figure >= LOCAL && profile.waits_for_memory();
    let spilled = profile.count("sass__inst_executed_register_spilling") > 0.0;
    holds.then(|| Cause {
        spills: spilled,
        ..cause(Reason::LocalMemory, figure, profile.dram(global))
    })
}

/// Without conflicts L1 passes the other wavefronts only.
fn bank_conflicts(profile: &Profile<'_>) -> Option<Cause> {
    let conflicts = profile.sum([
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    ]);
    let wavefronts = profile.sum([
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    ]);
    let figure = Ratio(conflicts / wavefronts);
    let waits = profile.waits(&["short scoreboard", "mio throttle"]) >= WAITS;
    let units = profile.units;
    let holds = figure >= CONFLICTS && (units.l1 >= BUSY || waits);
    let l1 = units.l1 * figure.rest();
    let rest = l1.max(units.l2).max(units.dram).max(units.compute);
    holds.then(|| cause(Reason::BankConflicts, figure, rest))
}

/// With coalesced accesses memory moves the needed sectors only.
fn uncoalesced(profile: &Profile<'_>) -> Option<Cause> {
    let Access {
        sectors, needed, ..
    } = profile.accesses();
    let figure = Ratio(needed / sectors);
    let units = profile.units;
    let is_busy = figure <= USEFUL && units.memory() >= BUSY;
    let is_waiting = figure <= HARDLY_USEFUL && profile.waits_for_memory();
    let rest = profile.dram(needed).max(profile.l2(needed));
    let rest = rest.max(units.compute);
    (is_busy || is_waiting).then(|| cause(Reason::Uncoalesced, figure, rest))
}

/// Without atomics in memory the data remains, which coalesced accesses read once. Few atomics a second, no busy unit, and
/// warps that wait for memory: the same addresses take them one after another, in few slices of L2.
fn atomics(profile: &Profile<'_>) -> Option<Cause> {
    let atomics = profile.sum([
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    ]);
    let accesses = profile.accesses();
    let figure = Ratio(atomics / (atomics + accesses.requests));
    let waits = profile.waits(&["long scoreboard", "lg throttle", "drain", "membar"]);
    let slice = "lts__throughput.max.pct_of_peak_sustained_elapsed";
    let are_few = match profile.launch.id("%", slice) {
        Some(busiest) => Ratio(busiest / 100.0) >= profile.units.l2 * FEW_SLICES,
        None => profile.waves().is_some_and(|waves| waves >= FEW_WAVES),
    };
    let holds = figure >= ATOMICS && profile.is_latency_bound() && waits >= WAITS && are_few;
    let coalesced = Ratio(accesses.needed / accesses.sectors);
    holds.then(|| Cause {
        coalesced: Some(coalesced).filter(|useful| *useful <= HARDLY_USEFUL),
        ..cause(Reason::Atomics, figure, profile.dram(accesses.needed))
    })
}

/// With one branch a warp, the same instructions of threads take fewer instructions of warps.
fn divergence(profile: &Profile<'_>) -> Option<Cause> {
    let threads = profile.count("smsp__thread_inst_executed_per_inst_executed.ratio");
    let figure = Ratio(threads / WARP);
    let units = profile.units;
    let holds = threads > 0.0 && figure <= ACTIVE && units.compute >= BUSY;
    let rest = (units.compute * figure).max(units.dram).max(units.l2);
    holds.then(|| cause(Reason::Divergence, figure, rest))
}

/// With data that stays in registers or shared memory, computation and DRAM remain. Kernels without tensor cores often read
/// each element once and have nothing to reuse.
fn cache_traffic(profile: &Profile<'_>) -> Option<Cause> {
    let hits = profile.launch.id("%", "lts__t_sector_hit_rate.pct")?;
    let figure = Ratio(hits / 100.0);
    let units = profile.units;
    let rest = units.compute.max(units.dram);
    let computes = profile
        .counters
        .flops
        .main()
        .is_some_and(|part| part.tensor);
    let holds = computes && units.l2 >= BUSY && rest <= units.l2 * HALF && figure >= REREAD;
    holds.then(|| cause(Reason::CacheTraffic, figure, rest))
}

/// In single precision, the same kernel moves half of the bytes and computes at the rate of fp32. Tensor cores compute in
/// fp64 at the rate at which SMs compute in fp32 at least; half is the optimistic number.
fn fp64(profile: &Profile<'_>, identity: &KernelIdentity) -> Option<Cause> {
    let computes = profile.counters.flops.main();
    let is_on_pipe = profile.fp64_pipe() >= BUSY;
    let holds = match computes {
        Some(part) => part.dtype.starts_with("fp64"),
        None => identity.dtype == "fp64" || is_on_pipe,
    };
    let by_rate = profile.units.compute >= profile.units.memory()
        && computes.map_or(is_on_pipe, |part| !part.tensor);
    let rest = match by_rate {
        true => HALF.min(profile.device.fp64),
        false => HALF,
    };
    holds.then_some(cause(Reason::Fp64, Ratio::ONE, rest))
}

/// With a full grid, SMs or DRAM are at their peak, or all threads that the GPU holds work. Caches deliver more to more
/// SMs.
fn small_grid(profile: &Profile<'_>) -> Option<Cause> {
    let waves = profile.waves()?;
    let holds = waves < FEW_WAVES && profile.is_latency_bound();
    let filled = filled(profile.group, profile.device).map_or(waves, |filled| filled.min(waves));
    let moved = profile.dram(profile.accesses().sectors);
    let rest = profile.units.compute.max(moved).max(filled);
    holds.then(|| cause(Reason::SmallGrid, waves, rest))
}

/// With more warps, a unit is at its peak.
fn occupancy(profile: &Profile<'_>) -> Option<Cause> {
    let limits = profile.figures.limiters().unwrap_or_default();
    let is_of_block = |limit: &Limit| matches!(limit, Limit::Registers | Limit::SharedMemory);
    let figure = Ratio(profile.figures.get(Figure::Theoretical)? / 100.0);
    let holds = profile.is_latency_bound()
        && figure <= OCCUPANCY
        && limits.iter().any(is_of_block)
        && profile.waves()? >= FEW_WAVES;
    holds.then(|| cause(Reason::Occupancy, figure, profile.units.busiest()))
}

/// With whole waves of equal blocks, no slot is empty. Memory can be at its limit with slots left empty.
fn tail(profile: &Profile<'_>) -> Option<Cause> {
    let waves = profile.waves()?;
    let units = profile.units;
    let by_slots = units.memory() < BUSY || units.compute >= units.memory();
    let rest = Ratio(waves.0 / waves.0.ceil());
    (waves > Ratio::ONE && by_slots).then_some(cause(Reason::Tail, waves, rest))
}

/// Threads of a grid ÷ threads that the GPU holds at most.
fn filled(group: &Group, device: Device) -> Option<Ratio> {
    let per_sm = (THREADS_PER_SM / group.block.volume().max(1)).clamp(1, BLOCKS_PER_SM);
    let slots = u64::from(device.sms?) * per_sm;
    Some(Ratio(group.grid.volume() as f64 / slots as f64))
}

/// The shortest kernel ÷ mean duration.
pub(super) fn shortest(group: &Group, device: Device) -> Ratio {
    let mean = group.time.time() / group.launches.max(1) as f64;
    Ratio::of(device.shortest.time(), mean)
}

/// Of a kernel without counters: its blocks leave most SMs empty.
pub(super) fn by_grid(group: &Group, device: Device) -> Option<Cause> {
    let sms = device.sms?;
    let rest = filled(group, device)?;
    let holds = leaves_empty(group.grid, sms);
    holds.then(|| cause(Reason::SmallGrid, blocks_per_sm(group.grid, sms), rest))
}

/// Whether a grid has too few blocks for most SMs.
pub(super) fn leaves_empty(grid: Dim3, sms: u32) -> bool {
    grid.volume() > 0 && blocks_per_sm(grid, sms) < FEW_WAVES
}

fn blocks_per_sm(grid: Dim3, sms: u32) -> Ratio {
    Ratio(grid.volume() as f64 / f64::from(sms))
}
