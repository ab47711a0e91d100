//! Why large leaves of the account have no action.
//!
//! Page one names what is worth doing. A reader who sees a tenth of the loop in one kernel and no action for it cannot know
//! whether the kernel is at its limit or was never judged. Each such leaf has its reason here.

use rooflens_analysis::counters::limits::LimitSource;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::kernel_sums;
use rooflens_analysis::operators::chains::ChainKind;
use rooflens_analysis::time::account::{NodeKind, Phase, Work};
use rooflens_analysis::time::idle::Cause;
use rooflens_document::{Finding, Gain, GainKind, Inline, Part, Quantity, Table};
use rooflens_session::{Arrange, CopyKind, KernelId, Ns};
use rooflens_units::{Count, Percent, Ratio, Time};

use super::actions::{Action, Effect};
use super::joint::FUSIBLE;
use super::operators;
use crate::evidence::Evidence;
use crate::pauses;
use crate::stage::StageLine;

/// Share of measured iterations from which on a leaf needs an action or a reason.
const LARGE: Ratio = Ratio(0.05);

/// The same from which on page one names it next to actions.
const NOTABLE: Ratio = Ratio(0.25);

/// The same from which on a report is about what bounds it.
const MOSTLY: Ratio = Ratio(0.5);

/// Rules about kernels that are no products.
const OF_OTHERS: [&str; 2] = [FUSIBLE, "optimizer-loop"];

/// A leaf of the account, summed over GPUs and ranks.
pub(super) struct Leaf {
    stage: String,
    kind: NodeKind,
    time: Ns,
    share: Ratio,
    /// The same of these and of the time between them.
    of_loop: Ratio,
    reason: String,
    lacks_counters: bool,
    /// Whether it lies between stages, where no rule judges kernels.
    is_between: bool,
    /// The iteration with the last of the stalls that it is.
    last: Option<Count>,
}

