//! Idle time whose cause has a name: the frame of the rules that say what the host did.
//!
//! What the host does before the first and after the last operation of an iteration lies between stages. A loss is
//! therefore one of the measured loop, if most of it lies there, and else one of each stage.

use rooflens_analysis::engine::classify::KernelIdentity;
use rooflens_analysis::time::idle::between::{Between, Pair};
use rooflens_analysis::time::idle::line::Parts;
use rooflens_analysis::time::idle::sources::{ActivityIdle, IdleSource, Recurs, Sources, WINDOWS};
use rooflens_analysis::time::idle::{Activity, Cause, Source, StageIdle};
use rooflens_document::{Finding, Gain, GainKind, Inline, Quantity};
use rooflens_session::{Arrange, Ns, ProcessId, Session, StrId};
use rooflens_units::{Ratio, Time};

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Threshold};
use crate::stage::StageLine;

/// Idle time of a named cause ÷ time of the stage or the loop from which on it is worth a finding.
pub(crate) const SHARE: Ratio = Ratio(0.05);

/// The threshold of the rules that name a cause.
pub(crate) const THRESHOLD: Threshold = Threshold::ratio("thresholds.named_idle", SHARE);

/// Share of all idle time of the host from which on the rest may be a consequence of the cause, or of the profiler: the
/// bound is all of it.
pub(crate) const MOST: Ratio = Ratio(2.0 / 3.0);

/// Share of the idle time of another pass from which on what it says of the stage holds.
const HALF: Ratio = Ratio(0.5);

/// Mean ÷ median time of an iteration, or its inverse, from which on the median one is not typical.
const UNEVEN: f64 = 1.5;

/// Share of the time of a cause in the range of a stage from which on it is one of the stage.
const INSIDE: Ratio = Ratio(0.9);

/// No limit of a time.
pub(crate) const UNLIMITED: Time = Time(f64::INFINITY);

/// Names that a finding lists.
pub(crate) const SHOWN: usize = 3;

/// Idle time of one cause in a stage, or in the loop.
pub(crate) struct Loss {
    /// All but words.
    pub(crate) finding: Finding,
    /// What is idle for how long, in words.
    idle: Vec<Inline>,
    /// Its time in all windows.
    pub(crate) time: Time,
    /// Iterations, or times between them, in which it occurs, and how many there are.
    windows: usize,
    of: usize,
    /// Whether these are parts of a capture without iterations.
    is_whole: bool,
    /// The names that say it, the most time first.
    pub(crate) names: Vec<StrId>,
}

impl Loss {
    /// What is idle for how long, in words.
    pub(crate) fn idle(&self) -> Vec<Inline> {
        self.idle.clone()
    }

    /// In how many iterations, or parts of a capture, it occurs, in words.
    pub(crate) fn occurs(&self, evidence: &Evidence<'_>) -> Vec<Inline> {
        let windows = Quantity::count(self.windows as u64);
        let of = Quantity::count(self.of as u64);
        let each = self.time / self.windows.max(1) as f64;
        match self.is_whole && self.of > 1 {
            true => say!(evidence, "known.parts", windows = windows, of = of),
            false => say!(
                evidence,
                "known.iterations",
                windows = windows,
                of = of,
                each = each,
                profiled = is_profiled(evidence),
            ),
        }
    }

    /// The names that say what the host did, with the most time first.
    pub(crate) fn listed(&self, evidence: &Evidence<'_>) -> Option<Vec<Inline>> {
        let comma = Inline::Text(evidence.text.comma().to_owned());
        let mut names = Vec::new();
        for name in self.names.iter().take(SHOWN) {
            names.push(vec![Inline::code(evidence.session.text(*name))]);
        }
        (!names.is_empty()).then(|| names.join(&comma))
    }
}

