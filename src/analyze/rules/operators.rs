//! Rules about operators: groups of kernels that another form of the same computation replaces, and what a stage saves
//! without them.
//!
//! Operators have sizes in their own pass, and that pass runs slower than the timeline. A group is therefore a share of
//! the GPU time of its stage there, and its time is that share in the primary pass. Fewer kernels need fewer launches,
//! too: each removed kernel takes its part of the idle time that launching causes.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::operators::chains::{ChainKind, Group, JOINT, Place};
use rooflens_analysis::time::idle::Cause;
use rooflens_document::{Finding, Inline, Part, Quantity};
use rooflens_session::StrId;
use rooflens_units::{Count, Ratio, Time};

/// A rule about groups of a kind.
macro_rules! rule {
    ($id:literal, $kind:ident) => {
        Rule::new($id, &[THRESHOLD], |evidence| {
            outcome(evidence, ChainKind::$kind)
        })
    };
}

/// In the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &rule!("repeated-calls", Calls),
    &rule!("constant-calls", Constant),
    &rule!("recomputed-activations", Recomputed),
    &rule!("unused-gradients", Gradients),
    &rule!("dense-embeddings", Embeddings),
    &rule!("gathered-rows", Gathered),
    &rule!("unread-logits", Logits),
    &rule!("optimizer-loop", Optimizer),
    &rule!("attention-math", Attention),
    &rule!("expert-loop", Experts),
    &rule!("gemm-loop", Gemms),
    &rule!("summed-products", Contraction),
    &rule!("row-additions", Atomics),
    &rule!("repeated-tensors", Repeat),
    &rule!("fp64-operators", Fp64),
    &rule!("layout-conversions", Channels),
    &rule!("transposed-copies", Transpose),
    &rule!("norm-unfused", Norm),
    &rule!("pointwise-unfused", Pointwise),
    &rule!("gemm-epilogue", Epilogue),
    &rule!("dtype-casts", Cast),
];

/// Time that the other form saves ÷ stage time from which on a group is a finding.
const SAVED: Ratio = Ratio(0.02);

/// Part of the saved time between stages from which on the measured loop is the subject.
const BETWEEN: Ratio = Ratio(0.3);

/// Causes of idle time that end with the launches: the host issues work, or the work waits in its queue.
const OF_LAUNCHES: [Cause; 2] = [Cause::Launching, Cause::Queue];

/// The same of what the program itself writes out, such as a loop: it runs code of its own between the launches.
const OF_LOOPS: [Cause; 3] = [Cause::Launching, Cause::HostCode, Cause::Queue];

/// The same of a loop over experts, which also reads from the GPU how many rows an expert has.
const OF_EXPERTS: [Cause; 6] = [
    Cause::Launching,
    Cause::Queue,
    Cause::HostCode,
    Cause::Sync,
    Cause::Copy,
    Cause::Allocator,
];

/// Share of the idle time of a stage that launches explain from which on they come first.
const BY_LAUNCHES: Ratio = Ratio(0.5);

/// Share of the time of a group from which on a part is most of it.
const MOST: Ratio = Ratio(0.5);

/// The threshold of all rules about groups.
const THRESHOLD: Threshold = Threshold::ratio("thresholds.chain_saving", SAVED);

/// Groups of one kind in a stage or in the measured loop.
struct Subject<'a> {
    /// A finding with the gain.
    finding: Finding,
    group: &'a Group,
    /// The stage's label, or the words for the loop.
    stage: Inline,
    /// Time of the kernels per iteration, or in the loop.
    time: Time,
    /// It as a share of the GPU time.
    share: Ratio,
    /// The part of the gain that is idle time of launches, if any is.
    launches: Option<Time>,
    instances: f64,
}

