//! The first page: what is slow, what to do about it, what that brings at most, and how sure it is.

mod actions;
mod bars;
mod cards;
mod conclusion;
mod confidence;
mod coverage;
mod figures;
mod hardware;
mod joint;
mod leaves;
mod operators;
mod passes;
mod remedies;
mod tiles;
mod unjudged;
mod waterfall;
mod whole;

use self::actions::{Action, Effect};
use self::confidence::{Confidence, ITERATIONS};
use self::figures::Figure;
use self::leaves::Leaf;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use crate::stage::{SLOWED, StageLine};
use crate::time::stage_busy;
use crate::{imbalances, known, launching, pauses};
use rooflens_analysis::counters::ncu::bound::{self, Bound};
use rooflens_analysis::engine::facts::StageInstance;
use rooflens_analysis::engine::repeats::is_repeating;
use rooflens_analysis::time::graphs::StageGraph;
use rooflens_document::{
    Block, Cell, Finding, Gain, GainKind, Inline, Quantity, SectionContent, Severity, Table,
};
use rooflens_schemas::ranges::PROFILER_STEP;
use rooflens_schemas::{StageKind, Unit};
use rooflens_units::{Count, Percent, Ratio, Seconds, Time};

/// Remarks on the measurement that stand next to the conclusions.
const SHOWN_LIMITS: usize = 5;

/// Caveats and actions on the first page together; the quality of the measurement has the other caveats.
const SHOWN_ITEMS: usize = 5;
const SHOWN_CAVEATS: usize = 3;

/// Leaves without an action that the report lists.
const SHOWN_LEAVES: usize = 8;

/// Stages of which the summary says what their time goes to.
const SHOWN_STAGES: usize = 3;

/// The rule about the bound class of most kernels.
const BOUND_CLASS: &str = "profiled-bound";

/// Faults of kernels that the first page names where there are counters alone.
const SHOWN_FAULTS: usize = 2;

/// Rules about idle time that goes where one launch replays all operations.
const WITH_LAUNCHES: [&str; 3] = [HOST, "allocator-stalls", "first-use"];

/// The rule about stages that get slower or faster.
const PACE: &str = "uneven-pace";

/// The rule about host code.
const HOST: &str = "host-bound";

/// Sentences, each a paragraph or an item of a list.
type Sentences = Vec<Vec<Inline>>;