/// A mark of times under a profiler, where others are without.
fn is_profiled(evidence: &Evidence<'_>) -> Option<&'static str> {
    let mut stages = evidence.stages.iter();
    stages.any(|stage| stage.unprofiled.is_some()).then_some("")
}

/// The outcome of a rule about some activities, over all processes.
pub(crate) fn outcome(
    evidence: &Evidence<'_>,
    activities: &[Activity],
    draft: impl Fn(Loss) -> Draft,
) -> Outcome {
    let mut has_data = false;
    let mut drafts = Vec::new();
    let mut processes: Vec<ProcessId> = Vec::new();
    for stage in &evidence.stages {
        let idle = evidence.idle(stage.key());
        has_data |= idle.is_some_and(|idle| idle.has_calls().is_ok());
        if !processes.contains(&stage.process) {
            processes.push(stage.process);
        }
    }
    if !has_data {
        return Outcome::InsufficientData(words!(evidence, "findings.needs_idle"));
    }
    for process in processes {
        let losses = losses(evidence, process, activities);
        drafts.extend(losses.into_iter().map(&draft));
    }
    Outcome::of_drafts(drafts)
}

/// The losses of a process: one of the loop, or one of each stage.
fn losses(evidence: &Evidence<'_>, process: ProcessId, activities: &[Activity]) -> Vec<Loss> {
    let mut stages: Vec<(&StageLine, &StageIdle)> = Vec::new();
    for stage in &evidence.stages {
        if stage.process == process
            && let Some(idle) = evidence.idle(stage.key())
        {
            stages.push((stage, idle));
        }
    }
    let in_stages: Time = stages
        .iter()
        .map(|(_, idle)| time(&idle.sources, activities))
        .sum();
    if let Some(between) = evidence.between(process)
        && in_pairs(between, activities) >= in_stages
    {
        let of_loop = of_loop(evidence, between, &stages, activities);
        return of_loop.into_iter().collect();
    }
    let of_stages = stages.into_iter();
    of_stages
        .filter_map(|(stage, idle)| of_stage(evidence, stage, idle, activities))
        .collect()
}

fn in_pairs(between: &Between, activities: &[Activity]) -> Time {
    let pairs = between.pairs.iter().map(|pair| &pair.sources);
    let loops = pairs.filter(|pair| pair.windows >= WINDOWS);
    loops.map(|pair| time(pair, activities)).sum()
}

/// Time that goes with a cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lost {
    /// Idle time.
    pub(crate) idle: Time,
    /// Time of operations that the host issues for it.
    pub(crate) issued: Time,
    /// Windows in which it occurs.
    pub(crate) windows: usize,
    /// The most that its repair can save.
    pub(crate) most: Time,
}

impl Lost {
    /// What some activities take.
    pub(crate) fn of(sources: &Sources, activities: &[Activity]) -> Self {
        let (mut idle, mut issued) = (Ns::ZERO, Ns::ZERO);
        for of_activity in activities
            .iter()
            .filter_map(|activity| sources.of(*activity))
        {
            idle += of_activity.time();
            issued += of_activity.issued;
        }
        Self {
            idle: idle.time(),
            issued: issued.time(),
            windows: windows(sources, activities),
            most: UNLIMITED,
        }
    }

    /// The same of preparation, which occurs where it takes longer than a launch: code that is loaded once in a while
    /// does not make stalls of few iterations recur.
    pub(crate) fn of_preparation(sources: &Sources, activities: &[Activity]) -> Self {
        Self {
            windows: windows_from(sources, activities, PREPARES),
            ..Self::of(sources, activities)
        }
    }

    /// The bound: its time, with all idle time where most of that has this cause, and the latency of launches that are then
    /// in time. The host issues the other work `sooner` by at most this time.
    pub(crate) fn bound(self, idle: Time, latency: Time, sooner: Time) -> Time {
        let is_most = self.idle >= idle * MOST;
        let bound = if is_most {
            (idle + latency).min(self.idle + sooner).max(self.idle)
        } else {
            self.idle
        };
        (bound + self.issued).min(self.most)
    }
}

