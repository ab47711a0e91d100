//! The first two pages: what is slow, what to do about it, what that brings at most, and how sure it is.

mod actions;
mod confidence;
mod figures;

use self::actions::{Action, Effect};
use self::confidence::{Confidence, ITERATIONS};
use self::figures::Figure;
use crate::evidence::Evidence;
use crate::stage::StageLine;
use crate::{
    time::allocator_stalls, time::first_use, time::host_bound, time::host_pauses,
    time::launch_bound, time::stage_busy,
};
use rooflens_analysis::time::graphs::StageGraph;
use rooflens_document::{Block, Cell, Finding, GainKind, Inline, Quantity, SectionContent, Table};
use rooflens_schemas::Unit;

/// Remarks on the measurement that stand beside the conclusions.
const SHOWN_LIMITS: usize = 5;

/// Stages of which the summary says what their time goes to.
const SHOWN_STAGES: usize = 3;

/// Idle time that goes where one launch replays all operations.
const WITH_LAUNCHES: [&str; 3] = [
    host_bound::RULE.id,
    allocator_stalls::RULE.id,
    first_use::RULE.id,
];

/// The blocks of the first two pages, with their tables.
pub(crate) fn summary(evidence: &Evidence<'_>, observations: &[Finding]) -> SectionContent {
    let actions = actions::of(evidence, observations);
    let figures = figures::of(evidence, &actions);
    let mut findings = SectionContent::default();
    let line = bottom_line(evidence, observations, &actions);
    findings
        .blocks
        .extend((!line.is_empty()).then_some(Block::Prose(line)));
    if !figures.is_empty() {
        let table = figure_table(evidence, actions.len(), &figures);
        let limit = figures.iter().any(|one| one.limit.is_some()).then_some("");
        let after = (!actions.is_empty()).then_some("");
        let caption = words!(evidence, "summary.figures", after = after, limit = limit);
        findings
            .blocks
            .push(Block::Table(table.view(caption, figures.len())));
        findings.datasets.push(table.rows(&figures));
    }
    if !actions.is_empty() {
        let numbered: Vec<(usize, &Action<'_>)> = (1..).zip(&actions).collect();
        let table = action_table(evidence);
        let each = actions
            .iter()
            .filter(|one| matches!(one.effect, Effect::Stage(_)))
            .count();
        let both = (1..actions.len()).contains(&each).then_some("");
        let caption = words!(evidence, "summary.actions", both = both);
        findings
            .blocks
            .push(Block::Table(table.view(caption, actions.len())));
        findings.datasets.push(table.rows(&numbered));
    }
    let mut part = |key: &str, items: Vec<Vec<Inline>>| {
        if !items.is_empty() {
            findings
                .blocks
                .push(Block::Heading(evidence.text.line(key, &[])));
            findings.blocks.push(Block::List(items));
        }
    };
    part("summary.why", why(evidence, observations, &actions));
    part("summary.after", after(evidence, observations, &actions));
    part("summary.verify", verify(evidence, &actions, &figures));
    part("summary.limits", limits(evidence, observations));
    findings
}

/// The conclusion: what the first actions bring at most; without any, what the stages spend their time on.
fn bottom_line(
    evidence: &Evidence<'_>,
    observations: &[Finding],
    actions: &[Action<'_>],
) -> Vec<Inline> {
    let mut said: Vec<Vec<Inline>> = actions
        .iter()
        .map(|action| action_line(evidence, action))
        .collect();
    if said.is_empty() {
        let stages = observations
            .iter()
            .filter(|one| one.id == stage_busy::RULE.id);
        said = stages.take(2).map(|one| one.statement.clone()).collect();
        let counters = if evidence.stages.is_empty() {
            counters_line(evidence)
        } else {
            None
        };
        // Where there is nothing at all, the report says what is missing.
        let is_empty = evidence.stages.is_empty() && observations.is_empty();
        let no_action = (!is_empty).then(|| say!(evidence, "summary.no_action"));
        said.extend(counters.or(no_action));
    }
    if !actions
        .iter()
        .any(|one| one.gain.kind == GainKind::Measured)
    {
        let all = evidence
            .results
            .graphs()
            .map_or(&[][..], |graphs| &graphs.by_stage);
        let eager = all.iter().find(|one| one.eager.is_some());
        said.extend(eager.and_then(|one| graph_line(evidence, one)));
    }
    said.join(&Inline::from(evidence.text.space()))
}

/// What counters alone tell: the profiled launches and the one with the most time.
fn counters_line(evidence: &Evidence<'_>) -> Option<Vec<Inline>> {
    let passes = evidence.results.rooflines().ok()?;
    let groups = || passes.iter().flat_map(|pass| &pass.groups);
    let seconds: f64 = groups().map(|group| group.seconds).sum::<Option<f64>>()?;
    let longest = groups().reduce(|best, next| {
        if next.seconds > best.seconds {
            next
        } else {
            best
        }
    })?;
    let percent = |value: Option<f64>| value.map(|value| Quantity::ratio(value / 100.0));
    Some(say!(
        evidence,
        "summary.counters",
        launches = Quantity::count(groups().map(|group| group.launches).sum()),
        time = Quantity::new(seconds * 1e9, Unit::Nanoseconds),
        kernel = Inline::code(&longest.short),
        share = Quantity::ratio(longest.seconds? / seconds),
        bound = evidence.text.word(longest.bound.label()),
        compute = percent(longest.compute),
        memory = percent(longest.memory),
    ))
}

/// What replaying the same kernels as a CUDA graph brings, where the bundle has both.
fn graph_line(evidence: &Evidence<'_>, one: &StageGraph) -> Option<Vec<Inline>> {
    let (eager, ratio) = one.speedup()?;
    let (session, facts) = (evidence.session, evidence.facts);
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    Some(say!(
        evidence,
        "summary.graph_line",
        stage = Inline::strong(eager.label(session, facts)),
        eager = time(eager.time),
        replay = time(one.figures.time?),
        ratio = Quantity::new(ratio, Unit::One),
        few = (eager.counted < ITERATIONS).then(|| Quantity::count(eager.counted as u64)),
    ))
}

fn action_line(evidence: &Evidence<'_>, action: &Action<'_>) -> Vec<Inline> {
    let cause = action.line(evidence.text, "cause");
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    let (saved, of) = (action.gain.saved_ns, action.gain.of_ns);
    match action.effect {
        Effect::Stage(stage) if action.gain.kind == GainKind::Measured => {
            let graph = evidence.replay(stage);
            graph
                .and_then(|one| graph_line(evidence, one))
                .unwrap_or_default()
        }
        Effect::Stage(stage) => {
            let per = stage.steps.filter(|_| stage.is_decode());
            let one = per.unwrap_or(1.0);
            say!(
                evidence,
                "summary.stage_line",
                stage = Inline::strong(&stage.label),
                now = time(of / one),
                after = time((of - saved) / one),
                step = per.map(|_| ""),
                cause = cause,
            )
        }
        Effect::Stalls(stage) => {
            // Stalls in CPU code are what a first run has more of; of other causes nothing says so.
            let is_pause = action.found.id == host_pauses::RULE.id;
            let cold = cold(evidence, stage).filter(|_| is_pause);
            say!(
                evidence,
                "summary.stalls_line",
                stage = Inline::strong(&stage.label),
                saved = time(saved),
                count = Quantity::count(stage.counted as u64),
                first = cold.map(|(first, _)| first),
                more = cold.map(|(_, more)| more),
                cause = cause,
            )
        }
        Effect::Run => say!(
            evidence,
            "summary.run_line",
            saved = time(saved),
            of = time(of),
            whole = action.gain.of.as_str(),
            cause = cause,
        ),
    }
}

/// Time of the first un-profiled repeat of a stage, if that is a slow one, and how much more than the median it is.
fn cold(evidence: &Evidence<'_>, stage: &StageLine) -> Option<(Quantity, Quantity)> {
    let series = evidence.unprofiled_series(stage)?;
    let first = series.repeats.iter().find(|one| one.is_cold())?;
    let more = first.duration as f64 - series.statistics.median;
    Some((
        Quantity::ns(first.duration),
        Quantity::new(more, Unit::Nanoseconds),
    ))
}

/// One column an action: what stands in it holds if all actions up to it are taken.
fn figure_table<'t>(
    evidence: &Evidence<'t>,
    actions: usize,
    figures: &[Figure],
) -> Table<'t, Figure> {
    let after =
        |nth: usize| move |one: &Figure| one.after.get(nth).copied().flatten().map(Cell::Quantity);
    Table::new(evidence.text, "summary_figures")
        .text("figure", |one: &Figure| one.label.clone())
        .on_page()
        .text("unit", |one| one.now.base())
        .text("now", |one| Cell::Quantity(one.now))
        .on_page()
        .text("after_1", after(0))
        .on_page_if(actions >= 1)
        .text("after_2", after(1))
        .on_page_if(actions >= 2)
        .text("after_3", after(2))
        .on_page_if(actions >= 3)
        .text("limit", |one| one.limit.map(Cell::Quantity))
        .on_page_if(figures.iter().any(|one| one.limit.is_some()))
}