fn draft(evidence: &Evidence<'_>, subject: Subject<'_>) -> Draft {
    let (group, instances) = (subject.group, subject.instances);
    let example = &group.example;
    let named = |name: &'static str| Some(name).filter(|name| !name.is_empty());
    let sizes = Some(example.sizes.as_str()).filter(|sizes| !sizes.is_empty());
    let factor = example.factor;
    let part = Ratio::of(example.time, group.time);
    let kernel = example
        .kernel
        .map(|kernel| &evidence.facts.identities[kernel.index()]);
    let pytorch = evidence.platform.pytorch;
    let is_joint = example.operators == JOINT;
    let trains = trains(evidence);
    let arguments = arguments! {
        stage = subject.stage,
        chains = per_iteration(group.chains, instances),
        kernels = per_iteration(group.kernels, instances),
        per = (instances > 1.0).then(|| words!(evidence, "findings.per_iteration")),
        time = subject.time,
        share = subject.share,
        norms = Some(subject.time * Ratio::of(group.norms, group.time)).filter(Time::is_positive),
        launches = subject.launches,
        most = (part >= MOST).then_some(""),
        part = (part < MOST).then_some(part),
        sizes = sizes,
        factor = factor.map(|factor| Quantity::count(factor.0.round() as u64)),
        operators = Inline::code(&example.operators),
        from = named(example.from.name),
        to = named(example.to.name),
        around = code(evidence, example.around),
        frame = code(evidence, example.frame),
        fixed = code(evidence, group.fixed),
        last = factor.map(|_| ""),
        masked = factor.is_none().then_some(""),
        kernel = kernel.map(|identity| Inline::code(&identity.short)),
        epilogue = kernel.filter(|_| !pytorch).map(|identity| epilogue(&identity.short)),
        pytorch = pytorch.then_some(""),
        joint = is_joint.then_some(""),
        single = (!is_joint).then_some(""),
        training = trains.then_some(""),
        inference = (!trains).then_some(""),
    };
    let [inside, outside] = group.of_model;
    let is_outside = group.kind == ChainKind::Pointwise && outside > inside;
    let draft = Draft::new(subject.finding, arguments);
    match group.fixed {
        Some(_) => draft.cause_if(true).advice("advice_fixed"),
        None if group.norms.is_positive() => draft.root("root_cause_norms", "root_action_norms"),
        None if example.is_backward => draft
            .root("root_cause_backward", "root_action_backward")
            .advice("advice_backward"),
        None if is_joint => draft.cause_if(true).advice("advice_foreach"),
        None if is_outside => draft.root("root_cause_outside", "root_action_outside"),
        None => draft.cause_if(kernel.is_some()),
    }
}

fn trains(evidence: &Evidence<'_>) -> bool {
    let mut stages = evidence.stages.iter();
    stages.any(|stage| stage.kind.is_training())
}

/// The epilogue of cuBLASLt that does what a kernel of this name does.
fn epilogue(name: &str) -> &'static str {
    let name = name.to_lowercase();
    match name.as_str() {
        name if name.contains("gelu") => "CUBLASLT_EPILOGUE_GELU_BIAS",
        name if name.contains("relu") => "CUBLASLT_EPILOGUE_RELU_BIAS",
        _ => "CUBLASLT_EPILOGUE_BIAS",
    }
}

fn code(evidence: &Evidence<'_>, name: Option<StrId>) -> Option<Inline> {
    Some(Inline::code(evidence.session.text(name?)))
}

fn per_iteration(sum: Count, instances: f64) -> Quantity {
    Quantity::count((sum.0 / instances).round().max(1.0) as u64)
}