/// How much sooner the host can issue the work of a stage without a cause: it waits for the GPU. A host that does not is
/// as slow without the cause. Without a baseline nothing limits it.
pub(crate) fn sooner(evidence: &Evidence<'_>, stage: &StageLine) -> Time {
    match stage.unprofiled {
        Some(_) => synchronizing(evidence, stage),
        None => UNLIMITED,
    }
}

/// Time of an iteration of a stage in synchronizing calls.
pub(crate) fn synchronizing(evidence: &Evidence<'_>, stage: &StageLine) -> Time {
    let sync = evidence.results.sync().ok();
    let of_stage = sync.and_then(|sync| sync.of_stage(stage.stage, stage.process));
    of_stage.map_or(Time::ZERO, |(_, sync)| sync.time)
}

/// What the profiler adds to the host's work of a typical iteration: it is in no baseline.
pub(crate) fn added_by_profiler(stage: &StageLine) -> Time {
    let unprofiled = stage.unprofiled.unwrap_or(stage.time);
    (stage.time - unprofiled).max(Time::ZERO)
}

/// Idle time of some activities.
fn time(sources: &Sources, activities: &[Activity]) -> Time {
    activities
        .iter()
        .map(|activity| sources.time(*activity).time())
        .sum()
}

/// Windows in which one of some activities occurs.
fn windows(sources: &Sources, activities: &[Activity]) -> usize {
    windows_from(sources, activities, Ns(1).time())
}

/// Windows in which the activities take at least this time.
fn windows_from(sources: &Sources, activities: &[Activity], least: Time) -> usize {
    let occurs = |window: &usize| {
        let times = activities
            .iter()
            .filter_map(|activity| sources.of(*activity));
        let sum: Ns = times.map(|idle| idle.by_window[*window]).sum();
        sum.time() >= least
    };
    (0..sources.windows).filter(occurs).count()
}

fn of_loop(
    evidence: &Evidence<'_>,
    between: &Between,
    stages: &[(&StageLine, &StageIdle)],
    activities: &[Activity],
) -> Option<Loss> {
    let run = evidence.loop_of(between.summary.process);
    let loops = between.pairs.iter().map(|pair| &pair.sources);
    let mut sources: Vec<&Sources> = loops.filter(|pair| pair.windows >= WINDOWS).collect();
    let main = *sources
        .iter()
        .max_by_key(|of_pair| windows(of_pair, activities))?;
    sources.extend(stages.iter().map(|(_, idle)| &idle.sources));
    let mut lost = Lost::of(main, activities);
    let all = sources.iter().map(|of| Lost::of(of, activities));
    (lost.idle, lost.issued) = all.fold((Time::ZERO, Time::ZERO), |(idle, issued), of| {
        (idle + of.idle, issued + of.issued)
    });
    let loss = lost.idle + lost.issued;
    let in_stages: Ns = stages.iter().map(|(_, idle)| idle.idle()).sum();
    let profiled = between.run.time();
    if Ratio::of(loss, profiled).0.is_nan() || loss < profiled * SHARE {
        return None;
    }
    let idle = (between.idle() + in_stages).time();
    let bound = lost.bound(idle, Time::ZERO, UNLIMITED);
    // Where the loop takes longer without the profiler, so does the cause.
    let longer = Ratio::of(run, profiled).max(Ratio::ONE);
    let saved = (bound * longer).min(run);
    let context = &evidence.context;
    let label = between.label(context);
    let whose = Some(label.as_str()).filter(|label| !label.is_empty());
    let idle = say!(
        evidence,
        "known.loop",
        share = Ratio::of(loss, profiled),
        run = profiled,
        profiled = is_profiled(evidence),
    );
    let mut finding = match stage_around(evidence, between, activities) {
        Some(stage) => {
            let longer = evidence.longer_unprofiled(stage);
            stage.saving_of_range(bound / stage.counted.0 * longer)
        }
        None => Finding {
            scope: between.scope(context),
            title: label.clone(),
            ..evidence.saving_of_loop(run, whose, saved)
        },
    };
    finding.evidence = vec![between.evidence(context)];
    if let Some(gain) = &mut finding.gain
        && bound > loss
    {
        gain.basis = words!(evidence, "known.extended");
    }
    Some(Loss {
        finding,
        idle,
        time: loss,
        windows: lost.windows,
        of: main.windows,
        is_whole: false,
        names: names(evidence.session, &sources, activities),
    })
}