fn action_table<'t>(evidence: &'t Evidence<'_>) -> Table<'t, (usize, &'t Action<'t>)> {
    let text = evidence.text;
    Table::new(text, "summary_actions")
        .count("number", |(number, _): &(usize, &Action<'_>)| *number)
        .text("action", move |(_, action)| action.line(text, "do"))
        .text("effect", |(_, action)| figures::effect(evidence, action))
        .text("condition", move |(_, action)| action.line(text, "if"))
        .text("confidence", |(_, action)| confidence(evidence, action))
        .all_on_page()
}

fn confidence(evidence: &Evidence<'_>, action: &Action<'_>) -> String {
    let (level, why) = confidence::of(evidence, action);
    let why: String = why.iter().map(Inline::plain).collect();
    match level {
        Confidence::High => words!(evidence, "summary.high", why = why),
        Confidence::Medium => words!(evidence, "summary.medium", why = why),
        Confidence::Low => words!(evidence, "summary.low", why = why),
    }
}

/// What the time of the stages goes to, those with actions first; of ranks that do alike, of one.
fn why(
    evidence: &Evidence<'_>,
    observations: &[Finding],
    actions: &[Action<'_>],
) -> Vec<Vec<Inline>> {
    let has_action = |one: &&&Finding| {
        let own = |action: &Action<'_>| action.found.scope.stage == one.scope.stage;
        actions.iter().any(own)
    };
    let stages = observations
        .iter()
        .filter(|one| one.id == stage_busy::RULE.id);
    let stages: Vec<&Finding> = stages.collect();
    let first = stages.iter().filter(has_action);
    let rest = stages.iter().filter(|one| !has_action(one));
    let mut said: Vec<&Finding> = Vec::new();
    for one in first.chain(rest) {
        let is_told = |told: &&Finding| is_alike(evidence, told, one);
        if !said.iter().any(is_told) {
            said.push(one);
        }
    }
    let shown = if actions.is_empty() { 0 } else { SHOWN_STAGES };
    said.into_iter()
        .take(shown)
        .map(|one| one.statement.clone())
        .collect()
}

/// Whether two findings are about ranks of a stage none of which waits for another.
fn is_alike(evidence: &Evidence<'_>, one: &Finding, other: &Finding) -> bool {
    let waits = |of: &Finding| {
        let stage = evidence.stages.iter().find(|stage| stage.scope == of.scope);
        stage.is_none_or(|stage| stage.waits_for.is_some())
    };
    one.scope.stage == other.scope.stage && !waits(one) && !waits(other)
}

/// What limits the stages once the actions are taken: the next finding of each.
fn after(
    evidence: &Evidence<'_>,
    observations: &[Finding],
    actions: &[Action<'_>],
) -> Vec<Vec<Inline>> {
    let next = |action: &Action<'_>| -> Option<Vec<Inline>> {
        let Effect::Stage(stage) = action.effect else {
            return None;
        };
        let goes = action.found.id == launch_bound::RULE.id;
        let is_next = |one: &&Finding| {
            one.scope == action.found.scope
                && one
                    .gain
                    .as_ref()
                    .is_some_and(|gain| gain.kind != GainKind::Stalls)
                && !(goes && WITH_LAUNCHES.contains(&one.id))
                && !one.on_measurement
                && !actions.iter().any(|other| other.found.id == one.id)
        };
        let next = observations.iter().find(is_next)?;
        let gain = next.gain.as_ref()?;
        let cause = next.root.as_ref().map(|root| root.cause.clone());
        let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
        Some(say!(
            evidence,
            "summary.after_line",
            stage = Inline::strong(&stage.label),
            cause = cause.unwrap_or_else(|| actions::cause(evidence.text, next.id)),
            saved = time(gain.saved_ns),
            of = time(gain.of_ns),
            whole = gain.of.as_str(),
            share = Quantity::ratio(gain.share()),
        ))
    };
    actions.iter().filter_map(next).collect()
}

/// What to measure again, and what should come out.
fn verify(evidence: &Evidence<'_>, actions: &[Action<'_>], figures: &[Figure]) -> Vec<Vec<Inline>> {
    let changed = figures.iter().filter_map(|one| {
        let last = (*one.after.last()?).filter(|last| *last != one.now && one.of.is_some())?;
        Some(words!(
            evidence,
            "summary.verify_figure",
            figure = one.label.as_str(),
            now = one.now,
            after = last,
        ))
    });
    let changed: Vec<String> = changed.collect();
    let mut said = Vec::new();
    let unprofiled = evidence
        .stages
        .iter()
        .any(|stage| stage.unprofiled.is_some());
    let of_one_rank = evidence.has_baseline_of_one_rank();
    if !changed.is_empty() && !unprofiled && !of_one_rank {
        said.push(say!(evidence, "summary.verify_first"));
    }
    if !changed.is_empty() {
        said.push(say!(
            evidence,
            "summary.verify_figures",
            figures = changed.join(evidence.text.semicolon()),
            unprofiled = unprofiled.then_some(""),
            again = (!unprofiled && of_one_rank).then_some(""),
            profiled = (!unprofiled && !of_one_rank).then_some(""),
        ));
    }
    said.extend(
        actions
            .iter()
            .filter_map(|action| action.found.next.clone()),
    );
    said
}

/// How far the figures carry.
fn limits(evidence: &Evidence<'_>, observations: &[Finding]) -> Vec<Vec<Inline>> {
    let mut said: Vec<Vec<Inline>> = Vec::new();
    let few = evidence
        .stages
        .iter()
        .filter(|stage| stage.counted < ITERATIONS as f64);
    let few: Vec<String> = few
        .map(|stage| format!("{} ({})", stage.label, stage.counted))
        .collect();
    if !few.is_empty() {
        said.push(say!(
            evidence,
            "summary.few_iterations",
            stages = few.join(evidence.text.comma())
        ));
    }
    let facts = evidence.facts;
    let by_updates = evidence
        .stages
        .iter()
        .find(|stage| facts.is_between_updates(stage.stage));
    if let Some(stage) = by_updates {
        said.push(say!(
            evidence,
            "summary.by_updates",
            stage = Inline::strong(&stage.label)
        ));
    }
    let unprofiled = evidence
        .stages
        .iter()
        .any(|stage| stage.unprofiled.is_some());
    if evidence.has_baseline_of_one_rank() {
        said.push(say!(evidence, "summary.one_rank"));
    } else if !evidence.stages.is_empty() && !unprofiled {
        said.push(say!(evidence, "summary.only_profiled"));
    }
    let inferred = &evidence.session.workload.inferred;
    if !inferred.is_empty()
        && evidence
            .stages
            .iter()
            .any(|one| evidence.utilization(one).is_some())
    {
        said.push(say!(
            evidence,
            "summary.inferred",
            keys = inferred.join(evidence.text.comma())
        ));
    }
    let remarks = observations.iter().filter(|one| one.on_measurement);
    said.extend(remarks.take(SHOWN_LIMITS).map(|one| one.statement.clone()));
    said
}