/// The blocks of the first page, with their tables; the main part is for the section of findings, and blocks on times for
/// that of times. With them, the number of the action that each finding is part of.
pub(crate) fn summary(
    evidence: &Evidence<'_>,
    findings: &[Finding],
    outcomes: &[(&'static Rule, Outcome)],
) -> (SectionContent, Vec<Option<usize>>) {
    let actions = actions::first_actions(evidence, findings);
    let whole = whole::Whole::new(evidence, &actions);
    let figures = figures::figures(evidence, &actions, whole.as_ref());
    let leaves = leaves::leaves(evidence, findings, &actions);
    let unmeasured = leaves::unmeasured(evidence, &leaves);
    let unexplained = leaves.first().filter(|leaf| leaf.is_notable());
    let mut content = SectionContent {
        conclusion: conclusion::conclusion(
            evidence,
            whole.as_ref(),
            &actions,
            &leaves,
            unmeasured.as_deref(),
        ),
        ..SectionContent::default()
    };
    content
        .blocks
        .extend(unrecorded(evidence).map(Block::Prose));
    let line = match actions.is_empty() {
        true => bottom_line(evidence, findings, leaves.first()),
        false => unexplained.map_or_else(Vec::new, |leaf| leaf.sentence(evidence)),
    };
    content
        .blocks
        .extend((!line.is_empty()).then_some(Block::Prose(line)));
    if let Some(whole) = &whole {
        add_whole(evidence, whole, &mut content);
    }
    add_figures(
        evidence,
        whole.as_ref(),
        actions.len(),
        &figures,
        &mut content,
    );
    content
        .blocks
        .extend(experiment(evidence, findings).map(Block::Prose));
    if !actions.is_empty() {
        let heading = evidence.text.line("summary.actions", &[]);
        content.blocks.push(Block::Heading(heading));
        let cards = cards::cards(evidence, &actions, &figures, whole.as_ref());
        content.blocks.push(Block::Actions(cards));
        let numbered: Vec<(usize, &Action<'_>)> = (1..).zip(&actions).collect();
        content
            .datasets
            .push(action_table(evidence, whole.as_ref()).rows(&numbered));
    }
    add_leaves(evidence, &leaves, &mut content);
    // Contended atomics, for one, are no faster on a larger GPU.
    if let Some(faster) = whole
        .as_ref()
        .filter(|_| !leaves.first().is_some_and(Leaf::is_unmeasured))
        .map(|whole| hardware::faster_gpus(evidence, whole, &actions))
    {
        content.blocks.push(Block::Prose(faster));
    }
    let is_loop = whole
        .as_ref()
        .is_some_and(|whole| whole.kind == whole::Kind::Loop);
    let mut caveats = limits(evidence, findings, &actions, is_loop);
    let shown = shown_caveats(&actions);
    content.caveats = caveats.split_off(caveats.len().min(shown));
    if !caveats.is_empty() {
        let heading = evidence.text.line("summary.limits", &[]);
        content.blocks.push(Block::Heading(heading));
        content.blocks.push(Block::List(caveats));
    }
    content
        .blocks
        .extend(unjudged::line(evidence, outcomes).map(Block::Prose));
    let lists = [
        ("summary.why", why(evidence, findings, &actions)),
        ("summary.after", after(evidence, findings, &actions)),
    ];
    for (key, items) in lists {
        if !items.is_empty() {
            let heading = evidence.text.line(key, &[]);
            content.times.push(Block::Heading(heading));
            content.times.push(Block::List(items));
        }
    }
    let number = |finding: &Finding| {
        let mut actions = actions.iter();
        let position = actions.position(|action| action.is_of(finding))?;
        Some(position + 1)
    };
    let numbers = findings.iter().map(number).collect();
    (content, numbers)
}

/// What to try where one of two causes holds: nothing is saved for sure.
fn experiment(evidence: &Evidence<'_>, findings: &[Finding]) -> Option<Vec<Inline>> {
    let mut findings = findings.iter();
    let finding = findings.find(|finding| {
        finding.id == imbalances::RULE
            && finding.gain.is_none()
            && finding.severity >= Severity::Warning
    })?;
    let root = finding.root.as_ref()?;
    let mut uneven = imbalances::uneven_stages(evidence).into_iter();
    let (_, times) = uneven.find(|(ranks, times)| {
        let stage = ranks.lines[times.slowest].stage_name(&evidence.context);
        times.is_uneven() && stage == finding.scope.stage.as_deref()
    })?;
    Some(say!(
        evidence,
        "summary.experiment",
        difference = times.most - times.least,
        action = root.action.as_str(),
        cause = root.cause.as_str(),
        condition = root.condition.as_deref(),
    ))
}

/// Times now and after actions, of which there are so many.
fn add_figures(
    evidence: &Evidence<'_>,
    whole: Option<&whole::Whole<'_>>,
    actions: usize,
    figures: &[Figure],
    content: &mut SectionContent,
) {
    if !figures.is_empty() {
        let table = figure_table(evidence, actions, figures);
        let has_limit = figures.iter().any(|figure| figure.limit.is_some());
        let caption = words!(
            evidence,
            "summary.figures",
            after = (actions > 0).then_some(""),
            limit = has_limit.then_some(""),
            overlap = whole.and_then(whole::Whole::overlap),
        );
        content
            .times
            .push(Block::Table(table.view(caption, figures.len())));
        content.datasets.push(table.rows(figures));
    }
}

/// The parts of the time that no action is about.
fn add_leaves(evidence: &Evidence<'_>, leaves: &[Leaf], content: &mut SectionContent) {
    if leaves.is_empty() {
        return;
    }
    let table = leaves::table(evidence);
    let caption = words!(evidence, "no_action.caption");
    let shown = leaves.len().min(SHOWN_LEAVES);
    let view = table.view(caption, shown);
    content.main.push(Block::Table(view));
    content.datasets.push(table.rows(leaves));
}

/// Which operations the capture lacks, where it has a timeline.
fn unrecorded(evidence: &Evidence<'_>) -> Option<Vec<Inline>> {
    let session = evidence.session;
    let has_kernels = !session.launches.is_empty() || !session.graph_launches.is_empty();
    match evidence.facts.ops.len() {
        0 if !session.operators.is_empty() => Some(say!(evidence, "summary.no_operation")),
        1.. if !has_kernels => Some(say!(evidence, "summary.no_kernel")),
        _ => None,
    }
}

/// Tiles and the chart.
fn add_whole(evidence: &Evidence<'_>, whole: &whole::Whole<'_>, content: &mut SectionContent) {
    let tiles = tiles::tiles(evidence, whole);
    let mut values = Vec::new();
    for tile in &tiles {
        values.push((tile, None));
        values.extend(tile.others.iter().map(|other| (tile, Some(other))));
    }
    content.datasets.push(tiles::table(evidence).rows(&values));
    content
        .times
        .extend(tiles::training_line(evidence, whole, &tiles).map(Block::Prose));
    content.blocks.push(Block::Tiles(tiles));
    let (blocks, steps) = waterfall::blocks(evidence, whole);
    content.times.extend(blocks);
    content.datasets.extend(steps);
    let (chart, parts) = bars::bars(evidence, whole);
    content.blocks.push(Block::Chart(chart));
    content.datasets.push(bars::table(evidence).rows(&parts));
}

fn is_on_stage(finding: &&Finding) -> bool {
    finding.id == stage_busy::ID
}

/// Without actions, what the stages spend their time on, and why the largest part has no action.
fn bottom_line(
    evidence: &Evidence<'_>,
    findings: &[Finding],
    largest: Option<&Leaf>,
) -> Vec<Inline> {
    let mut sentences = Sentences::new();
    for finding in findings.iter().filter(is_on_stage).take(2) {
        sentences.push(finding.statement.clone());
    }
    let counters = match evidence.stages.is_empty() {
        true => counters_line(evidence),
        false => None,
    };
    // Where there is nothing at all, the report says what is missing.
    let is_empty = evidence.stages.is_empty() && findings.is_empty();
    let is_judged = !largest.is_some_and(Leaf::lacks_counters);
    let no_action = (!is_empty && is_judged).then(|| say!(evidence, "summary.no_action"));
    if counters.is_some() {
        // The sentence about counters says the bound class already.
        let is_fault = |finding: &&Finding| !finding.on_measurement && finding.id != BOUND_CLASS;
        let faults = findings.iter().filter(is_fault);
        sentences.extend(counters);
        sentences.extend(
            faults
                .take(SHOWN_FAULTS)
                .map(|fault| fault.statement.clone()),
        );
    } else {
        sentences.extend(no_action);
    }
    sentences.extend(largest.map(|leaf| leaf.sentence(evidence)));
    if let Ok(graphs) = evidence.results.graphs() {
        let eager = graphs.by_stage.iter().find(|graph| graph.eager.is_some());
        sentences.extend(eager.and_then(|graph| graph_line(evidence, graph)));
    }
    sentences.join(&Inline::from(evidence.text.space()))
}

/// What counters alone tell: the profiled launches and the one with the most time.
fn counters_line(evidence: &Evidence<'_>) -> Option<Vec<Inline>> {
    let passes = evidence.results.rooflines().ok()?;
    let groups: Vec<_> = passes.iter().flat_map(|pass| &pass.groups).collect();
    let seconds = groups
        .iter()
        .map(|group| group.seconds)
        .sum::<Option<Seconds>>()?;
    let mut longest = *groups.first()?;
    for group in &groups {
        if group.seconds > longest.seconds {
            longest = group;
        }
    }
    let percent = |value: Percent| Ratio(value.0 / 100.0);
    let is_small = longest.reason == Some(bound::Reason::SmallGrid);
    let is_known = longest.bound != Bound::Unknown;
    let reason = longest.reason.as_ref().filter(|_| is_known && !is_small);
    Some(say!(
        evidence,
        "summary.counters",
        launches = Quantity::count(groups.iter().map(|group| group.launches).sum()),
        time = seconds,
        kernel = Inline::code(&longest.short),
        share = Ratio(longest.seconds? / seconds),
        bound = is_known.then(|| evidence.text.word(longest.bound.label())),
        unknown = (!is_known).then_some(""),
        grid = is_small.then(|| Quantity::count(longest.grid.volume())),
        reason = reason.map(ToString::to_string),
        compute = longest.compute.map(percent),
        memory = longest.memory.map(percent),
    ))
}

/// What replaying the same kernels as a CUDA graph brings, where the bundle has both.
fn graph_line(evidence: &Evidence<'_>, graph: &StageGraph) -> Option<Vec<Inline>> {
    let (eager, ratio) = graph.speedup()?;
    let counted = Count(eager.counted as f64);
    Some(say!(
        evidence,
        "summary.graph_line",
        stage = Inline::strong(eager.label(evidence.session, evidence.facts)),
        eager = eager.time,
        replay = graph.figures.time?,
        ratio = Quantity::new(ratio.0, Unit::One),
        few = (counted < ITERATIONS).then_some(counted),
    ))
}

/// What an iteration of a stage, or a step of it, takes before and after an action.
struct Drop {
    now: Time,
    after: Time,
    step: Option<&'static str>,
}

impl Drop {
    /// As the figures show it: no more goes than the stage has.
    fn new(stage: &StageLine, action: &Action<'_>, gain: &Gain) -> Self {
        let steps = stage.steps.filter(|_| stage.is_decode());
        let parts = steps.unwrap_or(Count(1.0));
        let saved = joint::saved(stage, std::slice::from_ref(action)).min(gain.saved_ns);
        Self {
            now: gain.of_ns / parts,
            after: (gain.of_ns - saved) / parts,
            step: steps.map(|_| ""),
        }
    }
}

fn action_line(evidence: &Evidence<'_>, action: &Action<'_>) -> Vec<Inline> {
    let cause = action.cause(evidence.text);
    let (saved, whole) = (action.gain.saved_ns, action.gain.of_ns);
    match action.effect {
        Effect::Stage(stage) if action.gain.kind == GainKind::Measured => {
            let graph = evidence.replay(stage);
            graph
                .and_then(|graph| graph_line(evidence, graph))
                .unwrap_or_default()
        }
        Effect::Stage(stage) => {
            let drop = Drop::new(stage, action, action.gain);
            let others = action.others(actions::NAMED).map(|(stage, gain)| {
                let other = Drop::new(stage, action, gain);
                words!(
                    evidence,
                    "summary.other_stage",
                    stage = stage.label(),
                    now = other.now,
                    after = other.after,
                    step = other.step
                )
            });
            let others: Vec<String> = others.collect();
            let others = (!others.is_empty()).then(|| others.join(evidence.text.comma()));
            say!(
                evidence,
                "summary.stage_line",
                stage = Inline::strong(&stage.label),
                now = drop.now,
                after = drop.after,
                step = drop.step,
                others = others,
                cause = cause,
            )
        }
        Effect::Stalls(stage) => {
            // Stalls in CPU code are what a first run has more of; of other causes nothing says so.
            let is_pause = action.finding.id == pauses::RULE;
            let (first, more) = cold(evidence, stage).filter(|_| is_pause).unzip();
            let is_in_first = is_pause && pauses::are_in_first(evidence, stage);
            say!(
                evidence,
                "summary.stalls_line",
                stage = Inline::strong(&stage.label),
                saved = saved,
                count = stage.counted,
                in_first = is_in_first.then_some(""),
                first = first,
                more = more,
                cause = cause,
            )
        }
        Effect::Run => say!(
            evidence,
            "summary.run_line",
            saved = saved,
            of = whole,
            whole = action.gain.of.as_str(),
            cause = cause,
        ),
    }
}

/// Time of the first unprofiled repeat of a stage, if that is a slow one, and how much more than the median it is.
fn cold(evidence: &Evidence<'_>, stage: &StageLine) -> Option<(Time, Time)> {
    let series = evidence.unprofiled_series(stage)?;
    if series.settling > 0 {
        return None;
    }
    let first = series.repeats.iter().find(|repeat| repeat.is_cold())?;
    let time = first.duration.time();
    Some((time, time - first.typical))
}

/// That the only unprofiled run of a stage is slower than a profiled one, in words: part of it is one-time cost.
fn cold_only(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Vec<Inline>> {
    let time = cold_time(evidence, stage)?;
    Some(say!(
        evidence,
        "summary.cold_only",
        stage = Inline::strong(&stage.label),
        time = time,
        profiled = stage.time,
    ))
}

/// The time of the only unprofiled run of a stage, if it is longer than with a profiler.
fn cold_time(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Time> {
    let [only] = evidence.unprofiled_series(stage)?.repeats.as_slice() else {
        return None;
    };
    let time = only.duration.time();
    (time > stage.time * SLOWED).then_some(time)
}

/// Whether training steps call models without gradients, too, whose FLOPs no model describes.
fn calls_frozen(evidence: &Evidence<'_>) -> bool {
    let (calls, facts) = (&evidence.session.model_calls, evidence.facts);
    let steps = evidence.stages.iter();
    let mut steps = steps.filter(|stage| stage.kind == StageKind::TrainStep);
    steps.any(|stage| {
        let instances = facts.instances_of(&facts.stages[stage.stage]);
        (0..calls.len()).any(|row| {
            let is_frozen = evidence.session.text(calls.phase[row]) != "train";
            let holds = |instance: &StageInstance| {
                instance.thread == Some(calls.thread[row])
                    && (instance.host_start..instance.host_end).contains(&calls.start[row])
            };
            is_frozen && instances.iter().any(holds)
        })
    })
}

/// One column an action: what stands in it holds if all actions up to it are taken.
fn figure_table<'t>(
    evidence: &Evidence<'t>,
    actions: usize,
    figures: &[Figure],
) -> Table<'t, Figure> {
    let after = |nth: usize| {
        move |figure: &Figure| figure.after.get(nth).copied().flatten().map(Cell::Quantity)
    };
    Table::new(evidence.text, "summary_figures")
        .text("figure", |figure: &Figure| figure.label.clone())
        .on_page()
        .text("unit", |figure| figure.now.base())
        .text("now", |figure| Cell::Quantity(figure.now))
        .on_page()
        .text("after_1", after(0))
        .on_page_if(actions >= 1)
        .text("after_2", after(1))
        .on_page_if(actions >= 2)
        .text("after_3", after(2))
        .on_page_if(actions >= 3)
        .text("limit", |figure| figure.limit.map(Cell::Quantity))
        .on_page_if(figures.iter().any(|figure| figure.limit.is_some()))
}

fn action_table<'t>(
    evidence: &'t Evidence<'_>,
    whole: Option<&'t whole::Whole<'_>>,
) -> Table<'t, (usize, &'t Action<'t>)> {
    let text = evidence.text;
    Table::new(text, "summary_actions")
        .count("number", |(number, _): &(usize, &Action<'_>)| *number)
        .text("action", move |(_, action)| action.what_to_do(text))
        .text("effect", move |(_, action)| {
            figures::effect(evidence, whole, action)
        })
        .text("condition", move |(_, action)| action.condition(text))
        .text("confidence", |(_, action)| confidence(evidence, action))
        .all_on_page()
        .text("rule", |(_, action)| action.finding.id.to_owned())
        .text("also", |(_, action)| action.other_rules().join(", "))
        .time("saved_ns", |(_, action)| action.gain.saved_ns)
        .time("of_ns", |(_, action)| action.gain.of_ns)
        .time("run_saved_ns", |(_, action)| {
            figures::joint_of_run(evidence, action).unwrap_or(action.saved_of_run())
        })
        .time("run_ns", |_| evidence.loop_time())
        .count("iterations", |(_, action)| {
            iterations(evidence, action).0 as u64
        })
}

/// Measured iterations of the stage of an action; of the stage with the most where it is about the run.
fn iterations(evidence: &Evidence<'_>, action: &Action<'_>) -> Count {
    match action.effect {
        Effect::Stage(stage) | Effect::Stalls(stage) => stage.counted,
        Effect::Run => most_iterations(evidence),
    }
}

/// Measured iterations of the stage with the most.
fn most_iterations(evidence: &Evidence<'_>) -> Count {
    let counts = evidence.stages.iter().map(|stage| stage.counted);
    counts.fold(
        Count::ZERO,
        |most, count| if count > most { count } else { most },
    )
}

fn confidence(evidence: &Evidence<'_>, action: &Action<'_>) -> String {
    let (level, why) = confidence::of_action(evidence, action);
    let why: String = why.iter().map(Inline::plain).collect();
    match level {
        Confidence::High => words!(evidence, "summary.high", why = why),
        Confidence::Medium => words!(evidence, "summary.medium", why = why),
        Confidence::Low => words!(evidence, "summary.low", why = why),
    }
}

/// What the time of the stages goes to, those with actions first; of ranks that do alike, of one.
fn why(evidence: &Evidence<'_>, findings: &[Finding], actions: &[Action<'_>]) -> Sentences {
    if actions.is_empty() {
        return Sentences::new();
    }
    let has_action = |finding: &&Finding| {
        let stage = &finding.scope.stage;
        actions
            .iter()
            .any(|action| action.finding.scope.stage == *stage)
    };
    let on_stages = findings.iter().filter(is_on_stage);
    let (with_actions, without): (Vec<&Finding>, Vec<&Finding>) = on_stages.partition(has_action);
    let mut distinct: Vec<&Finding> = Vec::new();
    for finding in with_actions.into_iter().chain(without) {
        if !distinct
            .iter()
            .any(|earlier| is_alike(evidence, earlier, finding))
        {
            distinct.push(finding);
        }
    }
    distinct.truncate(SHOWN_STAGES);
    distinct
        .into_iter()
        .map(|finding| finding.statement.clone())
        .collect()
}

/// Whether two findings are about ranks of a stage none of which waits for another.
fn is_alike(evidence: &Evidence<'_>, a: &Finding, b: &Finding) -> bool {
    let waits = |finding: &Finding| {
        let mut stages = evidence.stages.iter();
        let stage = stages.find(|stage| stage.scope == finding.scope);
        stage.is_none_or(|stage| stage.waits_for.is_some())
    };
    a.scope.stage == b.scope.stage && !waits(a) && !waits(b)
}

/// What limits the stages once the actions are taken: the next finding of each.
fn after(evidence: &Evidence<'_>, findings: &[Finding], actions: &[Action<'_>]) -> Sentences {
    let mut sentences = Sentences::new();
    for action in actions {
        let Effect::Stage(stage) = action.effect else {
            continue;
        };
        // Most kernels of the stage go with those that are tried.
        let kernels_go = known::prepares_mostly(evidence, stage);
        let next = findings
            .iter()
            .filter(|_| !kernels_go)
            .find(|finding| is_next(evidence, finding, action, actions));
        let Some((next, gain)) = next.and_then(|next| Some((next, next.gain.as_ref()?))) else {
            continue;
        };
        let sentence = say!(
            evidence,
            "summary.after_line",
            stage = Inline::strong(&stage.label),
            cause = actions::cause(evidence.text, next),
            saved = gain.saved_ns,
            of = gain.of_ns,
            whole = gain.of.as_str(),
            share = gain.share(),
        );
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// Whether a finding about the same stage stays after an action, and is none itself.
fn is_next(
    evidence: &Evidence<'_>,
    finding: &Finding,
    action: &Action<'_>,
    actions: &[Action<'_>],
) -> bool {
    let Some(gain) = &finding.gain else {
        return false;
    };
    let goes = action.finding.id == launching::RULE && WITH_LAUNCHES.contains(&finding.id);
    // What the actions remove already does not stay.
    let stays = Action::new(evidence, finding).is_none_or(|next| next.adds_to(evidence, actions));
    finding.scope == action.finding.scope
        && stays
        && gain.kind != GainKind::Stalls
        && !goes
        && !finding.on_measurement
        && !actions.iter().any(|action| action.finding.id == finding.id)
}

fn has_unprofiled(evidence: &Evidence<'_>) -> bool {
    evidence
        .stages
        .iter()
        .any(|stage| stage.unprofiled.is_some())
}

/// Remarks on the measurement: the warnings, or the others.
fn remarks(findings: &[Finding], warnings: bool) -> impl Iterator<Item = Vec<Inline>> {
    let is_shown = move |finding: &&Finding| {
        finding.on_measurement
            && finding.id != PACE
            && (finding.severity >= Severity::Warning) == warnings
    };
    let remarks = findings.iter().filter(is_shown).take(SHOWN_LIMITS);
    remarks.map(|remark| remark.statement.clone())
}

/// That an outermost stage gets slower: medians mix two levels then.
fn jumps<'a>(
    evidence: &'a Evidence<'_>,
    findings: &'a [Finding],
) -> impl Iterator<Item = Vec<Inline>> + 'a {
    let is_slower = move |finding: &&Finding| {
        let mut stages = evidence.stages.iter();
        finding.id == PACE
            && finding.severity >= Severity::Warning
            && stages.any(|stage| stage.scope.stage == finding.scope.stage)
    };
    let slower = findings.iter().filter(is_slower).take(1);
    slower.map(|finding| finding.statement.clone())
}

/// What a stage is that no range of the program marks.
fn unmarked(evidence: &Evidence<'_>, line: &StageLine) -> Option<Vec<Inline>> {
    let stage = Inline::strong(&line.label);
    let of_facts = &evidence.facts.stages[line.stage];
    if evidence.facts.is_between_updates(line.stage) {
        return Some(say!(evidence, "summary.by_updates", stage = stage));
    }
    if is_repeating(of_facts) {
        return Some(say!(evidence, "summary.by_repeats", stage = stage));
    }
    let is_of_profiler = of_facts.name == PROFILER_STEP;
    is_of_profiler.then(|| say!(evidence, "summary.by_profiler", stage = stage))
}

/// The largest stalls that are no action because unprofiled runs do not have them.
fn refuted(evidence: &Evidence<'_>, findings: &[Finding]) -> Option<Vec<Inline>> {
    let is_refuted = |finding: &&Finding| {
        let is_large = finding.severity >= Severity::Warning && !finding.on_measurement;
        let is_stalls = |gain: &Gain| gain.kind == GainKind::Stalls && gain.saved_ns.is_positive();
        is_large
            && finding.gain.as_ref().is_some_and(is_stalls)
            && Action::new(evidence, finding).is_none()
    };
    let finding = findings.iter().find(is_refuted)?;
    let gain = finding.gain.as_ref()?;
    Some(say!(
        evidence,
        "summary.refuted",
        saved = gain.saved_ns,
        share = gain.share(),
        whole = gain.of.as_str(),
        stage = finding.scope.stage.as_deref().map(Inline::strong),
    ))
}

/// Caveats that find room on one page next to the actions.
fn shown_caveats(actions: &[Action<'_>]) -> usize {
    (SHOWN_ITEMS - actions.len()).min(SHOWN_CAVEATS)
}

/// How far the figures carry.
fn limits(
    evidence: &Evidence<'_>,
    findings: &[Finding],
    actions: &[Action<'_>],
    is_loop: bool,
) -> Sentences {
    let coverage = coverage::coverage(evidence, is_loop);
    let mut sentences = coverage.caveats;
    sentences.extend(jumps(evidence, findings));
    sentences.extend(figures::cold_request(evidence, findings, actions));
    sentences.extend(refuted(evidence, findings));
    sentences.extend(passes::caveat(evidence));
    sentences.extend(remarks(findings, true));
    sentences.extend(figures::rest_of_loop(evidence, actions));
    let mut few = Vec::new();
    for stage in &evidence.stages {
        if stage.counted < ITERATIONS {
            few.push(format!("{} ({})", stage.label, stage.counted.0));
        }
    }
    if !few.is_empty() {
        let stages = few.join(evidence.text.comma());
        let mut stages_of_run = evidence.stages.iter();
        let cold = stages_of_run.find_map(|stage| cold_only(evidence, stage));
        sentences.push(say!(
            evidence,
            "summary.few_iterations",
            stages = stages,
            cold = cold,
        ));
    }
    let mut stages = evidence.stages.iter();
    sentences.extend(stages.find_map(|stage| unmarked(evidence, stage)));
    if evidence.has_baseline_of_one_rank() {
        sentences.push(say!(evidence, "summary.one_rank"));
    } else if !evidence.stages.is_empty() && !has_unprofiled(evidence) {
        sentences.push(say!(evidence, "summary.only_profiled"));
    }
    let inferred = &evidence.session.workload.inferred;
    let has_utilization = |stage: &StageLine| {
        let shown = figures::utilization(evidence, stage);
        shown.is_some_and(|shown| shown.mfu().is_ok() || shown.throughput().is_ok())
    };
    if !inferred.is_empty() && evidence.stages.iter().any(has_utilization) {
        let keys = inferred.join(evidence.text.comma());
        let frozen = calls_frozen(evidence).then_some("");
        sentences.push(say!(
            evidence,
            "summary.inferred",
            keys = keys,
            frozen = frozen
        ));
    }
    sentences.extend(remarks(findings, false));
    // The page says what its figures are about, whatever else there is to say.
    if let Some(line) = coverage.line {
        let last = sentences.len().min(shown_caveats(actions) - 1);
        sentences.insert(if coverage.is_low { 0 } else { last }, line);
    }
    sentences
}