/// The stage in whose range the host does this, before its first or after its last operation, if its unprofiled time holds
/// that.
fn stage_around<'e>(
    evidence: &'e Evidence<'_>,
    between: &Between,
    activities: &[Activity],
) -> Option<&'e StageLine> {
    let lost = |pair: &&Pair| time(&pair.sources, activities);
    let pairs = between.pairs.iter();
    let pair = pairs.max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    let place = pair.host_place(evidence.facts);
    let outside = pair.idle() - pair.in_place(place);
    let is_inside = lost(&pair) - outside.time() >= in_pairs(between, activities) * INSIDE;
    let key = (place.stage()?, between.summary.process);
    let mut stages = evidence.stages.iter();
    stages.find(|stage| is_inside && stage.key() == key && stage.unprofiled.is_some())
}

fn of_stage(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
    activities: &[Activity],
) -> Option<Loss> {
    let lost = Lost::of(&idle.sources, activities);
    let whole = idle.pool.time.time();
    if whole <= Time::ZERO || lost.idle < whole * SHARE || !recurs(evidence, idle, lost) {
        return None;
    }
    Some(loss_of_stage(evidence, (stage, idle), lost, activities))
}

/// Whether a cause recurs. What a program does once, at its start or in a single iteration, is no loop.
fn recurs(evidence: &Evidence<'_>, idle: &StageIdle, lost: Lost) -> bool {
    let recurs = match idle.is_whole(&evidence.context) {
        true => Recurs::Parts,
        false => Recurs::Iterations,
    };
    lost.windows > 1 && recurs.holds(lost.windows, idle.sources.windows)
}