/// The outcome of a rule about groups of a kind: one finding per stage, or one about the measured loop where much of it
/// lies between stages.
fn outcome(evidence: &Evidence<'_>, kind: ChainKind) -> Outcome {
    let Ok(chains) = evidence.results.chains() else {
        return Outcome::INSUFFICIENT_DATA;
    };
    let needs_strides = matches!(
        kind,
        ChainKind::Repeat | ChainKind::Channels | ChainKind::Transpose
    );
    let mut places = chains.places.iter();
    let has_any = places.any(|place| place.group(kind).is_some());
    let lacks_rates = !chains.by_names && !chains.has_rates;
    let lacks_strides = needs_strides && !chains.has_strides;
    if lacks_rates {
        return Outcome::InsufficientData(words!(evidence, "findings.needs_peaks"));
    }
    // How many labels a loss ignores, no trace shows.
    let lacks_labels = kind == ChainKind::Logits && trains(evidence);
    if !has_any && (chains.by_names || lacks_strides || lacks_labels) {
        return Outcome::INSUFFICIENT_DATA;
    }
    let draft = |subject: Subject<'_>| {
        let is_of_calls = matches!(
            kind,
            ChainKind::Calls | ChainKind::Constant | ChainKind::Recomputed
        );
        let is_named = chains.by_names && !is_of_calls;
        let by_names = is_named.then(|| match kind {
            ChainKind::Epilogue => words!(evidence, "gemm_epilogue.by_names"),
            _ => words!(evidence, "findings.by_names"),
        });
        draft(evidence, subject).also(by_names.map(Inline::Text))
    };
    let saved = |place: &Place| place.group(kind).and_then(Group::saved).unwrap_or_default();
    let (mut outside, mut inside) = (Time::ZERO, Time::ZERO);
    for place in &chains.places {
        match place.stage {
            Some(_) => inside += saved(place),
            None => outside += saved(place),
        }
    }
    // What lies between stages is of all ranks, and the loop is of one.
    let has_ranks = evidence
        .stages
        .iter()
        .any(|stage| stage.scope.rank.is_some());
    if outside > (inside + outside) * BETWEEN && !has_ranks {
        let subject = of_loop(evidence, &chains.places, kind);
        return Outcome::of_drafts(subject.map(draft));
    }
    evidence.each_of_kernels(|stage| {
        let Some(place) = evidence.place(chains, stage) else {
            return Look::InsufficientData;
        };
        if kind == ChainKind::Pointwise && evidence.nan_checks(stage).is_some() {
            return Look::suppressed_by(evidence, "nan-checks");
        }
        let subject = of_stage(evidence, stage, place, kind);
        subject.map(draft).into()
    })
}

/// Groups of a stage of the primary pass; none if they save little or the GPU's rates are not known.
fn of_stage<'a>(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    place: &'a Place,
    kind: ChainKind,
) -> Option<Subject<'a>> {
    let group = place.group(kind)?;
    let kernels = (stage.operation_time * place.share(group.saved()?)).min(stage.busy);
    let removed = stage.operations.0 * group.removed.0 / place.operations.0.max(1.0);
    let causes = match kind {
        ChainKind::Experts => &OF_EXPERTS[..],
        ChainKind::Optimizer | ChainKind::Gemms | ChainKind::Attention => &OF_LOOPS[..],
        _ => &OF_LAUNCHES[..],
    };
    let within = removed * (group.within / group.removed.max(Count(1.0)));
    let per_launch = idle_per_launch(evidence, stage, causes);
    let per_call = of_calls(evidence, stage, per_launch, kernels / removed.max(1.0));
    // One gap less than operations lies between them.
    let launches = (per_launch * (removed - within) + per_call * within).min(stage.idle());
    let is_of_launches = match kind {
        // No operator of the program asked for these launches. What libraries prepare between launches is none of them.
        ChainKind::Channels => !known::prepares_mostly(evidence, stage),
        _ => is_of_launches(kind),
    };
    let is_after_launches = is_launch_bound(evidence, stage) && !is_of_launches;
    let (launches, finding) = match is_after_launches {
        true => (Time::ZERO, stage.saving_kernels(kernels)),
        false => (launches, stage.saving(kernels + launches)),
    };
    let saved = kernels + launches;
    if saved < stage.reference() * SAVED {
        return None;
    }
    // The other pass may have decoded fewer steps.
    let of_place = place.stage.as_ref().and_then(|summary| summary.steps);
    let per_step = match (of_place, stage.steps) {
        (Some(of_place), Some(steps)) => of_place.0 / steps.0,
        _ => 1.0,
    };
    let finding = Finding {
        parts: vec![(Part::Group(kind as u8), kernels)],
        ..finding
    };
    Some(Subject {
        finding,
        group,
        stage: Inline::strong(&stage.label),
        time: stage.operation_time * place.share(group.time),
        share: place.share(group.time),
        launches: Some(launches).filter(Time::is_positive),
        instances: place.instances() * per_step,
    })
}

