//! Device memory: what the framework's allocator held and when, who held it at the peak, and calls that
//! allocate while a stage runs.

pub mod calls;
pub mod peak;
pub mod states;

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, PassKind, Scope};

use crate::engine::facts::StageInstance;
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Known};
use rooflens_session::{Ns, PassId, Session, StrId};

use calls::AllocatorCalls;
use peak::Held;
use states::{Figures, States};

/// Device memory.
#[derive(Default)]
pub struct Allocator {
    /// Allocators that state what they hold, by (pass, device).
    pub devices: Vec<DeviceMemory>,
    /// The most memory in use that NVML saw, by device.
    pub used: Vec<MemoryUsed>,
    /// CUDA calls that allocate or free memory while a stage runs.
    pub calls: AllocatorCalls,
}

/// The allocator of one GPU in one pass.
#[derive(Default)]
pub struct DeviceMemory {
    /// What it states.
    pub states: States,
    /// Figures of the whole trace.
    pub whole: Figures,
    /// Figures of each stage within the ranges of its counted instances.
    pub stages: Vec<(Summary, Figures)>,
    /// The outermost stage whose range holds the peak of the whole trace, an index into `Facts::stages`.
    pub stage_at_peak: Option<usize>,
    /// What holds the memory at that peak.
    pub held: Held,
}

/// The most memory of a device in use, CUDA contexts and other processes included, without passes that collect counters.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryUsed {
    /// Device ordinal.
    pub device: u32,
    /// Bytes.
    pub bytes: u64,
    /// Samples that state it.
    pub samples: u64,
    /// File of the first sample with the most.
    pub artifact: StrId,
}

/// Finds what was held; never missing, as events of the allocator are a choice of who records.
pub fn compute(context: &Context<'_>) -> Known<Allocator> {
    let session = context.session;
    let timelines = states::all(session);
    let spans = context.results.spans().ok();
    let device = |states: States| {
        let whole = states.figures(session, &[states.span()])?;
        let held = peak::held(session, spans, &states, &whole.peak);
        Some(DeviceMemory {
            stages: stages(context, &states),
            stage_at_peak: stage_at(context, states.pass, whole.peak.time),
            whole,
            held,
            states,
        })
    };
    let devices = timelines.into_iter().filter_map(device).collect();
    Ok(Allocator {
        devices,
        used: used(session),
        calls: calls::find(context),
    })
}

impl DeviceMemory {
    /// Figures of the whole trace, then of each stage, with what they are about.
    pub fn figures(&self, context: &Context<'_>) -> Vec<(Scope, &Figures)> {
        let (session, facts) = (context.session, context.facts);
        let gpu = Some(self.states.device);
        let pass = Some(session.pass_name(self.states.pass).to_owned());
        let whole = (
            Scope {
                pass,
                gpu,
                ..Scope::default()
            },
            &self.whole,
        );
        let scope = |stage: &Summary| Scope {
            gpu,
            ..stage.scope(session, facts)
        };
        let stages = self
            .stages
            .iter()
            .map(|(stage, figures)| (scope(stage), figures));
        std::iter::once(whole).chain(stages).collect()
    }

    /// What they rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        let events = self.states.events.len() as u64;
        session.evidence(self.states.pass, "memory_events", events)
    }
}

fn stages(context: &Context<'_>, states: &States) -> Vec<(Summary, Figures)> {
    let facts = context.facts;
    let of_stage = |summary: Summary| {
        let instances = facts.instances_of(summary.stage(facts));
        if instances.iter().any(|instance| instance.range.is_none()) {
            return None;
        }
        let counts = |instance: &&StageInstance| {
            instance.process == summary.process && instance.excluded.is_none()
        };
        // Allocators work for the host.
        let times = instances
            .iter()
            .filter(counts)
            .map(|instance| (instance.host_start, instance.host_end));
        let figures = states.figures(context.session, &times.collect::<Vec<_>>())?;
        Some((summary, figures))
    };
    summaries(facts, states.pass)
        .iter()
        .cloned()
        .filter_map(of_stage)
        .collect()
}

fn stage_at(context: &Context<'_>, pass: PassId, time: Ns) -> Option<usize> {
    let facts = context.facts;
    let holds = |instance: &StageInstance| {
        instance.range.is_some() && instance.host_start <= time && time < instance.host_end
    };
    facts.stages.iter().position(|stage| {
        let is_own = stage.pass == pass && stage.parent.is_none();
        is_own && facts.instances_of(stage).iter().any(holds)
    })
}

/// Whether a file lies in the folder of a pass with counters: the profiler then keeps copies of what kernels write.
fn is_of_counters(session: &Session, artifact: &str) -> bool {
    let passes = &session.passes;
    let Some((folder, _)) = artifact.rsplit_once('/') else {
        return false;
    };
    (0..passes.len()).any(|row| {
        let of_pass = session.text(passes.artifact[row]).rsplit_once('/');
        passes.kind[row] == PassKind::Counters && of_pass.is_some_and(|(other, _)| other == folder)
    })
}

fn used(session: &Session) -> Vec<MemoryUsed> {
    let samples = &session.device_samples;
    let mut devices: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
    for row in 0..samples.len() {
        if is_of_counters(session, session.text(samples.artifact[row])) {
            continue;
        }
        let used = samples.memory_used[row].map(|bytes| (bytes, row));
        devices.entry(samples.device[row]).or_default().extend(used);
    }
    let of_device = |(device, used): (u32, Vec<(u64, usize)>)| {
        let most = used
            .iter()
            .max_by_key(|(bytes, row)| (*bytes, std::cmp::Reverse(*row)));
        let (bytes, row) = *most?;
        let artifact = samples.artifact[row];
        Some(MemoryUsed {
            device,
            bytes,
            samples: used.len() as u64,
            artifact,
        })
    };
    devices.into_iter().filter_map(of_device).collect()
}