/// The loss of a stage: of each iteration, or over all of them where only few have it.
pub(crate) fn loss_of_stage(
    evidence: &Evidence<'_>,
    (stage, idle): (&StageLine, &StageIdle),
    lost: Lost,
    activities: &[Activity],
) -> Loss {
    let of = idle.sources.windows;
    let whole = idle.pool.time.time();
    let loss = lost.idle + lost.issued;
    let late = idle.pool.causes.sum(&Cause::HOST).time();
    // The latency of a launch is hidden if the host issues it in time.
    let latency = idle.pool.latency.time();
    // Kernels that are prepared need as many launches; what other causes leave, such as compiled code, needs fewer.
    let prepares = activities.iter().all(|activity| SHAPES.contains(activity));
    let sooner = match prepares {
        true => sooner(evidence, stage) * stage.counted,
        false => UNLIMITED,
    };
    let saved = lost.bound(late, latency, sooner).min(whole);
    let removed = lost.issued / of.max(1) as f64;
    // An unprofiled time holds what the host does in the range around the operations, where it waits for none.
    let longer = Ratio::of(stage.reference(), stage.time.max(Time(1.0)));
    let range = match activities.iter().all(|activity| WAITS.contains(activity)) {
        true => (whole * longer).min(whole + evidence.around_operations(stage)),
        false => whole,
    };
    let share = Ratio::of(saved, range.max(whole));
    let mut finding = Finding {
        evidence: vec![idle.evidence(&evidence.context)],
        ..stage.saving_share(share, removed)
    };
    if let Some(gain) = &mut finding.gain
        && saved > loss
    {
        gain.basis
            .insert_str(0, &words!(evidence, "known.extended"));
    }
    if let Some(gain) = &mut finding.gain
        && removed.is_positive()
        && saved > lost.idle
    {
        gain.basis += &words!(evidence, "known.issued", issued = removed);
    }
    if let Some(gain) = &mut finding.gain
        && loss >= lost.most
    {
        gain.basis += &words!(evidence, "findings.host_stays");
    }
    // Iterations without preparation show what is left: other kernels than those that are tried.
    if let (true, Some(saved)) = (prepares, above_lower_level(evidence, stage))
        && let Some(gain) = finding.gain.as_mut().filter(|gain| saved > gain.saved_ns)
    {
        gain.saved_ns = saved;
        gain.basis = words!(evidence, "known.lower_level", lower = gain.of_ns - saved);
        finding.weight_ns = saved * stage.counted;
    }
    let is_rare = 2 * lost.windows < of;
    if is_rare || differs(stage, idle) {
        let label = stage.label.as_str();
        let saved = if is_rare { loss.min(lost.most) } else { saved };
        if stage.unprofiled.is_none() {
            finding.weight_ns = saved;
        }
        finding.gain = Some(Gain {
            saved_ns: saved,
            of_ns: whole,
            of: words!(evidence, "findings.all_iterations", stage = label),
            basis: String::new(),
            kind: GainKind::Stalls,
        });
    }
    let label = Inline::strong(&stage.label);
    let share = Ratio::of(lost.idle, whole);
    Loss {
        finding,
        idle: say!(evidence, "known.stage", share = share, stage = label),
        time: lost.idle,
        windows: lost.windows,
        of,
        is_whole: idle.is_whole(&evidence.context),
        names: names_of_stage(evidence, stage, idle, activities),
    }
}

/// What a typical unprofiled iteration takes beyond those of the lower of two levels.
fn above_lower_level(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Time> {
    let series = evidence.unprofiled_series(stage)?;
    let before = series.before().filter(|_| series.rises());
    let lower = before.or(series.levels.map(|[lower, _]| Time(lower.median)))?;
    let part = Ratio::of(series.typical() - lower, series.typical());
    Some(stage.reference() * part)
}

/// Whether iterations differ so widely that a share of all of them is no share of the median one.
fn differs(stage: &StageLine, idle: &StageIdle) -> bool {
    let mean = idle.pool.time.time() / idle.instances.len().max(1) as f64;
    mean > stage.time * UNEVEN || stage.time > mean * UNEVEN
}

/// The names that say what the host did, the most time first.
fn names(session: &Session, sources: &[&Sources], activities: &[Activity]) -> Vec<StrId> {
    let times = times_by_name(session, sources, activities, |_| true);
    times.into_iter().map(|(name, _)| name).collect()
}

/// The same with the time of each, of the sources that count.
pub(crate) fn times_by_name(
    session: &Session,
    sources: &[&Sources],
    activities: &[Activity],
    counts: impl Fn(&IdleSource) -> bool,
) -> Vec<(StrId, Ns)> {
    let mut times: Vec<(StrId, Ns)> = Vec::new();
    for of_window in sources {
        for activity in activities {
            let idle = of_window.of(*activity).into_iter();
            for source in idle.flat_map(|idle| &idle.sources) {
                let Some(name) = source.subject.filter(|_| counts(source)) else {
                    continue;
                };
                match times.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, time)) => *time += source.time,
                    None => times.push((name, source.time)),
                }
            }
        }
    }
    times.arrange_by(|a, b| {
        let by_name = || session.text(a.0).cmp(session.text(b.0));
        b.1.cmp(&a.1).then_with(by_name)
    });
    times
}