/// Whether the CPU bounds the stage, and not by what happens once, such as first use.
fn is_launch_bound(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let Some(idle) = evidence.idle(stage.key()) else {
        return stage.is_host_bound;
    };
    let launching = idle.pool.causes.sum(&[Cause::Launching, Cause::HostCode]);
    stage.is_host_bound && launching.time() >= idle.idle().time() * BY_LAUNCHES
}

/// Whether many launches are what is wrong. Where the CPU bounds a stage with others, it is the launches of all kernels
/// that are too many.
const fn is_of_launches(kind: ChainKind) -> bool {
    matches!(
        kind,
        ChainKind::Optimizer | ChainKind::Experts | ChainKind::Gemms
    )
}

/// Idle time that goes with a launch within the operator of another kernel: of the call alone. Where the CPU bounds the
/// stage, the call takes its time while other kernels run, and it or the kernel counts, whichever takes longer.
fn of_calls(evidence: &Evidence<'_>, stage: &StageLine, per_launch: Time, kernel: Time) -> Time {
    let idle = evidence.idle(stage.key());
    let Some(call) = idle.and_then(|idle| idle.launches.mean_call) else {
        return per_launch;
    };
    // The profiler slows calls, too.
    let profiled = (stage.time - stage.busy).max(stage.idle());
    let call = match profiled.is_positive() {
        true => call * Ratio::of(stage.idle(), profiled),
        false => call,
    };
    match stage.is_host_bound {
        true => (call - kernel).max(Time::ZERO),
        false => per_launch.min(call),
    }
}

/// Idle time of these causes per gap between GPU operations; all idle time where its causes are not known.
fn idle_per_launch(evidence: &Evidence<'_>, stage: &StageLine, causes: &[Cause]) -> Time {
    let idle = stage.idle();
    let of_launches = match evidence.idle(stage.key()) {
        Some(stage_idle) => {
            let known: Time = causes
                .iter()
                .filter_map(|cause| match cause {
                    // What has a name of its own, such as a wait for data, stays.
                    Cause::HostCode => stage_idle.rest_of_stage(*cause).ok(),
                    // What holds the GPU for longer is no latency of a launch.
                    Cause::Queue => Some(stage_idle.ordinary_queue()),
                    _ => stage_idle.of_stage(*cause).ok(),
                })
                .sum();
            known.min(idle)
        }
        None => idle,
    };
    of_launches / (stage.operations - Count(1.0)).max(Count(1.0))
}

/// Groups of all stages and of what lies between them, as a part of the measured loop.
fn of_loop<'a>(
    evidence: &Evidence<'_>,
    places: &'a [Place],
    kind: ChainKind,
) -> Option<Subject<'a>> {
    let (mut time, mut saved, mut whole) = (Time::ZERO, Time::ZERO, Time::ZERO);
    let mut largest: Option<&Group> = None;
    for place in places {
        whole += place.time;
        let Some(group) = place.group(kind) else {
            continue;
        };
        time += group.time;
        saved += group.saved()?;
        if largest.is_none_or(|largest| largest.time < group.time) {
            largest = Some(group);
        }
    }
    let group = largest?;
    let busy = evidence.loop_busy();
    let saved = busy * Ratio::of(saved, whole);
    if saved < evidence.loop_time() * SAVED {
        return None;
    }
    let finding = evidence.saving_of_loop(evidence.loop_time(), None, saved);
    let subject = words!(evidence, "findings.measured_loop", label = None::<String>);
    let share = Ratio::of(time, whole);
    Some(Subject {
        group,
        stage: Inline::Text(subject),
        time: busy * share,
        share,
        launches: None,
        instances: 1.0,
        finding: Finding {
            scope: evidence.pass_scope(),
            parts: vec![(Part::Group(kind as u8), saved)],
            evidence: evidence
                .stages
                .first()
                .map(StageLine::evidence)
                .into_iter()
                .collect(),
            ..finding
        },
    })
}