/// Leaves of at least [`LARGE`] without an action, the one with the most time first.
pub(super) fn leaves(
    evidence: &Evidence<'_>,
    findings: &[Finding],
    actions: &[Action<'_>],
) -> Vec<Leaf> {
    let (mut leaves, whole) = all(evidence);
    let of_loop = whole + between(evidence) - ended(evidence);
    for leaf in &mut leaves {
        leaf.of_loop = Ratio::of(leaf.time, of_loop.max(Ns(1)));
        leaf.share = match leaf.is_between {
            true => leaf.of_loop,
            false => Ratio::of(leaf.time, whole.max(Ns(1))),
        };
    }
    leaves.retain(|leaf| {
        let mut actions = actions.iter();
        leaf.share >= LARGE && !actions.any(|action| leaf.is_of_action(evidence, action))
    });
    for leaf in &mut leaves {
        leaf.last = match leaf.kind {
            NodeKind::Cause(Cause::HostCode) => {
                let mut stages = leaf.stages(evidence);
                stages.find_map(|stage| pauses::last(evidence, stage))
            }
            _ => None,
        };
        let reason = match leaf.is_between {
            true => Some(words!(evidence, "no_action.between")),
            false => leaf.reason(evidence, findings),
        };
        leaf.lacks_counters = reason.is_none();
        let operators = leaf.operators(evidence);
        leaf.reason = reason
            .unwrap_or_else(|| words!(evidence, "no_action.no_counters", operators = operators));
    }
    leaves.arrange_by_key(|leaf| std::cmp::Reverse(leaf.time));
    leaves
}

/// What a title calls the kernels of which only counters say what bounds them.
pub(super) fn unmeasured(evidence: &Evidence<'_>, leaves: &[Leaf]) -> Option<String> {
    let largest = leaves.first()?;
    if largest.is_unmeasured() {
        return Some(largest.label(evidence));
    }
    let unjudged = leaves.iter().filter(|leaf| leaf.lacks_counters);
    let share: Ratio = unjudged.map(|leaf| leaf.share).sum();
    (share >= LARGE).then(|| words!(evidence, "no_action.kernels", share = share))
}

/// What most of the time goes to, for the title, where actions are about less: a leaf where they save less than half as much,
/// else a class of kernels where they save less than a large leaf.
pub(super) fn most(evidence: &Evidence<'_>, leaves: &[Leaf], saved: Ratio) -> Option<String> {
    let title = |part: String, share: Ratio, is_busy: bool| {
        let idle = (!is_busy).then_some("");
        words!(
            evidence,
            "no_action.most",
            part = part,
            share = share,
            idle = idle
        )
    };
    // What has ended is no cost of later iterations.
    let largest = leaves.iter().find(|leaf| leaf.last.is_none())?;
    if largest.of_loop >= MOSTLY && saved < largest.of_loop * MOSTLY {
        let part = largest.label(evidence);
        return Some(title(part, largest.of_loop, largest.is_busy()));
    }
    let class = largest.class(evidence)?;
    let of_class = leaves
        .iter()
        .filter(|leaf| leaf.class(evidence) == Some(class));
    let share: Ratio = of_class.map(|leaf| leaf.of_loop).sum();
    let is_most = share >= MOSTLY && saved < LARGE;
    is_most.then(|| title(evidence.text.word(class.label()).to_owned(), share, true))
}

/// Time between measured iterations.
fn between(evidence: &Evidence<'_>) -> Ns {
    let idle = evidence.results.idle().ok();
    let phases = idle.into_iter().flat_map(|idle| idle.account.of_phases());
    let times = phases.filter(|(phase, _)| phase.is_between_measured());
    times.map(|(_, time)| time).sum()
}

/// Stalls that have ended, which are no part of the loop.
fn ended(evidence: &Evidence<'_>) -> Ns {
    let stages = evidence.stages.iter();
    let ended = stages.filter(|stage| pauses::last(evidence, stage).is_some());
    let stalls = ended.map(|stage| pauses::stalls_of_profiler(evidence, stage));
    stalls.sum::<Time>().round()
}

/// All leaves of measured iterations and of the work between them, and the time of the iterations.
fn all(evidence: &Evidence<'_>) -> (Vec<Leaf>, Ns) {
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut whole = Ns::ZERO;
    let nodes = match evidence.results.idle() {
        Ok(idle) => idle.account.nodes.as_slice(),
        Err(_) => &[],
    };
    let (mut place, mut is_between) = (None, false);
    for node in nodes {
        if let NodeKind::Phase(phase) = node.kind {
            is_between = phase.is_between_measured();
            let is_part = phase.is_measured() || is_between;
            place = is_part.then(|| match phase {
                Phase::Stage { stage, .. } => evidence.facts.stages[stage].name.clone(),
                _ => phase.name(evidence.session, evidence.facts),
            });
            whole += if phase.is_measured() {
                node.time
            } else {
                Ns::ZERO
            };
        }
        let is_leaf = match node.kind {
            NodeKind::Work(_) => true,
            NodeKind::Cause(_) | NodeKind::NoOperation => !is_between,
            _ => false,
        };
        let Some(stage) = place.as_ref().filter(|_| is_leaf) else {
            continue;
        };
        match leaves
            .iter_mut()
            .find(|leaf| leaf.kind == node.kind && leaf.stage == *stage)
        {
            Some(leaf) => leaf.time += node.time,
            None => leaves.push(Leaf {
                stage: stage.clone(),
                kind: node.kind,
                time: node.time,
                share: Ratio::ZERO,
                of_loop: Ratio::ZERO,
                reason: String::new(),
                lacks_counters: false,
                is_between,
                last: None,
            }),
        }
    }
    (leaves, whole)
}

impl Leaf {
    /// The stages of the primary pass that it is a part of, one a rank.
    fn stages<'a>(&'a self, evidence: &'a Evidence<'_>) -> impl Iterator<Item = &'a StageLine> {
        let stages = evidence.stages.iter();
        stages.filter(|stage| stage.scope.stage.as_ref() == Some(&self.stage))
    }

    /// The same of the stage around it, if its own is not judged.
    fn judged<'a>(&'a self, evidence: &'a Evidence<'_>) -> impl Iterator<Item = &'a StageLine> {
        let of_facts = &evidence.facts.stages;
        let is_judged = |name: &str| {
            let mut stages = evidence.stages.iter();
            stages.any(|stage| stage.scope.stage.as_deref() == Some(name))
        };
        let mut name = self.stage.as_str();
        let mut stage = of_facts.iter().find(|stage| stage.name == name);
        while let Some(outer) = stage
            .and_then(|stage| stage.parent)
            .filter(|_| !is_judged(name))
        {
            name = of_facts[outer].name.as_str();
            stage = Some(&of_facts[outer]);
        }
        let stages = evidence.stages.iter();
        stages.filter(move |stage| stage.scope.stage.as_deref() == Some(name))
    }

    /// What it is: a kernel, a copy, or a cause of idle time.
    fn label(&self, evidence: &Evidence<'_>) -> String {
        let (session, facts) = (evidence.session, evidence.facts);
        match self.kind {
            NodeKind::Work(Work::Kernel(kernel)) => facts.identities[kernel.index()].short.clone(),
            _ => self.kind.name(session, facts),
        }
    }

    /// Its share of the measured iterations, and why it has no action.
    pub(super) fn sentence(&self, evidence: &Evidence<'_>) -> Vec<Inline> {
        let part = Inline::code(evidence.text.word(&self.label(evidence)));
        let stage = (evidence.stages.len() > 1).then(|| Inline::strong(&self.stage));
        if self.lacks_counters {
            let command = self.command(evidence).map(Inline::Code);
            return say!(
                evidence,
                "no_action.unjudged",
                part = part,
                share = self.share,
                stage = stage,
                operators = self.operators(evidence).map(Inline::code),
                command = command,
            );
        }
        say!(
            evidence,
            "no_action.largest",
            part = part,
            share = self.share,
            idle = (!self.is_busy()).then_some(""),
            stage = stage,
            reason = self.reason.as_str(),
        )
    }

    /// Whether only counters say what bounds it.
    pub(super) fn lacks_counters(&self) -> bool {
        self.lacks_counters
    }

    /// Whether it is also most of the time.
    pub(super) fn is_unmeasured(&self) -> bool {
        self.lacks_counters && self.share >= MOSTLY
    }

    /// Operators of PyTorch that launch its kernel.
    fn operators(&self, evidence: &Evidence<'_>) -> Option<&'static str> {
        match self.kind {
            NodeKind::Work(Work::Kernel(kernel)) if evidence.platform.pytorch => {
                operators::of_kernel(evidence.session.kernel_name(kernel))
            }
            _ => None,
        }
    }

    /// The command of Nsight Compute that profiles a typical launch of its kernel.
    fn command(&self, evidence: &Evidence<'_>) -> Option<String> {
        let NodeKind::Work(Work::Kernel(kernel)) = self.kind else {
            return None;
        };
        let (session, facts) = (evidence.session, evidence.facts);
        let selected = kernel_sums::select(session, facts, Some(&self.stage), usize::MAX)?;
        let selected = selected.into_iter().find(|row| row.kernel == kernel)?;
        // What an export shortened is no name.
        let skip = selected
            .launches
            .first()
            .filter(|_| !selected.function.ends_with("..."))?;
        let name = kernel_sums::exactly(&selected.function);
        Some(format!(
            "ncu --set full --kernel-name-base function --kernel-name 'regex:{name}' \
             --launch-skip {skip} --launch-count 1 COMMAND"
        ))
    }

    /// Whether page one names it next to actions.
    pub(super) fn is_notable(&self) -> bool {
        self.of_loop >= NOTABLE && self.last.is_none()
    }

    fn is_busy(&self) -> bool {
        matches!(self.kind, NodeKind::Work(_))
    }

    fn class(&self, evidence: &Evidence<'_>) -> Option<KernelClass> {
        match self.kind {
            NodeKind::Work(Work::Kernel(kernel)) => {
                Some(evidence.facts.identities[kernel.index()].class)
            }
            _ => None,
        }
    }

    fn is_matrix_work(&self, evidence: &Evidence<'_>) -> bool {
        self.class(evidence)
            .is_some_and(KernelClass::is_matrix_work)
    }

    fn is_of_action(&self, evidence: &Evidence<'_>, action: &Action<'_>) -> bool {
        action
            .changes()
            .any(|change| self.is_of_change(evidence, change))
    }

    fn is_of_change(&self, evidence: &Evidence<'_>, action: &Action<'_>) -> bool {
        if action.finding.id == FUSIBLE && self.is_matrix_work(evidence) {
            return false;
        }
        let is_of_stage = |stage: &StageLine| {
            let of_loop = action.saved_kernels(stage);
            let saving = action.saving_of(stage);
            saving.is_some_and(|(finding, gain)| self.is_saved(evidence, &finding.parts, gain))
                || self.has_part(evidence, of_loop)
        };
        let mut stages = self.stages(evidence);
        match action.effect {
            Effect::Stage(_) => stages.any(is_of_stage),
            Effect::Stalls(stalled) => {
                !self.is_busy() && stages.any(|stage| stage.key() == stalled.key())
            }
            Effect::Run => match action.finding.parts.is_empty() {
                true => !self.is_busy(),
                false => stages.any(is_of_stage),
            },
        }
    }

    /// Whether a gain is of this leaf: of idle time, or of operations that hold it.
    fn is_saved(&self, evidence: &Evidence<'_>, parts: &[(Part, Time)], gain: &Gain) -> bool {
        let is_idle = gain.kind != GainKind::Work;
        let of_parts = parts.iter().map(|(_, saved)| *saved).sum();
        match self.is_busy() {
            true if parts.is_empty() => !is_idle,
            true => self.has_part(evidence, parts),
            false => is_idle || !parts.is_empty() && gain.saved_ns > of_parts,
        }
    }

    /// Whether these parts hold it. Which kernels a group has is not known by row: those of chains that can be fused, or
    /// moved, have no products.
    fn has_part(&self, evidence: &Evidence<'_>, parts: &[(Part, Time)]) -> bool {
        parts.iter().any(|(part, _)| match (part, self.kind) {
            (Part::Kernel(row), NodeKind::Work(Work::Kernel(kernel))) => *row == kernel.0,
            (Part::Group(kind), NodeKind::Work(Work::Kernel(_))) => {
                let is_fusible = self.class(evidence).is_some_and(KernelClass::is_fusible);
                is_fusible || *kind < ChainKind::Repeat as u8
            }
            (Part::Copies, NodeKind::Work(Work::Copy(_))) => true,
            (Part::Communication, _) => self.class(evidence) == Some(KernelClass::Communication),
            _ => false,
        })
    }

    /// Why it has no action; none of a kernel of which only counters would tell.
    fn reason(&self, evidence: &Evidence<'_>, findings: &[Finding]) -> Option<String> {
        if let Some(last) = self.last {
            return Some(words!(evidence, "no_action.ended", last = last));
        }
        let about_stage = findings.iter().filter(|finding| {
            !finding.on_measurement && finding.scope.stage.as_ref() == Some(&self.stage)
        });
        let mut savings = about_stage.filter_map(|finding| Some((finding, finding.gain.as_ref()?)));
        let found = savings.find(|(finding, gain)| {
            let is_of_kind = self.is_busy() || gain.kind != GainKind::Work;
            let is_other = OF_OTHERS.contains(&finding.id) && self.is_matrix_work(evidence);
            is_of_kind && !is_other && self.is_saved(evidence, &finding.parts, gain)
        });
        if let Some((finding, gain)) = found {
            return Some(words!(
                evidence,
                "no_action.found",
                rule = evidence.text.rule(finding.id),
                saved = gain.saved_ns,
                whole = gain.of.as_str(),
                of = gain.of_ns,
            ));
        }
        Some(match self.kind {
            NodeKind::Work(Work::Kernel(kernel)) => return self.reason_of_kernel(evidence, kernel),
            NodeKind::Work(Work::Copy(_)) => words!(evidence, "no_action.copies"),
            NodeKind::Work(Work::Graph) => words!(evidence, "no_action.graph"),
            NodeKind::Cause(cause) => self.reason_of_idle(evidence, cause),
            _ => words!(evidence, "no_action.no_operation"),
        })
    }

    fn reason_of_kernel(&self, evidence: &Evidence<'_>, kernel: KernelId) -> Option<String> {
        if self.class(evidence) == Some(KernelClass::Communication) {
            return Some(words!(evidence, "no_action.collective"));
        }
        // Kernels of a rank that waits share the GPU with collectives.
        let (waiting, computing): (Vec<_>, Vec<_>) = self
            .judged(evidence)
            .partition(|stage| stage.waits_for.is_some());
        for stage in computing.into_iter().chain(waiting) {
            let limits = evidence.limits(stage).map(|limits| &limits.kernels);
            let limits = limits.into_iter().flatten();
            let of_kernel = limits.filter(|limit| limit.kernel == Some(kernel));
            if let Some(limit) = of_kernel.max_by_key(|limit| limit.now)
                && let LimitSource::Counters(profile) = limit.source
                && let Ok(counters) = evidence.results.counters()
            {
                let launch = counters.launch(profile);
                let memory = launch.sol.memory.dram;
                let used = launch.sol.compute.into_iter().chain(memory);
                let used = used.max_by(Percent::total_cmp);
                let used = used.map(|used| Ratio(used.0 / 100.0));
                return Some(match limit.causes.is_empty() {
                    true if limit.is_small() => words!(
                        evidence,
                        "no_action.small_grid",
                        blocks = Quantity::count(limit.grid.volume()),
                        sms = limit.sms.map(|sms| Quantity::count(sms.into())),
                        used = used,
                    ),
                    true => words!(evidence, "no_action.sound", used = used),
                    false => words!(evidence, "no_action.small_fault", used = used),
                });
            }
            let products = evidence.gemms(stage).into_iter();
            let products = products.chain(evidence.attention(stage));
            let groups = products.flat_map(|products| &products.groups);
            let of_kernel = groups.filter(|group| group.kernel == kernel);
            let (mut time, mut least) = (Ns::ZERO, None);
            for group in of_kernel {
                time += group.sum.time;
                least = group
                    .sum
                    .least
                    .map(|of_group| of_group + least.unwrap_or_default());
            }
            if let Some(least) = least {
                let share = Ratio::of(least, time.time());
                return Some(words!(evidence, "no_action.roofline", share = share));
            }
        }
        None
    }

    /// Copies of managed memory to the CPU, which waits for each: no call of CUDA is recorded there.
    fn migrations(&self, evidence: &Evidence<'_>) -> u64 {
        let places = self
            .stages(evidence)
            .filter_map(|stage| evidence.copies(stage));
        let kinds = places.flat_map(|copies| &copies.sums.kinds);
        let migrations = kinds.filter(|(kind, _)| kind.0 == CopyKind::MigrateToHost);
        migrations.map(|(_, sum)| sum.count).sum()
    }

    fn reason_of_idle(&self, evidence: &Evidence<'_>, cause: Cause) -> String {
        let lacks_names = evidence.has_no_samples() && evidence.has_only_names();
        match cause {
            Cause::Unknown | Cause::HostCode if self.migrations(evidence) > 0 => words!(
                evidence,
                "no_action.migrations",
                count = Quantity::count(self.migrations(evidence))
            ),
            Cause::HostCode | Cause::Os | Cause::OffCpu if lacks_names => {
                words!(evidence, "no_action.no_stacks")
            }
            Cause::Unknown => words!(evidence, "no_action.unknown"),
            Cause::Profiler => words!(evidence, "no_action.profiler"),
            Cause::Communication => words!(evidence, "no_action.collective"),
            Cause::OtherWork => words!(evidence, "no_action.other_work"),
            _ => words!(evidence, "no_action.below"),
        }
    }
}

/// One row a leaf.
pub(super) fn table<'t>(evidence: &'t Evidence<'_>) -> Table<'t, Leaf> {
    let text = evidence.text;
    Table::new(text, "no_action")
        .name("stage", |leaf: &Leaf| leaf.stage.clone())
        .text("kind", |leaf| leaf.kind.label())
        .text("label", |leaf| leaf.label(evidence))
        .share("share", |leaf| leaf.share)
        .text("reason", |leaf| leaf.reason.clone())
        .all_on_page()
        .time("ns", |leaf| leaf.time)
}