/// The same of a stage; where its pass names less than half of the time, those of another pass with this stage.
pub(crate) fn names_of_stage(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
    activities: &[Activity],
) -> Vec<StrId> {
    let sources = activities
        .iter()
        .filter_map(|activity| idle.sources.of(*activity));
    let sources = sources.flat_map(|idle| &idle.sources);
    let named = sources.filter(|source| source.subject.is_some());
    let named: Ns = named.map(|source| source.time).sum();
    if named.time() >= time(&idle.sources, activities) * HALF {
        return names(evidence.session, &[&idle.sources], activities);
    }
    let other = others(evidence, stage).map(|other| &other.sources);
    let other: Vec<&Sources> = other.collect();
    names(evidence.session, &other, activities)
}

/// Idle time of a stage in other passes.
pub(crate) fn others<'a>(
    evidence: &'a Evidence<'_>,
    stage: &'a StageLine,
) -> impl Iterator<Item = &'a StageIdle> {
    let lines = evidence
        .results
        .idle()
        .into_iter()
        .flat_map(|idle| &idle.lines);
    let name = &evidence.facts.stages[stage.stage].name;
    lines.filter(move |line| {
        let of_line = line.summary.stage(evidence.facts);
        !evidence.facts.run.contains(&of_line.pass) && of_line.name == *name
    })
}

/// Activities of an emptied cache: the allocator asks the driver again.
pub(crate) const EMPTIES: [Activity; 2] = [Activity::EmptyCache, Activity::Allocation];

/// The idle time of an activity where it is longest: in a stage, or between two.
pub(crate) fn longest<'a>(
    evidence: &'a Evidence<'_>,
    activity: Activity,
) -> Option<&'a ActivityIdle> {
    let of_activity = all_sources(evidence).filter_map(|sources| sources.of(activity));
    of_activity.max_by_key(|idle| idle.time())
}

/// The idle time of all stages and of the times between them.
fn all_sources<'a>(evidence: &'a Evidence<'_>) -> impl Iterator<Item = &'a Sources> {
    let stages = evidence.stages.iter();
    let stages = stages.filter_map(|stage| Some(&evidence.idle(stage.key())?.sources));
    let between = evidence
        .results
        .idle()
        .into_iter()
        .flat_map(|idle| &idle.between);
    let pairs = between.flat_map(|between| &between.pairs);
    stages.chain(pairs.map(|pair| &pair.sources))
}

/// Whether the cache is emptied as often as graphs are captured: PyTorch does so before it captures one.
pub(crate) fn clears_for_captures(evidence: &Evidence<'_>) -> bool {
    all_sources(evidence).any(|sources| {
        let captures = windows(sources, &[Activity::GraphCapture]);
        captures > 0 && captures >= windows(sources, &[Activity::EmptyCache])
    })
}

/// Whether the program itself empties the cache in most iterations.
pub(crate) fn empties_cache(evidence: &Evidence<'_>) -> bool {
    let empties = |sources: &Sources| {
        let emptied = windows(sources, &[Activity::EmptyCache]);
        emptied > 0 && 2 * emptied >= sources.windows
    };
    !clears_for_captures(evidence) && all_sources(evidence).any(empties)
}

/// In both the host waits for the GPU.
pub(crate) const WAITS: [Activity; 2] = [Activity::Synchronization, Activity::BlockingCopy];

/// Activities that prepare kernels for input shapes.
pub(crate) const SHAPES: [Activity; 3] = [
    Activity::KernelPlans,
    Activity::NewShape,
    Activity::CodeLoading,
];

/// Those of other kernels than attention of cuDNN, where that is planned.
pub(crate) const LOADED: [Activity; 2] = [Activity::NewShape, Activity::CodeLoading];

/// Idle time of a host that prepares kernels: of one gap, from which on it is no launch overhead.
const PREPARES: Time = Time(1e6);

/// Idle time of a stage in which the host prepares kernels for its input shapes.
#[derive(Clone, Copy)]
pub(crate) struct Preparation {
    /// All of it.
    pub(crate) all: Lost,
    /// Before attention of cuDNN, if that is all that cuDNN computes in the stage: its plans are for lengths of sequences
    /// and caches.
    pub(crate) attention: Option<Lost>,
    /// Before other kernels, if some of it is before attention.
    pub(crate) others: Option<Lost>,
}

/// Time of a stage in which the host prepares kernels for its input shapes: as its own pass says, or the share that
/// another pass with operators says.
pub(crate) fn preparation(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Preparation> {
    let idle = evidence.idle(stage.key())?;
    let all = Lost {
        issued: timed_kernels(evidence, stage, idle),
        ..all_preparation(evidence, stage, idle)?
    };
    if !plans_attention(evidence, stage) {
        return Some(Preparation {
            all,
            attention: None,
            others: None,
        });
    }
    let own = Lost::of(&idle.sources, &[Activity::KernelPlans]);
    // Operators of another pass plan attention, as cuDNN computes nothing else.
    let mut attention = if own.idle > Time::ZERO { own } else { all };
    // The host launches other kernels as before.
    attention.most = attention.idle + attention.issued;
    Some(Preparation {
        all,
        attention: Some(attention),
        others: (own.idle > Time::ZERO).then(|| Lost::of(&idle.sources, &LOADED)),
    })
}

/// Time of kernels that cuDNN runs to choose from: of this pass, or the share that another pass with operators says.
fn timed_kernels(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Time {
    let of_busy = |idle: &StageIdle| {
        let plans = idle.sources.of(Activity::KernelPlans);
        let issued = plans.map_or(Ns::ZERO, |plans| plans.issued);
        (issued > Ns::ZERO).then(|| Ratio::of(issued, idle.busy()))
    };
    let mut passes = std::iter::once(idle).chain(others(evidence, stage));
    let share = passes.find_map(of_busy).unwrap_or_default();
    idle.busy().time() * share
}

fn all_preparation(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Option<Lost> {
    let is_common =
        |lost: &Lost| 2 * lost.windows >= idle.sources.windows && recurs(evidence, idle, *lost);
    if prepares(&idle.sources) {
        return Some(Lost::of_preparation(&idle.sources, &SHAPES)).filter(is_common);
    }
    if loads(&idle.sources) && !idle.is_whole(&evidence.context) {
        return Some(Lost::of_preparation(&idle.sources, &LOADS)).filter(is_common);
    }
    let host = |parts: &Parts| parts.causes.sum(&Cause::HOST).time();
    let share = |idle: &StageIdle| Ratio::of(time(&idle.sources, &SHAPES), host(&idle.pool));
    let mut others = others(evidence, stage);
    let other = others.find(|other| prepares(&other.sources) && share(other) >= HALF)?;
    let of_other = Lost::of_preparation(&other.sources, &SHAPES);
    let windows = of_other.windows as f64 / other.sources.windows.max(1) as f64;
    let windows = (windows * idle.sources.windows as f64).round() as usize;
    // One iteration of the other pass may be its first; those of this pass must have the time, too.
    let share = share(other).min(Ratio::ONE);
    let times = idle.instances.iter().map(|parts| host(parts) * share);
    let long: Vec<Time> = times.filter(|time| *time >= PREPARES).collect();
    let lost = Lost {
        idle: long.iter().copied().sum(),
        issued: Time::ZERO,
        windows: windows.min(long.len()),
        most: UNLIMITED,
    };
    Some(lost).filter(is_common)
}

/// Whether attention is all that cuDNN computes in a stage.
pub(crate) fn plans_attention(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let Some(work) = evidence.work(stage.key()) else {
        return false;
    };
    let identities = work.kernels.iter();
    let identities = identities.map(|(kernel, ..)| &evidence.facts.identities[kernel.index()]);
    let mut of_cudnn = identities
        .filter(|identity| identity.library == "cuDNN")
        .peekable();
    of_cudnn.peek().is_some() && of_cudnn.all(KernelIdentity::is_cudnn_attention)
}

/// What the host does where it loads code in most iterations: it chooses kernels, builds and times them.
const LOADS: [Activity; 6] = [
    Activity::CodeLoading,
    Activity::KernelPlans,
    Activity::HostCode,
    Activity::Allocation,
    Activity::Synchronization,
    Activity::Files,
];

/// Whether the host loads code in most iterations, and no compiler does.
fn loads(sources: &Sources) -> bool {
    let loading = [Activity::CodeLoading, Activity::KernelPlans];
    let loading = loading.iter().filter_map(|activity| sources.of(*activity));
    let mut calls = loading.flat_map(|idle| &idle.sources);
    let is_common = |windows: usize| 2 * windows >= sources.windows;
    let compiles = windows(sources, &[Activity::Compilation, Activity::GraphCapture]);
    sources.windows >= WINDOWS
        && calls.any(|call| call.subject.is_some() && is_common(call.windows as usize))
        && !is_common(compiles)
        && time(sources, &LOADS) >= PREPARES * sources.windows as f64
}

/// Whether the host prepares kernels: a launch of a prepared one takes less time.
fn prepares(sources: &Sources) -> bool {
    // What loads code alone can be any library.
    let named = [Activity::KernelPlans, Activity::NewShape];
    let mut per_window = Time::ZERO;
    for activity in named {
        if let Some(idle) = sources.of(activity) {
            per_window += idle.time().time() / idle.windows().max(1) as f64;
        }
    }
    let waits = |activity: &Activity| {
        let sources = sources
            .of(*activity)
            .into_iter()
            .flat_map(|idle| &idle.sources);
        let causes = sources.map(|source| source.cause);
        let mut causes = causes
            .filter(|cause| matches!(cause, Cause::Sync | Cause::Allocator | Cause::FirstUse));
        causes.next().is_some()
    };
    per_window >= PREPARES && named.iter().any(waits)
}

/// Whether such preparation is most of what the host does while the GPU is idle in a stage.
pub(crate) fn prepares_mostly(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let Some(idle) = evidence.idle(stage.key()) else {
        return false;
    };
    let host = idle.pool.causes.sum(&Cause::HOST).time();
    preparation(evidence, stage).is_some_and(|lost| lost.all.idle >= host * HALF)
}

/// Where the host computes while the GPU is idle.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// A range, operator or function.
    pub(crate) source: Source,
    /// Idle time.
    pub(crate) time: Ns,
    /// Its share of the idle time that has no other name.
    pub(crate) share: Ratio,
}

/// The range, operator or function in which the host computes for most of some idle time of these causes that has no other
/// name.
pub(crate) fn place(
    sources: &[&Sources],
    causes: &[Cause],
    is_stage: impl Fn(StrId) -> bool,
) -> Option<Place> {
    let mut times: Vec<(Source, Ns)> = Vec::new();
    let mut whole = Ns::ZERO;
    for activity in [Activity::HostCode, Activity::System, Activity::Launching] {
        let of_activity = sources.iter().filter_map(|sources| sources.of(activity));
        let of_activity = of_activity.flat_map(|idle| &idle.sources);
        for source in of_activity.filter(|source| causes.contains(&source.cause)) {
            whole += source.time;
            let is_place = |source: &&Source| match source {
                Source::Range(name) => !is_stage(*name),
                Source::Operator(_) | Source::Frame(_) => true,
                Source::Mark(_) | Source::Call(_) | Source::OsCall(_) => false,
            };
            let Some(place) = source.path.iter().find(is_place) else {
                continue;
            };
            match times.iter_mut().find(|(other, _)| other == place) {
                Some((_, time)) => *time += source.time,
                None => times.push((*place, source.time)),
            }
        }
    }
    let (source, time) = times
        .into_iter()
        .max_by_key(|(place, time)| (*time, *place))?;
    let share = Ratio::of(time, whole.max(Ns(1)));
    let place = Place {
        source,
        time,
        share,
    };
    (share >= HALF).then_some(place)
}
